#include "mbarrier.hpp"

#include <algorithm>
#include <deque>
#include <map>

#include "bulk_copy.hpp"
#include "cp_async.hpp"
#include "report.hpp"

namespace heddle::ptx {

namespace {

constexpr u32 mbarrier_bytes = 8;
constexpr s64 most_arrivals = (1 << 20) - 1;
constexpr s64 most_bytes = (1 << 20) - 1;

// A cp.async.mbarrier.arrive whose copies have not been performed.
struct CopyArrival {
  int warp, lane;
  u32 mbarrier;  // its address
  u32 serial;    // the number of the last copy
  const Instruction* instruction;
};

// The data of the block that runs.
struct State {
  std::map<u32, Mbarrier> mbarriers;  // by address
  u32 count = 0;                      // mbarriers so far
  std::deque<CopyArrival> arrivals;
} state;

u64 copy_arrivals_at(const Mbarrier& mbarrier) {
  return static_cast<u64>(std::count_if(state.arrivals.begin(), state.arrivals.end(), [&](const CopyArrival& arrival) {
    return arrival.mbarrier == mbarrier.address;
  }));
}

// Returns what the memory of an mbarrier holds, so that a store to it is noticed.
u64 content_of_mbarrier(u32 address) {
  return 0x6d62617272696572ull ^ u64 { address } << 32;
}

u8* bytes_of_mbarrier(Warp& warp, u32 address) { return warp.block->shared.data() + (address - shared_base); }

u32 address_of_mbarrier(Warp& warp, const Instruction& instruction, int lane, u64 address) {
  return shared_address(warp, instruction, lane, address, mbarrier_bytes, mbarrier_bytes);
}

// The arrive-on operation.
void arrive(Warp& warp, const Instruction& instruction, int lane, Mbarrier& mbarrier, u32 count) {
  if (count == 0 || count > mbarrier.pending)
    fault(warp, instruction, lane, illegal_instruction,
          "an arrival of " + std::to_string(count) + " exceeds the pending count" +
              (mbarrier.pending ? "" : " (the phase waits for bytes, and no thread has waited for them)") + "; " +
              describe(mbarrier));
  mbarrier.pending -= count;
  ++warp.block->events;
}

// Performs the copies before an arrival of cp.async.mbarrier.arrive, and arrives.
void finish_copies(Block& block, const CopyArrival& arrival, Mbarrier& mbarrier) {
  Warp& warp = block.warps[static_cast<u32>(arrival.warp)];
  auto& queue = warp.copies[arrival.lane];
  while (!queue.empty() && static_cast<s32>(queue.front().serial - arrival.serial) <= 0) {
    perform_copy(warp, *arrival.instruction, arrival.lane, queue.front());
    queue.erase(queue.begin());
  }
  arrive(warp, *arrival.instruction, arrival.lane, mbarrier, 1);
}

// Finishes cp.async for an mbarrier if the phase waits for nothing else than their arrivals and bytes.
void finish_copies_to(Warp& warp, const Instruction& instruction, int lane, Mbarrier& mbarrier) {
  const u64 phase = mbarrier.phase;
  const u64 arrivals = copy_arrivals_at(mbarrier);
  if (arrivals == 0 || mbarrier.pending > arrivals) return;
  for (auto next = state.arrivals.begin(); next != state.arrivals.end() && mbarrier.phase == phase;) {
    if (next->mbarrier != mbarrier.address) {
      ++next;
      continue;
    }
    const CopyArrival arrival = *next;
    next = state.arrivals.erase(next);
    finish_copies(*warp.block, arrival, mbarrier);
    complete_phase(warp, instruction, lane, mbarrier);
  }
}

// Performs the copies that a wait for the current phase needs.
void finish_phase(Warp& warp, const Instruction& instruction, int lane, Mbarrier& mbarrier) {
  const u64 phase = mbarrier.phase;
  finish_copies_to(warp, instruction, lane, mbarrier);
  while (mbarrier.phase == phase && mbarrier.pending == 0)
    if (!perform_load_to(warp, instruction, lane, mbarrier)) return;
}

// Returns the phase whose completion a lane waits for. A parity means the current phase or the one before.
u64 awaited_phase(Warp& warp, const Instruction& instruction, int lane, const Mbarrier& mbarrier) {
  const bool is_parity = instruction.modifier2;
  if (is_parity) {
    const u32 parity = register_lanes<u32>(warp, instruction.c)[lane];
    if (parity > 1) fault(warp, instruction, lane, illegal_instruction, "a phase parity of " + std::to_string(parity));
    return (mbarrier.phase & 1) == parity ? mbarrier.phase : mbarrier.phase - 1;
  }
  const u64 phase = register_lanes<u64>(warp, instruction.c)[lane] >> 32;
  if (phase > mbarrier.phase || phase + 1 < mbarrier.phase)
    fault(warp, instruction, lane, illegal_instruction,
          "a wait for phase " + std::to_string(phase) + "; " + describe(mbarrier));
  return phase;
}

// Calls f(lane, mbarrier) for the lanes of the mask.
template <class F>
void for_mbarriers(Warp& warp, const Instruction& instruction, u32 mask, F&& f) {
  u64 at[32];
  addresses(warp, instruction, instruction.a, instruction.imm, at);
  lanes(mask, [&](int lane) { f(lane, mbarrier_at(warp, instruction, lane, at[lane])); });
}

u32 count_of(Warp& warp, const Instruction& instruction, int lane) {
  return instruction.b.absent ? 1 : register_lanes<u32>(warp, instruction.b)[lane];
}

}  // namespace

void start_mbarriers() { state = {}; }

Mbarrier& mbarrier_at(Warp& warp, const Instruction& instruction, int lane, u64 address) {
  const u32 at = address_of_mbarrier(warp, instruction, lane, address);
  const auto found = state.mbarriers.find(at);
  if (found == state.mbarriers.end())
    fault(warp, instruction, lane, illegal_instruction, "no mbarrier was initialized at " + hex(at));
  u64 content;
  std::memcpy(&content, bytes_of_mbarrier(warp, at), mbarrier_bytes);
  if (content != content_of_mbarrier(at))
    fault(warp, instruction, lane, illegal_instruction, "the mbarrier at " + hex(at) + " was overwritten");
  Mbarrier& mbarrier = found->second;
  if (mbarrier.init_agent != warp_agent(warp) && !has_seen(warp, mbarrier.init_agent, mbarrier.init_time))
    report(warp, instruction, "RACE: the use of an mbarrier is not ordered after its mbarrier.init: " + hex(at));
  return mbarrier;
}

std::string name_of_mbarrier(u32 index) {
  for (const auto& [address, mbarrier] : state.mbarriers)
    if (mbarrier.index == index) return "mbarrier " + hex(address);
  return "an mbarrier that was invalidated";
}

std::string describe(const Mbarrier& mbarrier) {
  const LoadsInFlight loads = loads_to(mbarrier.address);
  const u64 arrivals = copy_arrivals_at(mbarrier);
  std::string text = "mbarrier " + hex(mbarrier.address) + ": phase " + std::to_string(mbarrier.phase) + " (parity " +
                     std::to_string(mbarrier.phase & 1) + "), " + std::to_string(mbarrier.pending) + " of " +
                     std::to_string(mbarrier.expected) + " arrivals pending, " + std::to_string(mbarrier.tx_count) +
                     " bytes pending";
  if (loads.count)
    text += ", " + std::to_string(loads.count) + " copies of " + std::to_string(loads.bytes) + " bytes in flight";
  if (arrivals) text += ", " + std::to_string(arrivals) + " arrivals of cp.async in flight";
  return text;
}

std::string describe_mbarrier_wait(Warp& warp, const Instruction& instruction, int lane) {
  u64 at[32];
  addresses(warp, instruction, instruction.a, instruction.imm, at);
  const bool is_parity = instruction.modifier2;
  const std::string what =
      is_parity ? "waits for parity " + std::to_string(register_lanes<u32>(warp, instruction.c)[lane])
                : "waits for phase " + std::to_string(register_lanes<u64>(warp, instruction.c)[lane] >> 32);
  return what + " of " + describe(mbarrier_at(warp, instruction, lane, at[lane]));
}

void add_tx(Warp& warp, const Instruction& instruction, int lane, Mbarrier& mbarrier, s64 bytes) {
  mbarrier.tx_count += bytes;
  if (mbarrier.tx_count > most_bytes || mbarrier.tx_count < -most_bytes)
    fault(warp, instruction, lane, illegal_instruction, "the tx-count is out of range; " + describe(mbarrier));
}

void complete_phase(Warp& warp, const Instruction& instruction, int lane, Mbarrier& mbarrier) {
  if (mbarrier.pending || mbarrier.tx_count) return;
  if (loads_to(mbarrier.address).first_phase <= mbarrier.phase)
    fault(warp, instruction, lane, launch_failure,
          "a phase completes while copies for it are in flight: expect_tx announced fewer bytes than are copied; " +
              describe(mbarrier));
  ++mbarrier.phase;
  ++warp.block->events;
  mbarrier.pending = mbarrier.expected;
  mbarrier.completed = mbarrier.arrived;
}

void mbarrier_init(Warp& warp, const Instruction& instruction, u32 mask) {
  u64 at[32];
  addresses(warp, instruction, instruction.a, instruction.imm, at);
  lanes(mask, [&](int lane) {
    const u32 count = count_of(warp, instruction, lane);
    const u32 address = address_of_mbarrier(warp, instruction, lane, at[lane]);
    if (count < 1 || count > most_arrivals)
      fault(warp, instruction, lane, illegal_instruction, "mbarrier.init with a count of " + std::to_string(count));
    if (state.mbarriers.contains(address))
      fault(warp, instruction, lane, illegal_instruction,
            "mbarrier.init of an mbarrier that was not invalidated: " + hex(address));
    const u32 agent = warp_agent(warp), time = time_of(warp);
    watch_access(warp, instruction, {address - shared_base, mbarrier_bytes, true, false, agent, time});
    const u64 content = content_of_mbarrier(address);
    std::memcpy(bytes_of_mbarrier(warp, address), &content, mbarrier_bytes);
    state.mbarriers[address] = {address, state.count++, count, count, 0, 0, {}, {}, agent, time};
  });
}

void mbarrier_inval(Warp& warp, const Instruction& instruction, u32 mask) {
  for_mbarriers(warp, instruction, mask, [&](int lane, Mbarrier& mbarrier) {
    if (loads_to(mbarrier.address).count)
      fault(warp, instruction, lane, illegal_instruction,
            "mbarrier.inval while copies are in flight; " + describe(mbarrier));
    state.mbarriers.erase(mbarrier.address);
  });
}

void mbarrier_expect_tx(Warp& warp, const Instruction& instruction, u32 mask) {
  for_mbarriers(warp, instruction, mask, [&](int lane, Mbarrier& mbarrier) {
    add_tx(warp, instruction, lane, mbarrier, count_of(warp, instruction, lane));
  });
}

void mbarrier_complete_tx(Warp& warp, const Instruction& instruction, u32 mask) {
  for_mbarriers(warp, instruction, mask, [&](int lane, Mbarrier& mbarrier) {
    add_tx(warp, instruction, lane, mbarrier, -s64{count_of(warp, instruction, lane)});
    complete_phase(warp, instruction, lane, mbarrier);
  });
}

void mbarrier_arrive(Warp& warp, const Instruction& instruction, u32 mask) {
  const u8 form = instruction.modifier;
  const bool is_relaxed = instruction.modifier2;
  for_mbarriers(warp, instruction, mask, [&](int lane, Mbarrier& mbarrier) {
    u32 count = count_of(warp, instruction, lane);
    if (form == arrive_expect_tx) {
      add_tx(warp, instruction, lane, mbarrier, count);
      count = 1;
    }
    if (!instruction.d.absent) register_lanes<u64>(warp, instruction.d)[lane] = mbarrier.phase << 32 | mbarrier.pending;
    if (!is_relaxed) release(warp, mbarrier.arrived);
    arrive(warp, instruction, lane, mbarrier, count);
    if (form == arrive_drop) mbarrier.expected -= count;
    complete_phase(warp, instruction, lane, mbarrier);
  });
}

void mbarrier_pending_count(Warp& warp, const Instruction& instruction, u32 mask) {
  const u64* states = register_lanes<u64>(warp, instruction.c);
  each(register_lanes<u32>(warp, instruction.d), mask, [&](int lane) { return static_cast<u32>(states[lane]); });
}

u32 mbarrier_wait(Warp& warp, const Instruction& instruction, u32 mask) {
  const bool is_test = instruction.modifier;
  const bool is_relaxed = instruction.imm2;
  u32 done = 0;
  for_mbarriers(warp, instruction, mask, [&](int lane, Mbarrier& mbarrier) {
    const u64 phase = awaited_phase(warp, instruction, lane, mbarrier);
    if (phase == mbarrier.phase) finish_phase(warp, instruction, lane, mbarrier);
    if (phase == mbarrier.phase) return;
    done |= 1u << lane;
    if (is_relaxed) return;
    acquire(warp, mbarrier.completed);
    observe(warp, mbarrier_agent(mbarrier.index), static_cast<u32>(mbarrier.phase));
  });
  if (is_test || done) write_predicate(warp, instruction.d, mask, done);
  return done;
}

void cp_async_mbarrier_arrive(Warp& warp, const Instruction& instruction, u32 mask) {
  const bool is_noinc = instruction.modifier;
  for_mbarriers(warp, instruction, mask, [&](int lane, Mbarrier& mbarrier) {
    if (!is_noinc) ++mbarrier.pending;
    release(warp, mbarrier.arrived);
    state.arrivals.push_back({warp.id, lane, mbarrier.address, copy_serial, &instruction});
  });
}

}  // namespace heddle::ptx
