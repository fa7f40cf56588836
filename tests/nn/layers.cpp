#include <heddle/heddle.hpp>

#include <thread>

#include <heddle/io/model.hpp>

#include "../harness/golden.hpp"
#include "../harness/parameter_gradients.hpp"
#include "../io/files.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Compares the gradients of f with respect to x and to every parameter of the model with finite differences.
template <class M, class F>
void expect_model_gradients(M& model, const Tensor<double>& x, F f) {
  expect_gradients([&](const Inputs& in) { return f(model, in[0]); }, {x}, 1e-6);
  expect_parameter_gradients(model, [&] { return f(model, x); });
}

struct SmallModel {
  nn::Embedding<> embedding;
  nn::Encoder<> encoder;
  nn::Linear<> out;
  static void visit(auto& self, auto&& f) {
    f("embedding", self.embedding);
    f("encoder", self.encoder);
    f("out", self.out);
  }
};

}  // namespace

TEST_CASE("nn: layers' gradients match finite differences") {
  Random random_weights(3);
  const Sequences sequences = Sequences::packed({3, 0, 2});
  const auto x = random({5, 6}, 1);
  nn::Linear<double> linear_layer(6, 3, random_weights);
  expect_model_gradients(linear_layer, x, [](auto& m, const auto& in) { return m(in); });
  nn::MultiHeadAttention<double> attention_layer(6, 2, random_weights);
  expect_model_gradients(attention_layer, x, [&](auto& m, const auto& in) { return m(in, sequences); });
  nn::MultiHeadAttention<double> wide(6, 2, random_weights, 4);
  CHECK(wide(x, sequences).shape() == Shape({5, 6}));
  for (const bool norm_first : {false, true}) {
    nn::Encoder<double> encoder(
        2, {.D = 6, .heads = 2, .ff_width = 8, .activation = nn::Activation::gelu, .norm_first = norm_first},
        random_weights);
    expect_model_gradients(encoder, x, [&](auto& m, const auto& in) { return m(in, sequences); });
    expect_model_gradients(encoder, x, [&](auto& m, const auto& in) {
      Random dropout(9);
      return m(in, sequences, &dropout);
    });
  }
  nn::LearnedPositions<double> positions(4, 6, random_weights);
  expect_model_gradients(positions, x, [&](auto& m, const auto& in) { return m(in, sequences); });
}

TEST_CASE("nn: learned positions that are counted from a token of padding") {
  Random random_weights(3);
  const nn::LearnedPositions<> positions(4, 3, random_weights, {.padding_id = 1});
  CHECK(positions.weight.shape() == Shape({6, 3}));
  CHECK(positions.longest() == 4);
  const std::vector<float> table = positions.weight.value().host();
  CHECK(std::vector<float>(table.begin() + 3, table.begin() + 6) == std::vector<float>(3, 0));
  const nn::Embedding<> embedding(9, 3, random_weights);
  const auto check = [&](const Tensor<int>& ids, const Sequences& sequences, const std::vector<int>& rows) {
    const Tensor<float> expected =
        embedding(ids) + reshape(take_rows(positions.weight, Tensor<int>({std::ssize(rows)}, rows)),
                                 ids.shape().rank() == 2 ? Shape{ids.dim(0), ids.dim(1), 3} : Shape{ids.dim(0), 3});
    CHECK(positions.embed(embedding, ids, sequences).host() == expected.host());
  };
  check(Tensor<int>({6}, {5, 8, 2, 3, 1, 4}), Sequences::packed({3, 0, 3}), {2, 3, 4, 2, 1, 3});
  check(Tensor<int>({2, 3}, {5, 8, 2, 3, 1, 4}), Sequences::padded({2, 3}, 3), {2, 3, 1, 2, 1, 3});
  CHECK_THROWS_WITH(positions.embed(embedding, zeros<int>({5}), Sequences::packed({5})),
                    "LearnedPositions: a sequence of 5 tokens is longer than the table's 4 positions");
  CHECK_THROWS_AS(positions.embed(embedding, zeros<int>({2}), Sequences::packed({3})), ShapeError);
  CHECK_THROWS_WITH(positions(zeros<float>({1, 3}), Sequences::packed({1})),
                    "LearnedPositions: with a padding_id, positions depend on the ids; call embed()");
  CHECK_THROWS_AS(nn::LearnedPositions<>(4, 3, random_weights, {.padding_id = -1}), IndexError);
}

