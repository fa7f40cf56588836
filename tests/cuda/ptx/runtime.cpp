// The CUDA runtime's functions, as an H100 without a driver would have them. All work runs when it is enqueued, or, with PTX_LAZY=1, at the
// next synchronization.
#include <cuda.h>
#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <mutex>
#include <set>

#include "async.hpp"

using namespace heddle::ptx;

namespace {

struct FatBinary {
  std::string ptx;
  std::unique_ptr<Module> module;
  std::vector<void*> handle{1};
};
struct Registered {
  FatBinary* binary;
  std::string name;
  Kernel* kernel = nullptr;
  int raised_limit = -1;  // of dynamic shared memory; negative if cudaFuncSetAttribute has not set it
};

struct Stream {
  std::vector<std::function<void()>> work;
};

// The limits of a GPU; PTX_GPU chooses one.
struct Gpu {
  const char* name;
  int major, minor, sms, shared_of_block, shared_of_sm, threads_of_sm, blocks_of_sm;
};
constexpr Gpu gpus[] = {
    {"h100", 9, 0, 132, 232448, 233472, 2048, 32},     {"a100", 8, 0, 108, 166912, 167936, 2048, 32},
    {"rtx3060", 8, 6, 28, 101376, 102400, 1536, 16},   {"rtx4090", 8, 9, 128, 101376, 102400, 1536, 24},
    {"rtx5090", 12, 0, 170, 101376, 102400, 1536, 24}, {"t4", 7, 5, 40, 65536, 65536, 1024, 16}};
const Gpu& gpu() {
  static const Gpu& chosen = []() -> const Gpu& {
    const char* wanted = std::getenv("PTX_GPU");
    for (const Gpu& g : gpus)
      if (!wanted || std::string(wanted) == g.name) return g;
    unsupported(std::string("PTX_GPU=") + wanted);
  }();
  return chosen;
}

struct Calls {
  unsigned long long allocations = 0, copies = 0, waits = 0;
} calls;  // of the host
struct State {
  std::recursive_mutex mutex;
  std::map<const void*, Registered*> functions;
  std::set<Registered*> kernels;
  std::map<u64, Region> regions;
  std::map<u64, u64> free;  // begin, end
  u64 total = 0, used = 0;
  cudaError_t last = cudaSuccess, sticky = cudaSuccess;
  std::set<Stream*> streams;
  bool lazy = false, mapped = false, per_launch = false;
  double seconds = 0;
  std::map<std::string, std::vector<u64>> counts;  // kernel: of each class, then lanes, launches, microseconds, traffic
  u64 launches = 0;
};
void report_at_exit();
State& state() {
  static State* const s = [] {
    auto* s = new State;
    const auto set = [](const char* name) {
      const char* v = std::getenv(name);
      return v && *v && std::string(v) != "0";
    };
    const char* order = std::getenv("PTX_ORDER");
    options.reverse = order && std::string(order) == "reverse";
    options.random = order && std::string(order).starts_with("random");
    if (options.random && std::string(order).size() > 7) options.seed = std::strtoull(order + 7, nullptr, 10);
    const char* copies = std::getenv("PTX_COPIES");
    options.early_copies = copies && std::string(copies) == "early";
    options.mma_hw = std::getenv("PTX_MMA") && std::string(std::getenv("PTX_MMA")) == "truncate";
    options.keep_nan = std::getenv("PTX_NAN") && std::string(std::getenv("PTX_NAN")) == "keep";
    options.jitter = set("PTX_APPROX") ? static_cast<u32>(std::atoi(std::getenv("PTX_APPROX"))) : 0;
    options.count = set("PTX_COUNT");
    options.count_traffic = set("PTX_TRAFFIC");
    options.count = options.count || options.count_traffic;
    if (std::getenv("PTX_FILL")) options.fill = static_cast<u8>(std::strtoul(std::getenv("PTX_FILL"), nullptr, 0));
    options.abort = set("PTX_ABORT");
    options.trace = set("PTX_TRACE");
    options.races = set("PTX_RACES");
    options.global_races = set("PTX_GLOBAL_RACES");
    s->per_launch = options.count && std::getenv("PTX_COUNT") && std::string(std::getenv("PTX_COUNT")) == "launch";
    s->lazy = set("PTX_LAZY");
    s->total = (std::getenv("PTX_MEMORY") ? std::strtoull(std::getenv("PTX_MEMORY"), nullptr, 10) : 2048ull) << 20;
    s->free[device_base + 65536] = device_base + device_span;
    std::atexit(report_at_exit);
    return s;
  }();
  return *s;
}
using Lock = std::lock_guard<std::recursive_mutex>;

cudaError_t failed(cudaError_t e) {
  if (e != cudaSuccess) state().last = e;
  return e;
}
cudaError_t refuse(cudaError_t e, const std::string& why) {
  std::fprintf(stderr, "ptx: refused: %s\n", why.c_str());
  std::fflush(stderr);
  return failed(e);
}
// The result of a call that succeeded unless a kernel has failed before.
cudaError_t ok() {
  State& s = state();
  return s.sticky == cudaSuccess ? cudaSuccess : failed(s.sticky);
}

void flush(Stream* stream) {
  auto work = std::move(stream->work);
  stream->work.clear();
  for (auto& f : work) f();
}
Stream* null_stream() {
  static Stream* const s = [] {
    auto* n = new Stream;
    state().streams.insert(n);
    return n;
  }();
  return s;
}
void flush_all() {
  null_stream();
  for (Stream* s : state().streams) flush(s);
}
Stream* stream_of(cudaStream_t s) {
  if (s == nullptr || s == cudaStreamLegacy || s == cudaStreamPerThread) return null_stream();
  auto* p = reinterpret_cast<Stream*>(s);
  return state().streams.contains(p) ? p : nullptr;
}
cudaError_t enqueue(cudaStream_t stream, std::function<void()> f) {
  Stream* s = stream_of(stream);
  if (!s) return refuse(cudaErrorInvalidResourceHandle, "a stream that does not exist");
  if (state().lazy)
    s->work.push_back(std::move(f));
  else
    f();
  return ok();
}

// Reserves the device's addresses, at the first allocation.
void reserve_addresses() {
  const auto reserve = [](u64 at, int protection, u64 bytes = device_span) {
    void* p = mmap(reinterpret_cast<void*>(at), bytes, protection,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
    if (p != reinterpret_cast<void*>(at)) {
      std::perror("ptx: mmap");
      std::_Exit(98);
    }
  };
  reserve(device_base, PROT_NONE);
  reserve(device_base + delta, PROT_READ | PROT_WRITE);
  if (options.global_races) reserve(shadow_base, PROT_READ | PROT_WRITE, device_span * sizeof(Access));
  state().mapped = true;
}
u64 device_allocate(u64 bytes) {
  State& s = state();
  if (!s.mapped) reserve_addresses();
  constexpr u64 gap = 8192, unit = 512;
  const u64 size = (std::max<u64>(bytes, 1) + unit - 1) / unit * unit;
  if (bytes > s.total || s.used + size > s.total) return 0;
  for (auto at = s.free.begin(); at != s.free.end(); ++at) {
    const u64 begin = at->first, end = at->second;
    if (end - begin < size + gap) continue;
    s.free.erase(at);
    if (end - begin > size + gap) s.free[begin + size + gap] = end;
    s.regions[begin] = {begin, begin + bytes, false};
    s.used += size;
    std::memset(reinterpret_cast<void*>(begin + delta), options.fill, std::min<u64>(size, 64 << 20));
    return begin;
  }
  return 0;
}
bool device_free(u64 at) {
  State& s = state();
  const auto found = s.regions.find(at);
  if (found == s.regions.end() || found->second.host) return false;
  const u64 bytes = found->second.hi - found->second.lo, size = (std::max<u64>(bytes, 1) + 511) / 512 * 512;
  s.used -= size;
  s.regions.erase(found);
  const u64 page_begin = (at + 4095) / 4096 * 4096, page_end = (at + size) / 4096 * 4096;
  if (size > (1 << 20)) madvise(reinterpret_cast<void*>(page_begin + delta), page_end - page_begin, MADV_DONTNEED);
  u64 begin = at, end = at + size + 8192;
  if (const auto next = s.free.find(end); next != s.free.end()) {
    end = next->second;
    s.free.erase(next);
  }
  auto before = s.free.lower_bound(begin);
  if (before != s.free.begin() && std::prev(before)->second == begin) {
    before = std::prev(before);
    begin = before->first;
    s.free.erase(before);
  }
  s.free[begin] = end;
  return true;
}

// Host addresses of a range; nullptr if a device range is not inside one allocation.
bool is_device(const void* p) {
  const u64 a = reinterpret_cast<u64>(p);
  return a >= device_base && a < device_base + device_span;
}
u8* reach(const void* p, u64 bytes) {
  const u64 a = reinterpret_cast<u64>(p);
  if (!is_device(p)) return reinterpret_cast<u8*>(a);
  const Region* r = region_of(a);
  return r && a + bytes <= r->hi ? reinterpret_cast<u8*>(a + delta) : nullptr;
}

Kernel* kernel_of(Registered* f) {
  if (f->kernel) return f->kernel;
  if (!f->binary->module) {
    if (f->binary->ptx.empty()) return nullptr;
    f->binary->module = parse(f->binary->ptx);
    for (auto& [name, v] : f->binary->module->globals) {
      v.address = device_allocate(std::max<u64>(v.size, 1));
      u8* p = reach(reinterpret_cast<void*>(v.address), v.size);
      std::memset(p, 0, v.size);
      std::memcpy(p, v.init.data(), std::min<u64>(v.init.size(), v.size));
    }
  }
  const auto at = f->binary->module->kernels.find(f->name);
  if (at == f->binary->module->kernels.end()) return nullptr;
  f->kernel = at->second.get();
  return f->kernel;
}
// The limit of a kernel's dynamic shared memory. Unless it was raised, static and dynamic memory together may have 48 KiB.
int dynamic_limit(const Registered& f, const Kernel& k) {
  return f.raised_limit >= 0 ? f.raised_limit : 48 * 1024 - static_cast<int>(k.static_shared);
}
Registered* registered(const void* function) {
  State& s = state();
  if (const auto at = s.functions.find(function); at != s.functions.end()) return at->second;
  auto* r = reinterpret_cast<Registered*>(const_cast<void*>(function));
  return s.kernels.contains(r) ? r : nullptr;
}

void count_launch(Kernel& k, double seconds) {
  State& s = state();
  std::vector<u64> by(category_count, 0);
  u64 lanes = 0;
  for (std::size_t i = 0; i < k.code.size(); ++i) {
    by[k.code[i].category] += k.executed[i];
    lanes += k.lanes[i];
  }
  std::fill(k.executed.begin(), k.executed.end(), 0);
  std::fill(k.lanes.begin(), k.lanes.end(), 0);
  auto& sum = s.counts[demangled(k.name)];
  sum.resize(category_count + 11);
  for (int c = 0; c < category_count; ++c) sum[static_cast<std::size_t>(c)] += by[static_cast<std::size_t>(c)];
  sum[category_count] += lanes;
  ++sum[category_count + 1];
  sum[category_count + 2] += static_cast<u64>(seconds * 1e6);
  for (std::size_t i = 0; i < 2; ++i) {
    sum[category_count + 3 + i] += k.traffic.wavefronts[i];
    sum[category_count + 5 + i] += k.traffic.least_wavefronts[i];
    sum[category_count + 7 + i] += k.traffic.sectors[i];
    sum[category_count + 9 + i] += k.traffic.least_sectors[i];
  }
  k.traffic = {};
}
void print_counts(const std::string& name, const std::vector<u64>& by) {
  u64 total = 0;
  for (int c = 0; c < category_count; ++c) total += by[static_cast<std::size_t>(c)];
  std::fprintf(stderr, "%12llu warp instructions (%.1f lanes), %llu launches, %.3f s: %.200s\n   ",
               static_cast<unsigned long long>(total), total ? double(by[category_count]) / double(total) : 0.,
               static_cast<unsigned long long>(by[category_count + 1]), double(by[category_count + 2]) / 1e6,
               name.c_str());
  for (int c = 0; c < category_count; ++c)
    if (by[static_cast<std::size_t>(c)])
      std::fprintf(stderr, " %s %llu", category_names[c],
                   static_cast<unsigned long long>(by[static_cast<std::size_t>(c)]));
  std::fprintf(stderr, "\n");
  if (options.count_traffic) {
    const auto n = [&](int i) {
      return static_cast<unsigned long long>(by[static_cast<std::size_t>(category_count + i)]);
    };
    std::fprintf(stderr,
                 "    shared memory: %llu wavefronts of loads (%llu without conflicts), %llu of stores (%llu); global: "
                 "%llu sectors loaded (%llu at least), %llu stored (%llu)\n",
                 n(3), n(5), n(4), n(6), n(7), n(9), n(8), n(10));
  }
}
void report_at_exit() {
  State& s = state();
  if (options.count) {
    std::vector<std::pair<std::string, std::vector<u64>>> all(s.counts.begin(), s.counts.end());
    std::sort(all.begin(), all.end(),
              [](auto& a, auto& b) { return a.second[category_count + 2] > b.second[category_count + 2]; });
    for (auto& [name, by] : all) print_counts(name, by);
  }
  if (std::getenv("PTX_SUMMARY"))
    std::fprintf(stderr, "ptx: %llu launches, %.1f s in kernels\n", static_cast<unsigned long long>(s.launches),
                 s.seconds);
  if (std::getenv("PTX_SUMMARY"))
    std::fprintf(stderr, "ptx: calls: %llu allocations, %llu copies, %llu waits\n", calls.allocations, calls.copies,
                 calls.waits);
}

cudaError_t launch(Registered* f, dim3 grid, dim3 block, void** args, std::size_t shared, cudaStream_t stream) {
  State& s = state();
  if (s.sticky != cudaSuccess) return failed(s.sticky);
  if (!f) return refuse(cudaErrorInvalidDeviceFunction, "a launch of an unknown kernel");
  Kernel* k = kernel_of(f);
  if (!k) return refuse(cudaErrorInvalidDeviceFunction, "no PTX of kernel " + demangled(f->name));
  const u64 threads = u64{block.x} * block.y * block.z;
  if (!grid.x || !grid.y || !grid.z || !threads || grid.x > 0x7fffffffu || grid.y > 65535 || grid.z > 65535 ||
      block.x > 1024 || block.y > 1024 || block.z > 64 || threads > 1024)
    return failed(cudaErrorInvalidConfiguration);
  decode(*k);
  if (threads > k->max_threads)
    return refuse(cudaErrorInvalidValue, "more threads than __launch_bounds__ allows: " + demangled(k->name));
  if (shared > static_cast<std::size_t>(dynamic_limit(*f, *k))) return failed(cudaErrorInvalidValue);
  if (shared + k->static_shared > static_cast<std::size_t>(gpu().shared_of_block)) return failed(cudaErrorInvalidValue);
  std::vector<u8> params(k->param_bytes, 0);
  for (std::size_t i = 0; i < k->params.size(); ++i)
    std::memcpy(params.data() + k->params[i].offset, args[i], k->params[i].size);
  return enqueue(stream, [=, params = std::move(params)] {
    State& s = state();
    if (s.sticky != cudaSuccess) return;
    const auto start = std::chrono::steady_clock::now();
    if (options.trace) {
      std::fprintf(stderr, "ptx: (%u, %u, %u) x (%u, %u, %u), %zu bytes: %s\n", grid.x, grid.y, grid.z, block.x,
                   block.y, block.z, shared, demangled(k->name).c_str());
      std::fflush(stderr);
    }
    try {
      run(*k, {grid.x, grid.y, grid.z}, {block.x, block.y, block.z}, static_cast<u32>(shared), params);
    } catch (const Fault& fault) {
      std::fprintf(stderr, "ptx: FAULT %d: %s\n", fault.code, fault.what.c_str());
      std::fflush(stderr);
      if (options.abort) std::abort();
      s.sticky = static_cast<cudaError_t>(fault.code);
    }
    const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    s.seconds += seconds;
    ++s.launches;
    if (options.trace) std::fprintf(stderr, "ptx:   %.3f s\n", seconds);
    if (options.count) {
      count_launch(*k, seconds);
      if (s.per_launch) {  // only this launch
        const std::string name = demangled(k->name);
        std::fprintf(stderr, "launch (%u, %u, %u) x (%u, %u, %u): ", grid.x, grid.y, grid.z, block.x, block.y, block.z);
        print_counts(name, s.counts[name]);
        s.counts.erase(name);
      }
    }
  });
}

cudaError_t copy(void* to, const void* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  if (bytes == 0) return ok();
  const bool to_device = is_device(to), from_device = is_device(from);
  if ((kind == cudaMemcpyHostToDevice && (from_device || !to_device)) ||
      (kind == cudaMemcpyDeviceToHost && (!from_device || to_device)) ||
      (kind == cudaMemcpyDeviceToDevice && (!from_device || !to_device)) ||
      (kind == cudaMemcpyHostToHost && (from_device || to_device)))
    return refuse(cudaErrorInvalidValue, "a copy whose direction does not fit its pointers");
  if (!reach(to, bytes) || !reach(from, bytes))
    return refuse(cudaErrorInvalidValue, "a copy of " + std::to_string(bytes) + " bytes outside of an allocation");
  const bool pinned_to = !to_device && region_of(reinterpret_cast<u64>(to));
  const cudaError_t e = enqueue(stream, [=] {  // reads pageable memory late, as the driver may
    u8* t = reach(to, bytes);
    const u8* f = reach(from, bytes);
    if (!t || !f) {
      std::fprintf(stderr, "ptx: FAULT: a copy of memory that was freed meanwhile\n");
      state().sticky = cudaErrorIllegalAddress;
      return;
    }
    std::memmove(t, f, bytes);
  });
  if (state().lazy && !to_device && !pinned_to)
    flush(stream_of(stream));  // a copy to pageable memory is complete on return
  return e == cudaSuccess ? ok() : e;
}

}  // namespace

const Region* heddle::ptx::region_of(u64 a) {
  State& s = state();
  auto at = s.regions.upper_bound(a);
  if (at == s.regions.begin()) return nullptr;
  --at;
  return a < at->second.hi ? &at->second : nullptr;
}

namespace {

// The driver's function, with the checks that cuda.h lists.
CUresult encode_tiled(CUtensorMap* to, CUtensorMapDataType type, cuuint32_t rank, void* address, const cuuint64_t* dim,
                      const cuuint64_t* strides, const cuuint32_t* box, const cuuint32_t* element_strides,
                      CUtensorMapInterleave interleave, CUtensorMapSwizzle swizzle, CUtensorMapL2promotion,
                      CUtensorMapFloatOOBfill fill) {
  static const u8 sizes[] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};
  const auto no = [](const std::string& why) {
    std::fprintf(stderr, "ptx: refused: cuTensorMapEncodeTiled: %s\n", why.c_str());
    std::fflush(stderr);
    return CUDA_ERROR_INVALID_VALUE;
  };
  if (type > CU_TENSOR_MAP_DATA_TYPE_TFLOAT32_FTZ) unsupported("tensor maps of packed types");
  if (interleave != CU_TENSOR_MAP_INTERLEAVE_NONE) unsupported("interleaved tensor maps");
  if (swizzle > CU_TENSOR_MAP_SWIZZLE_128B) unsupported("tensor maps with swizzle atoms of 32 or 64 bytes");
  if (!to || reinterpret_cast<u64>(to) % 64) return no("the map is not aligned to 64 bytes");
  if (rank < 1 || rank > 5) return no("rank");
  if (reinterpret_cast<u64>(address) % 16) return no("the address is not a multiple of 16");
  TensorMap m{};
  m.magic = tensor_map_magic;
  m.base = reinterpret_cast<u64>(address);
  m.rank = static_cast<u8>(rank);
  m.type = static_cast<u8>(type);
  m.size = sizes[type];
  m.swizzle = static_cast<u8>(swizzle);
  m.nan = fill == CU_TENSOR_MAP_FLOAT_OOB_FILL_NAN_REQUEST_ZERO_FMA;
  if (m.nan && type < CU_TENSOR_MAP_DATA_TYPE_FLOAT16) return no("a fill with NaN of integers");
  for (u32 d = 0; d < rank; ++d) {
    if (dim[d] == 0 || dim[d] > 1ull << 32) return no("a dimension of " + std::to_string(dim[d]));
    if (box[d] == 0 || box[d] > 256) return no("a box of " + std::to_string(box[d]));
    if (element_strides[d] == 0 || element_strides[d] > 8) return no("an element stride");
    if (d > 0 && element_strides[d] != 1) unsupported("tensor maps with element strides");
    if (d > 0 && (strides[d - 1] % 16 || strides[d - 1] >= 1ull << 40))
      return no("a stride of " + std::to_string(strides[d - 1]));
    m.last[d] = static_cast<u32>(dim[d] - 1);
    m.box[d] = static_cast<u16>(box[d]);
    m.stride[d] = d ? strides[d - 1] : m.size;
  }
  const u32 inner = box[0] * m.size;
  if (inner % 16)
    return no("the inner dimension of the box has " + std::to_string(inner) + " bytes, not a multiple of 16");
  if (m.swizzle && inner > (16u << m.swizzle))
    return no("the inner dimension of the box has " + std::to_string(inner) + " bytes, more than the swizzle");
  if (m.swizzle && inner < (16u << m.swizzle)) unsupported("a box narrower than its swizzle");
  if (!region_of(m.base)) return no("the address is not in device memory");
  std::memset(to, 0, sizeof(*to));
  std::memcpy(to, &m, sizeof(m));
  return CUDA_SUCCESS;
}
cudaError_t entry_point(const char* symbol, void** f, cudaDriverEntryPointQueryResult* status) {
  const bool known = std::string(symbol) == "cuTensorMapEncodeTiled";
  *f = known ? reinterpret_cast<void*>(encode_tiled) : nullptr;
  if (status) *status = known ? cudaDriverEntryPointSuccess : cudaDriverEntryPointSymbolNotFound;
  return cudaSuccess;
}

}  // namespace

