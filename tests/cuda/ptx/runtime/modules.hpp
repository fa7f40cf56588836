// Kernels as the host knows them: registered when a program or a library is loaded, and found by the address of their
// host function.
#pragma once
#include <map>

#include "../interpreter.hpp"

namespace heddle::ptx {

struct FatBinary;

// A kernel that the host has registered. Its address is also its cudaKernel_t.
struct RegisteredKernel {
  FatBinary* binary;
  std::string name;
  Kernel* kernel = nullptr;            // null before the first use
  std::map<int, int> raised_limits{};  // bytes of dynamic shared memory that cudaFuncSetAttribute has set, by GPU

  // The greatest size of dynamic shared memory on the calling thread's GPU. Unless it was raised, static and dynamic
  // memory together may have 48 KiB.
  int dynamic_limit() const;
};

// Returns the kernel of a host function or of a cudaKernel_t, or nullptr.
RegisteredKernel* find_registered(const void* function);
// Like find_registered(). Also loads the module and decodes the kernel; returns nullptr if there is no PTX of it.
RegisteredKernel* load_kernel(const void* function);

}  // namespace heddle::ptx
