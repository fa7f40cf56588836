// concat({a, b, ...}, axis): tensors joined along an axis; stack({a, b, ...}, axis): along a new one.
#pragma once
#include <heddle/ops/reshape.hpp>
#include <heddle/ops/slice.hpp>

namespace heddle {

/// Returns the tensors joined along an axis; all other axes must agree. @throws ShapeError if the axis does not exist,
/// or if the number of axes or another extent differs, and Error for no tensors.
template <class T>
Tensor<T> concat(const std::vector<Tensor<T>>& xs, int axis = 0) {
  require(!xs.empty(), "concat: at least 1 tensor is needed, got 0");
  const Tensor<T>& x0 = xs[0];
  const int along = detail::require_axis("concat", x0, axis);
  std::vector<Index> begin = {0};  // tensor i has positions [begin[i], begin[i + 1]) of the result's axis
  for (std::size_t i = 0; i < xs.size(); ++i) {
    const std::string name = "x[" + std::to_string(i) + ']';
    require_rank("concat", {name.c_str(), xs[i]}, x0.rank());
    require_same_device("concat", {"x[0]", x0}, {name.c_str(), xs[i]});
    for (int a = 0; a < x0.rank(); ++a)
      if (a != along)
        require_same("concat", ("axis " + std::to_string(a)).c_str(), {"x[0]", x0, a}, {name.c_str(), xs[i], a});
    begin.push_back(begin[i] + xs[i].dim(along));
  }

  Tensor<T> y(x0.shape().with(along, begin.back()), x0.device());
  for (std::size_t i = 0; i < xs.size(); ++i)
    dispatch(y, [&](auto device) {
      kernel::copy(device, detail::columns_of_axis(xs[i], along, 0, xs[i].dim(along)),
                   detail::columns_of_axis(y, along, begin[i], begin[i + 1]));
    });

  std::vector<bool> wanted;
  for (const Tensor<T>& x : xs) wanted.push_back(x.requires_grad());
  return record("concat", y, xs, [along, begin, wanted](const Tensor<T>& dy) {
    std::vector<Tensor<T>> dxs(wanted.size());
    for (std::size_t i = 0; i < wanted.size(); ++i)
      if (wanted[i]) dxs[i] = slice(dy, along, begin[i], begin[i + 1]);
    return dxs;
  });
}
/// Concatenates the tensors of a braced list: concat({a, b}, axis). @throws ShapeError and Error as for a vector.
template <class T>
Tensor<T> concat(std::initializer_list<Tensor<T>> xs, int axis = 0) {
  return concat(std::vector<Tensor<T>>(xs), axis);
}

/// Returns tensors of one shape joined along a new axis `axis` of the result; -1 makes it the last axis.
/// @throws ShapeError if the shapes differ, the axis is out of range, or the tensors have eight axes, and Error for no
/// tensors.
template <class T>
Tensor<T> stack(const std::vector<Tensor<T>>& xs, int axis = 0) {
  require(!xs.empty(), "stack: at least 1 tensor is needed, got 0");
  std::vector<Tensor<T>> parts;
  for (const Tensor<T>& x : xs) {
    require<ShapeError>(x.shape() == xs[0].shape(), "stack: x[0] ", xs[0].shape(), " and x[", parts.size(), "] ",
                        x.shape(), " must have the same shape");
    parts.push_back(unsqueeze(x, axis));
  }
  return concat(parts, axis);
}
/// Stacks the tensors of a braced list: stack({a, b}, axis). @throws ShapeError and Error as for a vector.
template <class T>
Tensor<T> stack(std::initializer_list<Tensor<T>> xs, int axis = 0) {
  return stack(std::vector<Tensor<T>>(xs), axis);
}

}  // namespace heddle
