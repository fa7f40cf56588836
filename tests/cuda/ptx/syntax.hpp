// The pieces of PTX text that modules and the bodies of kernels have in common: types, words, lists, numbers, and
// declarations of variables (PTX ISA, "Syntax", "Types" and "Variables").
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "interpreter.hpp"

namespace heddle::ptx {

// The reason why the interpreter does not support a piece of text. parse() and decode() catch it and call unsupported()
// with its place.
struct Refusal {
  std::string why;
};
// Throws a Refusal.
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
// Returns whether a text contains an identifier as a whole.
bool mentions(std::string_view text, std::string_view identifier);
// Returns whether a word is among the words of a list, which blanks separate.
bool is_listed(std::string_view word, std::string_view list);

// Returns a text without white space at its ends.
std::string trimmed(std::string_view text);
// Returns the words of a text, which white space separates.
std::vector<std::string> words(std::string_view text);
// Returns the trimmed parts of a text between separators. Separators within brackets do not count.
std::vector<std::string> split(std::string_view text, char separator);

// Returns whether a text begins as a number does.
inline bool is_number(std::string_view text) {
  return !text.empty() && (is_digit(text[0]) || text[0] == '-' || text[0] == '+');
}
// Returns the bits of an integer, or of a floating-point number such as 0f3F800000 or 0d3FF0000000000000. If `bytes` is
// 8, converts from 32 to 64 bits.
u64 parse_number(const std::string& text, u32 bytes);

// The declaration of a variable or a parameter, such as `.shared .align 16 .b8 name[4][128]`.
struct Declaration {
  std::string name;
  std::string space;  // ".shared"
  u32 element_bytes = 0;
  u32 bytes = 0;
  u32 alignment = 0;
  bool is_unsized = false;  // `name[]`
};
// Reads a declaration without an initializer.
Declaration parse_declaration(std::string_view text);

}  // namespace heddle::ptx
