#include "setmaxnreg.hpp"

#include <algorithm>
#include <numeric>

#include "report.hpp"
#include "warpgroup.hpp"

namespace heddle::ptx {

namespace {

// The data of the block that runs.
struct State {
  u32 at_entry = 0;            // registers per thread at the entry of the kernel, or 0 if that is not known
  std::vector<u32> registers;  // per thread, of each warp
  std::vector<u32> executed;   // how many setmaxnreg each warp has executed
  std::vector<std::vector<const Instruction*>> instructions;  // of each warpgroup
} state;

// Returns the registers per thread at the entry. ptxas must know the size of a block to use setmaxnreg. How many
// registers a block gets is not documented: this is what __launch_bounds__ allows.
u32 registers_at_entry(const Kernel& kernel) {
  constexpr u32 most_per_multiprocessor = 65536, most_per_thread = 256, granularity = 8;
  if (kernel.max_registers) return kernel.max_registers;
  if (!kernel.has_max_threads) return 0;
  const u32 threads = kernel.max_threads * std::max(1u, kernel.min_blocks);
  return std::min(most_per_multiprocessor / threads, most_per_thread) / granularity * granularity;
}

u64 registers_in_use() { return std::accumulate(state.registers.begin(), state.registers.end(), u64{0}); }
u64 registers_of_block(const Block& block) { return u64{state.at_entry} * block.warps.size(); }

// Throws Fault if another warp of the warpgroup has executed another setmaxnreg in its place.
void check_order(Warp& warp, const Instruction& instruction) {
  auto& instructions = state.instructions[warpgroup_index(warp)];
  const u32 executed = state.executed[static_cast<u32>(warp.id)];
  if (executed == instructions.size()) instructions.push_back(&instruction);
  if (instructions[executed] != &instruction)
    fault(warp, instruction, 0, illegal_instruction, "the warps of a warpgroup execute different setmaxnreg");
}

}  // namespace

void start_setmaxnreg(const Block& block) {
  const std::size_t warps = block.warps.size();
  state.at_entry = registers_at_entry(*block.kernel);
  state.registers.assign(warps, state.at_entry);
  state.executed.assign(warps, 0);
  state.instructions.assign(warps / warps_of_warpgroup, {});
}

void end_setmaxnreg(Block& block) {
  for (Warp& warp : block.warps) {
    if (warpgroup_index(warp) >= state.instructions.size()) continue;
    const auto& instructions = state.instructions[warpgroup_index(warp)];
    if (state.executed[static_cast<u32>(warp.id)] != instructions.size())
      fault(warp, *instructions.back(), 0, illegal_instruction,
            "not all warps of the warpgroup have executed this setmaxnreg");
  }
}

u32 setmaxnreg(Warp& warp, const Instruction& instruction, u32 mask) {
  require_warpgroup(warp, instruction, mask);
  if (!state.at_entry) {
    report(warp, instruction, "REGISTERS: setmaxnreg is ignored without __launch_bounds__ or .maxnreg");
    return mask;
  }
  check_order(warp, instruction);
  const bool is_increase = instruction.modifier;
  const u32 wanted = static_cast<u32>(instruction.imm);
  u32& registers = state.registers[static_cast<u32>(warp.id)];
  if (is_increase ? wanted < registers : wanted > registers)
    fault(warp, instruction, 0, illegal_instruction,
          std::string(is_increase ? "setmaxnreg.inc to fewer registers" : "setmaxnreg.dec to more registers") +
              "; the warp has " + std::to_string(registers) + " registers per thread");
  if (is_increase && registers_in_use() - registers + wanted > registers_of_block(*warp.block)) return 0;
  registers = wanted;
  ++state.executed[static_cast<u32>(warp.id)];
  ++warp.block->events;
  return mask;
}

std::string describe_setmaxnreg(const Block& block, const Instruction& instruction) {
  constexpr u32 lanes_of_warp = 32;
  return "setmaxnreg.inc to " + std::to_string(instruction.imm) + "; the warps have " +
         std::to_string(registers_in_use() * lanes_of_warp) + " registers of " +
         std::to_string(registers_of_block(block) * lanes_of_warp);
}

}  // namespace heddle::ptx
