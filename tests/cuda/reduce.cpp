// The CUDA kernels of sums, means and maxima along an axis, and of the rows of sequences, against those of the CPU.
#include <heddle/ops/max.hpp>
#include <heddle/ops/reduce.hpp>
#include <heddle/ops/rows.hpp>

#include "../harness/agreement.hpp"
#include "lowered_limits.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Returns shapes [outer, n, inner], to be reduced along n.
std::vector<Shape> shapes_to_test() {
  std::vector<Shape> shapes{{0, 3, 2},  {3, 2, 0},   {1, 1, 1},     {33, 1, 1},    {31, 3, 1}, {3, 31, 1},
                            {5, 33, 1}, {2, 257, 1}, {2, 1, 33},    {1, 31, 31},   {2, 33, 8}, {5, 2, 3},
                            {33, 5, 2}, {3, 9, 33},  {1, 8, 257},   {1, 129, 128}, {2, 96, 1}, {1, 128, 1},
                            {3, 64, 1}, {1, 300, 5}, {1, 16400, 1}, {1, 33001, 1}};
  if (races_are_watched()) return shapes;
  for (const Shape& large : {Shape{257, 33, 1}, Shape{257, 3, 9}, Shape{600, 3, 2}, Shape{1, 257, 130},
                             Shape{2, 65, 257}, Shape{1, 5000, 3}, Shape{3, 17000, 1}})
    shapes.push_back(large);
  return shapes;
}

template <class T>
void check_sums() {
  for (const Shape& shape : shapes_to_test()) {
    CAPTURE(shape);
    const auto x = random<T>(shape, 1);
    expect_agrees<T>([](const auto& in) { return sum(in[0], 1); }, {x});
    expect_agrees<T>([](const auto& in) { return mean(in[0], 1, true); }, {x});
  }
}

// Returns the kernel's result for x that begins `shift` elements after an aligned address.
template <class Y, class T>
std::vector<Y> sums_of(const std::vector<T>& values, const Shape& shape, Acc<T> divisor, Index shift = 0) {
  std::vector<T> moved(static_cast<std::size_t>(shift));
  moved.insert(moved.end(), values.begin(), values.end());
  const auto x = Tensor<T>({shape.size() + shift}, moved).to(Device::cuda);
  Tensor<Y> y({shape[0], shape[2]}, Device::cuda);
  kernel::sum(Cuda{}, View<const T, 3>{std::as_const(x).device_data() + shift, {shape[0], shape[1], shape[2]}}, divisor,
              view<2>(y));
  return y.host();
}

template <class T>
std::vector<T> drawn(Index count) {
  std::vector<T> values;
  for (const double v : random<T>({count}, 3).host()) values.push_back(static_cast<T>(static_cast<float>(v)));
  return values;
}

// Returns integers of which many are equal; the sums of int64 overflow.
template <class T>
Tensor<T> integers(Shape shape) {
  Random random(5);
  const auto drawn = randn<double>(shape, random);
  std::vector<T> values;
  for (const double v : drawn.host())
    values.push_back(std::is_same_v<T, std::int64_t> && v > 1.5 ? std::numeric_limits<T>::max()
                                                                : static_cast<T>(4 * v));
  return Tensor<T>(shape, values);
}

template <class T>
void check_extremes(const Tensor<T>& x) {
  CAPTURE(x.shape());
  const auto on_gpu = x.to(Device::cuda);
  CHECK(same_numbers(max(on_gpu, 1).host(), max(x, 1).host()));
  CHECK(same_numbers(argmax(on_gpu, 1).host(), argmax(x, 1).host()));
  CHECK(same_numbers(min(on_gpu, 1).host(), min(x, 1).host()));
  CHECK(same_numbers(argmin(on_gpu, 1).host(), argmin(x, 1).host()));
}

