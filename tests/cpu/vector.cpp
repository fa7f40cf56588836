#include <heddle/cpu/vector.hpp>

#include <cmath>
#include <vector>

#include "catch.hpp"

using namespace heddle;
using heddle::kernel::Chunk;
using heddle::kernel::Vector;

namespace {

constexpr Index sizes[] = {0, 1, 15, 16, 17, 31, 33, 257};

// Returns n numbers, of both signs.
template <class A>
std::vector<A> numbers(Index n) {
  std::vector<A> x;
  for (Index i = 0; i < n; ++i) x.push_back(static_cast<A>((i * 37 + 11) % 101) / 8 - 6);
  return x;
}

template <class A>
void check_loops() {
  for (const Index n : sizes) {
    CAPTURE(n);
    const std::vector<A> x = numbers<A>(n);
    std::vector<A> y(static_cast<std::size_t>(n + 1), A(99));
    Index seen = 0;
    kernel::for_each_chunk<A>(n, [&](Chunk<A> at) {
      CHECK(at.first == seen);
      CHECK((at.count == Vector<A>::width || at.first + at.count == n));
      at.store(y.data(), at.load(x.data()) * A(2));
      seen += at.count;
    });
    CHECK(seen == n);
    double sum = 0, greatest = -std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < x.size(); ++i) {
      CHECK(y[i] == 2 * x[i]);
      sum += static_cast<double>(x[i]);
      greatest = std::max(greatest, static_cast<double>(x[i]));
    }
    CHECK(y.back() == 99);  // nothing is written after the row
    // Sums of eighths are exact.
    CHECK(static_cast<double>(kernel::sum_of<A>(n, [&](Chunk<A> at) { return at.load(x.data()); })) == sum);
    CHECK(static_cast<double>(kernel::max_of<A>(n, [&](Chunk<A> at) { return at.load(x.data()); })) == greatest);
    // Lanes without an element do not count, whatever the function returns for them.
    CHECK(kernel::sum_of<A>(n, [](Chunk<A>) { return Vector<A>(A(1)); }) == static_cast<A>(n));
    CHECK(kernel::max_of<A>(n, [&](Chunk<A> at) {
            return at.load(x.data()) * A(0) - at.load(x.data()) * A(0) - A(1);
          }) == (n > 0 ? A(-1) : -std::numeric_limits<A>::infinity()));
  }
}

}  // namespace

TEST_CASE("vector: loops cover a row and nothing else") {
  check_loops<float>();
  check_loops<double>();
}

TEST_CASE("vector: bf16 is loaded exactly and rounded as by its constructor") {
  const float inf = std::numeric_limits<float>::infinity(), none = std::numeric_limits<float>::quiet_NaN();
  std::vector<float> x = {0.f, -0.f, 1.f, inf, -inf, none, 3.4e38f, 1e-40f};
  // Ties with an even and an odd upper half, their neighbors, a tie that becomes infinity, and a NaN with a payload
  // only in the lower half.
  for (const std::uint32_t word : {0x3f808000u, 0x3f818000u, 0x3f808001u, 0x3f817fffu, 0x7f7f8000u, 0x7f800001u})
    x.push_back(__builtin_bit_cast(float, word));
  for (Index shift = 0; shift < 20; ++shift) {  // full and partial chunks
    std::vector<float> moved(static_cast<std::size_t>(shift), 1.5f);
    moved.insert(moved.end(), x.begin(), x.end());
    const auto n = static_cast<Index>(moved.size());
    std::vector<bf16> y(moved.size());
    std::vector<float> back(moved.size());
    kernel::copy_row(y.data(), moved.data(), n);
    kernel::copy_row(back.data(), y.data(), n);
    for (std::size_t i = 0; i < moved.size(); ++i) {
      CAPTURE(shift, i, moved[i]);
      CHECK(y[i].bits == bf16(moved[i]).bits);
      CHECK(__builtin_bit_cast(std::uint32_t, back[i]) == std::uint32_t{y[i].bits} << 16);
    }
  }
}

TEST_CASE("vector: square roots are rounded correctly") {
  for (const float x : {0.f, 2.f, 50.f, 1e-38f, 1e38f, std::numeric_limits<float>::infinity()})
    for (Index i = 0; i < Vector<float>::width; ++i) {
      CHECK(sqrt(Vector<float>(x)).lanes[i] == std::sqrt(x));
      CHECK(std::isnan(sqrt(Vector<float>(-1.f)).lanes[i]));
    }
  for (const double x : {2., 50., 1e-300, 1e300}) CHECK(sqrt(Vector<double>(x)).lanes[0] == std::sqrt(x));
}

TEST_CASE("vector: NaN in comparisons") {
  const float none = std::numeric_limits<float>::quiet_NaN();
  CHECK(std::isnan(max(Vector<float>(none), Vector<float>(1.f)).lanes[0]));
  CHECK(max(Vector<float>(1.f), Vector<float>(none)).lanes[0] == 1);
  CHECK(select(Vector<float>(none) < 1.f, 2.f, 3.f).lanes[0] == 3);
}

TEST_CASE("vector: integers are added as unsigned words") {
  const std::vector<std::int32_t> x = {-1, 5, std::numeric_limits<std::int32_t>::min()};
  std::vector<std::uint64_t> sum = {1, std::numeric_limits<std::uint64_t>::max(), 0};
  kernel::add_row(sum.data(), x.data(), 3);
  CHECK(sum[0] == 0);
  CHECK(sum[1] == 4);
  CHECK(static_cast<std::int64_t>(sum[2]) == std::numeric_limits<std::int32_t>::min());
}

TEMPLATE_TEST_CASE("vector: exp_or_zero", "", float, double) {
  using V = Vector<TestType>;
  const auto at = [](TestType x) { return exp_or_zero(V(x)).lanes[0]; };
  constexpr TestType infinity = std::numeric_limits<TestType>::infinity();
  CHECK(at(-infinity) == 0);
  CHECK(at(-1000) == 0);
  CHECK(at(0) == 1);
  CHECK(std::isnan(at(std::numeric_limits<TestType>::quiet_NaN())));
  double most = 0;  // last bits
  for (double x = -87; x <= 88; x += 0x1.9p-9) {
    const auto number = static_cast<TestType>(x);
    const double exact = std::exp(static_cast<double>(number)),
                 bit = std::numeric_limits<TestType>::epsilon() * std::exp2(std::floor(std::log2(exact)));
    most = std::max(most, std::abs(static_cast<double>(at(number)) - exact) / bit);
  }
  CHECK(most < 2);
}
