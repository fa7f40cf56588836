// Runs a grid of GPU threads on one core of the host. Each GPU thread has its own stack and runs until it waits for
// others. The emulator checks which threads reach a barrier or a shuffle, and how they allocate shared memory.
// AddressSanitizer checks bounds. ThreadSanitizer, which treats every GPU thread as a thread, checks for races.
#pragma once
#include <cstddef>
#include <cstdint>
#include <stdexcept>

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned width = 1, unsigned height = 1, unsigned depth = 1) : x(width), y(height), z(depth) {}
};

// The indices of the GPU thread that runs.
inline uint3 threadIdx, blockIdx;
inline dim3 blockDim, gridDim;

namespace heddle::emulator {

// A line of a kernel. Replaces std::source_location, which clang 14 lacks.
struct Where {
  const char* file = "";
  unsigned line = 0;
  static constexpr Where current(const char* its_file = __builtin_FILE(), unsigned its_line = __builtin_LINE()) {
    return {its_file, its_line};
  }
};

// An error of a kernel, with the line, the block and the thread; or a stream that waits for an event that nothing
// records.
struct Fault : std::logic_error {
  using std::logic_error::logic_error;
};

// Options of the work that runs, and of the memory that is allocated, from now on.
struct Options {
  std::uint64_t seed = 0;           // 0: streams, blocks and threads run in order; otherwise a random order's seed
  std::uint32_t fill = 0x7fa17fa1;  // the initial content of memory: a signalling NaN as a float and as two bf16
};
Options& options();

// The most threads of a block under ThreadSanitizer. It distinguishes at most 255 threads, including the host and the
// streams.
constexpr int most_watched_threads = 128;

struct LaunchShape {
  dim3 grid, block;
  std::size_t shared_bytes = 0;         // for the arrays that a kernel takes with next_shared
  std::size_t most_shared = 48 * 1024;  // bytes that these arrays and those of fixed_shared may have together
};

// Addresses by which ThreadSanitizer orders the work before and after a grid.
struct Order {
  std::uint64_t launch, finish;
};

// Runs kernel(arguments) for each thread of each block. The caller must run one grid at a time. Throws Fault for an
// error of the kernel.
void run_grid(const LaunchShape& shape, void (*kernel)(const void* arguments), const void* arguments, Order& order);

// --- what kernels call; `where` is the line of the call, in the kernel or in cuda/device -----------------------------

// Stops the grid: run_grid() throws a Fault with the line, the block, the thread and `what`.
[[noreturn]] void fault(const char* what, Where where);

// Waits until all threads of the block arrive. None of them may have returned. Orders memory within the block.
void barrier(Where where);
// Like barrier(). Returns the number of threads that passed true.
unsigned barrier_count(bool vote, Where where);

// The operations of a warp. Every lane of `mask` that has not returned must call the same operation with the same mask.

// Waits for the lanes of the mask and orders memory among them. The other operations do not order memory.
void sync_warp(unsigned mask, Where where);
// Returns the lanes that passed true.
unsigned ballot(unsigned mask, bool vote, Where where);
// Returns the value that lane `source` passed.
std::uint64_t shuffle(unsigned mask, std::uint64_t value, unsigned source, Where where);

// A lane's operands or results of a warp operation.
struct Registers {
  std::uint32_t word[12];
};
enum class WarpOp { sync, ballot, shuffle, mma_bf16, mma_tf32, load_rows, load_columns };
// Executes an instruction of the tensor core. `in` holds a, b and c of an mma in words 0-3, 4-5 and 6-9, or a row of
// eight bf16 in words 0-3. Returns d or a fragment in words 0-3.
Registers tensor_core(WarpOp op, const Registers& in, Where where);

// Returns the block's array for `key`, an address that differs for each array of a kernel.
void* fixed_shared(const void* key, std::size_t bytes, Where where);
// Returns the next array of the block's dynamic shared memory. Every thread must request the same arrays in
// the same order.
void* next_shared(std::size_t bytes, Where where);
constexpr std::size_t shared_alignment = 16;  // of each array

// Asynchronous copies of this thread. `to` holds garbage until they are waited for; bytes from `valid` on become zero.
void copy_async(void* to, const void* from, std::size_t bytes, std::size_t valid, Where where);
void commit_copies();
// Waits until all but the last `groups` groups are complete.
void wait_copies(unsigned groups);

}  // namespace heddle::emulator
