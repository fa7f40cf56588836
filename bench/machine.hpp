// The processor's limits: loops of independent multiplications and additions that stay in registers.
#pragma once
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#include <heddle/parallel.hpp>

namespace heddle::bench {

using Vector = float __attribute__((vector_size(64)));
constexpr int chains = 12;  // as many independent sums as hide the latency of one
constexpr Index rounds = 100000;

// Each thread runs all rounds.
template <class Round>
void on_every_thread(Round round) {
  const Index all = threads();
  kernel::parallel(kernel::Pieces(all, 1), [&](Index, Index first, Index last) {
    for (Index t = first; t < last; ++t) round();
  });
}

inline void multiply_add() {
  Vector sum[chains], x = {}, y = {};
  for (Vector& s : sum) s = x;
  asm volatile("" : "+v"(x), "+v"(y));
  for (Index r = 0; r < rounds; ++r)
    for (Vector& s : sum) s = s * x + y;
  for (Vector& s : sum) asm volatile("" ::"v"(s));
}

#ifdef __AVX512BF16__
inline void multiply_add_bf16() {
  __m512 sum[chains];
  __m512bh x = {}, y = {};
  for (__m512& s : sum) s = _mm512_setzero_ps();
  asm volatile("" : "+v"(x), "+v"(y));
  for (Index r = 0; r < rounds; ++r)
    for (__m512& s : sum) s = _mm512_dpbf16_ps(s, x, y);
  for (__m512& s : sum) asm volatile("" ::"v"(s));
}
#endif

// Floating-point operations of all threads in one call of on_every_thread; a lane holds one product, or a pair of bf16's.
inline double peak_flops(double products_per_lane) {
  return 2.0 * 16 * products_per_lane * chains * static_cast<double>(rounds) * threads();
}

}  // namespace heddle::bench
