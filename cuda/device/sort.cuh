// A stable sort of pairs by their keys: CUB's radix sort (cuda/sort.cu). emulator/sort.cpp stands in for it.
#pragma once
#include "launch.cuh"

namespace heddle::cuda {

// Arrays of keys and values; pair n is keys[n] and values[n].
struct Pairs {
  unsigned *keys, *values;
};

// Writes `count` pairs to `to` in ascending order of the lowest `bits` bits of their keys, on the calling thread's
// stream. Pairs with equal bits keep their order. `from` and `to` must not overlap. The result is deterministic.
void sort_pairs(Pairs from, Pairs to, Index count, int bits);

}  // namespace heddle::cuda
