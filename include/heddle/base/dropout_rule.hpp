// DropoutRule: which elements dropout keeps, the same on the host and on the GPU.
#pragma once
#include <heddle/base/error.hpp>
#include <heddle/base/philox.hpp>

namespace heddle::kernel {

// Dropout with a probability that is a multiple of 1/65,536. An element is dropped if its 16-bit draw is below
// `threshold`; a kept element is multiplied by `scale`, the inverse of the probability of keeping it, rounded to float.
struct DropoutRule {
  std::uint32_t threshold = 0;
  float scale = 1;

  // Drops nothing.
  DropoutRule() = default;
  // Drops with probability p, rounded to the nearest multiple. Throws Error unless p is in [0, 1), before and after
  // rounding; the message begins with `op`.
  DropoutRule(const char* op, double p)
      : threshold(static_cast<std::uint32_t>(checked(op, p) * 65536 + 0.5)),
        scale(static_cast<float>(65536.0 / (65536.0 - threshold))) {
    require(threshold < 65536, op, ": a dropout probability of ", p, " is rounded to 1 and drops every element");
  }

  // Returns whether an element with this 16-bit draw is kept.
  HEDDLE_HD bool keeps(std::uint32_t draw) const { return draw >= threshold; }
  HEDDLE_HD bool is_active() const { return threshold > 0; }

 private:
  static double checked(const char* op, double p) {
    require(p >= 0 && p < 1, op, ": the dropout probability must be in [0, 1), got ", p);
    return p;
  }
};

// The dropout of one operation's elements: 16-bit draw e % 8 of call e / 8 decides element e.
struct ElementDropout {
  DropoutRule rule;
  Draws draws;
};

}  // namespace heddle::kernel
