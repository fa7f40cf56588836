// dropout(x, p, random): each element is 0 with probability p, else multiplied by 1 / (1 - p) (Srivastava et al. 2014).
// Saves no mask: the backward draws it again.
#pragma once
#include <heddle/autograd.hpp>
#include <heddle/eigen.hpp>
#include <heddle/parallel.hpp>
#include <heddle/random.hpp>

namespace heddle {

namespace kernel {

constexpr int calls_together = 16;  // a fixed number, so that the compiler makes vectors of them

// What each of 128 elements is multiplied by, 0 or the rule's scale: element e is decided by draw e % 8 of call e / 8.
template <class A>
void draw_factors(DropoutRule rule, Draws draws, std::uint64_t call, A* factors) {
  WordColumns<calls_together> words;
  draws.many<calls_together>([call](int c) { return call + static_cast<unsigned>(c); }, words);
  for (int c = 0; c < calls_together; ++c)
    for (int e = 0; e < draws_per_call; ++e)
      factors[c * draws_per_call + e] = rule.keeps(draw16(words, c, e)) ? static_cast<A>(rule.scale) : A(0);
}

constexpr Index drawn_block = calls_together * draws_per_call;  // elements

// f(e, n, factors) for elements [first, last) of an operation's, `first` a multiple of 128: what elements [e, e + n) are
// multiplied by.
template <class A, class F>
void each_dropped(DropoutRule rule, Draws draws, Index first, Index last, F&& f) {
  A factors[drawn_block];
  for (Index e = first; e < last; e += drawn_block) {
    draw_factors(rule, draws, static_cast<std::uint64_t>(e / draws_per_call), factors);
    const Index n = std::min(drawn_block, last - e);
    f(e, n, array(static_cast<const A*>(factors), n));
  }
}

template <class T>
void dropout(Cpu, View<const T, 1> x, DropoutRule rule, Draws draws, View<T, 1> y) {
  constexpr Index grain = 4096;
  const Index size = x.extent[0];
  parallel((size + drawn_block - 1) / drawn_block, grain / drawn_block, [&](Index first, Index last) {
    each_dropped<Acc<T>>(rule, draws, first * drawn_block, std::min(size, last * drawn_block),
                         [&](Index e, Index n, const auto& factors) {
                           store(array(y.data + e, n), load(array(x.data + e, n)) * factors);
                         });
  });
}

}  // namespace kernel

// What as many elements are dropped by.
inline Draws take_draws(Index size, Random& random) {
  return random.take(static_cast<std::uint64_t>((size + draws_per_call - 1) / draws_per_call));
}

// Without a generator, or with p = 0, the result is x and nothing is drawn. p is rounded to a multiple of 1/65,536.
// Throws Error for a p outside [0, 1).
template <class T>
Tensor<T> dropout(const Tensor<T>& x, double p, Random* random) {
  const DropoutRule rule = dropout_rule("dropout", p);
  if (!random || rule.threshold == 0) return x;
  const Draws draws = take_draws(x.size(), *random);
  const auto apply = [rule, draws](const Tensor<T>& from) {
    Tensor<T> y = like(from);
    on(from, [&](auto device) { kernel::dropout(device, view<1>(from), rule, draws, view<1>(y)); });
    return y;
  };
  return record("dropout", apply(x), inputs(x), apply);  // it is its own gradient
}
// The same.
template <class T>
Tensor<T> dropout(const Tensor<T>& x, double p, Random& random) {
  return dropout(x, p, &random);
}

}  // namespace heddle
