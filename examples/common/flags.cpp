#include "flags.hpp"

#include <CLI/CLI.hpp>
#include <Eigen/Core>
#ifdef HEDDLE_ONEDNN
#include <dnnl.h>
#endif
#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstdio>
#ifdef HEDDLE_CUDA
#include <heddle/gpu/kernels.hpp>
#endif
#include <heddle/base/error.hpp>
#include <heddle/base/printable.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/version.hpp>
#include <numeric>
#include <sstream>

#include "program.hpp"

namespace heddle::examples {
namespace {

// Returns a check that the whole text is a decimal number of type T that satisfies `right`.
template <class T, class Right>
CLI::Validator number(const std::string& what, Right right) {
  return CLI::Validator(
      [=](std::string& text) {
        T value{};
        const char* const end = text.data() + text.size();
        const auto [stop, error] = std::from_chars(text.data(), end, value);
        const bool ok = error == std::errc{} && stop == end && right(value);
        // CLI11 would read 010 as 8.
        if constexpr (std::is_integral_v<T>)
          if (ok) text = std::to_string(value);
        return ok ? std::string() : "'" + text + "' is not " + what;
      },
      what);
}

void add_flags(CLI::App& app, TrainerFlags& f) {
  const auto at_least_1 = number<Index>("a whole number of at least 1", [](Index n) { return n >= 1; });
  const auto is_size = number<Index>("a whole number from 1 to " + std::to_string(largest_size),
                                     [](Index n) { return n >= 1 && n <= largest_size; });
  const auto count = [&](const char* name, Index& value, const char* help) {
    CLI::Option* const option = app.add_option(name, value, help)->check(at_least_1);
    if (value > 0) option->capture_default_str();
  };
  const auto size = [&](const char* name, Index& value, const char* help) {
    app.add_option(name, value, help)->check(is_size);
  };
  const auto rate = number<double>("a number of at least 0", [](double x) { return x >= 0 && std::isfinite(x); });
  const auto choice = [&](const char* name, std::string& value, const std::vector<std::string>& choices,
                          const char* help) { add_choice(app, name, value, choices, help); };
  app.add_option("--data", f.data, "Folder with the data set's files (default: the sample that ships with heddle)");
  app.add_option(
      "--vocab", f.vocab,
      "WordPiece vocabulary, one token a line (default: vocab.txt in the folder of the model or of the data)");
  app.add_flag("--uncased", f.uncased, "Lower-case the text and strip its accents");
  count("--epochs", f.epochs, "Passes over the training data");
  count("--steps", f.steps, "Stop after this many optimizer steps in all");
  count("--batch-size", f.batch_size, "Rows in a batch");
  app.add_option("--accumulate", f.accumulate, "Batches whose gradients are added for a step")
      ->check(number<Index>("a whole number from 1 to 65536", [](Index n) { return n >= 1 && n <= 65536; }))
      ->capture_default_str();
  app.add_option(
         "--shards", f.shards,
         "Parts of a batch whose gradients are summed alone; runs with as many have the same bits on any number "
         "of processes (default: that of the processes, rounded up to a power of two)")
      ->check(number<Index>("a power of two from 1 to 1024",
                            [](Index n) { return n >= 1 && n <= 1024 && (n & (n - 1)) == 0; }));
  app.add_flag("--shard-optimizer", f.shard_optimizer,
               "Split the optimizer's moment estimates over the processes of mpirun");
  choice("--reduction", f.reduction, {"exact", "fast"},
         "Sums over processes: in one fixed order, or in the order that MPI chooses");
  app.add_option("--lr", f.lr, "Learning rate")->check(rate)->capture_default_str();
  choice("--optimizer", f.optimizer, {"adam", "adamw", "sgd"}, "Optimizer");
  app.add_option("--momentum", f.momentum, "Momentum of sgd")->check(rate);
  app.add_option("--weight-decay", f.weight_decay, "Weight decay; 0 is none (default: 0.01 for adamw, else 0)")
      ->check(rate);
  app.add_option("--clip", f.clip, "Largest norm of all gradients; 0 is no limit")->check(rate);
  choice("--schedule", f.schedule, {"constant", "linear", "cosine", "step"}, "Learning rate over the steps");
  app.add_option("--warmup", f.warmup, "Steps in which the learning rate rises from 0; 0 is none")
      ->check(number<Index>("a whole number of at least 0", [](Index n) { return n >= 0; }));
  app.add_option("--gamma", f.gamma, "Factor of --schedule step")
      ->check(number<double>("a number above 0", [](double x) { return x > 0 && std::isfinite(x); }))
      ->capture_default_str();
  count("--gamma-every", f.gamma_every, "Steps between two reductions by --schedule step");
  app.add_option("--dropout", f.dropout, "Dropout probability, in [0, 1)")
      ->check(number<double>("a probability in [0, 1), of at most 65535/65536",
                             [](double p) { return p >= 0 && p <= 65535. / 65536; }))
      ->capture_default_str();
  app.add_option("--seed", f.seed, "Seed of initial weights, dropout and order")
      ->check(number<std::uint64_t>("a whole number from 0 to 2^64 - 1", [](std::uint64_t) { return true; }))
      ->capture_default_str();
  choice("--order", f.order, {"shuffled", "sequential"}, "Order of the training rows");
  count("--train-rows", f.train_rows, "Only the first N training rows");
  count("--valid-rows", f.valid_rows, "Only the first N validation rows");
  app.add_option("--threads", f.threads, "CPU threads (default: all)")
      ->check(number<int>("a whole number from 1 to 1024", [](int n) { return n >= 1 && n <= 1024; }));
  choice("--device", f.device, {"cpu", "cuda"}, "Where to compute");
  choice("--precision", f.precision, {"fp32", "bf16"}, "Type of the activations; weights stay fp32");
  choice("--graph", f.graph, {"auto", "off"}, "With --device cuda, replay steps as CUDA graphs where possible");
  app.add_option("--init", f.init, "Start from these weights (safetensors)");
  app.add_option("--out", f.out, "Folder for the trained model");
  app.add_flag("--resume", f.resume, "Resume the run in --out from its newest checkpoint");
  count("--checkpoint-every", f.checkpoint_every, "Steps between checkpoints, in addition to one after each epoch");
  app.add_option("--metrics", f.metrics, "File for one JSON object per step and per epoch");
  app.add_flag("--plot", f.plot, "Draw losses.svg and lengths.svg in --out");
  choice("--progress", f.progress, {"auto", "bar", "lines", "none"}, "Progress on standard error");
  app.add_flag("--evaluate", f.evaluate, "Do not train; report the metrics of the model in --out or --init");
  app.add_option("--predict", f.predict, "Do not train; classify the lines of a file, or of standard input for -");
  app.add_flag("--logits", f.logits, "With --predict, print the logits, the values before the softmax");
  size("--layers", f.sizes.layers, "Encoder layers");
  size("--d-model", f.sizes.d_model, "Model width");
  size("--heads", f.sizes.heads, "Attention heads");
  size("--head-dim", f.sizes.head_dim, "Width of a head");
  size("--ff-width", f.sizes.ff_width, "Width of the feed-forward network (default: that of the program)");
  size("--max-length", f.sizes.max_length, "Longest text in tokens; longer ones are truncated");
}

// Returns the least number of insertions, deletions and replacements that turn a into b (Levenshtein 1966).
std::size_t distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::size_t diagonal = std::exchange(row[0], i + 1);
    for (std::size_t j = 0; j < b.size(); ++j)
      diagonal = std::exchange(row[j + 1], std::min({row[j] + 1, row[j + 1] + 1, diagonal + (a[i] != b[j])}));
  }
  return row.back();
}

