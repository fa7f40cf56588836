// attention's backward on the GPU, for heads up to 128 wide; wide.cu handles wider ones and the gradient of the bias,
// and head_backward.cu short sequences.
// Formulas: ops/attention/backward.hpp.
//
//   query_gradient       A block owns up to 64 queries of one head of one sequence, 16 for each warp, and iterates over
//                        tiles of the keys that they see. q and y are read once and dy twice; dq and delta are written
//                        once; k and v are read once for each block.
//   key_value_gradients  A block owns up to 64 keys likewise and iterates over tiles of queries. k and v are read once,
//                        and dk and dv are written once; q and dy are read once for each block.
//   compute_delta        Only for gradients that need delta before or without query_gradient. Eight lanes own a row of
//                        a head. y and dy are read once.
//
// The first two recompute the scores, so that a single warp computes each sum, in a fixed order: no atomics, and no
// partial sums in memory. docs/kernels.md lists rows, traffic and shared arrays of every attention kernel.
#include "../device/instances.cuh"
#include "../device/vector.cuh"
#include "dropout.cuh"
#include "head_backward.cuh"
#include "wide.cuh"

namespace heddle::kernel {
namespace {

using cuda::AttentionLaunch;
using cuda::AttentionTask;
using cuda::HeadRows;
using cuda::row_stride;
using cuda::slice_rows;

// --- delta -----------------------------------------------------------------------------------------------------------

constexpr int delta_threads = cuda::block_threads(256);

// Computes delta [H, Nq], the sum of y dy over the columns of a head. `vectors`: whether 16-byte accesses are aligned.
template <class T>
__global__ __launch_bounds__(delta_threads) void compute_delta(MatrixView<const T> y, MatrixView<const T> dy,
                                                               Index heads, bool vectors, View<float, 2> delta) {
  constexpr int lanes = cuda::delta_lanes;
  const Index item = (Index{blockIdx.x} * delta_threads + threadIdx.x) / lanes;
  const bool is_small = item >> 31 == 0;  // a quotient of 64 bits takes a hundred instructions
  const Index n = is_small ? Index{static_cast<int>(item) / static_cast<int>(heads)} : item / heads;
  const Index h = item - n * heads;
  const int width = static_cast<int>(y.width) / static_cast<int>(heads);
  const bool inside = n < delta.extent[1];
  const float sum = cuda::sum_delta(y.data + n * y.stride + h * width, dy.data + n * dy.stride + h * width,
                                    inside ? width : 0, vectors);
  if (inside && threadIdx.x % lanes == 0) delta(h, n) = sum;
}

template <class T>
void launch_delta(MatrixView<const T> y, MatrixView<const T> dy, Index heads, View<float, 2> delta) {
  const auto in_vectors = [&](MatrixView<const T> x) {
    const Index bytes = (x.stride | x.width / heads) * static_cast<Index>(sizeof(T));
    return cuda::aligned<cuda::per_access<T>>(x.data) && bytes % cuda::access_bytes == 0;
  };
  cuda::launch<compute_delta<T>>(cuda::blocks_for(delta.extent[0] * delta.extent[1] * cuda::delta_lanes, delta_threads),
                                 delta_threads, 0, cuda::current_stream(), y, dy, heads,
                                 in_vectors(y) && in_vectors(dy), delta);
}

// --- tiles -----------------------------------------------------------------------------------------------------------

template <class T, int width>
struct BackwardTile {
  static constexpr int other_rows = 32;  // rows of a tile
  static constexpr int stages = 4;       // at most
  static constexpr int size = other_rows * row_stride<T, width>;
  static constexpr int warps = 4, warp_rows = cuda::slice_rows;  // warps at most
  static constexpr int threads = warps * cuda::warp_size;
  // Blocks of key_value_gradients on a multiprocessor, as many as the registers allow.
  static constexpr int key_blocks = width * static_cast<int>(sizeof(T)) <= 128 ? 3 : 2;
};

// Blocks of query_gradient on a multiprocessor, as many as the registers allow.
template <class Math, int width>
struct QueryBlocks {
  static constexpr bool in_cores = !std::is_same_v<Math, float>;  // whether tensor cores compute the products
  static constexpr int count = width > 64 ? 2 : width < 64 && in_cores ? 4 : 3;
};

// The shared memory of a block. The block owns rows of two matrices, a and b, and iterates over tiles of two
// others, c and d:
//   query_gradient       a is q, b is dy, c is k, d is v; log_sums and deltas are unused
//   key_value_gradients  a is k, b is v, c is q, d is dy
template <class T, int width>
struct BackwardArrays {
  using Tile = BackwardTile<T, width>;
  cuda::BlockHead<T>* head;
  float *log_sums, *deltas;  // [stages, other_rows] of the queries in c and d
  T *a, *b;                  // [rows, width]
  T* tiles;                  // [stages, c and d, other_rows, width]
  int rows;

