#pragma once
#include <heddle/base/error.hpp>

namespace heddle::train {

/// A training run failed, through no fault of its input: a loss that is not finite, a file of its own that is gone.
struct RunFailed : Error {
  using Error::Error;
};

}  // namespace heddle::train
