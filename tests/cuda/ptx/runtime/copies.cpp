// Copies and fills. With PTX_LAZY=1, a copy from pageable host memory reads it late, as a driver may.
#include "allocations.hpp"
#include "counts.hpp"
#include "environment.hpp"
#include "errors.hpp"
#include "streams.hpp"

namespace heddle::ptx {

namespace {

bool fits_direction(const void* to, const void* from, cudaMemcpyKind kind) {
  const bool to_device = is_device_address(to), from_device = is_device_address(from);
  switch (kind) {
    case cudaMemcpyHostToDevice: return to_device && !from_device;
    case cudaMemcpyDeviceToHost: return !to_device && from_device;
    case cudaMemcpyDeviceToDevice: return to_device && from_device;
    case cudaMemcpyHostToHost: return !to_device && !from_device;
    default: return true;
  }
}

bool is_pageable(const void* address) {
  return !is_device_address(address) && !region_of(reinterpret_cast<u64>(address));
}

void perform_copy(void* to, const void* from, std::size_t bytes) {
  u8* const destination = host_pointer(to, bytes);
  const u8* const source = host_pointer(from, bytes);
  if (destination && source)
    std::memmove(destination, source, bytes);
  else
    raise_fault(cudaErrorIllegalAddress, "a copy of memory that was freed before the copy took place");
}

cudaError_t enqueue_copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return success();
  if (!fits_direction(to, from, kind))
    return refuse(cudaErrorInvalidValue, "a copy whose direction does not fit its pointers");
  if (!host_pointer(to, bytes) || !host_pointer(from, bytes))
    return refuse(cudaErrorInvalidValue, "a copy of " + std::to_string(bytes) + " bytes outside of an allocation");
  if (is_capturing(stream) && (is_pageable(to) || is_pageable(from)) && breaks_capture("a copy of pageable memory"))
    return cudaErrorStreamCaptureUnsupported;
  const cudaError_t error = enqueue(stream, [=] { perform_copy(to, from, bytes); });
  if (error != cudaSuccess) return error;
  if (runtime_options.lazy_streams && is_pageable(to)) run_stream(stream);  // such a copy is complete on return
  return success();
}

}  // namespace
}  // namespace heddle::ptx

using namespace heddle::ptx;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const RuntimeLock lock;
  ++calls.copies;
  return enqueue_copy(to, from, bytes, kind, stream);
}
cudaError_t cudaMemcpyPeerAsync(void* to, int to_gpu, const void* from, int from_gpu, size_t bytes,
                                cudaStream_t stream) {
  const RuntimeLock lock;
  ++calls.copies;
  const auto is_on = [](const void* address, int gpu) {
    const Region* const region = region_of(reinterpret_cast<u64>(address));
    return region && !region->host && region->gpu == gpu;
  };
  if (bytes > 0 && (!is_on(to, to_gpu) || !is_on(from, from_gpu)))
    return refuse(cudaErrorInvalidValue, "cudaMemcpyPeerAsync: memory of another GPU");
  return enqueue_copy(to, from, bytes, cudaMemcpyDeviceToDevice, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const RuntimeLock lock;
  ++calls.copies;
  ++calls.waits;
  const cudaError_t error = enqueue_copy(to, from, bytes, kind, nullptr);
  run_all_streams();
  return error == cudaSuccess ? success() : error;
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  constexpr size_t most = 0x7fffffff;  // cudaDeviceProp::memPitch
  const RuntimeLock lock;
  if (width > to_pitch || width > from_pitch)
    return refuse(cudaErrorInvalidPitchValue, "cudaMemcpy2DAsync: a row is wider than its pitch");
  if (to_pitch > most || from_pitch > most)
    return refuse(cudaErrorInvalidPitchValue, "cudaMemcpy2DAsync: a pitch is larger than 2^31 - 1");
  for (size_t i = 0; i < height; ++i) {
    const cudaError_t error = enqueue_copy(static_cast<char*>(to) + i * to_pitch,
                                           static_cast<const char*>(from) + i * from_pitch, width, kind, stream);
    if (error != cudaSuccess) return error;
  }
  return success();
}

cudaError_t cudaMemsetAsync(void* address, int value, size_t bytes, cudaStream_t stream) {
  const RuntimeLock lock;
  if (bytes == 0) return success();
  if (!is_device_address(address) || !host_pointer(address, bytes))
    return refuse(cudaErrorInvalidValue, "cudaMemset: the bytes are outside of an allocation");
  return enqueue(stream, [=] {
    if (u8* const destination = host_pointer(address, bytes)) std::memset(destination, value, bytes);
  });
}
cudaError_t cudaMemset(void* address, int value, size_t bytes) {
  return cudaMemsetAsync(address, value, bytes, nullptr);
}

}  // extern "C"
