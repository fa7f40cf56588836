// Matrix products by cuBLASLt. No other file calls it. The emulator uses emulator/gemm.cpp instead. The library is opened by
// products_unavailable() or by the first product, so that a program starts on a machine without it.
//
// cuBLASLt's matrices are column-major: our row-major c = a b is its c^T = b^T a^T on the same memory. The algorithm for each shape is
// cached. All products accumulate in fp32; fp32 products use full fp32 unless TF32 is allowed. The workspace belongs to heddle, so that the
// choice of the algorithm, and with it every bit of a result, does not depend on other work.
#include <cublasLt.h>
#include <dlfcn.h>

#include <array>
#include <map>
#include <mutex>

#include "device/empty_product.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {

constexpr std::size_t workspace_bytes = std::size_t{32} << 20;  // NVIDIA's recommendation for Hopper

// --- the library ---

struct CublasLt {
#define HEDDLE_CUBLAS(name) decltype(&cublasLt##name) name = nullptr
  HEDDLE_CUBLAS(Create);
  HEDDLE_CUBLAS(GetStatusString);
  HEDDLE_CUBLAS(Matmul);
  HEDDLE_CUBLAS(MatmulAlgoGetHeuristic);
  HEDDLE_CUBLAS(MatmulDescCreate);
  HEDDLE_CUBLAS(MatmulDescDestroy);
  HEDDLE_CUBLAS(MatmulDescSetAttribute);
  HEDDLE_CUBLAS(MatrixLayoutCreate);
  HEDDLE_CUBLAS(MatrixLayoutDestroy);
  HEDDLE_CUBLAS(MatrixLayoutSetAttribute);
  HEDDLE_CUBLAS(MatmulPreferenceCreate);
  HEDDLE_CUBLAS(MatmulPreferenceDestroy);
  HEDDLE_CUBLAS(MatmulPreferenceSetAttribute);
#undef HEDDLE_CUBLAS
  cublasLtHandle_t handle = nullptr;

  CublasLt() {
    const std::string file = "libcublasLt.so." + std::to_string(CUBLAS_VER_MAJOR);
    void* const library = dlopen(file.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (!library)
      fail<CudaError>("cuBLASLt cannot be loaded: ", dlerror(), "; install it or add its folder to LD_LIBRARY_PATH");
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (!function) fail<CudaError>(file, " has no ", name);
    };
#define HEDDLE_CUBLAS(name) find(name, "cublasLt" #name)
    HEDDLE_CUBLAS(Create);
    HEDDLE_CUBLAS(GetStatusString);
    HEDDLE_CUBLAS(Matmul);
    HEDDLE_CUBLAS(MatmulAlgoGetHeuristic);
    HEDDLE_CUBLAS(MatmulDescCreate);
    HEDDLE_CUBLAS(MatmulDescDestroy);
    HEDDLE_CUBLAS(MatmulDescSetAttribute);
    HEDDLE_CUBLAS(MatrixLayoutCreate);
    HEDDLE_CUBLAS(MatrixLayoutDestroy);
    HEDDLE_CUBLAS(MatrixLayoutSetAttribute);
    HEDDLE_CUBLAS(MatmulPreferenceCreate);
    HEDDLE_CUBLAS(MatmulPreferenceDestroy);
    HEDDLE_CUBLAS(MatmulPreferenceSetAttribute);
#undef HEDDLE_CUBLAS
    check(Create(&handle), "cublasLtCreate");
  }
  void check(cublasStatus_t status, const char* what) const {
    if (status != CUBLAS_STATUS_SUCCESS) fail<CudaError>(what, ": ", GetStatusString(status));
  }
};

// Returns the library. It is never closed, because tensors in static storage may be multiplied while the process exits.
const CublasLt& lt() {
  static const CublasLt* const library = new CublasLt;
  return *library;
}

// --- one shape ---

// All that the choice of an algorithm depends on: type, arithmetic, extents, transposes, strides, the batch's size and offsets, bias, row
// sums, accumulation into c, and alignment.
using Key = std::array<Index, 19>;

// Returns the alignment of a pointer, up to the largest that cuBLASLt distinguishes.
Index alignment_of(const void* data) {
  Index bytes = 1;
  while (bytes < 256 && reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(2 * bytes) == 0)
    bytes *= 2;
  return bytes;
}

