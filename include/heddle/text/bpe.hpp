// BytePairEncoding: the model BPE of the Rust tokenizers library. It begins with the characters of a word, or with its
// bytes, and joins neighbors by rank until no pair has a rule.
#pragma once
#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <queue>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/base/error.hpp>
#include <heddle/base/printable.hpp>
#include <heddle/base/utf8.hpp>
#include <heddle/text/byte_alphabet.hpp>
#include <heddle/text/token_table.hpp>

namespace heddle::text {

/// The options of a BytePairEncoding, as tokenizer.json has them.
struct BpeOptions {
  std::string unknown = {};             ///< the token of a character without one; empty: such characters are dropped
  std::string continuing_prefix = {};   ///< begins each token that does not begin a word
  std::string end_of_word_suffix = {};  ///< ends the last token of a word
  bool fuses_unknown = false;           ///< neighboring unknown characters become one token
  bool byte_fallback = false;           ///< an unknown character becomes the tokens <0x00> to <0xFF> of its bytes
  bool ignore_merges = false;           ///< a word that is a token becomes that token, without merges
  bool is_byte_level = false;           ///< tokens are written in the byte alphabet; words are given as plain bytes
};

/// Byte pair encoding of words. Several threads may call const functions at once.
class BytePairEncoding {
 public:
  /// A rule: the two neighbors that are joined. Earlier rules come first.
  using Merge = std::pair<std::string, std::string>;

  /// Takes the tokens with their ids, and the rules. @throws Error for a rule whose tokens or result have no id, for an
  /// unknown token without one, and for byte_fallback with is_byte_level.
  BytePairEncoding(const std::vector<std::pair<std::string, std::int32_t>>& tokens, const std::vector<Merge>& merges,
                   BpeOptions options)
      : options_(std::move(options)) {
    require(!options_.is_byte_level || !options_.byte_fallback,
            "BytePairEncoding: byte_fallback is for tokens of characters, not of bytes");
    TokenTable written;  // as the file writes the tokens
    for (const auto& [token, id] : tokens) written.add(token, id);
    for (const auto& [token, id] : tokens) {
      if (!options_.is_byte_level)
        table_.add(token, id);
      else if (std::string bytes; byte_alphabet().decode(token, bytes))
        table_.add(bytes, id);
    }
    if (!options_.unknown.empty()) {
      unknown_ = written.find(options_.unknown);
      require(unknown_ != TokenTable::none, "BytePairEncoding: the unknown token ", io::quoted_name(options_.unknown),
              " is not in the vocabulary");
    }
    read_merges(written, merges);
    for (int byte = 0; byte < 256; ++byte) {
      const auto b = static_cast<unsigned char>(byte);
      bytes_[b] =
          options_.is_byte_level ? table_.find(std::string(1, static_cast<char>(b))) : table_.find(byte_token(b));
    }
    find_whole_words(tokens);
  }

  /// Returns the options.
  const BpeOptions& options() const { return options_; }

  /// Calls f(id, begin, end) for each token of a word, in order, with its range of bytes in the word. A token from a
  /// byte has the byte's range, and an empty word has no tokens.
  template <class F>
  void operator()(std::string_view word, F&& f) const {
    for (std::size_t begin = 0; begin < word.size();) {
      const std::size_t end = cuts_at_blanks_ ? end_of_part(word, begin) : word.size();
      encode_part(word.substr(begin, end - begin), begin, f);
      begin = end;
    }
  }

  /// Returns the name of a byte's token under byte_fallback, such as <0x0A>.
  static std::string byte_token(unsigned char byte) {
    constexpr char digits[] = "0123456789ABCDEF";
    return {'<', '0', 'x', digits[byte >> 4], digits[byte & 15], '>'};
  }

 private:
  struct Symbol {
    std::int32_t id;
    std::uint32_t size;  // in bytes of the word
  };
  struct Rule {
    std::uint64_t pair = no_pair;
    std::int32_t rank = none, id = none;
  };
  static constexpr std::int32_t none = TokenTable::none;
  static constexpr std::uint64_t no_pair = ~std::uint64_t{0};
  static constexpr std::size_t few_symbols = 32;  // up to which scanning all pairs is faster than a heap

  // Without a pre-tokenizer, a word is a whole text, in which U+2581 stands for a blank. If no rule joins a token with
  // one that begins with a blank, unless the first ends with one, parts that begin with blanks are encoded one by one.
  // There must be an unknown token: otherwise unknown characters are dropped, and their neighbors become adjacent.
  static constexpr std::string_view blank = "\xE2\x96\x81";
  static std::size_t end_of_part(std::string_view word, std::size_t begin) {
    std::size_t end = begin;
    do end = word.find(blank, end + 1);
    while (end != word.npos && word.substr(0, end).ends_with(blank));
    return std::min(end, word.size());
  }

