// attention over texts of different lengths, with dropout and without.
#include "../attention.hpp"

#include "../bench.hpp"

namespace heddle::bench {
namespace {

const bool added = [] {
  for (const auto& [B, H, S, K] : {std::array<Index, 4>{8, 12, 128, 64}, {4, 12, 512, 64}, {32, 4, 38, 16}})
    for (const double dropout : {0.0, 0.1})
      for (const bool backward : {false, true}) {
        const AttentionCase c{B, H, K, S, 0.75, dropout, backward};
        add("attention/" + sizes({B, H, S, K}) + (dropout > 0 ? "/dropout" : "") +
                (backward ? "/forward_backward" : "/forward"),
            c.flops(), 0, [c] { return attention_call<float>(c); });
      }
  return true;
}();

}  // namespace
}  // namespace heddle::bench
