// forks COUNT: forks COUNT times while other threads allocate, cast a shared weight and run backward passes. Each child
// does the same and must end. Prints `ok: …` or `FAILED: …`.
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <heddle/heddle.hpp>
#include <thread>

using namespace heddle;

namespace {

constexpr unsigned most_seconds = 60;  // of a child, which takes milliseconds

void train(const nn::Linear<>& shared, Random& random) {
  const Tensor<float> x = randn<float>({30, 64}, random);
  backward(sum(cast<float>(shared(cast<bf16>(x)))));
}
void allocate(const nn::Linear<>& shared) {
  for (int i = 0; i < 2000; ++i) {
    const Tensor<float> small({8});
    (void)shared.weight.as<bf16>();
  }
}

}  // namespace

int main(int argc, char** argv) {
  const int forks = argc == 2 ? std::atoi(argv[1]) : 0;
  if (forks < 1) return std::fprintf(stderr, "forks: give the number of forks\n"), 2;
  Random random(1);
  const nn::Linear<> shared(64, 64, random);
  std::atomic<bool> stop = false;
  std::vector<std::thread> load;
  for (std::uint64_t seed = 2; seed < 5; ++seed)
    load.emplace_back([&, seed] {
      Random own(seed);
      while (!stop) allocate(shared), train(shared, own);
    });
  int failed = 0;
  for (int i = 0; i < forks; ++i) {
    const pid_t child = ::fork();
    if (child == 0) {
      ::alarm(most_seconds);  // ends a child that hangs
      Random own(5);
      train(shared, own);
      const Tensor<float> x = randn<float>({500, 64}, own),
                          product = matmul(x, transpose(x, 0, 1));  // on several threads
      ::_exit(product(0, 0) > 0 ? 0 : 1);
    }
    int status = 0;
    failed += child < 0 || ::waitpid(child, &status, 0) != child || status != 0;
  }
  stop = true;
  for (std::thread& thread : load) thread.join();
  std::printf("%s: %d of %d children failed\n", failed ? "FAILED" : "ok", failed, forks);
  return failed != 0;
}
