// The number of processors that this process may use. In a container or under a batch system it may be smaller than the
// machine's.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>
#ifdef __linux__
#include <sched.h>
#endif

namespace heddle::detail {

// Reads numbers from the beginning of a file. Returns false unless it holds all of them.
template <class... Number>
[[gnu::cold, gnu::noinline]] bool scan_file(const std::string& path, const char* format, Number*... numbers) {
  std::FILE* const file = std::fopen(path.c_str(), "re");
  if (!file) return false;
  const bool complete = std::fscanf(file, format, numbers...) == static_cast<int>(sizeof...(numbers));
  std::fclose(file);
  return complete;
}

// Returns how many processors the control group in `folder` may use: its time divided by its period, rounded up, or
// `most` where it sets no limit. Versions 1 and 2 of Linux's control groups name the files differently.
[[gnu::cold]] inline int processors_of_group(const std::string& folder, int most) {
  double time = 0, period = 0;
  const bool limited = scan_file(folder + "/cpu.max", "%lf %lf", &time, &period) ||  // "max 100000" holds no limit
                       (scan_file(folder + "/cpu.cfs_quota_us", "%lf", &time) &&     // -1: no limit
                        scan_file(folder + "/cpu.cfs_period_us", "%lf", &period));
  return limited && time > 0 && period > 0 ? static_cast<int>(std::clamp(std::ceil(time / period), 1., most * 1.))
                                           : most;
}

// Returns the smallest number that this process's control groups and the groups above them allow; at most `most`.
// `memberships` is a file like /proc/self/cgroup, with lines of number:controllers:path, and `root` the folder of the
// groups.
[[gnu::cold]] inline int processors_of_groups(const std::string& memberships, const std::string& root, int most) {
  std::FILE* const file = std::fopen(memberships.c_str(), "re");
  if (!file) return most;
  char line[4096], controllers[256], path[4096];
  while (std::fgets(line, sizeof line, file)) {
    path[0] = controllers[0] = '\0';
    const bool unified = std::sscanf(line, "0::%4095[^\n]", path) == 1;
    if (!unified && std::sscanf(line, "%*d:%255[^:]:%4095[^\n]", controllers, path) != 2) continue;
    if (!unified && (',' + std::string(controllers) + ',').find(",cpu,") == std::string::npos) continue;
    // In some containers this is a path of the host, and some of its folders do not exist: only existing
    // folders are read.
    for (std::string group = path;; group.erase(group.rfind('/'))) {
      most = processors_of_group(root + (unified ? "" : "/cpu") + group, most);
      if (group.find('/') == std::string::npos) break;
    }
  }
  std::fclose(file);
  return most;
}

// Returns OMP_NUM_THREADS, which batch systems set for all libraries. Without it, returns the number of processors in
// the affinity mask, limited by the processor time of the control groups.
[[gnu::cold]] inline int available_processors() {
  int count = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
#ifdef __linux__
  cpu_set_t mask;
  if (sched_getaffinity(0, sizeof mask, &mask) == 0) count = std::max(1, CPU_COUNT(&mask));
  count = processors_of_groups("/proc/self/cgroup", "/sys/fs/cgroup", count);
#endif
  if (const char* const chosen = std::getenv("OMP_NUM_THREADS"))
    if (const int threads = std::atoi(chosen); threads > 0) return threads;
  return count;
}

}  // namespace heddle::detail
