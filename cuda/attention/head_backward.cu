// attention's backward on the GPU for short sequences: one kernel of five products, where those of backward.cu have
// seven. A block owns a head, so a pair's score is computed once for all three gradients.
//
//   head_gradients  A block owns the keys of one head of one sequence, 32 for each warp, and iterates over tiles of its
//                   queries. q, k, v and y are read once and dy twice; dq, dk and dv are written once.
//
// Each warp sums dk and dv of its keys in registers, and leaves the gradients of the tile's scores in shared memory.
// After the next barrier it computes dq for some of the tile's queries and columns, over all keys. docs/kernels.md
// lists rows, traffic and shared arrays of every attention kernel.
#include "head_backward.cuh"

#include "../device/unrolled.cuh"
#include "dropout.cuh"

namespace heddle::cuda {
namespace {

// The tiles of a block of `warps` warps.
template <int width, int warps>
struct HeadTile {
  static constexpr int slices = 2, warp_rows = slices * slice_rows;  // own keys of a warp
  static constexpr int rows = warps * warp_rows;                     // keys, and queries, at most
  static constexpr int other_rows = 32;                              // queries of a tile
  static constexpr int threads = warps * warp_size;
  static constexpr int blocks = 8 / warps;  // on a multiprocessor, whose registers hold eight warps at width 64
};

// The shared memory of a block. Eight neighboring keys are rows of two slices of own keys. So that one access covers
// all banks, a gap follows each slice of k and each eight keys of ds.
template <int width, int warps>
struct HeadArrays {
  using Tile = HeadTile<width, warps>;
  static constexpr int gap = 4 * per_access<bf16>;
  static constexpr int slice_size = slice_rows * row_stride<bf16, width>;
  static constexpr int tile_size = Tile::other_rows * row_stride<bf16, width>;
  static constexpr int ds_size = Tile::rows / 8 * (8 * row_stride<bf16, Tile::other_rows> + gap);
  static constexpr int k_size = Tile::rows / slice_rows * (slice_size + gap),
                       v_size = Tile::rows / slice_rows * slice_size;
  static constexpr int staged = slice_rows * row_stride<bf16, slice_rows>;
  BlockHead<bf16>* head;
  HeadRows<bf16>* dq;        // [1]
  float *log_sums, *deltas;  // [rows] of the queries
  bf16 *k, *v;               // [rows, width], own keys
  bf16* tiles;               // [2 stages, q and dy, other_rows, width]
  bf16* ds;                  // [2 tiles, rows, other_rows], keys in the sequence's order
  bf16* staging;             // [warps, 16, 16] of dq

  __device__ explicit HeadArrays(SharedArrays arrays)
      : head(arrays.take<BlockHead<bf16>>(1)),
        dq(arrays.take<HeadRows<bf16>>(1)),
        log_sums(arrays.take<float>(Tile::rows)),
        deltas(arrays.take<float>(Tile::rows)),
        k(arrays.take<bf16>(k_size)),
        v(arrays.take<bf16>(v_size)),
        tiles(arrays.take<bf16>(4 * tile_size)),
        ds(arrays.take<bf16>(2 * ds_size)),
        staging(arrays.take<bf16>(warps * staged)) {}
  static constexpr std::size_t bytes = shared_head_bytes + SharedArrays::rounded(sizeof(HeadRows<bf16>)) +
                                       2 * Tile::rows * sizeof(float) +
                                       (k_size + v_size + 4 * tile_size + 2 * ds_size + warps * staged) * sizeof(bf16);

