// ThreadPool: threads that help a caller with one job at a time, for machines that other programs use too. An idle
// helper spins for a short time and then sleeps. A caller does not wait for a helper that has not begun. If helpers get
// no processor, the pool pauses and callers run alone: Linux shares the processors among all runnable threads, so a
// helper that cannot help costs its caller time.
#pragma once
#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <new>
#include <thread>

#include <heddle/base/block_signals.hpp>
#include <heddle/base/fork.hpp>

namespace heddle::detail {

/// The process's helpers. They are started by the first job that needs them.
class ThreadPool {
 public:
  static constexpr int most_helpers = 63;  // kernel::Pieces::most, less the caller

  using Job = void (*)(void* context) noexcept;

  /// Returns the process's pool. It is never destroyed, because a thread may use it until the process ends. Its
  /// helpers end with the static objects, so that a library that is unloaded leaves no thread behind; from then on
  /// callers run alone.
  static ThreadPool& instance() {
    alignas(ThreadPool) static std::byte memory[sizeof(ThreadPool)];
    static ThreadPool* const pool = made(memory);
    static const Stop at_end;
    return *pool;
  }

  /// Calls job(context) on this thread and at the same time on up to `helpers` others; returns when all calls have
  /// returned. Returns false without calling `job` if the pool is paused, or already runs a job of this thread or of
  /// another.
  bool run(int helpers, Job job, void* context) {
    if (busy_.exchange(true, std::memory_order_acquire)) return false;
    const Time begin = Clock::now();
    const bool is_paused = begin < paused_until_;
    if (!is_paused) {
      help_with(start_helpers(helpers), job, context);
      pause_if_no_helper_joined(begin);
    }
    busy_.store(false, std::memory_order_release);
    return !is_paused;
  }

 private:
  // Makes the pool. In a child of fork() it begins anew, because no helper lives on there.
  static ThreadPool* made(std::byte* memory) {
    const auto nothing = []() noexcept {};
    Forks::instance().add(
        {.before = nothing, .in_parent = nothing, .in_child = []() noexcept { new (&instance()) ThreadPool; }});
    return new (memory) ThreadPool;
  }

  struct Stop {
    ~Stop() { instance().stop(); }
  };
  // Ends the helpers. Waits for the job that runs, but not for ever, because a job may have called exit().
  void stop() noexcept {
    const Time end = Clock::now() + std::chrono::seconds(1);
    while (busy_.exchange(true, std::memory_order_acquire)) {
      if (Clock::now() > end) return;
      std::this_thread::yield();
    }
    stops_.store(true, std::memory_order_relaxed);
    gate_.fetch_add(2 * generation, std::memory_order_release);  // stays closed
    gate_.notify_all();
    for (int i = 0; i < helpers_; ++i) threads_[static_cast<std::size_t>(i)].join();
  }

  using Clock = std::chrono::steady_clock;
  using Time = Clock::time_point;
  // The system takes about 50 microseconds to wake a helper. A helper that has not joined after ten times as long has
  // no processor.
  static constexpr std::chrono::microseconds spin_time{30}, patience{500};
  static constexpr std::chrono::milliseconds pause_time{20};

  // The gate holds the number of helpers inside a job in its low bits. The bits above count how often it was opened and
  // closed: it is open if that number is odd.
  static constexpr std::uint32_t generation = 64, open = generation;
  static std::uint32_t inside(std::uint32_t gate) { return gate % generation; }

  void help_with(int helpers, Job job, void* context) {
    job_ = job;
    context_ = context;
    seats_.store(helpers, std::memory_order_relaxed);
    gate_.fetch_add(generation, std::memory_order_release);  // opens it
    for (int i = 0; i < helpers; ++i) gate_.notify_one();
    job(context);
    if (inside(gate_.fetch_add(generation, std::memory_order_acq_rel))) wait_for_helpers();  // closes it
  }

