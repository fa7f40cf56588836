// The names in the body of a kernel, and the operands of its instructions (PTX ISA, "Identifiers", "Instruction
// Operands" and "Special Registers").
#pragma once
#include <optional>
#include <unordered_map>

#include "memory.hpp"
#include "syntax.hpp"

namespace heddle::ptx {

// A declared register. A predicate's offset is its number.
struct Register {
  u32 offset;
  Type type;
};

// The registers, labels and variables of a kernel. Registers and labels belong to nested scopes, which have numbers.
// The kernel gets its registers, constants and local arrays as they appear in its body. It gets its shared arrays
// before.
class Symbols {
 public:
  explicit Symbols(Kernel& kernel);

  // Notes that the kernel uses an asynchronous instruction (see async.hpp).
  void mark_async() { kernel_.async = true; }

  void open_scope();
  void close_scope() { scope_ = scopes_[scope_].parent; }
  std::size_t scope() const { return scope_; }

  // Reads a directive, such as `.reg .b32 %r<21>`.
  void declare(const std::string& directive);
  void declare_label(const std::string& name, u32 address) { scopes_[scope_].labels[name] = address; }

  // Return what a name means in the current scope, or in another one.
  const Register* find_register(const std::string& name) const;
  std::optional<u32> find_label(const std::string& name, std::size_t scope) const;

  // Reads a register, a number or the address of a variable. The operand must have `bytes` bytes, or any size
  // if that is 0.
  Operand operand(const std::string& text, u32 bytes);
  // Reads a register of any size (PTX ISA, "Operand Size Exceeding Instruction-Type Size"), or an operand of
  // `bytes` bytes.
  Operand relaxed_operand(const std::string& text, u32 bytes) { return operand(text, find_register(text) ? 0 : bytes); }
  // Reads a predicate register, `!` and a predicate register, or a number.
  Operand predicate(std::string text);
  // Read the register of a result, or `_`, which discards the result.
  Operand result(const std::string& text, u32 bytes) { return text == "_" ? Operand{} : operand(text, bytes); }
  Operand predicate_result(const std::string& text) { return text == "_" ? Operand{} : predicate(text); }
  // Reads `[base+offset]`. The base is a register, a variable or a number. Sets `space` to that of a variable.
  Operand address(const std::string& text, s64& offset, Space* space = nullptr);
  // Returns an operand that has a value in all lanes.
  Operand constant(u64 value, u32 bytes);

 private:
  static constexpr std::size_t no_scope = ~std::size_t{0};
  struct Scope {
    std::size_t parent;  // the enclosing scope, or no_scope
    std::unordered_map<std::string, Register> registers;
    std::unordered_map<std::string, u32> labels;
  };
  struct Location {
    u64 address;
    Space space;
  };

  void place_shared_arrays();
  void place_shared_array(const std::string& name, u32 bytes, u32 alignment);
  void declare_registers(const std::string& directive);
  void declare_register(const std::string& name, Type type);
  u32 allocate_register(u32 bytes);
  std::optional<Location> find_variable(const std::string& name) const;
  Operand special_register(const std::string& name);

  Kernel& kernel_;
  std::vector<Scope> scopes_{{no_scope, {}, {}}};
  std::size_t scope_ = 0;
  std::unordered_map<std::string, Location> arrays_;  // arrays in shared and local memory
  std::map<std::pair<u64, u32>, u32> constants_;      // offsets of the constants, by value and size
};

}  // namespace heddle::ptx
