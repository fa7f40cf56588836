// Decodes the instructions of the tensor cores (PTX ISA, "Warp-Level Matrix Instructions" and "Asynchronous Warpgroup
// Level Matrix Multiply-Accumulate Instructions").
#include <algorithm>

#include "decode.hpp"
#include "matrix.hpp"
#include "wgmma.hpp"

namespace heddle::ptx {

namespace {

// Reads `ldmatrix.sync.aligned.m8n8.x2.shared.b16 {d, e}, [a]` or `stmatrix.sync.aligned.m8n8.x2.shared.b16
// [a], {b, c}`.
void decode_matrix_access(const Statement& statement, Instruction& instruction, bool is_load) {
  statement.allow("sync aligned m8n8 x1 x2 x4 trans shared");
  for (const char* qualifier : {"sync", "aligned", "m8n8", "shared", "b16"}) statement.require(qualifier);
  statement.require_operands(2);
  instruction.modifier = statement.choose<u8>({{"x1", 1}, {"x2", 2}, {"x4", 4}});
  instruction.modifier2 = statement.has("trans");
  statement.read_vector(is_load ? 0 : 1, 4, std::span(instruction.v).first(instruction.modifier));
  instruction.a = statement.address(is_load ? 1 : 0, instruction.imm);
  instruction.kind = sync;
  instruction.aligned = true;
}

void decode_ldmatrix(const Statement& statement, Instruction& instruction) {
  decode_matrix_access(statement, instruction, true);
  instruction.category = c_ldmatrix;
  instruction.execute = ldmatrix;
}

void decode_stmatrix(const Statement& statement, Instruction& instruction) {
  decode_matrix_access(statement, instruction, false);
  instruction.category = c_st_shared;
  instruction.execute = stmatrix;
}

void decode_mma(const Statement& statement, Instruction& instruction) {
  if (statement.mnemonic == "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32")
    instruction.execute = mma_16bit<false>;
  else if (statement.mnemonic == "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32")
    instruction.execute = mma_16bit<true>;
  else if (statement.mnemonic == "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32")
    instruction.execute = mma_tf32;
  else
    refuse("shape or type of mma");
  statement.require_operands(4);
  auto& operands = extend<MmaOperands>(instruction);
  statement.read_vector(0, 4, operands.d);
  statement.read_vector(1, 4, operands.a);
  statement.read_vector(2, 4, operands.b);
  statement.read_vector(3, 4, operands.c);
  instruction.kind = sync;
  instruction.aligned = true;
  instruction.category = c_mma;
}

// Reads an immediate that must be one of two numbers. Returns whether it is the second one.
bool read_choice(const Statement& statement, std::size_t index, s64 first, s64 second) {
  const std::string& text = statement.operand_text(index);
  if (!is_number(text)) refuse("immediate " + text);
  const s64 value = statement.immediate(index);
  if (value != first && value != second) refuse("immediate " + text);
  return value == second;
}

// Reads the shape and the type of `wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16`.
void read_wgmma_type(const Statement& statement, WgmmaOperands& operands) {
  const auto& qualifiers = statement.qualifiers;
  if (qualifiers.size() != 7 || qualifiers[0] != "mma_async" || qualifiers[4] != "f32" ||
      qualifiers[5] != qualifiers[6])
    refuse("form of wgmma");
  const bool is_shape = std::sscanf(qualifiers[3].c_str(), "m64n%dk%d", &operands.n, &operands.k) == 2;
  if (!is_shape || operands.n < 8 || operands.n > 256 || operands.n % 8 != 0) refuse("shape of wgmma");
  operands.type = statement.type;
  if (operands.type != Type::bf16 && operands.type != Type::f16 && operands.type != Type::tf32) refuse("type of wgmma");
  if (operands.k * bytes_of(statement.type) != 32) refuse("shape of wgmma");
}

void read_accumulators(const Statement& statement, WgmmaOperands& operands) {
  const auto count = static_cast<std::size_t>(operands.n) / 2;
  if (statement.elements(0).size() != count) refuse("number of accumulators");
  const auto accumulators = std::span(operands.d).first(count);
  statement.read_vector(0, 4, accumulators);
  std::vector<u32> offsets;
  for (const Operand& accumulator : accumulators) {
    if (accumulator.constant || accumulator.absent) refuse("accumulator that is not a register");
    offsets.push_back(accumulator.offset);
  }
  std::sort(offsets.begin(), offsets.end());
  if (std::adjacent_find(offsets.begin(), offsets.end()) != offsets.end()) refuse("an accumulator that is used twice");
}

// Decodes `wgmma.mma_async d, a, b-desc, scale-d, imm-scale-a, imm-scale-b, imm-trans-a, imm-trans-b`, where a is a
// descriptor or a vector of registers. Only 16-bit types have imm-trans-b, and imm-trans-a if a is a descriptor.
void decode_wgmma_mma(const Statement& statement, Instruction& instruction) {
  auto& operands = extend<WgmmaOperands>(instruction);
  read_wgmma_type(statement, operands);
  read_accumulators(statement, operands);
  operands.a_registers = statement.operand_text(1).starts_with('{');
  if (operands.a_registers) {
    statement.read_vector(1, 4, operands.a);
    for (const Operand& part : operands.a)
      if (part.constant) refuse("A that is not in registers");
  } else {
    operands.a_descriptor = statement.operand(1, 8);
  }
  operands.b_descriptor = statement.operand(2, 8);
  operands.scale = statement.predicate(3);
  operands.negate_a = read_choice(statement, 4, 1, -1);
  operands.negate_b = read_choice(statement, 5, 1, -1);
  std::size_t next = 6;
  const bool can_transpose = statement.type != Type::tf32;
  if (can_transpose && !operands.a_registers) operands.mn_a = read_choice(statement, next++, 0, 1);
  if (can_transpose) operands.mn_b = read_choice(statement, next++, 0, 1);
  statement.require_operands(next);
  instruction.execute = wgmma;
}

void decode_wgmma(const Statement& statement, Instruction& instruction) {
  statement.require("sync");
  statement.require("aligned");
  statement.symbols.mark_async();
  instruction.kind = sync;
  instruction.aligned = true;
  instruction.category = c_wgmma;
  if (statement.has("fence")) {
    instruction.execute = wgmma_fence;
  } else if (statement.has("commit_group")) {
    instruction.execute = wgmma_commit_group;
  } else if (statement.has("wait_group")) {
    statement.require_operands(1);
    instruction.imm = statement.immediate(0);
    instruction.kind = poll;
    instruction.poll = wgmma_wait_group;
  } else {
    decode_wgmma_mma(statement, instruction);
  }
}

}  // namespace

const DecodeTable& matrix_instructions() {
  static const DecodeTable table = {
      {"ldmatrix", decode_ldmatrix},
      {"stmatrix", decode_stmatrix},
      {"mma", decode_mma},
      {"wgmma", decode_wgmma},
  };
  return table;
}

}  // namespace heddle::ptx
