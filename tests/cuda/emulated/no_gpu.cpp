// Tests of cuda::unavailable() without a GPU and with unsuitable GPUs.
#include <heddle/gpu/kernels.hpp>

#include "../../catch.hpp"
#include "schedules.hpp"

using namespace heddle;

namespace {

// Returns cuda::unavailable() on a device with the properties that `change` sets.
template <class F>
std::string reason(F change) {
  change(emulator::device());
  const std::string why = cuda::unavailable();
  const emulator::Device usual;
  emulator::device().count = usual.count;
  emulator::device().capability = usual.capability;
  emulator::device().driver = emulator::device().code = cudaSuccess;
  emulator::device().driver_version = usual.driver_version;
  emulator::device().without_products = "";
  CHECK(cuda::unavailable().empty());
  CHECK(cudaGetLastError() == cudaSuccess);
  return why;
}

}  // namespace

TEST_CASE("cuda runtime: unavailable() says why no GPU can be used") {
  using emulator::Device;
  CHECK(reason([](Device& d) { d.count = 0; }) == "no GPU was found");
  CHECK(reason([](Device& d) { d.driver = cudaErrorInsufficientDriver; }) ==
        "the GPU's driver is too old for the CUDA that heddle was built with");
  CHECK(reason([](Device& d) { d.driver = cudaErrorInsufficientDriver, d.driver_version = 0; }) == "no GPU was found");
  CHECK(reason([](Device& d) { d.driver = cudaErrorSystemDriverMismatch; }) ==
        "the GPU cannot be used: system has unsupported display driver / cuda driver combination");
  CHECK(reason([](Device& d) { d.capability = 7; }) ==
        "the GPU has compute capability 7.0, but heddle's kernels need 8.0 or newer");
  for (const cudaError_t none : {cudaErrorNoKernelImageForDevice, cudaErrorUnsupportedPtxVersion})
    CHECK(reason([none](Device& d) { d.code = none; }) ==
          "the kernels were not compiled for a GPU of compute capability 8.0, and its driver cannot compile them; "
          "build heddle for it (HEDDLE_CUDA_ARCHITECTURES)");
  CHECK(reason([](Device& d) { d.without_products = "cuBLASLt cannot be loaded"; }) == "cuBLASLt cannot be loaded");
}
