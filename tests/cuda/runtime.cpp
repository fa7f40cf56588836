// Streams and memory of the CUDA backend.
#include <heddle/base/error.hpp>
#include <heddle/gpu/kernels.hpp>
#include <thread>

#include "../catch.hpp"
#include "device_array.hpp"
#include "schedules.hpp"

using namespace heddle;
using heddle::testing::ContainsSubstring;

namespace {

std::vector<int> round_trip(const std::vector<int>& values) {
  const std::size_t bytes = values.size() * sizeof(int);
  void* const there = cuda::allocate(bytes);
  cuda::to_device(there, values.data(), bytes);
  void* const again = cuda::allocate(bytes);
  cuda::on_device(again, there, bytes);
  cuda::release(there, bytes);
  std::vector<int> back(values.size());
  cuda::to_host(back.data(), again, bytes);
  cuda::release(again, bytes);
  return back;
}

}  // namespace

TEST_CASE("cuda runtime: values are copied to the GPU and back") {
  CHECK(cuda::unavailable().empty());
  std::vector<int> values(1000);
  for (int i = 0; i < 1000; ++i) values[static_cast<std::size_t>(i)] = i * i;
  CHECK(round_trip(values) == values);
  CHECK(round_trip({}).empty());
}

TEST_CASE("cuda runtime: the source of a copy may be used again at once") {
  std::vector<int> values{1, 2, 3};
  void* const there = cuda::allocate(12);
  cuda::to_device(there, values.data(), 12);
  values = {0, 0, 0};
  cuda::to_host(values.data(), there, 12);
  cuda::release(there, 12);
  CHECK(values == std::vector<int>{1, 2, 3});
}

TEST_CASE("cuda runtime: memory is counted and given back") {
  cuda::trim();
  const MemoryStats before = cuda::memory_stats();
  void* const block = cuda::allocate(100'000);
  CHECK(cuda::memory_stats().in_use >= before.in_use + 100'000);
  CHECK(cuda::memory_stats().peak >= cuda::memory_stats().in_use);
  cuda::release(block, 100'000);
  CHECK(cuda::memory_stats().in_use == before.in_use);
  cuda::trim();
  CHECK(cuda::memory_stats().cached == 0);
}

TEST_CASE("cuda runtime: an out-of-memory error names the sizes, and later allocations work") {
  cuda::trim();
  const testing::ScarceMemory available;
  CHECK_THROWS_WITH(
      cuda::allocate(2 * available.bytes),
      ContainsSubstring("out of memory on the GPU: " + std::to_string(2 * available.bytes) + " bytes requested, ") &&
          ContainsSubstring(" bytes in use, ") && ContainsSubstring(" bytes free"));
  CHECK(cudaGetLastError() == cudaSuccess);
  const std::size_t first = available.bytes / 100 * 55, second = available.bytes / 100 * 75;
  void* const cached = cuda::allocate(first);
  cuda::release(cached, first);
  void* const other = cuda::allocate(second);  // fits only when the cache gives its block back
  cuda::release(other, second);
  cuda::trim();
}

TEST_CASE("cuda runtime: memory that is released on another stream is reused only after that stream's work") {
  cudaStream_t other;
  REQUIRE(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
  testing::each_schedule([&] {
    std::vector<int> ones(256, 1), twos(256, 2), back(256);
    void* const block = cuda::allocate(1024);
    cuda::to_device(block, ones.data(), 1024);
    cuda::synchronize();
    cuda::set_stream(other);
    void* const kept = cuda::allocate(1024);
    cuda::on_device(kept, block, 1024);
    cuda::release(block, 1024);
    cuda::set_stream(nullptr);
    void* const next = cuda::allocate(1024);  // the same block, as a rule
    cuda::to_device(next, twos.data(), 1024);
    cuda::synchronize();
    cuda::set_stream(other);
    cuda::to_host(back.data(), kept, 1024);
    cuda::release(kept, 1024);
    cuda::set_stream(nullptr);
    cuda::release(next, 1024);
    CHECK(back == ones);
  });
  cuda::synchronize();
  cudaStreamDestroy(other);
}

TEST_CASE("cuda runtime: a stream that releases memory does not reuse it before the work of its owner") {
  cudaStream_t other;
  REQUIRE(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
  testing::each_schedule([&] {
    std::vector<int> ones(256, 1), twos(256, 2), back(256);
    void *const block = cuda::allocate(1024), *const kept = cuda::allocate(1024);
    cuda::to_device(block, ones.data(), 1024);
    cuda::on_device(kept, block, 1024);
    cuda::set_stream(other);
    cuda::release(block, 1024);
    void* const next = cuda::allocate(1024);
    cuda::to_device(next, twos.data(), 1024);
    cuda::synchronize();
    cuda::release(next, 1024);
    cuda::set_stream(nullptr);
    cuda::to_host(back.data(), kept, 1024);
    cuda::release(kept, 1024);
    CHECK(back == ones);
  });
  cuda::synchronize();
  cudaStreamDestroy(other);
}

TEST_CASE("cuda runtime: threads share a stream, unless one chooses another") {
  void *const shared = cuda::stream(), *second = nullptr;
  std::thread([&] { second = cuda::stream(); }).join();
  CHECK(second == shared);
  cudaStream_t other = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
  std::thread([&] {
    cuda::set_stream(other);
    second = cuda::stream();
  }).join();
  CHECK(second == other);
  CHECK(cuda::stream() == shared);
  cudaStreamDestroy(other);
}

TEST_CASE("cuda runtime: pinned memory may be used again at once, too") {
  void* pinned = nullptr;
  REQUIRE(cudaHostAlloc(&pinned, 12, cudaHostAllocMapped) == cudaSuccess);
  int* const values = static_cast<int*>(pinned);
  std::fill_n(values, 3, 7);
  void* const there = cuda::allocate(12);
  cuda::to_device(there, values, 12);
  std::fill_n(values, 3, 0);
  std::vector<int> back(3);
  cuda::to_host(back.data(), there, 12);
  cuda::release(there, 12);
  cudaFreeHost(pinned);
  CHECK(back == std::vector<int>{7, 7, 7});
}
