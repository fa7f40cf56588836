// The objects of cuBLASLt that describe a product, and what their users may not combine. All matrices are stored by
// columns.
#pragma once
#include <cublasLt.h>

#include <string>

namespace heddle::ptx {

// A matrix, or a batch of them.
struct Layout {
  cudaDataType type;
  std::uint64_t rows, columns;
  std::int64_t leading_dimension;  // elements from one column to the next
  std::int32_t batch_count = 1;
  std::int64_t batch_stride = 0;  // elements from one matrix to the next

  friend bool operator==(const Layout&, const Layout&) = default;
};

// D = alpha op(A) op(B) + beta C, and an epilogue.
struct Operation {
  cublasComputeType_t compute;
  cudaDataType scale_type;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  std::int32_t bias_type = -1;  // a cudaDataType; negative for that of D

  bool has_epilogue() const { return epilogue != CUBLASLT_EPILOGUE_DEFAULT; }
};

// An operation and the layouts of its matrices.
struct Problem {
  Operation operation;
  Layout a, b, c, d;
};

// The promises and limits that the caller gives to the heuristic.
struct Preference {
  std::uint64_t workspace_bytes = 0;
  std::uint32_t alignments[4] = {256, 256, 256, 256};  // bytes, of A, B, C and D
  std::uint32_t reduction_schemes = ~0u;
};

// The content of a cublasLtMatmulAlgo_t.
struct Algorithm {
  char magic[8];
  std::uint32_t alignments[4];  // those that the heuristic was promised
  std::uint64_t problem;        // hash_of(the problem that it was chosen for)
  std::uint64_t kind;           // the same without extents
  std::uint64_t workspace_bytes;
  bool rounds_before_c, rounds_before_bias;  // whether the product is rounded to the type of D before the addition
};
static_assert(sizeof(Algorithm) <= sizeof(cublasLtMatmulAlgo_t));
constexpr char algorithm_magic[8] = {'h', 'e', 'd', 'd', 'l', 'e', 'L', 't'};

// Returns the bytes of an element, or 0 for a type that is not supported.
std::size_t bytes_of(cudaDataType type);

// Without extents, problems that differ only in these have the same hash.
std::uint64_t hash_of(const Problem& problem, bool with_extents = true);

// Returns what is wrong with a problem, or an empty string.
std::string wrong_problem(const Problem& problem);

}  // namespace heddle::ptx
