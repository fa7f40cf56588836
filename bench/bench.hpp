// Adds benchmarks. Each has a name, the work or bytes of one call, and the call. bench/peers/ops.py uses the same
// names, except for those of the machine's limits.
#pragma once
#include <benchmark/benchmark.h>

#include "inputs.hpp"

namespace heddle::bench {

// Adds a benchmark. `make` prepares and returns the function that is timed. Each file calls add() before main, through
// a static object.
template <class Make>
bool add(const std::string& name, double flops, double bytes, Make make) {
  const auto run = [flops, bytes, make](benchmark::State& state) {
    auto call = make();
    call();
    for (auto _ : state) call();
    using benchmark::Counter;
    if (flops > 0) state.counters["GFLOP/s"] = Counter(flops / 1e9, Counter::kIsIterationInvariantRate);
    if (bytes > 0) state.counters["GB/s"] = Counter(bytes / 1e9, Counter::kIsIterationInvariantRate);
  };
  benchmark::RegisterBenchmark(name.c_str(), run)->UseRealTime()->Unit(benchmark::kMicrosecond);
  return true;
}

// Adds an operation on a matrix [N, D], forward alone and forward with backward. The forward touches the matrix
// `moved` times.
template <class Op>
bool add_forward_and_backward(const std::string& op, Index N, Index D, double moved, Op f) {
  const double bytes = moved * static_cast<double>(N * D) * sizeof(float);
  add(op + '/' + sizes({N, D}) + "/forward", 0, bytes, [=] {
    return [=, x = normal({N, D})] {
      const NoGrad quiet;
      benchmark::DoNotOptimize(f(x).device_data());
    };
  });
  return add(op + '/' + sizes({N, D}) + "/forward_backward", 0, 0, [=] {
    return [=, x = variable(normal({N, D})), dy = normal({N, D})] {
      backward(f(x), dy);
      x.set_grad({});
    };
  });
}

}  // namespace heddle::bench
