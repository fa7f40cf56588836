// Bulk copies and copies of tensors (PTX ISA, "Data Movement and Conversion Instructions: Bulk copy" and "Tensor
// copy").
//
// A copy is performed as late as possible: a load when a thread waits for its mbarrier, a store when its thread waits
// for its group or when the block ends. With PTX_COPIES=early, loads are performed and stores read shared memory at
// once. With a random order, loads are performed at any time.
#pragma once
#include "mbarrier.hpp"
#include "memory.hpp"
#include "syntax.hpp"

namespace heddle::ptx {

// The operands of a bulk copy, whose address is instruction.imm.
struct BulkOperands {
  enum Kind : u8 { load, store, reduce, prefetch } kind;
  bool is_tensor = false;
  u8 rank = 0;               // of the tensor
  AtomOp operation = a_add;  // of a reduction
  Type type = Type::none;    // of a reduction, but not of a tensor, whose map has the type
  Operand shared, global;    // addresses. `global` is that of the map if is_tensor
  Operand bytes;             // absent if is_tensor
  Operand mbarrier;          // of a load
  Operand coordinates[5];
  s64 shared_offset = 0, global_offset = 0, mbarrier_offset = 0;
};

void start_bulk_copies();
// Performs the stores that are left. Throws Fault if a load is in flight.
void end_bulk_copies(Block& block);
// Performs some loads. The seed determines which ones.
void perform_random_loads(Block& block, u64 seed);
// Reports a store of a warp that ends before shared memory has been read.
void check_stores_at_exit(const Warp& warp);

struct LoadsInFlight {
  int count = 0;
  u64 bytes = 0;
  u64 first_phase = ~u64{0};  // the earliest phase that waits for one of them
};
LoadsInFlight loads_to(u32 mbarrier);
// Performs a load that completes at the mbarrier, for a lane that waits for it. Returns false if there is none.
bool perform_load_to(Warp& warp, const Instruction& instruction, int lane, const Mbarrier& mbarrier);

void bulk_copy(Warp& warp, const Instruction& instruction, u32 mask);
void bulk_commit_group(Warp& warp, const Instruction& instruction, u32 mask);
// Waits for all but the last imm groups, or with .read (instruction.modifier) only until they have read shared memory.
void bulk_wait_group(Warp& warp, const Instruction& instruction, u32 mask);

}  // namespace heddle::ptx
