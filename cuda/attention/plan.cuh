// A block's task in attention's kernels: which head of which sequence it works on, how it iterates over tiles of rows,
// and with how many warps, stages and bytes of shared memory the host launches it. docs/kernels.md describes each
// kernel.
#pragma once
#include <heddle/gpu/kernels.hpp>

#include "../device/launch.cuh"
#include "../device/limits.cuh"
#include "../device/workspace.cuh"
#include "kept_draws.cuh"
#include "rows.cuh"

namespace heddle::cuda {

// --- the task --------------------------------------------------------------------------------------------------------

// A plan, and what the kernels need of its dropout: the numbers of generator calls and of groups of calls for one
// query's scores, the keys of the generator's rounds, and the decisions on its draws.
template <class T>
struct AttentionTask {
  kernel::AttentionPlan<T> plan;
  std::uint32_t calls_per_row = static_cast<std::uint32_t>(plan.calls_per_query);
  std::uint32_t groups_per_row =
      static_cast<std::uint32_t>(kernel::calls_per_score_row(plan.longest_k) / kernel::calls_per_draw_group);
  kernel::PhiloxKeys keys = kernel::PhiloxKeys(plan.draws.key());
  KeptDraws kept = KeptDraws(plan.dropout);
  // The plan's distances.
  int past = static_cast<int>(std::min<Index>(plan.past, std::numeric_limits<int>::max()));
  int future = static_cast<int>(std::min<Index>(plan.future, std::numeric_limits<int>::max()));
  bool may_mask = plan.limits_distances() || plan.mask.data || plan.bias.data;  // pairs of rows of the same sequence

  HEDDLE_HD bool has_dropout() const { return plan.dropout.threshold > 0; }
};

// The operands of a backward.
template <class T>
struct BackwardInputs {
  MatrixView<const T> q, k, v, dy;
  View<const float, 2> lse, delta;  // [H, Nq]
};

// One head of one sequence.
template <class T>
struct SequenceHead {
  Index pair;                // b * heads + h
  std::uint64_t first_call;  // of the dropout's generator in this run, for the first query's scores
  std::uint32_t first_word;  // of the stored decisions (dropout.cuh)
  int b, h, heads;
  int q_begin, queries, k_begin, keys;

  __device__ SequenceHead(const kernel::AttentionPlan<T>& plan, Index number)
      : pair(number),
        first_call(plan.draws.calls_further() + static_cast<std::uint64_t>(number * plan.calls_per_head)),
        first_word(static_cast<std::uint32_t>(number * kernel::kept_words(plan.longest_q, plan.longest_k))),
        b(static_cast<int>(number / plan.heads)),
        h(static_cast<int>(number % plan.heads)),
        heads(static_cast<int>(plan.heads)),
        q_begin(plan.q_begin(b)),
        queries(plan.q_length(b)),
        k_begin(plan.k_begin(b)),
        keys(plan.k_length(b)) {}

