#include "allocations.hpp"

#include <sys/mman.h>

#include <algorithm>

#include "counts.hpp"
#include "devices.hpp"
#include "environment.hpp"
#include "errors.hpp"
#include "streams.hpp"

namespace heddle::ptx {

namespace {

constexpr u64 page_bytes = 4096;
constexpr u64 unit = 512;              // sizes are multiples of it
constexpr u64 gap = 8192;              // bytes behind an allocation that belong to none
constexpr u64 lowest_address = 65536;  // relative to device_base
constexpr u64 most_filled =
    64 << 20;  // bytes: a larger allocation is filled in part, because its pages should not all take memory

std::map<u64, Region> regions;   // by their first addresses
std::map<u64, u64> free_ranges;  // their first and their last addresses; adjacent ones are merged
u64 used[most_gpus] = {};        // bytes of each GPU's memory

u64 rounded_up(u64 bytes, u64 multiple) { return (bytes + multiple - 1) / multiple * multiple; }
u64 size_of_allocation(u64 bytes) { return rounded_up(std::max<u64>(bytes, 1), unit); }

void reserve(u64 address, u64 bytes, int protection) {
  constexpr int flags = MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE;
  void* const wanted = reinterpret_cast<void*>(address);
  if (mmap(wanted, bytes, protection, flags, -1, 0) == wanted) return;
  std::perror("ptx: the addresses of device memory cannot be reserved");
  std::_Exit(98);
}

// Reserves the addresses of device memory, once.
void reserve_device_memory() {
  static bool is_reserved = false;
  if (is_reserved) return;
  is_reserved = true;
  reserve(device_base, device_span, PROT_NONE);
  reserve(device_base + delta, device_span, PROT_READ | PROT_WRITE);
  if (options.global_races) reserve(shadow_base, device_span * sizeof(Access), PROT_READ | PROT_WRITE);
  free_ranges[device_base + lowest_address] = device_base + device_span;
}

// Adds a range to the free ones.
void free_range(u64 first, u64 last) {
  if (const auto next = free_ranges.find(last); next != free_ranges.end()) {
    last = next->second;
    free_ranges.erase(next);
  }
  if (const auto next = free_ranges.lower_bound(first); next != free_ranges.begin()) {
    const auto previous = std::prev(next);
    if (previous->second == first) {
      first = previous->first;
      free_ranges.erase(previous);
    }
  }
  free_ranges[first] = last;
}

// Returns false for an address that is not that of an allocation.
bool release(u64 address) {
  constexpr u64 least_returned = 1 << 20;  // bytes whose pages the system gets back
  const auto found = regions.find(address);
  if (found == regions.end() || found->second.host) return false;
  const u64 size = size_of_allocation(found->second.hi - found->second.lo);
  used[found->second.gpu] -= size;
  regions.erase(found);
  if (size > least_returned) {
    const u64 first = rounded_up(address, page_bytes), last = (address + size) / page_bytes * page_bytes;
    madvise(reinterpret_cast<void*>(first + delta), last - first, MADV_DONTNEED);
  }
  free_range(address, address + size + gap);
  return true;
}

void add_host_region(const void* address, u64 bytes) {
  const u64 first = reinterpret_cast<u64>(address);
  regions[first] = {first, first + bytes, true, current_gpu};
}

cudaError_t remove_host_region(const void* address) {
  run_all_streams();
  regions.erase(reinterpret_cast<u64>(address));
  return success();
}

}  // namespace

u64 allocate(u64 bytes) {
  reserve_device_memory();
  const u64 total = runtime_options.memory_bytes, size = size_of_allocation(bytes);
  if (bytes > total || used[current_gpu] + size > total) return 0;
  const auto range = std::find_if(free_ranges.begin(), free_ranges.end(), [&](const auto& candidate) {
    return candidate.second - candidate.first >= size + gap;
  });
  if (range == free_ranges.end()) return 0;
  const auto [first, last] = *range;
  free_ranges.erase(range);
  if (last - first > size + gap) free_ranges[first + size + gap] = last;
  regions[first] = {first, first + bytes, false, current_gpu};
  used[current_gpu] += size;
  std::memset(reinterpret_cast<void*>(first + delta), options.fill, std::min(size, most_filled));
  return first;
}

const Region* region_of(u64 address) {
  const auto next = regions.upper_bound(address);
  if (next == regions.begin()) return nullptr;
  const Region& region = std::prev(next)->second;
  return address < region.hi ? &region : nullptr;
}

bool is_device_address(const void* address) {
  const u64 value = reinterpret_cast<u64>(address);
  return value >= device_base && value < device_base + device_span;
}

u8* host_pointer(const void* address, u64 bytes) {
  const u64 value = reinterpret_cast<u64>(address);
  if (!is_device_address(address)) return reinterpret_cast<u8*>(value);
  const Region* const region = region_of(value);
  return region && value + bytes <= region->hi ? reinterpret_cast<u8*>(value + delta) : nullptr;
}

}  // namespace heddle::ptx

