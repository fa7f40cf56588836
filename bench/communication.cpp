// Measures how much of the communication of a training step is hidden behind its backward. mpirun starts it:
//   mpirun -n 2 communication [--texts 4] [--length 128] [--layers 12] [--steps 5] [--threads 1]
// Every process computes the gradients of a pre-norm encoder of BERT's size for texts of its own. Each round measures
// the computation alone, the communication alone, and both together. The first process prints the medians.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <vector>

#include <heddle/base/threads.hpp>
#include <heddle/distributed/gradients.hpp>
#include <heddle/distributed/mpi.hpp>
#include <heddle/heddle.hpp>
#include <heddle/models/pre_norm.hpp>
#include <heddle/train/progress.hpp>

namespace {

using namespace heddle;

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

}  // namespace

int main(int argc, char** argv) {
  Index texts = 4, length = 128, layers = 12, steps = 5;
  int threads = 1;
  CLI::App app("Measures how much of the communication of a training step is hidden behind its backward");
  app.add_option("--texts", texts, "Texts of a process");
  app.add_option("--length", length, "Tokens of a text");
  app.add_option("--layers", layers, "Layers of the encoder");
  app.add_option("--steps", steps, "Rounds, besides a first one that does not count");
  app.add_option("--threads", threads, "Threads of a process");
  CLI11_PARSE(app, argc, argv);

  const distributed::Communicator processes = distributed::mpi();
  set_threads(threads);
  Random random(1);
  models::PreNormEncoder<> encoder({.vocabulary = 1000, .layers = layers, .positions = length}, random);
  const std::vector<int> lengths(static_cast<std::size_t>(texts), static_cast<int>(length));
  const Sequences sequences = Sequences::packed(lengths);
  Random draws(2, static_cast<std::uint64_t>(processes.rank()));
  std::vector<int> ids;
  for (Index t = 0; t < texts * length; ++t) ids.push_back(static_cast<int>(draws.next() % 1000));
  const Tensor<int> tokens({texts * length}, ids);
  const auto compute = [&] { backward(mean(encoder.forward<float>(tokens, sequences, {}))); };
  distributed::GradientSum sum(encoder, processes, {.mean = false});

  std::vector<double> computation, communication, together, waiting;
  for (Index round = 0; round <= steps; ++round) {
    zero_grad(encoder);
    processes.barrier();
    train::Stopwatch watch;
    compute();
    processes.barrier();  // the slowest counts
    const double of_computation = watch.seconds();
    sum.add_part();
    processes.barrier();
    watch = {};
    sum.finish();
    processes.barrier();
    const double of_communication = watch.seconds();
    zero_grad(encoder);
    processes.barrier();
    watch = {};
    sum.add_last_part(compute);
    const double until_end_of_backward = watch.seconds();
    sum.finish();
    processes.barrier();
    const double of_both = watch.seconds();
    if (round == 0) continue;
    computation.push_back(of_computation);
    communication.push_back(of_communication);
    together.push_back(of_both);
    waiting.push_back(of_both - until_end_of_backward);
  }
  if (processes.rank() > 0) return 0;
  const double alone = median(computation), sent = median(communication), both = median(together),
               after = median(waiting);
  std::printf(
      "computation %.0f ms, communication alone %.0f ms, both %.0f ms, of which %.0f ms after the backward; %.0f %% of "
      "the communication is over when the backward ends, and it makes a step longer by %.0f %% of its time alone\n",
      1000 * alone, 1000 * sent, 1000 * both, 1000 * after, 100 * (1 - after / sent), 100 * (both - alone) / sent);
}
