// Decodes asynchronous copies and mbarriers (PTX ISA, "Data Movement and Conversion Instructions: Asynchronous copy"
// and "Parallel Synchronization and Communication Instructions: mbarrier").
#include <algorithm>

#include "bulk_copy.hpp"
#include "cp_async.hpp"
#include "decode.hpp"
#include "mbarrier.hpp"

namespace heddle::ptx {

namespace {

// Decodes `cp.async.cg.shared.global [d], [a], cp-size, src-size`, where src-size is optional.
void decode_cp_async_copy(const Statement& statement, Instruction& instruction) {
  statement.allow("async ca cg shared global L2::64B L2::128B L2::256B");
  statement.require_untyped();
  const bool bypasses_l1 = statement.has("cg");
  if (!bypasses_l1) statement.require("ca");
  statement.require("shared");
  statement.require("global");
  if (statement.operands.size() > 4) refuse("number of operands");
  instruction.d = statement.address(0, instruction.imm2);
  instruction.a = statement.address(1, instruction.imm3);
  instruction.imm = statement.immediate(2);
  if (instruction.imm != 4 && instruction.imm != 8 && instruction.imm != 16) refuse("cp-size");
  if (bypasses_l1 && instruction.imm != 16) refuse("cp.async.cg needs 16 bytes");
  if (statement.operands.size() == 4) instruction.b = statement.operand(3, 4);
  instruction.execute = cp_async;
}

// Decodes cp.async, cp.async.commit_group, cp.async.wait_group and cp.async.wait_all.
void decode_cp_async(const Statement& statement, Instruction& instruction) {
  instruction.category = c_cp_async;
  if (statement.has("commit_group")) {
    instruction.execute = cp_async_commit;
  } else if (statement.has("wait_group")) {
    instruction.imm = statement.immediate(0);
    instruction.execute = cp_async_wait;
  } else if (statement.has("wait_all")) {
    instruction.imm = -1;
    instruction.execute = cp_async_wait;
  } else {
    decode_cp_async_copy(statement, instruction);
  }
}

// Decodes `cp.async.mbarrier.arrive.noinc.b64 [a]`.
void decode_cp_async_arrive(const Statement& statement, Instruction& instruction) {
  statement.allow("async mbarrier arrive noinc shared");
  statement.require("b64");
  statement.require_operands(1);
  statement.symbols.mark_async();
  instruction.modifier = statement.has("noinc");
  instruction.a = statement.address(0, instruction.imm);
  instruction.category = c_mbarrier;
  instruction.execute = cp_async_mbarrier_arrive;
}

// Returns the kind of a bulk copy. The state space of the destination stands before that of the source: .shared.global
// is a load.
BulkOperands::Kind bulk_kind(const Statement& statement) {
  const auto& qualifiers = statement.qualifiers;
  const auto find = [&](std::string_view name) { return std::find(qualifiers.begin(), qualifiers.end(), name); };
  const auto global = find("global");
  const auto shared = std::min(find("shared"), find("shared::cluster"));
  if (global == qualifiers.end()) refuse("state spaces");
  if (statement.has("prefetch")) return BulkOperands::prefetch;
  if (shared == qualifiers.end()) refuse("state spaces");
  if (shared < global) return BulkOperands::load;
  return statement.has("reduce") ? BulkOperands::reduce : BulkOperands::store;
}

// Reads a bulk copy's address in global memory, `[a]`, or a tensor map with coordinates, `[map, {x, y}]`.
void read_global_address(const Statement& statement, std::size_t index, BulkOperands& operands) {
  if (!operands.is_tensor) {
    operands.global = statement.address(index, operands.global_offset);
    return;
  }
  const std::string& text = statement.operand_text(index);
  if (!text.starts_with('[')) refuse("address " + text);
  const std::vector<std::string> parts = split(std::string_view(text).substr(1, text.size() - 2), ',');
  if (parts.size() != 2) refuse("tensor map and coordinates");
  operands.global = statement.symbols.address("[" + parts[0] + "]", operands.global_offset);
  operands.rank = statement.choose<u8>({{"1d", 1}, {"2d", 2}, {"3d", 3}, {"4d", 4}, {"5d", 5}});
  const std::vector<std::string> coordinates = elements_of(parts[1]);
  if (coordinates.size() != operands.rank) refuse("number of coordinates");
  for (std::size_t i = 0; i < coordinates.size(); ++i)
    operands.coordinates[i] = statement.symbols.operand(coordinates[i], 4);
}

// Reads the operation of a reduction and its type. The type of a tensor is in its map.
void read_reduction(const Statement& statement, BulkOperands& operands) {
  operands.operation = statement.choose<AtomOp>({{"add", a_add}, {"min", a_min}, {"max", a_max}});
  if (operands.is_tensor) return;
  for (const char* type : {"u32", "s32", "u64", "s64", "f16", "bf16", "f32", "f64"})
    if (statement.has(type)) operands.type = type_of(type);
  if (operands.type == Type::none) refuse("type of a reduction");
}

// Decodes a bulk copy:
//   load              cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [shared], [global], size,
//                     [mbarrier]
//   store, reduction  cp.async.bulk.global.shared::cta.bulk_group [global], [shared], size
//   prefetch          cp.async.bulk.prefetch.L2.global [global], size
// A copy of a tensor has no size. A cache policy may follow.
void decode_bulk_copy(const Statement& statement, Instruction& instruction) {
  statement.allow(
      "reduce async bulk tensor prefetch L2 1d 2d 3d 4d 5d tile shared::cluster shared global bulk_group "
      "mbarrier::complete_tx::bytes L2::cache_hint add min max noftz");
  auto& operands = extend<BulkOperands>(instruction);
  operands.is_tensor = statement.has("tensor");
  operands.kind = bulk_kind(statement);
  const bool is_load = operands.kind == BulkOperands::load;
  const bool is_prefetch = operands.kind == BulkOperands::prefetch;
  const bool is_reduction = operands.kind == BulkOperands::reduce;
  if (!is_prefetch && !statement.has(is_load ? "mbarrier::complete_tx::bytes" : "bulk_group"))
    refuse("completion mechanism");

  std::size_t next = 0;
  if (is_load) operands.shared = statement.address(next++, operands.shared_offset);
  read_global_address(statement, next++, operands);
  if (!is_load && !is_prefetch) operands.shared = statement.address(next++, operands.shared_offset);
  if (!operands.is_tensor) operands.bytes = statement.operand(next++, 4);
  if (is_load) operands.mbarrier = statement.address(next++, operands.mbarrier_offset);
  if (statement.has("L2::cache_hint")) statement.operand(next++, 8);
  statement.require_operands(next);
  if (is_reduction) read_reduction(statement, operands);
  if (!is_reduction || operands.is_tensor) statement.require_untyped();
  instruction.execute = bulk_copy;
}

// Decodes cp.async.bulk, cp.reduce.async.bulk, cp.async.bulk.commit_group and cp.async.bulk.wait_group.
void decode_cp_bulk(const Statement& statement, Instruction& instruction) {
  statement.symbols.mark_async();
  instruction.category = c_bulk;
  if (statement.has("commit_group")) {
    instruction.execute = bulk_commit_group;
  } else if (statement.has("wait_group")) {
    statement.require_operands(1);
    instruction.imm = statement.immediate(0);
    instruction.modifier = statement.has("read");
    instruction.execute = bulk_wait_group;
  } else {
    decode_bulk_copy(statement, instruction);
  }
}

void decode_cp(const Statement& statement, Instruction& instruction) {
  if (statement.has("mbarrier") && statement.has("arrive")) return decode_cp_async_arrive(statement, instruction);
  if (statement.has("multicast::cluster")) refuse("clusters of several blocks");
  if (statement.has("bulk")) return decode_cp_bulk(statement, instruction);
  if (statement.has("async")) return decode_cp_async(statement, instruction);
  refuse("kind of cp");
}

// Decodes `mbarrier.pending_count.b64 d, state`.
void decode_mbarrier_pending_count(const Statement& statement, Instruction& instruction) {
  statement.require_operands(2);
  instruction.d = statement.operand(0, 4);
  instruction.c = statement.operand(1, 8);
  instruction.execute = mbarrier_pending_count;
}

// Decodes `mbarrier.try_wait.b64 d, [a], state, limit`, where the time limit is optional. With .parity, a parity
// replaces the state.
void decode_mbarrier_wait(const Statement& statement, Instruction& instruction) {
  const bool is_test = statement.has("test_wait");
  const bool by_parity = statement.has("parity");
  instruction.d = statement.predicate(0);
  instruction.a = statement.address(1, instruction.imm);
  instruction.c = statement.operand(2, by_parity ? 4 : 8);
  if (statement.operands.size() > 3) statement.operand(3, 4);
  instruction.modifier = is_test;
  instruction.modifier2 = by_parity;
  instruction.modifier3 = is_test;
  instruction.imm2 = statement.has("relaxed");
  instruction.kind = poll;
  instruction.poll = mbarrier_wait;
}

// Decodes `mbarrier.arrive.b64 state, [a], count` and the like. Arrivals may return a state, and need no count.
void decode_mbarrier_update(const Statement& statement, Instruction& instruction) {
  const bool arrives = statement.has("arrive") || statement.has("arrive_drop");
  if (statement.has("arrive_drop") && statement.has("expect_tx")) refuse("qualifier .expect_tx");
  instruction.execute = statement.choose<Execute>({{"init", mbarrier_init},
                                                   {"inval", mbarrier_inval},
                                                   {"arrive_drop", mbarrier_arrive},
                                                   {"arrive", mbarrier_arrive},
                                                   {"expect_tx", mbarrier_expect_tx},
                                                   {"complete_tx", mbarrier_complete_tx}});
  if (arrives)
    instruction.modifier =
        statement.choose_or<ArriveForm>(arrive_plain, {{"arrive_drop", arrive_drop}, {"expect_tx", arrive_expect_tx}});
  const bool needs_count = arrives ? instruction.modifier == arrive_expect_tx : !statement.has("inval");
  std::size_t next = 0;
  if (arrives && !statement.operand_text(0).starts_with('[')) instruction.d = statement.result(next++, 8);
  instruction.a = statement.address(next++, instruction.imm);
  if (needs_count || next < statement.operands.size()) instruction.b = statement.operand(next++, 4);
  statement.require_operands(next);
  instruction.modifier2 = statement.has("relaxed");
}

void decode_mbarrier(const Statement& statement, Instruction& instruction) {
  statement.allow(
      "init inval arrive arrive_drop expect_tx complete_tx test_wait try_wait parity pending_count shared "
      "shared::cluster acquire release relaxed cta cluster");
  statement.require("b64");
  statement.symbols.mark_async();
  instruction.category = c_mbarrier;
  if (statement.has("pending_count")) return decode_mbarrier_pending_count(statement, instruction);
  if (statement.has("test_wait") || statement.has("try_wait")) return decode_mbarrier_wait(statement, instruction);
  decode_mbarrier_update(statement, instruction);
}

}  // namespace

const DecodeTable& async_instructions() {
  static const DecodeTable table = {
      {"cp", decode_cp},
      {"mbarrier", decode_mbarrier},
  };
  return table;
}

}  // namespace heddle::ptx
