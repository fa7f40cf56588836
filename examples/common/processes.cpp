#include "processes.hpp"

#include <cstdio>
#include <heddle/distributed/machine.hpp>
#include <heddle/distributed/nccl.hpp>
#include <heddle/io/crc64.hpp>

#include "program.hpp"

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
  const std::optional<int> other = communicator_.first_different(value);
  require(!other, "process ", other.value_or(0), ' ', what, " than process 0");
}

void Processes::share_processors(bool yes) const {
  if (size() == 1) return;
  const int share = share_of_processors(communicator_);
  if (yes) set_threads(share);
}

Processes::OnGpus::OnGpus(Processes& processes, bool yes) : processes_(processes) {
  if (!yes || processes.size() == 1) return;
  std::string why = "several processes use the same GPU";
  if (distributed::choose_gpu(hosts_)) try {
      processes.communicator_ = distributed::nccl(hosts_);
      return;
    } catch (const distributed::CommunicationError& error) {
      why = error.what();
    }
  note(why + "; gradients travel through the host");
}

}  // namespace heddle::examples