// Returns the message about a word that is no flag.
std::string unknown(const CLI::App& app, const std::string& word) {
  if (word[0] != '-' || word.find_first_not_of('-') == word.npos) return "'" + word + "' belongs to no flag";
  const std::string flag = word.substr(0, word.find('='));
  std::string nearest;
  for (const CLI::Option* option : app.get_options())
    if (nearest.empty() || distance(flag, option->get_name()) < distance(flag, nearest)) nearest = option->get_name();
  const bool near = distance(flag, nearest) <= std::max<std::size_t>(2, flag.size() / 3);
  return "there is no flag " + flag + (near ? "; the nearest is " + nearest : "; --help lists all flags");
}

std::string shell_quoted(const std::string& word) {
  if (!word.empty() &&
      word.find_first_not_of("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-+=./:,@%") ==
          std::string::npos)
    return word;
  if (io::printable(word, word.size()) == word) {
    std::string quoted = "'";
    for (const char c : word) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
    return quoted + '\'';
  }
  // bash and zsh read octal escapes: here they stand for quotes, backslashes and all bytes outside printable ASCII.
  std::string quoted = "$'";
  for (const char c : word) {
    char octal[8];
    std::snprintf(octal, sizeof octal, "\\%03o", static_cast<unsigned>(static_cast<unsigned char>(c)));
    quoted += c >= 0x20 && c < 0x7f && c != '\'' && c != '\\' ? std::string(1, c) : octal;
  }
  return quoted + '\'';
}

}  // namespace

