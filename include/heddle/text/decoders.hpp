// The decoders of the Rust tokenizers library. Each one changes the tokens of a text; the text is what remains, joined.
#pragma once
#include <algorithm>
#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <heddle/base/utf8.hpp>
#include <heddle/text/byte_alphabet.hpp>
#include <heddle/text/joined_pieces.hpp>
#include <heddle/text/split_pattern.hpp>

namespace heddle::text {

/// The tokens of a text while they are decoded.
using DecodedTokens = std::vector<std::string>;

/// WordPiece: writes a blank before each token but the first, unless it begins with the prefix, which is removed.
struct WordPieceDecoder {
  std::string prefix = "##";  ///< begins tokens that continue a word
  bool cleanup = true;        ///< removes blanks before punctuation and contractions

  /// Changes the tokens.
  void operator()(DecodedTokens& tokens) const {
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (i > 0) detail::separate_piece(tokens[i], prefix);
      if (cleanup) detail::clean_up(tokens[i]);
    }
  }
};

/// ByteLevel: reads tokens in the byte alphabet and joins them. Invalid UTF-8 becomes U+FFFD.
struct ByteLevelDecoder {
  /// Changes the tokens.
  void operator()(DecodedTokens& tokens) const {
    std::string bytes;
    for (const std::string& token : tokens)
      if (!byte_alphabet().decode(token, bytes)) bytes += token;
    tokens = {to_valid_utf8(bytes)};
  }
};

/// Metaspace: writes blanks for a character, and removes it from the first token if it is added before texts.
struct MetaspaceDecoder {
  char32_t replacement = 0x2581;  ///< the character
  bool is_prepended = true;       ///< whether it is removed from the first token

  /// Changes the tokens.
  void operator()(DecodedTokens& tokens) const {
    std::string written;
    append_utf8(written, replacement);
    for (std::size_t i = 0; i < tokens.size(); ++i)
      detail::replace_all(tokens[i], written, i == 0 && is_prepended ? "" : " ");
  }
};

/// BPEDecoder: removes a suffix from the last token and writes a blank for it in the others.
struct BpeDecoder {
  std::string suffix = "</w>";  ///< ends the last token of a word

  /// Changes the tokens.
  void operator()(DecodedTokens& tokens) const {
    for (std::size_t i = 0; i < tokens.size() && !suffix.empty(); ++i)
      detail::replace_all(tokens[i], suffix, i + 1 == tokens.size() ? "" : " ");
  }
};

/// ByteFallback: joins neighboring tokens <0x00> to <0xFF> to the text of their bytes, or to a U+FFFD for each of them
/// if they are not valid UTF-8.
struct ByteFallbackDecoder {
  /// Changes the tokens.
  void operator()(DecodedTokens& tokens) const {
    DecodedTokens out;
    std::string bytes;
    const auto flush = [&] {
      if (bytes.empty()) return;
      if (is_utf8(bytes))
        out.push_back(bytes);
      else
        out.insert(out.end(), bytes.size(), "\uFFFD");
      bytes.clear();
    };
    for (std::string& token : tokens) {
      if (const std::optional<char> byte = byte_of(token)) {
        bytes += *byte;
      } else {
        flush();
        out.push_back(std::move(token));
      }
    }
    flush();
    tokens.swap(out);
  }

 private:
  static std::optional<char> byte_of(std::string_view token) {
    if (token.size() != 6 || !token.starts_with("<0x") || !token.ends_with('>')) return std::nullopt;
    int value = 0;
    for (const char c : token.substr(3, 2)) {
      const int digit = c >= '0' && c <= '9'   ? c - '0'
                        : c >= 'A' && c <= 'F' ? c - 'A' + 10
                        : c >= 'a' && c <= 'f' ? c - 'a' + 10
                                               : -1;
      if (digit < 0) return std::nullopt;
      value = 16 * value + digit;
    }
    return static_cast<char>(value);
  }
};

/// Fuse: joins all tokens.
struct FuseDecoder {
  /// Changes the tokens.
  void operator()(DecodedTokens& tokens) const {
    std::string text;
    for (const std::string& token : tokens) text += token;
    tokens = {std::move(text)};
  }
};

/// Strip: removes a character from the ends of each token.
struct StripDecoder {
  char32_t character = ' ';  ///< the character to remove
  std::size_t start = 0;     ///< maximum number of times that it is removed from the beginning
  std::size_t stop = 0;      ///< maximum number of times that it is removed from the end

  /// Changes the tokens.
  void operator()(DecodedTokens& tokens) const {
    std::string written;
    append_utf8(written, character);
    for (std::string& token : tokens) {
      for (std::size_t i = 0; i < start && token.starts_with(written); ++i) token.erase(0, written.size());
      for (std::size_t i = 0; i < stop && token.ends_with(written); ++i) token.erase(token.size() - written.size());
    }
  }
};

/// Replace: replaces each match of a pattern in each token by a text.
struct ReplaceDecoder {
  SplitPattern pattern;  ///< the parts to replace
  std::string by;        ///< the text in their place

  /// Changes the tokens.
  void operator()(DecodedTokens& tokens) const {
    for (std::string& token : tokens) {
      std::string out;
      std::size_t begin = 0;
      for (auto match = pattern.find(token, 0); match; match = pattern.find(token, begin)) {
        out.append(token, begin, match->begin - begin).append(by);
        begin = match->end;
      }
      token = out.append(token, begin);
    }
  }
};

/// A decoder.
using Decoder = std::variant<WordPieceDecoder, ByteLevelDecoder, MetaspaceDecoder, BpeDecoder, ByteFallbackDecoder,
                             FuseDecoder, StripDecoder, ReplaceDecoder>;

}  // namespace heddle::text
