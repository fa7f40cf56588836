// The rows of embedding tables, the check of ids, and the gradient of tables on the GPU. Formulas: ops/check_ids.hpp
// and ops/embed.hpp.
//
//   find_wrong_id    One block owns a range of ids, read once. A block that finds an invalid id also looks at the ids
//                    before its range, because the first one is reported.
//   embed_rows       One thread owns neighboring elements of a row of y, 16 bytes of the table. It reads the row's id,
//                    which it checks, and its position. A row of each table is read for every row of y, which is
//                    written once.
//
// The gradient of tables for up to 4096 ids:
//   sum_occurrences  One block owns a position in `ids` and, if its id stands at no position before, the id's row of
//                    dx. It lists the positions of the id and adds their rows of dy. dy is read once, the rows of dx
//                    that were taken are written once, and each block reads the ids, mostly from cache. A second table
//                    shares the launch.
//   sum_with_few     So does a third table of few rows, each of them taken often: a block adds 128 rows of dy. The
//                    last block of a row of dx adds these sums, then the remaining rows of dy.
// For more ids:
//   write_pairs      One thread owns a position of `ids`: it reads the id and writes its row and the position, 8 bytes.
//                    After a sort by row (device/sort.cuh), the positions of a row form a run: contiguous and in
//                    ascending order.
//   mark_runs        One thread owns a sorted pair. It writes where runs begin and end: 4 bytes read per pair, 8
//                    written per row.
//   sum_pieces       For rows that are taken at least 128 times. One thread owns 16 bytes of each of 128 rows of dy,
//                    and writes their sum.
//   sum_runs         One thread owns 16 bytes of dx. It adds its run's pieces, then the remaining rows of dy, in order.
//                    dy is read once and dx written once; pieces are at most 1/128 of dy's elements, in float.
//
// Threads own single elements instead of 16 bytes if rows are not aligned. Pieces are counted from the start of a run,
// so the sum of a row does not depend on which other rows were taken, and has the same bits for any number of ids.
#include <bit>
#include <limits>

#include "device/block.cuh"
#include "device/instances.cuh"
#include "device/limits.cuh"
#include "device/report.cuh"
#include "device/shared.cuh"
#include "device/sort.cuh"
#include "device/vector.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {

using cuda::warp_size;

// --- check_ids ---

namespace wrong {

constexpr int threads = cuda::block_threads(256);
constexpr int warps = threads / warp_size;
constexpr int each = 4;  // ids whose loads a thread has in flight
constexpr int tile = threads * each;

// Returns the smallest `value` of the block to each of its threads. All of them call this.
__device__ Index block_min(Index value) {
  auto& of_warp = cuda::shared<Index[warps]>();
  for (int distance = warp_size / 2; distance > 0; distance /= 2) {
    const Index other = __shfl_xor_sync(cuda::all_lanes, value, distance);
    value = other < value ? other : value;
  }
  if (threadIdx.x % warp_size == 0) of_warp[threadIdx.x / warp_size] = value;
  __syncthreads();
  for (int w = 0; w < warps; ++w) value = of_warp[w] < value ? of_warp[w] : value;
  return value;
}

// Returns the first position in [first, last) with an invalid id, or `last`. All threads of the block call this and get
// the same result.
template <class I>
__device__ Index first_wrong(const IdCheck& check, View<const I, 1> ids, Index first, Index last) {
  for (; first < last; first += tile) {
    Index wrong = last;
    for (int i = each - 1; i >= 0; --i) {
      const Index n = first + i * threads + threadIdx.x;
      if (n < last && check.is_invalid(ids(n))) wrong = n;
    }
    if (__syncthreads_or(wrong < last)) return block_min(wrong);
  }
  return last;
}

template <class I>
__global__ __launch_bounds__(threads) void find_wrong_id(IdCheck check, View<const I, 1> ids, Index ids_per_block,
                                                         cuda::Report* report) {
  const Index begin = blockIdx.x * ids_per_block, behind = begin + ids_per_block;
  const Index end = behind < ids.extent[0] ? behind : ids.extent[0];
  const Index position = first_wrong(check, ids, begin, end);
  if (position == end || first_wrong(check, ids, 0, begin) < begin) return;
  if (threadIdx.x == 0) cuda::raise_report(check, ids(position), position, report);
}

template <class I>
void find(const IdCheck& check, View<const I, 1> ids) {
  const Index N = ids.extent[0];
  if (N == 0) return;
  const Index tiles = (N + tile - 1) / tile, most = cuda::limits.id_blocks,
              ids_per_block = (tiles + most - 1) / most * tile;
  cuda::launch<find_wrong_id<I>>(static_cast<unsigned>((N + ids_per_block - 1) / ids_per_block), threads, 0,
                                 cuda::current_stream(), check, ids, ids_per_block, cuda::report());
}

}  // namespace wrong

