// softmax and log_softmax on the GPU, along the middle axis of [outer, n, inner]. Formulas:
// include/heddle/base/softmax_functions.hpp.
//
//   held       inner = 1. A team of threads owns a row and keeps it in registers: x, or dy and y of the backward, is
//              read once, and the result is written once. The team is 1 to 32 lanes up to 1024 elements, and a block up
//              to 32,768 (backward: 16,384).
//   streamed   inner = 1, longer rows. A block owns a row and reads it twice, the second time from cache.
//   columns    inner > 1. Lanes are neighboring positions of `inner`, and a block's splits share the axis. It is read
//              twice, the second time from cache.
//
// Accesses are of 16 bytes where the pointers and the length of rows allow it. Where they do not, a team of lanes
// holds a row of up to 256 elements, and a block up to 8,192 (backward: 4,096). The order of sums depends only on the
// shape and on the alignment of the pointers.
#include <bit>

#include "device/instances.cuh"
#include "device/online_softmax.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {

using cuda::infinity;

// Returns the value to subtract from x: the largest of the row, so that no exponential overflows.
__device__ float shift_of(float greatest, bool empty_gives_zeros) {
  return empty_gives_zeros && greatest == -infinity ? 0.f : greatest;
}

// Returns the normalizer of F::value() for a sum of exponentials. It is computed once per row instead of once per
// element.
template <class F>
__device__ float normalizer_of(float sum, bool empty_gives_zeros) {
  return F::normalizer(empty_gives_zeros && sum == 0 ? 1.f : sum);
}

// --- rows ---

constexpr int held_threads = cuda::block_threads(1024);          // of a block that holds x: 32 elements in 64 registers
constexpr int held_backward_threads = cuda::block_threads(512);  // of one that holds dy and y
using StreamedTeam = cuda::BlockTeam<cuda::block_threads(512)>;

template <class F, int each, int width, class Team, class T>
__global__ __launch_bounds__(Team::most_threads) void softmax_held(Team team, View<const T, 2> x,
                                                                   bool empty_gives_zeros, View<T, 2> y) {
  constexpr int accesses = each / width;
  const Index o = Index{blockIdx.x} * team.rows() + team.row();
  const Index n = o < x.extent[0] ? x.extent[1] : 0;  // a lane without a row takes part in its warp's reductions
  float z[accesses][width], e[accesses][width];
  cuda::load_held(team, x.data + o * n, n, -infinity, z);
  float greatest = -infinity;
  for (int i = 0; i < accesses; ++i)
    for (int j = 0; j < width; ++j) greatest = fmaxf(greatest, z[i][j]);
  const float shift = shift_of(team.max(greatest), empty_gives_zeros);

  float sum = 0;
  for (int i = 0; i < accesses; ++i)
    for (int j = 0; j < width; ++j) {
      z[i][j] -= shift;
      e[i][j] = exp_or_zero(z[i][j]);
      sum += e[i][j];
    }
  const float normalizer = normalizer_of<F>(team.sum(sum), empty_gives_zeros);

  cuda::for_held<width, accesses>(team, n, [&](int i, int first) {
    for (int j = 0; j < width; ++j) z[i][j] = F::value(z[i][j], e[i][j], normalizer);
    cuda::store_floats(y.data + o * n + first, z[i]);
  });
}

// The part of a row's dy and y that a thread holds.
template <class F, int each, int width>
struct HeldGradients {
  static constexpr int accesses = each / width;
  float dy[accesses][width], y[accesses][width];

  template <class Team, class T>
  __device__ void load(const Team& team, const T* dyn, const T* yn, Index n) {
    cuda::load_held(team, dyn, n, 0.f, dy);
    cuda::load_held(team, yn, n, 0.f, y);
  }
  __device__ float weight() const {
    float sum = 0;
    for (int i = 0; i < accesses; ++i)
      for (int j = 0; j < width; ++j) sum += F::weight(dy[i][j], y[i][j]);
    return sum;
  }
  template <class Team, class T>
  __device__ void store(const Team& team, float sum, T* dxn, Index n) {
    cuda::for_held<width, accesses>(team, n, [&](int i, int first) {
      for (int j = 0; j < width; ++j) dy[i][j] = F::gradient(dy[i][j], y[i][j], sum);
      cuda::store_floats(dxn + first, dy[i]);
    });
  }
};

