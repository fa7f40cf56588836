// record(): makes an operation differentiable.
#pragma once
#include <exception>

#include <heddle/autograd/graph.hpp>

namespace heddle {

/// A scope without recording: operations on this thread are not recorded while the object exists, as in `const
/// NoGrad off;`.
class [[nodiscard]] NoGrad {
 public:
  [[nodiscard]] NoGrad() {
    if (previous_ == detail::GradMode::recording) detail::grad_mode = detail::GradMode::disabled;
  }
  NoGrad(const NoGrad&) = delete;
  ~NoGrad() { detail::grad_mode = previous_; }

 private:
  detail::GradMode previous_ = detail::grad_mode;
};

namespace detail {
// Returns y as the result of an operation, whose node is given to it.
template <class T>
Tensor<T> with_node(const Tensor<T>& y, Node* node) {
  const NodeRef reference(node);
  mark_stream(*node, y.device());
  return y.with_node(reference);
}

// Calls f<E>() and returns its result. E is the type in which a backward computes the gradients of these weights: the
// type of their sums if those that require a gradient are casts of parameters, otherwise T.
template <class T, class F, class... Weights>
auto with_gradient_type(F&& f, const Tensor<T>& weight, const Weights&... others) {
  if constexpr (std::is_same_v<T, bf16>) {
    const auto takes_sums = [](const Tensor<T>& x) {
      return !x.requires_grad() || static_cast<const NodeOf<T>*>(x.node().get())->takes_sums;
    };
    if (takes_sums(weight) && (takes_sums(others) && ...)) return f.template operator()<Acc<T>>();
  }
  return f.template operator()<T>();
}
// Returns memory for the gradient of x, in elements of E, or an empty tensor if x requires none.
template <class E, class T>
Tensor<E> gradient_memory(const Tensor<T>& x) {
  return x.requires_grad() ? Tensor<E>(x.shape(), x.device()) : Tensor<E>();
}

// Memory for a contribution to the gradient of x, which the backward has to return as that gradient. If the pass has
// computed other contributions, and neither a handle nor another stream may read their sum, the memory is that sum: the
// backward adds to it, which saves a pass over both.
template <class T>
class Contribution {
 public:
  Tensor<T> dx;                           // empty if x requires no gradient
  kernel::Into into = kernel::Into::set;  // whether to overwrite the memory or to add to it

  explicit Contribution(const Tensor<T>& x) {
    if (!x.requires_grad()) return;
    auto& node = *static_cast<NodeOf<T>*>(x.node().get());
    const Tensor<T>& others = node.grad;
    if (node.is_leaf() || !others || others.is_shared() || others.is_on_other_streams() ||
        others.device() != x.device()) {
      dx = empty_like(x);
      return;
    }
    dx = std::exchange(node.grad, {});
    into = kernel::Into::add;
    node.is_lent = true;
    lender_ = &node;
  }
  Contribution(const Contribution&) = delete;
  // A backward that throws gives the sum back, which may belong to an outer pass.
  ~Contribution() {
    if (!lender_ || std::uncaught_exceptions() == exceptions_) return;
    lender_->grad = dx;
    lender_->is_lent = false;
  }

 private:
  NodeOf<T>* lender_ = nullptr;
  const int exceptions_ = std::uncaught_exceptions();
};
}  // namespace detail

/// Names the inputs of an operation for record().
template <class... In>
std::tuple<const Tensor<In>&...> inputs(const Tensor<In>&... x) {
  return {x...};
}

/// Returns y, the result of `op`, with `backward` attached: record("linear", y, inputs(x, weight, bias), backward).
/// `backward` maps dy (of y's shape) to a std::tuple with one gradient per input, in their order and of their shapes;
/// an empty tensor stands for no gradient. With a single input it may return the tensor alone, or a RowGradient. `op`
/// is not copied: pass a string literal. Integers and bool have no gradient: such a y is returned without `backward`.
/// backward() throws ShapeError for a gradient of another shape; the rows of a RowGradient are not checked.
template <class T, class... In, class Backward>
Tensor<T> record(const char* op, const Tensor<T>& y, const std::tuple<const Tensor<In>&...>& operands,
                 Backward backward) {
  if constexpr (!std::is_integral_v<T>) {  // here, because the message then has the user's line near its beginning
    using Recorded = detail::Recorded<T, Backward, In...>;
    static_assert(Recorded::takes_gradient, "heddle::record: a backward takes dy, of the element type of y");
    static_assert(!Recorded::takes_gradient || Recorded::returns_gradients(),
                  "heddle::record: a backward returns one gradient for each input, of its element type");
  }
  return [&]<std::size_t... Is>(std::index_sequence<Is...>) {
    if constexpr (std::is_integral_v<T>) {
      return y.without_node();
    } else {
      if (detail::grad_mode != detail::GradMode::recording || !(std::get<Is>(operands).requires_grad() || ...))
        return y.without_node();
      using Recorded = detail::Recorded<T, Backward, In...>;
      return detail::with_node(y, new Recorded(op, y.shape(), std::move(backward), std::get<Is>(operands)...));
    }
  }
  (std::index_sequence_for<In...>{});
}
namespace detail {
// Returns whether record() attaches a backward to the result of an operation on these tensors.
template <class T>
bool is_recorded(const std::vector<Tensor<T>>& operands) {
  return grad_mode == GradMode::recording &&
         std::any_of(operands.begin(), operands.end(), [](const Tensor<T>& x) { return x.requires_grad(); });
}
}  // namespace detail

/// Records an operation with any number of inputs of one type: `backward` returns a vector with one gradient per input.
/// backward() throws ShapeError for a gradient of another shape.
template <class T, class Backward>
Tensor<T> record(const char* op, const Tensor<T>& y, const std::vector<Tensor<T>>& operands, Backward backward) {
  if (!detail::is_recorded(operands)) return y.without_node();
  using Recorded = detail::RecordedList<T, Backward>;
  return detail::with_node(y, new Recorded(op, y.shape(), std::move(backward), operands));
}

}  // namespace heddle
