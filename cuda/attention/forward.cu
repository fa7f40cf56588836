// attention's forward on the GPU, for heads up to 128 wide; wide.cu handles wider ones. Formulas:
// ops/attention/forward.hpp.
//
//   attend    A block owns up to 64 queries of one head of one sequence, 16 for each warp, and iterates over tiles of
//             the keys that they see. For each query, a warp keeps the running maximum of the scores and the running
//             sum of their exponentials (Dao, "FlashAttention-2", 2023). q is read and y written once; k and v are read
//             once for each block of queries.
//
// docs/kernels.md lists rows, traffic and shared arrays of every attention kernel.
#include "../device/instances.cuh"
#include "dropout.cuh"
#include "wide.cuh"

namespace heddle::kernel {
namespace {

using cuda::AttentionLaunch;
using cuda::AttentionTask;
using cuda::HeadRows;
using cuda::row_stride;
using cuda::rows_per_warp;

// The tile sizes of the forward. Math is T, or Tf32.
template <class T, class Math, int width>
struct ForwardTile {
  static constexpr int row_bytes = width * static_cast<int>(sizeof(T));
  static constexpr int other_rows = row_bytes <= 128 ? 64 : 32;  // keys of a tile
  static constexpr bool tensor_cores = !std::is_same_v<Math, float>;
  static constexpr int threads = cuda::block_threads(128);  // at most
  static constexpr int warps = threads / cuda::warp_size;
  // Blocks on a multiprocessor, as many as its registers allow. TF32 and full fp32 products need more of them.
  static constexpr int blocks = width > 64 || !tensor_cores ? 2 : std::is_same_v<Math, cuda::Tf32> ? 3 : 4;

