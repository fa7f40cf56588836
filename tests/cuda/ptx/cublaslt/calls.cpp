// The functions of cuBLASLt. They check more than NVIDIA's: an object that does not exist, descriptions that do not fit
// together, an algorithm that was chosen for another product and not checked for this one, and pointers that are less
// aligned than the heuristic was told. PTX_NO_EPILOGUE=1 makes the heuristic offer nothing for an epilogue, as for some
// types on some GPUs. PTX_REFUSE makes cublasLtMatmul refuse what the heuristic has offered, or the heuristic or
// cublasLtMatmulAlgoCheck refuse all.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <set>

#include "../runtime/cublaslt_support.hpp"
#include "product.hpp"

namespace heddle::ptx {

namespace {

// Calls so far, for PTX_SUMMARY.
struct Totals {
  unsigned long long products = 0, heuristics = 0;
  ~Totals() {
    if (heddle_ptx_prints_summary())
      std::fprintf(stderr, "ptx: cuBLASLt: %llu products, %llu heuristics\n", products, heuristics);
  }
} totals;

std::mutex mutex;
std::set<const void*> objects;  // those that exist
// Algorithms, by the hash of the problem that they were chosen for, and the hashes of the problems that they may solve.
std::set<std::pair<std::uint64_t, std::uint64_t>> accepted;

cublasStatus_t refuse(const char* call, const std::string& reason) {
  std::fprintf(stderr, "ptx: refused: %s: %s\n", call, reason.c_str());
  std::fflush(stderr);
  return CUBLAS_STATUS_INVALID_VALUE;
}

[[noreturn]] void unsupported(const std::string& what) {
  std::fprintf(stderr, "ptx: NOT SUPPORTED: %s\n", what.c_str());
  std::fflush(stderr);
  std::_Exit(97);
}

template <class T, class Handle>
cublasStatus_t create(Handle& handle, T* object) {
  const std::lock_guard lock(mutex);
  objects.insert(object);
  handle = reinterpret_cast<Handle>(object);
  return CUBLAS_STATUS_SUCCESS;
}
template <class T>
cublasStatus_t destroy(const void* handle) {
  const std::lock_guard lock(mutex);
  if (objects.erase(handle)) delete static_cast<const T*>(handle);
  return CUBLAS_STATUS_SUCCESS;
}
// Returns nullptr for an object that does not exist.
template <class T>
T* find(const void* handle) {
  const std::lock_guard lock(mutex);
  return objects.contains(handle) ? static_cast<T*>(const_cast<void*>(handle)) : nullptr;
}

// A value that the caller sets. The functions below return false if it does not have the size of its attribute.
struct Value {
  const void* data;
  std::size_t bytes;

