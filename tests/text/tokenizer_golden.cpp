// Compares tokenizers with the Rust library, whose results scripts/golden-tokenizers.py recorded.
#include <heddle/text/folder_tokenizer.hpp>

#include <filesystem>
#include <map>
#include <set>

#include "catch.hpp"
#include "golden_text.hpp"

using namespace heddle;
using namespace heddle::testing;
using text::Encoding;
using text::TextRange;
using text::Tokenizer;
using text::TokenizerOptions;
using Json = nlohmann::json;
using Ids = std::vector<std::int32_t>;

namespace {

const std::string golden_folder = HEDDLE_GOLDEN_DIR "/tokenizers/";
constexpr std::size_t no_limit = TokenizerOptions().max_length;

Json read_json(const std::string& path) { return Json::parse(io::read_file(path)); }

// Returns the names of the folders with tokenizers, in order.
std::set<std::string> tokenizer_names() {
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(golden_folder))
    if (entry.is_directory()) names.insert(entry.path().filename().string());
  require<FileError>(!names.empty(), golden_folder, ": has no tokenizers");
  return names;
}

// Returns the path to load: tokenizer.json, or the folder if it has other files.
std::string tokenizer_path(const std::string& name) {
  const std::string file = golden_folder + name + "/tokenizer.json";
  return std::filesystem::exists(file) ? file : golden_folder + name;
}

// Returns a text of a case: its number in texts.json, itself, or its bytes in hexadecimal.
std::string text_of(const Json& member) {
  static const Json texts = read_json(golden_folder + "texts.json");
  if (member.is_number()) return texts.at(member.get<std::size_t>());
  return member.is_string() ? member.get<std::string>() : from_hex(member.at("hex").get<std::string>());
}

// One case of cases.json: the options, the texts and the expected results.
struct TokenizerCase {
  TokenizerOptions options;
  std::vector<std::string> texts;
  Encoding expected;
  std::vector<std::string> decoded;  // without special tokens, and with them; empty if the case has none

  explicit TokenizerCase(const Json& json)
      : options{.special_tokens = json.value("special", true),
                .max_length = json.value("max", no_limit),
                .offsets = true},
        texts{text_of(json.at("text"))} {
    if (json.contains("pair")) texts.push_back(text_of(json["pair"]));
    expected.ids = json.at("ids").get<Ids>();
    expected.truncated = json.value("cut", std::size_t{0});
    for (const char digit : json.value("types", std::string(expected.ids.size(), '0')))
      expected.type_ids.push_back(digit - '0');
    read_words(json.at("words").get<std::string>(), json.at("at").get<std::vector<std::int64_t>>());
    if (!json.contains("decoded")) return;
    for (const Json& text : json["decoded"]) decoded.push_back(text.is_null() ? texts[0] : text.get<std::string>());
    if (decoded.size() == 1) decoded.push_back(decoded[0]);
  }

 private:
  // Reads the words and offsets, of which each is relative to the one before.
  void read_words(const std::string& words, const std::vector<std::int64_t>& at) {
    constexpr std::string_view digits =
        "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!#$%&()*+./:;<=>?@[]^_`{}~";
    std::int32_t word = 0;
    std::int64_t end = 0;
    auto next = at.begin();
    for (const char c : words) {
      if (c == '|') {
        word = 0;
      } else if (c == '-') {
        expected.word_ids.push_back(-1);
        expected.offsets.push_back({});
      } else {
        word += static_cast<std::int32_t>(digits.find(c));
        expected.word_ids.push_back(word);
        const std::int64_t begin = end + *next++;
        end = begin + *next++;
        expected.offsets.push_back({static_cast<std::size_t>(begin), static_cast<std::size_t>(end)});
      }
    }
    require(next == at.end(), "cases.json: found ", at.size(), " numbers of offsets for the words ", words);
  }
};

std::string shown(const Ids& numbers) {
  std::string line;
  for (const std::int32_t number : numbers) line += (line.empty() ? "" : ",") + std::to_string(number);
  return line;
}

std::string shown(const std::vector<TextRange>& ranges) {
  std::string line;
  for (const TextRange& range : ranges)
    line += (line.empty() ? "" : " ") + std::to_string(range.begin) + "-" + std::to_string(range.end);
  return line;
}

// Collects the differences of one tokenizer, and keeps the first ones as text.
class Differences {
 public:
  explicit Differences(const std::string& name) : text_(name) {}

  template <class T>
  void compare(const char* what, const T& found, const T& expected, const std::string& of) {
    if (found == expected) return;
    if (++count_ <= most_shown)
      text_ += "\n" + of + "\n  " + what + "\n    found    " + line(found) + "\n    expected " + line(expected);
  }

  void check() const {
    INFO(text_);
    CHECK(count_ == 0);
  }

 private:
  static constexpr int most_shown = 5;
  static std::string line(const std::string& text) { return '"' + io::printable(text) + '"'; }
  static std::string line(std::size_t number) { return std::to_string(number); }
  template <class T>
  static std::string line(const std::vector<T>& numbers) {
    return shown(numbers);
  }

