// Finds races in the shared memory of kernels with asynchronous instructions, by vector clocks (PTX ISA, "Memory Consistency Model",
// "Async Proxy").
//
// An agent is a warp, or what accesses memory asynchronously: the products of a warpgroup, the bulk stores of a warp, or the copies that
// complete at an mbarrier. Its accesses have times, which grow from 1. A warp knows for each agent up to which time it has seen the
// accesses. It learns this from barriers, mbarriers and waits. An access that has not been seen is a race. The lanes of a warp are not told
// apart.
#pragma once
#include "interpreter.hpp"

namespace heddle::ptx {

// A time for each agent.
using VectorClock = std::vector<u32>;

struct Clock {
  VectorClock seen;    // the accesses that happened before
  VectorClock fenced;  // those with a proxy fence in between, which the async proxy has seen, too
};

// The numbers of the agents. A block has up to 32 warps and 8 warpgroups.
inline u32 warp_agent(const Warp& warp) { return static_cast<u32>(warp.id); }
inline u32 wgmma_agent(u32 warpgroup) { return 32 + warpgroup; }
inline u32 store_agent(const Warp& warp) { return 40 + static_cast<u32>(warp.id); }
inline u32 mbarrier_agent(u32 index) { return 72 + index; }

void start_clocks(const Block& block);

// The functions below do nothing without PTX_RACES.

// Passes on what the warp has seen, and begins its next time.
void release(const Warp& warp, Clock& to);
// Learns what another warp has passed on.
void acquire(const Warp& warp, const Clock& from);
// Learns the accesses of an agent up to a time.
void learn(const Warp& warp, u32 agent, u32 time);
// Returns whether the warp has seen the accesses of an agent up to a time.
bool has_seen(const Warp& warp, u32 agent, u32 time);
// Returns the time of the warp's next access, or 0 without PTX_RACES.
u32 time_of(const Warp& warp);

// Orders the warps that wait at a named barrier, and those that have arrived there.
void release_to_barrier(const Warp& warp, u32 id);
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
// Checks an access of a warp through the generic proxy. An atomic operation counts as a read, because two of them do not race.
void watch_warp_access(const Warp& warp, const Instruction& instruction, u32 offset, u32 bytes, bool write);

// fence.proxy.async (PTX ISA, "membar / fence"). `mask` is not used, because lanes are not told apart.
void fence_proxy_async(Warp& warp, const Instruction& instruction, u32 mask);

}  // namespace heddle::ptx
