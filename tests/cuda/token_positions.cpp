// The CUDA kernel of token_positions against that of the CPU.
#include <heddle/ops/cast.hpp>
#include <heddle/ops/token_positions.hpp>

#include "../harness/compare.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

Tensor<int> ids_with_padding(Index N) {
  std::vector<int> ids;
  for (Index n = 0; n < N; ++n) ids.push_back(static_cast<int>(n * n % 7 == 2 ? 3 : n % 50));
  return Tensor<int>({N}, ids);
}

}  // namespace

TEST_CASE("cuda token_positions: sequences of all lengths have the positions of the CPU") {
  const auto check = [](const Sequences& sequences) {
    CAPTURE(sequences.rows(), sequences.count());
    const Tensor<int> ids = ids_with_padding(sequences.rows());
    CHECK(token_positions(ids.to(Device::cuda), sequences.to(Device::cuda), 3).host() ==
          token_positions(ids, sequences, 3).host());
  };
  for (const int length : {1, 31, 32, 33, 127, 128, 129, 1000}) {
    check(Sequences::packed({length}));
    check(Sequences::packed({3, length, 0, 1, length}));
    check(Sequences::padded({length, 0, length / 2}, length + 140));
  }
  check(Sequences::from_mask(cast<int>(Tensor<bool>({2, 300}, [] {
    std::vector<bool> mask(600, false);
    for (std::size_t n = 150; n < 290; ++n) mask[n] = mask[n + 290] = true;
    return mask;
  }()))));
}

TEST_CASE("cuda token_positions: results do not depend on schedules or garbage in memory") {
  const Sequences sequences = Sequences::packed({200, 5, 0, 130}).to(Device::cuda);
  const Tensor<int> ids = ids_with_padding(335).to(Device::cuda);
  expect_same_always([&] { return token_positions(ids, sequences, 3).host(); });
}
