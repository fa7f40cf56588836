// The common tools of decode_*.cpp: the parts of an instruction's text, and the choice of an Execute function by type.
// Each decode_*.cpp decodes a family of instructions and ends with a table of its opcodes.
#pragma once
#include <initializer_list>
#include <span>

#include "compare.hpp"
#include "symbols.hpp"

namespace heddle::ptx {

// Returns the elements of a vector `{a, b}`, or the text itself.
std::vector<std::string> elements_of(const std::string& text);

// The parts of an instruction, `@guard opcode.qualifier operand, operand` (PTX ISA, "Instruction Statements").
struct Statement {
  Statement(std::string text, Symbols& its_symbols);

  Symbols& symbols;
  std::string guard;                    // "%p1", "!%p1" or empty
  std::string mnemonic;                 // the opcode with its qualifiers: "ld.global.v4.f32"
  std::string opcode;                   // "ld"
  std::vector<std::string> qualifiers;  // "global", "v4", "f32"; shared::cta is replaced by shared
  std::vector<std::string> operands;    // "{%f1, %f2, %f3, %f4}", "[%rd1+16]"
  Type type;                            // the last qualifier's type, or Type::none
  u32 bytes;                            // the size of the type

  bool has(std::string_view qualifier) const;
  // Refuses a qualifier that is not among the words of `known`, unless it is a type in the last place.
  void allow(std::string_view known) const;
  // Refuses an instruction that lacks a qualifier.
  void require(std::string_view qualifier) const;
  // Refuses an instruction whose last qualifier is a type.
  void require_untyped() const;
  // Refuses an instruction with another number of operands.
  void require_operands(std::size_t count) const;

  template <class T>
  struct Choice {
    std::string_view qualifier;
    T value;
  };
  // Return the value of the first choice whose qualifier the instruction has. choose() refuses an instruction that has
  // none of them.
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

  // Return the operand at an index. The results are like those of the functions of Symbols.
  const std::string& operand_text(std::size_t index) const;
  Operand operand(std::size_t index, u32 size) const { return symbols.operand(operand_text(index), size); }
  Operand result(std::size_t index, u32 size) const { return symbols.result(operand_text(index), size); }
  Operand predicate(std::size_t index) const { return symbols.predicate(operand_text(index)); }
  Operand address(std::size_t index, s64& offset) const { return symbols.address(operand_text(index), offset); }
  s64 immediate(std::size_t index) const { return std::strtoll(operand_text(index).c_str(), nullptr, 0); }
  std::vector<std::string> elements(std::size_t index) const { return elements_of(operand_text(index)); }
  // Reads a vector that must have as many elements as `to`.
  void read_vector(std::size_t index, u32 element_bytes, std::span<Operand> to) const;
  // Returns both parts of `d|p`, the second one of which may be missing.
  std::pair<std::string, std::string> pair(std::size_t index) const;

  // Read all operands, which are the first ones of d, a, b, c and e. Their sizes are given, or equal to that
  // of the type.
  void read_operands(Instruction& instruction, std::span<const u32> sizes) const;
  void read_operands(Instruction& instruction, std::initializer_list<u32> sizes) const {
    read_operands(instruction, std::span(sizes.begin(), sizes.size()));
  }
  void read_operands(Instruction& instruction, std::size_t count) const {
    const u32 sizes[] = {bytes, bytes, bytes, bytes, bytes};
    read_operands(instruction, std::span(sizes).first(count));
  }
};

// Decodes an instruction. `instruction` has its defaults and its guard.
using DecodeFunction = void (*)(const Statement& statement, Instruction& instruction);
// Functions by opcode.
using DecodeTable = std::unordered_map<std::string_view, DecodeFunction>;
const DecodeTable& arithmetic_instructions();
const DecodeTable& data_instructions();
const DecodeTable& synchronization_instructions();
const DecodeTable& matrix_instructions();
const DecodeTable& async_instructions();

// Returns whether the scope of a memory operation or fence is larger than a block. A cluster has one block here.
bool reaches_other_blocks(const Statement& statement);
// Decodes .acquire, .release and .acq_rel.
void decode_ordering(const Statement& statement, Instruction& instruction);

// Decodes an operation whose operands are predicates.
void decode_predicate_op(const Statement& statement, Instruction& instruction, PredicateOp operation);

// Returns an object for operands that Instruction has no members for, to which instruction.imm points. It lives as long
// as the process, as kernels do.
template <class T>
T& extend(Instruction& instruction) {
  T* extension = new T{};
  instruction.imm = reinterpret_cast<s64>(extension);
  return *extension;
}

// The functions below return choose.operator()<T>(), where T is the C++ type of a value, or nullptr for other types.

// T is an integer of 16 to 64 bits.
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
// T is an integer of 8 to 64 bits.
template <class F>
Execute for_any_integer(Type type, F&& choose) {
  if (type == Type::uint8) return choose.template operator()<u8>();
  if (type == Type::int8) return choose.template operator()<s8>();
  return for_integer(type, choose);
}
// T is float or double.
template <class F>
Execute for_floating_point(Type type, F&& choose) {
  switch (type) {
    case Type::f32: return choose.template operator()<float>();
    case Type::f64: return choose.template operator()<double>();
    default: return nullptr;
  }
}
// T is an integer of 16 to 64 bits, float or double.
template <class F>
Execute for_number(Type type, F&& choose) {
  return is_floating_point(type) ? for_floating_point(type, choose) : for_integer(type, choose);
}
// T is an unsigned integer of 2, 4 or 8 bytes.
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
