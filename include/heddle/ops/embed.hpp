// embed(ids, table) and take_rows(x, rows): rows of a matrix by their numbers. The gradient of the matrix is dense;
// rows taken more than once are summed in the order of their places, so that it does not depend on the number of
// threads.
#pragma once
#include <numeric>

#include <heddle/autograd.hpp>
#include <heddle/eigen.hpp>
#include <heddle/ops/clear.hpp>
#include <heddle/parallel.hpp>

namespace heddle {

namespace kernel {

// The position of the first id outside [0, limit), or -1.
template <class I>
Index first_outside(Cpu, View<const I, 1> ids, Index limit) {
  const auto outside = [limit](I id) { return id < 0 || id >= limit; };
  const I* const end = ids.data + ids.extent[0];
  const I* const found = std::find_if(ids.data, end, outside);
  return found == end ? -1 : found - ids.data;
}

template <class I, class T>
void take_rows(Cpu, View<const I, 1> ids, View<const T, 2> x, View<T, 2> y) {
  parallel(y.extent[0], rows_per_piece(y.extent[1]), [&](Index first, Index last) {
    for (Index n = first; n < last; ++n) row(y, n) = row(x, static_cast<Index>(ids(n)));
  });
}

// Row i of dx is the sum of those rows of dy that were taken from it.
template <class I, class T>
void take_rows_backward(Cpu device, View<const I, 1> ids, View<const T, 2> dy, View<T, 2> dx) {
  clear(device, View<T, 1>{dx.data, {dx.extent[0] * dx.extent[1]}});
  std::vector<Index> place(static_cast<std::size_t>(ids.extent[0]));  // of dy's rows, those of one id together
  std::iota(place.begin(), place.end(), Index{0});
  std::stable_sort(place.begin(), place.end(), [&](Index a, Index b) { return ids(a) < ids(b); });
  const auto id = [&](Index n) { return ids(place[static_cast<std::size_t>(n)]); };
  parallel(ids.extent[0], rows_per_piece(dy.extent[1]), [&](Index first, Index last) {
    RowArray<Acc<T>> sum(dy.extent[1]);
    const auto begins = [&](Index n) { return n == 0 || id(n) != id(n - 1); };
    for (Index n = first; n < last; ++n) {
      if (!begins(n)) continue;  // summed where it began, though that be in another piece
      sum.setZero();
      for (Index same = n; same < ids.extent[0] && id(same) == id(n); ++same)
        sum += load(row(dy, place[static_cast<std::size_t>(same)]));
      store(row(dx, static_cast<Index>(id(n))), sum);
    }
  });
}

}  // namespace kernel

// Rows of x [V, ...] as y, whose shape the caller knows.
template <class I, class T>
Tensor<T> rows_by_number(const char* op, const Tensor<I>& ids, const Tensor<T>& x, const Shape& shape) {
  static_assert(std::is_integral_v<I> && !std::is_same_v<I, bool>, "heddle: rows are numbered by int or int64");
  const Shape matrix{x.dim(0), x.shape().product(1, x.rank())};
  const auto rows_of = [matrix](auto& t, Index rows) {
    return View<std::remove_pointer_t<decltype(t.device_data())>, 2>{t.device_data(), {rows, matrix[1]}};
  };
  Tensor<T> y(shape, x.device());
  on(x, [&](auto device) { kernel::take_rows(device, view<1>(ids), rows_of(x, matrix[0]), rows_of(y, ids.size())); });
  if constexpr (std::is_integral_v<T>) {
    return y;
  } else {
    return record(op, y, inputs(x), [=, x_shape = x.shape()](const Tensor<T>& dy) {
      Tensor<T> dx(x_shape, dy.device());
      on(dy, [&](auto device) {
        kernel::take_rows_backward(device, view<1>(ids), rows_of(dy, ids.size()), rows_of(dx, matrix[0]));
      });
      return dx;
    });
  }
}

// Throws ShapeError, and IndexError for an id that is no row of the table.
template <class I, class T>
Tensor<T> embed(const Tensor<I>& ids,      // [...] int or int64
                const Tensor<T>& table) {  // [V, D]
  require_rank("embed", {"table", table, 0}, 2);
  require_same_device("embed", {"ids", ids, 0}, {"table", table, 0});
  const Index wrong = on(ids, [&](auto device) { return kernel::first_outside(device, view<1>(ids), table.dim(0)); });
  require<IndexError>(wrong < 0, "embed: id ", wrong < 0 ? I(0) : ids.host()[static_cast<std::size_t>(wrong)],
                      " at position ", wrong, " is outside the table's ", table.dim(0), " rows");
  std::vector<Index> extents(ids.shape().begin(), ids.shape().end());
  extents.push_back(table.dim(1));
  return rows_by_number("embed", ids, table, Shape(extents));  // [..., D]
}

// Throws ShapeError, and IndexError for a number that is no row of x.
template <class T, class I>
Tensor<T> take_rows(const Tensor<T>& x,       // [N, ...]
                    const Tensor<I>& rows) {  // [M] int or int64
  require<ShapeError>(x.rank() > 0, "take_rows: x ", x.shape(), " has no rows");
  require_rank("take_rows", {"rows", rows, 0}, 1);
  require_same_device("take_rows", {"x", x, 0}, {"rows", rows, 0});
  const Index wrong = on(rows, [&](auto device) { return kernel::first_outside(device, view<1>(rows), x.dim(0)); });
  require<IndexError>(wrong < 0, "take_rows: row ", wrong < 0 ? I(0) : rows.host()[static_cast<std::size_t>(wrong)],
                      " at position ", wrong, " is outside the ", x.dim(0), " rows of x ", x.shape());
  return rows_by_number("take_rows", rows, x, x.shape().with(0, rows.dim(0)));  // [M, ...]
}

}  // namespace heddle
