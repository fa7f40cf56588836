// The CUDA kernel of an encoder's embeddings, their norm and its dropout, compared bit by bit with the operations whose
// place it takes.
#include <heddle/heddle.hpp>
#include <heddle/models/bert.hpp>

#include "../harness/compare.hpp"
#include "norms.hpp"

using namespace heddle;
using namespace heddle::testing;
using models::BertEmbeddings;

namespace {

enum class TokenTypes { none, absent, given };

// The sizes of an embedding layer, and what follows its norm.
struct EmbeddingSetup {
  Index D;
  TokenTypes types = TokenTypes::given;
  Index type_count = 3;
  double dropout = 0;
  models::BertFamily family = models::BertFamily::bert;
};

template <class T>
BertEmbeddings<T> make_embeddings(const EmbeddingSetup& setup) {
  Random random(3);
  models::BertConfig config;
  config.vocabulary = 11;
  config.D = setup.D;
  config.positions = 20;
  config.types = setup.types == TokenTypes::none ? 0 : setup.type_count;
  config.family = setup.family;
  config.padding_id = 1;
  config.deviation = 0.5;
  config.dropout = setup.dropout;
  BertEmbeddings<T> layer(config, random);
  nn::init::normal(layer.norm.gamma, random, 1, 0.3);
  nn::init::normal(*layer.norm.beta, random, 0, 0.3);
  to(layer, Device::cuda);
  return layer;
}

// N tokens in texts of 0 to 17 tokens, on the GPU. Some ids are the padding's.
struct EmbeddingInputs {
  Sequences sequences;
  Tensor<int> ids, types;