std::string version_text() {
  std::string text = std::string("heddle ") + version + ", ";
#ifdef __clang__
  text += "clang " __clang_version__;
#else
  text += "g++ " __VERSION__;
#endif
  text += ", Eigen " + std::to_string(EIGEN_WORLD_VERSION) + '.' + std::to_string(EIGEN_MAJOR_VERSION) + '.' +
          std::to_string(EIGEN_MINOR_VERSION) + ", " + Eigen::SimdInstructionSetsInUse();
#ifdef HEDDLE_ONEDNN
  text += ", oneDNN " + std::to_string(DNNL_VERSION_MAJOR) + '.' + std::to_string(DNNL_VERSION_MINOR);
#else
  text += ", no oneDNN";
#endif
#ifdef HEDDLE_CUDA
  text += ", CUDA";
#else
  text += ", no CUDA";
#endif
  return text;
}

CLI::Validator one_of(const std::vector<std::string>& choices) {
  std::string list;
  for (const std::string& choice : choices) list += (list.empty() ? "" : ", ") + choice;
  return CLI::Validator(
      [=](std::string& text) {
        const bool ok = std::find(choices.begin(), choices.end(), text) != choices.end();
        return ok ? std::string() : "'" + text + "' is not one of " + list;
      },
      '{' + list + '}');
}

bool parse_command_line(CLI::App& app, int argc, char** argv) {
  // CLI11 would take the next word as the value of a flag that ends with '='.
  for (int i = 1; i < argc; ++i)
    if (const std::string word = argv[i]; word.starts_with("--") && word.find('=') + 1 == word.size())
      fail(word.substr(0, word.size() - 1), " is given without a value");
  app.allow_extras();
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& answered) {
    std::ostringstream text;
    app.exit(answered, text, text);
    if (std::fputs(text.str().c_str(), stdout) < 0) flush_output(errno);
    flush_output();
    return false;
  } catch (const CLI::ArgumentMismatch& error) {
    const std::string text = error.what(), flag = text.substr(0, text.find(':'));
    const CLI::Option* const option = app.get_option_no_throw(flag);
    fail(option ? flag + (option->count() > 1 ? " is given more than once" : " needs a value") : text);
  } catch (const CLI::ParseError& error) {
    fail(error.what());
  }
  const std::vector<std::string> words = app.remaining();
  require(words.empty(), words.empty() ? "" : unknown(app, words[0]));
  return true;
}

namespace {
void require_device(Device device) {
  if (device == Device::cpu) return;
#ifdef HEDDLE_CUDA
  const std::string why = cuda::unavailable();
#else
  const std::string why = "this build has no CUDA";
#endif
  require(why.empty(), "--device cuda: ", why);
}
}  // namespace

void add_switch(CLI::App& app, const std::string& flag, std::string& value, const std::string& help) {
  app.add_flag_callback(
      flag, [&value] { value = "yes"; }, help);
}
void add_choice(CLI::App& app, const std::string& flag, std::string& value, const std::vector<std::string>& choices,
                const std::string& help) {
  app.add_option(flag, value, help)->check(one_of(choices))->capture_default_str();
}
namespace {

CLI::Validator not_empty() {
  return CLI::Validator([](std::string& name) { return name.empty() ? "is given without a name" : std::string(); },
                        "PATH");
}

}  // namespace

void add_path(CLI::App& app, const std::string& flag, std::string& value, const std::string& help) {
  app.add_option(flag, value, help)->check(not_empty());
}
void add_positive(CLI::App& app, const std::string& flag, double& value, const std::string& help) {
  app.add_option(flag, value, help)
      ->check(number<double>("a positive number", [](double x) { return x > 0 && std::isfinite(x); }))
      ->capture_default_str();
}
void add_paths(CLI::App& app, const std::string& flag, std::vector<std::string>& values, const std::string& help) {
  app.add_option(flag, values, help)->check(not_empty())->allow_extra_args(false);
}

