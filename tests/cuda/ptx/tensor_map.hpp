// Tensor maps and tiles (PTX ISA, "Tensors": "Tensor Access Modes", "Swizzling Modes", "Tensor-map").
#pragma once
#include "interpreter.hpp"

namespace heddle::ptx {

// The content of a CUtensorMap in the interpreter's own form, because NVIDIA's is not documented.
// cuTensorMapEncodeTiled writes it.
struct TensorMap {
  u64 magic;      // tensor_map_magic
  u64 unused;     // CuTe clears a bit of this word, for the hardware
  u64 base;       // the address of the tensor
  u64 stride[5];  // bytes between the elements of a dimension
  u32 last[5];    // the size of a dimension - 1
  u16 box[5];     // the size of a tile
  u8 rank;        // the number of dimensions
  u8 type;        // a CUtensorMapDataType
  u8 swizzle;     // 0 for none, or 1, 2 or 3 for 32, 64 or 128 bytes: a CUtensorMapSwizzle
  u8 nan;         // whether elements outside of the tensor are NaN instead of zero
  u8 size;        // bytes of an element
};
static_assert(sizeof(TensorMap) <= 128);
constexpr u64 tensor_map_magic = 0x70616d726f736e74ull;

// Returns where a swizzle of 16 << bits bytes moves an address: exclusive or of its bits 4 and up with its bits 7 and
// up. `base_offset` is subtracted from the latter.
inline u32 swizzled(u32 address, u32 bits, u32 base_offset = 0) {
  const u32 pattern = (address >> 7) - base_offset;
  const u32 mask = (1u << bits) - 1;
  return address ^ (pattern & mask) << 4;
}

// A row of a tile: its elements along the first dimension.
struct TileRow {
  u64 address;      // of the element whose first coordinate is 0
  bool is_outside;  // another coordinate lies outside of the tensor
};

inline u64 rows_of_tile(const TensorMap& map) {
  u64 rows = 1;
  for (int d = 1; d < map.rank; ++d) rows *= map.box[d];
  return rows;
}

inline u32 bytes_of_tile(const TensorMap& map) { return static_cast<u32>(rows_of_tile(map)) * map.box[0] * map.size; }

// Returns a row of the tile that starts at `coordinates`.
inline TileRow row_of_tile(const TensorMap& map, const s32 (&coordinates)[5], u64 row) {
  TileRow result{map.base, false};
  for (int d = 1; d < map.rank; ++d) {
    const s64 coordinate = s64{coordinates[d]} + static_cast<s64>(row % map.box[d]);
    row /= map.box[d];
    result.address += static_cast<u64>(coordinate) * map.stride[d];
    result.is_outside |= coordinate < 0 || coordinate > s64{map.last[d]};
  }
  return result;
}

}  // namespace heddle::ptx