// Returns a tensor of few distinct values, so that many elements are equal; with `special` also infinities and NaN.
template <class T>
Tensor<T> few(Shape shape, bool special) {
  constexpr float nan = std::numeric_limits<float>::quiet_NaN();
  Random random(9);
  const auto drawn = randn<double>(shape, random);
  std::vector<T> values;
  for (const double v : drawn.host()) {
    const float whole = static_cast<float>(std::round(v * 2));
    const float odd = v > 2.5 ? nan : v > 1.5 ? infinity<float> : v < 1 ? -infinity<float> : whole;
    values.push_back(T(special ? odd : whole));
  }
  return Tensor<T>(shape, values);
}

template <class T>
void check_extremes_of_floats() {
  for (const Shape& shape : shapes_to_test()) {
    check_extremes(few<T>(shape, false));
    check_extremes(few<T>(shape, true));
    expect_agrees<T>([](const auto& in) { return max(in[0], 1); }, {random<T>(shape, 1)}, {.roundings = 0});
  }
}

// `size` is the size of an ordinary sum, whose last bit is accepted if all sums are smaller; 0 stands for none.
template <class T>
void check_pooling(const std::vector<int>& lengths, Index D, Index padded_to = 0, double size = 0) {
  CAPTURE(lengths.size(), D, padded_to);
  const auto sequences = padded_to ? Sequences::padded(lengths, padded_to) : Sequences::packed(lengths);
  const Inputs rows{random<T>({sequences.rows(), D}, 1)};
  expect_agrees<T>([&](const auto& in) { return mean_rows(in[0], sequences.to(in[0].device())); }, rows,
                   {.usual_size = size / static_cast<double>(std::max<Index>(sequences.extent(), 1))});
  expect_agrees<T>([&](const auto& in) { return sum_rows(in[0], sequences.to(in[0].device())); }, rows,
                   {.usual_size = size});
  expect_agrees<T>([&](const auto& in) { return max_rows(in[0], sequences.to(in[0].device())); }, rows,
                   {.roundings = 0});
}

template <class T>
void check_pooling() {
  for (const Index D : {0, 1, 31, 33, 64, 257}) {
    check_pooling<T>({}, D);
    check_pooling<T>({0}, D);
    check_pooling<T>({1}, D);
    check_pooling<T>({3, 0, 31, 1, 5}, D);
    check_pooling<T>({3, 0, 7, 1, 5}, D, 9);
    check_pooling<T>({300}, D, 0, std::sqrt(300.0));  // the only sum of D = 1 happens to cancel
  }
  if (races_are_watched()) return;
  check_pooling<T>({257, 1000, 0, 33}, 33);
  std::vector<int> one_long(40, 1);  // so that few threads share the long sequence
  one_long.push_back(2000);
  check_pooling<T>(one_long, 33);
}

}  // namespace

TEST_CASE("cuda sum and mean: values and gradients") {
  check_sums<float>();
  check_sums<bf16>();
}

TEST_CASE("cuda reductions: few and long pieces of an axis") {
  for (const Index blocks : {2, 7}) {
    CAPTURE(blocks);
    const LoweredLimits low({.reduce_blocks = blocks});
    for (const Shape& shape : {Shape{1, 33001, 1}, Shape{1, 5000, 3}, Shape{1, 300, 130}, Shape{2, 16400, 1}}) {
      CAPTURE(shape);
      const auto check = [&]<class T>(T) {
        expect_agrees<T>([](const auto& in) { return sum(in[0], 1); }, {random<T>(shape, 1)});
        check_extremes(few<T>(shape, true));
      };
      check(float());
      check(bf16());
    }
  }
}

TEST_CASE("cuda reductions: so many pieces that their results are many, too") {
  if (races_are_watched()) return;
  expect_agrees<float>([](const auto& in) { return sum(in[0], 1); }, {random<float>({1, 8192, 128}, 1)});
}

