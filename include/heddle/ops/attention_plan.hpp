// A checked call of attention as kernels see it: which rows are whose, and which scores there are.
#pragma once
#include <algorithm>
#include <limits>

#include <heddle/philox.hpp>

namespace heddle::kernel {

// Something for each score, [B|1, H|1, Tq|1, Tk]; an axis of one position serves all of them.
template <class T>
struct PerScore {
  T* data = nullptr;  // null: there is none
  Index sequence_stride = 0, head_stride = 0, query_stride = 0;

  HEDDLE_HD T* row(Index b, Index h, Index i) const {
    return data ? data + b * sequence_stride + h * head_stride + i * query_stride : nullptr;
  }
};

// The first score of a tile: sequence, head, query and key.
struct Place {
  Index b, h, i, j;
};

// A score that is masked; at namespace scope, because nvcc takes no function of the host's in one of both.
template <class A>
inline constexpr A never = -std::numeric_limits<A>::infinity();

template <class T>
struct AttentionPlan {
  View<const int, 1> q_begin, q_length, k_begin, k_length;  // [B]
  Index longest_q, longest_k, heads;
  Acc<T> scale;
  bool causal;
  PerScore<const bool> mask;
  PerScore<const T> bias;
  DropoutRule dropout;
  Draws draws;
  bool tf32;  // on the GPU, for floats: products round their operands to 11 significant bits

  Index count() const { return q_begin.extent[0]; }
  bool drops() const { return dropout.threshold > 0; }

  // 64 x 128 scores are half of a core's first cache; shorter sequences take less.
  Index tile_q() const { return std::min<Index>(longest_q, 64); }
  Index tile_k() const { return std::min<Index>(longest_k, 128); }

  // How many of a sequence's keys any of the queries before `last` may see.
  Index keys_seen(Index keys, Index last) const { return causal ? std::min(keys, last) : keys; }

  HEDDLE_HD bool masked(Index b, Index h, Index i, Index j) const {
    const bool* const may = mask.row(b, h, i);
    const T* const add = bias.row(b, h, i);
    return (causal && j > i) || (may && !may[j]) || (add && static_cast<Acc<T>>(add[j]) == never<Acc<T>>);
  }
  // Whether any score of the tile can be masked.
  bool may_mask(Place at, Columns<Acc<T>> s) const {
    return mask.data || bias.data || (causal && at.j + s.width > at.i + 1);
  }
  template <class F>
  void each_masked(Place at, Columns<Acc<T>> s, F f) const {
    for (Index r = 0; r < s.rows; ++r)
      for (Index c = 0; c < s.width; ++c)
        if (masked(at.b, at.h, at.i + r, at.j + c)) f(r, c);
  }
  template <class F>
  void each_seen(Place at, Columns<Acc<T>> s, F f) const {
    for (Index r = 0; r < s.rows; ++r)
      for (Index c = 0; c < s.width; ++c)
        if (!masked(at.b, at.h, at.i + r, at.j + c)) f(r, c);
  }
};

// Of dropout, for one query: four calls serve 32 keys (attention_dropout.hpp).
constexpr Index drawn_together = 32;
constexpr Index calls_per_score_row(Index keys) { return (keys + drawn_together - 1) / drawn_together * 4; }

}  // namespace heddle::kernel
