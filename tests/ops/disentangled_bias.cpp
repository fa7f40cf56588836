#include <heddle/ops/disentangled_bias.hpp>
#include <heddle/ops/slice.hpp>

#include "harness/agreement.hpp"
#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Distances beyond 3 share the ends of the table.
Index clamped_column(Index distance) { return std::clamp<Index>(distance, -3, 3) + 3; }

auto bias_of(const Sequences& sequences, double scale) {
  const Index longest = sequences.extent();
  return [=](const auto& in) {
    const Device device = in[0].device();
    return disentangled_bias(in[0], in[1], DistanceColumns(longest, clamped_column, device), sequences.to(device),
                             scale);
  };
}
Index columns_of(Index longest) { return 2 * std::min<Index>(longest - 1, 3) + 1; }

}  // namespace

TEST_CASE("DistanceColumns: columns begin at 0, and some have no distance") {
  const DistanceColumns columns(3, [](Index distance) { return 10 + (distance < 0 ? distance : 3 * distance); });
  CHECK(columns.of_distance.host() == std::vector<int>{0, 1, 2, 5, 8});
  CHECK(columns.first.host() == std::vector<int>{0, 1, 2, 3, 3, 3, 4, 4, 4, 5});
  CHECK(std::tuple(columns.offset, columns.longest(), columns.count()) == std::tuple(8, 3, 9));
  const DistanceColumns one(1, clamped_column);
  CHECK(std::tuple(one.offset, one.longest(), one.count()) == std::tuple(3, 1, 1));
  CHECK_THROWS_WITH(DistanceColumns(0, clamped_column), "DistanceColumns: T must be at least 1, got 0");
  CHECK_THROWS_WITH(DistanceColumns(2, [](Index distance) { return -distance; }),
                    "DistanceColumns: the column of distance 0 is smaller than that of -1");
}

TEST_CASE("disentangled_bias: worked by hand") {
  // One head, a text of two rows and one of one row; three distances.
  const Tensor<double> a({1, 3, 3}, {1, 2, 3, 4, 5, 6, 7, 8, 9}), z({1, 3, 3}, {10, 20, 30, 40, 50, 60, 70, 80, 90});
  const auto y = bias_of(Sequences::packed({2, 1}), 0.5)(std::vector{a, z});
  REQUIRE(y.shape() == Shape({2, 1, 2, 2}));
  CHECK(y.host() == std::vector<double>{(2 + 20) / 2.0, (1 + 40) / 2.0, (6 + 30) / 2.0, (5 + 50) / 2.0,  //
                                        (8 + 80) / 2.0, 0, 0, 0});
}

TEST_CASE("disentangled_bias: values and gradients are PyTorch's") {
  for (const Case& c : golden("disentangled_bias")) {
    INFO(c.label);
    const Sequences sequences = Sequences::packed(c["length"].as<int>());
    const auto most = static_cast<Index>(c.option("most"));
    const auto f = [=](const auto& in) {
      const auto column_of = [=](Index distance) { return std::clamp(distance, -most, most); };
      const DistanceColumns columns(sequences.longest(), column_of, in[0].device());
      const Index first = columns.offset + most;  // of the columns that these texts use
      return disentangled_bias(slice(in[0], 2, first, first + columns.count()),
                               slice(in[1], 2, first, first + columns.count()), columns, sequences.to(in[0].device()),
                               1 / std::sqrt(24.0));
    };
    expect_case<double>(c, {"a", "z"}, f, 1e-14);
    expect_case<float>(c, {"a", "z"}, f, 1e-6);
    expect_case<bf16>(c, {"a", "z"}, f, 0x1p-7);
  }
}

TEST_CASE("disentangled_bias: gradients match finite differences") {
  for (const auto& sequences : {Sequences::packed({3, 0, 6}), Sequences::packed({1}), Sequences::padded({2, 4}, 5)}) {
    const Index R = columns_of(sequences.extent());
    expect_gradients(bias_of(sequences, 0.7),
                     {random({2, sequences.rows(), R}, 1), random({2, sequences.rows(), R}, 2)});
  }
}

TEST_CASE("disentangled_bias: float and bf16 agree with double on every device") {
  for (const auto& sequences : {Sequences::packed({31, 1, 0, 33}), Sequences::padded({257, 0}, 257)}) {
    const Index N = sequences.rows();
    expect_agrees<float>(bias_of(sequences, 0.3), {random<float>({3, N, 7}, 1), random<float>({3, N, 7}, 2)});
    expect_agrees<bf16>(bias_of(sequences, 0.3), {random<bf16>({3, N, 7}, 1), random<bf16>({3, N, 7}, 2)});
  }
}

TEST_CASE("disentangled_bias: errors") {
  const auto run = [](const Shape& a, const Shape& z, Index longest, const Sequences& sequences, double scale = 1) {
    disentangled_bias(zeros<float>(a), zeros<float>(z), DistanceColumns(longest, clamped_column), sequences, scale);
  };
  const auto two = Sequences::packed({2});
  CHECK_THROWS_WITH(
      run({1, 2, 3}, {1, 2, 4}, 2, two),
      "disentangled_bias: content_to_position [1, 2, 3] and position_to_content [1, 2, 4] must have the same shape");
  CHECK_THROWS_WITH(run({1, 3, 3}, {1, 3, 3}, 2, two),
                    "disentangled_bias: the products must be [H, 2, 3] for these sequences and columns, got [1, 3, 3]");
  CHECK_THROWS_WITH(run({1, 2, 5}, {1, 2, 5}, 3, two),
                    "disentangled_bias: the columns are those of 3 rows; the sequences have 2");
  CHECK_THROWS_AS(run({2, 3}, {2, 3}, 2, two), ShapeError);
  CHECK_THROWS_AS(run({1, 2, 3}, {1, 2, 3}, 2, two, infinity<double>), Error);
}
