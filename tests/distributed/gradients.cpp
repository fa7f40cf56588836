// Gradients of parts of a batch, added over parts and processes.
#include <heddle/data/batches.hpp>
#include <heddle/distributed/gradients.hpp>
#include <heddle/heddle.hpp>
#include <heddle/models/bert.hpp>

#include "../harness/numbers.hpp"
#include "catch.hpp"
#include "thread_transport.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

constexpr int classes = 3;

// A classifier with everything that gradients may be: rows of an embedding, a weight that is used twice, a frozen one,
// one that no loss reaches, and numbers of double.
struct Everything {
  nn::Embedding<float> words;
  nn::Encoder<float> encoder;
  nn::Linear<float> twice, head;
  Parameter<float> frozen{full<float>({8}, 2.f)}, unused{full<float>({4}, 1.f)};
  Parameter<double> scale{full<double>({1}, 1.)};

  explicit Everything(Random& random)
      : words(50, 8, random),
        encoder(1, {.D = 8, .heads = 2, .ff_width = 16, .dropout = .2, .attention_dropout = .1}, random),
        twice(8, 8, random),
        head(8, classes, random) {
    frozen.freeze();
  }
  Tensor<float> operator()(const data::Batch& batch, Random* random) const {
    const Tensor<float> x = encoder(words(batch.ids), batch.sequences, random);
    const Tensor<float> pooled = dropout(first_rows(x, batch.sequences), .3, random);
    return head(twice(twice(pooled)) * frozen.value()) * cast<float>(scale.value());
  }
  static void visit(auto& self, auto&& f) {
    f("words", self.words);
    f("encoder", self.encoder);
    f("twice", self.twice);
    f("head", self.head);
    f("frozen", self.frozen);
    f("unused", self.unused);
    f("scale", self.scale);
  }
};

// Eleven texts of 2 to 10 tokens.
data::Batch eleven_texts() {
  data::LabelledSequences texts;
  Random random(3);
  for (int row = 0; row < 11; ++row) {
    std::vector<int> ids;
    for (int t = 0; t <= row * 5 % 9 + 1; ++t) ids.push_back(static_cast<int>(random.next() % 50));
    texts.add(ids, row % classes);
  }
  std::vector<Index> rows(11);
  std::iota(rows.begin(), rows.end(), Index{0});
  return texts.batch(rows);
}

template <class M>
std::vector<double> gradients_of(const M& model) {
  std::vector<double> all;
  each_parameter(model, [&](const Name&, const auto& p) {
    const auto dx = p.grad();
    all.push_back(dx.has_data());
    if (!dx) return;
    for (const auto value : dx.host()) all.push_back(value);
  });
  return all;
}

// Runs backward on a part of the batch, whose loss is its share of the whole batch's.
void backward_of_part(const Everything& model, const data::Batch& whole, Index number, Index count) {
  const BatchPart place = data::place_of_part(whole.sequences, number, count);
  if (place.sequences == 0) return;
  const data::Batch part = data::part(whole, place);
  Random random = Random(7).for_part(place);
  const auto share = static_cast<float>(place.sequences) / static_cast<float>(whole.sequences.count());
  backward(cross_entropy(model(part, &random), part.labels), full<float>(Shape{}, share));
}

// Returns the gradients of the eleven texts in parts on each process.
std::vector<std::vector<double>> on_parts(int size, Index groups, Index parts_of_group,
                                          distributed::Reduction reduction = distributed::Reduction::exact) {
  std::vector<std::vector<double>> found(static_cast<std::size_t>(size));
  const data::Batch whole = eleven_texts();
  on_processes(size, [&](const distributed::Communicator& c) {
    Random random(1);
    const Everything model(random);
    distributed::GradientSum sum(model, c, {.mean = false, .reduction = reduction});
    const auto own = distributed::parts_of(c.rank(), c.size(), groups);
    for (Index group = own.first; group < own.last; ++group, sum.end_group())
      for (Index k = 0; k < parts_of_group; ++k, sum.add_part())
        backward_of_part(model, whole, group * parts_of_group + k, groups * parts_of_group);
    sum.finish();
    found[static_cast<std::size_t>(c.rank())] = gradients_of(model);
  });
  return found;
}

