// The CUDA kernels of disentangled_bias against double, and against themselves with other schedules and other content
// of memory.
#include <heddle/ops/disentangled_bias.hpp>

#include "../harness/agreement.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// The distances beyond `most` share a column, and so do pairs of neighbouring distances.
auto gathered_bias(const Sequences& sequences, Index most) {
  const Index longest = sequences.extent();
  return [=](const auto& in) {
    const Device device = in[0].device();
    const auto column_of = [=](Index distance) { return (std::clamp(distance, -most, most) + most) / 2; };
    return disentangled_bias(in[0], in[1], DistanceColumns(longest, column_of, device), sequences.to(device), 0.3);
  };
}

template <class T>
Inputs products_of(const Sequences& sequences, Index most) {
  return {random<T>({2, sequences.rows(), most + 1}, 1), random<T>({2, sequences.rows(), most + 1}, 2)};
}

}  // namespace

TEMPLATE_TEST_CASE("cuda disentangled_bias: ragged and padded texts agree with double", "", float, bf16) {
  for (const Index most : {1, 8, 12})
    for (const auto& sequences :
         {Sequences::packed({15, 0, 1, 17}), Sequences::packed({33}), Sequences::padded({3, 14}, 14)}) {
      CAPTURE(most, sequences.lengths());
      expect_agrees<TestType>(gathered_bias(sequences, most), products_of<TestType>(sequences, most));
    }
}

TEMPLATE_TEST_CASE("cuda disentangled_bias: results do not depend on schedules or garbage in memory", "", float, bf16) {
  const auto sequences = Sequences::packed({19, 3});
  expect_same_always<TestType>(gathered_bias(sequences, 6), products_of<TestType>(sequences, 6));
}
