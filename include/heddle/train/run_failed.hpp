#pragma once
#include <heddle/base/error.hpp>

namespace heddle::train {

/// The error of a run that fails for another reason than its input: for example, a loss is not finite, or a file that
/// the run wrote is missing.
struct RunFailed : Error {
  using Error::Error;
};

}  // namespace heddle::train
