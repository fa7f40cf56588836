#include "../bench.hpp"

namespace heddle::bench {
namespace {

const bool added = [] {
  for (const auto& [N, D] : {std::pair<Index, Index>{4096, 768}, {16384, 64}})
    add_forward_and_backward("layer_norm", N, D, 2,
                             [gamma = variable(ones<float>({D})), beta = variable(zeros<float>({D}))](
                                 const Tensor<float>& x) { return layer_norm(x, gamma, beta, 1e-5); });
  return true;
}();

}  // namespace
}  // namespace heddle::bench