  __device__ bf16* q(int stage) const { return tiles + stage * 2 * tile_size; }
  __device__ bf16* dy(int stage) const { return tiles + (stage * 2 + 1) * tile_size; }
  __device__ bf16* ds_of(int tile) const { return ds + tile % 2 * ds_size; }
  // Return where a slice of own keys begins in k, and where a key's row begins in ds.
  __device__ static int slice_of_k(int slice) { return slice * (slice_size + gap); }
  __device__ static int row_of_ds(int key) { return key * row_stride<bf16, Tile::other_rows> + key / 8 * gap; }
};

// Adds ds^T k for 16 queries and 16 columns to `sum`, over `groups` of 32 keys in ascending order. `ds` begins at the
// first query, `k` at the first column.
template <int width, int warps>
__device__ __forceinline__ void add_query_gradients(const bf16* ds, const bf16* k, int groups, float (&sum)[2][4]) {
  using Arrays = HeadArrays<width, warps>;
  const int lane = lane_index(), key = lane % 16;
  ds += Arrays::row_of_ds(lane % 8 + lane / 16 * 8) + lane / 8 % 2 * 8;
  // The own row of a group's first 16 keys: the inverse of own_row_offset(). The other 16 keys stand 8 rows further.
  k += Arrays::slice_of_k(key % 8 / quad) + (key / 8 * quad + key % quad) * row_stride<bf16, width> + lane / 16 * 8;
  for (int group = 0; group < groups; ++group) {
    for (int half = 0; half < 2; ++half) {
      std::uint32_t a[4], b[4];
      load_matrices<true>(a, ds + Arrays::row_of_ds(half * slice_rows));
      load_matrices<true>(b, k + half * 8 * row_stride<bf16, width>);
      mma_bf16(sum[0], a, {b[0], b[1]});
      mma_bf16(sum[1], a, {b[2], b[3]});
    }
    ds += Arrays::row_of_ds(2 * slice_rows);
    k += Arrays::slice_of_k(2);
  }
}

template <int width, int warps>
__global__ __launch_bounds__(HeadTile<width, warps>::threads, HeadTile<width, warps>::blocks) void head_gradients(
    AttentionTask<bf16> task, BackwardInputs<bf16> x, MatrixView<const bf16> y, MatrixView<bf16> dq,
    MatrixView<bf16> dk, MatrixView<bf16> dv) {
  using Tile = HeadTile<width, warps>;
  using Arrays = HeadArrays<width, warps>;
  using Dots = Products<bf16>;
  constexpr int tile_rows = Tile::other_rows, slices = Tile::slices;
  const Arrays arrays({});
  const int first_slice = warp_index() * slices, first_key = warp_index() * Tile::warp_rows;
  SharedRows<bf16, width> own_k[slices], own_v[slices];
  unrolled<slices>([&](int s) {
    own_k[s].read(arrays.k + Arrays::slice_of_k(first_slice + s));
    own_v[s].read(arrays.v + (first_slice + s) * Arrays::slice_size);
  });

  const auto process = [&](const SequenceHead<bf16>& head, const HeadRows<const bf16>& q_rows,
                           const HeadRows<const bf16>& dy_rows) {
    const int tiles = tiles_for(head.queries, tile_rows);
    if (tiles > 0) {
      load_rows<width, true, Arrays::gap>(arrays.k, head.key_rows(x.k), 0, Tile::rows);
      load_rows<width, true>(arrays.v, head.key_rows(x.v), 0, Tile::rows);
      if (threadIdx.x == 0) *arrays.dq = head.query_rows(dq);
    }
    float sum_k[slices][width / 8][4], sum_v[slices][width / 8][4];  // [slices, 16, width] of the warp
    set_zero(sum_k);
    set_zero(sum_v);

    // Reads the log-sum-exp of all queries and computes their delta, while the first copies are under way.
    const auto compute_statistics = [&] {
      const HeadRows<const bf16> y_rows = head.query_rows(y);
      const bool vectors = y_rows.vectors && dy_rows.vectors;
      for (int i = static_cast<int>(threadIdx.x) / delta_lanes; i < tiles * tile_rows;
           i += Tile::threads / delta_lanes) {
        const bool inside = i < head.queries;
        const float delta = sum_delta(&y_rows(i, 0), &dy_rows(i, 0), inside ? dy_rows.width : 0, vectors);
        if (lane_index() % delta_lanes == 0) {
          arrays.deltas[i] = delta;
          arrays.log_sums[i] = inside ? x.lse(head.h, head.q_begin + i) : infinity;
        }
      }
    };

    // Adds 16 queries from row `first` of a tile on to dk and dv, and stores the gradients of their scores.
    const auto add_queries = [&](int tile, int stage, int first, auto is_whole) {
      constexpr int n = slice_rows / 8;
      constexpr Constant<slice_rows> reach;
      const int other = tile * tile_rows + first;
      const bf16* const queries = arrays.q(stage) + first * row_stride<bf16, width>;
      const bf16* const gradients = arrays.dy(stage) + first * row_stride<bf16, width>;
      float pd[slices][n][4] = {}, ds[slices][n][4] = {};  // [slices, 16, 16]
      Dots::add_scores<width, slices>(own_k, queries, reach, pd);
      Dots::add_scores<width, slices>(own_v, gradients, reach, ds);
      typename Dots::Weights<n> weights[slices];
      unrolled<slices>([&](int s) {
        const ScoreTile<bf16, true> at{task, head, 0, other, first_slice + s};
        const auto compute = [&](auto visible) {
          with_kept<n>(at, reach, [&](const auto& kept) {
            compute_score_gradients(
                at, visible, reach, [&](int m, int e) { return arrays.log_sums[at.query(m, e)]; },
                [&](int m, int e) { return arrays.deltas[at.query(m, e)]; }, kept, pd[s], ds[s]);
          });
        };
        if constexpr (is_whole)
          compute(AllBits());
        else
          compute(at.template visible<n>(slice_rows));
        weights[s].set(pd[s]);
      });
      Dots::add_weighted_rows<width, slices>(weights, gradients, reach, sum_v);
      // The lane's key in the other slice stands 4 keys further, that of own row g + 8 stands 16 keys further.
      const int lane = lane_index(), key = own_row_offset<true>(first_slice * slice_rows + lane / quad);
      bf16* const to = arrays.ds_of(tile) + Arrays::row_of_ds(key) + first + lane % quad * 2;
      unrolled<slices>([&](int s) {
        weights[s].set(ds[s]);
        for (int m = 0; m < n; ++m)
          for (int half = 0; half < 2; ++half)
            *reinterpret_cast<std::uint32_t*>(to + s * 4 * row_stride<bf16, tile_rows> + Arrays::row_of_ds(half * 16) +
                                              m * 8) = weights[s].pair[m][half];
      });
      Dots::add_weighted_rows<width, slices>(weights, queries, reach, sum_k);
    };

    // Computes dq of a tile. A warp computes 16 queries and 16 columns at a time.
    const int groups = tiles_for(head.keys, 2 * slice_rows);
    const auto store_query_gradients = [&](int tile) {
      HeadRows<bf16> dq_rows = *arrays.dq;
      // The address is computed from the kernel's argument, because nvcc then knows that it is in global memory.
      dq_rows.data = dq.data + head.q_begin * dq.stride + head.h * dq_rows.width;
      constexpr int units = tile_rows * width / (slice_rows * slice_rows);
      for (int unit = warp_index(); unit < units; unit += warps) {
        const int row = unit % 2 * slice_rows, column = unit / 2 * slice_rows, first = tile * tile_rows + row;
        if (first >= head.queries || column >= dq_rows.width) continue;
        float sum[2][4] = {};
        add_query_gradients<width, warps>(arrays.ds_of(tile) + row, arrays.k + column, groups, sum);
        store_rows<slice_rows, false>(sum, task.plan.scale, task.plan.scale,
                                      arrays.staging + warp_index() * Arrays::staged, dq_rows.columns_from(column),
                                      first, 0);
      }
    };

    TileCopies<bf16, width, tile_rows, Tile::threads> copies(q_rows, dy_rows, 0);
    const auto load = [&](int tile, int stage) {
      load_tile(copies, q_rows, dy_rows, tile, arrays.q(stage), arrays.dy(stage));
    };
    const auto use = [&](int tile, int stage) {
      if (tile > 0) store_query_gradients(tile - 1);
      if (first_key >= head.keys) return;
      const int left = head.queries - tile * tile_rows;
      const auto add_tile = [&](auto count, auto is_whole) {
#ifdef __CUDACC__
#pragma unroll 1  // registers are scarce
#endif
        for (int first = 0; first < count; first += slice_rows) add_queries(tile, stage, first, is_whole);
      };
      if (first_key + Tile::warp_rows <= head.keys && left >= tile_rows && task.plan.scale > 0)
        add_tile(Constant<tile_rows>(), Constant<true>());
      else
        add_tile(left < tile_rows ? left : tile_rows, Constant<false>());
    };
    for_each_tile(0, tiles, Constant<1>(), load, compute_statistics, use);
    __syncthreads();  // the gradients of the last tile's scores are complete
    if (tiles > 0) store_query_gradients(tiles - 1);
    unrolled<slices>([&](int s) {
      const int slice = first_slice + s;
      bf16* const staging = arrays.v + slice * Arrays::slice_size;
      store_rows<width, true>(sum_k[s], task.plan.scale, task.plan.scale, staging, head.key_rows(dk), 0, slice);
      store_rows<width, true>(sum_v[s], 1, 1, staging, head.key_rows(dv), 0, slice);
    });
  };
  for_each_head<true>(arrays.head, task.plan, x.q, x.dy, process);
}

// Returns whether the heads fill the GPU: each multiprocessor gets Tile::blocks blocks and has memory for them, and the
// keys are at least half of the blocks' rows. `keys` is the number of all keys.
template <class Tile>
bool fill_the_gpu(const kernel::AttentionPlan<bf16>& plan, Index keys, std::size_t bytes) {
  const Index blocks = device_attribute(cudaDevAttrMultiProcessorCount) * Index{Tile::blocks};
  const auto memory = static_cast<std::size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
  return head_count(plan) >= blocks && 2 * keys >= plan.count() * Tile::rows &&
         Tile::blocks * (bytes + reserved_block_bytes) <= memory;
}

}  // namespace

bool compute_head_gradients(const kernel::AttentionPlan<bf16>& plan, const BackwardInputs<bf16>& x,
                            MatrixView<const bf16> y, MatrixView<bf16> dq, MatrixView<bf16> dk, MatrixView<bf16> dv) {
  // Heads up to 32 wide have no blocks of eight warps, because at least half of the warps would have no share of dq.
  constexpr Index longest = 256, widest = 64;
  const Index width = std::max(x.q.width, x.v.width) / plan.heads, rows = std::max(plan.longest_q, plan.longest_k);
  const AttentionTask<bf16> task{plan};
  if (task.may_mask || rows > longest || width > widest || !dq.data || !dk.data || !dv.data) return false;
  const auto launch_if_faster = [&]<int tile_width, int warps>() {
    using Tile = HeadTile<tile_width, warps>;
    constexpr std::size_t bytes = HeadArrays<tile_width, warps>::bytes;
    if (block_threads(Tile::threads) < Tile::threads) return false;  // ThreadSanitizer checks smaller blocks alone
    if (bytes > static_cast<std::size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin))) return false;
    if (limits.block_heads < 0 ? !fill_the_gpu<Tile>(plan, x.k.rows, bytes) : head_count(plan) < limits.block_heads)
      return false;
    launch<head_gradients<tile_width, warps>>({1, grid_height(head_count(plan))}, Tile::threads, bytes,
                                              current_stream(), task, x, y, dq, dk, dv);
    return true;
  };
  bool is_done = false;
  with_tile_width(width, [&](auto tile_width) {
    if constexpr (tile_width <= widest)
      if (rows <= longest / 2) is_done = launch_if_faster.template operator()<tile_width, 4>();
    if constexpr (tile_width == widest)
      if (rows > longest / 2) is_done = launch_if_faster.template operator()<tile_width, 8>();
  });
  return is_done;
}

}  // namespace heddle::cuda