  static AttentionLaunch launch(Index longest_q, Index longest_k) {
    return cuda::choose_launch<ForwardTile>(longest_q, longest_k, blocks, [](int of_queries, int stages) {
      const int rows = of_queries * rows_per_warp + 2 * stages * other_rows;
      return static_cast<std::size_t>(rows * row_stride<T, width>) * sizeof(T) + cuda::shared_head_bytes;
    });
  }
};

// Replaces dropped weights by zero. A NaN is still in the sum that normalizes them.
template <int n>
__device__ __forceinline__ void replace_dropped(unsigned kept, float (&weights)[n][4]) {
  for (int m = 0; m < n; ++m)
    for (int e = 0; e < 4; ++e) weights[m][e] = kept >> (m * 4 + e) & 1 ? weights[m][e] : 0.f;
}

template <class T, class Math, int width>
__global__ __launch_bounds__(ForwardTile<T, Math, width>::threads, ForwardTile<T, Math, width>::blocks) void attend(
    AttentionTask<T> task, MatrixView<const T> q, MatrixView<const T> k, MatrixView<const T> v, MatrixView<T> y,
    View<float, 2> lse, int stages) {
  using Products = cuda::Products<Math>;
  using Tile = ForwardTile<T, Math, width>;
  constexpr int tile_rows = Tile::other_rows, tile_size = tile_rows * row_stride<T, width>;
  const int rows = static_cast<int>(blockDim.x) / cuda::warp_size * rows_per_warp;
  cuda::SharedArrays arrays;
  auto* const shared_head = arrays.take<cuda::BlockHead<T>>(1);
  T* const queries = arrays.take<T>(rows * row_stride<T, width>);  // [rows, width]
  T* const tiles = arrays.take<T>(stages * 2 * tile_size);         // [stages, keys and values, tile_rows, width]
  const auto keys = [&](int stage) { return tiles + stage * 2 * tile_size; };
  const auto values = [&](int stage) { return tiles + (stage * 2 + 1) * tile_size; };
  T* const own = queries + cuda::ScoreTile<T, false>::warp() * rows_per_warp * row_stride<T, width>;

  const auto process = [&](const cuda::SequenceHead<T>& head, const HeadRows<const T>& k_rows,
                           const HeadRows<const T>& v_rows) {
    if (Index{blockIdx.x} * rows >= head.queries) return;  // the whole block
    const int first = static_cast<int>(blockIdx.x) * rows;
    const int end = task.plan.causal && first + rows < head.keys ? first + rows : head.keys;
    if (end > 0) cuda::load_rows<width>(queries, head.query_rows(q), first, rows);
    const cuda::RowRange whole = cuda::ScoreTile<T, false>{task, head, first, 0}.template whole_rows<tile_rows>();
    const cuda::TileCopies<T, width, tile_rows, Tile::threads> copies(k_rows, v_rows);

    float sum[width / 8][4];  // [16, width] of the warp
    cuda::SoftmaxRows<T> softmax;
    const auto add_tiles = [&]<bool is_careful>(cuda::Constant<is_careful>) {
      softmax = {};
      cuda::set_zero(sum);
      const auto load = [&](int tile, int stage) {
        if (!is_careful && copies.start(tile, keys(stage), values(stage))) return;
        const int at = tile * tile_rows, count = cuda::rows_in_tile(end - at, tile_rows);
        cuda::load_rows<width>(keys(stage), k_rows, at, count);
        cuda::load_rows<width>(values(stage), v_rows, at, count);
      };
      const auto use = [&](int tile, int stage) {
        const cuda::ScoreTile<T, false> at{task, head, first, tile * tile_rows};
        cuda::with_pairs<tile_rows, is_careful>(at, whole, [&](auto reach, auto visible) {
          float p[tile_rows / 8][4] = {};  // [16, tile_rows]
          if (reach > 0) {
            const unsigned kept = cuda::kept_scores(at, reach);  // first, because few registers are in use
            Products::template add_scores<width>(own, keys(stage), reach, p);
            softmax.online_softmax_step(at, visible, reach, p);
            softmax.shrink_sums(sum);
            if (task.has_dropout()) replace_dropped(kept, p);
          }
          if constexpr (is_careful) {
            cuda::clear_not_finite<width>(values(stage), cuda::rows_in_tile(end - at.other, tile_rows));
            __syncthreads();
          }
          if (reach == 0) return;
          Products::template add_weighted_rows<width>(p, values(stage), reach, sum);
          if constexpr (is_careful) cuda::add_not_finite(p, visible, reach, v_rows, at.other, sum);
        });
      };
      cuda::for_each_tile(0, cuda::tiles_for(end, tile_rows), stages, load, use);
    };
    cuda::add_tiles_carefully(task, add_tiles, [&] { return cuda::holds_nan(sum); });

    softmax.finish();
    const cuda::ScoreTile<T, false> at{task, head, first, 0};
    const float scale = task.plan.dropout.scale;
    cuda::store_rows<width, false>(sum, scale * softmax.inverse_sum(0), scale * softmax.inverse_sum(1), own,
                                   head.query_rows(y), first);
    for (int half = 0; half < 2; ++half) {
      const int i = at.own_row(2 * half);
      if (i < head.queries && at.lane() % cuda::quad == 0) lse(head.h, head.q_begin + i) = softmax.log_sum_exp(half);
    }
  };
  cuda::for_each_head<false>(shared_head, task.plan, k, v, process);
}

}  // namespace

template <OnGpu T>
void attention(Cuda, const AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k, MatrixView<const T> v,
               MatrixView<T> y, View<float, 2> lse) {
  const Index widest = std::max(q.width, v.width) / plan.heads;
  if (widest > cuda::widest_head) return cuda::attend_wide(plan, q, k, v, y, lse);
  cuda::with_tile(plan, widest, [&]<class Math, int width>() {
    const AttentionLaunch to = ForwardTile<T, Math, width>::launch(plan.longest_q, plan.longest_k);
    cuda::launch<attend<T, Math, width>>(to.grid(plan, plan.longest_q),
                                         static_cast<unsigned>(to.warps * cuda::warp_size), to.shared_bytes,
                                         cuda::current_stream(), AttentionTask<T>{plan}, q, k, v, y, lse, to.stages);
  });
}

[[maybe_unused, gnu::used]] constexpr auto attention_instances = std::tuple(&attention<float>, &attention<bf16>);

}  // namespace heddle::kernel
