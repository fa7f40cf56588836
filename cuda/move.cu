// Operations that only move elements, as words of the elements' size. Definitions: include/heddle/core/move.hpp and,
// in ops/, permute.hpp, where.hpp, embed.hpp and rows.hpp.
//
//   fill, where       A thread owns vectors of 16 bytes of y (device/elementwise.cuh). y is written once. An operand of
//                     where is read once, or from cache if it is broadcast.
//   permute_in_order  The last axis of x is that of y, or the two last axes are too short for tiles. One thread owns
//                     one word of y; rows whose length allows it are moved as words of 16 bytes. x is read once, in
//                     pieces of a row; y is written once, in order.
//   permute_tiles     The last axes differ. A block owns a tile along both, square if both are long, and transposes it
//                     in shared memory. x is read once along its last axis; y is written once along its last axis.
//   take_rows         One thread owns one word of y, of 16 bytes where rows allow it. Rows of x are read as often as
//                     they are taken, y is written once, ids are read once and then from cache.
//   end_rows          A block owns a row of a sequence and moves its words, each once; words are of 16 bytes where rows
//                     allow it. In the backward, dx is cleared before.
//   copy_row_ranges   Several blocks own a range of rows and move its words in turn, each once; words are of 16 bytes
//                     where rows allow it.
#include "device/elementwise.cuh"
#include "device/instances.cuh"
#include "device/limits.cuh"
#include "device/shared.cuh"

namespace heddle::kernel {
namespace {

constexpr int move_threads = cuda::block_threads(256);
constexpr int end_threads = cuda::block_threads(128);  // that own one row

using Wide = cuda::Vector<std::uint64_t, 2>;  // a word of 16 bytes

// Calls f(row length, x, y) in words of 16 bytes if rows and addresses allow it, otherwise in words W.
template <class W, class F>
void in_widest_words(Index row, const W* x, W* y, F&& f) {
  constexpr Index words = sizeof(Wide) / sizeof(W);
  if (row % words == 0 && cuda::aligned<words>(x, y))
    f(row / words, reinterpret_cast<const Wide*>(x), reinterpret_cast<Wide*>(y));
  else
    f(row, x, y);
}

// --- fill and where ---

template <class W>
struct Constant {
  W value;
  __device__ W operator()() const { return value; }
};

struct Choose {
  template <class W>
  __device__ W operator()(bool condition, W a, W b) const {
    return condition ? a : b;
  }
};

// --- permute ---

template <class W>
__global__ __launch_bounds__(move_threads) void permute_in_order(Permutation p, Index count, const W* x, W* y) {
  const Index i = Index{blockIdx.x} * move_threads + threadIdx.x;
  if (i >= count) return;
  Index rest = i, from = 0;
  for (int a = p.rank - 1; a > 0; --a) {
    from += rest % p.extent[a] * p.stride[a];
    rest /= p.extent[a];
  }
  y[i] = x[from + rest * p.stride[0]];
}

// A tile of y as a matrix in shared memory. Its rows are numbered along axis `lane` of y, which is the last axis of x,
// and its columns along the last axis of y.
template <class W>
struct TileShape {
  static constexpr int side_bits = sizeof(W) > 2 ? 5 : 6;  // squares of 32 or 64: sides of 64 bytes or more
  static constexpr int size = 1 << 2 * side_bits;
  static constexpr int bank = 4;  // bytes
  // Words between rows, so that the words of a column are in different banks. Rows have at least two words.
  static constexpr int gap = sizeof(W) < bank ? bank / int{sizeof(W)} : 1;
  static constexpr int memory = size + size / 2 * gap;

  int lane, row_bits, column_bits;  // the tile has 2^row_bits rows and 2^column_bits columns
  Index lane_step;                  // the step of y along `lane`
  Index row_tiles, column_tiles;

