// The data that the parts of the PTX interpreter share: device memory, decoded kernels, and the warps and
// blocks that run.
//
// A virtual register is an array of 32 values, one per lane, so that one function call executes an instruction for
// a whole warp. A predicate register is a mask with one bit per lane. docs/kernels.md describes what the
// interpreter is for.
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

// Device addresses lie in a reserved range without access, so a host that dereferences one faults. The bytes of device
// memory lie `delta` higher.
constexpr u64 device_base = 0x200000000000ull;
constexpr u64 device_span = 1ull << 35;
constexpr u64 delta = 0x10000000000ull;

// The windows of the other state spaces among the generic addresses (PTX ISA, "Generic Addressing").
constexpr u64 shared_window = 1ull << 56;
constexpr u64 local_window = 1ull << 57;
constexpr u64 param_window = 1ull << 58;

// The first address of a block's shared memory. The system reserves the bytes below it, as on sm_90.
constexpr u32 shared_base = 1024;

// An allocation with the addresses [lo, hi).
struct Region {
  u64 lo, hi;
  bool host;  // pinned host memory, whose bytes lie at these addresses
  int gpu;    // the GPU whose memory it is
};
// The GPU on which a kernel runs.
inline int running_gpu = 0;
// Returns the allocation that holds an address, or nullptr.
const Region* region_of(u64 address);

struct Block;
struct Instruction;
struct Kernel;
struct Module;
struct Warp;

// Executes an instruction for the lanes of the mask.
using Execute = void (*)(Warp&, const Instruction&, u32 mask);
// Attempts an instruction that waits. Returns the lanes whose wait is over.
using Poll = u32 (*)(Warp&, const Instruction&, u32 mask);

// An operand of an instruction: a register, a constant or a predicate. A constant is a register that never changes.
struct Operand {
  u32 offset = 0;        // bytes from Warp::base[constant]; for a predicate its number, or its mask if it is constant
  u8 constant = 0;       // 1 for a constant
  u8 size = 0;           // bytes of a value; 0 for a predicate
  bool negated = false;  // the predicate is negated
  bool absent = true;    // the operand is optional and not given, or `_`
};

// The effect of an instruction on the control flow of its warp.
enum Kind : u8 {
  normal,   // executes it and continues
  branch,   // continues at its target
  leave,    // ends
  sync,     // waits for other lanes, then executes it
  barrier,  // waits for other lanes, then for other warps of the block
  poll      // lets other warps run until Instruction::poll succeeds
};

// The classes of instructions that PTX_COUNT counts.
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

// A decoded instruction. The operands d, a, b and c are PTX's. The meaning of modifiers and immediates is up to the
// function.
struct Instruction {
  Execute execute = nullptr;
  Poll poll = nullptr;  // replaces `execute` for Kind::poll
  Kind kind = normal;
  Category category = c_other;
  bool guarded = false;        // only lanes whose predicate `guard` is true execute it
  bool guard_negated = false;  // only lanes whose predicate `guard` is false execute it
  bool aligned = false;        // all live lanes of the warp must execute it together
  bool strong = false;         // an atomic, volatile, relaxed, acquire or release access
  bool acquires = false;       // .acquire or .acq_rel, beyond the block
  bool releases = false;       // .release or .acq_rel, beyond the block
  u8 modifier = 0, modifier2 = 0, modifier3 = 0;
  u32 guard = 0;   // the number of a predicate register
  u32 target = 0;  // a branch's target, an index into Kernel::code
  Operand d, d2;   // the results
  Operand a, b, c;
  Operand e;     // the lanes that take part, or a fifth operand
  Operand v[4];  // the elements of a vector
  s64 imm = 0, imm2 = 0, imm3 = 0;
  // The allocation of the last access, as a cache: its addresses [lo, hi), and the distance from them to its bytes on
  // the host.
  mutable u64 lo = 1, hi = 0, shift = 0;
  u32 text = 0;  // an index into Kernel::texts
};

// A parameter of a kernel, at an offset among the bytes of all parameters.
struct Param {
  std::string name;
  u32 offset, size;
};