TEST_CASE("nn: sinusoidal positions follow the formula, odd widths too") {
  for (const auto& c : golden("sinusoidal_positions")) {
    const Shape shape = c["y"].shape;
    const auto expected = c["y"].as<double>(), actual = nn::sinusoidal_table<double>(shape[0], shape[1]).host();
    for (std::size_t i = 0; i < expected.size(); ++i)
      CHECK(actual[i] == Approx(expected[i]).epsilon(1e-9).margin(1e-12));
  }
  const nn::SinusoidalPositions<> positions(2, 4);
  CHECK_THROWS_WITH(positions(zeros<float>({3, 4}), Sequences::packed({3})),
                    "SinusoidalPositions: a sequence of 3 tokens is longer than the table's 2 positions");
}

TEST_CASE("nn: initial values are drawn from PyTorch's default distributions") {
  Random random(5);
  const nn::Linear<> layer(256, 300, random);
  double least = 1, most = -1, square = 0;
  for (const float w : layer.weight.value().host()) {
    least = std::min<double>(least, w), most = std::max<double>(most, w), square += w * w / (256 * 300.0);
  }
  CHECK(least >= -1 / 16.0);
  CHECK(least < -0.0624);
  CHECK(most <= 1 / 16.0);
  CHECK(most > 0.0624);
  CHECK(square == Approx(1 / (3 * 256.0)).epsilon(0.02));
  const nn::Embedding<> table(500, 100, random);
  double variance = 0;
  for (const float w : table.weight.value().host()) variance += w * w / 50000;
  CHECK(variance == Approx(1).epsilon(0.03));
  const nn::LayerNorm<> norm(3);
  CHECK(norm.gamma.value().host() == std::vector<float>{1, 1, 1});
  CHECK(norm.beta->value().host() == std::vector<float>{0, 0, 0});
}

TEST_CASE("nn: a layer refuses sizes that do not fit") {
  Random random(1);
  CHECK_THROWS_WITH(nn::MultiHeadAttention<>(4, 2, random)(ones<float>({4}), Sequences::packed({4})),
                    "MultiHeadAttention: x must be [N, D] or [B, T, D], got [4]");
  CHECK_THROWS_WITH(nn::MultiHeadAttention<>(10, 3, random),
                    "MultiHeadAttention: D = 10 does not divide into 3 heads; give a head_width");
  CHECK_THROWS_WITH(nn::Linear<>(0, 3, random), "Linear: in must be at least 1, got 0");
  CHECK_THROWS_WITH(nn::Encoder<>(1, {.D = 0, .heads = 2}, random), "MultiHeadAttention: D must be at least 1, got 0");
  CHECK_THROWS_WITH(nn::Encoder<>(1, {.D = 8, .heads = 2, .ff_width = -1}, random),
                    "FeedForward: width must be at least 1, got -1");
  CHECK_THROWS_WITH(nn::CrossAttention<>(0, 2, random), "CrossAttention: D must be at least 1, got 0");
  CHECK_THROWS_AS(nn::Embedding<>(5, -1, random), ShapeError);
}

