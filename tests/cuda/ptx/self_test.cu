// The interpreter's self test: instructions, and kernels and calls with one fault each, which it must report, beside
// their correct counterparts, which it must not report.
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <functional>

#include "../device_array.hpp"
#include "self_test.hpp"
#include "self_test_instructions.hpp"

namespace {

using namespace heddle::testing;
using heddle::cuda::check;

constexpr int warp = 32, threads = 64;

using Floats = DeviceArray<float>;

Floats zeros(std::size_t count) { return Floats(std::vector<float>(count, 0.f)); }

// Waits for the kernel, and throws its error.
void synchronize() {
  check(cudaGetLastError(), "launch");
  check(cudaDeviceSynchronize(), "kernel");
}

// --- addresses ---

__global__ void store(float* x) { x[threadIdx.x] = 1; }
__global__ void load(const float* x, float* y) { y[threadIdx.x] = x[threadIdx.x]; }
__global__ void store_vectors(float* x) { reinterpret_cast<float4*>(x)[threadIdx.x] = make_float4(1, 2, 3, 4); }

void global_bounds(bool wrong) {
  const Floats x(100);
  store<<<1, warp>>>(x.data() + (wrong ? 69 : 68));
  synchronize();
}

void freed_memory(bool wrong) {
  float* x = nullptr;
  check(cudaMalloc(reinterpret_cast<void**>(&x), 4 * warp), "cudaMalloc");
  const Floats y(warp);
  if (wrong) check(cudaFree(x), "cudaFree");
  load<<<1, warp>>>(x, y.data());
  synchronize();
  if (!wrong) check(cudaFree(x), "cudaFree");
}

// --- several GPUs ---

void other_gpu(bool wrong) {
  const Floats x(warp);
  check(cudaSetDevice(wrong), "cudaSetDevice");
  store<<<1, warp>>>(x.data());
  synchronize();
  check(cudaSetDevice(0), "cudaSetDevice");
}

void stream_of_other_gpu(bool wrong) {
  cudaStream_t stream;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaSetDevice(wrong), "cudaSetDevice");
  {
    const Floats x(warp);
    store<<<1, warp, 0, stream>>>(x.data());
    synchronize();
  }
  check(cudaSetDevice(0), "cudaSetDevice");
}

void event_of_other_gpu(bool wrong) {
  cudaStream_t stream;
  cudaEvent_t event;
  check(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaSetDevice(wrong), "cudaSetDevice");
  check(cudaEventCreate(&event), "cudaEventCreate");
  check(cudaEventRecord(event, stream), "cudaEventRecord");
  check(cudaSetDevice(0), "cudaSetDevice");
}

void host_address(bool wrong) {
  static float on_host[warp];
  const Floats x(warp);
  store<<<1, warp>>>(wrong ? on_host : x.data());
  synchronize();
}

void alignment(bool wrong) {
  const Floats x(100);
  store_vectors<<<1, 2>>>(x.data() + (wrong ? 1 : 4));
  synchronize();
}

__global__ void rotate(float* y, int distance) {
  extern __shared__ float tile[];
  tile[threadIdx.x + distance] = 1;
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x];
}

void shared_bounds(bool wrong) {
  const Floats y(warp);
  rotate<<<1, warp, warp * sizeof(float)>>>(y.data(), wrong);
  synchronize();
}

// Reads device memory on the host, which ends in a segmentation fault.
void host_access(bool wrong) {
  const Floats x = zeros(1);
  const float value = wrong ? *static_cast<volatile float*>(x.data()) : x.host()[0];
  expect_equal("the copy on the host", value, 0.f);
}

void copied_bytes(bool wrong) {
  const Floats x = zeros(10);
  std::vector<float> on_host(11);
  check(cudaMemcpy(on_host.data(), x.data(), (wrong ? 11 : 10) * sizeof(float), cudaMemcpyDeviceToHost), "cudaMemcpy");
}

void copy_direction(bool wrong) {
  const Floats x = zeros(10);
  std::vector<float> on_host(10);
  check(cudaMemcpy(on_host.data(), x.data(), 40, wrong ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost),
        "cudaMemcpy");
}

// --- the content of fresh memory ---

__global__ void sum_of_tile(float* y, bool fill) {
  __shared__ float tile[warp];
  if (fill) tile[threadIdx.x] = 1;
  __syncwarp();
  y[threadIdx.x] = tile[threadIdx.x] + tile[threadIdx.x ^ 1];
}

