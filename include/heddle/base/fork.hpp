// What a child of fork() inherits. Only the thread that forks lives on in it, so a lock that another thread holds at
// that moment would stay locked for ever. A fork therefore waits until no thread is in a critical section of heddle.
#pragma once
#include <pthread.h>

#include <array>
#include <cstddef>
#include <mutex>
#include <new>
#include <shared_mutex>

namespace heddle::detail {

/// Functions that run around a fork, in the order of their registration: before it, and after it in the parent and in
/// the child.
struct ForkHook {
  void (*before)() noexcept;
  void (*in_parent)() noexcept;
  void (*in_child)() noexcept;
};

/// The process's forks. Threads in a critical section hold `sections` shared, a fork holds it alone.
class Forks {
 public:
  /// Returns the process's object. It is never destroyed.
  static Forks& instance() {
    alignas(Forks) static std::byte memory[sizeof(Forks)];
    static Forks* const forks = new (memory) Forks;
    return *forks;
  }

  /// Registers a hook. There is room for one of each static object that has a lock or threads. The calling thread may
  /// be in a critical section, in which such an object is used for the first time.
  void add(const ForkHook& hook) {
    const std::lock_guard lock(mutex_);
    if (count_ < hooks_.size()) hooks_[count_++] = hook;
  }

  std::shared_mutex sections;

 private:
  Forks() { ::pthread_atfork(before, in_parent, in_child); }
  static void before() noexcept {
    instance().sections.lock();
    instance().mutex_.lock();
    instance().call(&ForkHook::before);
  }
  static void in_parent() noexcept {
    instance().call(&ForkHook::in_parent);
    instance().mutex_.unlock();
    instance().sections.unlock();
  }
  static void in_child() noexcept {
    instance().call(&ForkHook::in_child);
    // Their owner is the parent's thread, as glibc sees it, so the child cannot unlock them.
    new (&instance().mutex_) std::mutex;
    new (&instance().sections) std::shared_mutex;
  }
  void call(void (*ForkHook::*function)() noexcept) const {
    for (std::size_t i = 0; i < count_; ++i) (hooks_[i].*function)();
  }

  std::mutex mutex_;  // of the hooks
  std::array<ForkHook, 8> hooks_{};
  std::size_t count_ = 0;
};

/// A scope in which the calling thread holds a mutex and no thread forks.
class CriticalSection {
 public:
  explicit CriticalSection(std::mutex& mutex) : no_fork_(Forks::instance().sections), lock_(mutex) {}

 private:
  std::shared_lock<std::shared_mutex> no_fork_;
  std::lock_guard<std::mutex> lock_;
};

}  // namespace heddle::detail