double largest_difference(const std::vector<double>& a, const std::vector<double>& b) {
  double most = a.size() == b.size() ? 0 : infinity<double>;
  for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) most = std::max(most, std::abs(a[i] - b[i]));
  return most;
}

}  // namespace

TEST_CASE("GradientSum: the same bits on any number of processes, and the gradients of the whole batch") {
  Random random(1);
  const Everything model(random);
  Random dropout(7);
  const data::Batch whole = eleven_texts();
  backward(cross_entropy(model(whole, &dropout), whole.labels));
  const std::vector<double> expected = gradients_of(model);

  for (const Index parts : {1, 2, 8, 16}) {
    const std::vector<double> alone = on_parts(1, parts, 1)[0];
    CAPTURE(parts);
    CHECK(largest_difference(alone, expected) < 2e-6);  // with the same dropout
    for (int size = 2; size <= std::min<Index>(parts, 8); ++size) {
      CAPTURE(size);
      CHECK(on_parts(size, parts, 1) == std::vector(static_cast<std::size_t>(size), alone));
    }
  }
}

TEST_CASE("GradientSum: groups of parts are added like as many parts") {
  const std::vector<double> alone = on_parts(1, 8, 1)[0];
  CHECK(on_parts(1, 1, 8)[0] == alone);
  CHECK(on_parts(1, 2, 4)[0] == alone);
  CHECK(on_parts(2, 2, 4) == std::vector(2, alone));
  CHECK(on_parts(4, 4, 2) == std::vector(4, alone));
  const std::vector<double> of_three = on_parts(1, 4, 3)[0];
  CHECK(on_parts(2, 4, 3) == std::vector(2, of_three));
  CHECK(largest_difference(of_three, alone) < 2e-6);
}

TEST_CASE("GradientSum: a fast reduction has the same value but for rounding") {
  const std::vector<double> exact = on_parts(3, 4, 1)[0];
  for (const auto& fast : on_parts(3, 4, 1, distributed::Reduction::fast))
    CHECK(largest_difference(fast, exact) < 2e-6);
}

TEST_CASE("all_reduce_gradients: the mean over the processes; one without gradients counts as zeros") {
  std::vector<std::vector<float>> found(3);
  on_processes(3, [&](const distributed::Communicator& c) {
    Random random(1);
    nn::Linear<float> model(2, 1, random);
    const auto x = full<float>({1, 2}, static_cast<float>(c.rank() * 3));
    if (c.rank() != 1) backward(heddle::sum(model(x)));
    distributed::all_reduce_gradients(model, c);
    for (const auto* p : {&model.weight, &*model.bias})
      for (const float dx : p->grad().host()) found[static_cast<std::size_t>(c.rank())].push_back(dx);
  });
  CHECK(found == std::vector(3, std::vector<float>{2, 2, 2.f / 3}));
}

TEST_CASE("all_reduce_gradients: a gradient that is not finite is named with its process, everywhere") {
  for (const bool of_rows : {false, true}) {
    std::vector<std::string> errors(3);
    std::vector<int> trains(3, 0);
    on_processes(3, [&](const distributed::Communicator& c) {
      Random random(1);
      Everything model(random);
      const data::Batch whole = eleven_texts();
      backward_of_part(model, whole, c.rank(), 3);
      if (c.rank() == 2) {
        if (of_rows)
          heddle::detail::set_sparse_grad(model.words.weight.value(),
                                          {Tensor<Index>({1}, {4}), full<float>({1, 8}, NAN)});
        else
          model.scale.value().set_grad(full<double>({1}, HUGE_VAL));
      }
      const auto rank = static_cast<std::size_t>(c.rank());
      try {
        distributed::all_reduce_gradients(model, c);
      } catch (const Error& error) {
        errors[rank] = error.what();
      }
      bool ok = true;
      each_parameter(model, [&](const Name&, const auto& p) { ok = ok && !p.grad(); });
      backward_of_part(model, whole, c.rank(), 3);
      distributed::all_reduce_gradients(model, c);
      trains[rank] = ok && model.scale.grad().has_data();
    });
    CHECK(errors == std::vector<std::string>(3, std::string("the gradient of parameter '") +
                                                    (of_rows ? "words.weight" : "scale") +
                                                    "' is not finite on process 2; nothing was updated, and all "
                                                    "gradients were cleared"));
    CHECK(trains == std::vector<int>(3, 1));
  }
}

