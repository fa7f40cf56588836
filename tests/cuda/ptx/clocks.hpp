// Finds races in the shared memory of kernels with asynchronous instructions, by vector clocks (PTX ISA, "Memory
// Consistency Model", "Async Proxy").
//
// The agents are the warps, the products of each warpgroup, the bulk stores of each warp, and the copies that complete
// at each mbarrier. Each agent numbers its accesses by times, which grow from 1. A warp has a clock: the time of each
// agent up to which it has seen the accesses. Barriers, mbarriers and waits advance the clock. An access races with an
// earlier one that the warp has not seen. The lanes of a warp share its clock, so races between them are not found.
#pragma once
#include "interpreter.hpp"

namespace heddle::ptx {

// A time for each agent.
using VectorClock = std::vector<u32>;

struct Clock {
  VectorClock seen;    // the accesses that are ordered before the next one of the warp
  VectorClock fenced;  // the accesses that are ordered before a proxy fence of the warp
};

// The numbers of the agents. A block has up to 32 warps and 8 warpgroups.
inline u32 warp_agent(const Warp& warp) { return static_cast<u32>(warp.id); }
inline u32 wgmma_agent(u32 warpgroup) { return 32 + warpgroup; }
inline u32 store_agent(const Warp& warp) { return 40 + static_cast<u32>(warp.id); }
inline u32 mbarrier_agent(u32 index) { return 72 + index; }

void start_clocks(const Block& block);

// The functions below do nothing without PTX_RACES.

// Adds what the warp has seen to `to`, and advances the warp's own time.
void release(const Warp& warp, Clock& to);
// Adds `from` to what the warp has seen.
void acquire(const Warp& warp, const Clock& from);
// Marks the accesses of an agent up to a time as seen.
void observe(const Warp& warp, u32 agent, u32 time);
// Returns whether the warp has seen the accesses of an agent up to a time.
bool has_seen(const Warp& warp, u32 agent, u32 time);
// Returns the time of the warp's next access, or 0 without PTX_RACES.
u32 time_of(const Warp& warp);

// Releases what a warp has seen to the warps that will wait at a named barrier.
void release_to_barrier(const Warp& warp, u32 id);
// Orders the warps at a complete named barrier after all that have arrived there.
void pass_barrier(u32 id, const std::vector<Warp*>& warps);

// An access to shared memory. `offset` is relative to the beginning of shared memory.
struct SharedAccess {
  u32 offset, bytes;
  bool write;
  bool async;  // through the async proxy
  u32 agent, time;
};
// Checks an access that a warp performs or issues, and remembers it. Reports the first race.
void watch_access(const Warp& warp, const Instruction& instruction, const SharedAccess& access);
// Checks an access of a warp through the generic proxy. An atomic operation counts as a read, because two of them do
// not race.
void watch_warp_access(const Warp& warp, const Instruction& instruction, u32 offset, u32 bytes, bool write);

// fence.proxy.async (PTX ISA, "Parallel Synchronization and Communication Instructions: membar / fence").
void fence_proxy_async(Warp& warp, const Instruction& instruction, u32 mask);

}  // namespace heddle::ptx