// A kernel. Its text is decoded before its first launch.
struct Kernel {
  // Set by parse().
  std::string name, body;
  Module* module = nullptr;
  std::vector<Param> params;
  u32 param_bytes = 0;
  u32 max_threads = 1024;        // the largest block: .maxntid
  bool has_max_threads = false;  // whether .maxntid is given
  u32 min_blocks = 1;            // blocks that a multiprocessor must hold: .minnctapersm
  u32 max_registers = 0;         // registers of a thread: .maxnreg, or 0 if it is not given

  // Set by decode().
  bool decoded = false;
  std::vector<Instruction> code;
  std::vector<std::string> texts;                     // the texts of the instructions
  u32 reg_bytes = 0;                                  // bytes of a warp's registers
  u32 preds = 0;                                      // number of predicate registers
  std::vector<std::pair<std::string, u32>> specials;  // the special registers in use, and their offsets in reg_bytes
  std::vector<u8> constants;                          // 32 copies of each constant
  u32 static_shared = 0;                              // bytes of static shared memory
  u32 local_bytes = 0;                                // bytes of a thread's local memory
  bool async = false;  // whether the kernel uses asynchronous instructions (see async.hpp)
  bool has_wgmma = false;

  // The registers that an instruction reads and writes, without predicates. A register's number is its offset
  // divided by 64.
  struct Registers {
    std::vector<u32> from, to;
    bool move = false;      // the instruction copies a register, for all lanes
    bool constant = false;  // the instruction writes a constant
  };
  std::vector<Registers> registers_of;  // one per instruction if the kernel has a wgmma

  // Counted by run(). The vectors have one number per instruction.
  u64 launches = 0;
  std::vector<u64> executed;  // executions by a warp
  std::vector<u64> lanes;     // executions by a lane
  // Memory traffic. [0] counts loads, [1] stores.
  struct Traffic {
    u64 wavefronts[2]{};        // cycles of shared memory
    u64 least_wavefronts[2]{};  // cycles that it would take without bank conflicts
    u64 sectors[2]{};           // 32-byte sectors of global memory
    u64 least_sectors[2]{};     // sectors that could hold as many bytes
  } traffic;
};

// A variable in global or constant memory.
struct Variable {
  std::string name;
  u64 size, align;
  std::vector<u8> init;  // the first bytes; the others are zero
  u64 address = 0;       // set when the module is loaded
};

// A translation unit of PTX.
struct Module {
  std::string target;
  std::map<std::string, Variable> globals;
  struct Shared {
    u32 size, align;
    bool external;  // dynamic shared memory
    int order;      // position among the declarations
  };
  std::map<std::string, Shared> shareds;
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
};

// Reads the text of a module. Kernels keep their bodies as text.
std::unique_ptr<Module> parse(const std::string& text);
// Decodes the body of a kernel, once.
void decode(Kernel& kernel);
// Ends the process with status 97, because the interpreter does not support something.
[[noreturn]] void unsupported(const std::string& what);

// An error of a running kernel.
struct Fault {
  int code;  // a cudaError_t
  std::string what;
};

// A cp.async that has been issued and not performed.
struct Copy {
  u32 to;      // shared address
  u64 from;    // global address
  u32 bytes;   // size of the destination
  u32 valid;   // bytes that are copied; the others become zero
  u32 group;   // number of the group that the copy belongs to
  u32 serial;  // number of the copy among those of all lanes
};

// A warp of the block that runs. Masks have one bit per lane, addresses are indices into Kernel::code.
struct Warp {
  u8* base[2];  // registers and constants
  u32* pred;    // predicate registers
  Block* block;
  int id;  // number within the block

  u32 live;     // lanes that have not ended
  u32 waiting;  // lanes that wait for other lanes
  u32 stalled;  // lanes at an instruction of Kind::poll
  u32 active;   // lanes that run
  u32 pc;       // address of the active lanes
  u32 limit;    // address at which ready lanes join the active ones
  u32 pcs[32];  // addresses of the lanes that are not active

  std::vector<Copy> copies[32];  // copies of each lane that have not been performed, in order
  u32 groups[32];                // committed groups of each lane
  bool any_copies;               // whether the warp has issued a copy
  u32 syncs;                     // number of bar.warp.sync so far
  u32 unfenced;                  // lanes that have stored to host memory since their last fence of the system

