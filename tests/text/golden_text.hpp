// The golden files of text: tests/golden/text, formats in its README.md.
#pragma once
#include <array>
#include <cstdint>
#include <fstream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/base/error.hpp>

namespace heddle::testing {

inline std::string text_golden(const std::string& name) { return HEDDLE_GOLDEN_DIR "/text/" + name; }

// Returns the lines of a file without their LF and otherwise unchanged. Throws FileError if the file is
// missing or empty.
inline std::vector<std::string> lines_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  std::vector<std::string> lines;
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  require<FileError>(!lines.empty(), path, ": is missing or empty");
  return lines;
}

inline std::vector<std::string> fields_of(const std::string& line) {
  std::istringstream in(line);
  std::vector<std::string> fields;
  for (std::string field; in >> field;) fields.push_back(field);
  return fields;
}

inline std::string from_hex(std::string_view digits) {
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2)
    bytes += static_cast<char>(std::stoi(std::string(digits.substr(i, 2)), nullptr, 16));
  return bytes;
}

// CRC-32 of PNG and zlib: polynomial 0xEDB88320, reflected.
class Crc32 {
 public:
  void add(std::string_view bytes) {
    static const std::array<std::uint32_t, 256> table = [] {
      std::array<std::uint32_t, 256> made{};
      for (std::uint32_t i = 0; i < made.size(); ++i) {
        std::uint32_t c = i;
        for (int bit = 0; bit < 8; ++bit) c = c & 1 ? 0xEDB88320 ^ c >> 1 : c >> 1;
        made[i] = c;
      }
      return made;
    }();
    for (const char c : bytes) crc_ = table[(crc_ ^ static_cast<unsigned char>(c)) & 0xFF] ^ crc_ >> 8;
  }
  void add(const std::vector<std::int32_t>& numbers) {  // their bytes, least significant first
    add(std::string_view(reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(std::int32_t)));
  }
  std::uint32_t value() const { return ~crc_; }

 private:
  std::uint32_t crc_ = 0xFFFFFFFF;
};

}  // namespace heddle::testing