extern "C" {

#undef cudaGetDriverEntryPoint
cudaError_t cudaGetDriverEntryPoint(const char* symbol, void** f, unsigned long long,
                                    cudaDriverEntryPointQueryResult* status) {
  return entry_point(symbol, f, status);
}
cudaError_t cudaGetDriverEntryPointByVersion(const char* symbol, void** f, unsigned, unsigned long long,
                                             cudaDriverEntryPointQueryResult* status) {
  return entry_point(symbol, f, status);
}

// For the fake cuBLASLt: the host address of device memory, or nullptr if it is not inside one allocation.
void* heddle_ptx_reach(const void* p, std::size_t bytes) {
  const Lock lock(state().mutex);
  return is_device(p) ? reach(p, bytes) : nullptr;
}
int heddle_ptx_enqueue(void* stream, void (*f)(void*), void* data) {
  const Lock lock(state().mutex);
  return enqueue(static_cast<cudaStream_t>(stream), [=] { f(data); });
}
void heddle_ptx_fault(int code, const char* what) {
  std::fprintf(stderr, "ptx: FAULT: %s\n", what);
  std::fflush(stderr);
  state().sticky = static_cast<cudaError_t>(code);
}

// --- registration ---
void** __cudaRegisterFatBinary(void* wrapper) {
  const Lock lock(state().mutex);
  struct Wrapper {
    int magic, version;
    const u8* data;
    void* unused;
  };
  const auto* w = static_cast<const Wrapper*>(wrapper);
  if (w->magic != 0x466243b1) unsupported("fat binary wrapper");
  auto* b = new FatBinary;
  const u8* p = w->data;
  u32 magic;
  u16 header;
  u64 bytes;
  std::memcpy(&magic, p, 4);
  std::memcpy(&header, p + 6, 2);
  std::memcpy(&bytes, p + 8, 8);
  if (magic != 0xba55ed50) unsupported("fat binary");
  for (const u8 *e = p + header, *end = p + header + bytes; e < end;) {
    u16 kind;
    u32 entry_header, flags_low;
    u64 size;
    std::memcpy(&kind, e, 2);
    std::memcpy(&entry_header, e + 4, 4);
    std::memcpy(&size, e + 8, 8);
    std::memcpy(&flags_low, e + 16, 4);
    if (kind == 1) {
      if (flags_low != 0) unsupported("compressed PTX; compile with nvcc --no-compress");
      b->ptx.assign(reinterpret_cast<const char*>(e + entry_header),
                    strnlen(reinterpret_cast<const char*>(e + entry_header), size));
    }
    e += entry_header + size;
  }
  b->handle[0] = b;
  return b->handle.data();
}
void __cudaRegisterFatBinaryEnd(void**) {}
void __cudaUnregisterFatBinary(void**) {}
void __cudaRegisterFunction(void** handle, const char* host, char*, const char* name, int, uint3*, uint3*, dim3*, dim3*,
                            int*) {
  const Lock lock(state().mutex);
  auto* r = new Registered{static_cast<FatBinary*>(handle[0]), name};
  state().functions[host] = r;
  state().kernels.insert(r);
}
void __cudaRegisterVar(void**, char*, char*, const char*, int, size_t, int, int) {}
char __cudaInitModule(void**) { return 1; }

struct Pushed {
  dim3 grid, block;
  size_t shared;
  void* stream;
};
static thread_local std::vector<Pushed> pushed;
unsigned __cudaPushCallConfiguration(dim3 grid, dim3 block, size_t shared, struct CUstream_st* stream) {
  pushed.push_back({grid, block, shared, stream});
  return 0;
}
cudaError_t __cudaPopCallConfiguration(dim3* grid, dim3* block, size_t* shared, void* stream) {
  if (pushed.empty()) return cudaErrorMissingConfiguration;
  const Pushed p = pushed.back();
  pushed.pop_back();
  *grid = p.grid;
  *block = p.block;
  *shared = p.shared;
  *static_cast<void**>(stream) = p.stream;
  return cudaSuccess;
}
cudaError_t __cudaGetKernel(cudaKernel_t* kernel, const void* function) {
  const Lock lock(state().mutex);
  Registered* r = registered(function);
  *kernel = reinterpret_cast<cudaKernel_t>(r);
  return r ? cudaSuccess : cudaErrorInvalidDeviceFunction;
}
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, dim3 grid, dim3 block, void** args, size_t shared,
                               cudaStream_t stream) {
  const Lock lock(state().mutex);
  return launch(registered(kernel), grid, block, args, shared, stream);
}
cudaError_t cudaLaunchKernel(const void* f, dim3 grid, dim3 block, void** args, size_t shared, cudaStream_t stream) {
  const Lock lock(state().mutex);
  return launch(registered(f), grid, block, args, shared, stream);
}
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t* c, const void* f, void** args) {
  const Lock lock(state().mutex);
  for (unsigned i = 0; i < c->numAttrs; ++i) {
    const cudaLaunchAttribute& a = c->attrs[i];
    if (a.id == cudaLaunchAttributeClusterDimension) {
      if (a.val.clusterDim.x * a.val.clusterDim.y * a.val.clusterDim.z != 1) unsupported("clusters of several blocks");
    } else if (a.id != cudaLaunchAttributeProgrammaticStreamSerialization)
      unsupported("launch attribute " + std::to_string(a.id));
  }
  return launch(registered(f), c->gridDim, c->blockDim, args, c->dynamicSmemBytes, c->stream);
}
cudaError_t cudaFuncSetAttribute(const void* f, cudaFuncAttribute a, int value) {
  const Lock lock(state().mutex);
  Registered* r = registered(f);
  Kernel* k = r ? kernel_of(r) : nullptr;
  if (!k) return failed(cudaErrorInvalidDeviceFunction);
  decode(*k);
  if (a == cudaFuncAttributeMaxDynamicSharedMemorySize) {
    if (value < 0 || value + static_cast<int>(k->static_shared) > gpu().shared_of_block)
      return refuse(cudaErrorInvalidValue, "cudaFuncSetAttribute: too much dynamic shared memory");
    r->raised_limit = value;
  } else if (a != cudaFuncAttributePreferredSharedMemoryCarveout && a != cudaFuncAttributeNonPortableClusterSizeAllowed)
    unsupported("cudaFuncSetAttribute");
  return ok();
}
cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* a, const void* f) {
  const Lock lock(state().mutex);
  Registered* r = registered(f);
  Kernel* k = r ? kernel_of(r) : nullptr;
  if (!k) return failed(cudaErrorInvalidDeviceFunction);
  decode(*k);
  *a = {};
  a->sharedSizeBytes = k->static_shared;
  a->localSizeBytes = k->local_bytes;
  a->maxThreadsPerBlock = static_cast<int>(k->max_threads);
  a->numRegs = 64;
  const auto digits = r->binary->module->target.find_first_of("0123456789");
  a->ptxVersion = digits == std::string::npos ? 0 : std::atoi(r->binary->module->target.c_str() + digits);
  a->binaryVersion = gpu().major * 10 + gpu().minor;
  a->maxDynamicSharedSizeBytes = dynamic_limit(*r, *k);
  return ok();
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int* blocks, const void* f, int threads,
                                                                   size_t shared, unsigned) {
  const Lock lock(state().mutex);
  Registered* r = registered(f);
  Kernel* k = r ? kernel_of(r) : nullptr;
  if (!k) return failed(cudaErrorInvalidDeviceFunction);
  decode(*k);
  const int by_shared =
      static_cast<int>(static_cast<std::size_t>(gpu().shared_of_sm) / (shared + k->static_shared + 1024));
  *blocks = std::clamp(std::min(gpu().threads_of_sm / std::max(threads, 1), by_shared), 0, gpu().blocks_of_sm);
  return ok();
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int* blocks, const void* f, int threads, size_t shared) {
  return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, f, threads, shared, 0);
}
cudaError_t cudaOccupancyMaxActiveClusters(int* clusters, const void* f, const cudaLaunchConfig_t* c) {  // of one block
  const cudaError_t e = cudaOccupancyMaxActiveBlocksPerMultiprocessor(
      clusters, f, static_cast<int>(c->blockDim.x * c->blockDim.y * c->blockDim.z), c->dynamicSmemBytes);
  *clusters *= gpu().sms;
  return e;
}