template <class T>
cublasComputeType_t arithmetic_of() {
  return std::is_same_v<T, float> && cuda::tf32_is_allowed() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

template <class T>
Key key_of(const Product<T>& p) {
  return {sizeof(T),
          arithmetic_of<T>(),
          p.c.rows,
          p.c.width,
          cuda::depth_of(p),
          p.transpose_a,
          p.transpose_b,
          p.a.stride,
          p.b.stride,
          p.c.stride,
          p.count,
          p.next_a,
          p.next_b,
          p.next_c,
          p.bias != nullptr,
          p.row_sums != nullptr,
          p.into == Into::add,
          alignment_of(p.bias ? p.bias : p.row_sums),
          alignment_of(p.a.data) << 40 | alignment_of(p.b.data) << 20 | alignment_of(p.c.data)};
}

// Returns the plan that repeats one row of `width` elements in each of `rows` rows.
BroadcastPlan<1> repeated_row(Index rows, Index width) {
  BroadcastPlan<1> plan{2, rows * width, {width, rows}, {}};
  plan.stride[0][0] = 1;
  return plan;
}

// The descriptors and the algorithm of a shape. Plans are kept for the life of the process.
class Plan {
 public:
  template <class T>
  explicit Plan(const Product<T>& p) {
    constexpr cudaDataType_t type = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_16BF;
    lt().check(lt().MatmulDescCreate(&product_, arithmetic_of<T>(), CUDA_R_32F), "cublasLtMatmulDescCreate");
    // cuBLASLt's first operand is our b, its second one our a.
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    if (p.bias || p.row_sums) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, p.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_BGRADB);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, type);
      set_bias(p);
    }
    first_ = layout(type, p.b.width, p.b.rows, p.b.stride, p.count, p.next_b);
    second_ = layout(type, p.a.width, p.a.rows, p.a.stride, p.count, p.next_a);
    result_ = layout(type, p.c.width, p.c.rows, p.c.stride, p.count, p.next_c);
    if (choose(p)) return;
    // Not every GPU supports the bias and row-sum epilogues for every type and alignment.
    const bool rows_follow = p.c.stride == p.c.width && p.count == 1;
    apart_ = p.row_sums || (p.bias && rows_follow);
    if (apart_) set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
    if (!apart_ || !choose(p))
      fail<CudaError>("cuBLASLt has no algorithm for a product of [", p.c.rows, ", ", cuda::depth_of(p), "] and [",
                      cuda::depth_of(p), ", ", p.c.width, "]");
  }

  template <class T>
  void run(const Product<T>& p) {
    set_bias(p);
    const bool bias_apart = apart_ && p.bias;
    if (bias_apart) repeat(Cuda{}, repeated_row(p.c.rows, p.c.width), p.bias, 1.f, p.c.data);
    const float alpha = 1, beta = bias_apart || p.into == Into::add ? 1 : 0;
    const cuda::Workspace<char> memory(static_cast<Index>(workspace_bytes));
    lt().check(lt().Matmul(lt().handle, product_, &alpha, p.b.data, first_, p.a.data, second_, &beta, p.c.data, result_,
                           p.c.data, result_, &algorithm_, memory.data(), workspace_bytes, cuda::current_stream()),
               "cublasLtMatmul");
    if (cuda::synchronizes_each_launch()) cuda::synchronize();
    if (apart_ && p.row_sums)
      sum(Cuda{}, View<const T, 3>{p.a.data, {1, p.a.rows, p.a.width}}, 1.f, View<T, 2>{p.row_sums, {1, p.a.width}});
  }

 private:
  template <class V>
  void set(cublasLtMatmulDescAttributes_t attribute, const V& value) {
    lt().check(lt().MatmulDescSetAttribute(product_, attribute, &value, sizeof(value)),
               "cublasLtMatmulDescSetAttribute");
  }

  template <class T>
  void set_bias(const Product<T>& p) {
    const void* const given = p.bias ? p.bias : p.row_sums;
    if (given) set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, given);
  }

  static cublasLtMatrixLayout_t layout(cudaDataType_t type, Index rows, Index columns, Index stride, Index count,
                                       Index next) {
    cublasLtMatrixLayout_t made = nullptr;
    lt().check(lt().MatrixLayoutCreate(&made, type, static_cast<std::uint64_t>(rows),
                                       static_cast<std::uint64_t>(columns), stride),
               "cublasLtMatrixLayoutCreate");
    const std::int32_t batch = static_cast<std::int32_t>(count);
    lt().check(lt().MatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT, &batch, sizeof(batch)),
               "cublasLtMatrixLayoutSetAttribute");
    lt().check(lt().MatrixLayoutSetAttribute(made, CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET, &next, sizeof(next)),
               "cublasLtMatrixLayoutSetAttribute");
    return made;
  }

  // Chooses an algorithm. Returns false if there is none.
  template <class T>
  bool choose(const Product<T>& p) {
    cublasLtMatmulPreference_t preference = nullptr;
    lt().check(lt().MatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const auto set_preference = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      lt().check(lt().MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
                 "cublasLtMatmulPreferenceSetAttribute");
    };
    set_preference(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    // Partial sums are added in fp32, whatever the type of the result.
    set_preference(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK,
                   static_cast<std::uint32_t>(CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE));
    set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(alignment_of(p.b.data)));
    set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(alignment_of(p.a.data)));
    set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(alignment_of(p.c.data)));
    set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(alignment_of(p.c.data)));
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status = lt().MatmulAlgoGetHeuristic(lt().handle, product_, first_, second_, result_, result_,
                                                              preference, 1, &best, &found);
    lt().MatmulPreferenceDestroy(preference);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return false;
    lt().check(status, "cublasLtMatmulAlgoGetHeuristic");
    algorithm_ = best.algo;
    return found > 0;
  }

  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
  cublasLtMatmulAlgo_t algorithm_{};
  bool apart_ = false;  // bias or sums are not part of the product
};

// Returns the plan of a shape. All plans are cached, although every ragged batch may have another number of rows: choosing an algorithm
// takes about 100 µs, a cached plan only a few hundred bytes.
template <class T>
Plan& plan_for(const Product<T>& p) {
  static std::map<Key, Plan>* const plans = new std::map<Key, Plan>;
  const Key key = key_of(p);
  const auto found = plans->find(key);
  if (found != plans->end()) return found->second;
  return plans->try_emplace(key, p).first->second;
}

}  // namespace
}  // namespace heddle::kernel

std::string heddle::cuda::products_unavailable() try {
  kernel::lt();
  return {};
} catch (const CudaError& error) {
  return error.what();
}

namespace heddle::kernel {

template <OnGpu T>
void multiply(const Product<T>& product) {
  if (cuda::finish_if_empty(product)) return;
  static std::mutex mutex;  // a plan's bias is set for each call
  const std::lock_guard lock(mutex);
  plan_for(product).run(product);
}
template void multiply(const Product<float>&);
template void multiply(const Product<bf16>&);

}  // namespace heddle::kernel