  template <class E>
  __device__ HeadRows<E> rows(MatrixView<E> x, int begin, int count) const {
    const int width = static_cast<int>(x.width) / heads;
    E* const data = x.data + begin * x.stride + h * width;
    const auto bytes =
        reinterpret_cast<std::uintptr_t>(data) | static_cast<std::uintptr_t>(x.stride | width) * sizeof(E);
    return {data, static_cast<int>(x.stride), count, width, bytes % access_bytes == 0};
  }
  template <class E>
  __device__ HeadRows<E> query_rows(MatrixView<E> x) const {
    return rows(x, q_begin, queries);
  }
  template <class E>
  __device__ HeadRows<E> key_rows(MatrixView<E> x) const {
    return rows(x, k_begin, keys);
  }
};

// Returns the number of heads of all sequences.
template <class T>
HEDDLE_HD Index head_count(const kernel::AttentionPlan<T>& plan) {
  return plan.q_begin.extent[0] * plan.heads;
}

// A head, and the rows of the two matrices whose tiles a block loads.
template <class T>
struct BlockHead {
  SequenceHead<T> head;
  HeadRows<const T> c, d;
};

// Calls f(head, c, d) for each head that the block processes: every gridDim.y-th from blockIdx.y on. c and d are the
// head's rows of two matrices: of the keys, or of the queries if the block owns keys. They are in shared memory,
// because registers are scarce. All threads of the block call this.
template <bool own_keys, class T, class F>
__device__ __forceinline__ void for_each_head(BlockHead<T>* shared, const kernel::AttentionPlan<T>& plan,
                                              MatrixView<const T> c, MatrixView<const T> d, F f) {
  for (Index pair = blockIdx.y; pair < head_count(plan); pair = shared->head.pair + gridDim.y) {
    __syncthreads();  // until no thread reads the previous head
    if (threadIdx.x == 0) {
      const SequenceHead<T> head(plan, pair);
      *shared = {head, own_keys ? head.query_rows(c) : head.key_rows(c),
                 own_keys ? head.query_rows(d) : head.key_rows(d)};
    }
    __syncthreads();
    f(shared->head, shared->c, shared->d);
  }
}
constexpr std::size_t shared_head_bytes = SharedArrays::rounded(sizeof(BlockHead<float>));

// --- distances -------------------------------------------------------------------------------------------------------

// A range of rows.
struct RowRange {
  int begin, end;
};

// Return the other rows that some own row of [first, last] sees, and those that all of them see, if no mask hides them.
// `others` is the number of other rows. The second range may begin before row 0.
template <bool own_keys, class T>
__device__ __forceinline__ RowRange rows_seen_by_any(const AttentionTask<T>& task, int others, int first, int last) {
  const int before = own_keys ? task.future : task.past, after = own_keys ? task.past : task.future;
  return {first > before ? first - before : 0, last + 1 < others - after ? last + 1 + after : others};
}
template <bool own_keys, class T>
__device__ __forceinline__ RowRange rows_seen_by_all(const AttentionTask<T>& task, int others, int first, int last) {
  const int before = own_keys ? task.future : task.past, after = own_keys ? task.past : task.future;
  return {last - before, first + 1 < others - after ? first + 1 + after : others};
}

// --- tiles -----------------------------------------------------------------------------------------------------------

constexpr int other_step = 16;  // other rows are processed in steps of 16: the depth of a tensor core's bf16 product

// Unsigned quotients by a constant take one instruction.
HEDDLE_HD inline int tiles_for(Index count, unsigned each) {
  return static_cast<int>((static_cast<unsigned>(count) + each - 1) / each);
}
// Returns how many of the `left` rows a tile has, rounded up to whole steps.
__device__ inline int rows_in_tile(int left, int tile_rows) {
  if (left <= 0) return 0;
  return left < tile_rows ? (left + other_step - 1) / other_step * other_step : tile_rows;
}

// Starts the copies of tile `tile` of two matrices, the successor of that of the last call. All threads of the block
// call this.
template <class T, int width, int tile_rows, int threads>
__device__ __forceinline__ void load_tile(TileCopies<T, width, tile_rows, threads>& copies, const HeadRows<const T>& c,
                                          const HeadRows<const T>& d, int tile, T* to_c, T* to_d) {
  if (copies.start(tile, to_c, to_d)) return;
  const int at = tile * tile_rows, count = rows_in_tile(c.count - at, tile_rows);
  load_rows<width>(to_c, c, at, count);
  load_rows<width>(to_d, d, at, count);
}

// A number that is known from its type.
template <auto value>
struct Constant {
  HEDDLE_HD constexpr operator decltype(value)() const { return value; }
};

// The tiles [first, last) of other rows that a block processes.
struct TileRange {
  int first, last;

  // Takes the rows that the block sees.
  __device__ TileRange(RowRange seen, unsigned tile_rows)
      : first(seen.begin < seen.end ? static_cast<int>(static_cast<unsigned>(seen.begin) / tile_rows) : 0),
        last(seen.begin < seen.end ? tiles_for(seen.end, tile_rows) : 0) {}
  __device__ bool is_empty() const { return first == last; }
  __device__ bool has(int tile) const { return first <= tile && tile < last; }
};

// Processes tiles [first, last): load(tile, stage) starts a tile's copies, and use(tile, stage) runs when they are
// complete. The copies of the next `ahead` tiles (0, 1 or 3, which may be a Constant) are under way meanwhile, so there
// are ahead + 1 stages. begin() runs before the first tile, when the copies of the first `ahead` tiles are under way.
// All threads of the block call this.
template <class Ahead, class Load, class Begin, class Use>
__device__ __forceinline__ void for_each_tile(int first, int last, Ahead ahead, Load load, Begin begin, Use use) {
  for (int tile = first; tile < first + ahead; ++tile) {
    if (tile < last) load(tile, tile & ahead);
    commit_copies();
  }
  if (first < last) begin();
  for (int tile = first; tile < last; ++tile) {
    if (ahead == 1)
      wait_copies<0>();
    else if (ahead == 3)
      wait_copies<2>();
    __syncthreads();  // the tile is complete, and no warp reads the previous one
    const int loaded = tile + ahead;
    if (loaded < last) load(loaded, loaded & ahead);
    commit_copies();
    if (ahead == 0) {
      wait_copies<0>();
      __syncthreads();
    }
    use(tile, tile & ahead);
  }
}

// --- the launch ------------------------------------------------------------------------------------------------------

constexpr std::size_t reserved_block_bytes = 1024;  // of shared memory, by CUDA in each block

// Returns the y dimension of a grid for `heads` heads of all sequences. If it is less than `heads`, a block processes
// several heads.
inline unsigned grid_height(Index heads) { return static_cast<unsigned>(std::min(heads, limits.head_blocks)); }

// The launch configuration of a kernel whose warps own rows. The kernel's results do not depend on it.
struct AttentionLaunch {
  int warps, warp_rows, stages;
  std::size_t shared_bytes;

