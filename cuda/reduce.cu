// Sums and extremes along an axis, and their gradients, on the GPU. Formulas: ops/reduce.hpp, max.hpp and rows.hpp.
//
//   reduce          A block's threads are [results, splits, columns]. A column is a vector of neighboring elements. The
//                   splits of a result share its axis: each takes every splits-th vector, and they combine their
//                   partial results in shared memory. If the reduced axis is the last one, vectors lie along it. x is
//                   read once. If this gives few blocks, several share a result and write one part of it each; a second
//                   launch reduces the parts in the same way. Parts of a sum take at most an eighth of x's bytes, for
//                   float and bf16 a thirtieth; those of an extreme, which hold positions, at most a quarter.
//   repeat          As in device/elementwise.cuh: dx is written once, dy comes from cache.
//   scatter         A thread owns an element of dy and writes one of dx.
//   scatter_rows    The same for the rows of sequences.
//   spread_rows     Partitioned as `reduce`: a thread reads its vector of dy once, and writes its split's part of the
//                   rows.
//
// There are no atomics, and pieces follow from the shape alone: results do not depend on the schedule, on the number of
// multiprocessors, or on how memory is aligned.
#include <bit>

#include "device/elementwise.cuh"
#include "device/instances.cuh"
#include "device/limits.cuh"
#include "device/shared.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {

constexpr int threads = cuda::block_threads(256);
// Columns, splits and results share a block's threads. Their numbers are powers of two and are stored as exponents.
constexpr int thread_bits = std::countr_zero(static_cast<unsigned>(threads)), warp_bits = 5;
// An axis with this many vectors or more has at least this many splits, so that a warp's accesses coalesce.
constexpr Index short_axis = 8;
constexpr Index split_steps = 4;  // vectors of a split along a longer axis
constexpr Index piece_steps = 8;  // vectors of a split in each piece, if there are several
constexpr int loads_ahead = 4;    // vectors whose loads a thread has in flight
constexpr int block_steps = 64;   // vectors that are summed before they join the total, to limit rounding errors
constexpr int most_states = 8;    // the most states of a thread: one for each element of a vector

template <class T>
constexpr int width = std::min(cuda::vector_width<T>, most_states);

// Returns the exponent of the smallest power of two that is not less than `count`, but at most `most`.
int bits_for(Index count, int most) {
  int bits = 0;
  while (bits < most && Index{1} << bits < count) ++bits;
  return bits;
}

// A thread's share of the work: the columns of result o from d on, as one of the result's splits.
struct WorkItem {
  Index o, d;
  int split, number;  // the split's index in the block, and among the splits of all pieces
};

// The partition of an axis of n elements or vectors among threads, for each of outer * inner results.
struct Partition {
  Index outer, inner;
  int column_bits, split_bits;
  Index tiles, pieces;  // blocks per row of results; pieces of the axis
  bool along;           // vectors lie along the axis, and inner is 1
  bool wide;            // vectors are aligned

  template <class T>
  static Partition of(const T* x, Index outer, Index n, Index inner, bool along) {
    const bool rows_aligned = along ? n % width<T> == 0 || outer == 1 : inner % width<T> == 0;
    Partition partition{outer, inner, 0, 0, 1, 1, along, rows_aligned && cuda::aligned<width<T>>(x)};
    const Index steps = along ? n / width<T> : n, vectors = along ? 1 : (inner + width<T> - 1) / width<T>;
    partition.column_bits = bits_for(vectors, warp_bits);
    partition.split_bits =
        bits_for(std::max(std::min(steps, short_axis), steps / split_steps), thread_bits - partition.column_bits);
    partition.tiles = (vectors + partition.columns() - 1) >> partition.column_bits;
    const Index most_pieces = cuda::limits.reduce_blocks / std::max<Index>(outer * partition.tiles, 1);
    partition.pieces = std::max<Index>(std::min(steps / (piece_steps * partition.splits()), most_pieces), 1);
    return partition;
  }
  HEDDLE_HD int columns() const { return 1 << column_bits; }
  HEDDLE_HD int splits() const { return 1 << split_bits; }
  HEDDLE_HD int results() const { return threads >> (column_bits + split_bits); }
  dim3 grid() const {
    return {cuda::blocks_for(outer, results()) * static_cast<unsigned>(tiles), static_cast<unsigned>(pieces)};
  }
  template <class T>
  __device__ WorkItem item() const {
    const int t = static_cast<int>(threadIdx.x), column = t & (columns() - 1);
    const Index block = blockIdx.x / static_cast<unsigned>(tiles), tile = blockIdx.x - block * tiles;
    const int split = t >> column_bits & (splits() - 1);
    return {block * results() + (t >> (column_bits + split_bits)), (tile * columns() + column) * width<T>, split,
            static_cast<int>(blockIdx.y) * splits() + split};
  }
};

