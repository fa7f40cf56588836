// Random calls of operations on elements, and of reductions.
#include <heddle/heddle.hpp>

#include "../../instances.hpp"
#include "families.hpp"

namespace heddle::testing {

namespace {

std::vector<int> draw_axes(Draw& draw, int rank) {
  std::vector<int> axes;
  for (int axis = 0; axis < rank; ++axis)
    if (draw.once_in(2)) axes.push_back(axis);
  return axes;
}

// Draws two shapes that broadcast to one: some axes of either have extent 1, and leading ones are missing.
std::pair<Shape, Shape> draw_broadcast_shapes(Draw& draw, Index size) {
  const Shape all = draw.shape(1, 5, size);
  const auto part = [&] {
    std::vector<Index> extents(all.begin(), all.end());
    for (Index& e : extents)
      if (draw.once_in(4)) e = 1;
    if (draw.once_in(4)) extents.erase(extents.begin(), extents.begin() + draw.between(0, all.rank()));
    return Shape(std::span<const Index>(extents));
  };
  const Shape a = part(), b = part();
  draw.tell(a, b);
  return {a, b};
}

template <class A>
Tensor<A> apply_function(int which, const Tensor<A>& x) {
  switch (which) {
    case 0: return exp(x);
    case 1: return tanh(x);
    case 2: return sigmoid(x);
    case 3: return relu(x);
    case 4: return gelu(x);
    case 5: return gelu_tanh(x);
    case 6: return erf(x);
    case 7: return softplus(x);
    case 8: return silu(x);
    case 9: return abs(x);
    case 10: return log(x);
    case 11: return sqrt(x);
    default: return log1p(x);
  }
}
constexpr int function_count = 13, first_of_positive = 10;

template <class A>
Tensor<A> apply_arithmetic(int which, const Tensor<A>& a, const Tensor<A>& b) {
  switch (which) {
    case 0: return a + b;
    case 1: return a - b;
    case 2: return a * b;
    case 3: return maximum(a, b);
    case 4: return minimum(a, b);
    default: return a / b;
  }
}
constexpr int arithmetic_count = 6, quotient = 5;

template <class A>
Tensor<bool> compare(int which, const Tensor<A>& a, const Tensor<A>& b) {
  switch (which) {
    case 0: return a == b;
    case 1: return a != b;
    case 2: return a < b;
    case 3: return a <= b;
    case 4: return a > b;
    default: return a >= b;
  }
}
constexpr int comparison_count = 6;

// Returns a tensor of few distinct values, some of them NaN or infinite if T has them.
template <class T>
Tensor<T> draw_few(Draw& draw, const Shape& shape) {
  Tensor<double> x = draw.numbers<float>(shape);
  for (Index i = 0; i < x.size(); ++i) {
    double& value = x.data()[i];
    value = std::round(2 * value);
    if (!std::is_integral_v<T> && value > 4) value = value > 5 ? quiet_nan<double> : -infinity<double>;
  }
  return converted<T>(x);
}

// Calls check(T()) with float, bf16, int or int64.
template <class F>
void with_any_type(Draw& draw, F&& check) {
  if (draw.once_in(2)) return draw.with_type(check);
  if (draw.once_in(2)) {
    draw.tell("int");
    check(std::int32_t());
  } else {
    draw.tell("int64");
    check(std::int64_t());
  }
}

template <class T, class U>
void check_cast(const Tensor<T>& x) {
  if constexpr (!std::is_same_v<T, U>) REQUIRE(joined(cast<U>(x.to(Device::cuda)).host()) == joined(cast<U>(x).host()));
}

}  // namespace

// In bf16 the derivative follows from a rounded y. Where a function is flat, its derivative is a difference of nearly
// equal terms, whose last bits in float are larger than a rounding.
void check_functions(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    const int which = static_cast<int>(draw.between(0, function_count - 1));
    const Shape shape = draw.shape(1, 2, 10'000);
    draw.tell("function", which, shape);
    const Tensor<double> x = draw.factors<T>(shape);
    const Inputs inputs{which >= first_of_positive ? abs(x) : x};
    const auto f = [=](const auto& in) { return apply_function(which, in[0]); };
    if constexpr (std::is_same_v<T, bf16>)
      expect_agrees_with_cpu<T>(f, inputs, {.last_bits = 16, .roundings = roundings_behind_y});
    else
      expect_agrees<T>(f, inputs, gpu_function_errors);
  });
}

