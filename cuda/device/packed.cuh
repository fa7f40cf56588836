// Neighboring elements of a thread, in dropouts and norms. If their address is a multiple of their size, they move in
// one access of 16 bytes; otherwise one by one.
#pragma once
#include <heddle/base/dropout_rule.hpp>

#include "access.cuh"

namespace heddle::cuda {

// The elements that one generator call of a dropout decides, and those of a thread that moves them one by one.
inline constexpr int eight = static_cast<int>(kernel::draws16_per_call);

// `count` elements in their stored form, as words, so that the compiler does not keep each bf16 in a separate register.
template <class T, int count>
struct Packed {
  static constexpr bool pairs = sizeof(T) * 2 == sizeof(std::uint32_t);  // whether a word holds two elements: bf16
  using Elements = Vector<T, count>;
  using Words = Vector<std::uint32_t, pairs ? count / 2 : count>;
  Words words;

  Packed() = default;
  __device__ explicit Packed(const Elements& elements) : words(__builtin_bit_cast(Words, elements)) {}
  __device__ float operator[](int i) const {
    if constexpr (pairs) {
      const std::uint32_t pair = words.at[i / 2];
      return __builtin_bit_cast(float, i % 2 ? pair & 0xffff0000u : pair << 16);
    } else {
      return __builtin_bit_cast(float, words.at[i]);
    }
  }
  __device__ Elements elements() const { return __builtin_bit_cast(Elements, words); }
  __device__ static Packed rounded(const float (&values)[count]) {
    Packed made;
    if constexpr (pairs)
      for (int i = 0; i < count / 2; ++i) made.words.at[i] = round_pair(values[2 * i], values[2 * i + 1]);
    else
      for (int i = 0; i < count; ++i) made.words.at[i] = __builtin_bit_cast(std::uint32_t, values[i]);
    return made;
  }
};

// Loads `count` elements from `from` on. Only the first `valid` exist; the others become 0. With `vectors`, either all
// of them exist or none.
template <bool vectors, int count, class T, class I>
__device__ Packed<T, count> load_packed(const T* from, I valid) {
  if constexpr (vectors) {
    return valid > 0 ? Packed<T, count>(load_vector<count>(from)) : Packed<T, count>{};
  } else {
    typename Packed<T, count>::Elements elements{};
    for (int i = 0; i < count; ++i)
      if (i < valid) elements.at[i] = from[i];
    return Packed<T, count>(elements);
  }
}
template <bool vectors, int count, class T, class I>
__device__ void store_packed(T* to, I valid, const Packed<T, count>& values) {
  const auto elements = values.elements();
  if constexpr (vectors) {
    if (valid > 0) store_global(to, elements);
  } else {
    for (int i = 0; i < count; ++i)
      if (i < valid) to[i] = elements.at[i];
  }
}

// Writes the factors of a dropout for `count` elements from e on: 0 or the rule's scale. With `one_call`, e is a
// multiple of `count` and one generator call suffices. Otherwise two calls are made, and the first e % 8 draws are
// skipped.
template <bool one_call, int count>
__device__ void dropout_factors(const kernel::ElementDropout& drop, Index e, float (&factors)[count]) {
  constexpr int calls = one_call ? 1 : 2, words = 4 * calls;  // a call draws four words
  static_assert(eight % count == 0);
  const auto first = static_cast<std::uint64_t>(e);
  const std::uint64_t first_call = drop.draws.calls_further() + first / eight;
  std::uint32_t w[words];
  for (int call = 0; call < calls; ++call) {
    const kernel::PhiloxWords drawn = drop.draws(first_call + static_cast<unsigned>(call));
    for (int i = 0; i < 4; ++i) w[call * 4 + i] = drawn.w[i];
  }
  // The words move in up to three steps, so that each index is known to the compiler.
  if constexpr (!one_call || count < eight)
    for (int i = 0; i + 2 < words; ++i) w[i] = first & 4 ? w[i + 2] : w[i];
  if constexpr (!one_call) {
    for (int i = 0; i + 1 < words; ++i) w[i] = first & 2 ? w[i + 1] : w[i];
    for (int i = 0; i < words / 2; ++i) w[i] = first & 1 ? w[i] >> 16 | w[i + 1] << 16 : w[i];
  }
  for (int i = 0; i < count; ++i) {
    const std::uint32_t draw = w[i / 2] >> (i % 2 * 16) & 0xffffu;
    factors[i] = drop.rule.keeps(draw) ? drop.rule.scale : 0.f;
  }
}

}  // namespace heddle::cuda
