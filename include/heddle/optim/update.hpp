// The CPU's kernels for optimizers. All parameters share one parallel loop, except in sum_of_squares() and
// update_rows(), which have one loop per parameter.
#pragma once
#include <atomic>
#include <vector>

#include <heddle/base/threads.hpp>
#include <heddle/cpu/vector.hpp>
#include <heddle/kernel/enqueued_step.hpp>
#include <heddle/kernel/update_args.hpp>

namespace heddle::kernel {

// Elements [first, last) of one of several arrays.
struct ArrayPiece {
  std::size_t array;
  Index first, last;
};
// Returns the pieces of arrays of these sizes. A piece has at most `piece_size` elements.
inline std::vector<ArrayPiece> cut(const std::vector<Index>& sizes, Index piece_size) {
  std::vector<ArrayPiece> pieces;
  for (std::size_t i = 0; i < sizes.size(); ++i)
    for (Index first = 0; first < sizes[i]; first += piece_size)
      pieces.push_back({i, first, std::min(sizes[i], first + piece_size)});
  return pieces;
}

// Calls f(i, first, last) for pieces of arrays 0, 1, ... of these sizes, on several threads. A piece has at most
// `piece_size` elements.
template <class F>
void for_each_piece(const std::vector<Index>& sizes, Index piece_size, F&& f) {
  const std::vector<ArrayPiece> pieces = cut(sizes, piece_size);
  parallel(static_cast<Index>(pieces.size()), 1, [&](Index begin, Index end) {
    for (Index p = begin; p < end; ++p) {
      const ArrayPiece& piece = pieces[static_cast<std::size_t>(p)];
      f(piece.array, piece.first, piece.last);
    }
  });
}
inline constexpr Index update_piece = 32768;  // elements: tens of microseconds of memory traffic

template <class T>
std::vector<Index> sizes_of(const std::vector<View<const T, 1>>& arrays) {
  std::vector<Index> sizes;
  for (const auto& array : arrays) sizes.push_back(array.extent[0]);
  return sizes;
}

// Returns the index of the first array that contains NaN or infinity, or -1.
template <class T>
Index first_not_finite(Cpu, const std::vector<View<const T, 1>>& arrays) {
  std::atomic<Index> found = static_cast<Index>(arrays.size());
  for_each_piece(sizes_of(arrays), update_piece, [&](std::size_t i, Index first, Index last) {
    // x * 0 is 0 for a finite x and NaN otherwise.
    const T* const x = arrays[i].data + first;
    if (sum_of<T>(last - first, [&](Chunk<T> at) { return at.load(x) * T(0); }) == 0) return;
    Index before = found;
    while (static_cast<Index>(i) < before && !found.compare_exchange_weak(before, static_cast<Index>(i))) {
    }
  });
  return found < static_cast<Index>(arrays.size()) ? found.load() : -1;
}

// Writes the same index to `first`.
template <class T>
void find_not_finite(Cpu, const std::vector<View<const T, 1>>& arrays, Index* first) {
  *first = first_not_finite(Cpu{}, arrays);
}

// Returns the sum of the squares of all elements.
template <class T>
double sum_of_squares(Cpu, const std::vector<View<const T, 1>>& arrays) {
  double total = 0;
  for (const View<const T, 1> x : arrays) {
    const Pieces pieces(x.extent[0], element_grain);
    std::vector<double> sums(static_cast<std::size_t>(pieces.count));
    parallel(pieces, [&](Index piece, Index first, Index last) {
      sums[static_cast<std::size_t>(piece)] = sum_of<double>(last - first, [&](Chunk<double> at) {
        const Vector<double> values = at.load(x.data + first);
        return values * values;
      });
    });
    for (const double sum : sums) total += sum;
  }
  return total;
}

// Multiplies each array by `factor` and stores the product in the result of the same index.
template <class T>
void scale(Cpu, T factor, const std::vector<View<const T, 1>>& arrays, const std::vector<View<T, 1>>& results) {
  for_each_piece(sizes_of(arrays), update_piece, [&](std::size_t i, Index first, Index last) {
    scale_row(results[i].data + first, arrays[i].data + first, last - first, factor);
  });
}

// Updates elements [first, first + count) of a parameter. `gradient` points to the gradient of element `first`, which
// is multiplied by `factor`.
template <class Rule>
void update_elements(const UpdateArgs<Rule>& args, typename Rule::Element factor,
                     const typename Rule::Element* gradient, Index first, Index count) {
  using T = typename Rule::Element;
  constexpr int moment_count = UpdateArgs<Rule>::moment_count;
  const Rule rule = args.rule;
  T* const value = args.value.data + first;
  [[maybe_unused]] bf16* const cast = args.cast ? args.cast + first : nullptr;
  T* moments[unsigned{moment_count}];
  for (int k = 0; k < moment_count; ++k) moments[k] = args.moments[k] ? args.moments[k] + first : nullptr;
  for_each_chunk<T>(count, [&](Chunk<T> at) {
    Vector<T> p = at.load(value), m[unsigned{moment_count}];
    for (int k = 0; k < moment_count; ++k)
      m[k] = moments[k] ? at.load(moments[k]) : Vector<T>(T(0));  // the rule does not use an absent moment
    rule(p, at.load(gradient) * factor, m);
    at.store(value, p);
    if constexpr (std::is_same_v<T, float>)
      if (cast) at.store(cast, p);
    for (int k = 0; k < moment_count; ++k)
      if (moments[k]) at.store(moments[k], m[k]);
  });
}

// Updates parameters with dense gradients.
template <class Rule>
void update(Cpu, const std::vector<UpdateArgs<Rule>>& parameters, const Clipping& clipping,
            const std::shared_ptr<EnqueuedStep>&) {
  const auto factor = static_cast<typename Rule::Element>(clipping.factor());
  std::vector<Index> sizes;
  for (const auto& args : parameters) sizes.push_back(args.value.extent[0]);
  for_each_piece(sizes, update_piece, [&](std::size_t i, Index first, Index last) {
    update_elements(parameters[i], factor, parameters[i].gradient + first, first, last - first);
  });
}

// A parameter whose gradient is sparse by rows.
template <class Rule>
struct RowUpdateArgs {
  UpdateArgs<Rule> args;  // its gradient has the rows below, one after another
  View<const Index, 1> rows;
  Index row_count, width;  // the shape of the parameter
  char* row_flags;         // one per row of the parameter
};
// The bits of a row flag: the row's moment estimates may be nonzero; the row has a gradient in the current step.
inline constexpr char has_state = 1, has_gradient = 2;

// Updates rows [first, last) of a parameter. Rows without gradient and state are skipped if the rule keeps them
// as they are.
template <class Rule>
void update_rows(const RowUpdateArgs<Rule>& x, typename Rule::Element factor, Index first, Index last) {
  using T = typename Rule::Element;
  constexpr Index cache_line = 64;  // bytes
  constexpr Index rows_ahead = 6;   // prefetched: the processor does not predict which row comes next
  const auto row_at_or_after = [&](Index row) {
    return std::lower_bound(x.rows.data, x.rows.data + x.rows.extent[0], row);
  };
  const Index *const begin = row_at_or_after(first), *const end = row_at_or_after(last);
  for (const Index* row = begin; row != end; ++row) x.row_flags[*row] |= has_gradient;
  const auto prefetch = [&](const T* data, Index row) {
    if (!data) return;
    for (Index d = 0; d < x.width; d += cache_line / static_cast<Index>(sizeof(T)))
      __builtin_prefetch(data + row * x.width + d, 1);
  };
  const bool skips = x.args.rule.keeps_stateless_rows(), keeps_state = x.args.rule.needs_moments();
  const std::vector<T> zeros(static_cast<std::size_t>(x.width), T(0));
  Index next_prefetch = first, prefetched = 0, m = begin - x.rows.data;
  for (Index r = first; r < last; ++r) {
    for (; prefetched < rows_ahead && next_prefetch < last; ++next_prefetch) {
      if (!x.row_flags[next_prefetch] && skips) continue;
      prefetch(x.args.value.data, next_prefetch);
      for (const T* moment : x.args.moments) prefetch(moment, next_prefetch);
      ++prefetched;
    }
    if (!x.row_flags[r] && skips) continue;
    --prefetched;
    const bool given = x.row_flags[r] & has_gradient;
    update_elements(x.args, factor, given ? x.args.gradient + m++ * x.width : zeros.data(), r * x.width, x.width);
    x.row_flags[r] = keeps_state ? has_state : 0;
  }
}
template <class Rule>
void update_rows(const std::vector<RowUpdateArgs<Rule>>& parameters, const Clipping& clipping) {
  const auto factor = static_cast<typename Rule::Element>(clipping.factor());
  for (const auto& x : parameters)
    for_each_piece({x.row_count}, update_piece / std::max<Index>(x.width, 1) + 1,
                   [&](std::size_t, Index first, Index last) { update_rows(x, factor, first, last); });
}

}  // namespace heddle::kernel
