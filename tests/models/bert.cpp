#include <heddle/heddle.hpp>
#include <heddle/models/pretrained.hpp>

#include "../harness/parameter_gradients.hpp"
#include "../io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::BertConfig;
using models::BertFamily;

namespace {

constexpr BertFamily all_families[] = {
    BertFamily::bert,   BertFamily::distilbert, BertFamily::roberta, BertFamily::mpnet, BertFamily::electra,
    BertFamily::albert, BertFamily::modernbert, BertFamily::nomic,   BertFamily::gte,   BertFamily::deberta};

// Returns a configuration of small, mostly different sizes. Its weights are so large that different texts give
// different outputs.
BertConfig tiny_bert(BertFamily family, Index layers) {
  const bool bert = family == BertFamily::bert;
  const bool has_types =
      bert || family == BertFamily::electra || family == BertFamily::albert || family == BertFamily::nomic;
  const bool counts_from_padding = family == BertFamily::roberta || family == BertFamily::mpnet;
  models::RotaryConfig rotary{.global_base = 100, .local_base = 10, .global_every = 2, .window = 1};
  if (family == BertFamily::nomic || family == BertFamily::gte)
    rotary = {.norm_first = false, .global_base = 100, .global_every = 1, .norm_bias = true, .divisor = 2};
  if (family == BertFamily::gte) {
    rotary.attention_bias = rotary.ff_out_bias = true;
    rotary.gate = Gate::second;
  }
  return {.family = family,
          .vocabulary = counts_from_padding ? 8 : 7,
          .D = 6,
          .layers = layers,
          .heads = 3,
          .ff_width = 5,
          .positions = 5,
          .types = has_types                       ? 2
                   : family == BertFamily::roberta ? 1
                                                   : 0,
          // Finite differences change each row, so no batch has the token of padding.
          .padding_id = family == BertFamily::mpnet ? std::optional<Index>(1)
                        : counts_from_padding       ? std::optional<Index>(7)
                                                    : std::nullopt,
          .activation = bert ? nn::Activation::gelu : nn::Activation::gelu_tanh,
          .deviation = 0.5,
          .embedding_width = 4,
          .rotary = rotary,
          .deberta = {.buckets = 4, .greatest_distance = 5}};
}

struct BertBatch {
  Tensor<int> ids, types;
  Sequences sequences;
};
BertBatch ragged_batch() {
  return {Tensor<int>({8}, {2, 5, 3, 6, 6, 0, 4, 4}), Tensor<int>({8}, {0, 1, 1, 0, 0, 0, 1, 1}),
          Sequences::packed({3, 1, 4})};
}

template <class T>
void expect_same_values(const Tensor<T>& actual, const Tensor<T>& expected) {
  REQUIRE(actual.shape() == expected.shape());
  const auto values = joined(expected.host());
  expect_close(joined(actual.host()), values, part_of_largest(std::is_same_v<T, double> ? 1e-14 : 1e-6, values));
}

// Compares a packed batch with its texts alone and with a padded batch.
template <class T>
void check_packed(BertFamily family) {
  INFO(models::encoder_name(family));
  Random random(1);
  const models::BertClassifier<T> model(tiny_bert(family, 2), 3, random);
  const Tensor<T> packed = model.forward(Tensor<int>({6}, {2, 5, 3, 6, 1, 0}), Sequences::packed({3, 1, 2}));
  expect_same_values(model.forward(Tensor<int>({3}, {2, 5, 3}), Sequences::packed({3})), packed.leading(0, 1));
  expect_same_values(model.forward(Tensor<int>({1}, {6}), Sequences::packed({1})), packed.leading(1, 2));
  const Tensor<int> rows({9}, {2, 5, 3, 6, 0, 0, 1, 0, 0});
  expect_same_values(model.forward(rows, Sequences::padded({3, 1, 2}, 3)), packed);
  CHECK(model.forward(Tensor<int>({0}), Sequences::packed({})).shape() == Shape({0, 3}));
}

}  // namespace

