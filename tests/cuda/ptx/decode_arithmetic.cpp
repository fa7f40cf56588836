// Decodes arithmetic, comparisons and logic (PTX ISA, "Integer Arithmetic Instructions", "Floating Point Instructions",
// "Comparison and Selection Instructions", "Logic and Shift Instructions").
#include "arithmetic.hpp"
#include "bits.hpp"
#include "decode.hpp"

namespace heddle::ptx {

namespace {

Category category_of(Type type) { return is_floating_point(type) ? c_fp : c_int; }

template <class Op>
Execute integer_binary(Type type) {
  return for_integer(type, []<class T>() { return binary<T, Op>; });
}
template <class Op>
Execute integer_ternary(Type type) {
  return for_integer(type, []<class T>() { return ternary<T, Op>; });
}

// Returns the rounding of a floating-point result, as the register MXCSR encodes it.
u8 rounding_mode(const Statement& statement) { return statement.choose_or<u8>(0, {{"rm", 1}, {"rp", 2}, {"rz", 3}}); }

template <class Op>
void decode_float_binary(const Statement& statement, Instruction& instruction) {
  statement.allow("rn rm rp rz");
  statement.read_operands(instruction, 3);
  instruction.category = c_fp;
  instruction.modifier = rounding_mode(statement);
  const bool nearest = instruction.modifier == 0;
  instruction.execute =
      for_floating_point(statement.type, [&]<class T>() { return nearest ? binary<T, Op> : binary_rounded<T, Op>; });
}

void decode_fma(const Statement& statement, Instruction& instruction) {
  statement.allow("rn rm rp rz");
  statement.read_operands(instruction, 4);
  instruction.category = c_fp;
  instruction.modifier = rounding_mode(statement);
  const bool nearest = instruction.modifier == 0;
  instruction.execute = for_floating_point(
      statement.type, [&]<class T>() { return nearest ? ternary<T, Fma> : ternary_rounded<T, Fma>; });
}

// Decodes add and sub.
template <class Op>
void decode_sum(const Statement& statement, Instruction& instruction) {
  if (is_floating_point(statement.type)) return decode_float_binary<Op>(statement, instruction);
  statement.allow("");
  statement.read_operands(instruction, 3);
  instruction.category = c_int;
  instruction.execute = integer_binary<Op>(statement.type);
}

// Returns choose.operator()<T>() for integers T of 16 and 32 bits, whose .wide products have twice as many.
template <class F>
Execute for_wide_product(Type type, F&& choose) {
  switch (type) {
    case Type::uint16: return choose.template operator()<u16>();
    case Type::int16: return choose.template operator()<s16>();
    case Type::uint32: return choose.template operator()<u32>();
    case Type::int32: return choose.template operator()<s32>();
    default: return nullptr;
  }
}

void decode_mul_wide(const Statement& statement, Instruction& instruction) {
  statement.allow("wide");
  statement.read_operands(instruction, {2 * statement.bytes, statement.bytes, statement.bytes});
  instruction.category = c_int;
  instruction.execute = for_wide_product(statement.type, []<class T>() { return mul_wide<T>; });
}

void decode_mad_wide(const Statement& statement, Instruction& instruction) {
  statement.allow("wide");
  statement.read_operands(instruction, {2 * statement.bytes, statement.bytes, statement.bytes, 2 * statement.bytes});
  instruction.category = c_int;
  instruction.execute = for_wide_product(statement.type, []<class T>() { return mad_wide<T>; });
}

void decode_mul(const Statement& statement, Instruction& instruction) {
  if (is_floating_point(statement.type)) return decode_float_binary<MulLo>(statement, instruction);
  if (statement.has("wide")) return decode_mul_wide(statement, instruction);
  statement.allow("lo hi");
  statement.read_operands(instruction, 3);
  instruction.category = c_int;
  const bool is_high = statement.choose<bool>({{"lo", false}, {"hi", true}});
  instruction.execute = is_high ? integer_binary<MulHi>(statement.type) : integer_binary<MulLo>(statement.type);
}

void decode_mad(const Statement& statement, Instruction& instruction) {
  if (is_floating_point(statement.type)) return decode_fma(statement, instruction);
  if (statement.has("wide")) return decode_mad_wide(statement, instruction);
  statement.allow("lo hi");
  statement.read_operands(instruction, 4);
  instruction.category = c_int;
  const bool is_high = statement.choose<bool>({{"lo", false}, {"hi", true}});
  instruction.execute = is_high ? integer_ternary<MadHi>(statement.type) : integer_ternary<MadLo>(statement.type);
}

void decode_div(const Statement& statement, Instruction& instruction) {
  const bool is_floating = is_floating_point(statement.type);
  statement.allow(is_floating ? "rn" : "");
  if (is_floating) statement.require("rn");
  statement.read_operands(instruction, 3);
  instruction.category = c_div;
  instruction.execute = is_floating ? for_floating_point(statement.type, []<class T>() { return binary<T, Div>; })
                                    : for_integer(statement.type, []<class T>() { return binary_slow<T, Div>; });
}

void decode_rem(const Statement& statement, Instruction& instruction) {
  statement.allow("");
  statement.read_operands(instruction, 3);
  instruction.category = c_div;
  instruction.execute = for_integer(statement.type, []<class T>() { return binary_slow<T, Rem>; });
}

// Decodes min and max. OpNan returns NaN if an operand is NaN.
template <class Op, class OpNan>
void decode_extremum(const Statement& statement, Instruction& instruction) {
  statement.allow("NaN");
  statement.read_operands(instruction, 3);
  instruction.category = category_of(statement.type);
  instruction.execute = statement.has("NaN")
                            ? for_floating_point(statement.type, []<class T>() { return binary<T, OpNan>; })
                            : for_number(statement.type, []<class T>() { return binary<T, Op>; });
}

// Decodes neg and abs. PTX does not specify their result for NaN. Op returns the canonical NaN, as the instruction FADD
// does. BitOp changes the sign alone, as the modifier of another instruction's operand does, which ptxas often prefers.
template <class Op, class BitOp>
void decode_sign(const Statement& statement, Instruction& instruction) {
  statement.allow("");
  statement.read_operands(instruction, 2);
  instruction.category = category_of(statement.type);
  instruction.execute = options.keep_nan && is_floating_point(statement.type)
                            ? for_floating_point(statement.type, []<class T>() { return unary<T, BitOp>; })
                            : for_number(statement.type, []<class T>() { return unary<T, Op>; });
}

void decode_copysign(const Statement& statement, Instruction& instruction) {
  statement.allow("");
  statement.read_operands(instruction, 3);
  instruction.category = c_fp;
  instruction.execute = for_floating_point(statement.type, []<class T>() { return binary<T, Copysign>; });
}

// An approximate function of a 32-bit number. With PTX_APPROX, `jittered` replaces `execute`.
struct Approximation {
  std::string_view opcode;
  bool flushes;  // .ftz
  Execute execute, jittered;
};
constexpr Approximation approximations[] = {
    {"ex2", false, unary<float, Ex2>, unary<float, Jitter<Ex2, 1>>},
    {"ex2", true, unary<float, Ex2Ftz>, unary<float, Jitter<Ex2Ftz, 1>>},
    {"rcp", false, unary<float, Rcp>, unary<float, Jitter<Rcp, 1>>},
    {"rcp", true, unary<float, RcpFtz>, unary<float, Jitter<RcpFtz, 1>>},
    {"rsqrt", false, unary<float, Rsqrt>, unary<float, Jitter<Rsqrt, 1>>},
    {"sqrt", false, unary<float, Sqrt>, unary<float, Sqrt>},
    {"lg2", false, unary_slow<float, Lg2>, unary_slow<float, Lg2>},
    {"lg2", true, unary_slow<float, Lg2Ftz>, unary_slow<float, Lg2Ftz>},
    {"sin", false, unary_slow<float, Sin>, unary_slow<float, Sin>},
    {"cos", false, unary_slow<float, Cos>, unary_slow<float, Cos>},
    {"tanh", false, unary_slow<float, Tanh>, unary_slow<float, Tanh>},
};

Execute approximation(const Statement& statement) {
  if (statement.type != Type::f32) return nullptr;
  for (const Approximation& candidate : approximations)
    if (candidate.opcode == statement.opcode && candidate.flushes == statement.has("ftz"))
      return options.jitter ? candidate.jittered : candidate.execute;
  return nullptr;
}

Execute correctly_rounded(const Statement& statement) {
  if (statement.has("ftz") || !statement.has("rn")) return nullptr;
  if (statement.opcode == "rcp") return for_floating_point(statement.type, []<class T>() { return unary<T, Rcp>; });
  if (statement.opcode == "sqrt") return for_floating_point(statement.type, []<class T>() { return unary<T, Sqrt>; });
  return nullptr;
}

void decode_function(const Statement& statement, Instruction& instruction) {
  statement.allow("approx ftz rn");
  statement.read_operands(instruction, 2);
  const bool is_approximate = statement.has("approx");
  instruction.category = is_approximate ? c_mufu : c_div;
  instruction.execute = is_approximate ? approximation(statement) : correctly_rounded(statement);
}

// Decodes and, or and xor.
template <class Op, PredicateOp predicate_op>
void decode_logic(const Statement& statement, Instruction& instruction) {
  statement.allow("");
  if (statement.type == Type::pred) return decode_predicate_op(statement, instruction, predicate_op);
  statement.read_operands(instruction, 3);
  instruction.category = c_int;
  instruction.execute = for_bits(statement.bytes, []<class T>() { return binary<T, Op>; });
}

void decode_not(const Statement& statement, Instruction& instruction) {
  statement.allow("");
  if (statement.type == Type::pred) return decode_predicate_op(statement, instruction, pred_not);
  statement.read_operands(instruction, 2);
  instruction.category = c_int;
  instruction.execute = for_bits(statement.bytes, []<class T>() { return unary<T, Not>; });
}

// Decodes shl and shr.
template <class Op>
void decode_shift(const Statement& statement, Instruction& instruction) {
  statement.allow("");
  statement.read_operands(instruction, {statement.bytes, statement.bytes, 4});
  instruction.category = c_int;
  instruction.execute = for_integer(statement.type, []<class T>() { return shift<T, Op>; });
}

// Decodes shf, the funnel shift.
void decode_funnel_shift(const Statement& statement, Instruction& instruction) {
  statement.allow("l r wrap clamp");
  statement.read_operands(instruction, {4, 4, 4, 4});
  instruction.category = c_int;
  const bool wraps = statement.choose<bool>({{"wrap", true}, {"clamp", false}});
  const bool is_left = statement.choose<bool>({{"l", true}, {"r", false}});
  instruction.execute = is_left ? (wraps ? ternary<u32, ShfL> : ternary<u32, ShfLClamp>)
                                : (wraps ? ternary<u32, ShfR> : ternary<u32, ShfRClamp>);
}

// Decodes popc and clz.
template <class Op>
void decode_bit_count(const Statement& statement, Instruction& instruction) {
  statement.allow("");
  statement.read_operands(instruction, {4, statement.bytes});
  instruction.category = c_int;
  if (statement.bytes == 4) instruction.execute = count_bits<u32, Op>;
  if (statement.bytes == 8) instruction.execute = count_bits<u64, Op>;
}

void decode_brev(const Statement& statement, Instruction& instruction) {
  statement.allow("");
  statement.read_operands(instruction, {4, 4});
  instruction.category = c_int;
  if (statement.bytes == 4) instruction.execute = unary<u32, Brev>;
}

void decode_bmsk(const Statement& statement, Instruction& instruction) {
  statement.allow("clamp");
  statement.require("clamp");
  statement.read_operands(instruction, {4, 4, 4});
  instruction.category = c_int;
  instruction.execute = binary<u32, Bmsk>;
}

void decode_prmt(const Statement& statement, Instruction& instruction) {
  statement.allow("");
  statement.read_operands(instruction, {4, 4, 4, 4});
  instruction.category = c_int;
  instruction.execute = ternary<u32, Prmt>;
}

void decode_lop3(const Statement& statement, Instruction& instruction) {
  statement.allow("");
  statement.require_operands(5);
  instruction.d = statement.operand(0, 4);
  instruction.a = statement.operand(1, 4);
  instruction.b = statement.operand(2, 4);
  instruction.c = statement.operand(3, 4);
  instruction.imm = statement.immediate(4);  // the truth table
  instruction.category = c_int;
  instruction.execute = lop3;
}

void decode_bfe(const Statement& statement, Instruction& instruction) {
  statement.allow("");
  statement.read_operands(instruction, {statement.bytes, statement.bytes, 4, 4});
  instruction.category = c_int;
  switch (statement.type) {
    case Type::uint32: instruction.execute = bfe<u32>; break;
    case Type::int32: instruction.execute = bfe<s32>; break;
    case Type::uint64: instruction.execute = bfe<u64>; break;
    case Type::int64: instruction.execute = bfe<s64>; break;
    default: break;
  }
}

void decode_bfi(const Statement& statement, Instruction& instruction) {
  statement.allow("");
  statement.read_operands(instruction, {statement.bytes, statement.bytes, statement.bytes, 4, 4});
  instruction.category = c_int;
  if (statement.bytes == 4) instruction.execute = bfi<u32>;
  if (statement.bytes == 8) instruction.execute = bfi<u64>;
}

// A comparison of setp.
struct Comparison {
  std::string_view name;
  Execute execute;
};
template <class T>
constexpr Comparison ordered[] = {{"eq", setp<T, Eq>}, {"ne", setp<T, Ne>}, {"lt", setp<T, Lt>}, {"lo", setp<T, Lt>},
                                  {"le", setp<T, Le>}, {"ls", setp<T, Le>}, {"gt", setp<T, Gt>}, {"hi", setp<T, Gt>},
                                  {"ge", setp<T, Ge>}, {"hs", setp<T, Ge>}};
// They return true if an operand is NaN, except num, which returns true if none is.
template <class T>
constexpr Comparison unordered[] = {{"equ", setp<T, Equ>}, {"neu", setp<T, Neu>}, {"ltu", setp<T, Ltu>},
                                    {"leu", setp<T, Leu>}, {"gtu", setp<T, Gtu>}, {"geu", setp<T, Geu>},
                                    {"num", setp<T, Num>}, {"nan", setp<T, Nan>}};

template <class T>
Execute comparison(std::string_view name) {
  for (const Comparison& candidate : ordered<T>)
    if (candidate.name == name) return candidate.execute;
  if constexpr (std::is_floating_point_v<T>)
    for (const Comparison& candidate : unordered<T>)
      if (candidate.name == name) return candidate.execute;
  return nullptr;
}

// Decodes `setp.lt.s32 p|q, a, b` and `setp.lt.and.s32 p|q, a, b, c`.
void decode_setp(const Statement& statement, Instruction& instruction) {
  const auto& qualifiers = statement.qualifiers;
  const bool combines = qualifiers.size() == 3;
  if (!combines && qualifiers.size() != 2) refuse("number of qualifiers");
  statement.require_operands(combines ? 4 : 3);
  if (combines) {
    instruction.modifier = statement.choose<u8>({{"and", 1}, {"or", 2}, {"xor", 3}});
    instruction.c = statement.predicate(3);
  }
  const auto [result, inverse] = statement.pair(0);
  instruction.d = statement.symbols.predicate_result(result);
  if (!inverse.empty()) instruction.d2 = statement.symbols.predicate_result(inverse);
  instruction.a = statement.operand(1, statement.bytes);
  instruction.b = statement.operand(2, statement.bytes);
  instruction.category = c_pred;
  instruction.execute = for_number(statement.type, [&]<class T>() { return comparison<T>(qualifiers[0]); });
}

void decode_selp(const Statement& statement, Instruction& instruction) {
  statement.allow("");
  statement.require_operands(4);
  instruction.d = statement.operand(0, statement.bytes);
  instruction.a = statement.operand(1, statement.bytes);
  instruction.b = statement.operand(2, statement.bytes);
  instruction.c = statement.predicate(3);
  instruction.category = c_mov;
  instruction.execute = for_bits(statement.bytes, []<class T>() { return selp<T>; });
}

}  // namespace

const DecodeTable& arithmetic_instructions() {
  static const DecodeTable table = {
      {"add", decode_sum<Add>},
      {"sub", decode_sum<Sub>},
      {"mul", decode_mul},
      {"mad", decode_mad},
      {"fma", decode_fma},
      {"div", decode_div},
      {"rem", decode_rem},
      {"min", decode_extremum<Min, MinNan>},
      {"max", decode_extremum<Max, MaxNan>},
      {"neg", decode_sign<Neg, FlipSign>},
      {"abs", decode_sign<Abs, ClearSign>},
      {"copysign", decode_copysign},
      {"ex2", decode_function},
      {"lg2", decode_function},
      {"rcp", decode_function},
      {"rsqrt", decode_function},
      {"sqrt", decode_function},
      {"sin", decode_function},
      {"cos", decode_function},
      {"tanh", decode_function},
      {"and", decode_logic<And, pred_and>},
      {"or", decode_logic<Or, pred_or>},
      {"xor", decode_logic<Xor, pred_xor>},
      {"not", decode_not},
      {"shl", decode_shift<Shl>},
      {"shr", decode_shift<Shr>},
      {"shf", decode_funnel_shift},
      {"popc", decode_bit_count<Popc>},
      {"clz", decode_bit_count<Clz>},
      {"brev", decode_brev},
      {"bmsk", decode_bmsk},
      {"prmt", decode_prmt},
      {"lop3", decode_lop3},
      {"bfe", decode_bfe},
      {"bfi", decode_bfi},
      {"setp", decode_setp},
      {"selp", decode_selp},
  };
  return table;
}

}  // namespace heddle::ptx
