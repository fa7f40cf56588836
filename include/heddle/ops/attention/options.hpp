// The options of attention.
#pragma once
#include <limits>
#include <optional>

#include <heddle/base/random.hpp>
#include <heddle/core/sequences.hpp>

namespace heddle {

/// The options of attention and attention_weights.
template <class T>
struct AttentionOptions {
  Index heads = 1;                   ///< number of heads
  std::optional<double> scale = {};  ///< 1 / sqrt(K) if not given
  bool causal = false;               ///< query i sees keys 0 to i
  /// Query i sees keys i - window to i + window, and with `causal` those up to i.
  Index window = std::numeric_limits<Index>::max();
  double dropout = 0;               ///< the dropout probability; active if and only if `random` is given
  Random* random = nullptr;         ///< generator of the dropout mask
  Tensor<bool> mask = {};           ///< [B or 1, H or 1, Tq or 1, Tk] true where a query may see a key
  Tensor<T> bias = {};              ///< the same axes; added to the scaled scores; -infinity masks
  const Sequences* keys = nullptr;  ///< the sequences of k and v, if they differ from those of q
};

}  // namespace heddle
