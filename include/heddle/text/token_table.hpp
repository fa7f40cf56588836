// TokenTable: the tokens of a model with their ids. Unlike Vocabulary, it holds tokens with any bytes, and ids with
// gaps.
#pragma once
#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/text/byte_hash.hpp>

namespace heddle::text {

/// Tokens and their ids, which are at least 0. If a token is added twice, the last id counts.
class TokenTable {
 public:
  static constexpr std::int32_t none = -1;  ///< the id of no token

  /// Adds a token.
  void add(std::string_view token, std::int32_t id) {
    if (4 * (entries_.size() + 1) > 3 * slots_.size()) grow();
    const std::uint64_t h = detail::byte_hash(token);
    for (std::size_t i = h & (slots_.size() - 1);; i = (i + 1) & (slots_.size() - 1)) {
      Slot& slot = slots_[i];
      if (slot.entry == none) {
        slot = {static_cast<std::uint32_t>(h >> 32), static_cast<std::int32_t>(entries_.size())};
        entries_.push_back({text_.size(), static_cast<std::uint32_t>(token.size()), id});
        text_ += token;
        longest_ = std::max(longest_, token.size());
        return;
      }
      if (slot.tag == h >> 32 && text(slot.entry) == token) {
        entry(slot.entry).id = id;
        return;
      }
    }
  }

  /// Returns the token's id, or `none`.
  std::int32_t find(std::string_view token) const {
    if (slots_.empty() || token.size() > longest_) return none;
    const std::uint64_t h = detail::byte_hash(token);
    for (std::size_t i = h & (slots_.size() - 1); slots_[i].entry != none; i = (i + 1) & (slots_.size() - 1))
      if (slots_[i].tag == h >> 32 && text(slots_[i].entry) == token) return entry(slots_[i].entry).id;
    return none;
  }

  /// Returns the number of distinct tokens.
  std::size_t size() const { return entries_.size(); }
  /// Returns the number of bytes of the longest token.
  std::size_t longest() const { return longest_; }

  /// Calls f(token, id) for each token, in the order in which they were added.
  template <class F>
  void for_each(F&& f) const {
    for (std::size_t i = 0; i < entries_.size(); ++i) f(text(static_cast<std::int32_t>(i)), entries_[i].id);
  }

 private:
  struct Entry {
    std::size_t begin;
    std::uint32_t size;
    std::int32_t id;
  };
  struct Slot {
    std::uint32_t tag = 0;      // the upper half of the hash, which does not choose the slot
    std::int32_t entry = none;  // the number of the token
  };

  const Entry& entry(std::int32_t i) const { return entries_[static_cast<std::size_t>(i)]; }
  Entry& entry(std::int32_t i) { return entries_[static_cast<std::size_t>(i)]; }
  std::string_view text(std::int32_t i) const { return std::string_view(text_).substr(entry(i).begin, entry(i).size); }

  void grow() {
    slots_.assign(std::max<std::size_t>(64, 2 * slots_.size()), Slot());
    for (std::size_t e = 0; e < entries_.size(); ++e) {
      const std::uint64_t h = detail::byte_hash(text(static_cast<std::int32_t>(e)));
      std::size_t i = h & (slots_.size() - 1);
      while (slots_[i].entry != none) i = (i + 1) & (slots_.size() - 1);
      slots_[i] = {static_cast<std::uint32_t>(h >> 32), static_cast<std::int32_t>(e)};
    }
  }

  std::string text_;
  std::vector<Entry> entries_;
  std::vector<Slot> slots_;
  std::size_t longest_ = 0;
};

}  // namespace heddle::text
