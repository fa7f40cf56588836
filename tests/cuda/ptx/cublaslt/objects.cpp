#include "objects.hpp"

#include <initializer_list>

namespace heddle::ptx {

std::size_t bytes_of(cudaDataType type) {
  if (type == CUDA_R_32F) return 4;
  return type == CUDA_R_16BF ? 2 : 0;
}

// FNV-1a.
std::uint64_t hash_of(const Problem& problem, bool with_extents) {
  std::uint64_t hash = 0xcbf29ce484222325;
  const auto add = [&](auto value) { hash = (hash ^ static_cast<std::uint64_t>(value)) * 0x100000001b3; };
  const Operation& operation = problem.operation;
  for (const int value : {int{operation.compute}, int{operation.a}, int{operation.b}, int{operation.epilogue}})
    add(value);
  for (const Layout* layout : {&problem.a, &problem.b, &problem.c, &problem.d}) {
    add(layout->type);
    if (with_extents) {
      add(layout->rows);
      add(layout->columns);
    }
    add(layout->leading_dimension);
    add(layout->batch_count);
    add(layout->batch_stride);
  }
  return hash;
}

std::string wrong_problem(const Problem& problem) {
  const Operation& operation = problem.operation;
  const auto& [_, a, b, c, d] = problem;
  const bool a_is_plain = operation.a == CUBLAS_OP_N, b_is_plain = operation.b == CUBLAS_OP_N;
  const std::uint64_t m = a_is_plain ? a.rows : a.columns, k = a_is_plain ? a.columns : a.rows;
  const std::uint64_t depth_of_b = b_is_plain ? b.rows : b.columns, n = b_is_plain ? b.columns : b.rows;
  if (k != depth_of_b)
    return "op(A) has " + std::to_string(k) + " columns, and op(B) " + std::to_string(depth_of_b) + " rows";
  if (d.rows != m || d.columns != n) return "D does not have the extents of the product";
  if (c.rows != m || c.columns != n) return "C does not have the extents of the product";
  if (m == 0 || n == 0 || k == 0) return "the product is empty";
  for (const Layout* layout : {&a, &b, &c, &d}) {
    if (layout->leading_dimension < static_cast<std::int64_t>(layout->rows))
      return "a leading dimension is " + std::to_string(layout->leading_dimension) + " for " +
             std::to_string(layout->rows) + " rows";
    if (layout->batch_count != a.batch_count || layout->batch_count < 1) return "the batch counts differ";
    if (bytes_of(layout->type) == 0) return "a type is neither float nor bf16";
  }
  if (a.type != b.type || c.type != d.type || (d.type != a.type && d.type != CUDA_R_32F))
    return "A and B, or C and D, differ in type, or operands of float have a result of bf16";
  if (operation.has_epilogue() && operation.bias_type >= 0 && operation.bias_type != d.type)
    return "the bias does not have the type of D";
  return operation.scale_type == CUDA_R_32F ? "" : "the scale type is not float";
}

}  // namespace heddle::ptx
