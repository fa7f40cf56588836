#include "wgmma.hpp"

#include <deque>

#include "accumulators.hpp"
#include "clocks.hpp"
#include "matrix.hpp"
#include "matrix_descriptor.hpp"
#include "report.hpp"
#include "warpgroup.hpp"

namespace heddle::ptx {

namespace {

constexpr u32 rows_of_warp = 16;  // of A and D
constexpr u8 all_warps = 15;      // a mask with one bit per warp

// A wgmma.mma_async that some warps of a warpgroup have executed.
struct Product {
  const Instruction* instruction;
  u64 a, b;  // matrix descriptors
  bool accumulates;
  u32 time;  // as an agent of clocks.hpp
  bool is_computed = false;
  u8 issued = 0, finished = 0;                        // masks of warps
  u32 group[warps_of_warpgroup]{};                    // each warp's group
  std::vector<int> accumulators[warps_of_warpgroup];  // indices of each warp's RegisterTracker
};

// The products of four warps that not all of them have waited for. A product's number counts those that a warp has
// executed.
struct Warpgroup {
  std::deque<Product> products;
  u64 first = 0;                        // the number of the first of them
  u64 issued[warps_of_warpgroup]{};     // number of products of each warp
  u32 committed[warps_of_warpgroup]{};  // number of groups of each warp
};

// The data of the block that runs.
struct State {
  std::vector<Warpgroup> warpgroups;
  std::vector<RegisterTracker> registers;  // of the warps
} state;

const WgmmaOperands& operands_of(const Instruction& instruction) {
  return *reinterpret_cast<const WgmmaOperands*>(instruction.imm);
}
u32 number_of(const Operand& operand) { return operand.offset / 64; }

u32 index_in_group(const Warp& warp) { return static_cast<u32>(warp.id) % warps_of_warpgroup; }
RegisterTracker& registers_of(const Warp& warp) { return state.registers[static_cast<u32>(warp.id)]; }

Warpgroup& warpgroup_of(Warp& warp, const Instruction& instruction, u32 mask) {
  require_warpgroup(warp, instruction, mask);
  return state.warpgroups[warpgroup_index(warp)];
}

float element_of(u16 bits, Type type) { return type == Type::f16 ? from_f16(bits) : from_bf16(bits); }

float load_element(const u8* from, Type type) {
  u16 half;
  u32 word;
  std::memcpy(&half, from, sizeof(half));
  if (type != Type::tf32) return element_of(half, type);
  std::memcpy(&word, from, sizeof(word));
  return from_tf32(word);
}

// The values of A and of B, where B[k][n].
struct Factors {
  float a[64][16];
  float b[16][256];
};

// Calls put(row, column, value) for the elements of an operand in shared memory.
template <class F>
void load_operand(const Block& block, const WgmmaOperands& operands, const MatrixDescriptor& matrix, u32 rows,
                  bool is_negated, F&& put) {
  for (u32 row = 0; row < rows; ++row)
    for (u32 k = 0; k < static_cast<u32>(operands.k); ++k) {
      const u8* from = block.shared.data() + (matrix.address(row, k) - shared_base);
      const float value = load_element(from, operands.type);
      put(row, k, is_negated ? -value : value);
    }
}

// Reads a warp's rows of A from its registers, which have the layout of mma's A (PTX ISA, "Register Fragments").
void read_a_registers(Warp& warp, const WgmmaOperands& operands, float (*a)[16]) {
  const auto sign = [&](float value) { return operands.negate_a ? -value : value; };
  for (u32 word = 0; word < 4; ++word) {
    const u32* values = register_lanes<u32>(warp, operands.a[word]);
    for (u32 lane = 0; lane < 32; ++lane) {
      float* row = a[lane / 4 + word % 2 * 8];
      if (operands.type == Type::tf32) {
        row[lane % 4 + word / 2 * 4] = sign(from_tf32(values[lane]));
        continue;
      }
      for (u32 i = 0; i < 2; ++i)
        row[lane % 4 * 2 + i + word / 2 * 8] =
            sign(element_of(static_cast<u16>(values[lane] >> 16 * i), operands.type));
    }
  }
}

// Computes 8 columns of a warp's rows. accumulators[word] are the values of a register.
void multiply_columns(const Product& product, u32 k, const float (*a)[16], const float (*b)[8],
                      float* const (&accumulators)[4]) {
  float c[rows_of_warp][8];
  for (int word = 0; word < 4; ++word)
    for (int lane = 0; lane < 32; ++lane) {
      const AccumulatorPlace at(lane, word);
      c[at.row][at.column] = product.accumulates ? accumulators[word][lane] : 0.f;
    }
  for (u32 row = 0; row < rows_of_warp; ++row) k == 16 ? dot_row<16>(a[row], b, c[row]) : dot_row<8>(a[row], b, c[row]);
  for (int word = 0; word < 4; ++word)
    for (int lane = 0; lane < 32; ++lane) {
      const AccumulatorPlace at(lane, word);
      accumulators[word][lane] = c[at.row][at.column];
    }
}

void multiply_rows(Warp& warp, const Product& product, const Factors& factors) {
  const WgmmaOperands& operands = operands_of(*product.instruction);
  const u32 n = static_cast<u32>(operands.n), k = static_cast<u32>(operands.k), index = index_in_group(warp);
  for (u32 column = 0; column < n; column += 8) {
    float b[16][8];
    for (u32 row = 0; row < k; ++row) std::memcpy(b[row], &factors.b[row][column], sizeof(b[row]));
    float* accumulators[4];
    for (u32 word = 0; word < 4; ++word)
      accumulators[word] = registers_of(warp).accumulator(product.accumulators[index][column / 2 + word]).values;
    multiply_columns(product, k, factors.a + rows_of_warp * index, b, accumulators);
  }
}

void compute(Block& block, u32 warpgroup, Product& product) {
  static Factors factors;
  const WgmmaOperands& operands = operands_of(*product.instruction);
  const u32 element_bytes = bytes_of(operands.type);
  load_operand(block, operands, {product.b, element_bytes, operands.mn_b}, static_cast<u32>(operands.n),
               operands.negate_b, [&](u32 row, u32 k, float value) { factors.b[k][row] = value; });
  if (!operands.a_registers)
    load_operand(block, operands, {product.a, element_bytes, operands.mn_a}, rows_of_warp * warps_of_warpgroup,
                 operands.negate_a, [&](u32 row, u32 k, float value) { factors.a[row][k] = value; });
  for (u32 index = 0; index < warps_of_warpgroup; ++index) {
    Warp& warp = block.warps[warpgroup * warps_of_warpgroup + index];
    if (operands.a_registers) read_a_registers(warp, operands, factors.a + rows_of_warp * index);
    multiply_rows(warp, product, factors);
  }
  product.is_computed = true;
  ++block.events;
}

// Returns the descriptor, which must be the same in all lanes.
u64 uniform_descriptor(Warp& warp, const Instruction& instruction, const Operand& operand) {
  const u64* values = register_lanes<u64>(warp, operand);
  for (int lane = 1; lane < 32; ++lane)
    if (values[lane] != values[0])
      fault(warp, instruction, lane, illegal_instruction, "lanes with different descriptors");
  return values[0];
}

// Returns the product that the warp executes, without the data that its warpgroup adds.
Product product_of(Warp& warp, const Instruction& instruction) {
  const WgmmaOperands& operands = operands_of(instruction);
  Product product{};
  product.instruction = &instruction;
  product.a = operands.a_registers ? 0 : uniform_descriptor(warp, instruction, operands.a_descriptor);
  product.b = uniform_descriptor(warp, instruction, operands.b_descriptor);
  const u32 scale = read_predicate(warp, operands.scale);
  if (scale != 0 && scale != all) fault(warp, instruction, 0, illegal_instruction, "lanes with different scale-d");
  product.accumulates = scale != 0;
  return product;
}

std::string describe(const Product& product) {
  return "descriptors " + hex(product.a) + ", " + hex(product.b) +
         (product.accumulates ? ", accumulating" : ", not accumulating");
}

// Adds the warp to the warpgroup's product of the same number. Throws Fault if other warps have executed another one.
Product& join_product(Warp& warp, const Instruction& instruction, Warpgroup& group, Product product) {
  const u32 index = index_in_group(warp);
  const u64 number = group.issued[index]++;
  product.time = static_cast<u32>(number) + 1;
  if (number == group.first + group.products.size()) group.products.push_back(product);
  Product& joined = group.products[number - group.first];
  if (joined.instruction != &instruction || joined.a != product.a || joined.b != product.b ||
      joined.accumulates != product.accumulates)
    fault(warp, instruction, 0, illegal_instruction,
          "the warps of a warpgroup disagree: product " + std::to_string(number) + " of warpgroup " +
              std::to_string(warpgroup_index(warp)) + " is, in another warp, " +
              warp.block->kernel->texts[joined.instruction->text].substr(0, 60) + "... with " + describe(joined) +
              "; here " + describe(product));
  joined.issued |= static_cast<u8>(1u << index);
  joined.group[index] = group.committed[index];
  ++warp.block->events;
  return joined;
}

// Checks the addresses of the rows [begin, end) of an operand, and remembers them as read.
void check_operand(Warp& warp, const Product& product, const MatrixDescriptor& matrix, u32 begin, u32 end,
                   const char* name) {
  const Instruction& instruction = *product.instruction;
  const u64 size = warp.block->shared.size();
  matrix.for_pieces(begin, end, static_cast<u32>(operands_of(instruction).k), [&](u32 address) {
    if (address < shared_base || address + 16 - shared_base > size)
      fault(warp, instruction, 0, illegal_address,
            std::string("operand ") + name + " lies outside of shared memory: " + hex(address));
    watch_access(warp, instruction,
                 {address - shared_base, 16, false, true, wgmma_agent(warpgroup_index(warp)), product.time});
  });
}

// A warp counts as reading its own rows of A, and all of B.
void check_operands(Warp& warp, const Product& product) {
  const WgmmaOperands& operands = operands_of(*product.instruction);
  const u32 element_bytes = bytes_of(operands.type);
  const u32 first_row = rows_of_warp * index_in_group(warp);
  if (!operands.a_registers)
    check_operand(warp, product, {product.a, element_bytes, operands.mn_a}, first_row, first_row + rows_of_warp, "A");
  check_operand(warp, product, {product.b, element_bytes, operands.mn_b}, 0, static_cast<u32>(operands.n), "B");
}

void check_registers(Warp& warp, const Instruction& instruction) {
  const WgmmaOperands& operands = operands_of(instruction);
  const RegisterTracker& registers = registers_of(warp);
  if (!registers.has_fence()) report(warp, instruction, "WGMMA: no wgmma.fence before the first wgmma");
  bool is_stale = false;
  for (int i = 0; i < operands.n / 2; ++i) {
    const u32 number = number_of(operands.d[i]);
    is_stale |= !registers.is_in_flight(number) && registers.is_stale(number);
  }
  if (operands.a_registers)
    for (const Operand& a : operands.a) {
      is_stale |= registers.is_stale(number_of(a));
      if (registers.is_in_flight(number_of(a))) report(warp, instruction, "WGMMA: A is an accumulator in flight");
    }
  if (is_stale) report(warp, instruction, "WGMMA: registers were written after the last wgmma.fence");
}

void finish_product(Warp& warp, Product& product) {
  const u32 index = index_in_group(warp);
  const WgmmaOperands& operands = operands_of(*product.instruction);
  RegisterTracker& registers = registers_of(warp);
  product.finished |= static_cast<u8>(1u << index);
  if (operands.a_registers)
    for (const Operand& a : operands.a) registers.end_read(number_of(a));
  for (const int accumulator : product.accumulators[index]) registers.finish_product(warp, accumulator);
}

}  // namespace

void start_wgmma(const Block& block) {
  const std::size_t warps = block.warps.size();
  state.warpgroups.assign(warps / warps_of_warpgroup, {});
  if (!block.kernel->has_wgmma) return;
  state.registers.resize(warps);
  for (RegisterTracker& registers : state.registers) registers.start(block.kernel->reg_bytes / 64 + 1);
}

void end_wgmma(Block& block) {
  for (u32 group = 0; group < state.warpgroups.size(); ++group)
    for (const Product& product : state.warpgroups[group].products)
      if (product.issued != all_warps)
        fault(block.warps[group * warps_of_warpgroup], *product.instruction, 0, illegal_instruction,
              "the warps of a warpgroup disagree: not all have executed this wgmma");
}

void track_registers(Warp& warp, const Kernel& kernel, u32 pc) {
  const Kernel::Registers& registers = kernel.registers_of[pc];
  if (registers.from.empty() && registers.to.empty()) return;
  registers_of(warp).track(warp, kernel.code[pc], registers);
}

void wgmma(Warp& warp, const Instruction& instruction, u32 mask) {
  Warpgroup& group = warpgroup_of(warp, instruction, mask);
  Product& product = join_product(warp, instruction, group, product_of(warp, instruction));
  check_operands(warp, product);
  check_registers(warp, instruction);
  const WgmmaOperands& operands = operands_of(instruction);
  RegisterTracker& registers = registers_of(warp);
  if (operands.a_registers)
    for (const Operand& a : operands.a) registers.begin_read(number_of(a));
  for (int i = 0; i < operands.n / 2; ++i)
    product.accumulators[index_in_group(warp)].push_back(registers.add_product(warp, number_of(operands.d[i])));
}

void wgmma_fence(Warp& warp, const Instruction& instruction, u32 mask) {
  warpgroup_of(warp, instruction, mask);
  registers_of(warp).fence();
}

void wgmma_commit_group(Warp& warp, const Instruction& instruction, u32 mask) {
  ++warpgroup_of(warp, instruction, mask).committed[index_in_group(warp)];
}

u32 wgmma_wait_group(Warp& warp, const Instruction& instruction, u32 mask) {
  Warpgroup& group = warpgroup_of(warp, instruction, mask);
  const u32 index = index_in_group(warp);
  const s64 end = s64{group.committed[index]} - instruction.imm;
  const auto is_of_warp = [&](u8 warps) { return (warps >> index & 1) != 0; };
  u64 count = 0;
  for (const Product& product : group.products) {
    if (!is_of_warp(product.issued) || s64{product.group[index]} >= end) break;
    if (product.issued != all_warps) return 0;  // the other warps have not executed it yet
    ++count;
  }
  for (u64 i = 0; i < count; ++i) {
    Product& product = group.products[i];
    if (!product.is_computed) compute(*warp.block, warpgroup_index(warp), product);
    observe(warp, wgmma_agent(warpgroup_index(warp)), product.time);
    if (!is_of_warp(product.finished)) finish_product(warp, product);
  }
  while (!group.products.empty() && group.products.front().finished == all_warps) {
    group.products.pop_front();
    ++group.first;
  }
  return mask;
}

}  // namespace heddle::ptx
