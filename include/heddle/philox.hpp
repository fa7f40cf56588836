// Philox 4x32-10, a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): 128 random bits
// are a pure function of a 128-bit counter and a 64-bit key, so host and device draw the same, in any order.
#pragma once
#include <heddle/view.hpp>

namespace heddle {

// One draw.
struct Words {
  std::uint32_t w[4];
};

// n counters at once: w[j][i] is word j of counter i, so that a compiler makes vectors of the loops over i.
template <int n>
struct WordColumns {
  std::uint32_t w[4][n];
};

// Ten rounds of each; the keys are the two halves of one of 64 bits.
template <int n>
HEDDLE_HD void philox(WordColumns<n>& counters, std::uint32_t key0, std::uint32_t key1) {
  auto& w = counters.w;
  for (int round = 0; round < 10; ++round) {
    for (int i = 0; i < n; ++i) {
      const std::uint64_t a = std::uint64_t{0xd2511f53u} * w[0][i];
      const std::uint64_t b = std::uint64_t{0xcd9e8d57u} * w[2][i];
      w[0][i] = static_cast<std::uint32_t>(b >> 32) ^ w[1][i] ^ key0;
      w[1][i] = static_cast<std::uint32_t>(b);
      w[2][i] = static_cast<std::uint32_t>(a >> 32) ^ w[3][i] ^ key1;
      w[3][i] = static_cast<std::uint32_t>(a);
    }
    key0 += 0x9e3779b9u;
    key1 += 0xbb67ae85u;
  }
}

// The same of one.
HEDDLE_HD inline Words philox(Words counter, std::uint32_t key0, std::uint32_t key1) {
  WordColumns<1> one{{{counter.w[0]}, {counter.w[1]}, {counter.w[2]}, {counter.w[3]}}};
  philox(one, key0, key1);
  return {{one.w[0][0], one.w[1][0], one.w[2][0], one.w[3][0]}};
}

// The draws that one operation took: call i of them is a function of (seed, stream, first + i).
struct Draws {
  std::uint64_t seed, stream, first;

  // Call i, of any thread and in any order.
  HEDDLE_HD Words operator()(std::uint64_t i) const {
    WordColumns<1> one;
    many<1>([i](int) { return i; }, one);
    return {{one.w[0][0], one.w[1][0], one.w[2][0], one.w[3][0]}};
  }

  // Calls number(0) to number(n - 1).
  template <int n, class Number>
  HEDDLE_HD void many(Number number, WordColumns<n>& words) const {
    for (int i = 0; i < n; ++i) {
      const std::uint64_t at = first + number(i);
      words.w[0][i] = static_cast<std::uint32_t>(at);
      words.w[1][i] = static_cast<std::uint32_t>(at >> 32);
      words.w[2][i] = static_cast<std::uint32_t>(stream);
      words.w[3][i] = static_cast<std::uint32_t>(stream >> 32);
    }
    philox(words, static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32));
  }
};

// Draw e of the eight 16-bit draws in one call.
HEDDLE_HD inline std::uint32_t draw16(const Words& words, int e) { return words.w[e / 2] >> (e % 2 * 16) & 0xffffu; }
// The same of call i.
template <int n>
HEDDLE_HD std::uint32_t draw16(const WordColumns<n>& words, int i, int e) {
  return words.w[e / 2][i] >> (e % 2 * 16) & 0xffffu;
}

// Dropout with a probability that is a multiple of 1/65,536: an element is dropped when its 16-bit draw is below `threshold`,
// and a kept one is multiplied by `scale`, the exact inverse of the probability to keep.
struct DropoutRule {
  std::uint32_t threshold = 0;
  float scale = 1;

  // Drops nothing; or with probability p in [0, 1), rounded to the nearest multiple. dropout_rule checks it.
  DropoutRule() = default;
  explicit DropoutRule(double p)
      : threshold(static_cast<std::uint32_t>(p * 65536 + 0.5)),
        scale(static_cast<float>(65536.0 / (65536.0 - threshold))) {}
  // What a 16-bit draw decides.
  HEDDLE_HD bool keeps(std::uint32_t draw) const { return draw >= threshold; }
};

// The dropout of one operation's elements: element e is decided by draw e % 8 of call e / 8. A threshold of 0 drops nothing.
struct Dropped {
  DropoutRule rule;
  Draws draws;
};
constexpr Index draws_per_call = 8;  // of 16 bits

}  // namespace heddle
