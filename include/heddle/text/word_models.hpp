// WordPieceModel and WordLevel: the models WordPiece and WordLevel of the Rust tokenizers library with any options.
// BERT's own tokenizer is WordPiece, which is faster.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/base/error.hpp>
#include <heddle/base/printable.hpp>
#include <heddle/base/utf8.hpp>
#include <heddle/text/token_table.hpp>

namespace heddle::text {

namespace detail {
// Returns the id of the unknown token. Throws Error if it is not in the vocabulary.
inline std::int32_t unknown_id(const TokenTable& table, const char* model, const std::string& token) {
  const std::int32_t id = table.find(token);
  require(id != TokenTable::none, model, ": the unknown token ", io::quoted_name(token), " is not in the vocabulary");
  return id;
}
}  // namespace detail

/// WordPiece: a word becomes its longest prefix that is a token, then the longest prefix of the rest, and so on, or the
/// unknown token.
class WordPieceModel {
 public:
  /// Takes the tokens with their ids, the unknown token, the prefix of tokens that continue a word, and the maximum
  /// number of characters of a word. @throws Error for an unknown token without an id.
  WordPieceModel(const std::vector<std::pair<std::string, std::int32_t>>& tokens, const std::string& unknown,
                 const std::string& prefix, std::size_t most_characters)
      : most_characters_(most_characters), has_prefix_(!prefix.empty()) {
    for (const auto& [token, id] : tokens) {
      first_.add(token, id);
      if (token.starts_with(prefix)) rest_.add(std::string_view(token).substr(prefix.size()), id);
    }
    unknown_ = detail::unknown_id(first_, "WordPieceModel", unknown);
  }

  /// Returns whether tokens that continue a word begin with a prefix.
  bool has_prefix() const { return has_prefix_; }

  /// Calls f(id, begin, end) for each token of a word, in order, with its range of bytes in the word.
  template <class F>
  void operator()(std::string_view word, F&& f) const {
    struct Piece {
      std::int32_t id;
      std::size_t begin, end;
    };
    thread_local std::vector<Piece> pieces;
    pieces.clear();
    const auto is_start = [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0) != 0x80; };
    const auto characters = static_cast<std::size_t>(std::count_if(word.begin(), word.end(), is_start));
    if (characters > most_characters_) return f(unknown_, std::size_t{0}, word.size());
    for (std::size_t begin = 0; begin < word.size();) {
      const TokenTable& table = begin == 0 ? first_ : rest_;
      std::size_t end = begin + std::min(word.size() - begin, table.longest());
      std::int32_t id = TokenTable::none;
      for (; end > begin; --end) {
        if (end == word.size() || is_start(word[end])) id = table.find(word.substr(begin, end - begin));
        if (id != TokenTable::none) break;
      }
      if (id == TokenTable::none) return f(unknown_, std::size_t{0}, word.size());
      pieces.push_back({id, begin, end});
      begin = end;
    }
    for (const Piece& piece : pieces) f(piece.id, piece.begin, piece.end);
  }

 private:
  TokenTable first_, rest_;  // rest_ without the prefix
  std::size_t most_characters_;
  bool has_prefix_;
  std::int32_t unknown_;
};

/// WordLevel: each word is a token, or the unknown token.
class WordLevel {
 public:
  /// Takes the tokens with their ids, and the unknown token. @throws Error for an unknown token without an id.
  WordLevel(const std::vector<std::pair<std::string, std::int32_t>>& tokens, const std::string& unknown) {
    for (const auto& [token, id] : tokens) table_.add(token, id);
    unknown_ = detail::unknown_id(table_, "WordLevel", unknown);
  }

  /// Calls f(id, 0, size) with the token of a word.
  template <class F>
  void operator()(std::string_view word, F&& f) const {
    const std::int32_t id = table_.find(word);
    f(id == TokenTable::none ? unknown_ : id, std::size_t{0}, word.size());
  }

 private:
  TokenTable table_;
  std::int32_t unknown_;
};

}  // namespace heddle::text
