// The interpreter's data: decoded PTX, warps, blocks, memory. Registers are arrays of 32 lanes, so that one call executes an instruction for
// a warp. See README.md.
#pragma once
#include <bit>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

namespace heddle::ptx {

using u8 = std::uint8_t;
using u16 = std::uint16_t;
using u32 = std::uint32_t;
using u64 = std::uint64_t;
using s8 = std::int8_t;
using s16 = std::int16_t;
using s32 = std::int32_t;
using s64 = std::int64_t;

// --- memory -----------------------------------------------------------------------------------------------------------------------------
// Device addresses lie in a reserved range without access, so that a host that dereferences one faults. The memory itself is `delta` higher.
constexpr u64 device_base = 0x200000000000ull, device_span = 1ull << 35, delta = 0x10000000000ull;
constexpr u64 shared_window = 1ull << 56, local_window = 1ull << 57, param_window = 1ull << 58;  // of generic addresses
constexpr u32 shared_base = 1024;  // of the shared state space, as on sm_90
struct Region {
  u64 lo, hi;
  bool host;
};
// Returns the allocation that holds an address, or nullptr.
const Region* region_of(u64 address);

// --- decoded code -----------------------------------------------------------------------------------------------------------------------
struct Warp;
struct Instruction;
struct Kernel;
using Execute = void (*)(Warp&, const Instruction&, u32 mask);
struct Operand {
  u32 offset = 0;
  u8 constant = 0, size = 0;
  bool negated = false, absent = true;
};
using Poll = u32 (*)(Warp&, const Instruction&, u32 mask);  // returns the lanes that need not wait
enum Kind : u8 { normal, branch, leave, sync, barrier, poll };
enum Category : u8 {
  c_mma,
  c_ldmatrix,
  c_ld_global,
  c_st_global,
  c_ld_shared,
  c_st_shared,
  c_ld_param,
  c_generic,
  c_cp_async,
  c_atom,
  c_bar,
  c_wgmma,
  c_bulk,
  c_mbarrier,
  c_shfl,
  c_cvt,
  c_mufu,
  c_div,
  c_fp,
  c_int,
  c_pred,
  c_mov,
  c_branch,
  c_other,
  category_count
};
extern const char* const category_names[category_count];

struct Instruction {
  Execute fn = nullptr;
  Poll poll = nullptr;
  Kind kind = normal;
  Category category = c_other;
  bool guarded = false, guard_negated = false, aligned = false, strong = false;  // strong: atomic or volatile
  u8 modifier = 0, modifier2 = 0, modifier3 = 0;
  u32 guard = 0, target = 0;
  Operand d, d2, a, b, c, e, v[4];
  s64 imm = 0, imm2 = 0, imm3 = 0;
  mutable u64 lo = 1, hi = 0, shift = 0;  // the allocation of the last access
  u32 text = 0;
};

struct Param {
  std::string name;
  u32 offset, size;
};
struct Kernel {
  std::string name, body;
  std::vector<Param> params;
  u32 param_bytes = 0;
  u32 max_threads = 1024, min_blocks = 1, max_registers = 0;
  bool has_max_threads = false;
  struct Module* module = nullptr;
  bool decoded = false;
  std::vector<Instruction> code;
  std::vector<std::string> texts;
  u32 reg_bytes = 0, preds = 0;
  bool async = false, has_wgmma = false;  // uses instructions of async.hpp
  struct Registers {
    std::vector<u32> from, to;
    bool move = false, constant = false;
  };                                    // in units of 64 bytes
  std::vector<Registers> registers_of;  // what each instruction reads and writes, if there is a wgmma
  std::vector<u8> constants;
  std::vector<std::pair<std::string, u32>> specials;  // name, offset in the registers
  u32 static_shared = 0, local_bytes = 0;
  int dynamic_limit = 48 * 1024;
  u64 launches = 0;
  std::vector<u64> executed, lanes;  // for each instruction
  // Of shared memory the cycles that accesses take and would take without bank conflicts; of global memory the sectors of 32 bytes that
  // warps touch, and the least that hold as many bytes; each for loads and stores.
  struct Traffic {
    u64 wavefronts[2]{}, least_wavefronts[2]{}, sectors[2]{}, least_sectors[2]{};
  } traffic;
};
struct Variable {
  std::string name;
  u64 size, align;
  std::vector<u8> init;
  u64 address = 0;
};
struct Module {
  std::string version, target;
  std::map<std::string, Variable> globals;
  struct Shared {
    u32 size, align;
    bool external;
    int order;
  };
  std::map<std::string, Shared> shareds;
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
};
std::unique_ptr<Module> parse(const std::string& text);
void decode(Kernel& kernel);

// --- execution --------------------------------------------------------------------------------------------------------------------------
struct Fault {
  int code;
  std::string what;
};  // code: cudaError_t
[[noreturn]] void unsupported(const std::string& what);

struct Copy {
  u32 to;
  u64 from;
  u32 bytes, valid, group, serial;
};
struct Block;
struct Warp {
  u8* base[2];  // registers, constants
  u32* pred;
  Block* block;
  int id;
  u32 live, waiting, stalled, active, pc, limit;  // stalled: at an instruction of kind poll
  u32 pcs[32];
  std::vector<Copy> copies[32];
  u32 groups[32];
  bool any_copies;
  u32 syncs;  // bar.warp.sync so far
  // at a barrier
  bool spins;    // has given way at a test that failed
  bool expires;  // its next try_wait that waits gives up
  bool at_barrier;
  u32 barrier_id, barrier_count, barrier_pc;
  u32 barrier_votes;
};
struct Dim {
  u32 x, y, z;
};
struct Block {
  Kernel* kernel;
  Dim grid, dim, id;
  std::vector<u8> shared, params;
  std::vector<Warp> warps;
  std::vector<u8> registers;
  std::vector<u32> preds;
  std::vector<u8> local;
  const Instruction* current = nullptr;
  u32 epoch = 1;               // of barriers
  u32 launch = 0, number = 0;  // of this block
  bool partial_barriers = false;
  u64 events = 0;                          // that may end the wait of a warp
  u32 arrived[17]{}, arrived_count[17]{};  // warps at bar.arrive, for each barrier
  struct Shadow {
    u32 written, read, written_sync, read_sync;
    u16 writer, reader;
    bool many_lanes, many_warps, atomic;
  };
  std::vector<Shadow> shadow;  // of each byte of shared memory, if races are watched
};
struct Options {
  bool early_copies = false, reverse = false, random = false, abort = false, count = false, mma_hw = false,
       trace = false, races = false, global_races = false, keep_nan = false, count_traffic = false;
  u8 fill = 0xff;  // of fresh memory
  u32 jitter = 0;
  u64 seed = 1;
};
extern Options options;
// What is known of the last accesses to a byte of device memory; at shadow_base + 32 bytes for each byte.
struct Access {
  u32 launch_w, block_w, launch_r, block_r;
  u16 thread_w, thread_r, epoch_w, epoch_r, sync_w, sync_r;
  bool many_blocks, many_warps, many_lanes, strong;
};
static_assert(sizeof(Access) == 32);
constexpr u64 shadow_base = 0x300000000000ull;
// Runs a grid. Throws Fault.
void run(Kernel& kernel, Dim grid, Dim block, u32 dynamic_shared, const std::vector<u8>& params);
std::string demangled(const std::string& name);

// A lane's part of a warp-wide register.
template <class T>
inline T* reg(Warp& w, const Operand& o) {
  return reinterpret_cast<T*>(w.base[o.constant] + o.offset);
}

}  // namespace heddle::ptx