void fresh_shared_memory(bool wrong) {
  const Floats y(warp);
  sum_of_tile<<<1, warp>>>(y.data(), !wrong);
  expect_equal("a sum of shared memory", y.host()[3], 2.f);
}

void fresh_device_memory(bool wrong) {
  const Floats x = wrong ? Floats(1) : zeros(1);
  expect_equal("the first element", x.host()[0], 0.f);
}

__global__ void read_lane(float* y, bool wrong) {
  const float mine = static_cast<float>(threadIdx.x);
  if (threadIdx.x < 16) y[threadIdx.x] = __shfl_sync(0xffffu, mine, wrong ? 16 : 15);
}

void absent_lane(bool wrong) {
  const Floats y = zeros(16);
  read_lane<<<1, warp>>>(y.data(), wrong);
  expect_equal("a lane's value", y.host()[2], 15.f);
}

// --- races ---

template <bool wrong>
__global__ void reverse_block(float* y) {
  __shared__ float tile[threads];
  const int i = static_cast<int>(threadIdx.x);
  tile[i] = static_cast<float>(i);
  if (!wrong) __syncthreads();
  y[i] = tile[threads - 1 - i];
}

void block_race(bool wrong) {
  const Floats y(threads);
  wrong ? reverse_block<true><<<1, threads>>>(y.data()) : reverse_block<false><<<1, threads>>>(y.data());
  synchronize();
}

template <bool wrong>
__global__ void reverse_warp(float* y) {
  __shared__ float tile[warp];
  const int i = static_cast<int>(threadIdx.x);
  tile[i] = static_cast<float>(i);
  if (!wrong) __syncwarp();
  y[i] = tile[warp - 1 - i];
}

void warp_race(bool wrong) {
  const Floats y(warp);
  wrong ? reverse_warp<true><<<1, warp>>>(y.data()) : reverse_warp<false><<<1, warp>>>(y.data());
  synchronize();
}

// With `wrong`, the first thread reads the sum without an atomic operation and without a barrier.
template <bool wrong>
__global__ void count_threads(int* y) {
  __shared__ int sum;
  if (threadIdx.x == 0) sum = 0;
  __syncthreads();
  atomicAdd(&sum, 1);
  if (!wrong) __syncthreads();
  if (threadIdx.x == 0) *y = sum;
}

void atomic_race(bool wrong) {
  const DeviceArray<int> y(1);
  wrong ? count_threads<true><<<1, threads>>>(y.data()) : count_threads<false><<<1, threads>>>(y.data());
  synchronize();
}

__global__ void store_number_of_block(float* y, int stride) {
  y[static_cast<int>(blockIdx.x) * stride + static_cast<int>(threadIdx.x)] = static_cast<float>(blockIdx.x);
}

void grid_race(bool wrong) {
  const Floats y(2 * warp);
  store_number_of_block<<<2, warp>>>(y.data(), wrong ? 0 : warp);
  synchronize();
}

// --- order between blocks ---

// How a block publishes what it has written.
enum class Publication {
  acquire_release,  // an atomic operation that acquires and releases
  fences,           // a relaxed one between two fences
  relaxed,          // one that orders nothing
  acquire,          // without a release
  release,          // without an acquire
  first_fence,      // a relaxed one behind a fence: without an acquire
  second_fence,     // a relaxed one before a fence: without a release
  early,            // before the write
  no_barrier        // by a thread that has not waited for the others
};

