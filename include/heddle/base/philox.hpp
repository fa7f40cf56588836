// Philox 4x32-10, a counter-based generator (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011): 128
// random bits are a pure function of a 128-bit counter and a 64-bit key, so that the host and the GPU draw the same
// numbers in any order. cuRAND is not used: it needs CUDA even to draw on the host, and its device generators order
// their draws by thread.
#pragma once
#include <heddle/base/build.hpp>

namespace heddle::kernel {

// The four random words of one call.
struct PhiloxWords {
  std::uint32_t w[4];
};

// The words of n calls, transposed: w[j][i] is word j of call i, so that loops over i vectorize.
template <int n>
struct PhiloxLanes {
  std::uint32_t w[4][unsigned{n}];
};

inline constexpr int philox_rounds = 10;

// The key of a round. That of the first round is given as the two halves of 64 bits.
struct PhiloxKey {
  std::uint32_t lower, upper;

  HEDDLE_HD void advance() {
    lower += 0x9e3779b9u;
    upper += 0xbb67ae85u;
  }
};

// The keys of all rounds. A GPU reads them as constants, which is faster than computing them; a CPU computes them.
struct PhiloxKeys {
  PhiloxKey of_round[philox_rounds];

  explicit PhiloxKeys(PhiloxKey key) {
    for (PhiloxKey& of : of_round) {
      of = key;
      key.advance();
    }
  }
};

// One round on n counters.
template <int n>
HEDDLE_HD void philox_round(PhiloxLanes<n>& counters, PhiloxKey key) {
  auto& w = counters.w;
  for (int i = 0; i < n; ++i) {
    const std::uint64_t a = std::uint64_t{0xd2511f53u} * w[0][i];
    const std::uint64_t b = std::uint64_t{0xcd9e8d57u} * w[2][i];
    w[0][i] = static_cast<std::uint32_t>(b >> 32) ^ w[1][i] ^ key.lower;
    w[1][i] = static_cast<std::uint32_t>(b);
    w[2][i] = static_cast<std::uint32_t>(a >> 32) ^ w[3][i] ^ key.upper;
    w[3][i] = static_cast<std::uint32_t>(a);
  }
}

// Replaces n counters by their random words.
template <int n>
HEDDLE_HD void philox(PhiloxLanes<n>& counters, PhiloxKey key) {
  for (int round = 0; round < philox_rounds; ++round) {
    philox_round(counters, key);
    key.advance();
  }
}

// Returns the random words of one counter.
HEDDLE_HD inline PhiloxWords philox(PhiloxWords counter, std::uint32_t key0, std::uint32_t key1) {
  PhiloxLanes<1> one{{{counter.w[0]}, {counter.w[1]}, {counter.w[2]}, {counter.w[3]}}};
  philox(one, {key0, key1});
  return {{one.w[0][0], one.w[1][0], one.w[2][0], one.w[3][0]}};
}

// The calls that one operation took from a generator. Call i is a function of (seed, stream, first + i).
struct Draws {
  std::uint64_t seed, stream, first;
  // Null, except in a recorded run of a cuda::Graph: there it points to GPU memory that holds how many calls further a
  // replay begins.
  const std::uint64_t* further = nullptr;

  // Returns how many calls further the replay begins. For kernels on the GPU.
  HEDDLE_HD std::uint64_t calls_further() const { return further ? *further : 0; }

  HEDDLE_HD PhiloxKey key() const { return {static_cast<std::uint32_t>(seed), static_cast<std::uint32_t>(seed >> 32)}; }

  // Returns the words of call i. Any thread may ask for any call.
  HEDDLE_HD PhiloxWords operator()(std::uint64_t i) const {
    PhiloxLanes<1> one;
    many<1>([i](int) { return i; }, one);
    return {{one.w[0][0], one.w[1][0], one.w[2][0], one.w[3][0]}};
  }
  // Returns the words of call i. `keys` are PhiloxKeys(key()), computed once for many calls.
  HEDDLE_HD PhiloxWords operator()(std::uint64_t i, const PhiloxKeys& keys) const {
    PhiloxLanes<1> one;
    set_counters<1>([i](int) { return i; }, one);
    for (const PhiloxKey& of_round : keys.of_round) philox_round(one, of_round);
    return {{one.w[0][0], one.w[1][0], one.w[2][0], one.w[3][0]}};
  }

  // Computes the words of calls number(0) to number(n - 1).
  HEDDLE_FORMULA template <int n, class Number>
  HEDDLE_HD void many(Number number, PhiloxLanes<n>& words) const {
    set_counters<n>(number, words);
    philox(words, key());
  }

 private:
  HEDDLE_FORMULA template <int n, class Number>
  HEDDLE_HD void set_counters(Number number, PhiloxLanes<n>& counters) const {
    for (int i = 0; i < n; ++i) {
      const std::uint64_t at = first + number(i);
      counters.w[0][i] = static_cast<std::uint32_t>(at);
      counters.w[1][i] = static_cast<std::uint32_t>(at >> 32);
      counters.w[2][i] = static_cast<std::uint32_t>(stream);
      counters.w[3][i] = static_cast<std::uint32_t>(stream >> 32);
    }
  }
};

// The number of 16-bit draws of one call.
inline constexpr Index draws16_per_call = 8;

// Returns 16-bit draw e (0 to 7) of one call.
HEDDLE_HD inline std::uint32_t draw16(const PhiloxWords& words, int e) {
  return words.w[e / 2] >> (e % 2 * 16) & 0xffffu;
}
// Returns 16-bit draw e of call i.
template <int n>
HEDDLE_HD std::uint32_t draw16(const PhiloxLanes<n>& words, int i, int e) {
  return words.w[e / 2][i] >> (e % 2 * 16) & 0xffffu;
}

}  // namespace heddle::kernel
