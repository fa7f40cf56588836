// embed(ids, table) and take_rows(x, rows): rows of a matrix by their numbers. On the CPU the gradient of the matrix is
// sparse, so that the cost of a step depends on the number of rows taken, not on the size of the table; on a GPU it is
// dense. Contributions to one row are added in the order of their positions, for any number of threads.
#pragma once
#include <numeric>
#include <optional>

#include <heddle/autograd/record.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/cpu/vector.hpp>
#include <heddle/ops/cast.hpp>
#include <heddle/ops/check_ids.hpp>

namespace heddle {

namespace kernel {

template <class Id, class T>
void take_rows(Cpu, View<const Id, 1> ids, View<const T, 2> x, View<T, 2> y) {
  parallel(y.extent[0], row_grain(y.extent[1]), [&](Index first, Index last) {
    for (Index n = first; n < last; ++n) std::copy_n(&x(static_cast<Index>(ids(n)), 0), x.extent[1], &y(n, 0));
  });
}

// The positions in dy, grouped by the row that was taken there: group m is place[begin[m]] to place[begin[m + 1] - 1].
// The rows of the groups ascend, and so do the positions within a group.
struct RowGroups {
  std::vector<Index> place, begin;

  template <class Id>
  explicit RowGroups(View<const Id, 1> ids) : place(static_cast<std::size_t>(ids.extent[0])) {
    std::iota(place.begin(), place.end(), Index{0});
    std::sort(place.begin(), place.end(), [&](Index a, Index b) { return ids(a) != ids(b) ? ids(a) < ids(b) : a < b; });
    for (std::size_t n = 0; n < place.size(); ++n)
      if (n == 0 || ids(place[n]) != ids(place[n - 1])) begin.push_back(static_cast<Index>(n));
    begin.push_back(ids.extent[0]);
  }
  Index rows() const { return static_cast<Index>(begin.size()) - 1; }
};

// Computes the sparse gradient: one row for each distinct id i, in ascending order, the sum of the rows n of dy with
// ids(n) = i. The row of `frozen`, a number of a row or -1, is zero.
template <class Id, class T>
RowGradient<T> take_rows_backward(Cpu, View<const Id, 1> ids, View<const T, 2> dy, const Shape&, Index frozen) {
  const RowGroups groups(ids);
  const Index D = dy.extent[1];
  Tensor<Index> rows({groups.rows()});
  Tensor<T> dx({groups.rows(), D});
  const View<Index, 1> number = view<1>(rows);
  const View<T, 2> sums = view<2>(dx);
  parallel(groups.rows(), row_grain(D), [&](Index first, Index last) {
    Scratch<Acc<T>> sum(D), scratch(D);
    for (Index m = first; m < last; ++m) {
      const Index* const begin = &groups.begin[static_cast<std::size_t>(m)];
      number(m) = static_cast<Index>(ids(groups.place[static_cast<std::size_t>(begin[0])]));
      const Index end = number(m) == frozen ? begin[0] : begin[1];
      const auto row = [&](Index n) { return &dy(groups.place[static_cast<std::size_t>(begin[0] + n)], 0); };
      add_rows(sum.data(), end - begin[0], D, row, scratch);
      copy_row(&sums(m, 0), sum.data(), D);
    }
  });
  return {rows, dx};
}
// Returns the gradient as a dense tensor of the given shape, because the host does not know how many distinct
// rows were taken.
template <class Id, class T>
RowGradient<T> take_rows_backward(Cuda device, View<const Id, 1> ids, View<const T, 2> dy, const Shape& shape,
                                  Index frozen) {
  Tensor<T> dx(shape, Device::cuda);
  sum_taken_rows(device, dy, ids, frozen, View<T, 2>{dx.device_data(), {shape[0], dy.extent[1]}});
  return {{}, dx};
}

}  // namespace kernel

namespace detail {
// Returns the rows of x [V, ...] with these numbers, in a tensor of the given shape. Row `frozen` has no gradient,
// unless it is -1.
template <class Id, class T>
Tensor<T> gather_rows(const char* op, const Tensor<Id>& ids, const Tensor<T>& x, const Shape& shape,
                      Index frozen = -1) {
  static_assert(kernel::is_label<Id>, "heddle: ids and rows must be int or int64");
  const Shape matrix{x.dim(0), x.shape().product(1, x.rank())};
  const auto matrix_of = [matrix](auto& t, Index rows) {
    return View<std::remove_pointer_t<decltype(t.device_data())>, 2>{t.device_data(), {rows, matrix[1]}};
  };
  Tensor<T> y(shape, x.device());
  dispatch(x, [&](auto device) {
    kernel::take_rows(device, view<1>(ids), matrix_of(x, matrix[0]), matrix_of(y, ids.size()));
  });
  if constexpr (std::is_integral_v<T>) {
    return y;
  } else {
    return record(op, y, inputs(x), [=, x_shape = x.shape()](const Tensor<T>& dy) {
      return dispatch(dy, [&](auto device) {
        return kernel::take_rows_backward(device, view<1>(ids), matrix_of(dy, ids.size()), x_shape, frozen);
      });
    });
  }
}

// Returns the shape of the rows of a table of width D.
inline Shape embedded_shape(const Shape& ids, Index D) {
  std::vector<Index> extents(ids.begin(), ids.end());
  extents.push_back(D);
  return Shape(extents);
}

// Whether embed_on_gpu() takes tables of T and returns rows of A.
template <class T, class A>
inline constexpr bool embeds_on_gpu = has_cuda &&
                                      (std::is_same_v<T, float> || std::is_same_v<T, bf16>)&&(std::is_same_v<A, T> ||
                                                                                              std::is_same_v<A, bf16>);

// Returns the view of x, or one of nothing if x is empty.
template <int rank, class X>
auto view_if_any(X& x) {
  using Element = std::remove_pointer_t<decltype(x.device_data())>;
  return x ? view<rank>(x) : View<Element, rank>{};
}
// Returns the shape of the gradient of x if it requires one, and memory for it.
template <class T>
std::optional<Shape> gradient_shape(const Tensor<T>& x) {
  return x.requires_grad() ? std::optional<Shape>(x.shape()) : std::nullopt;
}
template <class T>
Tensor<T> gradient_on_gpu(const std::optional<Shape>& shape) {
  return shape ? Tensor<T>(*shape, Device::cuda) : Tensor<T>();
}

#ifdef HEDDLE_CUDA
// Computes embed() on a GPU, in one kernel: the rows of the table, rounded to A. Adds the rows `position` of the table
// `positions`, rounded likewise, unless they are empty; these are not checked. Row `frozen_position` of that table has
// no gradient, unless it is -1.
template <class A, class Id, class T>
Tensor<A> embed_on_gpu(const kernel::IdCheck& check, const Tensor<Id>& ids, const Tensor<T>& table, Index frozen,
                       const Tensor<int>& position = {}, const Tensor<T>& positions = {}, Index frozen_position = -1) {
  const Shape rows{ids.size(), table.dim(1)};
  Tensor<A> y(embedded_shape(ids.shape(), rows[1]), Device::cuda);
  kernel::embed(Cuda{}, check, view<1>(ids), view<2>(table), view_if_any<1>(position), view_if_any<2>(positions),
                View<A, 2>{y.device_data(), {rows[0], rows[1]}});
  return record("embed", y, inputs(table, positions),
                [=, of_table = gradient_shape(table), of_positions = gradient_shape(positions)](const Tensor<A>& dy) {
                  auto dtable = gradient_on_gpu<T>(of_table), dpositions = gradient_on_gpu<T>(of_positions);
                  kernel::sum_taken_rows(Cuda{}, View<const A, 2>{dy.device_data(), {rows[0], rows[1]}}, view<1>(ids),
                                         frozen, view_if_any<2>(dtable), view_if_any<1>(position), frozen_position,
                                         view_if_any<2>(dpositions));
                  return std::tuple(dtable, dpositions);
                });
}
#endif

// Returns the check of ids that take rows of a table.
template <class T>
kernel::IdCheck check_of_table(const Tensor<T>& table) {
  return {"embed", "id", "outside the table's # rows", table.dim(0)};
}

// Checks the operands of embed(), and those ids that are on the host. Returns the ids on the table's device.
template <class Id, class T>
Tensor<Id> ids_beside(const Tensor<T>& table, const Tensor<Id>& ids, std::optional<Index> padding_id) {
  require_rank("embed", {"table", table}, 2);
  require<IndexError>(!padding_id || (*padding_id >= 0 && *padding_id < table.dim(0)), "embed: padding_id ",
                      padding_id.value_or(0), " is outside the table's ", table.dim(0), " rows");
  if (are_on_host_for(table.device(), ids)) {
    check_ids(ids, check_of_table(table));
    return ids.to(table.device());
  }
  require_same_device("embed", {"ids", ids}, {"table", table});
  return ids;
}

// Returns cast<A>(embed(ids, table, padding_id)), on a GPU in one kernel. There, the rows `position` of the table
// `positions` are added, unless it is empty; these are not checked. Row `frozen_position` of that table has no
// gradient, unless it is -1.
template <class A, class Id, class T>
Tensor<A> embed_as(const Tensor<Id>& given, const Tensor<T>& table, std::optional<Index> padding_id,
                   [[maybe_unused]] const Tensor<int>& position = {}, [[maybe_unused]] const Tensor<T>& positions = {},
                   [[maybe_unused]] Index frozen_position = -1) {
  const Tensor<Id> ids = ids_beside(table, given, padding_id);
  const kernel::IdCheck check = check_of_table(table);
  const Index frozen = padding_id.value_or(-1);
#ifdef HEDDLE_CUDA
  if constexpr (embeds_on_gpu<T, A>)
    if (table.device() == Device::cuda)
      return embed_on_gpu<A>(check, ids, table, frozen, position, positions, frozen_position);
#endif
  check_ids(ids, check);
  return cast<A>(gather_rows("embed", ids, table, embedded_shape(ids.shape(), table.dim(1)), frozen));  // [..., D]
}

}  // namespace detail

/// Returns the row of the table for each id, [..., D]. Ids on the host may be used with a table on a GPU. Row
/// `padding_id` of the table, if it is given, has no gradient, as padding_idx of torch.nn.functional.embedding. @throws
/// ShapeError unless the table has two axes, and IndexError for a padding_id or an id outside the table; for ids on a
/// GPU the next synchronizing call throws it.
template <class Id, class T>
Tensor<T> embed(const Tensor<Id>& ids,   // [...] int or int64
                const Tensor<T>& table,  // [V, D]
                std::optional<Index> padding_id = {}) {
  return detail::embed_as<T>(ids, table, padding_id);
}

/// Returns the rows of x with the given numbers, [M, ...]. The numbers may be on the host for an x on a GPU.
/// @throws ShapeError if x is a scalar or the numbers are not a vector, and IndexError for a number outside x; for
/// numbers on a GPU the next synchronizing call throws it.
template <class T, class Id>
Tensor<T> take_rows(const Tensor<T>& x,        // [N, ...]
                    const Tensor<Id>& rows) {  // [M] int or int64
  require<ShapeError>(x.rank() > 0, "take_rows: x ", x.shape(), " has no rows");
  require_rank("take_rows", {"rows", rows}, 1);
  const kernel::IdCheck check{"take_rows", "row", "outside the # rows of x", x.dim(0)};
  if (detail::are_on_host_for(x.device(), rows)) {
    detail::check_ids(rows, check);
    return take_rows(x, rows.to(x.device()));
  }
  require_same_device("take_rows", {"x", x}, {"rows", rows});
  detail::check_ids(rows, check);
  return detail::gather_rows("take_rows", rows, x, x.shape().with(0, rows.dim(0)));  // [M, ...]
}

}  // namespace heddle
