// The pieces of PTX text that are the same in a module and in the body of a kernel: types, words, lists, and declarations of variables
// (PTX ISA, "Syntax", "Types" and "Variables").
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "interpreter.hpp"

namespace heddle::ptx {

// Thrown where the interpreter does not know a construct. parse() and decode() catch it, add its place, and call unsupported().
struct Refusal {
  std::string why;
};
[[noreturn]] void refuse(std::string why);

// A fundamental type. Untyped bits (.b32) count as unsigned integers.
enum class Type : u8 {
  uint8,
  uint16,
  uint32,
  uint64,
  int8,
  int16,
  int32,
  int64,
  f16,
  bf16,
  f32,
  f64,
  pred,
  tf32,
  bf16x2,
  f16x2,
  none
};

// Returns the type of a name without its dot, or Type::none.
Type type_of(std::string_view name);
// Returns the size of a value, 0 for a predicate, and 4 for Type::none.
u32 bytes_of(Type type);
inline bool is_integer(Type type) { return type <= Type::int64; }
inline bool is_floating_point(Type type) { return type == Type::f32 || type == Type::f64; }

inline u32 round_up(u32 value, u32 multiple) { return (value + multiple - 1) / multiple * multiple; }

inline bool is_space(char c) { return c == ' ' || ('\t' <= c && c <= '\r'); }
inline bool is_digit(char c) { return '0' <= c && c <= '9'; }
inline bool is_identifier(char c) {
  return is_digit(c) || ('a' <= c && c <= 'z') || ('A' <= c && c <= 'Z') || c == '_' || c == '$' || c == '%';
}
// Returns whether an identifier occurs in a text, as a whole.
bool mentions(std::string_view text, std::string_view identifier);

// Returns a text without white space at its ends.
std::string trimmed(std::string_view text);
// Returns the parts of a text that white space separates.
std::vector<std::string> words(std::string_view text);
// Returns the trimmed parts of a text between separators outside of all brackets.
std::vector<std::string> split(std::string_view text, char separator);

// Returns whether a text begins as a number does.
inline bool is_number(std::string_view text) {
  return !text.empty() && (is_digit(text[0]) || text[0] == '-' || text[0] == '+');
}
// Returns the bits of an integer, or of a float that is written as 0f3F800000 or 0d3FF0000000000000. Converts a 32-bit float if `bytes` is 8.
u64 parse_number(const std::string& text, u32 bytes);

// A variable or a parameter: `.shared .align 16 .b8 name[4][128]`.
struct Declaration {
  std::string name;
  std::string space;      // ".shared"
  u32 element_bytes = 0;  // of its type
  u32 bytes = 0;
  u32 alignment = 0;
  bool is_unsized = false;  // `name[]`
};
// Reads a declaration without an initializer.
Declaration parse_declaration(std::string_view text);

}  // namespace heddle::ptx
