#include "syntax.hpp"

#include <algorithm>
#include <unordered_map>
#include <utility>

namespace heddle::ptx {

void refuse(std::string why) { throw Refusal{std::move(why)}; }

Type type_of(std::string_view name) {
  static const std::unordered_map<std::string_view, Type> types = {
      {"u8", Type::uint8},  {"u16", Type::uint16}, {"u32", Type::uint32},    {"u64", Type::uint64},
      {"s8", Type::int8},   {"s16", Type::int16},  {"s32", Type::int32},     {"s64", Type::int64},
      {"b8", Type::uint8},  {"b16", Type::uint16}, {"b32", Type::uint32},    {"b64", Type::uint64},
      {"f16", Type::f16},   {"bf16", Type::bf16},  {"f32", Type::f32},       {"f64", Type::f64},
      {"pred", Type::pred}, {"tf32", Type::tf32},  {"bf16x2", Type::bf16x2}, {"f16x2", Type::f16x2}};
  const auto found = types.find(name);
  return found == types.end() ? Type::none : found->second;
}

u32 bytes_of(Type type) {
  switch (type) {
    case Type::pred: return 0;
    case Type::uint8:
    case Type::int8: return 1;
    case Type::uint16:
    case Type::int16:
    case Type::f16:
    case Type::bf16: return 2;
    case Type::uint64:
    case Type::int64:
    case Type::f64: return 8;
    default: return 4;
  }
}

bool mentions(std::string_view text, std::string_view identifier) {
  for (auto at = text.find(identifier); at != std::string_view::npos; at = text.find(identifier, at + 1)) {
    const auto end = at + identifier.size();
    if ((at == 0 || !is_identifier(text[at - 1])) && (end == text.size() || !is_identifier(text[end]))) return true;
  }
  return false;
}

bool is_listed(std::string_view word, std::string_view list) {
  for (auto at = list.find(word); at != std::string_view::npos; at = list.find(word, at + 1)) {
    const auto end = at + word.size();
    if ((at == 0 || list[at - 1] == ' ') && (end == list.size() || list[end] == ' ')) return true;
  }
  return false;
}

std::string trimmed(std::string_view text) {
  while (!text.empty() && is_space(text.front())) text.remove_prefix(1);
  while (!text.empty() && is_space(text.back())) text.remove_suffix(1);
  return std::string(text);
}

std::vector<std::string> words(std::string_view text) {
  std::vector<std::string> out;
  for (auto begin = text.begin(); begin != text.end();) {
    begin = std::find_if_not(begin, text.end(), is_space);
    const auto end = std::find_if(begin, text.end(), is_space);
    if (begin != end) out.emplace_back(begin, end);
    begin = end;
  }
  return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
  std::vector<std::string> parts;
  std::size_t begin = 0;
  int depth = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '{' || c == '[' || c == '(') ++depth;
    if (c == '}' || c == ']' || c == ')') --depth;
    if (c != separator || depth != 0) continue;
    parts.push_back(trimmed(text.substr(begin, i - begin)));
    begin = i + 1;
  }
  if (std::string last = trimmed(text.substr(begin)); !last.empty()) parts.push_back(std::move(last));
  return parts;
}

u64 parse_number(const std::string& text, u32 bytes) {
  const bool is_single = text.starts_with("0f") || text.starts_with("0F");
  const bool is_double = text.starts_with("0d") || text.starts_with("0D");
  if (is_single || is_double) {
    const u64 bits = std::strtoull(text.c_str() + 2, nullptr, 16);
    if (is_double || bytes != 8) return bits;
    return std::bit_cast<u64>(static_cast<double>(std::bit_cast<float>(static_cast<u32>(bits))));
  }
  char* end = nullptr;
  const u64 value =
      text[0] == '-' ? static_cast<u64>(std::strtoll(text.c_str(), &end, 0)) : std::strtoull(text.c_str(), &end, 0);
  if (*end != '\0' && *end != 'U') refuse("number " + text);
  return value;
}

namespace {

// Reads the name of a variable and its extents: `name`, `name[]`, `name[4][128]`.
void parse_name(const std::string& word, Declaration& declaration) {
  auto bracket = word.find('[');
  declaration.name = word.substr(0, bracket);
  declaration.bytes = declaration.element_bytes;
  for (; bracket != std::string::npos; bracket = word.find('[', bracket + 1)) {
    declaration.is_unsized |= word[bracket + 1] == ']';
    declaration.bytes *= declaration.is_unsized ? 0 : static_cast<u32>(std::atoi(word.c_str() + bracket + 1));
  }
}

}  // namespace

// A parameter that points to memory may describe it: `.param .u64 .ptr .global .align 4 name`.
Declaration parse_declaration(std::string_view text) {
  Declaration declaration;
  const std::vector<std::string> parts = words(text);
  bool is_pointee = false;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    const std::string& word = parts[i];
    if (is_listed(word, ".visible .extern .weak .common")) continue;
    if (word == ".ptr") {
      is_pointee = true;
    } else if (is_listed(word, ".global .shared .const .param .local")) {
      if (!is_pointee) declaration.space = word;
    } else if (word == ".align") {
      if (i + 1 == parts.size()) refuse("alignment missing");
      const u32 alignment = static_cast<u32>(std::atoi(parts[++i].c_str()));
      if (!is_pointee) declaration.alignment = alignment;
    } else if (word[0] == '.') {
      const Type type = type_of(word.substr(1));
      if (type == Type::none) refuse("type " + word);
      declaration.element_bytes = bytes_of(type);
    } else {
      parse_name(word, declaration);
    }
  }
  declaration.alignment = std::max({declaration.alignment, declaration.element_bytes, 1u});
  return declaration;
}

}  // namespace heddle::ptx
