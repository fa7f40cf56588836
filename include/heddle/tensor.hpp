// Tensor<T>: a handle to a contiguous, row-major block on one device. The element type is part of the type; where the
// data lives is a run-time value.
#pragma once
#include <cstring>
#include <memory>
#include <vector>

#include <heddle/error.hpp>
#include <heddle/node.hpp>
#include <heddle/storage.hpp>

namespace heddle {

// Objects of different builds must not be mixed: this name is in the symbol of every function that takes a tensor.
#if defined(HEDDLE_ONEDNN) && defined(HEDDLE_CUDA)
inline namespace v0_1_onednn_cuda {
#elif defined(HEDDLE_ONEDNN)
inline namespace v0_1_onednn {
#elif defined(HEDDLE_CUDA)
inline namespace v0_1_cuda {
#else
inline namespace v0_1 {
#endif

// Copies share one block; a const one is read-only. T is float, double, bf16, std::int32_t, std::int64_t or bool.
template <class T>
class Tensor {
 public:
  static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>);
  using Element = T;

  Tensor() = default;  // no data at all; false in a condition
  Tensor(const Tensor& other)
      : shape_(other.shape_),
        device_(other.device_),
        data_(other.data_),
        storage_(other.storage_),
        version_(mode == Mode::backward ? other.version_ : other.version()),
        node_(other.node_) {}
  Tensor(Tensor&&) noexcept = default;
  Tensor& operator=(const Tensor& other) { return *this = Tensor(other); }
  Tensor& operator=(Tensor&&) noexcept = default;
  ~Tensor() = default;

  // Uninitialised. Throws OutOfMemory, and Error for a device that this build does not have.
  explicit Tensor(Shape shape, Device device = Device::cpu) : Tensor(shape, device, nullptr) {}

  // Throws ShapeError unless there is one value per element.
  Tensor(Shape shape, const std::vector<T>& values) : Tensor(shape) {
    require<ShapeError>(static_cast<Index>(values.size()) == shape.size(), "Tensor: ", values.size(),
                        " values given for shape ", shape, " of ", shape.size());
    std::copy(values.begin(), values.end(), data_);
  }

  // The user's own memory on that device: neither copied nor freed, and it must outlive every handle.
  static Tensor wrap(T* memory, Shape shape, Device device = Device::cpu) {
    require(memory || shape.size() == 0, "Tensor::wrap: a null pointer for shape ", shape);
    return Tensor(shape, device, memory);
  }

  const Shape& shape() const { return shape_; }
  // -1 is the last axis. Throws ShapeError when there is no such axis.
  Index dim(int axis) const { return shape_[axis]; }
  int rank() const { return shape_.rank(); }
  Index size() const { return shape_.size(); }
  Device device() const { return device_; }
  explicit operator bool() const { return storage_ != nullptr; }

  // The host pointer; throws Error for a tensor on the GPU. The one of a non-const tensor may be written through: a
  // backward that needs the values as they were is then an error.
  T* data() {
    require_host();
    return device_data();
  }
  const T* data() const {
    require_host();
    return device_data();
  }

  // The pointer on whichever device holds the tensor.
  T* device_data() {
    if (storage_) version_ = ++storage_->version;
    return data_;
  }
  const T* device_data() const {
    if (mode == Mode::backward && storage_ && storage_->version != version_) [[unlikely]]
      fail("backward: a tensor of shape ", shape_,
           " that the forward saved was written in place since (or handed out for writing by a non-const data())");
    return data_;
  }

  // A copy on the other device, or this handle when it is there already. Not recorded by autograd. To the host it waits.
  Tensor to(Device device) const {
    if (device == device_) return *this;
    Tensor y(shape_, device);
#ifdef HEDDLE_CUDA
    const auto copy = device == Device::cuda ? cuda::to_device : cuda::to_host;
    copy(y.data_, device_data(), static_cast<std::size_t>(size()) * sizeof(T));
#endif
    return y;
  }
  // All elements, row-major, on the host.
  std::vector<T> host() const {
    const Tensor here = to(Device::cpu);
    return std::vector<T>(here.device_data(), here.device_data() + size());
  }
  // The only element. Throws ShapeError unless there is exactly one.
  T item() const {
    require<ShapeError>(size() == 1, "item: one element expected, the shape is ", shape_);
    const Tensor here = to(Device::cpu);
    return *here.device_data();
  }

  // The same block seen with another shape of the same size; no node.
  Tensor with_shape(Shape shape) const {
    require<ShapeError>(shape.size() == size(), "reshape: ", shape_, " has ", size(), " elements, ", shape, " has ",
                        shape.size());
    Tensor t = without_node();
    t.shape_ = shape;
    return t;
  }
  // Positions [first, last) of axis 0 as a handle into the same block; no node.
  Tensor leading(Index first, Index last) const {
    require<ShapeError>(rank() > 0 && 0 <= first && first <= last && last <= dim(0), "slice: [", first, ", ", last,
                        ") is not within axis 0 of ", shape_);
    Tensor t = without_node();
    t.shape_ = shape_.with(0, last - first);
    if (t.data_) t.data_ += first * shape_.product(1, rank());
    return t;
  }

  // This handle as if made now: writes until now are none that a backward should warn of.
  Tensor as_of_now() const {
    Tensor t = *this;
    t.version_ = version();
    return t;
  }
  // Whether other handles see the same block.
  bool shared() const { return storage_.use_count() > 1; }
  // Counts the writes to the block; all handles of it share one count.
  std::uint64_t version() const { return storage_ ? storage_->version : 0; }

  // --- autograd (autograd.hpp); a tensor without a node is a constant ---
  bool requires_grad() const { return static_cast<bool>(node_); }
  const NodeRef& node() const { return node_; }
  Tensor with_node(NodeRef node) const {
    Tensor t = *this;
    t.node_ = std::move(node);
    return t;
  }
  Tensor without_node() const { return with_node({}); }
  // What backward left here: empty before, and always for what is neither a variable nor a parameter.
  // Throws Error for a tensor that does not require a gradient.
  Tensor grad() const;
  void set_grad(const Tensor& dx) const;  // an empty one clears it

 private:
  Tensor(Shape shape, Device device, T* wrapped) : shape_(shape), device_(device) {
#ifdef HEDDLE_CUDA
    require(device == Device::cpu || !std::is_same_v<T, double>, "Tensor: double is for the CPU, to check with");
#else
    require(device == Device::cpu, "Tensor: this build has no CUDA backend");
#endif
    require<OutOfMemory>(shape.size() <= std::numeric_limits<Index>::max() / static_cast<Index>(sizeof(T)),
                         "out of memory: shape ", shape, " requested");
    const std::size_t bytes = static_cast<std::size_t>(shape.size()) * sizeof(T);
    storage_ = std::make_shared<Storage>(wrapped, bytes, device);
    data_ = static_cast<T*>(storage_->memory);
  }

  void require_host() const {
    require(device_ == Device::cpu, "data: a tensor of shape ", shape_, " is on ", device_,
            "; use host() or to(Device::cpu)");
  }

  Shape shape_{0};
  Device device_ = Device::cpu;
  T* data_ = nullptr;
  std::shared_ptr<Storage> storage_;
  // Of the storage when this handle last wrote it or was made; in a backward a copy is as old as what it was copied from.
  std::uint64_t version_ = 0;
  NodeRef node_;
};

}  // inline namespace

// An uninitialised tensor of x's shape and device.
template <class T>
Tensor<T> like(const Tensor<T>& x) {
  return Tensor<T>(x.shape(), x.device());
}

}  // namespace heddle
