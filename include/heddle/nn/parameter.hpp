// Parameter and Buffer: the tensors of a module. A parameter is an identity, not a value: it can be moved but not
// copied, so that a copy of a model never shares the weights that are trained. Two layers share a weight only through
// share().
#pragma once
#include <algorithm>
#include <any>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include <heddle/autograd/backward.hpp>
#include <heddle/ops/cast.hpp>

namespace heddle {

namespace detail {

// Returns a tensor with the values of x in memory that no other tensor shares: the block of x if x is its only handle,
// otherwise a copy.
template <class T>
Tensor<T> take_or_copy(Tensor<T> x) {
  require(x.has_data(), "a parameter or buffer cannot be made from an empty tensor");
  return x.is_shared() ? deep_copy(x) : x.without_node();
}

// The parameters and buffers that were created on this thread after this object and still exist. check_visit compares
// them with those that a module names.
class MadeWeights {
 public:
  MadeWeights() { current = this; }
  MadeWeights(const MadeWeights&) = delete;
  ~MadeWeights() { current = previous_; }

  [[gnu::noinline]] static void add(const void* weight, const Shape& shape) {
    if (current) current->weights_.emplace_back(weight, shape);
  }
  [[gnu::noinline]] static void drop(const void* weight) {
    if (current) current->remove(weight);
  }
  void remove(const void* weight) {
    std::erase_if(weights_, [weight](const auto& made) { return made.first == weight; });
  }
  const std::vector<std::pair<const void*, Shape>>& remaining() const { return weights_; }

 private:
  static inline thread_local MadeWeights* current = nullptr;
  MadeWeights* previous_ = current;
  std::vector<std::pair<const void*, Shape>> weights_;
};

// A scope in which work for tensors on the GPU is enqueued on the shared stream, after the calling thread's
// earlier work.
class OnSharedStream {
 public:
  explicit OnSharedStream(Device device) {
    if constexpr (has_cuda) {
      if (device != Device::cuda) return;
      before_ = cuda::stream();
      cuda::order_streams(before_, nullptr);
      cuda::set_stream(nullptr);
    }
  }
  OnSharedStream(const OnSharedStream&) = delete;
  ~OnSharedStream() {
    if constexpr (has_cuda)
      if (before_) cuda::set_stream(before_);
  }

 private:
  void* before_ = nullptr;
};

// The node of a parameter's cast to U. Like other nodes, it serves one backward pass.
template <class U, class T>
class CastOf final : public CastOfWeight<U> {
 public:
  explicit CastOf(const Tensor<T>& parameter) : CastOfWeight<U>(parameter.shape()), parameter_(parameter.node()) {}
  std::span<const NodeRef> input_nodes() const override { return {&parameter_, 1}; }
  void run(BackwardPass& pass) override {
    require_first(pass);
    pass.deliver<T>(*this, parameter_, cast<T>(std::as_const(this->grad)));
  }
  void take(BackwardPass& pass, const Node& from, const Tensor<Acc<U>>& dx) override {
    require_first(pass);
    if (pass.is_target(*this))
      pass.deliver<U>(from, NodeRef(this), cast<U>(dx));
    else if constexpr (std::is_same_v<T, Acc<U>>)
      pass.deliver<T>(from, parameter_, dx);  // with a second handle, as cast() returns, the leaf would copy it
    else
      pass.deliver<T>(from, parameter_, cast<T>(dx));
  }

 private:
  // Throws Error for a later pass than the first one.
  void require_first(const BackwardPass& pass) {
    const std::uint64_t before = pass_.exchange(pass.id);
    require_alive(before == 0 || before == pass.id, this->op);
  }

  NodeRef parameter_;
  std::atomic<std::uint64_t> pass_ = 0;  // the id of the pass, which is above that of this node
};

// A tensor of a model in its master type, and its cast to the type of the activations. Parameters and buffers are
// handles to it that follow it: a write, a move to another device or a new node reaches them all.
template <class T>
class MasterTensor {
 public:
  [[gnu::cold]] explicit MasterTensor(Tensor<T> initial);
  MasterTensor(const MasterTensor&) = delete;
  ~MasterTensor();

  const Tensor<T>& value() const { return value_; }
  const Shape& shape() const { return value_.shape(); }

