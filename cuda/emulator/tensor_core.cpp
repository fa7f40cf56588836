#include "tensor_core.hpp"

#include <bit>

namespace heddle::emulator {
namespace {

constexpr int lanes = 32, first_b = 4, first_c = 6;  // words of Registers

float low(std::uint32_t pair) { return std::bit_cast<float>(pair << 16); }
float high(std::uint32_t pair) { return std::bit_cast<float>(pair & 0xffff0000u); }
float tf32(std::uint32_t word) { return std::bit_cast<float>(word & 0xffffe000u); }

// Computes d = a b + c. Word i of lane l of c and d is in row l / 4, plus 8 for words 2 and 3, and in column 2 (l % 4)
// + i % 2.
template <int k>
void multiply(const float (&a)[16][k], const float (&b)[k][8], const Fragments& in, Fragments& out) {
  for (int lane = 0; lane < lanes; ++lane)
    for (int i = 0; i < 4; ++i) {
      const int row = lane / 4 + i / 2 * 8, column = lane % 4 * 2 + i % 2;
      float sum = std::bit_cast<float>(in.lane[lane].word[first_c + i]);
      for (int j = 0; j < k; ++j) sum += a[row][j] * b[j][column];
      out.lane[lane].word[i] = std::bit_cast<std::uint32_t>(sum);
    }
}

}  // namespace

void multiply_bf16(const Fragments& in, Fragments& out) {
  float a[16][16], b[16][8];
  for (int lane = 0; lane < lanes; ++lane) {
    const std::uint32_t* const word = in.lane[lane].word;
    const int row = lane / 4, pair = lane % 4 * 2;
    for (int i = 0; i < 4; ++i) {
      a[row + i % 2 * 8][pair + i / 2 * 8] = low(word[i]);
      a[row + i % 2 * 8][pair + i / 2 * 8 + 1] = high(word[i]);
    }
    for (int i = 0; i < 2; ++i) {
      b[pair + i * 8][row] = low(word[first_b + i]);
      b[pair + i * 8 + 1][row] = high(word[first_b + i]);
    }
  }
  multiply(a, b, in, out);
}

void multiply_tf32(const Fragments& in, Fragments& out) {
  float a[16][8], b[8][8];
  for (int lane = 0; lane < lanes; ++lane) {
    const std::uint32_t* const word = in.lane[lane].word;
    const int row = lane / 4, column = lane % 4;
    for (int i = 0; i < 4; ++i) a[row + i % 2 * 8][column + i / 2 * 4] = tf32(word[i]);
    for (int i = 0; i < 2; ++i) b[column + i * 4][row] = tf32(word[first_b + i]);
  }
  multiply(a, b, in, out);
}

void distribute_rows(const Fragments& in, Fragments& out) {
  for (int lane = 0; lane < lanes; ++lane)
    for (int matrix = 0; matrix < 4; ++matrix)
      out.lane[lane].word[matrix] = in.lane[matrix * 8 + lane / 4].word[lane % 4];
}

void distribute_columns(const Fragments& in, Fragments& out) {
  const auto element = [&](int matrix, int row, int column) {
    return in.lane[matrix * 8 + row].word[column / 2] >> (column % 2 * 16) & 0xffffu;
  };
  for (int lane = 0; lane < lanes; ++lane)
    for (int matrix = 0; matrix < 4; ++matrix) {
      const int row = lane % 4 * 2, column = lane / 4;
      out.lane[lane].word[matrix] = element(matrix, row, column) | element(matrix, row + 1, column) << 16;
    }
}

}  // namespace heddle::emulator
