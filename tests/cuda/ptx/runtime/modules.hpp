// Kernels as the host knows them: registered when a program or a library is loaded, and found by the address of their
// host function.
#pragma once
#include "../interpreter.hpp"

namespace heddle::ptx {

struct FatBinary;

// A kernel that the host has registered. Its address is also its cudaKernel_t.
struct RegisteredKernel {
  FatBinary* binary;
  std::string name;
  Kernel* kernel = nullptr;  // null before the first use
  int raised_limit = -1;     // bytes of dynamic shared memory; negative if cudaFuncSetAttribute has not set it

  // The greatest size of dynamic shared memory. Unless it was raised, static and dynamic memory together may
  // have 48 KiB.
  int dynamic_limit() const;
};

// Returns the kernel of a host function or of a cudaKernel_t, or nullptr.
RegisteredKernel* find_registered(const void* function);
// Like find_registered(). Also loads the module and decodes the kernel; returns nullptr if there is no PTX of it.
RegisteredKernel* load_kernel(const void* function);

}  // namespace heddle::ptx