// --- rows and columns in threads ---

constexpr int row_threads = 4 * warp_size;

// Calls f(d) with the first column d of each vector of this thread. A block has a row of threads for each of its matrix
// rows; a thread owns vectors of `each` neighboring columns.
template <int each, class F>
__device__ void each_column(Index D, F&& f) {
  const Index step = Index{gridDim.y} * blockDim.x * each;
  for (Index d = (Index{blockIdx.y} * blockDim.x + threadIdx.x) * each; d < D; d += step) f(d);
}
__device__ Index row_of_thread() { return Index{blockIdx.x} * blockDim.y + threadIdx.y; }

// The launch: one thread per row and vector of `each` columns. Threads take several vectors if the grid's y would
// exceed its limit.
struct Threads {
  dim3 grid, block;

  Threads(Index rows, Index D, int each) {
    const Index vectors = (D + each - 1) / each;
    int columns = 1;
    while (columns < vectors && columns < warp_size) columns *= 2;
    const int together = row_threads / columns;
    block = dim3(static_cast<unsigned>(columns), static_cast<unsigned>(together));
    grid =
        dim3(cuda::blocks_for(rows, together),
             static_cast<unsigned>(std::min((vectors + columns - 1) / columns, cuda::limits.gradient_column_blocks)));
  }
};

// --- embed ---

// Rounds values to elements of T.
template <class T, int each>
__device__ void round_to(float (&values)[each]) {
  for (float& value : values) value = static_cast<float>(T(value));
}

template <int each, class T, class Y, class I>
__global__ __launch_bounds__(row_threads) void embed_rows(IdCheck check, View<const I, 1> ids, View<const T, 2> table,
                                                          View<const int, 1> position, View<const T, 2> positions,
                                                          View<Y, 2> y, cuda::Report* report) {
  const Index n = row_of_thread();
  if (n >= y.extent[0]) return;
  const auto id = static_cast<std::int64_t>(ids(n));
  const bool exists = !check.is_invalid(id);
  if (!exists && threadIdx.x == 0 && blockIdx.y == 0) cuda::report_if_first(check, ids, n, report);
  const Index t = positions.data ? position(n) : 0;
  each_column<each>(y.extent[1], [&](Index d) {
    float values[each] = {};
    if (exists) cuda::load_floats(&table(id, d), values);
    round_to<Y>(values);
    if (positions.data) {
      float added[each];
      cuda::load_floats(&positions(t, d), added);
      round_to<Y>(added);
      for (int i = 0; i < each; ++i) values[i] += added[i];
    }
    cuda::store_floats(&y(n, d), values);
  });
}

// --- sum_taken_rows ---

