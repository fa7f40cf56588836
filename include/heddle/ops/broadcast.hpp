// Broadcasting as in PyTorch: shapes are aligned at their last axes; an operand is repeated along an axis of extent 1
// and along an axis that it lacks. Kernels visit the result in order and find the operands' elements through a
// BroadcastPlan.
#pragma once
#include <array>

#include <heddle/base/checks.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/kernel/broadcast_plan.hpp>

namespace heddle::detail {

// Throws ShapeError for two operands that do not broadcast along an axis.
[[noreturn, gnu::cold, gnu::noinline]] inline void fail_broadcast(const char* op, Operand a, Operand b, int axis) {
  a.axis = b.axis = axis;
  fail_different(op, ("axis " + std::to_string(axis)).c_str(), a, b, "broadcasting repeats axes of extent 1 only");
}

// Returns the shape that the operands broadcast to, without their last `excluded` axes. Throws a ShapeError that names
// the two axes that disagree, and an Error for operands on different devices.
inline Shape broadcast_shape(const char* op, std::initializer_list<Operand> operands, int excluded = 0) {
  std::array<Index, Shape::max_rank> extent;
  extent.fill(1);
  int rank = 0;
  for (const Operand& x : operands) {
    require_same_device(op, *operands.begin(), x);
    rank = std::max(rank, x.shape.rank() - excluded);
  }
  for (int a = 0; a < rank; ++a) {
    const int axis = a - rank - excluded;
    const Operand* decides = nullptr;
    for (const Operand& x : operands) {
      if (x.shape.rank() < -axis || x.shape[axis] == 1) continue;
      if (!decides) decides = &x;
      if (x.shape[axis] != decides->shape[axis]) fail_broadcast(op, *decides, x, axis);
      extent[static_cast<std::size_t>(a)] = x.shape[axis];
    }
  }
  return Shape(std::span<const Index>(extent.data(), static_cast<std::size_t>(rank)));
}

// Returns the plan for operands of these shapes; `result` is the value of broadcast_shape for them.
template <class... Shapes>
kernel::BroadcastPlan<sizeof...(Shapes)> broadcast_plan(const Shape& result, const Shapes&... operands) {
  constexpr int N = sizeof...(Shapes);
  kernel::BroadcastPlan<N> plan;
  plan.size = result.size();
  Index passed[unsigned{N}];  // elements of each operand within the axes so far
  std::fill_n(passed, N, 1);
  unsigned repeated_before = ~0u;
  for (int axis = -1; axis >= -result.rank(); --axis) {
    const Index extent = result[axis];
    if (extent == 1) continue;
    unsigned repeated = 0, bit = 1;
    for (const Shape& s : {operands...}) {
      if (s.rank() < -axis || s[axis] == 1) repeated |= bit;
      bit <<= 1;
    }
    if (repeated != repeated_before) plan.extent[plan.rank++] = 1;
    plan.extent[plan.rank - 1] *= extent;
    for (int n = 0; n < N; ++n) {
      if (repeated >> n & 1u) continue;
      if (repeated != repeated_before) plan.stride[n][plan.rank - 1] = passed[n];
      passed[n] *= extent;
    }
    repeated_before = repeated;
  }
  plan.rank = std::max(plan.rank, 1);
  return plan;
}

}  // namespace heddle::detail

namespace heddle::kernel {

// Calls f(i, n, at) on several threads, for parts that together cover the result. A part is the elements [i, i + n) of
// the result, which lie in one row. In operand k they begin at position at[k] and advance by plan.stride[k][0].
template <int N, class F>
void for_rows(const BroadcastPlan<N>& plan, F&& f) {
  parallel(plan.size, element_grain, [&](Index first, Index last) {
    Index row = first / plan.extent[0], begin = first % plan.extent[0];
    for (Index i = first, n; i < last; i += n, ++row, begin = 0) {
      n = std::min(plan.extent[0] - begin, last - i);
      std::array<Index, unsigned{N}> at;
      for (int k = 0; k < N; ++k) at[static_cast<std::size_t>(k)] = plan.offset(k, row) + begin * plan.stride[k][0];
      f(i, n, at);
    }
  });
}

}  // namespace heddle::kernel
