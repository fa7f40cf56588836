// embed(ids, table) and take_rows(x, rows): rows picked by number. The gradient of a row is the sum over where it was picked, in
// their order.
#pragma once
#include <numeric>

#include <heddle/autograd.hpp>
#include <heddle/eigen.hpp>
#include <heddle/ops/clear.hpp>

namespace heddle {

namespace kernel {

template <class T>
void take_rows(Cpu, View<const int, 1> ids, View<const T, 2> table, View<T, 2> y) {
  const auto bytes = static_cast<std::size_t>(table.extent[1]) * sizeof(T);
  for (Index n = 0; bytes > 0 && n < ids.extent[0]; ++n) std::memcpy(&y(n, 0), &table(ids(n), 0), bytes);
}

// Picks are sorted by row, so that each row is summed once, in the type that T accumulates in, and a row that nothing picked is
// only zeroed.
template <class T>
void take_rows_backward(Cpu device, View<const int, 1> ids, View<const T, 2> dy, View<T, 2> dtable) {
  clear(device, View<T, 1>{dtable.data, {dtable.extent[0] * dtable.extent[1]}});
  std::vector<Index> order(static_cast<std::size_t>(ids.extent[0]));
  std::iota(order.begin(), order.end(), Index{0});
  std::stable_sort(order.begin(), order.end(), [&](Index a, Index b) { return ids(a) < ids(b); });
  RowArray<Acc<T>> sum(dtable.extent[1]);
  for (std::size_t n = 0; n < order.size();) {
    const int id = ids(order[n]);
    sum = load(row(dy, order[n]));
    while (++n < order.size() && ids(order[n]) == id) sum += load(row(dy, order[n]));
    store(row(dtable, id), sum);
  }
}

}  // namespace kernel

// Every id is in [0, limit). Throws IndexError with the first that is not, and where it stands.
inline void require_ids(const char* op, const char* what, const Tensor<int>& ids, Index limit, const char* of) {
  const auto v = view<1>(ids);
  for (Index n = 0; n < v.extent[0]; ++n)
    require<IndexError>(v(n) >= 0 && v(n) < limit, op, ": ", what, ' ', v(n), " at position ", n, " is outside ", of, "'s ", limit,
                        " rows");
}

// Rows of x in the order that `rows` gives; a row may be taken several times. Throws ShapeError, and IndexError for a row that x
// does not have.
template <class T>
Tensor<T> take_rows(const Tensor<T>& x,          // [N, ...]
                    const Tensor<int>& rows) {   // [M], to [M, ...]
  require<ShapeError>(x.rank() >= 1, "take_rows: x ", x.shape(), " has no rows");
  require_rank("take_rows", {"rows", rows, 0}, 1);
  require_same_device("take_rows", {"x", x, 0}, {"rows", rows, 0});
  require_ids("take_rows", "row", rows, x.dim(0), "x");
  const Index width = x.shape().product(1, x.rank());
  Tensor<T> y(x.shape().with(0, rows.size()), x.device());
  on(x, [&](auto device) {
    kernel::take_rows(device, view<1>(rows), View<const T, 2>{x.device_data(), {x.dim(0), width}},
                      View<T, 2>{y.device_data(), {rows.size(), width}});
  });
  return record("take_rows", y, inputs(x), [rows, width, shape = x.shape()](const Tensor<T>& dy) {
    Tensor<T> dx(shape, dy.device());
    if constexpr (!std::is_integral_v<T>)
      on(dy, [&](auto device) {
        kernel::take_rows_backward(device, view<1>(rows), View<const T, 2>{dy.device_data(), {rows.size(), width}},
                                   View<T, 2>{dx.device_data(), {shape[0], width}});
      });
    return dx;
  });
}

// The rows of a table that ids name. Throws ShapeError, and IndexError for an id outside the table.
template <class T>
Tensor<T> embed(const Tensor<int>& ids,       // [...]
                const Tensor<T>& table) {     // [V, D], to [..., D]
  require_rank("embed", {"table", table, 0}, 2);
  require_same_device("embed", {"ids", ids, 0}, {"table", table, 0});
  require<ShapeError>(ids.rank() < Shape::max_rank, "embed: ids ", ids.shape(), " have no room for one more axis");
  require_ids("embed", "id", ids, table.dim(0), "the table");
  std::vector<Index> extents(ids.shape().begin(), ids.shape().end());
  extents.push_back(table.dim(1));
  Tensor<T> y{Shape(extents), table.device()};
  on(table, [&](auto device) { kernel::take_rows(device, view<1>(ids), view<2>(table), view<2>(y)); });
  return record("embed", y, inputs(table), [ids, shape = table.shape()](const Tensor<T>& dy) {
    Tensor<T> dtable(shape, dy.device());
    on(dy, [&](auto device) { kernel::take_rows_backward(device, view<1>(ids), view<2>(dy), view<2>(dtable)); });
    return dtable;
  });
}

}  // namespace heddle
