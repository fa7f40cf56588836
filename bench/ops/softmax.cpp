#include "../bench.hpp"

namespace heddle::bench {
namespace {

const bool added = [] {
  for (const auto& [N, D] : {std::pair<Index, Index>{4096, 768}, {16384, 64}})
    add_forward_and_backward("softmax", N, D, 2, [](const Tensor<float>& x) { return softmax(x, -1); });
  return true;
}();

}  // namespace
}  // namespace heddle::bench