template <class F, int each, int width, class Team, class T>
__global__ __launch_bounds__(Team::most_threads) void softmax_held_backward(Team team, View<const T, 2> dy,
                                                                            View<const T, 2> y, View<T, 2> dx) {
  const Index o = Index{blockIdx.x} * team.rows() + team.row();
  const Index n = o < y.extent[0] ? y.extent[1] : 0;
  HeldGradients<F, each, width> held;
  held.load(team, dy.data + o * n, y.data + o * n, n);
  held.store(team, team.sum(held.weight()), dx.data + o * n, n);
}

template <class F, int width, class T>
__global__ __launch_bounds__(StreamedTeam::most_threads) void softmax_streamed(StreamedTeam team, View<const T, 2> x,
                                                                               bool empty_gives_zeros, View<T, 2> y) {
  constexpr int each = cuda::most_held<width>, accesses = each / width;
  const Index n = x.extent[1], row = Index{blockIdx.x} * n;
  const cuda::OnlineSoftmax all = cuda::online_softmax<width>(team, x.data + row, n);
  const float shift = shift_of(all.greatest, empty_gives_zeros);
  const float normalizer = normalizer_of<F>(all.sum, empty_gives_zeros);
  for (Index k = 0; k < n; k += Index{team.size()} * each) {
    float z[accesses][width];
    cuda::load_held(team, x.data + row + k, n - k, -infinity, z);
    cuda::for_held<width, accesses>(team, n - k, [&](int i, int first) {
      for (float& v : z[i]) v = F::value(v - shift, exp_or_zero(v - shift), normalizer);
      cuda::store_floats(y.data + row + k + first, z[i]);
    });
  }
}

template <class F, int width, class T>
__global__ __launch_bounds__(StreamedTeam::most_threads) void softmax_streamed_backward(StreamedTeam team,
                                                                                        View<const T, 2> dy,
                                                                                        View<const T, 2> y,
                                                                                        View<T, 2> dx) {
  constexpr int each = cuda::most_held<width>;
  const Index n = y.extent[1], row = Index{blockIdx.x} * n, step = Index{team.size()} * each;
  HeldGradients<F, each, width> held;
  float sum = 0;
  for (Index k = 0; k < n; k += step) {
    held.load(team, dy.data + row + k, y.data + row + k, n - k);
    sum += held.weight();
  }
  sum = team.sum(sum);
  for (Index k = 0; k < n; k += step) {
    held.load(team, dy.data + row + k, y.data + row + k, n - k);
    held.store(team, sum, dx.data + row + k, n - k);
  }
}

// --- columns ---

// The threads of a block: 2^bits lanes, each with `width` neighboring columns, times splits, which share the axis.
struct SoftmaxColumns {
  static constexpr int threads = cuda::block_threads(256);
  static constexpr int most_bits = std::countr_zero(static_cast<unsigned>(threads));
  [[maybe_unused]] static constexpr int blocks = 2;  // the fewest blocks on a multiprocessor
  static constexpr int batch = 4;                    // elements of a column whose loads a split has in flight
  int bits;

  // Begins with one split and doubles the splits as long as each has more than a batch of elements. Stops before the
  // lanes are fewer than both a warp and what the columns need.
  static SoftmaxColumns of(Index lanes, Index n) {
    int bits = most_bits;
    while (((1 << bits) > cuda::warp_size || (1 << bits) / 2 >= lanes) && n > Index{batch} * (threads >> bits)) --bits;
    return {bits};
  }
  HEDDLE_HD int lanes() const { return 1 << bits; }
  HEDDLE_HD int splits() const { return threads >> bits; }
  __device__ int lane() const { return static_cast<int>(threadIdx.x) & (lanes() - 1); }
  __device__ int split() const { return static_cast<int>(threadIdx.x) >> bits; }

