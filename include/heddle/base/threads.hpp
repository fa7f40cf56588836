// The threads of the CPU kernels, and how a kernel's work is cut into pieces for them.
#pragma once
#include <algorithm>
#include <exception>

#include <heddle/base/error.hpp>
#include <heddle/base/processors.hpp>
#include <heddle/base/thread_pool.hpp>
#include <heddle/base/view.hpp>

namespace heddle {

namespace detail {
// What a thread has chosen for the operations that it calls. It has the size of one number: LeakSanitizer fails to scan
// a library that was unloaded if its thread-local variables take more than 32 bytes.
struct ThreadChoices {
  unsigned threads : 31 = 0;          // 0: not set, so available_processors()
  bool computes_rowwise : 1 = false;  // see RowwiseProducts
};
inline thread_local ThreadChoices thread_choices;
}  // namespace detail

/// Returns the number of threads that operations called from this thread use: the number given to set_threads on this
/// thread; otherwise OMP_NUM_THREADS; otherwise the number of processors that the affinity mask and the control groups
/// of the process allow.
inline int threads() {
  static const int available = detail::available_processors();
  const auto chosen = static_cast<int>(detail::thread_choices.threads);
  return chosen ? chosen : available;
}
/// Sets how many threads the operations called from this thread use; other threads keep their number. An operation uses
/// at most 64 threads. All threads share one pool, and an operation that finds the pool busy runs on its caller's
/// thread alone. @throws Error for a count below 1.
inline void set_threads(int count) {
  require(count >= 1, "set_threads: the number of threads must be at least 1, got ", count);
  detail::thread_choices.threads = static_cast<unsigned>(count) & 0x7fffffffU;
}

namespace kernel {

// The grain of a loop is the least work that is worth a thread. Elements of the cheapest functions: a few microseconds.
constexpr Index element_grain = 16384;
// Returns how many rows of a matrix to give to a thread, if an element costs a few nanoseconds.
constexpr Index row_grain(Index columns) { return 8192 / std::max<Index>(columns, 1) + 1; }

// Fixed pieces of a range. They do not depend on the number of threads, and neither does the rounding of a sum
// within a piece.
struct Pieces {
  static constexpr Index most = 64;  // enough to balance the load, few enough to keep a result for each

  Index total, size, count;

  // Cuts [0, all) into pieces of at least `grain`, the least work that is worth a thread. The last piece may be
  // smaller.
  Pieces(Index all, Index grain)
      : total(all), size(std::max({Index{1}, grain, (all + most - 1) / most})), count((all + size - 1) / size) {}
};

// Calls body(context, piece, first, last) for each piece, on several threads. Rethrows the first exception, after all
// pieces. Not a template: a template would compile a kernel's loop twice, for a single piece and for several pieces.
inline void run_pieces(Pieces pieces, void (*body)(const void* context, Index piece, Index first, Index last),
                       const void* context) {
  struct Work {
    Pieces pieces;
    decltype(body) call;
    const void* context;
    std::atomic<Index> next = 0;
    std::atomic<bool> failed = false;
    std::exception_ptr error = nullptr;
    const bool rowwise = detail::thread_choices.computes_rowwise;  // of the caller, for products in the pieces

    void operator()(Index p) const { call(context, p, p * pieces.size, std::min(pieces.total, (p + 1) * pieces.size)); }
    // Takes pieces until none is left. Several threads run it.
    static void run(void* self) noexcept {
      Work& work = *static_cast<Work*>(self);
      const bool before = detail::thread_choices.computes_rowwise;
      detail::thread_choices.computes_rowwise = work.rowwise;
      for (Index p; (p = work.next.fetch_add(1, std::memory_order_relaxed)) < work.pieces.count;) {
        try {
          work(p);
        } catch (...) {
          if (!work.failed.exchange(true)) work.error = std::current_exception();
        }
      }
      detail::thread_choices.computes_rowwise = before;
    }
  };
  Work work{pieces, body, context};
  if (pieces.count <= 1) {
    if (pieces.count == 1) work(0);
    return;
  }
  const Index helpers = std::min<Index>(threads(), pieces.count) - 1;
  if (helpers < 1 || !detail::ThreadPool::instance().run(static_cast<int>(helpers), Work::run, &work)) Work::run(&work);
  if (work.error) std::rethrow_exception(work.error);
}

// Calls f(piece, first, last) for each piece, on several threads. Rethrows an exception of a piece.
template <class F>
void parallel(Pieces pieces, const F& f) {
  run_pieces(
      pieces,
      [](const void* context, Index piece, Index first, Index last) {
        (*static_cast<const F*>(context))(piece, first, last);
      },
      &f);
}

// Calls f(first, last) for the pieces of [0, total).
template <class F>
void parallel(Index total, Index grain, const F& f) {
  run_pieces(
      Pieces(total, grain),
      [](const void* context, Index, Index first, Index last) { (*static_cast<const F*>(context))(first, last); }, &f);
}

}  // namespace kernel
}  // namespace heddle
