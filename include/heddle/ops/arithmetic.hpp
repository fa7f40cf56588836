// + - * / on each element, with broadcasting; a number may stand on either side. Integers wrap around on overflow, and
// divide as in C++, towards zero.
#pragma once
#include <heddle/base/binary_functions.hpp>
#include <heddle/core/create.hpp>
#include <heddle/ops/reduce.hpp>

namespace heddle {

namespace kernel {

template <class F, class A, class B, class Y>
void combine(Cpu, F, const BroadcastPlan<2>& plan, const A* a, const B* b, Y* y) {
  const Index step_a = plan.stride[0][0], step_b = plan.stride[1][0];
  for_rows(plan, [&](Index i, Index n, const std::array<Index, 2>& at) {
    const A* const ai = a + at[0];
    const B* const bi = b + at[1];
    if constexpr (std::is_integral_v<Y>) {
      for (Index k = 0; k < n; ++k) y[i + k] = static_cast<Y>(F::f(ai[k * step_a], bi[k * step_b]));
    } else {
      using V = Vector<Acc<Y>>;
      const V first_a(static_cast<Acc<Y>>(*ai)), first_b(static_cast<Acc<Y>>(*bi));  // repeated if the step is 0
      for_each_chunk<Acc<Y>>(n, [&](Chunk<Acc<Y>> k) {
        k.store(y + i, F::f(step_a ? k.load(ai) : first_a, step_b ? k.load(bi) : first_b));
      });
    }
  });
}

template <class F, class T>
void combine(Cpu, F, View<const T, 1> x, Acc<T> number, View<T, 1> y) {
  parallel(x.extent[0], element_grain, [&](Index first, Index last) {
    if constexpr (std::is_integral_v<T>)
      for (Index i = first; i < last; ++i) y(i) = static_cast<T>(F::f(x(i), number));
    else
      for_each_chunk<Acc<T>>(
          first, last, [&](Chunk<Acc<T>> at) { at.store(y.data, F::f(at.load(x.data), Vector<Acc<T>>(number))); });
  });
}

}  // namespace kernel

namespace detail {

// Returns F of two tensors with broadcasting, rounded to Y. Not recorded.
template <class F, class Y, class A, class B>
Tensor<Y> combine(const char* op, const Tensor<A>& a, const Tensor<B>& b) {
  static_assert(!std::is_same_v<A, bool>, "heddle: bool has no arithmetic; cast it to a number first");
  Tensor<Y> y(broadcast_shape(op, {{"a", a}, {"b", b}}), a.device());
  detail::dispatch_if_floating(a, op, [&](auto device) {
    kernel::combine(device, F{}, broadcast_plan(y.shape(), a.shape(), b.shape()), a.device_data(), b.device_data(),
                    y.device_data());
  });
  return y;
}
// Returns F of each element and a number. Not recorded.
template <class F, class T, NumberFor<T> S>
Tensor<T> combine(const char* op, const Tensor<T>& x, S number) {
  static_assert(!std::is_same_v<T, bool>, "heddle: bool has no arithmetic; cast it to a number first");
  Tensor<T> y = empty_like(x);
  detail::dispatch_if_floating(
      x, op, [&](auto device) { kernel::combine(device, F{}, view<1>(x), static_cast<Acc<T>>(number), view<1>(y)); });
  return y;
}

}  // namespace detail

/// Returns a + b for each element. @throws ShapeError if the shapes do not broadcast, and Error for integers on a GPU;
/// the next three operators throw both as well.
template <class T>
Tensor<T> operator+(const Tensor<T>& a, const Tensor<T>& b) {
  const Tensor<T> y = detail::combine<kernel::Add, T>("add", a, b);
  return record("add", y, inputs(a, b),
                [to_a = detail::GradientTarget(a), to_b = detail::GradientTarget(b)](const Tensor<T>& dy) {
                  return std::tuple(detail::sum_to<T>(dy, to_a), detail::sum_to<T>(dy, to_b));
                });
}

/// Returns a - b for each element.
template <class T>
Tensor<T> operator-(const Tensor<T>& a, const Tensor<T>& b) {
  const Tensor<T> y = detail::combine<kernel::Sub, T>("sub", a, b);
  return record("sub", y, inputs(a, b),
                [to_a = detail::GradientTarget(a), to_b = detail::GradientTarget(b)](const Tensor<T>& dy) {
                  return std::tuple(detail::sum_to<T>(dy, to_a),
                                    to_b.requires_grad ? -detail::sum_to<T>(dy, to_b) : Tensor<T>{});
                });
}

/// Returns a * b for each element; matmul() multiplies matrices.
template <class T>
Tensor<T> operator*(const Tensor<T>& a, const Tensor<T>& b) {
  const Tensor<T> y = detail::combine<kernel::Mul, T>("mul", a, b);
  return record("mul", y, inputs(a, b),
                [to_a = detail::GradientTarget(a), to_b = detail::GradientTarget(b),
                 a_kept = detail::save_if(b.requires_grad(), a),
                 b_kept = detail::save_if(a.requires_grad(), b)](const Tensor<T>& dy) {
                  const auto gradient = [&](const Tensor<T>& factor, const detail::GradientTarget& to) -> Tensor<T> {
                    if (!to.requires_grad) return {};
                    if (to.shape == dy.shape()) return detail::combine<kernel::Mul, T>("mul", dy, factor);
                    return detail::sum_to<T>(detail::combine<kernel::Mul, Acc<T>>("mul", dy, factor), to);
                  };
                  return std::tuple(gradient(b_kept, to_a), gradient(a_kept, to_b));
                });
}

/// Returns a / b for each element. @throws Error if an integer is divided by 0.
template <class T>
Tensor<T> operator/(const Tensor<T>& a, const Tensor<T>& b) {
  const Tensor<T> y = detail::combine<kernel::Div, T>("div", a, b);
  return record("div", y, inputs(a, b),
                [b, to_a = detail::GradientTarget(a), to_b = detail::GradientTarget(b),
                 y_kept = detail::save_if(b.requires_grad(), y)](const Tensor<T>& dy) {
                  const Tensor<Acc<T>> da = detail::combine<kernel::Div, Acc<T>>("div", dy, b);
                  Tensor<T> db;
                  if (to_b.requires_grad)
                    db = -detail::sum_to<T>(detail::combine<kernel::Mul, Acc<T>>("div", da, y_kept), to_b);
                  return std::tuple(detail::sum_to<T>(da, to_a), db);
                });
}

/// Operands of different element types do not compile: convert one of them with cast<T>(x). Without these overloads,
/// the compiler would list every operator.
template <class A, class B>
requires(!std::is_same_v<A, B>) void operator+(const Tensor<A>&, const Tensor<B>&) = delete;
template <class A, class B>
requires(!std::is_same_v<A, B>) void operator-(const Tensor<A>&, const Tensor<B>&) = delete;
template <class A, class B>
requires(!std::is_same_v<A, B>) void operator*(const Tensor<A>&, const Tensor<B>&) = delete;
template <class A, class B>
requires(!std::is_same_v<A, B>) void operator/(const Tensor<A>&, const Tensor<B>&) = delete;

// An integer tensor does not combine with a floating-point number either, because the number would be truncated.
namespace detail {
template <class S, class T>
concept FractionFor = std::is_integral_v<T> && std::is_floating_point_v<S>;
}  // namespace detail
// clang-format off
template <class T, detail::FractionFor<T> S>
void operator+(const Tensor<T>&, S) = delete;  // an integer tensor takes integers only: cast<float>(x) first
template <class T, detail::FractionFor<T> S>
void operator+(S, const Tensor<T>&) = delete;  // an integer tensor takes integers only: cast<float>(x) first
template <class T, detail::FractionFor<T> S>
void operator-(const Tensor<T>&, S) = delete;  // an integer tensor takes integers only: cast<float>(x) first
template <class T, detail::FractionFor<T> S>
void operator-(S, const Tensor<T>&) = delete;  // an integer tensor takes integers only: cast<float>(x) first
template <class T, detail::FractionFor<T> S>
void operator*(const Tensor<T>&, S) = delete;  // an integer tensor takes integers only: cast<float>(x) first
template <class T, detail::FractionFor<T> S>
void operator*(S, const Tensor<T>&) = delete;  // an integer tensor takes integers only: cast<float>(x) first
template <class T, detail::FractionFor<T> S>
void operator/(const Tensor<T>&, S) = delete;  // an integer tensor takes integers only: cast<float>(x) first
template <class T, detail::FractionFor<T> S>
void operator/(S, const Tensor<T>&) = delete;  // an integer tensor takes integers only: cast<float>(x) first
// clang-format on

/// Returns each element plus a number. An integer tensor takes integers only. @throws Error for integers on a GPU; the
/// operators below throw it as well.
template <class T, NumberFor<T> S>
Tensor<T> operator+(const Tensor<T>& x, S number) {
  return record("add", detail::combine<kernel::Add>("add", x, number), inputs(x),
                [](const Tensor<T>& dy) { return dy; });
}
/// Returns number + x.
template <class T, NumberFor<T> S>
Tensor<T> operator+(S number, const Tensor<T>& x) {
  return x + number;
}
/// Returns each element minus a number.
template <class T, NumberFor<T> S>
Tensor<T> operator-(const Tensor<T>& x, S number) {
  return record("sub", detail::combine<kernel::Sub>("sub", x, number), inputs(x),
                [](const Tensor<T>& dy) { return dy; });
}
/// Returns a number minus each element.
template <class T, NumberFor<T> S>
Tensor<T> operator-(S number, const Tensor<T>& x) {
  const Tensor<T> y = detail::combine<kernel::Swapped<kernel::Sub>>("sub", x, number);
  return record("sub", y, inputs(x), [](const Tensor<T>& dy) { return -dy; });
}
/// Returns each element times a number.
template <class T, NumberFor<T> S>
Tensor<T> operator*(const Tensor<T>& x, S number) {
  return record("mul", detail::combine<kernel::Mul>("mul", x, number), inputs(x),
                [number](const Tensor<T>& dy) { return dy * number; });
}
/// Returns number * x.
template <class T, NumberFor<T> S>
Tensor<T> operator*(S number, const Tensor<T>& x) {
  return x * number;
}
/// Returns each element divided by a number. @throws Error if an integer is divided by 0.
template <class T, NumberFor<T> S>
Tensor<T> operator/(const Tensor<T>& x, S number) {
  return record("div", detail::combine<kernel::Div>("div", x, number), inputs(x),
                [number](const Tensor<T>& dy) { return dy / number; });
}
/// Returns a number divided by each element. @throws Error if an integer is divided by 0.
template <class T, NumberFor<T> S>
Tensor<T> operator/(S number, const Tensor<T>& x) {
  const Tensor<T> y = detail::combine<kernel::Swapped<kernel::Div>>("div", x, number);
  return record("div", y, inputs(x), [=](const Tensor<T>& dy) {
    return -detail::combine<kernel::Mul, T>("div", detail::combine<kernel::Div, Acc<T>>("div", dy, x), y);
  });
}
/// Returns -x for each element.
template <class T>
Tensor<T> operator-(const Tensor<T>& x) {
  return record("neg", detail::combine<kernel::Mul>("neg", x, -1), inputs(x), [](const Tensor<T>& dy) { return -dy; });
}
/// Returns -x.
template <class T>
Tensor<T> neg(const Tensor<T>& x) {
  return -x;
}

}  // namespace heddle
