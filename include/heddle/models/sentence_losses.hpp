// Losses for training sentence encoders, with the names and defaults of sentence-transformers (Reimers and Gurevych
// 2019). A reranker needs no loss of its own: bce_with_logits(logits, labels) of its logits [B], before the sigmoid,
// and labels in [0, 1] is sentence-transformers' BinaryCrossEntropyLoss. All compute in the accumulator type (float for
// bf16) and round once.
#pragma once
#include <heddle/autograd/backward.hpp>
#include <heddle/ops/cross_entropy.hpp>
#include <heddle/ops/losses.hpp>
#include <heddle/ops/map.hpp>
#include <heddle/ops/matmul.hpp>

namespace heddle::models {

namespace detail {

// Checks that two operands hold B vectors each, [B, D]. Throws ShapeError, and Error for different devices.
inline void require_pairs(const char* op, Operand a, Operand b) {
  for (const Operand* o : {&a, &b}) require_rank(op, *o, 2);
  a.axis = b.axis = 0;
  require_same(op, "B", a, b);
  a.axis = b.axis = 1;
  require_same(op, "D", a, b);
}

}  // namespace detail

/// The option of multiple_negatives_ranking_loss.
struct MultipleNegativesRankingOptions {
  double temperature = 0.05;  ///< divides the cosines: 1 / scale of sentence-transformers, whose default scale is 20
};
/// Returns the mean cross-entropy of finding the positive of each anchor among all candidates of the batch, a scalar
/// []. Candidate b is the positive of anchor b; all others are its negatives. The logits are the cosines of an anchor
/// and all candidates, divided by the temperature. This is MultipleNegativesRankingLoss (Henderson et al. 2017), also
/// called InfoNCE (van den Oord et al. 2018) or in-batch negatives. For the symmetric loss, add the loss with anchors
/// and positives exchanged and halve the sum. A vector of zeros has a cosine of 0 and, as in PyTorch, a very large
/// gradient. The loss of no anchors is NaN. @throws ShapeError for other shapes, and Error for a temperature that is
/// not finite and positive, and for tensors on different devices.
template <Floating T>
Tensor<T> multiple_negatives_ranking_loss(
    const Tensor<T>& anchors,     // [B, D]
    const Tensor<T>& candidates,  // [N, D], N >= B: the positives, followed by any number of further negatives
    const MultipleNegativesRankingOptions& options = {}) {
  constexpr const char* op = "multiple_negatives_ranking_loss";
  require_rank(op, {"anchors", anchors}, 2);
  require_rank(op, {"candidates", candidates}, 2);
  require_same(op, "D", {"anchors", anchors, 1}, {"candidates", candidates, 1});
  const Index B = anchors.dim(0);
  require<ShapeError>(candidates.dim(0) >= B, op, ": candidates ", candidates.shape(),
                      " must have at least as many rows as anchors ", anchors.shape(),
                      "; row b is the positive of anchor b");
  require(options.temperature > 0 && std::isfinite(options.temperature), op,
          ": temperature must be finite and positive, got ", options.temperature);
  const auto directions = [](const Tensor<T>& x) { return normalize(cast<Acc<T>>(x)); };
  const Tensor<Acc<T>> logits =  // [B, N]; dividing the anchors, not the logits, saves a matrix of this size
      matmul(directions(anchors) * (1 / options.temperature), directions(candidates), {.transpose_b = true});
  return cast<T>(cross_entropy(logits, arange<Index>(B, anchors.device())));
}

/// A distance of two vectors.
enum class TripletDistance {
  euclidean,  ///< the length of their difference
  cosine      ///< 1 minus their cosine, in [0, 2]
};
/// The options of triplet_loss. The defaults are those of sentence-transformers' TripletLoss.
struct TripletOptions {
  TripletDistance distance = TripletDistance::euclidean;  ///< the distance
  double margin = 5;  ///< how much farther than its positive a negative must be; cosines need one well below 2
};
/// Returns the mean of max(d(anchor, positive) - d(anchor, negative) + margin, 0), a scalar [], for a distance d
/// (Schroff et al. 2015). The gradient of the Euclidean distance of two equal vectors is 0. The loss of no triplets is
/// NaN. @throws ShapeError for other shapes, and Error for a margin that is negative or not finite, and for tensors on
/// different devices.
template <Floating T>
Tensor<T> triplet_loss(const Tensor<T>& anchors,    // [B, D]
                       const Tensor<T>& positives,  // [B, D]
                       const Tensor<T>& negatives,  // [B, D]
                       const TripletOptions& options = {}) {
  detail::require_pairs("triplet_loss", {"anchors", anchors}, {"positives", positives});
  detail::require_pairs("triplet_loss", {"anchors", anchors}, {"negatives", negatives});
  heddle::detail::require_nonnegative("triplet_loss", "margin", options.margin);
  const Tensor<Acc<T>> a = cast<Acc<T>>(anchors);
  const auto distance = [&](const Tensor<T>& other) -> Tensor<Acc<T>> {  // [B]
    const Tensor<Acc<T>> b = cast<Acc<T>>(other);
    if (options.distance == TripletDistance::cosine) return 1 - cosine_similarity(a, b);
    return norm(a - b, 2, 1);
  };
  return cast<T>(mean(relu(distance(positives) - distance(negatives) + options.margin)));
}

/// Returns the mean squared difference of the cosine of each pair of vectors and its score, a scalar [], like
/// sentence-transformers' CosineSimilarityLoss. The loss of no pairs is NaN. @throws ShapeError for other shapes, and
/// Error for tensors on different devices.
template <Floating T>
Tensor<T> cosine_similarity_loss(const Tensor<T>& a,         // [B, D]
                                 const Tensor<T>& b,         // [B, D]
                                 const Tensor<T>& scores) {  // [B], the cosines to learn, in [-1, 1]
  detail::require_pairs("cosine_similarity_loss", {"a", a}, {"b", b});
  require_rank("cosine_similarity_loss", {"scores", scores}, 1);
  require_same("cosine_similarity_loss", "B", {"a", a, 0}, {"scores", scores, 0});
  return cast<T>(mse_loss(cosine_similarity(cast<Acc<T>>(a), cast<Acc<T>>(b)), cast<Acc<T>>(scores)));
}

}  // namespace heddle::models