TEST_CASE("models::BertClassifier: gradients match finite differences, with and without dropout") {
  const BertBatch batch = ragged_batch();
  for (const BertFamily family : all_families) {
    Random random(1);
    const bool has_two_layers =
        family == BertFamily::bert || family == BertFamily::albert || family == BertFamily::modernbert;
    models::BertClassifier<double> model(tiny_bert(family, has_two_layers ? 2 : 1), 3, random);
    const Tensor<int> types = model.config().types > 1 ? batch.types : Tensor<int>();
    expect_parameter_gradients(model, [&] { return model.forward(batch.ids, batch.sequences, {.types = types}); });
    expect_parameter_gradients(model, [&] {
      Random dropout(2);
      return model.forward(batch.ids, batch.sequences, {.random = &dropout});
    });
  }
}

TEST_CASE("models::BertMaskedLm: gradients match finite differences") {
  const BertBatch batch = ragged_batch();
  for (const BertFamily family : all_families) {
    Random random(1);
    models::BertMaskedLm<double> model(tiny_bert(family, 1), random);
    const Tensor<int> rows({3}, {6, 0, 6});
    expect_parameter_gradients(model, [&] { return model.forward(batch.ids, batch.sequences, rows); });
    expect_parameter_gradients(model, [&] { return model.forward(batch.ids, batch.sequences); });
  }
}

TEST_CASE("models::BertTokenClassifier: gradients match finite differences, with and without dropout") {
  const BertBatch batch = ragged_batch();
  for (const BertFamily family : all_families)
    for (const auto& [head, outputs] :
         {std::pair<models::TokenHead, Index>{models::TokenHead::labels, 3}, {models::TokenHead::answer, 2}}) {
      Random random(1);
      models::BertTokenClassifier<double> model(tiny_bert(family, 1), head, outputs, random);
      expect_parameter_gradients(model, [&] { return model.forward(batch.ids, batch.sequences); });
      expect_parameter_gradients(model, [&] {
        Random dropout(2);
        return model.forward(batch.ids, batch.sequences, {.random = &dropout});
      });
    }
}

TEST_CASE("models: heads on tokens are saved and loaded, and draw weights that a folder lacks") {
  const TemporaryFolder folder;
  for (const models::TokenHead head : {models::TokenHead::labels, models::TokenHead::answer}) {
    Random random(1);
    const models::PretrainedConfig config{tiny_bert(BertFamily::bert, 1), {"O", "X"}};
    const models::BertTokenClassifier<> model(*config.bert(), head, 2, random);
    models::save_pretrained(model, config, {}, folder.path());
    const bool has_labels = head == models::TokenHead::labels;
    CHECK(models::read_config(folder.path()).json["architectures"][0] ==
          (has_labels ? "BertForTokenClassification" : "BertForQuestionAnswering"));
    Random other(2);
    models::BertTokenClassifier<> loaded(*config.bert(), head, 2, other);
    models::load_pretrained(loaded, folder.path());
    const BertBatch batch = ragged_batch();
    expect_same_values(loaded.forward(batch.ids, batch.sequences), model.forward(batch.ids, batch.sequences));
    models::BertMaskedLm<> masked(*config.bert(), other);
    CHECK_THROWS_AS(models::load_pretrained(masked, folder.path()), FileError);
    CHECK(models::load_pretrained(masked, folder.path(), models::MissingHead::drawn).missing.size() == 5);
  }
  Random random(1);
  const models::PretrainedConfig three{tiny_bert(BertFamily::bert, 1), {"O", "X", "Y"}};
  const models::BertTokenClassifier<> model(*three.bert(), models::TokenHead::labels, 2, random);
  CHECK_THROWS_WITH(models::save_pretrained(model, three, {}, folder.path()),
                    "save_pretrained: the model has 2 labels, its configuration 3");
}

