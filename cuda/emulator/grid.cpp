#include "grid.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <array>
#include <cstdarg>
#include <cstdio>
#include <new>
#include <vector>

#include "sanitizers.hpp"
#include "thread.hpp"

namespace heddle::emulator {

constinit Block block{};
Thread* running;

Options& options() {
  static Options chosen;
  return chosen;
}

namespace {

Context host;
void (*kernel_to_run)(const void*);
const void* kernel_arguments;
Order* grid_order;
char failure[2048];
bool failed;

// Threads that are ready to run, each at most once.
Thread* ready[most_threads];
unsigned ready_count, ready_first;

// Splitmix64 (Steele, Lea and Flood, 2014).
std::uint64_t state;
std::uint64_t random() {
  std::uint64_t z = state += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}
unsigned below(unsigned limit) { return static_cast<unsigned>(random() % limit); }

Thread* next_ready() {
  if (ready_count == 0) return nullptr;
  if (options().seed) std::swap(ready[ready_first], ready[(ready_first + below(ready_count)) % most_threads]);
  Thread* const next = ready[ready_first];
  ready_first = (ready_first + 1) % most_threads;
  --ready_count;
  return next;
}

void run(Thread& thread) {
  running = &thread;
  threadIdx = thread.index;
}

const char* waits_for(const Thread& thread) {
  if (thread.waits == Wait::barrier) return "at a barrier";
  return text("in %s with mask 0x%x", name_of(thread.op), thread.mask);
}

// Reports the position of the running thread, and of a waiting thread that is elsewhere.
[[noreturn]] void fault_of_deadlock() {
  const Thread& last = *running;
  for (unsigned i = 0; i < block.count; ++i) {
    const Thread& other = block.threads[i];
    if (other.waits == Wait::done || (other.waits == last.waits && other.where.line == last.where.line)) continue;
    fault(text("no thread can continue: this thread waits %s, and thread %u waits %s at %s:%u", waits_for(last),
               other.number, waits_for(other), other.where.file, other.where.line),
          last.where);
  }
  fault(text("no thread can continue: all wait %s", waits_for(last)), last.where);
}

void finish(Thread& thread) {
  thread.waits = Wait::done;
  ++block.returned;
  leave_warp(thread);
  for (unsigned i = 0; block.arrived > 0 && i < block.count; ++i)
    if (block.threads[i].waits == Wait::barrier)
      fault(text("not all threads reach a barrier: this thread returns while thread %u waits", i),
            block.threads[i].where);
  Thread* const next = next_ready();
  if (!next && block.returned < block.count) {
    for (unsigned i = 0; i < block.count; ++i)
      if (block.threads[i].waits != Wait::done) run(block.threads[i]);
    fault_of_deadlock();
  }
  if (next) run(*next);
  switch_context(thread.context, next ? next->context : host, Leave::for_good);
}

void begin_thread() {
  arrived();
  acquire(&grid_order->launch);
  kernel_to_run(kernel_arguments);
  release(&grid_order->finish);
  finish(*running);
}

// A GPU thread as ThreadSanitizer sees it: a fiber, and a stack that no other fiber touches.
struct Fiber {
  void* watched = nullptr;
  void* stack = nullptr;  // its lowest address
};

// Returns the fiber of the next thread. Making one takes longer than most threads run, so each is used again, 4,096
// threads later. ThreadSanitizer finds no race between two threads that are a multiple of that apart: for it they are
// one. The fibers are in arrays, because it would see a container's allocations, for which the threads of two streams
// are not ordered.
const Fiber& next_fiber() {
  static std::array<Fiber, 4096> fibers;
  static std::array<const Stacks*, fibers.size() / most_threads> stacks;
  static std::size_t turn = 0;
  const std::size_t i = turn++ % fibers.size();
  const Stacks*& stack = stacks[i / most_threads];
  if (!stack) stack = new Stacks(most_threads);
  if (!fibers[i].watched) fibers[i] = {__tsan_create_fiber(0), stack->bottom(i % most_threads)};
  return fibers[i];
}

// Orders the work of the block's unfinished threads before the host's next work, after a fault.
void order_abandoned() {
  for (unsigned i = 0; races_are_watched() && i < block.count; ++i) {
    if (block.threads[i].waits == Wait::done) continue;
    __tsan_switch_to_fiber(block.threads[i].context.watched, tsan_no_ordering);
    release(&grid_order->finish);
    __tsan_switch_to_fiber(host.watched, tsan_no_ordering);
  }
}

// Makes all threads of a block ready. Under ThreadSanitizer they are ordered after all work of the host so far.
void set_up(const LaunchShape& shape, std::byte* shared) {
  static const Stacks* const stacks = new Stacks(most_threads);
  release(&grid_order->launch);
  block.count = shape.block.x * shape.block.y * shape.block.z;
  block.returned = block.arrived = block.generation = block.votes[0] = block.votes[1] = 0;
  clear_shared(shared, shape);
  ready_first = ready_count = 0;
  for (unsigned i = 0; i < block.count; ++i) {
    Thread& thread = block.threads[i];
    const Left left = thread.waits == Wait::done ? Left::last_frames : Left::any_frames;
    thread.index = {i % shape.block.x, i / shape.block.x % shape.block.y, i / (shape.block.x * shape.block.y)};
    thread.number = i;
    thread.lane = i % warp_size;
    thread.waits = Wait::nothing;
    thread.where = {};
    thread.arrays = thread.copy_count = thread.groups = 0;
    thread.context.bottom = stacks->bottom(i);
    thread.context.size = Stacks::size;
    thread.context.fake_stack = nullptr;
    if (races_are_watched()) {
      const Fiber& fiber = next_fiber();
      thread.context.watched = fiber.watched;
      thread.context.bottom = fiber.stack;
    }
    begin_at(thread.context, begin_thread, left);
    make_ready(thread);
  }
  for (unsigned w = 0; w * warp_size < block.count; ++w) {
    Warp& warp = block.warps[w];
    const unsigned lanes = std::min(warp_size, block.count - w * warp_size);
    warp.threads = &block.threads[w * warp_size];
    warp.present = lanes == warp_size ? ~0u : (1u << lanes) - 1;
    warp.waiting = warp.returned = 0;
  }
}

void run_block(const LaunchShape& shape, std::uint64_t number) {
  blockIdx = {static_cast<unsigned>(number % shape.grid.x), static_cast<unsigned>(number / shape.grid.x % shape.grid.y),
              static_cast<unsigned>(number / (std::uint64_t{shape.grid.x} * shape.grid.y))};
  Thread& first = *next_ready();
  run(first);
  switch_context(host, first.context);
}

// The shared memory and the BlockOrder of each block of a grid. On the addresses of the BlockOrder, ThreadSanitizer
// sees the block synchronize. Without ThreadSanitizer all blocks use the same memory in turn; with it each has its own,
// because reuse by the next block would be reported as a race.
class BlockMemory {
 public:
  explicit BlockMemory(std::uint64_t blocks) : bytes_((races_are_watched() ? blocks : 1) * bytes_per_block) {
    memory_ = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (memory_ == MAP_FAILED) throw std::bad_alloc();
  }
  BlockMemory(const BlockMemory&) = delete;
  BlockMemory& operator=(const BlockMemory&) = delete;
  ~BlockMemory() {
    unpoison(memory_, bytes_);
    ::munmap(memory_, bytes_);
  }
  std::byte* shared(std::uint64_t number) const {
    return static_cast<std::byte*>(memory_) + (races_are_watched() ? number : 0) * bytes_per_block;
  }
  BlockOrder* order(std::uint64_t number) const { return reinterpret_cast<BlockOrder*>(shared(number) + shared_bytes); }

