// The processor's limits: loops of independent multiplications and additions that stay in registers.
#pragma once
#ifdef __AVX512BF16__
#include <immintrin.h>
#endif

#include <heddle/base/threads.hpp>

namespace heddle::bench {

#if defined(__AVX512F__)
constexpr int register_bytes = 64;
#elif defined(__AVX__)
constexpr int register_bytes = 32;
#else
constexpr int register_bytes = 16;
#endif
using Vector = float __attribute__((vector_size(register_bytes)));
constexpr int lanes = register_bytes / static_cast<int>(sizeof(float));
constexpr int chains = 12;  // enough independent sums to hide the latency of one
constexpr Index rounds = 100000;
inline volatile float unknown = 0.5f, sink;  // prevent the compiler from evaluating or removing the loops

// Calls round() once for each thread, in parallel.
template <class Round>
void on_every_thread(Round round) {
  const Index all = threads();
  kernel::parallel(kernel::Pieces(all, 1), [&](Index, Index first, Index last) {
    for (Index t = first; t < last; ++t) round();
  });
}

inline void multiply_add() {
  Vector sum[chains];
  for (Vector& s : sum) s = Vector{} + unknown;
  const Vector x = Vector{} + unknown, y = x;
  for (Index r = 0; r < rounds; ++r)
    for (Vector& s : sum) s = s * x + y;
  Vector total = {};
  for (const Vector& s : sum) total += s;
  sink = total[0];
}

#ifdef __AVX512BF16__
inline void multiply_add_bf16() {
  __m512 sum[chains];
  for (__m512& s : sum) s = _mm512_set1_ps(unknown);
  const __m512bh x = _mm512_cvtne2ps_pbh(_mm512_set1_ps(unknown), _mm512_set1_ps(unknown)), y = x;
  for (Index r = 0; r < rounds; ++r)
    for (__m512& s : sum) s = _mm512_dpbf16_ps(s, x, y);
  __m512 total = _mm512_setzero_ps();
  for (const __m512& s : sum) total = _mm512_add_ps(total, s);
  sink = _mm512_cvtss_f32(total);
}
#endif

// Returns the floating-point operations of all threads in one call of on_every_thread. `products_per_lane` is 1 in
// fp32, and 2 in bf16, where a lane holds a pair of values.
inline double peak_flops(double products_per_lane) {
  return 2.0 * lanes * products_per_lane * chains * static_cast<double>(rounds) * threads();
}

}  // namespace heddle::bench
