// Which ids are allowed, and what is said of another one.
#pragma once
#include <limits>
#include <string>

#include <heddle/error.hpp>

namespace heddle {

// "OP: WHAT 7 at position 3 is WHERE", with `limit` in the place of WHERE's #. The texts are literals.
struct IdCheck {
  const char *op, *what, *where;
  Index limit;
  std::int64_t allowed = std::numeric_limits<std::int64_t>::min();  // one that is taken though it is outside

  // Whether `id` is none of [0, limit), nor the one that is taken.
  HEDDLE_HD bool refuses(std::int64_t id) const { return (id < 0 || id >= limit) && id != allowed; }

  // Throws the IndexError that says so.
  [[noreturn]] void fail(std::int64_t id, Index position) const {
    std::string place = where;
    if (const auto at = place.find('#'); at != place.npos) place.replace(at, 1, std::to_string(limit));
    heddle::fail<IndexError>(op, ": ", what, ' ', id, " at position ", position, " is ", place);
  }
};

}  // namespace heddle
