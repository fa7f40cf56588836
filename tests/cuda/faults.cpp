// Kernels with one fault each, which the emulator and the sanitizers must report, and their correct counterparts, which
// they must not report.
//   faults                    lists the cases, and for each what reports it: emulator, launch, address, thread, or
//                             values
//   faults CASE wrong|right   runs one of the two kernels, the correct one with several schedules
// Exit codes: 0: no fault was found; 2: there is no such case; 3: the emulator reported a fault or refused a launch, or
// the values are NaN or depend on the previous content of memory or on the schedule; otherwise a sanitizer's.
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "../../cuda/device/access.cuh"
#include "../../cuda/device/copy_async.cuh"
#include "../../cuda/device/warp.cuh"
#include "device_array.hpp"

namespace {

using namespace heddle::cuda;
using heddle::Index;

constexpr int threads = 128, blocks = 4;

using Values = std::vector<float>;
using Floats = heddle::testing::DeviceArray<float>;

// --- a block's sum by halves, with one barrier missing ---

enum class Missing { none, first, middle, last };

template <Missing missing>
__global__ void tree_sum(float* y) {
  auto& tile = shared<float[threads]>();
  const int i = static_cast<int>(threadIdx.x);
  tile[i] = static_cast<float>(i);
  if (missing != Missing::first) __syncthreads();
  for (int half = threads / 2; half > 0; half /= 2) {
    if (i < half) tile[i] += tile[i + half];
    if (missing != Missing::middle || half != threads / 8) __syncthreads();
  }
  const float sum = tile[0];
  if (missing != Missing::last) __syncthreads();
  if (i == threads - 1) tile[0] = 0;
  if (i == 0) y[blockIdx.x] = sum;
}

// Fills a tile again in each round.
template <bool wrong>
__global__ void rounds(float* y) {
  auto& tile = shared<float[threads]>();
  const int i = static_cast<int>(threadIdx.x);
  float sum = 0;
  for (int round = 0; round < 4; ++round) {
    tile[i] = static_cast<float>(i + round);
    __syncthreads();
    sum += tile[(i + 1) % threads];
    if (!wrong) __syncthreads();
  }
  y[static_cast<int>(blockIdx.x) * threads + i] = sum;
}

template <bool wrong>
__global__ void lanes_of_a_warp(float* y) {
  auto& tile = shared<float[threads]>();
  const int i = static_cast<int>(threadIdx.x);
  tile[i] = static_cast<float>(i);
  if (wrong)
    __shfl_xor_sync(all_lanes, 1.0f, 1);  // no order for memory
  else
    __syncwarp();
  y[static_cast<int>(blockIdx.x) * threads + i] = tile[i ^ 1];
}

template <bool wrong>
__global__ void part_of_a_warp(float* y) {
  auto& tile = shared<float[threads]>();
  const int i = static_cast<int>(threadIdx.x), half = i % warp_size / 16;
  tile[i] = static_cast<float>(i);
  __syncwarp(half ? 0xffff0000u : 0xffffu);
  y[static_cast<int>(blockIdx.x) * threads + i] = tile[wrong ? i ^ 16 : i ^ 15];
}

template <bool wrong>
__global__ void warps(float* y) {
  const unsigned warp = threadIdx.x / warp_size;
  if (threadIdx.x % warp_size == 0) y[blockIdx.x * 4 + (wrong ? 0 : warp)] = static_cast<float>(warp);
}

// A block of block_threads(256) threads. In each round its first thread adds the warps' results. Without the second
// barrier the warps overwrite the results while it reads them.
constexpr int large_block = block_threads(256);
template <bool wrong>
__global__ void large_block_sum(float* y) {
  constexpr int warp_count = large_block / warp_size;
  auto& of_warp = shared<float[warp_count]>();
  const int i = static_cast<int>(threadIdx.x);
  float sum = 0;
  for (int round = 0; round < 3; ++round) {
    if (i % warp_size == 0) of_warp[i / warp_size] = static_cast<float>(round);
    __syncthreads();
    for (int w = 0; i == 0 && w < warp_count; ++w) sum += of_warp[w];
    if (!wrong) __syncthreads();
  }
  if (i == 0) y[blockIdx.x] = sum;
}

template <bool wrong>
__global__ void between_blocks(float* y) {
  if (threadIdx.x == 0) y[wrong ? 0 : blockIdx.x] = static_cast<float>(blockIdx.x);
}

template <bool wrong>
__global__ void counter(float* y) {
  if (wrong)
    y[0] += 1;
  else
    atomicAdd(y, 1.0f);
}

template <bool wrong>
__global__ void shared_bounds(float* y) {
  auto& tile = shared<float[threads]>();
  auto& other = shared<float[threads], 1>();
  const int i = static_cast<int>(threadIdx.x);
  float* const all = tile;
  all[wrong ? i + 1 : i] = other[i] = 1;
  __syncthreads();
  y[static_cast<int>(blockIdx.x) * threads + i] = tile[i];
}

template <bool wrong>
__global__ void dynamic_bounds(float* y) {
  SharedArrays arrays;
  float* const tile = arrays.take<float>(threads);
  float* const other = arrays.take<float>(threads);
  const int i = static_cast<int>(threadIdx.x);
  tile[wrong ? i + threads : i] = 1;
  other[i] = 2;
  y[static_cast<int>(blockIdx.x) * threads + i] = other[i];
}

template <bool wrong>
__global__ void dynamic_size(float* y) {
  SharedArrays arrays;
  float* const tile = arrays.take<float>(2 * threads + wrong);
  tile[threadIdx.x] = 1;
  y[blockIdx.x * threads + threadIdx.x] = tile[threadIdx.x];
}

// A kernel whose static and dynamic arrays have more than 48 KiB together. The wrong launch does not raise its limit.
constexpr std::size_t most_of_shared = 40 * 1024;  // bytes
__global__ void static_and_dynamic(float* y) {
  auto& tile = shared<float[32 * threads]>();
  float* const other = SharedArrays().take<float>(most_of_shared / sizeof(float));
  const int i = static_cast<int>(threadIdx.x);
  tile[i] = other[i] = 1;
  y[static_cast<int>(blockIdx.x) * threads + i] = tile[i] + other[i];
}

template <bool wrong>
__global__ void global_bounds(float* y) {
  y[blockIdx.x * threads + threadIdx.x + (wrong ? 1 : 0)] = 1;
}

template <bool wrong>
__global__ void unwritten(float* y) {
  auto& tile = shared<float[threads]>();
  const int i = static_cast<int>(threadIdx.x);
  if (!wrong || i != 5) tile[i] = 1;
  y[static_cast<int>(blockIdx.x) * threads + i] = tile[i];
}

// Lane 31 reads from itself in the correct kernel, and from a lane outside the mask in the wrong one.
template <bool wrong>
__global__ void shuffle_mask(float* y) {
  const int i = static_cast<int>(threadIdx.x), lane = i % warp_size;
  float value = static_cast<float>(i);
  if (lane != 0) value = __shfl_sync(all_lanes - 1, value, wrong && lane == warp_size - 1 ? 0 : lane);
  y[static_cast<int>(blockIdx.x) * threads + i] = value;
}

// In the wrong kernel, all lanes pass a mask without lane 0.
template <bool wrong>
__global__ void shuffle_outside(float* y) {
  const int i = static_cast<int>(threadIdx.x);
  y[static_cast<int>(blockIdx.x) * threads + i] = __shfl_xor_sync(wrong ? all_lanes - 1 : all_lanes, 1.0f, 1);
}

// In the wrong kernel, a lane reads from lane 3, which has returned.
template <bool wrong>
__global__ void shuffle_returned(float* y) {
  const int i = static_cast<int>(threadIdx.x);
  if (wrong && i == 3) return;
  y[static_cast<int>(blockIdx.x) * threads + i] = __shfl_xor_sync(all_lanes, 1.0f, 1);
}

// Half of a warp votes while the other shuffles.
template <bool wrong>
__global__ void two_operations(float* y) {
  const int i = static_cast<int>(threadIdx.x);
  float value = 1;
  if (wrong && i % warp_size < 16)
    value = static_cast<float>(__any_sync(all_lanes, 1));
  else
    value = __shfl_xor_sync(wrong ? all_lanes : all_lanes, value, 1);
  y[static_cast<int>(blockIdx.x) * threads + i] = value;
}

template <bool wrong>
__global__ void barrier_of_some(float* y) {
  const int i = static_cast<int>(threadIdx.x);
  if (!wrong || i < threads / 2) __syncthreads();
  y[static_cast<int>(blockIdx.x) * threads + i] = 1;
}

template <bool wrong>
__global__ void two_barriers(float* y) {
  const int i = static_cast<int>(threadIdx.x);
  if (wrong && i < threads / 2)
    __syncthreads();
  else
    __syncthreads();
  y[static_cast<int>(blockIdx.x) * threads + i] = 1;
}

// A warp waits for a lane that waits for the block.
template <bool wrong>
__global__ void crossed(float* y) {
  const int i = static_cast<int>(threadIdx.x);
  if (wrong && i == 0) __syncthreads();
  const float value = __shfl_xor_sync(all_lanes, 1.0f, 1);
  if (!wrong || i != 0) __syncthreads();
  y[static_cast<int>(blockIdx.x) * threads + i] = value;
}

// Half of a warp waits for the block, the other half for the warp.
template <bool wrong>
__global__ void for_ever(float* y) {
  const int i = static_cast<int>(threadIdx.x);
  float value = 1;
  if (!wrong || i >= warp_size || i < warp_size / 2) __syncthreads();
  if (wrong && i < warp_size && i >= warp_size / 2) value = __shfl_xor_sync(all_lanes, value, 1);
  y[static_cast<int>(blockIdx.x) * threads + i] = value;
}

template <bool wrong>
__global__ void unaligned(const float* x, float* y) {
  auto& tile = shared<float[threads * 4 + 4]>();
  const int i = static_cast<int>(threadIdx.x);
  copy_async(&tile[i * 4], x + i * 4 + (wrong && i < threads - 1 ? 1 : 0));
  commit_copies();
  wait_copies<0>();
  y[static_cast<int>(blockIdx.x) * threads + i] = tile[i * 4];
}

template <bool wrong>
__global__ void early(const float* x, float* y) {
  auto& tile = shared<float[threads * 4]>();
  const int i = static_cast<int>(threadIdx.x);
  copy_async(&tile[i * 4], x + i * 4);
  commit_copies();
  if (!wrong) wait_copies<0>();
  y[static_cast<int>(blockIdx.x) * threads + i] = tile[i * 4];
}

// The last group may still be incomplete. The correct kernel reads the group before it.
template <bool wrong>
__global__ void early_group(const float* x, float* y) {
  auto& tile = shared<float[2][threads * 4]>();
  const int i = static_cast<int>(threadIdx.x);
  for (int stage = 0; stage < 2; ++stage) {
    copy_async(&tile[stage][i * 4], x + i * 4);
    commit_copies();
  }
  wait_copies<1>();
  y[static_cast<int>(blockIdx.x) * threads + i] = tile[wrong ? 1 : 0][i * 4];
}

// A copy that this thread waited for is read by another one.
template <bool wrong>
__global__ void others_copy(const float* x, float* y) {
  auto& tile = shared<float[threads * 4]>();
  const int i = static_cast<int>(threadIdx.x);
  copy_async(&tile[i * 4], x + i * 4);
  commit_copies();
  wait_copies<0>();
  if (!wrong) __syncthreads();
  y[static_cast<int>(blockIdx.x) * threads + i] = tile[(i * 4 + 4) % (threads * 4)];
}

__global__ void twice(const float* x, float* y) {
  const int i = static_cast<int>(blockIdx.x * threads + threadIdx.x);
  y[i] = 2 * x[i];
}

// --- the cases ---

template <auto kernel>
Values run(std::size_t dynamic_bytes = 0) {
  const Floats y(Values(blocks * threads));
  launch<kernel>(blocks, threads, dynamic_bytes, nullptr, y.data());
  return y.host();
}
template <auto kernel>
Values run_on_input() {
  const Floats x(Values(threads * 4, 7.0f)), y(blocks * threads);
  launch<kernel>(blocks, threads, 0, nullptr, x.data(), y.data());
  return y.host();
}

template <bool wrong, int count = large_block>
Values large() {
  const Floats y(blocks);
  launch<large_block_sum<wrong>>(blocks, count, 0, nullptr, y.data());
  return y.host();
}

// The block that finishes last reads the other blocks' results.
constexpr int few_threads = warp_size;
template <bool wrong>
__global__ void last_block(float* y, unsigned* done) {
  auto& last = shared<bool>();
  const int i = static_cast<int>(threadIdx.x);
  if (i == 0) {
    y[blockIdx.x] = static_cast<float>(blockIdx.x);
    last = (wrong ? atomicAdd(done, 1u) : count_after_writes(done)) == gridDim.x - 1;
  }
  __syncthreads();
  if (last && i < blocks) y[blocks + i] = y[i];
}
// Launches few threads, because ThreadSanitizer forgets a thread's accesses after some 250 other threads.
template <bool wrong>
Values few() {
  const Floats y(2 * blocks);
  const heddle::testing::DeviceArray<unsigned> done(std::vector<unsigned>(1));
  launch<last_block<wrong>>(blocks, few_threads, 0, nullptr, y.data(), done.data());
  return y.host();
}

Values raised_limit(bool wrong) {
  if (!wrong) return run<static_and_dynamic>(most_of_shared);
  const Floats y(blocks * threads);
  cudaLaunchConfig_t config{};
  config.gridDim = blocks;
  config.blockDim = threads;
  config.dynamicSmemBytes = most_of_shared;
  check(cudaLaunchKernelEx(&config, static_and_dynamic, y.data()), "cudaLaunchKernelEx");
  return y.host();
}

struct TwoStreams {
  cudaStream_t first, second;
  TwoStreams() {
    cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking);
  }
  TwoStreams(const TwoStreams&) = delete;
  TwoStreams& operator=(const TwoStreams&) = delete;
  ~TwoStreams() {
    cudaStreamDestroy(first);
    cudaStreamDestroy(second);
  }
};

