// WordPiece: text to ids. The reference is transformers' BertTokenizerFast made from vocab.txt; the older Python
// tokenizer differs from it on some 1,500 characters.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/base/threads.hpp>
#include <heddle/text/basic_tokenizer.hpp>
#include <heddle/text/vocabulary.hpp>

namespace heddle::text {

/// The options of a WordPiece tokenizer.
struct WordPieceOptions {
  bool uncased = false;                    ///< lower-case
  std::optional<bool> strip_accents = {};  ///< drop accents; by default if `uncased`
  bool special_tokens = true;              ///< add [CLS] and [SEP]: [CLS] a [SEP], [CLS] a [SEP] b [SEP]
  std::size_t max_length = std::numeric_limits<std::size_t>::max();  ///< in tokens, special ones included
};

/// A text, or a pair of them, as ids.
struct Encoding {
  std::vector<std::int32_t> ids;       ///< one per token
  std::vector<std::int32_t> type_ids;  ///< 1 for the second sequence of a pair and its [SEP], otherwise 0
  std::size_t truncated = 0;           ///< tokens that max_length cut off

  /// Compares all members.
  bool operator==(const Encoding&) const = default;
};

/// Returns the lengths to which two sequences of n1 and n2 tokens are cut if `limit` tokens are allowed. The rule is "longest first" of the
/// Rust tokenizers library, which differs slightly from cutting one token at a time off the longer one.
inline std::pair<std::size_t, std::size_t> truncated_lengths(std::size_t n1, std::size_t n2, std::size_t limit) {
  if (n1 + n2 <= limit) return {n1, n2};
  std::size_t shorter = std::min(n1, n2);
  std::size_t longer = shorter > limit ? shorter : std::max(shorter, limit - shorter);
  if (shorter + longer > limit) {
    shorter = limit / 2;
    longer = limit / 2 + limit % 2;
  }
  return n1 > n2 ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

/// A WordPiece tokenizer that returns the same ids as the Rust tokenizers library. Several threads may call const functions at once.
class WordPiece {
 public:
  /// Takes the vocabulary. @throws FileError for a vocabulary without [UNK], and if special tokens are added, for one without [CLS] or
  /// [SEP]. @throws Error if special tokens are added and max_length is less than 2.
  explicit WordPiece(Vocabulary vocabulary, WordPieceOptions options = {})
      : vocabulary_(std::move(vocabulary)),
        options_(options),
        words_(options.uncased, options.strip_accents),
        unknown_(vocabulary_.id("[UNK]")) {
    if (options_.special_tokens) {
      begin_ = vocabulary_.id("[CLS]");
      end_ = vocabulary_.id("[SEP]");
      require_length(2);
    }
    for (const std::string_view token : {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"})
      if (const std::int32_t id = vocabulary_.find(token); id != Vocabulary::none) special_.push_back({token, id});
  }

  /// Returns the vocabulary.
  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// Returns the options.
  const WordPieceOptions& options() const { return options_; }

  /// Returns the ids of a text, truncated to max_length. Accepts any bytes; drops invalid UTF-8. The special tokens [UNK], [SEP], [PAD],
  /// [CLS] and [MASK] that the vocabulary has are recognized anywhere in the text, but only in capitals.
  Encoding encode(std::string_view text) const {
    Encoding out;
    const std::size_t specials = options_.special_tokens ? 2 : 0;
    out.ids.reserve(text.size() / bytes_per_token + specials);
    if (specials) out.ids.push_back(begin_);
    append(text, out.ids);
    const std::size_t length = out.ids.size() + specials / 2;
    out.ids.resize(std::min(length, options_.max_length) - specials / 2);
    if (specials) out.ids.push_back(end_);
    out.truncated = length - out.ids.size();
    out.type_ids.resize(out.ids.size(), 0);
    return out;
  }

  /// Encodes a pair, truncated by truncated_lengths(). @throws Error if special tokens are added and max_length is less than 3.
  Encoding encode_pair(std::string_view a, std::string_view b) const {
    const std::size_t specials = options_.special_tokens ? 3 : 0;
    require_length(specials);
    std::vector<std::int32_t> first, second;
    append(a, first);
    append(b, second);
    const auto [n1, n2] = truncated_lengths(first.size(), second.size(), options_.max_length - specials);
    Encoding out;
    out.truncated = first.size() + second.size() - n1 - n2;
    out.ids.reserve(n1 + n2 + specials);
    if (specials) out.ids.push_back(begin_);
    out.ids.insert(out.ids.end(), first.data(), first.data() + n1);
    if (specials) out.ids.push_back(end_);
    out.type_ids.resize(out.ids.size(), 0);
    out.ids.insert(out.ids.end(), second.data(), second.data() + n2);
    if (specials) out.ids.push_back(end_);
    out.type_ids.resize(out.ids.size(), 1);
    return out;
  }

  /// Encodes each text, on all threads. `Texts` is a vector of strings or string views, or any type with std::size() and [].
  template <class Texts = std::vector<std::string_view>>
  std::vector<Encoding> encode_batch(const Texts& texts) const {
    std::vector<Encoding> out(std::size(texts));
    for_each(out, [&](std::size_t i) { return encode(texts[i]); });
    return out;
  }

  /// Encodes each text in `a` and the text at the same position in `b` as a pair. @throws Error for different sizes, and as encode_pair().
  template <class Texts = std::vector<std::string_view>>
  std::vector<Encoding> encode_batch(const Texts& a, const Texts& b) const {
    require(std::size(a) == std::size(b), "encode_batch: each pair needs two texts, but the sizes are ", std::size(a),
            " and ", std::size(b));
    std::vector<Encoding> out(std::size(a));
    for_each(out, [&](std::size_t i) { return encode_pair(a[i], b[i]); });
    return out;
  }

  /// Appends the ids of the text alone: no special tokens are added, nothing is cut off.
  void append(std::string_view text, std::vector<std::int32_t>& ids) const {
    std::size_t begin = 0;
    for (std::size_t at = text.find('['); at != std::string_view::npos; at = text.find('[', at)) {
      const Special* special = special_at(text.substr(at));
      if (!special) {
        ++at;
        continue;
      }
      append_words(text.substr(begin, at - begin), ids);
      ids.push_back(special->id);
      begin = at += special->token.size();
    }
    append_words(text.substr(begin), ids);
  }

 private:
  struct Special {
    std::string_view token;
    std::int32_t id;
  };

  static constexpr std::size_t bytes_per_token = 3;  // to reserve memory; English text has about 4

  void require_length(std::size_t specials) const {
    require(options_.max_length >= specials, "WordPiece: max_length ", options_.max_length, " cannot hold the ",
            specials, " special tokens");
  }

  template <class F>
  static void for_each(std::vector<Encoding>& out, const F& f) {
    constexpr Index grain = 32;  // texts: a line takes a few microseconds
    kernel::parallel(static_cast<Index>(out.size()), grain, [&](Index first, Index last) {
      for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) out[i] = f(i);
    });
  }

  const Special* special_at(std::string_view text) const {
    for (const Special& special : special_)
      if (text.substr(0, special.token.size()) == special.token) return &special;
    return nullptr;
  }

  void append_words(std::string_view text, std::vector<std::int32_t>& ids) const {
    words_(text, [&](const Word& word) {
      const std::size_t before = ids.size();
      if (word.characters() <= Word::max_characters && append_pieces(word.text(), ids)) return;
      ids.resize(before);
      ids.push_back(unknown_);
    });
  }

  // Appends the id of the word's longest prefix in the vocabulary, then that of the longest prefix of the rest, and so on. Returns false if
  // a rest has no prefix in the vocabulary.
  bool append_pieces(std::string_view word, std::vector<std::int32_t>& ids) const {
    for (std::size_t begin = 0; begin < word.size();) {
      std::size_t length = std::min(word.size() - begin, vocabulary_.longest());
      std::int32_t id = Vocabulary::none;
      for (; length > 0; --length) {
        const std::string_view piece = word.substr(begin, length);
        id = begin == 0 ? vocabulary_.find(piece) : vocabulary_.find_continuation(piece);
        if (id != Vocabulary::none) break;
      }
      if (length == 0) return false;
      ids.push_back(id);
      begin += length;
    }
    return true;
  }

  Vocabulary vocabulary_;
  WordPieceOptions options_;
  BasicTokenizer words_;
  std::int32_t unknown_, begin_ = Vocabulary::none, end_ = Vocabulary::none;  // [UNK], [CLS], [SEP]
  std::vector<Special> special_;                                              // special tokens in the vocabulary
};

}  // namespace heddle::text
