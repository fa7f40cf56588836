#include <heddle/core/print.hpp>
#include <thread>

#include "catch.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

MemoryStats stats() { return HostPool::instance().stats(); }

// Returns whether the pool caches blocks. It does not under AddressSanitizer, so that every use after release is
// reported.
bool caches() {
  HostPool::instance().trim();
  { const Tensor<float> x({1000}); }
  if (stats().cached > 0) return true;
  WARN("skipped: the pool keeps no blocks in this build");
  return false;
}

}  // namespace

TEST_CASE("HostPool: a released block serves the next request of its size") {
  if (!caches()) return;
  const void* first = nullptr;
  {
    const Tensor<float> x({5000});
    first = x.data();
  }
  CHECK(Tensor<float>({5000}).data() == first);
  CHECK(Tensor<double>({2500}).data() == first);  // the same number of bytes
  const Tensor<float> held({5000});
  CHECK(Tensor<float>({5000}).data() != held.data());
}

TEST_CASE("HostPool: counts what is in use, what is cached and the peak") {
  HostPool::instance().trim();
  const MemoryStats before = stats();
  CHECK(before.cached == 0);
  {
    const Tensor<float> x({1 << 20}), y({1 << 20});
    CHECK(stats().in_use == before.in_use + (std::size_t{8} << 20));
    CHECK(stats().peak >= before.in_use + (std::size_t{8} << 20));
  }
  CHECK(stats().in_use == before.in_use);
  if (caches()) {
    { const Tensor<float> x({1 << 20}); }
    CHECK(stats().cached >= std::size_t{4} << 20);
  }
  HostPool::instance().trim();
  CHECK(stats().cached == 0);
}

TEST_CASE("HostPool: at most a fifth of a block is wasted") {
  for (std::size_t bytes = 4096; bytes < 20'000; bytes += 64) {
    const std::size_t before = stats().in_use;
    void* const block = HostPool::instance().allocate(bytes);
    const std::size_t taken = stats().in_use - before;
    HostPool::instance().release(block, bytes);
    REQUIRE(taken >= bytes);
    REQUIRE(static_cast<double>(taken) <= 1.25 * static_cast<double>(bytes));
  }
}

TEST_CASE("HostPool: running out of memory is a typed error, and the next request works") {
  const std::size_t before = stats().in_use;
  CHECK_THROWS_AS(Tensor<float>({Index{1} << 61}), OutOfMemory);
  CHECK_THROWS_WITH(Tensor<double>({Index{1} << 30, Index{1} << 30}),
                    "out of memory: shape [1073741824, 1073741824] requested");
  if (caches()) {  // AddressSanitizer ends the program instead
    const Tensor<float> kept_in_cache({1000});
    CHECK_THROWS_WITH(Tensor<float>({Index{1} << 58}),
                      ContainsSubstring("out of memory: 1152921504606846976 bytes requested, "));
  }
  CHECK(stats().in_use == before);
  CHECK(Tensor<float>({3}, {1, 2, 3}).host()[2] == 3);
}

TEST_CASE("HostPool: wrapped memory is not counted") {
  std::vector<float> mine(1000);
  const std::size_t before = stats().in_use;
  const auto x = Tensor<float>::wrap(mine.data(), {1000});
  CHECK(stats().in_use == before);
}

TEST_CASE("HostPool: several threads allocate and release at once") {
  const std::size_t before = stats().in_use;
  std::vector<std::thread> threads;
  std::atomic<int> wrong = 0;
  for (int t = 0; t < 4; ++t)
    threads.emplace_back([&wrong, t] {
      std::vector<Tensor<int>> held(8);
      for (int i = 0; i < 2000; ++i) {
        const Index n = 1 + (i * 37 + t) % 500;
        Tensor<int>& x = held[static_cast<std::size_t>(i) % held.size()];
        if (x && std::as_const(x).data()[0] != std::as_const(x).data()[x.size() - 1]) ++wrong;
        x = Tensor<int>({n});
        std::fill_n(x.data(), n, t * 10'000 + i);
      }
    });
  for (std::thread& thread : threads) thread.join();
  CHECK(wrong == 0);
  CHECK(stats().in_use == before);
}

TEST_CASE("HostPool: a block may be released by a thread other than the one that allocated it") {
  const std::size_t before = stats().in_use;
  Tensor<int> x({100}, std::vector<int>(100, 5));
  std::thread([moved = std::exchange(x, {})] { (void)moved; }).join();
  CHECK(stats().in_use == before);
}

TEST_CASE("memory: statistics can be printed") {
  std::ostringstream text;
  text << MemoryStats{.in_use = 4096, .cached = 1024, .peak = 8192};
  CHECK(text.str() == "4096 bytes in use (peak 8192), 1024 cached");
}