// The second stream reads the first stream's writes. Only its wait for the event orders the two; what the host does in
// between does not.
enum class Host { idle, destroys_event, waits };
template <Host host>
Values streams(bool wrong) {
  const TwoStreams two;
  cudaEvent_t written;
  cudaEventCreateWithFlags(&written, cudaEventDisableTiming);
  const Floats x(Values(blocks * threads, 1.0f), two.first), y(blocks * threads), z(blocks * threads);
  launch<twice>(blocks, threads, 0, two.first, x.data(), y.data());
  cudaEventRecord(written, two.first);
  if (!wrong) cudaStreamWaitEvent(two.second, written);
  if (host == Host::destroys_event) cudaEventDestroy(written);
  launch<twice>(blocks, threads, 0, two.second, y.data(), z.data());
  if (host == Host::waits) cudaStreamSynchronize(two.first);
  const Values values = z.host(two.second);
  if (host != Host::destroys_event) cudaEventDestroy(written);
  return values;
}

// The second stream waits for the event's first record, which precedes the first stream's second kernel. It reads the
// writes of that kernel, or of the kernel before it.
Values recorded_again(bool wrong) {
  const TwoStreams two;
  cudaEvent_t written;
  cudaEventCreateWithFlags(&written, cudaEventDisableTiming);
  const Floats x(Values(blocks * threads, 1.0f), two.first), y(blocks * threads), z(blocks * threads),
      result(blocks * threads);
  launch<twice>(blocks, threads, 0, two.first, x.data(), y.data());
  cudaEventRecord(written, two.first);
  cudaStreamWaitEvent(two.second, written);
  launch<twice>(blocks, threads, 0, two.first, y.data(), z.data());
  cudaEventRecord(written, two.first);
  launch<twice>(blocks, threads, 0, two.second, wrong ? z.data() : y.data(), result.data());
  cudaStreamSynchronize(two.first);
  const Values values = result.host(two.second);
  cudaEventDestroy(written);
  return values;
}