  // Returns the pointer for writing in place; a backward that saved the values then throws. data() is for tensors on
  // the host.
  T* data() { return published(value_.data()); }
  T* device_data() { return published(value_.device_data()); }
  // Returns the places that an update writes on the calling thread's stream: the values, and their cast to bf16. The
  // cast is null for a T other than float, if as<bf16>() has made none of the current values, and if its memory may
  // still be read: by the holder of a handle, such as a graph, or by another stream than the shared one.
  std::pair<T*, bf16*> to_update() {
    bf16* cast = nullptr;
    if constexpr (std::is_same_v<T, float>)
      if (auto* const made = std::any_cast<Tensor<bf16>>(&cast_))
        if (is_current() && !made->is_shared() && is_on_shared_stream()) cast = made->device_data();
    T* const values = device_data();
    if (cast) cast_version_ = value_.version();
    return {values, cast};
  }
  // Writes values of the same shape. Throws ShapeError for another shape.
  void assign(const Tensor<T>& from) {
    require_same_shape(from.shape());
    put(0, from);
  }
  // Writes the values of whole rows, beginning at element `first`. Throws ShapeError if they do not fit.
  void assign_rows(Index first, const Tensor<T>& from) {
    require<ShapeError>(first >= 0 && first + from.size() <= value_.size(), "a weight of shape ", value_.shape(),
                        " does not have elements [", first, ", ", first + from.size(), ')');
    put(first, from);
  }
  // Moves the values and the gradient to a device.
  void move(Device device) {
    if (!value_.is_on(device)) note_move();
    cast_.reset();
    value_ = value_.to(device).with_node(value_.node());
    publish();
    if (!value_.requires_grad()) return;
    if (const Tensor<T> gradient = value_.grad()) value_.set_grad(gradient.to(device));
  }
  void set_node(NodeRef node) {
    note_move();
    value_ = value_.with_node(std::move(node));
    publish();
  }

  void add_handle(Tensor<T>* handle) {
    const CriticalSection section(mutex_);
    handles_.push_back(handle);
    update(*handle);
  }
  void remove_handle(Tensor<T>* handle) noexcept {
    const CriticalSection section(mutex_);
    std::erase(handles_, handle);
    clear(*handle);
  }
  void replace_handle(Tensor<T>* handle, Tensor<T>* by) noexcept {
    const CriticalSection section(mutex_);
    std::replace(handles_.begin(), handles_.end(), handle, by);
    clear(*handle);
    update(*by);
  }

  // Returns the value in another type. The cast is kept until the value is written, unless an update writes both. Its
  // backward casts the gradient to T. On the GPU the shared stream computes it, because the cast may outlive the stream
  // of the calling thread.
  template <class U>
  Tensor<U> as() const {
    const CriticalSection section(mutex_);
    update_cast<U>();
    order_reader();
    if constexpr (has_cuda)
      if (RunLog* const log = current_run_log()) {
        is_cast_in_runs_ = true;
        log->add_cast(this, [](const void* weight) {
          const auto& self = *static_cast<const MasterTensor*>(weight);
          const CriticalSection in_use(self.mutex_);
          self.template update_cast<U>();
          self.order_reader();
        });
      }
    const auto& values = std::any_cast<const Tensor<U>&>(cast_);
    if constexpr (!std::is_integral_v<U>)
      if (grad_mode == GradMode::recording && value_.requires_grad())
        return with_node(values, new CastOf<U, T>(value_));
    return values;
  }

