// The GPUs. They are alike, and their number is PTX_GPUS.
#pragma once

namespace heddle::ptx {

// The calling thread's GPU, which cudaSetDevice chooses.
extern thread_local int current_gpu;

}  // namespace heddle::ptx