__global__ void store_ones(float* y) { y[blockIdx.x * blockDim.x + threadIdx.x] = 1; }

// Calls f(x) on device `number`, with x in the memory of the first one. Returns x.
template <class F>
Values on_device(int number, F&& f) {
  heddle::emulator::device().count = 2;
  const Floats x((Values(threads)));
  cudaSetDevice(number);
  f(x);
  cudaDeviceSynchronize();
  cudaSetDevice(0);
  return x.host();
}
Values other_device(bool wrong) {
  return on_device(wrong, [](const Floats& x) { launch<store_ones>(1, threads, 0, nullptr, x.data()); });
}
Values stream_of_other_device(bool wrong) {
  cudaStream_t stream = nullptr;
  cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking);
  return on_device(wrong, [stream](const Floats& x) {
    launch<store_ones>(1, threads, 0, stream, x.data());
    cudaStreamDestroy(stream);
  });
}

Values host_pointer(bool wrong) {
  const Floats x(Values(threads, 1.0f));
  if (!wrong) return x.host();
  return Values(x.data(), x.data() + 1);
}

// Reads the destination of a copy; the wrong case reads it before the synchronization.
Values not_waited(bool wrong) {
  const Floats x(Values(threads, 1.0f));
  Values values(threads, std::bit_cast<float>(heddle::emulator::options().fill));
  cudaMemcpyAsync(values.data(), x.data(), x.bytes(), cudaMemcpyDeviceToHost, nullptr);
  if (!wrong) cudaDeviceSynchronize();
  const Values seen = values;
  cudaDeviceSynchronize();
  return seen;
}

