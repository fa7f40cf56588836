#include "modules.hpp"

#include <algorithm>
#include <set>

#include "allocations.hpp"
#include "devices.hpp"
#include "environment.hpp"
#include "errors.hpp"

namespace heddle::ptx {

// The binaries that nvcc made of a translation unit. Only the PTX is used.
struct FatBinary {
  std::string ptx;
  std::unique_ptr<Module> module;  // null before the first use of a kernel
  std::vector<void*> handle{1};    // what the host gets: the address of a pointer to this object
};

namespace {

std::map<const void*, RegisteredKernel*> kernels_of_functions;
std::set<const void*> registered_kernels;

// --- the format of fat binaries, which NVIDIA does not document ---

constexpr u32 wrapper_magic = 0x466243b1, binary_magic = 0xba55ed50;
constexpr u16 ptx_kind = 1;

// The argument of __cudaRegisterFatBinary.
struct Wrapper {
  u32 magic, version;
  const u8* data;
  void* unused;
};
struct BinaryHeader {
  u32 magic;
  u16 version, header_bytes;
  u64 bytes;  // of all entries
};
struct EntryHeader {
  u16 kind, version;
  u32 header_bytes;
  u64 bytes;  // of the content behind the header
  u32 compressed_bytes, unused;
};

template <class T>
T read_header(const u8* from) {
  T header;
  std::memcpy(&header, from, sizeof(header));
  return header;
}

// Returns the PTX of a fat binary, or an empty string.
std::string ptx_of(const u8* data) {
  const auto binary = read_header<BinaryHeader>(data);
  if (binary.magic != binary_magic) unsupported("the format of a fat binary");
  const u8* const end = data + binary.header_bytes + binary.bytes;
  std::string ptx;
  for (const u8* at = data + binary.header_bytes; at < end;) {
    const auto entry = read_header<EntryHeader>(at);
    const char* const content = reinterpret_cast<const char*>(at + entry.header_bytes);
    if (entry.kind == ptx_kind) {
      if (entry.compressed_bytes != 0) unsupported("compressed PTX; compile with nvcc --no-compress");
      ptx.assign(content, strnlen(content, entry.bytes));
    }
    at += entry.header_bytes + entry.bytes;
  }
  return ptx;
}

// --- loading ---

void allocate_globals(Module& module) {
  for (auto& [name, variable] : module.globals) {
    variable.address = allocate(std::max<u64>(variable.size, 1));
    u8* const bytes = host_pointer(reinterpret_cast<void*>(variable.address), variable.size);
    std::memset(bytes, 0, variable.size);
    std::memcpy(bytes, variable.init.data(), std::min<u64>(variable.init.size(), variable.size));
  }
}

// Returns nullptr if the binary has no PTX.
Module* loaded_module(FatBinary& binary) {
  if (!binary.module && !binary.ptx.empty()) {
    binary.module = parse(binary.ptx);
    allocate_globals(*binary.module);
  }
  return binary.module.get();
}

}  // namespace

int RegisteredKernel::dynamic_limit() const {
  constexpr int default_limit = 48 * 1024;
  const auto raised = raised_limits.find(current_gpu);
  return raised != raised_limits.end() ? raised->second : default_limit - static_cast<int>(kernel->static_shared);
}

RegisteredKernel* find_registered(const void* function) {
  if (const auto found = kernels_of_functions.find(function); found != kernels_of_functions.end()) return found->second;
  const bool is_kernel = registered_kernels.contains(function);
  return is_kernel ? static_cast<RegisteredKernel*>(const_cast<void*>(function)) : nullptr;
}

RegisteredKernel* load_kernel(const void* function) {
  RegisteredKernel* const registered = find_registered(function);
  if (!registered || registered->kernel) return registered;
  Module* const module = loaded_module(*registered->binary);
  if (!module) return nullptr;
  const auto found = module->kernels.find(registered->name);
  if (found == module->kernels.end()) return nullptr;
  registered->kernel = found->second.get();
  decode(*registered->kernel);
  return registered;
}

}  // namespace heddle::ptx

using namespace heddle::ptx;

// nvcc's code calls these functions when a program is loaded, and for launches with <<<>>>.
extern "C" {

void** __cudaRegisterFatBinary(void* data) {
  const RuntimeLock lock;
  const auto& wrapper = *static_cast<const Wrapper*>(data);
  if (wrapper.magic != wrapper_magic) unsupported("the wrapper of a fat binary");
  auto* const binary = new FatBinary{ptx_of(wrapper.data), nullptr};
  binary->handle[0] = binary;
  return binary->handle.data();
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}

void __cudaRegisterFunction(void** handle, const char* function, char*, const char* name, int, uint3*, uint3*, dim3*,
                            dim3*, int*) {
  const RuntimeLock lock;
  auto* const kernel = new RegisteredKernel{static_cast<FatBinary*>(handle[0]), name};
  kernels_of_functions[function] = kernel;
  registered_kernels.insert(kernel);
}
// Variables that the host reads by their symbols are not supported, so their names are not kept.
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
char __cudaInitModule(void**) { return 1; }

cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  const RuntimeLock lock;
  RegisteredKernel* const registered = find_registered(function);
  *kernel = reinterpret_cast<cudaKernel_t>(registered);
  return registered ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}

}  // extern "C"