  __device__ BackwardArrays(cuda::SharedArrays arrays, int used_stages)
      : head(arrays.take<cuda::BlockHead<T>>(1)),
        log_sums(arrays.take<float>(Tile::stages * Tile::other_rows)),
        deltas(arrays.take<float>(Tile::stages * Tile::other_rows)),
        rows(static_cast<int>(blockDim.x) / cuda::warp_size * slice_rows) {
    a = arrays.take<T>(held_rows(rows) * row_stride<T, width>);
    b = arrays.take<T>(held_rows(rows) * row_stride<T, width>);
    tiles = arrays.take<T>(used_stages * 2 * Tile::size);
  }
  // Returns for how many own rows a block that uses `used` has memory: as many as any block has, so that all arrays
  // stand at constant addresses, unless the rows are so wide that a GPU with little memory needs blocks of fewer.
  HEDDLE_HD static constexpr int held_rows(int used) {
    return width * static_cast<int>(sizeof(T)) <= 256 ? Tile::warps * Tile::warp_rows : used;
  }
  __device__ T* c(int stage) const { return tiles + stage * 2 * Tile::size; }
  __device__ T* d(int stage) const { return tiles + (stage * 2 + 1) * Tile::size; }
  // Returns the warp's rows of a or b.
  __device__ T* own(T* of_block) const { return of_block + cuda::warp_index() * slice_rows * row_stride<T, width>; }

