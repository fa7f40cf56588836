// Matrix instructions of a warp: ldmatrix, stmatrix and mma (PTX ISA, "Warp Level Matrix Load Instruction", "Warp Level
// Matrix Store Instruction", "Matrix Fragments for mma.m16n8k8" and "mma.m16n8k16"). They need all lanes of a warp.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "memory.hpp"

namespace heddle::ptx {

inline void require_whole_warp(Warp& warp, const Instruction& instruction, u32 mask, const char* name) {
  if (mask == all) return;
  fault(warp, instruction, 0, illegal_instruction, std::string(name) + " by a part of a warp");
}

// ldmatrix and stmatrix move up to four matrices of 8 x 8 elements of 16 bits. instruction.modifier is their number,
// and instruction.modifier2 says whether they are transposed. Lane 8 m + r passes the address of row r of matrix m.
// Register v[m] of lane l holds two elements: of row l / 4 and columns 2 (l % 4) and 2 (l % 4) + 1, or of the
// transposed matrix.

// The lanes whose addresses are used.
inline u32 row_lanes(int matrices) { return all >> (32 - 8 * matrices); }

inline void ldmatrix(Warp& warp, const Instruction& instruction, u32 mask) {
  require_whole_warp(warp, instruction, mask, "ldmatrix");
  const int matrices = instruction.modifier;
  const bool is_transposed = instruction.modifier2;
  u64 at[32];
  addresses(warp, instruction, instruction.a, instruction.imm, at);
  count_access<s_shared>(warp, at, row_lanes(matrices), 16, false);
  u16 m[4][8][8];
  for (int lane = 0; lane < 8 * matrices; ++lane)
    std::memcpy(m[lane / 8][lane % 8], pointer<s_shared>(warp, instruction, lane, at[lane], 16, false), 16);
  for (int matrix = 0; matrix < matrices; ++matrix) {
    u32* d = register_lanes<u32>(warp, instruction.v[matrix]);
    for (int lane = 0; lane < 32; ++lane) {
      const int row = lane / 4;
      const int column = lane % 4 * 2;
      const auto element = [&](int i) {
        return is_transposed ? m[matrix][column + i][row] : m[matrix][row][column + i];
      };
      d[lane] = u32{element(0)} | u32{element(1)} << 16;
    }
  }
}

inline void stmatrix(Warp& warp, const Instruction& instruction, u32 mask) {
  require_whole_warp(warp, instruction, mask, "stmatrix");
  const int matrices = instruction.modifier;
  const bool is_transposed = instruction.modifier2;
  u64 at[32];
  addresses(warp, instruction, instruction.a, instruction.imm, at);
  count_access<s_shared>(warp, at, row_lanes(matrices), 16, true);
  for (int matrix = 0; matrix < matrices; ++matrix) {
    const u32* values = register_lanes<u32>(warp, instruction.v[matrix]);
    u16 m[8][8];
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 2; ++i) {
        const int row = lane / 4;
        const int column = lane % 4 * 2 + i;
        (is_transposed ? m[column][row] : m[row][column]) = static_cast<u16>(values[lane] >> 16 * i);
      }
    for (int row = 0; row < 8; ++row) {
      const int lane = 8 * matrix + row;
      std::memcpy(pointer<s_shared>(warp, instruction, lane, at[lane], 16, true), m[row], 16);
    }
  }
}

// Adds terms like a tensor core: aligns them to the greatest exponent, cuts them off two bits below fp32's last bit,
// and cuts off the sum.
template <int count>
float truncated_sum(const double (&terms)[count]) {
  constexpr int none = std::numeric_limits<int>::min();
  int exponent = none;
  double sum = 0;
  for (const double term : terms) {
    sum += term;
    if (std::isfinite(term) && term != 0) exponent = std::max(exponent, std::ilogb(term));
  }
  if (!std::isfinite(sum)) return to_float(sum);
  if (exponent == none) return 0;
  const double unit = std::ldexp(1.0, exponent - 25);
  double truncated = 0;
  for (const double term : terms) truncated += std::trunc(term / unit);
  truncated *= unit;
  const float result = static_cast<float>(truncated);
  return std::fabs(double{result}) > std::fabs(truncated) ? std::nextafterf(result, 0) : result;
}