  static int bits(Index extent, int most) {
    int n = 0;
    while (n < most && Index{1} << n < extent) ++n;
    return n;
  }
  // Makes the tile a square. If one axis is too short, the other side becomes longer.
  TileShape(const Permutation& p, int axis) : lane(axis), lane_step(1) {
    const Index rows = p.extent[lane], columns = p.extent[p.rank - 1];
    row_bits = bits(rows, side_bits);
    column_bits = bits(columns, 2 * side_bits - row_bits);
    row_bits = bits(rows, 2 * side_bits - column_bits);
    for (int a = lane + 1; a < p.rank; ++a) lane_step *= p.extent[a];
    row_tiles = ((rows - 1) >> row_bits) + 1;
    column_tiles = ((columns - 1) >> column_bits) + 1;
  }
  // Returns whether tiles are worthwhile. If not, both axes are so short that neighbors in y are close in x, too.
  bool pays() const { return row_bits + column_bits >= 2 * side_bits - 2; }
};

template <class W>
__global__ __launch_bounds__(move_threads) void permute_tiles(Permutation p, TileShape<W> tile, const W* x, W* y) {
  constexpr int each = TileShape<W>::size / move_threads;
  auto& turned = cuda::shared<W[TileShape<W>::memory]>();
  const int last = p.rank - 1, pitch = (1 << tile.column_bits) + TileShape<W>::gap;
  const Index column = Index{blockIdx.x} % tile.column_tiles << tile.column_bits;
  Index rest = Index{blockIdx.x} / tile.column_tiles;
  const Index row = rest % tile.row_tiles << tile.row_bits;
  rest /= tile.row_tiles;
  x += row + column * p.stride[last];
  y += row * tile.lane_step + column;
  Index step = 1;  // the step of y along axis a
  for (int a = last; a >= 0; step *= p.extent[a--]) {
    if (a == tile.lane || a == last) continue;
    x += rest % p.extent[a] * p.stride[a];
    y += rest % p.extent[a] * step;
    rest /= p.extent[a];
  }
  const Index rows = p.extent[tile.lane] - row, columns = p.extent[last] - column;  // from the tile's corner to the end

  W held[each];
  for (int n = 0; n < each; ++n) {
    const int e = static_cast<int>(threadIdx.x) + n * move_threads;
    const int i = e & ((1 << tile.row_bits) - 1), k = e >> tile.row_bits;
    if (i < rows && k < columns && k >> tile.column_bits == 0) held[n] = x[i + k * p.stride[last]];
  }
  for (int n = 0; n < each; ++n) {
    const int e = static_cast<int>(threadIdx.x) + n * move_threads;
    const int i = e & ((1 << tile.row_bits) - 1), k = e >> tile.row_bits;
    if (k >> tile.column_bits == 0) turned[i * pitch + k] = held[n];
  }
  __syncthreads();
  for (int n = 0; n < each; ++n) {
    const int e = static_cast<int>(threadIdx.x) + n * move_threads;
    const int k = e & ((1 << tile.column_bits) - 1), i = e >> tile.column_bits;
    if (i < rows && k < columns && i >> tile.row_bits == 0) y[i * tile.lane_step + k] = turned[i * pitch + k];
  }
}

// --- rows ---

template <class W, class I>
__global__ __launch_bounds__(move_threads) void take_rows_kernel(View<const I, 1> ids, Index rows, Index columns,
                                                                 const W* x, W* y) {
  const Index i = Index{blockIdx.x} * move_threads + threadIdx.x, n = i / columns;
  if (n >= ids.extent[0]) return;
  const Index id = ids(n);
  y[i] = id >= 0 && id < rows ? x[id * columns + (i - n * columns)] : W{};
}

struct RangeBlocks {
  static constexpr Index words = 8 * move_threads;  // words of a block if all ranges had the same length
};

// Copies ranges of rows. `parts` blocks share a range: block p of them copies the groups p, p + parts, ... of the
// range's words. A group has as many words as a block has threads.
template <class W>
__global__ __launch_bounds__(move_threads) void copy_row_ranges_kernel(View<const int, 1> from, View<const int, 1> to,
                                                                       View<const int, 1> count, int parts,
                                                                       Index columns, const W* x, W* y) {
  const Index b = blockIdx.x / static_cast<unsigned>(parts), words = count(b) * columns;
  const Index part = blockIdx.x % static_cast<unsigned>(parts);
  x += from(b) * columns;
  y += to(b) * columns;
  for (Index i = part * move_threads + threadIdx.x; i < words; i += Index{parts} * move_threads) y[i] = x[i];
}

// Copies a row of each sequence b, its first or its last, to row b; `back` copies it from there to its place. Without
// `back`, the row of an empty sequence becomes zeros.
template <bool back, class W>
__global__ __launch_bounds__(end_threads) void end_rows_kernel(bool last, View<const int, 1> begin,
                                                               View<const int, 1> length, Index columns, const W* from,
                                                               W* to) {
  const Index b = blockIdx.x, row = begin(b) + (last ? length(b) - 1 : 0);
  const bool exists = length(b) > 0;
  if (back && !exists) return;
  from += (back ? b : row) * columns;
  to += (back ? row : b) * columns;
  for (Index i = threadIdx.x; i < columns; i += end_threads) to[i] = exists ? from[i] : W{};
}

template <bool back, class W>
void move_end_rows(bool last, View<const int, 1> begin, View<const int, 1> length, View<const W, 2> from,
                   View<W, 2> to) {
  if (from.extent[1] == 0) return;
  in_widest_words(from.extent[1], from.data, to.data, [&](Index columns, auto* from_words, auto* to_words) {
    using Word = std::remove_pointer_t<decltype(to_words)>;
    cuda::launch<end_rows_kernel<back, Word>>(cuda::blocks_for(begin.extent[0], 1), end_threads, 0,
                                              cuda::current_stream(), last, begin, length, columns, from_words,
                                              to_words);
  });
}

}  // namespace

template <class W>
void end_rows_words(bool last, View<const int, 1> begin, View<const int, 1> length, View<const W, 2> x, View<W, 2> y) {
  move_end_rows<false>(last, begin, length, x, y);
}
template <class W>
void end_rows_backward_words(bool last, View<const int, 1> begin, View<const int, 1> length, View<const W, 2> dy,
                             View<W, 2> dx) {
  move_end_rows<true>(last, begin, length, dy, dx);
}

template <class W>
void fill_words(W* y, Index count, W value) {
  cuda::for_each_element(Constant<W>{value}, count, y);
}

template <class W>
void permute_words(const Permutation& p, const W* x, View<W, 1> y) {
  if (y.extent[0] == 0) return;
  const cudaStream_t stream = cuda::current_stream();
  const int last = p.rank - 1, lane = static_cast<int>(std::find(p.stride, p.stride + last, 1) - p.stride);
  const auto in_order = [&](const Permutation& order, auto* from, auto* to, Index count) {
    using Word = std::remove_pointer_t<decltype(to)>;
    cuda::launch<permute_in_order<Word>>(cuda::blocks_for(count, move_threads), move_threads, 0, stream, order, count,
                                         from, to);
  };
  if (lane == last)
    return in_widest_words(p.extent[last], x, y.data, [&](Index row, auto* from, auto* to) {
      const Index words = p.extent[last] / row;  // words W in each of the wider words
      Permutation wide = p;
      wide.extent[last] = row;
      for (int a = 0; a < last; ++a) wide.stride[a] /= words;
      in_order(wide, from, to, y.extent[0] / words);
    });
  const TileShape<W> tile(p, lane);
  if (!tile.pays()) return in_order(p, x, y.data, y.extent[0]);
  const Index others = y.extent[0] / (p.extent[lane] * p.extent[last]);
  cuda::launch<permute_tiles<W>>(cuda::blocks_for(others * tile.row_tiles * tile.column_tiles, 1), move_threads, 0,
                                 stream, p, tile, x, y.data);
}

template <class W>
void where_words(const BroadcastPlan<3>& plan, const bool* condition, const W* a, const W* b, W* y) {
  cuda::for_broadcast_elements(Choose{}, plan, y, condition, a, b);
}

template <class W, Label I>
void take_rows_words(View<const I, 1> ids, View<const W, 2> x, View<W, 2> y) {
  if (y.extent[0] == 0 || y.extent[1] == 0) return;
  in_widest_words(y.extent[1], x.data, y.data, [&](Index columns, auto* from, auto* to) {
    using Word = std::remove_pointer_t<decltype(to)>;
    cuda::launch<take_rows_kernel<Word, I>>(cuda::blocks_for(y.extent[0] * columns, move_threads), move_threads, 0,
                                            cuda::current_stream(), ids, x.extent[0], columns, from, to);
  });
}

template <class W>
void copy_row_ranges_words(View<const int, 1> from, View<const int, 1> to, View<const int, 1> count, View<const W, 2> x,
                           View<W, 2> y) {
  const Index B = from.extent[0], rows = std::min(x.extent[0], y.extent[0]);
  if (B == 0 || rows == 0 || x.extent[1] == 0) return;
  in_widest_words(x.extent[1], x.data, y.data, [&](Index columns, auto* x_words, auto* y_words) {
    using Word = std::remove_pointer_t<decltype(y_words)>;
    const Index fair = rows * columns / (B * RangeBlocks::words) + 1;
    const int parts = static_cast<int>(std::min(fair, cuda::limits.range_blocks));
    cuda::launch<copy_row_ranges_kernel<Word>>(cuda::blocks_for(B * parts, 1), move_threads, 0, cuda::current_stream(),
                                               from, to, count, parts, columns, x_words, y_words);
  });
}

[[maybe_unused, gnu::used]] constexpr auto move_instances =
    cuda::instances<std::uint8_t, std::uint16_t, std::uint32_t, std::uint64_t>([]<class W>(cuda::Type<W>) {
      return std::tuple(&fill_words<W>, &permute_words<W>, &where_words<W>, &take_rows_words<W, std::int32_t>,
                        &take_rows_words<W, std::int64_t>, &copy_row_ranges_words<W>, &end_rows_words<W>,
                        &end_rows_backward_words<W>);
    });

}  // namespace heddle::kernel
