// Tensor<T>: a handle to a contiguous, row-major block on one device. The element type is part of the C++ type; the
// device is a run-time value.
#pragma once
#include <array>
#include <concepts>
#include <cstring>
#include <limits>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <heddle/base/checks.hpp>
#include <heddle/base/number_types.hpp>
#include <heddle/base/view.hpp>
#include <heddle/core/build_check.hpp>
#include <heddle/core/node.hpp>
#include <heddle/core/storage.hpp>

namespace heddle::detail {

template <class T>
class MasterTensor;  // nn/parameter.hpp

// Throws the error for a tensor on a GPU that is not the calling thread's.
[[noreturn, gnu::noinline, gnu::cold]] inline void fail_other_gpu(const Shape& shape, [[maybe_unused]] int gpu) {
  if constexpr (has_cuda)
    fail("a tensor of shape ", shape, " is on GPU ", gpu, ", but the calling thread's GPU is ", cuda::current_device(),
         "; call cuda::set_device(", gpu, "), or copy the tensor with to(Device::cuda)");
  fail("a tensor of shape ", shape, " is on a GPU");
}

// Allocates the memory of a tensor, or wraps `wrapped` if it is not null. Throws OutOfMemory, and Error for a device
// that this build does not support.
[[gnu::noinline]] inline std::shared_ptr<Storage> make_storage(const Shape& shape, std::size_t element_size,
                                                               Device device, void* wrapped) {
  require(has_cuda || device == Device::cpu, "Tensor: this build has no CUDA backend; configure with -DHEDDLE_CUDA=ON");
  require<OutOfMemory>(shape.size() <= std::numeric_limits<Index>::max() / static_cast<Index>(element_size),
                       "out of memory: shape ", shape, " requested");
  return std::make_shared<Storage>(wrapped, static_cast<std::size_t>(shape.size()) * element_size, device);
}

}  // namespace heddle::detail
namespace heddle::cuda {
template <class T>
void record_stream(const Tensor<T>& x, void* stream);
}