TEST_CASE("nn: several threads may use one const model, in two types at once") {
  Random random(1);
  const nn::Encoder<> encoder(2, {.D = 16, .heads = 2}, random);
  const Sequences sequences = Sequences::packed({7, 3});
  const Tensor<float> x = randn<float>({10, 16}, random);
  const auto in_type = [&]<class A>(A) { return encoder(cast<A>(x), sequences).host(); };
  const auto expected = in_type(0.f);
  const auto expected_bf16 = in_type(bf16());
  std::vector<int> wrong(8);
  std::vector<std::thread> threads;
  for (std::size_t t = 0; t < wrong.size(); ++t)
    threads.emplace_back([&, t] {
      const NoGrad quiet;
      for (int repeat = 0; repeat < 20; ++repeat) {
        wrong[t] += in_type(0.f) != expected;
        const auto rows = in_type(bf16());
        for (std::size_t i = 0; i < rows.size(); ++i) wrong[t] += rows[i].bits != expected_bf16[i].bits;
      }
    });
  for (auto& thread : threads) thread.join();
  CHECK(wrong == std::vector<int>(8));
}

TEST_CASE("nn: a model of floats trains on bf16 rows") {
  Random random(2);
  SmallModel model{{12, 16, random}, {1, {.D = 16, .heads = 2}, random}, {16, 2, random}};
  // Does token 3 come before token 4?
  const std::vector<int> tokens{3, 5, 4, 1, 4, 2, 3, 3, 4, 4, 3, 6}, lengths{3, 4, 2, 3}, labels{1, 0, 1, 0};
  const Sequences sequences = Sequences::packed(lengths);
  optim::AdamW optimizer(model, {.lr = 1e-2});
  float loss = 9;
  for (int step = 0; step < 60; ++step) {
    const Tensor<bf16> h = model.encoder(model.embedding.operator()<bf16>(Tensor<int>({12}, tokens)), sequences);
    const auto l = cross_entropy(cast<float>(model.out(mean_rows(h, sequences))), Tensor<int>({4}, labels));
    loss = l.item();
    backward(l);
    optimizer.step();
  }
  CHECK(loss < 0.05f);
}

TEST_CASE("layers: an option outside its range is refused where the layer is made") {
  Random random(1);
  for (const double bad : {-1., std::nan(""), std::numeric_limits<double>::infinity()}) {
    CHECK_THROWS_WITH(nn::LayerNorm<float>(4, bad),
                      ContainsSubstring("LayerNorm: eps must be finite and not negative"));
    CHECK_THROWS_WITH(layer_norm(ones<float>({1, 4}), ones<float>({4}), zeros<float>({4}), bad),
                      ContainsSubstring("layer_norm: eps must be finite and not negative"));
  }
  for (const double bad : {1.5, 1., -0.5, std::nan("")}) {
    CHECK_THROWS_WITH(nn::EncoderLayer<float>({.dropout = bad}, random),
                      ContainsSubstring("EncoderLayer: dropout must be in [0, 1), got "));
    CHECK_THROWS_WITH(nn::Encoder<float>(1, {.attention_dropout = bad}, random),
                      ContainsSubstring("EncoderLayer: attention_dropout must be in [0, 1), got "));
  }
}

TEST_CASE("nn: an encoder takes a mask, a bias and causal attention") {
  Random random(1);
  const Sequences sequences = Sequences::packed({3, 0, 2});
  const auto x = testing::random({5, 6}, 1);
  const nn::Encoder<double> encoder(2, {.D = 6, .heads = 2, .ff_width = 8, .attention_dropout = 0.5}, random);
  const Tensor<bool> past({1, 1, 3, 3}, {true, false, false, true, true, false, true, true, true});
  const double inf = infinity<double>;
  const Tensor<double> far({1, 1, 3, 3}, {0, -inf, -inf, 0, 0, -inf, 0, 0, 0});
  const auto causal = encoder(x, sequences, {.causal = true}).host();
  CHECK(causal != encoder(x, sequences).host());
  CHECK(encoder(x, sequences, {.mask = past}).host() == causal);
  CHECK(encoder(x, sequences, {.bias = far}).host() == causal);
  CHECK(encoder(x, sequences, {.scale = 1 / std::sqrt(3.0)}).host() == encoder(x, sequences).host());
  Random a(7), b(7);
  CHECK(encoder(x, sequences, {}, &a).host() == encoder(x, sequences, &b).host());
  CHECK(encoder(x, sequences, {.causal = true}, &a).host() != causal);  // dropout is active
  CHECK_THROWS_WITH(encoder(x, sequences, {.dropout = 0.1}),
                    ContainsSubstring("dropout and random are not options of a call"));
  CHECK_THROWS_AS(encoder(x, sequences, {.random = &a}), Error);
}