namespace {

// A model whose gradients are large enough to travel while the backward runs.
struct Large {
  nn::Embedding<float> words;
  nn::Linear<float> a, b, last;
  Parameter<float> sometimes{full<float>({300}, 1.f)};
  Parameter<double> scale{full<double>({1}, 1.)};

  explicit Large(Random& random)
      : words(40, 300, random), a(300, 600, random), b(600, 300, random), last(300, 1, random) {}
  // Returns the loss of a part of a batch. In step 2 all words are used, and in steps 1 and 3 the
  // parameter `sometimes` is.
  Tensor<float> loss(Index part, Index step) const {
    const Tensor<int> ids({3}, {static_cast<int>(part), static_cast<int>(part + step), 7});
    Tensor<float> x = b(gelu(a(words(ids))));
    x = b(gelu(a(x)));
    if (step % 2 == 1) x = x * sometimes.value();
    if (step == 2) x = x + heddle::mean(words.weight.value());
    return heddle::mean(last(x)) * cast<float>(scale.value());
  }
  static void visit(auto& self, auto&& f) {
    f("words", self.words);
    f("a", self.a);
    f("b", self.b);
    f("last", self.last);
    f("sometimes", self.sometimes);
    f("scale", self.scale);
  }
};

}  // namespace

TEST_CASE("GradientSum: gradients that travel while the backward runs have the same bits") {
  constexpr Index parts = 8, steps = 4;
  const auto trained = [&](int size, Index groups) {
    std::vector<std::vector<double>> found(static_cast<std::size_t>(size));
    on_processes(size, [&](const distributed::Communicator& c) {
      Random random(1);
      Large model(random);
      optim::AdamW optimizer(model, {.lr = 1e-3});
      distributed::GradientSum sum(model, c, {.mean = false});
      const auto own = distributed::parts_of(c.rank(), c.size(), groups);
      const Index of_group = parts / groups;
      for (Index step = 0; step < steps; ++step) {
        for (Index part = own.first * of_group; part < own.last * of_group; ++part) {
          const auto compute = [&] {
            if (part != 5) backward(model.loss(part, step));  // part 5 has no rows
          };
          if (part + 1 == own.last * of_group) {
            sum.add_last_part(compute);
          } else {
            compute();
            sum.add_part();
            if ((part + 1) % of_group == 0) sum.end_group();
          }
        }
        sum.finish();
        std::vector<double>& all = found[static_cast<std::size_t>(c.rank())];
        for (const double value : gradients_of(model)) all.push_back(value);
        optimizer.step();
      }
    });
    return found;
  };
  const std::vector<double> alone = trained(1, 8)[0];
  for (const int size : {2, 3, 4, 8}) {
    CAPTURE(size);
    CHECK((trained(size, 8) == std::vector(static_cast<std::size_t>(size), alone)));
  }
  CHECK((trained(2, 2) == std::vector(2, alone)));
}

TEST_CASE("add_last_part: errors while gradients travel") {
  std::vector<std::string> errors(2), others(2);
  std::vector<int> trains(2, 0);
  on_processes(2, [&](const distributed::Communicator& c) {
    Random random(1);
    Large model(random);
    distributed::GradientSum sum(model, c);
    const auto rank = static_cast<std::size_t>(c.rank());
    const auto step = [&](float scale) {
      sum.add_last_part([&] { backward(model.loss(c.rank(), 0), full<float>({1}, scale)); });
      sum.finish();
    };
    step(1);
    try {
      step(c.rank() == 1 ? NAN : 1.f);
    } catch (const Error& error) {
      errors[rank] = error.what();
    }
    step(1);
    step(1);
    trains[rank] = model.a.weight.grad().has_data();
    // Both processes fail at the same place.
    try {
      sum.add_last_part([&] {
        backward(model.loss(0, 0));
        backward(model.loss(1, 0));
      });
    } catch (const Error& error) {
      others[rank] = error.what();
    }
  });
  CHECK(errors == std::vector<std::string>(2,
                                           "the gradient of parameter 'words.weight' is not finite on process 1; "
                                           "nothing was updated, and all gradients were cleared"));
  CHECK(trains == std::vector<int>(2, 1));
  CHECK(others == std::vector<std::string>(2,
                                           "add_last_part: the last part has a second backward; add the losses and "
                                           "call backward once"));
}