// The definition is outside the namespace, because the class was declared in the inline namespace of the build
// (base/build.hpp).
/// A handle: copies share one block of memory, and a const handle is read-only. T is float, double, bf16, std::int32_t,
/// std::int64_t or bool.
template <class T>
class heddle::Tensor {
 public:
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>);
  using Element = T;  ///< the type of an element

  /// Makes an empty handle without data. Using it as an operand throws Error.
  Tensor() = default;
  /// Makes another handle to the same block.
  Tensor(const Tensor& other)
      : shape_(other.shape_),
        device_(other.device_),
        data_(other.data_),
        storage_(other.storage_),
        version_(detail::grad_mode == detail::GradMode::backward ? other.version_ : other.version()),
        node_(other.node_) {}
  /// Leaves `other` empty, unless it is a parameter or buffer.
  Tensor(Tensor&& other) noexcept;
  /// Makes this a handle to the block of `other`. @throws Error if this is a parameter or buffer.
  Tensor& operator=(const Tensor& other) { return *this = Tensor(other); }
  /// Takes over another handle. @throws Error if this is a parameter or buffer.
  Tensor& operator=(Tensor&& other);
  ~Tensor() = default;

  /// Allocates uninitialized memory. @throws OutOfMemory, and Error for a device that this build does not support or
  /// for double on the GPU.
  explicit Tensor(Shape shape, Device device = Device::cpu) : Tensor(shape, device, nullptr) {}

  /// Makes a tensor on the CPU from its elements in row-major order. @throws ShapeError unless there is one value per
  /// element.
  Tensor(Shape shape, const std::vector<T>& values);
  /// Makes a tensor on the CPU from its elements in row-major order. @throws ShapeError unless there is one value per
  /// element.
  Tensor(Shape shape, std::initializer_list<T> values) : Tensor(shape, std::vector<T>(values)) {}

  /// Wraps memory on `device` that is owned by the caller. It is neither copied nor freed, and must outlive every
  /// handle. @throws Error for a null pointer unless the shape has no elements, for a device that this build does not
  /// support, for memory of the host that is said to be a GPU's, and for double on the GPU.
  static Tensor wrap(T* memory, Shape shape, Device device = Device::cpu) {
    require(memory || shape.size() == 0, "Tensor::wrap: a null pointer for shape ", shape);
    return Tensor(shape, device, memory);
  }

  /// @private Returns a tensor in a part of another one's block, which it shares, from byte `first` of its elements on.
  template <class U>
  static Tensor within(const Tensor<U>& block, std::size_t first, Shape shape) {
    Tensor t;
    t.storage_ = block.storage_;
    t.data_ = reinterpret_cast<T*>(reinterpret_cast<std::byte*>(block.data_) + first);
    t.shape_ = shape;
    t.device_ = block.device_;
    return t;
  }

  /// Returns the extents of all axes.
  const Shape& shape() const { return shape_; }
  /// Returns the extent of an axis; -1 is the last. @throws ShapeError if the axis does not exist.
  Index dim(int axis) const { return shape_[axis]; }
  /// Returns the number of axes.
  int rank() const { return shape_.rank(); }
  /// Returns the number of elements.
  Index size() const { return shape_.size(); }
  /// Returns the device that holds the block.
  // A constant without CUDA, so that the code for other devices is not compiled.
  Device device() const { return detail::has_cuda ? device_ : Device::cpu; }
  /// Returns the number of the GPU that holds the block; -1 on the CPU, and for an empty handle.
  int gpu() const { return storage_ ? storage_->gpu : -1; }
  /// Returns whether the block is on `device`. Device::cuda is the calling thread's GPU (cuda::set_device).
  bool is_on(Device device) const {
    if (device != this->device()) return false;
    if constexpr (detail::has_cuda)
      if (device == Device::cuda && storage_) return storage_->gpu == cuda::current_device();
    return true;
  }
  /// Returns whether the handle has memory, that is, is not empty.
  bool has_data() const { return storage_ != nullptr; }
  /// Returns has_data(). For a Tensor<bool> returns its only element, so that `if (any(isnan(x)))` tests the value.
  /// @throws ShapeError for a Tensor<bool> unless it has exactly one element, and Error for an empty Tensor<bool>.
  explicit operator bool() const {
    if constexpr (std::is_same_v<T, bool>) {
      require_data();
      require<ShapeError>(
          size() == 1, "a Tensor<bool> of shape ", shape_,
          " is used as a condition, which needs one element: reduce it with any(x) or all(x), or combine masks with "
          "logical_and and logical_or");
      return item();
    } else {
      return has_data();
    }
  }

  /// Returns the host pointer. The non-const form counts as a write: a backward that needs the old values then throws.
  /// @throws Error for a tensor on the GPU.
  T* data() {
    require_host();
    return device_data();
  }
  /// Returns the host pointer for reading. @throws Error for a tensor on the GPU, and in a backward if the block was
  /// written since the forward.
  const T* data() const {
    require_host();
    return device_data();
  }

  /// Returns the pointer on the tensor's device. Counts as a write, like the non-const data(). @throws Error for an
  /// empty tensor, and on a GPU that is not the calling thread's.
  T* device_data() {
    require_data();
    require_own_gpu();
    version_ = ++storage_->version;
    return data_;
  }
  /// Returns the pointer on the tensor's device for reading. @throws Error for an empty tensor, on a GPU that is not
  /// the calling thread's, and in a backward if the block was written since the forward.
  const T* device_data() const {
    require_readable();
    require_own_gpu();
    return data_;
  }

  /// Returns a copy on `device`, or this handle if its block is there already. Device::cuda is the calling thread's
  /// GPU: a tensor of another GPU is copied to it. Not recorded by autograd. A copy to the host synchronizes. @throws
  /// OutOfMemory, and Error for a device that this build does not support or for double on the GPU.
  Tensor to(Device device) const {
    if (is_on(device)) return *this;
    Tensor y(shape_, device);
    if constexpr (detail::has_cuda) {
      require_readable();
      const std::size_t bytes = static_cast<std::size_t>(size()) * sizeof(T);
      if (device == Device::cpu)
        cuda::to_host(storage_->gpu, y.data_, data_, bytes);
      else if (this->device() == Device::cpu)
        cuda::to_device(y.data_, data_, bytes);
      else
        cuda::from_gpu(storage_->gpu, y.data_, data_, bytes);
    }
    return y;
  }
  /// Returns all elements in row-major order.
  std::vector<T> host() const {
    const Tensor here = to(Device::cpu);
    return std::vector<T>(here.device_data(), here.device_data() + size());
  }
  /// Returns the only element. @throws ShapeError unless there is exactly one, and Error for an empty tensor.
  T item() const {
    require_data();
    require<ShapeError>(size() == 1, "item: one element expected; the shape is ", shape_);
    const Tensor here = to(Device::cpu);
    return *here.device_data();
  }

  /// Returns the element at the given indices, one per axis, of a tensor on the host: x(1, -1). Index -1 is the last of
  /// its axis. To write elements, or to read many, use data(). @throws IndexError for an index out of range, ShapeError
  /// for another number of indices, and Error for a tensor on the GPU.
  template <std::integral... Indices>
  T operator()(Indices... indices) const {
    return element(std::array<Index, sizeof...(Indices)>{static_cast<Index>(indices)...});
  }

  /// Returns a handle to the same block with another shape of the same size, without its graph. @throws ShapeError for
  /// another size.
  Tensor with_shape(Shape shape) const {
    require_data();
    require<ShapeError>(shape.size() == size(), "reshape: ", shape_, " has ", size(), " elements, ", shape, " has ",
                        shape.size());
    Tensor t = without_node();
    t.shape_ = shape;
    return t;
  }
  /// Returns positions [first, last) of axis 0 as a handle into the same block, without its graph. @throws ShapeError
  /// for a scalar, and unless 0 <= first <= last <= dim(0).
  Tensor leading(Index first, Index last) const {
    require_data();
    require<ShapeError>(rank() > 0 && 0 <= first && first <= last && last <= dim(0), "slice: [", first, ", ", last,
                        ") is not within axis 0 of ", shape_);
    Tensor t = without_node();
    t.shape_ = shape_.with(0, last - first);
    if (t.data_) t.data_ += first * shape_.product(1, rank());
    return t;
  }

  /// Returns this handle with its version updated: a backward accepts the writes made so far.
  Tensor as_of_now() const {
    Tensor t = *this;
    t.version_ = version();
    return t;
  }
  /// Returns whether the block has other handles, or belongs to the caller (wrap).
  bool is_shared() const { return storage_ && (storage_.use_count() > 1 || !storage_->owned); }
  /// Returns whether cuda::record_stream() has named another stream that uses the block.
  bool is_on_other_streams() const { return storage_ && storage_->on_other_streams; }
  /// Returns the number of writes to the block, which all its handles share.
  std::uint64_t version() const { return storage_ ? storage_->version : 0; }

  // --- autograd (autograd/record.hpp); a tensor without a node is a constant ---
  /// Returns whether backward computes a gradient for this tensor.
  bool requires_grad() const { return static_cast<bool>(node_); }
  /// Returns the node that made this tensor; null for a constant.
  const detail::NodeRef& node() const { return node_; }
  /// Returns a handle to the same block, recorded as the result of `node`.
  Tensor with_node(detail::NodeRef node) const {
    Tensor t = *this;
    t.node_ = std::move(node);
    return t;
  }
  /// Returns a handle to the same block without a node, that is, a constant.
  Tensor without_node() const { return with_node({}); }
  /// Returns the gradient that backward accumulated. Empty before the first backward, and for an intermediate result.
  /// @throws Error for a tensor that does not require a gradient.
  Tensor grad() const;
  /// Replaces the gradient; an empty tensor clears it. @throws Error for a tensor that does not require a gradient and
  /// for a gradient on another device, and ShapeError for another shape.
  void set_grad(const Tensor& dx) const;

 private:
  friend class detail::MasterTensor<T>;
  template <class U>
  friend class Tensor;
  template <class U>
  friend void cuda::record_stream(const Tensor<U>& x, void* stream);
  Tensor(Shape shape, Device device, T* wrapped);

  // Takes over another handle's fields, but not whether it belongs to a weight.
  void take(Tensor&& other) noexcept;

  T element(std::span<const Index> at) const {
    require_data();
    require<ShapeError>(static_cast<int>(at.size()) == rank(), "Tensor: ", at.size(), " indices given for shape ",
                        shape_);
    Index offset = 0;
    for (int axis = 0; axis < rank(); ++axis) {
      const Index extent = shape_[axis], i = at[static_cast<std::size_t>(axis)];
      require<IndexError>(-extent <= i && i < extent, "Tensor: index ", i, " is outside axis ", axis, " of ", shape_);
      offset = offset * extent + (i < 0 ? i + extent : i);
    }
    return data()[offset];
  }
  void require_data() const {
    if (!storage_) [[unlikely]]
      fail("an empty tensor is used: it was made without a shape, or moved from");
  }
  void require_readable() const {
    require_data();
    if (detail::grad_mode == detail::GradMode::backward && storage_->version != version_) [[unlikely]]
      fail("backward: a tensor of shape ", shape_,
           " that the forward saved has been written in place since (or handed out for writing by a non-const data())");
  }
  void require_own_gpu() const {
    if constexpr (detail::has_cuda)
      if (device_ == Device::cuda && storage_->gpu != cuda::current_device()) [[unlikely]]
        detail::fail_other_gpu(shape_, storage_->gpu);
  }
  void require_host() const {
    require(device() == Device::cpu, "data: a tensor of shape ", shape_, " is on ", device(),
            "; use host() or to(Device::cpu)");
  }

  static constexpr Shape no_elements{0};  // the shape of an empty handle

  Shape shape_ = no_elements;
  Device device_ = Device::cpu;
  bool belongs_to_weight_ = false;  // the tensor of a parameter or buffer, which follows its weight and is not rebound
  T* data_ = nullptr;
  std::shared_ptr<detail::Storage> storage_;
  // The storage's version when this handle was made or last wrote. Inside a backward, a copy keeps its source's
  // version.
  std::uint64_t version_ = 0;
  detail::NodeRef node_;
};

