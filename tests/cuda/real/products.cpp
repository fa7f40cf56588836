// Products that cuBLASLt refuses to run although its heuristic offered an algorithm. Only the PTX interpreter's
// cuBLASLt reads PTX_REFUSE; with another one, these tests compute ordinary products. Their shapes occur in no other
// test, because a plan is kept for each shape.
#include <cuda_runtime.h>

#include <heddle/ops/linear.hpp>
#include <string_view>

#include "../../harness/agreement.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// A scope in which PTX_REFUSE has this value.
class Refusal {
 public:
  explicit Refusal(const char* what) { setenv("PTX_REFUSE", what, 1); }
  Refusal(const Refusal&) = delete;
  ~Refusal() { unsetenv("PTX_REFUSE"); }
};

bool is_interpreted() {
  cudaDeviceProp properties;
  return cudaGetDeviceProperties(&properties, 0) == cudaSuccess &&
         std::string_view(properties.name).find("PTX interpreter") != std::string_view::npos;
}

}  // namespace

TEMPLATE_TEST_CASE("cuda products: a refused epilogue is replaced by a pass of its own", "", float, bf16) {
  const Refusal refusal("epilogue");
  const Inputs inputs{random<TestType>({29, 13}, 1), random<TestType>({11, 13}, 2), random<TestType>({11}, 3)};
  for (int call = 0; call < 2; ++call)
    expect_agrees<TestType>([](const auto& in) { return linear(in[0], in[1], in[2]); }, inputs);
}

TEST_CASE("cuda products: the error of a refused product names its shape") {
  if (!is_interpreted()) return;
  const auto x = zeros<float>({3, 5}, Device::cuda), y = zeros<float>({19, 5}, Device::cuda);
  const Refusal refusal("all");
  CHECK_THROWS_WITH(linear(x, y),
                    "cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED for a product of [3, 5] and [5, 19] in float");
  CHECK_THROWS_WITH(
      linear(x, y, zeros<float>({19}, Device::cuda)),
      "cublasLtMatmul: CUBLAS_STATUS_NOT_SUPPORTED for a product of [3, 5] and [5, 19] in float with a bias");
}
