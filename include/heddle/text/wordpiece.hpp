// WordPiece: text to ids, and ids to text. The reference is transformers' BertTokenizerFast made from vocab.txt; the
// older Python tokenizer differs from it on some 1,500 characters.
#pragma once
#include <algorithm>
#include <cstdint>
#include <iterator>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include <heddle/text/added_tokens.hpp>
#include <heddle/text/basic_tokenizer.hpp>
#include <heddle/text/encode_batch.hpp>
#include <heddle/text/encoding.hpp>
#include <heddle/text/joined_pieces.hpp>
#include <heddle/text/vocabulary.hpp>

namespace heddle::text {

/// The options of a WordPiece tokenizer.
struct WordPieceOptions {
  bool uncased = false;                    ///< lower-case
  std::optional<bool> strip_accents = {};  ///< drop accents; by default if `uncased`
  bool special_tokens = true;              ///< add [CLS] and [SEP]: [CLS] a [SEP], [CLS] a [SEP] b [SEP]
  std::size_t max_length = std::numeric_limits<std::size_t>::max();  ///< in tokens, special ones included
  bool offsets = false;  ///< fill Encoding::offsets and word_ids; encoding then takes up to twice as long
};

/// A WordPiece tokenizer that returns the same ids, offsets and decoded texts as the Rust tokenizers library. Several
/// threads may call const functions at once.
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
      if (const std::int32_t id = vocabulary.find(token); id != Vocabulary::none)
        found.push_back({.content = token, .id = id, .special = true});
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
  /// Returns the id of a token, or Vocabulary::none.
  std::int32_t find(std::string_view token) const {
    if (const std::int32_t id = vocabulary_.find(token); id != Vocabulary::none) return id;
    const auto added =
        std::find_if(added_.begin(), added_.end(), [&](const AddedToken& t) { return t.content == token; });
    return added == added_.end() ? Vocabulary::none : added->id;
  }
  /// Returns the token of an id, valid as long as the tokenizer. @throws IndexError for an id outside 0 to size() - 1.
  std::string_view token(std::int32_t id) const {
    require_id(id);
    if (id < vocabulary_.size()) return vocabulary_.token(id);
    return std::find_if(added_.begin(), added_.end(), [&](const AddedToken& t) { return t.id == id; })->content;
  }

  /// Returns the ids of a text, truncated to max_length. Accepts any bytes; drops invalid UTF-8. Added tokens are
  /// recognized anywhere in the text.
  Encoding encode(std::string_view text) const {
    Encoding out;
    const std::size_t specials = options_.special_tokens ? 2 : 0;
    out.ids.reserve(text.size() / bytes_per_token + specials);
    if (specials) append_special(begin_, out);
    append(text, out);
    const std::size_t length = out.ids.size() + specials / 2;
    resize(out, std::min(length, options_.max_length) - specials / 2);
    if (specials) append_special(end_, out);
    out.truncated = length - out.ids.size();
    out.type_ids.resize(out.ids.size(), 0);
    return out;
  }

  /// Encodes a pair, truncated by truncated_lengths(). @throws Error if special tokens are added and max_length is less
  /// than 3.
  Encoding encode_pair(std::string_view a, std::string_view b) const {
    const std::size_t specials = options_.special_tokens ? 3 : 0;
    require_length(specials);
    Encoding first, second;
    append(a, first);
    append(b, second);
    const auto [n1, n2] = truncated_lengths(first.ids.size(), second.ids.size(), options_.max_length - specials);
    Encoding out;
    out.truncated = first.ids.size() + second.ids.size() - n1 - n2;
    out.ids.reserve(n1 + n2 + specials);
    if (specials) append_special(begin_, out);
    append_first(n1, first, out);
    if (specials) append_special(end_, out);
    out.type_ids.resize(out.ids.size(), 0);
    append_first(n2, second, out);
    if (specials) append_special(end_, out);
    out.type_ids.resize(out.ids.size(), 1);
    return out;
  }

  /// Encodes each text, on all threads. `Texts` is a vector of strings or string views, or any type with std::size()
  /// and [].
  template <class Texts = std::vector<std::string_view>>
  std::vector<Encoding> encode_batch(const Texts& texts) const {
    return detail::encode_batch(*this, texts);
  }

