// The counts from which precision, recall and F1 are computed, of labels, named entities and other items.
#pragma once
#include <span>
#include <vector>

#include <heddle/base/error.hpp>
#include <heddle/base/shape.hpp>

namespace heddle::train {

/// The numbers of expected, of predicted and of correct items, and the shares that follow from them. 0 / 0 is 0.
struct MatchCounts {
  Index expected = 0;   ///< items that are expected
  Index predicted = 0;  ///< items that are predicted
  Index correct = 0;    ///< items that are both

  /// Returns the share of the predicted items that are correct.
  double precision() const { return ratio(correct, predicted); }
  /// Returns the share of the expected items that were predicted.
  double recall() const { return ratio(correct, expected); }
  /// Returns the harmonic mean of precision and recall.
  double f1() const { return ratio(2 * correct, expected + predicted); }

  /// Adds other counts.
  MatchCounts& operator+=(const MatchCounts& other) {
    expected += other.expected;
    predicted += other.predicted;
    correct += other.correct;
    return *this;
  }

 private:
  static double ratio(Index a, Index b) { return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b); }
};

namespace detail {

constexpr std::size_t numbers_of_counts = 3;  // numbers of one MatchCounts

inline void append_numbers(const MatchCounts& counts, std::vector<double>& numbers) {
  for (const Index count : {counts.expected, counts.predicted, counts.correct})
    numbers.push_back(static_cast<double>(count));
}

// Returns the count that a number stands for. Throws Error for a number that is negative or no whole number.
inline Index count_from_number(double number) {
  constexpr double most = 9007199254740992;  // 2^53, up to which all whole numbers are doubles
  const bool is_count = number >= 0 && number <= most && static_cast<double>(static_cast<Index>(number)) == number;
  require(is_count, "add_sums: ", number, " is not a count");
  return static_cast<Index>(number);
}

// Returns the counts of item `i` of numbers that append_numbers() made.
inline MatchCounts counts_from_numbers(std::span<const double> numbers, std::size_t i) {
  const auto one = numbers.subspan(i * numbers_of_counts, numbers_of_counts);
  return {count_from_number(one[0]), count_from_number(one[1]), count_from_number(one[2])};
}

}  // namespace detail

}  // namespace heddle::train
