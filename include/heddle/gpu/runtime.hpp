// The GPU functions that a tensor needs: availability, streams, memory and copies. Defined in cuda/, most of them in
// runtime.cu and copies.cu. Functions are called on the host. They throw CudaError for an error that CUDA reports,
// except release(), trim(), order_streams() and the two that return a reason. Work is enqueued on the calling thread's
// stream, and functions return before it is complete, except those that say "synchronizes".
#pragma once
#include <cstddef>
#include <memory>
#include <string>

#include <heddle/base/memory_cache.hpp>

namespace heddle {

namespace detail {
// Whether this build has the CUDA backend. Callers of the functions below are inside `if constexpr (detail::has_cuda)`,
// so that programs without the CUDA library link.
#ifdef HEDDLE_CUDA
inline constexpr bool has_cuda = true;
#else
inline constexpr bool has_cuda = false;
#endif
}  // namespace detail

namespace cuda {

/// Returns an empty string if the calling thread's GPU can be used by this build, otherwise the reason why not, as a
/// sentence.
std::string unavailable();
/// Returns an empty string if the library for matrix products can be used, otherwise the reason why not.
std::string products_unavailable();

/// Returns the number of GPUs; 0 if there is none, or no driver.
int device_count() noexcept;
/// Returns the number of the calling thread's GPU, which is Device::cuda for this thread. The first one is 0.
int current_device() noexcept;
/// Makes a GPU the calling thread's, as cudaSetDevice does. A tensor stays on its GPU, and can be used by threads whose
/// GPU that is; to(Device::cuda) copies it to another. @throws Error unless 0 <= number < device_count().
void set_device(int number);
/// Returns the address of the calling thread's GPU on the machine's PCI bus, which tells GPUs of several processes
/// apart: each process may count them in another way.
std::string pci_address();
/// Returns the number of the GPU that can use memory on a device. @throws Error for memory of the host that CUDA does
/// not know.
int device_of(const void* memory);

/// Returns the calling thread's stream on its GPU, as a cudaStream_t. All threads share one for each GPU unless
/// set_stream chose another.
void* stream();
/// Sets the calling thread's stream on its GPU; null restores the shared stream. Does not synchronize: order work
/// across streams with order_streams(), events or synchronize(). A stream must outlive the memory that was allocated
/// while it was set, and memory that record_stream() marked; call trim() before destroying it.
void set_stream(void* stream);
/// Orders work that is enqueued on `later` from now on after the work on `earlier` so far; null is the shared stream.
/// Returns at once.
void order_streams(void* earlier, void* later) noexcept;
/// Synchronizes the calling thread's stream.
void synchronize();
/// A stream of its own, on the calling thread's GPU.
class Stream {
 public:
  /// Creates the stream.
  Stream();
  Stream(const Stream&) = delete;
  /// Synchronizes, calls trim() and destroys the stream.
  ~Stream();
  /// Returns the cudaStream_t.
  void* get() const { return stream_; }

 private:
  int gpu_;
  void* stream_ = nullptr;
};
/// A scope in which another stream is the calling thread's, on its GPU.
class StreamScope {
 public:
  /// Sets the stream as set_stream() does.
  explicit StreamScope(void* stream);
  StreamScope(const StreamScope&) = delete;
  /// Restores the stream that was set before.
  ~StreamScope();

 private:
  void* before_;
};

/// Returns at least `bytes` of uninitialized device memory, aligned to 256 bytes, for work on the calling thread's
/// stream. @throws OutOfMemory.
void* allocate(std::size_t bytes);
/// Returns memory to the cache, for the next request on the stream that it was allocated for. Work that is already
/// enqueued on the calling thread's stream, or on a stream that record_stream() named, may still use the memory: later
/// work on the memory's stream runs after it.
void release(void* memory, std::size_t bytes) noexcept;
/// Marks memory of allocate() as used by work on `stream`, so that it is not reused before that work is complete; null
/// is the shared stream. Needed for a stream that neither allocates nor releases the memory. @throws Error for an
/// address that is not in use.
void record_stream(const void* memory, void* stream);
/// Frees all cached blocks of all GPUs. Synchronizes.
void trim();
/// Returns the memory statistics of the calling thread's GPU, over all threads.
MemoryStats memory_stats();

/// Allows fp32 matrix products and attention to round their operands to 11 significant bits (TF32), for the tensor
/// cores. Applies to all threads from the next call on. Off by default.
void allow_tf32(bool allow);
/// Returns whether allow_tf32(true) is in effect.
bool tf32_is_allowed();

/// Copies from host to device. The source may be reused at once. Synchronizes if the source is pinned memory.
/// Otherwise at most 64 copies are in flight, and a further one waits for the oldest; a larger copy counts once for
/// every 256 KiB.
void to_device(void* to, const void* from, std::size_t bytes);
/// Copies from device to host. Synchronizes.
void to_host(void* to, const void* from, std::size_t bytes);
/// Copies from the memory of any GPU to the host, after the work on the calling thread's stream there. Synchronizes.
void to_host(int gpu, void* to, const void* from, std::size_t bytes);
/// Bytes that are copied from device to pinned host memory while the host goes on.
class HostBytes {
 public:
  /// Begins the copy. The source may be released or overwritten by later work on the calling thread's stream.
  HostBytes(const void* from, std::size_t bytes);
  /// Takes over the copy.
  HostBytes(HostBytes&&) noexcept;
  /// Takes over the copy.
  HostBytes& operator=(HostBytes&&) noexcept;
  ~HostBytes();
  /// Writes the bytes to `to`. Synchronizes with the copy, but not with later work.
  void read(void* to) const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};
/// Copies from device to device.
void on_device(void* to, const void* from, std::size_t bytes);
/// Copies from the memory of another GPU to the calling thread's, after the work on the calling thread's stream there.
/// The source may be released or overwritten by later work on that stream.
void from_gpu(int gpu, void* to, const void* from, std::size_t bytes);
/// Sets all bytes to 0.
void clear(void* memory, std::size_t bytes);
/// Copies rows of `width` bytes between device arrays whose rows are `to_stride` and `from_stride` bytes apart.
void copy_rows(void* to, std::size_t to_stride, const void* from, std::size_t from_stride, std::size_t width,
               std::size_t rows);

}  // namespace cuda
}  // namespace heddle
