// The hash of a token's bytes, which the tables of tokens share.
#pragma once
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace heddle::text::detail {

template <class Word>
std::uint64_t load_word(const char* bytes) {
  Word word;
  std::memcpy(&word, bytes, sizeof word);
  return word;
}

inline std::uint64_t mix(std::uint64_t h) {
  h = (h ^ h >> 32) * 0x9E3779B97F4A7C15;  // 2^64 / golden ratio; any odd number without a pattern works
  return h ^ h >> 29;
}

// Hashes eight bytes at a time. The last eight may overlap those before, so that most words need no loop.
inline std::uint64_t byte_hash(std::string_view s) {
  const char* p = s.data();
  std::size_t n = s.size();
  std::uint64_t h = n * 0xD6E8FEB86659FD93;
  for (; n > 16; n -= 8, p += 8) h = mix(h ^ load_word<std::uint64_t>(p));
  if (n > 8) return mix(mix(h ^ load_word<std::uint64_t>(p)) ^ load_word<std::uint64_t>(p + n - 8));
  if (n >= 4) return mix(h ^ (load_word<std::uint32_t>(p) << 32 | load_word<std::uint32_t>(p + n - 4)));
  if (n == 0) return mix(h);
  const auto byte = [&](std::size_t i) { return static_cast<std::uint64_t>(static_cast<unsigned char>(p[i])); };
  return mix(h ^ (byte(0) << 32 | byte(n / 2) << 16 | byte(n - 1)));
}

}  // namespace heddle::text::detail