// The rows of x that belong to each result.
struct EvenRows {
  Index n;
  __device__ Index first(Index o) const { return o * n; }
  __device__ Index count(Index) const { return n; }
};
struct SequenceRows {
  const int *begin, *length;
  __device__ Index first(Index o) const { return begin[o]; }
  __device__ Index count(Index o) const { return length[o]; }
};

// The kinds of reduction: a State takes Elements and joins with other States. start() returns a state without elements,
// and of(o) the reduction for result o, whose write() stores it.

// The reduction y = sum / divisor, or sum / number of rows for the mean of rows.
template <class T, class Y>
struct AddUp {
  using Element = T;
  using State = SumAcc<T>;
  Y* y;
  State divisor;
  const int* rows = nullptr;  // the number of rows of each result; if not null, it replaces the divisor

  __device__ AddUp of(Index o) const { return {y, rows ? static_cast<State>(rows[o] > 1 ? rows[o] : 1) : divisor}; }
  __device__ static State start() { return 0; }
  __device__ static void take(State& sum, T x, Index) { sum += static_cast<State>(x); }
  __device__ static void join(State& sum, State other) { sum += other; }
  __device__ void write(Index at, State sum) const { y[at] = static_cast<Y>(sum / divisor); }
};

template <class A>
struct Found {
  A value;
  Index position;
};
template <class T>
struct ValueOf {
  using type = Acc<T>;
};
template <class A>
struct ValueOf<Found<A>> {
  using type = A;
};

// Maps v so that the smallest becomes the largest. NaN stays NaN.
template <class V>
__device__ V reversed(V v) {
  if constexpr (std::is_same_v<V, bool>)
    return !v;
  else if constexpr (std::is_integral_v<V>)
    return ~v;
  else
    return -v;
}

// Finds the first of the largest or smallest elements. A NaN precedes all other values. Without elements, the result is
// 0 at position `nowhere`. For the smallest element, states hold reversed values.
template <bool smallest, class E, class Y>
struct FindExtremum {
  using Element = E;
  using Value = typename ValueOf<E>::type;
  using State = Found<Value>;
  static constexpr Value least =
      std::is_floating_point_v<Value> ? -std::numeric_limits<Value>::infinity() : std::numeric_limits<Value>::lowest();
  static constexpr Index nowhere = std::numeric_limits<Index>::max();
  Y* y;
  Index* position;
  State* found = nullptr;  // if not null, the output instead of y and position

  __device__ FindExtremum of(Index) const { return *this; }
  __device__ static State start() { return {least, nowhere}; }
  __device__ static void take(State& best, const E& x, Index k) {
    if constexpr (std::is_same_v<E, State>) {
      join(best, x);
    } else {
      const Value v = static_cast<Value>(x);
      join(best, {smallest ? reversed(v) : v, k});
    }
  }
  __device__ static void join(State& best, const State& other) {
    const bool best_nan = best.value != best.value, other_nan = other.value != other.value;
    const bool equal = best.value == other.value || (best_nan && other_nan);
    const bool larger = other.value > best.value || (other_nan && !best_nan);
    if (larger || (equal && other.position < best.position)) best = other;
  }
  __device__ void write(Index at, const State& best) const {
    if (found) {
      found[at] = best;
    } else {
      y[at] = best.position == nowhere ? Y{} : static_cast<Y>(smallest ? reversed(best.value) : best.value);
      position[at] = best.position;
    }
  }
};

// The vectors of a thread: every vector_step-th of `vectors` from `first` on. Vectors begin `stride` elements apart;
// only the first `valid` elements of each are used.
struct StridedRange {
  Index first, vector_step, vectors, stride;
  int valid;
  bool along;

  __device__ Index position(Index k, int i) const { return along ? k * stride + i : k; }
};