// In bf16 the gradient of a divisor follows from a rounded quotient.
void check_arithmetic(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    const int which = static_cast<int>(draw.between(0, arithmetic_count - 1));
    draw.tell("operation", which);
    const auto [a, b] = draw_broadcast_shapes(draw, 5000);
    const Inputs inputs{draw.factors<T>(a), draw.factors<T>(b)};
    const auto f = [=](const auto& in) { return apply_arithmetic(which, in[0], in[1]); };
    if (which == quotient && std::is_same_v<T, bf16>)
      expect_agrees_with_cpu<T>(f, inputs, roundings_behind_y);
    else
      expect_agrees<T>(f, inputs, {.last_bits = 2, .usual_size = size_of_sum(a.size() * b.size())});
  });
}

void check_comparisons(Draw& draw) {
  with_any_type(draw, [&]<class T>(T) {
    const int which = static_cast<int>(draw.between(0, comparison_count - 1));
    draw.tell("comparison", which);
    const auto [a, b] = draw_broadcast_shapes(draw, 5000);
    const Tensor<T> x = draw_few<T>(draw, a), y = draw_few<T>(draw, b);
    REQUIRE(compare(which, x.to(Device::cuda), y.to(Device::cuda)).host() == compare(which, x, y).host());
  });
}

void check_casts(Draw& draw) {
  with_any_type(draw, [&]<class T>(T) {
    const Shape shape = draw.shape(1, 2, 5000);
    draw.tell(shape);
    const Tensor<T> x = converted<T>(draw.numbers<float>(shape) * 1000);
    check_cast<T, float>(x);
    check_cast<T, bf16>(x);
    check_cast<T, std::int32_t>(x);
    check_cast<T, std::int64_t>(x);
    check_cast<T, bool>(x);
  });
}

void check_dropout(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    const Shape shape = draw.shape(1, 3, 10'000);
    const double p = draw.one_of({1.0 / 65536, 0.1, 0.5, 0.9});
    const std::uint64_t seed = draw.seed();
    const std::uint64_t position = static_cast<std::uint64_t>(draw.between(0, 1000));
    draw.tell(shape, "p", p, "position", position);
    expect_same_on_both<T>(
        [=](const auto& in) {
          Random random(seed, 2);
          random.take(position);
          return dropout(in[0], p, random);
        },
        {draw.numbers<T>(shape)});
  });
}

void check_sums(Draw& draw) {
  draw.with_type([&]<class T>(T) {
    const Shape shape = draw.shape(1, 4, draw.once_in(6) ? 40'000 : 5000);
    const std::vector<int> axes = draw_axes(draw, shape.rank());
    const bool is_mean = draw.once_in(2), keepdim = draw.once_in(2);
    Index terms = 1;
    for (const int axis : axes) terms *= shape[axis];
    if (axes.empty()) terms = shape.size();
    const double usual_size = size_of_sum(terms) / (is_mean ? static_cast<double>(terms) : 1);
    draw.tell(is_mean ? "mean" : "sum", shape, "axes", Catch::Detail::stringify(axes), "keepdim", keepdim);
    expect_agrees<T>([=](const auto& in) { return is_mean ? mean(in[0], axes, keepdim) : sum(in[0], axes, keepdim); },
                     {draw.numbers<T>(shape)}, {.last_bits = 2, .usual_size = usual_size});
  });
}

void check_extremes(Draw& draw) {
  with_any_type(draw, [&]<class T>(T) {
    const Shape shape = draw.shape(1, 4, draw.once_in(6) ? 40'000 : 5000);
    const int axis = static_cast<int>(draw.between(0, shape.rank() - 1));
    draw.tell(shape, "axis", axis);
    const Tensor<T> x = draw_few<T>(draw, shape), there = x.to(Device::cuda);
    REQUIRE(same_numbers(max(there, axis).host(), max(x, axis).host()));
    REQUIRE(same_numbers(min(there, axis).host(), min(x, axis).host()));
    REQUIRE(argmax(there, axis).host() == argmax(x, axis).host());
    REQUIRE(argmin(there, axis).host() == argmin(x, axis).host());
    if constexpr (!std::is_integral_v<T>)
      expect_agrees<T>([=](const auto& in) { return max(in[0], axis); }, {draw.numbers<T>(shape)}, {.roundings = 0});
  });
}

}  // namespace heddle::testing
