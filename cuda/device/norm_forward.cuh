// Norms of rows [N, D], for layer_norm.cu and residual_layer_norm.cu. Formulas: include/heddle/ops/layer_norm.hpp.
//
//   norm_forward     A team owns a row. If the row fits into registers, its inputs are read once and y is written once.
//                    Otherwise a row is read three times, the second and third time from cache.
#pragma once
#include "norm_layout.cuh"

namespace heddle::cuda {

// Normalizes the rows of `source`. source.make(layout, n, first, end, row) computes this thread's part of row n;
// columns from `end` on are
// 0. source.read(...) returns the same values again.
template <class L, class Source, class T>
__global__ __launch_bounds__(L::threads) void norm_forward(L layout, Source source, View<const T, 1> gamma,
                                                           View<const T, 1> beta, float eps, View<T, 2> y,
                                                           View<float, 1> mean, View<float, 1> rstd) {
  using Column = typename L::Column;
  const Index N = y.extent[0], n = Index{blockIdx.x} * layout.rows() + layout.team.row();
  const auto D = static_cast<Column>(y.extent[1]);
  const Column end = n < N ? D : 0;  // a team beyond the last row processes an empty row
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

template <class Source, class T>
void launch_norm(const Source& source, View<const T, 1> gamma, View<const T, 1> beta, double eps, View<T, 2> y,
                 View<float, 1> mean, View<float, 1> rstd) {
  const Index N = y.extent[0], D = y.extent[1];
  if (D == 0) return;  // the mean of an empty row is undefined
  const bool vectors = source.aligned() && aligned<eight>(gamma.data, beta.data, y.data);
  with_norm_layout(D, vectors, [&]<class L>(const L& layout) {
    launch<norm_forward<L, Source, T>>(blocks_for(N, layout.rows()), layout.block(), 0, current_stream(), layout,
                                       source, gamma, beta, static_cast<float>(eps), y, mean, rstd);
  });
}

}  // namespace heddle::cuda
