// Tensors made by a rule: one value everywhere, or evenly spaced ones.
#pragma once
#include <cmath>

#include <heddle/dispatch.hpp>

namespace heddle {

// A number that may stand beside elements of type T. Beside integers none that may have a fraction: it would be cut off
// in silence.
template <class S, class T>
concept NumberFor = std::is_convertible_v<S, double> &&(std::is_integral_v<S> || !std::is_integral_v<T>);

namespace kernel {
template <class T>
void fill(Cpu, View<T, 1> y, T value) {
  std::fill_n(y.data, y.extent[0], value);
}
}  // namespace kernel

// One value everywhere. These throw OutOfMemory, and Error for a device that this build does not have.
template <class T, NumberFor<T> S>
Tensor<T> full(Shape shape, S value, Device device = Device::cpu) {
  Tensor<T> y(shape, device);
  on(y, [&](auto where) { kernel::fill(where, view<1>(y), static_cast<T>(static_cast<Acc<T>>(value))); });
  return y;
}
// full of 0.
template <class T>
Tensor<T> zeros(Shape shape, Device device = Device::cpu) {
  return full<T>(shape, 0, device);
}
// full of 1.
template <class T>
Tensor<T> ones(Shape shape, Device device = Device::cpu) {
  return full<T>(shape, 1, device);
}

// first, first + step, ... short of last: [ceil((last - first) / step)]. Values of float and bf16 are computed in double
// and rounded once. Throws Error when no number of steps leads from first to last.
template <class T, class Number = std::conditional_t<std::is_integral_v<T>, T, double>>
Tensor<T> arange(std::type_identity_t<Number> first, std::type_identity_t<Number> last,
                 std::type_identity_t<Number> step = 1, Device device = Device::cpu) {
  const double steps = std::ceil((static_cast<double>(last) - static_cast<double>(first)) / static_cast<double>(step));
  require(step != 0 && steps >= 0 && steps < 0x1p62, "arange: no number of steps of ", step, " leads from ", first,
          " to ", last);
  Tensor<T> y({static_cast<Index>(steps)});
  T* const out = y.data();
  for (Index i = 0; i < y.size(); ++i) out[i] = static_cast<T>(first + static_cast<Number>(i) * step);
  return y.to(device);
}
// 0, 1, ... short of last.
template <class T, class Number = std::conditional_t<std::is_integral_v<T>, T, double>>
Tensor<T> arange(std::type_identity_t<Number> last, Device device = Device::cpu) {
  return arange<T>(0, last, 1, device);
}

}  // namespace heddle