// Adds a row of the product of a [1, K] and b [K, 8] to c [1, 8]. The sum is exact but for one rounding or, with
// PTX_MMA=truncate, that of a tensor core.
template <int K>
inline void dot_row(const float* a, const float (*b)[8], float* c) {
  if (options.mma_hw) {
    for (int column = 0; column < 8; ++column) {
      double terms[K + 1];
      for (int k = 0; k < K; ++k) terms[k] = double{a[k]} * double{b[k][column]};
      terms[K] = c[column];
      c[column] = truncated_sum(terms);
    }
    return;
  }
  double sums[8];
  for (int column = 0; column < 8; ++column) sums[column] = c[column];
  for (int k = 0; k < K; ++k) {
    const double factor = a[k];
    for (int column = 0; column < 8; ++column) sums[column] += factor * double{b[k][column]};
  }
  for (int column = 0; column < 8; ++column) c[column] = to_float(sums[column]);
}

// The registers of an mma, whose address is instruction.imm.
struct MmaOperands {
  Operand d[4], a[4], b[2], c[4];
};

// The place of an accumulator in the 16 x 8 matrix.
struct AccumulatorPlace {
  AccumulatorPlace(int lane, int word) : row(lane / 4 + word / 2 * 8), column(lane % 4 * 2 + word % 2) {}
  int row, column;
};

// Sets operands.d to a b + operands.c.
template <int K>
void multiply(Warp& warp, const MmaOperands& operands, const float (&a)[16][K], const float (&b)[K][8]) {
  float c[16][8];
  for (int word = 0; word < 4; ++word) {
    const float* from = register_lanes<float>(warp, operands.c[word]);
    for (int lane = 0; lane < 32; ++lane) {
      const AccumulatorPlace at(lane, word);
      c[at.row][at.column] = from[lane];
    }
  }
  for (int row = 0; row < 16; ++row) dot_row<K>(a[row], b, c[row]);
  for (int word = 0; word < 4; ++word) {
    float* to = register_lanes<float>(warp, operands.d[word]);
    for (int lane = 0; lane < 32; ++lane) {
      const AccumulatorPlace at(lane, word);
      to[lane] = c[at.row][at.column];
    }
  }
}

// mma.m16n8k16 of f16 if `half`, else of bf16. A register holds two elements.
template <bool half>
void mma_16bit(Warp& warp, const Instruction& instruction, u32 mask) {
  require_whole_warp(warp, instruction, mask, "mma");
  const MmaOperands& operands = *reinterpret_cast<const MmaOperands*>(instruction.imm);
  const auto element = [](u32 pair, int i) {
    const u16 bits = static_cast<u16>(pair >> 16 * i);
    return half ? from_f16(bits) : from_bf16(bits);
  };
  float a[16][16], b[16][8];
  for (int word = 0; word < 4; ++word) {
    const u32* from = register_lanes<u32>(warp, operands.a[word]);
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 2; ++i) a[lane / 4 + word % 2 * 8][lane % 4 * 2 + i + word / 2 * 8] = element(from[lane], i);
  }
  for (int word = 0; word < 2; ++word) {
    const u32* from = register_lanes<u32>(warp, operands.b[word]);
    for (int lane = 0; lane < 32; ++lane)
      for (int i = 0; i < 2; ++i) b[lane % 4 * 2 + i + word * 8][lane / 4] = element(from[lane], i);
  }
  multiply(warp, operands, a, b);
}

// mma.m16n8k8 of tf32.
inline void mma_tf32(Warp& warp, const Instruction& instruction, u32 mask) {
  require_whole_warp(warp, instruction, mask, "mma");
  const MmaOperands& operands = *reinterpret_cast<const MmaOperands*>(instruction.imm);
  float a[16][8], b[8][8];
  for (int word = 0; word < 4; ++word) {
    const u32* from = register_lanes<u32>(warp, operands.a[word]);
    for (int lane = 0; lane < 32; ++lane) a[lane / 4 + word % 2 * 8][lane % 4 + word / 2 * 4] = from_tf32(from[lane]);
  }
  for (int word = 0; word < 2; ++word) {
    const u32* from = register_lanes<u32>(warp, operands.b[word]);
    for (int lane = 0; lane < 32; ++lane) b[lane % 4 + word * 4][lane / 4] = from_tf32(from[lane]);
  }
  multiply(warp, operands, a, b);
}

}  // namespace heddle::ptx
