// The allocation of an access, and the messages about accesses that are not allowed.
#include "memory.hpp"

namespace heddle::ptx {

std::string hex(u64 value) {
  char text[24];
  std::snprintf(text, sizeof(text), "%#llx", static_cast<unsigned long long>(value));
  return text;
}

namespace {

std::string description(u32 bytes, bool write) {
  return std::string(write ? "store" : "load") + " of " + std::to_string(bytes) + " bytes";
}

// Says by how much an address lies beyond an allocation if one ends less than 4 KiB before it.
std::string neighbor(u64 address) {
  for (u64 distance = 1; distance <= 4096; distance *= 2) {
    const Region* near = region_of(address - distance);
    if (!near) continue;
    return " (" + std::to_string(address - near->hi) + " bytes after the end of an allocation of " +
           std::to_string(near->hi - near->lo) + " bytes)";
  }
  return "";
}

}  // namespace

void fault_misaligned(Warp& warp, const Instruction& instruction, int lane, u64 address, u32 bytes) {
  fault(warp, instruction, lane, misaligned,
        "address " + hex(address) + " is not a multiple of " + std::to_string(bytes));
}

void fault_outside_shared(Warp& warp, const Instruction& instruction, int lane, u64 offset, u32 bytes, bool write) {
  fault(warp, instruction, lane, illegal_address,
        description(bytes, write) + " of shared memory at " + std::to_string(static_cast<s64>(offset)) + " of " +
            std::to_string(warp.block->shared.size()));
}

u32 shared_address(Warp& warp, const Instruction& instruction, int lane, u64 address, u32 bytes, u32 alignment) {
  if (address >= shared_window && address < local_window) address -= shared_window;
  if (address % alignment)
    fault(warp, instruction, lane, misaligned,
          "address " + hex(address) + " of shared memory is not a multiple of " + std::to_string(alignment));
  const u64 size = warp.block->shared.size();
  const u64 offset = address - shared_base;
  if (offset >= size || offset + bytes > size)
    fault(warp, instruction, lane, illegal_address,
          std::to_string(bytes) + " bytes of shared memory at " + std::to_string(static_cast<s64>(offset)) + " of " +
              std::to_string(size));
  return static_cast<u32>(address);
}

void find_allocation(Warp& warp, const Instruction& instruction, int lane, u64 address, u32 bytes, bool write) {
  const Region* region = region_of(address);
  if (!region || address + bytes > region->hi)
    fault(warp, instruction, lane, illegal_address,
          description(bytes, write) + " at " + hex(address) + ": " +
              (region ? "runs past the end of its allocation" : "no allocation" + neighbor(address)));
  if (!region->host && region->gpu != running_gpu)
    fault(warp, instruction, lane, illegal_address,
          description(bytes, write) + " at " + hex(address) + ": the memory of GPU " + std::to_string(region->gpu) +
              ", in a kernel on GPU " + std::to_string(running_gpu));
  instruction.lo = region->lo;
  instruction.hi = region->hi;
  instruction.shift = region->host ? 0 : delta;
}

}  // namespace heddle::ptx
