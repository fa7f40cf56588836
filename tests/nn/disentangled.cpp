// The disentangled attention of DeBERTa, and its embeddings of distances.
#include <heddle/heddle.hpp>

#include "../harness/parameter_gradients.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

const Sequences texts_of_three = Sequences::packed({3, 1, 5});

struct Disentangled {
  nn::MultiHeadAttention<double> attention;
  nn::DistanceEmbeddings<double> distances;
  static void visit(auto& self, auto&& f) {
    f("attention", self.attention);
    f("distances", self.distances);
  }
};

// Returns rows of embeddings that are all different.
nn::DistanceEmbeddings<double> drawn_distances(Index buckets, Index greatest) {
  nn::DistanceEmbeddings<double> distances(buckets, greatest, 8, 1e-7, true);
  distances.weight.assign(random<double>(distances.weight.shape(), 5));
  return distances;
}

// Returns the probabilities [H, L, L] of a text of L rows, computed from their definition.
std::vector<double> defined_weights(const Tensor<double>& products, const Tensor<double>& positions,
                                    const nn::DistanceEmbeddings<double>& distances, Index offset, Index begin,
                                    Index L) {
  constexpr Index H = 2, K = 4;
  std::vector<double> weights;
  for (Index h = 0; h < H; ++h)
    for (Index i = 0; i < L; ++i) {
      std::vector<double> scores;
      for (Index j = 0; j < L; ++j) {
        const Index row = distances.row_of(i - j) - offset;
        double score = 0;
        for (Index k = h * K; k < (h + 1) * K; ++k) {
          const double query = products(begin + i, k), key = products(begin + j, H * K + k);
          score += query * key + query * positions(row, H * K + k) + key * positions(row, k);
        }
        scores.push_back(std::exp(score / std::sqrt(3.0 * K)));
      }
      double sum = 0;
      for (const double score : scores) sum += score;
      for (const double score : scores) weights.push_back(score / sum);
    }
  return weights;
}

}  // namespace

TEST_CASE("nn: buckets of distances grow as the logarithm, and the last ones share the ends of the table") {
  const nn::DistanceEmbeddings<> distances(8, 26, 4, 1e-7, false);  // rows of transformers 5.24
  std::vector<Index> rows;
  for (const Index distance : {-40, -26, -25, -14, -13, -8, -7, -5, -4, -1, 0, 1, 4, 5, 7, 8, 13, 14, 25, 26, 40})
    rows.push_back(distances.row_of(distance));
  CHECK(rows == std::vector<Index>{0, 0, 1, 1, 2, 2, 3, 3, 4, 7, 8, 9, 12, 13, 13, 14, 14, 15, 15, 15, 15});
  const nn::DistanceEmbeddings<> each(0, 3, 4, 1e-7, false);
  for (Index distance = -5; distance <= 5; ++distance)
    CHECK(each.row_of(distance) == std::clamp<Index>(distance, -3, 2) + 3);

  CHECK_THROWS_WITH(nn::DistanceEmbeddings<>(7, 26, 4, 1e-7, false),
                    "DistanceEmbeddings: buckets must be 0 or even and from 4 to 2^29, got 7");
  CHECK_THROWS_WITH(nn::DistanceEmbeddings<>(8, 5, 4, 1e-7, false),
                    "DistanceEmbeddings: greatest must be in [6, 2^29), got 5");
  CHECK_THROWS_AS(nn::DistanceEmbeddings<>(0, 0, 4, 1e-7, false), ShapeError);
  CHECK_THROWS_AS(nn::DistanceEmbeddings<>(8, 26, 0, 1e-7, false), ShapeError);
  CHECK_THROWS_AS(nn::DistanceEmbeddings<>(8, 26, 4, -1, true), Error);
  CHECK_THROWS_AS(distances(Sequences::packed({0})), ShapeError);
}

TEST_CASE("nn: disentangled attention adds the products with embeddings of distances to the scores") {
  Random random_weights(1);
  const nn::MultiHeadAttention<double> attention(8, 2, random_weights);
  const auto distances = drawn_distances(4, 5);
  const Tensor<double> x = random<double>({9, 8}, 1), products = attention.qkv(x);
  const nn::DistanceRows<double> rows = distances(texts_of_three);
  const Tensor<double> positions = attention.qkv(rows.rows);

  const auto record = attention.record(x, texts_of_three, {}, {}, &rows);
  REQUIRE(record.weights.shape() == Shape({3, 2, 5, 5}));
  std::vector<double> y;
  for (Index b = 0; b < 3; ++b) {
    const Index begin = texts_of_three.begins()[static_cast<std::size_t>(b)],
                L = texts_of_three.lengths()[static_cast<std::size_t>(b)];
    const auto expected = defined_weights(products, positions, distances, rows.columns.offset, begin, L);
    std::vector<double> attended(static_cast<std::size_t>(L * 8));
    for (Index h = 0; h < 2; ++h)
      for (Index i = 0; i < L; ++i)
        for (Index j = 0; j < L; ++j) {
          const double weight = expected[static_cast<std::size_t>((h * L + i) * L + j)];
          CHECK(record.weights(b, h, i, j) == Approx(weight).epsilon(1e-12));
          for (Index k = h * 4; k < h * 4 + 4; ++k)
            attended[static_cast<std::size_t>(i * 8 + k)] += weight * products(begin + j, 16 + k);
        }
    const std::vector<double> out = attention.out(Tensor<double>({L, 8}, attended)).host();
    y.insert(y.end(), out.begin(), out.end());
  }
  expect_close(attention.disentangled(x, texts_of_three, rows).host(), y, [](double) { return 1e-13; });

  const Sequences padded = Sequences::padded({3, 1, 5}, 5);
  const auto z = attention.disentangled(unpack(x, texts_of_three), padded, distances(padded));
  REQUIRE(z.shape() == Shape({3, 5, 8}));
  expect_close(pack(z, padded).host(), y, [](double) { return 1e-13; });
}

TEST_CASE("nn: gradients of disentangled attention match finite differences") {
  Random random_weights(1);
  Disentangled model{nn::MultiHeadAttention<double>(8, 2, random_weights), drawn_distances(4, 5)};
  const auto run = [&](const Tensor<double>& x) {
    return model.attention.disentangled(x, texts_of_three, model.distances(texts_of_three));
  };
  const Tensor<double> x = random<double>({9, 8}, 1);
  expect_gradients([&](const Inputs& in) { return run(in[0]); }, {x}, 1e-6);
  expect_parameter_gradients(model, [&] { return run(x); });
}

TEST_CASE("nn: disentangled attention has its own scale and bias, and distances of its sequences") {
  Random random_weights(1);
  const nn::MultiHeadAttention<> attention(8, 2, random_weights);
  const nn::DistanceEmbeddings<> distances(4, 5, 8, 1e-7, true);
  const Tensor<float> x = zeros<float>({9, 8});
  CHECK_THROWS_WITH(attention.disentangled(x, texts_of_three, distances(texts_of_three), {.scale = 1.0}),
                    "MultiHeadAttention: disentangled attention has its own scale and bias");
  CHECK_THROWS_WITH(attention.disentangled(x, texts_of_three, distances(Sequences::packed({4}))),
                    "disentangled_bias: the columns are those of 4 rows; the sequences have 5");
}