TEST_CASE("nn: TransformerEncoderLayer has the names and shapes of torch.nn.TransformerEncoderLayer") {
  Random random(1);
  const nn::TransformerEncoderLayer<> layer({.D = 8, .heads = 2, .ff_width = 16}, random);
  std::vector<std::pair<std::string, Shape>> found;
  walk(layer, [&](const Name& name, const auto& x) { found.emplace_back(name.str(), x.shape()); });
  const std::vector<std::pair<std::string, Shape>> of_torch{{"self_attn.in_proj_weight", {24, 8}},
                                                            {"self_attn.in_proj_bias", {24}},
                                                            {"self_attn.out_proj.weight", {8, 8}},
                                                            {"self_attn.out_proj.bias", {8}},
                                                            {"linear1.weight", {16, 8}},
                                                            {"linear1.bias", {16}},
                                                            {"linear2.weight", {8, 16}},
                                                            {"linear2.bias", {8}},
                                                            {"norm1.weight", {8}},
                                                            {"norm1.bias", {8}},
                                                            {"norm2.weight", {8}},
                                                            {"norm2.bias", {8}}};
  CHECK(found == of_torch);
}

TEST_CASE("nn: TransformerEncoderLayer computes what torch.nn.TransformerEncoderLayer does") {
  expect_golden(
      "transformer_encoder_layer", {"x"},
      [](const Case& c, const auto& inputs) {
        using Element = typename std::remove_cvref_t<decltype(inputs[0])>::Element;
        using Master = std::conditional_t<std::is_same_v<Element, double>, double, float>;
        Random random(1);
        nn::TransformerEncoderLayer<Master> layer({.D = c.list("D")[0],
                                                   .heads = static_cast<int>(c.option("heads")),
                                                   .ff_width = c.list("ff_width")[0],
                                                   .activation = nn::Activation::relu,
                                                   .norm_first = c.option("norm_first") != 0},
                                                  random);
        each_parameter(layer, [&](const Name& name, auto& p) { p.assign(golden_tensor<Master>(c, name.str())); });
        to(layer, inputs[0].device());
        return layer(inputs[0], Sequences::packed({5}).to(inputs[0].device()));
      },
      16);
}

TEST_CASE("nn: TransformerEncoderLayer is an EncoderLayer, and is cloned, saved and loaded as one") {
  for (const bool norm_first : {false, true}) {
    const nn::EncoderOptions options{
        .D = 6, .heads = 2, .ff_width = 10, .dropout = 0.25, .attention_dropout = 0.1, .norm_first = norm_first};
    Random a(3), b(3), other(4);
    const nn::EncoderLayer<> plain(options, a);
    const nn::TransformerEncoderLayer<> layer(options, b);
    const Sequences sequences = Sequences::packed({3, 0, 2});
    const auto x = random<float>({5, 6}, 1);
    const auto result = [&](const auto& m) { return m(converted<float>(x), sequences).host(); };
    const auto trained_result = [&](const auto& m) {
      Random dropout(9);
      return m(converted<float>(x), sequences, {.causal = true}, &dropout).host();
    };
    const auto expected = result(plain), trained = trained_result(plain);
    CHECK(result(layer) == expected);
    CHECK(trained_result(layer) == trained);

    auto copy = clone(layer);
    static_assert(std::is_same_v<decltype(copy), nn::TransformerEncoderLayer<>>);
    CHECK(result(copy) == expected);
    CHECK(trained_result(copy) == trained);
    nn::init::normal(copy.ff.in.weight, other);
    CHECK(result(copy) != expected);
    CHECK(result(layer) == expected);  // the weights of a copy are its own

    const TemporaryFolder folder;
    io::save(layer, folder / "layer.safetensors");
    nn::TransformerEncoderLayer<> loaded(options, other);
    CHECK(result(loaded) != expected);
    CHECK(io::load(loaded, folder / "layer.safetensors").unexpected.empty());
    CHECK(result(loaded) == expected);
  }
  Random random(1);
  CHECK_THROWS_AS(nn::TransformerEncoderLayer<>({.D = 10, .heads = 3}, random), ShapeError);
}

