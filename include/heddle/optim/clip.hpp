#pragma once
#include <heddle/eigen.hpp>
#include <heddle/nn/module.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/optim/gpu_gradients.hpp>
#include <heddle/parallel.hpp>

namespace heddle::optim {

// The norm of all gradients of a model taken as one vector.
template <class M>
double grad_norm(const M& model) {
  double sum = 0;
  GpuGradients on_gpu;
  each_parameter(model, [&](const Name&, const auto& p) {
    using T = typename std::remove_cvref_t<decltype(p)>::Element;
    const Tensor<T> g = sparse_grad(p.value()).values;
    if (!g || on_gpu.take(g)) return;
    const kernel::Pieces pieces(g.size(), 16384);
    std::vector<double> squares(static_cast<std::size_t>(pieces.count));
    kernel::parallel(pieces, [&](Index piece, Index first, Index last) {
      squares[static_cast<std::size_t>(piece)] =
          kernel::array(g.device_data() + first, last - first).template cast<double>().square().sum();
    });
    for (const double s : squares) sum += s;
  });
#ifdef HEDDLE_CUDA
  if (!on_gpu.kept.empty()) sum += kernel::sum_of_squares(Cuda{}, on_gpu.parameters);
#endif
  return std::sqrt(sum);
}

// Scales all gradients by norm / (their norm + 1e-6) where that is below 1 (torch.nn.utils.clip_grad_norm_), and returns
// the norm before. The scaled gradients are new tensors: a gradient may share its block with another one.
template <class M>
double clip_grad_norm(const M& model, double norm) {
  require(norm > 0, "clip_grad_norm: the norm must be positive, got ", norm);
  const double total = grad_norm(model), factor = norm / (total + 1e-6);
  if (!(factor < 1)) return total;
  GpuGradients on_gpu;
  each_parameter(model, [&](const Name&, const auto& p) {
    using T = typename std::remove_cvref_t<decltype(p)>::Element;
    RowGradient<T> g = sparse_grad(p.value());
    if (!g) return;
    const Tensor<T> whole = std::exchange(g.values, like(g.values));
    if constexpr (std::is_same_v<T, float>) {
      if (on_gpu.take(whole)) on_gpu.parameters.back().value = g.values.device_data();
    }
    if (whole.device() == Device::cpu)
      kernel::combine(Cpu{}, kernel::Mul{}, view<1>(whole), static_cast<T>(factor), view<1>(g.values));
    set_sparse_grad(p.value(), g);
  });
#ifdef HEDDLE_CUDA
  if (!on_gpu.kept.empty()) kernel::scale_gradients(Cuda{}, static_cast<float>(factor), on_gpu.parameters);
#endif
  return total;
}

}  // namespace heddle::optim
