#include <heddle/train/cached_gradients.hpp>

#include <heddle/models/sentence_losses.hpp>
#include <heddle/nn/encoder.hpp>
#include <heddle/ops/rows.hpp>

#include "harness/compare.hpp"
#include "harness/devices.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::multiple_negatives_ranking_loss;
using train::cached_backward;

namespace {

// Texts of 3, 4 and 5 tokens in turn, whose rows are random.
template <class T>
struct TokenRows {
  Tensor<T> rows;  // [N, D]
  Sequences texts;
};
template <class T>
TokenRows<T> token_rows(Index texts, Index D, std::uint64_t seed) {
  std::vector<int> lengths;
  for (int text = 0; text < static_cast<int>(texts); ++text) lengths.push_back(3 + text % 3);
  const Sequences sequences = Sequences::packed(lengths);
  return {converted<T>(random({sequences.rows(), D}, seed)), sequences};
}

// An encoder with dropout, and its vectors of texts.
template <class T>
struct TextEncoder {
  nn::EncoderLayer<T> layer;

  explicit TextEncoder(Random& random)
      : layer({.D = 8, .heads = 2, .dropout = 0.25, .attention_dropout = 0.25}, random) {}
  Tensor<T> operator()(const TokenRows<T>& texts, Random* random) const {  // [B, D]
    return mean_rows(layer(texts.rows, texts.texts, random), texts.texts);
  }
  static void visit(auto& self, auto&& f) { f("layer", self.layer); }
};

// Returns the loss of the first half of the vectors as anchors and the second half as their positives.
template <class T>
Tensor<T> pairs_loss(const Tensor<T>& all) {
  const Index B = all.dim(0) / 2;
  return multiple_negatives_ranking_loss(slice(all, 0, 0, B), slice(all, 0, B, 2 * B));
}

template <class M>
std::vector<double> gradients_of(M& model) {
  std::vector<double> all;
  each_parameter(model, [&](const Name&, auto& p) {
    for (const auto g : p.grad().host()) all.push_back(static_cast<double>(g));
  });
  zero_grad(model);
  return all;
}

// Measures the memory of tensors in a section: its peak above what is in use where the section begins.
class SectionMemory {
 public:
  SectionMemory() {
    // The pool only records a new peak above all earlier ones, so memory that nothing touches fills it up to the last.
    const MemoryStats stats = HostPool::instance().stats();
    filled_ = stats.peak - stats.in_use;
    block_ = HostPool::instance().allocate(filled_);
    in_use_ = HostPool::instance().stats().in_use;
  }
  SectionMemory(const SectionMemory&) = delete;
  ~SectionMemory() {
    HostPool::instance().release(block_, filled_);
    HostPool::instance().trim();
  }
  double peak() const { return static_cast<double>(HostPool::instance().stats().peak - in_use_); }

 private:
  void* block_;
  std::size_t filled_, in_use_;
};

}  // namespace

TEST_CASE("cached_backward: gives the gradients of the whole batch, with the same dropout") {
  Random initial(1);
  TextEncoder<double> model(initial);
  for (const bool has_dropout : {false, true})
    for (const std::vector<Index>& sizes :
         {std::vector<Index>{2}, {1, 1}, {31, 33}, {1, 31, 0, 33, 1}, {16, 16, 16, 16, 16, 16, 16, 16}}) {
      INFO(sizes.size() << " parts, dropout: " << has_dropout);
      std::vector<TokenRows<double>> parts;
      for (const Index size : sizes) parts.push_back(token_rows<double>(size, 8, parts.size()));
      const auto encode = [&](Index part, Random* random) {
        return model(parts[static_cast<std::size_t>(part)], random);
      };
      Random direct(7, 3), cached(7, 3);
      std::vector<Tensor<double>> vectors;
      for (Index part = 0; part < std::ssize(parts); ++part)
        vectors.push_back(encode(part, has_dropout ? &direct : nullptr));
      const Tensor<double> expected_loss = pairs_loss(concat(vectors));
      backward(expected_loss);
      const std::vector<double> expected = gradients_of(model);

      const Tensor<double> loss =
          cached_backward(std::ssize(parts), encode, pairs_loss<double>, has_dropout ? &cached : nullptr);
      CHECK(loss.item() == expected_loss.item());
      CHECK_FALSE(loss.requires_grad());
      CHECK(cached.position() == direct.position());
      expect_close(gradients_of(model), expected, [](double e) { return 1e-12 * std::max(1.0, std::abs(e)); });
    }
}

TEST_CASE("cached_backward: the gradients of float and bf16 vectors on every device") {
  on_each_device<float>([](Device device) {
    Random initial(1);
    nn::Linear<float> model(5, 7, initial);
    to(model, device);
    const Tensor<float> x = converted<float>(random({6, 5}, 1), device);
    const auto check = [&]<class A>(A, double tolerance) {
      const auto encode = [&](Index part, Random* random) {
        return dropout(model(cast<A>(slice(x, 0, 2 * part, 2 * part + 2))), 0.25, random);
      };
      Random direct(3), cached(3);
      backward(pairs_loss(concat({encode(0, &direct), encode(1, &direct), encode(2, &direct)})));
      const std::vector<double> expected = gradients_of(model);
      cached_backward(3, encode, pairs_loss<A>, &cached);
      expect_close(gradients_of(model), expected, part_of_largest(tolerance, expected));
    };
    check(float{}, 1e-5);
    check(bf16{}, 0x1p-7);
  });
}

