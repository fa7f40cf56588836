// Label names the types of ids. IdCheck holds which ids an operation accepts, and throws the error for an invalid one.
#pragma once
#include <limits>
#include <string>

#include <heddle/base/build.hpp>
#include <heddle/base/error.hpp>

namespace heddle::kernel {

// The types of ids and labels. g++ explains a concept that is not satisfied in several lines, a constant in one.
template <class T>
inline constexpr bool is_label = std::is_same_v<T, std::int32_t> || std::is_same_v<T, std::int64_t>;
template <class T>
concept Label = is_label<T>;

// The ids that an operation accepts: those in [0, limit), and `exception`. The error reads "OP: WHAT 7 at position 3 is
// WHERE", with `limit` in place of the # in `where`. The texts are literals.
struct IdCheck {
  const char *op, *what, *where;
  Index limit;
  std::int64_t exception = std::numeric_limits<std::int64_t>::min();

  HEDDLE_HD bool is_invalid(std::int64_t id) const { return (id < 0 || id >= limit) && id != exception; }

  // Throws the IndexError for an invalid id.
  [[noreturn]] void fail(std::int64_t id, Index position) const {
    std::string place = where;
    if (const auto at = place.find('#'); at != place.npos) place.replace(at, 1, std::to_string(limit));
    heddle::fail<IndexError>(op, ": ", what, ' ', id, " at position ", position, " is ", place);
  }
};

}  // namespace heddle::kernel
