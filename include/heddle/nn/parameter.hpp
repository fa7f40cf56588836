// Parameter and Buffer: what a module holds. A parameter is an identity, not a value: it can be moved but not copied, so a
// model that is kept aside does not follow the training, and no two layers share a weight unless someone said share().
#pragma once
#include <any>
#include <mutex>
#include <string>
#include <unordered_map>

#include <heddle/ops/cast.hpp>

namespace heddle {

// A model's tensor in its master type, and the casts of it that activations of other types use.
template <class T>
class MasterTensor {
 public:
  explicit MasterTensor(Tensor<T> initial) : value_(std::move(initial)) {}

  const Tensor<T>& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }

  // For writing in place; a graph that saved the values notices. As of Tensor, data() is of the host only.
  T* data() { return value_.data(); }
  T* device_data() { return value_.device_data(); }
  // Copies values of the same shape in. Throws ShapeError.
  void assign(const Tensor<T>& from) {
    require_same_shape(from.shape());
    put(0, from);
  }
  // Copies in the values of whole rows that begin at element `first`.
  void assign_rows(Index first, const Tensor<T>& from) {
    require<ShapeError>(first >= 0 && first + from.size() <= value_.size(), "a weight of shape ", value_.shape(),
                        " has no elements ", first, " to ", first + from.size());
    put(first, from);
  }
  // Its gradient goes with it.
  void move(Device device) {
    cast_.reset();
    value_ = value_.to(device).with_node(value_.node());
    if (!value_.requires_grad()) return;
    if (const Tensor<T> gradient = value_.grad()) value_.set_grad(gradient.to(device));
  }
  void set_node(NodeRef node) { value_ = value_.with_node(std::move(node)); }

  // The value in another type, computed anew only after the value was written; the gradient comes back in T.
  template <class U>
  Tensor<U> as() const {
    const std::lock_guard lock(mutex_);
    if (cast_version_ != value_.version() || !std::any_cast<Tensor<U>>(&cast_)) {
      const NoGrad quiet;
      cast_ = cast<U>(detach(value_));
      cast_version_ = value_.version();
    }
    const auto& values = std::any_cast<const Tensor<U>&>(cast_);
    return record("cast", values, inputs(value_), [](const Tensor<U>& dy) { return cast<T>(dy); });
  }

 private:
  void put(Index first, const Tensor<T>& from) {
    const Tensor<T> here = from.to(value_.device());
    const View<T, 1> place{value_.device_data() + first, {here.size()}};
    on(here, [&](auto device) { kernel::copy(device, view<1>(here), place); });
  }
  void require_same_shape(const Shape& shape) const {
    require<ShapeError>(shape == value_.shape(), "a weight of shape ", value_.shape(), " cannot take values of shape ",
                        shape);
  }

  Tensor<T> value_;
  mutable std::mutex mutex_;  // a const model may be used by several threads
  mutable std::any cast_;
  mutable std::uint64_t cast_version_ = 0;
};

// A weight in its master type T; share() gives another handle on the same one.
template <class T>
class Parameter {
 public:
  using Element = T;
  using Identity = std::shared_ptr<MasterTensor<T>>;

  // On the tensor's own block; not a copy.
  explicit Parameter(const Tensor<T>& initial) : identity_(std::make_shared<MasterTensor<T>>(initial)) {
    identity_->set_node(NodeRef(new Leaf<T>(shape())));
  }
  Parameter(Parameter&&) noexcept = default;
  Parameter& operator=(Parameter&&) noexcept = default;

  const Tensor<T>& value() const { return identity_->value(); }
  operator const Tensor<T>&() const { return value(); }
  const Shape& shape() const { return value().shape(); }
  // Empty before the first backward, and for a frozen parameter.
  Tensor<T> grad() const { return frozen() ? Tensor<T>() : value().grad(); }

  // A frozen parameter is a constant: it gets no gradient, and optimizers pass it by.
  bool frozen() const { return !value().requires_grad(); }
  void freeze(bool yes = true) {
    if (yes != frozen()) identity_->set_node(yes ? NodeRef() : NodeRef(new Leaf<T>(shape())));
  }

  // The value in the type of the activations, cast once per update and differentiable.
  template <class U>
  Tensor<U> as() const {
    if constexpr (std::is_same_v<U, T>)
      return value();
    else
      return identity_->template as<U>();
  }

  const Identity& identity() const { return identity_; }
  // Another handle on the same weight: it is trained, counted and saved once.
  friend Parameter share(const Parameter& p) { return Parameter(p.identity_); }

 private:
  friend class Cloning;
  explicit Parameter(Identity identity) : identity_(std::move(identity)) {}
  Identity identity_;
};

// A tensor that belongs to a model and its file but is not trained, such as a table of positions.
template <class T>
class Buffer {
 public:
  using Element = T;
  using Identity = std::shared_ptr<MasterTensor<T>>;

  // On the tensor's own block; not a copy.
  explicit Buffer(const Tensor<T>& value) : identity_(std::make_shared<MasterTensor<T>>(detach(value))) {}
  Buffer(Buffer&&) noexcept = default;
  Buffer& operator=(Buffer&&) noexcept = default;

  const Tensor<T>& value() const { return identity_->value(); }
  operator const Tensor<T>&() const { return value(); }
  const Shape& shape() const { return value().shape(); }
  template <class U>
  Tensor<U> as() const {
    if constexpr (std::is_same_v<U, T>)
      return value();
    else
      return identity_->template as<U>();
  }
  const Identity& identity() const { return identity_; }

 private:
  friend class Cloning;
  explicit Buffer(Identity identity) : identity_(std::move(identity)) {}
  Identity identity_;
};

}  // namespace heddle