template <bool wide, class Op, class E = typename Op::Element>
__device__ void take_all(const E* x, const StridedRange& range, typename Op::State (&mine)[width<E>]) {
  constexpr int loads = wide ? loads_ahead : 1;
  for (Index k = range.first; k < range.vectors;) {
    typename Op::State part[width<E>];
    for (auto& state : part) state = Op::start();
    for (int step = 0; step < block_steps && k < range.vectors; step += loads, k += loads * range.vector_step) {
      cuda::Vector<E, width<E>> values[loads];
      for (int l = 0; l < loads; ++l) {
        const E* const from = x + (k + l * range.vector_step) * range.stride;
        if (k + l * range.vector_step >= range.vectors) continue;
        if constexpr (wide) values[l] = cuda::load_vector<width<E>>(from);
        for (int i = 0; !wide && i < width<E>; ++i)
          if (i < range.valid) values[l].at[i] = from[i];
      }
      for (int l = 0; l < loads; ++l)
        for (int i = 0; i < width<E>; ++i)
          if (k + l * range.vector_step < range.vectors && (wide || i < range.valid))
            Op::take(part[i], values[l].at[i], range.position(k + l * range.vector_step, i));
    }
    for (int i = 0; i < width<E>; ++i) Op::join(mine[i], part[i]);
  }
}

// Reduces this thread's vectors of the axis into its state.
template <class Op, class Rows, class E = typename Op::Element>
__device__ void reduce_range(const E* x, const Rows& rows, const Partition& partition, const WorkItem& at,
                             typename Op::State (&mine)[width<E>]) {
  const Index n = rows.count(at.o);
  if (n == 0) return;  // x may have no memory
  const Index vectors = partition.along ? n / width<E> : n;
  const Index beside = partition.along ? width<E> : partition.inner - at.d;
  const E* const from = x + rows.first(at.o) * partition.inner + at.d;
  const int valid = static_cast<int>(beside < width<E> ? beside : width<E>);
  const Index stride = partition.along ? width<E> : partition.inner;
  const StridedRange range{at.number, partition.splits() * partition.pieces, vectors, stride, valid, partition.along};
  partition.wide ? take_all<true, Op>(from, range, mine) : take_all<false, Op>(from, range, mine);
  if (!partition.along || at.number > 0) return;
  for (int i = 0; i < width<E>; ++i)  // elements that fill no vector
    if (const Index k = vectors * width<E> + i; k < n) Op::take(mine[i], from[k], k);
}

// Reduces the splits' states to that of split 0, pair by pair. All threads of the block call this.
template <class Op, int each, class State>
__device__ void reduce_partials(const Partition& partition, int split, State (&mine)[each]) {
  auto& states = cuda::shared<State[each][threads]>();
  const int t = static_cast<int>(threadIdx.x);
  for (int half = each / 2; half > 0; half /= 2)
    for (int i = 0; partition.along && i < half; ++i) Op::join(mine[i], mine[i + half]);
  const int used = partition.along ? 1 : each;
  for (int half = partition.splits() / 2; half > 0; half /= 2) {
    const int distance = half << partition.column_bits;  // in threads
    for (int i = 0; i < each; ++i)
      if (i < used && split >= half && split < 2 * half) states[i][t] = mine[i];
    2 * distance > cuda::warp_size ? __syncthreads() : __syncwarp();
    for (int i = 0; i < each; ++i)
      if (i < used && split < half) Op::join(mine[i], states[i][t + distance]);
  }
}

template <class Op, class Rows>
__global__ __launch_bounds__(threads) void reduce(const typename Op::Element* x, Rows rows, Partition partition,
                                                  Op op) {
  using E = typename Op::Element;
  const WorkItem at = partition.item<E>();
  const bool inside = at.o < partition.outer && at.d < partition.inner;
  typename Op::State mine[width<E>];
  for (auto& state : mine) state = Op::start();
  if (inside) reduce_range<Op>(x, rows, partition, at, mine);
  reduce_partials<Op>(partition, at.split, mine);
  if (!inside || at.split > 0) return;
  const Op result = op.of(at.o);
  const Index row = (at.o * partition.pieces + blockIdx.y) * partition.inner;
  for (int i = 0; i < width<E>; ++i)
    if (at.d + i < partition.inner) result.write(row + at.d + i, mine[i]);
}