TEST_CASE("models::BertEncoder: first() is the first rows of forward(), for empty and padded sequences too") {
  const Tensor<int> ids({8}, {2, 5, 3, 6, 1, 0, 4, 4});
  for (const BertFamily family : all_families)
    for (const Index layers : {0, 1, 2}) {
      Random random(1);
      const models::BertEncoder<> encoder(tiny_bert(family, layers), random);
      for (const Sequences& s : {Sequences::packed({3, 1, 4}), Sequences::packed({0, 5, 0, 3}),
                                 Sequences::padded({2, 4}, 4), Sequences::padded({3, 0}, 4)}) {
        const Tensor<float> first = encoder.first(ids, s);
        expect_same_values(first, first_rows(encoder.forward(ids, s), s));
        std::vector<Tensor<float>> states;
        expect_same_values(encoder.first(ids, s, {.hidden_states = &states}), first);
      }
    }
}

TEST_CASE("models::BertClassifier: a packed batch gives what its texts give alone and padded") {
  check_packed<float>(BertFamily::bert);
  for (const BertFamily family : all_families) check_packed<double>(family);
}

TEST_CASE("models::BertEncoder: tokens that attend to some rows only see what these alone would give") {
  for (const BertFamily family : all_families) {
    Random random(1);
    const models::BertEncoder<double> encoder(tiny_bert(family, 2), random);
    const Tensor<int> ids({5}, {2, 5, 3, 6, 4});
    const Tensor<double> all = encoder.attending_to(ids, Sequences::packed({5}), Sequences::padded({3}, 5)),
                         alone = encoder.forward(Tensor<int>({3}, {2, 5, 3}), Sequences::packed({3}));
    expect_same_values(all.leading(0, 3), alone);
    expect_same_values(encoder.attending_to(ids, Sequences::packed({5}), Sequences::packed({5})),
                       encoder.forward(ids, Sequences::packed({5})));
  }
}

TEST_CASE("models::BertEncoder: hidden states and attention weights on request") {
  Random random(1);
  const BertBatch batch = ragged_batch();
  const models::BertEncoder<> encoder(tiny_bert(BertFamily::bert, 2), random);
  const Tensor<float> plain = encoder.forward(batch.ids, batch.sequences);
  for (const bool first_only : {false, true}) {
    std::vector<Tensor<float>> states, attentions;
    const models::ForwardOptions<float> both{.hidden_states = &states, .attentions = &attentions};
    if (first_only)
      encoder.first(batch.ids, batch.sequences, {.attentions = &attentions});
    else
      CHECK(encoder.forward(batch.ids, batch.sequences, both).host() == plain.host());
    REQUIRE(attentions.size() == 2);
    for (const auto& p : attentions) {
      REQUIRE(p.shape() == Shape({3, 3, 4, 4}));
      const std::vector<float> sums = sum(p, -1).host();
      for (std::size_t row = 0; row < sums.size(); ++row)
        CHECK(sums[row] == Approx(row % 4 < std::size_t{std::array{3u, 1u, 4u}[row / 12]} ? 1 : 0).margin(1e-6));
    }
    if (first_only) continue;
    REQUIRE(states.size() == 3);
    CHECK(states[0].shape() == Shape({8, 6}));
    CHECK(states[2].host() == plain.host());
  }
}

TEST_CASE("models::BertEncoder: the probabilities of a record follow from its queries and keys") {
  Random random(3);
  const models::BertEncoder<> encoder(tiny_bert(BertFamily::bert, 2), random);
  const Sequences one = Sequences::packed({4});
  std::vector<nn::AttentionRecord<float>> records;
  std::vector<Tensor<float>> attentions;
  encoder.forward(Tensor<int>({4}, {2, 5, 3, 6}), one, {.attentions = &attentions, .records = &records});
  REQUIRE(records.size() == 2);
  for (std::size_t layer = 0; layer < 2; ++layer) {
    const nn::AttentionRecord<float>& r = records[layer];
    CHECK(r.queries.shape() == Shape({4, 6}));
    const auto heads = [](const Tensor<float>& x) { return permute(reshape(x, {4, 3, 2}), {1, 0, 2}); };  // [H, T, K]
    const Tensor<float> scores = matmul(heads(r.queries), heads(r.keys), {.transpose_b = true}) * std::sqrt(0.5f);
    expect_close(joined(r.weights.host()), joined(softmax(scores, -1).host()), [](double) { return 1e-6; });
    expect_same_values(r.weights, attentions[layer]);
  }
}

