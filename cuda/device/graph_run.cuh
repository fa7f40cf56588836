// The calling thread's run of a Graph, if there is one, as the functions that it restricts see it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>

namespace heddle::cuda {

// The number of the memory for the run, 0 outside of runs, and whether the run is recorded, and thus allocates there.
struct MemoryOfRun {
  std::uint64_t memory;
  bool is_recorded;
};
MemoryOfRun memory_of_run();
// Throws Error in a run: `call` waits for the GPU, or is not part of a run.
void refuse_in_run(const char* call);
// Returns whether the run is recorded.
bool is_recorded_run();

// How many blocks a trial has in use at once, of those that it allocates, by their size.
using BlockCounts = std::map<std::size_t, int>;
// Begins to count, for a trial of the memory with this number.
void count_blocks(std::uint64_t memory);
// Returns what has been counted.
BlockCounts counted_blocks(std::uint64_t memory);
// Adds blocks to the memory until so many are unused, if there are enough on the GPU.
void reserve_blocks(std::uint64_t memory, const BlockCounts& counts);
// Throws CudaError for a recorded run that needs a block of `bytes` bytes, which its trial did not.
[[noreturn]] void fail_for_memory(std::size_t bytes);
// Notes a copy of `bytes` bytes from the host in a trial run, and returns `from`. In a recorded run, returns pinned
// memory with the same bytes, which lives as long as the record. Throws Error if they are not those of the trial.
const void* host_bytes_of_run(const void* from, std::size_t bytes);

}  // namespace heddle::cuda
