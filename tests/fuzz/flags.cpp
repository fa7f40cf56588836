// Command lines, one argument per line. Accepted values are within the flags' limits.
#include "common/flags.hpp"
#include "common/program.hpp"

#include <cmath>
#include <cstdio>
#include <vector>

#include "fuzz.hpp"

// Replaces the only function of common/program.cpp that common/flags.cpp calls.
void heddle::examples::flush_output(int) { std::fflush(stdout); }

namespace {

using namespace heddle;
using examples::TrainerFlags;

std::vector<std::string> arguments(std::string_view text) {
  std::vector<std::string> words{"sst2"};
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find_first_of(std::string_view("\n\0", 2), begin), text.size());
    words.emplace_back(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return words;
}

// Splits a command as bash does: plain words, words in single quotes, \' between them, and $'...' with octal bytes.
std::vector<std::string> split_as_shell(std::string_view command) {
  std::vector<std::string> words(1);
  bool quoted = false;
  for (std::size_t i = 0; i < command.size(); ++i) {
    if (!quoted && command.substr(i, 2) == "$'") {
      for (i += 2; command[i] != '\''; ++i)
        if (command[i] == '\\') {
          words.back() += static_cast<char>(std::stoi(std::string(command.substr(i + 1, 3)), nullptr, 8));
          i += 3;
        } else {
          words.back() += command[i];
        }
    } else if (command[i] == '\'')
      quoted = !quoted;
    else if (!quoted && command[i] == ' ')
      words.emplace_back();
    else
      words.back() += !quoted && command[i] == '\\' ? command[++i] : command[i];
  }
  return words;
}

bool one_of(const std::string& value, std::initializer_list<const char*> choices) {
  return std::find(choices.begin(), choices.end(), value) != choices.end();
}

void check_flags(const TrainerFlags& f) {
  const auto& s = f.sizes;
  for (const Index n : {f.epochs, f.batch_size, s.layers, s.d_model, s.heads, s.head_dim, s.max_length})
    fuzz::claim(n >= 1, "a count is at least 1");
  for (const Index n : {f.steps, f.train_rows, f.valid_rows, f.checkpoint_every, s.ff_width})
    fuzz::claim(n >= 0, "a limit is at least 1, or not given");
  for (const double x : {f.lr, f.momentum}) fuzz::claim(x >= 0 && std::isfinite(x), "a rate is at least 0 and finite");
  fuzz::claim(f.dropout >= 0 && f.dropout < 1, "dropout is in [0, 1)");
  fuzz::claim(f.threads >= 0 && f.threads <= 1024, "threads are 1 to 1024, or not given");
  fuzz::claim(one_of(f.optimizer, {"adam", "adamw", "sgd"}) && one_of(f.order, {"shuffled", "sequential"}) &&
                  f.device == "cpu" && one_of(f.precision, {"fp32", "bf16"}) &&
                  one_of(f.progress, {"auto", "bar", "lines", "none"}),
              "a choice is one of the allowed values");
  for (const std::string& flag : f.given) fuzz::claim(flag.starts_with("--"), "flags are given by their names");
}

examples::ParsedFlags parse(const std::vector<std::string>& words) {
  std::vector<std::string> copies = words;
  std::vector<char*> argv;
  for (std::string& word : copies) argv.push_back(word.data());
  argv.push_back(nullptr);
  return examples::parse_flags(static_cast<int>(words.size()), argv.data(), "Fuzzed.", {}, [](CLI::App&) {});
}

}  // namespace

extern "C" int LLVMFuzzerInitialize(int*, char***) {
  return std::freopen("/dev/null", "w", stdout) ? 0 : 1;  // because --help and --version print to standard output
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Input input(data, size);
  const std::vector<std::string> words = arguments(input.text());
  try {
    const examples::ParsedFlags parsed = parse(words);
    if (parsed.exit) return 0;
    check_flags(parsed.flags);
    fuzz::claim(split_as_shell(parsed.flags.command) == words, "a shell reads the command as it was given");
  } catch (const Error& error) {
    fuzz::claim(*error.what() != '\0', "an error says something");
  }
  return 0;
}
