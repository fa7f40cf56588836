// Checks that the CUDA kernels that move elements give the same bits as the CPU's, for each word size.
#include <heddle/gpu/kernels.hpp>
#include <heddle/ops/embed.hpp>
#include <heddle/ops/permute.hpp>
#include <heddle/ops/rows.hpp>
#include <heddle/ops/where.hpp>

#include "../catch.hpp"
#include "device_array.hpp"
#include "lowered_limits.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Calls f for each word type.
template <class F>
void for_words(F&& f) {
  f.template operator()<std::uint8_t>();
  f.template operator()<std::uint16_t>();
  f.template operator()<std::uint32_t>();
  f.template operator()<std::uint64_t>();
}

// Returns `count` words that differ as far as their size allows.
template <class W>
std::vector<W> numbered(Index count, std::uint64_t begin = 0) {
  std::vector<W> values(size_of(count));
  for (auto& value : values) value = static_cast<W>(++begin * 0x9e3779b97f4a7c15u >> 23);
  return values;
}
std::vector<std::uint8_t> coins(Index count) {
  std::vector<std::uint8_t> values = numbered<std::uint8_t>(count, 7);
  for (auto& value : values) value &= 1;
  return values;
}
constexpr std::size_t shifts[] = {0, 1};  // offsets of y from an aligned address, in words

const bool* flags(const std::uint8_t* values) { return reinterpret_cast<const bool*>(values); }

// Returns the `count` words that f writes on the GPU, from `shift` words after an aligned address on.
template <class W, class F>
std::vector<W> on_gpu(Index count, F&& f, std::size_t shift = 0) {
  const DeviceArray<W> y(std::vector<W>(size_of(count) + shift, W{77}));
  cudaDeviceSynchronize();  // copies are on another stream
  f(y.data() + shift);
  cuda::synchronize();
  const std::vector<W> all = y.host();
  for (std::size_t i = 0; i < shift; ++i) REQUIRE(all[i] == W{77});
  return {all.begin() + static_cast<std::ptrdiff_t>(shift), all.end()};
}
template <class W, class F>
std::vector<W> on_cpu(Index count, F&& f) {
  std::vector<W> y(size_of(count), W{77});
  f(y.data());
  return y;
}

template <class W>
void check_permute(const Shape& shape, const std::vector<int>& axes) {
  CAPTURE(shape, axes, sizeof(W));
  const kernel::Permutation p(shape, axes);
  const Index size = shape.size();
  const std::vector<W> x = numbered<W>(size);
  const DeviceArray<W> on_device(x);
  const auto expected = on_cpu<W>(size, [&](W* y) { kernel::permute(Cpu{}, p, x.data(), View<W, 1>{y, {size}}); });
  for (const std::size_t shift : shifts)
    REQUIRE((on_gpu<W>(
                 size,
                 [&](W* y) {
                   kernel::permute(Cuda{}, p, on_device.data(), View<W, 1>{y, {size}});
                 },
                 shift) == expected));
}

// Checks `where` for operands of these shapes: condition, a and b.
template <class W>
void check_where(const Shape& c_shape, const Shape& a_shape, const Shape& b_shape) {
  const Shape shape = [&] {
    const Tensor<bool> c(c_shape);
    const Tensor<int> a(a_shape), b(b_shape);
    return detail::broadcast_shape("where", {{"condition", c}, {"a", a}, {"b", b}});
  }();
  CAPTURE(c_shape, a_shape, b_shape, sizeof(W));
  const auto plan = detail::broadcast_plan(shape, c_shape, a_shape, b_shape);
  const std::vector<std::uint8_t> c = coins(c_shape.size());
  const std::vector<W> a = numbered<W>(a_shape.size()), b = numbered<W>(b_shape.size(), 1 << 20);
  const DeviceArray<std::uint8_t> c_there(c);
  const DeviceArray<W> a_there(a), b_there(b);
  const auto expected =
      on_cpu<W>(shape.size(), [&](W* y) { kernel::where(Cpu{}, plan, flags(c.data()), a.data(), b.data(), y); });
  for (const std::size_t shift : shifts) {
    const auto got = on_gpu<W>(
        shape.size(),
        [&](W* y) {
          kernel::where(Cuda{}, plan, flags(c_there.data()), static_cast<const W*>(a_there.data()),
                        static_cast<const W*>(b_there.data()), y);
        },
        shift);
    REQUIRE((got == expected));
  }
}

