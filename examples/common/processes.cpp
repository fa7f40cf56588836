#include "processes.hpp"

#include <algorithm>
#include <cstdio>
#include <heddle/io/crc64.hpp>

namespace heddle::examples {

Processes& Processes::all() {
  static Processes processes;
  return processes;
}

void Processes::start(int argc, char** argv) {
  communicator_ = connect();
  if (!is_first() && !std::freopen("/dev/null", "w", stdout)) fail("/dev/null cannot be opened");
  io::Crc64 arguments;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (word == "--threads" || word == "--progress")
      ++i;
    else if (!word.starts_with("--threads=") && !word.starts_with("--progress="))
      arguments.add(std::string_view(word.c_str(), word.size() + 1));
  }
  require_same(arguments.value(), "was started with other flags");
}

void Processes::require_same(std::uint64_t value, const char* what) const {
  const std::vector<std::uint64_t> all = communicator_.all_gather(std::vector{value});
  const auto other = std::find_if(all.begin(), all.end(), [&](std::uint64_t one) { return one != all[0]; });
  require(other == all.end(), "process ", other - all.begin(), ' ', what, " than process 0");
}

void Processes::share_processors(bool yes) const {
  if (size() == 1) return;
  const int share = share_of_processors(communicator_);
  if (yes) set_threads(share);
}

}  // namespace heddle::examples