  static AttentionLaunch launch(Index longest_own, Index longest_other, int blocks) {
    return cuda::choose_staged_launch<Tile>(longest_own, longest_other, blocks, [](int warps, int used_stages) {
      constexpr std::size_t numbers = 2 * Tile::stages * Tile::other_rows * sizeof(float);
      const int of_rows = 2 * (held_rows(warps * slice_rows) + used_stages * Tile::other_rows);
      return cuda::shared_head_bytes + numbers + static_cast<std::size_t>(of_rows * row_stride<T, width>) * sizeof(T);
    });
  }
};

// --- dq --------------------------------------------------------------------------------------------------------------

template <class T, class Math, int width>
__global__ __launch_bounds__(BackwardTile<T, width>::threads, QueryBlocks<Math, width>::count) void query_gradient(
    AttentionTask<T> task, cuda::BackwardInputs<T> x, MatrixView<const T> y, View<float, 2> delta, MatrixView<T> dq,
    int ahead) {
  using Products = cuda::Products<Math>;
  using Scores = cuda::ScoreTile<T, false>;
  constexpr int tile_rows = BackwardTile<T, width>::other_rows, n = tile_rows / 8;
  const BackwardArrays<T, width> arrays({}, ahead + 1);
  const int rows = arrays.rows;
  const cuda::SharedRows<T, width> own_q{arrays.own(arrays.a)}, own_dy{arrays.own(arrays.b)};
  const auto process = [&](const cuda::SequenceHead<T>& head, const HeadRows<const T>& k_rows,
                           const HeadRows<const T>& v_rows) {
    if (Index{blockIdx.x} * rows >= head.queries) return;  // the whole block
    const int first = static_cast<int>(blockIdx.x) * rows;
    const cuda::TileRange tiles(cuda::rows_seen_by_any<false>(task, head.keys, first, first + rows - 1), tile_rows);
    if (!tiles.is_empty()) {
      cuda::load_rows<width>(arrays.a, head.query_rows(x.q), first, rows);
      cuda::load_rows<width>(arrays.b, head.query_rows(x.dy), first, rows);
    }
    const Scores own{task, head, first, 0};
    const cuda::QueryStatistics statistics(own, x.lse, head.query_rows(y), head.query_rows(x.dy), delta);

    float sum[1][width / 8][4];  // [1, 16, width] of the warp
    const auto add_tiles = [&](bool is_careful) {
      cuda::set_zero(sum);
      int bound = is_careful ? 0 : own.template whole_bound<tile_rows>(tiles.first * tile_rows);
      cuda::TileCopies<T, width, tile_rows, BackwardTile<T, width>::threads> copies(k_rows, v_rows, tiles.first);
      const auto load = [&](int tile, int stage) {
        cuda::load_tile(copies, k_rows, v_rows, tile, arrays.c(stage), arrays.d(stage));
      };
      const auto use = [&](int tile, int stage) {
        const Scores at{task, head, first, tile * tile_rows};
        cuda::with_pairs<tile_rows>(at, bound, is_careful, [&](auto reach, auto visible, auto repairs) {
          T* const keys = arrays.c(stage);
          float p[1][n][4] = {}, ds[1][n][4] = {};  // [1, 16, tile_rows]
          if (reach > 0) {
            Products::template add_scores<width, 1>(&own_q, keys, reach, p);
            Products::template add_scores<width, 1>(&own_dy, arrays.d(stage), reach, ds);
            cuda::with_kept<n>(at, reach, [&](const auto& kept) {
              cuda::compute_score_gradients(
                  at, visible, reach, [&](int, int e) { return statistics.lse[e / 2]; },
                  [&](int, int e) { return statistics.delta[e / 2]; }, kept, p[0], ds[0]);
            });
          }
          if (repairs) {
            __syncthreads();  // until every warp has multiplied the keys
            cuda::clear_not_finite<width>(keys, cuda::rows_in_tile(k_rows.count - at.other, tile_rows));
            __syncthreads();
          }
          if (reach == 0) return;
          if (repairs) cuda::add_not_finite(ds[0], visible, reach, k_rows, at.other, sum[0]);
          typename Products::template Weights<n> weights;
          weights.set(ds[0]);
          Products::template add_weighted_rows<width, 1>(&weights, keys, reach, sum);
        });
      };
      cuda::for_each_tile(
          tiles.first, tiles.last, ahead, load, [] {}, use);
    };
    cuda::add_tiles_carefully(task, add_tiles, [&] { return cuda::holds_nan(sum); });
    cuda::store_rows<width, false>(sum[0], task.plan.scale, task.plan.scale, arrays.own(arrays.a), head.query_rows(dq),
                                   first, own.slice);
  };
  cuda::for_each_head<false>(arrays.head, task.plan, x.k, x.v, process);
}

// --- dk and dv -------------------------------------------------------------------------------------------------------

template <class T, class Math, int width>
__global__ __launch_bounds__(BackwardTile<T, width>::threads,
                             BackwardTile<T, width>::key_blocks) void key_value_gradients(AttentionTask<T> task,
                                                                                          cuda::BackwardInputs<T> x,
                                                                                          MatrixView<T> dk,
                                                                                          MatrixView<T> dv, int ahead) {
  using Products = cuda::Products<Math>;
  using Scores = cuda::ScoreTile<T, true>;
  constexpr int tile_rows = BackwardTile<T, width>::other_rows, n = tile_rows / 8;
  const BackwardArrays<T, width> arrays({}, ahead + 1);
  const int rows = arrays.rows;
  const cuda::SharedRows<T, width> own_k{arrays.own(arrays.a)}, own_v{arrays.own(arrays.b)};
  const auto process = [&](const cuda::SequenceHead<T>& head, const HeadRows<const T>& q_rows,
                           const HeadRows<const T>& dy_rows) {
    if (Index{blockIdx.x} * rows >= head.keys) return;  // the whole block
    const int first = static_cast<int>(blockIdx.x) * rows;
    // Computed again by each caller: registers are scarce.
    const auto seen_tiles = [&] {
      return cuda::TileRange(cuda::rows_seen_by_any<true>(task, head.queries, first, first + rows - 1), tile_rows);
    };
    if (!seen_tiles().is_empty()) {
      cuda::load_rows<width, true>(arrays.a, head.key_rows(x.k), first, rows);
      cuda::load_rows<width, true>(arrays.b, head.key_rows(x.v), first, rows);
    }
    const Scores own{task, head, first, 0};

    float sum_k[1][width / 8][4], sum_v[1][width / 8][4];  // [1, 16, width] of the warp
    const auto add_tiles = [&](bool is_careful) {
      const cuda::TileRange tiles = seen_tiles();
      cuda::set_zero(sum_k);
      cuda::set_zero(sum_v);
      int bound = is_careful ? 0 : own.template whole_bound<tile_rows>(tiles.first * tile_rows);
      cuda::TileCopies<T, width, tile_rows, BackwardTile<T, width>::threads> copies(q_rows, dy_rows, tiles.first);
      const auto load = [&](int tile, int stage) {
        const int at = tile * tile_rows;
        const auto row = static_cast<int>(threadIdx.x);  // a block has at least tile_rows threads
        if (row < tile_rows) {
          const Index query = head.q_begin + at + row;
          const bool inside = at + row < head.queries;
          cuda::copy_number_async(arrays.log_sums + stage * tile_rows + row,
                                  inside ? &x.lse(head.h, query) : x.lse.data, inside);
          cuda::copy_number_async(arrays.deltas + stage * tile_rows + row,
                                  inside ? &x.delta(head.h, query) : x.delta.data, inside);
        }
        cuda::load_tile(copies, q_rows, dy_rows, tile, arrays.c(stage), arrays.d(stage));
      };
      const auto use = [&](int tile, int stage) {
        const Scores at{task, head, first, tile * tile_rows};
        cuda::with_pairs<tile_rows>(at, bound, is_careful, [&](auto reach, auto visible, auto repairs) {
          T* const queries = arrays.c(stage);
          T* const gradients = arrays.d(stage);
          float pd[1][n][4] = {}, ds[1][n][4] = {};  // [1, 16, tile_rows]
          if (reach > 0) {
            Products::template add_scores<width, 1>(&own_k, queries, reach, pd);
            Products::template add_scores<width, 1>(&own_v, gradients, reach, ds);
            const auto number = [&](const float* of, int m, int e) {
              return of[stage * tile_rows + at.other_row(m, e) - at.other];
            };
            cuda::with_kept<n>(at, reach, [&](const auto& kept) {
              cuda::compute_score_gradients(
                  at, visible, reach, [&](int m, int e) { return number(arrays.log_sums, m, e); },
                  [&](int m, int e) { return number(arrays.deltas, m, e); }, kept, pd[0], ds[0]);
            });
          }
          if (repairs) {
            const int count = cuda::rows_in_tile(q_rows.count - at.other, tile_rows);
            __syncthreads();  // until every warp has multiplied queries and gradients
            cuda::clear_not_finite<width>(queries, count);
            cuda::clear_not_finite<width>(gradients, count);
            __syncthreads();
          }
          if (reach == 0) return;
          if (repairs) {
            cuda::add_not_finite(pd[0], visible, reach, dy_rows, at.other, sum_v[0]);
            cuda::add_not_finite(ds[0], visible, reach, q_rows, at.other, sum_k[0]);
          }
          typename Products::template Weights<n> weights;
          weights.set(pd[0]);
          Products::template add_weighted_rows<width, 1>(&weights, gradients, reach, sum_v);
          weights.set(ds[0]);
          Products::template add_weighted_rows<width, 1>(&weights, queries, reach, sum_k);
        });
      };
      cuda::for_each_tile(
          tiles.first, tiles.last, ahead, load, [] {}, use);
    };
    cuda::add_tiles_carefully(task, add_tiles, [&] { return cuda::holds_nan(sum_k) || cuda::holds_nan(sum_v); });
    const float scale = task.plan.scale;
    if (dk.data)
      cuda::store_rows<width, true>(sum_k[0], scale, scale, arrays.own(arrays.a), head.key_rows(dk), first, own.slice);
    if (dv.data)
      cuda::store_rows<width, true>(sum_v[0], 1, 1, arrays.own(arrays.b), head.key_rows(dv), first, own.slice);
  };
  cuda::for_each_head<true>(arrays.head, task.plan, x.q, x.dy, process);
}

}  // namespace

template <OnGpu T>
void attention_backward(Cuda, const AttentionPlan<T>& plan, MatrixView<const T> q, MatrixView<const T> k,
                        MatrixView<const T> v, MatrixView<const T> y, View<const float, 2> lse, MatrixView<const T> dy,
                        View<float, 2> delta, MatrixView<T> dq, MatrixView<T> dk, MatrixView<T> dv,
                        PerScore<float> dbias) {
  const cuda::BackwardInputs<T> x{q, k, v, dy, lse, {delta.data, {delta.extent[0], delta.extent[1]}}};
  if constexpr (std::is_same_v<T, bf16>)
    if (cuda::compute_head_gradients(plan, x, y, dq, dk, dv)) return;
  const Index widest = std::max(q.width, v.width) / plan.heads;
  if (dbias.data || !dq.data || widest > widest_tiled_head) launch_delta(y, dy, plan.heads, delta);
  if (dbias.data) cuda::sum_bias_gradient(plan, x, dbias);
  if (widest > widest_tiled_head) return cuda::attend_wide_backward(plan, x, dq, dk, dv);
  const AttentionTask<T> task{plan};
  cuda::with_tile(plan, widest, [&]<class Math, int width>() {
    using Tile = BackwardTile<T, width>;
    const auto launch = [&]<auto kernel>(Index longest_own, Index longest_other, int blocks, auto... gradients) {
      const AttentionLaunch to = BackwardArrays<T, width>::launch(longest_own, longest_other, blocks);
      cuda::launch<kernel>(to.grid(plan, longest_own), static_cast<unsigned>(to.warps * cuda::warp_size),
                           to.shared_bytes, cuda::current_stream(), task, x, gradients..., to.stages - 1);
    };
    if (dq.data)
      launch.template operator()<query_gradient<T, Math, width>>(plan.longest_q, plan.longest_k,
                                                                 QueryBlocks<Math, width>::count, y, delta, dq);
    if (dk.data || dv.data)
      launch.template operator()<key_value_gradients<T, Math, width>>(plan.longest_k, plan.longest_q, Tile::key_blocks,
                                                                      dk, dv);
  });
}

[[maybe_unused, gnu::used]] constexpr auto attention_backward_instances =
    std::tuple(&attention_backward<float>, &attention_backward<bf16>);

}  // namespace heddle::kernel
