// The embeddings of an encoder, the norm of their sum and its dropout on the GPU, as BertEmbeddings computes them.
// device/norm_forward.cuh describes the partition.
//
//   forward     A row of `sum` is words + positions + types, each a row of its table. They are read once for every row;
//               sum and y are written once, and the stored sum is normalized. The team's first thread checks the ids.
//   backward    That of layer_norm (layer_norm.cu), and sum_taken_rows for the tables (embed.cu).
#include "device/instances.cuh"
#include "device/norm_forward.cuh"
#include "device/report.cuh"

namespace heddle::kernel {
namespace {

using cuda::Packed;

// Returns elements of a table, rounded to A.
template <class A, class T, int count>
__device__ Packed<A, count> rounded_to(const Packed<T, count>& elements) {
  if constexpr (std::is_same_v<A, T>) {
    return elements;
  } else {
    float values[count];
    for (int i = 0; i < count; ++i) values[i] = elements[i];
    return Packed<A, count>::rounded(values);
  }
}
template <class A, int count>
__device__ Packed<A, count> rounded_sum(const Packed<A, count>& a, const Packed<A, count>& b) {
  float values[count];
  for (int i = 0; i < count; ++i) values[i] = a[i] + b[i];
  return Packed<A, count>::rounded(values);
}

// The rows of words + positions + types, which are kept in `sum`.
template <class T, class A>
struct EmbeddedRows {
  EmbeddingTables<T> of;
  View<A, 2> sum;
  cuda::Report* report;

  bool aligned() const {
    constexpr int together = cuda::vector_width<A>;  // elements, also of a table
    return cuda::aligned<together>(of.words.table.data, of.positions.table.data, of.types.table.data) &&
           cuda::aligned<together>(sum.data);
  }
  template <class L>
  __device__ void make(const L& layout, Index n, typename L::Column first, typename L::Column end,
                       float (&row)[L::values]) const {
    const bool exists = end > 0;  // whether there is a row n
    const int word = exists ? of.words.ids(n) : 0, position = exists ? of.positions.ids(n) : 0,
              type = exists && of.types.ids.data ? of.types.ids(n) : 0;
    const bool has_word = !of.words.check.is_invalid(word), has_type = !of.types.check.is_invalid(type);
    Packed<T, L::width> loaded[L::groups];
    Packed<A, L::width> made[L::groups];
    const Index D = sum.extent[1];
    layout.load(of.words.table.data + (has_word ? word * D : 0), first, has_word ? end : 0, loaded);
    for (int g = 0; g < L::groups; ++g) made[g] = rounded_to<A>(loaded[g]);
    layout.load(of.positions.table.data + position * D, first, end, loaded);
    for (int g = 0; g < L::groups; ++g) made[g] = rounded_sum(made[g], rounded_to<A>(loaded[g]));
    if (of.types.table.data) {
      layout.load(of.types.table.data + (has_type ? type * D : 0), first, has_type ? end : 0, loaded);
      for (int g = 0; g < L::groups; ++g) made[g] = rounded_sum(made[g], rounded_to<A>(loaded[g]));
    }
    cuda::unrolled<L::groups>([&](int g) {
      const auto d = first + layout.column(g);
      cuda::store_packed<L::vectors>(sum.data + n * D + d, end - d, made[g]);
      for (int i = 0; i < L::width; ++i) row[g * L::width + i] = made[g][i];
    });
    // At the end, where it holds no registers of the sum.
    if (exists && first == 0 && layout.team.rank() == 0) report_invalid(n, has_word, has_type);
  }
  // Reads the sums that this thread wrote.
  template <class L>
  __device__ void read(const L& layout, Index n, typename L::Column first, typename L::Column end,
                       float (&row)[L::values]) const {
    cuda::GivenRows<A>{{sum.data, {sum.extent[0], sum.extent[1]}}}.read(layout, n, first, end, row);
  }

 private:
  // Reports the word or the type of row n, if it is the first invalid one. A word takes precedence over all types.
  __device__ void report_invalid(Index n, bool has_word, bool has_type) const {
    if (!has_word) return cuda::report_if_first(of.words.check, of.words.ids, n, report);
    if (has_type) return;
    for (Index k = 0; k < of.words.ids.extent[0]; ++k)
      if (of.words.check.is_invalid(of.words.ids(k))) return;
    cuda::report_if_first(of.types.check, of.types.ids, n, report);
  }
};

}  // namespace

template <OnGpu T, OnGpu A>
void embed_layer_norm(Cuda, const EmbeddingTables<T>& tables, const ElementDropout& result, View<const A, 1> gamma,
                      View<const A, 1> beta, double eps, View<A, 2> sum, View<A, 2> y, View<float, 1> mean,
                      View<float, 1> rstd) {
  const EmbeddedRows<T, A> rows{tables, sum, cuda::report()};
  cuda::with_norm_result(result, [&](const auto& kept) {
    cuda::launch_norm(rows, cuda::LayerNormOperands<A>{gamma, beta, mean, rstd}, eps, kept, y);
  });
}

[[maybe_unused, gnu::used]] constexpr auto embed_layer_norm_instances =
    std::tuple(&embed_layer_norm<float, float>, &embed_layer_norm<float, bf16>, &embed_layer_norm<bf16, bf16>);

}  // namespace heddle::kernel