// --- errors ---
cudaError_t cudaGetLastError() {
  const Lock lock(state().mutex);
  State& s = state();
  const cudaError_t e = s.last;
  s.last = s.sticky;
  return e;
}
cudaError_t cudaPeekAtLastError() {
  const Lock lock(state().mutex);
  return state().last;
}
const char* cudaGetErrorString(cudaError_t e) {
  switch (e) {
    case cudaSuccess: return "no error";
    case cudaErrorInvalidValue: return "invalid argument";
    case cudaErrorMemoryAllocation: return "out of memory";
    case cudaErrorInvalidConfiguration: return "invalid configuration argument";
    case cudaErrorInvalidDeviceFunction: return "invalid device function";
    case cudaErrorInvalidResourceHandle: return "invalid resource handle";
    case cudaErrorInvalidDevice: return "invalid device ordinal";
    case cudaErrorIllegalAddress: return "an illegal memory access was encountered";
    case cudaErrorMisalignedAddress: return "misaligned address";
    case cudaErrorIllegalInstruction: return "an illegal instruction was encountered";
    case cudaErrorLaunchFailure: return "unspecified launch failure";
    case cudaErrorNotReady: return "device not ready";
    case cudaErrorNoDevice: return "no CUDA-capable device is detected";
    default: return "an error of the fake CUDA runtime";
  }
}
const char* cudaGetErrorName(cudaError_t e) { return cudaGetErrorString(e); }

