// TokenizerPipeline: text to ids, and ids to text, by the parts of a tokenizer.json.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <variant>
#include <vector>

#include <heddle/text/encoding.hpp>
#include <heddle/text/tokenizer_parts.hpp>

namespace heddle::text {

/// The options of a Tokenizer.
struct TokenizerOptions {
  bool special_tokens = true;                                        ///< adds special tokens as the post-processor does
  std::size_t max_length = std::numeric_limits<std::size_t>::max();  ///< in tokens, special ones included
  bool offsets = false;                                              ///< fills Encoding::offsets and word_ids
};

/// A tokenizer that is made of parts. It returns the ids, offsets and decoded texts of the Rust tokenizers library.
/// Invalid UTF-8 is read as U+FFFD. Several threads may call const functions at once.
class TokenizerPipeline {
 public:
  /// Takes the parts. @throws Error if max_length does not hold the special tokens of a text, and for an id outside 0
  /// to most_token_ids - 1.
  explicit TokenizerPipeline(TokenizerParts parts, TokenizerOptions options = {})
      : parts_(std::move(parts)), options_(options) {
    for (const auto& [token, id] : parts_.tokens) {
      set_token(token, id);
      ids_.add(token, id);
    }
    for (const AddedToken& token : parts_.added_tokens) add(token);
    // As in the library, a token is left out if its text is that of a special one.
    std::unordered_set<std::string_view> special;
    for (const AddedToken& token : parts_.added_tokens)
      if (token.special) special.insert(token.content);
    for (auto& [id, token] : added_) token.is_special = special.count(token.text) > 0;
    first_only_ = std::any_of(parts_.pre_tokenizers.begin(), parts_.pre_tokenizers.end(), [](const PreTokenizer& step) {
      const auto* metaspace = std::get_if<MetaspacePreTokenizer>(&step);
      return metaspace && metaspace->prepend == MetaspacePreTokenizer::Prepend::first;
    });
    require_length(specials(parts_.post_processor.single));
  }

  /// Returns the parts.
  const TokenizerParts& parts() const { return parts_; }
  /// Returns the options.
  const TokenizerOptions& options() const { return options_; }
  /// Returns the tokens that are recognized in a text.
  const std::vector<AddedToken>& added_tokens() const { return parts_.added_tokens; }
  /// Returns one more than the greatest id.
  std::int32_t size() const { return static_cast<std::int32_t>(tokens_.size()); }
  /// Returns the token of an id, valid as long as the tokenizer; it is empty for an id that no token has.
  /// @throws IndexError for an id outside 0 to size() - 1.
  std::string_view token(std::int32_t id) const {
    require_id(id);
    return tokens_[static_cast<std::size_t>(id)];
  }
  /// Returns the id of a token, or TokenTable::none.
  std::int32_t find(std::string_view token) const { return ids_.find(token); }

  /// Returns the ids of a text, truncated to max_length.
  Encoding encode(std::string_view text) const {
    Body first, none;
    append(text, first, options_.offsets);
    const std::size_t limit = options_.max_length - specials(parts_.post_processor.single);
    const std::size_t size = first.ids.size();
    truncate(first, std::min(size, limit));
    Encoding out = assemble(parts_.post_processor.single, text, first, {}, none);
    out.truncated = size - first.ids.size();
    return out;
  }
  /// Encodes a pair, truncated by truncated_lengths(). @throws Error if max_length does not hold the special tokens.
  Encoding encode_pair(std::string_view a, std::string_view b) const {
    const std::size_t added = specials(parts_.post_processor.pair);
    require_length(added);
    Body first, second;
    append(a, first, options_.offsets);
    append(b, second, options_.offsets);
    const std::size_t size = first.ids.size() + second.ids.size();
    const auto [n1, n2] = truncated_lengths(first.ids.size(), second.ids.size(), options_.max_length - added);
    truncate(first, n1);
    truncate(second, n2);
    Encoding out = assemble(parts_.post_processor.pair, a, first, b, second);
    out.truncated = size - n1 - n2;
    return out;
  }
  /// Appends the ids of the text alone: no special tokens are added, nothing is cut off.
  void append(std::string_view text, std::vector<std::int32_t>& ids) const {
    Body body;
    body.ids.swap(ids);
    append(text, body, false);
    body.ids.swap(ids);
  }

