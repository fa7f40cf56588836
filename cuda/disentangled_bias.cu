// The bias of disentangled attention. Definition: include/heddle/ops/disentangled_bias.hpp.
//
//   gather_scores  A block owns a query, and its threads own the keys. Neighbouring threads read neighbouring columns
//                  of the query's products.
//   sum_scores     A block owns a row of the products, and its threads own the columns. A thread adds the gradients of
//                  the scores that read its column, in the order of the distances: for the row as a query, and for the
//                  row as a key.
#include "device/instances.cuh"
#include "device/launch.cuh"
#include "device/packed.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {

constexpr int score_threads = cuda::block_threads(128);

// Row t of head h of sequence b.
struct ScoreRow {
  Index b, h, t;
};

// Returns the row of the block. All factors of the number of blocks fit into 32 bits.
__device__ ScoreRow row_of_block(Index H, Index longest) {
  const unsigned heads = static_cast<unsigned>(H), rows = static_cast<unsigned>(longest), head = blockIdx.x / rows;
  return {head / heads, head % heads, blockIdx.x % rows};
}

template <class T>
__global__ __launch_bounds__(score_threads) void gather_scores(View<const T, 3> a, View<const T, 3> z,
                                                               View<const int, 1> column, View<const int, 1> begin,
                                                               View<const int, 1> length, float scale,
                                                               View<T, 4> bias) {
  const Index longest = bias.extent[2];
  const auto [b, h, i] = row_of_block(bias.extent[1], longest);
  const Index L = length(b), first = begin(b);
  const int* const columns = &column(i + longest - 1);
  for (Index j = threadIdx.x; j < longest; j += score_threads) {
    float score = 0;
    if (i < L && j < L) {
      const Index c = columns[-j];
      score = scale * (static_cast<float>(a(h, first + i, c)) + static_cast<float>(z(h, first + j, c)));
    }
    bias(b, h, i, j) = static_cast<T>(score);
  }
}

template <class T>
__global__ __launch_bounds__(score_threads) void sum_scores(View<const T, 4> dbias, View<const int, 1> first,
                                                            View<const int, 1> begin, View<const int, 1> length,
                                                            float scale, View<T, 3> da, View<T, 3> dz) {
  const Index longest = dbias.extent[2], R = da.extent[2];
  const auto [b, h, t] = row_of_block(dbias.extent[1], longest);
  const Index L = length(b), n = begin(b) + t;
  if (t >= L) return;
  for (Index c = threadIdx.x; c < R; c += score_threads) {
    float of_query = 0, of_key = 0;
    for (int place = first(c), end = first(c + 1); place < end; ++place) {
      const Index distance = place - (longest - 1), j = t - distance, i = t + distance;
      if (j >= 0 && j < L) of_query += static_cast<float>(dbias(b, h, t, j));
      if (i >= 0 && i < L) of_key += static_cast<float>(dbias(b, h, i, t));
    }
    da(h, n, c) = static_cast<T>(scale * of_query);
    dz(h, n, c) = static_cast<T>(scale * of_key);
  }
}

}  // namespace

template <OnGpu T>
void disentangled_bias(Cuda, View<const T, 3> a, View<const T, 3> z, View<const int, 1> column,
                       View<const int, 1> begin, View<const int, 1> length, float scale, View<T, 4> bias) {
  const unsigned blocks = cuda::blocks_for(bias.extent[0] * bias.extent[1] * bias.extent[2], 1);
  if (blocks == 0) return;
  cuda::launch<gather_scores<T>>(blocks, score_threads, 0, cuda::current_stream(), a, z, column, begin, length, scale,
                                 bias);
}

template <OnGpu T>
void disentangled_bias_backward(Cuda, View<const T, 4> dbias, View<const int, 1> first, View<const int, 1> begin,
                                View<const int, 1> length, float scale, View<T, 3> da, View<T, 3> dz) {
  const unsigned blocks = cuda::blocks_for(dbias.extent[0] * dbias.extent[1] * dbias.extent[2], 1);
  if (blocks == 0) return;
  cuda::launch<sum_scores<T>>(blocks, score_threads, 0, cuda::current_stream(), dbias, first, begin, length, scale, da,
                              dz);
}

[[maybe_unused, gnu::used]] constexpr auto disentangled_bias_instances = cuda::instances<float, bf16>(
    []<class T>(cuda::Type<T>) { return std::tuple(&disentangled_bias<T>, &disentangled_bias_backward<T>); });

}  // namespace heddle::kernel
