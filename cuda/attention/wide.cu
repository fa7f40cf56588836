// attention for heads wider than 128, with the scores in memory; and the probabilities and the gradient of the bias for
// heads of any width. Formulas: ops/attention/forward.hpp and backward.hpp.
//
// Rows are loaded in chunks of 64 columns, and the products of the chunks are added. These kernels do not use the
// products of gemm.cu, because only the device knows where sequences begin, and because a score must not be rounded
// before its softmax.
//
//   probabilities          A block owns 64 queries of a head and iterates over its keys twice: for the sums, then for
//                          the probabilities, which are written once. k is read twice for each 64 queries, q twice for
//                          each tile of keys.
//   store_score_gradients  A block owns 64 x 64 scores. It writes p d (the probability, or 0 if dropped) and ds (the
//                          gradient of the score) once.
//   weigh_rows             A block owns 64 rows and 64 columns of the product of such a matrix, or of its transpose,
//                          with rows of another operand. The matrix is read once for each 64 columns.
//   bias_gradient          A block owns 64 x 64 elements of dbias, or 64 elements of its row if queries share it, and
//                          iterates in order over the sequences, heads and queries that share them.
//
// docs/kernels.md lists rows, traffic and shared arrays of every attention kernel.
#include "../device/instances.cuh"
#include "wide.cuh"

#include "../device/limits.cuh"
#include "dropout.cuh"

namespace heddle::cuda {
namespace {

using kernel::AttentionPlan;
using kernel::PerScore;

constexpr int wide_warps = 4;  // warps of a block
constexpr int wide_threads = wide_warps * warp_size;
[[maybe_unused]] constexpr int wide_blocks = 2;     // blocks on a multiprocessor, as many as its registers allow
constexpr int wide_rows = wide_warps * slice_rows;  // own rows of a block
constexpr int tile_rows = 64;                       // other rows of a tile
constexpr int chunk = 64;                           // columns that are loaded together
constexpr int sums = tile_rows / 8;                 // a lane's scores: [sums][4]
static_assert(wide_rows == tile_rows, "tiles are square, so that masked ones can be skipped from either side");

template <class T>
constexpr int tile_size = tile_rows* row_stride<T, chunk>;
template <class T>
constexpr std::size_t two_tiles = 2 * tile_size<T> * sizeof(T);  // bytes
template <class T>
constexpr std::size_t three_tiles = 3 * tile_size<T> * sizeof(T);

// One number for each score of some heads: [heads, queries, keys], from head `first_head` of the batch on.
template <class T>
struct ScoreMatrices {
  T* data;
  Index first_head, heads, queries, keys;

  __device__ T& operator()(Index pair, int i, int j) const {
    return data[((pair - first_head) * queries + i) * keys + j];
  }
};

// Two tiles in shared memory, and the products of rows of any width that are computed through them, chunk by chunk.
// Math names the arithmetic as in products.cuh.
template <class T, class Math>
class ChunkedProducts {
 public:
  __device__ explicit ChunkedProducts(SharedArrays arrays)
      : own_(arrays.take<T>(tile_size<T>)), other_(arrays.take<T>(tile_size<T>)) {}

  // Adds own other^T to a tile of scores. All threads of the block call this; `reach` may differ between its warps.
  template <int n>
  __device__ __forceinline__ void add(HeadRows<const T> own, int own_first, HeadRows<const T> other, int other_first,
                                      int reach, float (&scores)[n][4]) const {
    const SharedRows<T, chunk> own_of_warp{own_ + warp_index() * slice_rows * row_stride<T, chunk>};
    for (int d = 0; d < own.width; d += chunk) {
      __syncthreads();  // until no warp reads the previous chunk
      load_rows<chunk>(own_, own.columns_from(d), own_first, wide_rows);
      load_rows<chunk>(other_, other.columns_from(d), other_first, tile_rows);
      commit_copies();
      wait_copies<0>();
      __syncthreads();
      if (reach > 0) Products<Math>::template add_scores<chunk, 1>(&own_of_warp, other_, reach, &scores);
    }
  }

