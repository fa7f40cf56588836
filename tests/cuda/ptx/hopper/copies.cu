// Bulk copies and copies of tensors against plain loops.
#include "instructions.cuh"
#include "tests.hpp"

namespace heddle::testing::hopper {

namespace {

constexpr int warp = 32, most_dimensions = 5;

struct Tile {
  int rank;
  int coordinates[most_dimensions];
  int bytes;
};

__device__ void load_tile_of_rank(u32 to, const CUtensorMap* map, const Tile& tile, u32 mbarrier) {
  const auto& x = tile.coordinates;
  switch (tile.rank) {
    case 1:
      asm volatile(
          "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%0], [%1, {%3}], [%2];" ::
              "r"(to),
          "l"(map), "r"(mbarrier), "r"(x[0])
          : "memory");
      break;
    case 2: load_tile(to, map, x[0], x[1], mbarrier); break;
    case 3:
      asm volatile(
          "cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
          "[%0], [%1, {%3, %4, %5}], [%2];" ::"r"(to),
          "l"(map), "r"(mbarrier), "r"(x[0]), "r"(x[1]), "r"(x[2])
          : "memory");
      break;
    case 4:
      asm volatile(
          "cp.async.bulk.tensor.4d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
          "[%0], [%1, {%3, %4, %5, %6}], [%2];" ::"r"(to),
          "l"(map), "r"(mbarrier), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3])
          : "memory");
      break;
    default:
      asm volatile(
          "cp.async.bulk.tensor.5d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
          "[%0], [%1, {%3, %4, %5, %6, %7}], [%2];" ::"r"(to),
          "l"(map), "r"(mbarrier), "r"(x[0]), "r"(x[1]), "r"(x[2]), "r"(x[3]), "r"(x[4])
          : "memory");
  }
}

