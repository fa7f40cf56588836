// attention's forward on the GPU, for heads up to 128 wide; wide.cu handles wider ones. Formulas:
// ops/attention/forward.hpp.
//
//   attend    A block owns up to 128 queries of one head of one sequence, one or two slices of 16 for each warp, and
//             iterates over tiles of the keys that they see. For each query, a warp keeps the running maximum of the
//             scores and the running sum of their exponentials (Dao, "FlashAttention-2", 2023). q is read and y written
//             once; k and v are read once for each block of queries.
//
// docs/kernels.md lists rows, traffic and shared arrays of every attention kernel.
#include "../device/instances.cuh"
#include "../device/unrolled.cuh"
#include "dropout.cuh"
#include "wide.cuh"

namespace heddle::kernel {
namespace {

using cuda::AttentionLaunch;
using cuda::AttentionTask;
using cuda::Dropout;
using cuda::HeadRows;
using cuda::row_stride;

// The tile sizes of the forward. Math is T, or Tf32.
template <class T, class Math, int width>
struct ForwardTile {
  static constexpr bool tensor_cores = !std::is_same_v<Math, float>, is_tf32 = std::is_same_v<Math, cuda::Tf32>;
  static constexpr int other_rows = width * static_cast<int>(sizeof(T)) <= 128 ? 64 : 32;  // keys of a tile
  static constexpr int stages = 2;
  // Own queries are in registers if tensor cores take them as they are.
  using Own = std::conditional_t<sizeof(T) == 2, cuda::OwnFragments<width>, cuda::SharedRows<T, width>>;
  // Two slices of own queries share the copies and the reading of keys and values.
  static constexpr int slices = sizeof(T) == 2 && width <= 64 ? 2 : 1;
  static constexpr int warp_rows = slices * cuda::slice_rows;
  static constexpr int threads = cuda::block_threads(128);  // at most
  static constexpr int warps = threads / cuda::warp_size;
  // Blocks on a multiprocessor, as many as its registers allow.
  static constexpr int blocks = !tensor_cores || width > 64 ? 2 : is_tf32 ? (width == 32 ? 3 : 4) : width == 16 ? 3 : 2;

  static AttentionLaunch launch(Index longest_q) {
    return cuda::choose_launch<ForwardTile>(longest_q, [](int of_queries) {
      const int rows = of_queries * warp_rows + 2 * stages * other_rows;
      return static_cast<std::size_t>(rows * row_stride<T, width>) * sizeof(T) + cuda::shared_head_bytes;
    });
  }
};

// The shared memory of a block.
template <class T, class Math, int width>
struct ForwardArrays {
  using Tile = ForwardTile<T, Math, width>;
  static constexpr int tile_size = Tile::other_rows * row_stride<T, width>;
  int rows;
  cuda::BlockHead<T>* head;
  T* tiles;    // [stages, keys and values, Tile::other_rows, width]
  T* queries;  // [rows, width]; last, so that the others stand at constant addresses

