// The CUDA kernels of softmax and log_softmax against the CPU's: along rows that the registers of a warp or a block
// hold, along longer rows, and along columns.
#include <heddle/ops/softmax.hpp>

#include "../harness/agreement.hpp"
#include "device_array.hpp"
#include "rows.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// These two functions call the kernels of the forward and of the backward separately: in bf16, a backward that followed
// the forward would inherit y's rounding.
template <class F, class T>
Tensor<T> forward(const Tensor<T>& x, int axis) {
  Tensor<T> y = empty_like(x);
  dispatch(x, [&](auto device) {
    kernel::softmax(device, F{}, detail::view_around(x, axis), false, detail::view_around(y, axis));
  });
  return y;
}
template <class F, class T>
Tensor<T> backward(const Tensor<T>& dy, const Tensor<T>& y, int axis) {
  Tensor<T> dx = empty_like(y);
  dispatch(y, [&](auto device) {
    kernel::softmax_backward(device, F{}, detail::view_around(dy, axis), detail::view_around(y, axis),
                             detail::view_around(dx, axis));
  });
  return dx;
}

template <class F, class T>
void check_kernels(const Shape& shape, int axis) {
  const auto x = random<T>(shape, 1), dy = random<T>(shape, 2);
  const auto y = rounded<T>(forward<F>(x, axis));
  expect_agrees<T>([axis](const auto& in) { return forward<F>(in[0], axis); }, {x});
  expect_agrees<T>([axis](const auto& in) { return backward<F>(in[0], in[1], axis); }, {dy, y});
}
template <class T>
void check(const Shape& shape, int axis) {
  CAPTURE(shape, axis);
  check_kernels<kernel::Softmax, T>(shape, axis);
  check_kernels<kernel::LogSoftmax, T>(shape, axis);
}

// Return lengths at and just beyond each limit of a kernel: the registers of a lane and of a warp, with accesses of one
// element and of 16 bytes, and the blocks of the backward and of the forward.
std::vector<Index> row_lengths() {
  if (races_are_watched()) return {0, 1, 33, 256, 260, 1024, 1032, 4096};
  return {0, 1, 2, 8, 9, 31, 33, 64, 255, 256, 257, 264, 1000, 1024, 1032, 1033, 4096, 4097, 8192, 8193};
}
std::vector<Index> long_row_lengths() {
  if (races_are_watched())
    return {1025, 4104};  // blocks are smaller under ThreadSanitizer, but not under compute-sanitizer
  return {16'384, 16'392, 32'768, 32'776, 40'001};
}

}  // namespace

TEST_CASE("cuda softmax: rows agree with double at each limit of a kernel") {
  for (const Index n : row_lengths()) {
    const Index most = n > 1024 ? 3 : 33;
    for (const Index rows : rows_to_test()) {
      if (rows > most) continue;
      check<float>({rows, n}, 1);
      check<bf16>({rows, n}, 1);
    }
  }
  check<float>({257, 1}, 1);
  check<bf16>({257, 16}, 1);
}

TEST_CASE("cuda softmax: rows that are longer than registers hold") {
  for (const Index n : long_row_lengths()) {
    check<float>({1, n}, 1);
    check<bf16>({1, n}, 1);
  }
}

TEST_CASE("cuda softmax: columns of any number and length agree with double") {
  for (const Shape& shape : {Shape{2, 33, 3},
                             {1, 1, 2},
                             {2, 0, 3},
                             {0, 2, 2},
                             {3, 5, 64},
                             {1, 4, 257},
                             {1, 9, 1032},
                             {2, 130, 8},
                             {1, 257, 33},
                             {5, 1, 31}}) {
    check<float>(shape, 1);
    check<bf16>(shape, 1);
  }
  if (races_are_watched()) return;
  check<float>({1, 3000, 2}, 1);
  check<bf16>({2, 1025, 16}, 1);
}

// The mask hides the whole first slice, and all but every 64th element of the second one, so that whole splits see no
// element.
TEST_CASE("cuda softmax: rows and columns in which a mask leaves no or few elements") {
  const auto check = [](const Shape& shape, int axis) {
    CAPTURE(shape, axis);
    const Index slice = shape[1] * shape[2];
    std::vector<bool> visible(static_cast<std::size_t>(3 * slice), true);
    for (Index i = 0; i < 2 * slice; ++i)
      visible[static_cast<std::size_t>(i)] = i >= slice && i / (axis == 1 ? shape[2] : 1) % 64 == 63;
    const Tensor<bool> mask(shape, visible);
    const auto f = [&](const auto& in) { return softmax(in[0], mask.to(in[0].device()), axis); };
    expect_agrees<float>(f, {random<float>(shape, 1)}, gpu_function_errors);
  };
  check({3, 2, 70}, 2);
  check({3, 1, 300}, 2);
  check({3, 300, 5}, 1);
  if (!races_are_watched()) check({3, 1, 40'001}, 2);
}

TEST_CASE("cuda softmax: memory that is aligned to elements only") {
  for (const Shape& shape : {Shape{3, 64}, {2, 1032}, {3, 5, 8}}) {
    CAPTURE(shape);
    const auto x = random<float>(shape, 1);
    const auto values = converted<float>(x).host();
    std::vector<float> shifted = values;
    shifted.insert(shifted.begin(), 0.f);
    const DeviceArray<float> memory(shifted);
    cudaDeviceSynchronize();
    const auto there = Tensor<float>::wrap(memory.data() + 1, shape, Device::cuda);
    expect_close<float>(joined(softmax(there, 1).host()), joined(softmax(x, 1).host()),
                        joined(softmax(Tensor<float>(shape, values), 1).host()));
  }
}

TEST_CASE("cuda softmax: results do not depend on schedules or garbage in memory") {
  for (const Shape& shape : {Shape{5, 33}, {2, 1032}, {3, 40, 5}})
    expect_same_always<float>([](const auto& in) { return log_softmax(in[0], 1); }, {random<float>(shape, 1)});
  if (races_are_watched()) return;
  expect_same_always<bf16>([](const auto& in) { return softmax(in[0], 1); }, {random<bf16>({1, 33'000}, 1)});
}