// --- devices ---
cudaError_t cudaGetDeviceCount(int* n) {
  const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
  *n = visible && !*visible ? 0 : 1;
  return *n ? cudaSuccess : failed(cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int* d) {
  *d = 0;
  return cudaSuccess;
}
cudaError_t cudaSetDevice(int d) { return d == 0 ? cudaSuccess : failed(cudaErrorInvalidDevice); }
cudaError_t cudaDriverGetVersion(int* v) {
  *v = 13000;
  return cudaSuccess;
}
cudaError_t cudaRuntimeGetVersion(int* v) {
  *v = 13000;
  return cudaSuccess;
}
cudaError_t cudaDeviceGetAttribute(int* v, cudaDeviceAttr a, int) {
  switch (a) {
    case cudaDevAttrMaxThreadsPerBlock: *v = 1024; break;
    case cudaDevAttrMaxBlockDimX:
    case cudaDevAttrMaxBlockDimY: *v = 1024; break;
    case cudaDevAttrMaxBlockDimZ: *v = 64; break;
    case cudaDevAttrMaxGridDimX: *v = 0x7fffffff; break;
    case cudaDevAttrMaxGridDimY:
    case cudaDevAttrMaxGridDimZ: *v = 65535; break;
    case cudaDevAttrMaxSharedMemoryPerBlock: *v = 49152; break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin: *v = gpu().shared_of_block; break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor: *v = gpu().shared_of_sm; break;
    case cudaDevAttrReservedSharedMemoryPerBlock: *v = 1024; break;
    case cudaDevAttrWarpSize: *v = 32; break;
    case cudaDevAttrMultiProcessorCount: *v = gpu().sms; break;
    case cudaDevAttrMaxThreadsPerMultiProcessor: *v = gpu().threads_of_sm; break;
    case cudaDevAttrMaxBlocksPerMultiprocessor: *v = gpu().blocks_of_sm; break;
    case cudaDevAttrMaxRegistersPerBlock:
    case cudaDevAttrMaxRegistersPerMultiprocessor: *v = 65536; break;
    case cudaDevAttrComputeCapabilityMajor: *v = gpu().major; break;
    case cudaDevAttrComputeCapabilityMinor: *v = gpu().minor; break;
    case cudaDevAttrL2CacheSize: *v = 50 << 20; break;
    case cudaDevAttrClockRate: *v = 1980000; break;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrConcurrentKernels:
    case cudaDevAttrManagedMemory:
    case cudaDevAttrConcurrentManagedAccess:
    case cudaDevAttrMemoryPoolsSupported:
    case cudaDevAttrCanMapHostMemory: *v = 1; break;
    default: unsupported("cudaDeviceGetAttribute " + std::to_string(a));
  }
  return cudaSuccess;
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  std::strcpy(p->name, "NVIDIA H100 (PTX interpreter)");
  p->major = 9;
  p->multiProcessorCount = 132;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->sharedMemPerBlock = 49152;
  p->sharedMemPerBlockOptin = 232448;
  p->totalGlobalMem = state().total;
  p->l2CacheSize = 50 << 20;
  return cudaSuccess;
}

// --- memory ---
cudaError_t cudaMalloc(void** p, size_t bytes) {
  ++calls.allocations;
  const Lock lock(state().mutex);
  if (bytes == 0) {
    *p = nullptr;
    return ok();
  }
  const u64 at = device_allocate(bytes);
  if (!at) return failed(cudaErrorMemoryAllocation);
  *p = reinterpret_cast<void*>(at);
  return ok();
}
cudaError_t cudaFree(void* p) {
  const Lock lock(state().mutex);
  flush_all();
  if (p && !device_free(reinterpret_cast<u64>(p)))
    return refuse(cudaErrorInvalidValue, "cudaFree of an address that was not allocated");
  return ok();
}
cudaError_t cudaMallocAsync(void** p, size_t bytes, cudaStream_t) { return cudaMalloc(p, bytes); }
cudaError_t cudaFreeAsync(void* p, cudaStream_t) { return cudaFree(p); }
cudaError_t cudaMemGetInfo(size_t* free, size_t* total) {
  const Lock lock(state().mutex);
  *free = state().total - state().used;
  *total = state().total;
  return ok();
}
cudaError_t cudaHostAlloc(void** p, size_t bytes, unsigned) {
  const Lock lock(state().mutex);
  *p = std::aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);
  state().regions[reinterpret_cast<u64>(*p)] = {reinterpret_cast<u64>(*p), reinterpret_cast<u64>(*p) + bytes, true};
  return ok();
}
cudaError_t cudaMallocHost(void** p, size_t bytes) { return cudaHostAlloc(p, bytes, 0); }
cudaError_t cudaFreeHost(void* p) {
  const Lock lock(state().mutex);
  flush_all();
  state().regions.erase(reinterpret_cast<u64>(p));
  std::free(p);
  return ok();
}
cudaError_t cudaHostGetDevicePointer(void** d, void* h, unsigned) {
  *d = h;
  return ok();
}
cudaError_t cudaHostRegister(void* p, size_t bytes, unsigned) {
  const Lock lock(state().mutex);
  state().regions[reinterpret_cast<u64>(p)] = {reinterpret_cast<u64>(p), reinterpret_cast<u64>(p) + bytes, true};
  return ok();
}
cudaError_t cudaHostUnregister(void* p) {
  const Lock lock(state().mutex);
  flush_all();
  state().regions.erase(reinterpret_cast<u64>(p));
  return ok();
}
cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* a, const void* p) {
  const Lock lock(state().mutex);
  *a = {};
  const Region* r = region_of(reinterpret_cast<u64>(p));
  a->type = !r ? cudaMemoryTypeUnregistered : r->host ? cudaMemoryTypeHost : cudaMemoryTypeDevice;
  if (r) a->devicePointer = const_cast<void*>(p);
  if (r && r->host) a->hostPointer = const_cast<void*>(p);
  return ok();
}
cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, cudaMemcpyKind kind, cudaStream_t stream) {
  const Lock lock(state().mutex);
  ++calls.copies;
  return copy(to, from, bytes, kind, stream);
}
cudaError_t cudaMemcpy(void* to, const void* from, size_t bytes, cudaMemcpyKind kind) {
  const Lock lock(state().mutex);
  ++calls.copies;
  ++calls.waits;
  const cudaError_t e = copy(to, from, bytes, kind, nullptr);
  flush_all();
  return e == cudaSuccess ? ok() : e;
}
cudaError_t cudaMemcpy2DAsync(void* to, size_t to_pitch, const void* from, size_t from_pitch, size_t width,
                              size_t height, cudaMemcpyKind kind, cudaStream_t stream) {
  const Lock lock(state().mutex);
  if (width > to_pitch || width > from_pitch)
    return refuse(cudaErrorInvalidPitchValue, "cudaMemcpy2D: a row that is wider than its pitch");
  if (to_pitch > 0x7fffffff || from_pitch > 0x7fffffff)
    return refuse(cudaErrorInvalidPitchValue, "cudaMemcpy2D: pitch");
  for (size_t i = 0; i < height; ++i) {
    const cudaError_t e = copy(static_cast<char*>(to) + i * to_pitch, static_cast<const char*>(from) + i * from_pitch,
                               width, kind, stream);
    if (e != cudaSuccess) return e;
  }
  return ok();
}
cudaError_t cudaMemsetAsync(void* p, int value, size_t bytes, cudaStream_t stream) {
  const Lock lock(state().mutex);
  if (bytes == 0) return ok();
  if (!is_device(p) || !reach(p, bytes)) return refuse(cudaErrorInvalidValue, "cudaMemset outside of an allocation");
  return enqueue(stream, [=] {
    if (u8* at = reach(p, bytes)) std::memset(at, value, bytes);
  });
}
cudaError_t cudaMemset(void* p, int value, size_t bytes) { return cudaMemsetAsync(p, value, bytes, nullptr); }

