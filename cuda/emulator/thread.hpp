// The state of the running block's threads, shared by the emulator's source files. ThreadSanitizer treats each GPU
// thread as a fiber. The files are compiled without it, so that GPU threads do not seem to race in the emulator's
// memory. For the same reason nothing here allocates while a GPU thread runs.
#pragma once
#include "grid.hpp"
#include "stack.hpp"

namespace heddle::emulator {

constexpr unsigned warp_size = 32, most_threads = 1024, most_warps = most_threads / warp_size;

enum class Wait { nothing, barrier, warp, done };
const char* name_of(WarpOp op);

// An asynchronous copy that is not complete, and the number of its group.
struct Copy {
  void* to;
  const void* from;
  std::size_t bytes, valid;
  unsigned group;
};

struct Thread {
  Context context;
  uint3 index;
  unsigned number, lane;
  Wait waits;
  Where where;  // the line at which it waits
  // The warp operation in which it waits.
  WarpOp op;
  unsigned mask;
  Registers in, out;
  // The number of arrays that the thread has taken from the dynamic shared memory.
  unsigned arrays;
  static constexpr unsigned most_copies = 128;
  Copy copies[most_copies];
  unsigned copy_count, groups;
};

struct Warp {
  Thread* threads;  // the first of its lanes
  unsigned present, waiting, returned;
  // The number of completed calls of __syncwarp, for each first lane of a mask. It selects an address of
  // BlockOrder::warps.
  unsigned turn[warp_size];
};

// The addresses on which ThreadSanitizer sees a block synchronize. Barriers use two in turn: with one, a thread that
// resumes late would be ordered after threads that have already reached the next barrier. Warps do the same. Each block
// has its own addresses.
struct BlockOrder {
  std::uint64_t barrier[2], warps[most_warps][warp_size][2];  // `warps` by warp, first lane of the mask, and turn
};

struct Array {
  const void* key;
  std::byte* memory;
  std::size_t bytes;
};

struct Block {
  Thread threads[most_threads];
  Warp warps[most_warps];
  unsigned count, returned;
  unsigned arrived, generation, votes[2];  // at the barrier
  BlockOrder* order;
  std::byte* shared;  // the block's shared memory, fixed and dynamic
  std::size_t shared_used, dynamic_bytes, dynamic_used, most_shared;
  static constexpr unsigned most_arrays = 32;
  Array fixed[most_arrays], dynamic[most_arrays];
  unsigned fixed_count, dynamic_count;
};

extern Block block;
extern Thread* running;

inline Warp& warp_of(const Thread& thread) { return block.warps[thread.number / warp_size]; }

// Lets the thread run again.
void make_ready(Thread& thread);
// Makes the running thread wait until it is made ready.
void wait(Wait what, Where where);

// Marks a lane as returned, and completes the operations of its warp that waited for this lane only.
void leave_warp(Thread& thread);

constexpr std::size_t shared_bytes = 512 * 1024;  // 227 KiB dynamic and 48 KiB static, plus a gap after each array
// Resets the block's shared memory: no array is handed out, and no byte may be accessed.
void clear_shared(std::byte* memory, const LaunchShape& shape);

// Formats like printf. The result is in one of four static buffers and stays valid for the next three calls.
[[gnu::format(printf, 1, 2)]] const char* text(const char* format, ...);

}  // namespace heddle::emulator
