// linear at the shapes of BERT and of the sst2 encoder. GFLOP/s count the matrix product alone.
#include "../bench.hpp"

namespace heddle::bench {
namespace {

template <class T>
bool add_linear(const char* type, Index N, Index out, Index in) {
  return add("linear/" + std::string(type) + '/' + sizes({N, out, in}), 2.0 * static_cast<double>(N * out * in), 0,
             [=] {
               const auto as = [](const Tensor<float>& x) { return cast<T>(x); };
               return [x = as(normal({N, in})), weight = as(normal({out, in})), bias = as(normal({out}))] {
                 const NoGrad quiet;
                 benchmark::DoNotOptimize(linear(x, weight, bias).device_data());
               };
             });
}

const bool added = [] {
  for (const auto& [N, out, in] :
       {std::array<Index, 3>{4096, 768, 768}, {4096, 3072, 768}, {448, 64, 64}, {448, 256, 64}}) {
    add_linear<float>("fp32", N, out, in);
    add_linear<bf16>("bf16", N, out, in);
  }
  return true;
}();

}  // namespace
}  // namespace heddle::bench
