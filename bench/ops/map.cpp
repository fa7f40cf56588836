// gelu, as an example of the elementwise functions in ops/map.hpp.
#include "../bench.hpp"

namespace heddle::bench {
namespace {

const bool added = [] {
  for (const auto& [N, D] : {std::pair<Index, Index>{4096, 768}, {16384, 64}})
    add_forward_and_backward("gelu", N, D, 2, [](const Tensor<float>& x) { return gelu(x); });
  return true;
}();

}  // namespace
}  // namespace heddle::bench
