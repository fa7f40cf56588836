// Tokenizer: text to ids, and ids to text, as the Rust tokenizers library does with a tokenizer.json.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <heddle/text/encode_batch.hpp>
#include <heddle/text/pipeline.hpp>
#include <heddle/text/wordpiece.hpp>

namespace heddle::text {

/// A tokenizer of any of the kinds that encoders have: WordPiece, byte-level BPE, BPE, Unigram and WordLevel. It
/// returns the ids, offsets and decoded texts of the Rust tokenizers library. BERT's own tokenizer is a WordPiece; all
/// others are a TokenizerPipeline. Several threads may call const functions at once.
class Tokenizer {
  // The functions below need the return type of visit().
  template <class F>
  decltype(auto) visit(F&& f) const {
    return std::visit(f, either_);
  }

 public:
  /// Reads a tokenizer.json, or the tokenizer of a Hugging Face folder. Defined in
  /// text/folder_tokenizer.hpp.
  /// @throws FileError for a file that cannot be read, and for a member that heddle does not know.
  static Tokenizer load(const std::string& path, TokenizerOptions options = {});

  /// Takes BERT's tokenizer.
  explicit Tokenizer(WordPiece tokenizer)
      : options_{.special_tokens = tokenizer.options().special_tokens,
                 .max_length = tokenizer.options().max_length,
                 .offsets = tokenizer.options().offsets},
        either_(std::move(tokenizer)) {}
  /// Takes a tokenizer that is made of parts.
  explicit Tokenizer(TokenizerPipeline pipeline) : options_(pipeline.options()), either_(std::move(pipeline)) {}

  /// Returns BERT's tokenizer, or nullptr if it is another one.
  const WordPiece* word_piece() const { return std::get_if<WordPiece>(&either_); }
  /// Returns the options.
  const TokenizerOptions& options() const { return options_; }
  /// Returns whether texts are turned into lower case.
  bool is_uncased() const { return word_piece() ? word_piece()->options().uncased : pipeline().parts().is_uncased(); }
  /// Returns whether tokens that continue a word begin with a prefix, such as "##".
  bool has_continuing_prefix() const {
    if (word_piece()) return true;
    const TokenModel& model = pipeline().parts().model;
    if (const auto* pieces = std::get_if<WordPieceModel>(&model)) return pieces->has_prefix();
    const auto* bpe = std::get_if<BytePairEncoding>(&model);
    return bpe && !bpe->options().continuing_prefix.empty();
  }
  /// Returns the form in which a text, or a pair, is given to a model, with its special tokens.
  std::vector<TemplatePart> form(bool pair) const {
    using enum TemplatePart::Kind;
    const WordPiece* const bert = word_piece();
    if (!bert) return pair ? pipeline().parts().post_processor.pair : pipeline().parts().post_processor.single;
    const auto token = [&](const char* name, std::int32_t type) {
      TemplatePart part{special, type};
      if (const std::int32_t id = bert->vocabulary().find(name); id != Vocabulary::none) part.ids = {id};
      return part;
    };
    std::vector<TemplatePart> parts{token("[CLS]", 0), {first_text, 0}, token("[SEP]", 0)};
    if (pair) parts.insert(parts.end(), {{second_text, 1}, token("[SEP]", 1)});
    return parts;
  }

  /// Returns the numbers of the first token of `b` in encode(a, b), and of the one behind its last token.
  std::pair<std::size_t, std::size_t> second_text(std::string_view a, std::string_view b) const {
    std::vector<std::int32_t> first, second;  // before truncation
    append(a, first);
    append(b, second);
    const std::vector<TemplatePart> parts = form(true);
    const std::size_t specials = options_.special_tokens ? count_special_tokens(parts) : 0;
    const auto [n1, n2] = truncated_lengths(first.size(), second.size(), options_.max_length - specials);
    std::size_t begin = 0;
    for (const TemplatePart& part : parts) {
      if (part.kind == TemplatePart::Kind::second_text) break;
      begin += part.kind == TemplatePart::Kind::first_text ? n1 : options_.special_tokens ? part.ids.size() : 0;
    }
    return {begin, begin + n2};
  }

