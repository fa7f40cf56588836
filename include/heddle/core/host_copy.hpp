// HostCopy: reads a tensor's values on the host without waiting for later work of the GPU.
#pragma once
#include <algorithm>
#include <optional>
#include <variant>

#include <heddle/core/tensor.hpp>

namespace heddle {

/// A copy of a tensor to the host that runs while the calling thread goes on. A training loop that reads the loss of a
/// step after it has enqueued the next step keeps the GPU busy. Not recorded by autograd. The pinned memory of copies
/// from a GPU is kept for later ones.
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
    here_ = copy_of(x);
  }
  HostCopy(const HostCopy&) = delete;
  /// Takes over the copy; `other` must not be used any more.
  HostCopy(HostCopy&& other) = default;
  HostCopy& operator=(const HostCopy&) = delete;
  /// Takes over the copy; `other` must not be used any more.
  HostCopy& operator=(HostCopy&& other) = default;

  /// Returns the values on the host, in memory of their own. Waits until they are there. @throws the errors that
  /// cuda::synchronize() throws for the stream on which they were computed; a later call returns the values.
  Tensor<T> get() const {
    if constexpr (detail::has_cuda) {
      if (on_the_way_) {
        Tensor<T> here(shape_);
        on_the_way_->read(here.device_data());
        return here;
      }
    }
    return copy_of(here_);
  }

 private:
  // The condition depends on T, because a program without CUDA must not compile uses of HostBytes: they would not
  // link.
  using OnTheWay =
      std::conditional_t<detail::has_cuda && sizeof(T) != 0, std::optional<cuda::HostBytes>, std::monostate>;

  static Tensor<T> copy_of(const Tensor<T>& x) {
    Tensor<T> y(x.shape());
    std::copy_n(x.device_data(), x.size(), y.device_data());
    return y;
  }

  Shape shape_;
  Tensor<T> here_;  // empty if the tensor is on the GPU
  OnTheWay on_the_way_;
};

}  // namespace heddle