TEST_CASE("nn: cross-attention is attention of two sets of sequences") {
  Random random_weights(2);
  const Sequences queries = Sequences::packed({2, 1, 0}), keys = Sequences::packed({1, 3, 2});
  const auto x = random({3, 6}, 1), memory = random({6, 4}, 2);
  nn::CrossAttention<double> layer(6, 2, random_weights, 4);
  const auto kv = layer.key_value(memory);
  const auto expected = layer.out(
      attention(layer.query(x), slice(kv, 1, 0, 6), slice(kv, 1, 6, 12), queries, {.heads = 2, .keys = &keys}));
  CHECK(layer(x, queries, memory, keys).host() == expected.host());
  expect_model_gradients(layer, x, [&](auto& m, const auto& in) { return m(in, queries, memory, keys); });
  expect_model_gradients(layer, memory, [&](auto& m, const auto& in) { return m(x, queries, in, keys); });
  std::vector<std::string> names;
  walk(layer, [&](const Name& name, auto&) { names.insert(names.end(), name.blocks.begin(), name.blocks.end()); });
  CHECK(names == std::vector<std::string>{"query.weight", "query.bias", "key.weight", "value.weight", "key.bias",
                                          "value.bias", "out.weight", "out.bias"});
  CHECK(clone(layer)(x, queries, memory, keys).host() == expected.host());

  const Sequences padded_queries = Sequences::padded({2, 1, 0}, 2), padded_keys = Sequences::padded({1, 3, 2}, 4);
  const auto padded = layer(unpack(x, queries), Sequences::padded({2, 1, 0}, 2),
                            pack(unpack(memory, keys), Sequences::packed({1, 3, 2})), keys);
  CHECK(padded.shape() == Shape{3, 2, 6});
  expect_close(pack(padded, padded_queries).host(), expected.host(), [](double) { return 1e-14; });
  CHECK_THROWS_WITH(layer(x, queries, ones<double>({4}), keys),
                    "CrossAttention: the memory must be [N, D] or [B, T, D], got [4]");
  CHECK_THROWS_WITH(nn::CrossAttention<>(10, 3, random_weights), "CrossAttention: D = 10 does not divide into 3 heads");
}

TEST_CASE("nn: relative positions have a bias for each distance and head") {
  nn::RelativePositionBias<double> positions(2, 2);
  CHECK(positions(Sequences::packed({4, 1})).host() == std::vector<double>(2 * 4 * 4, 0));
  positions.weight.assign(Tensor<double>({5, 2}, {-2, 20, -1, 10, 0, 0, 1, 11, 2, 22}));
  const auto bias = positions(Sequences::packed({4, 1}));
  CHECK(bias.shape() == Shape{1, 2, 4, 4});
  for (Index q = 0; q < 4; ++q)
    for (Index k = 0; k < 4; ++k) {
      CHECK(bias(0, 0, q, k) == static_cast<double>(std::clamp<Index>(k - q, -2, 2)));
      CHECK(bias(0, 1, q, k) ==
            std::vector<double>{20, 10, 0, 11, 22}[static_cast<std::size_t>(std::clamp<Index>(k - q, -2, 2) + 2)]);
    }
  CHECK(positions(Sequences::padded({2, 1}, 3)).shape() == Shape{1, 2, 3, 3});
  const Sequences sequences = Sequences::packed({4, 2});
  Random random_weights(1);
  const nn::EncoderLayer<double> layer({.D = 4, .heads = 2}, random_weights);
  expect_model_gradients(positions, random({6, 4}, 1),
                         [&](auto& m, const auto& in) { return layer(in, sequences, {.bias = m(sequences)}); });
  CHECK_THROWS_AS(nn::RelativePositionBias<>(-1, 2), ShapeError);
}

