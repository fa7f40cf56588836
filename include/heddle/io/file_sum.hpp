// Sizes and checksums of files.
#pragma once
#include <memory>

#include <heddle/base/file.hpp>
#include <heddle/io/crc64.hpp>

namespace heddle::io {

/// A file's size in bytes and its checksum (crc64.hpp).
struct FileSum {
  std::uint64_t bytes = 0;  ///< the size in bytes
  std::uint64_t crc64 = 0;  ///< the checksum
  /// Returns whether size and checksum are equal.
  friend bool operator==(const FileSum&, const FileSum&) = default;
};

namespace detail {

// The size and checksum of bytes that come in parts.
class RunningFileSum {
 public:
  void add(std::span<const std::byte> bytes) {
    crc_.add(bytes);
    bytes_ += bytes.size();
  }
  FileSum value() const { return {bytes_, crc_.value()}; }

 private:
  Crc64 crc_;
  std::uint64_t bytes_ = 0;
};

// Calls f(bytes) for each part of a file, in order. Throws FileError.
template <class F>
void for_each_part(const std::string& path, F&& f) {
  constexpr std::size_t step = 1 << 18;
  InputFile file(path);
  const auto buffer = std::make_unique_for_overwrite<std::byte[]>(step);
  for (std::size_t count = step; count == step;) {
    count = file.read(buffer.get(), step);
    f(std::span<const std::byte>(buffer.get(), count));
  }
}

}  // namespace detail

/// Returns the size and checksum of a file, which is read to its end. @throws FileError if it cannot be read.
inline FileSum sum_of_file(const std::string& path) {
  detail::RunningFileSum sum;
  detail::for_each_part(path, [&](std::span<const std::byte> bytes) { sum.add(bytes); });
  return sum.value();
}

}  // namespace heddle::io
