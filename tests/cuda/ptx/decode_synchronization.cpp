// Decodes control flow, barriers, fences, votes and atomics (PTX ISA, "Control Flow Instructions", "Parallel
// Synchronization and Communication Instructions" and "Miscellaneous Instructions"). decode_async.cpp decodes
// mbarriers.
#include "barrier.hpp"
#include "clocks.hpp"
#include "collective.hpp"
#include "decode.hpp"
#include "setmaxnreg.hpp"

namespace heddle::ptx {

namespace {

// Decodes bra. decode() sets the target when it knows all labels.
void decode_bra(const Statement&, Instruction& instruction) {
  instruction.kind = branch;
  instruction.category = c_branch;
}

// Decodes ret and exit. Device functions are not supported, so both end a thread.
void decode_exit(const Statement&, Instruction& instruction) {
  instruction.kind = leave;
  instruction.category = c_branch;
}

void trap(Warp& warp, const Instruction& instruction, u32) { fault(warp, instruction, 0, launch_failure, "trap"); }
void decode_trap(const Statement&, Instruction& instruction) { instruction.execute = trap; }

void decode_no_operation(const Statement&, Instruction& instruction) { instruction.execute = no_operation; }

// Decodes `bar.warp.sync membermask`.
void decode_bar_warp_sync(const Statement& statement, Instruction& instruction) {
  statement.require_operands(1);
  instruction.e = statement.operand(0, 4);
  instruction.modifier2 = 1;
  instruction.kind = sync;
  instruction.execute = no_operation;
}

// Decodes `bar.arrive a, b`.
void decode_bar_arrive(const Statement& statement, Instruction& instruction) {
  statement.require_operands(2);
  instruction.a = statement.operand(0, 4);
  instruction.b = statement.operand(1, 4);
  instruction.kind = sync;
  instruction.aligned = true;
  instruction.execute = bar_arrive;
  statement.symbols.mark_async();
}

// Decodes `bar.red.popc.u32 d, a, b, c`, where b is optional.
void decode_bar_red(const Statement& statement, Instruction& instruction) {
  const std::size_t count = statement.operands.size();
  if (count != 3 && count != 4) refuse("number of operands");
  instruction.d = statement.has("popc") ? statement.operand(0, 4) : statement.predicate(0);
  instruction.a = statement.operand(1, 4);
  if (count == 4) instruction.b = statement.operand(2, 4);
  instruction.c = statement.predicate(count - 1);
  instruction.modifier2 =
      statement.choose<BarrierReduction>({{"and", reduce_and}, {"or", reduce_or}, {"popc", reduce_popc}});
  instruction.kind = barrier;
  instruction.aligned = true;
  instruction.execute = no_operation;
}

// Decodes `bar.sync a, b`, where b is optional.
void decode_bar_sync(const Statement& statement, Instruction& instruction) {
  if (statement.operands.size() > 2) refuse("number of operands");
  instruction.a = statement.operand(0, 4);
  if (statement.operands.size() == 2) instruction.b = statement.operand(1, 4);
  instruction.kind = barrier;
  instruction.aligned = true;
  instruction.execute = no_operation;
}

// Decodes bar, and barrier without .cluster.
void decode_bar(const Statement& statement, Instruction& instruction) {
  instruction.category = c_bar;
  if (statement.has("warp")) return decode_bar_warp_sync(statement, instruction);
  if (statement.has("arrive")) return decode_bar_arrive(statement, instruction);
  if (statement.has("red")) return decode_bar_red(statement, instruction);
  if (statement.has("sync")) return decode_bar_sync(statement, instruction);
  refuse("kind of barrier");
}

// Decodes barrier.cluster. A cluster has one block here, which waits at a barrier that programs cannot name.
void decode_cluster_barrier(const Statement& statement, Instruction& instruction) {
  instruction.category = c_bar;
  instruction.aligned = true;
  instruction.execute = no_operation;
  if (statement.has("arrive")) {
    instruction.kind = sync;
  } else if (statement.has("wait")) {
    instruction.kind = barrier;
    instruction.a = statement.symbols.constant(cluster_barrier, 4);
  } else {
    refuse("kind of barrier.cluster");
  }
}
void decode_barrier(const Statement& statement, Instruction& instruction) {
  statement.has("cluster") ? decode_cluster_barrier(statement, instruction) : decode_bar(statement, instruction);
}

// Executes a fence beyond the block. A thread's memory accesses happen in order here, so it matters for races only.
void fence(Warp& warp, const Instruction&, u32 mask) {
  if (options.global_races) watch_fence(warp, mask);
}
// Executes a fence that also orders what the host reads.
void fence_system(Warp& warp, const Instruction& instruction, u32 mask) {
  warp.unfenced &= ~mask;
  fence(warp, instruction, mask);
}

// Returns the function of a fence that is not one between proxies.
Execute fence_of(const Statement& statement) {
  if (statement.has("sys")) return fence_system;
  return reaches_other_blocks(statement) ? fence : no_operation;
}

void decode_membar(const Statement& statement, Instruction& instruction) { instruction.execute = fence_of(statement); }

void decode_fence(const Statement& statement, Instruction& instruction) {
  if (!statement.has("proxy")) {
    instruction.execute = fence_of(statement);
    return;
  }
  instruction.execute = no_operation;
  if (statement.has("async")) {
    instruction.execute = fence_proxy_async;
    statement.symbols.mark_async();
  } else if (statement.qualifiers.size() < 2 || !statement.qualifiers[1].starts_with("tensormap")) {
    refuse("proxy of a fence");
  }
}

// Decodes `vote.sync.any.pred d, a, membermask`.
void decode_vote(const Statement& statement, Instruction& instruction) {
  statement.require("sync");
  statement.require_operands(3);
  const bool is_ballot = statement.has("ballot");
  instruction.d = is_ballot ? statement.operand(0, 4) : statement.predicate(0);
  instruction.a = statement.predicate(1);
  instruction.e = statement.operand(2, 4);
  if (!is_ballot)
    instruction.modifier = statement.choose<VoteMode>({{"all", vote_all}, {"any", vote_any}, {"uni", vote_uni}});
  instruction.kind = sync;
  instruction.category = c_shfl;
  instruction.execute = is_ballot ? vote_ballot : vote_pred;
}

// Decodes `match.any.sync.b32 d, a, membermask`.
void decode_match(const Statement& statement, Instruction& instruction) {
  statement.allow("any sync");
  statement.require_operands(3);
  instruction.d = statement.operand(0, 4);
  instruction.a = statement.operand(1, statement.bytes);
  instruction.e = statement.operand(2, 4);
  instruction.kind = sync;
  instruction.category = c_shfl;
  if (statement.bytes == 4) instruction.execute = match_any<u32>;
  if (statement.bytes == 8) instruction.execute = match_any<u64>;
}

// Decodes `redux.sync.add.s32 d, a, membermask`.
void decode_redux(const Statement& statement, Instruction& instruction) {
  statement.require_operands(3);
  instruction.d = statement.operand(0, 4);
  instruction.a = statement.operand(1, 4);
  instruction.e = statement.operand(2, 4);
  instruction.modifier = statement.choose<AtomOp>(
      {{"add", a_add}, {"max", a_max}, {"min", a_min}, {"and", a_and}, {"or", a_or}, {"xor", a_xor}});
  instruction.kind = sync;
  instruction.category = c_shfl;
  if (statement.type == Type::int32) instruction.execute = redux<s32>;
  if (statement.type == Type::uint32) instruction.execute = redux<u32>;
}

void decode_activemask(const Statement& statement, Instruction& instruction) {
  instruction.d = statement.operand(0, 4);
  instruction.category = c_shfl;
  instruction.execute = active_mask;
}

// Decodes `elect.sync d|p, membermask`.
void decode_elect(const Statement& statement, Instruction& instruction) {
  statement.allow("sync");
  statement.require_untyped();
  statement.require_operands(2);
  const auto [leader, is_leader] = statement.pair(0);
  if (is_leader.empty()) refuse("elect.sync without a predicate");
  instruction.d = statement.symbols.result(leader, 4);
  instruction.d2 = statement.symbols.predicate_result(is_leader);
  instruction.e = statement.operand(1, 4);
  instruction.kind = sync;
  instruction.category = c_shfl;
  instruction.execute = elect;
}

template <class T>
Execute atomic_in(Space space) {
  switch (space) {
    case s_global: return atom<T, s_global>;
    case s_shared: return atom<T, s_shared>;
    default: return atom<T, s_generic>;
  }
}
Execute atomic(Type type, Space space) {
  switch (type) {
    case Type::uint32: return atomic_in<u32>(space);
    case Type::int32: return atomic_in<s32>(space);
    case Type::uint64: return atomic_in<u64>(space);
    case Type::int64: return atomic_in<s64>(space);
    case Type::f32: return atomic_in<float>(space);
    case Type::f64: return atomic_in<double>(space);
    default: return nullptr;
  }
}

// Decodes `atom.cas.b32 d, [a], b, c`, and red, which has no d.
template <bool has_result>
void decode_atom(const Statement& statement, Instruction& instruction) {
  if (statement.has("noftz")) refuse("qualifier .noftz");
  instruction.modifier = statement.choose<AtomOp>({{"add", a_add},
                                                   {"exch", a_exch},
                                                   {"max", a_max},
                                                   {"min", a_min},
                                                   {"and", a_and},
                                                   {"or", a_or},
                                                   {"xor", a_xor},
                                                   {"cas", a_cas},
                                                   {"inc", a_inc},
                                                   {"dec", a_dec}});
  constexpr std::size_t first = has_result ? 1 : 0;
  if (has_result) instruction.d = statement.result(0, statement.bytes);
  instruction.a = statement.address(first, instruction.imm);
  instruction.b = statement.operand(first + 1, statement.bytes);
  if (instruction.modifier == a_cas) instruction.c = statement.operand(first + 2, statement.bytes);
  const Space space = statement.choose_or<Space>(s_generic, {{"global", s_global}, {"shared", s_shared}});
  instruction.category = c_atom;
  instruction.strong = true;
  decode_ordering(statement, instruction);
  instruction.execute = atomic(statement.type, space);
}

// Decodes `setmaxnreg.inc.sync.aligned.u32 count`.
void decode_setmaxnreg(const Statement& statement, Instruction& instruction) {
  statement.allow("inc dec sync aligned u32");
  for (const char* qualifier : {"sync", "aligned", "u32"}) statement.require(qualifier);
  statement.require_operands(1);
  instruction.modifier = statement.has("inc");
  instruction.imm = statement.immediate(0);
  if (instruction.imm < 24 || instruction.imm > 256 || instruction.imm % 8 != 0)
    refuse("setmaxnreg needs a multiple of 8 from 24 to 256");
  instruction.kind = poll;
  instruction.aligned = true;
  instruction.poll = setmaxnreg;
  statement.symbols.mark_async();
}

}  // namespace

bool reaches_other_blocks(const Statement& statement) { return !statement.has("cta") && !statement.has("cluster"); }

void decode_ordering(const Statement& statement, Instruction& instruction) {
  if (!reaches_other_blocks(statement)) return;
  instruction.acquires = statement.has("acquire") || statement.has("acq_rel");
  instruction.releases = statement.has("release") || statement.has("acq_rel");
}

const DecodeTable& synchronization_instructions() {
  static const DecodeTable table = {
      {"bra", decode_bra},
      {"ret", decode_exit},
      {"exit", decode_exit},
      {"trap", decode_trap},
      {"brkpt", decode_trap},
      {"nanosleep", decode_no_operation},
      {"griddepcontrol", decode_no_operation},
      {"bar", decode_bar},
      {"barrier", decode_barrier},
      {"membar", decode_membar},
      {"fence", decode_fence},
      {"vote", decode_vote},
      {"match", decode_match},
      {"redux", decode_redux},
      {"activemask", decode_activemask},
      {"elect", decode_elect},
      {"atom", decode_atom<true>},
      {"red", decode_atom<false>},
      {"setmaxnreg", decode_setmaxnreg},
  };
  return table;
}

}  // namespace heddle::ptx
