// The flags that every trainer has.
#pragma once
#include <cstdint>
#include <functional>
#include <limits>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <heddle/base/device.hpp>
#include <heddle/base/shape.hpp>

namespace CLI {
class App;
class Validator;
}  // namespace CLI

namespace heddle::examples {

// The largest value of a size, such as --d-model. Numbers of elements are products of sizes and stay below 2^63.
inline constexpr Index largest_size = 1'000'000;

// A model's sizes; a program sets its own defaults before the flags are read.
struct ModelSizes {
  Index layers = 2, d_model = 64, heads = 4, head_dim = 16, ff_width = 0, max_length = 512;
};

struct TrainerFlags {
  std::string data, vocab, init, out, metrics, predict;
  std::string model;         // the folder of a pre-trained model
  bool takes_model = false;  // whether the program has the flag --model
  bool uncased = false, evaluate = false, logits = false, resume = false, plot = false;
  std::set<std::string> given;                                                   // the flags of the command line
  std::string command;                                                           // as it was given, quoted for a shell
  Index epochs = 4, steps = 0, batch_size = 32, train_rows = 0, valid_rows = 0;  // 0: no limit
  Index checkpoint_every = 0;                                                    // steps; 0: only after epochs
  Index warmup = 0, gamma_every = 1;                                             // steps
  Index shards = 0;      // parts of a batch, of which a process has one or more; 0: for each process one
  Index accumulate = 1;  // batches of a step
  double lr = 1e-3, momentum = 0, dropout = 0.1, gamma = 0.1;
  double clip = 0;                     // the largest norm of the gradients; 0: no limit
  std::optional<double> weight_decay;  // the optimizer's own if absent
  std::string optimizer = "adam", schedule = "constant", order = "shuffled";
  std::string device = "cpu", precision = "fp32", graph = "auto", progress = "auto", reduction = "exact";
  bool shard_optimizer = false;
  std::uint64_t seed = 1;
  int threads = 0;  // 0: all
  ModelSizes sizes;

  // Returns the device of model and batches.
  Device target_device() const { return device == "cuda" ? Device::cuda : Device::cpu; }
  // Returns the number of rows of a step.
  Index step_rows() const {
    const Index most = std::numeric_limits<Index>::max();
    return batch_size <= most / accumulate ? batch_size * accumulate : most;
  }
  bool is_given(const std::string& flag) const { return given.count(flag) > 0; }
};

struct ParsedFlags {
  TrainerFlags flags;
  bool exit = false;  // the command line was --help or --version, which was answered
};

// Returns a check that a value is one of these words.
CLI::Validator one_of(const std::vector<std::string>& choices);

// Parses a command line. Returns false for --help and --version, which it answers. Throws heddle::Error for an
// invalid line.
bool parse_command_line(CLI::App& app, int argc, char** argv);

// Reads the command line into flags that start from `defaults`; add_own(app) adds a program's own flags. Throws
// heddle::Error for an invalid command line.
ParsedFlags parse_flags(int argc, char** argv, const std::string& description, const TrainerFlags& defaults,
                        const std::function<void(CLI::App&)>& add_own);

// These functions add a flag: a switch, whose value becomes "yes"; a choice, whose value is one of several words; a
// path, which must not be empty; or a positive number.
void add_switch(CLI::App& app, const std::string& flag, std::string& value, const std::string& help);
void add_choice(CLI::App& app, const std::string& flag, std::string& value, const std::vector<std::string>& choices,
                const std::string& help);
void add_path(CLI::App& app, const std::string& flag, std::string& value, const std::string& help);
void add_positive(CLI::App& app, const std::string& flag, double& value, const std::string& help);
// A flag that may be given several times, with one path each.
void add_paths(CLI::App& app, const std::string& flag, std::vector<std::string>& values, const std::string& help);
// Replaces the help of a common flag. The new help does not show the default value.
void set_help(CLI::App& app, const std::string& flag, const std::string& help);

// Returns the text of --version: the versions of heddle, the compiler, Eigen and oneDNN, and whether CUDA is built in.
std::string version_text();

// Returns the defaults of programs that fine-tune a model of Hugging Face: AdamW, a linear schedule, and the sizes of
// BERT-base.
TrainerFlags fine_tuning_flags(Index epochs, double lr);

// Returns the value of a flag among the words of a command line, as `--flag value` or `--flag=value`, before they are
// parsed.
std::optional<std::string> value_of(const std::vector<std::string>& words, const std::string& flag);

}  // namespace heddle::examples