TEST_CASE("models::BertClassifier: dropout is active if and only if there is a generator") {
  Random random(1);
  const BertBatch batch = ragged_batch();
  const models::BertClassifier<> model(tiny_bert(BertFamily::bert, 1), 2, random);
  const auto with_dropout = [&](std::uint64_t seed) {
    Random dropout(seed);
    return model.forward(batch.ids, batch.sequences, {.random = &dropout}).host();
  };
  CHECK(with_dropout(1) == with_dropout(1));
  CHECK(with_dropout(1) != with_dropout(2));
  CHECK(with_dropout(1) != model.forward(batch.ids, batch.sequences).host());
}

TEST_CASE("models::BertClassifier: token types default to 0") {
  Random random(1);
  const BertBatch batch = ragged_batch();
  const models::BertClassifier<> model(tiny_bert(BertFamily::bert, 1), 2, random);
  const Tensor<float> plain = model.forward(batch.ids, batch.sequences);
  expect_same_values(model.forward(batch.ids, batch.sequences, {.types = Tensor<int>({8}, std::vector<int>(8, 0))}),
                     plain);
  CHECK(model.forward(batch.ids, batch.sequences, {.types = batch.types}).host() != plain.host());
}

TEST_CASE("models::BertClassifier: a clone has its own weights, and a frozen encoder gets no gradient") {
  Random random(1);
  const BertBatch batch = ragged_batch();
  models::BertClassifier<> model(tiny_bert(BertFamily::bert, 1), 2, random);
  const auto before = model.forward(batch.ids, batch.sequences).host();
  each_parameter(model.encoder, [](const Name&, auto& p) { p.freeze(); });
  auto copy = clone(model);
  CHECK(parameter_count(copy) == parameter_count(model));
  backward(sum(copy.forward(batch.ids, batch.sequences)));
  each_parameter(copy.encoder, [](const Name&, const auto& p) { CHECK(!p.grad()); });
  CHECK(copy.classifier.weight.grad());
  CHECK(!model.classifier.weight.grad());
  copy.encoder.embeddings.words.weight.assign(zeros<float>({7, 6}));
  CHECK(copy.forward(batch.ids, batch.sequences).host() != before);
  CHECK(model.forward(batch.ids, batch.sequences).host() == before);
}

TEST_CASE("models::BertClassifier: activations in bf16 follow those in float") {
  Random random(1);
  const BertBatch batch = ragged_batch();
  const models::BertClassifier<> model(tiny_bert(BertFamily::bert, 2), 3, random);
  const auto expected = joined(model.forward(batch.ids, batch.sequences, {.types = batch.types}).host());
  const auto actual = cast<float>(model.forward<bf16>(batch.ids, batch.sequences, {.types = batch.types})).host();
  expect_close(joined(actual), expected, part_of_largest(0.05, expected));
}

TEST_CASE("models: BERT's initial weights have the deviation 0.02, its norms weights of 1, and its biases are 0") {
  Random random(1);
  const models::BertClassifier<> model({.vocabulary = 500, .D = 48, .layers = 1, .heads = 4, .ff_width = 96}, 3,
                                       random);
  const auto deviation = [](const auto& p) {
    double square = 0;
    for (const float w : p.value().host()) square += w * w / static_cast<double>(p.shape().size());
    return std::sqrt(square);
  };
  each_parameter(model, [&](const Name& name, const auto& p) {
    INFO(name.str());
    const bool is_norm = name.str().find("LayerNorm.weight") != std::string::npos;
    const double expected = p.shape().rank() > 1 ? 0.02 : is_norm ? 1 : 0;
    CHECK(deviation(p) == Approx(expected).epsilon(p.shape().size() > 2000 ? 0.05 : 0.3));
  });
}

