// Broadcasting as in PyTorch: shapes are aligned at their last axes; along an axis of extent 1, or one that it lacks,
// an operand is repeated. Kernels walk the result in order and find each operand's elements through Broadcast.
#pragma once
#include <heddle/error.hpp>
#include <heddle/parallel.hpp>

namespace heddle {

// The operands' common shape, their last `apart` axes left out. Throws ShapeError that names the two axes that
// disagree, and Error for operands on different devices.
inline Shape broadcast_shape(const char* op, std::initializer_list<Axis> operands, int apart = 0) {
  std::array<Index, Shape::max_rank> extent;
  extent.fill(1);
  int rank = 0;
  for (const Axis& x : operands) {
    require_same_device(op, *operands.begin(), x);
    rank = std::max(rank, x.shape.rank() - apart);
  }
  for (int a = 0; a < rank; ++a) {
    const int axis = a - rank - apart;
    const Axis* decides = nullptr;
    for (const Axis& x : operands) {
      if (x.shape.rank() < -axis || x.shape[axis] == 1) continue;
      if (!decides) decides = &x;
      Axis first = *decides, other = x;
      first.axis = other.axis = axis;
      require_same(op, ("axis " + std::to_string(axis)).c_str(), first, other,
                   "broadcasting repeats axes of extent 1 only");
      extent[static_cast<std::size_t>(a)] = x.shape[axis];
    }
  }
  return Shape(std::span<const Index>(extent.data(), static_cast<std::size_t>(rank)));
}

// Where N operands' elements stand for each element of the result. Axes are counted from the last; neighbours that
// every operand treats alike are one, so that equal shapes are one axis, a matrix and a row two. There is at least one.
template <int N>
struct Broadcast {
  int rank = 0;
  Index size = 1;
  Index extent[Shape::max_rank] = {1};
  Index stride[N][Shape::max_rank] = {};  // 0 where the operand is repeated; else 1 on axis 0

  // Where row n of the result, of extent[0] elements, begins in an operand.
  HEDDLE_HD Index offset(int operand, Index n) const {
    Index at = 0;
    for (int a = 1; a < rank - 1; ++a) {
      at += n % extent[a] * stride[operand][a];
      n /= extent[a];
    }
    return rank > 1 ? at + n * stride[operand][rank - 1] : at;
  }
};

// How operands of these shapes are walked; `result` is what broadcast_shape made of them.
template <class... Shapes>
Broadcast<sizeof...(Shapes)> broadcast(const Shape& result, const Shapes&... operands) {
  constexpr int N = sizeof...(Shapes);
  Broadcast<N> plan;
  plan.size = result.size();
  Index passed[N];  // elements of each operand within the axes so far
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

namespace kernel {

// Runs f(i, n, at) for stretches of the result, on several threads: elements [i, i + n) of one of its rows, which begin
// at position at[k] of operand k and go on in steps of plan.stride[k][0].
template <int N, class F>
void for_rows(const Broadcast<N>& plan, F&& f) {
  constexpr Index grain = 16384;  // a few microseconds
  parallel(plan.size, grain, [&](Index first, Index last) {
    Index row = first / plan.extent[0], begin = first % plan.extent[0];
    for (Index i = first, n; i < last; i += n, ++row, begin = 0) {
      n = std::min(plan.extent[0] - begin, last - i);
      std::array<Index, N> at;
      for (int k = 0; k < N; ++k) at[static_cast<std::size_t>(k)] = plan.offset(k, row) + begin * plan.stride[k][0];
      f(i, n, at);
    }
  });
}

}  // namespace kernel

}  // namespace heddle