template <class W, class I>
void check_take_rows(Index rows, Index columns, const std::vector<I>& ids) {
  CAPTURE(rows, columns, ids.size(), sizeof(W), sizeof(I));
  const Index n = static_cast<Index>(ids.size());
  const std::vector<W> x = numbered<W>(rows * columns);
  std::vector<W> expected;
  for (const I id : ids)
    for (Index d = 0; d < columns; ++d)
      expected.push_back(id >= 0 && id < rows ? x[size_of(Index{id} * columns + d)] : W{0});
  const DeviceArray<W> x_there(x);
  const DeviceArray<I> ids_there(ids);
  for (const std::size_t shift : shifts)
    REQUIRE((on_gpu<W>(
                 n * columns,
                 [&](W* y) {
                   kernel::take_rows(Cuda{}, View<const I, 1>{ids_there.data(), {n}},
                                     View<const W, 2>{x_there.data(), {rows, columns}}, View<W, 2>{y, {n, columns}});
                 },
                 shift) == expected));
}

// Checks ranges of rows that have a row between them in x, and lie in reverse order without gaps in y.
template <class W>
void check_stretches(const std::vector<int>& count, Index columns) {
  CAPTURE(count, columns, sizeof(W));
  const Index B = static_cast<Index>(count.size());
  std::vector<int> from(count.size()), to(count.size());
  int x_rows = 0, y_rows = 0;
  for (std::size_t b = 0; b < count.size(); ++b) from[b] = x_rows, x_rows += count[b] + 1;
  for (std::size_t b = count.size(); b-- > 0; y_rows += count[b]) to[b] = y_rows;
  const std::vector<W> x = numbered<W>(x_rows * columns);
  const auto copy = [&](auto device, const W* source, const int* f, const int* t, const int* c, W* y) {
    using Numbers = View<const int, 1>;
    kernel::copy_row_ranges(device, Numbers{f, {B}}, Numbers{t, {B}}, Numbers{c, {B}},
                            View<const W, 2>{source, {x_rows, columns}}, View<W, 2>{y, {y_rows, columns}});
  };
  const auto expected =
      on_cpu<W>(y_rows * columns, [&](W* y) { copy(Cpu{}, x.data(), from.data(), to.data(), count.data(), y); });
  const DeviceArray<W> there(x);
  const DeviceArray<int> f(from), t(to), c(count);
  for (const std::size_t shift : shifts)
    REQUIRE((on_gpu<W>(
                 y_rows * columns, [&](W* y) { copy(Cuda{}, there.data(), f.data(), t.data(), c.data(), y); }, shift) ==
             expected));
}

}  // namespace

TEST_CASE("cuda fill: writes every element at any alignment") {
  for_words([]<class W> {
    for (const Index count : {0, 1, 31, 33, 257, 4096, 8193})
      for (const std::size_t shift : {0u, 1u, 3u}) {
        CAPTURE(count, shift);
        const W value = static_cast<W>(0xfedcba9876543210);
        const auto y = on_gpu<W>(
            count,
            [&](W* data) {
              kernel::fill(Cuda{}, View<W, 1>{data, {count}}, value);
            },
            shift);
        REQUIRE((y == std::vector<W>(size_of(count), value)));
      }
  });
}

TEST_CASE("cuda permute: copies whole rows if the last axis stays last") {
  for_words([]<class W> {
    check_permute<W>({}, {});
    check_permute<W>({7}, {0});
    check_permute<W>({3, 5, 16}, {1, 0, 2});
    check_permute<W>({3, 5, 33}, {1, 0, 2});
    check_permute<W>({2, 3, 4, 5, 6}, {3, 1, 0, 2, 4});
    check_permute<W>({2, 0, 4}, {1, 0, 2});
    check_permute<W>({2, 1, 2, 1, 3, 2, 2, 2}, {6, 5, 4, 3, 2, 1, 0, 7});
  });
}

TEST_CASE("cuda permute: transposes if the last axis moves") {
  for_words([]<class W> {
    check_permute<W>({1, 7}, {1, 0});
    check_permute<W>({2, 3}, {1, 0});
    check_permute<W>({33, 31}, {1, 0});
    check_permute<W>({65, 66}, {1, 0});
    check_permute<W>({1, 257}, {1, 0});
    check_permute<W>({2, 600}, {1, 0});
    check_permute<W>({600, 2}, {1, 0});
    check_permute<W>({3, 2100}, {1, 0});
    check_permute<W>({2100, 3}, {1, 0});
    check_permute<W>({2, 33, 3, 40}, {2, 0, 3, 1});
    check_permute<W>({33, 2, 3, 40}, {3, 2, 1, 0});
    check_permute<W>({5, 6, 7}, {2, 1, 0});
    check_permute<W>({3, 0, 7}, {2, 1, 0});
    check_permute<W>({2, 2, 2, 3, 2, 2, 2, 2}, {7, 6, 5, 4, 3, 2, 1, 0});
  });
}