TEST_CASE("cached_backward: computes each part without recording, then the loss, then each part again") {
  const Tensor<double> weight = variable(random({4, 3}, 1)), x = random({6, 4}, 2);
  std::vector<Index> calls;
  std::vector<std::uint64_t> positions;
  Random generator(5);
  const auto encode = [&](Index part, Random* random) {
    calls.push_back(part);
    positions.push_back(random->position());
    const Tensor<double> y = dropout(matmul(slice(x, 0, 2 * part, 2 * part + 2), weight), 0.5, random);
    CHECK(y.requires_grad() == (calls.size() > 4));
    return y;
  };
  const Tensor<double> loss = cached_backward(
      3, encode,
      [&](const Tensor<double>& all) {
        calls.push_back(-1);
        CHECK(all.requires_grad());
        CHECK(all.shape() == Shape{6, 3});
        return sum(all * all);
      },
      &generator);
  CHECK(calls == std::vector<Index>{0, 1, 2, -1, 0, 1, 2});
  REQUIRE(positions.size() == 6);
  CHECK(std::vector(positions.begin(), positions.begin() + 3) == std::vector(positions.begin() + 3, positions.end()));
  CHECK(positions[0] < positions[1]);
  CHECK(generator.position() > positions[2]);
  CHECK(loss.shape() == Shape{});
}

TEST_CASE("cached_backward: adds to gradients, also to those of the loss's own variables") {
  const Tensor<double> x = random({4, 3}, 1), frozen = random({4, 3}, 2);
  const Tensor<double> weight = variable(random({3, 3}, 3)), scale = variable(full<double>({}, 2));
  const auto encode = [&](Index part, Random*) {  // the second half needs no gradient
    return part < 2 ? matmul(slice(x, 0, 2 * part, 2 * part + 2), weight)
                    : slice(frozen, 0, 2 * part - 4, 2 * part - 2);
  };
  const auto loss = [&](const Tensor<double>& all) { return sum(slice(all, 0, 0, 4) * slice(all, 0, 4, 8)) * scale; };
  backward(loss(concat({matmul(x, weight), frozen})));
  const std::vector<double> of_weight = weight.grad().host();
  const double of_scale = scale.grad().item();
  cached_backward(4, encode, loss);
  CHECK(scale.grad().item() == Approx(2 * of_scale).epsilon(1e-12));
  const std::vector<double> twice = weight.grad().host();
  for (std::size_t i = 0; i < twice.size(); ++i) CHECK(twice[i] == Approx(2 * of_weight[i]).epsilon(1e-12));
}

TEST_CASE("cached_backward: a large batch takes the memory of a small one") {
  constexpr Index tokens = 48, D = 16;
  Random initial(1);
  std::vector<nn::Linear<float>> layers;
  for (int layer = 0; layer < 8; ++layer) layers.emplace_back(D, D, initial);
  const auto encode_texts = [&](Index first, Index count) {  // [count, D]
    Random random(9, static_cast<std::uint64_t>(first));
    Tensor<float> x = randn<float>({count * tokens, D}, random);
    for (const nn::Linear<float>& layer : layers) x = tanh(layer(x));
    return mean_rows(x, Sequences::packed(count, tokens));
  };
  const auto whole = [&](Index pairs) {
    const SectionMemory memory;
    backward(pairs_loss(encode_texts(0, 2 * pairs)));
    zero_grad(layers);
    return memory.peak();
  };
  const auto in_parts = [&](Index pairs, Index pairs_of_part) {
    const SectionMemory memory;
    const Index texts = 2 * pairs_of_part;
    cached_backward(
        pairs / pairs_of_part, [&](Index part, Random*) { return encode_texts(part * texts, texts); },
        pairs_loss<float>);
    zero_grad(layers);
    return memory.peak();
  };
  const double of_32 = whole(32), of_512 = whole(512), of_512_in_parts = in_parts(512, 32);
  CAPTURE(of_32, of_512, of_512_in_parts);
  CHECK(of_512 > 12 * of_32);
  CHECK(of_512_in_parts < 1.1 * of_32);
}

TEST_CASE("cached_backward: errors") {
  const Tensor<double> weight = variable(random({3, 3}, 1)), x = random({2, 3}, 2);
  const auto encode = [&](Index, Random*) { return matmul(x, weight); };
  const auto loss = [](const Tensor<double>& all) { return sum(all * all); };
  CHECK_THROWS_WITH(cached_backward(0, encode, loss), "cached_backward: the number of parts must be at least 1, got 0");
  CHECK_THROWS_WITH(cached_backward(
                        2, [&](Index, Random*) { return x; }, loss),
                    "cached_backward: the vectors of no part depend on any variable or parameter");
  CHECK_THROWS_WITH(cached_backward(2, encode, [&](const Tensor<double>&) { return sum(weight); }),
                    "cached_backward: the loss does not depend on the vectors of the parts");
  CHECK_THROWS_WITH(cached_backward(2, encode, [&](const Tensor<double>&) { return sum(x); }),
                    "backward: the tensor of shape [] does not depend on any variable or parameter");
  CHECK_THROWS_WITH(cached_backward(2, encode, [&](const Tensor<double>& all) { return all; }),
                    ContainsSubstring("backward: a loss has one element; this one has shape [4, 3]"));
  int calls = 0;
  CHECK_THROWS_WITH(
      cached_backward(
          2, [&](Index, Random*) { return ++calls == 4 ? matmul(weight, weight) : matmul(x, weight); }, loss),
      "cached_backward: the vectors of part 1 have the shape [2, 3] the first time, but [3, 3] the "
      "second time");
  CHECK_THROWS_AS(cached_backward(
                      2, [&](Index part, Random*) { return slice(matmul(x, weight), 1, 0, part + 1); }, loss),
                  ShapeError);
}