  bool spins;    // a test that does not wait has failed, so that other warps run
  bool expires;  // the next try_wait gives up, as after its time limit

  bool at_barrier;
  u32 barrier_id;
  u32 barrier_count;  // threads that the barrier waits for, or 0 for all
  u32 barrier_pc;
  u32 barrier_votes;  // lanes whose predicate is true in bar.red
};

struct Dim {
  u32 x, y, z;
};

// The block that runs. Blocks run one after another.
struct Block {
  Kernel* kernel;
  Dim grid, dim, id;
  std::vector<u8> shared, params;
  std::vector<Warp> warps;
  std::vector<u8> registers;  // registers of all warps, and some bytes to align them
  std::vector<u32> preds;     // predicate registers of all warps
  std::vector<u8> local;      // local memory of all threads

  u32 launch = 0;                 // number of the launch
  u32 number = 0;                 // number of the block in its grid
  u32 epoch = 1;                  // grows with each barrier
  bool partial_barriers = false;  // a barrier has waited for a part of the block, so epochs order nothing
  u64 events = 0;                 // grows with each event that may end a wait
  u32 arrived[17]{};              // warps at bar.arrive, for each barrier
  u32 arrived_count[17]{};        // threads that their barrier waits for

  // The last accesses to a byte of shared memory.
  struct Shadow {
    u32 written, read;            // epochs
    u32 written_sync, read_sync;  // Warp::syncs of the threads
    u16 writer, reader;           // threads
    bool many_lanes, many_warps;  // several of them have read the byte
    bool atomic;                  // the last access was atomic
  };
  std::vector<Shadow> shadow;  // one per byte of shared memory, with PTX_RACES
};

// Options, with the environment variables that set them.
struct Options {
  bool early_copies = false;  // PTX_COPIES=early: asynchronous copies take place when they are issued
  bool reverse = false;       // PTX_ORDER=reverse: blocks and warps run in reverse order
  bool random = false;        // PTX_ORDER=randomN: blocks and warps run in the random order of seed N
  u64 seed = 1;               // N
  bool mma_hw = false;        // PTX_MMA=truncate: mma cuts off bits as tensor cores do
  bool keep_nan = false;      // PTX_NAN=keep: neg and abs change only the sign of NaN
  u32 jitter = 0;      // PTX_APPROX=N: approximations are off by up to one last bit, as seed N has it; 0 for never
  u8 fill = 0xff;      // PTX_FILL: the content of fresh memory
  bool races = false;  // PTX_RACES: report races in shared memory
  bool global_races = false;   // PTX_GLOBAL_RACES: report races in device memory
  bool count = false;          // PTX_COUNT: count instructions
  bool count_traffic = false;  // PTX_TRAFFIC: count bank conflicts and sectors
  bool trace = false;          // PTX_TRACE: print each launch
  bool abort = false;          // PTX_ABORT: abort at the first fault
};
extern Options options;

// The last write (w) and the last read (r) of a byte of device memory. With PTX_GLOBAL_RACES, a table at shadow_base
// has one for each byte.
struct Access {
  u32 launch_w, block_w, launch_r, block_r;
  u16 thread_w, thread_r, epoch_w, epoch_r, sync_w, sync_r;
  u16 stamp_w, stamp_r;                      // BlockOrder::stamp()
  bool many_blocks, many_warps, many_lanes;  // several of them have read the byte
  bool strong;                               // the last access was strong
};
static_assert(sizeof(Access) == 36);
constexpr u64 shadow_base = 0x300000000000ull;

// Runs a grid. Throws Fault.
void run(Kernel& kernel, Dim grid, Dim block, u32 dynamic_shared, const std::vector<u8>& params);
// Returns the C++ name of a mangled name, or the name itself if it is not mangled.
std::string demangled(const std::string& name);

// Returns the 32 values of an operand, one per lane.
template <class T>
inline T* register_lanes(Warp& warp, const Operand& operand) {
  return reinterpret_cast<T*>(warp.base[operand.constant] + operand.offset);
}

}  // namespace heddle::ptx