// Reduces x in one launch, or in two if the partition has several pieces. For two, `to_parts` returns the Op that
// writes partial results, and `from_parts` reduces them.
template <class Part, class Op, class Rows, class ToParts, class FromParts>
void run(const typename Op::Element* x, const Rows& rows, const Partition& partition, const Op& op, ToParts to_parts,
         const FromParts& from_parts) {
  if (partition.outer * partition.inner == 0) return;
  const cudaStream_t stream = cuda::current_stream();
  if (partition.pieces == 1)
    return cuda::launch<reduce<Op, Rows>>(partition.grid(), threads, 0, stream, x, rows, partition, op);
  const cuda::Workspace<Part> parts(partition.outer * partition.pieces * partition.inner);
  const auto first = to_parts(parts.data());
  cuda::launch<reduce<std::remove_const_t<decltype(first)>, Rows>>(partition.grid(), threads, 0, stream, x, rows,
                                                                   partition, first);
  const bool along = partition.inner == 1 && width<Part> > 1;
  Partition rest = Partition::of(parts.data(), partition.outer, partition.pieces, partition.inner, along);
  rest.pieces = 1;
  cuda::launch<reduce<FromParts, EvenRows>>(rest.grid(), threads, 0, stream, parts.data(), EvenRows{partition.pieces},
                                            rest, from_parts);
}

// Adds up x along the axis. Partial sums have the type of the accumulation: float, or int64.
template <class T, class Y, class Rows>
void add_up(const T* x, const Rows& rows, const Partition& partition, const AddUp<T, Y>& op) {
  using Part = std::conditional_t<std::is_integral_v<T>, std::int64_t, float>;
  run<Part>(
      x, rows, partition, op,
      [](Part* parts) {
        return AddUp<T, Part>{parts, 1};
      },
      AddUp<Part, Y>{op.y, op.divisor, op.rows});
}

template <bool smallest, class T, class Rows>
void find_extremum(const T* x, const Rows& rows, const Partition& partition, View<T, 2> y, View<Index, 2> position) {
  using Part = Found<Acc<T>>;
  run<Part>(
      x, rows, partition, FindExtremum<smallest, T, T>{y.data, position.data},
      [](Part* parts) {
        return FindExtremum<smallest, T, T>{nullptr, nullptr, parts};
      },
      FindExtremum<smallest, Part, T>{y.data, position.data});
}

template <class T>
struct Over {
  float divisor;
  __device__ T operator()(T dy) const { return T(static_cast<float>(dy) / divisor); }
};

template <class T>
__global__ __launch_bounds__(threads) void scatter(View<const T, 2> dy, View<const Index, 2> position, View<T, 3> dx) {
  const Index at = Index{blockIdx.x} * threads + threadIdx.x, inner = dy.extent[1];
  if (at >= dy.extent[0] * inner) return;
  const Index o = at / inner;
  dx(o, position.data[at], at - o * inner) = dy.data[at];
}

// Copies dy to the positions in dx, which the caller has set to zeros. Skips a position that is beyond its sequence.
template <class T>
__global__ __launch_bounds__(threads) void scatter_rows(View<const T, 2> dy, View<const Index, 2> position,
                                                        SequenceRows rows, View<T, 2> dx) {
  const Index at = Index{blockIdx.x} * threads + threadIdx.x, D = dy.extent[1];
  if (at >= dy.extent[0] * D) return;
  const Index b = at / D, k = position.data[at];
  if (k < rows.count(b)) dx(rows.first(b) + k, at - b * D) = dy.data[at];
}

template <class T>
__global__ __launch_bounds__(threads) void spread_rows(View<const T, 2> dy, SequenceRows rows, bool as_mean,
                                                       Partition partition, View<T, 2> dx) {
  const WorkItem at = partition.item<T>();
  if (at.o >= partition.outer || at.d >= partition.inner) return;
  const Index count = rows.count(at.o), valid = partition.inner - at.d;
  const float divisor = as_mean ? static_cast<float>(count) : 1.f;
  cuda::Vector<T, width<T>> share;
  for (int i = 0; i < width<T>; ++i)
    if (i < valid) share.at[i] = T(static_cast<float>(dy(at.o, at.d + i)) / divisor);
  const Index row_step = partition.splits() * partition.pieces;
  T* to = &dx(rows.first(at.o) + at.number, at.d);  // advanced in steps: nvcc splits a store at a recomputed address
  for (Index n = at.number; n < count; n += row_step, to += row_step * partition.inner) {
    if (partition.wide) {
      cuda::store_global(to, share);
      continue;
    }
    for (int i = 0; i < width<T>; ++i)
      if (i < valid) to[i] = share.at[i];
  }
}

