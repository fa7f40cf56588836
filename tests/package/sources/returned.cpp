// Two halves of a program, to be compiled with different settings: -DCALLEE gives the function that the other half
// calls. Its symbol does not name the build.
#include <heddle/core/tensor.hpp>

heddle::Tensor<float> two_elements();

#ifdef CALLEE
heddle::Tensor<float> two_elements() { return heddle::Tensor<float>({2}); }
#else
int main() { return static_cast<int>(two_elements().size()) - 2; }
#endif
