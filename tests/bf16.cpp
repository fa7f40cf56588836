#include <heddle/base/bf16.hpp>

#include <cmath>
#include <limits>

#include "catch.hpp"

using heddle::bf16;

TEST_CASE("bf16: keeps what it can hold and rounds the rest to nearest, ties to even") {
  for (const float x : {0.f, -0.f, 1.f, -2.5f, std::numeric_limits<float>::infinity(), 0x1p-133f}) {
    CHECK(static_cast<float>(bf16(x)) == x);
    CHECK(std::signbit(static_cast<float>(bf16(x))) == std::signbit(x));
  }
  CHECK(static_cast<float>(bf16(1.f + 0x1p-8f)) == 1.f);                // a tie, down to even
  CHECK(static_cast<float>(bf16(1.f + 3 * 0x1p-8f)) == 1.f + 0x1p-6f);  // a tie, up to even
  CHECK(static_cast<float>(bf16(1.f + 0x1p-8f + 0x1p-20f)) == 1.f + 0x1p-7f);
  CHECK(static_cast<float>(bf16(std::numeric_limits<float>::max())) == std::numeric_limits<float>::infinity());
}

TEST_CASE("bf16: every NaN becomes the NaN of a GPU's conversion") {
  // Quiet and signalling NaN of both signs, also with a payload that is only in the lower half.
  for (const std::uint32_t word : {0x7fc00000u, 0xffc00000u, 0x7f800001u, 0xff800001u, 0x7fffffffu, 0xffff1234u})
    CHECK(bf16(std::bit_cast<float>(word)).bits == 0x7fff);
}
