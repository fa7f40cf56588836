#include "numbers.hpp"

#include <utility>

heddle::Tensor<double> heddle::testing::normal_numbers(Shape shape, std::uint64_t seed) {
  Random generator(seed);
  return randn<double>(std::move(shape), generator);
}
