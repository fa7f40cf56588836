// Norms of rows [N, D], for layer_norm.cu, residual_layer_norm.cu and rms_norm.cu. Formulas:
// include/heddle/ops/layer_norm.hpp and rms_norm.hpp.
//
//   norm_forward     As many blocks of teams as the GPU holds at once iterate over the rows. A team owns a row. If the
//                    row fits into registers, its inputs are read once, y is written once, and a team reads gamma and
//                    beta once. Otherwise a row is read once more for each statistic, mean and variance, from cache. A
//                    dropout of the result is applied before y is written.
#pragma once
#include "limits.cuh"
#include "norm_layout.cuh"
#include "workspace.cuh"

namespace heddle::cuda {

// The parameters of a norm, and the statistics of each row, which it writes for the backward.
template <class T>
struct LayerNormOperands {
  static constexpr bool centered = true;  // subtracts the mean, and adds beta
  View<const T, 1> gamma, beta;
  View<float, 1> mean, rstd;

  bool aligned() const { return cuda::aligned<vector_width<T>>(gamma.data, beta.data); }
};
template <class T>
struct RmsNormOperands {
  static constexpr bool centered = false;
  View<const T, 1> gamma;
  View<float, 1> rstd;

  bool aligned() const { return cuda::aligned<vector_width<T>>(gamma.data); }
};

// The rows of x.
template <class T>
struct GivenRows {
  View<const T, 2> x;

  bool aligned() const { return cuda::aligned<vector_width<T>>(x.data); }
  template <class L>
  __device__ void read(const L& layout, Index n, typename L::Column first, typename L::Column end,
                       float (&row)[L::values]) const {
    typename L::Packed xn[L::groups];
    layout.load(x.data + n * x.extent[1], first, end, xn);
    for (int i = 0; i < L::values; ++i) row[i] = xn[i / L::width][i % L::width];
  }
  template <class L>
  __device__ void make(const L& layout, Index n, typename L::Column first, typename L::Column end,
                       float (&row)[L::values]) const {
    read(layout, n, first, end, row);
  }
};

// Normalizes the rows of `source`. source.make(layout, n, first, end, row) computes this thread's part of row n;
// columns from `end` on are 0. source.read(...) returns the same values again.
template <class L, class Source, class Operands, class Result, class T>
__global__ __launch_bounds__(L::threads, L::forward_blocks) void norm_forward(L layout, Source source,
                                                                              Operands operands, float eps,
                                                                              Result result, View<T, 2> y) {
  constexpr bool centered = Operands::centered;
  using Column = typename L::Column;
  const Index N = y.extent[0];
  const auto D = static_cast<Column>(y.extent[1]);
  typename L::Packed scale[L::groups], shift[centered ? L::groups : 1];
  const auto load_parameters = [&](Column first) {
    layout.load(operands.gamma.data, first, D, scale);
    if constexpr (centered) layout.load(operands.beta.data, first, D, shift);
  };
  if constexpr (L::whole) load_parameters(0);

  for (Index begin = Index{blockIdx.x} * layout.rows(); begin < N; begin += Index{gridDim.x} * layout.rows()) {
    const Index n = begin + layout.team.row();
    const Column end = n < N ? D : 0;  // a team beyond the last row processes an empty row
    float row[L::values], m = 0;
    if constexpr (centered) {
      float sum = 0;
      layout.for_stretches(D, [&](Column first) {
        source.make(layout, n, first, end, row);
        for (const float value : row) sum += value;
      });
      m = layout.mean(sum);
    }

    float squares = 0;
    layout.for_stretches(D, [&](Column first) {
      if constexpr (!centered)
        source.make(layout, n, first, end, row);
      else if constexpr (!L::whole)
        source.read(layout, n, first, end, row);
      for (int i = 0; i < L::values; ++i) {
        const float apart = row[i] - m;
        if (layout.inside(i, first, end)) squares += apart * apart;
      }
    });
    const float r = rsqrtf(layout.mean(squares) + eps);

    layout.for_stretches(D, [&](Column first) {
      if constexpr (!L::whole) {
        source.read(layout, n, first, end, row);
        load_parameters(first);
      }
      for (int g = 0; g < L::groups; ++g) {
        const Column d = first + layout.column(g);
        float values[L::width];
        for (int i = 0; i < L::width; ++i) {
          values[i] = (row[g * L::width + i] - m) * r * scale[g][i];
          if constexpr (centered) values[i] += shift[g][i];
        }
        auto normed = L::Packed::rounded(values);
        result.template apply<L::vectors>(n * D + d, normed);
        store_packed<L::vectors>(y.data + n * D + d, end - d, normed);
      }
    });
    if (layout.team.rank() > 0 || n >= N) continue;
    if constexpr (centered) operands.mean(n) = m;
    operands.rstd(n) = r;
  }
}

template <class Source, class Operands, class Result, class T>
void launch_norm(const Source& source, const Operands& operands, double eps, const Result& result, View<T, 2> y) {
  const Index N = y.extent[0], D = y.extent[1];
  if (D == 0) return;  // the mean of an empty row is undefined
  const bool vectors = source.aligned() && operands.aligned() && aligned<vector_width<T>>(y.data);
  with_norm_layout<T>(D, vectors, [&]<class L>(const L& layout) {
    const Index all = blocks_for(N, layout.rows());
    const Index resident =
        L::several_rows ? device_attribute(cudaDevAttrMultiProcessorCount) * Index{L::forward_blocks} : all;
    const Index blocks = std::min({all, resident, limits.norm_forward_blocks});
    launch<norm_forward<L, Source, Operands, Result, T>>(static_cast<unsigned>(blocks), layout.block(), 0,
                                                         current_stream(), layout, source, operands,
                                                         static_cast<float>(eps), result, y);
  });
}

}  // namespace heddle::cuda
