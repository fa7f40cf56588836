// oneDNN's matrix products, for builds with HEDDLE_ONEDNN. Products of float use dnnl_sgemm, which has no setup cost.
// Products of bf16 use kernels that are compiled once per thread and receive their sizes at run time. Each call stays
// on its thread: heddle itself splits the work, so that results do not depend on the number of threads. The code uses
// oneDNN's C interface, because its C++ headers take a second to compile.
#pragma once
#ifdef HEDDLE_ONEDNN
#include <dnnl.h>
#include <algorithm>
#include <array>
#include <memory>
#include <optional>
#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
#include <omp.h>
#endif

#include <heddle/base/bf16.hpp>
#include <heddle/base/block_signals.hpp>
#include <heddle/base/error.hpp>
#include <heddle/base/view.hpp>

namespace heddle::kernel::onednn {

// A scope in which oneDNN's calls from the calling thread use a single OpenMP thread.
class SingleThread {
 public:
#if DNNL_CPU_THREADING_RUNTIME == DNNL_RUNTIME_OMP
  SingleThread() { omp_set_num_threads(1); }
  SingleThread(const SingleThread&) = delete;
  ~SingleThread() { omp_set_num_threads(before_); }

 private:
  int before_ = omp_get_max_threads();
#else
  SingleThread() {}
#endif
};

// Throws OutOfMemory if oneDNN ran out of memory, and Error for any other failure, which is unexpected.
inline void require_success(dnnl_status_t status) {
  require<OutOfMemory>(status != dnnl_out_of_memory, "out of memory: oneDNN's matrix product");
  require(status == dnnl_success, "oneDNN's matrix product failed with status ", static_cast<int>(status));
}

// Returns the length of the parts in which a sum of `depth` products is accumulated: its rounding error grows with the
// square root of the longest part. oneDNN's own parts of 384 give an error of 3.5e-7 of the result's root mean square.
// Parts of 256 give 2.9e-7 in about 1 % more time.
inline Index part_of_sum(Index depth) {
  constexpr Index longest = 256;
  const Index parts = std::max<Index>(1, (depth + longest - 1) / longest);
  return (depth + parts - 1) / parts;
}

// Computes c [M, N] = a b, or c += a b. A transposed operand is stored as [K, M] (a) or [N, K] (b). Throws OutOfMemory.
inline void product(bool transpose_a, bool transpose_b, MatrixView<const float> a, MatrixView<const float> b,
                    MatrixView<float> c, bool add) {
  // Above this depth, oneDNN's AVX-512 kernels point the stack pointer into the heap, where a signal handler would
  // overwrite other blocks.
  constexpr Index safe_depth = 84;
  const Index depth = transpose_a ? a.rows : a.width;
  const SingleThread alone;
  std::optional<detail::BlockSignals> blocked;
  if (depth > safe_depth) blocked.emplace();
  const Index length = part_of_sum(depth);
  for (Index k = 0; k == 0 || k < depth; k += length)
    require_success(dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', c.rows, c.width,
                               std::min(length, depth - k), 1.f, a.data + (transpose_a ? k * a.stride : k), a.stride,
                               b.data + (transpose_b ? k : k * b.stride), b.stride, add || k > 0 ? 1.f : 0.f, c.data,
                               c.stride));
}

// Returns whether the processor has the instructions of a set.
inline bool has(dnnl_cpu_isa_t set) { return (dnnl_get_effective_cpu_isa() & set) == set; }
// Returns whether products of float are faster from copies of operands that a small block of the result reads with
// gaps: without AVX-512 such a block takes twice as long for a transposed left operand, and for a right operand whose
// rows are whole pages apart, and therefore share a set of the cache.
inline bool is_slow_with_gaps() {
  static const bool is_slow = !has(dnnl_cpu_isa_avx512_core);
  return is_slow;
}

// Returns whether this processor has bf16 instructions; without them float is faster.
inline bool has_bf16() {
  static const bool found = has(dnnl_cpu_isa_avx512_core_bf16);
  return found;
}

// The owner of a oneDNN object that `make(&object)` creates and `destroy` releases.
template <class T, class Destroy>
struct Handle {
  T object = nullptr;
  Destroy destroy;

  template <class Make>
  Handle(Destroy d, Make make) : destroy(d) {
    require_success(make(&object));
  }
  Handle(const Handle&) = delete;
  ~Handle() { destroy(object); }
  operator T() const { return object; }
};
// Returns a Handle to an object of the type that `destroy` takes.
template <class T, class Make>
auto handle(dnnl_status_t (*destroy)(T), Make make) {
  return Handle<T, dnnl_status_t (*)(T)>(destroy, make);
}

template <class T>
inline constexpr dnnl_data_type_t data_type = std::is_same_v<T, float> ? dnnl_f32 : dnnl_bf16;

// The layout of a matrix for oneDNN; sizes and stride may be `later`, that is, given when the kernel runs.
class MatrixLayout {
 public:
  static constexpr Index later = DNNL_RUNTIME_DIM_VAL;

  MatrixLayout(dnnl_data_type_t type, Index rows, Index columns, bool transposed, Index stride) {
    const dnnl_dims_t sizes = {rows, columns}, strides = {transposed ? 1 : stride, transposed ? stride : 1};
#if DNNL_VERSION_MAJOR >= 3
    require_success(dnnl_memory_desc_create_with_strides(&layout_, 2, sizes, type, strides));
  }
  ~MatrixLayout() { dnnl_memory_desc_destroy(layout_); }
  dnnl_memory_desc_t get() const { return layout_; }