  // Combines the states of each column's splits and returns the result to all of them. All threads call this, once in a
  // kernel.
  template <class Part, int width>
  __device__ void merge(Part (&parts)[width]) const {
    auto& of_thread = cuda::shared<Part[width][threads]>();
    const int self = static_cast<int>(threadIdx.x);
    for (int j = 0; j < width; ++j) of_thread[j][self] = parts[j];
    for (int half = threads / 2; half >= lanes(); half /= 2) {
      __syncthreads();
      if (self >= half) continue;
      for (int j = 0; j < width; ++j) {
        parts[j].add(of_thread[j][self + half]);
        of_thread[j][self] = parts[j];
      }
    }
    __syncthreads();
    for (int j = 0; j < width; ++j) parts[j] = of_thread[j][lane()];
  }
};

// The first of a thread's `width` neighboring columns of [outer, n, inner]: its element k is at first + k inner.
struct SoftmaxColumn {
  Index first, n, inner;

  // Creates the column of the calling thread; beyond the last column it has no elements.
  __device__ SoftmaxColumn(const SoftmaxColumns& team, int width, const Index (&extent)[3]) : n(0), inner(extent[2]) {
    const Index column = (Index{blockIdx.x} * team.lanes() + team.lane()) * width, outer = column / inner;
    first = outer * extent[1] * inner + column % inner;
    if (outer < extent[0]) n = extent[1];
  }
};

struct ColumnSum {
  float sum;
  __device__ void add(const ColumnSum& other) { sum += other.sum; }
};

template <class F, int width, class T>
__global__ __launch_bounds__(SoftmaxColumns::threads,
                             SoftmaxColumns::blocks) void softmax_columns(SoftmaxColumns team, View<const T, 3> x,
                                                                          bool empty_gives_zeros, View<T, 3> y) {
  constexpr int batch = SoftmaxColumns::batch;
  const SoftmaxColumn column(team, width, x.extent);
  const int splits = team.splits();
  cuda::OnlineSoftmax parts[width];
  for (auto& part : parts) part = cuda::OnlineSoftmax::of_nothing();
  for (Index k = team.split(); k < column.n; k += batch * splits) {
    cuda::Vector<T, width> read[batch];  // loads the whole batch first; beyond the end, repeats the last element
    for (int b = 0; b < batch; ++b) {
      const Index kb = k + b * splits, there = kb < column.n ? kb : column.n - 1;
      read[b] = cuda::load_vector<width>(x.data + column.first + there * column.inner);
    }
    for (int j = 0; j < width; ++j) {
      float z[batch];
      for (int b = 0; b < batch; ++b) z[b] = k + b * splits < column.n ? static_cast<float>(read[b].at[j]) : -infinity;
      parts[j].template add<batch>(z);
    }
  }
  team.merge(parts);

  float shift[width];
  float normalizer[width];
  for (int j = 0; j < width; ++j) {
    shift[j] = shift_of(parts[j].greatest, empty_gives_zeros);
    normalizer[j] = normalizer_of<F>(parts[j].sum, empty_gives_zeros);
  }
  for (Index k = team.split(); k < column.n; k += splits) {
    const Index at = column.first + k * column.inner;
    float z[width];
    cuda::load_floats(x.data + at, z);
    for (int j = 0; j < width; ++j) {
      z[j] -= shift[j];
      z[j] = F::value(z[j], exp_or_zero(z[j]), normalizer[j]);
    }
    cuda::store_floats(y.data + at, z);
  }
}

template <class F, int width, class T>
__global__ __launch_bounds__(SoftmaxColumns::threads,
                             SoftmaxColumns::blocks) void softmax_columns_backward(SoftmaxColumns team,
                                                                                   View<const T, 3> dy,
                                                                                   View<const T, 3> y, View<T, 3> dx) {
  const SoftmaxColumn column(team, width, y.extent);
  float dyk[width], yk[width];
  ColumnSum sums[width] = {};
  for (Index k = team.split(); k < column.n; k += team.splits()) {
    const Index at = column.first + k * column.inner;
    cuda::load_floats(dy.data + at, dyk);
    cuda::load_floats(y.data + at, yk);
    for (int j = 0; j < width; ++j) sums[j].sum += F::weight(dyk[j], yk[j]);
  }
  team.merge(sums);

  for (Index k = team.split(); k < column.n; k += team.splits()) {
    const Index at = column.first + k * column.inner;
    cuda::load_floats(dy.data + at, dyk);
    cuda::load_floats(y.data + at, yk);
    for (int j = 0; j < width; ++j) dyk[j] = F::gradient(dyk[j], yk[j], sums[j].sum);
    cuda::store_floats(dx.data + at, dyk);
  }
}

