// How a file of kernels says for which types it is compiled. The address of a function template's specialization
// compiles it, so no signature is written again:
//
//   [[maybe_unused, gnu::used]] constexpr auto scale_instances = cuda::instances<float, bf16>(
//       []<class T>(cuda::Type<T>) { return std::tuple(&scale<T>, &scale_backward<T>); });
//
// gnu::used keeps the functions although this file does not call them; nvcc warns of the variable without maybe_unused.
#pragma once
#include <tuple>
#include <type_traits>

namespace heddle::cuda {

template <class T>
using Type = std::type_identity<T>;

// Returns f(Type<T>()) for each T.
template <class... Ts, class F>
constexpr auto instances(F f) {
  return std::tuple(f(Type<Ts>())...);
}

}  // namespace heddle::cuda
