// Gradients of norms of rows [N, D], for layer_norm.cu, residual_layer_norm.cu and rms_norm.cu. Formulas:
// include/heddle/ops/layer_norm.hpp and rms_norm.hpp, which has neither mean nor dbeta.
//
//   norm_backward    At most 256 blocks of teams iterate over the rows. dy and x are read once; the next row is loaded
//                    while the current one is processed, if a thread loads its columns at once. A team reads gamma
//                    once. dx is written once, or added to. The sums of dgamma and dbeta stay in registers. A block
//                    writes its own once; the last of 16 blocks to finish adds theirs, and the last of 16 such groups
//                    adds those of the groups. If a row does not fit into registers, a block owns one row: dy and x are
//                    read twice, the second time from cache, and once more by sum_parameters.
//   sum_parameters   Only for rows that do not fit into registers. A block owns 32 columns of dgamma and dbeta and
//                    iterates over all rows.
#pragma once
#include "limits.cuh"
#include "norm_layout.cuh"
#include "workspace.cuh"

namespace heddle::cuda {

// The inputs of a norm's gradient. A centered norm subtracts the mean and adds beta. rms_norm is not centered: its
// `mean` is not read, and its dbeta is not written. dy is the gradient after `result`, which follows the norm.
template <class T, bool centered_, class Result_ = WholeResult>
struct NormGradient {
  using Element = T;
  using Result = Result_;
  static constexpr bool centered = centered_;
  static constexpr int parameters = centered ? 2 : 1;  // gamma, and beta
  View<const T, 2> dy, x;
  View<const T, 1> gamma;
  View<const float, 1> mean, rstd;
  Result result = {};

  __device__ float mean_of(Index n) const {
    if constexpr (centered) return mean(n);
    return 0;
  }
};
template <class T, class Result>
using LayerNormGradient = NormGradient<T, true, Result>;
template <class T>
using RmsNormGradient = NormGradient<T, false>;

// A thread's part of dy and x of a row, with the row's statistics; zeros if the row does not exist.
template <class L>
struct NormRow {
  typename L::Packed dy[L::groups], x[L::groups];
  float mean, rstd;

  template <class Gradient>
  __device__ void load(const L& layout, const Gradient& of, Index n, typename L::Column first) {
    const bool exists = n < of.x.extent[0];
    const Index D = of.x.extent[1];
    const auto end = static_cast<typename L::Column>(exists ? D : 0);
    layout.load(of.dy.data + n * D, first, end, dy);
    layout.load(of.x.data + n * D, first, end, x);
    mean = exists ? of.mean_of(n) : 0.f;
    rstd = exists ? of.rstd(n) : 0.f;
  }
  // Replaces dy by the gradient of the norm itself, before what follows it. load() does not do this, so that a row can
  // be loaded ahead.
  template <class Gradient>
  __device__ void undo_result(const L& layout, const Gradient& of, Index n, typename L::Column first) {
    const Index D = of.x.extent[1];
    for (int g = 0; g < L::groups; ++g) of.result.template apply<L::vectors>(n * D + first + layout.column(g), dy[g]);
  }
  __device__ float h(int i) const { return (x[i / L::width][i % L::width] - mean) * rstd; }
  __device__ float dyn(int i) const { return dy[i / L::width][i % L::width]; }
};

// NormSums receives the sums of dgamma and dbeta. They are added in two levels, each in a fixed order: the last block
// of a group to finish adds the sums of its blocks, and the last group to finish adds those of the groups.
template <class T>
struct NormSums {
  View<float, 2> of_blocks, of_groups;  // [blocks, parameters D] and [groups, parameters D]: dgamma, then dbeta
  int group;                            // blocks of a group; the last one may have fewer
  unsigned* done;                       // blocks of each group, and groups, that have finished: 0 before and after
  void *dgamma, *dbeta;                 // [D] of float or of T
  bool in_float;

