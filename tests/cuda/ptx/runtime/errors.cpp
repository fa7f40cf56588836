#include "errors.hpp"

#include <cstdio>
#include <cstdlib>

#include "environment.hpp"

namespace heddle::ptx {

namespace {

std::recursive_mutex mutex;
cudaError_t last_error = cudaSuccess;
cudaError_t fault_error = cudaSuccess;

}  // namespace

RuntimeLock::RuntimeLock() : lock_(mutex) {}

cudaError_t fail(cudaError_t error) {
  last_error = error;
  return error;
}

cudaError_t refuse(cudaError_t error, const std::string& reason) {
  std::fprintf(stderr, "ptx: refused: %s\n", reason.c_str());
  std::fflush(stderr);
  return fail(error);
}

void raise_fault(cudaError_t error, const std::string& what) {
  std::fprintf(stderr, "ptx: FAULT %d: %s\n", error, what.c_str());
  std::fflush(stderr);
  if (options.abort) std::abort();
  fault_error = error;
}

bool has_fault() { return fault_error != cudaSuccess; }

cudaError_t success() { return has_fault() ? fail(fault_error) : cudaSuccess; }

}  // namespace heddle::ptx

using namespace heddle::ptx;

extern "C" {

cudaError_t cudaGetLastError() {
  const RuntimeLock lock;
  const cudaError_t error = last_error;
  last_error = fault_error;
  return error;
}

cudaError_t cudaPeekAtLastError() {
  const RuntimeLock lock;
  return last_error;
}

const char* cudaGetErrorString(cudaError_t error) {
  switch (error) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidDeviceFunction: return "invalid device function";
    case cudaErrorInvalidPitchValue: return "invalid pitch argument";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorMisalignedAddress: return "misaligned address";
    case cudaErrorIllegalInstruction: return "an illegal instruction was encountered";
    case cudaErrorAssert: return "device-side assert triggered";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorStreamCaptureUnsupported: return "operation not permitted when stream is capturing";
    case cudaErrorStreamCaptureInvalidated: return "operation failed due to a previous error during capture";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    default: return "an error that the PTX interpreter does not name";
  }
}
const char* cudaGetErrorName(cudaError_t error) { return cudaGetErrorString(error); }

}  // extern "C"