TEST_CASE("cuda where: broadcasts rows, columns, numbers and middle axes") {
  for_words([]<class W> {
    check_where<W>({0}, {0}, {0});
    check_where<W>({}, {}, {});
    check_where<W>({257}, {257}, {257});
    check_where<W>({3, 33}, {}, {3, 33});
    check_where<W>({3, 1}, {3, 64}, {64});
    check_where<W>({64}, {3, 1}, {3, 64});
    check_where<W>({3, 1}, {3, 31}, {31});
    check_where<W>({2, 1, 1, 48}, {2, 3, 5, 48}, {});
    check_where<W>({2, 1, 5, 1}, {3, 1, 7}, {2, 3, 5, 7});
    check_where<W>({5, 1}, {1, 7}, {1, 1});
    check_where<W>({8200}, {1}, {8200});
    check_where<W>({2, 1}, {2, 4128}, {4128});
  });
}

TEST_CASE("cuda take_rows: an id that is out of range gives zeros") {
  for_words([]<class W> {
    for (const Index columns : {0, 1, 16, 31, 33, 64, 257}) {
      check_take_rows<W, std::int32_t>(5, columns, {4, 0, -1, 5, 2, 2, 2147483647, -2147483647 - 1});
      check_take_rows<W, std::int64_t>(5, columns, {4, 0, -1, 5, 2, 2, Index{1} << 32, std::int64_t{-1} << 62});
    }
    check_take_rows<W, std::int32_t>(5, 8, {});
    check_take_rows<W, std::int32_t>(0, 8, {0, 1});
  });
}

TEST_CASE("cuda copy_row_ranges: copies each row to its place") {
  for_words([]<class W> {
    for (const Index columns : {0, 1, 16, 33}) {
      check_stretches<W>({}, columns);
      check_stretches<W>({0}, columns);
      check_stretches<W>({1, 0, 31, 0, 33, 2}, columns);
    }
    check_stretches<W>({257}, 33);
    check_stretches<W>({1, 700, 1}, 16);
  });
}

TEST_CASE("cuda copy_row_ranges: blocks that copy several groups of words") {
  const LoweredLimits low({.range_blocks = 2});
  for_words([]<class W> { check_stretches<W>({1, 700, 1}, 33); });
}

TEST_CASE("cuda copy_rows: rows that are further apart than cudaMemcpy2DAsync accepts") {
  constexpr Index rows = 5, width = 3, stride = 7;
  const std::vector<std::uint16_t> x = numbered<std::uint16_t>(rows * stride);
  std::vector<std::uint16_t> expected(size_of(rows * stride), 77);
  for (Index n = 0; n < rows; ++n) std::copy_n(x.begin() + n * width, width, expected.begin() + n * stride);
  const DeviceArray<std::uint16_t> there(x);
  for (const std::size_t pitch : {std::size_t{0x7fffffff}, 2 * stride - std::size_t{1}}) {
    const LoweredLimits low({.pitch = pitch});
    CHECK(on_gpu<std::uint16_t>(rows * stride, [&](std::uint16_t* y) {
            cuda::copy_rows(y, 2 * stride, there.data(), 2 * width, 2 * width, rows);
          }) == expected);
  }
}

TEST_CASE("cuda permute: the result does not depend on the schedule") {
  const std::vector<std::uint16_t> x = numbered<std::uint16_t>(70 * 40);
  const DeviceArray<std::uint16_t> there(x);
  const kernel::Permutation p({70, 40}, {1, 0});
  expect_same_always([&] {
    return on_gpu<std::uint16_t>(70 * 40, [&](std::uint16_t* y) {
      kernel::permute(Cuda{}, p, there.data(), View<std::uint16_t, 1>{y, {70 * 40}});
    });
  });
}

TEST_CASE("cuda first_rows and last_rows: values and gradients, with empty sequences") {
  const auto check = []<class T>(T, Index D) {
    CAPTURE(D, sizeof(T));
    const Sequences sequences = Sequences::packed({2, 0, 33, 0});
    for (const bool last : {false, true}) {
      const auto on = [&](Device device) {
        std::vector<float> values;
        for (Index i = 0; i < 35 * D; ++i) values.push_back(static_cast<float>(i % 251));
        const Tensor<T> x = variable(cast<T>(Tensor<float>({35, D}, values)).to(device));
        const Sequences there = sequences.to(device);
        const Tensor<T> y = last ? last_rows(x, there) : first_rows(x, there);
        backward(y, detach(y));
        return std::pair(y.host(), x.grad().host());
      };
      CHECK(on(Device::cuda) == on(Device::cpu));
    }
  };
  for (const Index D : {1, 8, 33, 257}) {
    check(float(), D);
    check(bf16(), D);
  }
}
