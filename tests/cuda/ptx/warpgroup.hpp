// Warpgroups: four consecutive warps (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions:
// Warpgroup").
#pragma once
#include "memory.hpp"

namespace heddle::ptx {

constexpr u32 warps_of_warpgroup = 4;

inline u32 warpgroup_index(const Warp& warp) { return static_cast<u32>(warp.id) / warps_of_warpgroup; }

inline void require_warpgroup(Warp& warp, const Instruction& instruction, u32 mask) {
  const bool is_complete = warpgroup_index(warp) < warp.block->warps.size() / warps_of_warpgroup;
  if (mask != all || !is_complete)
    fault(warp, instruction, 0, illegal_instruction, "an instruction of a warpgroup by a part of one");
}

}  // namespace heddle::ptx
