// Extended grapheme clusters (Unicode Standard Annex 29), as the Rust crate unicode-segmentation finds them. The
// normalizer Precompiled replaces whole clusters.
#pragma once
#include <cstddef>
#include <string_view>

#include <heddle/base/utf8.hpp>
#include <heddle/text/properties.hpp>

namespace heddle::text {

namespace detail {

// The characters of a cluster so far.
class GraphemeCluster {
 public:
  explicit GraphemeCluster(GraphemeClass first) { append(first); }

  // Returns whether the cluster goes on with a character: rules GB3 to GB13.
  bool continues_with(GraphemeClass next) const {
    using enum GraphemeClass;
    if (is_control(last_)) return last_ == cr && next == lf;
    if (is_control(next)) return false;
    if (is_extend(next) || next == zwj || next == spacing_mark || last_ == prepend) return true;
    switch (next) {
      case l:
      case lv:
      case lvt: return last_ == l;
      case v: return last_ == l || last_ == lv || last_ == v;
      case t: return last_ == lv || last_ == v || last_ == lvt || last_ == t;
      case pictographic: return emoji_ == Emoji::joined;
      case consonant: return conjunct_ == Conjunct::linked;
      case regional_indicator: return last_ == regional_indicator && has_odd_regional_indicators_;
      default: return false;
    }
  }

  void append(GraphemeClass next) {
    using enum GraphemeClass;
    if (next == pictographic)
      emoji_ = Emoji::open;
    else if (!(is_extend(next) && emoji_ == Emoji::open))
      emoji_ = next == zwj && emoji_ == Emoji::open ? Emoji::joined : Emoji::none;
    if (next == consonant)
      conjunct_ = Conjunct::open;
    else if (next == linker && conjunct_ != Conjunct::none)
      conjunct_ = Conjunct::linked;
    else if (next != conjunct_extend && next != zwj)
      conjunct_ = Conjunct::none;
    has_odd_regional_indicators_ = next == regional_indicator && !has_odd_regional_indicators_;
    last_ = next;
  }

 private:
  enum class Emoji { none, open, joined };     // GB11: a pictographic character and marks; a joiner behind them
  enum class Conjunct { none, open, linked };  // GB9c: a consonant and marks; a linker among them

  static bool is_control(GraphemeClass c) {
    return c == GraphemeClass::control || c == GraphemeClass::cr || c == GraphemeClass::lf;
  }
  static bool is_extend(GraphemeClass c) {
    return c == GraphemeClass::extend || c == GraphemeClass::conjunct_extend || c == GraphemeClass::linker;
  }

  GraphemeClass last_{};
  Emoji emoji_ = Emoji::none;
  Conjunct conjunct_ = Conjunct::none;
  bool has_odd_regional_indicators_ = false;
};

}  // namespace detail

/// Returns the number of bytes of the first extended grapheme cluster of a text, or 0 for an empty one. Clusters of
/// Indic conjuncts (GB9c) are not divided. Invalid UTF-8 is read as decode_utf8() reads it.
inline std::size_t grapheme_size(std::string_view text) {
  if (text.empty()) return 0;
  const auto is_ascii = [](char c) { return static_cast<unsigned char>(c) < 0x80; };
  if (is_ascii(text[0]) && (text.size() == 1 || is_ascii(text[1]))) return text.starts_with("\r\n") ? 2 : 1;
  const Properties& properties = Properties::get();
  const char *at = text.data(), *const end = at + text.size();
  detail::GraphemeCluster cluster(properties.grapheme_class(decode_utf8(at, end)));
  while (at != end) {
    const char* next = at;
    const GraphemeClass grapheme_class = properties.grapheme_class(decode_utf8(next, end));
    if (!cluster.continues_with(grapheme_class)) break;
    cluster.append(grapheme_class);
    at = next;
  }
  return static_cast<std::size_t>(at - text.data());
}

}  // namespace heddle::text