TEST_CASE("nn: embeddings take int64 ids") {
  Random random(1);
  const nn::Embedding<> table(5, 3, random);
  CHECK(table(Tensor<std::int64_t>({2}, {4, 0})).host() == table(Tensor<int>({2}, {4, 0})).host());
  CHECK(table.operator()<bf16>(Tensor<std::int64_t>({2, 1}, {4, 0})).shape() == Shape{2, 1, 3});
}

TEST_CASE("nn::init: values of the distributions of torch.nn.init") {
  Random random(1);
  Parameter<float> weight(zeros<float>({200, 300}));
  const Parameter<float> tied = share(weight);
  struct Moments {
    double least = infinity<double>, most = -infinity<double>, mean = 0, deviation = 0;
    explicit Moments(const Parameter<float>& p) {
      const auto values = p.value().host();
      double squares = 0;
      for (const double v : values) {
        least = std::min(least, v), most = std::max(most, v);
        mean += v / static_cast<double>(values.size());
        squares += v * v / static_cast<double>(values.size());
      }
      deviation = std::sqrt(squares - mean * mean);
    }
  };
  nn::init::normal(weight, random, 2, 0.5);
  const Moments normal(tied);
  CHECK(normal.mean == Approx(2).epsilon(0.01));
  CHECK(normal.deviation == Approx(0.5).epsilon(0.02));
  nn::init::uniform(weight, random, -1, 3);
  const Moments uniform(weight);
  CHECK((uniform.least >= -1 && uniform.least < -0.99 && uniform.most < 3 && uniform.most > 2.99));
  nn::init::xavier_uniform(weight, random, 2);
  const double xavier = 2 * std::sqrt(6 / 500.0);
  CHECK(Moments(weight).most == Approx(xavier).epsilon(0.01));
  CHECK(Moments(weight).least == Approx(-xavier).epsilon(0.01));
  nn::init::kaiming_uniform(weight, random);
  CHECK(Moments(weight).most == Approx(std::sqrt(6 / 300.0)).epsilon(0.01));
  nn::init::kaiming_uniform(weight, random, std::sqrt(5.0));
  CHECK(Moments(weight).most == Approx(1 / std::sqrt(300.0)).epsilon(0.01));
  nn::init::trunc_normal(weight, random, 0, 0.02, -0.04, 0.04);
  const Moments cut(weight);
  CHECK((cut.least >= -0.04f && cut.most <= 0.04f && cut.most > 0.0395));
  CHECK(cut.deviation ==
        Approx(0.02 * 0.87962566)
            .epsilon(0.02));  // the deviation of a normal distribution that is truncated at 2 deviations

  Parameter<float> vector(zeros<float>({3})), empty(zeros<float>({0, 4}));
  CHECK_THROWS_WITH(nn::init::xavier_uniform(vector, random),
                    "xavier_uniform: the weight [3] must have at least 2 axes");
  CHECK_THROWS_AS(nn::init::normal(vector, random, 0, -1), Error);
  CHECK_THROWS_AS(nn::init::uniform(vector, random, 2, 1), Error);
  CHECK_THROWS_AS(nn::init::trunc_normal(vector, random, 0, 1, 5, 6), Error);
  nn::init::trunc_normal(empty, random);
  nn::init::kaiming_uniform(empty, random);
}
