// A partition of a matrix into vectors that each lie in one row. A thread owns one vector.
#pragma once
#include "access.cuh"
#include "launch.cuh"

namespace heddle::cuda {

// Returns the number of vectors of a row.
HEDDLE_HD inline int vectors_of_row(Index columns, int width) {
  return static_cast<int>((columns + width - 1) / width);
}

// The vector of a thread.
template <int width>
struct RowVector {
  Index row, column;  // of its first element
  int count;          // the number of its elements: fewer at the end of a row, and 0 or less behind the last row

  __device__ RowVector(Index rows, Index columns) {
    // A division of 64 bits for the block, and one of 32 bits for the thread.
    const int of_row = vectors_of_row(columns, width);
    const Index of_block = Index{blockIdx.x} * blockDim.x, first_row = of_block / of_row;
    const int vector = static_cast<int>(of_block - first_row * of_row) + static_cast<int>(threadIdx.x);
    row = first_row + vector / of_row;
    column = Index{vector % of_row} * width;
    const Index left = row < rows ? columns - column : 0;
    count = static_cast<int>(left < width ? left : width);
  }
};

// Returns the blocks of `threads` that own a matrix.
template <int width>
unsigned row_vector_blocks(Index rows, Index columns, int threads) {
  return blocks_for(rows * vectors_of_row(columns, width), threads);
}

// Returns whether the vectors of rows of `columns` elements, from these addresses on, are whole and aligned.
template <int width, class... T>
bool have_row_vectors(Index columns, const T*... rows) {
  return columns % width == 0 && aligned<width>(rows...);
}

}  // namespace heddle::cuda
