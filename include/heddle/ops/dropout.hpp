// dropout(x, p, random): each element is 0 with probability p, otherwise multiplied by 1 / (1 - p) (Srivastava et al.
// 2014). Saves no mask: the backward repeats the draws.
#pragma once
#include <heddle/autograd/record.hpp>
#include <heddle/base/dropout_rule.hpp>
#include <heddle/base/random.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/cpu/vector.hpp>

namespace heddle {

namespace kernel {

inline constexpr int calls_per_block = 16;  // a fixed number, so that the loops over calls vectorize
inline constexpr Index draw_block = calls_per_block * draws16_per_call;  // elements

// Computes the factors of one block of elements, 0 or the rule's scale. `call` is the block's first call. The dropout
// is passed by value: through a reference, a write to `factors` might change it, and the loop would not vectorize.
template <class A>
void draw_factors(ElementDropout dropout, std::uint64_t call, A* factors) {
  PhiloxLanes<calls_per_block> words;
  dropout.draws.many<calls_per_block>([call](int c) { return call + static_cast<unsigned>(c); }, words);
  for (int c = 0; c < calls_per_block; ++c)
    for (int e = 0; e < draws16_per_call; ++e)
      factors[c * draws16_per_call + e] =
          dropout.rule.keeps(draw16(words, c, e)) ? static_cast<A>(dropout.rule.scale) : A(0);
}

// Calls f(e, n, factors) for elements [first, last), block by block, with the factors of elements [e, e + n). `first`
// must be a multiple of draw_block.
template <class A, class F>
void for_each_factor(const ElementDropout& dropout, Index first, Index last, F&& f) {
  alignas(register_bytes) A factors[draw_block];
  for (Index e = first; e < last; e += draw_block) {
    draw_factors(dropout, static_cast<std::uint64_t>(e / draws16_per_call), factors);
    const Index n = std::min(draw_block, last - e);
    f(e, n, static_cast<const A*>(factors));
  }
}

// Computes y = dropout(x) for elements [first, last). `first` must be a multiple of draw_block.
template <class T>
void multiply_by_factors(const ElementDropout& dropout, const T* x, T* y, Index first, Index last) {
  for_each_factor<Acc<T>>(dropout, first, last, [&](Index e, Index n, const Acc<T>* factors) {
    for_each_chunk<Acc<T>>(n, [&](Chunk<Acc<T>> at) { at.store(y + e, at.load(x + e) * at.load(factors)); });
  });
}

template <class T>
void dropout(Cpu, View<const T, 1> x, ElementDropout dropout, View<T, 1> y) {
  constexpr Index grain = 4096;
  const Index size = x.extent[0];
  parallel((size + draw_block - 1) / draw_block, grain / draw_block, [&](Index first, Index last) {
    multiply_by_factors(dropout, x.data, y.data, first * draw_block, std::min(size, last * draw_block));
  });
}

}  // namespace kernel

namespace detail {
// Takes the draws for the dropout of a tensor's elements.
inline kernel::Draws take_draws(const Shape& shape, Random& random) {
  const auto calls = [](Index elements) {
    return static_cast<std::uint64_t>((elements + kernel::draws16_per_call - 1) / kernel::draws16_per_call);
  };
  std::optional<std::uint64_t> before;
  if (const std::optional<BatchPart>& part = random.part(); part && shape.size() > 0) {
    const Index width = shape.rank() > 1 ? shape[-1] : 1, rows = shape.size() / width;
    if (rows == part->rows)
      before = calls(part->first_row * width);
    else if (rows == part->sequences)
      before = calls(part->first_sequence * width);
  }
  return random.take_for_operation(calls(shape.size()), before);
}

// Returns a dropout of a tensor's elements, with its draws; its rule is inactive without a generator or with p = 0.
// Throws Error for a p outside [0, 1), before or after rounding.
inline kernel::ElementDropout drawn_dropout(const char* op, double p, const Shape& shape, Random* random) {
  kernel::ElementDropout dropout{kernel::DropoutRule(op, p), {}};
  if (random && dropout.rule.is_active())
    require_replayable(dropout.draws = take_draws(shape, *random));
  else
    dropout.rule = {};
  return dropout;
}

// Returns x with this dropout applied.
template <class T>
Tensor<T> apply(const kernel::ElementDropout& dropout, const Tensor<T>& x) {
  Tensor<T> y = empty_like(x);
  dispatch(x, [&](auto device) { kernel::dropout(device, view<1>(x), dropout, view<1>(y)); });
  return y;
}
}  // namespace detail

/// Returns x with each element set to 0 with probability p, and multiplied by 1 / (1 - p) otherwise (Srivastava et al.
/// 2014). p is rounded to a multiple of 1/65,536. Without a generator, or if p is 0, returns x and draws nothing.
/// @throws Error for a p outside [0, 1), before or after rounding.
template <Floating T>
Tensor<T> dropout(const Tensor<T>& x, double p, Random* random) {
  const kernel::ElementDropout dropout = detail::drawn_dropout("dropout", p, x.shape(), random);
  if (!dropout.rule.is_active()) return x;
  const auto apply = [dropout](const Tensor<T>& from) { return detail::apply(dropout, from); };
  return record("dropout", apply(x), inputs(x), apply);  // the backward applies the same dropout to dy
}
/// Calls dropout(x, p, &random).
template <Floating T>
Tensor<T> dropout(const Tensor<T>& x, double p, Random& random) {
  return dropout(x, p, &random);
}

template <std::integral T, class... Others>
void dropout(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)

}  // namespace heddle
