// The threads of the CPU kernels: OpenMP's if the program is built with it, else one.
#pragma once
#include <algorithm>
#include <exception>
#ifdef _OPENMP
#include <omp.h>
#endif

#include <heddle/base/view.hpp>

namespace heddle {

/// Returns how many threads the kernels called from this thread use.
inline int threads() {
#ifdef _OPENMP
  return omp_get_max_threads();
#else
  return 1;
#endif
}
/// Sets how many threads the kernels called from this thread use.
inline void set_threads([[maybe_unused]] int count) {
#ifdef _OPENMP
  omp_set_num_threads(count);
#endif
}

namespace kernel {

// Returns how many rows of a matrix to give to a thread, if an element costs a few nanoseconds.
constexpr Index rows_per_piece(Index columns) { return 8192 / std::max<Index>(columns, 1) + 1; }

// Fixed pieces of a range. They, and so every sum within one, do not depend on the number of threads.
struct Pieces {
  static constexpr Index most = 64;  // enough to balance the load, few enough to keep a result for each

  Index total, size, count;

  // Cuts [0, total) into pieces of at least `grain`, the least work that is worth a thread.
  Pieces(Index all, Index grain)
      : total(all), size(std::max({Index{1}, grain, (all + most - 1) / most})), count((all + size - 1) / size) {}
};

// Calls body(context, piece, first, last) for each piece, on several threads. Rethrows the first exception. Not a template:
// a kernel's loop is compiled once, not for one thread and for several.
inline void run_pieces(Pieces pieces, void (*body)(const void* context, Index piece, Index first, Index last),
                       const void* context) {
  const auto run = [&](Index p) { body(context, p, p * pieces.size, std::min(pieces.total, (p + 1) * pieces.size)); };
  if (pieces.count <= 1) {
    if (pieces.count == 1) run(0);
    return;
  }
  std::exception_ptr error;
#ifdef _OPENMP
#pragma omp parallel for schedule(dynamic) if (!omp_in_parallel())
#endif
  for (Index p = 0; p < pieces.count; ++p) {
    try {
      run(p);
    } catch (...) {
#ifdef _OPENMP
#pragma omp critical(heddle_parallel)
#endif
      if (!error) error = std::current_exception();
    }
  }
  if (error) std::rethrow_exception(error);
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