// Returns how many blocks have called it before.
template <Publication how>
__device__ unsigned count_block(unsigned* counter) {
  unsigned before;
  if (how == Publication::fences || how == Publication::first_fence) __threadfence();
  if (how == Publication::acquire)
    asm volatile("atom.add.acquire.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  else if (how == Publication::release)
    asm volatile("atom.add.release.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  else if (how == Publication::acquire_release || how == Publication::early || how == Publication::no_barrier)
    asm volatile("atom.add.acq_rel.gpu.global.u32 %0, [%1], 1;" : "=r"(before) : "l"(counter) : "memory");
  else
    before = atomicAdd(counter, 1);
  if (how == Publication::fences || how == Publication::second_fence) __threadfence();
  return before;
}

// Each block writes its numbers. The last one adds all of them up, and clears them.
template <Publication how>
__global__ void add_up(float* numbers, unsigned* counter, float* sum) {
  __shared__ unsigned before;
  const unsigned i = blockIdx.x * blockDim.x + threadIdx.x;
  if (how == Publication::early && threadIdx.x == 0) before = count_block<how>(counter);
  numbers[i] = 1;
  if (how != Publication::no_barrier) __syncthreads();
  if (how != Publication::early && threadIdx.x == 0) before = count_block<how>(counter);
  __syncthreads();
  if (before != gridDim.x - 1) return;
  float own = 0;
  for (unsigned block = 0; block < gridDim.x; ++block) own += numbers[block * blockDim.x + threadIdx.x];
  sum[threadIdx.x] = own;
  for (unsigned block = 0; block < gridDim.x; ++block) numbers[block * blockDim.x + threadIdx.x] = 0;
}

template <Publication wrong_one, Publication right_one>
void publication(bool wrong) {
  constexpr unsigned blocks = 4;
  const Floats numbers = zeros(blocks * threads), sum = zeros(threads);
  const DeviceArray<unsigned> counter(std::vector<unsigned>{0});
  wrong ? add_up<wrong_one><<<blocks, threads>>>(numbers.data(), counter.data(), sum.data())
        : add_up<right_one><<<blocks, threads>>>(numbers.data(), counter.data(), sum.data());
  synchronize();
  expect_equal("a sum of all blocks", sum.host()[threads - 1], static_cast<float>(blocks));
}

// --- threads that wait for each other ---

__global__ void wait_for_warps(bool wrong) {
  if (threadIdx.x < warp)
    asm volatile("bar.sync 1, 64;");
  else if (wrong)
    asm volatile("bar.sync 2, 64;");
  else
    asm volatile("bar.sync 1, 64;");
}

void missing_warp(bool wrong) {
  wait_for_warps<<<1, threads>>>(wrong);
  synchronize();
}

__global__ void vote(unsigned* y, bool wrong) {
  const unsigned half = threadIdx.x < 16 ? 0xffffu : 0xffff0000u, members = wrong ? ~0u : half;
  if (threadIdx.x < 16)
    y[threadIdx.x] = __ballot_sync(members, true);
  else
    y[threadIdx.x] = __match_any_sync(members, 7);
}

void missing_lane(bool wrong) {
  const DeviceArray<unsigned> y(warp);
  vote<<<1, warp>>>(y.data(), wrong);
  synchronize();
}

// --- asynchronous copies and streams ---

template <bool wrong>
__global__ void copy_reversed(const float* x, float* y) {
  __shared__ __align__(16) float tile[4 * warp];
  const unsigned to = static_cast<unsigned>(__cvta_generic_to_shared(tile + threadIdx.x * 4));
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16;\ncp.async.commit_group;" ::"r"(to), "l"(x + threadIdx.x * 4)
               : "memory");
  asm volatile("cp.async.wait_group %0;" ::"n"(wrong ? 1 : 0) : "memory");
  __syncthreads();
  y[threadIdx.x] = tile[4 * warp - 1 - threadIdx.x];
}

void early_read(bool wrong) {
  std::vector<float> values;
  for (int i = 0; i < 4 * warp; ++i) values.push_back(static_cast<float>(i));
  const Floats x(values), y(warp);
  wrong ? copy_reversed<true><<<1, warp>>>(x.data(), y.data()) : copy_reversed<false><<<1, warp>>>(x.data(), y.data());
  expect_equal("a copied element", y.host()[5], 122.f);
}

void stream_order(bool wrong) {
  cudaStream_t first, second;
  cudaEvent_t written;
  check(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking), "cudaStreamCreateWithFlags");
  check(cudaEventCreate(&written), "cudaEventCreate");
  const Floats x = zeros(warp);
  store<<<1, warp, 0, first>>>(x.data());
  check(cudaEventRecord(written, first), "cudaEventRecord");
  if (!wrong) check(cudaStreamWaitEvent(second, written), "cudaStreamWaitEvent");
  expect_equal("an element that another stream writes", x.host(second)[0], 1.f);
}

// --- launches ---

__global__ void __launch_bounds__(threads) store_few(float* x) { x[threadIdx.x] = 1; }

void launch_bounds(bool wrong) {
  const Floats x(2 * threads);
  store_few<<<1, wrong ? 2 * threads : threads>>>(x.data());
  synchronize();
}

