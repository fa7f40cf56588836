// Measures the peaks of the machine, to which the other benchmarks are compared: multiplications and additions in
// registers, and copying.
#include "../machine.hpp"

#include "../bench.hpp"

namespace heddle::bench {
namespace {

const bool added = [] {
  // The number of threads is known only at run time, so the rate is computed then.
  const auto peak = [](const char* name, double per_lane, auto round) {
    benchmark::RegisterBenchmark(name,
                                 [=](benchmark::State& state) {
                                   for (auto _ : state) on_every_thread(round);
                                   state.counters["GFLOP/s"] = benchmark::Counter(
                                       peak_flops(per_lane) / 1e9, benchmark::Counter::kIsIterationInvariantRate);
                                 })
        ->UseRealTime()
        ->Unit(benchmark::kMicrosecond);
  };
  peak("machine/fp32", 1, [] { multiply_add(); });
#ifdef __AVX512BF16__
  peak("machine/bf16", 2, [] { multiply_add_bf16(); });
#endif
  constexpr Index floats = Index{1} << 26;
  return add("machine/copy", 0, 2.0 * floats * sizeof(float), [] {
    return [from = zeros<float>({floats}), to = zeros<float>({floats})]() mutable {
      float* const out = to.data();
      const float* const in = std::as_const(from).data();
      kernel::parallel(floats, floats / 16,
                       [=](Index first, Index last) { std::copy(in + first, in + last, out + first); });
    };
  });
}();

}  // namespace
}  // namespace heddle::bench
