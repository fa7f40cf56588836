// Finds races: accesses of two threads to one byte, at least one of them a write, that no barrier orders. bar.sync
// orders the threads of a block, and bar.warp.sync the lanes of a warp. publications.hpp orders blocks. Other
// instructions do not order memory, except in kernels with asynchronous instructions: clocks.hpp watches their shared
// memory. Only the last write and the last reads of each byte are remembered.
#include <set>

#include "clocks.hpp"
#include "memory.hpp"
#include "publications.hpp"

namespace heddle::ptx {

namespace {

// A thread of a block, the number of barriers of the block so far, and the number of bar.warp.sync of the warp so far.
template <class Count>
struct Moment {
  u16 thread;
  Count epoch, sync;
};

constexpr u16 no_thread = 0xffff;

u16 thread_of(const Warp& warp, int lane) { return static_cast<u16>(warp.id * 32 + lane); }
bool in_same_warp(u16 a, u16 b) { return a / 32 == b / 32; }

// Returns whether nothing orders an access now and one in the same epoch, by `thread` after `sync` bar.warp.sync.
template <class Count>
bool is_unordered(u16 thread, Count sync, const Moment<Count>& now) {
  return thread != now.thread && (!in_same_warp(thread, now.thread) || sync == now.sync);
}

// The threads that have read a byte in one epoch: the last one, and whether there are others.
template <class Count>
struct Readers {
  u16& thread;
  Count& sync;
  bool& many_warps;
  bool& many_lanes;  // since the last bar.warp.sync

  bool has_unordered(const Moment<Count>& now) const {
    if (many_warps || !in_same_warp(thread, now.thread)) return true;
    return sync == now.sync && (many_lanes || thread != now.thread);
  }

  void start(const Moment<Count>& now) const {
    thread = now.thread;
    sync = now.sync;
    many_warps = many_lanes = false;
  }

