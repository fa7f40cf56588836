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
void check_compare(const Shape& a, const Shape& b) {
  CAPTURE(a, b);
  const Tensor<T> x = whole_numbers<T>(a, 1), y = whole_numbers<T>(b, 2);
  const Tensor<T> x_there = x.to(Device::cuda), y_there = y.to(Device::cuda);
  CHECK((x_there == y_there).host() == (x == y).host());
  CHECK((x_there != y_there).host() == (x != y).host());
  CHECK((x_there < y_there).host() == (x < y).host());
  CHECK((x_there <= y_there).host() == (x <= y).host());
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
