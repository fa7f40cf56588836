// Copies between the host and the GPU, and within the GPU's memory. Pageable memory is copied through pinned memory of
// heddle's own, in pieces: cudaMemcpyAsync is asynchronous for pinned memory only, and the driver decides when it reads
// pageable memory. While the GPU transfers one piece, the host copies the next.
#include <array>
#include <cstring>
#include <mutex>
#include <utility>
#include <vector>

#include "device/gpu.cuh"
#include "device/graph_run.cuh"
#include "device/limits.cuh"
#include "device/workspace.cuh"

namespace heddle::cuda {
namespace {

constexpr std::size_t piece_bytes = std::size_t{256} << 10;

// Pinned memory for a piece of a copy.
struct PinnedPiece {
  char* memory;
  cudaEvent_t copied;  // recorded after the copy from or to the memory, on a stream of its GPU
};

// Allocates pinned pieces for copies from and to the calling thread's GPU. They are never freed, like the pool of
// device memory.
template <std::size_t count>
std::array<PinnedPiece, count> pinned_pieces() {
  void* memory = nullptr;
  check(cudaMallocHost(&memory, count * piece_bytes), "cudaMallocHost");
  std::array<PinnedPiece, count> pieces;
  for (std::size_t i = 0; i < count; ++i) {
    pieces[i].memory = static_cast<char*>(memory) + i * piece_bytes;
    check(cudaEventCreateWithFlags(&pieces[i].copied, cudaEventDisableTiming), "cudaEventCreate");
  }
  return pieces;
}

void copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes > 0) check(cudaMemcpyAsync(to, from, bytes, kind, current_stream()), "cudaMemcpyAsync");
}
void copy(const PinnedPiece& piece, void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind) {
  copy(to, from, bytes, kind);
  check(cudaEventRecord(piece.copied, current_stream()), "cudaEventRecord");
}
// Synchronizes with the last copy from or to the piece, if any.
void wait(const PinnedPiece& piece) { check(cudaEventSynchronize(piece.copied), "cudaEventSynchronize"); }

// The pieces through which all threads copy to a GPU, in turn. A copy waits only if all pieces are in use.
class Uploads {
 public:
  void copy_piece(char* to, const char* from, std::size_t bytes) {
    const std::lock_guard lock(mutex_);
    const PinnedPiece& piece = pieces_[next_];
    next_ = (next_ + 1) % pieces_.size();
    wait(piece);
    std::memcpy(piece.memory, from, bytes);
    copy(piece, to, piece.memory, bytes, cudaMemcpyHostToDevice);
  }

 private:
  static constexpr std::size_t count = 64;  // at most 64 small copies are in flight
  std::mutex mutex_;
  const std::array<PinnedPiece, count> pieces_ = pinned_pieces<count>();
  std::size_t next_ = 0;
};
Uploads& uploads() {
  static OfEachGpu<Uploads> all;
  return all.here();
}

// The pieces for copies from a GPU to the host that are not in use.
struct UnusedPieces {
  std::mutex mutex;
  std::vector<PinnedPiece> pieces;
};
OfEachGpu<UnusedPieces> unused_pieces;

// A pinned piece for copies to the host, which nothing else uses.
class OwnPiece {
 public:
  OwnPiece() : unused_(unused_pieces.here()), piece_(take()) {}
  OwnPiece(OwnPiece&& other) noexcept : unused_(other.unused_), piece_(std::exchange(other.piece_, {})) {}
  ~OwnPiece() {
    if (!piece_.memory) return;
    const std::lock_guard lock(unused_.mutex);
    unused_.pieces.push_back(piece_);
  }
  const PinnedPiece& operator*() const { return piece_; }

 private:
  PinnedPiece take() {
    std::unique_lock lock(unused_.mutex);
    std::vector<PinnedPiece>& pieces = unused_.pieces;
    if (pieces.empty()) return pinned_pieces<1>()[0];
    const PinnedPiece piece = pieces.back();
    pieces.pop_back();
    lock.unlock();
    wait(piece);  // for a copy that nobody read
    return piece;
  }

  UnusedPieces& unused_;
  PinnedPiece piece_;
};

// Copies to the host through two pieces: the GPU writes one while the host reads the other.
void download(char* to, const char* from, std::size_t bytes) {
  const OwnPiece pair[2];
  const auto piece_at = [&](std::size_t at) -> const PinnedPiece& { return *pair[at / piece_bytes % 2]; };
  const auto size = [&](std::size_t at) { return std::min(piece_bytes, bytes - at); };
  const auto enqueue = [&](std::size_t at) {
    if (at < bytes) copy(piece_at(at), piece_at(at).memory, from + at, size(at), cudaMemcpyDeviceToHost);
  };
  enqueue(0);
  for (std::size_t at = 0; at < bytes; at += piece_bytes) {
    enqueue(at + piece_bytes);
    wait(piece_at(at));
    std::memcpy(to + at, piece_at(at).memory, size(at));
  }
}

