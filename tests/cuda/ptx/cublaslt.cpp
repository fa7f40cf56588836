// A fake cuBLASLt: computes each product from its descriptors alone, in plain loops with sums in double. PTX_NO_EPILOGUE=1 makes it refuse
// epilogues, as some GPUs do for some types. PTX_REFUSE=epilogue and PTX_REFUSE=all make it offer algorithms that it then refuses to run.
#include <cublasLt.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <set>
#include <string>
#include <vector>

namespace {
struct Tally {
  unsigned long long products = 0, heuristics = 0;
  ~Tally() {
    if (std::getenv("PTX_SUMMARY"))
      std::fprintf(stderr, "fake cuBLASLt: %llu products, %llu heuristics\n", products, heuristics);
  }
} tally;
}  // namespace

extern "C" void* heddle_ptx_reach(const void* p, std::size_t bytes);
extern "C" int heddle_ptx_enqueue(void* stream, void (*f)(void*), void* data);
extern "C" void heddle_ptx_fault(int code, const char* what);

namespace {

struct Layout {
  cudaDataType type;
  std::uint64_t rows, cols;
  std::int64_t ld;
  std::int32_t batch = 1;
  std::int64_t next = 0;
};
struct Desc {
  cublasComputeType_t compute;
  cudaDataType scale;
  cublasOperation_t a = CUBLAS_OP_N, b = CUBLAS_OP_N;
  cublasLtEpilogue_t epilogue = CUBLASLT_EPILOGUE_DEFAULT;
  const void* bias = nullptr;
  std::int32_t bias_type = -1;
};
struct Preference {
  std::uint64_t workspace = 0;
  std::uint32_t align[4] = {256, 256, 256, 256};
  std::uint32_t reduction = ~0u;
};
struct Algo {
  char magic[8];
  std::uint32_t align[4];
  std::uint64_t hash, workspace;
};
static_assert(sizeof(Algo) <= sizeof(cublasLtMatmulAlgo_t));

std::set<const void*> alive;  // objects that exist
bool exists(const void* p) { return alive.contains(p); }
void complain(const std::string& what) {
  std::fprintf(stderr, "fake cuBLASLt: %s\n", what.c_str());
  std::fflush(stderr);
}

std::size_t bytes_of(cudaDataType t) { return t == CUDA_R_32F ? 4 : t == CUDA_R_16BF ? 2 : 0; }
std::uint64_t hash_of(const Desc& d, const Layout& a, const Layout& b, const Layout& c, const Layout& r) {
  std::uint64_t h = 1469598103934665603ull;
  const auto mix = [&](std::uint64_t x) { h = (h ^ x) * 1099511628211ull; };
  mix(d.compute);
  mix(d.a);
  mix(d.b);
  mix(d.epilogue);
  for (const Layout* l : {&a, &b, &c, &r}) {
    mix(l->type);
    mix(l->rows);
    mix(l->cols);
    mix(std::uint64_t(l->ld));
    mix(std::uint64_t(l->batch));
    mix(std::uint64_t(l->next));
  }
  return h;
}
// Returns what is wrong with a product, or an empty string.
std::string wrong(const Desc& d, const Layout& a, const Layout& b, const Layout& c, const Layout& r) {
  const auto m = d.a == CUBLAS_OP_N ? a.rows : a.cols, k = d.a == CUBLAS_OP_N ? a.cols : a.rows;
  const auto k2 = d.b == CUBLAS_OP_N ? b.rows : b.cols, n = d.b == CUBLAS_OP_N ? b.cols : b.rows;
  if (k != k2) return "depths " + std::to_string(k) + " and " + std::to_string(k2);
  if (r.rows != m || r.cols != n || c.rows != m || c.cols != n) return "the extents of C or D";
  if (!m || !n || !k) return "an empty product";
  for (const Layout* l : {&a, &b, &c, &r}) {
    if (l->ld < std::int64_t(l->rows))
      return "a leading dimension of " + std::to_string(l->ld) + " for " + std::to_string(l->rows) + " rows";
    if (l->batch != a.batch || l->batch < 1) return "batch counts";
    if (!bytes_of(l->type) || l->type != a.type) return "types";
  }
  if (d.scale != CUDA_R_32F) return "scale type";
  return {};
}

struct Job {
  Desc d;
  Layout a, b, c, r;
  float alpha, beta;
  const void *pa, *pb, *pc;
  void* pd;
};

std::vector<float> read(const void* p, const Layout& l, int batch, bool transposed, bool tf32, std::string& error) {
  // The result is op(X) by rows.
  const std::size_t e = bytes_of(l.type);
  const auto* from = static_cast<const char*>(p) + std::int64_t(e) * l.next * batch;
  const auto* x = static_cast<const char*>(heddle_ptx_reach(from, e * (std::size_t(l.ld) * (l.cols - 1) + l.rows)));
  const std::size_t rows = transposed ? l.cols : l.rows, cols = transposed ? l.rows : l.cols;
  std::vector<float> out(rows * cols);
  if (!x) {
    error = "a matrix outside of its allocation";
    return out;
  }
  for (std::size_t j = 0; j < l.cols; ++j)
    for (std::size_t i = 0; i < l.rows; ++i) {
      const char* at = x + e * (j * std::size_t(l.ld) + i);
      float v;
      if (e == 4)
        std::memcpy(&v, at, 4);
      else {
        std::uint16_t h;
        std::memcpy(&h, at, 2);
        v = std::bit_cast<float>(std::uint32_t{h} << 16);
      }
      if (tf32 && std::isfinite(v)) v = std::bit_cast<float>((std::bit_cast<std::uint32_t>(v) + 0x1000) & 0xffffe000u);
      out[transposed ? j * cols + i : i * cols + j] = v;
    }
  return out;
}
void write(char* at, cudaDataType t, double value) {
  const float v = float(value);
  if (t == CUDA_R_32F) {
    std::memcpy(at, &v, 4);
    return;
  }
  const auto b = std::bit_cast<std::uint32_t>(v);
  const std::uint16_t h = v != v ? 0x7fff : std::uint16_t((b + 0x7fff + (b >> 16 & 1)) >> 16);
  std::memcpy(at, &h, 2);
}
double load(const char* at, cudaDataType t) {
  float v;
  if (t == CUDA_R_32F)
    std::memcpy(&v, at, 4);
  else {
    std::uint16_t h;
    std::memcpy(&h, at, 2);
    v = std::bit_cast<float>(std::uint32_t{h} << 16);
  }
  return v;
}

void run(void* data) {
  const std::unique_ptr<Job> j(static_cast<Job*>(data));
  const Desc& d = j->d;
  const bool tf32 = d.compute == CUBLAS_COMPUTE_32F_FAST_TF32;
  std::string error;
  for (int batch = 0; batch < j->r.batch; ++batch) {
    const auto a = read(j->pa, j->a, batch, d.a != CUBLAS_OP_N, tf32, error),
               b = read(j->pb, j->b, batch, d.b != CUBLAS_OP_N, tf32, error);
    const std::size_t m = j->r.rows, n = j->r.cols, k = a.size() / m, e = bytes_of(j->r.type);
    auto* out = static_cast<char*>(heddle_ptx_reach(static_cast<char*>(j->pd) + std::int64_t(e) * j->r.next * batch,
                                                    e * (std::size_t(j->r.ld) * (n - 1) + m)));
    const auto* c =
        static_cast<const char*>(heddle_ptx_reach(static_cast<const char*>(j->pc) + std::int64_t(e) * j->c.next * batch,
                                                  e * (std::size_t(j->c.ld) * (n - 1) + m)));
    if (!out || !c) error = "the result is outside of its allocation";
    const char* bias = nullptr;
    const auto bias_type = static_cast<cudaDataType>(d.bias_type < 0 ? j->r.type : d.bias_type);
    char* bias_out = nullptr;
    if (d.epilogue == CUBLASLT_EPILOGUE_BIAS) {
      bias = static_cast<const char*>(heddle_ptx_reach(d.bias, m * bytes_of(bias_type)));
      if (!bias) error = "the bias is outside of its allocation";
    }
    if (d.epilogue == CUBLASLT_EPILOGUE_BGRADB) {
      bias_out = static_cast<char*>(heddle_ptx_reach(d.bias, n * bytes_of(bias_type)));
      if (!bias_out) error = "the bias gradient is outside of its allocation";
    }
    if (d.epilogue == CUBLASLT_EPILOGUE_BGRADA) {
      bias_out = static_cast<char*>(heddle_ptx_reach(d.bias, m * bytes_of(bias_type)));
      if (!bias_out) error = "the bias gradient is outside of its allocation";
    }
    if (!error.empty()) {
      heddle_ptx_fault(700, ("cuBLASLt: " + error).c_str());
      return;
    }
    std::vector<double> row(n);
    for (std::size_t i = 0; i < m; ++i) {
      std::fill(row.begin(), row.end(), 0.);
      for (std::size_t x = 0; x < k; ++x) {
        const double v = a[i * k + x];
        const float* y = b.data() + x * n;
        for (std::size_t q = 0; q < n; ++q) row[q] += v * y[q];
      }
      for (std::size_t q = 0; q < n; ++q) {
        double v = double(j->alpha) * row[q];
        if (j->beta != 0) v += double(j->beta) * load(c + e * (q * std::size_t(j->c.ld) + i), j->c.type);
        if (bias) v += load(bias + i * bytes_of(bias_type), bias_type);
        row[q] = v;
      }
      for (std::size_t q = 0; q < n; ++q) write(out + e * (q * std::size_t(j->r.ld) + i), j->r.type, row[q]);
    }
    if (d.epilogue == CUBLASLT_EPILOGUE_BGRADB)
      for (std::size_t q = 0; q < n; ++q) {
        double s = 0;
        for (std::size_t x = 0; x < k; ++x) s += b[x * n + q];
        write(bias_out + q * bytes_of(bias_type), bias_type, s);
      }
    if (d.epilogue == CUBLASLT_EPILOGUE_BGRADA)
      for (std::size_t i = 0; i < m; ++i) {
        double s = 0;
        for (std::size_t x = 0; x < k; ++x) s += a[i * k + x];
        write(bias_out + i * bytes_of(bias_type), bias_type, s);
      }
  }
}

template <class T>
T* object(const void* p) {
  return exists(p) ? static_cast<T*>(const_cast<void*>(p)) : nullptr;
}
template <class V>
bool take(V& to, const void* from, std::size_t bytes) {
  if (bytes != sizeof(V)) return false;
  std::memcpy(&to, from, bytes);
  return true;
}

}  // namespace

