#include "bulk_copy.hpp"

#include <cuda.h>

#include <algorithm>
#include <deque>
#include <random>

#include "report.hpp"
#include "tensor_map.hpp"

namespace heddle::ptx {

namespace {

// A copy that has been issued and not performed.
struct BulkCopy {
  const Instruction* instruction;
  const BulkOperands* operands;
  int warp, lane;
  u32 shared;  // address
  u64 global;  // address, or that of the tensor map
  u32 bytes;
  TensorMap map;
  s32 coordinates[5];

  // Only for loads.
  u32 mbarrier;  // its address
  u64 phase;     // the phase that waits for the copy

  // Only for stores.
  u32 group;
  u32 time;
  bool has_read = false;  // whether `data` is what it stores
  std::vector<u8> data;
};

// The stores that a warp has issued, as an agent of clocks.hpp, and the committed groups of each lane.
struct WarpStores {
  u32 time = 0;
  u32 groups[32]{};
};

// The data of the block that runs.
struct State {
  std::deque<BulkCopy> loads, stores;
  WarpStores warps[32];
  std::mt19937_64 random{1};
} state;

WarpStores& stores_of(const Warp& warp) { return state.warps[warp.id]; }

constexpr u32 piece_bytes = 16;

// Calls f(shared address, global address, bytes) for the pieces of a row of a tile from `shared` on. An element outside
// of the tensor is a piece with the global address 0.
template <class F>
void for_pieces_of_row(const TensorMap& map, s32 first, const TileRow& row, u32 shared, F&& f) {
  const s64 elements = piece_bytes / map.size;
  const s64 end = s64{map.last[0]} + 1;
  const auto global = [&](s64 x) { return row.address + static_cast<u64>(x) * map.size; };
  for (u32 offset = 0; offset < u32{map.box[0]} * map.size; offset += piece_bytes) {
    const u32 to = swizzled(shared + offset, map.swizzle);
    const s64 x = s64{first} + offset / map.size;
    if (!row.is_outside && x >= 0 && x + elements <= end) {
      f(to, global(x), piece_bytes);
      continue;
    }
    for (s64 i = 0; i < elements; ++i) {
      const bool is_inside = !row.is_outside && x + i >= 0 && x + i < end;
      f(to + static_cast<u32>(i) * map.size, is_inside ? global(x + i) : 0, u32{map.size});
    }
  }
}

// Calls f(shared address, global address, bytes) for the pieces of a copy.
template <class F>
void for_pieces(const BulkCopy& copy, F&& f) {
  if (!copy.operands->is_tensor) {
    for (u32 offset = 0; offset < copy.bytes; offset += piece_bytes)
      f(copy.shared + offset, copy.global + offset, piece_bytes);
    return;
  }
  const TensorMap& map = copy.map;
  const u32 row_bytes = u32{map.box[0]} * map.size;
  for (u64 row = 0; row < rows_of_tile(map); ++row)
    for_pieces_of_row(map, copy.coordinates[0], row_of_tile(map, copy.coordinates, row),
                      copy.shared + static_cast<u32>(row) * row_bytes, f);
}

u8* global_bytes(Warp& warp, const BulkCopy& copy, u64 address, u32 bytes) {
  const Region* region = region_of(address);
  if (!region || address + bytes > region->hi)
    fault(warp, *copy.instruction, copy.lane, illegal_address,
          "a bulk copy of " + std::to_string(bytes) + " bytes at " + hex(address) + ": " +
              (region ? "runs past the end of its allocation" : "no allocation"));
  return reinterpret_cast<u8*>(address + (region->host ? 0 : delta));
}

u8* shared_bytes(Warp& warp, const BulkCopy& copy, u32 address, u32 bytes) {
  const u32 checked = shared_address(warp, *copy.instruction, copy.lane, address, bytes, 1);
  return warp.block->shared.data() + (checked - shared_base);
}

// Fills an element outside of a tensor.
void fill(u8* to, const TensorMap& map) {
  constexpr u64 nan = 0x7ff77ff77ff77ff7ull;  // as an H200 does for every type
  const u64 bits = map.nan ? nan : 0;
  std::memcpy(to, &bits, map.size);
}

// Performs a load. `instruction` and `lane` are those that complete the phase.
void perform_load(Warp& warp, const Instruction& instruction, int lane, const BulkCopy& copy) {
  for_pieces(copy, [&](u32 shared, u64 global, u32 bytes) {
    u8* to = shared_bytes(warp, copy, shared, bytes);
    if (global)
      std::memcpy(to, global_bytes(warp, copy, global, bytes), bytes);
    else
      fill(to, copy.map);
  });
  Mbarrier& mbarrier = mbarrier_at(warp, *copy.instruction, copy.lane, copy.mbarrier);
  add_tx(warp, *copy.instruction, copy.lane, mbarrier, -s64{copy.bytes});
  complete_phase(warp, instruction, lane, mbarrier);
}

void issue_load(Warp& warp, BulkCopy& copy, u64 mbarrier_address) {
  const Instruction& instruction = *copy.instruction;
  const Mbarrier& mbarrier = mbarrier_at(warp, instruction, copy.lane, mbarrier_address);
  if (!mbarrier.pending && !mbarrier.tx_count)
    fault(warp, instruction, copy.lane, illegal_instruction,
          "a copy to an mbarrier that expects nothing; " + describe(mbarrier));
  copy.mbarrier = mbarrier.address;
  copy.phase = mbarrier.phase;
  // The copy writes all bytes of an aligned tile: a swizzle only permutes them.
  watch_access(warp, instruction,
               {copy.shared - shared_base, copy.bytes, true, true, mbarrier_agent(mbarrier.index),
                static_cast<u32>(mbarrier.phase) + 1});
  if (options.early_copies)
    perform_load(warp, instruction, copy.lane, copy);
  else
    state.loads.push_back(copy);
}

void read_source(Warp& warp, BulkCopy& copy) {
  if (copy.has_read) return;
  copy.has_read = true;
  for_pieces(copy, [&](u32 shared, u64, u32 bytes) {
    const u8* from = shared_bytes(warp, copy, shared, bytes);
    copy.data.insert(copy.data.end(), from, from + bytes);
  });
}

// Returns the type of the elements of a reduction, or Type::none for one that is not supported.
Type type_of_reduction(const BulkCopy& copy) {
  if (!copy.operands->is_tensor) return copy.operands->type;
  switch (copy.map.type) {
    case CU_TENSOR_MAP_DATA_TYPE_UINT32: return Type::uint32;
    case CU_TENSOR_MAP_DATA_TYPE_INT32: return Type::int32;
    case CU_TENSOR_MAP_DATA_TYPE_UINT64: return Type::uint64;
    case CU_TENSOR_MAP_DATA_TYPE_INT64: return Type::int64;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT16: return Type::f16;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32:
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT32_FTZ:
    case CU_TENSOR_MAP_DATA_TYPE_TFLOAT32: return Type::f32;
    case CU_TENSOR_MAP_DATA_TYPE_FLOAT64: return Type::f64;
    case CU_TENSOR_MAP_DATA_TYPE_BFLOAT16: return Type::bf16;
    default: return Type::none;
  }
}

// Replaces each element x of `to` by f(x, y), where y is that of `from`.
template <class T, class F>
void combine_elements(u8* to, const u8* from, u32 bytes, F&& f) {
  for (u32 offset = 0; offset < bytes; offset += sizeof(T)) {
    T x, y;
    std::memcpy(&x, to + offset, sizeof(T));
    std::memcpy(&y, from + offset, sizeof(T));
    x = f(x, y);
    std::memcpy(to + offset, &x, sizeof(T));
  }
}

// Reduces the elements of `from` into those of `to`. Returns false if the type is not supported.
bool reduce_elements(Type type, AtomOp operation, u8* to, const u8* from, u32 bytes) {
  const auto reduce = [&](auto x, auto y) {
    using T = decltype(x);
    return operation == a_add ? static_cast<T>(x + y) : operation == a_max ? std::max(x, y) : std::min(x, y);
  };
  const auto reduce_f16 = [&](u16 x, u16 y) { return to_f16(reduce(from_f16(x), from_f16(y))); };
  const auto reduce_bf16 = [&](u16 x, u16 y) { return to_bf16(reduce(from_bf16(x), from_bf16(y))); };
  switch (type) {
    case Type::uint32: combine_elements<u32>(to, from, bytes, reduce); return true;
    case Type::int32: combine_elements<s32>(to, from, bytes, reduce); return true;
    case Type::uint64: combine_elements<u64>(to, from, bytes, reduce); return true;
    case Type::int64: combine_elements<s64>(to, from, bytes, reduce); return true;
    case Type::f32: combine_elements<float>(to, from, bytes, reduce); return true;
    case Type::f64: combine_elements<double>(to, from, bytes, reduce); return true;
    case Type::f16: combine_elements<u16>(to, from, bytes, reduce_f16); return true;
    case Type::bf16: combine_elements<u16>(to, from, bytes, reduce_bf16); return true;
    default: return false;
  }
}

void perform_store(Warp& warp, BulkCopy& copy) {
  read_source(warp, copy);
  const BulkOperands& operands = *copy.operands;
  const u8* from = copy.data.data();
  for_pieces(copy, [&](u32, u64 global, u32 bytes) {
    const u8* piece = from;
    from += bytes;
    if (!global) return;
    u8* to = global_bytes(warp, copy, global, bytes);
    if (operands.kind == BulkOperands::store)
      std::memcpy(to, piece, bytes);
    else if (!reduce_elements(type_of_reduction(copy), operands.operation, to, piece, bytes))
      fault(warp, *copy.instruction, copy.lane, illegal_instruction, "a reduction of elements of this type");
  });
}

void issue_store(Warp& warp, BulkCopy& copy) {
  WarpStores& stores = stores_of(warp);
  copy.group = stores.groups[copy.lane];
  copy.time = ++stores.time;
  watch_access(warp, *copy.instruction,
               {copy.shared - shared_base, copy.bytes, false, true, store_agent(warp), copy.time});
  if (options.early_copies) read_source(warp, copy);
  state.stores.push_back(std::move(copy));
}

// Returns operand + offset of a lane.
u64 value_of(Warp& warp, const Operand& operand, int lane, s64 offset = 0) {
  const u64 value =
      operand.size == 8 ? register_lanes<u64>(warp, operand)[lane] : register_lanes<u32>(warp, operand)[lane];
  return value + static_cast<u64>(offset);
}

// Reports tiles that an H200 does not store as the PTX ISA says. One that begins before its tensor, in either dimension
// of a tile of floats, is an illegal instruction. A reduction across the end of the rows changes whole pieces of 16
// bytes, also beyond the end; whether a store does has not been tried.
void check_stored_tile(Warp& warp, const BulkCopy& copy) {
  const TensorMap& map = copy.map;
  for (int d = 0; d < map.rank; ++d)
    if (copy.coordinates[d] < 0)
      fault(warp, *copy.instruction, copy.lane, illegal_instruction,
            "a store of a tile that begins at " + std::to_string(copy.coordinates[d]) + " in dimension " +
                std::to_string(d));
  const s64 columns = s64{map.last[0]} + 1, bytes = columns * map.size;
  if (bytes % 16 && copy.coordinates[0] < columns && copy.coordinates[0] + s64{map.box[0]} > columns)
    fault(warp, *copy.instruction, copy.lane, illegal_address,
          "a store of a tile across the end of rows of " + std::to_string(bytes) + " bytes, not a multiple of 16");
}

// Reads the tensor map of a copy and its coordinates. The map is a parameter of the kernel or lies in global memory.
void read_tensor_map(Warp& warp, BulkCopy& copy) {
  constexpr u32 alignment = 64, map_bytes = 128;
  const Instruction& instruction = *copy.instruction;
  const auto& params = warp.block->params;
  if (copy.global % alignment)
    fault(warp, instruction, copy.lane, misaligned, "a tensor map that is not aligned to 64 bytes");
  const bool is_param = copy.global >= param_window;
  const u64 offset = copy.global - param_window;
  if (is_param && offset + map_bytes > params.size())
    fault(warp, instruction, copy.lane, illegal_address, "a tensor map beyond the parameters");
  std::memcpy(&copy.map, is_param ? params.data() + offset : global_bytes(warp, copy, copy.global, map_bytes),
              sizeof(TensorMap));
  if (copy.map.magic != tensor_map_magic)
    fault(warp, instruction, copy.lane, illegal_instruction, "no tensor map at " + hex(copy.global));
  const u8 rank = copy.operands->rank;
  if (copy.map.rank != rank)
    fault(warp, instruction, copy.lane, illegal_instruction,
          "a tensor map of " + std::to_string(copy.map.rank) + " dimensions in an instruction for " +
              std::to_string(rank));
  copy.bytes = bytes_of_tile(copy.map);
  for (int d = 0; d < rank; ++d)
    copy.coordinates[d] = static_cast<s32>(value_of(warp, copy.operands->coordinates[d], copy.lane));
  // The PTX ISA does not say so, but on an H200 tiles of bf16 that begin in column -3 or 59 end with this error; -8, 0,
  // 8, 64 and 80 work.
  if (const s64 offset = s64{copy.coordinates[0]} * copy.map.size; offset % 16)
    fault(warp, instruction, copy.lane, illegal_instruction,
          "a tile that begins " + std::to_string(offset) + " bytes after the first column, not a multiple of 16");
  if (copy.operands->kind == BulkOperands::store || copy.operands->kind == BulkOperands::reduce)
    check_stored_tile(warp, copy);
}

void check_plain_copy(Warp& warp, const BulkCopy& copy) {
  if (copy.bytes % 16)
    fault(warp, *copy.instruction, copy.lane, illegal_instruction,
          "a bulk copy of " + std::to_string(copy.bytes) + " bytes, not a multiple of 16");
  if (copy.global % 16)
    fault(warp, *copy.instruction, copy.lane, misaligned,
          "a bulk copy at " + hex(copy.global) + ", not a multiple of 16");
  if (copy.bytes) global_bytes(warp, copy, copy.global, copy.bytes);
}

// Checks the addresses of a tile now, because the copy is performed later.
void check_tile(Warp& warp, const BulkCopy& copy) {
  for_pieces(copy, [&](u32 shared, u64 global, u32 bytes) {
    shared_bytes(warp, copy, shared, bytes);
    if (global) global_bytes(warp, copy, global, bytes);
  });
}

void issue_copy(Warp& warp, const Instruction& instruction, int lane) {
  const BulkOperands& operands = *reinterpret_cast<const BulkOperands*>(instruction.imm);
  BulkCopy copy{};
  copy.instruction = &instruction;
  copy.operands = &operands;
  copy.warp = warp.id;
  copy.lane = lane;
  copy.global = value_of(warp, operands.global, lane, operands.global_offset);
  if (operands.is_tensor) {
    read_tensor_map(warp, copy);
  } else {
    copy.bytes = static_cast<u32>(value_of(warp, operands.bytes, lane));
    check_plain_copy(warp, copy);
  }
  if (operands.kind == BulkOperands::prefetch) return;
  const u64 shared = value_of(warp, operands.shared, lane, operands.shared_offset);
  copy.shared = shared_address(warp, instruction, lane, shared, copy.bytes, operands.is_tensor ? 128 : 16);
  if (operands.is_tensor) check_tile(warp, copy);
  ++warp.block->events;
  if (operands.kind == BulkOperands::load)
    issue_load(warp, copy, value_of(warp, operands.mbarrier, lane, operands.mbarrier_offset));
  else
    issue_store(warp, copy);
}

// Removes a load and performs it.
void perform_load_at(std::size_t index, Warp& warp, const Instruction& instruction, int lane) {
  const BulkCopy copy = state.loads[index];
  state.loads.erase(state.loads.begin() + static_cast<std::ptrdiff_t>(index));
  perform_load(warp, instruction, lane, copy);
}

Warp& warp_of(Block& block, const BulkCopy& copy) { return block.warps[static_cast<u32>(copy.warp)]; }

}  // namespace

void start_bulk_copies() {
  state.loads.clear();
  state.stores.clear();
  std::fill(std::begin(state.warps), std::end(state.warps), WarpStores{});
}

void end_bulk_copies(Block& block) {
  for (BulkCopy& copy : state.stores) perform_store(warp_of(block, copy), copy);
  state.stores.clear();
  if (state.loads.empty()) return;
  const BulkCopy& copy = state.loads.front();
  Warp& warp = warp_of(block, copy);
  fault(warp, *copy.instruction, copy.lane, launch_failure,
        "the block ends while a copy to its shared memory is in flight; " +
            describe(mbarrier_at(warp, *copy.instruction, copy.lane, copy.mbarrier)));
}

void perform_random_loads(Block& block, u64 seed) {
  constexpr u64 one_in = 4;
  state.random.seed(seed);
  for (std::size_t i = 0; i < state.loads.size();) {
    if (state.random() % one_in) {
      ++i;
      continue;
    }
    const BulkCopy& copy = state.loads[i];
    perform_load_at(i, warp_of(block, copy), *copy.instruction, copy.lane);
  }
}

void check_stores_at_exit(const Warp& warp) {
  if (!options.races) return;
  for (const BulkCopy& copy : state.stores)
    if (copy.warp == warp.id && !copy.has_read)
      report(
          warp, *copy.instruction,
          "EXIT: the warp ends before a bulk store has read shared memory (cp.async.bulk.wait_group.read is missing)");
}

LoadsInFlight loads_to(u32 mbarrier) {
  LoadsInFlight loads;
  for (const BulkCopy& copy : state.loads) {
    if (copy.mbarrier != mbarrier) continue;
    ++loads.count;
    loads.bytes += copy.bytes;
    loads.first_phase = std::min(loads.first_phase, copy.phase);
  }
  return loads;
}

bool perform_load_to(Warp& warp, const Instruction& instruction, int lane, const Mbarrier& mbarrier) {
  std::vector<std::size_t> candidates;
  for (std::size_t i = 0; i < state.loads.size(); ++i)
    if (state.loads[i].mbarrier == mbarrier.address) candidates.push_back(i);
  if (candidates.empty()) return false;
  const std::size_t choice = options.random ? state.random() % candidates.size() : 0;
  perform_load_at(candidates[choice], warp, instruction, lane);
  return true;
}

void bulk_copy(Warp& warp, const Instruction& instruction, u32 mask) {
  lanes(mask, [&](int lane) { issue_copy(warp, instruction, lane); });
}

void bulk_commit_group(Warp& warp, const Instruction&, u32 mask) {
  lanes(mask, [&](int lane) { ++stores_of(warp).groups[lane]; });
}

void bulk_wait_group(Warp& warp, const Instruction& instruction, u32 mask) {
  const bool is_read = instruction.modifier;
  WarpStores& stores = stores_of(warp);
  lanes(mask, [&](int lane) {
    const s64 end = s64{stores.groups[lane]} - instruction.imm;
    for (auto copy = state.stores.begin(); copy != state.stores.end();) {
      const bool is_due = copy->warp == warp.id && copy->lane == lane && s64{copy->group} < end;
      if (is_due && !is_read) {
        perform_store(warp, *copy);
        copy = state.stores.erase(copy);
        continue;
      }
      if (is_due) read_source(warp, *copy);
      ++copy;
    }
  });
  u32 first_unread = stores.time + 1;
  for (const BulkCopy& copy : state.stores)
    if (copy.warp == warp.id && !copy.has_read) first_unread = std::min(first_unread, copy.time);
  observe(warp, store_agent(warp), first_unread - 1);
}

}  // namespace heddle::ptx
