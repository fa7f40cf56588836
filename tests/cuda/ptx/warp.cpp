// A warp runs the lanes with the lowest address first: lanes that diverge meet again behind the code that only some of
// them execute. Lanes that an instruction must execute together wait for each other there.
#include "warp.hpp"

#include <algorithm>

#include "bulk_copy.hpp"
#include "collective.hpp"
#include "cp_async.hpp"
#include "special_registers.hpp"
#include "wgmma.hpp"

namespace heddle::ptx {

namespace {

// Returns the live lanes that must execute an instruction together with `mask`: all for an aligned one, else those of
// the member mask.
u32 required_lanes(Warp& warp, const Instruction& instruction, u32 mask) {
  if (instruction.aligned) return warp.live;
  const u32* member_masks = register_lanes<u32>(warp, instruction.e);
  const u32 members = member_masks[__builtin_ctz(mask)];
  lanes(mask, [&](int lane) {
    if (member_masks[lane] != members)
      fault(warp, instruction, lane, illegal_instruction, "lanes with different masks");
  });
  if (const u32 outside = mask & ~members)
    fault(warp, instruction, __builtin_ctz(outside), illegal_instruction, "a lane that is not in its own mask");
  return members & warp.live;
}

u32 waiting_at(const Warp& warp, u32 pc) {
  u32 mask = 0;
  lanes(warp.waiting, [&](int lane) { mask |= u32{warp.pcs[lane] == pc} << lane; });
  return mask;
}

bool is_warp_sync(const Instruction& instruction) {
  return instruction.kind == sync && instruction.execute == no_operation && instruction.modifier2 == 1;
}

void set_pcs(Warp& warp, u32 mask, u32 pc) {
  lanes(mask, [&](int lane) { warp.pcs[lane] = pc; });
}

// Runs the lanes with the lowest address, up to the address of the next ones.
void run_lowest(Warp& warp, u32 ready) {
  u32 lowest = ~0u;
  lanes(ready, [&](int lane) { lowest = std::min(lowest, warp.pcs[lane]); });
  warp.pc = lowest;
  warp.active = 0;
  lanes(ready, [&](int lane) {
    if (warp.pcs[lane] == lowest)
      warp.active |= 1u << lane;
    else
      warp.limit = std::min(warp.limit, warp.pcs[lane]);
  });
}

// Runs a group of waiting lanes that is complete because the missing ones have exited. Returns false if there is none.
bool run_complete_group(Warp& warp) {
  const std::vector<Instruction>& code = warp.block->kernel->code;
  for (u32 left = warp.waiting; left != 0;) {
    const u32 pc = warp.pcs[__builtin_ctz(left)];
    const u32 group = waiting_at(warp, pc);
    left &= ~group;
    if (required_lanes(warp, code[pc], group) & ~group) continue;
    warp.waiting &= ~group;
    warp.active = group;
    warp.pc = pc;
    return true;
  }
  return false;
}

// Releases lanes that wait at different bar.warp.sync if together they are complete. Returns whether it has
// released some.
bool release_warp_syncs(Warp& warp) {
  const std::vector<Instruction>& code = warp.block->kernel->code;
  u32 arrived = 0;
  lanes(warp.waiting, [&](int lane) { arrived |= u32{is_warp_sync(code[warp.pcs[lane]])} << lane; });
  if (!arrived) return false;
  const u32 first = static_cast<u32>(__builtin_ctz(arrived));
  const u32 required = required_lanes(warp, code[warp.pcs[first]], 1u << first);
  if (required & ~arrived) return false;
  lanes(required, [&](int lane) { ++warp.pcs[lane]; });
  warp.waiting &= ~required;
  return true;
}

[[noreturn]] void fault_waiting_lanes(Warp& warp) {
  const Kernel& kernel = *warp.block->kernel;
  std::string what = "lanes of a warp wait for each other:";
  lanes(warp.waiting, [&](int lane) {
    what += "\n    lane " + std::to_string(lane) + ": " + kernel.texts[kernel.code[warp.pcs[lane]].text];
  });
  const int first = __builtin_ctz(warp.waiting);
  fault(warp, kernel.code[warp.pcs[first]], first, launch_failure, what);
}

// Chooses the lanes that run next, from the addresses of all live lanes in warp.pcs. Returns false if all wait for
// other warps.
bool schedule(Warp& warp) {
  warp.limit = ~0u;
  if (const u32 ready = warp.live & ~warp.waiting & ~warp.stalled) {
    run_lowest(warp, ready);
    return true;
  }
  if (run_complete_group(warp)) return true;
  if (release_warp_syncs(warp)) return schedule(warp);
  if (!warp.stalled) fault_waiting_lanes(warp);
  warp.active = 0;
  return false;
}

// One call of run_warp.
struct Turn {
  Warp& warp;
  bool has_progressed = false;
  bool has_spun = false;  // a test has failed
};

// The functions below execute an instruction for the active lanes whose guard holds, `mask`. They return whether the
// warp can continue.

// Continues with the active lanes that are not in `mask`: their guard does not hold.
bool continue_without(Warp& warp, u32 mask) {
  warp.active &= ~mask;
  ++warp.pc;
  return warp.active || schedule(warp);
}

bool wait_for_other_lanes(Warp& warp, u32 mask) {
  set_pcs(warp, mask, warp.pc);
  warp.waiting |= mask;
  return continue_without(warp, mask);
}

// Makes lanes that have waited at the current instruction active again.
void join(Warp& warp, u32 mask) {
  warp.waiting &= ~mask;
  warp.active |= mask;
}

bool execute_branch(Warp& warp, const Instruction& instruction, u32 mask) {
  if (mask == warp.active) {
    warp.pc = instruction.target;
    return true;
  }
  if (!mask) {
    ++warp.pc;
    return true;
  }
  set_pcs(warp, warp.active & ~mask, warp.pc + 1);
  set_pcs(warp, mask, instruction.target);
  return schedule(warp);
}

bool execute_exit(Warp& warp, const Instruction& instruction, u32 mask) {
  if (warp.any_copies)
    lanes(mask, [&](int lane) {
      for (const Copy& copy : warp.copies[lane]) perform_copy(warp, instruction, lane, copy);
      warp.copies[lane].clear();
    });
  warp.live &= ~mask;
  if (mask) ++warp.block->events;
  if (warp.live) return continue_without(warp, mask);
  warp.active = 0;
  if (warp.block->kernel->async) check_stores_at_exit(warp);
  return false;
}

// Executes an instruction that may have to wait for other warps. modifier3 marks a test: it does not wait, but lets
// other warps run.
bool execute_poll(Turn& turn, const Instruction& instruction, u32 mask) {
  Warp& warp = turn.warp;
  if (!mask) {
    ++warp.pc;
    return true;
  }
  if (instruction.aligned) {
    const u32 arrived = mask | waiting_at(warp, warp.pc);
    if (arrived != warp.live) return wait_for_other_lanes(warp, mask);
    join(warp, arrived);
    mask = arrived;
  }
  const u32 done = instruction.poll(warp, instruction, mask);
  const bool gives_up = !done && !instruction.modifier3 && warp.expires && instruction.poll == mbarrier_wait;
  warp.spins = !done && instruction.modifier3;
  turn.has_progressed |= done || warp.spins || gives_up;
  if (gives_up) {
    warp.expires = false;
    write_predicate(warp, instruction.d, mask, 0);
  }
  if (done || gives_up) {
    ++warp.pc;
    return true;
  }
  turn.has_spun |= warp.spins;
  set_pcs(warp, mask, warp.pc + warp.spins);  // a test is not repeated
  warp.stalled |= mask;
  if (continue_without(warp, mask)) return true;
  warp.spins = turn.has_spun;
  return false;
}

// Executes an instruction that lanes must execute together. At a barrier of the block the warp stops.
template <bool tracks>
bool execute_together(Turn& turn, const Instruction& instruction, u32 mask) {
  Warp& warp = turn.warp;
  if (!mask) {
    ++warp.pc;
    return true;
  }
  const u32 required = required_lanes(warp, instruction, mask);
  const u32 arrived = mask | waiting_at(warp, warp.pc);
  if (required & ~arrived) return wait_for_other_lanes(warp, mask);
  turn.has_progressed = true;
  join(warp, arrived);
  if constexpr (tracks) track_registers(warp, *warp.block->kernel, warp.pc);
  if (instruction.kind == sync) {
    instruction.execute(warp, instruction, arrived);
    warp.syncs += is_warp_sync(instruction);
    ++warp.pc;
    return true;
  }
  const int first = __builtin_ctz(arrived);
  warp.at_barrier = true;
  warp.barrier_id = register_lanes<u32>(warp, instruction.a)[first];
  warp.barrier_count = instruction.b.absent ? 0 : register_lanes<u32>(warp, instruction.b)[first];
  warp.barrier_pc = warp.pc;
  warp.barrier_votes = instruction.c.absent ? 0 : read_predicate(warp, instruction.c) & arrived;
  return false;
}

u32 guarded_lanes(const Warp& warp, const Instruction& instruction) {
  if (!instruction.guarded) return warp.active;
  const u32 guard = warp.pred[instruction.guard];
  return warp.active & (instruction.guard_negated ? ~guard : guard);
}

// Implements run_warp. counts: options.count; tracks: the kernel has wgmma.
template <bool counts, bool tracks>
bool run_turn(Warp& warp) {
  Kernel& kernel = *warp.block->kernel;
  const Instruction* const code = kernel.code.data();
  Turn turn{warp};
  warp.spins = false;
  if (warp.stalled) {
    set_pcs(warp, warp.active, warp.pc);
    warp.stalled = 0;
    schedule(warp);
  }
  for (bool can_continue = true; can_continue;) {
    if (warp.pc >= warp.limit) [[unlikely]] {
      set_pcs(warp, warp.active, warp.pc);
      if (!schedule(warp)) break;
    }
    const Instruction& instruction = code[warp.pc];
    const u32 mask = guarded_lanes(warp, instruction);
    if constexpr (counts) {
      ++kernel.executed[warp.pc];
      kernel.lanes[warp.pc] += static_cast<u64>(std::popcount(mask));
    }
    switch (instruction.kind) {
      case normal:
        if (mask) {
          if constexpr (tracks) track_registers(warp, kernel, warp.pc);
          instruction.execute(warp, instruction, mask);
        }
        ++warp.pc;
        turn.has_progressed = true;
        break;
      case branch:
        turn.has_progressed = true;
        can_continue = execute_branch(warp, instruction, mask);
        break;
      case leave:
        turn.has_progressed = true;
        can_continue = execute_exit(warp, instruction, mask);
        break;
      case poll: can_continue = execute_poll(turn, instruction, mask); break;
      case sync:
      case barrier: can_continue = execute_together<tracks>(turn, instruction, mask); break;
    }
  }
  return turn.has_progressed;
}

}  // namespace

void start_warp(Warp& warp) {
  const Block& block = *warp.block;
  const u32 first = static_cast<u32>(warp.id) * 32;
  const u32 threads = std::min(32u, block.dim.x * block.dim.y * block.dim.z - first);
  warp.live = warp.active = all >> (32 - threads);
  warp.waiting = warp.stalled = 0;
  warp.pc = 0;
  warp.limit = ~0u;
  warp.spins = warp.expires = false;
  warp.at_barrier = false;
  warp.any_copies = false;
  warp.syncs = 0;
  warp.unfenced = 0;
  for (auto& copies : warp.copies) copies.clear();
  std::fill(warp.groups, warp.groups + 32, 0u);
  for (const auto& [name, offset] : block.kernel->specials) {
    const SpecialRegister* special = find_special_register(name);
    if (!special) unsupported("register " + name);
    u32* values = reinterpret_cast<u32*>(warp.base[0] + offset);
    for (u32 lane = 0; lane < 32; ++lane) values[lane] = special->value(block, first + lane);
  }
}

bool run_warp(Warp& warp) {
  if (warp.block->kernel->has_wgmma) return options.count ? run_turn<true, true>(warp) : run_turn<false, true>(warp);
  return options.count ? run_turn<true, false>(warp) : run_turn<false, false>(warp);
}

}  // namespace heddle::ptx
