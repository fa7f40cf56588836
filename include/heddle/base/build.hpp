// The compiler settings that heddle requires or refuses, and the namespaces that carry the version, the backends and
// the instruction set. Functions that take a tensor have different symbols in object files that differ in one of these
// three, so a call between such files does not link. A call of a function that only returns a tensor does;
// core/tensor.hpp ends such a program when it starts.
#pragma once
#include <cstdint>

#if __cplusplus < 202002L
#error "heddle needs C++20: compile with -std=c++20 or newer"
#include "nothing else is compiled: heddle needs C++20"  // a file that is missing ends the compilation; #error does not
#endif
#if defined(__FAST_MATH__) || (defined(__FINITE_MATH_ONLY__) && __FINITE_MATH_ONLY__)
#error "heddle cannot be compiled with -ffast-math or -ffinite-math-only: masks and NaN checks need real infinities"
#endif

// Functions that run once or rarely, such as constructors of modules and messages of errors, are [[gnu::cold]]. g++
// optimizes them for size, which saves 2 % of the compile time and of the code of README's program.

// Marks functions that kernels call on the host and on the GPU.
#ifdef __CUDACC__
#define HEDDLE_HD __host__ __device__
#else
#define HEDDLE_HD
#endif
// Stands before a template with HEDDLE_HD that the host also instantiates with SIMD vectors or functions of its own:
// without it nvcc warns of each call of them. The template's body names no type that contains a vector, which nvcc
// refuses; template parameters may be such types.
#ifdef __CUDACC__
#define HEDDLE_FORMULA _Pragma("nv_exec_check_disable")
#else
#define HEDDLE_FORMULA
#endif

namespace heddle {

/// A number of elements or rows, an extent, or a position. Signed, as in Eigen and PyTorch.
using Index = std::int64_t;

// The version, the backends and the instruction set, in this order. Inline bodies differ between backends, and Eigen's
// memory layout between instruction sets. Users do not write these namespaces, and the reference omits them.
/// @cond
inline namespace v0_1 {
#ifdef HEDDLE_ONEDNN
inline namespace onednn {
#endif
#ifdef HEDDLE_CUDA
inline namespace with_cuda {
#endif
#if defined(__AVX512BF16__)
inline namespace avx512_bf16 {
#elif defined(__AVX512F__)
inline namespace avx512 {
#elif defined(__AVX2__) && defined(__FMA__)
inline namespace avx2 {
#elif defined(__AVX__)
inline namespace avx {
#else
inline namespace baseline {
#endif
/// @endcond

/// A handle to a contiguous, row-major array on one device: core/tensor.hpp.
template <class T>
class Tensor;

/// A tag that selects the CPU's overload of a kernel.
struct Cpu {};

// The backends and the instruction set, for messages.
/// @cond
struct Build {
  static constexpr const char* settings =
      "heddle 0.1, "
#ifdef HEDDLE_ONEDNN
      "HEDDLE_ONEDNN, "
#endif
#ifdef HEDDLE_CUDA
      "HEDDLE_CUDA, "
#endif
#if defined(__AVX512BF16__)
      "AVX-512 BF16";
#elif defined(__AVX512F__)
      "AVX-512";
#elif defined(__AVX2__) && defined(__FMA__)
      "AVX2";
#elif defined(__AVX__)
      "AVX";
#else
      "no AVX";
#endif
};
/// @endcond

/// @cond
}  // namespace avx512_bf16, avx512, avx2, avx or baseline
#ifdef HEDDLE_CUDA
}  // namespace with_cuda
#endif
#ifdef HEDDLE_ONEDNN
}  // namespace onednn
#endif
}  // namespace v0_1
/// @endcond

/// A tag that selects the GPU's overload of a kernel. The CUDA library is compiled separately from the programs that
/// use it, so this name carries no settings.
struct Cuda {};

}  // namespace heddle
