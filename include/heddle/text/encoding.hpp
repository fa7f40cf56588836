// Encoding: a text, or a pair of texts, as tokens.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include <heddle/text/alignment.hpp>

namespace heddle::text {

/// A text, or a pair of them, as ids.
struct Encoding {
  std::vector<std::int32_t> ids;       ///< one per token
  std::vector<std::int32_t> type_ids;  ///< BERT's are 1 for the second sequence of a pair and its [SEP], otherwise 0
  std::size_t truncated = 0;           ///< tokens that max_length cut off

  /// The range of bytes from which each token was made, in the first or second text; empty without
  /// the option `offsets`. It is [0, 0) for special tokens that are added, and the whole word for WordPiece's [UNK].
  /// Tokens made from the same character have the same range.
  std::vector<TextRange> offsets = {};
  /// The number of each token's word, which counts from 0 in each text, or -1 for special tokens that are added; empty
  /// without the option `offsets`. A punctuation mark is a word, and so is an added token in the text.
  std::vector<std::int32_t> word_ids = {};

  /// Compares all members.
  bool operator==(const Encoding&) const = default;
};

/// Returns the lengths to which two sequences of n1 and n2 tokens are cut if `limit` tokens are allowed. The rule is
/// "longest first" of the Rust tokenizers library, which differs slightly from cutting one token at a time off the
/// longer one.
inline std::pair<std::size_t, std::size_t> truncated_lengths(std::size_t n1, std::size_t n2, std::size_t limit) {
  if (n1 + n2 <= limit) return {n1, n2};
  std::size_t shorter = std::min(n1, n2);
  std::size_t longer = shorter > limit ? shorter : std::max(shorter, limit - shorter);
  if (shorter + longer > limit) {
    shorter = limit / 2;
    longer = limit / 2 + limit % 2;
  }
  return n1 > n2 ? std::pair(longer, shorter) : std::pair(shorter, longer);
}

}  // namespace heddle::text
