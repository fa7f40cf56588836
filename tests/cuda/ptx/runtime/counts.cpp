#include "counts.hpp"

#include <algorithm>
#include <utility>

#include "environment.hpp"

namespace heddle::ptx {

Calls calls;

namespace {

// The counts of a kernel's launches.
struct Counts {
  u64 warp_instructions[category_count]{};  // executions of an instruction by a warp
  u64 lane_instructions = 0;                // executions by a lane
  u64 launches = 0;
  double seconds = 0;
  Kernel::Traffic traffic;

  u64 total() const {
    u64 sum = 0;
    for (const u64 count : warp_instructions) sum += count;
    return sum;
  }
};

std::map<std::string, Counts> counts;  // by the names of kernels
u64 launches = 0;
double seconds_in_kernels = 0;

unsigned long long printed(u64 count) { return count; }

void add(Kernel::Traffic& sum, const Kernel::Traffic& more) {
  for (int i = 0; i < 2; ++i) {
    sum.wavefronts[i] += more.wavefronts[i];
    sum.least_wavefronts[i] += more.least_wavefronts[i];
    sum.sectors[i] += more.sectors[i];
    sum.least_sectors[i] += more.least_sectors[i];
  }
}

void take_counts(Kernel& kernel, Counts& sum) {
  for (std::size_t i = 0; i < kernel.code.size(); ++i) {
    sum.warp_instructions[kernel.code[i].category] += std::exchange(kernel.executed[i], 0);
    sum.lane_instructions += std::exchange(kernel.lanes[i], 0);
  }
  add(sum.traffic, std::exchange(kernel.traffic, {}));
}

void print(const std::string& name, const Counts& of_kernel) {
  const u64 total = of_kernel.total();
  const double lanes = total ? static_cast<double>(of_kernel.lane_instructions) / static_cast<double>(total) : 0;
  std::fprintf(stderr, "%12llu warp instructions (%.1f lanes), %llu launches, %.3f s: %.200s\n   ", printed(total),
               lanes, printed(of_kernel.launches), of_kernel.seconds, name.c_str());
  for (int c = 0; c < category_count; ++c)
    if (const u64 count = of_kernel.warp_instructions[c])
      std::fprintf(stderr, " %s %llu", category_names[c], printed(count));
  std::fprintf(stderr, "\n");
  if (!options.count_traffic) return;
  const Kernel::Traffic& traffic = of_kernel.traffic;
  std::fprintf(stderr,
               "    shared memory: %llu wavefronts of loads (%llu without conflicts), %llu of stores (%llu); "
               "global: %llu sectors loaded (%llu at least), %llu stored (%llu)\n",
               printed(traffic.wavefronts[0]), printed(traffic.least_wavefronts[0]), printed(traffic.wavefronts[1]),
               printed(traffic.least_wavefronts[1]), printed(traffic.sectors[0]), printed(traffic.least_sectors[0]),
               printed(traffic.sectors[1]), printed(traffic.least_sectors[1]));
}

// Prints the counts of all kernels, the slowest one first.
void print_all() {
  std::vector<std::pair<std::string, Counts>> all(counts.begin(), counts.end());
  std::sort(all.begin(), all.end(), [](const auto& a, const auto& b) { return a.second.seconds > b.second.seconds; });
  for (const auto& [name, of_kernel] : all) print(name, of_kernel);
}

void print_summary() {
  std::fprintf(stderr, "ptx: %llu launches, %.1f s in kernels\n", printed(launches), seconds_in_kernels);
  std::fprintf(stderr, "ptx: calls: %llu allocations, %llu copies, %llu waits, %llu graphs\n",
               printed(calls.allocations), printed(calls.copies), printed(calls.waits), printed(calls.graphs));
}

void report_at_exit() {
  if (options.count) print_all();
  if (runtime_options.summary) print_summary();
}
[[maybe_unused]] const int registered = std::atexit(report_at_exit);

}  // namespace

void count_launch(Kernel& kernel, Dim grid, Dim block, double seconds) {
  ++launches;
  seconds_in_kernels += seconds;
  if (!options.count) return;
  const std::string name = demangled(kernel.name);
  Counts of_launch;
  Counts& sum = runtime_options.count_each_launch ? of_launch : counts[name];
  take_counts(kernel, sum);
  ++sum.launches;
  sum.seconds += seconds;
  if (!runtime_options.count_each_launch) return;
  std::fprintf(stderr, "launch (%u, %u, %u) x (%u, %u, %u): ", grid.x, grid.y, grid.z, block.x, block.y, block.z);
  print(name, of_launch);
}

}  // namespace heddle::ptx
