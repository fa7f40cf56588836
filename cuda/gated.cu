// Gated units and their backward. Definition: include/heddle/ops/gated.hpp.
//
// A thread owns a vector of 16 bytes of a row of y, and the two vectors of x that it is made of. The forward reads x
// once and writes y once; the backward reads dy and x once and writes dx once. Where the addresses or the rows' length
// do not allow vectors, the elements move one by one.
#include "device/fast_normal.cuh"
#include "device/instances.cuh"
#include "device/packed.cuh"
#include "device/row_vectors.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {

constexpr int gate_threads = cuda::block_threads(256);

struct ValueAndSlope {
  float value, slope;
};

template <class F, class T>
struct GateFunction {
  __device__ static float value(float x) { return F::f(x); }
  __device__ static ValueAndSlope both(float x) {
    const float y = F::f(x);
    return {y, F::df(x, y)};
  }
};
template <>
struct GateFunction<Gelu, bf16> {
  __device__ static float value(float x) { return x * cuda::FastNormal(x).distribution(); }
  __device__ static ValueAndSlope both(float x) {
    const cuda::FastNormal normal(x);
    return {x * normal.distribution(), normal.distribution() + x * normal.density()};
  }
};

template <bool vectors, class F, class T>
__global__ __launch_bounds__(gate_threads) void gate(bool gate_is_first, View<const T, 2> x, View<T, 2> y) {
  constexpr int width = cuda::vector_width<T>;
  const Index W = y.extent[1];
  const cuda::RowVector<width> at(y.extent[0], W);
  if (at.count <= 0) return;
  const T *const first = &x(at.row, at.column), *const second = first + W;
  const auto a = cuda::load_packed<vectors, width>(gate_is_first ? first : second, at.count),
             b = cuda::load_packed<vectors, width>(gate_is_first ? second : first, at.count);
  float values[width];
  cuda::unrolled<width>([&](int i) { values[i] = GateFunction<F, T>::value(a[i]) * b[i]; });
  cuda::store_packed<vectors>(&y(at.row, at.column), at.count, cuda::Packed<T, width>::rounded(values));
}

template <bool vectors, class F, class T>
__global__ __launch_bounds__(gate_threads) void gate_backward(bool gate_is_first, View<const T, 2> dy,
                                                              View<const T, 2> x, View<T, 2> dx) {
  constexpr int width = cuda::vector_width<T>;
  const Index W = dy.extent[1];
  const cuda::RowVector<width> at(dy.extent[0], W);
  if (at.count <= 0) return;
  const Index of_gate = gate_is_first ? 0 : W, of_value = W - of_gate;
  const T* const from = &x(at.row, at.column);
  const auto a = cuda::load_packed<vectors, width>(from + of_gate, at.count),
             b = cuda::load_packed<vectors, width>(from + of_value, at.count),
             given = cuda::load_packed<vectors, width>(&dy(at.row, at.column), at.count);
  float da[width], db[width];
  cuda::unrolled<width>([&](int i) {
    const ValueAndSlope f = GateFunction<F, T>::both(a[i]);
    da[i] = given[i] * b[i] * f.slope;
    db[i] = given[i] * f.value;
  });
  T* const to = &dx(at.row, at.column);
  cuda::store_packed<vectors>(to + of_gate, at.count, cuda::Packed<T, width>::rounded(da));
  cuda::store_packed<vectors>(to + of_value, at.count, cuda::Packed<T, width>::rounded(db));
}

}  // namespace

template <class F, OnGpu T>
void gated(Cuda, F, bool gate_is_first, View<const T, 2> x, View<T, 2> y) {
  constexpr int width = cuda::vector_width<T>;
  const unsigned blocks = cuda::row_vector_blocks<width>(y.extent[0], y.extent[1], gate_threads);
  const auto launch = [&]<bool vectors>(std::bool_constant<vectors>) {
    cuda::launch<gate<vectors, F, T>>(blocks, gate_threads, 0, cuda::current_stream(), gate_is_first, x, y);
  };
  if (blocks == 0) return;
  cuda::have_row_vectors<width>(y.extent[1], x.data, y.data) ? launch(std::true_type()) : launch(std::false_type());
}

template <class F, OnGpu T>
void gated_backward(Cuda, F, bool gate_is_first, View<const T, 2> dy, View<const T, 2> x, View<T, 2> dx) {
  constexpr int width = cuda::vector_width<T>;
  const unsigned blocks = cuda::row_vector_blocks<width>(dy.extent[0], dy.extent[1], gate_threads);
  const auto launch = [&]<bool vectors>(std::bool_constant<vectors>) {
    cuda::launch<gate_backward<vectors, F, T>>(blocks, gate_threads, 0, cuda::current_stream(), gate_is_first, dy, x,
                                               dx);
  };
  if (blocks == 0) return;
  cuda::have_row_vectors<width>(dy.extent[1], dy.data, x.data, dx.data) ? launch(std::true_type())
                                                                        : launch(std::false_type());
}

[[maybe_unused, gnu::used]] constexpr auto gated_instances =
    cuda::instances<Gelu, GeluTanh, Silu, Relu>([]<class F>(cuda::Type<F>) {
      return cuda::instances<float, bf16>(
          []<class T>(cuda::Type<T>) { return std::tuple(&gated<F, T>, &gated_backward<F, T>); });
    });

}  // namespace heddle::kernel
