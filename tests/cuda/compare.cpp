// The CUDA kernels of comparisons against those of the CPU.
#include <heddle/ops/compare.hpp>

#include "../harness/devices.hpp"
#include "../harness/numbers.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Returns a tensor of few distinct values, so that many elements are equal.
template <class T>
Tensor<T> whole_numbers(const Shape& shape, std::uint64_t seed) {
  Tensor<double> x = random(shape, seed);
  for (Index i = 0; i < x.size(); ++i) x.data()[i] = std::round(2 * x.data()[i]);
  return converted<T>(x);
}

template <class T>
void check_compare(const Tensor<T>& x, const Tensor<T>& y) {
  const Tensor<T> x_there = x.to(Device::cuda), y_there = y.to(Device::cuda);
  CHECK((x_there == y_there).host() == (x == y).host());
  CHECK((x_there != y_there).host() == (x != y).host());
  CHECK((x_there < y_there).host() == (x < y).host());
  CHECK((x_there <= y_there).host() == (x <= y).host());
}

template <class T>
void check_compare(const Shape& a, const Shape& b) {
  CAPTURE(a, b);
  check_compare(whole_numbers<T>(a, 1), whole_numbers<T>(b, 2));
}

// Compares each of the values with each.
template <class T>
void check_pairs(const std::vector<T>& values) {
  const Index n = static_cast<Index>(values.size());
  check_compare(Tensor<T>({n, 1}, values), Tensor<T>({n}, values));
}

}  // namespace

TEST_CASE("cuda compare: equal shapes and broadcast ones, in whole vectors and not") {
  std::vector<std::pair<Shape, Shape>> shapes{
      {{0}, {0}},          {{}, {}},      {{257}, {257}},           {{3, 64}, {64}}, {{33}, {31, 33}},
      {{31, 33}, {31, 1}}, {{1}, {4097}}, {{2, 1, 5, 1}, {3, 1, 7}}};
  for (const auto& [a, b] : shapes) {
    check_compare<float>(a, b);
    check_compare<bf16>(a, b);
    check_compare<int>(a, b);
    check_compare<std::int64_t>(a, b);
  }
}

TEST_CASE("cuda compare: NaN, infinity, zeros of both signs, and integers that no float represents") {
  using Float = std::numeric_limits<float>;
  using Long = std::numeric_limits<std::int64_t>;
  check_pairs<float>({0.f, -0.f, 1.f, Float::denorm_min(), Float::max(), Float::lowest(), Float::infinity(),
                      -Float::infinity(), Float::quiet_NaN(), -Float::quiet_NaN()});
  check_pairs<std::int64_t>({0, -1, 16777216, 16777217, (1l << 53) + 1, (1l << 53) + 2, Long::max(), Long::min()});
}