namespace taken {

constexpr int threads = row_threads;
constexpr int piece = 128;  // rows of dy in one partial sum, for a row that was taken at least this often
constexpr int ahead = 4;    // rows whose loads a thread has in flight, unless a block has more of them to add

// Writes the key and the value of each position. The key is the row, or V for an id that is not a row; V sorts last.
// The value is the position.
template <class I>
__global__ __launch_bounds__(threads) void write_pairs(View<const I, 1> ids, Index V, cuda::Pairs pairs) {
  const Index n = Index{blockIdx.x} * threads + threadIdx.x;
  if (n >= ids.extent[0]) return;
  const Index id = ids(n);
  pairs.keys[n] = static_cast<unsigned>(id < 0 || id > V ? V : id);
  pairs.values[n] = static_cast<unsigned>(n);
}

// The sorted pairs [begin, end) of a row; empty for a row that was not taken.
struct Run {
  unsigned begin, end;
};

__global__ __launch_bounds__(threads) void mark_runs(cuda::Pairs sorted, Index N, View<Run, 1> runs) {
  const Index n = Index{blockIdx.x} * threads + threadIdx.x;
  if (n >= N) return;
  const unsigned v = sorted.keys[n];
  if (v >= runs.extent[0]) return;
  if (n == 0 || sorted.keys[n - 1] != v) runs(v).begin = static_cast<unsigned>(n);
  if (n == N - 1 || sorted.keys[n + 1] != v) runs(v).end = static_cast<unsigned>(n + 1);
}

// Adds the `each` elements at at(k) to sum, for k from first to last - 1, in order. A thread has `loads` of them in
// flight.
template <int loads = ahead, int each, class At>
__device__ void add(float (&sum)[each], Index first, Index last, At&& at) {
  for (; first < last; first += loads) {
    float values[loads][each];
    for (int k = 0; k < loads; ++k)
      if (first + k < last) cuda::load_floats(at(first + k), values[k]);
    for (int k = 0; k < loads; ++k)
      for (int i = 0; first + k < last && i < each; ++i) sum[i] += values[k][i];
  }
}

// The gradient of one table: row i of dx is the sum of the rows n of dy with ids(n) = i, except for row `frozen`, whose
// gradient is 0.
template <class I, class Y>
struct TakenRows {
  View<const I, 1> ids;
  Index frozen;   // or -1
  View<Y, 2> dx;  // zeros on entry
};

constexpr int most_scanned = 4096;  // ids whose occurrences a block lists

// Lists the positions of `id` from `first` on in shared memory, in ascending order. Returns their number.
template <class I>
__device__ int list_places(View<const I, 1> ids, I id, int first, int (&places)[most_scanned]) {
  constexpr int warps = threads / warp_size;
  auto& of_warp = cuda::shared<int[warps]>();
  const auto count_all = static_cast<int>(ids.extent[0]);
  const int thread = static_cast<int>(threadIdx.x), lane = thread % warp_size, warp = thread / warp_size;
  int count = 0;
  for (; first < count_all; first += threads) {
    const int n = first + thread;
    const bool is_same = n < count_all && ids(n) == id;
    const unsigned same = __ballot_sync(cuda::all_lanes, is_same);
    if (lane == 0) of_warp[warp] = __popc(same);
    __syncthreads();
    int before = count;
    for (int w = 0; w < warps; ++w) {
      if (w < warp) before += of_warp[w];
      count += of_warp[w];
    }
    if (is_same) places[before + __popc(same & ((1u << lane) - 1))] = n;
    __syncthreads();  // the places are complete, and all threads have read of_warp
  }
  return count;
}

// Adds the rows of dy that took the same row of dx as position blockIdx.x, if no earlier position took it.
template <int each, class I, class T, class Y>
__device__ void add_occurrences(const TakenRows<I, Y>& taken, View<const T, 2> dy) {
  auto& places = cuda::shared<int[most_scanned]>();
  const int own = static_cast<int>(blockIdx.x), thread = static_cast<int>(threadIdx.x);
  if (own >= taken.ids.extent[0]) return;
  const I id = taken.ids(own);
  if (id < 0 || id >= taken.dx.extent[0] || id == taken.frozen) return;
  for (int first = 0; first < own; first += threads) {
    const int n = first + thread;
    if (__syncthreads_or(n < own && taken.ids(n) == id)) return;
  }
  const int count = list_places(taken.ids, id, own, places);
  const auto at = [&](Index d) { return [&dy, &places, d](Index k) { return &dy(places[k], d); }; };
  for (Index d = Index{thread} * each; d < dy.extent[1]; d += Index{threads} * each) {
    float sum[each] = {};
    Index k = 0;
    for (; k + piece <= count; k += piece) {
      float of_piece[each] = {};
      add(of_piece, k, k + piece, at(d));
      for (int i = 0; i < each; ++i) sum[i] += of_piece[i];
    }
    add(sum, k, Index{count}, at(d));
    cuda::store_floats(&taken.dx(id, d), sum);
  }
}

constexpr Index most_few = 16;        // rows of a table of few rows, which are taken often
constexpr Index few_row_blocks = 64;  // counters of such a table: a stream has so many

// The gradient of a table of few rows, which many blocks share. Each of its rows has `parts` blocks, and so many in
// each of `column_blocks` ranges of columns.
template <class Y>
struct FewRows {
  View<const int, 1> ids;  // without data, all are 0
  View<Y, 2> dx;
  int parts, column_blocks;
  float* pieces;   // [rows of dx, parts, D] the sums of whole pieces
  unsigned* done;  // [rows of dx, column_blocks] blocks that have finished: 0 before and after