 private:
  bool is_current() const { return cast_version_ == value_.version(); }
  // Brings the cast to U up to date. It stays in its memory if nothing else may read that.
  template <class U>
  void update_cast() const {
    auto* const made = std::any_cast<Tensor<U>>(&cast_);
    if (made && is_current()) return;
    const NoGrad quiet;
    const OnSharedStream scope(value_.device());
    if (made && !made->is_shared() && is_on_shared_stream()) {
      cast_into(value_, *made);
    } else {
      if (made) note_move();
      cast_ = cast<U>(detach(value_));
    }
    cast_version_ = value_.version();
    cast_readers_.clear();
    if constexpr (has_cuda) cast_stream_ = cuda::stream();
  }
  // Returns whether a run of a cuda::Graph is known to use the weight.
  bool is_in_runs() const {
    return is_cast_in_runs_ || (value_.requires_grad() && static_cast<const Leaf<T>*>(value_.node().get())->is_in_runs);
  }
  // Notes that the values, their cast or their node are replaced, which recorded runs use.
  void note_move() const {
    if constexpr (has_cuda)
      if (value_.device() == Device::cuda) ++moves_on_gpu;
  }
  // Returns whether the calling thread's stream is the shared one, and no other has read the cast.
  bool is_on_shared_stream() const {
    if constexpr (has_cuda)
      if (value_.device() == Device::cuda)
        return cuda::stream() == cast_stream_ &&
               std::all_of(cast_readers_.begin(), cast_readers_.end(), [&](void* s) { return s == cast_stream_; });
    return true;
  }
  // Orders the calling thread's stream after the cast, once for each stream.
  void order_reader() const {
    if constexpr (has_cuda) {
      if (value_.device() != Device::cuda) return;
      void* const stream = cuda::stream();
      if (std::find(cast_readers_.begin(), cast_readers_.end(), stream) != cast_readers_.end()) return;
      cuda::order_streams(nullptr, stream);
      cast_readers_.push_back(stream);
    }
  }
  void put(Index first, const Tensor<T>& from) {
    const Tensor<T> here = from.to(value_.device());
    const View<T, 1> place{device_data() + first, {here.size()}};
    dispatch(here, [&](auto device) { kernel::copy(device, view<1>(here), place); });
  }
  void require_same_shape(const Shape& shape) const {
    require<ShapeError>(shape == value_.shape(), "a weight of shape ", value_.shape(), " cannot take values of shape ",
                        shape);
  }

  void update(Tensor<T>& handle) const {
    handle.take(Tensor<T>(value_));
    handle.belongs_to_weight_ = true;
  }
  static void clear(Tensor<T>& handle) noexcept {
    handle.take(Tensor<T>());
    handle.belongs_to_weight_ = false;
  }
  void publish() {
    const CriticalSection section(mutex_);
    for (Tensor<T>* handle : handles_) update(*handle);
  }
  T* published(T* memory) {
    publish();
    return memory;
  }

  Tensor<T> value_;
  std::vector<Tensor<T>*> handles_;
  mutable std::mutex mutex_;  // a const model may be used by several threads
  mutable std::any cast_;
  mutable std::uint64_t cast_version_ = 0;
  mutable std::vector<void*> cast_readers_;  // streams whose work is ordered after the cast
  mutable bool is_cast_in_runs_ = false;
  mutable void* cast_stream_ = nullptr;  // on the GPU, the shared stream, which made it
};

template <class T>
MasterTensor<T>::MasterTensor(Tensor<T> initial) : value_(std::move(initial)) {
  MadeWeights::add(this, value_.shape());
}
template <class T>
MasterTensor<T>::~MasterTensor() {
  if (is_in_runs()) note_move();
  MadeWeights::drop(this);
}

}  // namespace detail

/// The common base of Parameter and Buffer: a tensor that follows a master tensor and is written only through its
/// identity.
template <class T>
class MasterHandle : public Tensor<T> {
 public:
  using Element = T;                                          ///< the element type
  using Identity = std::shared_ptr<detail::MasterTensor<T>>;  ///< the weight itself, which optimizers hold

  /// Takes over the identity.
  MasterHandle(MasterHandle&& other) noexcept;
  /// Takes over the identity.
  MasterHandle& operator=(MasterHandle&& other) noexcept;

  /// Returns the weight as a tensor. @throws Error if this object was moved from; the other accessors throw it as well.
  const Tensor<T>& value() const {
    identity();
    return *this;
  }
  /// Returns the values, read-only: assign() writes them.
  const T* data() const { return value().data(); }
  /// Returns the pointer on the tensor's device, read-only.
  const T* device_data() const { return value().device_data(); }
  /// Overwrites the values in place, so optimizers and shared handles stay valid. @throws ShapeError for another shape.
  void assign(const Tensor<T>& values) { identity()->assign(values); }
  /// Returns the value in the type of the activations: a differentiable cast, which is kept until the value changes.
  /// Call it for each forward, because a result serves one backward.
  template <class U>
  Tensor<U> as() const {
    if constexpr (std::is_same_v<U, T>)
      return value();
    else
      return identity()->template as<U>();
  }
  /// Returns the identity. @throws Error if this object was moved from.
  const Identity& identity() const {
    require(identity_ != nullptr, "a parameter or buffer is used after it was moved from");
    return identity_;
  }

