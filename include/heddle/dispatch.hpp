// How operations call kernels: on views of their tensors, and of the device that holds them.
#pragma once
#include <heddle/tensor.hpp>

namespace heddle {

// Folds leading axes: view<2> sees [B, T, D] as [B*T, D], and [D] as [1, D]. Read-only through a const tensor.
template <int Rank, class TensorT>
auto view(TensorT& x) {
  const Shape& s = x.shape();
  View<std::remove_pointer_t<decltype(x.device_data())>, Rank> v{x.device_data(), {}};
  const int folded = s.rank() - Rank;
  for (int i = 0; i < Rank; ++i) v.extent[i] = folded + i < 0 ? 1 : s[folded + i];
  for (int i = 0; i < folded; ++i) v.extent[0] *= s[i];
  return v;
}

// Runs f(Cpu{}) or f(Cuda{}), whichever holds x: the only dispatch. A kernel that the GPU lacks is an error of the compiler.
template <class T, class F>
decltype(auto) on([[maybe_unused]] const Tensor<T>& x, F&& f) {
#ifdef HEDDLE_CUDA
  if constexpr (!std::is_same_v<T, double>)
    if (x.device() == Device::cuda) return f(Cuda{});
#endif
  return f(Cpu{});
}

// For an operation with a CPU kernel only. Throws Error for a tensor on the GPU.
template <class T, class F>
decltype(auto) on_cpu(const Tensor<T>& x, const char* op, F&& f) {
  require(x.device() == Device::cpu, op, ": has a CPU kernel only, but its operand ", x.shape(), " is on ", x.device());
  return f(Cpu{});
}

// Where only floating types have a kernel on the GPU. Throws Error for integers there.
template <class T, class F>
decltype(auto) on_if_floating(const Tensor<T>& x, const char* op, F&& f) {
  if constexpr (std::is_integral_v<T>)
    return on_cpu(x, op, f);
  else
    return on(x, f);
}

}  // namespace heddle
