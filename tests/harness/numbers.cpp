#include "numbers.hpp"

#include <map>
#include <mutex>
#include <utility>

// The numbers of a seed do not depend on the shape, so those that were drawn for a longer tensor are used again:
// drawing them took a tenth of the time of the kernels' tests. They are kept outside of heddle's memory, whose use some
// tests count.
heddle::Tensor<double> heddle::testing::normal_numbers(Shape shape, std::uint64_t seed) {
  constexpr Index most = 1 << 20;  // numbers that are kept for a seed
  static std::mutex mutex;
  static std::map<std::uint64_t, std::vector<double>> drawn;
  Random generator(seed);
  if (shape.size() > most) return randn<double>(std::move(shape), generator);
  const std::lock_guard lock(mutex);
  std::vector<double>& numbers = drawn[seed];
  if (std::ssize(numbers) < shape.size()) numbers = randn<double>({shape.size()}, generator).host();
  Tensor<double> x(std::move(shape));
  std::copy_n(numbers.data(), x.size(), x.data());
  return x;
}
