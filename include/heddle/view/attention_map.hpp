// The attention of a model on one text, as pictures and files show it.
#pragma once
#include <algorithm>
#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include <heddle/core/tensor.hpp>

namespace heddle::pictures {

/// The attention of one layer of H heads on a text of T tokens.
struct LayerAttention {
  Tensor<float> weights;       ///< [H, T, T] or [1, H, T, T]: a row of weights per head and query; the row is zero
                               ///< if the query sees no key
  Tensor<float> queries = {};  ///< [T, H * K], from which the scores follow; may be empty
  Tensor<float> keys = {};     ///< [T, H * K]; empty if there are no queries
};

/// The attention of a model on one text, or on a pair of texts.
struct AttentionMap {
  std::vector<std::string> tokens;      ///< the T tokens, in UTF-8
  std::vector<LayerAttention> layers;   ///< the layers, each of H heads
  Index second = 0;                     ///< the first token of the second text; 0 if there is one text
  std::vector<std::string> texts = {};  ///< the text, or both texts, for the heading of a page
  std::string title = "Attention";      ///< the title of pages and pictures
  double scale = 0;                     ///< factor of the products of queries and keys; 0 stands for 1 / sqrt(K)
};

namespace detail {

// The values of a map in host memory, checked. Indices: layer l, head h, query i, key j.
class CheckedMap {
 public:
  explicit CheckedMap(const AttentionMap& map) : map_(map) {
    T_ = static_cast<Index>(map.tokens.size());
    require<ShapeError>(!map.layers.empty() && T_ > 0, "AttentionMap: has ", map.layers.size(), " layers and ", T_,
                        " tokens; it needs at least one of each");
    require<ShapeError>(map.second >= 0 && map.second < T_, "AttentionMap: 'second' is ", map.second,
                        " but must be from 0 to ", T_ - 1, " for ", T_, " tokens");
    const Shape& first = map.layers[0].weights.shape();
    H_ = first.rank() >= 3 ? first[first.rank() - 3] : 0;
    for (std::size_t l = 0; l < map.layers.size(); ++l) {
      const LayerAttention& layer = map.layers[l];
      const Shape& shape = layer.weights.shape();
      require<ShapeError>(H_ > 0 && (shape == Shape{H_, T_, T_} || shape == Shape{1, H_, T_, T_}),
                          "AttentionMap: the weights of layer ", l, " have the shape ", shape, "; they must be ",
                          Shape{std::max<Index>(H_, 1), T_, T_}, " for ", T_, " tokens");
      weights_.push_back(layer.weights.host());
      constexpr float most = 1.001f;  // 1, with a tolerance for rounding
      for (const float p : weights_.back())
        require(p >= 0 && p <= most, "AttentionMap: a weight of layer ", l, " is ", p, " but must be from 0 to 1");
    }
    require(std::isfinite(map.scale) && map.scale >= 0, "AttentionMap: 'scale' is ", map.scale,
            " but must be at least 0 and finite");
    read_vectors();
  }

  Index T() const { return T_; }
  Index H() const { return H_; }
  Index L() const { return std::ssize(weights_); }
  // Returns the width of a head's queries and keys; 0 if the map has none.
  Index K() const { return K_; }
  double scale() const { return map_.scale > 0 ? map_.scale : K_ > 0 ? 1 / std::sqrt(static_cast<double>(K_)) : 1; }
  const AttentionMap& map() const { return map_; }

  float weight(Index l, Index h, Index i, Index j) const { return row(l, h, i)[j]; }
  const float* row(Index l, Index h, Index i) const {
    return weights_[static_cast<std::size_t>(l)].data() + (h * T_ + i) * T_;
  }
  // Return the K values of a token's query or key in one head.
  const float* query(Index l, Index h, Index i) const { return at(queries_, l, h, i); }
  const float* key(Index l, Index h, Index i) const { return at(keys_, l, h, i); }

  void require_head(Index layer, Index head) const {
    require<IndexError>(layer >= 0 && layer < L(), "AttentionMap: layer ", layer, " is out of range [0, ", L(), ')');
    require<IndexError>(head >= 0 && head < H(), "AttentionMap: head ", head, " is out of range [0, ", H(), ')');
  }

 private:
  void read_vectors() {
    const bool given = map_.layers[0].queries.has_data();
    for (std::size_t l = 0; l < map_.layers.size(); ++l) {
      const LayerAttention& layer = map_.layers[l];
      require<ShapeError>(layer.queries.has_data() == given && layer.keys.has_data() == given,
                          "AttentionMap: all layers must have queries and keys, or none; layer ", l, " differs");
      if (!given) continue;
      const Shape &q = layer.queries.shape(), &k = layer.keys.shape();
      if (l == 0 && q.rank() == 2) K_ = q[1] / H_;
      require<ShapeError>(K_ > 0 && q == Shape({T_, H_ * K_}) && k == q, "AttentionMap: layer ", l, " has queries ", q,
                          " and keys ", k, "; both must be [T, H * K] with T = ", T_, " and H = ", H_,
                          ", the same in all layers");
      queries_.push_back(layer.queries.host());
      keys_.push_back(layer.keys.host());
      for (const std::vector<float>* values : {&queries_.back(), &keys_.back()})
        require(std::all_of(values->begin(), values->end(), [](float v) { return std::isfinite(v); }),
                "AttentionMap: a query or key of layer ", l, " is not finite");
    }
  }
  const float* at(const std::vector<std::vector<float>>& rows, Index l, Index h, Index i) const {
    return rows[static_cast<std::size_t>(l)].data() + (i * H_ + h) * K_;
  }

  const AttentionMap& map_;
  Index T_ = 0, H_ = 0, K_ = 0;
  std::vector<std::vector<float>> weights_, queries_, keys_;
};

}  // namespace detail
}  // namespace heddle::pictures
