// attention's dropout draws. Four calls serve 32 keys: call t those numbered 8m + 2t and 8m + 2t + 1, m = 0..3, which is
// what one lane of a tensor core's accumulator holds.
#pragma once
#include <heddle/ops/attention_tile.hpp>

namespace heddle::kernel {

// What the probabilities of 32 keys and four queries are multiplied by, 0 or the rule's scale: fixed numbers, so that
// the compiler makes vectors of them. `call` is the first query's first, and `next` the calls from one query to another.
// Word j of a query's four calls, half by half, decides keys 8j to 8j + 7 in order.
template <class A>
void draw_factors(DropoutRule rule, Draws draws, std::uint64_t call, std::uint64_t next, A (*factors)[drawn_together]) {
  WordColumns<16> words;
  draws.many<16>([=](int i) { return call + static_cast<unsigned>(i) / 4 * next + static_cast<unsigned>(i) % 4; },
                 words);
  const A scale = static_cast<A>(rule.scale);
  for (int r = 0; r < 4; ++r)
    for (int j = 0; j < 4; ++j)
      for (int k = 0; k < 8; ++k)
        factors[r][j * 8 + k] = rule.keeps(draw16(words, 4 * r + k / 2, 2 * j + k % 2)) ? scale : A(0);
}

// The same for a tile, and for what fills its rows up. The calls are numbered by the longest sequence, so
// that padding changes nothing.
template <class T>
void draw_dropout(const AttentionPlan<T>& plan, Place at, Columns<Acc<T>> keep) {
  const Index next = calls_per_score_row(plan.longest_k);
  for (Index r = 0; r < keep.rows; r += 4)
    for (Index c = 0; c < keep.width; c += drawn_together) {
      const Index score_row = (at.b * plan.heads + at.h) * plan.longest_q + at.i + r;
      const Index call = score_row * next + (at.j + c) / drawn_together * 4;
      Acc<T> factors[4][drawn_together];
      draw_factors(plan.dropout, plan.draws, static_cast<std::uint64_t>(call), static_cast<std::uint64_t>(next),
                   factors);
      const Index count = std::min(drawn_together, keep.stride - c);
      for (Index i = r; i < std::min(r + 4, keep.rows); ++i) std::copy_n(factors[i - r], count, &keep(i, c));
    }
}

}  // namespace heddle::kernel
