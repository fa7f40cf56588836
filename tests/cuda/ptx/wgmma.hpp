// Products of a warpgroup (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions").
//
// A product is computed as late as possible: at the wgmma.wait_group that waits for it, from what its operands in
// shared memory and its registers of A hold then. Until then its accumulators hold NaN.
#pragma once
#include "memory.hpp"
#include "syntax.hpp"

namespace heddle::ptx {

// The operands of wgmma.mma_async, whose address is instruction.imm.
struct WgmmaOperands {
  int n, k;
  Type type;                // of the elements of A and B: bf16, f16 or tf32
  bool a_registers;         // whether A is in registers
  bool negate_a, negate_b;  // imm-scale-a, imm-scale-b
  bool mn_a, mn_b;          // imm-trans-a, imm-trans-b: whether the operand is MN-major
  Operand d[128], a[4];     // registers
  Operand a_descriptor, b_descriptor;
  Operand scale;  // scale-d: whether the product is added to the accumulators
};

void start_wgmma(const Block& block);
// Throws Fault if not all warps of a warpgroup have executed the same products.
void end_wgmma(Block& block);

// Checks that an instruction leaves the registers of products in flight alone, and notes which registers it writes.
// Only for kernels with wgmma, before each instruction.
void track_registers(Warp& warp, const Kernel& kernel, u32 pc);

void wgmma(Warp& warp, const Instruction& instruction, u32 mask);
void wgmma_fence(Warp& warp, const Instruction& instruction, u32 mask);
void wgmma_commit_group(Warp& warp, const Instruction& instruction, u32 mask);
// Waits for all but the last imm groups of the warp's products.
u32 wgmma_wait_group(Warp& warp, const Instruction& instruction, u32 mask);

}  // namespace heddle::ptx