 private:
  T *own_, *other_;
};

// Returns the tiles that a block processes. `first` is the block's first own row.
template <bool own_keys, class T>
__device__ TileRange tiles_of_block(const AttentionTask<T>& task, const SequenceHead<T>& head, int first) {
  const int own = own_keys ? head.keys : head.queries, others = own_keys ? head.queries : head.keys;
  if (first >= own) return {{0, 0}, tile_rows};
  // Rows after the last own row would add tiles that the kernels of the other side skip.
  const int last = first + wide_rows < own ? first + wide_rows - 1 : own - 1;
  return {rows_seen_by_any<own_keys>(task, others, first, last), tile_rows};
}

template <class T, class Math>
__global__ __launch_bounds__(wide_threads, wide_blocks) void probabilities(AttentionTask<T> task, MatrixView<const T> q,
                                                                           MatrixView<const T> k, ScoreMatrices<T> y,
                                                                           View<float, 2> lse) {
  const ChunkedProducts<T, Math> products{SharedArrays()};
  for (Index pair = y.first_head + blockIdx.y; pair < y.first_head + y.heads; pair += gridDim.y) {
    const SequenceHead<T> head(task.plan, pair);
    const int first = static_cast<int>(blockIdx.x) * wide_rows;
    const TileRange seen = tiles_of_block<false>(task, head, first);
    const auto q_rows = head.query_rows(q), k_rows = head.key_rows(k);
    SoftmaxRows<T> softmax;
    for (int tile = seen.first; tile < seen.last; ++tile) {
      const int j = tile * tile_rows;
      const ScoreTile<T, false> at{task, head, first, j};
      const int reach = at.reach(tile_rows);
      float scores[sums][4] = {};  // [16, tile_rows] of the warp
      products.add(q_rows, first, k_rows, j, reach, scores);
      if (reach > 0) softmax.online_softmax_step(at, at.template visible<sums>(reach), reach, scores);
    }
    softmax.finish();
    // weigh_rows() does not read the tiles that the block does not see. As attention weights they are zeros.
    const TileRange written = lse.data ? seen : TileRange({0, static_cast<int>(y.keys)}, tile_rows);
    for (int tile = written.first; tile < written.last; ++tile) {
      const int j = tile * tile_rows;
      const bool is_seen = seen.has(tile);
      const ScoreTile<T, false> at{task, head, first, j};
      const int reach = is_seen ? at.reach(tile_rows) : 0;
      float p[sums][4] = {};  // [16, tile_rows] of the warp
      if (is_seen) products.add(q_rows, first, k_rows, j, reach, p);
      const unsigned visible = reach > 0 ? at.template visible<sums>(reach) : 0;
      if (reach > 0) softmax.compute_probabilities(at, visible, reach, p);
      if (reach > 0 && task.has_dropout()) {
        const auto kept = KeptFactors<sums>::drawn(at, reach);
        for (int m = 0; m < sums; ++m)
          for (int e = 0; e < 4; ++e) p[m][e] *= kept(m, e) > 0 ? 1.f : 0.f;  // a NaN stays
      }
      for (int m = 0; m < sums; ++m)
        for (int e = 0; e < 4; ++e)
          if (at.own_row(e) < y.queries && at.other_row(m, e) < y.keys)
            y(pair, at.own_row(e), at.other_row(m, e)) = T(p[m][e]);
    }
    const ScoreTile<T, false> at{task, head, first, 0};
    for (int e = 0; lse.data && e < 4; e += 2)
      if (at.own_row(e) < head.queries && at.lane() % quad == 0)
        lse(head.h, head.q_begin + at.own_row(e)) = softmax.log_sum_exp(e / 2);
  }
}

// Computes p d and ds of a tile; they stay zero in a warp that sees none of the tile's keys. All threads of the block
// call this.
template <class Products, class T, int n>
__device__ __forceinline__ void compute_tile_gradients(const Products& products, const ScoreTile<T, false>& at,
                                                       const BackwardInputs<T>& x, float (&pd)[n][4],
                                                       float (&ds)[n][4]) {
  const SequenceHead<T>& head = at.head;
  const int reach = at.reach(tile_rows);
  products.add(head.query_rows(x.q), at.own, head.key_rows(x.k), at.other, reach, pd);
  products.add(head.query_rows(x.dy), at.own, head.key_rows(x.v), at.other, reach, ds);
  if (reach == 0) return;
  const QueryStatistics statistics(at, x.lse, x.delta);
  with_kept<n>(at, reach, [&](const auto& kept) {
    compute_score_gradients(
        at, at.template visible<n>(reach), reach, [&](int, int e) { return statistics.lse[e / 2]; },
        [&](int, int e) { return statistics.delta[e / 2]; }, kept, pd, ds);
  });
}

template <class T, class Math>
__global__ __launch_bounds__(wide_threads,
                             wide_blocks) void store_score_gradients(AttentionTask<T> task, BackwardInputs<T> x,
                                                                     ScoreMatrices<T> pd, ScoreMatrices<T> ds) {
  const ChunkedProducts<T, Math> products{SharedArrays()};
  const int tiles = tiles_for(pd.keys, tile_rows);
  const int first = static_cast<int>(blockIdx.x) / tiles * wide_rows;
  const int tile = static_cast<int>(blockIdx.x) % tiles, j = tile * tile_rows;
  for (Index pair = pd.first_head + blockIdx.y; pair < pd.first_head + pd.heads; pair += gridDim.y) {
    const SequenceHead<T> head(task.plan, pair);
    if (!tiles_of_block<false>(task, head, first).has(tile)) continue;  // no kernel reads these scores
    const ScoreTile<T, false> at{task, head, first, j};
    float tile_pd[sums][4] = {}, tile_ds[sums][4] = {};  // [16, tile_rows] of the warp
    compute_tile_gradients(products, at, x, tile_pd, tile_ds);
    for (int m = 0; m < sums; ++m)
      for (int e = 0; e < 4; ++e) {
        const int row = at.own_row(e), column = at.other_row(m, e);
        if (row >= head.queries || column >= head.keys) continue;
        pd(pair, row, column) = T(tile_pd[m][e]);
        ds(pair, row, column) = T(tile_ds[m][e]);
      }
  }
}

// Computes y = scale w x for rows of queries, or y = scale w^T x for rows of keys.
template <class T, class Math, bool own_keys>
__global__ __launch_bounds__(wide_threads, wide_blocks) void weigh_rows(AttentionTask<T> task, ScoreMatrices<const T> w,
                                                                        MatrixView<const T> x, float scale,
                                                                        MatrixView<T> y, int ahead) {
  SharedArrays arrays;
  T* const staging = arrays.take<T>(tile_size<T>);              // [64, chunk] results
  T* const tiles = arrays.take<T>((ahead + 1) * tile_size<T>);  // [stages, tile_rows, chunk] of x
  const int chunks = tiles_for(y.width / task.plan.heads, chunk);
  const int first = static_cast<int>(blockIdx.x) / chunks * wide_rows,
            d = static_cast<int>(blockIdx.x) % chunks * chunk;
  for (Index pair = w.first_head + blockIdx.y; pair < w.first_head + w.heads; pair += gridDim.y) {
    __syncthreads();  // until the previous head's rows have left `staging`
    const SequenceHead<T> head(task.plan, pair);
    const auto y_rows = own_keys ? head.key_rows(y) : head.query_rows(y);
    if (first >= y_rows.count) continue;
    const auto x_rows = (own_keys ? head.query_rows(x) : head.key_rows(x)).columns_from(d);
    const TileRange seen = tiles_of_block<own_keys>(task, head, first);
    float sum[1][chunk / 8][4];  // [1, 16, chunk] of the warp
    const auto add_tiles = [&](bool is_careful) {
      set_zero(sum);
      const auto load = [&](int tile, int stage) {
        load_rows<chunk>(tiles + stage * tile_size<T>, x_rows, tile * tile_rows, tile_rows);
      };
      const auto use = [&](int tile, int stage) {
        const ScoreTile<T, own_keys> at{task, head, first, tile * tile_rows};
        const int reach = at.reach(tile_rows);
        float scores[sums][4];  // [16, tile_rows] of the warp
        for (int m = 0; m < sums; ++m)
          for (int e = 0; e < 4; ++e) {
            const bool inside = at.query(m, e) < head.queries && at.key(m, e) < head.keys && m * 8 < reach;
            scores[m][e] = inside ? static_cast<float>(w(pair, at.query(m, e), at.key(m, e))) : 0.f;
          }
        T* const rows = tiles + stage * tile_size<T>;
        if (is_careful) {
          clear_not_finite<chunk>(rows, tile_rows);
          __syncthreads();
        }
        if (reach == 0) return;
        if (is_careful) add_not_finite(scores, at.template visible<sums>(reach), reach, x_rows, at.other, sum[0]);
        typename Products<Math>::template Weights<sums> weights;
        weights.set(scores);
        Products<Math>::template add_weighted_rows<chunk, 1>(&weights, rows, reach, sum);
      };
      for_each_tile(
          seen.first, seen.last, ahead, load, [] {}, use);
    };
    add_tiles_carefully(task, add_tiles, [&] { return holds_nan(sum); });
    T* const own = staging + warp_index() * slice_rows * row_stride<T, chunk>;
    store_rows<chunk, own_keys>(sum[0], scale, scale, own, y_rows.columns_from(d), first, warp_index());
  }
}

// Computes dbias. `own_b` and `own_h` are its extents: 1 if the sequences or heads share it.
template <class T, class Math>
__global__ __launch_bounds__(wide_threads, wide_blocks) void bias_gradient(AttentionTask<T> task, BackwardInputs<T> x,
                                                                           Index own_b, Index own_h,
                                                                           PerScore<float> dbias) {
  auto& warp_sums = shared<float[wide_warps][tile_rows]>();
  const ChunkedProducts<T, Math> products{SharedArrays()};
  const AttentionPlan<T>& plan = task.plan;
  const bool shared_queries = dbias.query_stride == 0;
  const int tiles = tiles_for(plan.longest_k, tile_rows);
  const int own_first = static_cast<int>(blockIdx.x) / tiles * wide_rows;
  const int tile = static_cast<int>(blockIdx.x) % tiles, j = tile * tile_rows;
  for (Index own = blockIdx.y; own < own_b * own_h; own += gridDim.y) {
    float sum[sums][4] = {};  // [16, tile_rows] of the warp
    for (Index b = own / own_h; b < plan.q_begin.extent[0]; b += own_b)
      for (Index h = own % own_h; h < plan.heads; h += own_h) {
        const SequenceHead<T> head(plan, b * plan.heads + h);
        const int last = shared_queries ? head.queries : own_first + 1;
        for (int first = own_first; first < last; first += wide_rows) {
          if (!tiles_of_block<false>(task, head, first).has(tile)) continue;
          const ScoreTile<T, false> at{task, head, first, j};
          float pd[sums][4] = {}, ds[sums][4] = {};
          compute_tile_gradients(products, at, x, pd, ds);
          for (int m = 0; m < sums; ++m)
            for (int e = 0; e < 4; ++e) sum[m][e] += ds[m][e];
        }
      }
    const SequenceHead<T> head(plan, 0);
    const ScoreTile<T, false> at{task, head, own_first, j};
    const Index b = own / own_h, h = own % own_h;
    if (!shared_queries) {
      for (int m = 0; m < sums; ++m)
        for (int e = 0; e < 4; ++e)
          if (at.own_row(e) < plan.longest_q && at.other_row(m, e) < plan.longest_k)
            dbias.row(b, h, at.own_row(e))[at.other_row(m, e)] = sum[m][e];
      continue;
    }
    for (int m = 0; m < sums; ++m)
      for (int e = 0; e < 2; ++e) {
        float column = sum[m][e] + sum[m][2 + e];
        for (int distance = quad; distance < warp_size; distance *= 2)
          column += __shfl_xor_sync(all_lanes, column, distance);
        if (at.lane() < quad) warp_sums[at.slice][at.other_row(m, e) - j] = column;
      }
    __syncthreads();
    const int column = static_cast<int>(threadIdx.x);
    if (column < tile_rows && j + column < plan.longest_k) {
      float total = 0;
      for (int w = 0; w < wide_warps; ++w) total += warp_sums[w][column];
      dbias.row(b, h, 0)[j + column] = total;
    }
    __syncthreads();
  }
}

// --- on the host -----------------------------------------------------------------------------------------------------

// Splits the heads into groups of at most limits.attention_scores scores, but at least one head. Calls f<Math>(first
// head, number of heads) for each.
template <class T, class F>
void for_head_groups(const AttentionPlan<T>& plan, F f) {
  const Index heads = head_count(plan), of_head = plan.longest_q * plan.longest_k;
  const Index at_once =
      std::clamp<Index>(limits.attention_scores / std::max<Index>(of_head, 1), 1, std::max<Index>(heads, 1));
  with_math(plan, [&]<class Math>() {
    for (Index first = 0; first < heads; first += at_once)
      f.template operator()<Math>(first, std::min(at_once, heads - first));
  });
}

template <class Math, bool own_keys, class T>
void launch_weigh(const AttentionTask<T>& task, const ScoreMatrices<T>& w, MatrixView<const T> x, float scale,
                  MatrixView<T> y) {
  const Index longest = own_keys ? task.plan.longest_k : task.plan.longest_q;
  const unsigned chunks = blocks_for(y.width / task.plan.heads, chunk);
  const ScoreMatrices<const T> read{w.data, w.first_head, w.heads, w.queries, w.keys};
  constexpr int ahead = 1;
  launch<weigh_rows<T, Math, own_keys>>({blocks_for(longest, wide_rows) * chunks, grid_height(w.heads)}, wide_threads,
                                        three_tiles<T>, current_stream(), task, read, x, scale, y, ahead);
}

}  // namespace

template <kernel::OnGpu T>
void attend_wide(const AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k, MatrixView<const T> v,
                 MatrixView<T> y, View<float, 2> lse) {
  const AttentionTask<T> task{plan};
  for_head_groups(plan, [&]<class Math>(Index first, Index heads) {
    const Workspace<T> memory(heads * plan.longest_q * plan.longest_k);
    const ScoreMatrices<T> p{memory.data(), first, heads, plan.longest_q, plan.longest_k};
    launch<probabilities<T, Math>>({blocks_for(plan.longest_q, wide_rows), grid_height(heads)}, wide_threads,
                                   two_tiles<T>, current_stream(), task, q, k, p, lse);
    launch_weigh<Math, false>(task, p, v, plan.dropout.scale, y);
  });
}

template <kernel::OnGpu T>
void attend_wide_backward(const AttentionPlan<T>& plan, const BackwardInputs<T>& x, MatrixView<T> dq, MatrixView<T> dk,
                          MatrixView<T> dv) {
  const AttentionTask<T> task{plan};
  for_head_groups(plan, [&]<class Math>(Index first, Index heads) {
    const Workspace<T> pd_memory(heads * plan.longest_q * plan.longest_k),
        ds_memory(heads * plan.longest_q * plan.longest_k);
    const ScoreMatrices<T> pd{pd_memory.data(), first, heads, plan.longest_q, plan.longest_k};
    const ScoreMatrices<T> ds{ds_memory.data(), first, heads, plan.longest_q, plan.longest_k};
    const unsigned blocks = blocks_for(plan.longest_q, wide_rows) * blocks_for(plan.longest_k, tile_rows);
    launch<store_score_gradients<T, Math>>({blocks, grid_height(heads)}, wide_threads, two_tiles<T>, current_stream(),
                                           task, x, pd, ds);
    if (dq.data) launch_weigh<Math, false>(task, ds, x.k, plan.scale, dq);
    if (dk.data) launch_weigh<Math, true>(task, ds, x.q, plan.scale, dk);
    if (dv.data) launch_weigh<Math, true>(task, pd, x.dy, 1, dv);
  });
}

template <kernel::OnGpu T>
void sum_bias_gradient(const AttentionPlan<T>& plan, const BackwardInputs<T>& x, PerScore<float> dbias) {
  const Index own_b = dbias.sequence_stride == 0 ? 1 : plan.count(), own_h = dbias.head_stride == 0 ? 1 : plan.heads;
  const unsigned query_tiles = dbias.query_stride == 0 ? 1 : blocks_for(plan.longest_q, wide_rows);
  with_math(plan, [&]<class Math>() {
    launch<bias_gradient<T, Math>>({query_tiles * blocks_for(plan.longest_k, tile_rows), grid_height(own_b * own_h)},
                                   wide_threads, two_tiles<T>, current_stream(), AttentionTask<T>{plan}, x, own_b,
                                   own_h, dbias);
  });
}

}  // namespace heddle::cuda

namespace heddle {

template <kernel::OnGpu T>
void kernel::attention_weights(Cuda, const AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k,
                               View<T, 4> y) {
  const cuda::ScoreMatrices<T> all{y.data, 0, y.extent[0] * y.extent[1], y.extent[2], y.extent[3]};
  cuda::with_math(plan, [&]<class Math>() {
    cuda::launch<cuda::probabilities<T, Math>>(
        {cuda::blocks_for(all.queries, cuda::wide_rows), cuda::grid_height(all.heads)}, cuda::wide_threads,
        cuda::two_tiles<T>, cuda::current_stream(), cuda::AttentionTask<T>{plan}, q, k, all, View<float, 2>{});
  });
}

[[maybe_unused, gnu::used]] constexpr auto attention_wide_instances =
    cuda::instances<float, bf16>([]<class T>(cuda::Type<T>) {
      return std::tuple(&kernel::attention_weights<T>, &cuda::attend_wide<T>, &cuda::attend_wide_backward<T>,
                        &cuda::sum_bias_gradient<T>);
    });

}  // namespace heddle
