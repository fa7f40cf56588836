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
#include <heddle/text/added_tokens.hpp>
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

/// Returns the lengths to which two sequences of n1 and n2 tokens are cut if `limit` tokens are allowed. The rule is
/// "longest first" of the Rust tokenizers library, which differs slightly from cutting one token at a time off the
/// longer one.
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

/// A WordPiece tokenizer that returns the same ids as the Rust tokenizers library. Several threads may call const
/// functions at once.
class WordPiece {
 public:
  /// Takes the vocabulary. @throws FileError for a vocabulary without [UNK], and if special tokens are added, for one
  /// without [CLS] or [SEP]. @throws Error if special tokens are added and max_length is less than 2.
  explicit WordPiece(Vocabulary vocabulary, WordPieceOptions options = {})
      : WordPiece(Unprepared{}, std::move(vocabulary), options) {
    add(special_tokens(vocabulary_));
  }
  /// Takes the tokens that are recognized in a text, instead of special_tokens(). Their ids are those of the
  /// vocabulary, or follow it. @throws Error for an id that is neither its token's in the vocabulary nor that of the
  /// next token without one.
  WordPiece(Vocabulary vocabulary, WordPieceOptions options, std::vector<AddedToken> added)
      : WordPiece(Unprepared{}, std::move(vocabulary), options) {
    add(std::move(added));
  }

  /// Returns those of [UNK], [SEP], [PAD], [CLS] and [MASK] that a vocabulary has. In a text they are recognized in
  /// capitals only.
  static std::vector<AddedToken> special_tokens(const Vocabulary& vocabulary) {
    std::vector<AddedToken> found;
    for (const char* token : {"[UNK]", "[SEP]", "[PAD]", "[CLS]", "[MASK]"})
      if (const std::int32_t id = vocabulary.find(token); id != Vocabulary::none) found.push_back({token, id});
    return found;
  }

  /// Returns the vocabulary.
  const Vocabulary& vocabulary() const { return vocabulary_; }
  /// Returns the options.
  const WordPieceOptions& options() const { return options_; }
  /// Returns the tokens that are recognized in a text.
  const std::vector<AddedToken>& added_tokens() const { return added_; }
  /// Returns the number of ids: the vocabulary's, and those of added tokens that it has not.
  std::int32_t size() const { return size_; }
  /// Returns the token of an id, valid as long as the tokenizer. @throws IndexError for an id outside 0 to size() - 1.
  std::string_view token(std::int32_t id) const {
    if (id < vocabulary_.size() || id >= size_) return vocabulary_.token(id);
    return std::find_if(added_.begin(), added_.end(), [&](const AddedToken& t) { return t.id == id; })->content;
  }

  /// Returns the ids of a text, truncated to max_length. Accepts any bytes; drops invalid UTF-8. Added tokens are
  /// recognized anywhere in the text.
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

  /// Encodes a pair, truncated by truncated_lengths(). @throws Error if special tokens are added and max_length is less
  /// than 3.
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

  /// Encodes each text, on all threads. `Texts` is a vector of strings or string views, or any type with std::size()
  /// and [].
  template <class Texts = std::vector<std::string_view>>
  std::vector<Encoding> encode_batch(const Texts& texts) const {
    std::vector<Encoding> out(std::size(texts));
    for_each(out, [&](std::size_t i) { return encode(texts[i]); });
    return out;
  }

  /// Encodes each text in `a` and the text at the same position in `b` as a pair. @throws Error for different sizes,
  /// and as encode_pair().
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
    const auto append_id = [&](std::int32_t id) { ids.push_back(id); };
    const auto append_plain = [&](std::string_view part) { append_words(part, ids); };
    raw_.split(
        text,
        [&](std::string_view part) {
          if (normalized_.empty() || part.empty())
            append_plain(part);
          else
            normalized_.split(words_.normalized(part), append_plain, append_id);
        },
        append_id);
  }

 private:
  struct Unprepared {};

  WordPiece(Unprepared, Vocabulary vocabulary, WordPieceOptions options)
      : vocabulary_(std::move(vocabulary)),
        options_(options),
        words_(options.uncased, options.strip_accents),
        unknown_(vocabulary_.id("[UNK]")),
        size_(vocabulary_.size()) {
    if (!options_.special_tokens) return;
    begin_ = vocabulary_.id("[CLS]");
    end_ = vocabulary_.id("[SEP]");
    require_length(2);
  }

  void add(std::vector<AddedToken> tokens) {
    added_ = std::move(tokens);
    for (const AddedToken& token : added_) {
      const std::int32_t known = vocabulary_.find(token.content), id = known == Vocabulary::none ? size_++ : known;
      require(token.id == id, "WordPiece: the added token ", io::quoted_name(token.content), " has the id ", token.id,
              "; its place is ", id);
      if (token.normalized)
        normalized_.add(words_.normalized(token.content), id, token.single_word);
      else
        raw_.add(token.content, id, token.single_word);
    }
  }

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

  void append_words(std::string_view text, std::vector<std::int32_t>& ids) const {
    words_(text, [&](const Word& word) {
      const std::size_t before = ids.size();
      if (word.characters() <= Word::max_characters && append_pieces(word.text(), ids)) return;
      ids.resize(before);
      ids.push_back(unknown_);
    });
  }

  // Appends the id of the word's longest prefix in the vocabulary, then that of the longest prefix of the rest, and so
  // on. Returns false if a rest has no prefix in the vocabulary.
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
  std::int32_t size_;
  std::vector<AddedToken> added_;
  detail::TokenFinder raw_, normalized_;  // the added tokens, by AddedToken::normalized
};

}  // namespace heddle::text
