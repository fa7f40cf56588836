// Matrix products by cuBLASLt. No other file calls it. The emulator uses emulator/gemm.cpp instead. The library is
// opened by products_unavailable() or by the first product, so that a program starts on a machine without it.
//
// cuBLASLt's matrices are column-major: our row-major c = a b is its c^T = b^T a^T on the same memory. The algorithm
// for each shape is cached; shapes whose numbers of rows differ little share one. All products accumulate in fp32; fp32
// products use full fp32 unless TF32 is allowed. The workspace belongs to heddle, so that the choice of the algorithm,
// and with it every bit of a result, does not depend on other work.
#include <cublasLt.h>
#include <dlfcn.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <map>
#include <mutex>
#include <optional>
#include <sstream>

#include <heddle/base/row_rounding.hpp>

#include "device/empty_product.cuh"
#include "device/gpu.cuh"
#include "device/instances.cuh"
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
  HEDDLE_CUBLAS(MatmulAlgoCheck);
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
    HEDDLE_CUBLAS(MatmulAlgoCheck);
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

// A handle works on the GPU that was the calling thread's when it was made.
struct Handle {
  cublasLtHandle_t handle = nullptr;

  Handle() { lt().check(lt().Create(&handle), "cublasLtCreate"); }
};
// Returns the handle of the calling thread's GPU.
cublasLtHandle_t handle() {
  static cuda::OfEachGpu<Handle> handles;
  return handles.here().handle;
}

// --- one shape ---

// All that the choice of an algorithm depends on, except the types and the GPU: arithmetic, extents, transposes,
// strides, the batch's size and offsets, bias, row sums, accumulation into c, and alignment.
using Key = std::array<Index, 18>;

// Returns the alignment of a pointer, up to the largest that cuBLASLt distinguishes.
Index alignment_of(const void* data) {
  Index bytes = 1;
  while (bytes < 256 && reinterpret_cast<std::uintptr_t>(data) % static_cast<std::uintptr_t>(2 * bytes) == 0)
    bytes *= 2;
  return bytes;
}

template <class T>
constexpr cudaDataType_t data_type = std::is_same_v<T, float> ? CUDA_R_32F : CUDA_R_16BF;

template <class T>
cublasComputeType_t arithmetic_of() {
  return std::is_same_v<T, float> && cuda::tf32_is_allowed() ? CUBLAS_COMPUTE_32F_FAST_TF32 : CUBLAS_COMPUTE_32F;
}

