// attention of heads wider than 128, and what else is made of scores in memory: the probabilities themselves, and the bias's
// gradient. Formulas: include/heddle/ops/attention_kernel.hpp and attention_backward.hpp.
//
// Rows come in chunks of 64 columns, whose products are added up. The host does not know where sequences begin, and a score
// must not be rounded before its softmax; so these are kernels of their own instead of calls of `multiply`.
//
//   probabilities     A block owns 64 queries of a head, and walks over its keys twice: for the sums, then for the
//                     probabilities, which are written once. k is read twice for each 64 queries.
//   score_gradients   A block owns 64 x 64 scores. It writes p d and ds once.
//   weigh_rows        A block owns 64 rows of a product of such a matrix, or its transpose, and 64 of its columns. It walks over
//                     the matrix's rows: each is read once for each 64 columns, and written once.
//   bias_gradient     A block owns 64 x 64 elements and walks over all sequences, heads and queries that share them, in order.
#include "device/attention_wide.cuh"
#include "device/score_gradients.cuh"

namespace heddle::cuda {
namespace {

using kernel::AttentionPlan;
using kernel::PerScore;

constexpr int wide_warps = 4;  // of a block
constexpr int wide_threads = wide_warps * warp_size;
[[maybe_unused]] constexpr int wide_blocks = 2;   // of a multiprocessor: more would not leave registers enough
constexpr int wide_rows = wide_warps * own_rows;  // own rows of a block
constexpr int tile_rows = 64;                     // other rows
constexpr int chunk = 64;                         // columns
constexpr int sums = tile_rows / 8;               // of a lane: sums[n][e]
static_assert(wide_rows == tile_rows, "tiles of scores are squares, so that causal ones are skipped from either side");

template <class T>
constexpr int tile_size = tile_rows* row_stride<T, chunk>;
template <class T>
constexpr std::size_t two_tiles = 2 * tile_size<T> * sizeof(T);  // bytes
template <class T>
constexpr std::size_t three_tiles = 3 * tile_size<T> * sizeof(T);

// Scores, or what they became, of some heads: [heads, queries, keys].
template <class T>
struct ScoreMatrices {
  T* data;
  Index first_head, heads, queries, keys;

  __device__ T& operator()(Index pair, int i, int j) const {
    return data[((pair - first_head) * queries + i) * keys + j];
  }
};

// Two tiles of shared memory, and products of rows of any width by way of them, in the arithmetic that Math names
// (row_products.cuh).
template <class T, class Math>
class ChunkedProducts {
 public:
  __device__ explicit ChunkedProducts(SharedArrays arrays)
      : own_(arrays.take<T>(tile_size<T>)), other_(arrays.take<T>(tile_size<T>)) {}

  // Adds own other^T, of the rows of a tile of scores. All threads of the block come; `reach` is the warp's.
  template <int n>
  __device__ __forceinline__ void add(HeadRows<const T> own, int own_first, HeadRows<const T> other, int other_first,
                                      int reach, float (&scores)[n][4]) const {
    const T* const own_of_warp = own_ + static_cast<int>(threadIdx.x) / warp_size * own_rows * row_stride<T, chunk>;
    for (int d = 0; d < own.width; d += chunk) {
      __syncthreads();  // until the tiles were used
      load_rows<chunk>(own_, own.from(d), own_first, wide_rows);
      load_rows<chunk>(other_, other.from(d), other_first, tile_rows);
      commit_copies();
      wait_copies<0>();
      __syncthreads();
      if (reach > 0) Products<Math>::template rows<chunk>(own_of_warp, other_, reach, scores);
    }
  }

