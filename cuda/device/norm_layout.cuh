// The layout of the rows [N, D] of norms in threads, for norm_forward.cuh and norm_backward.cuh.
//
// A team of threads owns a row: 1 to 32 lanes of a warp up to 256 columns, whole warps up to 3072, a block beyond. A
// thread owns groups of neighboring columns: those of one access of 16 bytes where the rows are aligned, otherwise
// eight, which it reads one by one. It has few columns, because the backward keeps x, dy and two sums of each. Rows of
// up to 8192 columns stay in registers, or up to 3072 if they are read one by one. There are no atomics: results depend
// neither on the schedule nor on the number of multiprocessors.
#pragma once
#include "packed.cuh"
#include "row_team.cuh"

namespace heddle::cuda {

struct NormTile {
  static constexpr int threads = block_threads(384);             // the most threads of a block that owns several rows
  static constexpr int row_threads = block_threads(512);         // the most threads of a block that owns a row
  static constexpr int splits = block_threads(512) / warp_size;  // warps that share the rows of 32 columns
};

// The layout of rows of T in teams. A thread owns `values` columns, in groups of `width`; consecutive groups are
// `width` times the team's size apart. A row that does not fit into registers (`whole` is false) is processed in
// stretches of as many columns as the team holds.
template <class T_, class Team_, int values_, bool vectors_, bool whole_ = true>
struct NormLayout {
  using T = T_;
  using Team = Team_;
  using Column = std::conditional_t<whole_, int, Index>;
  static constexpr bool vectors = vectors_, whole = whole_;
  static constexpr int width = vectors ? vector_width<T> : eight, values = values_, groups = values / width;
  using Packed = cuda::Packed<T, width>;  // a group
  static constexpr bool lanes = std::is_same_v<Team, LaneTeam>;
  static constexpr bool several_rows = lanes || std::is_same_v<Team, WarpTeam>;             // in a block
  static constexpr int threads = several_rows ? NormTile::threads : NormTile::row_threads;  // of a block, at most
  static constexpr int widest = values * (lanes ? warp_size : threads);                     // columns of a team
  // The fewest blocks for which a multiprocessor has registers, in the forward and in the backward.
  static constexpr int forward_blocks = !several_rows ? 1 : vectors && sizeof(T) == sizeof(bf16) ? 3 : 2;
  static constexpr int backward_blocks = several_rows ? 2 : 1;

  Team team;
  float share;  // of a column in a mean: 1 / D

  explicit NormLayout(Index D) : team(Team::for_row(D, values)), share(1 / static_cast<float>(D)) {}
  // Returns the number of rows of a block.
  HEDDLE_HD int rows() const {
    if constexpr (several_rows) return threads / team.size();
    return 1;
  }
  unsigned block() const { return static_cast<unsigned>(rows() * team.size()); }
  // Returns the first column of a group of this thread.
  __device__ int column(int group) const { return (team.rank() + group * team.size()) * width; }
  // Returns whether this thread's column i is left of `end`, which is a multiple of `width` for vectors.
  __device__ bool inside(int i, Column first, Column end) const {
    return first + column(i / width) + (vectors ? 0 : i % width) < end;
  }
  // Calls f(first column) for each stretch of a row.
  template <class F>
  __device__ void for_stretches(Column D, F&& f) const {
    if constexpr (whole)
      f(0);
    else
      for (Column first = 0; first < D; first += team.size() * values) f(first);
  }
  // Replaces sums over this thread's columns by means over the row.
  template <int count>
  __device__ void average(float (&sums)[count]) const {
    if constexpr (std::is_same_v<Team, WarpTeam>)
      team.sum(sums);
    else
      for (float& sum : sums) sum = team.sum(sum);
    for (float& sum : sums) sum *= share;
  }
  __device__ float mean(float sum) const {
    float sums[] = {sum};
    average(sums);
    return sums[0];
  }
  // Loads this thread's groups of a stretch; columns from `end` on become 0. The elements may be of another type.
  template <class E>
  __device__ void load(const E* row, Column first, Column end, cuda::Packed<E, width> (&to)[groups]) const {
    for (int g = 0; g < groups; ++g) {
      const Column d = first + column(g);
      to[g] = load_packed<vectors, width>(row + d, end - d);
    }
  }
};

// WholeResult and DroppedResult are what follows a norm: nothing, or a dropout. apply(e, elements) changes elements
// of the norm's result from e on, and in the backward those of dy, in the same way; both are rounded before and after.
struct WholeResult {
  template <bool vectors, class T, int count>
  __device__ void apply(Index, Packed<T, count>&) const {}
};
struct DroppedResult {
  kernel::ElementDropout drop;

  template <bool vectors, class T, int count>
  __device__ void apply(Index e, Packed<T, count>& elements) const {
    float values[count];
    dropout_factors<vectors>(drop, e, values);
    for (int i = 0; i < count; ++i) values[i] *= elements[i];
    elements = Packed<T, count>::rounded(values);
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
template <class T, class F>
void with_norm_layout(Index D, bool vectors, F&& f) {
  using Block = BlockTeam<NormTile::row_threads>;
  if (vectors && D % vector_width<T> == 0)
    with_first_layout<NormLayout<T, LaneTeam, 8, true>, NormLayout<T, WarpTeam, 8, true>,
                      NormLayout<T, Block, 16, true>, NormLayout<T, Block, 8, true, false>>(D, f);
  else
    with_first_layout<NormLayout<T, LaneTeam, 8, false>, NormLayout<T, WarpTeam, 8, false>,
                      NormLayout<T, Block, 8, false, false>>(D, f);
}

}  // namespace heddle::cuda