 private:
  static constexpr std::size_t bytes_per_block = shared_bytes + sizeof(BlockOrder);
  std::size_t bytes_;
  void* memory_;
};

struct BlockNumber {
  std::uint64_t number;
};

std::vector<BlockNumber> order_of(std::uint64_t blocks) {
  std::vector<BlockNumber> order(blocks);
  for (std::uint64_t b = 0; b < blocks; ++b) order[b] = {b};
  if (options().seed)
    for (std::uint64_t b = blocks; b > 1; --b) std::swap(order[b - 1], order[random() % b]);
  return order;
}

}  // namespace

void run_grid(const LaunchShape& shape, void (*kernel)(const void*), const void* arguments, Order& order) {
  kernel_to_run = kernel;
  kernel_arguments = arguments;
  grid_order = &order;
  failed = false;
  state = options().seed;
  gridDim = shape.grid;
  blockDim = shape.block;
  host = {};
  const std::uint64_t blocks = std::uint64_t{shape.grid.x} * shape.grid.y * shape.grid.z;
  const BlockMemory memory(blocks);
  if (races_are_watched()) host.watched = __tsan_get_current_fiber();
  const std::vector<BlockNumber> numbers = order_of(blocks);
  for (std::uint64_t b = 0; b < blocks && !failed; ++b) {
    block.order = memory.order(b);
    set_up(shape, memory.shared(b));
    run_block(shape, numbers[b].number);
  }
  if (failed) order_abandoned();
  acquire(&order.finish);
  if (failed) throw Fault(failure);
}

void fault(const char* what, Where where) {
  const Thread& thread = *running;
  std::snprintf(failure, sizeof failure, "%s:%u: block (%u, %u, %u), thread (%u, %u, %u): %s", where.file, where.line,
                blockIdx.x, blockIdx.y, blockIdx.z, thread.index.x, thread.index.y, thread.index.z, what);
  failed = true;
  switch_context(running->context, host);
  __builtin_unreachable();
}

const char* text(const char* format, ...) {
  static char buffers[4][512];
  static unsigned turn = 0;
  char* const buffer = buffers[turn++ % 4];
  va_list values;
  va_start(values, format);
  std::vsnprintf(buffer, sizeof buffers[0], format, values);
  va_end(values);
  return buffer;
}

void make_ready(Thread& thread) {
  ready[(ready_first + ready_count++) % most_threads] = &thread;
  thread.waits = Wait::nothing;
}

void wait(Wait what, Where where) {
  Thread& self = *running;
  self.waits = what;
  self.where = where;
  Thread* const next = next_ready();
  if (!next) fault_of_deadlock();
  if (next == &self) return;
  run(*next);
  switch_context(self.context, next->context);
}

unsigned barrier_count(bool vote, Where where) {
  if (block.returned > 0)
    fault(text("not all threads reach this barrier: %u of %u threads have returned", block.returned, block.count),
          where);
  for (unsigned i = 0; block.arrived > 0 && i < block.count; ++i) {
    const Thread& other = block.threads[i];
    if (other.waits != Wait::barrier) continue;
    if (other.where.line != where.line)
      fault(text("thread %u waits at another barrier, at %s:%u", other.number, other.where.file, other.where.line),
            where);
    break;
  }
  const unsigned turn = block.generation % 2;
  release(&block.order->barrier[turn]);
  block.votes[turn] += vote;
  if (++block.arrived < block.count) {
    wait(Wait::barrier, where);
  } else {
    block.arrived = 0;
    ++block.generation;
    block.votes[block.generation % 2] = 0;
    for (unsigned i = 0; i < block.count; ++i)
      if (&block.threads[i] != running) make_ready(block.threads[i]);
    if (options().seed) {  // the last thread to arrive need not continue first
      make_ready(*running);
      wait(Wait::nothing, where);
    }
  }
  acquire(&block.order->barrier[turn]);
  return block.votes[turn];
}

void barrier(Where where) { barrier_count(false, where); }

}  // namespace heddle::emulator
