// mbarriers (PTX ISA, "Parallel Synchronization and Communication Instructions: mbarrier"), of one block.
//
// Copies that complete a phase are performed as late as possible: when a thread waits for the phase. Until then their
// destinations keep their former content.
#pragma once
#include "clocks.hpp"

namespace heddle::ptx {

struct Mbarrier {
  u32 address;
  u32 index;                  // the number of earlier mbarriers of the block
  u32 expected;               // the expected arrival count
  u32 pending;                // the pending arrival count
  s64 tx_count;               // bytes that the phase still waits for
  u64 phase;                  // the number of complete phases
  Clock arrived;              // what the arrived threads had seen
  Clock completed;            // `arrived` at the end of the last phase
  u32 init_agent, init_time;  // the agent and the time of mbarrier.init (see clocks.hpp)
};

void start_mbarriers();

// Returns the mbarrier at an address. Throws Fault if there is none, or if the program has overwritten it.
Mbarrier& mbarrier_at(Warp& warp, const Instruction& instruction, int lane, u64 address);

// Returns a name for messages: "mbarrier 0x400".
std::string name_of_mbarrier(u32 index);
// Describes the state of an mbarrier, and what it waits for.
std::string describe(const Mbarrier& mbarrier);
// Describes the wait of a lane at mbarrier_wait.
std::string describe_mbarrier_wait(Warp& warp, const Instruction& instruction, int lane);

// The expect-tx operation, and for negative bytes the complete-tx operation.
void add_tx(Warp& warp, const Instruction& instruction, int lane, Mbarrier& mbarrier, s64 bytes);
// Completes the phase if nothing is pending. Throws Fault if copies for the phase are in flight nevertheless.
void complete_phase(Warp& warp, const Instruction& instruction, int lane, Mbarrier& mbarrier);

// The instructions. The address is a + imm; b is the count or the number of bytes.
void mbarrier_init(Warp& warp, const Instruction& instruction, u32 mask);
void mbarrier_inval(Warp& warp, const Instruction& instruction, u32 mask);
void mbarrier_expect_tx(Warp& warp, const Instruction& instruction, u32 mask);
void mbarrier_complete_tx(Warp& warp, const Instruction& instruction, u32 mask);

// The forms of mbarrier.arrive: instruction.modifier. instruction.modifier2 says whether it is relaxed.
enum ArriveForm : u8 { arrive_plain, arrive_drop, arrive_expect_tx };
// Sets d, if it is present, to the state before the arrival: the phase in the upper half, the pending count in the
// lower one.
void mbarrier_arrive(Warp& warp, const Instruction& instruction, u32 mask);
// Sets d to the pending count of state c.
void mbarrier_pending_count(Warp& warp, const Instruction& instruction, u32 mask);

// mbarrier.test_wait (instruction.modifier) and mbarrier.try_wait. c is a phase parity (instruction.modifier2) or a
// state. instruction.imm2 says whether it is relaxed. Sets predicate d.
u32 mbarrier_wait(Warp& warp, const Instruction& instruction, u32 mask);

// cp.async.mbarrier.arrive: arrives when the earlier cp.async of the lane are complete. instruction.modifier is .noinc.
void cp_async_mbarrier_arrive(Warp& warp, const Instruction& instruction, u32 mask);

}  // namespace heddle::ptx
