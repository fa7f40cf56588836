// The scheduler's part for kernels with asynchronous instructions (Kernel::async). The instructions are in
// bulk_copy.hpp, mbarrier.hpp, setmaxnreg.hpp and wgmma.hpp; clocks.hpp orders their accesses.
#pragma once
#include "tensor_map.hpp"

namespace heddle::ptx {

void start_async(const Block& block);
// Performs what is left when all warps have ended. Throws Fault if the program should have waited for it.
void end_async(Block& block);
// Throws Fault with a description of each warp's wait, because no warp can continue.
[[noreturn]] void fault_deadlock(Block& block);

}  // namespace heddle::ptx