TEST_CASE("cuda sum: bf16 to float and float to bf16, each rounded once") {
  for (const Shape& shape : shapes_to_test()) {
    CAPTURE(shape);
    const auto check = [&]<class T, class Y>(T, Y) {
      const std::vector<T> x = drawn<T>(shape.size());
      const Tensor<double> wide(shape, std::vector<double>(x.begin(), x.end()));
      const auto exact = joined(sum(wide, 1).host()), plain = joined(sum(converted<float>(wide), 1).host());
      expect_close<Y>(joined(sums_of<Y>(x, shape, 1)), exact, plain);
    };
    check(bf16(), float());
    check(float(), bf16());
  }
}

TEST_CASE("cuda sum: the alignment of x changes no bit") {
  for (const Shape& shape : {Shape{2, 96, 1}, Shape{3, 9, 64}, Shape{1, 20000, 1}, Shape{1, 300, 128}}) {
    CAPTURE(shape);
    const auto check = [&]<class T>(T) {
      const std::vector<T> x = drawn<T>(shape.size());
      CHECK(same_bits(sums_of<float>(x, shape, 3, 1), sums_of<float>(x, shape, 3)));
    };
    check(bf16());
    check(float());
  }
}

TEST_CASE("cuda sum: as exact as on the CPU, but for one rounding, if all elements are equal") {
  const Shape shape = races_are_watched() ? Shape{1, 20001, 1} : Shape{1, 3000001, 1};
  const std::vector<float> x(static_cast<std::size_t>(shape.size()), 0.1f);
  const double exact = static_cast<double>(0.1f) * static_cast<double>(shape.size());
  const double from_cpu = static_cast<double>(sum(Tensor<float>(shape, x), 1).item());
  const double from_gpu = static_cast<double>(sums_of<float>(x, shape, 1)[0]);
  CHECK(std::abs(from_gpu - exact) <= std::abs(from_cpu - exact) + exact * 0x1p-23);
}

TEST_CASE("cuda sum: integers are added modulo 2^64") {
  for (const Shape& shape : shapes_to_test()) {
    CAPTURE(shape);
    const auto check = [&]<class T>(T) {
      const Tensor<T> x = integers<T>(shape);
      CHECK(sum(x.to(Device::cuda), 1).host() == sum(x, 1).host());
    };
    check(std::int32_t());
    check(std::int64_t());
    check(bool());
  }
}

TEST_CASE("cuda max, min, argmax, argmin: the first of equal extremes is taken, and a NaN before any number") {
  check_extremes_of_floats<float>();
  check_extremes_of_floats<bf16>();
}

TEST_CASE("cuda max, min, argmax, argmin: the smallest and the largest integer") {
  const auto check = []<class T>(T) {
    using Limits = std::numeric_limits<T>;
    check_extremes(Tensor<T>({2, 3, 1}, {0, Limits::min(), 5, Limits::max(), 0, 1}));
  };
  check(std::int32_t());
  check(std::int64_t());
}

TEST_CASE("cuda max, min, argmax, argmin of integers") {
  for (const Shape& shape : shapes_to_test()) {
    check_extremes(integers<std::int32_t>(shape));
    check_extremes(integers<std::int64_t>(shape));
  }
}

TEST_CASE("cuda mean_rows, sum_rows, max_rows: values and gradients") {
  check_pooling<float>();
  check_pooling<bf16>();
}

TEST_CASE("cuda reductions: results do not depend on schedules or garbage in memory") {
  const auto check = [&]<class T>(T) {
    for (const Shape& shape : {Shape{3, 33, 1}, Shape{2, 40000, 1}, Shape{1, 300, 130}, Shape{5, 9, 3}}) {
      CAPTURE(shape);
      expect_same_always<T>([](const auto& in) { return mean(in[0], 1); }, {random<T>(shape, 1)});
      expect_same_always<T>([](const auto& in) { return max(in[0], 1); }, {random<T>(shape, 1)});
    }
    const auto sequences = Sequences::packed({3, 0, 300, 1, 40});
    expect_same_always<T>([&](const auto& in) { return mean_rows(in[0], sequences.to(in[0].device())); },
                          {random<T>({sequences.rows(), 33}, 1)});
  };
  check(float());
  check(bf16());
}
