#pragma once
#include <heddle/base/build.hpp>
#include <heddle/core/tensor.hpp>

namespace heddle::models {

/// The element type of a model's activations. Weights are kept in float; for bf16 they are cast once.
enum class Precision { fp32, bf16 };

/// Where and how a model that is loaded from a folder computes.
struct LoadOptions {
  Device device = Device::cpu;            ///< the device
  Precision precision = Precision::fp32;  ///< the element type of the activations
};

}  // namespace heddle::models
