// Asynchronous copies from global to shared memory (PTX ISA, "Data Movement and Conversion Instructions: Non-bulk
// copy"). A copy is performed as late as possible: when its thread waits for its group. With PTX_COPIES=early it is
// performed at once.
#pragma once
#include <cstring>

#include "memory.hpp"

namespace heddle::ptx {

inline u32 copy_serial = 0;  // the number of copies that were issued

// Performs a copy that was issued before.
inline void perform_copy(Warp& warp, const Instruction& instruction, int lane, const Copy& copy) {
  // A kernel with mbarriers lets other threads wait for the copy, so its destination is checked for races at
  // the issue only.
  u8* to = warp.block->kernel->async ? warp.block->shared.data() + (copy.to - shared_base)
                                     : pointer<s_shared>(warp, instruction, lane, copy.to, copy.bytes, true);
  std::memset(to, 0, copy.bytes);
  if (!copy.valid) return;
  // The source was checked when the copy was issued. The program may have freed it since.
  const Region* source = region_of(copy.from);
  if (!source || copy.from + copy.valid > source->hi)
    fault(warp, instruction, lane, illegal_address, "cp.async: its source is gone");
  std::memcpy(to, reinterpret_cast<const u8*>(copy.from + (source->host ? 0 : delta)), copy.valid);
}

// Throws Fault if a copy of `bytes` bytes, of which `valid` bytes are read and the others are zero, is not allowed.
inline void check_copy(Warp& warp, const Instruction& instruction, int lane, u64 to, u64 from, u32 bytes, u32 valid) {
  if (valid > bytes) fault(warp, instruction, lane, illegal_instruction, "cp.async: src-size exceeds cp-size");
  if (to % bytes || from % bytes) fault(warp, instruction, lane, misaligned, "cp.async: misaligned address");
  pointer<s_shared>(warp, instruction, lane, to, bytes, true);
  if (valid) global_pointer(warp, instruction, lane, from, valid, false);
}

// Copies imm bytes from a + imm3 to d + imm2. Operand b, if present, is the number of bytes that are read.
inline void cp_async(Warp& warp, const Instruction& instruction, u32 mask) {
  u64 to[32], from[32];
  addresses(warp, instruction, instruction.d, instruction.imm2, to);
  addresses(warp, instruction, instruction.a, instruction.imm3, from);
  const u32 bytes = static_cast<u32>(instruction.imm);
  count_access<s_shared>(warp, to, mask, bytes, true);
  count_access<s_global>(warp, from, mask, bytes, false);
  const u32* sizes = instruction.b.absent ? nullptr : register_lanes<u32>(warp, instruction.b);
  lanes(mask, [&](int lane) {
    const u32 valid = sizes ? sizes[lane] : bytes;
    check_copy(warp, instruction, lane, to[lane], from[lane], bytes, valid);
    const Copy copy{static_cast<u32>(to[lane]), from[lane], bytes, valid, warp.groups[lane], ++copy_serial};
    if (options.early_copies) {
      perform_copy(warp, instruction, lane, copy);
    } else {
      warp.copies[lane].push_back(copy);
      warp.any_copies = true;
    }
  });
}

inline void cp_async_commit(Warp& warp, const Instruction&, u32 mask) {
  lanes(mask, [&](int lane) { ++warp.groups[lane]; });
}

// Performs all but the last imm groups of copies. With imm = -1 it performs also the copies that are not in
// a group yet.
inline void cp_async_wait(Warp& warp, const Instruction& instruction, u32 mask) {
  if (!warp.any_copies) return;
  lanes(mask, [&](int lane) {
    auto& queue = warp.copies[lane];
    const s64 end = s64{warp.groups[lane]} - instruction.imm;
    auto copy = queue.begin();
    for (; copy != queue.end() && s64{copy->group} < end; ++copy) perform_copy(warp, instruction, lane, *copy);
    queue.erase(queue.begin(), copy);
  });
}

}  // namespace heddle::ptx
