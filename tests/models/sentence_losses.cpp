#include <heddle/models/sentence_losses.hpp>

#include "harness/golden.hpp"
#include "harness/gradients.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::cosine_similarity_loss;
using models::multiple_negatives_ranking_loss;
using models::triplet_loss;
using models::TripletDistance;

namespace {

constexpr const char* losses_file = "sentence_losses.txt";

TripletDistance distance_of(const Case& c) {
  return c.word("distance") == "cosine" ? TripletDistance::cosine : TripletDistance::euclidean;
}

}  // namespace

TEST_CASE("models: losses of sentences equal those of sentence-transformers") {
  expect_golden(golden("multiple_negatives_ranking_loss", losses_file), {"anchors", "candidates"},
                [](const Case& c, const auto& in) {
                  return multiple_negatives_ranking_loss(in[0], in[1], {.temperature = c.option("temperature")});
                });
  expect_golden(golden("triplet_loss", losses_file), {"anchors", "positives", "negatives"},
                [](const Case& c, const auto& in) {
                  return triplet_loss(in[0], in[1], in[2], {.distance = distance_of(c), .margin = c.option("margin")});
                });
  expect_golden(golden("cosine_similarity_loss", losses_file), {"a", "b"},
                []<class T>(const Case& c, const std::vector<Tensor<T>>& in) {
                  return cosine_similarity_loss(in[0], in[1], golden_tensor<T>(c, "scores", in[0].device()));
                });
}

TEST_CASE("models::multiple_negatives_ranking_loss: worked by hand") {
  on_each_device<float>([](Device device) {
    const auto anchors = Tensor<float>({2, 2}, {1, 0, 0, 2}).to(device),
               positives = Tensor<float>({2, 2}, {3, 0, 0, 1}).to(device),
               candidates = Tensor<float>({3, 2}, {3, 0, 0, 1, 5, 5}).to(device);
    const double cosine = std::sqrt(0.5);
    CHECK(multiple_negatives_ranking_loss(anchors, positives).item() == Approx(0).margin(1e-6));  // log(1 + e^-20)
    CHECK(multiple_negatives_ranking_loss(anchors, positives, {.temperature = 1}).item() ==
          Approx(std::log1p(std::exp(-1))));
    CHECK(multiple_negatives_ranking_loss(anchors, candidates, {.temperature = 1}).item() ==
          Approx(std::log(1 + std::exp(-1) + std::exp(cosine - 1))));
    // Rows that are exchanged make each positive a negative.
    const auto exchanged = Tensor<float>({2, 2}, {0, 1, 3, 0}).to(device);
    CHECK(multiple_negatives_ranking_loss(anchors, exchanged).item() == Approx(20));
    // All cosines with a vector of zeros are 0.
    CHECK(multiple_negatives_ranking_loss(zeros<float>({1, 2}, device), candidates).item() == Approx(std::log(3.)));
  });
  CHECK(std::isnan(multiple_negatives_ranking_loss(zeros<float>({0, 2}), zeros<float>({3, 2})).item()));
  CHECK(std::isnan(multiple_negatives_ranking_loss(zeros<float>({0, 2}), zeros<float>({0, 2})).item()));
}

TEST_CASE("models::triplet_loss: worked by hand") {
  on_each_device<float>([](Device device) {
    const auto a = variable(Tensor<float>({2, 2}, {0, 0, 1, 1}).to(device)),
               p = variable(Tensor<float>({2, 2}, {3, 4, 1, 1}).to(device)),
               n = variable(Tensor<float>({2, 2}, {0, 1, 7, 9}).to(device));
    const auto loss = triplet_loss(a, p, n);
    CHECK(loss.item() == (9.f + 0) / 2);
    backward(loss);
    CHECK(p.grad().host() == std::vector<float>{0.3f, 0.4f, 0, 0});
    CHECK(n.grad().host() == std::vector<float>{0, -0.5f, 0, 0});
    CHECK(triplet_loss(a, p, n, {.margin = 6}).item() == (10.f + 0) / 2);
    CHECK(triplet_loss(a, p, n, {.margin = 11}).item() == (15.f + 1) / 2);
    // The cosines are 0 and 1, and those of a vector of zeros are 0.
    const auto x = Tensor<float>({2, 2}, {1, 0, 0, 0}).to(device), y = Tensor<float>({2, 2}, {0, 2, 0, 2}).to(device),
               z = Tensor<float>({2, 2}, {3, 0, 3, 0}).to(device);
    CHECK(triplet_loss(x, y, z, {.distance = TripletDistance::cosine, .margin = 0.5}).item() == (1.5f + 0.5f) / 2);
    CHECK(triplet_loss(x, z, y, {.distance = TripletDistance::cosine, .margin = 0.5}).item() == (0 + 0.5f) / 2);
  });
  CHECK(std::isnan(triplet_loss(zeros<float>({0, 2}), zeros<float>({0, 2}), zeros<float>({0, 2})).item()));
}