  // Stores `count` sums from number k on. They are all of dgamma or all of dbeta.
  template <int count>
  __device__ void store(Index k, const float (&sums)[count], Index D) const {
    void* const to = k < D ? dgamma : dbeta;
    const Index d = k < D ? k : k - D;
    if (in_float)
      store_floats(static_cast<float*>(to) + d, sums);
    else
      store_floats(static_cast<T*>(to) + d, sums);
  }
};

// Writes the block's sums of dgamma and dbeta, `of_thread`, added over its teams, to `sums` [parameters D].
template <class L, int parameters>
__device__ void add_teams(const L& layout, const float (&of_thread)[parameters][L::values], float* sums, int D) {
  if constexpr (!L::several_rows) {
    for (int i = 0; i < L::values; ++i) {
      const int d = layout.column(i / L::width) + i % L::width;
      if (d >= D) continue;
      for (int which = 0; which < parameters; ++which) sums[which * D + d] = of_thread[which][i];
    }
  } else {
    // Value i of all threads, side by side. Unused elements follow, so that neither the writes of a warp, one value of
    // 32 threads, nor its reads, the values of a group of several threads, share a bank.
    constexpr int apart = L::threads + warp_size / L::width;
    auto& of_block = shared<float[parameters][L::values][apart]>();
    for (int i = 0; i < L::values; ++i)
      for (int which = 0; which < parameters; ++which) of_block[which][i][threadIdx.x] = of_thread[which][i];
    __syncthreads();
    const int size = layout.team.size(), threads = static_cast<int>(blockDim.x);
    for (int d = static_cast<int>(threadIdx.x); d < D; d += threads) {
      const int rank = d / L::width % size, i = d / L::width / size * L::width + d % L::width;
      for (int which = 0; which < parameters; ++which) {
        float sum = 0;
        for (int thread = rank; thread < threads; thread += size) sum += of_block[which][i][thread];
        sums[which * D + d] = sum;
      }
    }
  }
}

// Calls store(k, sums) with the sums of rows [first, last) of `x`, `each` columns from k on. All threads of the block
// share the columns.
template <int each, class Store>
__device__ void add_rows(View<float, 2> x, int first, int last, Store store) {
  constexpr int ahead = 8;  // rows whose loads a thread has in flight
  const Index step = Index{blockDim.x} * each;
  for (Index k = Index{threadIdx.x} * each; k < x.extent[1]; k += step) {
    float sums[each] = {};
    for (int row = first; row < last; row += ahead) {
      float values[ahead][each] = {};
      for (int i = 0; i < ahead; ++i)
        if (row + i < last) load_floats(&x(row + i, k), values[i]);
      for (int i = 0; i < ahead; ++i)
        for (int e = 0; e < each; ++e) sums[e] += values[i][e];
    }
    store(k, sums);
  }
}

// Adds the sums of all blocks, after each has written its own.
template <int each, class T>
__device__ void add_blocks(const NormSums<T>& sums, Index D) {
  const auto blocks = static_cast<int>(gridDim.x), groups = static_cast<int>(sums.of_groups.extent[0]);
  const int group = static_cast<int>(blockIdx.x) / sums.group, first = group * sums.group;
  const int last = first + sums.group < blocks ? first + sums.group : blocks;
  const auto store = [&](Index k, const float(&values)[each]) { sums.store(k, values, D); };
  if (!finishes_last(sums.done + 1 + group, last - first)) return;
  if (groups == 1) return add_rows<each>(sums.of_blocks, first, last, store);
  add_rows<each>(sums.of_blocks, first, last,
                 [&](Index k, const float(&values)[each]) { store_floats(&sums.of_groups(group, k), values); });
  if (finishes_last(sums.done, groups)) add_rows<each>(sums.of_groups, 0, groups, store);
}

// The branch of a norm without a residual connection. If the norm `adds`, it adds its gradient to the values in dx.
struct NoBranch {
  bool adds;

