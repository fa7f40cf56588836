// The asynchrony of copies to the GPU: the emulator tells which work has run.
#include <atomic>
#include <heddle/gpu/runtime.hpp>

#include "../../catch.hpp"
#include "schedules.hpp"

using namespace heddle;

TEST_CASE("cuda copies: a copy to the GPU does not wait for earlier work, unless 64 copies are in flight") {
  cuda::synchronize();
  std::atomic<bool> has_run = false;  // a stream is a thread
  emulator::enqueue_host_work(static_cast<cudaStream_t>(cuda::stream()), [&] { has_run = true; });
  int value = 0;
  void* const there = cuda::allocate(sizeof value);
  for (int copy = 0; copy < 64; ++copy) cuda::to_device(there, &value, sizeof value);
  CHECK_FALSE(has_run.load());
  cuda::to_device(there, &value, sizeof value);
  CHECK(has_run.load());
  cuda::release(there, sizeof value);
}
