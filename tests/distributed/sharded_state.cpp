// The state of an optimizer that is split over processes.
#include <heddle/distributed/gradients.hpp>
#include <heddle/distributed/sharded_state.hpp>
#include <heddle/heddle.hpp>
#include <heddle/io/model.hpp>
#include <heddle/io/optimizer.hpp>

#include "../io/files.hpp"
#include "catch.hpp"
#include "thread_transport.hpp"

using namespace heddle;
using namespace heddle::testing;
using distributed::ShardedState;

namespace {

// Parameters of all kinds: rows of an embedding, a matrix, a vector, a number, a frozen one, one that has no gradient,
// one without elements, and one of double.
struct Shardable {
  nn::Embedding<float> words;
  nn::Linear<float> linear;
  Parameter<float> scalar{full<float>(Shape{}, 1.f)}, frozen{full<float>({5}, 2.f)}, unused{full<float>({4}, 1.f)};
  Parameter<float> empty{Tensor<float>({0, 3})};
  Parameter<double> scale{full<double>({3}, 1.)};

  explicit Shardable(Random& random) : words(101, 7, random), linear(7, 33, random) { frozen.freeze(); }
  Tensor<float> operator()(const Tensor<int>& ids) const {
    return mean(pow(linear(words(ids)) * scalar.value(), 2.f)) * cast<float>(sum(scale.value()));
  }
  static void visit(auto& self, auto&& f) {
    f("words", self.words);
    f("linear", self.linear);
    f("scalar", self.scalar);
    f("frozen", self.frozen);
    f("unused", self.unused);
    f("empty", self.empty);
    f("scale", self.scale);
  }
};

Tensor<int> ids_of_step(Index step) {
  Random random(9, static_cast<std::uint64_t>(step));
  std::vector<int> ids;
  for (int n = 0; n < 6; ++n) ids.push_back(static_cast<int>(random.next() % 101));
  return Tensor<int>({6}, ids);
}

std::vector<double> weights_of(const Shardable& model) {
  std::vector<double> all;
  each_parameter(model, [&](const Name&, const auto& p) {
    for (const auto value : p.value().host()) all.push_back(value);
  });
  return all;
}

// Makes steps [first, last) with gradients that every process has.
template <class Optimizer>
void make_steps(const Shardable& model, Optimizer& optimizer, Index first, Index last, ShardedState* sharded) {
  for (Index step = first; step < last; ++step) {
    backward(model(ids_of_step(step)));
    optimizer.step({.factor = 1. / static_cast<double>(step + 1), .max_norm = 0.05});
    if (sharded) sharded->gather_weights();
  }
}

template <class Optimizer>
void check_split(const std::string& folder,
                 const typename std::remove_cvref_t<decltype(std::declval<Optimizer>().options)>& options) {
  constexpr Index before = 3, after = 7;
  Random random(1);
  Shardable alone(random);
  const std::vector<optim::Group> groups{
      {.select = [](const std::string& name) { return name == "linear.bias"; }, .lr = 0.5}};
  Optimizer of_alone(alone, options, groups);
  make_steps(alone, of_alone, 0, before, nullptr);
  io::save_optimizer(of_alone.state(), folder + "/begun");
  io::save(alone, folder + "/weights");
  make_steps(alone, of_alone, before, after, nullptr);
  const std::vector<double> expected = weights_of(alone);
  io::save_optimizer(of_alone.state(), folder + "/alone");

  for (const int size : {1, 2, 3, 5}) {
    CAPTURE(size);
    std::vector<std::vector<double>> found(static_cast<std::size_t>(size)), resumed = found;
    std::vector<Index> own(static_cast<std::size_t>(size));
    on_processes(size, [&](const distributed::Communicator& c) {
      const auto rank = static_cast<std::size_t>(c.rank());
      Random same(1);
      Shardable model(same);
      Optimizer optimizer(model, options, groups);
      ShardedState sharded(optimizer.state(), c);
      own[rank] = sharded.own_size();
      make_steps(model, optimizer, 0, before, &sharded);
      {
        const ShardedState::Whole whole(sharded);
        if (c.rank() == 0) io::save_optimizer(optimizer.state(), folder + "/begun" + std::to_string(size));
      }
      make_steps(model, optimizer, before, after, &sharded);
      found[rank] = weights_of(model);
      {
        const ShardedState::Whole whole(sharded);
        if (c.rank() == 0) io::save_optimizer(optimizer.state(), folder + "/split" + std::to_string(size));
      }
      // A run that begins with the state of a file continues alike.
      Shardable other(same);
      io::load(other, folder + "/weights");
      Optimizer of_other(other, options, groups);
      if (c.rank() == 0) io::load_optimizer(of_other.state(), folder + "/begun");
      ShardedState of_resumed(of_other.state(), c);
      make_steps(other, of_other, before, after, &of_resumed);
      resumed[rank] = weights_of(other);
    });
    for (const auto& weights : found) CHECK(weights == expected);
    for (const auto& weights : resumed) CHECK(weights == expected);
    CHECK(get(folder + "/begun" + std::to_string(size)) == get(folder + "/begun"));
    CHECK(get(folder + "/split" + std::to_string(size)) == get(folder + "/alone"));
    const Index all = 101 * 7 + 34 * 7 + 33 - 7 + 1 + 4 + 3 + 5;  // the frozen one is updated by nobody, but counts
    CHECK(std::accumulate(own.begin(), own.end(), Index{0}) == all);
    for (const Index count : own) CHECK(std::abs(count - all / size) <= 8);
  }
}

}  // namespace

TEST_CASE("ShardedState: steps, saved states and resumed runs have the same bits as without splitting") {
  const TemporaryFolder folder;
  check_split<optim::Adam>(folder.path(), {.lr = 0.01});
  check_split<optim::AdamW>(folder.path(), {.lr = 0.01});
  check_split<optim::Sgd>(folder.path(), {.lr = 0.01, .momentum = 0.9, .weight_decay = 0.1});
  check_split<optim::Sgd>(folder.path(), {.lr = 0.01});
}

TEST_CASE("ShardedState: a process has moments of its own rows alone") {
  on_processes(4, [](const distributed::Communicator& c) {
    Random random(1);
    Shardable model(random);
    optim::Adam optimizer(model);
    ShardedState sharded(optimizer.state(), c);
    make_steps(model, optimizer, 0, 2, &sharded);
    Index elements = 0;
    optimizer.state().each([&](const auto& slot) {
      for (const auto& moment : slot.moments) elements += moment.size();
    });
    const Index unused = 4;
    require(elements <= 2 * sharded.own_size() && elements >= 2 * (sharded.own_size() - unused - 5), "process ",
            c.rank(), " has ", elements, " moments of ", sharded.own_size(), " elements");
  });
}

TEST_CASE("ShardedState: a part of a state is neither saved nor loaded") {
  const TemporaryFolder folder;
  const auto message = [&](bool saves) {
    std::string text;
    on_processes(2, [&](const distributed::Communicator& c) {
      Random random(1);
      nn::Linear<float> model(4, 4, random);
      optim::Adam optimizer(model);
      const ShardedState sharded(optimizer.state(), c);
      if (c.rank() == 1) return;
      try {
        saves ? static_cast<void>(io::save_optimizer(optimizer.state(), folder / "x"))
              : io::load_optimizer(optimizer.state(), folder / "x");
      } catch (const Error& error) {
        text = error.what();
      }
    });
    return text;
  };
  CHECK(message(true).find("save_optimizer: this process has only a part of the state of 'weight'") == 0);
  CHECK(message(false).find("load_optimizer: this process has only a part of the state of 'weight'") == 0);
}