__global__ void copy_tile(const __grid_constant__ CUtensorMap map, Tile tile, uint4* out) {
  extern __shared__ __align__(1024) u8 memory[];
  __shared__ u64 barrier;
  const u32 mbarrier = shared_address(&barrier);
  if (threadIdx.x == 0) {
    mbarrier_init(mbarrier, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) {
    asm volatile("prefetch.tensormap [%0];" ::"l"(&map) : "memory");
    mbarrier_arrive_expect_tx(mbarrier, static_cast<u32>(tile.bytes));
    load_tile_of_rank(shared_address(memory), &map, tile, mbarrier);
  }
  // Both forms of waiting.
  if (threadIdx.x % 2) {
    mbarrier_wait(mbarrier, 0);
  } else {
    while (!mbarrier_test(mbarrier, 0)) continue;
  }
  __syncwarp();
  for (u32 i = threadIdx.x; i < static_cast<u32>(tile.bytes) / 16; i += blockDim.x)
    out[i] = reinterpret_cast<uint4*>(memory)[i];
}

constexpr u16 nan_fill = 0x7ff7;

// The position of a tile relative to its tensor.
enum class Place { inside, before_begin, across_end, behind_end };

// A tensor of 16-bit elements, and a tile of it. The rows of the tensor have 80 elements in memory.
struct TileCase {
  static constexpr int row_elements = 80;
  static constexpr int sizes[most_dimensions] = {72, 11, 5, 3, 2}, boxes[most_dimensions] = {0, 4, 3, 2, 2};

  TileCase(int rank, int swizzle, Place place) : swizzle(swizzle), tile{rank, {}, 0} {
    const int inner = swizzle == CU_TENSOR_MAP_SWIZZLE_NONE ? 24 : 8 << swizzle;
    int stride = row_elements;
    for (int d = 0; d < rank; ++d) {
      // An odd size, where the end of the tensor cuts through pieces of 16 bytes.
      const bool is_odd = d == 0 && place != Place::inside;
      size.push_back(static_cast<cuuint64_t>(sizes[d] - is_odd));
      box.push_back(static_cast<cuuint32_t>(d == 0 ? inner : boxes[d]));
      elements *= static_cast<int>(box.back());
      tile.coordinates[d] = coordinate(d, place);
      if (d == 0) continue;
      strides.push_back(static_cast<cuuint64_t>(stride) * sizeof(u16));
      stride *= sizes[d];
    }
    total = stride;
    tile.bytes = elements * static_cast<int>(sizeof(u16));
  }

  int coordinate(int d, Place place) const {
    switch (place) {
      case Place::inside: return d == 0 ? 8 : 1;
      case Place::before_begin: return d == 0 ? -8 : d - 3;
      case Place::across_end: return d == 0 ? 64 : sizes[d] - static_cast<int>(box[size_of(d)]) / 2 - 1;
      default: return d == 0 ? row_elements : 0;
    }
  }

  // Returns the position in the tile after its swizzle.
  int swizzled(int element) const {
    const int inner = static_cast<int>(box[0]), line = element / inner;
    int piece = element % inner / 8;
    if (swizzle == CU_TENSOR_MAP_SWIZZLE_128B) piece ^= line % 8;
    if (swizzle == CU_TENSOR_MAP_SWIZZLE_64B) piece ^= line / 2 % 4;
    if (swizzle == CU_TENSOR_MAP_SWIZZLE_32B) piece ^= line / 4 % 2;
    return line * inner + piece * 8 + element % 8;
  }

  // Returns the position of an element of the tile in the tensor, or -1 if it lies outside.
  int source(int element) const {
    int position = 0;
    for (int d = 0; d < tile.rank; ++d) {
      const int extent = static_cast<int>(box[size_of(d)]);
      const int x = tile.coordinates[d] + element % extent;
      element /= extent;
      if (x < 0 || x >= static_cast<int>(size[size_of(d)])) return -1;
      position += d == 0 ? x : x * static_cast<int>(strides[size_of(d - 1)] / sizeof(u16));
    }
    return position;
  }

  int swizzle;
  Tile tile;
  Sizes size, strides;
  std::vector<cuuint32_t> box;
  int elements = 1;  // of the tile
  int total = 0;     // of the tensor
};

void check_tile(const TileCase& c, bool fills_with_nan) {
  std::vector<u16> values;
  for (int i = 0; i < c.total; ++i) values.push_back(static_cast<u16>(i * 7 + 1));
  const DeviceArray<u16> x(values);
  const DeviceArray<u16> y(size_of(c.elements));
  copy_tile<<<1, 64, c.tile.bytes>>>(tensor_map(CU_TENSOR_MAP_DATA_TYPE_BFLOAT16, x.data(), c.size, c.strides, c.box,
                                                static_cast<CUtensorMapSwizzle>(c.swizzle), fills_with_nan),
                                     c.tile, reinterpret_cast<uint4*>(y.data()));
  cuda::check(cudaGetLastError(), "launch");
  const std::vector<u16> copied = y.host();
  const std::string what = "an element of a tile of " + std::to_string(c.tile.rank) + " dimensions with swizzle " +
                           std::to_string(c.swizzle);
  for (int element = 0; element < c.elements; ++element) {
    const u16 actual = copied[size_of(c.swizzled(element))];
    const int source = c.source(element);
    if (source >= 0)
      expect_equal(what, actual, values[size_of(source)]);
    else
      expect_equal(what + " outside of its tensor", actual, fills_with_nan ? nan_fill : 0);
  }
}

constexpr int elements = 256, bulk_bytes = elements * 4;
constexpr int stored_column = 8;  // the tile reaches beyond the tensor

__device__ void load_in_parts(u32 to, const float* from, int parts, u32 mbarrier) {
  mbarrier_arrive_expect_tx(mbarrier, bulk_bytes);
  const int part_bytes = bulk_bytes / parts;
  for (int i = 0; i < parts; ++i)
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
                     to + static_cast<u32>(i * part_bytes)),
                 "l"(from + i * part_bytes / 4), "r"(part_bytes), "r"(mbarrier)
                 : "memory");
}

