// A map with random weights, queries and keys.
#pragma once
#include <heddle/heddle.hpp>
#include <heddle/view/attention_map.hpp>

namespace heddle::testing {

inline pictures::AttentionMap example_map(Index layers, Index heads, Index tokens, Index width) {
  pictures::AttentionMap map;
  Random random(7);
  for (Index n = 0; n < tokens; ++n)
    map.tokens.push_back(n == 0 ? "[CLS]" : n + 1 == tokens ? "[SEP]" : "token" + std::to_string(n));
  for (Index l = 0; l < layers; ++l)
    map.layers.push_back({softmax(randn<float>({heads, tokens, tokens}, random), -1),
                          randn<float>({tokens, heads * width}, random),
                          randn<float>({tokens, heads * width}, random)});
  map.texts = {"a text"};
  return map;
}

}  // namespace heddle::testing
