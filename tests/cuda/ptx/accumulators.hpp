// The registers of wgmma's products in flight (PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate
// Instructions: wgmma.fence" and "wgmma.wait_group"). The program must neither access the accumulators nor write the
// registers of A before it has waited for the product, and it needs a fence between its own writes to them and the
// product.
#pragma once
#include "interpreter.hpp"

namespace heddle::ptx {

// An accumulator of products in flight: a register of the 32 lanes.
struct Accumulator {
  float values[32];
  int products;                // in flight
  std::vector<u32> registers;  // that hold it: one, and its copies
};

// The registers of a warp, by number.
class RegisterTracker {
 public:
  void start(u32 registers);

  void fence();
  bool has_fence() const { return has_fence_; }
  // Returns whether a register has been written since the last fence.
  bool is_stale(u32 number) const { return written_in_[number] == epoch_; }
  bool is_in_flight(u32 number) const { return accumulator_of_[number] != none; }

  // Returns the index of the accumulator that a register holds. Adds a product to it. One that was not in flight starts
  // with the register's value.
  int add_product(Warp& warp, u32 number);
  // Removes a product of an accumulator. If it was the last one, writes the values to the registers.
  void finish_product(Warp& warp, int index);
  Accumulator& accumulator(int index) { return accumulators_[static_cast<u32>(index)]; }

  void begin_read(u32 number) { ++readers_[number]; }  // a register of A
  void end_read(u32 number) { --readers_[number]; }

  // Checks and notes the accesses of an instruction.
  void track(const Warp& warp, const Instruction& instruction, const Kernel::Registers& registers);

 private:
  static constexpr int none = -1;

  int add_accumulator(Warp& warp, u32 number);
  void detach_copies(int index, u32 number);
  void check(const Warp& warp, const Instruction& instruction, const Kernel::Registers& registers);

  std::vector<int> accumulator_of_;  // the index of the accumulator in flight that a register holds, or none
  std::vector<u32> written_in_;      // the epoch of a register's last write, or 0 for a constant
  std::vector<u16> readers_;         // products in flight that read a register as a part of A
  std::vector<Accumulator> accumulators_;
  std::vector<int> unused_;  // indices of accumulators that are not in flight
  int in_flight_ = 0;        // number of accumulators
  u32 epoch_ = 1;            // grows with each wgmma.fence
  bool has_fence_ = false;
};

}  // namespace heddle::ptx
