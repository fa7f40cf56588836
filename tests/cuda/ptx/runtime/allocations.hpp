// Device memory, and host memory that the runtime knows. The bytes of device memory are private pages of this process;
// those that nothing touches take no memory.
#pragma once
#include "../interpreter.hpp"

namespace heddle::ptx {

// Returns the address of fresh memory of the calling thread's GPU, or 0 if there is not enough.
u64 allocate(u64 bytes);

bool is_device_address(const void* address);
// Returns where the host finds a range. Returns nullptr for a range of device addresses that is not inside one
// allocation.
u8* host_pointer(const void* address, u64 bytes);

}  // namespace heddle::ptx
