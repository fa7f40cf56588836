#include "stack.hpp"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>

#include "sanitizers.hpp"
#ifndef __x86_64__
#include <ucontext.h>
#endif

namespace heddle::emulator {
namespace {

thread_local Context* leaving;

std::size_t page() {
  static const auto bytes = static_cast<std::size_t>(::sysconf(_SC_PAGESIZE));
  return bytes;
}
std::size_t stride() { return Stacks::size + page(); }

// Makes the frames of the last context on a stack accessible. Their redzones stay poisoned if they never returned.
void forget_frames(const Context& context, Left left) {
  const std::size_t bytes = left == Left::last_frames ? page() : context.size;
  unpoison(static_cast<const std::byte*>(context.bottom) + context.size - bytes, bytes);
}

}  // namespace

#ifdef __x86_64__

// Saves the registers that a function must preserve (System V ABI), and switches stacks. All stacks share the
// floating-point modes.
extern "C" void heddle_emulator_switch(void** from, void* to);
asm(R"(
  .text
  .globl heddle_emulator_switch
  .type heddle_emulator_switch, @function
heddle_emulator_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
  .size heddle_emulator_switch, . - heddle_emulator_switch
)");

void begin_at(Context& context, void (*entry)(), Left left) {
  forget_frames(context, left);
  constexpr int saved = 6;  // registers, all zero: a debugger's walk ends at rbp = 0
  auto* top = static_cast<std::uintptr_t*>(context.bottom) + context.size / sizeof(std::uintptr_t);
  *--top = 0;  // where a return address would be: the stack is aligned as after a call
  *--top = reinterpret_cast<std::uintptr_t>(entry);
  for (int i = 0; i < saved; ++i) *--top = 0;
  context.registers = top;
}

namespace {
void exchange(Context& from, Context& to) { heddle_emulator_switch(&from.registers, to.registers); }
}  // namespace

#else

// Other processors: ucontext of the C library, which costs two system calls a switch. `registers` points to a
// ucontext_t on the heap.
namespace {
ucontext_t& registers(Context& context) {
  if (!context.registers) context.registers = new ucontext_t;
  return *static_cast<ucontext_t*>(context.registers);
}
void exchange(Context& from, Context& to) { ::swapcontext(&registers(from), &registers(to)); }
}  // namespace

void begin_at(Context& context, void (*entry)(), Left left) {
  forget_frames(context, left);
  ucontext_t& start = registers(context);
  ::getcontext(&start);
  start.uc_stack.ss_sp = context.bottom;
  start.uc_stack.ss_size = context.size;
  ::makecontext(&start, entry, 0);
}

#endif

void switch_context(Context& from, Context& to, Leave leave) {
  leaving = &from;
  if (races_are_watched()) __tsan_switch_to_fiber(to.watched, tsan_no_ordering);
  if (__sanitizer_start_switch_fiber)
    __sanitizer_start_switch_fiber(leave == Leave::for_good ? nullptr : &from.fake_stack, to.bottom, to.size);
  exchange(from, to);
  arrived(&from);
}

void arrived(const Context* self) {
  if (!__sanitizer_finish_switch_fiber) return;
  const void* bottom = nullptr;
  std::size_t size = 0;
  __sanitizer_finish_switch_fiber(self ? self->fake_stack : nullptr, &bottom, &size);
  leaving->bottom = const_cast<void*>(bottom);
  leaving->size = size;
}

// ThreadSanitizer takes a mapping for a write to its first and last page, so one page stays unused behind
// the last stack.
Stacks::Stacks(std::size_t count) : bytes_(count * stride() + page()) {
  void* const memory =
      ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  memory_ = static_cast<std::byte*>(memory);
  for (std::size_t i = 0; i < count; ++i) ::mprotect(memory_ + i * stride(), page(), PROT_NONE);
}
Stacks::~Stacks() { ::munmap(memory_, bytes_); }
void* Stacks::bottom(std::size_t number) const { return memory_ + number * stride() + page(); }

}  // namespace heddle::emulator
