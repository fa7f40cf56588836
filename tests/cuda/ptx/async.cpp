#include "async.hpp"

#include "barrier.hpp"
#include "bulk_copy.hpp"
#include "clocks.hpp"
#include "mbarrier.hpp"
#include "setmaxnreg.hpp"
#include "wgmma.hpp"

namespace heddle::ptx {

namespace {

// A wait of a lane, for a message.
struct Wait {
  int lane;
  const Instruction* instruction;
  std::string description;
};

Wait wait_at_barrier(Warp& warp) {
  const Block& block = *warp.block;
  Wait wait{__builtin_ctz(warp.live), &block.kernel->code[warp.barrier_pc], {}};
  wait.description = ": barrier " + std::to_string(warp.barrier_id);
  if (warp.barrier_count) wait.description += " of " + std::to_string(warp.barrier_count) + " threads";
  const u32 arrived = warp.barrier_id < named_barriers ? block.arrived[warp.barrier_id] : 0;
  if (arrived) wait.description += ", " + std::to_string(arrived) + " warps arrived by bar.arrive";
  return wait;
}

std::string describe_poll(Warp& warp, const Instruction& instruction, int lane) {
  if (instruction.poll == mbarrier_wait) return describe_mbarrier_wait(warp, instruction, lane);
  if (instruction.poll == setmaxnreg) return describe_setmaxnreg(*warp.block, instruction);
  return "wgmma.wait_group, for products that not all warps of its warpgroup have issued";
}

Wait wait_at_poll(Warp& warp) {
  const Kernel& kernel = *warp.block->kernel;
  const u32 stalled = warp.stalled ? warp.stalled : warp.live;
  const int lane = __builtin_ctz(stalled);
  const u32 pc = warp.pcs[lane];
  const bool has_tested = pc > 0 && kernel.code[pc - 1].modifier3;  // a test that has failed is not repeated
  const Instruction& instruction = kernel.code[has_tested ? pc - 1 : pc];
  const std::string what =
      instruction.kind == poll ? describe_poll(warp, instruction, lane) : kernel.texts[instruction.text].substr(0, 120);
  return {lane, &instruction, ", lanes " + hex(stalled) + ": " + what};
}

}  // namespace

void start_async(const Block& block) {
  start_clocks(block);
  start_mbarriers();
  start_bulk_copies();
  start_wgmma(block);
  start_setmaxnreg(block);
}

void end_async(Block& block) {
  end_bulk_copies(block);
  end_wgmma(block);
  end_setmaxnreg(block);
}

void fault_deadlock(Block& block) {
  std::string what = "deadlock: all warps wait";
  Warp* first = nullptr;
  Wait first_wait{};
  for (Warp& warp : block.warps) {
    if (!warp.live) continue;
    const Wait wait = warp.at_barrier ? wait_at_barrier(warp) : wait_at_poll(warp);
    what += "\n    warp " + std::to_string(warp.id) + wait.description;
    if (first) continue;
    first = &warp;
    first_wait = wait;
  }
  fault(*first, *first_wait.instruction, first_wait.lane, launch_failure, what);
}

}  // namespace heddle::ptx