namespace heddle {

namespace detail {
template <class T, class U>
inline constexpr bool other_element = false;
template <class T, class U>
inline constexpr bool other_element<T, Tensor<U>> = !std::is_same_v<T, U>;
}  // namespace detail

/// Operands that floating-point operations refuse: integers and bool, and tensors of two element types.
template <class T, class... Others>
concept Refused = std::is_integral_v<T> ||(detail::other_element<T, Others> || ...);

// heddle::compiled contains these functions. They are defined outside the class, because functions defined inside it
// are inline, and every user would compile them.
template <class T>
void Tensor<T>::take(Tensor&& other) noexcept {
  shape_ = std::exchange(other.shape_, no_elements);
  device_ = std::exchange(other.device_, Device::cpu);
  data_ = std::exchange(other.data_, nullptr);
  storage_ = std::move(other.storage_);
  version_ = std::exchange(other.version_, 0);
  node_ = std::move(other.node_);
}
template <class T>
Tensor<T>::Tensor(Tensor&& other) noexcept {
  if (other.belongs_to_weight_)
    take(Tensor(std::as_const(other)));
  else
    take(std::move(other));
}
template <class T>
Tensor<T>& Tensor<T>::operator=(Tensor&& other) {
  require(!belongs_to_weight_,
          "a parameter or buffer cannot be replaced by another tensor; use assign() to write its values");
  if (this != &other) take(Tensor(std::move(other)));
  return *this;
}
template <class T>
Tensor<T>::Tensor(Shape shape, const std::vector<T>& values) : Tensor(shape) {
  require<ShapeError>(static_cast<Index>(values.size()) == shape.size(), "Tensor: ", values.size(),
                      " values given for shape ", shape, " of ", shape.size());
  std::copy(values.begin(), values.end(), data_);
}
template <class T>
Tensor<T>::Tensor(Shape shape, Device device, T* wrapped) : shape_(shape), device_(device) {
  require(!detail::has_cuda || device == Device::cpu || !std::is_same_v<T, double>,
          "Tensor: double is for the CPU only, to check results; use float or bf16 on the GPU");
  storage_ = detail::make_storage(shape, sizeof(T), device, wrapped);
  data_ = static_cast<T*>(storage_->memory);
}

/// Marks the block of x as used by work on a stream that neither allocates nor releases it; null is the shared stream.
/// The block is not reused before that work is complete, as with PyTorch's Tensor.record_stream. Has no effect on the
/// CPU and on memory owned by the caller.
template <class T>
void cuda::record_stream(const Tensor<T>& x, void* stream) {
  if constexpr (detail::has_cuda)
    if (x.device_ == Device::cuda && x.storage_->owned) {
      record_stream(x.storage_->memory, stream);
      x.storage_->on_other_streams = true;
    }
}

/// Returns an uninitialized tensor with x's shape and device.
template <class T>
Tensor<T> empty_like(const Tensor<T>& x) {
  return Tensor<T>(x.shape(), x.device());
}

}  // namespace heddle
