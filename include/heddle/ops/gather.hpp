// gather, index_select and one_hot: selection by positions along an axis.
#pragma once
#include <heddle/ops/compare.hpp>
#include <heddle/ops/embed.hpp>
#include <heddle/ops/permute.hpp>
#include <heddle/ops/reshape.hpp>
#include <heddle/ops/slice.hpp>

namespace heddle {

namespace kernel {

// Computes position(o, m, i), the flat index of element (o, ids(o, m, i), i) in a tensor [O, extent, I].
template <class Id>
void element_positions(Cpu, View<const Id, 3> ids, Index extent, View<Index, 3> position) {
  const auto [O, M, inner] = ids.extent;
  Index at = 0;
  for (Index o = 0; o < O; ++o)
    for (Index m = 0; m < M; ++m)
      for (Index i = 0; i < inner; ++i, ++at)
        position.data[at] = (o * extent + static_cast<Index>(ids.data[at])) * inner + i;
}

}  // namespace kernel

/// Returns y in the shape of ids with y(.., m, ..) = x(.., ids(.., m, ..), ..) along an axis, as torch.gather does. The
/// gradients of an element that is taken more than once are added. Ids on the host may be used with an x on a GPU.
/// @throws ShapeError unless ids has x's rank and no larger extents on other axes, and IndexError for an id that is out
/// of range; for ids on a GPU the next synchronizing call throws it.
template <class T, class Id>
Tensor<T> gather(const Tensor<T>& x, int axis, const Tensor<Id>& ids) {
  static_assert(kernel::is_label<Id>, "heddle::gather: ids must be int or int64");
  const int along = detail::require_axis("gather", x, axis);
  require_rank("gather", {"ids", ids}, x.rank());
  const kernel::IdCheck check{"gather", "id", "outside the # positions of the axis", x.dim(along)};
  if (detail::are_on_host_for(x.device(), ids)) {
    detail::check_ids(ids, check);
    return gather(x, axis, ids.to(x.device()));
  }
  require_same_device("gather", {"x", x}, {"ids", ids});
  Tensor<T> from = x;
  for (int a = 0; a < x.rank(); ++a) {
    if (a == along || ids.dim(a) == x.dim(a)) continue;
    require<ShapeError>(ids.dim(a) < x.dim(a), "gather: ids ", ids.shape(), " are longer on axis ", a, " than x ",
                        x.shape());
    from = slice(from, a, 0, ids.dim(a));
  }
  detail::check_ids(ids, check);
  Tensor<Index> position({ids.size()}, x.device());
  const auto around = detail::view_around(ids, along);
  dispatch(ids, [&](auto device) {
    kernel::element_positions(
        device, around, from.dim(along),
        View<Index, 3>{position.device_data(), {around.extent[0], around.extent[1], around.extent[2]}});
  });
  return detail::gather_rows("gather", position, reshape(from, Shape{from.size(), 1}), ids.shape());
}

/// Returns the given positions of an axis, in order, like torch.index_select. Ids on the host may be used with an x on
/// a GPU. @throws ShapeError if the axis does not exist or ids is not a vector, and IndexError for an id outside the
/// axis; for ids on a GPU the next synchronizing call throws it.
template <class T, class Id>
Tensor<T> index_select(const Tensor<T>& x, int axis, const Tensor<Id>& ids) {  // ids [M]
  const int along = detail::require_axis("index_select", x, axis);
  require_rank("index_select", {"ids", ids}, 1);
  const kernel::IdCheck check{"index_select", "id", "outside the # positions of the axis", x.dim(along)};
  if (detail::are_on_host_for(x.device(), ids)) {
    detail::check_ids(ids, check);
    return index_select(x, axis, ids.to(x.device()));
  }
  require_same_device("index_select", {"x", x}, {"ids", ids});
  detail::check_ids(ids, check);
  const Tensor<T> first = along == 0 ? x : transpose(x, 0, along);
  const Tensor<T> taken = detail::gather_rows("index_select", ids, first, first.shape().with(0, ids.dim(0)));
  return along == 0 ? taken : transpose(taken, 0, along);
}

/// Returns 1 at each id and 0 elsewhere along a new last axis, like torch.nn.functional.one_hot. @throws Error if
/// `classes` is not positive, and IndexError for an id that is not a class; for ids on a GPU the next synchronizing
/// call throws it.
template <class Id>
Tensor<Index> one_hot(const Tensor<Id>& ids,  // [...] int or int64
                      Index classes) {        // C; the result is [..., C]
  static_assert(kernel::is_label<Id>, "heddle::one_hot: ids must be int or int64");
  require(classes > 0, "one_hot: the number of classes must be positive, got ", classes);
  detail::check_ids(ids, kernel::IdCheck{"one_hot", "id", "none of the # classes", classes});
  return cast<Index>(unsqueeze(ids, -1) == arange<Id>(0, static_cast<Id>(classes), 1, ids.device()));
}

}  // namespace heddle
