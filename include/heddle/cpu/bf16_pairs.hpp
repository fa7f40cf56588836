// Pairs of bf16. A processor with AVX-512 BF16 multiplies two pairs and adds both products to a float, in one
// instruction that takes as long as one product of floats.
#pragma once
#include <heddle/cpu/packets.hpp>
#include <heddle/cpu/vector.hpp>

namespace heddle::kernel {

// Whether tiles of T are multiplied as pairs of bf16, and not as floats.
#if defined(__AVX512BF16__)
template <class T>
inline constexpr bool multiplies_pairs = std::is_same_v<T, bf16>;
#else
template <class T>
inline constexpr bool multiplies_pairs = false;
#endif

// A pair in the storage of a float, so that tiles of floats and of pairs share their code. The first bf16 has the lower
// bits.
using Bf16Pair = float;

// Returns the number of pairs that hold n elements. The last one of an odd n ends with 0.
constexpr Index pairs(Index n) { return (n + 1) / 2; }

// Returns floats rounded to bf16, as words of 32 bits. Subnormal results are 0 with AVX-512 BF16, as in its products.
inline Words rounded_words(Floats x) {
#if defined(__AVX512BF16__)
  return __builtin_convertvector(reinterpret_cast<Halves>(_mm512_cvtneps_pbh(reinterpret_cast<__m512>(x))), Words);
#else
  return __builtin_convertvector(narrowed(x), Words);
#endif
}
inline Words words_of(const bf16* x) {
  Halves halves;
  std::memcpy(&halves, x, sizeof halves);
  return __builtin_convertvector(halves, Words);
}
inline Words words_of(const float* x) { return rounded_words(load_vector<float>(x).lanes); }

// Copies x to pairs of neighbors in a row: [x.rows, pairs(x.width)].
inline void pair_columns(MatrixView<const bf16> x, MatrixView<Bf16Pair> to) {
  for (Index n = 0; n < x.rows; ++n) {
    if (x.width % 2 != 0) to(n, x.width / 2) = 0;
    std::memcpy(&to(n, 0), &x(n, 0), static_cast<std::size_t>(x.width) * sizeof(bf16));
  }
}
// Rounds a tile of floats to such pairs. The rows of the tile are padded to whole vectors; after an odd number of
// columns the padding begins with a finite number.
inline void pair_columns(MatrixView<const float> x, MatrixView<Bf16Pair> to) {
  for (Index n = 0; n < x.rows; ++n)
    for (Index d = 0; d < x.width; d += Vector<float>::width) {
      const Halves halves = __builtin_convertvector(words_of(&x(n, d)), Halves);
      std::memcpy(&to(n, d / 2), &halves, sizeof halves);
    }
}

// Copies x, rounded if it is float, to pairs of neighbors in a column: [pairs(x.rows), x.width].
template <class T>
void pair_rows(MatrixView<const T> x, MatrixView<Bf16Pair> to) {
  for (Index n = 0; n < x.rows; n += 2) {
    const T *const first = &x(n, 0), *const second = n + 1 < x.rows ? &x(n + 1, 0) : nullptr;
    Index d = 0;
    for (; d + Vector<float>::width <= x.width; d += Vector<float>::width) {
      const Words words = words_of(first + d) | (second ? words_of(second + d) << 16 : Words{});
      std::memcpy(&to(n / 2, d), &words, sizeof words);
    }
    for (; d < x.width; ++d) {
      const std::uint32_t low = bf16(first[d]).bits, high = second ? bf16(second[d]).bits : 0;
      to(n / 2, d) = __builtin_bit_cast(float, low | high << 16);
    }
  }
}

// Returns sum + the two products of each pair of a and b.
#if defined(__AVX512BF16__)
inline Packet<float> add_products_of_pairs(Packet<float> a, Packet<float> b, Packet<float> sum) {
  return _mm512_dpbf16_ps(sum, reinterpret_cast<__m512bh>(a), reinterpret_cast<__m512bh>(b));
}
#endif

}  // namespace heddle::kernel
