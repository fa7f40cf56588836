// Threads and tensors that use several streams.
#include <cuda_runtime.h>

#include <heddle/autograd/backward.hpp>
#include <heddle/nn/parameter.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <thread>

#include "../harness/numbers.hpp"
#include "schedules.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// A stream that the calling thread uses in the object's scopes.
class OwnStream {
 public:
  OwnStream() { REQUIRE(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking) == cudaSuccess); }
  OwnStream(const OwnStream&) = delete;
  ~OwnStream() {
    cuda::trim();
    cudaStreamDestroy(stream_);
  }
  operator void*() const { return stream_; }
  // Calls f while this is the thread's stream.
  template <class F>
  auto operator()(F&& f) const {
    struct Scope {
      explicit Scope(void* stream) { cuda::set_stream(stream); }
      ~Scope() { cuda::set_stream(nullptr); }
    } scope(stream_);
    return f();
  }

 private:
  cudaStream_t stream_ = nullptr;
};

Tensor<float> filled(float value, Index count = 300) {
  const std::vector<float> values(static_cast<std::size_t>(count), value);
  return Tensor<float>({count}, values).to(Device::cuda);
}
bool all_equal(const Tensor<float>& x, float value) {
  const auto values = x.host();
  return std::all_of(values.begin(), values.end(), [&](float v) { return v == value; });
}

}  // namespace

TEST_CASE("cuda streams: recorded memory is reused only after the work of the recorded stream") {
  const OwnStream other;
  each_schedule([&] {
    Tensor<float> x = filled(1), y;
    cuda::synchronize();
    other([&] {
      const auto twice = x + x;
      y = twice + x;
      cuda::record_stream(x, other);
    });
    const float* const block = std::as_const(x).device_data();
    x = {};  // on the shared stream, which it was allocated for
    const auto next = filled(5);
    if (detail::memory_is_cached) CHECK(next.device_data() == block);
    cuda::synchronize();
    CHECK(other([&] { return all_equal(y, 3); }));
    y = {};
    cuda::synchronize();
  });
}

TEST_CASE("cuda streams: memory is recorded for the shared stream, and for several streams") {
  const OwnStream a, b;
  each_schedule([&] {
    Tensor<float> x = a([] { return filled(1); }), y, z;
    a([] { cuda::synchronize(); });
    y = x + x;
    cuda::record_stream(x, nullptr);
    b([&] { z = x + x; });
    cuda::record_stream(x, b);
    cuda::record_stream(x, b);
    a([&] {
      x = {};
      const auto next = filled(5);
      cuda::synchronize();
    });
    CHECK(all_equal(y, 2));
    CHECK(b([&] { return all_equal(z, 2); }));
    b([&] { z = {}; });
  });
}

TEST_CASE("cuda streams: recording memory that is not in use is an error, recording other tensors has no effect") {
  int value = 0;
  CHECK_THROWS_WITH(cuda::record_stream(&value, nullptr),
                    "record_stream: the address does not come from cuda::allocate, or was released");
  cuda::record_stream(Tensor<float>({1}, {2}), nullptr);
  auto x = filled(1);
  cuda::record_stream(Tensor<float>::wrap(x.device_data(), x.shape(), Device::cuda), nullptr);
  cuda::record_stream(x.leading(3, 5), nullptr);
}

TEST_CASE("cuda streams: a stream may be ordered after another one") {
  const OwnStream a, b;
  each_schedule([&] {
    const Tensor<float> x = a([] { return filled(1) + filled(1); });
    cuda::order_streams(a, b);
    const Tensor<float> y = b([&] { return x + x; });
    cuda::order_streams(b, nullptr);
    CHECK(all_equal(y + y, 8));
    cuda::order_streams(nullptr, nullptr);
    cuda::order_streams(nullptr, a);
    cuda::order_streams(nullptr, b);
  });
}

TEST_CASE("cuda streams: threads with streams of their own add to one gradient, which another stream reads") {
  const OwnStream streams[3];
  each_schedule([&] {
    const auto x = variable(filled(1));
    cuda::synchronize();
    std::vector<std::thread> threads;
    for (const OwnStream& stream : streams) threads.emplace_back([&] { stream([&] { backward(x * x, filled(1)); }); });
    for (std::thread& thread : threads) thread.join();
    Tensor<float> gradient = x.grad();
    const auto twice = gradient + gradient;
    gradient = {};
    streams[0]([&] {
      x.set_grad({});  // releases the gradient, which the shared stream still reads
      filled(7);
      cuda::synchronize();
    });
    CHECK(all_equal(twice, 12));
  });
}

TEST_CASE("cuda streams: a backward on another stream follows the forward, and precedes the reuse of saved tensors") {
  const OwnStream forward, other;
  each_schedule([&] {
    auto x = forward([] { return variable(filled(3)); });
    Tensor<float> saved, y;
    forward([&] {
      saved = x + x;
      y = saved * saved;
    });
    other([&] { backward(y, filled(1)); });
    forward([&] {
      saved = y = {};
      filled(7);
      filled(8);
    });
    CHECK(other([&] { return all_equal(x.grad(), 24); }));
    forward([&] {
      x = {};
      cuda::synchronize();
    });
    cuda::synchronize();
  });
}

TEST_CASE("cuda streams: the cast of a weight may be used on several streams, and outlives them") {
  Parameter<float> weight(Tensor<float>({300}, std::vector<float>(300, 1.5f)).to(Device::cuda));
  cuda::synchronize();
  each_schedule([&] {
    {
      const OwnStream a, b;
      a([&] { weight.assign(filled(2.5f)); });
      cuda::order_streams(a, b);
      const NoGrad quiet;
      const auto twice = [&] {
        const auto w = weight.as<bf16>();
        return w + w;
      };
      const auto from_a = a(twice), from_b = b(twice);
      CHECK(a([&] { return joined(from_a.host()) == std::vector<double>(300, 5); }));
      CHECK(b([&] { return joined(from_b.host()) == std::vector<double>(300, 5); }));
    }
    CHECK(joined(weight.as<bf16>().host()) == std::vector<double>(300, 2.5));
  });
}
