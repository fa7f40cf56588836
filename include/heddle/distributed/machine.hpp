// The processes that run on one machine, and the GPUs that they use.
#pragma once
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <vector>

#include <heddle/distributed/communicator.hpp>
#include <heddle/gpu/runtime.hpp>

namespace heddle::distributed {

/// Returns the numbers of the processes on this process's machine, ascending, by the name of the host. Every process
/// calls it. @throws CommunicationError.
inline std::vector<int> processes_on_machine(const Communicator& communicator) {
  std::array<char, 256> own{};
  gethostname(own.data(), own.size() - 1);
  const auto all = communicator.all_gather(std::vector(1, own));
  std::vector<int> here;
  for (int process = 0; process < communicator.size(); ++process)
    if (all[static_cast<std::size_t>(process)] == own) here.push_back(process);
  return here;
}

/// Makes a GPU the calling thread's, another one in each process of a machine as long as there are enough: the first
/// process has GPU 0. Returns whether no two processes share a GPU, which nccl() requires. Every process calls it.
/// @throws Error if this process has no GPU, and CommunicationError.
inline bool choose_gpu(const Communicator& communicator) {
  const std::vector<int> here = processes_on_machine(communicator);
  std::array<char, 32> own{};
  if constexpr (heddle::detail::has_cuda) {
    const auto place = std::find(here.begin(), here.end(), communicator.rank()) - here.begin();
    cuda::set_device(static_cast<int>(place % std::max(1, cuda::device_count())));
    cuda::pci_address().copy(own.data(), own.size() - 1);
  } else {
    fail("choose_gpu: this build has no CUDA backend; configure with -DHEDDLE_CUDA=ON");
  }
  const auto all = communicator.all_gather(std::vector(1, own));
  bool shares = false;
  for (const int process : here)
    shares = shares || (process != communicator.rank() && all[static_cast<std::size_t>(process)] == own);
  const std::vector<char> sharing = communicator.all_gather(std::vector<char>{shares});
  return std::find(sharing.begin(), sharing.end(), char(1)) == sharing.end();
}

}  // namespace heddle::distributed
