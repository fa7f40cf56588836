// Computes on the GPU if there is one, and otherwise reports that there is none.
#include <cstdio>
#include <heddle/heddle.hpp>

using namespace heddle;

int main() {
  const std::string why = cuda::unavailable();
  if (!why.empty()) {
    std::printf("no GPU to compute on: %s\n", why.c_str());
    return 0;
  }
  const auto x = arange<float>(4).to(Device::cuda);
  return sum(x * x).item() == 14 ? 0 : 1;
}
