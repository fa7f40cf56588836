// Norms of rows [N, D], for layer_norm.cu and residual_layer_norm.cu. Formulas: include/heddle/ops/layer_norm.hpp.
//
//   norm_forward     A team of threads owns a row: some lanes of a warp up to 256 columns, a warp up to 1024, a block
//                    beyond. Up to 8192 columns the row stays in registers: what makes it is read once, y is written
//                    once. Wider rows are read three times, the second and third from cache.
//   norm_backward    The same teams, at most 256 blocks of them, walk down the rows. dy and x are read once, the next
//                    row's while this one's are worked on; dx is written once. The sums of dgamma and dbeta stay in
//                    registers and are written once a block. Of wider rows a block owns one; dy and x are read twice,
//                    the second time from cache, and once more by sum_parameters.
//   sum_parameters   Wider rows only. A block owns 32 columns of dgamma and dbeta and walks down all rows.
//   add_blocks       A block owns 32 sums of dgamma or dbeta and adds up what the blocks of norm_backward left.
//
// A thread owns groups of eight neighbouring columns, in accesses of 16 bytes where the width is a multiple of eight
// and pointers are aligned; else it takes them one by one, and rows stay in registers up to 4096 columns. No atomics:
// results do not depend on the schedule, nor on how many multiprocessors there are.
#pragma once
#include "eight.cuh"
#include "row_team.cuh"
#include "workspace.cuh"

namespace heddle::cuda {

struct NormTile {
  static constexpr int lane_values = 4096;   // columns in the registers of a block whose lanes own rows, at most
  static constexpr int lane_threads = 256;   // of such a block, at most
  static constexpr int row_threads = 512;    // of a block that owns a row, at most
  static constexpr int walkers = 16;         // warps that share the rows of 32 columns
  static constexpr Index most_blocks = 256;  // of norm_backward: two or nearly so for each multiprocessor
};

// How rows lie in teams: a thread owns `groups` groups of eight columns, a team's width apart. Where a row is not held
// as a whole, it is worked on in stretches of as many columns.
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
  // Of a block.
  HEDDLE_HD int rows() const {
    if constexpr (lanes) return threads >> team.bits;
    return 1;
  }
  // Of the team's columns, the first of a group.
  __device__ int column(int group) const { return (team.rank() + group * team.size()) * eight; }
  // Whether this thread's column i is left of `end`, which is a multiple of eight for vectors.
  __device__ bool inside(int i, Column first, Column end) const {
    return first + column(i / eight) + (vectors ? 0 : i % eight) < end;
  }
  // f(first column) for each stretch of a row.
  template <class F>
  __device__ void for_stretches(Column D, F&& f) const {
    if constexpr (whole)
      f(0);
    else
      for (Column first = 0; first < D; first += team.size() * values) f(first);
  }
  // This thread's groups of a stretch; columns from `end` on are 0.
  template <class T>
  __device__ void load(const T* row, Column first, Column end, Eight<T> (&to)[groups]) const {
    for (int g = 0; g < groups; ++g) {
      const Column d = first + column(g);
      to[g] = load_eight<vectors>(row + d, end - d);
    }
  }
};

// `source` makes this thread's part of row n, columns from `end` on as 0: make(layout, n, first, end, row). read(...)
// gives the same again.
template <class L, class Source, class T>
__global__ __launch_bounds__(L::threads) void norm_forward(L layout, Source source, View<const T, 1> gamma,
                                                           View<const T, 1> beta, float eps, View<T, 2> y,
                                                           View<float, 1> mean, View<float, 1> rstd) {
  using Column = typename L::Column;
  const Index N = y.extent[0], n = Index{blockIdx.x} * layout.rows() + layout.team.row();
  const auto D = static_cast<Column>(y.extent[1]);
  const Column end = n < N ? D : 0;  // a team beyond the last row has one without columns
  Eight<T> scale[L::groups], shift[L::groups];
  const auto load_parameters = [&](Column first) {
    layout.load(gamma.data, first, end, scale);
    layout.load(beta.data, first, end, shift);
  };
  if constexpr (L::whole) load_parameters(0);

  float row[L::values], sum = 0;
  layout.for_stretches(D, [&](Column first) {
    source.make(layout, n, first, end, row);
    for (const float value : row) sum += value;
  });
  const float m = layout.team.sum(sum) / static_cast<float>(D);

  float squares = 0;
  layout.for_stretches(D, [&](Column first) {
    if constexpr (!L::whole) source.read(layout, n, first, end, row);
    for (int i = 0; i < L::values; ++i) {
      const float apart = row[i] - m;
      if (layout.inside(i, first, end)) squares += apart * apart;
    }
  });
  const float r = rsqrtf(layout.team.sum(squares) / static_cast<float>(D) + eps);

  layout.for_stretches(D, [&](Column first) {
    if constexpr (!L::whole) {
      source.read(layout, n, first, end, row);
      load_parameters(first);
    }
    for (int g = 0; g < L::groups; ++g) {
      const Column d = first + layout.column(g);
      float result[eight];
      for (int i = 0; i < eight; ++i) result[i] = (row[g * eight + i] - m) * r * scale[g][i] + shift[g][i];
      store_eight<L::vectors>(y.data + n * D + d, end - d, Eight<T>::rounded(result));
    }
  });
  if (layout.team.rank() > 0 || n >= N) return;
  mean(n) = m;
  rstd(n) = r;
}

