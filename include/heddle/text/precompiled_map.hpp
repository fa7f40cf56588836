// PrecompiledMap: the character map of a SentencePiece model, which the normalizer Precompiled of the Rust tokenizers
// library applies.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/base/error.hpp>
#include <heddle/base/utf8.hpp>
#include <heddle/text/aligned_text.hpp>
#include <heddle/text/graphemes.hpp>

namespace heddle::text {

/// A map of characters and short grapheme clusters to texts. Several threads may call const functions at once.
class PrecompiledMap {
 public:
  /// Takes the bytes of `precompiled_charsmap`: the size of a trie in bytes (32 bits, little-endian), the trie (units
  /// of 32 bits, as Darts-clone writes them), and the texts, each of which a NUL byte ends. @throws Error for bytes of
  /// another form.
  explicit PrecompiledMap(std::string_view bytes) {
    const auto word = [&](std::size_t at) {
      std::uint32_t value = 0;
      for (std::size_t i = 4; i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[at + i]);
      return value;
    };
    require(bytes.size() >= 4, "PrecompiledMap: has ", bytes.size(), " bytes; its trie's size takes 4");
    const std::size_t size = word(0);
    require(size % 4 == 0 && size > 0 && size <= bytes.size() - 4, "PrecompiledMap: its trie has ", size,
            " bytes; they must be a multiple of 4 from 4 to ", bytes.size() - 4);
    for (std::size_t at = 0; at < size; at += 4) units_.push_back(word(4 + at));
    texts_ = bytes.substr(4 + size);
    require(is_utf8(texts_), "PrecompiledMap: its texts are not valid UTF-8");
    for (std::size_t c = 0; c < ascii_.size(); ++c) {
      const char character = static_cast<char>(c);
      ascii_[c] = find({&character, 1}).has_value();
    }
  }

  /// Replaces grapheme clusters of fewer than 6 bytes, and otherwise single characters, by their texts. As in the
  /// library, a cluster takes the text of the shortest of its beginnings that the map has.
  void operator()(AlignedText& text) const {
    const std::string_view all = text.text();
    thread_local std::vector<std::pair<char32_t, int>> changes;
    changes.clear();
    bool is_changed = false;
    const auto replace = [&](std::string_view part) {
      const std::optional<std::string_view> by = find(part);
      if (by) append(changes, count(part), *by);
      is_changed = is_changed || by;
      return by.has_value();
    };
    for (std::size_t begin = 0; begin < all.size();) {
      if (is_plain(all, begin)) {
        changes.emplace_back(static_cast<unsigned char>(all[begin++]), 0);
        continue;
      }
      const std::string_view cluster = all.substr(begin, grapheme_size(all.substr(begin)));
      begin += cluster.size();
      constexpr std::size_t longest_cluster = 5;
      if (cluster.size() <= longest_cluster && replace(cluster)) continue;
      for (const char *at = cluster.data(), *const end = at + cluster.size(); at != end;) {
        const char* const first = at;
        const char32_t c = decode_utf8(at, end);
        if (!replace({first, static_cast<std::size_t>(at - first)})) changes.emplace_back(c, 0);
      }
    }
    if (!is_changed) return;
    text.begin();
    for (const auto& [c, change] : changes) text.apply(c, change);
    text.finish();
  }

 private:
  // Returns whether the next character is ASCII, alone in its cluster, and not in the map.
  bool is_plain(std::string_view text, std::size_t at) const {
    const auto is_ascii = [&](std::size_t i) { return static_cast<unsigned char>(text[i]) < 0x80; };
    return is_ascii(at) && text[at] != '\r' && !ascii_[static_cast<unsigned char>(text[at])] &&
           (at + 1 == text.size() || is_ascii(at + 1));
  }

  static int count(std::string_view text) {
    int characters = 0;
    for (const char byte : text) characters += (static_cast<unsigned char>(byte) & 0xC0) != 0x80;
    return characters;
  }

  // Appends a text that replaces `old_count` characters. Characters that are added come last; those that are removed
  // follow the last one, even if it was appended for another text.
  static void append(std::vector<std::pair<char32_t, int>>& changes, int old_count, std::string_view text) {
    int left = old_count;
    for (const char *at = text.data(), *const end = at + text.size(); at != end; --left)
      changes.emplace_back(decode_utf8(at, end), left > 0 ? 0 : 1);
    if (left > 0 && !changes.empty()) changes.back().second -= left;
  }

  // Returns the text of the shortest beginning of `key` that the map has.
  std::optional<std::string_view> find(std::string_view key) const {
    const auto offset = [](std::uint32_t unit) { return (unit >> 10) << ((unit & (1u << 9)) >> 6); };
    std::size_t node = offset(units_[0]);
    for (const char c : key) {
      const auto byte = static_cast<unsigned char>(c);
      if (byte == 0) break;
      node ^= byte;
      if (node >= units_.size()) return std::nullopt;
      const std::uint32_t unit = units_[node];
      if ((unit & (1u << 31 | 0xFF)) != byte) return std::nullopt;
      node ^= offset(unit);
      if ((unit >> 8 & 1) == 0) continue;
      if (node >= units_.size()) return std::nullopt;
      const std::size_t begin = units_[node] & ((1u << 31) - 1);
      if (begin > texts_.size()) return std::nullopt;
      return std::string_view(texts_).substr(begin, std::string_view(texts_).find('\0', begin) - begin);
    }
    return std::nullopt;
  }

  std::vector<std::uint32_t> units_;
  std::string texts_;
  std::array<bool, 0x80> ascii_;  // whether the map has the character
};

}  // namespace heddle::text
