// The decisions of dropout on the generator's draws.
#pragma once
#include <heddle/base/dropout_rule.hpp>
#include <heddle/base/philox.hpp>

namespace heddle::cuda {

// Decides 16-bit draws as DropoutRule::keeps does, two at once. The host computes the constants: a compiler that sees
// how they are made replaces logic by selections, which take more instructions.
class KeptDraws {
 public:
  explicit KeptDraws(const kernel::DropoutRule& rule)
      : low_threshold_((rule.threshold & 0x7fffu) * 0x10001u), top_suffices_(rule.threshold < 0x8000u ? ~0u : 0u) {}

  // Returns the decisions on both halves of a word, in bits 15 and 31. The lower 15 bits of a half decide where its top
  // bit equals that of the threshold.
  HEDDLE_HD std::uint32_t in_halves(std::uint32_t word) const {
    const std::uint32_t low = (word | 0x80008000u) - low_threshold_;  // no half borrows from the other
    return (word & low) | ((word | low) & top_suffices_);
  }

  // Returns the decisions on the eight draws of a call. That on half `half` of word j is bit j + 4 half.
  HEDDLE_HD unsigned of_call(const kernel::PhiloxWords& words) const {
    std::uint32_t bits = 0;  // those of the upper halves from bit 16 on
    for (int j = 0; j < 4; ++j) bits |= in_halves(words.w[j]) >> (15 - j) & 0x10001u << j;
    return (bits & 0xffffu) | bits >> 12;
  }

 private:
  std::uint32_t low_threshold_;  // the lower 15 bits of the threshold, in both halves
  std::uint32_t top_suffices_;
};

}  // namespace heddle::cuda
