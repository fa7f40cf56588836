// Limits above which the work of a launch is divided into parts. Tests lower them, so that small shapes have
// several parts.
#pragma once
#include <heddle/base/build.hpp>

namespace heddle::cuda {

struct Limits {
  Index attention_scores = Index{1} << 26;  // scores of wide heads in memory at a time, unless one head has more
  Index loss_blocks = 1024;                 // blocks of cross_entropy's forward: several for each multiprocessor
  Index norm_blocks = 256;                  // blocks of a norm's backward: about two for each multiprocessor
  Index norm_forward_blocks = 65536;        // blocks of a norm's forward: as many as fit on the GPU at once, if fewer
  Index id_blocks = 256;                    // blocks of check_ids: one with an invalid id reads all earlier ids, so few
  Index scanned_ids = 4096;                 // ids whose occurrences sum_taken_rows finds without a sort, at most 4096
  Index gradient_column_blocks = 65535;     // blocks that share the columns of sum_taken_rows: a grid's y dimension
  Index head_blocks = 65535;                // blocks that share the heads of attention: a grid's y dimension
  Index range_blocks = Index{1} << 12;      // blocks that copy one range of rows
  Index reduce_blocks = 1024;               // blocks of a reduction whose axis is split into pieces
  std::size_t pitch = 0x7fffffff;           // bytes from one row to the next that cudaMemcpy2DAsync accepts
  // The fewest heads for which attention's backward gives each a block. -1: it decides by the GPU and the lengths.
  Index block_heads = -1;
};
// Not synchronized: only tests change it, while no other thread calls an operation.
inline Limits limits;

}  // namespace heddle::cuda