  /// Returns the text of ids. Special tokens are left out if `skip_special_tokens`. Added tokens are written in their
  /// normalized form. @throws IndexError for an id outside 0 to size() - 1.
  std::string decode(std::span<const std::int32_t> ids, bool skip_special_tokens = true) const {
    DecodedTokens tokens;
    for (const std::int32_t id : ids) {
      require_id(id);
      const auto added = added_.find(id);
      if (added == added_.end()) {
        if (!token(id).empty()) tokens.emplace_back(token(id));
      } else if (!skip_special_tokens || !added->second.is_special) {
        tokens.push_back(added->second.text);
      }
    }
    for (const Decoder& decoder : parts_.decoders) std::visit([&](const auto& step) { step(tokens); }, decoder);
    std::string text;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0 && !parts_.has_decoder) text += ' ';
      text += tokens[i];
    }
    return text;
  }

 private:
  // The tokens of one text.
  struct Body {
    std::vector<std::int32_t> ids;
    std::vector<TextRange> offsets;
    std::vector<std::int32_t> word_ids;
    std::vector<std::pair<std::uint32_t, std::uint32_t>> space;  // characters of white space at a token's ends
    std::int32_t words = 0;
  };
  // The text that decode() writes for an added token.
  struct Decoded {
    std::string text;
    bool is_special = false;
  };
  static constexpr std::int32_t no_word = -1;

  void require_id(std::int32_t id) const {
    require<IndexError>(id >= 0 && id < size(), "Tokenizer: id ", id, " is outside 0 to ", size() - 1);
  }
  void require_length(std::size_t added) const {
    require(options_.max_length >= added, "Tokenizer: max_length ", options_.max_length, " cannot hold the ", added,
            " special tokens");
  }

  void set_token(const std::string& token, std::int32_t id) {
    require(id >= 0 && id < most_token_ids, "Tokenizer: the token ", io::quoted_name(token), " has the id ", id,
            " but must have one from 0 to ", most_token_ids - 1);
    if (id >= size()) tokens_.resize(static_cast<std::size_t>(id) + 1);
    tokens_[static_cast<std::size_t>(id)] = token;
  }
  void add(const AddedToken& token) {
    std::string text = token.content;
    if (token.normalized) {
      AlignedText normalized;
      normalized.assign(text, 0);
      normalize(parts_.normalizers, normalized);
      text = normalized.text();
    }
    (token.normalized ? normalized_ : raw_)
        .add(text, token.id, {.single_word = token.single_word, .lstrip = token.lstrip, .rstrip = token.rstrip});
    set_token(text, token.id);
    ids_.add(token.content, token.id);
    added_[token.id] = {std::move(text)};
  }

  std::size_t specials(const std::vector<TemplatePart>& form) const {
    return options_.special_tokens ? count_special_tokens(form) : 0;
  }

  // Appends the tokens of a text.
  void append(std::string_view text, Body& out, bool offsets) const {
    AlignedText part(offsets || first_only_);
    detail::Pieces pieces;
    raw_.split(
        text,
        [&](std::string_view between) {
          if (between.empty()) return;
          part.assign(between, static_cast<std::size_t>(between.data() - text.data()));
          normalize(parts_.normalizers, part);
          append_normalized(part, pieces, out, offsets);
        },
        [&](std::int32_t id, std::string_view found) {
          const auto begin = static_cast<std::size_t>(found.data() - text.data());
          append_added(id, found, {begin, begin + found.size()}, out, offsets);
        });
  }
  // Appends the tokens of a normalized text. Pre-tokenizers may edit a part of it, so each part between added tokens is
  // copied if there are several.
  void append_normalized(AlignedText& text, detail::Pieces& pieces, Body& out, bool offsets) const {
    if (normalized_.empty()) return append_words(text, pieces, out, offsets);
    std::vector<std::pair<std::int32_t, TextRange>> parts;
    const std::string_view whole = text.text();
    const auto range = [&](std::string_view part) {
      const auto begin = static_cast<std::size_t>(part.data() - whole.data());
      return TextRange{begin, begin + part.size()};
    };
    normalized_.split(
        whole,
        [&](std::string_view part) {
          if (!part.empty()) parts.emplace_back(TokenTable::none, range(part));
        },
        [&](std::int32_t id, std::string_view part) { parts.emplace_back(id, range(part)); });
    if (parts.size() == 1 && parts[0].first == TokenTable::none) return append_words(text, pieces, out, offsets);
    for (const auto& [id, bytes] : parts) {
      if (id != TokenTable::none) {
        append_added(id, whole.substr(bytes.begin, bytes.end - bytes.begin),
                     text.is_aligned() ? text.source(bytes) : TextRange{}, out, offsets);
      } else {
        AlignedText part = text.part(bytes);
        append_words(part, pieces, out, offsets);
      }
    }
  }
  void append_words(AlignedText& text, detail::Pieces& pieces, Body& out, bool offsets) const {
    if (text.text().empty()) return;
    pieces.assign(1, {0, text.text().size()});
    for (const PreTokenizer& step : parts_.pre_tokenizers)
      std::visit([&](const auto& cut) { cut(text, pieces); }, step);
    std::visit(
        [&](const auto& model) {
          constexpr bool is_bpe = std::is_same_v<std::decay_t<decltype(model)>, BytePairEncoding>;
          bool is_bytes = false;
          if constexpr (is_bpe) is_bytes = model.options().is_byte_level;
          for (const TextRange& piece : pieces) {
            const std::string_view word = text.text().substr(piece.begin, piece.end - piece.begin);
            model(word, [&](std::int32_t id, std::size_t begin, std::size_t end) {
              out.ids.push_back(id);
              if (!offsets) return;
              end = std::min(end, word.size());
              begin = std::min(begin, end);
              out.offsets.push_back(begin < end ? text.source({piece.begin + begin, piece.begin + end}) : TextRange{});
              out.word_ids.push_back(out.words);
              if (parts_.post_processor.trims_offsets)
                out.space.push_back(space_of(word.substr(begin, end - begin), is_bytes));
            });
            ++out.words;
          }
        },
        parts_.model);
  }
  void append_added(std::int32_t id, std::string_view text, TextRange source, Body& out, bool offsets) const {
    out.ids.push_back(id);
    if (offsets) {
      out.offsets.push_back(source);
      out.word_ids.push_back(out.words);
      if (parts_.post_processor.trims_offsets) out.space.push_back(space_of(text, false));
    }
    ++out.words;
  }

  // Returns the number of characters of white space at the ends of a token. In the byte alphabet only the blank is
  // white space; `is_bytes` says that the token is given in plain bytes.
  static std::pair<std::uint32_t, std::uint32_t> space_of(std::string_view token, bool is_bytes) {
    std::uint32_t leading = 0, trailing = 0;
    bool is_leading = true;
    const auto count = [&](bool is_space) {
      is_leading = is_leading && is_space;
      leading += is_leading;
      trailing = is_space ? trailing + 1 : 0;
    };
    if (is_bytes)
      for (const char c : token) count(c == ' ');
    else
      for (detail::Reader reader(token, 0); !reader.at_end(); reader.skip())
        count(reader.peek() == byte_alphabet()[' '] || has_property(reader.peek(), property::white_space));
    return {leading, trailing};
  }

  // Leaves out the white space at the ends of tokens, as process_offsets() of the library does in characters.
  void trim(std::string_view text, Body& body) const {
    for (std::size_t i = 0; i < body.space.size(); ++i) {
      auto [leading, trailing] = body.space[i];
      TextRange& range = body.offsets[i];
      if (leading == 1 && parts_.post_processor.adds_prefix_space && (i == 0 || range.begin == 0)) leading = 0;
      for (; leading > 0 && range.begin < range.end; --leading)
        range.begin = next_character(text, range.begin, range.end);
      if (trailing == 0) continue;
      std::size_t count = 0, last = range.begin;  // characters
      for (std::size_t at = last; at < range.end; at = next_character(text, at, range.end)) ++count;
      for (count -= std::min<std::size_t>(count, trailing); count > 0; --count)
        last = next_character(text, last, range.end);
      range.end = last;
    }
  }
  static std::size_t next_character(std::string_view text, std::size_t at, std::size_t end) {
    const char* next = text.data() + at;
    decode_utf8(next, text.data() + end);
    return static_cast<std::size_t>(next - text.data());
  }

  void truncate(Body& body, std::size_t size) const {
    const auto cut = [&](auto& items) {
      if (items.size() <= size) return;
      if (parts_.truncates_left)
        items.erase(items.begin(), items.end() - static_cast<std::ptrdiff_t>(size));
      else
        items.resize(size);
    };
    cut(body.ids);
    cut(body.offsets);
    cut(body.word_ids);
    cut(body.space);
  }

  Encoding assemble(const std::vector<TemplatePart>& form, std::string_view a, Body& first, std::string_view b,
                    Body& second) const {
    trim(a, first);
    trim(b, second);
    Encoding out;
    out.ids.reserve(first.ids.size() + second.ids.size() + specials(form));
    for (const TemplatePart& part : form) {
      if (part.kind != TemplatePart::Kind::special) {
        const Body& body = part.kind == TemplatePart::Kind::first_text ? first : second;
        out.ids.insert(out.ids.end(), body.ids.begin(), body.ids.end());
        out.offsets.insert(out.offsets.end(), body.offsets.begin(), body.offsets.end());
        out.word_ids.insert(out.word_ids.end(), body.word_ids.begin(), body.word_ids.end());
      } else if (options_.special_tokens) {
        out.ids.insert(out.ids.end(), part.ids.begin(), part.ids.end());
        if (options_.offsets) {
          out.offsets.resize(out.ids.size());
          out.word_ids.resize(out.ids.size(), no_word);
        }
      }
      out.type_ids.resize(out.ids.size(), part.type_id);
    }
    return out;
  }

  TokenizerParts parts_;
  TokenizerOptions options_;
  std::vector<std::string> tokens_;  // by id
  TokenTable ids_;
  detail::TokenFinder raw_, normalized_;             // the added tokens, by AddedToken::normalized
  std::unordered_map<std::int32_t, Decoded> added_;  // the added tokens, by id
  bool first_only_ = false;                          // whether pre-tokenizers need sources
};

}  // namespace heddle::text