  template <class T>
  bool read(T& to) const {
    if (bytes != sizeof(T)) return false;
    std::memcpy(&to, data, bytes);
    return true;
  }
  template <class Enum>
  bool read_enum(Enum& to) const {
    std::int32_t value = 0;
    if (!read(value)) return false;
    to = static_cast<Enum>(value);
    return true;
  }
};

bool set(Operation& operation, cublasLtMatmulDescAttributes_t attribute, const Value& value) {
  switch (attribute) {
    case CUBLASLT_MATMUL_DESC_TRANSA: return value.read_enum(operation.a);
    case CUBLASLT_MATMUL_DESC_TRANSB: return value.read_enum(operation.b);
    case CUBLASLT_MATMUL_DESC_EPILOGUE: return value.read_enum(operation.epilogue);
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: return value.read(operation.bias);
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: return value.read(operation.bias_type);
    default: unsupported("cublasLtMatmulDescSetAttribute of attribute " + std::to_string(attribute));
  }
}
bool set(Layout& layout, cublasLtMatrixLayoutAttribute_t attribute, const Value& value) {
  switch (attribute) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: return value.read(layout.batch_count);
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: return value.read(layout.batch_stride);
    default: unsupported("cublasLtMatrixLayoutSetAttribute of attribute " + std::to_string(attribute));
  }
}
bool set(Preference& preference, cublasLtMatmulPreferenceAttributes_t attribute, const Value& value) {
  switch (attribute) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: return value.read(preference.workspace_bytes);
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: return value.read(preference.reduction_schemes);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: return value.read(preference.alignments[0]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: return value.read(preference.alignments[1]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: return value.read(preference.alignments[2]);
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: return value.read(preference.alignments[3]);
    default: unsupported("cublasLtMatmulPreferenceSetAttribute of attribute " + std::to_string(attribute));
  }
}

template <class T, class Attribute>
cublasStatus_t set_attribute(const char* call, const void* handle, Attribute attribute, const Value& value) {
  T* const object = find<T>(handle);
  if (!object) return refuse(call, "the object does not exist");
  if (set(*object, attribute, value)) return CUBLAS_STATUS_SUCCESS;
  return refuse(call,
                "attribute " + std::to_string(attribute) + " does not have " + std::to_string(value.bytes) + " bytes");
}

// Builds a problem from its objects. Returns what is wrong, or an empty string.
std::string read_problem(const void* operation, std::initializer_list<const void*> layouts, Problem& problem) {
  const auto* const found = find<Operation>(operation);
  if (!found) return "the operation does not exist";
  problem.operation = *found;
  Layout* const parts[] = {&problem.a, &problem.b, &problem.c, &problem.d};
  Layout* const* part = parts;
  for (const void* handle : layouts) {
    const auto* const layout = find<Layout>(handle);
    if (!layout) return "a layout does not exist";
    **part++ = *layout;
  }
  return wrong_problem(problem);
}

bool is_supported(cublasLtEpilogue_t epilogue) {
  return epilogue == CUBLASLT_EPILOGUE_DEFAULT || epilogue == CUBLASLT_EPILOGUE_BIAS ||
         epilogue == CUBLASLT_EPILOGUE_BGRADA || epilogue == CUBLASLT_EPILOGUE_BGRADB;
}

// Returns whether the heuristic offers an algorithm with Hopper's instructions. An H200 does not use them for rows that
// are not aligned.
bool is_for_hopper(const Problem& problem, const Preference& preference) {
  constexpr int hopper = 9, alignment = 16;
  int device = 0, major = 0;
  cudaGetDevice(&device);
  cudaDeviceGetAttribute(&major, cudaDevAttrComputeCapabilityMajor, device);
  const auto is_aligned = [](const Layout& x) {
    return x.leading_dimension * static_cast<std::int64_t>(bytes_of(x.type)) % alignment == 0;
  };
  return major == hopper && is_aligned(problem.a) && is_aligned(problem.b) && is_aligned(problem.d) &&
         std::all_of(std::begin(preference.alignments), std::end(preference.alignments),
                     [](std::uint32_t bytes) { return bytes >= alignment; });
}

// Sets when an algorithm rounds, as cuBLASLt 13.0 does on an H200: Hopper's algorithms round the product before they
// add C, and those that add up the product in parts round the sum before they add the bias.
void set_roundings(Algorithm& algorithm, const Problem& problem, const Preference& preference) {
  algorithm.rounds_before_c = is_for_hopper(problem, preference);
  algorithm.rounds_before_bias = problem.operation.epilogue == CUBLASLT_EPILOGUE_BIAS && !algorithm.rounds_before_c &&
                                 (preference.reduction_schemes & CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE) != 0;
}

// Reports pointers that are less aligned than an algorithm needs. Its wide accesses would fault, so it is not an error
// of the call.
void check_alignment(const Product& product, const Algorithm& algorithm) {
  const auto is_aligned = [](const void* address, std::uintptr_t bytes) {
    return reinterpret_cast<std::uintptr_t>(address) % bytes == 0;
  };
  constexpr std::uintptr_t bias_alignment = 16;
  const void* const matrices[] = {product.a, product.b, product.c, product.d};
  for (int i = 0; i < 4; ++i)
    if (!is_aligned(matrices[i], algorithm.alignments[i]))
      heddle_ptx_raise_fault(cudaErrorMisalignedAddress,
                             (std::string("cublasLtMatmul: ") + "ABCD"[i] + " is not aligned as promised").c_str());
  const Operation& operation = product.problem.operation;
  if (operation.has_epilogue() && !is_aligned(operation.bias, bias_alignment))
    heddle_ptx_raise_fault(cudaErrorMisalignedAddress, "cublasLtMatmul: the bias is not aligned to 16 bytes");
}

bool is_algorithm(const Algorithm& algorithm) {
  return !std::memcmp(algorithm.magic, algorithm_magic, sizeof(algorithm_magic));
}
void accept(const Algorithm& algorithm, const Problem& problem) {
  const std::lock_guard lock(mutex);
  accepted.emplace(algorithm.problem, hash_of(problem));
}
bool is_accepted(const Algorithm& algorithm, const Problem& problem) {
  const std::lock_guard lock(mutex);
  return accepted.contains({algorithm.problem, hash_of(problem)});
}

// Returns what is wrong with a call, or an empty string.
std::string wrong_call(const Product& product, const Algorithm& algorithm, const void* workspace, std::size_t bytes) {
  const Problem& problem = product.problem;
  if (!is_algorithm(algorithm) || !is_accepted(algorithm, problem))
    return "the algorithm was chosen for another product, and not checked for this one";
  if (bytes < algorithm.workspace_bytes || !heddle_ptx_host_pointer(workspace, bytes))
    return "the workspace is too small, or not inside one allocation";
  if (product.c == product.d && problem.c != problem.d) return "C and D are one matrix with two layouts";
  return "";
}

// A handle is the address of its GPU's number.
int gpu_of(cublasLtHandle_t handle) { return *reinterpret_cast<const int*>(handle); }

// Returns what of a call is not on the handle's GPU, or an empty string.
std::string elsewhere(cublasLtHandle_t handle, const Product& product, const void* workspace, cudaStream_t stream) {
  const int gpu = gpu_of(handle);
  if (gpu != heddle_ptx_current_gpu()) return "the handle belongs to another GPU";
  if (!heddle_ptx_is_stream_of(stream, gpu)) return "the stream belongs to another GPU";
  for (const void* address : {product.a, product.b, product.c, static_cast<const void*>(product.d), workspace})
    if (!heddle_ptx_is_on(address, gpu)) return "an operand or the workspace is not on the handle's GPU";
  return "";
}

void run(const void* product) { compute(*static_cast<const Product*>(product)); }
void destroy_product(const void* product) { delete static_cast<const Product*>(product); }

}  // namespace
}  // namespace heddle::ptx

