// cached_backward(): the gradients of a loss over a large batch in the memory of a small one.
#pragma once
#include <heddle/autograd/backward.hpp>
#include <heddle/base/random.hpp>
#include <heddle/ops/concat.hpp>
#include <heddle/ops/slice.hpp>

namespace heddle::train {

/// Accumulates the gradients of a loss over the vectors of all parts of a batch, with the activations of one part at a
/// time in memory (GradCache: Gao et al. 2021, "Scaling Deep Contrastive Learning Batch Size under Memory Limited
/// Setup"). It computes the vectors of every part without recording, the loss and its gradient with respect to the
/// vectors, and then each part again with its backward. Up to rounding, the gradients are those of
///
///     backward(loss(concat({encode(0, random), encode(1, random), …})))
///
/// It takes the time of one more forward of every part, so for one part call backward() itself.
///
/// - `encode(part, random)` returns the vectors of a part, a tensor with the same axes but axis 0 for all parts. It is
///   called twice for each part, in the order of the parts, and has to compute the same values both times: it may
///   draw only from the generator that it is given. A part that needs no gradient, such as one of a frozen encoder,
///   only contributes its vectors.
/// - `loss(all)` returns a one-element loss of the vectors of all parts, concatenated along axis 0. It is called once,
///   with a variable. Parameters that it uses, such as a learned temperature, get their gradients, too.
/// - `random` is passed on to `encode`; its position then follows the draws of all parts. The second time, each part
///   gets a copy that repeats its draws. A null pointer is passed on as such.
///
/// A loss that compares B queries with B documents takes the queries from the first parts and the documents from the
/// others: slice(all, 0, 0, B) and slice(all, 0, B, 2 * B) are their vectors.
///
/// Returns the loss, without a graph. @throws Error for fewer parts than 1, if the loss does not depend on the vectors,
/// if no part needs a gradient, and as backward(); ShapeError if the shapes of parts do not match, or if a part has
/// another shape the second time. If it throws, gradients may be incomplete: clear them.
template <class Encode, class Loss>
requires std::invocable<Encode&, Index, Random*>
auto cached_backward(Index parts, Encode&& encode, Loss&& loss, Random* random = nullptr) {
  using Vectors = std::remove_cvref_t<std::invoke_result_t<Encode&, Index, Random*>>;
  require(parts >= 1, "cached_backward: the number of parts must be at least 1, got ", parts);

  std::vector<Random> generators;  // a copy for each part, from before its draws
  std::vector<Shape> shapes;
  const Vectors all = variable([&] {
    const NoGrad off;
    std::vector<Vectors> vectors;
    for (Index part = 0; part < parts; ++part) {
      if (random) generators.push_back(*random);
      vectors.push_back(encode(part, random));
      shapes.push_back(vectors.back().shape());
    }
    return concat(vectors);
  }());

  const auto value = loss(all);
  backward(value);
  const Vectors gradient = all.grad();
  require(gradient.has_data(), "cached_backward: the loss does not depend on the vectors of the parts");

  bool needs_gradient = false;
  Index first = 0;
  for (std::size_t part = 0; part < shapes.size(); ++part) {
    const Vectors again = encode(static_cast<Index>(part), random ? &generators[part] : nullptr);
    require<ShapeError>(again.shape() == shapes[part], "cached_backward: the vectors of part ", part,
                        " have the shape ", shapes[part], " the first time, but ", again.shape(), " the second time");
    const Index last = first + shapes[part][0];
    if (again.requires_grad()) backward(again, slice(gradient, 0, first, last));
    needs_gradient = needs_gradient || again.requires_grad();
    first = last;
  }
  require(needs_gradient, "cached_backward: the vectors of no part depend on any variable or parameter");
  return detach(value);
}

}  // namespace heddle::train
