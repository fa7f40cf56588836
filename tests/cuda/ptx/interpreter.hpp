// The data that the parts of the PTX interpreter share: device memory, decoded kernels, and the warps and blocks that run.
//
// A virtual register is an array of 32 values, one per lane, so that one function call executes an instruction for a whole warp. A
// predicate register is a mask with one bit per lane. docs/kernels.md describes what the interpreter is for.
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

// Device addresses lie in a reserved range without access, so a host that dereferences one faults. The bytes themselves lie `delta` higher.
constexpr u64 device_base = 0x200000000000ull;
constexpr u64 device_span = 1ull << 35;
constexpr u64 delta = 0x10000000000ull;

// The windows of the other state spaces among the generic addresses (PTX ISA, "Generic Addressing").
constexpr u64 shared_window = 1ull << 56;
constexpr u64 local_window = 1ull << 57;
constexpr u64 param_window = 1ull << 58;

// The address of a block's first byte in the shared state space. CUDA reserves the bytes below it, as on sm_90.
constexpr u32 shared_base = 1024;

// An allocation: the addresses from lo to hi, without hi. Pinned host memory is its own storage; device memory lies `delta` higher.
struct Region {
  u64 lo, hi;
  bool host;
};
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

// An operand of an instruction: a register, a constant, which is a register that never changes, or a predicate.
struct Operand {
  u32 offset = 0;   // in bytes, from Warp::base[constant]; of a predicate: its number, or its mask if it is constant
  u8 constant = 0;  // 1 for a constant
  u8 size = 0;      // in bytes; 0 for a predicate
  bool negated = false;  // of a predicate
  bool absent = true;    // optional and not given, or `_`
};

// How the scheduler of a warp treats an instruction.
enum Kind : u8 {
  normal,   // execute and continue
  branch,   // continue at `target`
  leave,    // the lanes end
  sync,     // wait for other lanes of the warp, then execute
  barrier,  // wait for other lanes of the warp, then for other warps of the block
  poll      // let other warps run until `poll` succeeds
};

// The classes by which PTX_COUNT counts instructions.
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

// A decoded instruction. The operands d, a, b, c are PTX's; the modifiers and immediates mean what `fn` or `poll` says.
struct Instruction {
  Execute fn = nullptr;
  Poll poll = nullptr;  // of Kind::poll
  Kind kind = normal;
  Category category = c_other;
  bool guarded = false;        // executes only for lanes whose predicate `guard` is true
  bool guard_negated = false;  // or false
  bool aligned = false;        // all live lanes of the warp must execute it together
  bool strong = false;         // an atomic, volatile, relaxed, acquire or release access
  u8 modifier = 0, modifier2 = 0, modifier3 = 0;
  u32 guard = 0;                    // the number of a predicate register
  u32 target = 0;                   // of a branch: an index into Kernel::code
  Operand d, d2, a, b, c, e, v[4];  // d2: second result, e: mask of lanes or a fifth operand, v: a vector's elements
  s64 imm = 0, imm2 = 0, imm3 = 0;
  // A cache of the allocation of the last access: its addresses, and their distance to the host addresses of the bytes.
  mutable u64 lo = 1, hi = 0, shift = 0;
  u32 text = 0;  // an index into Kernel::texts
};

// A parameter of a kernel and its place among the parameters' bytes.
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
  u32 max_threads = 1024;        // of a block: .maxntid
  bool has_max_threads = false;  // .maxntid is given
  u32 min_blocks = 1;            // of a multiprocessor: .minnctapersm
  u32 max_registers = 0;         // of a thread: .maxnreg; 0 if not given

  // Set by decode().
  bool decoded = false;
  std::vector<Instruction> code;
  std::vector<std::string> texts;                     // the text of each instruction
  u32 reg_bytes = 0, preds = 0;                       // bytes of a warp's registers, number of its predicates
  std::vector<std::pair<std::string, u32>> specials;  // special registers in use, and their offsets among the registers
  std::vector<u8> constants;                          // 32 equal values each
  u32 static_shared = 0;                              // bytes of shared memory in a block
  u32 local_bytes = 0;                                // of each thread
  bool async = false;  // uses mbarriers, bulk copies or other instructions that order them
  bool has_wgmma = false;

  // The registers that an instruction reads and writes, as numbers of the 64-byte pieces in which they begin. Predicates are left out.
  struct Registers {
    std::vector<u32> from, to;
    bool move = false;      // copies one register to another for all lanes
    bool constant = false;  // writes a constant
  };
  std::vector<Registers> registers_of;  // of each instruction, if the kernel has a wgmma

  // Counted by run().
  u64 launches = 0;
  std::vector<u64> executed,
      lanes;  // for each instruction: how often a warp executed it, and with how many lanes in total
  // Memory traffic, [0] of loads and [1] of stores.
  struct Traffic {
    u64 wavefronts[2]{}, least_wavefronts[2]{};  // of shared memory: cycles, and cycles without bank conflicts
    u64 sectors[2]{},
        least_sectors[2]{};  // of global memory: sectors of 32 bytes, and the fewest that hold as many bytes
  } traffic;
};

// A variable in global or constant memory.
struct Variable {
  std::string name;
  u64 size, align;
  std::vector<u8> init;  // the first bytes; the others are zero
  u64 address = 0;       // of the device; set when the module is loaded
};