template <class T>
struct NormGradient {
  View<const T, 2> dy, x;
  View<const T, 1> gamma;
  View<const float, 1> mean, rstd;
};

// A thread's part of a row's h and dy; of a row that is not there, zeros.
template <class L, class T>
struct NormRow {
  Eight<T> dy[L::groups], x[L::groups];
  float mean, rstd;

  __device__ void load(const L& layout, const NormGradient<T>& of, Index n, typename L::Column first) {
    const bool there = n < of.x.extent[0];
    const Index D = of.x.extent[1];
    const auto end = static_cast<typename L::Column>(there ? D : 0);
    layout.load(of.dy.data + n * D, first, end, dy);
    layout.load(of.x.data + n * D, first, end, x);
    mean = there ? of.mean(n) : 0.f;
    rstd = there ? of.rstd(n) : 0.f;
  }
  __device__ float h(int i) const { return (x[i / eight][i % eight] - mean) * rstd; }
  __device__ float dyn(int i) const { return dy[i / eight][i % eight]; }
};

// Writes the block's sums of dgamma and dbeta, those of its teams together.
template <class L>
__device__ void add_teams(const L& layout, const float (&g)[L::values], const float (&b)[L::values],
                          View<float, 3> sums) {
  const int D = static_cast<int>(sums.extent[2]);
  if constexpr (!L::lanes) {
    for (int i = 0; i < L::values; ++i) {
      const int d = layout.column(i / eight) + i % eight;
      if (d >= D) continue;
      sums(blockIdx.x, 0, d) = g[i];
      sums(blockIdx.x, 1, d) = b[i];
    }
  } else {
    auto& of_teams = shared<float[2][L::threads * L::values]>();  // each [teams, columns of a team]
    const int width = layout.team.size() * L::values;
    for (int i = 0; i < L::values; ++i) {
      const int at = layout.team.row() * width + layout.column(i / eight) + i % eight;
      of_teams[0][at] = g[i];
      of_teams[1][at] = b[i];
    }
    __syncthreads();
    for (int which = 0; which < 2; ++which)
      for (int d = static_cast<int>(threadIdx.x); d < D; d += L::threads) {
        float sum = 0;
        for (int team = 0; team < layout.rows(); ++team) sum += of_teams[which][team * width + d];
        sums(blockIdx.x, which, d) = sum;
      }
  }
}

// dx goes to branch.store<vectors>(element, how many are valid, eight of them), too. `sums` [blocks, 2, D] receives the
// block's part of dgamma and of dbeta, where rows are whole. Launch bounds ask for registers rather than occupancy.
template <class L, class Branch, class T>
__global__ __launch_bounds__(L::threads, 1) void norm_backward(L layout, NormGradient<T> of, View<T, 2> dx,
                                                               Branch branch, View<float, 3> sums) {
  using Column = typename L::Column;
  const Index N = dx.extent[0], step = Index{gridDim.x} * layout.rows();
  const auto D = static_cast<Column>(dx.extent[1]);
  NormRow<L, T> row, next;
  Eight<T> scale[L::groups] = {};
  const auto dh = [&](int i) { return row.dyn(i) * scale[i / eight][i % eight]; };
  const auto load_again = [&](Index n, Column first) {
    row.load(layout, of, n, first);
    layout.load(of.gamma.data, first, D, scale);
  };

  float g[L::values] = {}, b[L::values] = {};
  Index n = Index{blockIdx.x} * layout.rows() + layout.team.row();
  if constexpr (L::whole) next.load(layout, of, n, 0);
  for (Index left = N - Index{blockIdx.x} * layout.rows(); left > 0; left -= step, n += step) {
    if constexpr (L::whole) {
      row = next;
      if (left > step) next.load(layout, of, n + step, 0);
      layout.load(of.gamma.data, 0, D, scale);  // from cache, row by row: registers are short
    }
    float sum_dh = 0, sum_dh_h = 0;
    layout.for_stretches(D, [&](Column first) {
      if constexpr (!L::whole) load_again(n, first);
      for (int i = 0; i < L::values; ++i) {
        if constexpr (L::whole) {
          g[i] += row.dyn(i) * row.h(i);
          b[i] += row.dyn(i);
        }
        sum_dh += dh(i);
        sum_dh_h += dh(i) * row.h(i);
      }
    });
    const float mean_dh = layout.team.sum(sum_dh) / static_cast<float>(D);
    const float mean_dh_h = layout.team.sum(sum_dh_h) / static_cast<float>(D);

    const Column end = n < N ? D : 0;
    layout.for_stretches(D, [&](Column first) {
      if constexpr (!L::whole) load_again(n, first);
      unrolled<L::groups>([&](int group) {
        float values[eight];
        for (int i = 0; i < eight; ++i) {
          const int at = group * eight + i;
          values[i] = row.rstd * (dh(at) - mean_dh - row.h(at) * mean_dh_h);
        }
        const auto result = Eight<T>::rounded(values);
        const Column d = first + layout.column(group);
        store_eight<L::vectors>(dx.data + n * D + d, end - d, result);
        branch.template store<L::vectors>(n * D + d, end - d, result);
      });
    });
  }
  if constexpr (L::whole) add_teams(layout, g, b, sums);
}