 private:
  T *own_, *other_;
};

// How far the queries from `first` on see in their sequence.
template <class T>
__device__ int keys_seen(const AttentionTask<T>& task, const SequenceHead<T>& head, int first) {
  if (first >= head.queries) return 0;
  return task.plan.causal && first + wide_rows < head.keys ? first + wide_rows : head.keys;
}

template <class T, class Math>
__global__ __launch_bounds__(wide_threads, wide_blocks) void probabilities(AttentionTask<T> task, MatrixView<const T> q,
                                                                           MatrixView<const T> k, ScoreMatrices<T> y,
                                                                           View<float, 2> lse) {
  const ChunkedProducts<T, Math> products{SharedArrays()};
  for (Index pair = y.first_head + blockIdx.y; pair < y.first_head + y.heads; pair += gridDim.y) {
    const SequenceHead<T> head(task.plan, pair);
    const int first = static_cast<int>(blockIdx.x) * wide_rows, end = keys_seen(task, head, first);
    const auto q_rows = head.query_rows(q), k_rows = head.key_rows(k);
    SoftmaxRows<T> softmax;
    for (int j = 0; j < end; j += tile_rows) {
      const ScoreTile<T, false> at{task, head, first, j};
      const int reach = at.reach(tile_rows);
      float scores[sums][4] = {};  // [16, tile_rows] of the warp
      products.add(q_rows, first, k_rows, j, reach, scores);
      if (reach > 0) softmax.add(at, at.template seen<sums>(reach), reach, scores);
    }
    softmax.finish();
    for (int j = 0; j < y.keys; j += tile_rows) {
      const ScoreTile<T, false> at{task, head, first, j};
      const int reach = j < end ? at.reach(tile_rows) : 0;
      float p[sums][4] = {};  // [16, tile_rows] of the warp
      if (j < end) products.add(q_rows, first, k_rows, j, reach, p);
      const unsigned seen = reach > 0 ? at.template seen<sums>(reach) : 0;
      if (reach > 0) softmax.weights(at, seen, reach, p);
      if (reach > 0) drop(at, at.kept(reach), p);
      for (int m = 0; m < sums; ++m)
        for (int e = 0; e < 4; ++e)
          if (at.own_row(e) < y.queries && at.other_row(m, e) < y.keys)
            y(pair, at.own_row(e), at.other_row(m, e)) = T(p[m][e]);
    }
    const ScoreTile<T, false> at{task, head, first, 0};
    for (int e = 0; lse.data && e < 4; e += 2)
      if (at.own_row(e) < head.queries && at.lane() % quad == 0)
        lse(head.h, head.q_begin + at.own_row(e)) = softmax.log_sum(e / 2);
  }
}

// What a gradient of scores is made of.
template <class T>
struct GradientRows {
  MatrixView<const T> q, k, v, dy;
  View<const float, 2> lse, delta;
};

// p d and ds of a tile; zeros of a warp that sees none of it. All threads of the block come.
template <class Products, class T, int n>
__device__ __forceinline__ void make_tile(const Products& products, const ScoreTile<T, false>& at,
                                          const GradientRows<T>& x, float (&pd)[n][4], float (&ds)[n][4]) {
  const SequenceHead<T>& head = at.head;
  const int reach = at.reach(tile_rows);
  products.add(head.query_rows(x.q), at.own, head.key_rows(x.k), at.other, reach, pd);
  products.add(head.query_rows(x.dy), at.own, head.key_rows(x.v), at.other, reach, ds);
  if (reach == 0) return;
  const QueryNumbers numbers(at, x.lse, x.delta);
  make_gradients(
      at, at.template seen<n>(reach), at.kept(reach), reach, [&](int, int e) { return numbers.lse[e / 2]; },
      [&](int, int e) { return numbers.delta[e / 2]; }, pd, ds);
}

template <class T, class Math>
__global__ __launch_bounds__(wide_threads, wide_blocks) void score_gradients(AttentionTask<T> task, GradientRows<T> x,
                                                                             ScoreMatrices<T> pd, ScoreMatrices<T> ds) {
  const ChunkedProducts<T, Math> products{SharedArrays()};
  const int tiles = tiles_for(pd.keys, tile_rows);
  const int first = static_cast<int>(blockIdx.x) / tiles * wide_rows;
  const int j = static_cast<int>(blockIdx.x) % tiles * tile_rows;
  for (Index pair = pd.first_head + blockIdx.y; pair < pd.first_head + pd.heads; pair += gridDim.y) {
    const SequenceHead<T> head(task.plan, pair);
    if (j >= keys_seen(task, head, first)) continue;  // nor does anybody read it
    const ScoreTile<T, false> at{task, head, first, j};
    float tile_pd[sums][4] = {}, tile_ds[sums][4] = {};  // [16, tile_rows] of the warp
    make_tile(products, at, x, tile_pd, tile_ds);
    for (int m = 0; m < sums; ++m)
      for (int e = 0; e < 4; ++e) {
        const int row = at.own_row(e), column = at.other_row(m, e);
        if (row >= head.queries || column >= head.keys) continue;
        pd(pair, row, column) = T(tile_pd[m][e]);
        ds(pair, row, column) = T(tile_ds[m][e]);
      }
  }
}

// y = scale w x for queries' rows, or scale w^T x for those of keys.
template <class T, class Math, bool own_keys>
__global__ __launch_bounds__(wide_threads, wide_blocks) void weigh_rows(AttentionTask<T> task, ScoreMatrices<const T> w,
                                                                        MatrixView<const T> x, float scale,
                                                                        MatrixView<T> y, int stages) {
  SharedArrays arrays;
  T* const room = arrays.take<T>(tile_size<T>);
  T* const tiles = arrays.take<T>(stages * tile_size<T>);
  const int chunks = tiles_for(y.width / task.plan.heads, chunk);
  const int first = static_cast<int>(blockIdx.x) / chunks * wide_rows,
            d = static_cast<int>(blockIdx.x) % chunks * chunk;
  for (Index pair = w.first_head + blockIdx.y; pair < w.first_head + w.heads; pair += gridDim.y) {
    __syncthreads();  // until the rows of the head before have left `room`
    const SequenceHead<T> head(task.plan, pair);
    const auto y_rows = own_keys ? head.key_rows(y) : head.query_rows(y);
    if (first >= y_rows.count) continue;
    const auto x_rows = (own_keys ? head.query_rows(x) : head.key_rows(x)).from(d);
    const int begin = own_keys && task.plan.causal ? first / tile_rows : 0;
    const int end = own_keys ? head.queries : keys_seen(task, head, first);
    float sum[chunk / 8][4];  // [16, chunk] of the warp
    for (bool careful = false;; careful = true) {
      for (auto& part : sum) part[0] = part[1] = part[2] = part[3] = 0;
      const auto load = [&](int tile, int stage) {
        load_rows<chunk>(tiles + stage * tile_size<T>, x_rows, tile * tile_rows, tile_rows);
      };
      const auto use = [&](int tile, int stage) {
        const ScoreTile<T, own_keys> at{task, head, first, tile * tile_rows};
        const int reach = at.reach(tile_rows);
        float weights[sums][4];  // [16, tile_rows] of the warp
        for (int m = 0; m < sums; ++m)
          for (int e = 0; e < 4; ++e) {
            const bool inside = at.query(m, e) < head.queries && at.key(m, e) < head.keys && m * 8 < reach;
            weights[m][e] = inside ? static_cast<float>(w(pair, at.query(m, e), at.key(m, e))) : 0.f;
          }
        T* const rows = tiles + stage * tile_size<T>;
        if (careful) {
          clear_not_finite<chunk>(rows, tile_rows);
          __syncthreads();
        }
        if (reach == 0) return;
        Products<Math>::template weighted<chunk>(weights, rows, reach, sum);
        if (careful) add_not_finite(weights, at.template seen<sums>(reach), reach, x_rows, at.other, sum);
      };
      walk(begin, tiles_for(end, tile_rows), stages, load, use);
      if (careful || !task.masks() || !__syncthreads_or(holds_nan(sum))) break;
    }
    T* const own = room + ScoreTile<T, own_keys>::warp() * own_rows * row_stride<T, chunk>;
    store_rows<chunk, own_keys>(sum, scale, scale, own, y_rows.from(d), first);
  }
}

// `own_b` and `own_h` are 1 where an axis is shared, else its extent.
template <class T, class Math>
__global__ __launch_bounds__(wide_threads, wide_blocks) void bias_gradient(AttentionTask<T> task, GradientRows<T> x,
                                                                           Index own_b, Index own_h,
                                                                           PerScore<float> dbias) {
  auto& of_warps = shared<float[wide_warps][tile_rows]>();
  const ChunkedProducts<T, Math> products{SharedArrays()};
  const AttentionPlan<T>& plan = task.plan;
  const bool shared_queries = dbias.query_stride == 0;
  const int tiles = tiles_for(plan.longest_k, tile_rows);
  const int own_first = static_cast<int>(blockIdx.x) / tiles * wide_rows;
  const int j = static_cast<int>(blockIdx.x) % tiles * tile_rows;
  for (Index own = blockIdx.y; own < own_b * own_h; own += gridDim.y) {
    float sum[sums][4] = {};  // [16, tile_rows] of the warp
    for (Index b = own / own_h; b < plan.q_begin.extent[0]; b += own_b)
      for (Index h = own % own_h; h < plan.heads; h += own_h) {
        const SequenceHead<T> head(plan, b * plan.heads + h);
        const int last = shared_queries ? head.queries : own_first + 1;
        for (int first = own_first; first < last; first += wide_rows) {
          if (j >= keys_seen(task, head, first)) continue;
          const ScoreTile<T, false> at{task, head, first, j};
          float pd[sums][4] = {}, ds[sums][4] = {};
          make_tile(products, at, x, pd, ds);
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
        if (at.lane() < quad) of_warps[at.warp()][at.other_row(m, e) - j] = column;
      }
    __syncthreads();
    const int column = static_cast<int>(threadIdx.x);
    if (column < tile_rows && j + column < plan.longest_k) {
      float total = 0;
      for (int w = 0; w < wide_warps; ++w) total += of_warps[w][column];
      dbias.row(b, h, 0)[j + column] = total;
    }
    __syncthreads();
  }
}

// --- on the host ------------------------------------------------------------------------------------------------------

constexpr Index most_scores = Index{1} << 26;  // that are held at a time, if one head has no more

// Calls f with the plan's arithmetic, and the first head and the number of heads whose scores are held at a time.
template <class T, class F>
void for_some_heads(const AttentionPlan<T>& plan, F f) {
  const Index heads = head_count(plan), of_head = plan.longest_q * plan.longest_k;
  const Index at_once = std::clamp<Index>(most_scores / std::max<Index>(of_head, 1), 1, std::max<Index>(heads, 1));
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
  constexpr int stages = 2;
  launch<weigh_rows<T, Math, own_keys>>({blocks_for(longest, wide_rows) * chunks, grid_height(w.heads)}, wide_threads,
                                        three_tiles<T>, current_stream(), task, read, x, scale, y, stages);
}

}  // namespace

template <kernel::OnGpu T>
void attend_wide(const AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k, MatrixView<const T> v,
                 MatrixView<T> y, View<float, 2> lse) {
  const AttentionTask<T> task{plan};
  for_some_heads(plan, [&]<class Math>(Index first, Index heads) {
    const Workspace<T> memory(heads * plan.longest_q * plan.longest_k);
    const ScoreMatrices<T> p{memory.data(), first, heads, plan.longest_q, plan.longest_k};
    launch<probabilities<T, Math>>({blocks_for(plan.longest_q, wide_rows), grid_height(heads)}, wide_threads,
                                   two_tiles<T>, current_stream(), task, q, k, p, lse);
    launch_weigh<Math, false>(task, p, v, plan.dropout.scale, y);
  });
}

template <kernel::OnGpu T>
void attend_wide_backward(const AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k,
                          MatrixView<const T> v, View<const float, 2> lse, MatrixView<const T> dy,
                          View<const float, 2> delta, MatrixView<T> dq, MatrixView<T> dk, MatrixView<T> dv) {
  const AttentionTask<T> task{plan};
  const GradientRows<T> x{q, k, v, dy, lse, delta};
  for_some_heads(plan, [&]<class Math>(Index first, Index heads) {
    const Workspace<T> pd_memory(heads * plan.longest_q * plan.longest_k),
        ds_memory(heads * plan.longest_q * plan.longest_k);
    const ScoreMatrices<T> pd{pd_memory.data(), first, heads, plan.longest_q, plan.longest_k};
    const ScoreMatrices<T> ds{ds_memory.data(), first, heads, plan.longest_q, plan.longest_k};
    const unsigned blocks = blocks_for(plan.longest_q, wide_rows) * blocks_for(plan.longest_k, tile_rows);
    launch<score_gradients<T, Math>>({blocks, grid_height(heads)}, wide_threads, two_tiles<T>, current_stream(), task,
                                     x, pd, ds);
    if (dq.data) launch_weigh<Math, false>(task, ds, k, plan.scale, dq);
    if (dk.data) launch_weigh<Math, true>(task, ds, q, plan.scale, dk);
    if (dv.data) launch_weigh<Math, true>(task, pd, dy, plan.dropout.scale, dv);
  });
}

template <kernel::OnGpu T>
void add_up_bias_gradient(const AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k,
                          MatrixView<const T> v, View<const float, 2> lse, MatrixView<const T> dy,
                          View<const float, 2> delta, PerScore<float> dbias) {
  const Index own_b = dbias.sequence_stride == 0 ? 1 : plan.count(), own_h = dbias.head_stride == 0 ? 1 : plan.heads;
  const unsigned query_tiles = dbias.query_stride == 0 ? 1 : blocks_for(plan.longest_q, wide_rows);
  with_math(plan, [&]<class Math>() {
    launch<bias_gradient<T, Math>>({query_tiles * blocks_for(plan.longest_k, tile_rows), grid_height(own_b * own_h)},
                                   wide_threads, two_tiles<T>, current_stream(), AttentionTask<T>{plan},
                                   GradientRows<T>{q, k, v, dy, lse, delta}, own_b, own_h, dbias);
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

#define HEDDLE_ATTENTION(T)                                                                                           \
  template void kernel::attention_weights(Cuda, const kernel::AttentionPlan<T>&, MatrixView<const T>,                 \
                                          MatrixView<const T>, View<T, 4>);                                           \
  template void cuda::attend_wide(const kernel::AttentionPlan<T>&, MatrixView<const T>, MatrixView<const T>,          \
                                  MatrixView<const T>, MatrixView<T>, View<float, 2>);                                \
  template void cuda::attend_wide_backward(const kernel::AttentionPlan<T>&, MatrixView<const T>, MatrixView<const T>, \
                                           MatrixView<const T>, View<const float, 2>, MatrixView<const T>,            \
                                           View<const float, 2>, MatrixView<T>, MatrixView<T>, MatrixView<T>);        \
  template void cuda::add_up_bias_gradient(const kernel::AttentionPlan<T>&, MatrixView<const T>, MatrixView<const T>, \
                                           MatrixView<const T>, View<const float, 2>, MatrixView<const T>,            \
                                           View<const float, 2>, kernel::PerScore<float>);
HEDDLE_ATTENTION(float)
HEDDLE_ATTENTION(bf16)
#undef HEDDLE_ATTENTION

}  // namespace heddle
