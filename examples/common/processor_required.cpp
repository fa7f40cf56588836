// The instruction sets that the compiler may use in the programs. This file is compiled with the flags of the programs.
#include "processor.hpp"

namespace heddle::examples {

const unsigned required_instructions = 0
#ifdef __AVX__
                                       | 1U << 0
#endif
#ifdef __AVX2__
                                       | 1U << 1
#endif
#ifdef __FMA__
                                       | 1U << 2
#endif
#ifdef __AVX512F__
                                       | 1U << 3
#endif
#ifdef __AVX512BW__
                                       | 1U << 4
#endif
#ifdef __AVX512VL__
                                       | 1U << 5
#endif
#ifdef __AVX512VNNI__
                                       | 1U << 6
#endif
#ifdef __AVX512BF16__
                                       | 1U << 7
#endif
    ;

}  // namespace heddle::examples