  /// Encodes each text in `a` and the text at the same position in `b` as a pair. @throws Error for different sizes,
  /// and as encode_pair().
  template <class Texts = std::vector<std::string_view>>
  std::vector<Encoding> encode_batch(const Texts& a, const Texts& b) const {
    return detail::encode_batch(*this, a, b);
  }

  /// Appends the ids of the text alone: no special tokens are added, nothing is cut off.
  void append(std::string_view text, std::vector<std::int32_t>& ids) const {
    const auto append_id = [&](std::int32_t id, std::string_view) { ids.push_back(id); };
    raw_.split(
        text,
        [&](std::string_view part) {
          if (!normalized_words_ || part.empty()) return append_words(words_, part, ids);
          normalized_.split(
              words_.normalized(part), [&](std::string_view inner) { append_words(*normalized_words_, inner, ids); },
              append_id);
        },
        append_id);
  }

  /// Returns the text of ids, joined as by the WordPiece decoder of the Rust library: a token that begins with "##"
  /// continues a word, a blank precedes each other token but the first, and is removed before a full stop, "n't" and
  /// the like. Added tokens are written in their normalized form. Special tokens are left out if `skip_special_tokens`.
  /// @throws IndexError for an id outside 0 to size() - 1.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = true) const {
    detail::JoinedPieces out;
    for (const std::int32_t id : ids) {
      require_id(id);
      const auto added = decoded_.find(id);
      if (added == decoded_.end())
        out.append(vocabulary_.token(id));
      else if (!skip_special_tokens || !added->second.is_special)
        out.append(added->second.text);
    }
    return std::move(out).text();
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
      std::string text = token.normalized ? words_.normalized(token.content) : token.content;
      (token.normalized ? normalized_ : raw_).add(text, id, {.single_word = token.single_word});
      if (token.normalized && !normalized_words_) normalized_words_.emplace(false);
      decoded_[id] = {std::move(text)};
    }
    // As in the Rust library, a token is left out if its text is that of a special one.
    std::unordered_set<std::string_view> special;
    for (const AddedToken& token : added_)
      if (token.special) special.insert(token.content);
    for (auto& [id, token] : decoded_) token.is_special = special.count(token.text) > 0;
  }

  static constexpr std::size_t bytes_per_token = 3;  // to reserve memory; English text has about 4

  void require_id(std::int32_t id) const {
    require<IndexError>(id >= 0 && id < size_, vocabulary_.name(), ": id ", id, " is outside 0 to ", size_ - 1);
  }
  void require_length(std::size_t specials) const {
    require(options_.max_length >= specials, "WordPiece: max_length ", options_.max_length, " cannot hold the ",
            specials, " special tokens");
  }

  void append_special(std::int32_t id, Encoding& out) const {
    out.ids.push_back(id);
    if (!options_.offsets) return;
    out.offsets.push_back({});
    out.word_ids.push_back(no_word);
  }
  // Appends the first tokens of an encoding without type ids.
  void append_first(std::size_t count, const Encoding& from, Encoding& out) const {
    const auto append_items = [count](const auto& items, auto& to) {
      to.insert(to.end(), items.data(), items.data() + count);
    };
    append_items(from.ids, out.ids);
    if (!options_.offsets) return;
    append_items(from.offsets, out.offsets);
    append_items(from.word_ids, out.word_ids);
  }
  void resize(Encoding& out, std::size_t count) const {
    out.ids.resize(count);
    if (!options_.offsets) return;
    out.offsets.resize(count);
    out.word_ids.resize(count);
  }

  // Appends the ids of the text alone, with their offsets and words if the options say so.
  void append(std::string_view text, Encoding& out) const {
    if (options_.offsets)
      append_aligned(text, out);
    else
      append(text, out.ids);
  }
  void append_words(const BasicTokenizer& words, std::string_view text, std::vector<std::int32_t>& ids) const {
    words(text, [&](const Word& word) { append_pieces(word.text(), word.characters(), ids); });
  }

  // Appends the id of the word's longest prefix in the vocabulary, then that of the longest prefix of the rest, and so
  // on. Appends [UNK] alone and returns false if a rest has no prefix in the vocabulary, or if the word is too long.
  // Flattened because most of the time is spent here, and g++ inlines less of it in programs that use both paths.
  [[gnu::flatten]] bool append_pieces(std::string_view word, std::size_t characters,
                                      std::vector<std::int32_t>& ids) const {
    const std::size_t before = ids.size();
    for (std::size_t begin = 0; begin < word.size();) {
      std::size_t length =
          characters <= Word::max_characters ? std::min(word.size() - begin, vocabulary_.longest()) : 0;
      std::int32_t id = Vocabulary::none;
      for (; length > 0; --length) {
        const std::string_view piece = word.substr(begin, length);
        id = begin == 0 ? vocabulary_.find(piece) : vocabulary_.find_continuation(piece);
        if (id != Vocabulary::none) break;
      }
      if (length == 0) {
        ids.resize(before);
        ids.push_back(unknown_);
        return false;
      }
      ids.push_back(id);
      begin += length;
    }
    return true;
  }

  // The same as append() and append_words(), with offsets and words.
  void append_aligned(std::string_view text, Encoding& out) const {
    raw_.split(
        text,
        [&](std::string_view part) {
          if (!normalized_words_ || part.empty())
            append_aligned_words(words_, part, offset_in(text, part), out);
          else
            append_aligned_normalized(part, offset_in(text, part), out);
        },
        [&](std::int32_t id, std::string_view part) { append_added(id, offset_in(text, part), part.size(), out); });
  }
  void append_aligned_normalized(std::string_view text, std::size_t offset, Encoding& out) const {
    const auto normalized = words_.aligned_normalized(text);
    const std::string_view whole = normalized.text();
    std::size_t i = out.offsets.size();
    normalized_.split(
        whole,
        [&](std::string_view part) { append_aligned_words(*normalized_words_, part, offset_in(whole, part), out); },
        [&](std::int32_t id, std::string_view part) { append_added(id, offset_in(whole, part), part.size(), out); });
    for (; i < out.offsets.size(); ++i) out.offsets[i] = shifted(normalized.source(out.offsets[i]), offset);
  }
  void append_aligned_words(const BasicTokenizer& words, std::string_view text, std::size_t offset,
                            Encoding& out) const {
    words.aligned(text, [&](const Aligned<Word>& word) {
      std::size_t i = out.ids.size();
      const std::int32_t number = next_word(out);
      const bool is_known = append_pieces(word.text(), word.characters(), out.ids);
      for (std::size_t begin = 0, end = 0; i < out.ids.size(); ++i, begin = end) {
        end += vocabulary_.token(out.ids[i]).size() - (begin > 0 ? continuation.size() : 0);
        out.offsets.push_back(shifted(is_known ? word.source({begin, end}) : word.source(), offset));
        out.word_ids.push_back(number);
      }
    });
  }
  static void append_added(std::int32_t id, std::size_t begin, std::size_t size, Encoding& out) {
    out.ids.push_back(id);
    out.offsets.push_back({begin, begin + size});
    out.word_ids.push_back(next_word(out));
  }
  // Returns the number of the word that follows the last one.
  static std::int32_t next_word(const Encoding& out) { return out.word_ids.empty() ? 0 : out.word_ids.back() + 1; }
  static std::size_t offset_in(std::string_view whole, std::string_view part) {
    return static_cast<std::size_t>(part.data() - whole.data());
  }
  static TextRange shifted(TextRange range, std::size_t offset) { return {offset + range.begin, offset + range.end}; }

  // What decode() makes of an added token.
  struct Decoded {
    std::string text;
    bool is_special = false;
  };

  static constexpr std::int32_t no_word = -1;
  static constexpr std::string_view continuation = "##";

  Vocabulary vocabulary_;
  WordPieceOptions options_;
  BasicTokenizer words_;
  std::int32_t unknown_, begin_ = Vocabulary::none, end_ = Vocabulary::none;  // [UNK], [CLS], [SEP]
  std::int32_t size_;
  std::vector<AddedToken> added_;
  std::optional<BasicTokenizer> normalized_words_;     // for normalized text; without normalized_ tokens there is none
  detail::TokenFinder raw_, normalized_;               // the added tokens, by AddedToken::normalized
  std::unordered_map<std::int32_t, Decoded> decoded_;  // the added tokens, by id
};

}  // namespace heddle::text
