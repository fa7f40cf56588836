// where(condition, a, b) and masked_fill(x, mask, value), with broadcasting. What was not taken gets the gradient 0,
// whatever the other one's is.
#pragma once
#include <heddle/create.hpp>
#include <heddle/ops/reduce.hpp>

namespace heddle {

namespace kernel {

template <class T>
void where(Cpu, const Broadcast<3>& plan, const bool* condition, const T* a, const T* b, T* y) {
  const Index step = plan.stride[0][0], steps[] = {plan.stride[2][0], plan.stride[1][0]};
  for_rows(plan, [&](Index i, Index n, const std::array<Index, 3>& at) {
    const bool* const c = condition + at[0];
    const T* const from[] = {b + at[2], a + at[1]};  // looked up: a branch on the condition is often mispredicted
    for (Index k = 0; k < n; ++k) y[i + k] = from[c[k * step]][k * steps[c[k * step]]];
  });
}

}  // namespace kernel

// where without a record; `shape` is what the three broadcast to.
template <class T>
Tensor<T> select(const Shape& shape, const Tensor<bool>& condition, const Tensor<T>& a, const Tensor<T>& b) {
  Tensor<T> y(shape, condition.device());
  on(condition, [&](auto device) {
    kernel::where(device, broadcast(shape, condition.shape(), a.shape(), b.shape()), condition.device_data(),
                  a.device_data(), b.device_data(), y.device_data());
  });
  return y;
}

// a where the condition is true, b elsewhere. Throws ShapeError for shapes that do not broadcast.
template <class T>
Tensor<T> where(const Tensor<bool>& condition, const Tensor<T>& a, const Tensor<T>& b) {
  const Shape shape = broadcast_shape("where", {{"condition", condition, 0}, {"a", a, 0}, {"b", b, 0}});
  return record("where", select(shape, condition, a, b), inputs(a, b),
                [condition, to_a = Wanted(a), to_b = Wanted(b)](const Tensor<T>& dy) {
                  const Tensor<T> zero = zeros<T>({}, dy.device());
                  Tensor<T> da, db;
                  if (to_a.gradient) da = sum_to<T>(select(dy.shape(), condition, dy, zero), to_a);
                  if (to_b.gradient) db = sum_to<T>(select(dy.shape(), condition, zero, dy), to_b);
                  return std::tuple(da, db);
                });
}

// value where the mask is true, x elsewhere. Throws ShapeError for shapes that do not broadcast.
template <class T, NumberFor<T> S>
Tensor<T> masked_fill(const Tensor<T>& x, const Tensor<bool>& mask, S value) {
  const Shape shape = broadcast_shape("masked_fill", {{"x", x, 0}, {"mask", mask, 0}});
  const Tensor<T> y = select(shape, mask, full<T>({}, value, x.device()), x);
  return record("masked_fill", y, inputs(x), [mask, to_x = Wanted(x)](const Tensor<T>& dy) {
    return sum_to<T>(select(dy.shape(), mask, zeros<T>({}, dy.device()), dy), to_x);
  });
}

}  // namespace heddle
