// The rows of one head of one sequence: where they stand in global memory, how a block loads them into shared memory,
// and how a warp stores the 16 rows that it owns.
#pragma once
#include "../device/access.cuh"
#include "../device/copy_async.cuh"
#include "../device/shared.cuh"

namespace heddle::cuda {

constexpr int slice_rows = 16;  // a slice of own rows: as many as a tensor core's product has
constexpr int quad = 4;         // lanes that hold the same row of a product

// Unsigned remainders and quotients take one instruction.
__device__ inline int lane_index() { return static_cast<int>(threadIdx.x % warp_size); }
__device__ inline int warp_index() { return static_cast<int>(threadIdx.x / warp_size); }

// Returns the lane, read anew, so that the compiler keeps nothing that depends on it in registers meanwhile. Signed,
// because with an unsigned one nvcc 13.0 needs up to four instructions more for a tile of attend.
__device__ inline int reread_lane_index() {
#ifdef __CUDACC__
  int thread;
  asm volatile("mov.u32 %0, %%tid.x;" : "=r"(thread));
  return thread % warp_size;
#else
  return lane_index();
#endif
}

// --- rows in global memory -------------------------------------------------------------------------------------------

// The rows of a sequence, restricted to the columns of one head.
template <class T>
struct HeadRows {
  T* data;
  int stride, count, width;
  bool vectors;  // accesses of 16 bytes are aligned

  __device__ T& operator()(Index n, int d) const { return data[n * stride + d]; }
  // Returns the columns from d on. d is a multiple of per_access<T>, the number of elements in a 16-byte access.
  __device__ HeadRows columns_from(int d) const { return {data + d, stride, count, width - d, vectors}; }
};

// Returns the position of own row `row` in the sequence, relative to the first row that the block owns. Own queries
// keep their order. Own keys are permuted within groups of 32, which two warps share, so that each call of the
// dropout's generator serves a single warp: call t (0 to 3) of a group decides keys 8 m + 2 t and 8 m + 2 t + 1, for m
// = 0 to 3.
template <bool own_keys>
__device__ int own_row_offset(int row) {
  if constexpr (!own_keys) return row;
  const auto r = static_cast<unsigned>(row);  // whose quotients and remainders take one instruction
  return static_cast<int>(r / 32 * 32 + r % 16 / 4 * 8 + r % 32 / 16 * 4 + r % 4);
}

// --- rows in shared memory -------------------------------------------------------------------------------------------

template <class T>
constexpr int per_access = access_bytes / static_cast<int>(sizeof(T));
// The elements from one row to the next: an odd number of 16-byte accesses, so that the same access of eight rows
// covers all banks.
template <class T, int width>
constexpr int row_stride = width + per_access<T>;

// The copies of a head's rows in two matrices, tile by tile, as long as the tiles are whole. A thread copies one access
// of each row_step-th row. Its first access moves on by a tile at a time, and all other distances are known at compile
// time, so a copy takes two instructions.
template <class T, int width, int tile_rows, int threads>
class TileCopies {
 public:
  // The copies from tile `first` on. There are none if the rows are narrower than `width` or not aligned, or if the
  // block has fewer threads.
  __device__ TileCopies(const HeadRows<const T>& c, const HeadRows<const T>& d, int first)
      : c_(c, first), d_(d, first), end_(fit(c) && fit(d) && blockDim.x == threads ? c.count / tile_rows : 0) {}

  // Starts the copies of tile `tile`, the successor of that of the last call. Returns false if load_rows() has to load
  // it. All threads of the block call this.
  __device__ __forceinline__ bool start(int tile, T* to_c, T* to_d) {
    if (tile >= end_) return false;
    if (moves_first) move_on();
    c_.start(to_c);
    d_.start(to_d);
    if (!moves_first) move_on();
    return true;
  }

 private:
  static constexpr int of_row = width / per_access<T>, row_step = threads / of_row;
  __device__ static int first_row() { return static_cast<int>(threadIdx.x / of_row); }
  __device__ static int column() { return static_cast<int>(threadIdx.x % of_row) * per_access<T>; }
  __device__ static bool fit(const HeadRows<const T>& x) { return x.vectors && x.width == width; }

  // A thread that has a single access in a tile moves on before it. If it moved on afterwards, nvcc would keep a copy
  // of the address.
  static constexpr bool moves_first = row_step >= tile_rows;

  struct Matrix {
    const T* at;  // the thread's first access of the next tile, or of the last one if it moves first
    int stride;

