// Unigram: the model of that name of the Rust tokenizers library and of SentencePiece. A word becomes the tokens whose
// scores have the highest sum (Kudo, "Subword Regularization", 2018).
#pragma once
#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/base/error.hpp>
#include <heddle/base/utf8.hpp>
#include <heddle/text/bpe.hpp>
#include <heddle/text/token_table.hpp>
#include <heddle/text/token_trie.hpp>

namespace heddle::text {

/// A Unigram model. Several threads may call const functions at once.
class Unigram {
 public:
  /// Takes the tokens, whose ids are their places, with their scores, and the id of the unknown token. If
  /// `byte_fallback`, unknown characters become the tokens <0x00> to <0xFF> of their bytes, if all of those exist.
  /// @throws Error for an unknown token outside of the vocabulary.
  Unigram(const std::vector<std::pair<std::string, double>>& tokens, std::optional<std::int32_t> unknown,
          bool byte_fallback)
      : unknown_(unknown.value_or(TokenTable::none)) {
    const auto count = static_cast<std::int32_t>(tokens.size());
    require(!unknown || (*unknown >= 0 && *unknown < count), "Unigram: the unknown token has the id ", unknown_,
            "; the vocabulary has ", count, " tokens");
    std::vector<std::pair<std::string_view, std::int32_t>> entries;
    double lowest = std::numeric_limits<double>::infinity();
    for (std::int32_t id = 0; id < count; ++id) {
      const auto& [token, score] = tokens[static_cast<std::size_t>(id)];
      scores_.push_back(score);
      lowest = std::min(lowest, score);
      entries.emplace_back(token, id);
      table_.add(token, id);
    }
    trie_ = TokenTrie(std::move(entries));
    constexpr double unknown_penalty = 10;
    unknown_score_ = lowest - unknown_penalty;
    for (std::size_t byte = 0; byte < bytes_.size(); ++byte)
      bytes_[byte] = byte_fallback ? table_.find(BytePairEncoding::byte_token(static_cast<unsigned char>(byte)))
                                   : TokenTable::none;
  }

  /// Calls f(id, begin, end) for each token of a word, in order, with its range of bytes in the word. Neighboring
  /// unknown characters are one token. @throws Error for an unknown character if the model has no unknown token.
  template <class F>
  void operator()(std::string_view word, F&& f) const {
    if (word.empty()) return;
    thread_local std::vector<Step> steps;
    thread_local std::vector<std::size_t> ends;
    search(word, steps);
    ends.clear();
    for (std::size_t end = word.size(); end > 0; end = steps[end].begin) {
      const bool is_fused = !ends.empty() && steps[end].id == unknown_ && steps[ends.back()].id == unknown_;
      if (is_fused)
        steps[ends.back()].begin = steps[end].begin;
      else
        ends.push_back(end);
    }
    for (auto end = ends.rbegin(); end != ends.rend(); ++end) {
      const Step& step = steps[*end];
      if (step.id != unknown_)
        f(step.id, step.begin, *end);
      else
        append_unknown(word.substr(step.begin, *end - step.begin), step.begin, *end, f);
    }
  }

 private:
  // The best way to the end of a token.
  struct Step {
    double score;
    std::size_t begin;
    std::int32_t id;
  };
  static constexpr std::int32_t not_reached = -2;

  void search(std::string_view word, std::vector<Step>& steps) const {
    steps.assign(word.size() + 1, {0, 0, not_reached});
    const char* const end = word.data() + word.size();
    for (std::size_t begin = 0; begin < word.size();) {
      const char* at = word.data() + begin;
      decode_utf8(at, end);
      const auto next = static_cast<std::size_t>(at - word.data());
      const double score = steps[begin].score;
      const auto reach = [&](std::size_t place, double sum, std::int32_t id) {
        if (Step& step = steps[place]; step.id == not_reached || sum > step.score) step = {sum, begin, id};
      };
      bool has_character = false;
      trie_.prefixes(word.substr(begin), [&](std::int32_t id, std::size_t size) {
        reach(begin + size, scores_[static_cast<std::size_t>(id)] + score, id);
        has_character = has_character || begin + size == next;
      });
      if (!has_character) {
        require(unknown_ != TokenTable::none, "Unigram: ", io::quoted_name(word.substr(begin, next - begin)),
                " has no token, and the model has no unknown token");
        reach(next, unknown_score_ + score, unknown_);
      }
      begin = next;
    }
  }

  template <class F>
  void append_unknown(std::string_view characters, std::size_t begin, std::size_t end, F&& f) const {
    if (const std::int32_t id = table_.find(characters); id != TokenTable::none) return f(id, begin, end);
    const auto has_byte = [&](char byte) { return bytes_[static_cast<unsigned char>(byte)] != TokenTable::none; };
    if (!std::all_of(characters.begin(), characters.end(), has_byte)) return f(unknown_, begin, end);
    for (const char byte : characters) f(bytes_[static_cast<unsigned char>(byte)], begin, end);
  }

  std::vector<double> scores_;
  TokenTable table_;
  TokenTrie trie_;
  std::array<std::int32_t, 256> bytes_;  // the tokens of byte_fallback
  std::int32_t unknown_;
  double unknown_score_ = 0;
};

}  // namespace heddle::text
