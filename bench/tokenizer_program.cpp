// tokenizer_program: encodes and decodes lines for bench/peers/tokenizer_compare.py, or measures how fast texts are
// encoded.
//   tokenizer_program FILE [--max-length N] [--plain] [--pairs] [--time]
// FILE is a tokenizer.json, or a folder with a tokenizer. A line of input is a text, two texts in an array, or an array
// of ids. A text is a string, or {"hex": DIGITS} for any bytes. A line of output is an object with "ids", "offsets"
// (the begin and the end of each token), "word_ids" and "type_ids", and "decoded": the ids' text without special tokens
// and with them. For ids it has "decoded" alone. --plain adds no special tokens.
//   --time reads all texts, encodes them with encode_batch() six times, and prints the median of the seconds of the
// last five, without offsets and with them. --pairs reads arrays of two texts for it.
#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstring>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/text/folder_tokenizer.hpp>

namespace heddle::bench {
namespace {

using Json = nlohmann::json;
using text::Tokenizer;
using text::TokenizerOptions;

struct Flags {
  std::string path;
  TokenizerOptions options = {.offsets = true};
  bool pairs = false, time = false;
};

std::string text_of(const Json& json) {
  if (json.is_string()) return json.get<std::string>();
  const std::string digits = json.at("hex");
  std::string bytes;
  for (std::size_t i = 0; i + 1 < digits.size(); i += 2) {
    unsigned value = 0;
    std::from_chars(digits.data() + i, digits.data() + i + 2, value, 16);
    bytes += static_cast<char>(value);
  }
  return bytes;
}

Json decoded(const Tokenizer& tokenizer, const std::vector<std::int32_t>& ids) {
  return {tokenizer.decode(ids), tokenizer.decode(ids, false)};
}

Json answer(const Tokenizer& tokenizer, const Json& line) {
  const bool is_pair = line.is_array() && line.size() == 2 && !line[0].is_number();
  if (line.is_array() && !is_pair) return {{"decoded", decoded(tokenizer, line.get<std::vector<std::int32_t>>())}};
  const text::Encoding e =
      is_pair ? tokenizer.encode(text_of(line[0]), text_of(line[1])) : tokenizer.encode(text_of(line));
  std::vector<std::size_t> offsets;
  for (const text::TextRange& range : e.offsets) offsets.insert(offsets.end(), {range.begin, range.end});
  return {{"ids", e.ids},
          {"offsets", offsets},
          {"word_ids", e.word_ids},
          {"type_ids", e.type_ids},
          {"decoded", decoded(tokenizer, e.ids)}};
}

// Returns the median of the seconds of five calls, after one that is not counted.
template <class F>
double median_seconds(const F& f) {
  std::array<double, 6> seconds{};
  for (double& taken : seconds) {
    const auto start = std::chrono::steady_clock::now();
    f();
    taken = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  }
  std::sort(seconds.begin() + 1, seconds.end());
  return seconds[3];
}

Json measure(const Flags& flags) {
  std::vector<std::string> first, second;
  for (std::string line; std::getline(std::cin, line);) {
    const Json json = Json::parse(line);
    first.push_back(text_of(flags.pairs ? json.at(0) : json));
    if (flags.pairs) second.push_back(text_of(json.at(1)));
  }
  Json result = {{"texts", first.size()}};
  for (const bool offsets : {false, true}) {
    TokenizerOptions options = flags.options;
    options.offsets = offsets;
    const Tokenizer tokenizer = Tokenizer::load(flags.path, options);
    std::size_t tokens = 0;
    const double seconds = median_seconds([&] {
      tokens = 0;
      for (const text::Encoding& e :
           flags.pairs ? tokenizer.encode_batch(first, second) : tokenizer.encode_batch(first))
        tokens += e.ids.size();
    });
    result[offsets ? "seconds_with_offsets" : "seconds"] = seconds;
    result["tokens"] = tokens;
  }
  return result;
}

int run(const Flags& flags) {
  if (flags.time) {
    std::cout << measure(flags).dump() << '\n';
    return 0;
  }
  const Tokenizer tokenizer = Tokenizer::load(flags.path, flags.options);
  for (std::string line; std::getline(std::cin, line);)
    std::cout << answer(tokenizer, Json::parse(line)).dump() << '\n';
  return 0;
}

// Returns whether the flags are valid.
bool parse(int argc, char** argv, Flags& flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string_view word = argv[i];
    if (word == "--pairs") {
      flags.pairs = true;
    } else if (word == "--time") {
      flags.time = true;
    } else if (word == "--plain") {
      flags.options.special_tokens = false;
    } else if (word == "--max-length" && i + 1 < argc) {
      const char *const text = argv[++i], *const end = text + std::strlen(text);
      if (std::from_chars(text, end, flags.options.max_length).ptr != end) return false;
    } else if (word.starts_with("--") || !flags.path.empty()) {
      return false;
    } else {
      flags.path = word;
    }
  }
  return !flags.path.empty();
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) {
  std::ios::sync_with_stdio(false);
  heddle::bench::Flags flags;
  if (!heddle::bench::parse(argc, argv, flags)) {
    std::cerr << "usage: tokenizer_program FILE [--max-length N] [--plain] [--pairs] [--time]\n";
    return 2;
  }
  try {
    return heddle::bench::run(flags);
  } catch (const std::exception& error) {
    std::cerr << "tokenizer_program: " << error.what() << '\n';
    return 1;
  }
}
