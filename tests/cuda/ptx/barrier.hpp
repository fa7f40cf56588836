// Barriers of the warps of a block (PTX ISA, "Parallel Synchronization and Communication Instructions: bar, barrier"
// and "barrier.cluster").
#pragma once
#include "interpreter.hpp"

namespace heddle::ptx {

constexpr u32 named_barriers = 16;               // bar.sync 0 to 15
constexpr u32 cluster_barrier = named_barriers;  // barrier.cluster: a cluster has one block here
constexpr u32 all_barriers = named_barriers + 1;

// The results of bar.red: instruction.modifier2.
enum BarrierReduction : u8 { reduce_none, reduce_and, reduce_or, reduce_popc };

// Lets the warps at a barrier continue if all have arrived. Returns whether they have.
bool release_barrier(Block& block, u32 id);
// Releases all complete barriers. Returns whether there were some.
bool release_barriers(Block& block);

// Throws Fault for a warp at a barrier that does not exist.
void check_barrier_numbers(Block& block);
// Throws Fault for the first warp at a barrier, if there is one.
void fault_at_barrier(Block& block);

// Arrives at barrier a for b threads, without waiting.
void bar_arrive(Warp& warp, const Instruction& instruction, u32 mask);

}  // namespace heddle::ptx