    __device__ Matrix(const HeadRows<const T>& x, int first)
        : at(x.data + (Index{first - moves_first} * tile_rows + first_row()) * x.stride + column()), stride(x.stride) {}

    __device__ __forceinline__ void move_on() { at += Index{tile_rows} * stride; }
    __device__ __forceinline__ void start(T* to) const {
      if (row_step > tile_rows && first_row() >= tile_rows) return;
      to += first_row() * row_stride<T, width> + column();
      for (int row = 0; row < tile_rows; row += row_step)
        copy_async(to + row * row_stride<T, width>, at + Index{row} * stride);
    }
  };
  __device__ __forceinline__ void move_on() {
    c_.move_on();
    d_.move_on();
  }

  Matrix c_, d_;
  int end_;
};

// Loads `rows` rows from `first` on. Fills the rest with zeros: rows after the sequence's last and columns after the
// head's last. `gap` elements follow each 16 rows. All threads of the block call this; the caller commits and waits for
// the copies.
template <int width, bool own_keys = false, int gap = 0, class T>
__device__ void load_rows(T* tile, HeadRows<const T> x, int first, int rows) {
  constexpr int each = per_access<T>, of_row = width / each;  // elements of an access, and accesses of a row
  if (x.vectors) {
    const int d = static_cast<int>(threadIdx.x % of_row) * each, begin = static_cast<int>(threadIdx.x / of_row);
    const int step = static_cast<int>(blockDim.x / of_row);  // rows; a block has at least 32 threads
    const int last = d < x.width ? x.count - first : 0;
    T* to = tile + begin * row_stride<T, width> + d;  // without gaps
    const T* from = x.data + static_cast<Index>(first + begin) * x.stride + d;
    const Index from_step = static_cast<Index>(step) * x.stride;
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (int row = begin; row < rows; row += step) {
      if constexpr (own_keys) from = x.data + static_cast<Index>(first + own_row_offset<true>(row)) * x.stride + d;
      const bool inside = (own_keys ? own_row_offset<true>(row) : row) < last;
      copy_async(to + row / slice_rows * gap, inside ? from : x.data, inside ? access_bytes : 0);
      to += step * row_stride<T, width>;
      from += from_step;
    }
  } else
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (int i = static_cast<int>(threadIdx.x); i < rows * width; i += static_cast<int>(blockDim.x)) {
      const int row = i / width, d = i % width, n = first + own_row_offset<own_keys>(row);
      tile[row * row_stride<T, width> + row / slice_rows * gap + d] = n < x.count && d < x.width ? x(n, d) : T(0.f);
    }
}

// Stores 16 own rows of a warp, the block's slice `slice`, from registers to global memory. Rows 0 to 7 are multiplied
// by `factor`, rows 8 to 15 by `factor8`. They pass through `staging`, [16, row_stride] of shared memory that only this
// warp uses meanwhile.
template <int width, bool own_keys, class T>
__device__ __forceinline__ void store_rows(const float (&sum)[width / 8][4], float factor, float factor8, T* staging,
                                           HeadRows<T> to, int first, int slice) {
  constexpr int each = per_access<T>, of_row = width / each;  // elements of an access, and accesses of a row
  const int lane = reread_lane_index();
  T* const at = staging + lane / quad * row_stride<T, width> + lane % quad * 2;
  __syncwarp();  // until no lane reads what `staging` held
  for (int d = 0; d < width / 8; ++d) {
    store_vector(at + 8 * d, Vector<T, 2>{{T(sum[d][0] * factor), T(sum[d][1] * factor)}});
    store_vector(at + 8 * d + 8 * row_stride<T, width>, Vector<T, 2>{{T(sum[d][2] * factor8), T(sum[d][3] * factor8)}});
  }
  __syncwarp();
  const auto row_of = [&](int row) { return first + own_row_offset<own_keys>(slice * slice_rows + row); };
  if (to.vectors)
    for (int row = lane / of_row, d = lane % of_row * each; row < slice_rows; row += warp_size / of_row) {
      const int n = row_of(row);
      if (n < to.count && d < to.width) copy_access(&to(n, d), staging + row * row_stride<T, width> + d);
    }
  else
#ifdef __CUDACC__
#pragma unroll 1
#endif
    for (int i = lane; i < slice_rows * width; i += warp_size) {
      const int row = i / width, d = i % width, n = row_of(row);
      if (n < to.count && d < to.width) to(n, d) = staging[row * row_stride<T, width> + d];
    }
}

}  // namespace heddle::cuda