 protected:
  /// Makes a handle to a weight.
  explicit MasterHandle(Identity identity);
  ~MasterHandle();

 private:
  Identity identity_;
};

template <class T>
MasterHandle<T>::MasterHandle(Identity identity) : identity_(std::move(identity)) {
  identity_->add_handle(this);
}
template <class T>
MasterHandle<T>::MasterHandle(MasterHandle&& other) noexcept : identity_(std::move(other.identity_)) {
  if (identity_) identity_->replace_handle(&other, this);
}
template <class T>
MasterHandle<T>& MasterHandle<T>::operator=(MasterHandle&& other) noexcept {
  if (this == &other) return *this;
  if (identity_) identity_->remove_handle(this);
  identity_ = std::move(other.identity_);
  if (identity_) identity_->replace_handle(&other, this);
  return *this;
}
template <class T>
MasterHandle<T>::~MasterHandle() {
  if (identity_) identity_->remove_handle(this);
}

/// A weight in its master type T, which every operation accepts as a Tensor<T>. It can be moved but not copied. A
/// Tensor<T> that is made from it is a handle to the same memory; share() returns another Parameter of the same weight.
template <class T>
class Parameter : public MasterHandle<T> {
 public:
  using typename MasterHandle<T>::Identity;

  /// Copies the values.
  explicit Parameter(const Tensor<T>& initial);
  /// Takes over the memory if no other tensor shares it, and copies it otherwise.
  [[gnu::cold]] explicit Parameter(Tensor<T>&& initial);
  /// Takes over the identity.
  Parameter(Parameter&&) noexcept = default;
  /// Takes over the identity.
  Parameter& operator=(Parameter&&) noexcept = default;

  /// Returns the gradient: empty before the first backward, and for a frozen parameter.
  Tensor<T> grad() const { return frozen() ? Tensor<T>() : this->value().grad(); }
  /// Returns whether it is a constant, which gets no gradient and is skipped by optimizers.
  bool frozen() const { return !this->value().requires_grad(); }
  /// Makes the parameter a constant if `yes`, and a trained weight otherwise.
  void freeze(bool yes = true) {
    if (yes != frozen())
      this->identity()->set_node(yes ? detail::NodeRef() : detail::NodeRef(new detail::Leaf<T>(this->shape())));
  }

  /// Returns another handle to the same weight. It is trained, counted and saved once.
  friend Parameter share(const Parameter& p) { return Parameter(p.identity()); }

 private:
  friend class Cloning;
  explicit Parameter(Identity identity) : MasterHandle<T>(std::move(identity)) {}
};

template <class T>
Parameter<T>::Parameter(const Tensor<T>& initial) : Parameter(detail::deep_copy(initial)) {}
template <class T>
Parameter<T>::Parameter(Tensor<T>&& initial)
    : Parameter(std::make_shared<detail::MasterTensor<T>>(detail::take_or_copy(std::move(initial)))) {
  this->identity()->set_node(detail::NodeRef(new detail::Leaf<T>(this->shape())));
}

/// A tensor that belongs to a model and its file but is not trained, such as a table of positions.
template <class T>
class Buffer : public MasterHandle<T> {
 public:
  using typename MasterHandle<T>::Identity;

  /// Copies the values.
  explicit Buffer(const Tensor<T>& value);
  /// Takes over the memory if no other tensor shares it, and copies it otherwise.
  explicit Buffer(Tensor<T>&& value);
  /// Takes over the identity.
  Buffer(Buffer&&) noexcept = default;
  /// Takes over the identity.
  Buffer& operator=(Buffer&&) noexcept = default;

 private:
  friend class Cloning;
  explicit Buffer(Identity identity) : MasterHandle<T>(std::move(identity)) {}
};

template <class T>
Buffer<T>::Buffer(const Tensor<T>& value) : Buffer(detail::deep_copy(value)) {}
template <class T>
Buffer<T>::Buffer(Tensor<T>&& value)
    : Buffer(std::make_shared<detail::MasterTensor<T>>(detail::take_or_copy(std::move(value)))) {}

}  // namespace heddle