// --- streams and events ---
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned) {
  const Lock lock(state().mutex);
  auto* n = new Stream;
  state().streams.insert(n);
  *s = reinterpret_cast<cudaStream_t>(n);
  return ok();
}
cudaError_t cudaStreamCreate(cudaStream_t* s) { return cudaStreamCreateWithFlags(s, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  const Lock lock(state().mutex);
  Stream* p = stream_of(s);
  if (!p || !s) return refuse(cudaErrorInvalidResourceHandle, "cudaStreamDestroy");
  flush(p);
  state().streams.erase(p);
  return ok();
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  const Lock lock(state().mutex);
  ++calls.waits;
  Stream* p = stream_of(s);
  if (!p) return refuse(cudaErrorInvalidResourceHandle, "cudaStreamSynchronize");
  flush(p);
  return ok();
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  const Lock lock(state().mutex);
  Stream *p = stream_of(s), *recorded = *reinterpret_cast<Stream**>(e);
  if (!p) return refuse(cudaErrorInvalidResourceHandle, "cudaStreamWaitEvent");
  if (recorded && recorded != p && state().streams.contains(recorded)) flush(recorded);
  return ok();
}
struct Event {
  Stream* recorded = nullptr;
  std::chrono::steady_clock::time_point at;
};
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  *e = reinterpret_cast<cudaEvent_t>(new Event);
  return ok();
}
cudaError_t cudaEventCreate(cudaEvent_t* e) { return cudaEventCreateWithFlags(e, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete reinterpret_cast<Event*>(e);
  return ok();
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  const Lock lock(state().mutex);
  Stream* p = stream_of(s);
  if (!p) return refuse(cudaErrorInvalidResourceHandle, "cudaEventRecord");
  *reinterpret_cast<Event*>(e) = {p, std::chrono::steady_clock::now()};
  return ok();
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  const Lock lock(state().mutex);
  ++calls.waits;
  if (auto* s = reinterpret_cast<Event*>(e)->recorded; s && state().streams.contains(s)) flush(s);
  return ok();
}
cudaError_t cudaEventQuery(cudaEvent_t e) { return cudaEventSynchronize(e); }
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t a, cudaEvent_t b) {
  *ms = std::chrono::duration<float, std::milli>(reinterpret_cast<Event*>(b)->at - reinterpret_cast<Event*>(a)->at)
            .count();
  return ok();
}
cudaError_t cudaDeviceSynchronize() {
  const Lock lock(state().mutex);
  ++calls.waits;
  flush_all();
  return ok();
}

}  // extern "C"
