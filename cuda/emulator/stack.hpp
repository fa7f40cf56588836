// Stacks for many small threads of control, and the switch from one to another: on x86-64 fifteen instructions
// instead of the system calls of ucontext. AddressSanitizer and ThreadSanitizer are informed of each switch if they
// are linked.
#pragma once
#include <cstddef>

namespace heddle::emulator {

// An execution context: a stack, its registers while it does not run, and its identity for the sanitizers.
struct Context {
  void* registers = nullptr;  // the address of the saved registers
  void* bottom = nullptr;     // the stack's lowest address; for the operating system's stack the first switch sets it
  std::size_t size = 0;       // bytes
  void* fake_stack = nullptr;
  void* watched = nullptr;  // ThreadSanitizer's fiber
};

enum class Leave { for_now, for_good };

// Suspends `from` and resumes `to`. Returns when another switch resumes `from`, if ever.
void switch_context(Context& from, Context& to, Leave leave = Leave::for_now);
// Tells AddressSanitizer that a switch is complete. The code on a new stack must call this first.
void arrived(const Context* self = nullptr);

// What the last context on a stack left there: frames of any depth, or those near the top that called switch_context(…,
// for_good).
enum class Left { any_frames, last_frames };

// Prepares `context` to start in entry(), which must not return. Its stack is [bottom, bottom + size).
void begin_at(Context& context, void (*entry)(), Left left = Left::any_frames);

// Stacks of equal size, separated by inaccessible pages. They can be reused.
class Stacks {
 public:
  static constexpr std::size_t size = 256 * 1024;  // bytes of address space; only the touched pages are memory

  explicit Stacks(std::size_t count);
  Stacks(const Stacks&) = delete;
  Stacks& operator=(const Stacks&) = delete;
  ~Stacks();
  void* bottom(std::size_t number) const;

 private:
  std::byte* memory_;
  std::size_t bytes_;
};

}  // namespace heddle::emulator
