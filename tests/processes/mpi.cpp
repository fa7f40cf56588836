// Communicators on MPI. mpirun starts this program; every process checks its own results, and the first one prints
// `ok: …`. With the argument `leave`, the last process ends by an exception while the others wait for it.
#include <cstdio>
#include <cstring>

#include <heddle/distributed/gradients.hpp>
#include <heddle/distributed/mpi.hpp>
#include <heddle/nn/linear.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/reduce.hpp>
#include <heddle/optim/sgd.hpp>

using namespace heddle;

namespace {

void check(bool holds, const char* what, const distributed::Communicator& world) {
  const std::vector<char> all = world.all_gather(std::vector<char>{holds});
  require(std::find(all.begin(), all.end(), char{0}) == all.end(), what);
  if (world.rank() == 0) std::printf("ok: %d processes: %s\n", world.size(), what);
}

void check_communicator(const distributed::Communicator& world) {
  const int size = world.size(), rank = world.rank();
  check(size == distributed::launched().size && rank == distributed::launched().rank, "launched() knows them", world);
  bool are_right = true;
  for (const std::size_t count : {0, 1, 2, 1000, 3'000'001}) {
    std::vector<double> values(count, rank + 1.), fast = values;
    world.all_reduce(std::span(values));
    world.all_reduce(std::span(fast), distributed::Reduction::fast);
    are_right = are_right && values == std::vector<double>(count, size * (size + 1) / 2.) && fast == values;
  }
  check(are_right, "all_reduce adds vectors of any length", world);
  const RowGradient<float> rows{Tensor<Index>({2}, {Index{rank}, Index{50}}), full<float>({2, 3}, 1.f)};
  const RowGradient<float> sum = world.all_reduce(rows);
  check(sum.rows.size() == size + 1 && sum.values(-1, 0) == static_cast<float>(size) && sum.values(0, 2) == 1,
        "all_reduce adds rows", world);
  Tensor<int> ids = full<int>({5}, rank);
  world.broadcast(ids, size - 1);
  check(ids(4) == size - 1 && world.broadcast(std::string(rank ? "" : "text")) == "text", "broadcast", world);
  check(distributed::share_of_processors(world) >= 1, "share_of_processors is at least 1", world);
}

// Trains on parts of a batch, and compares with a single process.
void check_training(const distributed::Communicator& world) {
  const auto trained = [&](const distributed::Communicator& processes) {
    Random random(1);
    nn::Linear<double> model(3, 1, random);
    optim::Sgd optimizer(model, {.lr = .1});
    for (int step = 0; step < 5; ++step) {
      const Index of_each = 24 / processes.size();
      Tensor<double> x({of_each, 3});
      for (Index i = 0; i < x.size(); ++i)
        x.data()[i] = static_cast<double>((processes.rank() * x.size() + i) % 7 - step);
      backward(mean(model(x) * model(x)));
      distributed::all_reduce_gradients(model, processes);
      optimizer.step();
    }
    std::vector<double> weights = model.weight.value().host();
    weights.push_back(model.bias->value().item());
    return weights;
  };
  const std::vector<double> alone = trained({}), together = trained(world);
  double most = 0;
  for (std::size_t i = 0; i < alone.size(); ++i) most = std::max(most, std::abs(alone[i] - together[i]));
  check(most < 1e-12, "all_reduce_gradients trains as one process does", world);
}

}  // namespace

int main(int argc, char** argv) try {
  const distributed::Communicator world = distributed::mpi();
  set_threads(1);
  if (argc > 1 && std::strcmp(argv[1], "leave") == 0) {
    require(world.rank() != world.size() - 1, "the last process leaves");
    world.barrier();
  }
  check_communicator(world);
  check_training(world);
  distributed::mpi().barrier();  // a second handle, which does not end MPI
  check(true, "MPI runs until the last handle", world);
} catch (const Error& error) {
  std::fprintf(stderr, "mpi: error: %s\n", error.what());
  return 1;
}