// Stores x + 1 to y, adds it to the values behind, and stores it to one tensor and adds it to the other one.
__global__ void copy_through(const float* x, float* y, const __grid_constant__ CUtensorMap stored,
                             const __grid_constant__ CUtensorMap added, CopyFault fault) {
  __shared__ __align__(128) float tile[elements];
  __shared__ u64 barrier;
  const u32 mbarrier = shared_address(&barrier), from = shared_address(tile);
  if (threadIdx.x == 0) {
    mbarrier_init(mbarrier, 1);
    fence_mbarrier_init();
  }
  __syncthreads();
  if (threadIdx.x == 0) load_in_parts(from, x, 4, mbarrier);
  mbarrier_wait(mbarrier, 0);
  for (u32 i = threadIdx.x; i < elements; i += warp) tile[i] += 1;
  if (fault != CopyFault::no_proxy_fence) fence_proxy_async();
  __syncwarp();
  if (threadIdx.x == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(y), "r"(from), "r"(bulk_bytes)
                 : "memory");
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.f32 [%0], [%1], %2;" ::"l"(y + elements),
                 "r"(from), "r"(bulk_bytes)
                 : "memory");
    bulk_commit_group();
    store_tile(&stored, fault == CopyFault::odd_column ? 6 : stored_column, fault == CopyFault::negative ? -3 : 3,
               from);
    asm volatile(
        "cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&added),
        "r"(4), "r"(0), "r"(from)
        : "memory");
    bulk_commit_group();
    if (fault != CopyFault::no_wait) bulk_wait_group_read();
  }
  __syncwarp();
  for (u32 i = threadIdx.x; i < elements; i += warp) tile[i] = -1;
  if (threadIdx.x == 0) bulk_wait_group();
}

// The tensors: rows of 24 elements in memory, of which the map has 16, and one row less than there are.
constexpr int tensor_rows = 12, row_stride = 24, mapped_rows = 11, mapped_columns = 16, box = 16;
constexpr float background = 100;

CUtensorMap map_of(const DeviceArray<float>& tensor, cuuint64_t columns = mapped_columns) {
  return tensor_map(CU_TENSOR_MAP_DATA_TYPE_FLOAT32, tensor.data(), {columns, mapped_rows}, {row_stride * 4},
                    {box, box}, CU_TENSOR_MAP_SWIZZLE_NONE);
}

void compare_tensors(const std::vector<float>& stored, const std::vector<float>& added) {
  for (int row = 0; row < tensor_rows; ++row)
    for (int column = 0; column < row_stride; ++column) {
      const bool is_mapped = row < mapped_rows && column < mapped_columns;
      const bool is_stored = is_mapped && row >= 3 && column >= stored_column;
      const bool is_added = is_mapped && column >= 4;
      const std::size_t i = size_of(row * row_stride + column);
      expect_equal("a stored element of a tensor", stored[i],
                   is_stored ? static_cast<float>((row - 3) * box + column - stored_column + 1) : background);
      expect_equal("a sum in a tensor", added[i],
                   background + (is_added ? static_cast<float>(row * box + column - 4 + 1) : 0));
    }
}

}  // namespace

void check_tiles() {
  for (int rank = 1; rank <= most_dimensions; ++rank)
    for (int swizzle = CU_TENSOR_MAP_SWIZZLE_NONE; swizzle <= CU_TENSOR_MAP_SWIZZLE_128B; ++swizzle)
      for (const Place place : {Place::inside, Place::before_begin, Place::across_end, Place::behind_end})
        for (const bool fills_with_nan : {false, true}) check_tile(TileCase(rank, swizzle, place), fills_with_nan);
}

void check_copies(CopyFault fault) {
  std::vector<float> values;
  for (int i = 0; i < elements; ++i) values.push_back(static_cast<float>(i));
  constexpr float summand = 5;
  const DeviceArray<float> x(values), y(std::vector<float>(2 * elements, summand));
  const DeviceArray<float> stored(std::vector<float>(tensor_rows * row_stride, background));
  const DeviceArray<float> added(std::vector<float>(tensor_rows * row_stride, background));
  copy_through<<<1, warp>>>(x.data(), y.data(), map_of(stored),
                            map_of(added, fault == CopyFault::ragged_end ? mapped_columns + 2 : mapped_columns), fault);
  cuda::check(cudaGetLastError(), "launch");
  const std::vector<float> copied = y.host();
  for (int i = 0; i < elements; ++i) {
    expect_equal("a stored element", copied[size_of(i)], static_cast<float>(i) + 1);
    expect_equal("a sum", copied[size_of(elements + i)], static_cast<float>(i) + 1 + summand);
  }
  compare_tensors(stored.host(), added.host());
}

}  // namespace heddle::testing::hopper
