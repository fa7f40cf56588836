// Sums and maxima along an axis, and their gradients, on the GPU. Formulas: include/heddle/ops/reduce.hpp, max.hpp,
// rows.hpp.
//
//   reduce          Threads of a block are [results, walkers, columns]: a column is a vector of neighbours, and walkers
//                   of a result share what is added up or compared, each taking every walkers-th vector. Where the
//                   reduced axis is the last one, vectors lie along it. x is read once; walkers meet in shared memory.
//                   Where this gives few blocks, several share a result, and each leaves a part of it; the parts are
//                   then reduced in the same way. They are at most an eighth of x, of float or bf16 a thirtieth.
//   repeat          As device/elementwise.cuh does it: dx is written once, dy comes from cache.
//   scatter         A thread owns an element of dy and writes one of dx.
//   spread_means    Dealt out as in `reduce`: a thread reads its vector of dy once, and writes every walkers-th row.
//
// No atomics, and pieces that follow from the shape alone: results depend neither on the schedule nor on how many
// multiprocessors there are, nor on how memory is aligned.
#include <bit>

#include "device/elementwise.cuh"
#include "device/shared.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {

constexpr int threads = cuda::block_threads(256);
// As powers of two: columns, walkers and results share a block's threads.
constexpr int thread_bits = std::countr_zero(static_cast<unsigned>(threads)), warp_bits = 5;
constexpr Index most_blocks = 1024;  // that come of pieces: several for each multiprocessor
constexpr Index short_axis = 8;      // vectors that are read side by side, so that accesses of a warp are whole
constexpr Index walker_steps = 4;    // vectors of a walker along a longer one
constexpr Index piece_steps = 8;     // the same in each of several pieces
constexpr int loads_ahead = 4;       // vectors of a thread that are under way together
constexpr int block_steps = 64;      // vectors that are added to each other first: so a float's errors hardly grow
constexpr int most_states = 8;       // of a thread, one for each element of a vector

template <class T>
constexpr int width = std::min(cuda::vector_width<T>, most_states);

// The smallest power of two that is no less than `count`, up to 2^most.
int bits_for(Index count, int most) {
  int bits = 0;
  while (bits < most && Index{1} << bits < count) ++bits;
  return bits;
}

// What a thread works at: columns from d on of result o, as one of its walkers.
struct Place {
  Index o, d;
  int walker, number;  // in the block, and of all pieces
};

// How an axis of n elements or vectors is dealt out to threads, for each of outer * inner results.
struct Deal {
  Index outer, inner;
  int column_bits, walker_bits;
  Index tiles, pieces;  // of a row of results, in columns; of the axis
  bool along;           // vectors lie along the axis, and inner is 1
  bool wide;            // vectors are aligned

