#include "accumulators.hpp"

#include <algorithm>

#include "report.hpp"

namespace heddle::ptx {

namespace {

constexpr u64 register_bytes = 64;  // offsets of registers are multiples of it

u8* bytes_of_register(const Warp& warp, u32 number) { return warp.base[0] + number * register_bytes; }

}  // namespace

void RegisterTracker::start(u32 registers) {
  accumulator_of_.assign(registers, none);
  written_in_.assign(registers, 0);
  readers_.assign(registers, 0);
  accumulators_.clear();
  unused_.clear();
  in_flight_ = 0;
  epoch_ = 1;
  has_fence_ = false;
}

void RegisterTracker::fence() {
  ++epoch_;
  has_fence_ = true;
}

int RegisterTracker::add_accumulator(Warp& warp, u32 number) {
  int index;
  if (unused_.empty()) {
    index = static_cast<int>(accumulators_.size());
    accumulators_.emplace_back();
  } else {
    index = unused_.back();
    unused_.pop_back();
  }
  Accumulator& added = accumulator(index);
  added.products = 0;
  std::memcpy(added.values, bytes_of_register(warp, number), sizeof(added.values));
  ++in_flight_;
  return index;
}

// The copies that a register's accumulator has left in other registers hold nothing any more.
void RegisterTracker::detach_copies(int index, u32 number) {
  for (const u32 other : accumulator(index).registers)
    if (other != number && accumulator_of_[other] == index) accumulator_of_[other] = none;
}

int RegisterTracker::add_product(Warp& warp, u32 number) {
  int index = accumulator_of_[number];
  if (index == none)
    index = add_accumulator(warp, number);
  else
    detach_copies(index, number);
  accumulator(index).registers.assign(1, number);
  ++accumulator(index).products;
  accumulator_of_[number] = index;
  constexpr u32 nan = 0x7fffdead;
  u32* values = reinterpret_cast<u32*>(bytes_of_register(warp, number));
  std::fill(values, values + 32, nan);
  return index;
}

void RegisterTracker::finish_product(Warp& warp, int index) {
  Accumulator& finished = accumulator(index);
  if (--finished.products != 0) return;
  for (const u32 number : finished.registers) {
    if (accumulator_of_[number] != index) continue;
    accumulator_of_[number] = none;
    std::memcpy(bytes_of_register(warp, number), finished.values, sizeof(finished.values));
  }
  finished.registers.clear();
  unused_.push_back(index);
  --in_flight_;
}

void RegisterTracker::check(const Warp& warp, const Instruction& instruction, const Kernel::Registers& registers) {
  for (const u32 from : registers.from)
    if (is_in_flight(from)) report(warp, instruction, "WGMMA: an accumulator is read before wgmma.wait_group");
  for (const u32 to : registers.to)
    if (readers_[to]) report(warp, instruction, "WGMMA: a register of A is written before wgmma.wait_group");
  for (const u32 to : registers.to) {
    if (!is_in_flight(to)) continue;
    // nvcc reuses the register of a copied accumulator for other copies and constants.
    if (!registers.move && !registers.constant)
      report(warp, instruction, "WGMMA: an accumulator is written before wgmma.wait_group");
    accumulator_of_[to] = none;
  }
}

void RegisterTracker::track(const Warp& warp, const Instruction& instruction, const Kernel::Registers& registers) {
  if (in_flight_) {
    if (registers.move && is_in_flight(registers.from[0])) {
      // nvcc copies accumulators in flight from one virtual register to another. ptxas keeps them in one register.
      const u32 from = registers.from[0], to = registers.to[0];
      const int index = accumulator_of_[from];
      accumulator_of_[to] = index;
      accumulator(index).registers.push_back(to);
      written_in_[to] = written_in_[from];
      return;
    }
    check(warp, instruction, registers);
  }
  for (const u32 to : registers.to)
    written_in_[to] = registers.move ? written_in_[registers.from[0]] : registers.constant ? 0 : epoch_;
}

}  // namespace heddle::ptx
