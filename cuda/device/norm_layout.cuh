// The layout of the rows [N, D] of norms in threads, for norm_forward.cuh and norm_backward.cuh.
//
// A team of threads owns a row: 1 to 32 lanes of a warp up to 1024 columns, a block beyond. A thread owns groups of
// eight neighboring columns, in accesses of 16 bytes where the width is a multiple of eight and pointers are aligned;
// otherwise it reads them one by one. Rows of up to 8192 columns stay in registers, or up to 4096 if they are read one
// by one. There are no atomics: results depend neither on the schedule nor on the number of multiprocessors.
#pragma once
#include "eight.cuh"
#include "row_team.cuh"

namespace heddle::cuda {

struct NormTile {
  static constexpr int lane_values = 4096;                 // the most elements in the registers of a block of LaneTeams
  static constexpr int lane_threads = block_threads(256);  // the most threads of such a block
  static constexpr int row_threads = block_threads(512);   // the most threads of a block that owns a row
  static constexpr int splits = block_threads(512) / warp_size;  // warps that share the rows of 32 columns
};

// The layout of rows in teams. A thread owns `groups` groups of eight columns; consecutive groups are 8 times the
// team's size apart. A row that does not fit into registers (`whole` is false) is processed in stretches of as many
// columns as the team holds.
template <class Team_, int groups_, bool vectors_, bool whole_ = true>
struct NormLayout {
  using Team = Team_;
  using Column = std::conditional_t<whole_, int, Index>;
  static constexpr bool vectors = vectors_, whole = whole_, lanes = std::is_same_v<Team, LaneTeam>;
  static constexpr int groups = groups_, values = groups * eight;  // of a thread
  static constexpr int lane_threads =
      std::min(NormTile::lane_threads, NormTile::lane_values / values / warp_size * warp_size);
  static constexpr int threads = lanes ? lane_threads : NormTile::row_threads;         // of a block, at most
  static constexpr int widest = values * (lanes ? warp_size : NormTile::row_threads);  // columns of a team

  Team team;

  explicit NormLayout(Index D) : team(Team::for_row(D, values)) {}
  unsigned block() const { return static_cast<unsigned>(lanes ? threads : team.size()); }
  // Returns the number of rows of a block.
  HEDDLE_HD int rows() const {
    if constexpr (lanes) return threads >> team.bits;
    return 1;
  }
  // Returns the first column of a group of this thread.
  __device__ int column(int group) const { return (team.rank() + group * team.size()) * eight; }
  // Returns whether this thread's column i is left of `end`, which is a multiple of eight for vectors.
  __device__ bool inside(int i, Column first, Column end) const {
    return first + column(i / eight) + (vectors ? 0 : i % eight) < end;
  }
  // Calls f(first column) for each stretch of a row.
  template <class F>
  __device__ void for_stretches(Column D, F&& f) const {
    if constexpr (whole)
      f(0);
    else
      for (Column first = 0; first < D; first += team.size() * values) f(first);
  }
  // Loads this thread's groups of a stretch; columns from `end` on become 0.
  template <class T>
  __device__ void load(const T* row, Column first, Column end, Eight<T> (&to)[groups]) const {
    for (int g = 0; g < groups; ++g) {
      const Column d = first + column(g);
      to[g] = load_eight<vectors>(row + d, end - d);
    }
  }
};

// WholeResult and DroppedResult are what follows a norm: nothing, or a dropout. apply(e, eight) changes elements e to
// e + 7 of the norm's result, and in the backward those of dy, in the same way; both are rounded before and after.
struct WholeResult {
  template <bool vectors, class T>
  __device__ void apply(Index, Eight<T>&) const {}
};
struct DroppedResult {
  kernel::ElementDropout drop;

  template <bool vectors, class T>
  __device__ void apply(Index e, Eight<T>& elements) const {
    float values[eight];
    dropout_factors<vectors>(drop, e, values);
    for (int i = 0; i < eight; ++i) values[i] *= elements[i];
    elements = Eight<T>::rounded(values);
  }
  // Returns the factor of one element.
  __device__ float factor(Index e) const {
    float factors[eight];
    dropout_factors<false>(drop, e, factors);
    return factors[0];
  }
};
// Calls f(WholeResult()), or f(DroppedResult{drop}) if `drop` drops anything.
template <class F>
void with_norm_result(const kernel::ElementDropout& drop, F&& f) {
  drop.rule.is_active() ? f(DroppedResult{drop}) : f(WholeResult());
}

// Calls f with the first layout that holds D columns, or with the last.
template <class L, class... Wider, class F>
void with_first_layout(Index D, F&& f) {
  if constexpr (sizeof...(Wider) > 0)
    if (D > L::widest) return with_first_layout<Wider...>(D, f);
  f(L(D));
}
template <class F>
void with_norm_layout(Index D, bool vectors, F&& f) {
  using Lanes = LaneTeam;
  using Block = BlockTeam<NormTile::row_threads>;
  if (vectors && D % eight == 0)
    with_first_layout<NormLayout<Lanes, 1, true>, NormLayout<Lanes, 2, true>, NormLayout<Lanes, 3, true>,
                      NormLayout<Lanes, 4, true>, NormLayout<Block, 2, true>, NormLayout<Block, 1, true, false>>(D, f);
  else
    with_first_layout<NormLayout<Lanes, 1, false>, NormLayout<Lanes, 4, false>, NormLayout<Block, 1, false>,
                      NormLayout<Block, 1, false, false>>(D, f);
}

}  // namespace heddle::cuda
