// Compares values: NaN and infinity must stand where they are expected, and every other value must be within a bound.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstring>
#include <vector>

#include "evaluate.hpp"

namespace heddle::testing {

// --- Bounds: functions of an expected value that return how far from it the actual value may be. ---

/// Accepts equal values only.
inline constexpr auto equal = [](double) { return 0.0; };

/// Accepts `part` of the largest expected value, or of 1 if all are smaller.
inline auto part_of_largest(double part, const std::vector<double>& expected) {
  double largest = 1;
  for (const double e : expected)
    if (std::isfinite(e)) largest = std::max(largest, std::abs(e));
  return [bound = part * largest](double) { return bound; };
}

/// The limits of plain_errors: the sum of three parts is accepted.
struct PlainErrors {
  double times = 2;  // multiples of the plain computation's worst error
  // multiples of the last bit of the largest value in float, because the worst error of a few numbers depends on chance
  double last_bits = 1;
  double roundings = 1;  // roundings to bf16, if that is the type: 1 if only the result is rounded
  // The size of an ordinary value. Its last bits are accepted even if all values are smaller, as a few sums that happen
  // to cancel are.
  double usual_size = 0;
};

/// The limits for functions that a GPU computes with exp, erf, tanh or rsqrt, whose errors are at most two last bits on
/// CUDA. The errors of the CPU's own functions, in the plain computation, may be far smaller.
inline constexpr PlainErrors gpu_function_errors{.last_bits = 3};

/// Accepts errors within `accepted`, whose main part is a multiple of the largest error of a plain computation in float
/// on the same inputs.
template <class T>
auto plain_errors(const std::vector<double>& exact, const std::vector<double>& plain, PlainErrors accepted = {}) {
  REQUIRE(plain.size() == exact.size());
  double worst = 0, largest = accepted.usual_size;
  for (std::size_t i = 0; i < exact.size(); ++i) {
    if (!std::isfinite(exact[i])) continue;
    worst = std::max(worst, std::abs(plain[i] - exact[i]));
    largest = std::max(largest, std::abs(exact[i]));
  }
  const double of_all = accepted.times * worst + accepted.last_bits * 0x1p-23 * largest,
               of_each = std::is_same_v<T, bf16> ? accepted.roundings * 0x1p-8 : 0;
  return [=](double e) { return of_all + of_each * std::abs(e); };
}

// --- Comparisons ---

template <class Bound>
void expect_close(const std::vector<double>& actual, const std::vector<double>& expected, Bound&& bound) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) {
    const double a = actual[i], e = expected[i], accepted = bound(e);
    const bool is_close = std::isfinite(e) ? std::abs(a - e) <= accepted : a == e || (std::isnan(a) && std::isnan(e));
    if (is_close) continue;  // an assertion for each of millions of values takes longer than their computation
    CAPTURE(i, a, e, accepted);
    REQUIRE(is_close);
  }
}

/// Compares with the bound plain_errors<T>.
template <class T>
void expect_close(const std::vector<double>& actual, const std::vector<double>& exact, const std::vector<double>& plain,
                  PlainErrors accepted = {}) {
  expect_close(actual, exact, plain_errors<T>(exact, plain, accepted));
}

template <class Bound>
void expect_close(const Computed& actual, const Computed& expected, Bound&& bound) {
  INFO(expected.name);
  REQUIRE(actual.shape == expected.shape);
  REQUIRE(actual.is_present == expected.is_present);
  expect_close(actual.values, expected.values, bound);
}

/// Compares y and each gradient; bound_of(i) is the bound of the i-th.
template <class BoundOf>
void expect_close(const Evaluation& actual, const Evaluation& expected, BoundOf&& bound_of) {
  REQUIRE(actual.size() == expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) expect_close(actual[i], expected[i], bound_of(i));
}

/// Returns whether all elements have the same bits: 0 differs from -0, and a NaN equals a NaN of the same bits.
template <class T>
bool same_bits(const std::vector<T>& a, const std::vector<T>& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

/// Returns whether all elements have the same bits, except that a NaN equals every NaN, because devices compute NaN
/// with different bits.
template <class T>
bool same_numbers(const std::vector<T>& a, const std::vector<T>& b) {
  return std::equal(a.begin(), a.end(), b.begin(), b.end(),
                    [](T x, T y) { return std::memcmp(&x, &y, sizeof(T)) == 0 || (x != x && y != y); });
}

}  // namespace heddle::testing