using namespace heddle::ptx;

extern "C" {

cudaError_t cudaMalloc(void** address, size_t bytes) {
  const RuntimeLock lock;
  ++calls.allocations;
  *address = nullptr;
  if (breaks_capture("cudaMalloc")) return cudaErrorStreamCaptureUnsupported;
  if (bytes == 0) return success();
  const u64 allocated = allocate(bytes);
  if (!allocated) return fail(cudaErrorMemoryAllocation);
  *address = reinterpret_cast<void*>(allocated);
  return success();
}
cudaError_t cudaFree(void* address) {
  const RuntimeLock lock;
  if (breaks_capture("cudaFree")) return cudaErrorStreamCaptureUnsupported;
  run_all_streams();
  if (address && !release(reinterpret_cast<u64>(address)))
    return refuse(cudaErrorInvalidValue, "cudaFree: the address was not allocated, or is free already");
  return success();
}
cudaError_t cudaMallocAsync(void** address, size_t bytes, cudaStream_t) { return cudaMalloc(address, bytes); }
cudaError_t cudaFreeAsync(void* address, cudaStream_t) { return cudaFree(address); }

cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const RuntimeLock lock;
  *free = runtime_options.memory_bytes - used[current_gpu];
  *total = runtime_options.memory_bytes;
  return success();
}

cudaError_t cudaHostAlloc(void** address, size_t bytes, unsigned) {
  const RuntimeLock lock;
  if (breaks_capture("cudaHostAlloc")) return cudaErrorStreamCaptureUnsupported;
  *address = std::aligned_alloc(page_bytes, rounded_up(bytes, page_bytes));
  add_host_region(*address, bytes);
  return success();
}
cudaError_t cudaMallocHost(void** address, size_t bytes) { return cudaHostAlloc(address, bytes, 0); }
cudaError_t cudaFreeHost(void* address) {
  const RuntimeLock lock;
  if (breaks_capture("cudaFreeHost")) return cudaErrorStreamCaptureUnsupported;
  const cudaError_t error = remove_host_region(address);
  std::free(address);
  return error;
}
cudaError_t cudaHostRegister(void* address, size_t bytes, unsigned) {
  const RuntimeLock lock;
  add_host_region(address, bytes);
  return success();
}
cudaError_t cudaHostUnregister(void* address) {
  const RuntimeLock lock;
  return remove_host_region(address);
}
cudaError_t cudaHostGetDevicePointer(void** device, void* host, unsigned) {
  *device = host;
  return success();
}

cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* attributes, const void* address) {
  const RuntimeLock lock;
  *attributes = {};
  attributes->type = cudaMemoryTypeUnregistered;
  attributes->device = current_gpu;
  if (const Region* const region = region_of(reinterpret_cast<u64>(address))) {
    attributes->type = region->host ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
    attributes->device = region->gpu;
    attributes->devicePointer = const_cast<void*>(address);
    if (region->host) attributes->hostPointer = const_cast<void*>(address);
  }
  return success();
}

}  // extern "C"
