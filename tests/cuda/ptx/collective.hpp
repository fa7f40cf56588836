// Instructions by which the lanes of a warp exchange values (PTX ISA, "Data Movement and Conversion Instructions:
// shfl.sync", "Parallel Synchronization and Communication Instructions: vote.sync", "match.sync", "activemask",
// "redux.sync", "elect.sync"). The scheduler executes them when all lanes of the member mask have arrived: `mask` holds
// these lanes.
#pragma once
#include <cstring>

#include "memory.hpp"

namespace heddle::ptx {

// Does nothing: for barriers and fences, whose effect is that of the scheduler.
inline void no_operation(Warp&, const Instruction&, u32) {}

// The modes of shfl: instruction.modifier.
enum ShuffleMode : u8 { shuffle_up, shuffle_down, shuffle_bfly, shuffle_idx };

struct ShuffleSource {
  int lane;
  bool in_range;
};

// Returns the lane that `lane` reads from. The low 5 bits of c are a bound, and bits 8 to 12 are the mask of a segment.
inline ShuffleSource shuffle_source(u8 mode, int lane, u32 b, u32 c) {
  const int offset = static_cast<int>(b & 31);
  const int bound = static_cast<int>(c & 31);
  const int segment = static_cast<int>(c >> 8 & 31);
  const int first = lane & segment;
  const int last = first | (bound & ~segment);
  int source;
  switch (mode) {
    case shuffle_up: source = lane - offset; break;
    case shuffle_down: source = lane + offset; break;
    case shuffle_bfly: source = lane ^ offset; break;
    default: source = first | (offset & ~segment);
  }
  const bool in_range = mode == shuffle_up ? source >= last : source <= last;
  return {in_range ? source : lane, in_range};
}

// Sets d to a of another lane, and d2 to whether that lane is in range. The value of a lane outside of the mask is
// undefined: here NaN.
inline void shfl(Warp& warp, const Instruction& instruction, u32 mask) {
  u32 a[32];
  std::memcpy(a, register_lanes<u32>(warp, instruction.a), sizeof(a));
  const u32* b = register_lanes<u32>(warp, instruction.b);
  const u32* c = register_lanes<u32>(warp, instruction.c);
  u32* d = register_lanes<u32>(warp, instruction.d);
  u32 results[32], in_range = 0;
  for (int lane = 0; lane < 32; ++lane) {
    const ShuffleSource source = shuffle_source(instruction.modifier, lane, b[lane], c[lane]);
    results[lane] = (mask >> source.lane & 1) ? a[source.lane] : 0xffffffffu;
    in_range |= u32{source.in_range} << lane;
  }
  each(d, mask, [&](int lane) { return results[lane]; });
  write_predicate(warp, instruction.d2, mask, in_range);
}

// The modes of vote other than ballot: instruction.modifier.
enum VoteMode : u8 { vote_all, vote_any, vote_uni };

inline void vote_pred(Warp& warp, const Instruction& instruction, u32 mask) {
  const u32 votes = read_predicate(warp, instruction.a) & mask;
  const bool is_all = votes == mask;
  const bool is_any = votes != 0;
  const u8 mode = instruction.modifier;
  const bool result = mode == vote_all ? is_all : mode == vote_any ? is_any : is_all || !is_any;
  write_predicate(warp, instruction.d, mask, result ? all : 0);
}

inline void vote_ballot(Warp& warp, const Instruction& instruction, u32 mask) {
  const u32 votes = read_predicate(warp, instruction.a) & mask;
  each(register_lanes<u32>(warp, instruction.d), mask, [&](int) { return votes; });
}

// Sets d to the mask of the lanes whose a equals that of the lane.
template <class T>
void match_any(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  u32 results[32];
  lanes(mask, [&](int lane) {
    results[lane] = 0;
    lanes(mask, [&](int other) { results[lane] |= u32{a[other] == a[lane]} << other; });
  });
  u32* d = register_lanes<u32>(warp, instruction.d);
  lanes(mask, [&](int lane) { d[lane] = results[lane]; });
}

// Reduces a over the lanes by an operation of AtomOp.
template <class T>
void redux(Warp& warp, const Instruction& instruction, u32 mask) {
  const T* a = register_lanes<T>(warp, instruction.a);
  T result = a[__builtin_ctz(mask)];
  lanes(mask & (mask - 1), [&](int lane) { result = updated(instruction.modifier, result, a[lane], T()); });
  T* d = register_lanes<T>(warp, instruction.d);
  lanes(mask, [&](int lane) { d[lane] = result; });
}

// elect.sync: sets d to the first lane of the mask, and d2 to whether the lane is that one.
inline void elect(Warp& warp, const Instruction& instruction, u32 mask) {
  const u32 leader = static_cast<u32>(__builtin_ctz(mask));
  if (!instruction.d.absent) each(register_lanes<u32>(warp, instruction.d), mask, [&](int) { return leader; });
  write_predicate(warp, instruction.d2, mask, 1u << leader);
}

inline void active_mask(Warp& warp, const Instruction& instruction, u32 mask) {
  each(register_lanes<u32>(warp, instruction.d), mask, [&](int) { return mask; });
}

}  // namespace heddle::ptx