// Changes the pageable source of a copy; the wrong case changes it before the synchronization.
Values source_changed(bool wrong) {
  const Floats x(threads);
  Values values(threads, 1.0f);
  cudaMemcpyAsync(x.data(), values.data(), x.bytes(), cudaMemcpyHostToDevice, nullptr);
  if (!wrong) cudaDeviceSynchronize();
  const float fill = std::bit_cast<float>(heddle::emulator::options().fill);
  std::fill(values.begin(), values.end(), fill);
  return x.host();
}

struct Case {
  const char *name, *reported_by;
  Values (*right)();
  Values (*wrong)();
};

template <auto kernel>
Values plain() {
  return run<kernel>();
}
template <auto work>
Values right() {
  return work(false);
}
template <auto work>
Values wrong() {
  return work(true);
}
template <auto kernel>
Values with_dynamic() {
  return run<kernel>(2 * threads * sizeof(float));
}

const Case cases[] = {
    {"barrier-first", "thread", plain<tree_sum<Missing::none>>, plain<tree_sum<Missing::first>>},
    {"barrier-middle", "thread", plain<tree_sum<Missing::none>>, plain<tree_sum<Missing::middle>>},
    {"barrier-last", "thread", plain<tree_sum<Missing::none>>, plain<tree_sum<Missing::last>>},
    {"barrier-in-loop", "thread", plain<rounds<false>>, plain<rounds<true>>},
    {"lanes", "thread", plain<lanes_of_a_warp<false>>, plain<lanes_of_a_warp<true>>},
    {"part-of-warp", "thread", plain<part_of_a_warp<false>>, plain<part_of_a_warp<true>>},
    {"warps", "thread", plain<warps<false>>, plain<warps<true>>},
    {"large-block", "thread", large<false>, large<true>},
    {"too-large-block", "launch", large<false>, large<false, 256>},
    {"blocks", "thread", plain<between_blocks<false>>, plain<between_blocks<true>>},
    {"last-block", "thread", few<false>, few<true>},
    {"counter", "thread", plain<counter<false>>, plain<counter<true>>},
    {"streams", "thread", right<streams<Host::idle>>, wrong<streams<Host::idle>>},
    {"event-destroyed", "thread", right<streams<Host::destroys_event>>, wrong<streams<Host::destroys_event>>},
    {"host-waits", "thread", right<streams<Host::waits>>, wrong<streams<Host::waits>>},
    {"event-recorded-again", "thread", right<recorded_again>, wrong<recorded_again>},
    {"copied-by-others", "thread", run_on_input<others_copy<false>>, run_on_input<others_copy<true>>},
    {"shared-bounds", "address", plain<shared_bounds<false>>, plain<shared_bounds<true>>},
    {"dynamic-bounds", "address", with_dynamic<dynamic_bounds<false>>, with_dynamic<dynamic_bounds<true>>},
    {"global-bounds", "address", plain<global_bounds<false>>, plain<global_bounds<true>>},
    {"host-pointer", "address", right<host_pointer>, wrong<host_pointer>},
    {"other-device", "address", right<other_device>, wrong<other_device>},
    {"stream-of-other-device", "stream", right<stream_of_other_device>, wrong<stream_of_other_device>},
    {"unwritten", "values", plain<unwritten<false>>, plain<unwritten<true>>},
    {"copy-early", "values", run_on_input<early<false>>, run_on_input<early<true>>},
    {"copy-group-early", "values", run_on_input<early_group<false>>, run_on_input<early_group<true>>},
    {"source-changed", "values", right<source_changed>, wrong<source_changed>},
    {"not-waited", "values", right<not_waited>, wrong<not_waited>},
    {"shuffle-mask", "emulator", plain<shuffle_mask<false>>, plain<shuffle_mask<true>>},
    {"shuffle-outside", "emulator", plain<shuffle_outside<false>>, plain<shuffle_outside<true>>},
    {"shuffle-returned", "emulator", plain<shuffle_returned<false>>, plain<shuffle_returned<true>>},
    {"two-operations", "emulator", plain<two_operations<false>>, plain<two_operations<true>>},
    {"barrier-of-some", "emulator", plain<barrier_of_some<false>>, plain<barrier_of_some<true>>},
    {"two-barriers", "emulator", plain<two_barriers<false>>, plain<two_barriers<true>>},
    {"for-ever", "emulator", plain<for_ever<false>>, plain<for_ever<true>>},
    {"copy-unaligned", "emulator", run_on_input<unaligned<false>>, run_on_input<unaligned<true>>},
    {"crossed", "emulator", plain<crossed<false>>, plain<crossed<true>>},
    {"raised-limit", "emulator", right<raised_limit>, wrong<raised_limit>},
    {"dynamic-size", "emulator", with_dynamic<dynamic_size<false>>, with_dynamic<dynamic_size<true>>},
};