  void pause_if_no_helper_joined(Time begin) {
    const Time now = Clock::now();
    alone_ = helper_joined_.exchange(false, std::memory_order_relaxed) ? Clock::duration() : alone_ + (now - begin);
    if (alone_ < patience) return;
    alone_ = {};
    paused_until_ = now + pause_time;
  }

  // Starts helpers until there are `wanted`. Returns that number, or a smaller one if the system refuses to start more.
  int start_helpers(int wanted) {
    if (wanted <= helpers_) return wanted;
    const BlockSignals
        inherited;  // helpers inherit the mask: the user's signal handlers run only on the user's threads
    try {
      for (; helpers_ < std::min(wanted, most_helpers); ++helpers_)
        threads_[static_cast<std::size_t>(helpers_)] = std::thread([this] { help(); });
    } catch (const std::exception&) {  // no memory, or too many threads
    }
    return helpers_;
  }

  void help() {
    std::uint32_t finished = 0;  // the generation of the last job that this helper has joined or missed
    for (;;) {
      std::uint32_t gate = wait_for_job(finished);
      if (stops_.load(std::memory_order_relaxed)) return;
      finished = gate / generation;
      // A helper enters only if the gate has not changed since it was read, so the job cannot end between the check and
      // the entry.
      while (gate / generation == finished &&
             inside(gate) < static_cast<std::uint32_t>(seats_.load(std::memory_order_relaxed))) {
        if (!gate_.compare_exchange_weak(gate, gate + 1, std::memory_order_acquire)) continue;
        helper_joined_.store(true, std::memory_order_relaxed);
        job_(context_);
        if (gate_.fetch_sub(1, std::memory_order_acq_rel) / generation != finished) {
          left_.fetch_add(1, std::memory_order_release);
          left_.notify_one();
        }
        break;
      }
    }
  }

  // Waits until the gate is open for a job other than `finished`, or the helpers end. Returns the gate.
  std::uint32_t wait_for_job(std::uint32_t finished) const {
    const auto has_job = [&](std::uint32_t gate) { return gate & open && gate / generation != finished; };
    for (;;) {
      spin([&] { return has_job(gate_.load(std::memory_order_relaxed)); });
      const std::uint32_t gate = gate_.load(std::memory_order_acquire);
      if (has_job(gate) || stops_.load(std::memory_order_relaxed)) return gate;
      gate_.wait(gate, std::memory_order_relaxed);
    }
  }

  void wait_for_helpers() const {
    const auto all_left = [&] { return inside(gate_.load(std::memory_order_acquire)) == 0; };
    for (;;) {
      if (spin(all_left)) return;
      const std::uint32_t left = left_.load(std::memory_order_acquire);
      if (all_left()) return;
      left_.wait(left, std::memory_order_acquire);
    }
  }

  // Spins until a condition holds, for about `spin_time` at most. Returns whether it holds.
  template <class Condition>
  static bool spin(const Condition& holds) {
    const Time end = Clock::now() + spin_time;
    do {
      for (int i = 0; i < 16; ++i) {
        if (holds()) return true;
#if defined(__x86_64__) || defined(__i386__)
        __builtin_ia32_pause();
#endif
      }
    } while (Clock::now() < end);
    return false;
  }

  std::atomic<bool> busy_ = false;
  std::atomic<std::uint32_t> gate_ = 0, left_ = 0;
  std::atomic<int> seats_ = 0;  // helpers that may enter the job
  Job job_ = nullptr;
  void* context_ = nullptr;
  std::atomic<bool> helper_joined_ = false;  // whether a helper has joined the current job
  Clock::duration alone_{};                  // the total time of the jobs since a helper last joined, or since a pause
  Time paused_until_{};
  int helpers_ = 0;  // started so far
  std::array<std::thread, most_helpers> threads_;
  std::atomic<bool> stops_ = false;  // whether the helpers end; written before the gate changes
};

}  // namespace heddle::detail
