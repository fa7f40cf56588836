// Copies between the host and the GPU that are larger than a piece of pinned memory, or more numerous than the pieces.
#include <heddle/gpu/runtime.hpp>
#include <numeric>
#include <thread>

#include "../catch.hpp"
#include "schedules.hpp"

using namespace heddle;

namespace {

constexpr std::size_t piece = std::size_t{256} << 10;  // bytes

std::vector<char> pattern(std::size_t bytes, int seed) {
  std::vector<char> values(bytes);
  for (std::size_t i = 0; i < bytes; ++i)
    values[i] = static_cast<char>(i * 7 + i / 251 + static_cast<std::size_t>(seed));
  return values;
}

// Copies values to the GPU and back. The host's buffers begin `shift` bytes after an aligned address, and the source is
// overwritten.
std::vector<char> round_trip(const std::vector<char>& values, std::size_t shift) {
  std::vector<char> source(shift + values.size(), 0), back(shift + values.size(), 0);
  std::copy(values.begin(), values.end(), source.begin() + static_cast<std::ptrdiff_t>(shift));
  void* const there = cuda::allocate(values.size());
  cuda::to_device(there, source.data() + shift, values.size());
  std::fill(source.begin(), source.end(), char(1));
  cuda::to_host(back.data() + shift, there, values.size());
  cuda::release(there, values.size());
  return {back.begin() + static_cast<std::ptrdiff_t>(shift), back.end()};
}

}  // namespace

TEST_CASE("cuda copies: sizes on either side of a piece, and more bytes than all pieces hold") {
  for (const std::size_t bytes :
       {std::size_t{1}, piece - 1, piece, piece + 1, 2 * piece, 3 * piece + 7, 70 * piece + 13})
    for (const std::size_t shift : {0u, 1u}) {
      CAPTURE(bytes, shift);
      const auto values = pattern(bytes, 3);
      CHECK((round_trip(values, shift) == values));  // without printing the values
    }
}

TEST_CASE("cuda copies: more copies in flight than pieces") {
  testing::each_schedule([] {
    constexpr int count = 150;
    void* const there = cuda::allocate(count * sizeof(int));
    for (int i = 0; i < count; ++i) cuda::to_device(static_cast<int*>(there) + i, &i, sizeof i);
    std::vector<int> back(count), expected(count);
    std::iota(expected.begin(), expected.end(), 0);
    cuda::to_host(back.data(), there, count * sizeof(int));
    cuda::release(there, count * sizeof(int));
    CHECK(back == expected);
  });
}

TEST_CASE("cuda copies: several threads with streams of their own") {
  constexpr int count = 4;
  cudaStream_t streams[count];
  for (cudaStream_t& stream : streams)
    REQUIRE(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking) == cudaSuccess);
  std::vector<int> agrees(count, 0);
  std::vector<std::thread> threads;
  for (int t = 0; t < count; ++t)
    threads.emplace_back([&, t] {
      cuda::set_stream(streams[t]);
      const auto values = pattern(20 * piece + 5, t);
      agrees[static_cast<std::size_t>(t)] = round_trip(values, 0) == values;
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(agrees == std::vector<int>(count, 1));
  cuda::trim();
  for (const cudaStream_t stream : streams) cudaStreamDestroy(stream);
}

TEST_CASE("cuda copies: HostBytes has what the memory held, and is read later") {
  testing::each_schedule([] {
    for (const std::size_t bytes : {std::size_t{4}, piece, 3 * piece + 4}) {
      const auto values = pattern(bytes, 5);
      void* const there = cuda::allocate(bytes);
      cuda::to_device(there, values.data(), bytes);
      const cuda::HostBytes first(there, bytes), empty(there, 0);
      cuda::clear(there, bytes);
      const cuda::HostBytes second(there, bytes);
      cuda::release(there, bytes);
      std::vector<char> back(bytes);
      first.read(back.data());
      CHECK((back == values));
      second.read(back.data());
      CHECK((back == std::vector<char>(bytes, 0)));
      first.read(back.data());
      CHECK((back == values));
      empty.read(nullptr);
    }
  });
}

TEST_CASE("cuda copies: the memory of a copy that nobody reads serves another stream only after it") {
  cudaStream_t other = nullptr;
  REQUIRE(cudaStreamCreateWithFlags(&other, cudaStreamNonBlocking) == cudaSuccess);
  testing::each_schedule([&] {
    const int one = 1, two = 2;
    void* const memory = cuda::allocate(2 * sizeof(int));
    int* const there = static_cast<int*>(memory);
    cuda::to_device(there, &one, sizeof one);
    cuda::to_device(there + 1, &two, sizeof two);
    cuda::synchronize();
    { const cuda::HostBytes unread(there, sizeof(int)); }
    cuda::set_stream(other);
    const cuda::HostBytes copy(there + 1, sizeof(int));
    cuda::synchronize();
    cuda::set_stream(nullptr);
    cuda::synchronize();
    int back = 0;
    copy.read(&back);
    CHECK(back == 2);
    cuda::release(memory, 2 * sizeof(int));
  });
  cudaStreamDestroy(other);
}
