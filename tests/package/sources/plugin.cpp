// A library that computes on several threads, to be loaded and unloaded by plugin_host.cpp.
#include <heddle/heddle.hpp>

using namespace heddle;

extern "C" [[gnu::visibility("default")]] float compute() {
  Random random(1);
  const nn::Linear<> layer(64, 64, random);
  backward(sum(layer(randn<float>({2000, 64}, random))));
  return layer.weight.value().grad()(0, 0);
}
