// where(condition, a, b) and masked_fill(x, mask, value), with broadcasting. An element that was not selected gets the
// gradient 0, even if dy is NaN or infinite there.
#pragma once
#include <heddle/core/create.hpp>
#include <heddle/ops/reduce.hpp>

namespace heddle {

namespace kernel {

template <class T>
void where(Cpu, const BroadcastPlan<3>& plan, const bool* condition, const T* a, const T* b, T* y) {
  const Index step = plan.stride[0][0], steps[] = {plan.stride[2][0], plan.stride[1][0]};
  for_rows(plan, [&](Index i, Index n, const std::array<Index, 3>& at) {
    const bool* const c = condition + at[0];
    const T* const from[] = {b + at[2], a + at[1]};  // a table, because a branch on the condition is often mispredicted
    for (Index k = 0; k < n; ++k) y[i + k] = from[c[k * step]][k * steps[c[k * step]]];
  });
}

}  // namespace kernel

namespace detail {
// Returns where(condition, a, b), not recorded. `shape` is the broadcast shape of the three.
template <class T>
Tensor<T> choose(const Shape& shape, const Tensor<bool>& condition, const Tensor<T>& a, const Tensor<T>& b) {
  Tensor<T> y(shape, condition.device());
  dispatch(condition, [&](auto device) {
    kernel::where(device, broadcast_plan(shape, condition.shape(), a.shape(), b.shape()), condition.device_data(),
                  a.device_data(), b.device_data(), y.device_data());
  });
  return y;
}

}  // namespace detail

/// Returns a where the condition is true, b elsewhere. @throws ShapeError for shapes that do not broadcast.
template <class T>
Tensor<T> where(const Tensor<bool>& condition, const Tensor<T>& a, const Tensor<T>& b) {
  const Shape shape = detail::broadcast_shape("where", {{"condition", condition}, {"a", a}, {"b", b}});
  return record("where", detail::choose(shape, condition, a, b), inputs(a, b),
                [condition, to_a = detail::GradientTarget(a), to_b = detail::GradientTarget(b)](const Tensor<T>& dy) {
                  const Tensor<T> zero = zeros<T>({}, dy.device());
                  Tensor<T> da, db;
                  if (to_a.requires_grad) da = detail::sum_to<T>(detail::choose(dy.shape(), condition, dy, zero), to_a);
                  if (to_b.requires_grad) db = detail::sum_to<T>(detail::choose(dy.shape(), condition, zero, dy), to_b);
                  return std::tuple(da, db);
                });
}

/// Returns `value` where the mask is true, x elsewhere. @throws ShapeError for shapes that do not broadcast.
template <class T, NumberFor<T> S>
Tensor<T> masked_fill(const Tensor<T>& x, const Tensor<bool>& mask, S value) {
  const Shape shape = detail::broadcast_shape("masked_fill", {{"x", x}, {"mask", mask}});
  const Tensor<T> y = detail::choose(shape, mask, full<T>({}, value, x.device()), x);
  return record("masked_fill", y, inputs(x), [mask, to_x = detail::GradientTarget(x)](const Tensor<T>& dy) {
    return detail::sum_to<T>(detail::choose(dy.shape(), mask, zeros<T>({}, dy.device()), dy), to_x);
  });
}

}  // namespace heddle