void set_help(CLI::App& app, const std::string& flag, const std::string& help) {
  app.get_option(flag)->description(help)->default_str("");
}

ParsedFlags parse_flags(int argc, char** argv, const std::string& description, const TrainerFlags& defaults,
                        const std::function<void(CLI::App&)>& add_own) {
  ParsedFlags parsed{defaults};
  TrainerFlags& f = parsed.flags;
  for (int i = 0; i < argc; ++i) f.command += (i ? " " : "") + shell_quoted(argv[i]);
  CLI::App app(description);
  app.set_version_flag("--version", version_text());
  add_flags(app, f);
  if (f.takes_model) add_path(app, "--model", f.model, "Folder of a pre-trained model in the format of Hugging Face");
  add_own(app);
  parsed.exit = !parse_command_line(app, argc, argv);
  if (parsed.exit) return parsed;
  for (const auto& [flag, value] : {std::pair{"--data", &f.data},
                                    {"--vocab", &f.vocab},
                                    {"--init", &f.init},
                                    {"--out", &f.out},
                                    {"--metrics", &f.metrics},
                                    {"--predict", &f.predict}})
    require(app.count(flag) == 0 || !value->empty(), flag, " is given without a name");
  for (const CLI::Option* option : app.get_options())
    if (option->count() > 0) f.given.insert(option->get_name());
  require(!f.evaluate || f.predict.empty(), "--evaluate and --predict exclude each other");
  require(!f.logits || !f.predict.empty(), "--logits needs --predict");
  require(!f.resume || !f.out.empty(), "--resume needs the folder of the run, --out");
  require(!f.resume || (!f.evaluate && f.predict.empty()), "--resume trains; it excludes --evaluate and --predict");
  require(f.checkpoint_every == 0 || !f.out.empty(), "--checkpoint-every needs a folder for the checkpoints, --out");
  const bool needs_model = f.evaluate || !f.predict.empty();
  require(!needs_model || !f.out.empty() || !f.init.empty() || !f.model.empty(),
          f.evaluate ? "--evaluate" : "--predict", " needs a model: give its folder with --out",
          f.takes_model ? " or --model," : "", " or its weights with --init");
  require_device(f.target_device());
  require(!f.shard_optimizer || f.device == "cpu", "--shard-optimizer needs --device cpu");
  require(!f.plot || !f.out.empty(), "--plot needs a folder for the pictures, --out");
  require(!f.plot || (!f.evaluate && f.predict.empty()),
          "--plot draws a training run; it excludes --evaluate and --predict");
  require(f.momentum == 0 || f.optimizer == "sgd", "--momentum needs --optimizer sgd");
  for (const char* flag : {"--gamma", "--gamma-every"})
    require(app.count(flag) == 0 || f.schedule == "step", flag, " needs --schedule step");
  require(app.count("--head-dim") > 0 || app.count("--d-model") + app.count("--heads") == 0 ||
              f.sizes.d_model % f.sizes.heads == 0,
          "--d-model ", f.sizes.d_model, " is not a multiple of --heads ", f.sizes.heads,
          f.takes_model ? "" : "; give a --head-dim");
  if (app.count("--head-dim") == 0 && app.count("--d-model") + app.count("--heads") > 0)
    f.sizes.head_dim = f.sizes.d_model / f.sizes.heads;
  if (f.threads > 0) set_threads(f.threads);
  return parsed;
}

TrainerFlags fine_tuning_flags(Index epochs, double lr) {
  TrainerFlags f;
  f.takes_model = true;
  f.epochs = epochs;
  f.lr = lr;
  f.optimizer = "adamw";
  f.schedule = "linear";
  f.sizes = {.layers = 12, .d_model = 768, .heads = 12, .head_dim = 64, .ff_width = 3072, .max_length = 512};
  return f;
}

std::optional<std::string> value_of(const std::vector<std::string>& words, const std::string& flag) {
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (words[i].starts_with(flag + '=')) return words[i].substr(flag.size() + 1);
    if (words[i] == flag) return i + 1 < words.size() ? words[i + 1] : "";
  }
  return std::nullopt;
}

}  // namespace heddle::examples
