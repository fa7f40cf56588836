#include "symbols.hpp"

#include <algorithm>
#include <utility>

namespace heddle::ptx {

namespace {

constexpr u32 lane_count = 32;
constexpr u32 register_alignment = 64;  // vector instructions read whole cache lines

u32 bytes_of_lanes(u32 bytes) { return round_up(bytes * lane_count, register_alignment); }

// Returns whether execute.cpp sets a special register. All of them have 32 bits.
bool is_special_register(std::string_view name) {
  if (name.ends_with(".x") || name.ends_with(".y") || name.ends_with(".z"))
    return is_listed(name.substr(0, name.size() - 2),
                     "%tid %ntid %ctaid %nctaid %clusterid %nclusterid %cluster_ctaid %cluster_nctaid");
  return is_listed(
      name,
      "%laneid %warpid %nwarpid %smid %nsmid %lanemask_eq %lanemask_le %lanemask_lt %lanemask_ge %lanemask_gt "
      "%dynamic_smem_size %total_smem_size %cluster_ctarank %cluster_nctarank");
}

// The sum `base+offset`, or the base alone.
struct Sum {
  std::string base;
  s64 offset = 0;
};
Sum parse_sum(const std::string& text) {
  const auto plus = text.find('+');
  if (plus == std::string::npos) return {text};
  return {trimmed(text.substr(0, plus)), std::strtoll(text.c_str() + plus + 1, nullptr, 0)};
}

}  // namespace

Symbols::Symbols(Kernel& kernel) : kernel_(kernel) { place_shared_arrays(); }

void Symbols::open_scope() {
  scopes_.push_back({scope_, {}, {}});
  scope_ = scopes_.size() - 1;
}

// Places the module's static arrays that the body mentions, in the order of their declaration, and the arrays that the
// body declares behind them. All dynamic arrays begin at the same address behind the static ones.
void Symbols::place_shared_arrays() {
  std::vector<std::pair<int, std::string>> used;
  for (const auto& [name, array] : kernel_.module->shareds)
    if (mentions(kernel_.body, name)) used.push_back({array.order, name});
  std::sort(used.begin(), used.end());
  for (const auto& [order, name] : used)
    if (const Module::Shared& array = kernel_.module->shareds.at(name); !array.external)
      place_shared_array(name, array.size, array.align);

  const std::string& body = kernel_.body;
  for (auto at = body.find(".shared "); at != std::string::npos; at = body.find(".shared ", at + 1))
    if (at == 0 || is_space(body[at - 1])) {
      const Declaration array = parse_declaration(body.substr(at, body.find(';', at) - at));
      place_shared_array(array.name, array.bytes, array.alignment);
    }

  u32 alignment = 0;
  for (const auto& [order, name] : used)
    if (const Module::Shared& array = kernel_.module->shareds.at(name); array.external)
      alignment = std::max({alignment, array.align, 16u});
  if (alignment == 0) return;
  kernel_.static_shared = round_up(kernel_.static_shared, alignment);
  for (const auto& [order, name] : used)
    if (kernel_.module->shareds.at(name).external) arrays_[name] = {shared_base + kernel_.static_shared, s_shared};
}

void Symbols::place_shared_array(const std::string& name, u32 bytes, u32 alignment) {
  const u32 offset = round_up(kernel_.static_shared, alignment);
  arrays_[name] = {shared_base + offset, s_shared};
  kernel_.static_shared = offset + bytes;
}

void Symbols::declare(const std::string& directive) {
  const std::string kind = directive.substr(0, directive.find_first_of(" \t"));
  if (kind == ".pragma" || kind == ".loc" || kind == ".file") return;
  if (kind == ".shared") return;  // place_shared_arrays() has read it
  if (kind == ".reg") return declare_registers(directive);
  if (kind != ".local") refuse("directive");
  const Declaration array = parse_declaration(directive);
  const u32 offset = round_up(kernel_.local_bytes, array.alignment);
  arrays_[array.name] = {offset, s_local};
  kernel_.local_bytes = offset + array.bytes;
}

// Reads `.reg .b32 %a, %r<21>`, which declares %a and %r0 to %r20.
void Symbols::declare_registers(const std::string& directive) {
  const std::vector<std::string> parts = words(directive);
  const Type type = parts.size() > 2 ? type_of(parts[1].substr(1)) : Type::none;
  if (type == Type::none) refuse("type");
  const auto names = directive.find(parts[1]) + parts[1].size();
  for (const std::string& name : split(directive.substr(names), ',')) {
    const auto bracket = name.find('<');
    if (bracket == std::string::npos) {
      declare_register(name, type);
      continue;
    }
    const int count = std::atoi(name.c_str() + bracket + 1);
    for (int i = 0; i < count; ++i) declare_register(name.substr(0, bracket) + std::to_string(i), type);
  }
}

void Symbols::declare_register(const std::string& name, Type type) {
  const u32 offset = type == Type::pred ? kernel_.preds++ : allocate_register(bytes_of(type));
  scopes_[scope_].registers[name] = {offset, type};
}

u32 Symbols::allocate_register(u32 bytes) {
  const u32 offset = kernel_.reg_bytes;
  kernel_.reg_bytes += bytes_of_lanes(bytes);
  return offset;
}

const Register* Symbols::find_register(const std::string& name) const {
  for (std::size_t scope = scope_; scope != no_scope; scope = scopes_[scope].parent) {
    const auto& registers = scopes_[scope].registers;
    if (const auto found = registers.find(name); found != registers.end()) return &found->second;
  }
  return nullptr;
}

std::optional<u32> Symbols::find_label(const std::string& name, std::size_t scope) const {
  for (; scope != no_scope; scope = scopes_[scope].parent) {
    const auto& labels = scopes_[scope].labels;
    if (const auto found = labels.find(name); found != labels.end()) return found->second;
  }
  return std::nullopt;
}

std::optional<Symbols::Location> Symbols::find_variable(const std::string& name) const {
  for (const Param& param : kernel_.params)
    if (param.name == name) return Location{param.offset, s_param};
  if (const auto found = arrays_.find(name); found != arrays_.end()) return found->second;
  const auto& globals = kernel_.module->globals;
  if (const auto found = globals.find(name); found != globals.end()) return Location{found->second.address, s_global};
  return std::nullopt;
}

Operand Symbols::operand(const std::string& text, u32 bytes) {
  if (text.empty()) refuse("operand missing");
  if (const Register* found = find_register(text)) {
    if (found->type == Type::pred) refuse("operand " + text);
    const u32 size = bytes_of(found->type);
    if (bytes != 0 && bytes != size) refuse("size of operand " + text);
    return {.offset = found->offset, .size = static_cast<u8>(size), .absent = false};
  }
  if (text[0] == '%') {
    if (bytes != 0 && bytes != 4) refuse("size of " + text);
    return special_register(text);
  }
  if (is_number(text)) return constant(parse_number(text, bytes), bytes == 0 ? 4 : bytes);
  const Sum sum = parse_sum(text);
  const auto variable = find_variable(sum.base);
  if (!variable) refuse("operand " + text);
  return constant(variable->address + static_cast<u64>(sum.offset), bytes == 0 ? 8 : bytes);
}

Operand Symbols::predicate(std::string text) {
  if (text.empty()) refuse("operand missing");
  const bool negated = text[0] == '!';
  if (negated) text = trimmed(text.substr(1));
  if (const Register* found = find_register(text)) {
    if (found->type != Type::pred) refuse("operand " + text);
    return {.offset = found->offset, .negated = negated, .absent = false};
  }
  if (!is_number(text)) refuse("predicate " + text);
  return {.offset = parse_number(text, 4) != 0 ? ~0u : 0, .constant = 1, .negated = negated, .absent = false};
}

Operand Symbols::address(const std::string& text, s64& offset, Space* space) {
  if (text.size() < 2 || text.front() != '[' || text.back() != ']') refuse("address " + text);
  const Sum sum = parse_sum(trimmed(text.substr(1, text.size() - 2)));
  offset = sum.offset;
  if (find_register(sum.base)) {
    const Operand base = operand(sum.base, 0);
    if (base.size != 4 && base.size != 8) refuse("address " + text);
    return base;
  }
  if (const auto variable = find_variable(sum.base)) {
    if (space) *space = variable->space;
    return constant(variable->address, 8);
  }
  if (!is_number(sum.base)) refuse("address " + text);
  return constant(parse_number(sum.base, 8), 8);
}

Operand Symbols::constant(u64 value, u32 bytes) {
  const u32 end = static_cast<u32>(kernel_.constants.size());
  const auto [known, is_new] = constants_.try_emplace({value, bytes}, end);
  if (is_new) {
    kernel_.constants.resize(end + bytes_of_lanes(bytes));
    for (u32 lane = 0; lane < lane_count; ++lane)
      std::memcpy(kernel_.constants.data() + end + lane * bytes, &value, bytes);
  }
  return {.offset = known->second, .constant = 1, .size = static_cast<u8>(bytes), .absent = false};
}

Operand Symbols::special_register(const std::string& name) {
  if (!is_special_register(name)) refuse("register " + name);
  auto& specials = kernel_.specials;
  auto found =
      std::find_if(specials.begin(), specials.end(), [&](const auto& special) { return special.first == name; });
  if (found == specials.end()) found = specials.insert(specials.end(), {name, allocate_register(4)});
  return {.offset = found->second, .size = 4, .absent = false};
}

}  // namespace heddle::ptx
