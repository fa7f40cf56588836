// Two halves of a program, to be compiled with different settings: -DCALLEE gives the function that the
// other half calls.
#include <heddle/core/tensor.hpp>

heddle::Index size_of(const heddle::Tensor<float>& x);

#ifdef CALLEE
heddle::Index size_of(const heddle::Tensor<float>& x) { return x.size(); }
#else
int main() { return static_cast<int>(size_of(heddle::Tensor<float>({2}))) - 2; }
#endif
