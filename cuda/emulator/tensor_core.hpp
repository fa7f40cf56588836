// The tensor core's instructions on the registers of a warp. The PTX manual assigns elements to lanes in the sections "Matrix Fragments for
// mma.m16n8k16 / m16n8k8" and "ldmatrix".
#pragma once
#include "grid.hpp"

namespace heddle::emulator {

struct Fragments {
  Registers lane[32];
};

// d [16, 8] = a [16, 16] b [16, 8] + c, a and b in bf16.
void multiply_bf16(const Fragments& in, Fragments& out);
// d [16, 8] = a [16, 8] b [8, 8] + c, a and b in tf32: floats of which the last 13 bits do not count.
void multiply_tf32(const Fragments& in, Fragments& out);

// Lane l holds row l % 8 of matrix l / 8, eight bf16; gets of each of the four matrices two neighbours of a row, or of a column.
void distribute_rows(const Fragments& in, Fragments& out);
void distribute_columns(const Fragments& in, Fragments& out);

}  // namespace heddle::emulator