TEST_CASE("models: ModernBERT's initial weights are truncated, and smaller in the last map of a sublayer") {
  Random random(1);
  const models::BertClassifier<> model(
      {.family = BertFamily::modernbert, .vocabulary = 500, .D = 64, .layers = 2, .heads = 4, .ff_width = 96}, 3,
      random);
  constexpr double truncated = 0.8796;  // the deviation of a standard normal number that is at most 2
  each_parameter(model, [&](const Name& name, const auto& p) {
    if (p.shape().rank() < 2) return;
    const std::string text = name.str();
    INFO(text);
    const auto has = [&](const char* part) { return text.find(part) != std::string::npos; };
    const double expected = has("classifier") ? 0.125 : has("Wo") || has("head.dense") ? 0.01 : 0.02;
    double square = 0, greatest = 0;
    for (const float w : p.value().host()) {
      square += w * w / static_cast<double>(p.shape().size());
      greatest = std::max(greatest, std::abs(static_cast<double>(w)));
    }
    CHECK(std::sqrt(square) == Approx(truncated * expected).epsilon(p.shape().size() > 2000 ? 0.05 : 0.3));
    CHECK(greatest <= 2 * expected * (1 + 1e-6));
  });
}

TEST_CASE("models: BERT refuses sizes and inputs that do not fit") {
  Random random(1);
  const BertBatch batch = ragged_batch();
  const auto changed = [](auto change) {
    BertConfig config = tiny_bert(BertFamily::bert, 1);
    change(config);
    return config;
  };
  const auto model = [&](const BertConfig& config) { return [&] { models::BertClassifier<>(config, 2, random); }; };
  CHECK(error_of<ShapeError>(model(changed([](auto& c) { c.heads = 4; }))).find("6 does not divide into 4 heads") !=
        std::string::npos);
  CHECK(error_of<ShapeError>(model(changed([](auto& c) { c.layers = -1; }))) ==
        "BertEncoder: the number of layers must not be negative, got -1");
  CHECK_THROWS_AS(model(changed([](auto& c) { c.vocabulary = 0; }))(), ShapeError);
  CHECK_THROWS_WITH(model(changed([](auto& c) { c.dropout = 1; }))(), ContainsSubstring("BertEmbeddings: dropout"));
  CHECK_THROWS_WITH(model(changed([](auto& c) { c.attention_dropout = -1; }))(),
                    ContainsSubstring("BertLayer: attention_dropout"));
  CHECK_THROWS_WITH(model(changed([](auto& c) { c.classifier_dropout = 2; }))(),
                    ContainsSubstring("BertClassifier: classifier_dropout"));
  const auto tagger = [&](const BertConfig& config, Index labels) {
    models::BertTokenClassifier<>(config, models::TokenHead::labels, labels, random);
  };
  CHECK_THROWS_WITH(tagger(changed([](auto& c) { c.classifier_dropout = 2; }), 3),
                    ContainsSubstring("BertTokenClassifier: dropout"));
  CHECK_THROWS_WITH(tagger(tiny_bert(BertFamily::bert, 1), 0), ContainsSubstring("Linear: out"));

  const models::BertEncoder<> bert(tiny_bert(BertFamily::bert, 1), random),
      distilbert(tiny_bert(BertFamily::distilbert, 1), random);
  CHECK_THROWS_AS(bert.forward(Tensor<int>({1}, {7}), Sequences::packed({1})), IndexError);
  CHECK_THROWS_AS(bert.forward(Tensor<int>({1}, {0}), Sequences::packed({1}), {.types = Tensor<int>({1}, {2})}),
                  IndexError);
  CHECK_THROWS_AS(bert.forward(batch.ids, batch.sequences, {.types = Tensor<int>({2}, {0, 1})}), ShapeError);
  CHECK_THROWS_AS(bert.first(batch.ids, Sequences::packed({3})), ShapeError);
  CHECK_THROWS_WITH(bert.first(Tensor<int>({6}, std::vector<int>(6, 1)), Sequences::packed({6})),
                    "LearnedPositions: a sequence of 6 tokens is longer than the table's 5 positions");
  CHECK_THROWS_WITH(distilbert.forward(batch.ids, batch.sequences, {.types = batch.types}),
                    "BertEmbeddings: this model has no token types; leave the types empty");
  const models::BertMaskedLm<> masked(tiny_bert(BertFamily::bert, 1), random);
  CHECK_THROWS_AS(masked.forward(batch.ids, batch.sequences, Tensor<int>({1}, {8})), IndexError);
}
