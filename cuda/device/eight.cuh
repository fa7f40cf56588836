// Eight neighboring elements: a thread's share of the work in dropouts and norms. One generator call of a dropout draws
// for eight elements. If their address is a multiple of their size, they move in 16-byte accesses, one for bf16 and two
// for float; otherwise one by one.
#pragma once
#include <heddle/base/dropout_rule.hpp>

#include "access.cuh"

namespace heddle::cuda {

inline constexpr int eight = static_cast<int>(kernel::draws16_per_call);

// Eight elements in their stored form, as words, so that the compiler does not keep each bf16 in a separate register.
template <class T>
struct Eight {
  static constexpr bool pairs = sizeof(T) * 2 == sizeof(std::uint32_t);  // whether a word holds two elements: bf16
  using Elements = Vector<T, eight>;
  using Words = Vector<std::uint32_t, pairs ? eight / 2 : eight>;
  Words words;

  __device__ float operator[](int i) const {
    if constexpr (pairs) {
      const std::uint32_t pair = words.at[i / 2];
      return __builtin_bit_cast(float, i % 2 ? pair & 0xffff0000u : pair << 16);
    } else {
      return __builtin_bit_cast(float, words.at[i]);
    }
  }
  __device__ static Eight rounded(const float (&values)[eight]) {
    Eight made;
    if constexpr (pairs)
      for (int i = 0; i < eight / 2; ++i) made.words.at[i] = round_pair(values[2 * i], values[2 * i + 1]);
    else
      for (int i = 0; i < eight; ++i) made.words.at[i] = __builtin_bit_cast(std::uint32_t, values[i]);
    return made;
  }
};

// Loads eight elements from `from` on. Only the first `valid` exist; the others become 0. With `vectors`, either all
// eight exist or none.
template <bool vectors, class T, class I>
__device__ Eight<T> load_eight(const T* from, I valid) {
  using Words = typename Eight<T>::Words;
  Eight<T> loaded{};
  if constexpr (vectors) {
    if (valid > 0) loaded.words = __builtin_bit_cast(Words, load_vector<eight>(from));
  } else {
    typename Eight<T>::Elements elements{};
    for (int i = 0; i < eight; ++i)
      if (i < valid) elements.at[i] = from[i];
    loaded.words = __builtin_bit_cast(Words, elements);
  }
  return loaded;
}
template <bool vectors, class T, class I>
__device__ void store_eight(T* to, I valid, const Eight<T>& values) {
  const auto elements = __builtin_bit_cast(typename Eight<T>::Elements, values.words);
  if constexpr (vectors) {
    if (valid > 0) store_global(to, elements);
  } else {
    for (int i = 0; i < eight; ++i)
      if (i < valid) to[i] = elements.at[i];
  }
}

// Writes the factors of a dropout for elements e to e + 7: 0 or the rule's scale. With `whole_calls`, e is a multiple
// of eight and one generator call suffices; otherwise two calls are made, and their first e % 8 draws are skipped.
template <bool whole_calls>
__device__ void dropout_factors(const kernel::ElementDropout& drop, Index e, float (&factors)[eight]) {
  constexpr int words = 4;  // words of a generator call
  const auto first = static_cast<std::uint64_t>(e);
  const std::uint64_t first_call = drop.draws.calls_further() + first / eight;
  std::uint32_t w[whole_calls ? words : 2 * words];
  for (int call = 0; call < (whole_calls ? 1 : 2); ++call) {
    const kernel::PhiloxWords drawn = drop.draws(first_call + static_cast<unsigned>(call));
    for (int i = 0; i < words; ++i) w[call * words + i] = drawn.w[i];
  }
  if constexpr (!whole_calls) {  // in three steps, so that each index is known to the compiler
    for (int i = 0; i + 2 < 2 * words; ++i) w[i] = first & 4 ? w[i + 2] : w[i];
    for (int i = 0; i + 1 < 2 * words; ++i) w[i] = first & 2 ? w[i + 1] : w[i];
    for (int i = 0; i < words; ++i) w[i] = first & 1 ? w[i] >> 16 | w[i + 1] << 16 : w[i];
  }
  for (int i = 0; i < eight; ++i) {
    const std::uint32_t draw = w[i / 2] >> (i % 2 * 16) & 0xffffu;
    factors[i] = drop.rule.keeps(draw) ? drop.rule.scale : 0.f;
  }
}

}  // namespace heddle::cuda
