#include "clocks.hpp"

#include <algorithm>

#include "mbarrier.hpp"
#include "memory.hpp"
#include "report.hpp"

namespace heddle::ptx {

namespace {

// An agent's access at a time, or none if the time is 0.
struct Event {
  u32 time = 0;
  u16 agent = 0;
};

// The last accesses to a byte of shared memory: the write, and the reads since then. If more than six agents read it,
// some are forgotten.
struct History {
  Event write;
  bool async_write = false;
  Event reads[6];
};

// The data of the block that runs.
struct State {
  std::vector<Clock> clocks;  // of the warps
  Clock barriers[17];         // what the warps that have arrived at named barriers had seen
  std::vector<History> histories;
} state;

u32 time_in(const VectorClock& clock, u32 agent) { return agent < clock.size() ? clock[agent] : 0; }

void raise(VectorClock& clock, u32 agent, u32 time) {
  if (clock.size() <= agent) clock.resize(agent + 1);
  clock[agent] = std::max(clock[agent], time);
}

void join(VectorClock& to, const VectorClock& from) {
  if (to.size() < from.size()) to.resize(from.size());
  for (std::size_t agent = 0; agent < from.size(); ++agent) to[agent] = std::max(to[agent], from[agent]);
}

void join(Clock& to, const Clock& from) {
  join(to.seen, from.seen);
  join(to.fenced, from.fenced);
}

Clock& clock_of(const Warp& warp) { return state.clocks[static_cast<u32>(warp.id)]; }

bool is_in(const VectorClock& clock, Event event) { return time_in(clock, event.agent) >= event.time; }

std::string name_of_agent(u32 agent) {
  if (agent < wgmma_agent(0)) return "warp " + std::to_string(agent);
  if (agent < wgmma_agent(8)) return "wgmma of warpgroup " + std::to_string(agent - wgmma_agent(0));
  if (agent < mbarrier_agent(0)) return "a bulk store of warp " + std::to_string(agent - wgmma_agent(8));
  return "a copy to " + name_of_mbarrier(agent - mbarrier_agent(0));
}

// Returns how an access conflicts with the last write, or nullptr.
const char* conflict_with_write(const Warp& warp, const SharedAccess& access, const History& history) {
  const Event last = history.write;
  const u32 self = warp_agent(warp);
  if (last.time == 0) return nullptr;
  // Copies to one mbarrier are not ordered, but a program may well let them overlap.
  const bool is_same_copy = last.agent == access.agent && history.async_write == access.async && access.agent != self;
  if (is_same_copy && access.write) return nullptr;
  const bool is_own = last.agent == self && !history.async_write;
  const Clock& clock = clock_of(warp);
  if (!is_own && !is_in(clock.seen, last))
    return access.write ? "RACE: a write is not ordered after a write" : "RACE: a read is not ordered after a write";
  if (access.async && !history.async_write && !is_in(clock.fenced, last))
    return access.write ? "PROXY: no fence.proxy.async between a generic write and an asynchronous write"
                        : "PROXY: no fence.proxy.async between a generic write and an asynchronous read";
  return nullptr;
}

// Remembers a read in place of one that happened before it.
void record_read(const Clock& clock, const SharedAccess& access, History& history) {
  Event* read = history.reads;
  const Event* const last = std::end(history.reads) - 1;
  while (read < last && read->agent != access.agent && !is_in(clock.seen, *read)) ++read;
  *read = {access.time, static_cast<u16>(access.agent)};
}

void record_write(const SharedAccess& access, History& history) {
  history.write = {access.time, static_cast<u16>(access.agent)};
  history.async_write = access.async;
  std::fill(std::begin(history.reads), std::end(history.reads), Event{});
}

}  // namespace

void start_clocks(const Block& block) {
  const u32 warps = static_cast<u32>(block.warps.size());
  state.clocks.assign(warps, {});
  for (u32 warp = 0; warp < warps; ++warp) raise(state.clocks[warp].seen, warp, 1);
  for (Clock& barrier : state.barriers) barrier = {};
  std::fill(state.histories.begin(), state.histories.end(), History{});
}

void release(const Warp& warp, Clock& to) {
  if (!options.races) return;
  join(to, clock_of(warp));
  ++clock_of(warp).seen[warp_agent(warp)];
}

void acquire(const Warp& warp, const Clock& from) {
  if (options.races) join(clock_of(warp), from);
}

void observe(const Warp& warp, u32 agent, u32 time) {
  if (options.races) raise(clock_of(warp).seen, agent, time);
}

bool has_seen(const Warp& warp, u32 agent, u32 time) {
  return !options.races || time_in(clock_of(warp).seen, agent) >= time;
}

u32 time_of(const Warp& warp) { return options.races ? time_in(clock_of(warp).seen, warp_agent(warp)) : 0; }

void release_to_barrier(const Warp& warp, u32 id) { release(warp, state.barriers[id]); }

void pass_barrier(u32 id, const std::vector<Warp*>& warps) {
  if (!options.races) return;
  for (const Warp* warp : warps) release_to_barrier(*warp, id);
  for (const Warp* warp : warps) acquire(*warp, state.barriers[id]);
  state.barriers[id] = {};
}

void watch_access(const Warp& warp, const Instruction& instruction, const SharedAccess& access) {
  if (!options.races) return;
  const u32 size = static_cast<u32>(warp.block->shared.size());
  if (state.histories.size() != size) state.histories.assign(size, {});
  const Clock& clock = clock_of(warp);
  const char* conflict = nullptr;
  u32 byte = 0, other = 0;
  const auto note = [&](const char* what, u32 offset, u32 agent) {
    if (conflict || !what) return;
    conflict = what;
    byte = offset;
    other = agent;
  };
  const u32 end = std::min(access.offset + access.bytes, size);
  for (u32 offset = access.offset; offset < end; ++offset) {
    History& history = state.histories[offset];
    note(conflict_with_write(warp, access, history), offset, history.write.agent);
    if (!access.write) {
      record_read(clock, access, history);
      continue;
    }
    for (const Event read : history.reads)
      if (read.agent != warp_agent(warp) && !is_in(clock.seen, read))
        note("RACE: a write is not ordered after a read", offset, read.agent);
    record_write(access, history);
  }
  if (conflict)
    report(warp, instruction, conflict,
           ": byte " + hex(shared_base + byte) + " of shared memory, by " + name_of_agent(access.agent) + " after " +
               name_of_agent(other));
}

void watch_warp_access(const Warp& warp, const Instruction& instruction, u32 offset, u32 bytes, bool write) {
  const bool is_write = write && instruction.category != c_atom;
  watch_access(warp, instruction, {offset, bytes, is_write, false, warp_agent(warp), time_of(warp)});
}

void fence_proxy_async(Warp& warp, const Instruction&, u32) {
  if (!options.races) return;
  Clock& clock = clock_of(warp);
  clock.fenced = clock.seen;
  ++clock.seen[warp_agent(warp)];
}

}  // namespace heddle::ptx
