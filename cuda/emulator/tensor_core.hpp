// The tensor core's instructions on the registers of a warp. The PTX manual assigns elements to lanes in the sections
// "Matrix Fragments for mma.m16n8k16 / m16n8k8" and "ldmatrix".
#pragma once
#include "grid.hpp"

namespace heddle::emulator {

struct Fragments {
  Registers lane[32];
};

// Computes d [16, 8] = a [16, 16] b [16, 8] + c with a and b in bf16.
void multiply_bf16(const Fragments& in, Fragments& out);
// Computes d [16, 8] = a [16, 8] b [8, 8] + c with a and b in tf32: floats whose last 13 bits are ignored.
void multiply_tf32(const Fragments& in, Fragments& out);

// Distribute four 8 x 8 matrices over the lanes (ldmatrix). Lane l passes row l % 8 of matrix l / 8: eight bf16. It
// receives two neighboring elements of a row, or of a column, from each matrix.
void distribute_rows(const Fragments& in, Fragments& out);
void distribute_columns(const Fragments& in, Fragments& out);

}  // namespace heddle::emulator