void shared_limit(bool wrong) {
  const Floats y(warp);
  rotate<<<1, warp, wrong ? 100'000 : 1000>>>(y.data(), 1);
  synchronize();
}

__global__ void difference(unsigned* y) {
  asm volatile("vabsdiff4.u32.u32.u32.add %0, %1, %2, %3;" : "=r"(*y) : "r"(1), "r"(2), "r"(3));
}

void unknown_instruction(bool wrong) {
  const DeviceArray<unsigned> y(1);
  if (wrong) difference<<<1, 1>>>(y.data());
  synchronize();
}

// --- the list ---

// A call that plants the fault or runs the correct counterpart.
struct Case {
  const char* name;
  const char* message;  // a regular expression of the report
  void (*run)(bool wrong);
};
constexpr const char* between_blocks = "RACE in global memory: a thread reads what another one writes";
constexpr Case cases[] = {
    {"global_bounds", "store of 4 bytes .*\\(0 bytes after the end of an allocation of 400 bytes\\)", global_bounds},
    {"freed_memory", "load of 4 bytes .*no allocation", freed_memory},
    {"host_address", "store of 4 bytes .*no allocation", host_address},
    {"other_gpu", "store of 4 bytes .*the memory of GPU 0, in a kernel on GPU 1", other_gpu},
    {"stream_of_other_gpu", "refused: a launch on a stream of another GPU", stream_of_other_gpu},
    {"event_of_other_gpu", "refused: cudaEventRecord: the event and the stream belong to two GPUs", event_of_other_gpu},
    {"alignment", "not a multiple of 16", alignment},
    {"shared_bounds", "store of 4 bytes of shared memory at 128 of 128", shared_bounds},
    {"host_access", "segmentation fault", host_access},
    {"copied_bytes", "refused: .*copy of 44 bytes", copied_bytes},
    {"copy_direction", "refused: .*direction", copy_direction},
    {"fresh_shared_memory", "wrong: a sum of shared memory is -?nan", fresh_shared_memory},
    {"fresh_device_memory", "wrong: the first element is -?nan", fresh_device_memory},
    {"absent_lane", "wrong: a lane's value is -?nan", absent_lane},
    {"block_race", "RACE: .*another one writes without a barrier", block_race},
    {"warp_race", "RACE: .*another one writes without a barrier", warp_race},
    {"atomic_race", "RACE: .*another one writes without a barrier", atomic_race},
    {"grid_race", "RACE in global memory: two threads write", grid_race},
    {"unordered_count", between_blocks, publication<Publication::relaxed, Publication::acquire_release>},
    {"missing_release", between_blocks, publication<Publication::acquire, Publication::acquire_release>},
    {"missing_acquire", between_blocks, publication<Publication::release, Publication::acquire_release>},
    {"missing_first_fence", between_blocks, publication<Publication::second_fence, Publication::fences>},
    {"missing_second_fence", between_blocks, publication<Publication::first_fence, Publication::fences>},
    {"early_release", between_blocks, publication<Publication::early, Publication::acquire_release>},
    {"release_without_barrier", between_blocks, publication<Publication::no_barrier, Publication::fences>},
    {"missing_warp", "warps wait at a barrier for ever", missing_warp},
    {"missing_lane", "lanes of a warp wait for each other", missing_lane},
    {"early_read", "wrong: a copied element is -?nan", early_read},
    {"stream_order", "wrong: an element that another stream writes is 0", stream_order},
    {"launch_bounds", "refused: more threads than __launch_bounds__", launch_bounds},
    {"shared_limit", "launch: invalid argument", shared_limit},
    {"unknown_instruction", "vabsdiff4", unknown_instruction},
};

void report_segmentation_fault(int) {
  constexpr char message[] = "segmentation fault\n";
  [[maybe_unused]] const auto written = write(STDERR_FILENO, message, sizeof(message) - 1);
  std::_Exit(1);
}

void run_checks() {
  check_instructions();
  std::printf("ok: instructions compute what plain C++ computes\n");
  for (const Case& c : cases) {
    c.run(false);
    std::printf("ok: %s: the correct counterpart runs\n", c.name);
  }
}

}  // namespace

int main(int count, char** arguments) {
  std::signal(SIGSEGV, report_segmentation_fault);
  return run_self_test(count, arguments, {"PTX_RACES", "PTX_GLOBAL_RACES", "PTX_LAZY"}, run_checks, cases,
                       [](const Case& fault) { fault.run(true); });
}
