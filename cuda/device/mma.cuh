// The tensor cores: a warp multiplies small matrices whose elements are spread over its lanes' registers (PTX manual,
// "Matrix Fragments for mma.m16n8k16"). Lane l = 4 g + t holds:
//   a [16, 16] bf16   words 0..3: rows g, g + 8, g, g + 8; columns 2t and 2t + 1, plus 8 in words 2 and 3
//   b [16, 8] bf16    words 0, 1: column g; rows 2t and 2t + 1, plus 8 in word 1
//   c, d [16, 8]      floats 0, 1: row g, columns 2t and 2t + 1; floats 2, 3: the same columns of row g + 8
#pragma once
#include <cstdint>

#include "launch.cuh"

namespace heddle::cuda {

#ifndef __CUDACC__
inline void emulated_mma(emulator::WarpOp op, float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
  emulator::Registers in{{a[0], a[1], a[2], a[3], b[0], b[1]}};
  for (int i = 0; i < 4; ++i) in.word[6 + i] = std::bit_cast<std::uint32_t>(d[i]);
  const emulator::Registers out = emulator::tensor_core(op, in, emulator::Where::current());
  for (int i = 0; i < 4; ++i) d[i] = std::bit_cast<float>(out.word[i]);
}
#endif

// Computes d += a b in bf16 with fp32 sums.
__device__ inline void mma_bf16(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  emulated_mma(emulator::WarpOp::mma_bf16, d, a, b);
#endif
}

// Computes d += a b with a [16, 8] and b [8, 8] in tf32. Words 0..3 of a hold rows g, g + 8, g, g + 8 of columns t, t,
// t + 4, t + 4. Words 0 and 1 of b hold rows t and t + 4 of column g.
__device__ inline void mma_tf32(float (&d)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2]) {
#ifdef __CUDACC__
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, "
      "%3};"
      : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#else
  emulated_mma(emulator::WarpOp::mma_tf32, d, a, b);
#endif
}

// Loads four 8x8 matrices of bf16 from shared memory. Lane l passes the address of row l % 8 (16 bytes) of matrix l /
// 8. Its word m receives elements 2t and 2t + 1 of row g of matrix m, as in fragment a, or in fragment b of a matrix
// that is stored by columns. If `transposed` is true, the word receives elements 2t and 2t + 1 of column g, as in
// fragment b of a matrix that is stored by rows.
template <bool transposed = false>
__device__ void load_matrices(std::uint32_t (&words)[4], const void* row) {
#ifdef __CUDACC__
  const unsigned address = static_cast<unsigned>(__cvta_generic_to_shared(row));
  if constexpr (transposed)
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
  else
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(words[0]), "=r"(words[1]), "=r"(words[2]), "=r"(words[3])
                 : "r"(address)
                 : "memory");
#else
  constexpr std::size_t row_bytes = 16;
  if (reinterpret_cast<std::uintptr_t>(row) % row_bytes)
    emulator::fault("ldmatrix: the address of a row is not a multiple of 16", emulator::Where::current());
  emulator::Registers in{};
  std::memcpy(in.word, row, row_bytes);
  constexpr auto op = transposed ? emulator::WarpOp::load_columns : emulator::WarpOp::load_rows;
  const emulator::Registers out = emulator::tensor_core(op, in, emulator::Where::current());
  for (int i = 0; i < 4; ++i) words[i] = out.word[i];
#endif
}

}  // namespace heddle::cuda
