// cuTensorMapEncodeTiled, which a program gets from cudaGetDriverEntryPoint.
#include "../tensor_map.hpp"

#include <cuda.h>
#include <cuda_runtime_api.h>

namespace heddle::ptx {

namespace {

// The arguments of cuTensorMapEncodeTiled that describe the tensor and its tiles.
struct TileArguments {
  CUtensorMapDataType type;
  u32 rank;
  u64 address;
  const cuuint64_t* dimensions;
  const cuuint64_t* strides;  // bytes, of all dimensions but the first
  const cuuint32_t* box;
  const cuuint32_t* element_strides;
  CUtensorMapSwizzle swizzle;
  CUtensorMapFloatOOBfill fill;
};

// The bytes of an element of each CUtensorMapDataType.
constexpr u8 element_bytes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

u32 swizzle_bytes(CUtensorMapSwizzle swizzle) { return 16u << swizzle; }

// The checks return what is wrong, or an empty string. cuda.h lists the limits.

std::string wrong_dimension(const TileArguments& tile, u32 d) {
  constexpr u64 largest_dimension = 1ull << 32, largest_stride = 1ull << 40;
  constexpr u32 largest_box = 256, largest_element_stride = 8;
  if (tile.dimensions[d] == 0 || tile.dimensions[d] > largest_dimension)
    return "a dimension of " + std::to_string(tile.dimensions[d]);
  if (tile.box[d] == 0 || tile.box[d] > largest_box) return "a box of " + std::to_string(tile.box[d]);
  if (tile.element_strides[d] == 0 || tile.element_strides[d] > largest_element_stride)
    return "an element stride of " + std::to_string(tile.element_strides[d]);
  if (d == 0) return "";
  if (tile.element_strides[d] != 1) unsupported("tensor maps with element strides");
  const u64 stride = tile.strides[d - 1];
  return stride % 16 || stride >= largest_stride ? "a stride of " + std::to_string(stride) : "";
}

std::string wrong_box(const TileArguments& tile) {
  const u32 inner = tile.box[0] * element_bytes[tile.type];
  const std::string size = "the inner dimension of the box has " + std::to_string(inner) + " bytes, ";
  if (inner % 16) return size + "not a multiple of 16";
  if (tile.swizzle == CU_TENSOR_MAP_SWIZZLE_NONE) return "";
  if (inner > swizzle_bytes(tile.swizzle)) return size + "more than the swizzle";
  if (inner < swizzle_bytes(tile.swizzle)) unsupported("a box narrower than its swizzle");
  return "";
}

std::string wrong_tile(const TileArguments& tile) {
  if (tile.rank < 1 || tile.rank > 5) return "a rank of " + std::to_string(tile.rank);
  if (!tile.strides) return "there are no strides";  // the driver wants a pointer even for one dimension
  if (tile.address % 16) return "the address is not a multiple of 16";
  if (tile.fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA && tile.type < CU_TENSOR_MAP_DATA_TYPE_FLOAT16)
    return "integers outside of the tensor cannot be NaN";
  for (u32 d = 0; d < tile.rank; ++d)
    if (const std::string wrong = wrong_dimension(tile, d); !wrong.empty()) return wrong;
  if (const std::string wrong = wrong_box(tile); !wrong.empty()) return wrong;
  return region_of(tile.address) ? "" : "the address is not in device memory";
}

TensorMap encoded(const TileArguments& tile) {
  TensorMap map{};
  map.magic = tensor_map_magic;
  map.base = tile.address;
  map.rank = static_cast<u8>(tile.rank);
  map.type = static_cast<u8>(tile.type);
  map.size = element_bytes[tile.type];
  map.swizzle = static_cast<u8>(tile.swizzle);
  map.nan = tile.fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
  for (u32 d = 0; d < tile.rank; ++d) {
    map.last[d] = static_cast<u32>(tile.dimensions[d] - 1);
    map.box[d] = static_cast<u16>(tile.box[d]);
    map.stride[d] = d > 0 ? tile.strides[d - 1] : map.size;
  }
  return map;
}

CUresult refuse_map(const std::string& reason) {
  std::fprintf(stderr, "ptx: refused: cuTensorMapEncodeTiled: %s\n", reason.c_str());
  std::fflush(stderr);
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult encode_tiled(CUtensorMap* result, CUtensorMapDataType type, cuuint32_t rank, void* address,
                      const cuuint64_t* dimensions, const cuuint64_t* strides, const cuuint32_t* box,
                      const cuuint32_t* element_strides, CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle,
                      CUtensorMapL2promotion, CUtensorMapFloatOOBfill fill) {
  if (type > CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ) unsupported("tensor maps of packed types");
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) unsupported("interleaved tensor maps");
  if (swizzle > CU_TENSOR_MAP_SWIZZLE_128B) unsupported("tensor maps with swizzle atoms of 32 or 64 bytes");
  if (!result || reinterpret_cast<u64>(result) % 64) return refuse_map("the map is not aligned to 64 bytes");
  const TileArguments tile{type,    rank, reinterpret_cast<u64>(address), dimensions, strides, box, element_strides,
                           swizzle, fill};
  if (const std::string wrong = wrong_tile(tile); !wrong.empty()) return refuse_map(wrong);
  const TensorMap map = encoded(tile);
  std::memset(result, 0, sizeof(*result));
  std::memcpy(result, &map, sizeof(map));
  return CUDA_SUCCESS;
}

cudaError_t find_entry_point(const char* symbol, void** function, cudaDriverEntryPointQueryResult* status) {
  const bool is_known = std::string(symbol) == "cuTensorMapEncodeTiled";
  *function = is_known ? reinterpret_cast<void*>(encode_tiled) : nullptr;
  if (status) *status = is_known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // namespace
}  // namespace heddle::ptx

extern "C" {

#undef cudaGetDriverEntryPoint
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** function, unsigned long long,
                                    cudaDriverEntryPointQueryResult* status) {
  return heddle::ptx::find_entry_point(symbol, function, status);
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** function, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  return heddle::ptx::find_entry_point(symbol, function, status);
}

}  // extern "C"