// Returns whether the values depend neither on the memory's earlier content nor on the schedule, and none is NaN.
bool sound(Values (*work)(), const std::vector<std::uint64_t>& schedules) {
  const Values first = work();
  for (const float value : first)
    if (value != value) return false;
  heddle::emulator::options().fill = 0x3f7f3f7f;  // numbers just below 1, as floats and as bf16
  for (const std::uint64_t seed : schedules) {
    heddle::emulator::options().seed = seed;
    if (std::memcmp(first.data(), work().data(), first.size() * sizeof(float)) != 0) return false;
  }
  return true;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc < 3) {
    for (const Case& c : cases) std::printf("%s %s\n", c.name, c.reported_by);
    return 0;
  }
  const bool wrong = std::string(argv[2]) == "wrong";
  for (const Case& c : cases) {
    if (std::string(c.name) != argv[1]) continue;
    try {
      if (wrong ? sound(c.wrong, {0}) : sound(c.right, {0, 5, 6})) return 0;
      std::printf("values: they are NaN, or depend on the previous content of memory or on the schedule\n");
    } catch (const heddle::emulator::Fault& fault) {
      std::printf("emulator: %s\n", fault.what());
    } catch (const heddle::CudaError& error) {
      std::printf("launch: %s\n", error.what());
    }
    return 3;
  }
  std::printf("there is no case %s; without arguments, the program lists all cases\n", argv[1]);
  return 2;
}
