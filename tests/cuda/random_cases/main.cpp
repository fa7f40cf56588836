// Random calls of the operations that have CUDA kernels, with values and gradients compared.
//   cuda_random_cases [CASES [SEED [FIRST]]]   runs CASES cases (300) of SEED (1), from number FIRST (0) on
// A case that fails is printed with the command that repeats it alone. Prints `ok: …` or `FAILED: …` at the end.
#ifndef HEDDLE_CATCH2_3
#define CATCH_CONFIG_RUNNER  // Catch2 2.13 declares Session only with it
#endif
#include "../../catch.hpp"

#include <heddle/gpu/runtime.hpp>

#include <charconv>
#include <iterator>
#include <map>
#include <string_view>

#include "families.hpp"

namespace {

using namespace heddle;
using namespace heddle::testing;

struct Family {
  const char* name;
  void (*check)(Draw&);
};
constexpr Family attentions[] = {
    {"attention", check_attention}, {"attention", check_attention}, {"attention in TF32", check_attention_in_tf32}};
constexpr Family others[] = {
    {"layer_norm", check_layer_norm},
    {"residual_layer_norm", check_residual_layer_norm},
    {"rms_norm", check_rms_norm},
    {"softmax", check_softmax},
    {"cross_entropy", check_cross_entropy},
    {"losses", check_losses},
    {"linear", check_linear},
    {"matmul", check_matmul},
    {"sums", check_sums},
    {"extremes", check_extremes},
    {"pooling", check_pooling},
    {"functions", check_functions},
    {"arithmetic", check_arithmetic},
    {"comparisons", check_comparisons},
    {"casts", check_casts},
    {"dropout", check_dropout},
    {"embed", check_embed},
    {"gather", check_gather},
    {"topk", check_topk},
    {"moves", check_moves},
    {"choices", check_choices},
    {"optimizers", check_optimizers},
};

struct Settings {
  std::uint64_t cases = 300, seed = 1, first = 0;
} settings;

// Returns the family of a case: every second one is attention, and the others take turns.
const Family& family_of(std::uint64_t number) {
  const std::uint64_t turn = number / 2;
  return number % 2 ? others[turn % std::size(others)] : attentions[turn % std::size(attentions)];
}

// Runs a case. Returns whether it passed. Throws CudaError, after which no kernel can run.
bool passes(std::uint64_t number) {
  const Family& family = family_of(number);
  Draw draw(settings.seed, number);
  std::string error;
  try {
    family.check(draw);
    return true;
  } catch (const Error& thrown) {
    error = std::string(": ") + thrown.what();
  } catch (...) {  // Catch has reported the values of the assertion
  }
  std::printf("FAILED: case %llu of seed %llu: %s:%s%s\n  repeat it with the arguments 1 %llu %llu\n",
              static_cast<unsigned long long>(number), static_cast<unsigned long long>(settings.seed), family.name,
              draw.text().c_str(), error.c_str(), static_cast<unsigned long long>(settings.seed),
              static_cast<unsigned long long>(number));
  std::fflush(stdout);
  cuda::synchronize();
  return false;
}

bool read(const char* argument, std::uint64_t& number) {
  const std::string_view text = argument;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

TEST_CASE("random cases") {
  std::uint64_t failures = 0;
  std::map<std::string, int> counts;
  for (std::uint64_t i = 0; i < settings.cases; ++i) {
    failures += !passes(settings.first + i);
    ++counts[family_of(settings.first + i).name];
  }
  for (const auto& [name, count] : counts) std::printf("%6d %s\n", count, name.c_str());
  std::printf("%s: %llu random cases of seed %llu, %llu of them failed\n", failures ? "FAILED" : "ok",
              static_cast<unsigned long long>(settings.cases), static_cast<unsigned long long>(settings.seed),
              static_cast<unsigned long long>(failures));
  CHECK(failures == 0);
}

int main(int count, char** arguments) {
  std::uint64_t* const numbers[] = {&settings.cases, &settings.seed, &settings.first};
  bool is_valid = count <= 4;
  for (int i = 1; i < count && is_valid; ++i) is_valid = read(arguments[i], *numbers[i - 1]);
  if (!is_valid || settings.cases == 0) {
    std::fprintf(stderr, "usage: cuda_random_cases [CASES [SEED [FIRST]]], with at least 1 case\n");
    return 2;
  }
  return Catch::Session().run(1, arguments);
}