  /// Returns the same tokenizer with other options. @throws Error if max_length does not hold the special tokens.
  Tokenizer with(TokenizerOptions options) const {
    if (const WordPiece* bert = word_piece()) {
      WordPieceOptions changed = bert->options();
      changed.special_tokens = options.special_tokens;
      changed.max_length = options.max_length;
      changed.offsets = options.offsets;
      return Tokenizer(WordPiece(bert->vocabulary(), changed, bert->added_tokens()));
    }
    return Tokenizer(TokenizerPipeline(pipeline().parts(), options));
  }
  /// Returns the same tokenizer, which recognizes other tokens in a text. @throws Error as the
  /// constructors of WordPiece and TokenizerPipeline do.
  Tokenizer with(std::vector<AddedToken> added) const {
    if (const WordPiece* bert = word_piece())
      return Tokenizer(WordPiece(bert->vocabulary(), bert->options(), std::move(added)));
    TokenizerParts parts = pipeline().parts();
    parts.added_tokens = std::move(added);
    return Tokenizer(TokenizerPipeline(std::move(parts), options_));
  }

  /// Returns the tokens that are recognized in a text.
  const std::vector<AddedToken>& added_tokens() const {
    return visit([](const auto& t) -> const std::vector<AddedToken>& { return t.added_tokens(); });
  }
  /// Returns one more than the greatest id.
  std::int32_t size() const {
    return visit([](const auto& t) { return t.size(); });
  }
  /// Returns the token of an id, valid as long as the tokenizer; it is empty for an id that no token has.
  /// @throws IndexError for an id outside 0 to size() - 1.
  std::string_view token(std::int32_t id) const {
    return visit([&](const auto& t) { return t.token(id); });
  }
  /// Returns the id of a token, or TokenTable::none.
  std::int32_t find(std::string_view token) const {
    return visit([&](const auto& t) { return t.find(token); });
  }

  /// Returns the ids of a text, truncated to max_length. Accepts any bytes: invalid UTF-8 is read as U+FFFD, which
  /// BERT's tokenizer drops.
  Encoding encode(std::string_view text) const {
    return visit([&](const auto& t) { return t.encode(text); });
  }
  /// Encodes a pair, truncated by truncated_lengths(). @throws Error if max_length does not hold the special tokens.
  Encoding encode(std::string_view a, std::string_view b) const { return encode_pair(a, b); }
  /// Encodes a pair; the same as encode(a, b).
  Encoding encode_pair(std::string_view a, std::string_view b) const {
    return visit([&](const auto& t) { return t.encode_pair(a, b); });
  }
  /// Encodes each text, on all threads. `Texts` is a vector of strings or string views, or any type with std::size()
  /// and [].
  template <class Texts = std::vector<std::string_view>>
  std::vector<Encoding> encode_batch(const Texts& texts) const {
    return visit([&](const auto& t) { return detail::encode_batch(t, texts); });
  }
  /// Encodes each text in `a` and the text at the same position in `b` as a pair. @throws Error for different sizes,
  /// and as encode().
  template <class Texts = std::vector<std::string_view>>
  std::vector<Encoding> encode_batch(const Texts& a, const Texts& b) const {
    return visit([&](const auto& t) { return detail::encode_batch(t, a, b); });
  }

  /// Appends the ids of the text alone: no special tokens are added, nothing is cut off.
  void append(std::string_view text, std::vector<std::int32_t>& ids) const {
    visit([&](const auto& t) { t.append(text, ids); });
  }

  /// Returns the text of ids. Special tokens are left out if `skip_special_tokens`. Added tokens are written in their
  /// normalized form. @throws IndexError for an id outside 0 to size() - 1.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = true) const {
    return visit([&](const auto& t) { return t.decode(ids, skip_special_tokens); });
  }

 private:
  const TokenizerPipeline& pipeline() const { return std::get<TokenizerPipeline>(either_); }
  TokenizerOptions options_;
  std::variant<WordPiece, TokenizerPipeline> either_;
};

}  // namespace heddle::text
