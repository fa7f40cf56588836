// Decodes moves, conversions, loads, stores and shuffles (PTX ISA, "Data Movement and Conversion Instructions").
#include <algorithm>

#include "arithmetic.hpp"
#include "collective.hpp"
#include "convert.hpp"
#include "decode.hpp"

namespace heddle::ptx {

namespace {

// Returns choose.operator()<Part, Whole, count>() for a vector of `count` parts that has `bytes` bytes as a whole.
template <class F>
Execute for_packing(u32 bytes, std::size_t count, F&& choose) {
  if (bytes == 4 && count == 2) return choose.template operator()<u16, u32, 2>();
  if (bytes == 8 && count == 2) return choose.template operator()<u32, u64, 2>();
  if (bytes == 8 && count == 4) return choose.template operator()<u16, u64, 4>();
  refuse("vector length");
}

// Decodes `mov.b64 d, {a, b}`.
void decode_pack(const Statement& statement, Instruction& instruction) {
  const std::size_t count = statement.elements(1).size();
  instruction.execute =
      for_packing(statement.bytes, count, []<class Part, class Whole, int n>() { return pack<Part, Whole, n>; });
  instruction.d = statement.operand(0, statement.bytes);
  statement.read_vector(1, statement.bytes / static_cast<u32>(count), std::span(instruction.v).first(count));
}

// Decodes `mov.b64 {d, e}, a`.
void decode_unpack(const Statement& statement, Instruction& instruction) {
  const std::vector<std::string> results = statement.elements(0);
  const std::size_t count = results.size();
  instruction.execute =
      for_packing(statement.bytes, count, []<class Part, class Whole, int n>() { return unpack<Part, Whole, n>; });
  instruction.a = statement.operand(1, statement.bytes);
  for (std::size_t i = 0; i < count; ++i)
    instruction.v[i] = statement.symbols.result(results[i], statement.bytes / static_cast<u32>(count));
}

void decode_mov(const Statement& statement, Instruction& instruction) {
  if (statement.type == Type::pred) return decode_predicate_op(statement, instruction, pred_mov);
  statement.require_operands(2);
  instruction.category = c_mov;
  if (statement.operands[1].starts_with('{')) return decode_pack(statement, instruction);
  if (statement.operands[0].starts_with('{')) return decode_unpack(statement, instruction);
  statement.read_operands(instruction, 2);
  instruction.execute = for_bits(statement.bytes, []<class T>() { return mov<T>; });
}

// Decodes cvta, which converts between generic addresses and those of a state space. Global addresses are the
// same in both.
void decode_cvta(const Statement& statement, Instruction& instruction) {
  const u64 window =
      statement.choose_or<u64>(0, {{"shared", shared_window}, {"local", local_window}, {"param", param_window}});
  statement.read_operands(instruction, {8, 8});
  if (window == 0) {
    instruction.category = c_mov;
    instruction.execute = mov<u64>;
    return;
  }
  instruction.b = statement.symbols.constant(statement.has("to") ? 0 - window : window, 8);
  instruction.category = c_int;
  instruction.execute = binary<u64, Add>;
}

// Returns the conversion between two integers, whose registers may be wider than their types.
Execute integer_conversion(Type to, u32 to_bytes, Type from, u32 from_bytes) {
  return for_bits(to_bytes, [&]<class ToRegister>() {
    return for_any_integer(to, [&]<class To>() {
      return for_bits(from_bytes, [&]<class FromRegister>() {
        return for_any_integer(from, []<class From>() { return convert<ToRegister, To, FromRegister, From>; });
      });
    });
  });
}

// Returns choose.operator()<mode>() for the rounding to an integer, or nullptr if the instruction has none. The modes
// are those of RoundTo.
template <class F>
Execute for_integer_rounding(const Statement& statement, F&& choose) {
  if (statement.has("rni")) return choose.template operator()<0>();
  if (statement.has("rmi")) return choose.template operator()<1>();
  if (statement.has("rpi")) return choose.template operator()<2>();
  if (statement.has("rzi")) return choose.template operator()<3>();
  return nullptr;
}

Execute rounding_to_integer(const Statement& statement, Type type) {
  return for_floating_point(type, [&]<class T>() {
    return for_integer_rounding(statement, []<int mode>() { return convert_by<T, T, RoundTo<mode>>; });
  });
}

Execute conversion_to_integer(const Statement& statement, Type to, Type from) {
  return for_integer(to, [&]<class To>() {
    return for_floating_point(from, [&]<class From>() {
      return for_integer_rounding(statement, []<int mode>() { return convert_by_slow<To, From, ToInt<To, mode>>; });
    });
  });
}

Execute conversion_from_integer(Type to, Type from) {
  return for_floating_point(
      to, [&]<class To>() { return for_integer(from, []<class From>() { return convert_by<To, From, As<To>>; }); });
}

// A conversion between floating-point types.
struct Conversion {
  Type to, from;
  std::string_view rounding;  // the qualifier that the instruction must have, or none if the conversion is exact
  Execute execute;
};
constexpr Conversion conversions[] = {
    {Type::bf16, Type::f32, "rn", convert_by<u16, float, Bf16>},
    {Type::f16, Type::f32, "rn", convert_by_slow<u16, float, F16>},
    {Type::tf32, Type::f32, "rna", convert_by<u32, float, Tf32>},
    {Type::f32, Type::f64, "rn", convert_by<float, double, Narrow>},
    {Type::f32, Type::bf16, "", convert_by<float, u16, OfBf16>},
    {Type::f32, Type::f16, "", convert_by_slow<float, u16, OfF16>},
    {Type::f64, Type::f32, "", convert_by<double, float, Widen>},
};

// Returns the conversion between two types that are not both integers.
Execute real_conversion(const Statement& statement, Type to, Type from) {
  if (statement.has("sat")) {
    const bool rounds = statement.has("rni") || statement.has("rmi") || statement.has("rpi") || statement.has("rzi");
    return to == Type::f32 && from == Type::f32 && !rounds ? convert_by<float, float, Saturate> : nullptr;
  }
  if (to == from) return rounding_to_integer(statement, to);
  if (is_integer(to)) return conversion_to_integer(statement, to, from);
  if (is_integer(from)) return statement.has("rn") ? conversion_from_integer(to, from) : nullptr;
  for (const Conversion& conversion : conversions)
    if (conversion.to == to && conversion.from == from)
      return conversion.rounding.empty() || statement.has(conversion.rounding) ? conversion.execute : nullptr;
  return nullptr;
}

// Decodes `cvt.rn.bf16x2.f32 d, a, b`.
void decode_cvt_pair(const Statement& statement, Instruction& instruction, Type to) {
  statement.require("rn");
  if (statement.type != Type::f32) refuse("type");
  statement.read_operands(instruction, {4, 4, 4});
  instruction.execute = to == Type::bf16x2 ? pack_bf16x2 : pack_f16x2;
}

void decode_cvt(const Statement& statement, Instruction& instruction) {
  instruction.category = c_cvt;
  const auto& qualifiers = statement.qualifiers;
  const Type from = statement.type;
  const Type to = qualifiers.size() < 2 ? Type::none : type_of(qualifiers[qualifiers.size() - 2]);
  if (from == Type::none || to == Type::none) refuse("type");
  if (statement.has("ftz") || statement.has("relu")) refuse("qualifier .ftz or .relu");
  if (to == Type::bf16x2 || to == Type::f16x2) return decode_cvt_pair(statement, instruction, to);
  if (!is_integer(to) || !is_integer(from)) {
    statement.read_operands(instruction, {bytes_of(to), bytes_of(from)});
    instruction.execute = real_conversion(statement, to, from);
    return;
  }
  if (statement.has("sat")) refuse("qualifier .sat");
  statement.require_operands(2);
  instruction.d = statement.operand(0, 0);
  instruction.a = statement.symbols.relaxed_operand(statement.operands[1], bytes_of(from));
  instruction.execute = integer_conversion(to, instruction.d.size, from, instruction.a.size);
}

// Returns the function that loads or stores `count` values. They have type Memory in memory and type Register in
// registers.
template <bool is_load, class Memory, class Register, int count, Space space>
Execute access_in() {
  if constexpr (is_load) return load<Memory, Register, count, space>;
  if constexpr (!is_load && space != s_param) return store<Memory, Register, count, space>;
  return nullptr;
}
template <bool is_load, class Memory, class Register, int count>
Execute access_in(Space space) {
  switch (space) {
    case s_generic: return access_in<is_load, Memory, Register, count, s_generic>();
    case s_global: return access_in<is_load, Memory, Register, count, s_global>();
    case s_shared: return access_in<is_load, Memory, Register, count, s_shared>();
    case s_param: return access_in<is_load, Memory, Register, count, s_param>();
    case s_local: return access_in<is_load, Memory, Register, count, s_local>();
  }
  return nullptr;
}

// A load or store of `count` values of a type.
struct MemoryAccess {
  Type type;
  Space space;
  u32 register_bytes;
  std::size_t count;
};
// A register may be wider than its value, which is extended by its sign if it is signed.
template <bool is_load, class Memory>
Execute access_of(const MemoryAccess& access) {
  return for_bits(access.register_bytes, [&]<class Bits>() -> Execute {
    using Register = std::conditional_t<std::is_signed_v<Memory>, std::make_signed_t<Bits>, Bits>;
    if constexpr (sizeof(Register) >= sizeof(Memory)) {
      if (access.count == 1) return access_in<is_load, Memory, Register, 1>(access.space);
      if (access.count == 2) return access_in<is_load, Memory, Register, 2>(access.space);
      if (access.count == 4) return access_in<is_load, Memory, Register, 4>(access.space);
    }
    return nullptr;
  });
}
template <bool is_load>
Execute access_of(const MemoryAccess& access) {
  switch (access.type) {
    case Type::uint8: return access_of<is_load, u8>(access);
    case Type::int8: return access_of<is_load, s8>(access);
    case Type::uint16:
    case Type::f16:
    case Type::bf16: return access_of<is_load, u16>(access);
    case Type::int16: return access_of<is_load, s16>(access);
    case Type::uint32:
    case Type::f32:
    case Type::bf16x2:
    case Type::f16x2: return access_of<is_load, u32>(access);
    case Type::int32: return access_of<is_load, s32>(access);
    case Type::uint64:
    case Type::int64:
    case Type::f64: return access_of<is_load, u64>(access);
    default: return nullptr;
  }
}

Category access_category(Space space, bool is_load) {
  switch (space) {
    case s_global: return is_load ? c_ld_global : c_st_global;
    case s_shared: return is_load ? c_ld_shared : c_st_shared;
    case s_param: return c_ld_param;
    default: return c_generic;
  }
}

// Decodes ld, ldu and st.
template <bool is_load>
void decode_access(const Statement& statement, Instruction& instruction) {
  statement.allow(
      "global shared param local const v2 v4 weak volatile nc relaxed acquire release cta gpu sys ca cg cs lu cv wb wt "
      "L1::evict_first L1::evict_last L1::evict_normal L1::evict_unchanged L1::no_allocate L2::64B L2::128B L2::256B");
  statement.require_operands(2);
  if (statement.type == Type::none || statement.type == Type::pred) refuse("type");
  MemoryAccess access{};
  access.type = statement.type;
  access.space = statement.choose_or<Space>(
      s_generic,
      {{"global", s_global}, {"const", s_global}, {"shared", s_shared}, {"param", s_param}, {"local", s_local}});
  access.count = statement.choose_or<std::size_t>(1, {{"v2", 2}, {"v4", 4}});

  constexpr std::size_t address = is_load ? 1 : 0;
  Space variable_space = access.space;
  instruction.a = statement.symbols.address(statement.operands[address], instruction.imm, &variable_space);
  if (variable_space != access.space) refuse("state space of the address");

  const std::vector<std::string> values = statement.elements(1 - address);
  if (values.size() != access.count) refuse("vector length");
  for (std::size_t i = 0; i < access.count; ++i) {
    if (is_load && values[i] == "_") continue;
    instruction.v[i] = statement.symbols.relaxed_operand(values[i], std::max(statement.bytes, 2u));
    const u32 size = instruction.v[i].size;
    if (access.register_bytes != 0 && access.register_bytes != size) refuse("registers of different sizes");
    access.register_bytes = size;
  }
  instruction.strong =
      statement.has("volatile") || statement.has("relaxed") || statement.has("acquire") || statement.has("release");
  decode_ordering(statement, instruction);
  instruction.category = access_category(access.space, is_load);
  instruction.execute = access_of<is_load>(access);
}

// Decodes prefetch, which does nothing.
void decode_prefetch(const Statement& statement, Instruction& instruction) {
  if (!statement.has("tensormap") && !statement.has("global")) refuse("state space of a prefetch");
  s64 offset = 0;
  statement.address(0, offset);
  instruction.category = c_bulk;
  instruction.execute = no_operation;
}

// Decodes createpolicy. The policy is 0, because nothing reads it.
void decode_createpolicy(const Statement& statement, Instruction& instruction) {
  instruction.d = statement.operand(0, 8);
  instruction.a = statement.symbols.constant(0, 8);
  instruction.execute = mov<u64>;
}

// Executes mapa. A cluster has one block here, so an address stays what it is.
void map_to_own_block(Warp& warp, const Instruction& instruction, u32 mask) {
  const u32* rank = register_lanes<u32>(warp, instruction.b);
  lanes(mask, [&](int lane) {
    if (rank[lane] != 0) fault(warp, instruction, lane, illegal_instruction, "mapa: clusters have one block here");
  });
  if (instruction.a.size == 8)
    mov<u64>(warp, instruction, mask);
  else
    mov<u32>(warp, instruction, mask);
}
void decode_mapa(const Statement& statement, Instruction& instruction) {
  statement.allow("shared::cluster");
  statement.require("shared::cluster");
  const u32 bytes = statement.has("u64") ? 8 : 4;
  statement.read_operands(instruction, {bytes, bytes, 4});
  instruction.execute = map_to_own_block;
}

// Decodes `shfl.sync.bfly.b32 d|p, a, b, c, membermask`.
void decode_shfl(const Statement& statement, Instruction& instruction) {
  statement.allow("sync up down bfly idx");
  statement.require("sync");
  statement.require_operands(5);
  const auto [result, in_range] = statement.pair(0);
  instruction.d = statement.symbols.operand(result, 4);
  if (!in_range.empty()) instruction.d2 = statement.symbols.predicate_result(in_range);
  instruction.a = statement.operand(1, 4);
  instruction.b = statement.operand(2, 4);
  instruction.c = statement.operand(3, 4);
  instruction.e = statement.operand(4, 4);
  instruction.modifier = statement.choose<u8>({{"up", 0}, {"down", 1}, {"bfly", 2}, {"idx", 3}});
  instruction.kind = sync;
  instruction.category = c_shfl;
  instruction.execute = shfl;
}

}  // namespace

const DecodeTable& data_instructions() {
  static const DecodeTable table = {
      {"mov", decode_mov},           {"cvt", decode_cvt},
      {"cvta", decode_cvta},         {"ld", decode_access<true>},
      {"ldu", decode_access<true>},  {"st", decode_access<false>},
      {"prefetch", decode_prefetch}, {"createpolicy", decode_createpolicy},
      {"mapa", decode_mapa},         {"shfl", decode_shfl},
  };
  return table;
}

}  // namespace heddle::ptx
