// The rows that one head of one sequence has in q, k, v and the like, and their way through shared memory. Rows come there from
// all threads of a block, and are zeros where the sequence has ended; the block's `own` rows, 16 for each warp, leave it again.
#pragma once
#include <heddle/gpu/kernels.hpp>

#include "access.cuh"
#include "copy_async.cuh"
#include "shared.cuh"

namespace heddle::cuda {

constexpr int own_rows = 16;  // of a warp: rows of a tensor core's product
constexpr int quad = 4;       // lanes that share an own row

// The rows of a sequence, in the columns of a head.
template <class T>
struct HeadRows {
  T* data;
  int stride, count, width;
  bool vectors;  // accesses of 16 bytes are aligned

  __device__ T& operator()(Index n, int d) const { return data[n * stride + d]; }
  // Without the first columns, whole accesses of them.
  __device__ HeadRows from(int d) const { return {data + d, stride, count, width - d, vectors}; }
};

// One head of one sequence.
template <class T>
struct SequenceHead {
  Index pair;  // b * heads + h
  int b, h, heads;
  int q_begin, queries, k_begin, keys;

  __device__ SequenceHead(const kernel::AttentionPlan<T>& plan, Index number)
      : pair(number),
        b(static_cast<int>(number / plan.heads)),
        h(static_cast<int>(number % plan.heads)),
        heads(static_cast<int>(plan.heads)),
        q_begin(plan.q_begin(b)),
        queries(plan.q_length(b)),
        k_begin(plan.k_begin(b)),
        keys(plan.k_length(b)) {}

  template <class E>
  __device__ HeadRows<E> rows(MatrixView<E> x, int begin, int count) const {
    const Index width = x.width / heads;
    E* const data = x.data + begin * x.stride + h * width;
    const auto bytes =
        reinterpret_cast<std::uintptr_t>(data) | static_cast<std::uintptr_t>(x.stride | width) * sizeof(E);
    return {data, static_cast<int>(x.stride), count, static_cast<int>(width), bytes % access_bytes == 0};
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

template <class T>
HEDDLE_HD Index head_count(const kernel::AttentionPlan<T>& plan) {
  return plan.q_begin.extent[0] * plan.heads;
}

// Calls f with each of the heads that are the block's, those of its y in the grid. The head is in shared memory, `room`, where it
// takes no registers. All threads of the block come.
template <class T, class F>
__device__ __forceinline__ void for_each_head(SequenceHead<T>* room, const kernel::AttentionPlan<T>& plan, F f) {
  for (Index pair = blockIdx.y; pair < head_count(plan); pair = room->pair + gridDim.y) {
    __syncthreads();  // until all are done with the one before
    if (threadIdx.x == 0) *room = SequenceHead<T>(plan, pair);
    __syncthreads();
    f(*room);
  }
}
constexpr std::size_t shared_head_bytes = SharedArrays::rounded(sizeof(SequenceHead<float>));

// Where in the block's part of the sequence own row `row` lies. Two warps share 32 keys such that one call of the
// dropout's draws, which decides keys 8 m + 2 t and 8 m + 2 t + 1, serves a single warp.
template <bool own_keys>
__device__ int own_place(int row) {
  if constexpr (!own_keys) return row;
  return row / 32 * 32 + row % 16 / 4 * 8 + row % 32 / 16 * 4 + row % 4;
}

// --- rows in shared memory ------------------------------------------------------------------------------------------------

template <class T>
constexpr int per_access = access_bytes / static_cast<int>(sizeof(T));
// Elements from one row to the next: an odd number of accesses, so that the same one of eight rows lies in all banks.
template <class T, int width>
constexpr int row_stride = width + per_access<T>;

// `rows` rows from `first` on; zeros from the sequence's end on, and to the right of the head. All threads of the block
// come; the copies are to be committed and waited for.
template <int width, bool own_keys = false, class T>
__device__ void load_rows(T* tile, HeadRows<const T> x, int first, int rows) {
  constexpr int each = per_access<T>;
  if (x.vectors)
    for (int i = static_cast<int>(threadIdx.x) * each; i < rows * width; i += static_cast<int>(blockDim.x) * each) {
      const int row = i / width, d = i % width, n = first + own_place<own_keys>(row);
      const bool inside = n < x.count && d < x.width;
      copy_async(tile + row * row_stride<T, width> + d, inside ? &x(n, d) : x.data, inside ? access_bytes : 0);
    }
  else
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += static_cast<int>(blockDim.x)) {
      const int row = i / width, d = i % width, n = first + own_place<own_keys>(row);
      tile[row * row_stride<T, width> + d] = n < x.count && d < x.width ? x(n, d) : T(0.f);
    }
}

// A warp's own rows, times a factor for each half, through `room`, which is the warp's [16, row_stride], to memory.
template <int width, bool own_keys, class T>
__device__ __forceinline__ void store_rows(const float (&sum)[width / 8][4], float factor, float factor8, T* room,
                                           HeadRows<T> to, int own) {
  constexpr int each = per_access<T>;
  const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
  T* const at = room + lane / quad * row_stride<T, width> + lane % quad * 2;
  for (int d = 0; d < width / 8; ++d) {
    store_vector(at + 8 * d, Vector<T, 2>{{T(sum[d][0] * factor), T(sum[d][1] * factor)}});
    store_vector(at + 8 * d + 8 * row_stride<T, width>, Vector<T, 2>{{T(sum[d][2] * factor8), T(sum[d][3] * factor8)}});
  }
  __syncwarp();
  const auto place = [&](int row) { return own + own_place<own_keys>(warp * own_rows + row); };
  if (to.vectors)
    for (int i = lane * each; i < own_rows * width; i += warp_size * each) {
      const int row = i / width, d = i % width, n = place(row);
      if (n < to.count && d < to.width)
        store_vector(&to(n, d), load_vector<each>(room + row * row_stride<T, width> + d));
    }
  else
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (int i = lane; i < own_rows * width; i += warp_size) {
      const int row = i / width, d = i % width, n = place(row);
      if (n < to.count && d < to.width) to(n, d) = room[row * row_stride<T, width> + d];
    }
}

}  // namespace heddle::cuda