 private:
  dnnl_memory_desc_t layout_ = nullptr;
#else
    require_success(dnnl_memory_desc_init_by_strides(&layout_, 2, sizes, type, strides));
  }
  const dnnl_memory_desc_t* get() const { return &layout_; }

 private:
  dnnl_memory_desc_t layout_;
#endif

 public:
  MatrixLayout(const MatrixLayout&) = delete;
};

// The kernels of one thread, with results in T: oneDNN binds their scratch memory to the thread that created them.
template <class T>
class Bf16Products {
 public:
  static Bf16Products& of_this_thread() {
    static thread_local Bf16Products products;
    return products;
  }

  void operator()(bool transpose_a, bool transpose_b, MatrixView<const bf16> a, MatrixView<const bf16> b,
                  MatrixView<T> c, bool add) {
    auto& kernel = kernels_[static_cast<std::size_t>(transpose_a * 4 + transpose_b * 2 + add)];
    if (!kernel)
      kernel = std::make_unique<Kernel>(dnnl_primitive_destroy,
                                        [&](dnnl_primitive_t* to) { return make(transpose_a, transpose_b, add, to); });
    const auto operand = [&]<class E>(Index rows, Index columns, bool transposed, Index stride, const E* data) {
      const MatrixLayout layout(data_type<E>, rows, columns, transposed, stride);
      return handle(dnnl_memory_destroy, [&](dnnl_memory_t* memory) {
        return dnnl_memory_create(memory, layout.get(), engine_, const_cast<E*>(data));
      });
    };
    const Index depth = transpose_a ? a.rows : a.width;
    const auto a_memory = operand(c.rows, depth, transpose_a, a.stride, a.data);
    const auto b_memory = operand(depth, c.width, transpose_b, b.stride, b.data);
    const auto c_memory = operand(c.rows, c.width, false, c.stride, static_cast<const T*>(c.data));
    const dnnl_exec_arg_t arguments[] = {
        {DNNL_ARG_SRC, a_memory}, {DNNL_ARG_WEIGHTS, b_memory}, {DNNL_ARG_DST, c_memory}};
    require_success(dnnl_primitive_execute(*kernel, stream_, 3, arguments));
    require_success(dnnl_stream_wait(stream_));
  }

 private:
  using Kernel = Handle<dnnl_primitive_t, dnnl_status_t (*)(dnnl_primitive_t)>;

  dnnl_status_t make(bool transpose_a, bool transpose_b, bool add, dnnl_primitive_t* to) const {
    constexpr Index later = MatrixLayout::later;
    const MatrixLayout a(dnnl_bf16, later, later, transpose_a, later), b(dnnl_bf16, later, later, transpose_b, later),
        c(data_type<T>, later, later, false, later);
    const auto sum = handle(dnnl_post_ops_destroy, dnnl_post_ops_create);
    const auto attributes = handle(dnnl_primitive_attr_destroy, dnnl_primitive_attr_create);
#if DNNL_VERSION_MAJOR >= 3
    if (add) require_success(dnnl_post_ops_append_sum(sum, 1.f, 0, dnnl_data_type_undef));
    require_success(dnnl_primitive_attr_set_post_ops(attributes, sum));
    const auto described = handle(dnnl_primitive_desc_destroy, [&](dnnl_primitive_desc_t* desc) {
      return dnnl_matmul_primitive_desc_create(desc, engine_, a.get(), b.get(), nullptr, c.get(), attributes);
    });
#else
    if (add) require_success(dnnl_post_ops_append_sum(sum, 1.f));
    require_success(dnnl_primitive_attr_set_post_ops(attributes, sum));
    dnnl_matmul_desc_t matmul;
    require_success(dnnl_matmul_desc_init(&matmul, a.get(), b.get(), nullptr, c.get()));
    const auto described = handle(dnnl_primitive_desc_destroy, [&](dnnl_primitive_desc_t* desc) {
      return dnnl_primitive_desc_create(desc, &matmul, attributes, engine_, nullptr);
    });
#endif
    return dnnl_primitive_create(to, described);
  }

  Handle<dnnl_engine_t, dnnl_status_t (*)(dnnl_engine_t)> engine_ =
      handle(dnnl_engine_destroy, [](dnnl_engine_t* engine) { return dnnl_engine_create(engine, dnnl_cpu, 0); });
  Handle<dnnl_stream_t, dnnl_status_t (*)(dnnl_stream_t)> stream_ =
      handle(dnnl_stream_destroy,
             [this](dnnl_stream_t* stream) { return dnnl_stream_create(stream, engine_, dnnl_stream_default_flags); });
  std::array<std::unique_ptr<Kernel>, 8> kernels_;
};

// Computes the product of bf16 operands: accumulates in float, and rounds once if T is bf16. Throws OutOfMemory.
template <class T>
void product(bool transpose_a, bool transpose_b, MatrixView<const bf16> a, MatrixView<const bf16> b, MatrixView<T> c,
             bool add) {
  const SingleThread alone;
  Bf16Products<T>::of_this_thread()(transpose_a, transpose_b, a, b, c, add);
}

}  // namespace heddle::kernel::onednn
#endif