template <class T, class E>
Key key_of(const Product<T, E>& p) {
  return {arithmetic_of<T>(),
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

// Returns the shapes of a product, and what else it computes, for a message.
template <class T, class E>
std::string described(const Product<T, E>& p) {
  std::ostringstream text;
  text << (p.count > 1 ? std::to_string(p.count) + " products" : "a product") << " of [" << p.c.rows << ", "
       << cuda::depth_of(p) << "] and [" << cuda::depth_of(p) << ", " << p.c.width << "] in "
       << (std::is_same_v<T, float>   ? "float"
           : std::is_same_v<E, float> ? "bf16 with sums in float"
                                      : "bf16");
  if (p.bias) text << " with a bias";
  if (p.row_sums) text << " with row sums";
  return text.str();
}

// Returns whether 16 bytes at once can be read from an address.
bool is_aligned(const void* data) { return alignment_of(data) >= 16; }

// Returns whether cuBLASLt may use an epilogue. Its preferences include no alignment of the bias, so it may read and
// write 16 bytes at once.
template <class T, class E>
bool is_aligned(const Product<T, E>& p) {
  const void* const pointers[] = {p.a.data, p.b.data, p.c.data, p.bias, p.row_sums};
  return std::all_of(std::begin(pointers), std::end(pointers), [](const void* x) { return is_aligned(x); });
}

// Writes `row` to every row of c.
template <class T>
void put_row(const T* row, MatrixView<T> c) {
  BroadcastPlan<1> plan{2, c.rows * c.width, {c.width, c.rows}, {}};
  plan.stride[0][0] = 1;
  if (c.stride == c.width) return repeat(Cuda{}, plan, row, 1.f, c.data);
  const cuda::Workspace<T> rows(plan.size);
  repeat(Cuda{}, plan, row, 1.f, rows.data());
  cuda::copy_rows(c.data, static_cast<std::size_t>(c.stride) * sizeof(T), rows.data(),
                  static_cast<std::size_t>(c.width) * sizeof(T), static_cast<std::size_t>(c.width) * sizeof(T),
                  static_cast<std::size_t>(c.rows));
}

// The descriptors and the algorithm of a shape. Plans are kept for the life of the process.
class Plan {
 public:
  // Takes over the algorithm of `similar`, the plan of a shape with another number of rows, if cuBLASLt accepts it;
  // otherwise, and without a similar plan, asks cuBLASLt for one.
  template <class T, class E>
  Plan(const Product<T, E>& p, const Plan* similar) {
    lt().check(lt().MatmulDescCreate(&product_, arithmetic_of<T>(), CUDA_R_32F), "cublasLtMatmulDescCreate");
    // cuBLASLt's first operand is our b, its second one our a.
    set(CUBLASLT_MATMUL_DESC_TRANSA, p.transpose_b ? CUBLAS_OP_T : CUBLAS_OP_N);
    set(CUBLASLT_MATMUL_DESC_TRANSB, p.transpose_a ? CUBLAS_OP_T : CUBLAS_OP_N);
    choice_.has_epilogue = (p.bias || p.row_sums) && is_aligned(p);
    if (choice_.has_epilogue) {
      set(CUBLASLT_MATMUL_DESC_EPILOGUE, p.bias ? CUBLASLT_EPILOGUE_BIAS : CUBLASLT_EPILOGUE_BGRADB);
      set(CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, data_type<E>);
      set_bias(p);
    }
    first_ = layout(data_type<T>, p.b.width, p.b.rows, p.b.stride, p.count, p.next_b);
    second_ = layout(data_type<T>, p.a.width, p.a.rows, p.a.stride, p.count, p.next_a);
    result_ = layout(data_type<E>, p.c.width, p.c.rows, p.c.stride, p.count, p.next_c);
    is_adopted_ = similar && adopt(*similar);
    // Not every GPU supports the epilogues for every type.
    if (!is_adopted_ && !choose(p) && !(drop_epilogue() && choose(p)))
      fail<CudaError>("cuBLASLt has no algorithm for ", described(p));
    offered_ = choice_;
  }

  template <class T, class E>
  void run(const Product<T, E>& p) {
    cublasStatus_t status = enqueue(p);
    if (status != CUBLAS_STATUS_SUCCESS && std::exchange(is_adopted_, false) && choose(p)) status = enqueue(p);
    // The heuristic may have offered an algorithm that does not support the epilogue.
    if (status != CUBLAS_STATUS_SUCCESS && drop_epilogue() && choose(p)) status = enqueue(p);
    if (status != CUBLAS_STATUS_SUCCESS)
      fail<CudaError>("cublasLtMatmul: ", lt().GetStatusString(status), " for ", described(p));
    if (cuda::synchronizes_each_launch()) cuda::synchronize();
    if (!choice_.has_epilogue && p.row_sums)
      sum(Cuda{}, View<const T, 3>{p.a.data, {1, p.a.rows, p.a.width}}, 1.f, View<E, 2>{p.row_sums, {1, p.a.width}});
  }

 private:
  template <class T, class E>
  cublasStatus_t enqueue(const Product<T, E>& p) const {
    if (choice_.has_epilogue) set_bias(p);
    const bool adds_to_bias = p.bias && !choice_.has_epilogue;
    for (Index matrix = 0; adds_to_bias && matrix < p.count; ++matrix)
      put_row(p.bias, MatrixView<E>{p.c.data + matrix * p.next_c, p.c.rows, p.c.width, p.c.stride});
    const float alpha = 1, beta = adds_to_bias || p.into == Into::add ? 1 : 0;
    const cuda::Workspace<char> memory(static_cast<Index>(workspace_bytes));
    return lt().Matmul(handle(), product_, &alpha, p.b.data, first_, p.a.data, second_, &beta, p.c.data, result_,
                       p.c.data, result_, &choice_.algorithm, memory.data(), workspace_bytes, cuda::current_stream());
  }

  // Leaves the bias or the row sums to a pass of their own. Hopper's algorithms then round to bf16 twice: the product,
  // and its sum with the bias, which is in c. Returns false if the product has no epilogue.
  bool drop_epilogue() {
    if (!choice_.has_epilogue) return false;
    set(CUBLASLT_MATMUL_DESC_EPILOGUE, CUBLASLT_EPILOGUE_DEFAULT);
    choice_.has_epilogue = false;
    return true;
  }

  template <class V>
  void set(cublasLtMatmulDescAttributes_t attribute, const V& value) const {
    lt().check(lt().MatmulDescSetAttribute(product_, attribute, &value, sizeof(value)),
               "cublasLtMatmulDescSetAttribute");
  }

  template <class T, class E>
  void set_bias(const Product<T, E>& p) const {
    const void* const given = p.bias ? p.bias : p.row_sums;
    set(CUBLASLT_MATMUL_DESC_BIAS_POINTER, given);
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

  // Takes over the algorithm that `similar` was made with, whatever has become of it since, so that the choice depends
  // on the shape alone. Returns false if it does not suit this shape.
  bool adopt(const Plan& similar) {
    if (similar.offered_.has_epilogue != choice_.has_epilogue) return false;
    cublasLtMatmulHeuristicResult_t checked{};
    const cublasStatus_t status = lt().MatmulAlgoCheck(handle(), product_, first_, second_, result_, result_,
                                                       &similar.offered_.algorithm, &checked);
    if (status != CUBLAS_STATUS_SUCCESS || checked.state != CUBLAS_STATUS_SUCCESS ||
        checked.workspaceSize > workspace_bytes)
      return false;
    choice_.algorithm = similar.offered_.algorithm;
    return true;
  }

  // Chooses an algorithm. Returns false if there is none.
  template <class T, class E>
  bool choose(const Product<T, E>& p) {
    cublasLtMatmulPreference_t preference = nullptr;
    lt().check(lt().MatmulPreferenceCreate(&preference), "cublasLtMatmulPreferenceCreate");
    const auto set_preference = [&](cublasLtMatmulPreferenceAttributes_t attribute, const auto& value) {
      lt().check(lt().MatmulPreferenceSetAttribute(preference, attribute, &value, sizeof(value)),
                 "cublasLtMatmulPreferenceSetAttribute");
    };
    set_preference(CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES, workspace_bytes);
    // Partial sums are added in fp32, whatever the type of the result. With a bias there are none: their sum would be
    // rounded to bf16 before the bias is added.
    const auto reductions = p.bias ? CUBLASLT_REDUCTION_SCHEME_NONE : CUBLASLT_REDUCTION_SCHEME_COMPUTE_TYPE;
    set_preference(CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK, static_cast<std::uint32_t>(reductions));
    set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, static_cast<std::uint32_t>(alignment_of(p.b.data)));
    set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES, static_cast<std::uint32_t>(alignment_of(p.a.data)));
    set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, static_cast<std::uint32_t>(alignment_of(p.c.data)));
    set_preference(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES, static_cast<std::uint32_t>(alignment_of(p.c.data)));
    cublasLtMatmulHeuristicResult_t best{};
    int found = 0;
    const cublasStatus_t status = lt().MatmulAlgoGetHeuristic(handle(), product_, first_, second_, result_, result_,
                                                              preference, 1, &best, &found);
    lt().MatmulPreferenceDestroy(preference);
    if (status == CUBLAS_STATUS_NOT_SUPPORTED || status == CUBLAS_STATUS_INVALID_VALUE) return false;
    lt().check(status, "cublasLtMatmulAlgoGetHeuristic");
    choice_.algorithm = best.algo;
    return found > 0;
  }

  cublasLtMatmulDesc_t product_ = nullptr;
  cublasLtMatrixLayout_t first_ = nullptr, second_ = nullptr, result_ = nullptr;
  struct Choice {
    cublasLtMatmulAlgo_t algorithm{};
    bool has_epilogue = false;  // whether the product itself adds the bias or computes the row sums
  };
  Choice choice_, offered_;  // the present one, and that of the constructor
  bool is_adopted_ = false;  // whether the algorithm was chosen for another number of rows
};

