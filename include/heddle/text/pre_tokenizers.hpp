// The pre-tokenizers of the Rust tokenizers library. Each one cuts the pieces of an AlignedText into smaller ones.
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
#include <heddle/text/aligned_text.hpp>
#include <heddle/text/normalizers.hpp>
#include <heddle/text/properties.hpp>
#include <heddle/text/split_pattern.hpp>

namespace heddle::text {

/// The treatment of the matches of a pattern that cuts a text.
enum class SplitBehavior {
  removed,               ///< a match is left out
  isolated,              ///< a match is a piece of its own
  contiguous,            ///< neighboring matches are one piece
  merged_with_previous,  ///< a match ends the piece before it
  merged_with_next       ///< a match begins the piece after it
};

namespace detail {

// The pieces of a text, in order. Bytes between them belong to none.
using Pieces = std::vector<TextRange>;

// Appends the pieces into which a pattern cuts a piece.
inline void split_piece(std::string_view text, TextRange piece, const SplitPattern& pattern, SplitBehavior behavior,
                        bool is_inverted, Pieces& out) {
  const std::string_view part = text.substr(piece.begin, piece.end - piece.begin);
  const std::size_t first = out.size();
  bool was_match = false;   // whether the range before was a match
  bool joins_next = false;  // whether the next range, which is no match, continues the last piece
  const auto add = [&](TextRange range, bool is_match) {
    if (range.begin == range.end) return;
    is_match = is_match != is_inverted;
    range = {piece.begin + range.begin, piece.begin + range.end};
    const bool has_last = out.size() > first;
    bool joins = false;
    switch (behavior) {
      case SplitBehavior::removed:
      case SplitBehavior::isolated: break;
      case SplitBehavior::contiguous: joins = has_last && is_match == was_match; break;
      case SplitBehavior::merged_with_previous: joins = has_last && is_match && !was_match; break;
      case SplitBehavior::merged_with_next: joins = joins_next && !is_match; break;
    }
    if (joins)
      out.back().end = range.end;
    else if (behavior != SplitBehavior::removed || !is_match)
      out.push_back(range);
    was_match = joins_next = is_match;
  };
  std::size_t begin = 0;
  for (std::optional<TextRange> match = pattern.find(part, 0); match; match = pattern.find(part, match->end)) {
    add({begin, match->begin}, false);
    add(*match, true);
    begin = match->end;
  }
  add({begin, part.size()}, false);
}

// Edits each piece by write(next character, its size) for its first character and copies the rest, for which
// rest(character, size) may write something else. Bytes between pieces are dropped.
template <class First, class Rest>
void edit_pieces(AlignedText& text, Pieces& pieces, const First& first, const Rest& rest) {
  const std::string_view before = text.text();
  text.begin();
  for (TextRange& piece : pieces) {
    text.skip(piece.begin - text.position());
    const std::size_t begin = text.written();
    bool is_first = true;
    for (const char *at = before.data() + piece.begin, *const end = before.data() + piece.end; at != end;) {
      const char* const character = at;
      const char32_t c = decode_utf8(at, end);
      const auto size = static_cast<std::size_t>(at - character);
      is_first ? first(piece, c, size) : rest(c, size);
      is_first = false;
    }
    piece = {begin, text.written()};
  }
  text.finish();
}

}  // namespace detail

/// Cuts at the matches of a pattern. It stands for Split, Whitespace, WhitespaceSplit, Punctuation, Digits and
/// CharDelimiterSplit; BertPreTokenizer is two of them.
struct SplitPreTokenizer {
  SplitPattern pattern;      ///< the parts at which pieces are cut
  SplitBehavior behavior;    ///< what becomes of them
  bool is_inverted = false;  ///< the parts between the matches take the place of the matches

  /// Cuts the pieces.
  void operator()(AlignedText& text, detail::Pieces& pieces) const {
    detail::Pieces cut;
    for (const TextRange& piece : pieces) detail::split_piece(text.text(), piece, pattern, behavior, is_inverted, cut);
    pieces.swap(cut);
  }
};

/// Metaspace: writes a character, mostly U+2581, in place of blanks and before pieces, and cuts before it.
struct MetaspacePreTokenizer {
  /// The pieces before which the character is written, unless they begin with it.
  enum class Prepend {
    always,  ///< all
    first,   ///< the one at the beginning of the original text
    never    ///< none
  };

  char32_t replacement = 0x2581;      ///< the character
  Prepend prepend = Prepend::always;  ///< where it is added
  bool is_split = true;               ///< whether pieces are cut before it

  /// Cuts the pieces. Requires an aligned text for Prepend::first.
  void operator()(AlignedText& text, detail::Pieces& pieces) const {
    std::string written;
    append_utf8(written, replacement);
    const auto write = [&](char32_t c, std::size_t size) {
      c == ' ' ? text.replace(replacement, size) : text.copy(size);
    };
    detail::edit_pieces(
        text, pieces,
        [&](const TextRange& piece, char32_t c, std::size_t size) {
          const bool is_wanted = prepend == Prepend::always ||
                                 (prepend == Prepend::first && text.source({piece.begin, piece.begin + 1}).begin == 0);
          if (c != ' ' && c != replacement && is_wanted)
            detail::put_before(text, written, c, size);
          else
            write(c, size);
        },
        write);
    if (!is_split) return;
    CharacterSet set;
    set.add(replacement, replacement);
    SplitPreTokenizer{SplitPattern::characters(std::move(set)), SplitBehavior::merged_with_next}(text, pieces);
  }
};

/// ByteLevel: cuts by GPT-2's regular expression. BytePairEncoding reads the bytes of the pieces, so that they are not
/// written in the byte alphabet.
struct ByteLevelPreTokenizer {
  bool adds_prefix_space = true;  ///< puts a blank before each piece that does not begin with one
  bool is_split = true;           ///< whether pieces are cut

  /// Cuts the pieces.
  void operator()(AlignedText& text, detail::Pieces& pieces) const {
    const auto has_blank = [&](const TextRange& piece) { return text.text()[piece.begin] == ' '; };
    if (adds_prefix_space && !std::all_of(pieces.begin(), pieces.end(), has_blank))
      detail::edit_pieces(
          text, pieces,
          [&](const TextRange&, char32_t c, std::size_t size) {
            c == ' ' ? text.copy(size) : detail::put_before(text, " ", c, size);
          },
          [&](char32_t, std::size_t size) { text.copy(size); });
    if (is_split) SplitPreTokenizer{SplitPattern::gpt2(), SplitBehavior::isolated}(text, pieces);
  }
};

/// A pre-tokenizer.
using PreTokenizer = std::variant<SplitPreTokenizer, MetaspacePreTokenizer, ByteLevelPreTokenizer>;

}  // namespace heddle::text
