// Loads and stores of `width` neighboring elements of float or bf16 as floats, in one aligned access. A store rounds to
// the element type.
#pragma once
#include "access.cuh"

namespace heddle::cuda {

template <class T, int width>
__device__ void load_floats(const T* from, float (&to)[width]) {
  const auto values = load_vector<width>(from);
  for (int k = 0; k < width; ++k) to[k] = static_cast<float>(values.at[k]);
}
template <class T, int width>
__device__ void store_floats(T* to, const float (&from)[width]) {
  if constexpr (sizeof(T) == 2 && width % 2 == 0) {
    Vector<std::uint32_t, width / 2> pairs;
    for (int k = 0; k < width / 2; ++k) pairs.at[k] = round_pair(from[2 * k], from[2 * k + 1]);
    store_global(to, __builtin_bit_cast(Vector<T, width>, pairs));
  } else {
    Vector<T, width> values;
    for (int k = 0; k < width; ++k) values.at[k] = T(from[k]);
    store_global(to, values);
  }
}

}  // namespace heddle::cuda