template <class T>
View<T, 2> as_rows(View<T, 3> v) {
  return {v.data, {v.extent[0], v.extent[1]}};
}

}  // namespace

template <class F, OnGpu T>
void softmax(Cuda, F, View<const T, 3> x, bool empty_gives_zeros, View<T, 3> y) {
  const Index outer = x.extent[0], n = x.extent[1], inner = x.extent[2];
  if (outer * n * inner == 0) return;
  const cudaStream_t stream = cuda::current_stream();
  const auto launch = [&]<int width>(std::integral_constant<int, width>) {
    if (inner > 1) {
      const Index lanes = outer * inner / width;
      const SoftmaxColumns team = SoftmaxColumns::of(lanes, n);
      return cuda::launch<softmax_columns<F, width, T>>(cuda::blocks_for(lanes, team.lanes()), team.threads, 0, stream,
                                                        team, x, empty_gives_zeros, y);
    }
    const auto held = [&]<class Team, int each>(Team team, std::integral_constant<int, each>) {
      cuda::launch<softmax_held<F, each, width, Team, T>>(cuda::blocks_for(outer, team.rows()), team.threads(), 0,
                                                          stream, team, as_rows(x), empty_gives_zeros, as_rows(y));
    };
    if (cuda::with_team<width, held_threads>(n, held)) return;
    const StreamedTeam team{StreamedTeam::most_threads};
    cuda::launch<softmax_streamed<F, width, T>>(cuda::blocks_for(outer, 1), team.threads(), 0, stream, team, as_rows(x),
                                                empty_gives_zeros, as_rows(y));
  };
  cuda::with_width<T>(inner > 1 ? inner : n, launch, x.data, y.data);
}

template <class F, OnGpu T>
void softmax_backward(Cuda, F, View<const T, 3> dy, View<const T, 3> y, View<T, 3> dx) {
  const Index outer = y.extent[0], n = y.extent[1], inner = y.extent[2];
  if (outer * n * inner == 0) return;
  const cudaStream_t stream = cuda::current_stream();
  const auto launch = [&]<int width>(std::integral_constant<int, width>) {
    if (inner > 1) {
      const Index lanes = outer * inner / width;
      const SoftmaxColumns team = SoftmaxColumns::of(lanes, n);
      return cuda::launch<softmax_columns_backward<F, width, T>>(cuda::blocks_for(lanes, team.lanes()), team.threads, 0,
                                                                 stream, team, dy, y, dx);
    }
    const auto held = [&]<class Team, int each>(Team team, std::integral_constant<int, each>) {
      cuda::launch<softmax_held_backward<F, each, width, Team, T>>(
          cuda::blocks_for(outer, team.rows()), team.threads(), 0, stream, team, as_rows(dy), as_rows(y), as_rows(dx));
    };
    if (cuda::with_team<width, held_backward_threads>(n, held)) return;
    const StreamedTeam team{StreamedTeam::most_threads};
    cuda::launch<softmax_streamed_backward<F, width, T>>(cuda::blocks_for(outer, 1), team.threads(), 0, stream, team,
                                                         as_rows(dy), as_rows(y), as_rows(dx));
  };
  cuda::with_width<T>(inner > 1 ? inner : n, launch, dy.data, y.data, dx.data);
}

[[maybe_unused, gnu::used]] constexpr auto softmax_instances =
    cuda::instances<Softmax, LogSoftmax>([]<class F>(cuda::Type<F>) {
      return cuda::instances<float, bf16>(
          []<class T>(cuda::Type<T>) { return std::tuple(&softmax<F, T>, &softmax_backward<F, T>); });
    });

}  // namespace heddle::kernel