  unsigned blocks() const { return static_cast<unsigned>(dx.extent[0] * parts * column_blocks); }
};

// Adds one piece of the rows of dy that took a row of dx, in one range of columns. The last block of this range adds
// the pieces, and then the rows of dy that fill no piece.
template <int each, class T, class Y>
__device__ void add_piece(const FewRows<Y>& few, View<const T, 2> dy) {
  auto& places = cuda::shared<int[most_scanned]>();
  const int own = static_cast<int>(blockIdx.x), number = own % few.parts, range = own / few.parts % few.column_blocks,
            v = own / few.parts / few.column_blocks;
  const Index D = few.dx.extent[1];
  if (v >= few.dx.extent[0]) return;
  Index count = v == 0 ? dy.extent[0] : 0;
  if (few.ids.data) count = list_places(few.ids, v, 0, places);
  const Index whole = count / piece;
  if (number >= whole && number > 0) return;
  constexpr int loads = each > 4 ? ahead : 2 * ahead;
  const auto at = [&](Index d) {
    return [&dy, &few, &places, d](Index k) { return &dy(few.ids.data ? Index{places[k]} : k, d); };
  };
  const auto in_range = [&](auto&& f) {
    const int step = few.column_blocks * threads * each;
    for (Index d = (range * threads + static_cast<int>(threadIdx.x)) * each; d < D; d += step) f(d);
  };
  float* const pieces = few.pieces + Index{v} * few.parts * D;
  if (whole > 0) {
    in_range([&](Index d) {
      float sum[each] = {};
      add<loads>(sum, Index{number} * piece, Index{number + 1} * piece, at(d));
      cuda::store_floats(pieces + number * D + d, sum);
    });
    if (!cuda::finishes_last(few.done + v * few.column_blocks + range, static_cast<int>(whole))) return;
  }
  in_range([&](Index d) {
    float sum[each] = {};
    add<loads>(sum, Index{0}, whole, [&](Index k) { return static_cast<const float*>(pieces) + k * D + d; });
    add<loads>(sum, whole * piece, count, at(d));
    cuda::store_floats(&few.dx(v, d), sum);
  });
}

template <int each, class T, class Y, class I>
__global__ __launch_bounds__(threads) void sum_occurrences(TakenRows<I, Y> taken, TakenRows<int, Y> positions,
                                                           View<const T, 2> dy) {
  if (blockIdx.y == 0)
    add_occurrences<each>(taken, dy);
  else
    add_occurrences<each>(positions, dy);
}

// Computes what sum_occurrences does, and adds up a table of few rows, whose blocks take longest and come first. The
// launch bounds favor registers over occupancy.
template <int each, class T, class Y, class I>
__global__ __launch_bounds__(threads, 4) void sum_with_few(TakenRows<I, Y> taken, TakenRows<int, Y> positions,
                                                           FewRows<Y> types, View<const T, 2> dy) {
  if (blockIdx.y == 0)
    add_piece<each>(types, dy);
  else if (blockIdx.y == 1)
    add_occurrences<each>(taken, dy);
  else
    add_occurrences<each>(positions, dy);
}

// Sums the whole pieces. The sum of piece j of a run that begins at b is stored in row b / 128 + j of `pieces`. Whole
// pieces begin at least 128 apart, so no two share a row.
template <int each, class T>
__global__ __launch_bounds__(threads) void sum_pieces(cuda::Pairs sorted, View<const Run, 1> runs, View<const T, 2> dy,
                                                      View<float, 2> pieces) {
  const Index number = row_of_thread();
  if (number >= pieces.extent[0]) return;
  // At most one whole piece begins at a position in [piece * number, piece * number + piece). It contains the last
  // position of that range.
  const Index inside = number * piece + piece - 1;
  const unsigned v = sorted.keys[inside];
  if (v >= runs.extent[0]) return;
  const Index begin = inside - (inside - runs(v).begin) % piece;
  if (begin + piece > runs(v).end) return;
  each_column<each>(dy.extent[1], [&](Index d) {
    float sum[each] = {};
    add(sum, begin, begin + piece, [&](Index n) { return &dy(sorted.values[n], d); });
    cuda::store_floats(&pieces(number, d), sum);
  });
}

template <int each, class T, class Y>
__global__ __launch_bounds__(threads) void sum_runs(cuda::Pairs sorted, View<const Run, 1> runs, View<const T, 2> dy,
                                                    View<const float, 2> pieces, View<Y, 2> dx) {
  const Index v = row_of_thread();
  if (v >= dx.extent[0]) return;
  const Run run = runs(v);
  const Index whole = (run.end - run.begin) / piece, number = run.begin / piece;
  each_column<each>(dx.extent[1], [&](Index d) {
    float sum[each] = {};
    add(sum, number, number + whole, [&](Index k) { return &pieces(k, d); });
    add(sum, run.begin + whole * piece, run.end, [&](Index n) { return &dy(sorted.values[n], d); });
    cuda::store_floats(&dx(v, d), sum);
  });
}

template <int each, class T, class Y>
void sum(cuda::Pairs sorted, View<const Run, 1> runs, View<const T, 2> dy, View<Y, 2> dx, cudaStream_t stream) {
  const auto [N, D] = dy.extent;
  const Index count = N / piece;
  const cuda::Workspace<float> memory(count * D);
  const Threads of_pieces(count, D, each), of_rows(dx.extent[0], D, each);
  cuda::launch<sum_pieces<each, T>>(of_pieces.grid, of_pieces.block, 0, stream, sorted, runs, dy,
                                    View<float, 2>{memory.data(), {count, D}});
  cuda::launch<sum_runs<each, T, Y>>(of_rows.grid, of_rows.block, 0, stream, sorted, runs, dy,
                                     View<const float, 2>{memory.data(), {count, D}}, dx);
}

// Computes all of dx by a sort of the ids.
template <class I, class T, class Y>
void sort_and_sum(const TakenRows<I, Y>& taken, View<const T, 2> dy) {
  const Index N = taken.ids.extent[0], V = taken.dx.extent[0], D = taken.dx.extent[1];
  constexpr Index most = std::numeric_limits<unsigned>::max();
  require(N <= most && V <= most, "the gradient of a table with ", V, " rows for ", N, " ids: on the GPU at most ",
          most, " of each are supported");
  const cudaStream_t stream = cuda::current_stream();
  const cuda::Workspace<unsigned> pair_memory(4 * N);
  unsigned* const words = pair_memory.data();
  const cuda::Pairs pairs{words, words + N}, sorted{words + 2 * N, words + 3 * N};
  cuda::launch<write_pairs<I>>(cuda::blocks_for(N, threads), threads, 0, stream, taken.ids, V, pairs);
  cuda::sort_pairs(pairs, sorted, N, static_cast<int>(std::bit_width(static_cast<unsigned>(V))));
  const cuda::Workspace<Run> run_memory(V);
  const View<Run, 1> runs{run_memory.data(), {V}};
  cuda::clear(runs.data, static_cast<std::size_t>(V) * sizeof(Run));
  cuda::launch<mark_runs>(cuda::blocks_for(N, threads), threads, 0, stream, sorted, N, runs);
  const View<const Run, 1> marked{run_memory.data(), {V}};
  constexpr int each = cuda::vector_width<T, Y>;
  if (D % each == 0 && cuda::aligned<each>(dy.data) && cuda::aligned<each>(taken.dx.data))
    sum<each>(sorted, marked, dy, taken.dx, stream);
  else
    sum<1>(sorted, marked, dy, taken.dx, stream);
  if (taken.frozen >= 0) cuda::clear(&taken.dx(taken.frozen, 0), static_cast<std::size_t>(D) * sizeof(Y));
}

template <class I, class Y>
void clear(const TakenRows<I, Y>& taken) {
  cuda::clear(taken.dx.data, static_cast<std::size_t>(taken.dx.extent[0] * taken.dx.extent[1]) * sizeof(Y));
}

// Computes all of dx of one table, or of up to three for the same dy. `types` has few rows. A table without rows is
// left out.
template <class I, class T, class Y>
void sum_taken(TakenRows<I, Y> taken, TakenRows<int, Y> positions, TakenRows<int, Y> types, View<const T, 2> dy) {
  const Index N = dy.extent[0], D = dy.extent[1];
  const auto has_rows = [](const auto& of) { return of.dx.extent[0] > 0; };
  if (D == 0) return;
  if (N > std::min<Index>(cuda::limits.scanned_ids, most_scanned)) {
    const auto sort = [&](auto& of) {
      if (has_rows(of)) sort_and_sum(of, dy);
      of = {{nullptr, {0}}, -1, {nullptr, {0, 0}}};
    };
    sort(taken);
    sort(positions);
    if (types.ids.data) sort(types);
  }
  if (has_rows(taken)) clear(taken);
  if (has_rows(positions)) clear(positions);
  if (!has_rows(taken) && !has_rows(positions) && !has_rows(types)) return;
  constexpr int each = cuda::vector_width<T, Y>;
  const auto launch = [&]<int width>() {
    const cudaStream_t stream = cuda::current_stream();
    const unsigned tables = has_rows(positions) ? 2 : 1;
    const Index V = types.dx.extent[0];
    if (V == 0)
      return cuda::launch<sum_occurrences<width, T, Y, I>>(dim3(static_cast<unsigned>(N), tables), threads, 0, stream,
                                                           taken, positions, dy);
    require(V <= most_few, "sum_taken_rows: ", V, " rows are more than a table of few rows has");
    const auto parts = static_cast<int>(std::max<Index>(N / piece, 1));
    const auto column_blocks =
        static_cast<int>(std::min<Index>(cuda::blocks_for(D, threads * width), few_row_blocks / V));
    const cuda::Workspace<float> pieces(V * parts * D);
    const FewRows<Y> few{types.ids, types.dx, parts, column_blocks, pieces.data(), cuda::counters(V * column_blocks)};
    const dim3 grid(std::max(static_cast<unsigned>(taken.ids.extent[0]), few.blocks()), 1 + tables);
    cuda::launch<sum_with_few<width, T, Y, I>>(grid, threads, 0, stream, taken, positions, few, dy);
  };
  if (D % each == 0 && cuda::aligned<each>(dy.data) &&
      cuda::aligned<each>(taken.dx.data, positions.dx.data, types.dx.data))
    launch.template operator()<each>();
  else
    launch.template operator()<1>();
}

}  // namespace taken
}  // namespace

