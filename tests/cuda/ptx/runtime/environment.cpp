#include "environment.hpp"

#include <unistd.h>

#include <algorithm>
#include <iterator>
#include <string_view>

namespace heddle::ptx {
namespace {

// The first one is the default.
constexpr Gpu gpus[] = {
    {"h100", "NVIDIA H100", 9, 0, 132, 232448, 233472, 2048, 32},
    {"a100", "NVIDIA A100", 8, 0, 108, 166912, 167936, 2048, 32},
    {"rtx3060", "NVIDIA GeForce RTX 3060", 8, 6, 28, 101376, 102400, 1536, 16},
    {"rtx4090", "NVIDIA GeForce RTX 4090", 8, 9, 128, 101376, 102400, 1536, 24},
    {"rtx5090", "NVIDIA GeForce RTX 5090", 12, 0, 170, 101376, 102400, 1536, 24},
    {"t4", "NVIDIA T4", 7, 5, 40, 65536, 65536, 1024, 16},
};

// --- Readers of values. They return false for a value that is not valid. ---

bool read_flag(const std::string& value, bool& flag) {
  flag = value == "1";
  return value == "0" || value == "1";
}

// Accepts one word, which sets the flag.
bool read_word(const std::string& value, const char* word, bool& flag) {
  flag = true;
  return value == word;
}

// Accepts decimal numbers, and hexadecimal ones that begin with 0x.
template <class T>
bool read_number(const std::string& value, u64 least, u64 most, T& number) {
  if (value[0] < '0' || value[0] > '9') return false;
  char* end = nullptr;
  errno = 0;
  const u64 given = std::strtoull(value.c_str(), &end, value.starts_with("0x") ? 16 : 10);
  number = static_cast<T>(given);
  return *end == '\0' && errno == 0 && given >= least && given <= most;
}

bool read_order(const std::string& value) {
  const std::string_view random = "random";
  options.reverse = value == "reverse";
  options.random = value.starts_with(random);
  const std::string seed = options.random ? value.substr(random.size()) : "";
  return options.reverse || (options.random && (seed.empty() || read_number(seed, 0, ~u64{0}, options.seed)));
}

bool read_count(const std::string& value, bool& each_launch) {
  each_launch = value == "launch";
  options.count = each_launch;
  return each_launch || read_flag(value, options.count);
}

bool read_traffic(const std::string& value) {
  const bool is_valid = read_flag(value, options.count_traffic);
  options.count |= options.count_traffic;
  return is_valid;
}

bool read_gpu(const std::string& value, const Gpu*& gpu) {
  gpu = std::find_if(std::begin(gpus), std::end(gpus), [&](const Gpu& known) { return value == known.name; });
  return gpu != std::end(gpus);
}

bool read_refusal(const std::string& value) {
  return value == "epilogue" || value == "all" || value == "check" || value == "heuristic";
}

// --- The settings ---

struct Setting {
  const char* name;
  const char* values;  // described for a message
  bool (*read)(const std::string& value, RuntimeOptions& runtime);
};
constexpr Setting settings[] = {
    {"PTX_ABORT", "0 or 1", [](auto& value, auto&) { return read_flag(value, options.abort); }},
    {"PTX_APPROX", "a seed, or 0 for exact values",
     [](auto& value, auto&) { return read_number(value, 0, ~u32{0}, options.jitter); }},
    {"PTX_COPIES", "early", [](auto& value, auto&) { return read_word(value, "early", options.early_copies); }},
    {"PTX_COUNT", "0, 1 or launch",
     [](auto& value, auto& runtime) { return read_count(value, runtime.count_each_launch); }},
    {"PTX_FILL", "a byte, 0 to 255", [](auto& value, auto&) { return read_number(value, 0, 255, options.fill); }},
    {"PTX_GLOBAL_RACES", "0 or 1", [](auto& value, auto&) { return read_flag(value, options.global_races); }},
    {"PTX_GPU", "h100, a100, rtx3060, rtx4090, rtx5090 or t4",
     [](auto& value, auto& runtime) { return read_gpu(value, runtime.gpu); }},
    {"PTX_GPUS", "a number, 1 to 8",
     [](auto& value, auto& runtime) { return read_number(value, 1, most_gpus, runtime.gpus); }},
    {"PTX_LAZY", "0 or 1", [](auto& value, auto& runtime) { return read_flag(value, runtime.lazy_streams); }},
    {"PTX_MEMORY", "a size in MiB, 1 to 32768",
     [](auto& value, auto& runtime) {
       const bool is_valid = read_number(value, 1, device_span >> 20, runtime.memory_bytes);
       runtime.memory_bytes <<= 20;
       return is_valid;
     }},
    {"PTX_MMA", "truncate", [](auto& value, auto&) { return read_word(value, "truncate", options.mma_hw); }},
    {"PTX_NAN", "keep", [](auto& value, auto&) { return read_word(value, "keep", options.keep_nan); }},
    {"PTX_NO_EPILOGUE", "0 or 1", [](auto& value, auto& runtime) { return read_flag(value, runtime.no_epilogue); }},
    {"PTX_ORDER", "reverse, random, or random and a seed, as in random7",
     [](auto& value, auto&) { return read_order(value); }},
    {"PTX_RACES", "0 or 1", [](auto& value, auto&) { return read_flag(value, options.races); }},
    {"PTX_REFUSE", "epilogue, all, check or heuristic", [](auto& value, auto&) { return read_refusal(value); }},
    {"PTX_SUMMARY", "0 or 1", [](auto& value, auto& runtime) { return read_flag(value, runtime.summary); }},
    {"PTX_TRACE", "0 or 1", [](auto& value, auto&) { return read_flag(value, options.trace); }},
    {"PTX_TRAFFIC", "0 or 1", [](auto& value, auto&) { return read_traffic(value); }},
};

[[noreturn]] void refuse_setting(const std::string& why) {
  std::fprintf(stderr, "ptx: %s\n", why.c_str());
  std::_Exit(2);
}

[[noreturn]] void refuse_unknown(const std::string& name) {
  std::string known;
  for (const Setting& setting : settings) known += (known.empty() ? "" : ", ") + std::string(setting.name);
  refuse_setting(name + " is not a setting of the interpreter, which has " + known);
}

// Reads one variable. An empty value has no effect.
void read_variable(const std::string& name, const std::string& value, RuntimeOptions& runtime) {
  const Setting* const setting =
      std::find_if(std::begin(settings), std::end(settings), [&](const Setting& known) { return name == known.name; });
  if (setting == std::end(settings)) refuse_unknown(name);
  if (value.empty() || setting->read(value, runtime)) return;
  refuse_setting(name + " is '" + value + "', and must be " + setting->values);
}

RuntimeOptions read_environment() {
  RuntimeOptions runtime{&gpus[0]};
  for (char** entry = environ; *entry; ++entry) {
    const std::string variable = *entry;
    const std::size_t equals = variable.find('=');
    if (!variable.starts_with("PTX_") || equals == variable.npos) continue;
    read_variable(variable.substr(0, equals), variable.substr(equals + 1), runtime);
  }
  return runtime;
}

}  // namespace

const RuntimeOptions runtime_options = read_environment();

bool is_refused(const std::string& what) {
  const char* const value = std::getenv("PTX_REFUSE");
  return value && value == what;
}

}  // namespace heddle::ptx
