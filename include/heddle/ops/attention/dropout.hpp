// Attention's dropout on the CPU. kernel/attention_plan.hpp assigns the generator's calls to the keys.
#pragma once
#include <heddle/ops/attention/tile.hpp>

namespace heddle::kernel {

inline constexpr Index queries_per_draw = 4;  // queries drawn at once, so that the loops over calls vectorize

// Computes the dropout factors (0 or the rule's scale) of 32 keys and four queries. `call` is the first call of the
// first query; the first call of each further query is `next` higher. In call t (0 to 3) of a query, the lower half of
// word j decides key 8j + 2t, and the upper half key 8j + 2t + 1.
template <class A>
void draw_score_factors(DropoutRule rule, Draws draws, std::uint64_t call, std::uint64_t next,
                        A (*factors)[keys_per_draw_group]) {
  PhiloxLanes<queries_per_draw * calls_per_draw_group> words;
  draws.many<queries_per_draw * calls_per_draw_group>(
      [=](int i) { return call + static_cast<unsigned>(i) / 4 * next + static_cast<unsigned>(i) % 4; }, words);
  const A scale = static_cast<A>(rule.scale);
  for (int r = 0; r < queries_per_draw; ++r)
    for (int j = 0; j < 4; ++j)
      for (int k = 0; k < 8; ++k)
        factors[r][j * 8 + k] = rule.keeps(draw16(words, 4 * r + k / 2, 2 * j + k % 2)) ? scale : A(0);
}

// Computes the dropout factors of a tile and of the padding of its rows. The calls that it takes follow from the length
// of the longest sequence, rounded up, not from the padded length, so that padding a batch does not change the draws.
template <class T>
void draw_tile_factors(const AttentionPlan<T>& plan, TileOrigin at, MatrixView<Acc<T>> factors) {
  const Index next = plan.calls_per_query;
  for (Index r = 0; r < factors.rows; r += queries_per_draw)
    for (Index c = 0; c < factors.width; c += keys_per_draw_group) {
      const Index first = (at.b * plan.heads + at.h) * plan.calls_per_head + (at.i + r) * next;
      const Index call = first + (at.j + c) / keys_per_draw_group * calls_per_draw_group;
      Acc<T> group[queries_per_draw][keys_per_draw_group];
      draw_score_factors(plan.dropout, plan.draws, static_cast<std::uint64_t>(call), static_cast<std::uint64_t>(next),
                         group);
      const Index count = std::min(keys_per_draw_group, factors.stride - c);
      for (Index i = r; i < std::min(r + queries_per_draw, factors.rows); ++i)
        std::copy_n(group[i - r], count, &factors(i, c));
    }
}

}  // namespace heddle::kernel