// Returns whether CUDA knows the memory, as it does pinned memory.
bool is_registered(const void* memory) {
  cudaPointerAttributes attributes{};
  check(cudaPointerGetAttributes(&attributes, memory), "cudaPointerGetAttributes");
  return attributes.type != cudaMemoryTypeUnregistered;
}

}  // namespace

void to_device(void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  from = host_bytes_of_run(from, bytes);
  if (is_recorded_run()) return copy(to, from, bytes, cudaMemcpyHostToDevice);
  if (is_registered(from)) {
    copy(to, from, bytes, cudaMemcpyHostToDevice);
    return check(cudaStreamSynchronize(current_stream()), "cudaStreamSynchronize");
  }
  for (std::size_t at = 0; at < bytes; at += piece_bytes)
    uploads().copy_piece(static_cast<char*>(to) + at, static_cast<const char*>(from) + at,
                         std::min(piece_bytes, bytes - at));
}
void to_host(void* to, const void* from, std::size_t bytes) {
  refuse_in_run("a copy to the host");
  if (bytes > 0 && is_registered(to))
    copy(to, from, bytes, cudaMemcpyDeviceToHost);
  else if (bytes > 0)
    download(static_cast<char*>(to), static_cast<const char*>(from), bytes);
  synchronize();
}

void to_host(int gpu, void* to, const void* from, std::size_t bytes) {
  const GpuScope scope(gpu);
  to_host(to, from, bytes);
}

struct HostBytes::State {
  std::size_t bytes;
  int gpu;
  cudaStream_t stream;
  std::vector<OwnPiece> pieces;
};
HostBytes::HostBytes(const void* from, std::size_t bytes)
    : state_(new State{bytes, current_device(), current_stream(), {}}) {
  refuse_in_run("a copy to the host");
  for (std::size_t at = 0; at < bytes; at += piece_bytes) {
    const PinnedPiece& piece = *state_->pieces.emplace_back();
    copy(piece, piece.memory, static_cast<const char*>(from) + at, std::min(piece_bytes, bytes - at),
         cudaMemcpyDeviceToHost);
  }
}
HostBytes::HostBytes(HostBytes&&) noexcept = default;
HostBytes& HostBytes::operator=(HostBytes&&) noexcept = default;
HostBytes::~HostBytes() = default;
void HostBytes::read(void* to) const {
  require(state_ != nullptr, "HostCopy: its values were moved to another one");
  for (std::size_t i = 0; i < state_->pieces.size(); ++i) {
    wait(*state_->pieces[i]);
    std::memcpy(static_cast<char*>(to) + i * piece_bytes, (*state_->pieces[i]).memory,
                std::min(piece_bytes, state_->bytes - i * piece_bytes));
  }
  const GpuScope scope(state_->gpu);
  throw_report(state_->stream);
}

void on_device(void* to, const void* from, std::size_t bytes) { copy(to, from, bytes, cudaMemcpyDeviceToDevice); }
void from_gpu(int gpu, void* to, const void* from, std::size_t bytes) {
  if (bytes == 0) return;
  refuse_in_run("a copy from another GPU");
  const int here = current_device();
  void* const later = stream();
  void* earlier = nullptr;
  {
    const GpuScope scope(gpu);
    earlier = stream();
    order_streams(earlier, later);
  }
  check(cudaMemcpyPeerAsync(to, here, from, gpu, bytes, current_stream()), "cudaMemcpyPeerAsync");
  order_streams(later, earlier);
}
void clear(void* memory, std::size_t bytes) {
  if (bytes > 0) check(cudaMemsetAsync(memory, 0, bytes, current_stream()), "cudaMemsetAsync");
}
void copy_rows(void* to, std::size_t to_stride, const void* from, std::size_t from_stride, std::size_t width,
               std::size_t rows) {
  if (width * rows == 0) return;
  if (rows == 1 || (to_stride == width && from_stride == width)) return on_device(to, from, rows * width);
  if (std::max(to_stride, from_stride) > limits.pitch) {
    for (std::size_t n = 0; n < rows; ++n)
      on_device(static_cast<char*>(to) + n * to_stride, static_cast<const char*>(from) + n * from_stride, width);
    return;
  }
  check(cudaMemcpy2DAsync(to, to_stride, from, from_stride, width, rows, cudaMemcpyDeviceToDevice, current_stream()),
        "cudaMemcpy2DAsync");
}

}  // namespace heddle::cuda