// Adds up what the walkers of a block found for each of 32 columns; the first walker receives it.
template <int count>
__device__ void add_walkers(float (&sums)[count]) {
  auto& parts = shared<float[NormTile::walkers][count][warp_size]>();
  const int lane = static_cast<int>(threadIdx.x), walker = static_cast<int>(threadIdx.y);
  for (int i = 0; i < count; ++i) parts[walker][i][lane] = sums[i];
  __syncthreads();
  if (walker > 0) return;
  for (int w = 1; w < NormTile::walkers; ++w)
    for (int i = 0; i < count; ++i) sums[i] += parts[w][i][lane];
}

template <class T>
__global__ __launch_bounds__(NormTile::walkers* warp_size) void sum_parameters(NormGradient<T> of, View<T, 1> dgamma,
                                                                               View<T, 1> dbeta) {
  const Index d = Index{blockIdx.x} * warp_size + threadIdx.x;
  const bool inside = d < dgamma.extent[0];
  float sums[2] = {};  // of dgamma and dbeta
  for (Index n = threadIdx.y; inside && n < of.x.extent[0]; n += NormTile::walkers) {
    const float dyn = static_cast<float>(of.dy(n, d));
    sums[0] += dyn * ((static_cast<float>(of.x(n, d)) - of.mean(n)) * of.rstd(n));
    sums[1] += dyn;
  }
  add_walkers(sums);
  if (threadIdx.y > 0 || !inside) return;
  dgamma(d) = T(sums[0]);
  dbeta(d) = T(sums[1]);
}

// `made` [blocks, 2 D]: of each block the sums of dgamma and then those of dbeta.
template <class T>
__global__ __launch_bounds__(NormTile::walkers* warp_size) void add_blocks(View<const float, 2> made, View<T, 1> dgamma,
                                                                           View<T, 1> dbeta) {
  const Index D = dgamma.extent[0], k = Index{blockIdx.x} * warp_size + threadIdx.x;
  float sum[1] = {};
  for (Index block = threadIdx.y; k < 2 * D && block < made.extent[0]; block += NormTile::walkers)
    sum[0] += made(block, k);
  add_walkers(sum);
  if (threadIdx.y > 0 || k >= 2 * D) return;
  (k < D ? dgamma(k) : dbeta(k - D)) = T(sum[0]);
}

// --- on the host ----------------------------------------------------------------------------------------------------

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

template <class Source, class T>
void launch_norm(const Source& source, View<const T, 1> gamma, View<const T, 1> beta, double eps, View<T, 2> y,
                 View<float, 1> mean, View<float, 1> rstd) {
  const Index N = y.extent[0], D = y.extent[1];
  if (D == 0) return;  // no mean of nothing
  const bool vectors = source.aligned() && aligned<eight>(gamma.data, beta.data, y.data);
  with_norm_layout(D, vectors, [&]<class L>(const L& layout) {
    launch<norm_forward<L, Source, T>>(blocks_for(N, layout.rows()), layout.block(), 0, current_stream(), layout,
                                       source, gamma, beta, static_cast<float>(eps), y, mean, rstd);
  });
}

template <class Branch, class T>
void launch_norm_backward(const Branch& branch, const NormGradient<T>& of, View<T, 2> dx, View<T, 1> dgamma,
                          View<T, 1> dbeta) {
  const Index N = dx.extent[0], D = dx.extent[1];
  if (D == 0) return;
  const cudaStream_t stream = current_stream();
  const dim3 walkers(warp_size, NormTile::walkers);
  const bool vectors = branch.aligned() && aligned<eight>(of.dy.data, of.x.data, of.gamma.data, dx.data);
  with_norm_layout(D, vectors, [&]<class L>(const L& layout) {
    const Index teams = blocks_for(N, layout.rows()), walking = std::min(teams, NormTile::most_blocks);
    const Index blocks = L::whole ? walking : teams, parts = L::whole ? walking : 0;
    const Workspace<float> memory(parts * 2 * D);
    launch<norm_backward<L, Branch, T>>(static_cast<unsigned>(blocks), layout.block(), 0, stream, layout, of, dx,
                                        branch, View<float, 3>{memory.data(), {parts, 2, D}});
    if constexpr (L::whole)
      launch<add_blocks<T>>(blocks_for(2 * D, warp_size), walkers, 0, stream,
                            View<const float, 2>{memory.data(), {parts, 2 * D}}, dgamma, dbeta);
    else
      launch<sum_parameters<T>>(blocks_for(D, warp_size), walkers, 0, stream, of, dgamma, dbeta);
  });
}

}  // namespace heddle::cuda