  int rows() const { return warps * warp_rows; }
  template <class T>
  dim3 grid(const kernel::AttentionPlan<T>& plan, Index longest_own) const {
    return {blocks_for(longest_own, rows()), grid_height(head_count(plan))};
  }
};

// Chooses the warps of a block and its shared memory, bytes(warps): enough warps for the own rows of the longest
// sequence, in pairs if a warp has 16 of them, up to Tile::warps. A block that would exceed the GPU's limit of shared
// memory gets fewer.
template <class Tile, class Bytes>
AttentionLaunch choose_launch(Index longest_own, Bytes bytes) {
  constexpr int least = 2 * slice_rows / Tile::warp_rows;  // warps: those that share a group of 32 own keys
  const Index wanted = (longest_own + 2 * slice_rows - 1) / (2 * slice_rows) * least;
  AttentionLaunch launch{static_cast<int>(std::clamp<Index>(wanted, least, Tile::warps)), Tile::warp_rows, Tile::stages,
                         0};
  const auto limit = static_cast<std::size_t>(device_attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
  while (bytes(launch.warps) > limit && launch.warps > least)
    launch.warps = std::max(least, launch.warps / (2 * least) * least);
  launch.shared_bytes = bytes(launch.warps);
  return launch;
}

// Chooses also the number of stages, for kernels that can have fewer or more than two. There is one if all other rows
// fit into a tile, otherwise there are two. Up to 128 other rows get a stage for each tile if the shared memory of a
// multiprocessor then suffices for `blocks` blocks, as many as its registers allow. A block that exceeds the limit of
// shared memory with the least warps gets a single stage. bytes(warps, stages) returns what a block needs.
template <class Tile, class Bytes>
AttentionLaunch choose_staged_launch(Index longest_own, Index longest_other, int blocks, Bytes bytes) {
  constexpr Index held_at_once = 128;  // other rows
  const auto with_stages = [&](int stages) {
    AttentionLaunch launch = choose_launch<Tile>(longest_own, [&](int warps) { return bytes(warps, stages); });
    launch.stages = stages;
    return launch;
  };
  const auto limit = [](cudaDeviceAttr which) { return static_cast<std::size_t>(device_attribute(which)); };
  if (longest_other <= Tile::other_rows) return with_stages(1);
  if (longest_other > 2 * Tile::other_rows && longest_other <= held_at_once) {
    const AttentionLaunch launch = with_stages(held_at_once / Tile::other_rows);
    if (static_cast<std::size_t>(blocks) * (launch.shared_bytes + reserved_block_bytes) <=
        limit(cudaDevAttrMaxSharedMemoryPerMultiprocessor))
      return launch;
  }
  const AttentionLaunch launch = with_stages(2);
  return launch.shared_bytes <= limit(cudaDevAttrMaxSharedMemoryPerBlockOptin) ? launch : with_stages(1);
}

// Fp32 rows whose products run on tensor cores, which take 11 significant bits of each operand.
struct Tf32 {};

// Calls f with the smallest tile width of 16, 32, 64 and 128 that holds a head of width `widest`. The width is passed
// as a type.
template <class F>
void with_tile_width(Index widest, F&& f) {
  if (widest <= 16) return f(std::integral_constant<int, 16>());
  if (widest <= 32) return f(std::integral_constant<int, 32>());
  if (widest <= 64) return f(std::integral_constant<int, 64>());
  f(std::integral_constant<int, static_cast<int>(kernel::widest_tiled_head)>());
}
// Calls f with the arithmetic of a plan's products, as a type: T or Tf32 (products.cuh).
template <class T, class F>
void with_math(const kernel::AttentionPlan<T>& plan, F&& f) {
  if constexpr (std::is_same_v<T, float>)
    if (plan.tf32) return f.template operator()<Tf32>();
  f.template operator()<T>();
}
// Calls f with the arithmetic and the tile width.
template <class T, class F>
void with_tile(const kernel::AttentionPlan<T>& plan, Index widest, F&& f) {
  with_math(plan,
            [&]<class Math>() { with_tile_width(widest, [&](auto width) { f.template operator()<Math, width>(); }); });
}

}  // namespace heddle::cuda
