#include <heddle/train/crc32c.hpp>
#include <string>

#include "catch.hpp"

TEST_CASE("crc32c: gives the published checksums") {
  using heddle::train::detail::crc32c;
  CHECK(crc32c("") == 0);
  CHECK(crc32c("123456789") == 0xE3069283);
  CHECK(heddle::train::detail::masked_crc32c("123456789") == 0xC78AB0E5);
  // RFC 3720, appendix B.4.
  CHECK(crc32c(std::string(32, '\0')) == 0x8A9136AA);
  CHECK(crc32c(std::string(32, '\xFF')) == 0x62A8AB43);
}

TEST_CASE("crc32: gives the published checksums") {
  using heddle::train::detail::crc32;
  CHECK(crc32("") == 0);
  CHECK(crc32("123456789") == 0xCBF43926);
  CHECK(crc32("IEND") == 0xAE426082);  // the end of every PNG file
}
