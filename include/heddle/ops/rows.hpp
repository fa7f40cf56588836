// pack and unpack convert between padded batches and packed rows. first_rows, last_rows, sum_rows, mean_rows and
// max_rows return one row per sequence. core/sequences.hpp defines these terms.
#pragma once
#include <numeric>

#include <heddle/autograd/record.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/core/sequences.hpp>
#include <heddle/cpu/vector.hpp>
#include <heddle/ops/max.hpp>
#include <heddle/ops/padded.hpp>

namespace heddle {

namespace detail {

// Ranges of rows to copy: rows [from[b], from[b] + count[b]) of the source become rows [to[b], to[b] + count[b]) of the
// result. The ranges do not overlap.
struct RowRanges {
  Tensor<int> from, to, count;  // [B]
  Index rows;                   // the number of rows in all ranges

  // Creates one range per count; all three arguments are [B].
  RowRanges(const Tensor<int>& from_rows, const Tensor<int>& to_rows, const std::vector<int>& counts)
      : from(from_rows),
        to(to_rows),
        count(from.shape(), counts),
        rows(std::accumulate(counts.begin(), counts.end(), Index{0})) {}

  // Returns the ranges of the inverse copy.
  RowRanges back() const {
    RowRanges s = *this;
    std::swap(s.from, s.to);
    return s;
  }
  // Returns the ranges on another device.
  RowRanges to_device(Device device) const {
    RowRanges s = *this;
    move_together(device, {&s.from, &s.to, &s.count});
    return s;
  }
};
}  // namespace detail

namespace kernel {

template <class T>
void copy_row_ranges(Cpu, View<const int, 1> from, View<const int, 1> to, View<const int, 1> count, View<const T, 2> x,
                     View<T, 2> y) {
  parallel(from.extent[0], row_grain(x.extent[1]), [&](Index first, Index last) {
    for (Index b = first; b < last; ++b)
      std::copy_n(x.data + from(b) * x.extent[1], count(b) * x.extent[1], y.data + to(b) * x.extent[1]);
  });
}

// Copies a row of each sequence, its first or its last; the row of an empty sequence becomes zeros.
template <class T>
void end_rows(Cpu, bool last, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> x, View<T, 2> y) {
  parallel(y.extent[0], row_grain(y.extent[1]), [&](Index first, Index end) {
    for (Index b = first; b < end; ++b)
      if (length(b) > 0)
        std::copy_n(x.data + (begin(b) + (last ? length(b) - 1 : 0)) * x.extent[1], x.extent[1],
                    y.data + b * y.extent[1]);
      else
        std::fill_n(y.data + b * y.extent[1], y.extent[1], T{});
  });
}
// Copies the rows of dy to where end_rows() took them. dx must be zero on entry.
template <class T>
void end_rows_backward(Cpu, bool last, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> dy,
                       View<T, 2> dx) {
  parallel(dy.extent[0], row_grain(dy.extent[1]), [&](Index first, Index end) {
    for (Index b = first; b < end; ++b)
      if (length(b) > 0)
        std::copy_n(dy.data + b * dy.extent[1], dy.extent[1],
                    dx.data + (begin(b) + (last ? length(b) - 1 : 0)) * dx.extent[1]);
  });
}

// Computes y, the sum or the mean of the rows of each sequence.
template <class T>
void add_up_rows(Cpu, bool mean, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> x,
                 View<T, 2> y) {
  parallel(y.extent[0], 1, [&](Index first, Index last) {
    const Index D = x.extent[1];
    Scratch<Acc<T>> sum(D), scratch(D);
    for (Index b = first; b < last; ++b) {
      add_rows(
          sum.data(), length(b), D, [&](Index t) { return &x(begin(b) + t, 0); }, scratch);
      divide_row(&y(b, 0), sum.data(), D, static_cast<Acc<T>>(mean ? std::max(length(b), 1) : 1));
    }
  });
}
template <class T>
void add_up_rows_backward(Cpu, bool mean, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> dy,
                          View<T, 2> dx) {
  parallel(dy.extent[0], 1, [&](Index first, Index last) {
    for (Index b = first; b < last; ++b)
      for (Index n = begin(b); n < begin(b) + length(b); ++n)
        divide_row(&dx(n, 0), &dy(b, 0), dy.extent[1], static_cast<Acc<T>>(mean ? length(b) : 1));
  });
}

// Computes y, the largest element of each column of a sequence, and its first position in the sequence. y is 0 for an
// empty sequence.
template <class T>
void max_rows(Cpu, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> x, View<T, 2> y,
              View<Index, 2> position) {
  const Index D = x.extent[1];
  for (Index b = 0; b < y.extent[0]; ++b) {
    const Index count = length(b);
    if (count > 0)
      extremum(Cpu{}, false, View<const T, 3>{x.data + begin(b) * D, {1, count, D}}, View<T, 2>{&y(b, 0), {1, D}},
               View<Index, 2>{&position(b, 0), {1, D}});
    else
      std::fill_n(&y(b, 0), D, T{});
  }
}
// Stores dy at the positions of the largest elements. dx must be zero on entry.
template <class T>
void max_rows_backward(Cpu, View<const int, 1> begin, View<const int, 1> length, View<const T, 2> dy,
                       View<const Index, 2> position, View<T, 2> dx) {
  for (Index b = 0; b < dy.extent[0]; ++b)
    for (Index d = 0; length(b) > 0 && d < dy.extent[1]; ++d) dx(begin(b) + position(b, d), d) = dy(b, d);
}

}  // namespace kernel

namespace detail {

// Copies ranges of x's rows into a tensor of the given shape, whose rows have the same width; its other rows are zero.
// The gradient is the inverse copy.
template <class T>
Tensor<T> move_rows(const char* op, const Tensor<T>& x, const Shape& shape, Index x_rows, Index y_rows,
                    const RowRanges& s) {
  const Index width = (x.size() + shape.size()) / std::max<Index>(x_rows + y_rows, 1);
  const auto move = [width](const Tensor<T>& from, Index from_rows, Index to_rows, const RowRanges& way) {
    Tensor<T> to({to_rows, width}, from.device());
    const Tensor<T> rows = from.with_shape({from_rows, width});
    dispatch(from, [&](auto device) {
      if (way.rows < to_rows) kernel::clear(device, view<1>(to));
      kernel::copy_row_ranges(device, view<1>(way.from), view<1>(way.to), view<1>(way.count), view<2>(rows),
                              view<2>(to));
    });
    return to;
  };
  return record(op, move(x, x_rows, y_rows, s).with_shape(shape), inputs(x),
                [=, x_shape = x.shape(), back = s.back()](const Tensor<T>& dy) {
                  return move(dy, y_rows, x_rows, back).with_shape(x_shape);
                });
}

// Returns the shape [B, T, ...] for [N, ...].
inline Shape split_rows(const Shape& s, Index B, Index T) {
  std::vector<Index> extents(s.begin(), s.end());
  extents[0] = T;
  extents.insert(extents.begin(), B);
  return Shape(extents);
}
// Returns the shape [N, ...] for [B, T, ...].
inline Shape join_rows(const Shape& s, Index N) { return s.without(0).with(0, N); }

}  // namespace detail

/// Returns the valid rows [N, ...] of a padded batch, sequence after sequence, as
/// Sequences::packed(sequences.lengths()) describes them. If `sequences` is padded, it also defines where each sequence
/// begins within its T positions; otherwise each begins at position 0. @throws ShapeError unless x has at least two
/// axes, dim(0) is sequences.count(), and dim(1) is sequences.padded_to() or, if they are packed, at least
/// sequences.longest().
template <class T>
Tensor<T> pack(const Tensor<T>& x,            // [B, T, ...]
               const Sequences& sequences) {  // B sequences of at most T rows each
  require<ShapeError>(x.rank() >= 2 && x.dim(0) == sequences.count(), "pack: x ", x.shape(), " must be [",
                      sequences.count(), ", T, ...] for ", sequences.count(), " sequences");
  const Index padded_to = sequences.padded_to();
  require<ShapeError>(padded_to ? x.dim(1) == padded_to : x.dim(1) >= sequences.longest(), "pack: x ", x.shape(),
                      " must have ", padded_to ? "" : "at least ", padded_to ? padded_to : sequences.longest(),
                      " positions on axis 1");
  const Sequences to = Sequences::packed(sequences.lengths());
  const Sequences from = padded_to ? sequences : Sequences::padded(sequences.lengths(), x.dim(1));
  return detail::move_rows("pack", x, detail::join_rows(x.shape(), to.rows()), x.dim(0) * x.dim(1),
                           to.rows(),  // [N, ...]
                           detail::RowRanges(from.begin(), to.begin(), sequences.lengths()).to_device(x.device()));
}

/// Returns a padded batch [B, T, ...] of the rows: sequence b begins at [b, 0] and is followed by zeros. T is
/// sequences.padded_to() or, if they are packed, the length of the longest sequence. @throws ShapeError unless `rows`
/// has sequences.rows() rows, and if it has eight axes.
template <class T>
Tensor<T> unpack(const Tensor<T>& rows,         // [N, ...]
                 const Sequences& sequences) {  // of the N rows
  require_rows("unpack", {"rows", rows}, sequences);
  const Index B = sequences.count(), longest = sequences.extent();
  const Sequences to = Sequences::padded(sequences.lengths(), longest);
  return detail::move_rows(
      "unpack", rows, detail::split_rows(rows.shape(), B, longest), rows.dim(0), B * longest,  // [B, T, ...]
      detail::RowRanges(sequences.begin(), to.begin(), sequences.lengths()).to_device(rows.device()));
}

namespace detail {

// Returns one row of each sequence, its last or its first; zeros for an empty one.
template <class T>
Tensor<T> end_rows(const char* op, const Tensor<T>& x, const Sequences& sequences, bool last) {
  require_rows(op, {"x", x}, sequences);
  const Index width = x.shape().product(1, x.rank());
  const auto rows_of = [width]<class E>(E* data, Index count) { return View<E, 2>{data, {count, width}}; };
  Tensor<T> y(x.shape().with(0, sequences.count()), x.device());  // [B, ...]
  dispatch(x, [&](auto device) {
    kernel::end_rows(device, last, view<1>(sequences.begin()), view<1>(sequences.length()),
                     rows_of(x.device_data(), x.dim(0)), rows_of(y.device_data(), y.dim(0)));
  });
  return record(op, y, inputs(x),
                [=, begin = sequences.begin(), length = sequences.length(), shape = x.shape()](const Tensor<T>& dy) {
                  Tensor<T> dx(shape, dy.device());
                  dispatch(dy, [&](auto device) {
                    kernel::clear(device, view<1>(dx));
                    kernel::end_rows_backward(device, last, view<1>(begin), view<1>(length),
                                              rows_of(dy.device_data(), dy.dim(0)),
                                              rows_of(dx.device_data(), shape[0]));
                  });
                  return dx;
                });
}

// Returns the sum or the mean of each sequence's rows.
template <class T>
Tensor<T> add_up_rows(const char* op, const Tensor<T>& x, const Sequences& sequences, bool as_mean) {
  require_rows(op, {"x", x}, sequences);
  require_rank(op, {"x", x}, 2);
  Tensor<T> y({sequences.count(), x.dim(1)}, x.device());  // [B, D]
  dispatch(x, [&](auto device) {
    kernel::add_up_rows(device, as_mean, view<1>(sequences.begin()), view<1>(sequences.length()), view<2>(x),
                        view<2>(y));
  });

  return record(op, y, inputs(x), [sequences, as_mean, shape = x.shape()](const Tensor<T>& dy) {
    Tensor<T> dx(shape, dy.device());
    dispatch(dy, [&](auto device) {
      kernel::clear(device, view<1>(dx));
      kernel::add_up_rows_backward(device, as_mean, view<1>(sequences.begin()), view<1>(sequences.length()),
                                   view<2>(dy), view<2>(dx));
    });
    return dx;
  });
}

}  // namespace detail

/// Returns the first row of each sequence, zeros for an empty one: [B, ...]. @throws ShapeError unless x has
/// sequences.rows() rows or is a padded batch of these sequences.
template <class T>
Tensor<T> first_rows(const Tensor<T>& x,            // [N, ...] or [B, T, ...]
                     const Sequences& sequences) {  // of the N rows, or padded to T
  return detail::end_rows("first_rows", detail::rows_of_batch(x, sequences), sequences, false);
}
/// Returns the last row of each sequence, zeros for an empty one: [B, ...]. @throws ShapeError unless x has
/// sequences.rows() rows or is a padded batch of these sequences.
template <class T>
Tensor<T> last_rows(const Tensor<T>& x,            // [N, ...] or [B, T, ...]
                    const Sequences& sequences) {  // of the N rows, or padded to T
  return detail::end_rows("last_rows", detail::rows_of_batch(x, sequences), sequences, true);
}

/// Returns the sum of each sequence's rows, zeros for an empty one: [B, D]. @throws ShapeError unless x is a matrix
/// with sequences.rows() rows or a padded batch [B, T, D] of these sequences.
template <Floating T>
Tensor<T> sum_rows(const Tensor<T>& x,            // [N, D] or [B, T, D]
                   const Sequences& sequences) {  // of the N rows, or padded to T
  return detail::add_up_rows("sum_rows", detail::rows_of_batch(x, sequences), sequences, false);
}
/// Returns the mean of each sequence's rows, zeros for an empty one: [B, D]. @throws ShapeError unless x is a matrix
/// with sequences.rows() rows or a padded batch [B, T, D] of these sequences.
template <Floating T>
Tensor<T> mean_rows(const Tensor<T>& x,            // [N, D] or [B, T, D]
                    const Sequences& sequences) {  // of the N rows, or padded to T
  return detail::add_up_rows("mean_rows", detail::rows_of_batch(x, sequences), sequences, true);
}

/// Returns the largest element of each column within each sequence, zeros for an empty one: [B, D]. A NaN counts as the
/// largest element. The gradient goes to the first of equal elements. @throws ShapeError unless x is a matrix with
/// sequences.rows() rows or a padded batch [B, T, D] of these sequences.
template <Floating T>
Tensor<T> max_rows(const Tensor<T>& x,            // [N, D] or [B, T, D]
                   const Sequences& sequences) {  // of the N rows, or padded to T
  if (detail::is_padded_batch(x.shape(), sequences)) return max_rows(detail::rows_of_batch(x, sequences), sequences);
  require_rows("max_rows", {"x", x}, sequences);
  require_rank("max_rows", {"x", x}, 2);
  Tensor<T> y({sequences.count(), x.dim(1)}, x.device());  // [B, D]
  Tensor<Index> position(y.shape(), x.device());
  dispatch(x, [&](auto device) {
    kernel::max_rows(device, view<1>(sequences.begin()), view<1>(sequences.length()), view<2>(x), view<2>(y),
                     view<2>(position));
  });

  return record("max_rows", y, inputs(x), [sequences, position, shape = x.shape()](const Tensor<T>& dy) {
    Tensor<T> dx = zeros<T>(shape, dy.device());
    dispatch(dy, [&](auto device) {
      kernel::max_rows_backward(device, view<1>(sequences.begin()), view<1>(sequences.length()), view<2>(dy),
                                view<2>(position), view<2>(dx));
    });
    return dx;
  });
}

template <std::integral T, class... Others>
void mean_rows(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void sum_rows(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)
template <std::integral T, class... Others>
void max_rows(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)

}  // namespace heddle
