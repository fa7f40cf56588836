// setmaxnreg (PTX ISA, "Miscellaneous Instructions: setmaxnreg"): moves registers between the warpgroups of a block.
#pragma once
#include "interpreter.hpp"

namespace heddle::ptx {

void start_setmaxnreg(const Block& block);
// Throws Fault if not all warps of a warpgroup have executed the same setmaxnreg.
void end_setmaxnreg(Block& block);

// Changes the registers per thread to instruction.imm. instruction.modifier is .inc, which waits until the block
// has so many.
u32 setmaxnreg(Warp& warp, const Instruction& instruction, u32 mask);

// Describes a wait for registers.
std::string describe_setmaxnreg(const Block& block, const Instruction& instruction);

}  // namespace heddle::ptx
