// Runs one warp of a block.
#pragma once
#include "interpreter.hpp"

namespace heddle::ptx {

// Prepares a warp for the first instruction of the kernel.
void start_warp(Warp& warp);

// Runs a warp until it has arrived at a barrier of its block, all of its lanes wait for others, or all have exited.
// Returns whether it has made progress.
bool run_warp(Warp& warp);

}  // namespace heddle::ptx