TEST_CASE("GradientSum: after the last part, a part of the same batch is refused") {
  Random random(1);
  Everything model(random);
  distributed::GradientSum sum(model);
  for (int batch = 0; batch < 2; ++batch) {
    sum.add_last_part([] {});
    CHECK_THROWS_WITH(sum.add_part(), ContainsSubstring("the last part of the batch was added; call finish()"));
    CHECK_THROWS_WITH(sum.add_last_part([] {}), ContainsSubstring("the last part of the batch was added"));
    sum.finish();
  }
}

TEST_CASE("GradientSum: a part that fails is dropped, and the next batch is added") {
  std::vector<double> norms(2);
  on_processes(2, [&](const distributed::Communicator& c) {
    Random random(1);
    Large model(random);
    distributed::GradientSum sum(model, c);
    const auto step = [&](bool fails) {
      backward(model.loss(c.rank() + 2, 0));
      sum.add_part();
      sum.add_last_part([&] {
        backward(model.loss(c.rank(), 0));
        require(!fails, "it fails");
      });
      sum.finish();
      return optim::grad_norm(model);
    };
    const double first = step(false);
    zero_grad(model);
    try {
      step(true);
    } catch (const Error&) {
      norms[static_cast<std::size_t>(c.rank())] = step(false) / first;
    }
  });
  CHECK(norms == std::vector(2, 1.));
}

TEST_CASE("GradientSum: parameters that are frozen later, and other numbers of parameters") {
  std::vector<std::string> errors(2);
  std::vector<int> are_frozen(2, 0);
  on_processes(2, [&](const distributed::Communicator& c) {
    Random random(1);
    Everything model(random);
    distributed::GradientSum sum(model, c);
    model.twice.weight.freeze();
    backward_of_part(model, eleven_texts(), c.rank(), 2);
    sum.add_part();
    sum.finish();
    const auto rank = static_cast<std::size_t>(c.rank());
    are_frozen[rank] = !model.twice.weight.grad() && model.head.weight.grad();
    if (rank == 1) model.head.weight.freeze();
    distributed::GradientSum other(model, c);
    try {
      other.finish();
    } catch (const Error& error) {
      errors[rank] = error.what();
    }
  });
  CHECK(are_frozen == std::vector<int>(2, 1));
  CHECK((errors[0] == errors[1] && errors[0].starts_with("GradientSum: process 1 has ")));
}

TEST_CASE("broadcast: a model and its optimizer continue on all processes as on the first") {
  std::vector<std::vector<float>> weights(3);
  on_processes(3, [&](const distributed::Communicator& c) {
    Random random(static_cast<std::uint64_t>(c.rank() + 1));
    Everything model(random);
    optim::AdamW optimizer(model);
    const data::Batch whole = eleven_texts();
    const auto step = [&](Index part) {
      zero_grad(model);
      backward_of_part(model, whole, part, 4);
      optimizer.step();
    };
    for (int n = 0; n <= c.rank(); ++n) step(n);  // processes have made different numbers of steps
    distributed::broadcast(model, c, 1);
    distributed::broadcast(optimizer.state(), c, 1);
    step(3);
    std::vector<float>& found = weights[static_cast<std::size_t>(c.rank())];
    each_parameter(model, [&](const Name&, const auto& p) {
      for (const auto value : p.value().host()) found.push_back(static_cast<float>(value));
    });
  });
  CHECK((weights[0] == weights[1] && weights[2] == weights[1]));
}

