// The calling thread's run of a Graph, if there is one, as the functions that it restricts see it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <map>

namespace heddle::cuda {

// Returns the number of the memory that the run uses; 0 outside of runs.
std::uint64_t memory_of_run();
// Throws Error in a run: `call` waits for the GPU, or is not part of a run.
void refuse_in_run(const char* call);
// Returns whether the run is recorded.
bool is_recorded_run();

// How many blocks a run has in use at once, of those that it allocates, by the size that it asks for.
using BlockCounts = std::map<std::size_t, int>;
// Begins to count, for the memory with this number.
void count_blocks(std::uint64_t memory);
// Returns what has been counted.
BlockCounts counted_blocks(std::uint64_t memory);
// Allocates blocks until so many are unused, if there is memory.
void reserve_blocks(std::uint64_t memory, const BlockCounts& counts);
// Throws CudaError for a recorded run that needs a block of `bytes` bytes, which its trial did not.
[[noreturn]] void fail_for_memory(std::size_t bytes);
// Notes a copy of `bytes` bytes from the host in a trial run, and returns `from`. In a recorded run, returns pinned
// memory with the same bytes, which lives as long as the record. Throws Error if they are not those of the trial.
const void* host_bytes_of_run(const void* from, std::size_t bytes);

}  // namespace heddle::cuda