  // Calls f for the tokens of a part of a word that begins at `offset`.
  template <class F>
  void encode_part(std::string_view part, std::size_t offset, F&& f) const {
    if (const std::int32_t id = whole_words_.find(part); id != TokenTable::none)
      return f(id, offset, offset + part.size());
    thread_local std::vector<Symbol> symbols;
    split(part, symbols);
    symbols.size() <= few_symbols ? merge_few(symbols) : merge_many(symbols);
    for (const Symbol& symbol : symbols) {
      f(symbol.id, offset, offset + symbol.size);
      offset += symbol.size;
    }
  }

  static std::uint64_t pair_of(std::int32_t a, std::int32_t b) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(a)) << 32 | static_cast<std::uint32_t>(b);
  }

  void read_merges(const TokenTable& written, const std::vector<Merge>& merges) {
    rules_.resize(std::max<std::size_t>(16, std::bit_ceil(2 * merges.size())));
    const std::size_t prefix = options_.continuing_prefix.size();
    const std::int32_t id_of_blank = table_.find(blank);
    cuts_at_blanks_ = !options_.is_byte_level && !options_.ignore_merges && prefix == 0 &&
                      options_.end_of_word_suffix.empty() && unknown_ != none && id_of_blank != none &&
                      id_of_blank != unknown_;
    std::int32_t rank = 0;
    for (const Merge& merge : merges) {
      const std::string &a = merge.first, &b = merge.second;
      const auto id_of = [&](const std::string& token) {
        const std::int32_t id = written.find(token);
        require(id != none, "BytePairEncoding: merge ", rank + 1, " of ", io::quoted_name(a), " and ",
                io::quoted_name(b), " needs the token ", io::quoted_name(token), ", which is not in the vocabulary");
        return id;
      };
      require(b.size() >= prefix, "BytePairEncoding: merge ", rank + 1, ": ", io::quoted_name(b),
              " is shorter than the prefix ", io::quoted_name(options_.continuing_prefix));
      const std::uint64_t pair = pair_of(id_of(a), id_of(b));
      std::size_t slot = detail::mix(pair) & (rules_.size() - 1);
      while (rules_[slot].pair != no_pair && rules_[slot].pair != pair) slot = (slot + 1) & (rules_.size() - 1);
      const std::string joined = a + b.substr(prefix);
      cuts_at_blanks_ = cuts_at_blanks_ && end_of_part(joined, 0) == joined.size();
      const std::int32_t id = id_of(joined);
      rules_[slot] = {pair, rank++, id};
    }
  }

  const Rule* find(std::int32_t a, std::int32_t b) const {
    const std::uint64_t pair = pair_of(a, b);
    for (std::size_t slot = detail::mix(pair) & (rules_.size() - 1);; slot = (slot + 1) & (rules_.size() - 1)) {
      if (rules_[slot].pair == pair) return &rules_[slot];
      if (rules_[slot].pair == no_pair) return nullptr;
    }
  }

  // Fills the table of words that become one token. Most words of a text do.
  void find_whole_words(const std::vector<std::pair<std::string, std::int32_t>>& tokens) {
    std::vector<Symbol> symbols;
    std::string word;
    for (const auto& [token, id] : tokens) {
      if (!options_.is_byte_level)
        word = token;
      else if (word.clear(); !byte_alphabet().decode(token, word))
        continue;
      if (word.empty() || table_.find(word) != id) continue;
      if (!options_.ignore_merges) {
        split(word, symbols);
        symbols.size() <= few_symbols ? merge_few(symbols) : merge_many(symbols);
        if (symbols.size() != 1 || symbols[0].id != id || symbols[0].size != word.size()) continue;
      }
      whole_words_.add(word, id);
    }
  }

  // Splits a word into the tokens of its characters or bytes.
  void split(std::string_view word, std::vector<Symbol>& symbols) const {
    symbols.clear();
    if (options_.is_byte_level && unknown_ == none && options_.continuing_prefix.empty() &&
        options_.end_of_word_suffix.empty()) {
      for (const char c : word)
        if (const std::int32_t id = bytes_[static_cast<unsigned char>(c)]; id != none) symbols.push_back({id, 1});
      return;
    }
    std::uint32_t unknown_size = 0;  // bytes of the unknown token that has not been added yet
    const auto add_unknown = [&] {
      if (unknown_size > 0) symbols.push_back({unknown_, unknown_size});
      unknown_size = 0;
    };
    std::string spelled;
    for (const char *at = word.data(), *const end = at + word.size(); at != end;) {
      const char* const begin = at;
      if (options_.is_byte_level)
        ++at;
      else
        decode_utf8(at, end);
      const std::string_view character(begin, static_cast<std::size_t>(at - begin));
      const auto size = static_cast<std::uint32_t>(character.size());
      std::string_view token = character;
      if ((begin != word.data() && !options_.continuing_prefix.empty()) ||
          (at == end && !options_.end_of_word_suffix.empty())) {
        spelled = begin != word.data() ? options_.continuing_prefix : "";
        spelled += character;
        if (at == end) spelled += options_.end_of_word_suffix;
        token = spelled;
      }
      if (const std::int32_t id = table_.find(token); id != none) {
        add_unknown();
        symbols.push_back({id, size});
      } else if (options_.byte_fallback && has_bytes(token)) {
        for (const char byte : token) symbols.push_back({bytes_[static_cast<unsigned char>(byte)], 1});
      } else if (unknown_ != none) {
        if (!options_.fuses_unknown) add_unknown();
        unknown_size += size;
      }
    }
    add_unknown();
  }

  bool has_bytes(std::string_view token) const {
    return std::all_of(token.begin(), token.end(),
                       [&](char byte) { return bytes_[static_cast<unsigned char>(byte)] != none; });
  }

  // Joins the leftmost of the pairs with the lowest rank, until no pair has a rule.
  void merge_few(std::vector<Symbol>& symbols) const {
    std::array<const Rule*, few_symbols> rules;  // of each symbol and the next one
    for (std::size_t i = 0; i + 1 < symbols.size(); ++i) rules[i] = find(symbols[i].id, symbols[i + 1].id);
    while (symbols.size() > 1) {
      const std::size_t pairs = symbols.size() - 1;
      std::size_t best = pairs;
      for (std::size_t i = 0; i < pairs; ++i)
        if (rules[i] && (best == pairs || rules[i]->rank < rules[best]->rank)) best = i;
      if (best == pairs) return;
      symbols[best] = {rules[best]->id, symbols[best].size + symbols[best + 1].size};
      symbols.erase(symbols.begin() + static_cast<std::ptrdiff_t>(best) + 1);
      std::copy(rules.begin() + static_cast<std::ptrdiff_t>(best) + 1,
                rules.begin() + static_cast<std::ptrdiff_t>(pairs), rules.begin() + static_cast<std::ptrdiff_t>(best));
      if (best + 1 < symbols.size()) rules[best] = find(symbols[best].id, symbols[best + 1].id);
      if (best > 0) rules[best - 1] = find(symbols[best - 1].id, symbols[best].id);
    }
  }

  // Does what merge_few() does, with a heap of pairs, for long words.
  void merge_many(std::vector<Symbol>& symbols) const {
    struct Pair {
      std::int32_t rank;
      std::uint32_t at;  // the left symbol
      std::int32_t id;
      bool operator<(const Pair& other) const { return rank != other.rank ? rank > other.rank : at > other.at; }
    };
    constexpr std::uint32_t end = ~std::uint32_t{0};
    const auto count = static_cast<std::uint32_t>(symbols.size());
    std::vector<std::uint32_t> previous(count), next(count);
    std::priority_queue<Pair> queue;
    const auto push = [&](std::uint32_t left, std::uint32_t right) {
      if (const Rule* rule = find(symbols[left].id, symbols[right].id)) queue.push({rule->rank, left, rule->id});
    };
    for (std::uint32_t i = 0; i < count; ++i) {
      previous[i] = i == 0 ? end : i - 1;
      next[i] = i + 1 == count ? end : i + 1;
      if (i + 1 < count) push(i, i + 1);
    }
    while (!queue.empty()) {
      const Pair pair = queue.top();
      queue.pop();
      const std::uint32_t left = pair.at, right = next[left];
      if (symbols[left].size == 0 || right == end) continue;
      const Rule* const rule = find(symbols[left].id, symbols[right].id);
      if (!rule || rule->id != pair.id) continue;  // the symbols have changed since the pair was found
      symbols[left] = {rule->id, symbols[left].size + symbols[right].size};
      symbols[right].size = 0;
      next[left] = next[right];
      if (next[left] != end) previous[next[left]] = left;
      if (previous[left] != end) push(previous[left], left);
      if (next[left] != end) push(left, next[left]);
    }
    symbols.erase(std::remove_if(symbols.begin(), symbols.end(), [](const Symbol& s) { return s.size == 0; }),
                  symbols.end());
  }

  BpeOptions options_;
  TokenTable table_, whole_words_;  // in plain bytes
  std::vector<Rule> rules_;         // a hash table
  std::array<std::int32_t, 256> bytes_;
  std::int32_t unknown_ = none;
  bool cuts_at_blanks_ = false;
};

}  // namespace heddle::text