TEST_CASE("models::triplet_loss: the gradient of equal vectors is 0") {
  on_each_device<float>([](Device device) {
    const auto x = variable(ones<float>({3, 5}, device));
    backward(triplet_loss(x, x * 1, detach(x) * 1));
    CHECK(x.grad().host() == std::vector<float>(15));
  });
}

TEST_CASE("models::cosine_similarity_loss: worked by hand") {
  on_each_device<float>([](Device device) {
    const auto a = Tensor<float>({2, 2}, {3, 4, 0, 0}).to(device), b = Tensor<float>({2, 2}, {2, 0, 1, 1}).to(device),
               scores = Tensor<float>({2}, {0.1f, -1}).to(device);
    CHECK(cosine_similarity_loss(a, b, scores).item() == Approx((0.25 + 1) / 2));
  });
  CHECK(std::isnan(cosine_similarity_loss(zeros<float>({0, 2}), zeros<float>({0, 2}), zeros<float>({0})).item()));
}

TEST_CASE("models: gradients of the losses of sentences match finite differences") {
  for (const Index B : {0, 1, 31, 33})
    for (const Index D : {2, 5}) {
      INFO("B = " << B << ", D = " << D);
      const Tensor<double> a = random({B, D}, 1), b = random({B, D}, 2), c = random({B, D}, 3);
      expect_gradients(
          [](const auto& in) { return multiple_negatives_ranking_loss(in[0], in[1], {.temperature = 0.5}); }, {a, b},
          1e-6);
      expect_gradients([](const auto& in) { return triplet_loss(in[0], in[1], in[2], {.margin = 1}); }, {a, b, c},
                       1e-6);
      expect_gradients(
          [](const auto& in) {
            return triplet_loss(in[0], in[1], in[2], {.distance = TripletDistance::cosine, .margin = 0.25});
          },
          {a, b, c}, 1e-6);
      expect_gradients([](const auto& in) { return cosine_similarity_loss(in[0], in[1], in[2]); },
                       {a, b, random({B}, 4)}, 1e-6);
    }
  expect_gradients([](const auto& in) { return multiple_negatives_ranking_loss(in[0], in[1]); },
                   {random({3, 33}, 1), random({7, 33}, 2)}, 1e-6);
}

TEST_CASE("models: errors of the losses of sentences name the operands") {
  const auto of = [](Index B, Index D) { return zeros<float>({B, D}); };
  CHECK_THROWS_WITH(multiple_negatives_ranking_loss(of(3, 4), of(2, 4)),
                    "multiple_negatives_ranking_loss: candidates [2, 4] must have at least as many rows as anchors "
                    "[3, 4]; row b is the positive of anchor b");
  CHECK_THROWS_WITH(multiple_negatives_ranking_loss(of(3, 4), of(3, 5)),
                    "multiple_negatives_ranking_loss: 'D' disagrees between anchors and candidates\n"
                    "  anchors     [3, 4]    axis 1 is 4\n"
                    "  candidates  [3, 5]    axis 1 is 5");
  CHECK_THROWS_WITH(multiple_negatives_ranking_loss(zeros<float>({3}), of(3, 1)),
                    "multiple_negatives_ranking_loss: anchors [3] must have 2 axes");
  CHECK_THROWS_AS(multiple_negatives_ranking_loss(of(3, 4), zeros<float>({3, 4, 1})), ShapeError);
  for (const double bad : {0.0, -1.0, infinity<double>, quiet_nan<double>})
    CHECK_THROWS_WITH(
        multiple_negatives_ranking_loss(of(1, 1), of(1, 1), {.temperature = bad}),
        ContainsSubstring("multiple_negatives_ranking_loss: temperature must be finite and positive, got "));

  CHECK_THROWS_WITH(triplet_loss(of(3, 4), of(2, 4), of(3, 4)),
                    "triplet_loss: 'B' disagrees between anchors and positives\n"
                    "  anchors    [3, 4]    axis 0 is 3\n"
                    "  positives  [2, 4]    axis 0 is 2");
  CHECK_THROWS_WITH(triplet_loss(of(3, 4), of(3, 4), of(3, 2)),
                    ContainsSubstring("triplet_loss: 'D' disagrees between anchors and negatives"));
  CHECK_THROWS_WITH(triplet_loss(zeros<float>({3}), zeros<float>({3}), zeros<float>({3})),
                    "triplet_loss: anchors [3] must have 2 axes");
  CHECK_THROWS_WITH(triplet_loss(of(1, 1), of(1, 1), of(1, 1), {.margin = -1}),
                    "triplet_loss: margin must be finite and not negative, got -1");

  CHECK_THROWS_WITH(cosine_similarity_loss(of(3, 4), of(3, 4), zeros<float>({2})),
                    "cosine_similarity_loss: 'B' disagrees between a and scores\n"
                    "  a       [3, 4]    axis 0 is 3\n"
                    "  scores  [2]       axis 0 is 2");
  CHECK_THROWS_WITH(cosine_similarity_loss(of(3, 4), of(3, 4), of(3, 1)),
                    "cosine_similarity_loss: scores [3, 1] must have 1 axis");
  CHECK_THROWS_AS(cosine_similarity_loss(of(3, 4), of(1, 4), zeros<float>({3})), ShapeError);
}
