// Rotary positions. Definition: include/heddle/ops/rotary.hpp.
//
//   rotary_angles  A thread owns a position and a frequency, and writes their cosine and sine.
//   rotate         A thread owns a vector of 16 bytes in the first half of a head, and the vector of the points' other
//                  coordinates in the second half. x is read once and y is written once; the heads of a row read the
//                  table's row from cache. Where the addresses or the heads' width do not allow vectors, the elements
//                  move one by one. The backward is the same with other signs.
#include "device/instances.cuh"
#include "device/packed.cuh"
#include "device/row_vectors.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {

constexpr int rotary_threads = cuda::block_threads(256);

__global__ __launch_bounds__(rotary_threads) void rotary_angles(RotaryFrequencies frequencies, View<float, 2> table) {
  const Index half = frequencies.pairs, number = Index{blockIdx.x} * rotary_threads + threadIdx.x, t = number / half,
              i = number - t * half;
  if (t >= table.extent[0]) return;
  const float angle = static_cast<float>(t) * frequencies.of_pair[i];
  table(t, i) = cosf(angle);
  table(t, half + i) = sinf(angle);
}

// Loads `width` floats of a row of the table, of which `count` exist, times `sign`.
template <bool vectors, int width>
__device__ void load_factors(const float* from, int count, float sign, float (&factors)[width]) {
  constexpr int each = cuda::vector_width<float>;
  for (int first = 0; first < width; first += each) {
    const auto part = cuda::load_packed<vectors, each>(from + first, count - first);
    cuda::unrolled<each>([&](int i) { factors[first + i] = sign * part[i]; });
  }
}

// Each head is two rows of K / 2 columns: row 2 h and the one behind it.
template <bool vectors, class T>
__global__ __launch_bounds__(rotary_threads) void rotate(View<const T, 2> x, View<const float, 2> table,
                                                         View<const int, 1> position, Index rotated, bool back,
                                                         View<T, 2> y) {
  constexpr int width = cuda::vector_width<T>;
  const Index half = table.extent[1] / 2, heads = x.extent[1] / (2 * half);
  const cuda::RowVector<width> at(x.extent[0] * heads, half);
  if (at.count <= 0) return;
  const Index n = at.row / heads, h = at.row - n * heads, from = h * 2 * half + at.column;
  const auto a = cuda::load_packed<vectors, width>(&x(n, from), at.count),
             b = cuda::load_packed<vectors, width>(&x(n, from + half), at.count);
  if (h >= rotated) {
    cuda::store_packed<vectors>(&y(n, from), at.count, a);
    cuda::store_packed<vectors>(&y(n, from + half), at.count, b);
    return;
  }
  float cosines[width], sines[width], ya[width], yb[width];
  const float* const factors = &table(position(n), at.column);
  load_factors<vectors>(factors, at.count, 1, cosines);
  load_factors<vectors>(factors + half, at.count, back ? -1.f : 1.f, sines);
  cuda::unrolled<width>([&](int i) {
    ya[i] = a[i] * cosines[i] - b[i] * sines[i];
    yb[i] = b[i] * cosines[i] + a[i] * sines[i];
  });
  cuda::store_packed<vectors>(&y(n, from), at.count, cuda::Packed<T, width>::rounded(ya));
  cuda::store_packed<vectors>(&y(n, from + half), at.count, cuda::Packed<T, width>::rounded(yb));
}

}  // namespace

void rotary_table(Cuda, const RotaryFrequencies& frequencies, View<float, 2> table) {
  const unsigned blocks = cuda::blocks_for(table.extent[0] * frequencies.pairs, rotary_threads);
  if (blocks == 0) return;
  cuda::launch<rotary_angles>(blocks, rotary_threads, 0, cuda::current_stream(), frequencies, table);
}

template <OnGpu T>
void rotary(Cuda, View<const T, 2> x, View<const float, 2> table, View<const int, 1> position, Index rotated, bool back,
            View<T, 2> y) {
  constexpr int width = cuda::vector_width<T>;
  const Index half = table.extent[1] / 2, rows = x.extent[0] * (x.extent[1] / table.extent[1]);
  const unsigned blocks = cuda::row_vector_blocks<width>(rows, half, rotary_threads);
  const auto launch = [&]<bool vectors>(std::bool_constant<vectors>) {
    cuda::launch<rotate<vectors, T>>(blocks, rotary_threads, 0, cuda::current_stream(), x, table, position, rotated,
                                     back, y);
  };
  if (blocks == 0) return;
  const bool vectors = cuda::have_row_vectors<width>(half, x.data, y.data) && cuda::aligned<4>(table.data);
  vectors ? launch(std::true_type()) : launch(std::false_type());
}

[[maybe_unused, gnu::used]] constexpr auto rotary_instances =
    cuda::instances<float, bf16>([]<class T>(cuda::Type<T>) { return std::tuple(&rotary<T>); });

}  // namespace heddle::kernel
