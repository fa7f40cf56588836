// Operands of wgmma in shared memory (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Instructions:
// Shared Memory Matrix Layout", "Matrix Descriptor Format").
#pragma once
#include "tensor_map.hpp"

namespace heddle::ptx {

// The layout of an operand with rows of K columns: A, or B transposed. The manual shows the canonical layouts as
// figures. CUTLASS writes them as functions of a row ((., .), m) and a column (., k), where T is the number of elements
// in 16 bytes (make_gmma_desc in mma_traits_sm90_gmma.hpp):
//
//   K-major,  no swizzle:                      ((8,m),(T,2)):((1T,SBO),(1,LBO))
//   K-major,  32, 64, 128 bytes, W = 2, 4, 8:  ((8,m),(T,2)):((WT,SBO),(1,T))
//   MN-major, no swizzle:                      ((T,1,m),(8,k)):((1,T,SBO),(1T,LBO))
//   MN-major, 32, 64, 128 bytes:               ((T,W,m),(8,k)):((1,T,LBO),(WT,SBO))
//
// The swizzle then changes the address.
class MatrixDescriptor {
 public:
  MatrixDescriptor(u64 bits, u32 element_bytes, bool is_mn_major)
      : start_(decoded(bits)),
        leading_offset_(decoded(bits >> 16)),
        stride_offset_(decoded(bits >> 32)),
        base_offset_(static_cast<u32>(bits >> 49 & 7)),
        swizzle_(bits >> 62 == 0 ? 0 : 4 - static_cast<u32>(bits >> 62)),
        element_bytes_(element_bytes),
        is_mn_major_(is_mn_major) {}

  // Returns the shared address of an element.
  u32 address(u32 row, u32 column) const {
    return swizzled(start_ + (is_mn_major_ ? mn_major(row, column) : k_major(row, column)), swizzle_, base_offset_);
  }

  // Calls f(address) for all pieces of 16 bytes in the rows [begin, end) and the columns [0, columns).
  template <class F>
  void for_pieces(u32 begin, u32 end, u32 columns, F&& f) const {
    const u32 row_step = is_mn_major_ ? elements() : 1;
    const u32 column_step = is_mn_major_ ? 1 : elements();
    for (u32 row = begin; row < end; row += row_step)
      for (u32 column = 0; column < columns; column += column_step) f(address(row, column));
  }

 private:
  static constexpr u32 piece_bytes = 16;

  // Addresses and offsets have 18 bits, and the lowest four are zero and left out.
  static u32 decoded(u64 field) { return static_cast<u32>(field & 0x3fff) << 4; }

  u32 elements() const { return piece_bytes / element_bytes_; }  // T
  u32 width() const { return 1u << swizzle_; }                   // W, and 1 without a swizzle

  u32 k_major(u32 row, u32 column) const {
    const u32 piece = column / elements();
    return row % 8 * width() * piece_bytes + row / 8 * stride_offset_ +
           piece * (swizzle_ ? piece_bytes : leading_offset_) + column % elements() * element_bytes_;
  }

  u32 mn_major(u32 row, u32 column) const {
    const u32 line = elements() * width();  // elements in a line of the swizzle
    const u32 next_line = swizzle_ ? leading_offset_ : stride_offset_;
    const u32 next_columns = swizzle_ ? stride_offset_ : leading_offset_;
    return row % line * element_bytes_ + row / line * next_line + column % 8 * width() * piece_bytes +
           column / 8 * next_columns;
  }

  u32 start_;
  u32 leading_offset_;  // LBO, the leading dimension byte offset
  u32 stride_offset_;   // SBO, the stride dimension byte offset
  u32 base_offset_;
  u32 swizzle_;  // 0 for none, or 1, 2 or 3 for 32, 64 or 128 bytes. The descriptor counts from the other end
  u32 element_bytes_;
  bool is_mn_major_;
};

}  // namespace heddle::ptx
