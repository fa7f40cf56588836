// Products with an empty operand, for cuBLASLt (gemm.cu) and for the emulator (emulator/gemm.cpp).
#pragma once
#include <heddle/gpu/kernels.hpp>

namespace heddle::cuda {

template <class T, class E>
Index depth_of(const kernel::Product<T, E>& p) {
  return p.transpose_a ? p.a.rows : p.a.width;
}

// Completes a product that has nothing to multiply, and returns whether it did: leaves c unchanged for Into::add,
// otherwise writes the bias or zeros.
template <class T, class E>
bool finish_if_empty(const kernel::Product<T, E>& p) {
  if (p.c.rows == 0 || p.c.width == 0 || p.count == 0) return true;
  if (depth_of(p) > 0) return false;
  if (p.into == kernel::Into::add) return true;
  const std::size_t bytes = static_cast<std::size_t>(p.c.width) * sizeof(E);
  for (Index matrix = 0; matrix < p.count; ++matrix)
    for (Index n = 0; n < p.c.rows; ++n) {
      E* const row = p.c.data + matrix * p.next_c + n * p.c.stride;
      p.bias ? on_device(row, p.bias, bytes) : clear(row, bytes);
    }
  return true;
}

}  // namespace heddle::cuda
