// The program of the CPU benchmarks: `ops --benchmark_filter=layer_norm`. HEDDLE_THREADS is the number of threads, 2 by
// default.
#include <cstdlib>

#include "../bench.hpp"

int main(int argc, char** argv) {
  const char* const count = std::getenv("HEDDLE_THREADS");
  heddle::set_threads(count ? std::atoi(count) : 2);
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
}
