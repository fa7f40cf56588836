// Kernels that compute each element of y as a function of the operands' corresponding elements:
//
//   each_element        The operands are as long as y. A thread owns a few vectors of neighboring elements; the vectors
//                       of a block are contiguous.
//   broadcast_elements  Operands may be broadcast along some axes. The partition is the same, but if there are several
//                       rows, each vector lies within one. Broadcast elements are read from cache.
//
// A vector is 16 bytes of the widest type. Where the addresses, or in broadcast_elements the rows' length, do not allow
// that, a thread moves one element at a time, and neighboring threads move neighboring elements. The last block of
// each_element does so, too, unless it has whole vectors for all of its threads. Each byte of y is written once, and
// each byte of an operand that is not broadcast is read once.
#pragma once
#include <utility>

#include "packed.cuh"
#include "workspace.cuh"

namespace heddle::cuda {

struct ElementTile {
  static constexpr int threads = block_threads(256);
  static constexpr int vectors = 2;  // vectors of a thread; their loads are in flight at the same time
  static constexpr int singles = 4;  // elements in flight of a thread that moves one at a time
};

// The elements of one vector of a thread: every `step`-th element from `first` on that is before `end`.
struct Stretch {
  Index first, end;
  int step;
  bool whole;  // whether it is a full, aligned vector of neighboring elements

  __device__ Index at(int k) const { return first + k * step; }
  template <int width, class T>
  __device__ Vector<T, width> load(const T* x) const {
    if (whole) return load_vector<width>(x + first);
    Vector<T, width> values;
    unrolled<width>([&](int k) { values.at[k] = at(k) < end ? x[at(k)] : T{}; });
    return values;
  }
  template <int width, class T>
  __device__ void store(T* y, const Vector<T, width>& values) const {
    if (whole) return store_global(y + first, values);
    unrolled<width>([&](int k) {
      if (at(k) < end) y[at(k)] = values.at[k];
    });
  }
};

// A thread's vectors of one operand; all are loaded before anything is stored.
template <class T, int width, int vectors>
struct Loaded {
  Vector<T, width> vector[vectors];
};

template <int width, class T, int vectors>
__device__ Loaded<T, width, vectors> load_all(const T* x, const Stretch (&stretch)[vectors]) {
  Loaded<T, width, vectors> loaded;
  unrolled<vectors>([&](int v) { loaded.vector[v] = stretch[v].template load<width>(x); });
  return loaded;
}
// Stores f(x...) for each element. If y is in bf16, f may take and return floats, which are rounded in pairs.
template <int width, class F, class Y, int vectors, class... X>
__device__ void store_all(const F& f, Y* y, const Stretch (&stretch)[vectors], const Loaded<X, width, vectors>&... x) {
  unrolled<vectors>([&](int v) {
    if constexpr (std::is_same_v<Y, bf16> && std::is_same_v<decltype(f(x.vector[v].at[0]...)), float>) {
      float values[width];
      unrolled<width>([&](int k) { values[k] = f(Packed<X, width>(x.vector[v])[k]...); });
      stretch[v].store(y, Packed<Y, width>::rounded(values).elements());
    } else {
      Vector<Y, width> result;
      unrolled<width>([&](int k) { result.at[k] = f(x.vector[v].at[k]...); });
      stretch[v].store(y, result);
    }
  });
}

template <class F, class Y, class... X>
__global__ __launch_bounds__(ElementTile::threads) void each_element(F f, Index count, bool aligned, Y* y,
                                                                     const X*... x) {
  constexpr int width = vector_width<Y, X...>, vectors = ElementTile::vectors, threads = ElementTile::threads;
  constexpr int singles = ElementTile::singles, of_block = vectors * threads * width;
  const int thread = static_cast<int>(threadIdx.x);
  const Index begin = Index{blockIdx.x} * of_block;
  if (aligned && begin + of_block <= count) {
    Stretch stretch[vectors];
    for (int v = 0; v < vectors; ++v) stretch[v] = {begin + (v * threads + thread) * width, count, 1, true};
    return store_all<width>(f, y, stretch, load_all<width>(x, stretch)...);
  }
#ifdef __CUDACC__
#pragma unroll 1
#endif
  for (int i = thread; i < of_block && begin + i < count; i += threads * singles) {
    const Stretch stretch[] = {{begin + i, count, threads, false}};
    store_all<singles>(f, y, stretch, load_all<singles>(x, stretch)...);
  }
}

// Computes y[i] = f(x[i]...) for i < count.
template <class F, class Y, class... X>
void for_each_element(F f, Index count, Y* y, const X*... x) {
  constexpr int width = vector_width<Y, X...>, threads = ElementTile::threads;
  launch<each_element<F, Y, X...>>(blocks_for(count, ElementTile::vectors * threads * width), threads, 0,
                                   current_stream(), f, count, aligned<width>(y, x...), y, x...);
}

template <int width, class T, int N, int vectors>
__device__ Loaded<T, width, vectors> load_operand(const T* x, const kernel::BroadcastPlan<N>& plan, int operand,
                                                  const Stretch (&of_y)[vectors]) {
  Loaded<T, width, vectors> loaded;
  for (int v = 0; v < vectors; ++v) {
    const Index first = of_y[v].first, row = plan.rank > 1 ? first / plan.extent[0] : 0;
    const T* const from = x + plan.offset(operand, row);
    if (plan.stride[operand][0]) {
      const Index column = first - row * plan.extent[0];
      loaded.vector[v] = Stretch{column, column + (plan.size - first), 1, of_y[v].whole}.template load<width>(from);
    } else {
      const T value = first < plan.size ? *from : T{};
      for (int k = 0; k < width; ++k) loaded.vector[v].at[k] = value;
    }
  }
  return loaded;
}

// Computes y = f(x...) for broadcast operands. If there are several rows, each vector lies within one.
template <int width, class F, class Y, class... X>
__global__ __launch_bounds__(ElementTile::threads) void broadcast_elements(F f,
                                                                           kernel::BroadcastPlan<sizeof...(X)> plan,
                                                                           Y* y, const X*... x) {
  constexpr int vectors = width > 1 ? ElementTile::vectors : ElementTile::singles, threads = ElementTile::threads;
  Stretch stretch[vectors];
  for (int v = 0; v < vectors; ++v) {
    const Index first = ((Index{blockIdx.x} * vectors + v) * threads + threadIdx.x) * width;
    stretch[v] = {first, plan.size, 1, first + width <= plan.size};
  }
  [&]<int... operand>(std::integer_sequence<int, operand...>) {
    store_all<width>(f, y, stretch, load_operand<width>(x, plan, operand, stretch)...);
  }
  (std::make_integer_sequence<int, sizeof...(X)>());
}

// Computes y = f(x...) elementwise. The plan maps each element of y to one element of each operand.
template <class F, class Y, class... X>
void for_broadcast_elements(F f, const kernel::BroadcastPlan<sizeof...(X)>& plan, Y* y, const X*... x) {
  constexpr int width = vector_width<Y, X...>, threads = ElementTile::threads;
  const cudaStream_t stream = current_stream();
  if (aligned<width>(y, x...) && (plan.rank == 1 || plan.extent[0] % width == 0))
    launch<broadcast_elements<width, F, Y, X...>>(blocks_for(plan.size, ElementTile::vectors * threads * width),
                                                  threads, 0, stream, f, plan, y, x...);
  else
    launch<broadcast_elements<1, F, Y, X...>>(blocks_for(plan.size, ElementTile::singles * threads), threads, 0, stream,
                                              f, plan, y, x...);
}

}  // namespace heddle::cuda