using namespace heddle::ptx;

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* handle) {
  *handle = reinterpret_cast<cublasLtHandle_t>(new int(heddle_ptx_current_gpu()));
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t status) {
  switch (status) {
    case CUBLAS_STATUS_SUCCESS: return "CUBLAS_STATUS_SUCCESS";
    case CUBLAS_STATUS_NOT_SUPPORTED: return "CUBLAS_STATUS_NOT_SUPPORTED";
    case CUBLAS_STATUS_INVALID_VALUE: return "CUBLAS_STATUS_INVALID_VALUE";
    default: return "a status that the PTX interpreter does not name";
  }
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* handle, cublasComputeType_t compute,
                                        cudaDataType_t scale_type) {
  return create(*handle, new Operation{compute, scale_type});
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t handle) { return destroy<Operation>(handle); }
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t handle, cublasLtMatmulDescAttributes_t attribute,
                                              const void* data, size_t bytes) {
  return set_attribute<Operation>("cublasLtMatmulDescSetAttribute", handle, attribute, {data, bytes});
}

cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* handle, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t columns, std::int64_t leading_dimension) {
  return create(*handle, new Layout{type, rows, columns, leading_dimension});
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t handle) { return destroy<Layout>(handle); }
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t handle,
                                                cublasLtMatrixLayoutAttribute_t attribute, const void* data,
                                                size_t bytes) {
  return set_attribute<Layout>("cublasLtMatrixLayoutSetAttribute", handle, attribute, {data, bytes});
}

cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* handle) {
  return create(*handle, new Preference);
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t handle) {
  return destroy<Preference>(handle);
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t handle,
                                                    cublasLtMatmulPreferenceAttributes_t attribute, const void* data,
                                                    size_t bytes) {
  return set_attribute<Preference>("cublasLtMatmulPreferenceSetAttribute", handle, attribute, {data, bytes});
}

cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t operation,
                                              cublasLtMatrixLayout_t a, cublasLtMatrixLayout_t b,
                                              cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                              cublasLtMatmulPreference_t preferred, int wanted,
                                              cublasLtMatmulHeuristicResult_t results[], int* found) {
  constexpr const char* call = "cublasLtMatmulAlgoGetHeuristic";
  ++totals.heuristics;
  *found = 0;
  Problem problem;
  if (const std::string wrong = read_problem(operation, {a, b, c, d}, problem); !wrong.empty())
    return refuse(call, wrong);
  const auto* const preference = find<Preference>(preferred);
  if (!preference || wanted < 1) return refuse(call, "there is no preference, or no result is wanted");
  const cublasLtEpilogue_t epilogue = problem.operation.epilogue;
  if (!is_supported(epilogue)) unsupported("cuBLASLt's epilogue " + std::to_string(epilogue));
  if (problem.operation.has_epilogue() && heddle_ptx_lacks_epilogues()) return CUBLAS_STATUS_NOT_SUPPORTED;
  if (heddle_ptx_refuses("heuristic")) return CUBLAS_STATUS_NOT_SUPPORTED;
  Algorithm algorithm{{}, {}, hash_of(problem), hash_of(problem, false), preference->workspace_bytes, false, false};
  std::copy(std::begin(algorithm_magic), std::end(algorithm_magic), algorithm.magic);
  std::copy(std::begin(preference->alignments), std::end(preference->alignments), algorithm.alignments);
  set_roundings(algorithm, problem, *preference);
  accept(algorithm, problem);
  results[0] = {};
  std::memcpy(&results[0].algo, &algorithm, sizeof(algorithm));
  results[0].workspaceSize = preference->workspace_bytes;
  results[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmulAlgoCheck(cublasLtHandle_t, cublasLtMatmulDesc_t operation, cublasLtMatrixLayout_t a,
                                       cublasLtMatrixLayout_t b, cublasLtMatrixLayout_t c, cublasLtMatrixLayout_t d,
                                       const cublasLtMatmulAlgo_t* chosen, cublasLtMatmulHeuristicResult_t* result) {
  constexpr const char* call = "cublasLtMatmulAlgoCheck";
  Problem problem;
  if (const std::string wrong = read_problem(operation, {a, b, c, d}, problem); !wrong.empty())
    return refuse(call, wrong);
  Algorithm algorithm;
  std::memcpy(&algorithm, chosen, sizeof(algorithm));
  if (!is_algorithm(algorithm)) return refuse(call, "the algorithm does not come from the heuristic");
  if (algorithm.kind != hash_of(problem, false) || heddle_ptx_refuses("check")) return CUBLAS_STATUS_NOT_SUPPORTED;
  accept(algorithm, problem);
  *result = {};
  result->algo = *chosen;
  result->workspaceSize = algorithm.workspace_bytes;
  result->state = CUBLAS_STATUS_SUCCESS;
  return CUBLAS_STATUS_SUCCESS;
}

cublasStatus_t cublasLtMatmul(cublasLtHandle_t handle, cublasLtMatmulDesc_t operation, const void* alpha, const void* A,
                              cublasLtMatrixLayout_t a, const void* B, cublasLtMatrixLayout_t b, const void* beta,
                              const void* C, cublasLtMatrixLayout_t c, void* D, cublasLtMatrixLayout_t d,
                              const cublasLtMatmulAlgo_t* chosen, void* workspace, size_t bytes, cudaStream_t stream) {
  constexpr const char* call = "cublasLtMatmul";
  Product product{{}, *static_cast<const float*>(alpha), *static_cast<const float*>(beta), A, B, C, D};
  if (const std::string wrong = read_problem(operation, {a, b, c, d}, product.problem); !wrong.empty())
    return refuse(call, wrong);
  if (!chosen) unsupported("cublasLtMatmul without an algorithm");
  Algorithm algorithm;
  std::memcpy(&algorithm, chosen, sizeof(algorithm));
  if (const std::string wrong = wrong_call(product, algorithm, workspace, bytes); !wrong.empty())
    return refuse(call, wrong);
  if (const std::string wrong = elsewhere(handle, product, workspace, stream); !wrong.empty())
    return refuse(call, wrong);
  if (heddle_ptx_refuses("all") || (product.problem.operation.has_epilogue() && heddle_ptx_refuses("epilogue")))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  product.is_rounded_twice = (algorithm.rounds_before_c && product.beta != 0) || algorithm.rounds_before_bias;
  ++totals.products;
  check_alignment(product, algorithm);
  heddle_ptx_enqueue(stream, run, new Product(product), destroy_product);
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