  std::string text_;
  int count_ = 0;
};

// The tokenizer of a folder with the options of the cases.
class GoldenTokenizer {
 public:
  explicit GoldenTokenizer(const std::string& path) : tokenizer_(Tokenizer::load(path)) {}

  const Tokenizer& with(const TokenizerOptions& options) {
    const auto key = std::tuple(options.special_tokens, options.max_length, options.offsets);
    const auto found = by_options_.find(key);
    return found != by_options_.end() ? found->second
                                      : by_options_.emplace(key, tokenizer_.with(options)).first->second;
  }
  const Tokenizer& plain() const { return tokenizer_; }

 private:
  Tokenizer tokenizer_;
  std::map<std::tuple<bool, std::size_t, bool>, Tokenizer> by_options_;
};

Encoding encode(const Tokenizer& tokenizer, const std::vector<std::string>& texts) {
  return texts.size() == 1 ? tokenizer.encode(texts[0]) : tokenizer.encode(texts[0], texts[1]);
}

void compare_case(GoldenTokenizer& golden, const TokenizerCase& c, Differences& differences) {
  std::string of = "  text \"" + io::printable(c.texts[0]) + '"';
  if (c.texts.size() > 1) of += "\n  pair \"" + io::printable(c.texts[1]) + '"';
  if (!c.options.special_tokens) of += "\n  without special tokens";
  if (c.options.max_length != no_limit) of += "\n  at most " + std::to_string(c.options.max_length) + " tokens";
  const Tokenizer& tokenizer = golden.with(c.options);
  const Encoding found = encode(tokenizer, c.texts);
  differences.compare("ids", found.ids, c.expected.ids, of);
  differences.compare("offsets", found.offsets, c.expected.offsets, of);
  differences.compare("words", found.word_ids, c.expected.word_ids, of);
  differences.compare("types", found.type_ids, c.expected.type_ids, of);
  differences.compare("truncated tokens", found.truncated, c.expected.truncated, of);
  TokenizerOptions options = c.options;
  options.offsets = false;
  const Encoding plain = encode(golden.with(options), c.texts);
  differences.compare("ids without offsets", plain.ids, c.expected.ids, of);
  differences.compare("types without offsets", plain.type_ids, c.expected.type_ids, of);
  for (std::size_t i = 0; i < c.decoded.size(); ++i)
    differences.compare(i == 0 ? "decoded" : "decoded with special tokens", tokenizer.decode(c.expected.ids, i == 0),
                        c.decoded[i], of);
}

// Compares all that cases.json of a tokenizer has with the tokenizer at `path`.
void compare_tokenizer(const std::string& name, const std::string& path) {
  INFO(path);
  Differences differences(name);
  const Json json = read_json(golden_folder + name + "/cases.json");
  GoldenTokenizer golden(path);
  for (const Json& c : json.at("cases")) compare_case(golden, TokenizerCase(c), differences);
  for (const Json& c : json.at("decode")) {
    const Ids ids = c.at("ids").get<Ids>();
    for (const bool skip : {true, false})
      differences.compare(skip ? "decoded" : "decoded with special tokens", golden.plain().decode(ids, skip),
                          c.at("decoded").at(skip ? 0 : 1).get<std::string>(), "  ids " + shown(ids));
  }
  differences.compare("size", static_cast<std::size_t>(golden.plain().size()), json.at("size").get<std::size_t>(), "");
  for (const auto& [id, token] : json.at("tokens").items())
    differences.compare("token", std::string(golden.plain().token(std::stoi(id))), token.get<std::string>(),
                        "  id " + id);
  differences.check();
}

}  // namespace

TEST_CASE("text::Tokenizer: equals the Rust library") {
  for (const std::string& name : tokenizer_names()) compare_tokenizer(name, tokenizer_path(name));
}

TEST_CASE("text::Tokenizer: a folder with BERT's tokenizer equals the Rust library") {
  compare_tokenizer("electra", golden_folder + "electra");  // a WordPiece; the file alone is a TokenizerPipeline
}

TEST_CASE("text::Tokenizer: encode_batch() equals encode()") {
  for (const char* name : {"roberta", "xlm_roberta", "llama", "mpnet"}) {
    const Tokenizer tokenizer = Tokenizer::load(tokenizer_path(name)).with({.max_length = 20, .offsets = true});
    std::vector<std::string> texts = read_json(golden_folder + "texts.json"), reversed(texts.rbegin(), texts.rend());
    std::vector<Encoding> singles, pairs;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      singles.push_back(tokenizer.encode(texts[i]));
      pairs.push_back(tokenizer.encode(texts[i], reversed[i]));
    }
    CHECK(tokenizer.encode_batch(texts) == singles);
    CHECK(tokenizer.encode_batch(texts, reversed) == pairs);
  }
}
