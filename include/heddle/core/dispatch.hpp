// Calls kernels with views of tensors, and with the tag of the device that holds them.
#pragma once
#include <heddle/core/tensor.hpp>
#ifdef HEDDLE_CUDA
#include <heddle/gpu/calls.hpp>
#endif

namespace heddle {

/// Returns a tensor as a View that folds leading axes: view<2> sees [B, T, D] as [B*T, D], and [D] as [1, D]. Read-only
/// for a const tensor; for a non-const tensor the call counts as a write.
template <int Rank, class TensorT>
auto view(TensorT& x) {
  const Shape& s = x.shape();
  View<std::remove_pointer_t<decltype(x.device_data())>, Rank> v{x.device_data(), {}};
  const int folded = s.rank() - Rank;
  for (int i = 0; i < Rank; ++i) v.extent[i] = folded + i < 0 ? 1 : s[folded + i];
  for (int i = 0; i < folded; ++i) v.extent[0] *= s[i];
  return v;
}

/// Calls f(Cpu{}) or f(Cuda{}) for a device. In a build with CUDA, f must compile for both tags, so a kernel without a
/// GPU overload is an error. For double, which is on the CPU only, f needs to compile for Cpu alone.
template <class T, class F>
decltype(auto) dispatch([[maybe_unused]] Device device, F&& f) {
#ifdef HEDDLE_CUDA
  if constexpr (!std::is_same_v<T, double>)
    if (device == Device::cuda) return f(Cuda{});
#endif
  return f(Cpu{});
}
/// Calls f with the tag of x's device.
template <class T, class F>
decltype(auto) dispatch(const Tensor<T>& x, F&& f) {
  return dispatch<T>(x.device(), f);
}

/// Calls f(Cpu{}), for an operation that has a CPU kernel only. @throws Error for a tensor on the GPU.
template <class T, class F>
decltype(auto) on_cpu(const Tensor<T>& x, const char* op, F&& f) {
  require(x.device() == Device::cpu, op, ": has a CPU kernel only, but its operand ", x.shape(), " is on ", x.device(),
          "; move it with .to(Device::cpu)");
  return f(Cpu{});
}

namespace detail {
// Dispatches an operation whose GPU kernel takes floating-point types only. Throws Error for integers on the GPU.
template <class T, class F>
decltype(auto) dispatch_if_floating(const Tensor<T>& x, const char* op, F&& f) {
  if constexpr (std::is_integral_v<T>)
    return on_cpu(x, op, f);
  else
    return dispatch(x, f);
}
}  // namespace detail

}  // namespace heddle