  EmbeddingInputs(Index N, const EmbeddingSetup& setup) : sequences(Sequences::packed({})) {
    std::vector<int> lengths, words, of_type;
    for (Index left = N, b = 0; left > 0; left -= lengths.back(), ++b)
      lengths.push_back(static_cast<int>(std::min<Index>(left, b * 7 % 18)));
    for (Index n = 0; n < N; ++n) {
      words.push_back(static_cast<int>(n * n % 11));
      of_type.push_back(static_cast<int>(n % 5 % setup.type_count));
    }
    sequences = Sequences::packed(lengths).to(Device::cuda);
    ids = Tensor<int>({N}, words).to(Device::cuda);
    if (setup.types == TokenTypes::given) types = Tensor<int>({N}, of_type).to(Device::cuda);
  }
};

// Computes BertEmbeddings::forward() by separate operations.
template <class A, class T>
Tensor<A> separately_embedded(const BertEmbeddings<T>& layer, const EmbeddingInputs& in, Random* random) {
  const Tensor<A> x = layer.positions->template embed<A>(layer.words, in.ids, in.sequences);
  if (!layer.types) return layer.norm.dropped(x, layer.dropout, random);
  if (in.types) return layer.norm.dropped(x, layer.types->template operator()<A>(in.types), 0, layer.dropout, random);
  return layer.norm.dropped(x + slice(layer.types->weight.template as<A>(), 0, 0, 1), layer.dropout, random);
}
template <class A, class T>
Tensor<A> embedded_at_once(const BertEmbeddings<T>& layer, const EmbeddingInputs& in, Random* random) {
  return layer.template forward<A>(in.ids, in.sequences, in.types, random);
}

// Returns the values of forward(&random), and the gradients of all parameters that are trained.
template <class T, class Forward>
std::vector<std::vector<double>> values_and_gradients(const BertEmbeddings<T>& layer, Forward&& forward,
                                                      Device device = Device::cuda) {
  Random random(5, 1);
  random.take(3);
  const auto y = forward(&random);
  backward(sum(cast<float>(y) * cast<float>(testing::random<float>(y.shape(), 7)).to(device)));
  std::vector<std::vector<double>> found{joined(y.host())};
  each_parameter(layer, [&](const Name&, const auto& p) {
    found.push_back(p.grad() ? joined(p.grad().host()) : std::vector<double>());
  });
  zero_grad(layer);
  return found;
}

// Checks values and gradients. The gradient of absent types is added up in another order, and in bf16 the separate
// operations round it.
template <class A, class T>
void check_embedded(Index N, const EmbeddingSetup& setup) {
  CAPTURE(N, setup.D, static_cast<int>(setup.types), setup.type_count, setup.dropout, sizeof(A), sizeof(T));
  const BertEmbeddings<T> layer = make_embeddings<T>(setup);
  const EmbeddingInputs in(N, setup);
  const auto expected = values_and_gradients(layer, [&](Random* r) { return separately_embedded<A>(layer, in, r); });
  const auto found = values_and_gradients(layer, [&](Random* r) { return embedded_at_once<A>(layer, in, r); });
  REQUIRE(found.size() == expected.size());
  constexpr std::size_t of_types = 3;  // after the values and the gradients of words and positions
  for (std::size_t i = 0; i < found.size(); ++i) {
    CAPTURE(i);
    if (i == of_types && setup.types == TokenTypes::absent)
      expect_close(found[i], expected[i], part_of_largest(std::is_same_v<A, bf16> ? 0.005 : 1e-6, expected[i]));
    else
      CHECK(found[i] == expected[i]);
  }
}

template <class A, class T>
void check_all_embedded(Index N, Index D) {
  for (const TokenTypes types : {TokenTypes::none, TokenTypes::absent, TokenTypes::given})
    check_embedded<A, T>(N, {.D = D, .types = types, .dropout = types == TokenTypes::none ? 0 : 0.3});
}

std::string message_of(const std::function<void()>& f) {
  try {
    f();
    cuda::synchronize();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// Returns what the next synchronizing call throws if these words and types are invalid.
std::string said_of_invalid(Index D, const std::vector<std::pair<Index, int>>& words,
                            const std::vector<std::pair<Index, int>>& types) {
  const EmbeddingSetup setup{.D = D};
  const BertEmbeddings<float> layer = make_embeddings<float>(setup);
  EmbeddingInputs in(40, setup);
  const auto changed = [](const Tensor<int>& x, const auto& changes) {
    std::vector<int> values = x.host();
    for (const auto& [at, value] : changes) values[static_cast<std::size_t>(at)] = value;
    return Tensor<int>(x.shape(), values).to(Device::cuda);
  };
  in.ids = changed(in.ids, words);
  in.types = changed(in.types, types);
  return message_of([&] { embedded_at_once<float>(layer, in, nullptr); });
}

}  // namespace

TEST_CASE("cuda embed_layer_norm: values and gradients have the bits of the separate operations") {
  if (races_are_watched()) {
    for (const Index D : {1, 33, 64}) check_all_embedded<float, float>(9, D);
    check_embedded<bf16, float>(130, {.D = 8, .dropout = 0.3});
    return;
  }
  for (const Index D : {1, 31, 33, 64, 257}) {
    for (const Index N : {0, 1, 31}) {
      check_all_embedded<float, float>(N, D);
      check_all_embedded<bf16, float>(N, D);
      check_all_embedded<bf16, bf16>(N, D);
    }
    check_embedded<float, float>(257, {.D = D, .dropout = 0.3});
    check_embedded<bf16, float>(257, {.D = D, .types = TokenTypes::absent});
  }
}

TEST_CASE("cuda embed_layer_norm: rows of every layout of a norm") {
  for (const Index D : races_are_watched()
                           ? std::vector<Index>{1025, streamed_row()}
                           : std::vector<Index>{256, 512, 768, 1024, 1032, 1100, 4097, streamed_row(), 8201}) {
    check_embedded<float, float>(3, {.D = D, .dropout = 0.3});
    check_embedded<bf16, float>(3, {.D = D, .types = TokenTypes::absent});
    if (D == 768 || D == streamed_row()) check_embedded<bf16, bf16>(3, {.D = D, .dropout = 0.3});
  }
}

TEST_CASE("cuda embed_layer_norm: absent types are type 0") {
  for (const Index N : races_are_watched() ? std::vector<Index>{130} : std::vector<Index>{31, 128, 300, 4097})
    for (const Index D : {3, 8}) {
      CAPTURE(N, D);
      const EmbeddingSetup setup{.D = D, .types = TokenTypes::absent};
      const BertEmbeddings<float> layer = make_embeddings<float>(setup);
      EmbeddingInputs in(N, setup);
      const auto absent = values_and_gradients(layer, [&](Random* r) { return embedded_at_once<bf16>(layer, in, r); });
      in.types = Tensor<int>({N}, std::vector<int>(static_cast<std::size_t>(N), 0)).to(Device::cuda);
      CHECK(values_and_gradients(layer, [&](Random* r) { return embedded_at_once<bf16>(layer, in, r); }) == absent);
    }
}

TEST_CASE("cuda embed_layer_norm: types that are taken often, and ranges of their columns") {
  if (races_are_watched()) return check_embedded<float, float>(500, {.D = 5, .type_count = 2});
  for (const Index count : {1, 2, 16}) {
    check_embedded<float, float>(700, {.D = 768, .type_count = count});
    check_embedded<float, float>(300, {.D = 1101, .type_count = count});
    check_embedded<bf16, float>(700, {.D = 5, .type_count = count});
  }
  check_embedded<float, float>(4097, {.D = 3});
  const LoweredLimits low({.scanned_ids = 0});
  check_embedded<bf16, bf16>(700, {.D = 8});
}

TEST_CASE("cuda embed_layer_norm: more types than one launch adds up, and a type that is not trained") {
  check_embedded<float, float>(31, {.D = 8, .type_count = 17});
  const EmbeddingSetup setup{.D = 8};
  BertEmbeddings<float> layer = make_embeddings<float>(setup);
  const EmbeddingInputs in(31, setup);
  const auto all = values_and_gradients(layer, [&](Random* r) { return embedded_at_once<float>(layer, in, r); });
  layer.types->padding_id = 1;
  auto found = values_and_gradients(layer, [&](Random* r) { return embedded_at_once<float>(layer, in, r); });
  for (std::size_t d = 8; d < 16; ++d) CHECK(std::exchange(found[3][d], all[3][d]) == 0);
  CHECK(found == all);
}

TEST_CASE("cuda embed_layer_norm: a table that is frozen has no gradient, and the others have theirs") {
  const EmbeddingSetup setup{.D = 33};
  BertEmbeddings<float> layer = make_embeddings<float>(setup);
  const EmbeddingInputs in(150, setup);
  const auto forward = [&](Random* r) { return embedded_at_once<bf16>(layer, in, r); };
  const auto all = values_and_gradients(layer, forward);
  std::size_t frozen = 1;
  const auto check_without = [&](auto& weight) {
    CAPTURE(frozen);
    weight.freeze();
    auto expected = all;
    expected[frozen++].clear();
    CHECK(values_and_gradients(layer, forward) == expected);
    weight.freeze(false);
  };
  check_without(layer.words.weight);
  check_without(layer.positions->weight);
  check_without(layer.types->weight);
}

TEST_CASE("cuda embed_layer_norm: positions of RoBERTa, with padding inside of texts") {
  constexpr models::BertFamily family = models::BertFamily::roberta;
  for (const Index N : races_are_watched() ? std::vector<Index>{31} : std::vector<Index>{1, 31, 300, 4097}) {
    check_embedded<float, float>(N, {.D = 33, .types = TokenTypes::absent, .type_count = 1, .family = family});
    check_embedded<bf16, float>(N, {.D = 8, .type_count = 2, .dropout = 0.3, .family = family});
    check_embedded<bf16, bf16>(N, {.D = 8, .types = TokenTypes::none, .family = family});
  }
  // The CPU has the same values and gradients.
  const EmbeddingSetup setup{.D = 8, .types = TokenTypes::absent, .type_count = 1, .family = family};
  const BertEmbeddings<float> there = make_embeddings<float>(setup);
  BertEmbeddings<float> here = make_embeddings<float>(setup);
  to(here, Device::cpu);
  EmbeddingInputs in(60, setup);
  const auto of = [&](const BertEmbeddings<float>& layer, Device device) {
    in.ids = in.ids.to(device);
    in.sequences = in.sequences.to(device);
    return values_and_gradients(
        layer, [&](Random* r) { return embedded_at_once<float>(layer, in, r); }, device);
  };
  const auto found = of(there, Device::cuda), expected = of(here, Device::cpu);
  REQUIRE(found.size() == expected.size());
  for (std::size_t i = 0; i < found.size(); ++i)
    expect_close(found[i], expected[i], part_of_largest(1e-5, expected[i]));
}

TEST_CASE("cuda embed_layer_norm: padded batches, and ids on the host") {
  const EmbeddingSetup setup{.D = 33, .dropout = 0.3};
  const BertEmbeddings<float> layer = make_embeddings<float>(setup);
  EmbeddingInputs in(24, setup);
  in.sequences = Sequences::padded({6, 0, 3, 5}, 6).to(Device::cuda);
  for (auto* ids : {&in.ids, &in.types}) *ids = reshape(*ids, {4, 6});
  const auto forward = [&](Random* r) { return embedded_at_once<bf16>(layer, in, r); };
  const auto expected = values_and_gradients(layer, [&](Random* r) { return separately_embedded<bf16>(layer, in, r); });
  CHECK(values_and_gradients(layer, forward) == expected);
  CHECK(forward(nullptr).shape() == Shape({4, 6, 33}));
  for (auto* ids : {&in.ids, &in.types}) *ids = ids->to(Device::cpu);
  CHECK(values_and_gradients(layer, forward) == expected);
}

TEST_CASE("cuda embed_layer_norm: the first invalid word is reported, or else the first invalid type") {
  for (const Index D : {Index{8}, Index{33}, Index{1032}, streamed_row()}) {
    CAPTURE(D);
    CHECK(said_of_invalid(D, {}, {}) == "");
    CHECK(said_of_invalid(D, {{30, 11}, {7, -1}}, {{2, 3}}) ==
          "embed: id -1 at position 7 is outside the table's 11 rows");
    CHECK(said_of_invalid(D, {}, {{39, -2}, {6, 3}}) == "embed: id 3 at position 6 is outside the table's 3 rows");
  }
  expect_same_always([] { return said_of_invalid(8, {{39, 99}}, {{0, 9}, {38, 3}}); });
  expect_same_always([] { return said_of_invalid(8, {}, {{39, 9}, {38, 3}}); });
}

TEST_CASE("cuda embed_layer_norm: rows of invalid words and types are those of the separate operations") {
  const EmbeddingSetup setup{.D = 33};
  const BertEmbeddings<float> layer = make_embeddings<float>(setup);
  EmbeddingInputs in(4, setup);
  in.ids = Tensor<int>({4}, {2, 11, 3, 4}).to(Device::cuda);
  in.types = Tensor<int>({4}, {0, 1, -1, 2}).to(Device::cuda);
  const auto of = [&](auto f) {
    const Tensor<float> y = f();
    CHECK_THROWS_AS(cuda::synchronize(), IndexError);
    return y.host();
  };
  CHECK(of([&] { return embedded_at_once<float>(layer, in, nullptr); }) ==
        of([&] { return separately_embedded<float>(layer, in, nullptr); }));
}

TEST_CASE("cuda embed_layer_norm: messages are those of the CPU") {
  const EmbeddingSetup setup{.D = 8};
  BertEmbeddings<float> here = make_embeddings<float>(setup), there = make_embeddings<float>(setup);
  to(here, Device::cpu);
  const Tensor<int> ids({21}, std::vector<int>(21)), wrong({2}, {0, 11}), wrong_types({2}, {3, 0});
  const auto check = [&](const std::string& expected, const Tensor<int>& words, const std::vector<int>& lengths,
                         const Tensor<int>& types) {
    const auto said = [&](const auto& layer, Device device) {
      return message_of([&, s = Sequences::packed(lengths).to(device)] {
        Random random(1);
        layer.forward(words, s, types, &random);
      });
    };
    const std::string of_cpu = said(here, Device::cpu);
    CHECK(of_cpu.find(expected) != std::string::npos);
    CHECK(said(there, Device::cuda) == of_cpu);
  };
  const Tensor<int> two = ids.leading(0, 2), three = ids.leading(0, 3);
  check("LearnedPositions: a sequence of 21 tokens", ids, {21}, {});
  check("one row for each of the 3 rows", two, {3}, three);
  check("embed: id 11 at position 1 is outside the table's 11 rows", wrong, {2}, three);
  check("the token types [3] must have the shape of the ids, [2]", two, {2}, three);
  check("embed: id 3 at position 0 is outside the table's 3 rows", two, {2}, wrong_types);
  here.norm.eps = there.norm.eps = -1;
  check("embed: id 3 at position 0", two, {2}, wrong_types);
  check("residual_layer_norm: eps", two, {2}, two);
  check("layer_norm: eps", two, {2}, {});
  here.norm.eps = there.norm.eps = 1;
  here.dropout = there.dropout = 1;
  check("residual_layer_norm: ", two, {2}, two);
  here.types.reset();
  there.types.reset();
  check("this model has no token types", two, {2}, three);
}

TEST_CASE("cuda embed_layer_norm: tables, parameters and results at unaligned addresses") {
  const Index N = 3, D = 64;
  const Tensor<int> ids = Tensor<int>({N}, {2, 0, 1}).to(Device::cuda);
  const auto numbers = [](std::uint64_t seed, Index rows) {
    return cast<float>(random<float>({rows * D + 1}, seed)).to(Device::cuda);
  };
  const std::array<Tensor<float>, 7> memory{numbers(1, 3), numbers(2, 3), numbers(3, 3), numbers(4, 1),
                                            numbers(5, 1), numbers(6, N), numbers(7, N)};
  const auto normed = [&](std::size_t shifted) {
    const auto placed = [&](std::size_t which, Index rows) {  // the same numbers, one element further or not
      const Tensor<float> values = reshape(slice(memory[which], 0, 1, rows * D + 1), {rows, D});
      return shifted == which ? values : values * 1;
    };
    Tensor<float> sum = placed(5, N), y = placed(6, N), mean({N}, Device::cuda), rstd({N}, Device::cuda);
    const Tensor<float> words = placed(0, 3), positions = placed(1, 3), types = placed(2, 3), gamma = placed(3, 1),
                        beta = placed(4, 1);
    const kernel::IdCheck check{"op", "id", "outside", 3};
    const kernel::EmbeddingTables<float> tables{{check, view<1>(ids), view<2>(words)},
                                                {check, view<1>(ids), view<2>(positions)},
                                                {check, view<1>(ids), view<2>(types)}};
    kernel::embed_layer_norm(Cuda{}, tables, kernel::ElementDropout{}, view<1>(gamma), view<1>(beta), 1e-5,
                             view<2>(sum), view<2>(y), view<1>(mean), view<1>(rstd));
    return joined(sum.host(), y.host(), mean.host(), rstd.host());
  };
  const auto expected = normed(memory.size());
  for (std::size_t shifted = 0; shifted < memory.size(); ++shifted) {
    CAPTURE(shifted);
    const auto found = normed(shifted);
    expect_close(found, expected, part_of_largest(1e-5, expected));
  }
}

TEMPLATE_TEST_CASE("cuda embed_layer_norm: results do not depend on schedules or garbage in memory", "", float, bf16) {
  for (const auto& [N, D] : {std::pair<Index, Index>{33, 33}, {700, 8}, {2, 1032}}) {
    if (races_are_watched() && N > 33) continue;
    const EmbeddingSetup setup{.D = D, .type_count = 2, .dropout = 0.3};
    const BertEmbeddings<float> layer = make_embeddings<float>(setup);
    const EmbeddingInputs in(N, setup);
    expect_same_always([&, &in = in] {
      return values_and_gradients(layer, [&](Random* r) { return embedded_at_once<TestType>(layer, in, r); });
    });
  }
}