template <Label I>
void check_ids(Cuda, const IdCheck& check, View<const I, 1> ids) {
  wrong::find(check, ids);
}

template <OnGpu T, OnGpu Y, Label I>
void embed(Cuda, const IdCheck& check, View<const I, 1> ids, View<const T, 2> table, View<const int, 1> position,
           View<const T, 2> positions, View<Y, 2> y) {
  const Index D = y.extent[1];
  constexpr int each = cuda::vector_width<T, Y>;
  const auto launch = [&]<int width>() {
    const Threads of(y.extent[0], D, width);
    cuda::launch<embed_rows<width, T, Y, I>>(of.grid, of.block, 0, cuda::current_stream(), check, ids, table, position,
                                             positions, y, cuda::report());
  };
  if (D % each == 0 && cuda::aligned<each>(table.data, positions.data) && cuda::aligned<each>(y.data))
    launch.template operator()<each>();
  else
    launch.template operator()<1>();
}

template <OnGpu T, OnGpu Y, Label I>
void sum_taken_rows(Cuda, View<const T, 2> dy, View<const I, 1> ids, Index frozen, View<Y, 2> dx,
                    View<const int, 1> position, Index frozen_position, View<Y, 2> dpositions, View<const int, 1> type,
                    View<Y, 2> dtypes) {
  taken::sum_taken<I, T, Y>({ids, frozen, dx}, {position, frozen_position, dpositions}, {type, -1, dtypes}, dy);
}

[[maybe_unused,
  gnu::used]] constexpr auto embed_instances = cuda::instances<std::int32_t, std::int64_t>([]<class I>(cuda::Type<I>) {
  return std::tuple(&check_ids<I>, &embed<float, float, I>, &embed<float, bf16, I>, &embed<bf16, bf16, I>,
                    &sum_taken_rows<float, float, I>, &sum_taken_rows<bf16, float, I>, &sum_taken_rows<bf16, bf16, I>);
});

}  // namespace heddle::kernel
