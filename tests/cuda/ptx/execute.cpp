// Runs grids: one block after another, and the warps of a block in turn, each until it must wait for others. Options
// change the order of blocks and warps.
#include <cxxabi.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "async.hpp"
#include "barrier.hpp"
#include "bulk_copy.hpp"
#include "warp.hpp"

namespace heddle::ptx {

Options options;

std::string demangled(const std::string& name) {
  int status = 0;
  char* text = abi::__cxa_demangle(name.c_str(), nullptr, nullptr, &status);
  const std::string result = status == 0 ? text : name;
  std::free(text);
  return result;
}

void fault(Warp& warp, const Instruction& instruction, int lane, int code, const std::string& what) {
  const Block& block = *warp.block;
  char where[200];
  std::snprintf(where, sizeof(where), "block (%u, %u, %u) of (%u, %u, %u), thread %u of %u", block.id.x, block.id.y,
                block.id.z, block.grid.x, block.grid.y, block.grid.z, static_cast<u32>(warp.id * 32 + lane),
                block.dim.x * block.dim.y * block.dim.z);
  throw Fault{code, what + "\n  " + where + "\n  " + block.kernel->texts[instruction.text] + "\n  " +
                        demangled(block.kernel->name)};
}

namespace {

void start_block(Block& block) {
  std::fill(block.shared.begin(), block.shared.end(), options.fill);
  std::fill(block.shadow.begin(), block.shadow.end(), Block::Shadow{});
  std::fill(block.local.begin(), block.local.end(), 0xff);
  std::fill(std::begin(block.arrived), std::end(block.arrived), 0);
  block.epoch = 1;
  block.partial_barriers = false;
  if (block.kernel->async) start_async(block);
  for (Warp& warp : block.warps) start_warp(warp);
}

// The result of running each warp of a block once.
struct Round {
  bool has_progressed = false;
  bool has_spun = false;  // a test has failed
};

Round run_round(Block& block, const std::vector<u32>& order) {
  Round round;
  for (const u32 i : order) {
    Warp& warp = block.warps[i];
    if (!warp.live || warp.at_barrier) continue;
    round.has_progressed |= run_warp(warp);
    round.has_spun |= warp.spins;
    // A barrier of some warps is released at once, because the other warps may depend on these.
    if (block.kernel->async && warp.live && warp.at_barrier && warp.barrier_count && warp.barrier_id < named_barriers)
      release_barrier(block, warp.barrier_id);
  }
  return round;
}

// Handles a round without events in a kernel with asynchronous instructions. `idle` is the number of consecutive rounds
// without events. A wait that may time out does so before a deadlock is reported, because the program may then do
// something else.
void handle_idle_round(Block& block, const Round& round, u64 idle) {
  constexpr u64 most_waiting = 100;
  constexpr u64 most_spinning = 10000;
  if (round.has_spun ? idle > most_spinning : !round.has_progressed && idle > most_waiting) fault_deadlock(block);
  if (round.has_progressed) return;
  for (Warp& warp : block.warps) warp.expires = true;
}

void run_block(Block& block, std::mt19937_64& random) {
  start_block(block);
  const bool async = block.kernel->async;
  std::vector<u32> order(block.warps.size());
  std::iota(order.begin(), order.end(), 0u);
  if (options.reverse) std::reverse(order.begin(), order.end());
  for (u64 idle = 0;;) {
    const u64 events = block.events;
    if (options.random) std::shuffle(order.begin(), order.end(), random);
    if (options.random && async) perform_random_loads(block, random());
    const Round round = run_round(block, order);
    const bool is_alive =
        std::any_of(block.warps.begin(), block.warps.end(), [](const Warp& warp) { return warp.live != 0; });
    if (!is_alive) break;
    const bool has_released = release_barriers(block);
    if (!async) {
      if (!has_released && !round.has_progressed) fault_at_barrier(block);
    } else if (block.events == events) {
      handle_idle_round(block, round, ++idle);
    } else {
      idle = 0;
    }
    check_barrier_numbers(block);
  }
  if (async) end_async(block);
}

constexpr u64 vector_bytes = 64;  // the alignment of registers

u8* aligned(std::vector<u8>& bytes) {
  return reinterpret_cast<u8*>((reinterpret_cast<u64>(bytes.data()) + vector_bytes - 1) / vector_bytes * vector_bytes);
}

// Gives each warp its part of the registers, and the constants.
void set_up_warps(Block& block) {
  static std::vector<u8> constants;
  const Kernel& kernel = *block.kernel;
  const u32 warps = (block.dim.x * block.dim.y * block.dim.z + 31) / 32;
  const u32 preds = kernel.preds + 1;
  const u64 register_bytes = u64{warps} * kernel.reg_bytes + vector_bytes;
  if (block.registers.size() < register_bytes) block.registers.resize(register_bytes);
  block.preds.assign(u64{warps} * preds, 0);
  block.local.resize(u64{warps} * 32 * kernel.local_bytes);
  constants.resize(kernel.constants.size() + vector_bytes);
  std::memcpy(aligned(constants), kernel.constants.data(), kernel.constants.size());
  block.warps.resize(warps);
  for (u32 i = 0; i < warps; ++i) {
    Warp& warp = block.warps[i];
    warp.base[0] = aligned(block.registers) + u64{i} * kernel.reg_bytes;
    warp.base[1] = aligned(constants);
    warp.pred = block.preds.data() + u64{i} * preds;
    warp.block = &block;
    warp.id = static_cast<int>(i);
  }
}

}  // namespace

void run(Kernel& kernel, Dim grid, Dim dim, u32 dynamic_shared, const std::vector<u8>& params) {
  static Block block;  // launches are serialized
  static std::mt19937_64 random(options.seed);
  decode(kernel);
  ++kernel.launches;
  for (const Instruction& instruction : kernel.code) {
    instruction.lo = 1;  // an empty range: no allocation is known
    instruction.hi = 0;
  }
  block.kernel = &kernel;
  block.grid = grid;
  block.dim = dim;
  block.params = params;
  block.shared.resize(kernel.static_shared + dynamic_shared);
  block.shadow.clear();
  ++block.launch;
  set_up_warps(block);
  const u64 blocks = u64{grid.x} * grid.y * grid.z;
  std::vector<u64> random_order;
  if (options.random) {
    random_order.resize(blocks);
    std::iota(random_order.begin(), random_order.end(), u64{0});
    std::shuffle(random_order.begin(), random_order.end(), random);
  }
  for (u64 i = 0; i < blocks; ++i) {
    const u64 number = options.random ? random_order[i] : options.reverse ? blocks - 1 - i : i;
    block.number = static_cast<u32>(number);
    block.id = {static_cast<u32>(number % grid.x), static_cast<u32>(number / grid.x % grid.y),
                static_cast<u32>(number / grid.x / grid.y)};
    run_block(block, random);
  }
}

}  // namespace heddle::ptx