// A translation unit of PTX.
struct Module {
  std::string target;
  std::map<std::string, Variable> globals;
  struct Shared {
    u32 size, align;
    bool external;  // the block's dynamic shared memory
    int order;      // of declaration
  };
  std::map<std::string, Shared> shareds;
  std::map<std::string, std::unique_ptr<Kernel>> kernels;
};

// Reads the text of a module. Kernels keep their bodies as text.
std::unique_ptr<Module> parse(const std::string& text);
// Decodes the body of a kernel, unless that has been done before.
void decode(Kernel& kernel);
// Ends the process, with status 97: the interpreter does not know a construct.
[[noreturn]] void unsupported(const std::string& what);

// An error of a running kernel.
struct Fault {
  int code;  // a cudaError_t
  std::string what;
};

// A cp.async that has been issued and not performed.
struct Copy {
  u32 to;      // a shared address
  u64 from;    // a global address
  u32 bytes;   // the size of the destination
  u32 valid;   // bytes that are read; the others become zero
  u32 group;   // the number of the lane's commit group
  u32 serial;  // a number that grows with each cp.async
};

// A warp of the block that runs. Masks have one bit per lane.
struct Warp {
  u8* base[2];  // registers, constants
  u32* pred;    // the predicate registers
  Block* block;
  int id;  // the number within the block

  u32 live;     // lanes that have not ended
  u32 waiting;  // lanes at a sync or barrier instruction that wait for other lanes
  u32 stalled;  // lanes at a poll instruction
  u32 active;   // lanes that run, at `pc`
  u32 pc;
  u32 limit;    // the address at which other lanes wait to be run together with the active ones
  u32 pcs[32];  // addresses of the lanes that are not active

  std::vector<Copy> copies[32];  // of each lane, in order
  u32 groups[32];                // each lane's number of committed groups
  bool any_copies;
  u32 syncs;  // number of bar.warp.sync so far

  bool spins;    // a test that does not wait has failed; other warps may run
  bool expires;  // the next try_wait that has to wait gives up, as after its time limit

  bool at_barrier;
  u32 barrier_id, barrier_count;  // the barrier, and the number of threads that it waits for, or 0 for all
  u32 barrier_pc;
  u32 barrier_votes;  // of bar.red: the lanes whose predicate is true
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
  std::vector<u8> registers;  // of all warps, followed by room to align them
  std::vector<u32> preds;     // of all warps
  std::vector<u8> local;      // of all threads

  u32 launch = 0, number = 0;     // of the launch, and of the block in its grid
  u32 epoch = 1;                  // grows with each barrier of the block
  bool partial_barriers = false;  // a barrier of a part of the block was used, so epochs order nothing
  u64 events = 0;                 // grows with each event that may end a wait
  u32 arrived[17]{},
      arrived_count[17]{};  // of each barrier: warps at bar.arrive, and the number of threads that they named

  // The last accesses to a byte of shared memory.
  struct Shadow {
    u32 written, read;            // the epochs
    u32 written_sync, read_sync;  // Warp::syncs of the threads
    u16 writer, reader;           // the threads
    bool many_lanes, many_warps;  // that read it
    bool atomic;                  // the last access was atomic
  };
  std::vector<Shadow> shadow;  // of each byte, with PTX_RACES
};

// The environment variables of the interpreter.
struct Options {
  bool early_copies = false;   // PTX_COPIES=early: asynchronous copies take place when they are issued
  bool reverse = false;        // PTX_ORDER=reverse: blocks and warps run in reverse order
  bool random = false;         // PTX_ORDER=randomN: blocks and warps run in a random order
  u64 seed = 1;                //   N
  bool mma_hw = false;         // PTX_MMA=truncate: mma cuts off bits as tensor cores do
  bool keep_nan = false;       // PTX_NAN=keep: neg and abs change only the sign of NaN
  u32 jitter = 0;              // PTX_APPROX=N: approximations are off by up to one last bit; 0: they are not
  u8 fill = 0xff;              // PTX_FILL: the content of fresh memory
  bool races = false;          // PTX_RACES: report races in shared memory
  bool global_races = false;   // PTX_GLOBAL_RACES: report races in device memory
  bool count = false;          // PTX_COUNT: count instructions
  bool count_traffic = false;  // PTX_TRAFFIC: count bank conflicts and sectors
  bool trace = false;          // PTX_TRACE: print each launch
  bool abort = false;          // PTX_ABORT: abort at the first fault
};
extern Options options;

// The last write (w) and the last read (r) of a byte of device memory, with PTX_GLOBAL_RACES. The table at shadow_base has one for each
// byte of the device.
struct Access {
  u32 launch_w, block_w, launch_r, block_r;
  u16 thread_w, thread_r, epoch_w, epoch_r, sync_w, sync_r;
  bool many_blocks, many_warps, many_lanes;  // that have read it
  bool strong;                               // the last access was strong
};
static_assert(sizeof(Access) == 32);
constexpr u64 shadow_base = 0x300000000000ull;

// Runs a grid. Throws Fault.
void run(Kernel& kernel, Dim grid, Dim block, u32 dynamic_shared, const std::vector<u8>& params);
// Returns the C++ name of a mangled name, or the name itself if it is not mangled.
std::string demangled(const std::string& name);

// Returns the 32 values of an operand, one per lane.
template <class T>
inline T* reg(Warp& warp, const Operand& operand) {
  return reinterpret_cast<T*>(warp.base[operand.constant] + operand.offset);
}

}  // namespace heddle::ptx