// Returns the number of rows whose algorithm serves `rows`: up to an eighth more. Every ragged batch has another number
// of rows, and asking cuBLASLt for an algorithm takes about 100 µs.
Index shared_rows(Index rows) {
  const Index step = detail::row_step(rows);
  return (rows + step - 1) / step * step;
}

// Returns the product with another number of rows of a, for the choice of an algorithm: the pointers serve for their
// alignment only.
template <class T, class E>
Product<T, E> with_rows(Product<T, E> p, Index rows) {
  p.a.rows = rows;
  (p.transpose_a ? p.b.rows : p.c.rows) = rows;
  return p;
}

// The plans of products of two types on a GPU. All are kept: each takes a few hundred bytes.
template <class T, class E>
struct Plans {
  std::mutex mutex;  // a plan's bias is set for each call
  std::map<Key, Plan> by_key;
};

// Returns the plan of a shape. The algorithm depends on the shape alone, and not on the shapes before it.
template <class T, class E>
Plan& plan_for(const Product<T, E>& p, Plans<T, E>& plans) {
  const Key key = key_of(p);
  const auto found = plans.by_key.find(key);
  if (found != plans.by_key.end()) return found->second;
  const Index rows = shared_rows(p.a.rows);
  const bool shares = p.count == 1 && rows != p.a.rows && !(p.transpose_a && p.transpose_b);
  const Plan* similar = nullptr;
  try {
    if (shares) similar = &plan_for(with_rows(p, rows), plans);
  } catch (const CudaError&) {  // the exact number of rows may have an algorithm
  }
  return plans.by_key.try_emplace(key, p, similar).first->second;
}

}  // namespace
}  // namespace heddle::kernel

std::string heddle::cuda::products_unavailable() try {
  kernel::handle();
  return {};
} catch (const CudaError& error) {
  return error.what();
}

namespace heddle::kernel {

template <OnGpu T, OnGpu E>
void multiply(const Product<T, E>& product) {
  if (cuda::finish_if_empty(product)) return;
  Product<T, E> p = product;
  if (p.count == 1) p.next_a = p.next_b = p.next_c = 0;
  std::optional<cuda::Workspace<E>> aligned_bias;
  if (p.bias && !is_aligned(p.bias)) {
    aligned_bias.emplace(p.c.width);
    cuda::on_device(aligned_bias->data(), p.bias, static_cast<std::size_t>(p.c.width) * sizeof(E));
    p.bias = aligned_bias->data();
  }
  static cuda::OfEachGpu<Plans<T, E>> plans_of_gpus;
  Plans<T, E>& plans = plans_of_gpus.here();
  const std::lock_guard lock(plans.mutex);
  plan_for(p, plans).run(p);
}
[[maybe_unused, gnu::used]] constexpr auto gemm_instances =
    std::tuple(&multiply<float, float>, &multiply<bf16, bf16>, &multiply<bf16, float>);

}  // namespace heddle::kernel