// Partitions sequences by their average number of rows: only the device knows their lengths.
template <class T>
Partition partition_sequences(View<const int, 1> begin, View<T, 2> rows) {
  const Index B = begin.extent[0];
  return Partition::of(rows.data, B, rows.extent[0] / std::max<Index>(B, 1), rows.extent[1], false);
}

}  // namespace

template <class T, class Y>
void sum(Cuda, View<const T, 3> x, SumAcc<T> divisor, View<Y, 2> y) {
  const auto [outer, n, inner] = x.extent;
  const Partition partition = Partition::of(x.data, outer, n, inner, inner == 1);
  add_up(x.data, EvenRows{n}, partition, AddUp<T, Y>{y.data, divisor});
}

template <OnGpu T>
void repeat(Cuda, const BroadcastPlan<1>& plan, const T* dy, float divisor, T* dx) {
  cuda::for_broadcast_elements(Over<T>{divisor}, plan, dx, dy);
}

template <class T>
void extremum(Cuda, bool smallest, View<const T, 3> x, View<T, 2> y, View<Index, 2> position) {
  const auto [outer, n, inner] = x.extent;
  const Partition partition = Partition::of(x.data, outer, n, inner, inner == 1);
  smallest ? find_extremum<true>(x.data, EvenRows{n}, partition, y, position)
           : find_extremum<false>(x.data, EvenRows{n}, partition, y, position);
}

template <class T>
void extremum_backward(Cuda, View<const T, 2> dy, View<const Index, 2> position, View<T, 3> dx) {
  const unsigned blocks = cuda::blocks_for(dy.extent[0] * dy.extent[1], threads);
  cuda::launch<scatter<T>>(blocks, threads, 0, cuda::current_stream(), dy, position, dx);
}

template <OnGpu T>
void add_up_rows(Cuda, bool mean, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> x,
                 View<T, 2> y) {
  add_up(x.data, SequenceRows{begin.data, length.data}, partition_sequences(begin, x),
         AddUp<T, T>{y.data, 1, mean ? length.data : nullptr});
}
template <OnGpu T>
void add_up_rows_backward(Cuda, bool mean, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> dy,
                          View<T, 2> dx) {
  const Partition partition = partition_sequences(begin, dx);
  if (partition.inner == 0) return;
  cuda::launch<spread_rows<T>>(partition.grid(), threads, 0, cuda::current_stream(), dy,
                               SequenceRows{begin.data, length.data}, mean, partition, dx);
}

template <OnGpu T>
void max_rows(Cuda, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> x, View<T, 2> y,
              View<Index, 2> position) {
  find_extremum<false>(x.data, SequenceRows{begin.data, length.data}, partition_sequences(begin, x), y, position);
}
template <OnGpu T>
void max_rows_backward(Cuda, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> dy,
                       View<const Index, 2> position, View<T, 2> dx) {
  const unsigned blocks = cuda::blocks_for(dy.extent[0] * dy.extent[1], threads);
  cuda::launch<scatter_rows<T>>(blocks, threads, 0, cuda::current_stream(), dy, position,
                                SequenceRows{begin.data, length.data}, dx);
}

[[maybe_unused, gnu::used]] constexpr auto sum_instances =
    std::tuple(&sum<float, float>, &sum<float, bf16>, &sum<bf16, float>, &sum<bf16, bf16>,
               &sum<std::int32_t, std::int64_t>, &sum<std::int64_t, std::int64_t>, &sum<bool, std::int64_t>);
[[maybe_unused, gnu::used]] constexpr auto extremum_instances =
    cuda::instances<float, bf16, std::int32_t, std::int64_t, bool>([]<class T>(cuda::Type<T>) { return &extremum<T>; });
[[maybe_unused, gnu::used]] constexpr auto reduce_instances = cuda::instances<float, bf16>([]<class T>(cuda::Type<T>) {
  return std::tuple(&repeat<T>, &extremum_backward<T>, &add_up_rows<T>, &add_up_rows_backward<T>, &max_rows<T>,
                    &max_rows_backward<T>);
});

}  // namespace heddle::kernel
