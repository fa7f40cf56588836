// State spaces, loads, stores and atomic operations (PTX ISA, "State Spaces", "Generic Addressing", "Data Movement and
// Conversion Instructions: ld", "st", "Parallel Synchronization and Communication Instructions: atom", "red"). Each
// access is checked: it must be aligned and lie inside one allocation.
#pragma once
#include <cstring>

#include "lanes.hpp"
#include "numbers.hpp"

namespace heddle::ptx {

// The codes of Fault: values of cudaError_t.
enum : int {
  illegal_address = 700,
  assert_failed = 710,
  illegal_instruction = 715,
  misaligned = 716,
  launch_failure = 719
};

enum Space : u8 { s_generic, s_global, s_shared, s_param, s_local };

// Throws Fault with a message that names the block, the thread, the instruction and the kernel.
[[noreturn]] void fault(Warp& warp, const Instruction& instruction, int lane, int code, const std::string& what);
[[noreturn]] void fault_misaligned(Warp& warp, const Instruction& instruction, int lane, u64 address, u32 bytes);
[[noreturn]] void fault_outside_shared(Warp& warp, const Instruction& instruction, int lane, u64 offset, u32 bytes,
                                       bool write);

// Returns a number in hexadecimal: 0x400.
std::string hex(u64 value);

// Look for races between an access and earlier ones, and report the first race of each instruction. `offset` is
// relative to the beginning of shared memory.
void watch_shared(Warp& warp, const Instruction& instruction, int lane, u32 offset, u32 bytes, bool write);
void watch_global(Warp& warp, const Instruction& instruction, int lane, u64 address, u32 bytes, bool write);
// Notes a fence, which orders accesses of other blocks.
void watch_fence(Warp& warp, u32 mask);
// Reports an atomic operation on host memory, which may publish earlier stores to the host, without a fence of the
// system after these.
void report_unfenced(const Warp& warp, const Instruction& instruction, int lane);

// Count the traffic of an instruction to shared and to global memory, for PTX_TRAFFIC.
void count_shared(Warp& warp, const u64 (&addresses)[32], u32 mask, u32 bytes, bool write);
void count_global(Warp& warp, const u64 (&addresses)[32], u32 mask, u32 bytes, bool write);

template <Space space>
[[gnu::always_inline]] inline void count_access(Warp& warp, const u64 (&addresses)[32], u32 mask, u32 bytes,
                                                bool write) {
  if (!options.count_traffic) [[likely]]
    return;
  if constexpr (space == s_shared) count_shared(warp, addresses, mask, bytes, write);
  if constexpr (space == s_global) count_global(warp, addresses, mask, bytes, write);
}

// Stores the allocation of an access in the instruction. Throws Fault if none holds all of its bytes.
void find_allocation(Warp& warp, const Instruction& instruction, int lane, u64 address, u32 bytes, bool write);

// Returns the shared address of bytes that an instruction accesses later. `address` may be generic. Throws Fault if it
// is misaligned, or if not all of the bytes exist.
u32 shared_address(Warp& warp, const Instruction& instruction, int lane, u64 address, u32 bytes, u32 alignment);

// The functions below return where the host finds `bytes` bytes at an address of a state space. They throw Fault if not
// all of them exist.

inline u8* global_pointer(Warp& warp, const Instruction& instruction, int lane, u64 address, u32 bytes, bool write) {
  if (options.global_races) [[unlikely]]
    watch_global(warp, instruction, lane, address, bytes, write);
  if (address < instruction.lo || address + bytes > instruction.hi) [[unlikely]]
    find_allocation(warp, instruction, lane, address, bytes, write);
  return reinterpret_cast<u8*>(address + instruction.shift);
}

inline u8* shared_pointer(Warp& warp, const Instruction& instruction, int lane, u64 address, u32 bytes, bool write) {
  auto& shared = warp.block->shared;
  const u64 offset = address - shared_base;
  if (offset >= shared.size() || offset + bytes > shared.size()) [[unlikely]]
    fault_outside_shared(warp, instruction, lane, offset, bytes, write);
  if (options.races) [[unlikely]]
    watch_shared(warp, instruction, lane, static_cast<u32>(offset), bytes, write);
  return shared.data() + offset;
}

inline u8* param_pointer(Warp& warp, const Instruction& instruction, int lane, u64 address, u32 bytes) {
  auto& params = warp.block->params;
  if (address + bytes > params.size()) fault(warp, instruction, lane, illegal_address, "beyond the parameters");
  return params.data() + address;
}

inline u8* local_pointer(Warp& warp, const Instruction& instruction, int lane, u64 address, u32 bytes) {
  const u64 size = warp.block->kernel->local_bytes;
  if (address + bytes > size) fault(warp, instruction, lane, illegal_address, "beyond the local memory");
  const u64 thread = static_cast<u64>(warp.id) * 32 + static_cast<u64>(lane);
  return warp.block->local.data() + thread * size + address;
}

// Also throws Fault for a misaligned address. `bytes` is a power of two.
template <Space space>
[[gnu::always_inline]] inline u8* pointer(Warp& warp, const Instruction& instruction, int lane, u64 address, u32 bytes,
                                          bool write) {
  if (address & (bytes - 1)) [[unlikely]]
    fault_misaligned(warp, instruction, lane, address, bytes);
  if constexpr (space == s_global) return global_pointer(warp, instruction, lane, address, bytes, write);
  if constexpr (space == s_shared) return shared_pointer(warp, instruction, lane, address, bytes, write);
  if constexpr (space == s_param) return param_pointer(warp, instruction, lane, address, bytes);
  if constexpr (space == s_local) return local_pointer(warp, instruction, lane, address, bytes);
  // A generic address.
  if (address >= param_window) return param_pointer(warp, instruction, lane, address - param_window, bytes);
  if (address >= local_window) return local_pointer(warp, instruction, lane, address - local_window, bytes);
  if (address >= shared_window) return shared_pointer(warp, instruction, lane, address - shared_window, bytes, write);
  return global_pointer(warp, instruction, lane, address, bytes, write);
}

// Computes operand + offset for every lane.
inline void addresses(Warp& warp, const Instruction&, const Operand& operand, s64 offset, u64 (&results)[32]) {
  const auto add = [&](const auto* base) {
    for (int lane = 0; lane < 32; ++lane) results[lane] = base[lane] + static_cast<u64>(offset);
  };
  if (operand.size == 8)
    add(register_lanes<u64>(warp, operand));
  else
    add(register_lanes<u32>(warp, operand));
}

// ld and st of n elements of type M in memory and R in registers. The address is a + imm; the registers are v[0]
// to v[n - 1].

template <class M, class R, int n, Space space>
void load(Warp& warp, const Instruction& instruction, u32 mask) {
  u64 at[32];
  addresses(warp, instruction, instruction.a, instruction.imm, at);
  count_access<space>(warp, at, mask, sizeof(M) * n, false);
  R* d[n];
  for (int i = 0; i < n; ++i) d[i] = instruction.v[i].absent ? nullptr : register_lanes<R>(warp, instruction.v[i]);
  lanes(mask, [&](int lane) {
    const u8* from = pointer<space>(warp, instruction, lane, at[lane], sizeof(M) * n, false);
    for (int i = 0; i < n; ++i) {
      M element;
      std::memcpy(&element, from + sizeof(M) * static_cast<u64>(i), sizeof(M));
      if (d[i]) d[i][lane] = static_cast<R>(element);
    }
  });
}

// Returns whether the last access of an instruction was to this address, and to host memory.
inline bool is_host_access(const Instruction& instruction, u64 address) {
  return instruction.shift == 0 && address >= instruction.lo && address < instruction.hi;
}

template <class M, class R, int n, Space space>
void store(Warp& warp, const Instruction& instruction, u32 mask) {
  u64 at[32];
  addresses(warp, instruction, instruction.a, instruction.imm, at);
  count_access<space>(warp, at, mask, sizeof(M) * n, true);
  const R* values[n];
  for (int i = 0; i < n; ++i) values[i] = register_lanes<R>(warp, instruction.v[i]);
  lanes(mask, [&](int lane) {
    u8* to = pointer<space>(warp, instruction, lane, at[lane], sizeof(M) * n, true);
    for (int i = 0; i < n; ++i) {
      const M element = static_cast<M>(values[i][lane]);
      std::memcpy(to + sizeof(M) * static_cast<u64>(i), &element, sizeof(M));
    }
    if (is_host_access(instruction, at[lane])) warp.unfenced |= 1u << lane;
  });
}

// The operations of atom and red: instruction.modifier. redux and cp.reduce have some of them.
enum AtomOp : u8 { a_add, a_exch, a_max, a_min, a_and, a_or, a_xor, a_cas, a_inc, a_dec };

// Returns what replaces `old` in memory.
template <class T>
T updated(u8 op, T old, T b, T c) {
  if constexpr (is_float<T>) {
    return op == a_add ? canonical_nan(old + b) : b;
  } else {
    switch (op) {
      case a_add: return static_cast<T>(Unsigned<T>(old) + Unsigned<T>(b));
      case a_exch: return b;
      case a_max: return old > b ? old : b;
      case a_min: return old < b ? old : b;
      case a_and: return static_cast<T>(old & b);
      case a_or: return static_cast<T>(old | b);
      case a_xor: return static_cast<T>(old ^ b);
      case a_cas: return old == b ? c : old;
      case a_inc: return static_cast<T>(old >= b ? 0 : old + 1);
      default: return static_cast<T>(old == 0 || old > b ? b : old - 1);  // a_dec
    }
  }
}

template <class T, Space space>
void atom(Warp& warp, const Instruction& instruction, u32 mask) {
  const u8 op = instruction.modifier;
  if (is_float<T> && op != a_add && op != a_exch)
    fault(warp, instruction, __builtin_ctz(mask), illegal_instruction, "atomic");
  u64 at[32];
  addresses(warp, instruction, instruction.a, instruction.imm, at);
  const T* b = register_lanes<T>(warp, instruction.b);
  const T* c = op == a_cas ? register_lanes<T>(warp, instruction.c) : b;
  T* d = instruction.d.absent ? nullptr : register_lanes<T>(warp, instruction.d);
  lanes(mask, [&](int lane) {
    u8* word = pointer<space>(warp, instruction, lane, at[lane], sizeof(T), true);
    T old;
    std::memcpy(&old, word, sizeof(T));
    const T now = updated(op, old, b[lane], c[lane]);
    std::memcpy(word, &now, sizeof(T));
    if (d) d[lane] = old;
    if (options.global_races && (warp.unfenced >> lane & 1) && is_host_access(instruction, at[lane]))
      report_unfenced(warp, instruction, lane);
  });
}

}  // namespace heddle::ptx