  template <class T>
  static Deal of(const T* x, Index outer, Index n, Index inner, bool along) {
    const bool rows_aligned = along ? n % width<T> == 0 || outer == 1 : inner % width<T> == 0;
    Deal deal{outer, inner, 0, 0, 1, 1, along, rows_aligned && cuda::aligned<width<T>>(x)};
    const Index steps = along ? n / width<T> : n, vectors = along ? 1 : (inner + width<T> - 1) / width<T>;
    deal.column_bits = bits_for(vectors, warp_bits);
    deal.walker_bits =
        bits_for(std::max(std::min(steps, short_axis), steps / walker_steps), thread_bits - deal.column_bits);
    deal.tiles = (vectors + deal.columns() - 1) >> deal.column_bits;
    const Index room = most_blocks / std::max<Index>(outer * deal.tiles, 1);
    deal.pieces = std::max<Index>(std::min(steps / (piece_steps * deal.walkers()), room), 1);
    return deal;
  }
  HEDDLE_HD int columns() const { return 1 << column_bits; }
  HEDDLE_HD int walkers() const { return 1 << walker_bits; }
  HEDDLE_HD int results() const { return threads >> (column_bits + walker_bits); }
  dim3 grid() const {
    return {cuda::blocks_for(outer, results()) * static_cast<unsigned>(tiles), static_cast<unsigned>(pieces)};
  }
  template <class T>
  __device__ Place place() const {
    const int t = static_cast<int>(threadIdx.x), column = t & (columns() - 1);
    const Index block = blockIdx.x / static_cast<unsigned>(tiles), tile = blockIdx.x - block * tiles;
    const int walker = t >> column_bits & (walkers() - 1);
    return {block * results() + (t >> (column_bits + walker_bits)), (tile * columns() + column) * width<T>, walker,
            static_cast<int>(blockIdx.y) * walkers() + walker};
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

// What is reduced to what: a State takes Elements and joins with other States; start() is one that took none, and of(o)
// is what writes result o.

// y = the sum over divisor, or over the number of rows.
template <class T, class Y>
struct AddUp {
  using Element = T;
  using State = SumAcc<T>;
  Y* y;
  State divisor;
  const int* rows = nullptr;  // of each result, where there is no divisor

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

// The first of the largest, a NaN being larger than all else. Of elements, or of what was found among some of them.
template <class E, class Y>
struct FindLargest {
  using Element = E;
  using Value = typename ValueOf<E>::type;
  using State = Found<Value>;
  static constexpr Value least =
      std::is_floating_point_v<Value> ? -std::numeric_limits<Value>::infinity() : std::numeric_limits<Value>::lowest();
  static constexpr Index nowhere = std::numeric_limits<Index>::max();
  Y* y;
  Index* position;
  State* found = nullptr;  // instead of y and position

  __device__ FindLargest of(Index) const { return *this; }
  __device__ static State start() { return {least, nowhere}; }
  __device__ static void take(State& best, const E& x, Index k) {
    if constexpr (std::is_same_v<E, State>)
      join(best, x);
    else
      join(best, {static_cast<Value>(x), k});
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
      y[at] = static_cast<Y>(best.value);
      position[at] = best.position;
    }
  }
};

// Vectors of a thread: every hop-th of `steps` from the first on, which begin `step` elements apart; of each the first
// `valid` elements.
struct Walk {
  Index first, hop, steps, step;
  int valid;
  bool along;

  __device__ Index position(Index k, int i) const { return along ? k * step + i : k; }
};

template <bool wide, class Op, class E = typename Op::Element>
__device__ void take_all(const E* x, const Walk& walk, typename Op::State (&mine)[width<E>]) {
  constexpr int loads = wide ? loads_ahead : 1;
  for (Index k = walk.first; k < walk.steps;) {
    typename Op::State part[width<E>];
    for (auto& state : part) state = Op::start();
    for (int step = 0; step < block_steps && k < walk.steps; step += loads, k += loads * walk.hop) {
      cuda::Vector<E, width<E>> values[loads];
      for (int l = 0; l < loads; ++l) {
        const E* const from = x + (k + l * walk.hop) * walk.step;
        if (k + l * walk.hop >= walk.steps) continue;
        if constexpr (wide) values[l] = cuda::load_vector<width<E>>(from);
        for (int i = 0; !wide && i < width<E>; ++i)
          if (i < walk.valid) values[l].at[i] = from[i];
      }
      for (int l = 0; l < loads; ++l)
        for (int i = 0; i < width<E>; ++i)
          if (k + l * walk.hop < walk.steps && (wide || i < walk.valid))
            Op::take(part[i], values[l].at[i], walk.position(k + l * walk.hop, i));
    }
    for (int i = 0; i < width<E>; ++i) Op::join(mine[i], part[i]);
  }
}

// What this thread finds on its way down the axis.
template <class Op, class Rows, class E = typename Op::Element>
__device__ void walk_down(const E* x, const Rows& rows, const Deal& deal, const Place& at,
                          typename Op::State (&mine)[width<E>]) {
  const Index n = rows.count(at.o);
  if (n == 0) return;  // x may have no memory
  const Index steps = deal.along ? n / width<E> : n;
  const Index beside = deal.along ? width<E> : deal.inner - at.d;
  const E* const from = x + rows.first(at.o) * deal.inner + at.d;
  const int valid = static_cast<int>(beside < width<E> ? beside : width<E>);
  const Index step = deal.along ? width<E> : deal.inner;
  const Walk walk{at.number, deal.walkers() * deal.pieces, steps, step, valid, deal.along};
  deal.wide ? take_all<true, Op>(from, walk, mine) : take_all<false, Op>(from, walk, mine);
  if (!deal.along || at.number > 0) return;
  for (int i = 0; i < width<E>; ++i)  // what no vector holds
    if (const Index k = steps * width<E> + i; k < n) Op::take(mine[i], from[k], k);
}

// The walkers' states become one, that of walker 0, pair by pair. All threads come.
template <class Op, int each, class State>
__device__ void meet(const Deal& deal, int walker, State (&mine)[each]) {
  auto& states = cuda::shared<State[each][threads]>();
  const int t = static_cast<int>(threadIdx.x);
  for (int half = each / 2; half > 0; half /= 2)
    for (int i = 0; deal.along && i < half; ++i) Op::join(mine[i], mine[i + half]);
  const int used = deal.along ? 1 : each;
  for (int half = deal.walkers() / 2; half > 0; half /= 2) {
    const int distance = half << deal.column_bits;  // in threads
    for (int i = 0; i < each; ++i)
      if (i < used && walker >= half && walker < 2 * half) states[i][t] = mine[i];
    2 * distance > cuda::warp_size ? __syncthreads() : __syncwarp();
    for (int i = 0; i < each; ++i)
      if (i < used && walker < half) Op::join(mine[i], states[i][t + distance]);
  }
}

template <class Op, class Rows>
__global__ __launch_bounds__(threads) void reduce(const typename Op::Element* x, Rows rows, Deal deal, Op op) {
  using E = typename Op::Element;
  const Place at = deal.place<E>();
  const bool inside = at.o < deal.outer && at.d < deal.inner;
  typename Op::State mine[width<E>];
  for (auto& state : mine) state = Op::start();
  if (inside) walk_down<Op>(x, rows, deal, at, mine);
  meet<Op>(deal, at.walker, mine);
  if (!inside || at.walker > 0) return;
  const Op result = op.of(at.o);
  const Index row = (at.o * deal.pieces + blockIdx.y) * deal.inner;
  for (int i = 0; i < width<E>; ++i)
    if (at.d + i < deal.inner) result.write(row + at.d + i, mine[i]);
}

// In one launch, or in two: `to_parts` makes an Op that leaves states, and `from_parts` reduces them.
template <class Part, class Op, class Rows, class ToParts, class FromParts>
void run(const typename Op::Element* x, const Rows& rows, const Deal& deal, const Op& op, ToParts to_parts,
         const FromParts& from_parts) {
  if (deal.outer * deal.inner == 0) return;
  const cudaStream_t stream = cuda::current_stream();
  if (deal.pieces == 1) return cuda::launch<reduce<Op, Rows>>(deal.grid(), threads, 0, stream, x, rows, deal, op);
  const cuda::Workspace<Part> parts(deal.outer * deal.pieces * deal.inner);
  const auto first = to_parts(parts.data());
  cuda::launch<reduce<std::remove_const_t<decltype(first)>, Rows>>(deal.grid(), threads, 0, stream, x, rows, deal,
                                                                   first);
  const bool along = deal.inner == 1 && width<Part> > 1;
  Deal rest = Deal::of(parts.data(), deal.outer, deal.pieces, deal.inner, along);
  rest.pieces = 1;
  cuda::launch<reduce<FromParts, EvenRows>>(rest.grid(), threads, 0, stream, parts.data(), EvenRows{deal.pieces}, rest,
                                            from_parts);
}

// Parts are kept as what their sum is made of: float, or int64.
template <class T, class Y, class Rows>
void add_up(const T* x, const Rows& rows, const Deal& deal, const AddUp<T, Y>& op) {
  using Part = std::conditional_t<std::is_integral_v<T>, std::int64_t, float>;
  run<Part>(
      x, rows, deal, op,
      [](Part* parts) {
        return AddUp<T, Part>{parts, 1};
      },
      AddUp<Part, Y>{op.y, op.divisor, op.rows});
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

template <class T>
__global__ __launch_bounds__(threads) void spread_means(View<const T, 2> dy, SequenceRows rows, Deal deal,
                                                        View<T, 2> dx) {
  const Place at = deal.place<T>();
  if (at.o >= deal.outer || at.d >= deal.inner) return;
  const Index count = rows.count(at.o), valid = deal.inner - at.d;
  cuda::Vector<T, width<T>> mean;
  for (int i = 0; i < width<T>; ++i)
    if (i < valid) mean.at[i] = T(static_cast<float>(dy(at.o, at.d + i)) / static_cast<float>(count));
  const Index hop = deal.walkers() * deal.pieces;
  T* to = &dx(rows.first(at.o) + at.number, at.d);  // steps: nvcc splits a vector whose address is computed anew
  for (Index n = at.number; n < count; n += hop, to += hop * deal.inner) {
    if (deal.wide) {
      cuda::store_vector(to, mean);
      continue;
    }
    for (int i = 0; i < width<T>; ++i)
      if (i < valid) to[i] = mean.at[i];
  }
}

// Sequences as results, each of as many rows as they have on average: what their lengths are, only the device knows.
template <class T>
Deal deal_sequences(View<const int, 1> begin, View<T, 2> rows) {
  const Index B = begin.extent[0];
  return Deal::of(rows.data, B, rows.extent[0] / std::max<Index>(B, 1), rows.extent[1], false);
}

}  // namespace

template <class T, class Y>
void sum(Cuda, View<const T, 3> x, SumAcc<T> divisor, View<Y, 2> y) {
  const auto [outer, n, inner] = x.extent;
  const Deal deal = Deal::of(x.data, outer, n, inner, inner == 1);
  add_up(x.data, EvenRows{n}, deal, AddUp<T, Y>{y.data, divisor});
}

template <OnGpu T>
void repeat(Cuda, const BroadcastPlan<1>& plan, const T* dy, float divisor, T* dx) {
  cuda::for_broadcast_elements(Over<T>{divisor}, plan, dx, dy);
}

template <class T>
void max(Cuda, View<const T, 3> x, View<T, 2> y, View<Index, 2> position) {
  using Part = Found<Acc<T>>;
  const auto [outer, n, inner] = x.extent;
  run<Part>(
      x.data, EvenRows{n}, Deal::of(x.data, outer, n, inner, inner == 1), FindLargest<T, T>{y.data, position.data},
      [](Part* parts) {
        return FindLargest<T, T>{nullptr, nullptr, parts};
      },
      FindLargest<Part, T>{y.data, position.data});
}

template <class T>
void max_backward(Cuda, View<const T, 2> dy, View<const Index, 2> position, View<T, 3> dx) {
  const unsigned blocks = cuda::blocks_for(dy.extent[0] * dy.extent[1], threads);
  cuda::launch<scatter<T>>(blocks, threads, 0, cuda::current_stream(), dy, position, dx);
}

template <OnGpu T>
void mean_rows(Cuda, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> x, View<T, 2> y) {
  add_up(x.data, SequenceRows{begin.data, length.data}, deal_sequences(begin, x), AddUp<T, T>{y.data, 0, length.data});
}
template <OnGpu T>
void mean_rows_backward(Cuda, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> dy, View<T, 2> dx) {
  const Deal deal = deal_sequences(begin, dx);
  if (deal.inner == 0) return;
  cuda::launch<spread_means<T>>(deal.grid(), threads, 0, cuda::current_stream(), dy,
                                SequenceRows{begin.data, length.data}, deal, dx);
}

#define HEDDLE_SUM(T, Y) template void sum(Cuda, View<const T, 3>, SumAcc<T>, View<Y, 2>);
HEDDLE_SUM(float, float)
HEDDLE_SUM(float, bf16)
HEDDLE_SUM(bf16, float)
HEDDLE_SUM(bf16, bf16)
HEDDLE_SUM(std::int32_t, std::int64_t)
HEDDLE_SUM(std::int64_t, std::int64_t)
HEDDLE_SUM(bool, std::int64_t)
#undef HEDDLE_SUM

#define HEDDLE_MAX(T) template void max(Cuda, View<const T, 3>, View<T, 2>, View<Index, 2>);
HEDDLE_MAX(float)
HEDDLE_MAX(bf16)
HEDDLE_MAX(std::int32_t)
HEDDLE_MAX(std::int64_t)
HEDDLE_MAX(bool)
#undef HEDDLE_MAX

#define HEDDLE_REDUCE(T)                                                                               \
  template void repeat(Cuda, const BroadcastPlan<1>&, const T*, float, T*);                            \
  template void max_backward(Cuda, View<const T, 2>, View<const Index, 2>, View<T, 3>);                \
  template void mean_rows(Cuda, View<const int, 1>, View<const int, 1>, View<const T, 2>, View<T, 2>); \
  template void mean_rows_backward(Cuda, View<const int, 1>, View<const int, 1>, View<const T, 2>, View<T, 2>);
HEDDLE_REDUCE(float)
HEDDLE_REDUCE(bf16)
#undef HEDDLE_REDUCE

}  // namespace heddle::kernel
