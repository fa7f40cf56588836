// HostCopy: reads a tensor's values on the host without waiting for later work of the GPU.
#pragma once
#include <algorithm>
#include <optional>
#include <variant>

#include <heddle/core/tensor.hpp>

namespace heddle {

/// A copy of a tensor to the host that runs while the calling thread goes on. A training loop that reads the loss of a
/// step after it has enqueued the next step keeps the GPU busy. Not recorded by autograd.
template <class T>
class HostCopy {
 public:
  /// Begins to copy the values that x has now. Those of a tensor on the host are copied at once.
  explicit HostCopy(const Tensor<T>& x) : shape_(x.shape()) {
    if constexpr (detail::has_cuda) {
      if (x.device() == Device::cuda) {
        on_the_way_.emplace(x.device_data(), static_cast<std::size_t>(x.size()) * sizeof(T));
        return;
      }
    }
    here_ = Tensor<T>(shape_);
    std::copy_n(x.device_data(), x.size(), here_.device_data());
  }

  /// Returns the values on the host. Waits until they are there. @throws the errors that cuda::synchronize() throws for
  /// the stream on which they were computed; the next call then returns the values.
  Tensor<T> get() const {
    if constexpr (detail::has_cuda) {
      if (on_the_way_) {
        Tensor<T> here(shape_);
        on_the_way_->read(here.device_data());
        return here;
      }
    }
    return here_;
  }

 private:
  // The condition depends on T, because a program without CUDA must not compile uses of HostBytes: they would not
  // link.
  using OnTheWay =
      std::conditional_t<detail::has_cuda && sizeof(T) != 0, std::optional<cuda::HostBytes>, std::monostate>;

  Shape shape_;
  Tensor<T> here_;  // empty if the tensor is on the GPU
  OnTheWay on_the_way_;
};

}  // namespace heddle
