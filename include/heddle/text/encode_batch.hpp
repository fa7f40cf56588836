// Encodes many texts on all threads.
#pragma once
#include <cstddef>
#include <iterator>
#include <vector>

#include <heddle/base/error.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/text/encoding.hpp>

namespace heddle::text::detail {

// Fills a vector of encodings by f(i).
template <class F>
std::vector<Encoding> encode_each(std::size_t count, const F& f) {
  std::vector<Encoding> out(count);
  constexpr Index grain = 32;  // texts: a line takes a few microseconds
  kernel::parallel(static_cast<Index>(count), grain, [&](Index first, Index last) {
    for (auto i = static_cast<std::size_t>(first); i < static_cast<std::size_t>(last); ++i) out[i] = f(i);
  });
  return out;
}

template <class Tokenizer, class Texts>
std::vector<Encoding> encode_batch(const Tokenizer& tokenizer, const Texts& texts) {
  return encode_each(std::size(texts), [&](std::size_t i) { return tokenizer.encode(texts[i]); });
}

// Encodes pairs. Throws Error for different numbers of texts.
template <class Tokenizer, class Texts>
std::vector<Encoding> encode_batch(const Tokenizer& tokenizer, const Texts& a, const Texts& b) {
  require(std::size(a) == std::size(b), "encode_batch: each pair needs two texts, but the sizes are ", std::size(a),
          " and ", std::size(b));
  return encode_each(std::size(a), [&](std::size_t i) { return tokenizer.encode_pair(a[i], b[i]); });
}

}  // namespace heddle::text::detail
