// Rows that several threads own together: some lanes of a warp where rows are short, several warps or a whole block
// where they are long. A row that fits into its team's registers is read once.
#pragma once
#include "block.cuh"
#include "vector.cuh"

namespace heddle::cuda {

// 1 to 32 neighboring lanes, so that a warp owns 32 to 1 rows. All lanes of the warp must call sum and max.
struct LaneTeam {
  static constexpr int most_threads = 128;  // of a block
  int bits;                                 // log2 of the number of lanes

  // Returns the smallest team that holds n elements, `each` in each lane, or a whole warp if none does.
  static LaneTeam for_row(Index n, int each) {
    int bits = 0;
    while ((Index{each} << bits) < n && (1 << bits) < warp_size) ++bits;
    return {bits};
  }
  HEDDLE_HD int size() const { return 1 << bits; }
  HEDDLE_HD unsigned threads() const { return most_threads; }
  HEDDLE_HD int rows() const { return most_threads >> bits; }  // of a block
  __device__ int row() const { return static_cast<int>(threadIdx.x) >> bits; }
  __device__ int rank() const { return static_cast<int>(threadIdx.x) & (size() - 1); }
  __device__ float sum(float value) const {
    for (int distance = size() / 2; distance > 0; distance /= 2) value += __shfl_xor_sync(all_lanes, value, distance);
    return value;
  }
  // Returns the largest value of the team to each of its threads; NaN is ignored.
  __device__ float max(float value) const {
    for (int distance = size() / 2; distance > 0; distance /= 2)
      value = fmaxf(value, __shfl_xor_sync(all_lanes, value, distance));
    return value;
  }
};

// One or more neighboring warps, so that a block owns several rows. All threads of the block must call sum.
struct WarpTeam {
  int warps;

  // Returns the smallest team that holds n elements, `each` in each thread.
  static WarpTeam for_row(Index n, int each) {
    const int of_warp = each * warp_size;
    return {static_cast<int>((n + of_warp - 1) / of_warp)};
  }
  HEDDLE_HD int size() const { return warps * warp_size; }
  __device__ int row() const { return static_cast<int>(threadIdx.x) / size(); }
  __device__ int rank() const { return static_cast<int>(threadIdx.x) % size(); }
  // Replaces each value by its sum over the team.
  template <int count>
  __device__ void sum(float (&values)[count]) const {
    auto& of_warp = shared<float[count][most_warps]>();
    const int lane = static_cast<int>(threadIdx.x) % warp_size, warp = static_cast<int>(threadIdx.x) / warp_size;
    for (float& value : values) value = warp_sum(value);
    __syncthreads();  // until all threads have read the previous sums
    for (int i = 0; i < count; ++i)
      if (lane == 0) of_warp[i][warp] = values[i];
    __syncthreads();
    for (int i = 0; i < count; ++i) values[i] = warp_sum(lane < warps ? of_warp[i][row() * warps + lane] : 0.f);
  }
};

// A block of up to `most` threads.
template <int most>
struct BlockTeam {
  static constexpr int most_threads = most;
  int count;  // a power of two, at least a warp

  // Returns the smallest team that holds n elements, `each` in each thread, or one of `most` threads if none does.
  static BlockTeam for_row(Index n, int each) {
    int count = warp_size;
    while (Index{each} * count < n && count < most) count *= 2;
    return {count};
  }
  HEDDLE_HD int size() const { return count; }
  HEDDLE_HD unsigned threads() const { return static_cast<unsigned>(count); }
  HEDDLE_HD int rows() const { return 1; }
  __device__ int row() const { return 0; }
  __device__ int rank() const { return static_cast<int>(threadIdx.x); }
  __device__ float sum(float value) const { return block_sum(value); }
  __device__ float max(float value) const { return block_max(value); }
};

// Calls f(i, first) for each access of this thread to a row of n elements: the i-th one covers `width` neighbors
// from `first` on.
template <int width, int accesses, class Team, class F>
__device__ void for_held(const Team& team, Index n, F&& f) {
  for (int i = 0; i < accesses; ++i) {
    const int first = (team.rank() + i * team.size()) * width;
    if (first < n) f(i, first);
  }
}
// Loads this thread's part of a row of n elements; n is a multiple of `width`. Elements beyond the row become `beyond`,
// which T can represent. All loads are issued before the first element is used.
template <int width, int accesses, class Team, class T>
__device__ void load_held(const Team& team, const T* row, Index n, float beyond, float (&held)[accesses][width]) {
  Vector<T, width> read[accesses];
  for (auto& values : read)
    for (T& value : values.at) value = T(beyond);
  for_held<width, accesses>(team, n, [&](int i, int first) { read[i] = load_vector<width>(row + first); });
  for (int i = 0; i < accesses; ++i)
    for (int j = 0; j < width; ++j) held[i][j] = static_cast<float>(read[i].at[j]);
}

// Calls f with the number of elements of one access, as a type: 16 bytes if the pointers and the row length n allow it,
// otherwise one element.
template <class T, class F, class... U>
void with_width(Index n, F&& f, const U*... pointers) {
  constexpr int width = vector_width<T>;
  if (n % width == 0 && aligned<width>(pointers...)) return f(std::integral_constant<int, width>());
  f(std::integral_constant<int, 1>());
}

// The number of elements of a row that a thread may hold: fewer if each element needs an access with its own address
// and bounds check.
template <int width>
inline constexpr int most_held = width == 1 ? 8 : 32;

// Calls f(team, each) for a row of n elements: a team whose threads hold `each` elements, a number passed as a type.
// Returns false if no team holds n elements.
template <int width, int most_threads, class F>
bool with_team(Index n, F&& f) {
  constexpr int few = 8, many = most_held<width>;
  if (n <= few * warp_size)
    f(LaneTeam::for_row(n, few), std::integral_constant<int, few>());
  else if (many > few && n <= many * warp_size)
    f(LaneTeam::for_row(n, many), std::integral_constant<int, many>());
  else if (n <= many * most_threads)
    f(BlockTeam<most_threads>::for_row(n, many), std::integral_constant<int, many>());
  else
    return false;
  return true;
}

}  // namespace heddle::cuda
