// These tests let cuBLASLt refuse to run a product although its heuristic offered an algorithm, or to choose an
// algorithm. Only the PTX interpreter's cuBLASLt reads PTX_REFUSE; with another one, they compute ordinary products.
// Their shapes occur in no other test, because a plan is kept for each shape.
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

TEMPLATE_TEST_CASE("cuda products: numbers of rows within an eighth share an algorithm", "", float, bf16) {
  const auto check = [](Index rows, Index out) {
    const Inputs inputs{random<TestType>({rows, 23}, 1), random<TestType>({out, 23}, 2), random<TestType>({out}, 3)};
    expect_agrees<TestType>([](const auto& in) { return linear(in[0], in[1], in[2]); }, inputs);
  };
  for (const Index rows : {1, 16, 17, 18, 31, 32, 33, 35, 36, 257, 260, 287, 288, 289}) check(rows, 37);
  for (const char* what : {"check", "epilogue"}) {
    const Refusal refusal(what);
    for (const Index rows : {33, 34, 259}) check(rows, *what == 'c' ? 38 : 39);
  }
  if (!is_interpreted()) return;
  const auto weight = zeros<TestType>({41, 23}, Device::cuda);
  const auto multiply = [&](Index rows) { return linear(zeros<TestType>({rows, 23}, Device::cuda), weight); };
  multiply(290);
  const Refusal refusal("heuristic");
  for (const Index rows : {289, 290, 300, 319, 320}) CHECK_NOTHROW(multiply(rows));
  for (const Index rows : {288, 321})
    CHECK_THROWS_WITH(multiply(rows),
                      ContainsSubstring("cuBLASLt has no algorithm for a product of [" + std::to_string(rows) + ","));
}
