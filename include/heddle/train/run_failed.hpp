#pragma once
#include <heddle/base/error.hpp>

namespace heddle::train {

/// Thrown if a training run fails, but not because of its input: a loss is not finite, or a file that the run wrote is missing.
struct RunFailed : Error {
  using Error::Error;
};

}  // namespace heddle::train