  static bool aligned() { return true; }
  template <bool vectors, class T, class I, int count>
  __device__ void complete(const T* dx, I valid, float (&values)[count]) const {
    if (!adds) return;
    const auto before = load_packed<vectors, count>(dx, valid);
    for (int i = 0; i < count; ++i) values[i] += before[i];
  }
  template <bool vectors, class T, int count>
  __device__ void store(Index, Index, const Packed<T, count>&) const {}
};

// Computes dx, passes each group to branch.complete<vectors>(address of the first element, number of valid elements,
// values), writes it, and passes it to branch.store<vectors>(first element, number of valid elements, elements). If
// L::whole, computes dgamma and dbeta as well.
template <class L, class Branch, class Gradient, class T>
__global__ __launch_bounds__(L::threads, L::backward_blocks) void norm_backward(L layout, Gradient of, View<T, 2> dx,
                                                                                Branch branch, NormSums<T> sums) {
  using Column = typename L::Column;
  constexpr bool centered = Gradient::centered;
  constexpr bool loads_ahead = L::whole && L::vectors && L::groups == 1;  // otherwise registers are scarce
  const Index N = dx.extent[0], step = Index{gridDim.x} * layout.rows();
  const auto D = static_cast<Column>(dx.extent[1]);
  NormRow<L> row, next;
  typename L::Packed scale[L::groups];
  const auto dh = [&](int i) { return row.dyn(i) * scale[i / L::width][i % L::width]; };
  const auto load_again = [&](Index n, Column first) {
    row.load(layout, of, n, first);
    row.undo_result(layout, of, n, first);
    layout.load(of.gamma.data, first, D, scale);
  };

  float of_thread[Gradient::parameters][L::values] = {};  // of dgamma, and of dbeta
  Index n = Index{blockIdx.x} * layout.rows() + layout.team.row();
  if constexpr (L::whole) {
    layout.load(of.gamma.data, 0, D, scale);
    if constexpr (loads_ahead) next.load(layout, of, n, 0);
  }
  for (Index left = N - Index{blockIdx.x} * layout.rows(); left > 0; left -= step, n += step) {
    if constexpr (L::whole) {
      if constexpr (loads_ahead) {
        row = next;
        if (left > step) next.load(layout, of, n + step, 0);
      } else {
        row.load(layout, of, n, 0);
      }
      row.undo_result(layout, of, n, 0);
    }
    float means[Gradient::parameters] = {};  // of dh h, and of dh
    layout.for_stretches(D, [&](Column first) {
      if constexpr (!L::whole) load_again(n, first);
      for (int i = 0; i < L::values; ++i) {
        if constexpr (L::whole) {
          of_thread[0][i] += row.dyn(i) * row.h(i);
          if constexpr (centered) of_thread[1][i] += row.dyn(i);
        }
        means[0] += dh(i) * row.h(i);
        if constexpr (centered) means[1] += dh(i);
      }
    });
    layout.average(means);
    const float mean_dh = centered ? means[Gradient::parameters - 1] : 0.f;

    const Column end = n < N ? D : 0;
    layout.for_stretches(D, [&](Column first) {
      if constexpr (!L::whole) load_again(n, first);
      unrolled<L::groups>([&](int group) {
        float values[L::width];
        for (int i = 0; i < L::width; ++i) {
          const int at = group * L::width + i;
          values[i] = row.rstd * (dh(at) - mean_dh - row.h(at) * means[0]);
        }
        const Column d = first + layout.column(group);
        branch.template complete<L::vectors>(dx.data + n * D + d, end - d, values);
        const auto result = L::Packed::rounded(values);
        store_packed<L::vectors>(dx.data + n * D + d, end - d, result);
        branch.template store<L::vectors>(n * D + d, end - d, result);
      });
    });
  }
  if constexpr (L::whole) {
    add_teams(layout, of_thread, &sums.of_blocks(blockIdx.x, 0), D);
    add_blocks<L::vectors ? 4 : 1>(sums, D);
  }
}

// Adds the sums of the block's warps (threadIdx.y) for each of 32 columns. The first warp receives the result.
template <int count>
__device__ void add_splits(float (&sums)[count]) {
  auto& parts = shared<float[NormTile::splits][count][warp_size]>();
  const int lane = static_cast<int>(threadIdx.x), split = static_cast<int>(threadIdx.y);
  for (int i = 0; i < count; ++i) parts[split][i][lane] = sums[i];
  __syncthreads();
  if (split > 0) return;
  for (int w = 1; w < NormTile::splits; ++w)
    for (int i = 0; i < count; ++i) sums[i] += parts[w][i][lane];
}

template <class Gradient, class E>
__global__ __launch_bounds__(NormTile::splits* warp_size) void sum_parameters(Gradient of, View<E, 1> dgamma,
                                                                              View<E, 1> dbeta) {
  using T = typename Gradient::Element;
  constexpr bool centered = Gradient::centered;
  const Index d = Index{blockIdx.x} * warp_size + threadIdx.x;
  const bool inside = d < dgamma.extent[0];
  float sums[Gradient::parameters] = {};  // of dgamma and dbeta
  for (Index n = threadIdx.y; inside && n < of.x.extent[0]; n += NormTile::splits) {
    float dyn = static_cast<float>(of.dy(n, d));
    if constexpr (!std::is_same_v<typename Gradient::Result, WholeResult>)
      dyn = static_cast<float>(T(dyn * of.result.factor(n * of.x.extent[1] + d)));
    sums[0] += dyn * ((static_cast<float>(of.x(n, d)) - of.mean_of(n)) * of.rstd(n));
    if constexpr (centered) sums[1] += dyn;
  }
  add_splits(sums);
  if (threadIdx.y > 0 || !inside) return;
  dgamma(d) = E(sums[0]);
  if constexpr (centered) dbeta(d) = E(sums[1]);
}

template <class Branch, class Gradient, class T, class E>
void launch_norm_backward(const Branch& branch, const Gradient& of, View<T, 2> dx, View<E, 1> dgamma,
                          View<E, 1> dbeta) {
  const Index N = dx.extent[0], D = dx.extent[1], parameters = of.parameters;
  if (D == 0) return;
  if (N == 0) {
    clear(dgamma.data, static_cast<std::size_t>(D) * sizeof(E));
    if (of.centered) clear(dbeta.data, static_cast<std::size_t>(D) * sizeof(E));
    return;
  }
  const cudaStream_t stream = current_stream();
  const dim3 block(warp_size, NormTile::splits);
  const bool vectors = branch.aligned() && aligned<vector_width<T>>(of.dy.data, of.x.data, of.gamma.data, dx.data) &&
                       aligned<4>(dgamma.data, dbeta.data);
  with_norm_layout<T>(D, vectors, [&]<class L>(const L& layout) {
    const Index teams = blocks_for(N, layout.rows()), resident = std::min(teams, limits.norm_blocks);
    const Index blocks = L::whole ? resident : teams;
    // A block, and a group, add up to about the same number of sums.
    int group = 1;
    while (Index{group} * group < blocks) group *= 2;
    const Index groups = L::whole ? (blocks + group - 1) / group : 0, parts = L::whole ? blocks + groups : 0;
    const Workspace<float> memory(parts * parameters * D);
    const NormSums<T> sums{{memory.data(), {parts - groups, parameters * D}},
                           {memory.data() + (parts - groups) * parameters * D, {groups, parameters * D}},
                           group,
                           counters(1 + groups),
                           dgamma.data,
                           dbeta.data,
                           std::is_same_v<E, float>};
    launch<norm_backward<L, Branch, Gradient, T>>(static_cast<unsigned>(blocks), layout.block(), 0, stream, layout, of,
                                                  dx, branch, sums);
    if constexpr (!L::whole)
      launch<sum_parameters<Gradient, E>>(blocks_for(D, warp_size), block, 0, stream, of, dgamma, dbeta);
  });
}

}  // namespace heddle::cuda
