// Reports of errors that do not end the launch: races, missing fences, and misused registers.
#pragma once
#include "interpreter.hpp"

namespace heddle::ptx {

// Prints a kind of error, its details, the warp, the instruction and the kernel. Skips what an instruction has reported
// before, and a kind that four other instructions of the kernel have reported.
void report(const Warp& warp, const Instruction& instruction, const std::string& kind, const std::string& details = "");

}  // namespace heddle::ptx