extern "C" {

cublasStatus_t cublasLtCreate(cublasLtHandle_t* h) {
  static int one;
  *h = reinterpret_cast<cublasLtHandle_t>(&one);
  return CUBLAS_STATUS_SUCCESS;
}
const char* cublasLtGetStatusString(cublasStatus_t s) {
  return s == CUBLAS_STATUS_SUCCESS         ? "CUBLAS_STATUS_SUCCESS"
         : s == CUBLAS_STATUS_NOT_SUPPORTED ? "CUBLAS_STATUS_NOT_SUPPORTED"
         : s == CUBLAS_STATUS_INVALID_VALUE ? "CUBLAS_STATUS_INVALID_VALUE"
                                            : "a cuBLAS error";
}

cublasStatus_t cublasLtMatmulDescCreate(cublasLtMatmulDesc_t* d, cublasComputeType_t compute, cudaDataType_t scale) {
  auto* n = new Desc{compute, scale};
  alive.insert(n);
  *d = reinterpret_cast<cublasLtMatmulDesc_t>(n);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescDestroy(cublasLtMatmulDesc_t d) {
  alive.erase(d);
  delete reinterpret_cast<Desc*>(d);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulDescSetAttribute(cublasLtMatmulDesc_t p, cublasLtMatmulDescAttributes_t a, const void* v,
                                              size_t bytes) {
  auto* d = object<Desc>(p);
  if (!d) {
    complain("a descriptor that does not exist");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  bool ok = false;
  std::int32_t i = 0;
  switch (a) {
    case CUBLASLT_MATMUL_DESC_TRANSA:
      ok = take(i, v, bytes);
      d->a = static_cast<cublasOperation_t>(i);
      break;
    case CUBLASLT_MATMUL_DESC_TRANSB:
      ok = take(i, v, bytes);
      d->b = static_cast<cublasOperation_t>(i);
      break;
    case CUBLASLT_MATMUL_DESC_EPILOGUE:
      ok = take(i, v, bytes);
      d->epilogue = static_cast<cublasLtEpilogue_t>(i);
      break;
    case CUBLASLT_MATMUL_DESC_BIAS_POINTER: ok = take(d->bias, v, bytes); break;
    case CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE: ok = take(d->bias_type, v, bytes); break;
    default: complain("matmul attribute " + std::to_string(a) + " is not supported"); std::_Exit(97);
  }
  if (!ok) complain("matmul attribute " + std::to_string(a) + " of " + std::to_string(bytes) + " bytes");
  return ok ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatrixLayoutCreate(cublasLtMatrixLayout_t* l, cudaDataType type, std::uint64_t rows,
                                          std::uint64_t cols, std::int64_t ld) {
  auto* n = new Layout{type, rows, cols, ld};
  alive.insert(n);
  *l = reinterpret_cast<cublasLtMatrixLayout_t>(n);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutDestroy(cublasLtMatrixLayout_t l) {
  alive.erase(l);
  delete reinterpret_cast<Layout*>(l);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatrixLayoutSetAttribute(cublasLtMatrixLayout_t p, cublasLtMatrixLayoutAttribute_t a,
                                                const void* v, size_t bytes) {
  auto* l = object<Layout>(p);
  if (!l) return CUBLAS_STATUS_INVALID_VALUE;
  bool ok = false;
  switch (a) {
    case CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT: ok = take(l->batch, v, bytes); break;
    case CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET: ok = take(l->next, v, bytes); break;
    default: complain("layout attribute " + std::to_string(a) + " is not supported"); std::_Exit(97);
  }
  if (!ok) complain("layout attribute " + std::to_string(a) + " of " + std::to_string(bytes) + " bytes");
  return ok ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulPreferenceCreate(cublasLtMatmulPreference_t* p) {
  auto* n = new Preference;
  alive.insert(n);
  *p = reinterpret_cast<cublasLtMatmulPreference_t>(n);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceDestroy(cublasLtMatmulPreference_t p) {
  alive.erase(p);
  delete reinterpret_cast<Preference*>(p);
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmulPreferenceSetAttribute(cublasLtMatmulPreference_t q,
                                                    cublasLtMatmulPreferenceAttributes_t a, const void* v,
                                                    size_t bytes) {
  auto* p = object<Preference>(q);
  if (!p) return CUBLAS_STATUS_INVALID_VALUE;
  bool ok = false;
  switch (a) {
    case CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES: ok = take(p->workspace, v, bytes); break;
    case CUBLASLT_MATMUL_PREF_REDUCTION_SCHEME_MASK: ok = take(p->reduction, v, bytes); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES: ok = take(p->align[0], v, bytes); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES: ok = take(p->align[1], v, bytes); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES: ok = take(p->align[2], v, bytes); break;
    case CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES: ok = take(p->align[3], v, bytes); break;
    default: complain("preference " + std::to_string(a) + " is not supported"); std::_Exit(97);
  }
  if (!ok) complain("preference " + std::to_string(a) + " of " + std::to_string(bytes) + " bytes");
  return ok ? CUBLAS_STATUS_SUCCESS : CUBLAS_STATUS_INVALID_VALUE;
}
cublasStatus_t cublasLtMatmulAlgoGetHeuristic(cublasLtHandle_t, cublasLtMatmulDesc_t pd, cublasLtMatrixLayout_t pa,
                                              cublasLtMatrixLayout_t pb, cublasLtMatrixLayout_t pc,
                                              cublasLtMatrixLayout_t pr, cublasLtMatmulPreference_t pp, int wanted,
                                              cublasLtMatmulHeuristicResult_t out[], int* found) {
  ++tally.heuristics;
  auto* d = object<Desc>(pd);
  auto* a = object<Layout>(pa);
  auto* b = object<Layout>(pb);
  auto* c = object<Layout>(pc);
  auto* r = object<Layout>(pr);
  auto* p = object<Preference>(pp);
  *found = 0;
  if (!d || !a || !b || !c || !r || !p || wanted < 1) return CUBLAS_STATUS_INVALID_VALUE;
  if (const std::string w = wrong(*d, *a, *b, *c, *r); !w.empty()) {
    complain("heuristic: " + w);
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const bool plain = d->epilogue == CUBLASLT_EPILOGUE_DEFAULT;
  if (!plain && d->epilogue != CUBLASLT_EPILOGUE_BIAS && d->epilogue != CUBLASLT_EPILOGUE_BGRADA &&
      d->epilogue != CUBLASLT_EPILOGUE_BGRADB) {
    complain("epilogue " + std::to_string(d->epilogue));
    std::_Exit(97);
  }
  if (!plain && std::getenv("PTX_NO_EPILOGUE")) return CUBLAS_STATUS_NOT_SUPPORTED;
  Algo algo{{'f', 'a', 'k', 'e', 'a', 'l', 'g', 'o'}, {}, hash_of(*d, *a, *b, *c, *r), p->workspace};
  std::memcpy(algo.align, p->align, sizeof(algo.align));
  out[0] = {};
  std::memcpy(&out[0].algo, &algo, sizeof(algo));
  out[0].workspaceSize = p->workspace;
  out[0].state = CUBLAS_STATUS_SUCCESS;
  *found = 1;
  return CUBLAS_STATUS_SUCCESS;
}
cublasStatus_t cublasLtMatmul(cublasLtHandle_t, cublasLtMatmulDesc_t pd, const void* alpha, const void* A,
                              cublasLtMatrixLayout_t pa, const void* B, cublasLtMatrixLayout_t pb, const void* beta,
                              const void* C, cublasLtMatrixLayout_t pc, void* D, cublasLtMatrixLayout_t pr,
                              const cublasLtMatmulAlgo_t* chosen, void* workspace, size_t bytes, cudaStream_t stream) {
  auto* d = object<Desc>(pd);
  auto* a = object<Layout>(pa);
  auto* b = object<Layout>(pb);
  auto* c = object<Layout>(pc);
  auto* r = object<Layout>(pr);
  if (!d || !a || !b || !c || !r) {
    complain("matmul: an object that does not exist");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (const std::string w = wrong(*d, *a, *b, *c, *r); !w.empty()) {
    complain("matmul: " + w);
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  Algo algo;
  if (!chosen) {
    complain("matmul without an algorithm");
    std::_Exit(97);
  }
  std::memcpy(&algo, chosen, sizeof(algo));
  if (std::memcmp(algo.magic, "fakealgo", 8) || algo.hash != hash_of(*d, *a, *b, *c, *r)) {
    complain("matmul: the algorithm was chosen for another product");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  const std::string refused = std::getenv("PTX_REFUSE") ? std::getenv("PTX_REFUSE") : "";
  if (refused == "all" || (refused == "epilogue" && d->epilogue != CUBLASLT_EPILOGUE_DEFAULT))
    return CUBLAS_STATUS_NOT_SUPPORTED;
  ++tally.products;
  const void* pointers[4] = {A, B, C, D};
  for (int i = 0; i < 4; ++i)  // an algorithm's wide accesses fault; they are not refused
    if (reinterpret_cast<std::uintptr_t>(pointers[i]) % algo.align[i])
      heddle_ptx_fault(716, ("cuBLASLt: matrix " + std::to_string(i) + " is not aligned as promised").c_str());
  if (d->epilogue != CUBLASLT_EPILOGUE_DEFAULT && reinterpret_cast<std::uintptr_t>(d->bias) % 16)
    heddle_ptx_fault(716, "cuBLASLt: the bias is not aligned to 16 bytes");
  if (bytes < algo.workspace || !heddle_ptx_reach(workspace, bytes)) {
    complain("matmul: workspace");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  if (C == D && std::memcmp(c, r, sizeof(Layout))) {
    complain("matmul in place with different layouts");
    return CUBLAS_STATUS_INVALID_VALUE;
  }
  heddle_ptx_enqueue(
      stream, run,
      new Job{*d, *a, *b, *c, *r, *static_cast<const float*>(alpha), *static_cast<const float*>(beta), A, B, C, D});
  return CUBLAS_STATUS_SUCCESS;
}

}  // extern "C"
