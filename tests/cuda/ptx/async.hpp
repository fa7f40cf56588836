// Hopper's asynchronous instructions: mbarriers, bulk copies and tensor maps, wgmma, setmaxnreg, and what orders their accesses.
#pragma once
#include <deque>

#include "memory.hpp"

namespace heddle::ptx {

// What cuTensorMapEncodeTiled writes into a CUtensorMap.
struct TensorMap {
  u64 magic, unused, base;  // CuTe clears a bit of the second word for the hardware
  u64 stride[5];            // bytes; of dimension 0: the element
  u32 last[5];              // size - 1
  u16 box[5];
  u8 rank, type, swizzle, nan, size;  // swizzle: 0 none, 1..3: 32, 64, 128 bytes; size: of an element
};
static_assert(sizeof(TensorMap) <= 128);
constexpr u64 tensor_map_magic = 0x70616d726f736e74ull;

struct BulkOperands {
  enum What : u8 { load, store, reduce, prefetch } what;
  bool tensor = false, bf16 = false;
  u8 rank = 0, op = a_add, type = 0;  // of a reduction: type 0 u32, 1 s32, 2 u64, 3 f32, 4 f16, 5 bf16, 6 f64, 7 s64
  Operand shared, global, bytes, barrier, coordinate[5];
  s64 shared_offset = 0, global_offset = 0, barrier_offset = 0;
};
struct WgmmaOperands {
  int n, k;
  u8 type;  // 0 bf16, 1 f16, 2 tf32
  bool a_registers, negate_a, negate_b, mn_a, mn_b;
  Operand d[128], a[4], a_desc, b_desc, scale;
};

// Of mbarrier instructions: a: address, b: count or bytes, c: state or parity, d: state or predicate.
enum MbarrierOp : u8 {
  mb_init,
  mb_inval,
  mb_arrive,
  mb_arrive_drop,
  mb_arrive_expect,
  mb_expect,
  mb_complete,
  mb_pending
};
void mbarrier(Warp& w, const Instruction& in, u32 m);
u32 mbarrier_wait(Warp& w, const Instruction& in, u32 m);     // sub2: parity, sub: test only
void cp_async_arrive(Warp& w, const Instruction& in, u32 m);  // sub: .noinc
void bulk_copy(Warp& w, const Instruction& in, u32 m);
void bulk_commit(Warp& w, const Instruction& in, u32 m);
void bulk_wait(Warp& w, const Instruction& in, u32 m);  // imm: groups, sub: .read
void wgmma(Warp& w, const Instruction& in, u32 m);
void wgmma_fence(Warp& w, const Instruction& in, u32 m);
void wgmma_commit(Warp& w, const Instruction& in, u32 m);
u32 wgmma_wait(Warp& w, const Instruction& in, u32 m);
u32 set_registers(Warp& w, const Instruction& in, u32 m);
void fence_proxy_async(Warp& w, const Instruction& in, u32 m);
void elect(Warp& w, const Instruction& in, u32 m);
void bar_arrive(Warp& w, const Instruction& in, u32 m);
void track_registers(Warp& w, const Kernel& k, u32 pc);  // before an instruction of a kernel with wgmma

void async_start(Block& b);
void async_round(Block& b, u64 random);           // PTX_ORDER=random: copies may complete at any time
void async_exit(Warp& w, const Instruction& in);  // a warp has ended
void async_end(Block& b);                         // all warps have ended
[[noreturn]] void deadlock(Block& b);
void clock_barrier(Block& b, const std::vector<Warp*>& warps, u32 id);  // these warps have met
void watch_async(Warp& w, const Instruction& in, int lane, u32 at, u32 bytes, bool write);
bool release_barrier(Block& b, u32 id);  // exec.cpp

}  // namespace heddle::ptx