  void add(const Moment<Count>& now) const {
    if (!in_same_warp(thread, now.thread)) {
      many_warps = true;
    } else if (sync != now.sync) {
      thread = now.thread;
      sync = now.sync;
      many_lanes = false;
    } else if (thread != now.thread) {
      many_lanes = true;
    }
  }
};

// The description of a race, its address, and the other thread.
struct Race {
  const char* what = nullptr;
  u64 address = 0;
  u32 thread = 0, block = 0;
};

const char* conflict_with_write(bool write) {
  return write ? "two threads write" : "a thread reads what another one writes";
}
constexpr const char* conflict_with_read = "a thread writes what another one reads";

using Reported = std::set<std::pair<const Kernel*, u32>>;

void report_shared(const Warp& warp, const Instruction& instruction, const Race& race, u16 thread) {
  static Reported reported;
  const Kernel& kernel = *warp.block->kernel;
  if (!reported.insert({&kernel, instruction.text}).second) return;
  std::fprintf(stderr, "ptx: RACE: %s without a barrier between: shared byte %u, threads %u and %u\n  %s\n  %s\n",
               race.what, static_cast<u32>(race.address), thread, race.thread, kernel.texts[instruction.text].c_str(),
               demangled(kernel.name).c_str());
  std::fflush(stderr);
}

void report_global(const Warp& warp, const Instruction& instruction, const Race& race, u16 thread) {
  static Reported reported;
  const Kernel& kernel = *warp.block->kernel;
  if (!reported.insert({&kernel, instruction.text}).second) return;
  std::fprintf(
      stderr,
      "ptx: RACE in global memory: %s: address %#llx, thread %u of block %u and thread %u of block %u\n  %s\n  %s\n",
      race.what, static_cast<unsigned long long>(race.address), thread, warp.block->number, race.thread, race.block,
      kernel.texts[instruction.text].c_str(), demangled(kernel.name).c_str());
  std::fflush(stderr);
}

BlockOrder block_order;

Place place_of(const Moment<u16>& now) { return {now.thread, now.epoch, block_order.stamp()}; }

bool races_with_write(const Access& last, const Block& block, const Moment<u16>& now) {
  if (last.launch_w != block.launch) return false;
  if (last.block_w != block.number)
    return !block_order.comes_before(last.block_w, {last.thread_w, last.epoch_w, last.stamp_w}, place_of(now));
  return !block.partial_barriers && last.epoch_w == now.epoch && is_unordered(last.thread_w, last.sync_w, now);
}

bool races_with_reads(const Access& last, const Block& block, const Moment<u16>& now, const Readers<u16>& readers) {
  if (last.launch_r != block.launch) return false;
  if (last.many_blocks && !block_order.follows_all_blocks(place_of(now))) return true;
  if (last.block_r != block.number) {
    // Only barriers order all readers if there are several.
    const u16 thread = last.many_warps || last.many_lanes ? no_thread : last.thread_r;
    return !block_order.comes_before(last.block_r, {thread, last.epoch_r, last.stamp_r}, place_of(now));
  }
  return !block.partial_barriers && last.epoch_r == now.epoch && readers.has_unordered(now);
}

void record_write(Access& last, const Block& block, const Moment<u16>& now) {
  last.launch_w = block.launch;
  last.block_w = block.number;
  last.thread_w = now.thread;
  last.epoch_w = now.epoch;
  last.sync_w = now.sync;
  last.stamp_w = block_order.stamp();
}

void record_read(Access& last, const Block& block, const Moment<u16>& now, const Readers<u16>& readers) {
  last.stamp_r = block_order.stamp();
  if (last.launch_r != block.launch) {
    last.launch_r = block.launch;
    last.block_r = block.number;
    last.many_blocks = false;
  } else if (last.block_r != block.number) {
    last.block_r = block.number;
    last.many_blocks = true;
  } else if (last.epoch_r == now.epoch) {
    readers.add(now);
    return;
  }
  last.epoch_r = now.epoch;
  readers.start(now);
}

}  // namespace

// Atomic operations do not race with each other.
void watch_shared(Warp& warp, const Instruction& instruction, int lane, u32 offset, u32 bytes, bool write) {
  Block& block = *warp.block;
  if (block.kernel->async) return watch_warp_access(warp, instruction, offset, bytes, write);
  if (block.partial_barriers) return;
  if (block.shadow.size() != block.shared.size()) block.shadow.assign(block.shared.size(), {});
  const Moment<u32> now{thread_of(warp, lane), block.epoch, warp.syncs};
  const bool is_atomic = instruction.category == c_atom;
  Race race;
  for (u32 byte = offset; byte < offset + bytes; ++byte) {
    Block::Shadow& last = block.shadow[byte];
    const Readers<u32> readers{last.reader, last.read_sync, last.many_warps, last.many_lanes};
    if (!(last.atomic && is_atomic)) {
      if (last.written == now.epoch && is_unordered(last.writer, last.written_sync, now))
        race = {conflict_with_write(write), byte, last.writer, 0};
      if (write && last.read == now.epoch && readers.has_unordered(now))
        race = {conflict_with_read, byte, last.reader, 0};
    }
    if (write) {
      last.written = now.epoch;
      last.writer = now.thread;
      last.written_sync = now.sync;
      last.atomic = is_atomic;
    } else {
      last.atomic = false;
    }
    if (!write || is_atomic) {
      if (last.read == now.epoch)
        readers.add(now);
      else
        readers.start(now);
      last.read = now.epoch;
    }
  }
  if (race.what) report_shared(warp, instruction, race, now.thread);
}

void watch_fence(Warp& warp, u32 mask) {
  block_order.enter(*warp.block);
  lanes(mask, [&](int lane) { block_order.fence(thread_of(warp, lane), static_cast<u16>(warp.block->epoch)); });
}

// Strong accesses, which are atomic or volatile, do not race with each other.
void watch_global(Warp& warp, const Instruction& instruction, int lane, u64 address, u32 bytes, bool write) {
  if (address < device_base || address >= device_base + device_span) return;
  const Block& block = *warp.block;
  block_order.enter(block);
  const Moment<u16> now{thread_of(warp, lane), static_cast<u16>(block.epoch), static_cast<u16>(warp.syncs)};
  const bool is_atomic = instruction.category == c_atom;
  Race race;
  for (u64 byte = address; byte < address + bytes; ++byte) {
    Access& last = *reinterpret_cast<Access*>(shadow_base + (byte - device_base) * sizeof(Access));
    const Readers<u16> readers{last.thread_r, last.sync_r, last.many_warps, last.many_lanes};
    if (!(last.strong && instruction.strong)) {
      if (races_with_write(last, block, now)) race = {conflict_with_write(write), byte, last.thread_w, last.block_w};
      if (write && races_with_reads(last, block, now, readers))
        race = {conflict_with_read, byte, last.thread_r, last.block_r};
    }
    if (write) record_write(last, block, now);
    if (!write || is_atomic) record_read(last, block, now, readers);
    last.strong = instruction.strong;
  }
  if (race.what) report_global(warp, instruction, race, now.thread);
  if (instruction.strong)
    block_order.access(instruction, address, write, now.thread, now.epoch);
  else if (write)
    block_order.overwrite(address);
}

void report_unfenced(const Warp& warp, const Instruction& instruction, int lane) {
  static Reported reported;
  const Kernel& kernel = *warp.block->kernel;
  if (!reported.insert({&kernel, instruction.text}).second) return;
  std::fprintf(stderr,
               "ptx: RACE in host memory: no fence of the system before an atomic operation: thread %u of block %u\n  "
               "%s\n  %s\n",
               thread_of(warp, lane), warp.block->number, kernel.texts[instruction.text].c_str(),
               demangled(kernel.name).c_str());
  std::fflush(stderr);
}

}  // namespace heddle::ptx
