#include <heddle/base/utf8.hpp>

#include "catch.hpp"
#include "golden_text.hpp"

namespace {

using namespace heddle::text;
using namespace heddle::testing;

std::string replaced(std::string_view text) {
  std::string out;
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    char bytes[max_utf8_bytes];
    out.append(bytes, static_cast<std::size_t>(encode_utf8(decode_utf8(at, end), bytes)));
  }
  return out;
}

TEST_CASE("utf8: every code point is read back as written") {
  std::size_t wrong = 0;
  for (char32_t c = 0; c < 0x110000; ++c) {
    if (c >= 0xD800 && c < 0xE000) continue;
    char bytes[max_utf8_bytes];
    const int size = encode_utf8(c, bytes);
    const char* at = bytes;
    wrong +=
        decode_utf8(at, bytes + size) != c || at != bytes + size || !is_utf8({bytes, static_cast<std::size_t>(size)});
  }
  CHECK(wrong == 0);
}

TEST_CASE("utf8: invalid UTF-8 becomes the replacement characters that Python and Rust write") {
  for (const std::string& line : lines_of(text_golden("utf8.txt"))) {
    INFO(line);
    const auto fields = fields_of(line);
    REQUIRE(fields.size() == 2);
    CHECK(replaced(from_hex(fields[0])) == from_hex(fields[1]));
    CHECK_FALSE(is_utf8(from_hex(fields[0])));
    CHECK(is_utf8(from_hex(fields[1])));
  }
}

TEST_CASE("utf8: sequences of up to three bytes give valid text, and valid text is unchanged") {
  std::size_t wrong = 0, valid = 0;
  for (unsigned bits = 0; bits < 1u << 24; bits += bits < 1u << 16 ? 1 : 7) {
    const char bytes[3] = {static_cast<char>(bits), static_cast<char>(bits >> 8), static_cast<char>(bits >> 16)};
    const std::string_view text(bytes, bits < 0x100 ? 1 : bits < 0x10000 ? 2 : 3);
    const std::string shown = replaced(text);
    valid += is_utf8(text);
    wrong += !is_utf8(shown) || is_utf8(text) != (shown == text);
  }
  CHECK(wrong == 0);
  CHECK(valid > 100000);
}

TEST_CASE("utf8: a sequence that the end of the text cuts off is one replacement character") {
  const std::string four = "\xF0\x9F\x98\x80";
  for (std::size_t n = 1; n < 4; ++n) CHECK(replaced(four.substr(0, n)) == "\xEF\xBF\xBD");
  CHECK(replaced(four) == four);
}

}  // namespace
