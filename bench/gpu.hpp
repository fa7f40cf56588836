// Times work on the GPU.
#pragma once
#include <cuda_runtime.h>

#include <chrono>
#include <heddle/heddle.hpp>

namespace heddle::bench::gpu {

inline void check(cudaError_t error) { require<CudaError>(error == cudaSuccess, cudaGetErrorString(error)); }
inline cudaStream_t stream() { return static_cast<cudaStream_t>(cuda::stream()); }

inline double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

// A timer of calls on the GPU. bench/peers/gpu_timer.py times PyTorch in the same way. With `once` it makes as few
// calls as possible, for tests of the measurement itself.
class Timer {
 public:
  explicit Timer(bool once) : once_(once) {
    int device = 0, cache = 0;
    check(cudaGetDevice(&device));
    check(cudaDeviceGetAttribute(&cache, cudaDevAttrL2CacheSize, device));
    other_.resize(once ? 4096 : std::max<std::size_t>(std::size_t{256} << 20, 4 * static_cast<std::size_t>(cache)));
    check(cudaEventCreate(&begin_));
    check(cudaEventCreate(&end_));
    overwrite();
    overwriting_ =
        median({between([&] { overwrite(); }), between([&] { overwrite(); }), between([&] { overwrite(); })});
  }

  // Returns the seconds of one call on the GPU with a cold L2 cache: the median of many calls. The cache is filled with
  // other memory before each call. Meanwhile the host enqueues the call, so that the GPU does not wait for the host.
  template <class Call>
  double alone(Call& call) {
    const double queueing = seconds_of([&] { call(); });
    const int fills = once_ ? 1 : 1 + std::min(40, static_cast<int>(2 * queueing / overwriting_));
    return median_of([&] {
      for (int i = 0; i < fills; ++i) overwrite();
      return between(call);
    });
  }

  // Returns the seconds of a call in a sequence of calls: with a warm cache, and including the host's time.
  template <class Call>
  double in_a_row(Call& call) {
    constexpr double row = 0.02;
    const int warm_up = once_ ? 1 : 16;  // training steps cycle through 8 batches of different shapes
    for (int i = 0; i < warm_up; ++i) call();
    const int calls = once_ ? 1 : std::clamp(static_cast<int>(row / between(call)), 2, 500);
    return median_of(
        [&] {
          return between([&] {
                   for (int i = 0; i < calls; ++i) call();
                 }) /
                 calls;
        },
        3);
  }

  // Returns the seconds per call of the first calls, without a warm-up. They include the host's time.
  template <class Call>
  double first(Call& call, int calls) {
    return between([&] {
             for (int i = 0; i < calls; ++i) call();
           }) /
           calls;
  }

 private:
  static double now() {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  }

  // Returns the time that the host takes to enqueue a call, after a few calls that warm up.
  template <class Call>
  static double seconds_of(Call&& call) {
    for (int i = 0; i < 3; ++i) call();
    cuda::synchronize();
    const double start = now();
    call();
    const double seconds = now() - start;
    cuda::synchronize();
    return seconds;
  }

  template <class Sample>
  double median_of(Sample&& sample, std::size_t least = 15) const {
    constexpr double enough = 0.15;
    const std::size_t most = once_ ? 1 : 300;
    if (once_) least = 1;
    std::vector<double> all;
    for (const double start = now(); all.size() < least || (now() - start < enough && all.size() < most);)
      all.push_back(sample());
    return median(all);
  }

  // Returns the time of a call by the GPU's clock.
  template <class Call>
  double between(Call&& call) {
    check(cudaEventRecord(begin_, stream()));
    call();
    check(cudaEventRecord(end_, stream()));
    check(cudaEventSynchronize(end_));
    float milliseconds = 0;
    check(cudaEventElapsedTime(&milliseconds, begin_, end_));
    return 1e-3 * static_cast<double>(milliseconds);
  }

  void overwrite() { cuda::clear(other_.data, other_.bytes); }

  struct Memory {
    void* data = nullptr;
    std::size_t bytes = 0;
    void resize(std::size_t size) { data = cuda::allocate(bytes = size); }
    ~Memory() { cuda::release(data, bytes); }
  };
  const bool once_;
  Memory other_;
  cudaEvent_t begin_ = nullptr, end_ = nullptr;
  double overwriting_ = 0;
};

// Returns standard normal values that repeat every 256 rows, because drawing all of them on the host would take
// minutes.
template <class T>
Tensor<T> normal(Index rows, Index width) {
  constexpr Index drawn = 256;
  Random random(1);
  const Tensor<float> some = randn<float>({1, drawn, width}, random).to(Device::cuda);
  const Index times = (rows + drawn - 1) / drawn;
  const Tensor<float> many = some + zeros<float>({times, 1, 1}, Device::cuda);
  return cast<T>(reshape(many, {times * drawn, width}).leading(0, rows));
}

template <class T>
constexpr const char* name_of() {
  return std::is_same_v<T, bf16> ? "bf16" : "fp32";
}

}  // namespace heddle::bench::gpu
