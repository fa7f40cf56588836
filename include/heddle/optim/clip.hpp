#pragma once
#include <cmath>

#include <heddle/autograd/backward.hpp>
#include <heddle/nn/module.hpp>
#include <heddle/optim/update.hpp>

namespace heddle::detail {

// The gradients of a model's parameters of type T on one device.
template <class T>
struct GradientsOn {
  std::vector<const Tensor<T>*> parameters;
  std::vector<RowGradient<T>> gradients;
  std::vector<View<const T, 1>> views;
};

// Calls f(gradients, device) for each pair of element type and device that has gradients.
template <class M, class F>
void for_each_device_with_gradients(const M& model, F&& f) {
  const auto collect = [&]<class T>(Device device) {
    GradientsOn<T> found;
    each_parameter(model, [&](const Name&, const auto& p) {
      if constexpr (std::is_same_v<typename std::remove_cvref_t<decltype(p)>::Element, T>) {
        const RowGradient<T> gradient = sparse_grad(p.value());
        if (!gradient || gradient.values.device() != device) return;
        found.parameters.push_back(&p.value());
        found.gradients.push_back(gradient);
        found.views.push_back(view<1>(gradient.values));
      }
    });
    if (!found.views.empty()) f(found, device);
  };
  for (const Device device : {Device::cpu, Device::cuda}) {
    collect.template operator()<float>(device);
    collect.template operator()<double>(device);
  }
}

// Replaces the gradients by their multiples.
template <class M>
void scale_gradients(const M& model, double factor) {
  for_each_device_with_gradients(model, [&]<class T>(GradientsOn<T>& found, Device device) {
    std::vector<View<T, 1>> results;
    std::vector<RowGradient<T>> scaled = found.gradients;
    for (RowGradient<T>& gradient : scaled) {
      gradient.values = empty_like(gradient.values);
      results.push_back(view<1>(gradient.values));
    }
    dispatch<T>(device, [&](auto where) { kernel::scale(where, static_cast<T>(factor), found.views, results); });
    for (std::size_t i = 0; i < scaled.size(); ++i) set_sparse_grad(*found.parameters[i], scaled[i]);
  });
}

// Returns the sum of the squares of all gradients.
template <class M>
double sum_of_squared_gradients(const M& model) {
  double sum = 0;
  for_each_device_with_gradients(model, [&]<class T>(const GradientsOn<T>& found, Device device) {
    sum += dispatch<T>(device, [&](auto where) { return kernel::sum_of_squares(where, found.views); });
  });
  return sum;
}

}  // namespace heddle::detail

namespace heddle::optim {

/// Returns the Euclidean norm of all gradients of a model, taken as one vector. @throws Error for a name that the model
/// visits twice.
template <class M>
double grad_norm(const M& model) {
  return std::sqrt(detail::sum_of_squared_gradients(model));
}

/// Multiplies all gradients by `norm` / (their norm + 1e-6) if this factor is below 1 (torch.nn.utils.clip_grad_norm_).
/// Returns the norm before clipping. The scaled gradients are new tensors, because a gradient may share its memory with
/// another. On a GPU the host waits for the norm; StepOptions::max_norm clips without waiting, and without writing the
/// scaled gradients. @throws Error unless `norm` is positive, and for a name that the model visits twice.
template <class M>
double clip_grad_norm(const M& model, double norm) {
  require(norm > 0, "clip_grad_norm: the norm must be positive, got ", norm);
  const double squares = detail::sum_of_squared_gradients(model), factor = kernel::Clipping{norm, squares}.factor();
  if (factor < 1) detail::scale_gradients(model, factor);
  return std::sqrt(squares);
}

}  // namespace heddle::optim
