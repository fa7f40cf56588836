// == != < <= > >= of each element, with broadcasting; a number may stand on either side. The result is Tensor<bool>,
// which has no gradient. bf16 is compared as float, and an integer or bool as std::int64_t, without loss. Comparisons
// with NaN are false, except !=.
#pragma once
#include <heddle/base/binary_functions.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/cast.hpp>

namespace heddle {

namespace kernel {

template <class F, class T>
void compare(Cpu, F, const BroadcastPlan<2>& plan, const T* a, const T* b, bool* y) {
  const Index step_a = plan.stride[0][0], step_b = plan.stride[1][0];
  for_rows(plan, [&](Index i, Index n, const std::array<Index, 2>& at) {
    const T* const ai = a + at[0];
    const T* const bi = b + at[1];
    for (Index k = 0; k < n; ++k) y[i + k] = F::f(ai[k * step_a], bi[k * step_b]);
  });
}

}  // namespace kernel

namespace detail {

// The type in which elements of type T are compared.
template <class T>
using Compared = std::conditional_t<std::is_integral_v<T>, std::int64_t, Acc<T>>;

template <class F, class T>
Tensor<bool> compare(const char* op, const Tensor<T>& a, const Tensor<T>& b) {
  if constexpr (!std::is_same_v<T, Compared<T>>) {
    return compare<F>(op, cast<Compared<T>>(a), cast<Compared<T>>(b));
  } else {
    Tensor<bool> y(broadcast_shape(op, {{"a", a}, {"b", b}}), a.device());
    dispatch(a, [&](auto device) {
      kernel::compare(device, F{}, broadcast_plan(y.shape(), a.shape(), b.shape()), a.device_data(), b.device_data(),
                      y.device_data());
    });
    return y;
  }
}
template <class F, class A, class B>
requires(!std::is_same_v<A, B> && std::is_integral_v<A> && std::is_integral_v<B>)  //
    Tensor<bool> compare(const char* op, const Tensor<A>& a, const Tensor<B>& b) {
  return compare<F>(op, cast<std::int64_t>(a), cast<std::int64_t>(b));
}
// Returns a number in the type in which elements of x are compared. If T is a floating type, the number is
// rounded to T first.
template <class T, NumberFor<T> S>
Tensor<Compared<T>> compared_number(const Tensor<T>& x, S number) {
  using Rounded = std::conditional_t<std::is_integral_v<T>, std::int64_t, T>;
  return cast<Compared<T>>(full<Rounded>({}, number, x.device()));
}
template <class F, class T, NumberFor<T> S>
Tensor<bool> compare(const char* op, const Tensor<T>& a, S number) {
  return compare<F>(op, cast<Compared<T>>(a), compared_number(a, number));
}
template <class F, class T, NumberFor<T> S>
Tensor<bool> compare(const char* op, S number, const Tensor<T>& b) {
  return compare<F>(op, compared_number(b, number), cast<Compared<T>>(b));
}

// Operands of a comparison: two tensors of one element type or of integers, or a tensor and a number.
template <class A, class B>
concept Comparable = requires(const A& a, const B& b) {
  compare<kernel::Less>("", a, b);
};

}  // namespace detail

/// Returns whether a equals b, for each element. @throws ShapeError if the shapes do not broadcast; the next five
/// operators throw it as well.
template <class A, class B>
requires detail::Comparable<A, B> Tensor<bool>
operator==(const A& a, const B& b) { return detail::compare<kernel::Equal>("==", a, b); }
/// Returns whether a differs from b, for each element.
template <class A, class B>
requires detail::Comparable<A, B> Tensor<bool>
operator!=(const A& a, const B& b) { return detail::compare<kernel::NotEqual>("!=", a, b); }
/// Returns whether a is less than b, for each element.
template <class A, class B>
requires detail::Comparable<A, B> Tensor<bool>
operator<(const A& a, const B& b) { return detail::compare<kernel::Less>("<", a, b); }
/// Returns whether a is at most b, for each element.
template <class A, class B>
requires detail::Comparable<A, B> Tensor<bool>
operator<=(const A& a, const B& b) { return detail::compare<kernel::LessEqual>("<=", a, b); }
/// Returns whether a is greater than b, for each element.
template <class A, class B>
requires detail::Comparable<A, B> Tensor<bool>
operator>(const A& a, const B& b) { return detail::compare<kernel::Less>(">", b, a); }
/// Returns whether a is at least b, for each element.
template <class A, class B>
requires detail::Comparable<A, B> Tensor<bool>
operator>=(const A& a, const B& b) { return detail::compare<kernel::LessEqual>(">=", b, a); }

// Operands of two floating-point types are refused: one of them needs a cast.
template <class A, class B>
requires(!detail::Comparable<Tensor<A>, Tensor<B>>) void operator==(const Tensor<A>&, const Tensor<B>&) = delete;
template <class A, class B>
requires(!detail::Comparable<Tensor<A>, Tensor<B>>) void operator!=(const Tensor<A>&, const Tensor<B>&) = delete;
template <class A, class B>
requires(!detail::Comparable<Tensor<A>, Tensor<B>>) void operator<(const Tensor<A>&, const Tensor<B>&) = delete;
template <class A, class B>
requires(!detail::Comparable<Tensor<A>, Tensor<B>>) void operator<=(const Tensor<A>&, const Tensor<B>&) = delete;
template <class A, class B>
requires(!detail::Comparable<Tensor<A>, Tensor<B>>) void operator>(const Tensor<A>&, const Tensor<B>&) = delete;
template <class A, class B>
requires(!detail::Comparable<Tensor<A>, Tensor<B>>) void operator>=(const Tensor<A>&, const Tensor<B>&) = delete;

/// Returns whether each element is NaN.
template <class T>
Tensor<bool> isnan(const Tensor<T>& x) {
  return x != x;
}
/// Returns whether each element is neither infinite nor NaN.
template <class T>
Tensor<bool> isfinite(const Tensor<T>& x) {
  if constexpr (std::is_integral_v<T>)
    return full<bool>(x.shape(), true, x.device());
  else
    return detail::combine<kernel::Sub, T>("isfinite", x, x) == 0;
}

}  // namespace heddle
