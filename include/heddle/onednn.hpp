// oneDNN's matrix products, where the build has HEDDLE_ONEDNN: BLAS's sgemm, which has no cost of setting up, and for bf16
// kernels that are compiled once a thread and take their sizes when they run. Each call stays on the thread that makes it: how
// work is split is heddle's own choice, so that results do not depend on the number of threads.
#pragma once
#ifdef HEDDLE_ONEDNN
#include <array>
#include <dnnl.hpp>
#include <optional>
#ifdef _OPENMP
#include <omp.h>
#endif

#include <heddle/bf16.hpp>
#include <heddle/error.hpp>
#include <heddle/view.hpp>

namespace heddle::kernel::onednn {

// While one lives, oneDNN sees a single thread.
class OneThread {
 public:
#ifdef _OPENMP
  OneThread() { omp_set_num_threads(1); }
  ~OneThread() { omp_set_num_threads(before_); }

 private:
  int before_ = omp_get_max_threads();
#else
  OneThread() {}
#endif
};

// c [M, N] = a b, or c += a b; a transposed operand is stored as [K, M], or [N, K]. Throws OutOfMemory.
inline void product(bool transpose_a, bool transpose_b, Columns<const float> a, Columns<const float> b,
                    Columns<float> c, bool add) {
  const OneThread alone;
  const dnnl_status_t status =
      dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', c.rows, c.width, transpose_a ? a.rows : a.width, 1.f,
                 a.data, a.stride, b.data, b.stride, add ? 1.f : 0.f, c.data, c.stride);
  require<OutOfMemory>(status != dnnl_out_of_memory, "out of memory: oneDNN's product of ", c.rows, " x ", c.width);
  require(status == dnnl_success, "oneDNN's product failed with status ", static_cast<int>(status));
}

// Whether products of bf16 are faster here than those of floats: with AVX-512's instructions for them.
inline bool has_bf16() {
  static const bool has =
      (dnnl_get_effective_cpu_isa() & dnnl_cpu_isa_avx512_core_bf16) == dnnl_cpu_isa_avx512_core_bf16;
  return has;
}

// One thread's kernels: oneDNN lends their scratch memory to the thread that made them.
class Bf16Products {
 public:
  static Bf16Products& of_this_thread() {
    static thread_local Bf16Products products;
    return products;
  }

  void operator()(bool transpose_a, bool transpose_b, Columns<const bf16> a, Columns<const bf16> b, Columns<bf16> c,
                  bool add) {
    const Index depth = transpose_a ? a.rows : a.width;
    auto& kernel = kernels_[static_cast<std::size_t>(transpose_a * 4 + transpose_b * 2 + add)];
    if (!kernel) kernel = made(transpose_a, transpose_b, add);
    const auto operand = [&](Index rows, Index columns, bool transposed, Index stride, const bf16* data) {
      return dnnl::memory(matrix(rows, columns, transposed, stride), engine_, const_cast<bf16*>(data));
    };
    kernel->execute(stream_, {{DNNL_ARG_SRC, operand(c.rows, depth, transpose_a, a.stride, a.data)},
                              {DNNL_ARG_WEIGHTS, operand(depth, c.width, transpose_b, b.stride, b.data)},
                              {DNNL_ARG_DST, operand(c.rows, c.width, false, c.stride, c.data)}});
    stream_.wait();
  }

 private:
  static constexpr dnnl::memory::dim later = DNNL_RUNTIME_DIM_VAL;

  static dnnl::memory::desc matrix(Index rows, Index columns, bool transposed, Index stride) {
    using dims = dnnl::memory::dims;
    return {dims{rows, columns}, dnnl::memory::data_type::bf16, transposed ? dims{1, stride} : dims{stride, 1}};
  }

  dnnl::matmul made(bool transpose_a, bool transpose_b, bool add) const {
    const auto a = matrix(later, later, transpose_a, later), b = matrix(later, later, transpose_b, later);
    const auto c = matrix(later, later, false, later);
    dnnl::primitive_attr attributes;
    if (add) {
      dnnl::post_ops sum;
      sum.append_sum(1.f);
      attributes.set_post_ops(sum);
    }
#if DNNL_VERSION_MAJOR >= 3
    return dnnl::matmul(dnnl::matmul::primitive_desc(engine_, a, b, c, attributes));
#else
    return dnnl::matmul(dnnl::matmul::primitive_desc(dnnl::matmul::desc(a, b, c), attributes, engine_));
#endif
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_{engine_};
  std::array<std::optional<dnnl::matmul>, 8> kernels_;
};

// The same in bf16, summed in float and rounded once. Throws OutOfMemory.
inline void product(bool transpose_a, bool transpose_b, Columns<const bf16> a, Columns<const bf16> b, Columns<bf16> c,
                    bool add) {
  const OneThread alone;
  try {
    Bf16Products::of_this_thread()(transpose_a, transpose_b, a, b, c, add);
  } catch (const dnnl::error& e) {
    require<OutOfMemory>(e.status != dnnl_out_of_memory, "out of memory: oneDNN's product of ", c.rows, " x ", c.width);
    fail("oneDNN's product failed: ", e.what());
  }
}

}  // namespace heddle::kernel::onednn
#endif
