// Tensors made by a rule: one value everywhere, evenly spaced values, or random ones.
#pragma once
#include <cmath>
#include <utility>

#include <heddle/base/random.hpp>
#include <heddle/core/dispatch.hpp>
#include <heddle/core/move.hpp>

namespace heddle {

/// A number that may be combined with elements of type T. Integers take integers only: a fraction would be truncated
/// silently.
template <class S, class T>
concept NumberFor = std::is_convertible_v<S, double> &&(std::is_integral_v<S> || !std::is_integral_v<T>);

/// Returns a tensor with one value everywhere. @throws OutOfMemory, and Error for a device that this build does not
/// support.
template <class T, NumberFor<T> S>
Tensor<T> full(Shape shape, S value, Device device = Device::cpu) {
  Tensor<T> y(shape, device);
  dispatch(y, [&](auto where) { kernel::fill(where, view<1>(y), static_cast<T>(static_cast<Acc<T>>(value))); });
  return y;
}
/// Returns a tensor of zeros. @throws OutOfMemory, and Error for a device that this build does not support.
template <class T>
Tensor<T> zeros(Shape shape, Device device = Device::cpu) {
  return full<T>(shape, 0, device);
}
/// Returns a tensor of ones. @throws OutOfMemory, and Error for a device that this build does not support.
template <class T>
Tensor<T> ones(Shape shape, Device device = Device::cpu) {
  return full<T>(shape, 1, device);
}

/// Returns first, first + step, ... up to but excluding last: [ceil((last - first) / step)]. Values of float and bf16
/// are computed in double and then rounded, for bf16 to float first. @throws Error if step is 0 or leads away from
/// last, for 2^62 or more steps, and for a device that this build does not support.
template <class T, class Number = std::conditional_t<std::is_integral_v<T>, T, double>>
Tensor<T> arange(std::type_identity_t<Number> first, std::type_identity_t<Number> last,
                 std::type_identity_t<Number> step = 1, Device device = Device::cpu) {
  const double steps = (static_cast<double>(last) - static_cast<double>(first)) / static_cast<double>(step);
  require(step != 0 && steps >= 0 && steps < 0x1p62,
          "arange: the step must not be 0 and must lead from first to last in fewer than 2^62 steps; got first = ",
          first, ", last = ", last, ", step = ", step);
  Tensor<T> y({static_cast<Index>(std::ceil(steps))});
  T* const out = y.data();
  for (Index i = 0; i < y.size(); ++i) out[i] = static_cast<T>(first + static_cast<Number>(i) * step);
  return y.to(device);
}
/// Returns 0, 1, ... up to but excluding last: [ceil(last)]. @throws Error as arange(first, last, step).
template <class T, class Number = std::conditional_t<std::is_integral_v<T>, T, double>>
Tensor<T> arange(std::type_identity_t<Number> last, Device device = Device::cpu) {
  return arange<T>(0, last, 1, device);
}

namespace detail {
// Returns 53 random bits as a number in (0, 1], whose logarithm is finite.
inline double unit_interval(std::uint32_t high, std::uint32_t low) {
  return (static_cast<double>(high >> 5) * 67108864 + static_cast<double>(low >> 6) + 1) / 9007199254740992.0;
}

// Returns a tensor that is filled on all threads; f computes two elements from each draw.
template <class T, class F>
Tensor<T> draw_pairs(Shape shape, Random& random, F f) {
  Tensor<T> y(shape);
  const Index size = y.size(), pairs = (size + 1) / 2;
  const kernel::Draws draws = random.take(static_cast<std::uint64_t>(pairs));
  T* const out = y.data();
  constexpr Index grain = 4096;  // a hundred microseconds
  kernel::parallel(pairs, grain, [=](Index begin, Index end) {
    for (Index p = begin; p < end; ++p) {
      const auto [first, second] = f(draws(static_cast<std::uint64_t>(p)));
      out[2 * p] = static_cast<T>(first);
      if (2 * p + 1 < size) out[2 * p + 1] = static_cast<T>(second);
    }
  });
  return y;
}
}  // namespace detail

/// Returns uniform values in [lo, hi), rounded to T; rounding may give hi. One draw gives two elements whatever T is,
/// so every T gets the same numbers before rounding. @throws Error unless lo <= hi and hi - lo is finite.
template <class T>
Tensor<T> uniform(Shape shape, double lo, double hi, Random& random) {
  require(lo <= hi && std::isfinite(hi - lo), "uniform: lo must not be greater than hi, and both must be finite; got ",
          lo, " and ", hi);
  return detail::draw_pairs<T>(shape, random, [=](const kernel::PhiloxWords& words) {
    const double first = detail::unit_interval(words.w[0], words.w[1]),
                 second = detail::unit_interval(words.w[2], words.w[3]);
    return std::pair(lo + (hi - lo) * (1 - first), lo + (hi - lo) * (1 - second));
  });
}

/// Returns standard normal values (Box and Muller 1958). One draw gives two elements.
template <class T>
Tensor<T> randn(Shape shape, Random& random) {
  return detail::draw_pairs<T>(shape, random, [](const kernel::PhiloxWords& words) {
    const double radius = std::sqrt(-2 * std::log(detail::unit_interval(words.w[0], words.w[1])));
    const double angle = 6.283185307179586 * detail::unit_interval(words.w[2], words.w[3]);
    return std::pair(radius * std::cos(angle), radius * std::sin(angle));
  });
}

}  // namespace heddle
