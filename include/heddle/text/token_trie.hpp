// TokenTrie: finds all tokens with which a text begins, in one pass over its bytes.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace heddle::text {

/// A trie of tokens as a double array (Aoe, "An efficient digital search algorithm by using a double-array structure",
/// 1989): the child of node n for byte b is node base[n] + b, if the parent of that one is n.
class TokenTrie {
 public:
  TokenTrie() = default;
  /// Takes tokens with their values, which are at least 0. If a token is given twice, its last value counts. Empty
  /// tokens are left out.
  explicit TokenTrie(std::vector<std::pair<std::string_view, std::int32_t>> tokens) {
    std::stable_sort(tokens.begin(), tokens.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
    nodes_.resize(512);
    nodes_[root].parent = root;
    struct Range {
      std::size_t first, last, depth;
      std::uint32_t node;
    };
    std::vector<Range> open{{0, tokens.size(), 0, root}};
    std::vector<Range> children;
    // Free nodes are taken from `free` on. Those more than `window` nodes before the last one stay free, because
    // looking for a place among few of them would take most of the time.
    constexpr std::uint32_t window = 1024;
    std::uint32_t free = 1, last = 0;
    while (!open.empty()) {
      Range range = open.back();
      open.pop_back();
      for (; range.first < range.last && tokens[range.first].first.size() == range.depth; ++range.first)
        if (range.depth > 0) nodes_[range.node].value = tokens[range.first].second;
      children.clear();
      for (std::size_t i = range.first; i < range.last; ++i)
        if (i == range.first || byte_at(tokens[i].first, range.depth) != byte_at(tokens[i - 1].first, range.depth))
          children.push_back({i, range.last, range.depth + 1, byte_at(tokens[i].first, range.depth)});
      if (children.empty()) continue;
      for (std::size_t c = 0; c + 1 < children.size(); ++c) children[c].last = children[c + 1].first;
      free = std::max(free, last > window ? last - window : 1);
      while (is_taken(free)) ++free;
      std::uint32_t base = free > children[0].node ? free - children[0].node : 1;
      while (std::any_of(children.begin(), children.end(), [&](const Range& c) { return is_taken(base + c.node); }))
        ++base;
      nodes_.resize(std::max<std::size_t>(nodes_.size(), std::size_t{base} + 512));
      nodes_[range.node].base = base;
      for (Range& child : children) {
        child.node += base;
        last = std::max(last, child.node);
        nodes_[child.node].parent = range.node;
      }
      open.insert(open.end(), children.rbegin(), children.rend());
    }
  }

  /// Calls f(value, size) for each token with which the text begins, shorter ones first.
  template <class F>
  void prefixes(std::string_view text, F&& f) const {
    if (nodes_.empty()) return;
    std::uint32_t node = root;
    for (std::size_t i = 0; i < text.size(); ++i) {
      const std::uint32_t child = nodes_[node].base + static_cast<unsigned char>(text[i]);
      if (nodes_[node].base == 0 || nodes_[child].parent != node) return;
      node = child;
      if (nodes_[node].value >= 0) f(nodes_[node].value, i + 1);
    }
  }

 private:
  static constexpr std::uint32_t root = 0, unused = ~std::uint32_t{0};
  struct Node {
    std::uint32_t base = 0;  // 0 if it has no children
    std::uint32_t parent = unused;
    std::int32_t value = -1;
  };

  static unsigned char byte_at(std::string_view token, std::size_t i) { return static_cast<unsigned char>(token[i]); }
  bool is_taken(std::uint32_t node) const { return node < nodes_.size() && nodes_[node].parent != unused; }

  std::vector<Node> nodes_;
};

}  // namespace heddle::text
