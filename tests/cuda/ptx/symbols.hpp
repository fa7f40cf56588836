// The names in the body of a kernel, and the operands that refer to them (PTX ISA, "Identifiers", "Instruction Operands" and "Special
// Registers").
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

// The registers, labels and variables that a kernel's body declares or uses. Registers and labels belong to nested scopes; a scope is a
// number. Registers, constants and variables get their places in the kernel as they appear.
class Symbols {
 public:
  // Places the kernel's shared arrays.
  explicit Symbols(Kernel& kernel);

  Kernel& kernel() { return kernel_; }

  void open_scope();
  void close_scope() { scope_ = scopes_[scope_].parent; }
  std::size_t scope() const { return scope_; }

  // Reads a directive, such as `.reg .b32 %r<21>`.
  void declare(const std::string& directive);
  void declare_label(const std::string& name, u32 address) { scopes_[scope_].labels[name] = address; }

  // Return the declaration that is visible in a scope.
  const Register* find_register(const std::string& name) const;
  std::optional<u32> find_label(const std::string& name, std::size_t scope) const;

  // Reads a register, a number or the address of a variable. `bytes` is the operand's size; 0 accepts a register of any size.
  Operand operand(const std::string& text, u32 bytes);
  // Like operand(), but accepts registers of any size (PTX ISA, "Operand Size Exceeding Instruction-Type Size").
  Operand relaxed_operand(const std::string& text, u32 bytes) { return operand(text, find_register(text) ? 0 : bytes); }
  // Reads a predicate register, which may be negated, or a constant.
  Operand predicate(std::string text);
  // Read a register for a result, or `_`, which discards the result.
  Operand result(const std::string& text, u32 bytes) { return text == "_" ? Operand{} : operand(text, bytes); }
  Operand predicate_result(const std::string& text) { return text == "_" ? Operand{} : predicate(text); }
  // Reads `[base+offset]`. The base is a register, a variable or a number. Sets `space` if it is a variable.
  Operand address(const std::string& text, s64& offset, Space* space = nullptr);
  // Returns a register that holds a value in all lanes.
  Operand constant(u64 value, u32 bytes);

 private:
  static constexpr std::size_t no_scope = ~std::size_t{0};
  struct Scope {
    std::size_t parent;
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
  std::unordered_map<std::string, Location> arrays_;  // in shared and local memory
  std::map<std::pair<u64, u32>, u32> constants_;      // offsets, by value and size
};

}  // namespace heddle::ptx