  __device__ explicit ForwardArrays(cuda::SharedArrays arrays)
      : rows(static_cast<int>(blockDim.x) / cuda::warp_size * Tile::warp_rows),
        head(arrays.take<cuda::BlockHead<T>>(1)),
        tiles(arrays.take<T>(Tile::stages * 2 * tile_size)),
        queries(arrays.take<T>(rows * row_stride<T, width>)) {}
  __device__ T* keys(int stage) const { return tiles + stage * 2 * tile_size; }
  __device__ T* values(int stage) const { return tiles + (stage * 2 + 1) * tile_size; }
  // Returns the own rows of a slice of the block.
  __device__ T* own(int slice) const { return queries + slice * cuda::slice_rows * row_stride<T, width>; }
};

template <class T, class Math, int width>
__global__ __launch_bounds__(ForwardTile<T, Math, width>::threads, ForwardTile<T, Math, width>::blocks) void attend(
    AttentionTask<T> task, MatrixView<const T> q, MatrixView<const T> k, MatrixView<const T> v, MatrixView<T> y,
    View<float, 2> lse) {
  using Products = cuda::Products<Math>;
  using Tile = ForwardTile<T, Math, width>;
  using Scores = cuda::ScoreTile<T, false>;
  constexpr int tile_rows = Tile::other_rows, n = tile_rows / 8, slices = Tile::slices;
  const ForwardArrays<T, Math, width> arrays({});
  const int rows = arrays.rows, first_slice = cuda::warp_index() * slices;

  // The counts are of instructions for each tensor core's product, for bf16 at width 64 (docs/kernel-costs.md).
  const auto process = [&](const cuda::SequenceHead<T>& head, const HeadRows<const T>& k_rows,
                           const HeadRows<const T>& v_rows) {
    if (Index{blockIdx.x} * rows >= head.queries) return;  // the whole block
    const int first = static_cast<int>(blockIdx.x) * rows;
    // Computed again by each caller: registers are scarce.
    const auto seen_tiles = [&] {
      return cuda::TileRange(cuda::rows_seen_by_any<false>(task, head.keys, first, first + rows - 1), tile_rows);
    };
    const auto scores_of = [&](int s, int other) { return Scores{task, head, first, other, first_slice + s}; };
    typename Tile::Own own[slices];
    cuda::SoftmaxRows<T> softmax[slices];
    float sum[slices][width / 8][4];  // [slices, 16, width] of the warp
    if (!seen_tiles().is_empty()) cuda::load_rows<width>(arrays.queries, head.query_rows(q), first, rows);
    cuda::commit_copies();
    const auto read_queries = [&] {
      cuda::wait_copies<Tile::stages - 1>();
      __syncthreads();  // the queries are complete
      cuda::unrolled<slices>([&](int s) { own[s].read(arrays.own(first_slice + s)); });
    };

    // Adds a tile all of whose pairs are visible, as they are in most tiles. Scores: 1.1; softmax: 2; sums: 0.7;
    // dropout: 4.4, and 0.4 if its decisions are stored. Its draws need registers, so with them the scores of one slice
    // are computed after the other.
    const auto add_whole_tile = [&]<Dropout dropout>(int other, int stage, cuda::Constant<dropout>) {
      constexpr cuda::Constant<tile_rows> reach;
      constexpr int at_once = dropout == Dropout::none ? slices : 1;
      typename Products::template Weights<n> weights[slices] = {};
      cuda::unrolled<slices / at_once>([&](int i) {
        if (i > 0 && !scores_of(i, other).has_own_rows()) return;
        float p[at_once][n][4] = {};  // [at_once, 16, tile_rows]
        Products::template add_scores<width, at_once>(own + i * at_once, arrays.keys(stage), reach, p);
        cuda::unrolled<at_once>([&](int j) {
          const int s = i * at_once + j;
          softmax[s].online_softmax_step(scores_of(s, other), cuda::AllBits(), reach, p[j]);
          softmax[s].shrink_sums(sum[s]);
          weights[s].set(p[j]);
          cuda::draw<n, dropout>(scores_of(s, other), reach, [&](auto... drawn) { weights[s].drop(drawn...); });
        });
      });
      Products::template add_weighted_rows<width, slices>(weights, arrays.values(stage), reach, sum);
    };

    // Adds any tile, one slice after the other: tests each pair, and keeps NaN from masked pairs if it is careful.
    const auto add_tile = [&](int other, int stage, bool is_careful) {
      if (is_careful) {
        cuda::clear_not_finite<width>(arrays.values(stage), cuda::rows_in_tile(k_rows.count - other, tile_rows));
        __syncthreads();
      }
      typename Products::template Weights<n> weights[slices] = {};
      int reach = 0;  // of all slices
      cuda::unrolled<slices>([&](int s) {
        const Scores at = scores_of(s, other);
        const int of_slice = at.reach(tile_rows);
        if (of_slice == 0) return;
        reach = of_slice > reach ? of_slice : reach;
        const unsigned visible = at.template visible<n>(of_slice);  // first, because few registers are in use
        float p[1][n][4] = {};                                      // [1, 16, tile_rows]
        Products::template add_scores<width, 1>(own + s, arrays.keys(stage), of_slice, p);
        softmax[s].online_softmax_step(at, visible, of_slice, p[0]);
        softmax[s].shrink_sums(sum[s]);
        cuda::with_dropout(task, [&]<Dropout dropout>(cuda::Constant<dropout>) {
          cuda::draw<n, dropout>(at, of_slice, [&](auto... drawn) { cuda::drop_scores(p[0], drawn...); });
        });
        if (is_careful) cuda::add_not_finite(p[0], visible, of_slice, v_rows, other, sum[s]);
        weights[s].set(p[0]);
      });
      Products::template add_weighted_rows<width, slices>(weights, arrays.values(stage), reach, sum);
    };

    // Iterates over the tiles of keys. Copies and the loop: 0.5.
    const auto add_tiles = [&](bool is_careful) {
      const cuda::TileRange tiles = seen_tiles();
      for (auto& of_slice : softmax) of_slice = {};
      cuda::set_zero(sum);
      cuda::TileCopies<T, width, tile_rows, Tile::threads> copies(k_rows, v_rows, tiles.first);
      const auto whole_bound = [&](int from) {
        return is_careful ? 0 : scores_of(0, from).template whole_bound<tile_rows>(from, slices);
      };
      int bound = whole_bound(tiles.first * tile_rows);
      const auto load = [&](int tile, int stage) {
        cuda::load_tile(copies, k_rows, v_rows, tile, arrays.keys(stage), arrays.values(stage));
      };
      const auto use = [&](int tile, int stage) {
        const int other = tile * tile_rows;
        if (other >= bound) {
          bound = whole_bound(other + tile_rows);
          return add_tile(other, stage, is_careful);
        }
        cuda::with_dropout(task, [&](auto dropout) { add_whole_tile(other, stage, dropout); });
      };
      cuda::for_each_tile(tiles.first, tiles.last, cuda::Constant<Tile::stages - 1>(), load, read_queries, use);
    };
    cuda::add_tiles_carefully(task, add_tiles, [&] { return cuda::holds_nan(sum); });

    cuda::unrolled<slices>([&](int s) {
      softmax[s].finish();
      const Scores at = scores_of(s, 0);
      const float scale = task.plan.dropout.scale;
      cuda::store_rows<width, false>(sum[s], scale * softmax[s].inverse_sum(0), scale * softmax[s].inverse_sum(1),
                                     arrays.own(at.slice), head.query_rows(y), first, at.slice);
      for (int half = 0; half < 2; ++half) {
        const int i = at.own_row(2 * half);
        if (i < head.queries && at.lane() % cuda::quad == 0)
          lse(head.h, head.q_begin + i) = softmax[s].log_sum_exp(half);
      }
    });
  };
  cuda::for_each_head<false>(arrays.head, task.plan, k, v, process);
}

}  // namespace

template <OnGpu T>
void attention(Cuda, const AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k, MatrixView<const T> v,
               MatrixView<T> y, View<float, 2> lse) {
  const Index widest = std::max(q.width, v.width) / plan.heads;
  if (widest > widest_tiled_head) return cuda::attend_wide(plan, q, k, v, y, lse);
  cuda::with_tile(plan, widest, [&]<class Math, int width>() {
    const AttentionLaunch to = ForwardTile<T, Math, width>::launch(plan.longest_q);
    cuda::launch<attend<T, Math, width>>(to.grid(plan, plan.longest_q),
                                         static_cast<unsigned>(to.warps * cuda::warp_size), to.shared_bytes,
                                         cuda::current_stream(), AttentionTask<T>{plan}, q, k, v, y, lse);
  });
}

[[maybe_unused, gnu::used]] constexpr auto attention_instances = std::tuple(&attention<float>, &attention<bf16>);

}  // namespace heddle::kernel
