// The divisor of a softmax, accumulated over numbers that arrive in parts (online softmax).
#pragma once
#include "row_team.cuh"

namespace heddle::cuda {

// The greatest of some numbers and the sum of exp(x - greatest). A NaN is never the greatest, but it makes the sum NaN.
struct OnlineSoftmax {
  float greatest, sum;

  __device__ static OnlineSoftmax of_nothing() { return {-infinity, 0}; }

  // Returns the sum of exp(x - top). `top` is not less than `greatest`.
  __device__ float sum_below(float top) const { return greatest == top ? sum : sum * expf(greatest - top); }
  template <int count>
  __device__ void add(const float* x) {
    float top = greatest;
    for (int i = 0; i < count; ++i) top = fmaxf(top, x[i]);
    sum = sum_below(top);
    const float finite = top == -infinity ? 0.f : top;
    float added = 0;
    for (int i = 0; i < count; ++i) added += expf(x[i] - finite);
    sum += added;
    greatest = top;
  }
  __device__ void add(const OnlineSoftmax& other) {
    const float top = fmaxf(greatest, other.greatest);
    sum = sum_below(top) + other.sum_below(top);
    greatest = top;
  }
  // Returns the combined state of a team. All of its threads must call this.
  template <class Team>
  __device__ OnlineSoftmax of_all(const Team& team) const {
    const float top = team.max(greatest);
    return {top, team.sum(sum_below(top))};
  }
};

// Returns the state of a row of n elements, to all threads of its team. `width` is that of load_held().
template <int width, class Team, class T>
__device__ OnlineSoftmax online_softmax(const Team& team, const T* row, Index n) {
  constexpr int each = most_held<width>;
  auto part = OnlineSoftmax::of_nothing();
  for (Index k = 0; k < n; k += Index{team.size()} * each) {
    float held[each / width][width];
    load_held(team, row + k, n - k, -infinity, held);
    part.add<each>(held[0]);
  }
  return part.of_all(team);
}

}  // namespace heddle::cuda