TEST_CASE("for_part: dropout of a part is that of its rows in the whole batch") {
  const Sequences whole = Sequences::packed({3, 2, 5, 2, 40, 7});
  const auto D = Index{16};
  const auto x = converted<float>(random({whole.rows(), D}, 1)), of_texts = converted<float>(random({6, D}, 2));
  const auto qkv = converted<float>(random({whole.rows(), 3 * D}, 3));
  const auto results = [&](const Tensor<float>& rows, const Tensor<float>& texts, const Tensor<float>& packed,
                           const Sequences& sequences, Random generator) {
    const auto first = dropout(rows, .4, generator), second = dropout(texts, .4, generator);
    const auto third = attention(columns(packed, 0, D), columns(packed, D, D), columns(packed, 2 * D, D), sequences,
                                 {.heads = 2, .dropout = .3, .random = &generator});
    // One query for each text, as in the last layer of a classifier.
    const auto fourth = attention(texts, columns(packed, D, D), columns(packed, 2 * D, D),
                                  Sequences::packed(std::vector<int>(static_cast<std::size_t>(sequences.count()), 1)),
                                  {.heads = 2, .dropout = .3, .random = &generator, .keys = &sequences});
    return std::tuple(first, second, third, fourth, generator.position());
  };
  const auto [rows, texts, attended, of_first, position] = results(x, of_texts, qkv, whole, Random(9));
  for (const Index parts : {1, 2, 3, 4, 6, 8})
    for (Index number = 0; number < parts; ++number) {
      const BatchPart place = data::place_of_part(whole, number, parts);
      const Index first = place.first_row, last = first + place.rows, text = place.first_sequence;
      const auto [a, b, c, d, end] =
          results(x.leading(first, last), of_texts.leading(text, text + place.sequences), qkv.leading(first, last),
                  data::part(whole, place), Random(9).for_part(place));
      CAPTURE(parts, number);
      CHECK(a.host() == rows.leading(first, last).host());
      CHECK(b.host() == texts.leading(text, text + place.sequences).host());
      CHECK(c.host() == attended.leading(first, last).host());
      CHECK(d.host() == of_first.leading(text, text + place.sequences).host());
      CHECK(end == position);
    }
}

TEST_CASE("for_part: parts of other operations have draws of their own") {
  const auto x = full<float>({100}, 1.f);
  std::vector<std::vector<float>> found;
  for (Index number = 0; number < 4; ++number) {
    Random generator = Random(9).for_part({.number = number, .rows = 7, .sequences = 2, .longest = 4});
    found.push_back(dropout(x, .5, generator).host());
  }
  // The draws of rows of five elements do not begin at whole calls of the generator.
  const auto odd = full<float>({2, 5}, 1.f);
  for (Index number = 0; number < 2; ++number) {
    Random generator = Random(9).for_part({number, 2 * number, 2, number, 1, 2});
    found.push_back(dropout(odd, .5, generator).host());
  }
  for (std::size_t i = 0; i < found.size(); ++i)
    for (std::size_t j = 0; j < i; ++j) CHECK(found[i] != found[j]);
}

TEST_CASE("part: rows of a batch, sequences and padded batches") {
  const std::vector<Index> rows{4, 2, 9, 7, 5};
  const auto of = [&](Index number, Index count) {
    const auto found = data::part(rows, number, count);
    return std::vector<Index>(found.begin(), found.end());
  };
  CHECK(of(0, 1) == rows);
  CHECK((of(0, 2) == std::vector<Index>{4, 2} && of(1, 2) == std::vector<Index>{9, 7, 5}));
  CHECK((of(0, 8).empty() && of(7, 8) == std::vector<Index>{5}));
  CHECK_THROWS_WITH(data::part(rows, 2, 2), ContainsSubstring("there is no part 2 of 2"));

  data::LabelledSequences texts;
  texts.add(std::vector{1, 2, 3}, 0, 1);
  texts.add(std::vector{4}, 1);
  texts.add(std::vector{5, 6}, 2);
  for (const Index padded_to : {0, 4}) {
    texts.pad_to(padded_to);
    const data::Batch batch = texts.batch(std::vector<Index>{0, 1, 2});
    const BatchPart place = data::place_of_part(batch.sequences, 1, 2);
    const data::Batch half = data::part(batch, place);
    CHECK((place.first_row == (padded_to ? 4 : 3) && place.rows == (padded_to ? 8 : 3) && place.longest == 3));
    const data::Batch expected = texts.batch(std::vector<Index>{1, 2});
    CHECK(half.ids.host() == expected.ids.host());
    CHECK(half.types.host() == expected.types.host());
    CHECK(half.labels.host() == expected.labels.host());
    CHECK(half.sequences.begins() == expected.sequences.begins());
    CHECK(half.sequences.lengths() == expected.sequences.lengths());
    CHECK(half.sequences.padded_to() == padded_to);
  }
  CHECK_THROWS_WITH(data::place_of_part(Sequences::packed({1}), -1, 2), ContainsSubstring("no part -1 of 2"));
}
