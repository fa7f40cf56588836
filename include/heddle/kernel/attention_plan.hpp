// AttentionPlan: a checked call of attention as kernels receive it.
#pragma once
#include <limits>

#include <heddle/base/dropout_rule.hpp>
#include <heddle/base/number_types.hpp>
#include <heddle/base/row_rounding.hpp>
#include <heddle/base/view.hpp>

namespace heddle::kernel {

// Four calls of the generator serve 32 keys of one query. Call t (0 to 3) serves keys 8m + 2t and 8m + 2t + 1, m = 0
// to 3: the keys that one lane of a tensor-core accumulator holds.
inline constexpr Index keys_per_draw_group = 32;
inline constexpr Index calls_per_draw_group = 4;
// Returns how many calls one query's scores take.
HEDDLE_HD constexpr Index calls_per_score_row(Index keys) {
  return (keys + keys_per_draw_group - 1) / keys_per_draw_group * calls_per_draw_group;
}
// Returns for how many rows a sequence has calls: a power of two, so that batches of similar length have the same
// draws. `longest` is the number of rows of the longest sequence.
constexpr Index drawn_rows(Index longest) { return detail::power_of_two(longest < 16 ? 16 : longest); }

// A tensor with one element per score, [B|1, H|1, Tq|1, Tk]. An axis of extent 1 is broadcast.
template <class T>
struct PerScore {
  T* data = nullptr;  // null: absent
  Index sequence_stride = 0, head_stride = 0, query_stride = 0;

  // Returns the elements of one query's scores, or null if the tensor is absent.
  HEDDLE_HD T* row(Index b, Index h, Index i) const {
    return data ? data + b * sequence_stride + h * head_stride + i * query_stride : nullptr;
  }
};

// The value of a masked score. At namespace scope because nvcc rejects host-only functions in __host__ __device__ code.
template <class A>
inline constexpr A masked_score = -std::numeric_limits<A>::infinity();

// The widest head for which kernels of the GPU keep no scores in memory.
inline constexpr Index widest_tiled_head = 128;

// A distance that no two rows have. Sums with a row's number do not overflow.
inline constexpr Index any_distance = Index{1} << 62;

template <class T>
struct AttentionPlan {
  View<const int, 1> q_begin, q_length, k_begin, k_length;  // [B] first row and number of rows of each sequence
  Index longest_q, longest_k, heads;
  Acc<T> scale;
  Index past, future;  // query i sees keys i - past to i + future, except masked ones
  PerScore<const bool> mask;
  PerScore<const T> bias;
  DropoutRule dropout;
  Draws draws;
  bool tf32;  // on the GPU, for floats: products round their operands to 11 significant bits
  // On the GPU: memory for dropout's decisions, kept_words() for each head of a sequence, fewer than 2^32 in all. The
  // forward writes them, and the backward reads them instead of drawing again. Null: it draws again.
  std::uint16_t* kept = nullptr;
  // The generator's calls for the scores of one query, and for those of one head of a sequence.
  Index calls_per_query = 0, calls_per_head = 0;

  Index count() const { return q_begin.extent[0]; }

  // Returns whether distances hide some pairs.
  HEDDLE_HD bool limits_distances() const { return past < any_distance || future < any_distance; }

  // Returns whether query i of sequence b and head h must not see key j.
  HEDDLE_HD bool is_masked(Index b, Index h, Index i, Index j) const {
    const bool* const visible = mask.row(b, h, i);
    const T* const added = bias.row(b, h, i);
    return i - j > past || j - i > future || (visible && !visible[j]) ||
           (added && static_cast<Acc<T>>(added[j]) == masked_score<Acc<T>>);
  }
};

// The decisions of dropout that a plan has memory for: a bit for each score. A unit of words holds those of 16 queries
// and 32 keys.
inline constexpr Index words_of_kept_unit = 32;
// Returns the number of words of one head's scores.
HEDDLE_HD constexpr Index kept_words(Index queries, Index keys) {
  return (queries + 15) / 16 * ((keys + keys_per_draw_group - 1) / keys_per_draw_group) * words_of_kept_unit;
}

}  // namespace heddle::kernel
