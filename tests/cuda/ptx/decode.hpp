// What the decoders of all instructions use: the parts of an instruction's text, and the choice of an Execute function by type. Each
// decode_*.cpp decodes a family of instructions and ends with the table of their opcodes.
#pragma once
#include <initializer_list>
#include <span>

#include "symbols.hpp"

namespace heddle::ptx {

// Returns the elements of a vector `{a, b}`, or the text itself.
std::vector<std::string> elements_of(const std::string& text);

// An instruction in its parts: `@guard opcode.qualifier operand, operand` (PTX ISA, "Instruction Statements").
struct Statement {
  Statement(std::string text, Symbols& its_symbols);

  Symbols& symbols;
  std::string guard;                    // "%p1", "!%p1" or empty
  std::string mnemonic;                 // the opcode with its qualifiers: "ld.global.v4.f32"
  std::string opcode;                   // "ld"
  std::vector<std::string> qualifiers;  // "global", "v4", "f32"; shared::cta appears as shared
  std::vector<std::string> operands;    // "{%f1, %f2, %f3, %f4}", "[%rd1+16]"
  Type type;                            // of the last qualifier
  u32 bytes;                            // of the type

  bool has(std::string_view qualifier) const;
  // Refuses qualifiers that are not among the words of `known`. The last one may be a type.
  void allow(std::string_view known) const;
  void require(std::string_view qualifier) const;
  void require_operands(std::size_t count) const;

  // Return the value of the first qualifier in a table that the instruction has.
  template <class T>
  struct Choice {
    std::string_view qualifier;
    T value;
  };
  template <class T>
  T choose_or(T otherwise, std::initializer_list<Choice<T>> choices) const {
    for (const auto& [qualifier, value] : choices)
      if (has(qualifier)) return value;
    return otherwise;
  }
  template <class T>
  T choose(std::initializer_list<Choice<T>> choices) const {
    for (const auto& [qualifier, value] : choices)
      if (has(qualifier)) return value;
    refuse("qualifier missing");
  }

  // Read the operand at an index.
  const std::string& operand_text(std::size_t index) const;
  Operand operand(std::size_t index, u32 size) const { return symbols.operand(operand_text(index), size); }
  Operand result(std::size_t index, u32 size) const { return symbols.result(operand_text(index), size); }
  Operand predicate(std::size_t index) const { return symbols.predicate(operand_text(index)); }
  Operand address(std::size_t index, s64& offset) const { return symbols.address(operand_text(index), offset); }
  s64 immediate(std::size_t index) const { return std::strtoll(operand_text(index).c_str(), nullptr, 0); }
  std::vector<std::string> elements(std::size_t index) const { return elements_of(operand_text(index)); }
  // Reads a vector of exactly as many elements as `to` has.
  void read_vector(std::size_t index, u32 element_bytes, std::span<Operand> to) const;
  // Returns both parts of `d|p`. The second one is empty if it is absent.
  std::pair<std::string, std::string> pair(std::size_t index) const;

  // Read the operands d, a, b, c and e, as many as there are sizes, or `count` of the type's size. Refuse other numbers of operands.
  void read_operands(Instruction& instruction, std::span<const u32> sizes) const;
  void read_operands(Instruction& instruction, std::initializer_list<u32> sizes) const {
    read_operands(instruction, std::span(sizes.begin(), sizes.size()));
  }
  void read_operands(Instruction& instruction, std::size_t count) const {
    const u32 sizes[] = {bytes, bytes, bytes, bytes, bytes};
    read_operands(instruction, std::span(sizes).first(count));
  }
};

using DecodeFunction = void (*)(const Statement&, Instruction&);
using DecodeTable = std::unordered_map<std::string_view, DecodeFunction>;
const DecodeTable& arithmetic_instructions();
const DecodeTable& data_instructions();
const DecodeTable& synchronization_instructions();
const DecodeTable& matrix_instructions();
const DecodeTable& async_instructions();

// The operations of pred_op, in Instruction::modifier.
enum PredicateOp : u8 { pred_and, pred_or, pred_xor, pred_not, pred_mov };

// Decodes an operation on predicates.
void decode_predicate_op(const Statement& statement, Instruction& instruction, PredicateOp operation);

// Makes an object for the operands that an Instruction has no members for. It is kept for the life of the process, as kernels are.
template <class T>
T& extend(Instruction& instruction) {
  T* extension = new T{};
  instruction.imm = reinterpret_cast<s64>(extension);
  return *extension;
}

// The functions below return choose.operator()<T>() for the C++ type T of a value, or nullptr for other types.

// Integers of 16 to 64 bits.
template <class F>
Execute for_integer(Type type, F&& choose) {
  switch (type) {
    case Type::uint16: return choose.template operator()<u16>();
    case Type::uint32: return choose.template operator()<u32>();
    case Type::uint64: return choose.template operator()<u64>();
    case Type::int16: return choose.template operator()<s16>();
    case Type::int32: return choose.template operator()<s32>();
    case Type::int64: return choose.template operator()<s64>();
    default: return nullptr;
  }
}
// Integers of 8 to 64 bits.
template <class F>
Execute for_any_integer(Type type, F&& choose) {
  if (type == Type::uint8) return choose.template operator()<u8>();
  if (type == Type::int8) return choose.template operator()<s8>();
  return for_integer(type, choose);
}
template <class F>
Execute for_floating_point(Type type, F&& choose) {
  switch (type) {
    case Type::f32: return choose.template operator()<float>();
    case Type::f64: return choose.template operator()<double>();
    default: return nullptr;
  }
}
template <class F>
Execute for_number(Type type, F&& choose) {
  return is_floating_point(type) ? for_floating_point(type, choose) : for_integer(type, choose);
}
// Untyped bits of 2, 4 or 8 bytes.
template <class F>
Execute for_bits(u32 bytes, F&& choose) {
  switch (bytes) {
    case 2: return choose.template operator()<u16>();
    case 4: return choose.template operator()<u32>();
    case 8: return choose.template operator()<u64>();
    default: return nullptr;
  }
}

}  // namespace heddle::ptx
