// NormGradientSums adds up the gradients of a norm's parameters; require_norm() checks the operands of a norm.
#pragma once
#include <heddle/autograd/record.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/cpu/vector.hpp>

namespace heddle {

namespace kernel {

// The contributions of each piece to the gradients of a norm's parameters, which store_to() sums in the order of the
// pieces.
template <class T, int parameters>
class NormGradientSums {
 public:
  NormGradientSums(Index pieces, Index D)
      : pieces_(std::max<Index>(pieces, 1)), D_(D), sums_(pieces_ * parameters * D) {
    sums_.zeroed();
  }
  // Returns the sums [D] of one piece for one parameter.
  Acc<T>* of(Index piece, int parameter) { return sums_.data() + (piece * parameters + parameter) * D_; }

  template <class E>
  void store_to(const View<E, 1> (&gradients)[unsigned{parameters}]) {
    for (Index piece = 1; piece < pieces_; ++piece) add_row(of(0, 0), of(piece, 0), parameters * D_);
    for (int parameter = 0; parameter < parameters; ++parameter)
      copy_row(gradients[parameter].data, of(0, parameter), D_);
  }

 private:
  Index pieces_, D_;
  Scratch<Acc<T>> sums_;  // [pieces, parameters, D]
};

}  // namespace kernel

namespace detail {

// Checks eps, and a parameter of a norm of x over its last axis. Throws ShapeError unless the parameter is [D], and
// Error for an eps that is negative or not finite.
template <class T>
void require_norm(const char* op, const Tensor<T>& x, const char* name, const Tensor<T>& parameter, double eps) {
  require_nonnegative(op, "eps", eps);
  require_rank(op, {name, parameter}, 1);
  require_same(op, "D", {"x", x, -1}, {name, parameter, 0});
}

}  // namespace detail
}  // namespace heddle
