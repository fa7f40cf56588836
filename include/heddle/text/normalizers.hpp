// The normalizers of the Rust tokenizers library. Each one edits an AlignedText.
#pragma once
#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include <heddle/base/utf8.hpp>
#include <heddle/text/aligned_text.hpp>
#include <heddle/text/basic_tokenizer.hpp>
#include <heddle/text/normal_forms.hpp>
#include <heddle/text/precompiled_map.hpp>
#include <heddle/text/properties.hpp>
#include <heddle/text/split_pattern.hpp>

namespace heddle::text {

namespace detail {

// Calls f(c, size) for each character for which keeps(c) is false; f replaces or skips it. Copies runs of kept
// characters as a whole, and does not edit a text of kept characters alone.
template <class Keeps, class F>
void edit_characters(AlignedText& text, const Keeps& keeps, const F& f) {
  const std::string_view before = text.text();
  const char *at = before.data(), *const end = at + before.size(), *copied = at;
  const auto bytes = [](const char* from, const char* to) { return static_cast<std::size_t>(to - from); };
  bool is_edited = false;
  while (at != end) {
    const char* const first = at;
    const char32_t c = decode_utf8(at, end);
    if (keeps(c)) continue;
    if (!is_edited) text.begin();
    is_edited = true;
    text.copy(bytes(copied, first));
    f(c, bytes(first, at));
    copied = at;
  }
  if (!is_edited) return;
  text.copy(bytes(copied, end));
  text.finish();
}

// Removes the characters for which keeps(c) is false.
template <class Keeps>
void filter(AlignedText& text, const Keeps& keeps) {
  edit_characters(text, keeps, [&](char32_t, std::size_t size) { text.skip(size); });
}

// Writes a text before the next character, which has `size` bytes, and that character. The source of both is that of
// the character.
inline void put_before(AlignedText& text, std::string_view added, char32_t next, std::size_t size) {
  bool is_first = true;
  for (const char *at = added.data(), *const end = at + added.size(); at != end; is_first = false) {
    const char32_t c = decode_utf8(at, end);
    is_first ? text.replace(c, size) : text.insert(c);
  }
  is_first ? text.copy(size) : text.insert(next);
}

}  // namespace detail

/// NFC, NFD, NFKC or NFKD.
struct NormalFormNormalizer {
  NormalForm form;  ///< the form

  /// Edits the text.
  void operator()(AlignedText& text) const {
    if (!changes(form, text.text())) return;
    const std::string_view before = text.text();
    text.begin();
    normalize(form, before, [&](char32_t c, int change) { text.apply(c, change); });
    text.finish();
  }
};

/// Lowercase: turns letters into lower case.
struct LowercaseNormalizer {
  /// Edits the text.
  void operator()(AlignedText& text) const {
    text.lower_ascii_in_place();
    detail::edit_characters(
        text, [](char32_t c) { return c < 0x80; },
        [&](char32_t c, std::size_t) {
          lower_case(c, [&](char32_t lower, int change) { text.apply(lower, change); });
        });
  }
};

/// StripAccents: drops combining marks.
struct StripAccentsNormalizer {
  /// Edits the text.
  void operator()(AlignedText& text) const {
    detail::filter(text, [](char32_t c) { return !has_property(c, property::accent); });
  }
};

/// BertNormalizer: the steps of BERT's tokenizer before words are cut, each of which is optional.
struct BertNormalizer {
  bool clean_text = true;            ///< drops control characters; turns white space into blanks
  bool handle_chinese_chars = true;  ///< puts blanks around ideographs
  bool strip_accents = true;         ///< decomposes (NFD) and drops nonspacing marks
  bool lowercase = true;             ///< turns letters into lower case

  /// Edits the text.
  void operator()(AlignedText& text) const {
    if (clean_text) clean(text);
    if (handle_chinese_chars) separate_ideographs(text);
    if (strip_accents) {
      NormalFormNormalizer{NormalForm::nfd}(text);
      detail::filter(text, [](char32_t c) { return !has_property(c, property::bert_accent); });
    }
    if (lowercase) LowercaseNormalizer()(text);
  }

 private:
  static void clean(AlignedText& text) {
    const auto is_kept = [](char32_t c) {
      return c == ' ' || !has_property(c, property::clean_dropped | property::clean_blank);
    };
    detail::edit_characters(text, is_kept, [&](char32_t c, std::size_t size) {
      has_property(c, property::clean_dropped) ? text.skip(size) : text.replace(' ', size);
    });
  }
  static void separate_ideographs(AlignedText& text) {
    detail::edit_characters(
        text, [](char32_t c) { return !detail::is_ideograph(c); },
        [&](char32_t c, std::size_t size) {
          detail::put_before(text, " ", c, size);
          text.insert(' ');
        });
  }
};

/// Strip: removes white space from the ends of the text.
struct StripNormalizer {
  bool left = true;   ///< removes it from the beginning
  bool right = true;  ///< removes it from the end

  /// Edits the text.
  void operator()(AlignedText& text) const {
    const std::string_view all = text.text();
    std::size_t first = all.size(), last = 0;  // the part without white space at its ends
    for (detail::Reader reader(all, 0); !reader.at_end();) {
      const std::size_t at = reader.position();
      const bool is_space = has_property(reader.peek(), property::white_space);
      reader.skip();
      if (is_space) continue;
      first = std::min(first, at);
      last = reader.position();
    }
    if (!left) first = 0;
    if (!right) last = all.size();
    if (first == 0 && last == all.size()) return;
    text.begin();
    text.skip(first);
    if (first < last) text.copy(last - first);
    text.finish();
  }
};

/// Prepend: puts a text before each text that is not empty.
struct PrependNormalizer {
  std::string added;  ///< the text to add

  /// Edits the text.
  void operator()(AlignedText& text) const {
    const std::string_view before = text.text();
    if (before.empty()) return;
    detail::Reader reader(before, 0);
    const char32_t first = reader.peek();
    reader.skip();
    text.begin();
    detail::put_before(text, added, first, reader.position());
    text.copy(before.size() - reader.position());
    text.finish();
  }
};

/// Replace: replaces each match of a pattern by a text.
struct ReplaceNormalizer {
  SplitPattern pattern;  ///< the parts to replace
  std::string by;        ///< the text in their place

  /// Edits the text.
  void operator()(AlignedText& text) const {
    const std::string_view before = text.text();
    std::optional<TextRange> match = pattern.find(before, 0);
    if (!match) return;
    text.begin();
    for (; match; match = pattern.find(before, match->end)) {
      text.copy(match->begin - text.position());
      text.skip(match->end - match->begin);
      for (const char *at = by.data(), *const end = at + by.size(); at != end;) text.insert(decode_utf8(at, end));
    }
    text.copy(before.size() - text.position());
    text.finish();
  }
};

/// Precompiled: applies the character map of a SentencePiece model, which copies of the tokenizer share.
struct PrecompiledNormalizer {
  std::shared_ptr<const PrecompiledMap> map;  ///< the map

  /// Edits the text.
  void operator()(AlignedText& text) const { (*map)(text); }
};

/// A normalizer.
using Normalizer = std::variant<BertNormalizer, NormalFormNormalizer, LowercaseNormalizer, StripAccentsNormalizer,
                                StripNormalizer, PrependNormalizer, ReplaceNormalizer, PrecompiledNormalizer>;

/// Applies normalizers in their order.
inline void normalize(const std::vector<Normalizer>& normalizers, AlignedText& text) {
  for (const Normalizer& normalizer : normalizers) std::visit([&](const auto& step) { step(text); }, normalizer);
}

}  // namespace heddle::text
