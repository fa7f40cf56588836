#include "barrier.hpp"

#include <algorithm>

#include "clocks.hpp"
#include "memory.hpp"

namespace heddle::ptx {

namespace {

// The warps that have arrived at a barrier.
struct Arrivals {
  std::vector<Warp*> waiting;
  u32 warps = 0;     // also those that have arrived by bar.arrive
  u32 threads = 0;   // of the waiting warps
  u32 votes = 0;     // of these threads
  u32 expected = 0;  // threads, if the instruction tells their number
  u32 live_warps = 0;

  bool is_complete() const { return warps != 0 && warps >= (expected ? (expected + 31) / 32 : live_warps); }
};

Arrivals arrivals_at(Block& block, u32 id) {
  Arrivals arrivals;
  arrivals.warps = block.arrived[id];
  if (arrivals.warps) arrivals.expected = block.arrived_count[id];
  for (Warp& warp : block.warps) {
    arrivals.live_warps += warp.live != 0;
    if (!warp.live || !warp.at_barrier || warp.barrier_id != id) continue;
    if (block.kernel->async && arrivals.expected && warp.barrier_count != arrivals.expected)
      fault(warp, block.kernel->code[warp.barrier_pc], 0, illegal_instruction, "different counts at one barrier");
    ++arrivals.warps;
    arrivals.expected = std::max(arrivals.expected, warp.barrier_count);
    arrivals.votes += static_cast<u32>(std::popcount(warp.barrier_votes));
    arrivals.threads += static_cast<u32>(std::popcount(warp.live));
    arrivals.waiting.push_back(&warp);
  }
  return arrivals;
}

// Throws Fault if the expected number of threads is not a multiple of a warp, or if more have arrived.
void check_count(Block& block, u32 id, const Arrivals& arrivals) {
  if (arrivals.expected % 32 == 0 && arrivals.warps * 32 <= arrivals.expected) return;
  Warp& warp = arrivals.waiting.empty() ? block.warps[0] : *arrivals.waiting[0];
  const u32 pc = arrivals.waiting.empty() ? 0 : warp.barrier_pc;
  fault(warp, block.kernel->code[pc], 0, illegal_instruction,
        "barrier " + std::to_string(id) + " of " + std::to_string(arrivals.expected) +
            " threads: the count is no multiple of 32, or more arrive");
}

// Lets a warp continue behind a complete barrier.
void release_warp(Warp& warp, const Instruction& instruction, const Arrivals& arrivals) {
  switch (instruction.modifier2) {
    case reduce_and:
      write_predicate(warp, instruction.d, warp.live, arrivals.votes == arrivals.threads ? all : 0);
      break;
    case reduce_or: write_predicate(warp, instruction.d, warp.live, arrivals.votes ? all : 0); break;
    case reduce_popc:
      each(register_lanes<u32>(warp, instruction.d), warp.live, [&](int) { return arrivals.votes; });
      break;
    default: break;
  }
  warp.at_barrier = false;
  warp.pc = warp.barrier_pc + 1;
}

}  // namespace

bool release_barrier(Block& block, u32 id) {
  const Arrivals arrivals = arrivals_at(block, id);
  if (!arrivals.is_complete()) return false;
  if (arrivals.expected) {
    block.partial_barriers = true;
    if (block.kernel->async) check_count(block, id, arrivals);
  }
  if (block.kernel->async) pass_barrier(id, arrivals.waiting);
  for (Warp* warp : arrivals.waiting) release_warp(*warp, block.kernel->code[warp->barrier_pc], arrivals);
  block.arrived[id] = 0;
  ++block.epoch;
  ++block.events;
  return true;
}

bool release_barriers(Block& block) {
  bool has_released = false;
  for (u32 id = 0; id < all_barriers; ++id) has_released |= release_barrier(block, id);
  return has_released;
}

void check_barrier_numbers(Block& block) {
  for (const Warp& warp : block.warps)
    if (warp.at_barrier && warp.barrier_id >= all_barriers)
      fault(block.warps[0], block.kernel->code[warp.barrier_pc], 0, illegal_instruction,
            "there is no barrier " + std::to_string(warp.barrier_id));
}

void fault_at_barrier(Block& block) {
  for (Warp& warp : block.warps)
    if (warp.live && warp.at_barrier)
      fault(warp, block.kernel->code[warp.barrier_pc], __builtin_ctz(warp.live), launch_failure,
            "warps wait at a barrier for ever");
}

void bar_arrive(Warp& warp, const Instruction& instruction, u32 mask) {
  const int lane = __builtin_ctz(mask);
  const u32 id = register_lanes<u32>(warp, instruction.a)[lane];
  const u32 count = register_lanes<u32>(warp, instruction.b)[lane];
  Block& block = *warp.block;
  if (id >= named_barriers || count == 0 || count % 32)
    fault(warp, instruction, lane, illegal_instruction,
          "barrier " + std::to_string(id) + " of " + std::to_string(count) +
              " threads: the number must be below 16, and the count a positive multiple of 32");
  if (block.arrived[id] && block.arrived_count[id] != count)
    fault(warp, instruction, lane, illegal_instruction, "different counts at one barrier");
  ++block.arrived[id];
  block.arrived_count[id] = count;
  ++block.events;
  release_to_barrier(warp, id);
  release_barrier(block, id);
}

}  // namespace heddle::ptx
