// The settings of the interpreter, which come from environment variables whose names begin with PTX_. They are read
// when the library is loaded. An unknown variable or value ends the process with exit code 2.
#pragma once
#include "../interpreter.hpp"

namespace heddle::ptx {

// The limits that all GPUs have.
constexpr int largest_grid_x = 0x7fffffff, largest_grid_yz = 65535;
constexpr int largest_block = 1024, largest_block_z = 64;  // threads
constexpr int most_gpus = 8;
constexpr int reserved_shared_bytes = 1024;  // of each block, from compute capability 8.0 on

// The limits that differ.
struct Gpu {
  const char* name;   // the value of PTX_GPU
  const char* title;  // the name of the device
  int major, minor;   // compute capability
  int multiprocessors;
  int shared_of_block;           // bytes of shared memory, after cudaFuncSetAttribute
  int shared_of_multiprocessor;  // bytes of shared memory
  int threads_of_multiprocessor;
  int blocks_of_multiprocessor;
};

// The settings that only the runtime and cuBLASLt use. Options, in interpreter.hpp, has the others.
struct RuntimeOptions {
  const Gpu* gpu;                      // PTX_GPU
  int gpus = 1;                        // PTX_GPUS: the number of GPUs
  u64 memory_bytes = u64{2048} << 20;  // PTX_MEMORY, in MiB: the memory of each GPU
  bool lazy_streams = false;           // PTX_LAZY: enqueued work runs at the next synchronization, not at once
  bool summary = false;                // PTX_SUMMARY: print totals at exit
  bool count_each_launch =
      false;                 // PTX_COUNT=launch: print the counts of each launch, not those of each kernel at exit
  bool no_epilogue = false;  // PTX_NO_EPILOGUE: cuBLASLt's heuristic offers no algorithm with an epilogue
};
extern const RuntimeOptions runtime_options;

// Returns whether cuBLASLt refuses what PTX_REFUSE says. Reads it again, because tests set it for single products:
//   epilogue   to run a product with an epilogue, although its heuristic offered an algorithm
//   all        to run any product
//   check      an algorithm that was chosen for other extents
//   heuristic  to choose an algorithm
bool is_refused(const std::string& what);

}  // namespace heddle::ptx
