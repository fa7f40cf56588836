#include <heddle/text/tokenizer_files.hpp>

#include <numeric>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

const char* const small_vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n";

// Returns a tokenizer.json with that vocabulary, and the given changes.
std::string tokenizer_json(const char* changes = "{}") {
  auto json = nlohmann::json::parse(R"({
    "added_tokens": [{"id": 0, "content": "[PAD]"}, {"id": 1, "content": "[UNK]"}, {"id": 2, "content": "[CLS]"},
                     {"id": 3, "content": "[SEP]"}, {"id": 4, "content": "[MASK]"}],
    "normalizer": {"type": "BertNormalizer", "clean_text": true, "handle_chinese_chars": true, "strip_accents": null,
                   "lowercase": true},
    "pre_tokenizer": {"type": "BertPreTokenizer"},
    "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
                 {"SpecialToken": {"id": "[SEP]", "type_id": 0}}],
      "pair": [{"SpecialToken": {"id": "[CLS]", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}},
               {"SpecialToken": {"id": "[SEP]", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}},
               {"SpecialToken": {"id": "[SEP]", "type_id": 1}}],
      "special_tokens": {"[CLS]": {"id": "[CLS]", "ids": [2], "tokens": ["[CLS]"]},
                         "[SEP]": {"id": "[SEP]", "ids": [3], "tokens": ["[SEP]"]}}},
    "model": {"type": "WordPiece", "unk_token": "[UNK]", "continuing_subword_prefix": "##",
              "max_input_chars_per_word": 100,
              "vocab": {"[PAD]": 0, "[UNK]": 1, "[CLS]": 2, "[SEP]": 3, "[MASK]": 4, "a": 5, "##b": 6}}})");
  json.merge_patch(nlohmann::json::parse(changes));
  return json.dump();
}

struct TokenizerFolder : TemporaryFolder {
  std::string error() const {
    return error_of([&] { text::read_tokenizer(path()); });
  }
  // Returns the error of a tokenizer.json with changes, without the file's name.
  std::string error_with(const char* changes) const {
    put(*this / "tokenizer.json", tokenizer_json(changes));
    const std::string text = error(), file = *this / "tokenizer.json: ";
    return text.starts_with(file) ? text.substr(file.size()) : text;
  }
  bool uncased() const { return text::read_tokenizer(path()).uncased; }
};

}  // namespace

TEST_CASE("text::read_tokenizer: vocab.txt and tokenizer.json give the same vocabulary") {
  const TokenizerFolder folder;
  CHECK(folder.error() == folder.path() + ": has neither tokenizer.json nor vocab.txt");
  put(folder / "vocab.txt", small_vocabulary);
  const auto of_lines = text::read_tokenizer(folder.path());
  CHECK(of_lines.vocabulary.size() == 7);
  CHECK(of_lines.uncased);
  CHECK(of_lines.max_length == 0);
  CHECK(of_lines.files.size() == 1);
  CHECK(of_lines.files.at("vocab.txt") == small_vocabulary);
  // tokenizer.json is read rather than vocab.txt; both are kept.
  put(folder / "vocab.txt", "x\n");
  put(folder / "tokenizer.json", tokenizer_json());
  const auto of_json = text::read_tokenizer(folder.path());
  REQUIRE(of_json.vocabulary.size() == 7);
  for (int id = 0; id < 7; ++id) CHECK(of_json.vocabulary.token(id) == of_lines.vocabulary.token(id));
  CHECK(of_json.files.at("vocab.txt") == "x\n");
  CHECK(of_json.files.size() == 2);
}

TEST_CASE("text::read_tokenizer: the casing is that of transformers") {
  const TokenizerFolder folder;
  const auto configure = [&](const char* config) { put(folder / "tokenizer_config.json", config); };
  put(folder / "vocab.txt", small_vocabulary);
  configure("{}");
  CHECK(folder.uncased());
  configure(R"({"do_lower_case": false, "strip_accents": false})");
  CHECK(!folder.uncased());
  configure(R"({"tokenizer_class": "PreTrainedTokenizerFast", "do_lower_case": false})");
  CHECK(!folder.uncased());

  put(folder / "tokenizer.json", tokenizer_json(R"({"normalizer": {"lowercase": false}})"));
  std::filesystem::remove(folder / "tokenizer_config.json");
  CHECK(folder.uncased());
  configure("{}");
  CHECK(folder.uncased());
  configure(R"({"tokenizer_class": "DistilBertTokenizer", "do_lower_case": true})");
  CHECK(folder.uncased());
  for (const char* type : {"PreTrainedTokenizerFast", "TokenizersBackend"}) {
    configure((R"({"do_lower_case": true, "tokenizer_class": ")" + std::string(type) + "\"}").c_str());
    CHECK(!folder.uncased());
  }

  configure(R"({"do_lower_case": 1})");
  CHECK(folder.error() == folder / "tokenizer_config.json: 'do_lower_case' is 1 but must be true or false");
  configure(R"({"strip_accents": 1})");
  CHECK(folder.error() == folder / "tokenizer_config.json: 'strip_accents' is 1 but must be true or false");
  configure(R"({"tokenize_chinese_chars": false})");
  CHECK(folder.error() == folder /
                              "tokenizer_config.json: 'tokenize_chinese_chars' is false; heddle reads WordPiece "
                              "tokenizers where it is true");
}

TEST_CASE("text::read_tokenizer: stripping accents does not depend on the casing") {
  const TokenizerFolder folder;
  const auto ids = [&](std::string_view text) {
    const text::PretrainedTokenizer files = text::read_tokenizer(folder.path());
    const text::WordPieceOptions options{
        .uncased = files.uncased, .strip_accents = files.strip_accents, .special_tokens = false};
    return text::WordPiece(files.vocabulary, options).encode(text).ids;
  };
  using TokenIds = std::vector<std::int32_t>;
  const std::string config = folder / "tokenizer_config.json";
  put(folder / "vocab.txt", "[UNK]\n\xC3\x89\n\xC3\xA9\nE\ne\n");  // É é E e
  for (const auto& [settings, expected] :
       {std::pair("{}", 4), std::pair(R"({"strip_accents": null})", 4), std::pair(R"({"strip_accents": false})", 2),
        std::pair(R"({"do_lower_case": false})", 1), std::pair(R"({"do_lower_case": false, "strip_accents": true})", 3),
        std::pair(R"({"do_lower_case": true, "strip_accents": true})", 4)}) {
    INFO(settings);
    put(config, settings);
    CHECK(ids("\xC3\x89") == TokenIds{expected});
  }
  // With a tokenizer.json the class decides where both settings are read, as in transformers.
  put(folder / "tokenizer.json",
      tokenizer_json(R"({"normalizer": {"strip_accents": false}, "model": {"vocab": {"a": null, "##b": null,
        "\u00c9": 5, "\u00e9": 6, "E": 7, "e": 8}}})"));
  put(config, R"({"tokenizer_class": "PreTrainedTokenizerFast", "strip_accents": true})");
  CHECK(ids("\xC3\x89") == TokenIds{6});
  put(config, R"({"strip_accents": null})");
  CHECK(ids("\xC3\x89") == TokenIds{8});
}

TEST_CASE("text::read_tokenizer: model_max_length is the longest text in tokens; without a limit max_length is 0") {
  const TokenizerFolder folder;
  put(folder / "vocab.txt", small_vocabulary);
  const auto length = [&](const std::string& value) {
    put(folder / "tokenizer_config.json", R"({"model_max_length": )" + value + "}");
    return text::read_tokenizer(folder.path()).max_length;
  };
  CHECK(length("512") == 512);
  CHECK(length("512.0") == 512);
  for (const char* none : {"1000000000000000019884624838656", "1e30", "null"}) CHECK(length(none) == 0);
  for (const char* wrong : {"0", "-5", "\"8\"", "0.5", "7.5"})
    CHECK(error_of([&] { length(wrong); }) == folder / "tokenizer_config.json: 'model_max_length' is " + wrong +
                                                  " but must be a whole number of at least 1");
  put(folder / "tokenizer_config.json", R"({"max_len": 7})");
  CHECK(text::read_tokenizer(folder.path()).max_length == 7);
  put(folder / "tokenizer_config.json", R"({"max_len": 7, "model_max_length": null})");
  CHECK(text::read_tokenizer(folder.path()).max_length == 0);
}

TEST_CASE("text::read_tokenizer: config.json names the class if tokenizer_config.json does not") {
  const TokenizerFolder folder;
  put(folder / "vocab.txt", small_vocabulary);
  put(folder / "config.json", R"({"tokenizer_class": "DistilBertTokenizer"})");
  CHECK(!text::read_tokenizer(folder.path()).has_types);
  put(folder / "tokenizer_config.json", "{}");
  CHECK(!text::read_tokenizer(folder.path()).has_types);
  put(folder / "tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
  CHECK(text::read_tokenizer(folder.path()).has_types);
  put(folder / "tokenizer.json", tokenizer_json(R"({"normalizer": {"lowercase": false}})"));
  put(folder / "config.json", R"({"tokenizer_class": "PreTrainedTokenizerFast"})");
  CHECK(folder.uncased());
  put(folder / "tokenizer_config.json", "{}");
  CHECK(!folder.uncased());
  put(folder / "config.json", R"({"tokenizer_class": "RobertaTokenizer"})");
  CHECK(
      folder.error() ==
      folder /
          "config.json: 'tokenizer_class' is 'RobertaTokenizer'; without a tokenizer.json, heddle reads those of BERT, "
          "DistilBERT and ELECTRA, PreTrainedTokenizerFast and TokenizersBackend");
}

TEST_CASE("text::read_tokenizer: BERT's special tokens have BERT's names, in every file that may name them") {
  const TokenizerFolder folder;
  put(folder / "vocab.txt", small_vocabulary);
  for (const char* file : {"tokenizer_config.json", "special_tokens_map.json"}) {
    const auto error = [&](const std::string& content) {
      put(folder / file, content);
      const std::string text = folder.error(), start = folder / file + ": ";
      return text.starts_with(start) ? text.substr(start.size()) : text;
    };
    CHECK(error(R"({"cls_token": "[CLS]", "bos_token": "[CLS]", "additional_special_tokens": ["[MASK]"]})") ==
          "no error");
    CHECK(error(R"({"cls_token": {"content": "[CLS]", "lstrip": false}, "eos_token": null})") == "no error");
    CHECK(error(R"({"cls_token": "[PAD]"})") ==
          "'cls_token' is \"[PAD]\"; heddle reads WordPiece tokenizers where it is \"[CLS]\"");
    CHECK(error(R"({"add_bos_token": false, "bos_token_id": 7})") == "no error");
    CHECK(error(R"({"mask_token": null})") ==
          "'mask_token' is null; heddle reads WordPiece tokenizers where it is \"[MASK]\"");
    CHECK(error(R"({"pad_token": "[MASK]"})") == "no error");  // PyLate's
    CHECK(error(R"({"pad_token": "[CLS]"})") ==
          "'pad_token' is \"[CLS]\"; heddle reads WordPiece tokenizers where it is \"[PAD]\"");
    CHECK(error(R"({"unk_token": 7})") == "'unk_token' is 7 but must be a string or an object");
    CHECK(error(R"({"extra_special_tokens": [7]})") == "'extra_special_tokens' is 7 but must be a string or an object");
    put(folder / file, "{}");
  }
  put(folder / "tokenizer_config.json", R"({"split_special_tokens": true})");
  CHECK(
      folder.error() ==
      folder /
          "tokenizer_config.json: 'split_special_tokens' is true; heddle reads WordPiece tokenizers where it is false");
  std::filesystem::remove(folder / "tokenizer_config.json");
  CHECK(folder.error_with(R"({"truncation": {"direction": "Right"}})") == "no error");
  CHECK(folder.error_with(R"({"truncation": {"direction": "Left"}})") ==
        "'direction' is \"Left\"; heddle reads WordPiece tokenizers where it is \"Right\"");
}

TEST_CASE("text::read_tokenizer: a tokenizer.json that is not BERT's WordPiece is refused") {
  const TokenizerFolder folder;
  CHECK(folder.error_with("{}") == "no error");
  CHECK(folder.error_with(R"({"normalizer": {"strip_accents": true}})") == "no error");
  CHECK(folder.error_with(R"({"added_tokens": null})") == "no error");
  CHECK(folder.error_with(R"({"model": {"type": "BPE"}})") == "is a tokenizer of type 'BPE'; heddle reads WordPiece");
  CHECK(folder.error_with(R"({"model": null})") == "has no 'model'");
  CHECK(folder.error_with(R"({"model": {"vocab": null}})") == "has no 'vocab'");
  CHECK(folder.error_with(R"({"model": {"vocab": []}})") == "'vocab' is [] but must be an object");
  CHECK(folder.error_with(R"({"normalizer": null})") == "has no 'normalizer'");
  CHECK(folder.error_with(R"({"pre_tokenizer": null})") == "has no 'pre_tokenizer'");
  const std::string only = "; heddle reads WordPiece tokenizers where it is ";
  CHECK(folder.error_with(R"({"model": {"unk_token": "<unk>"}})") == "'unk_token' is \"<unk>\"" + only + "\"[UNK]\"");
  CHECK(folder.error_with(R"({"model": {"continuing_subword_prefix": ""}})") ==
        "'continuing_subword_prefix' is \"\"" + only + "\"##\"");
  CHECK(folder.error_with(R"({"model": {"max_input_chars_per_word": 50}})") ==
        "'max_input_chars_per_word' is 50" + only + "100");
  CHECK(folder.error_with(R"({"normalizer": {"type": "Lowercase"}})") ==
        "'type' is \"Lowercase\"" + only + "\"BertNormalizer\"");
  CHECK(folder.error_with(R"({"normalizer": {"clean_text": false}})") == "'clean_text' is false" + only + "true");
  CHECK(folder.error_with(R"({"normalizer": {"handle_chinese_chars": false}})") ==
        "'handle_chinese_chars' is false" + only + "true");
  CHECK(folder.error_with(R"({"pre_tokenizer": {"type": "Whitespace"}})") ==
        "'type' is \"Whitespace\"" + only + "\"BertPreTokenizer\"");
}

TEST_CASE("text::read_tokenizer: the token types are those of transformers") {
  const TokenizerFolder folder;
  put(folder / "vocab.txt", small_vocabulary);
  const auto has_types = [&](const char* config) {
    put(folder / "tokenizer_config.json", config);
    return text::read_tokenizer(folder.path()).has_types;
  };
  CHECK(text::read_tokenizer(folder.path()).has_types);
  CHECK(has_types("{}"));
  for (const char* type : {"BertTokenizer", "BertTokenizerFast"})
    CHECK(has_types((R"({"tokenizer_class": ")" + std::string(type) + "\"}").c_str()));
  for (const char* type :
       {"DistilBertTokenizer", "DistilBertTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"})
    CHECK(!has_types((R"({"tokenizer_class": ")" + std::string(type) + "\"}").c_str()));
  CHECK(!has_types(R"({"model_input_names": ["input_ids", "attention_mask"]})"));
  CHECK(!has_types(R"({"model_input_names": []})"));
  CHECK(has_types(R"({"model_input_names": null})"));
  CHECK(
      has_types(R"({"model_input_names": ["input_ids", "token_type_ids"], "tokenizer_class": "DistilBertTokenizer"})"));
  put(folder / "tokenizer_config.json", R"({"model_input_names": "token_type_ids"})");
  CHECK(folder.error() ==
        folder / "tokenizer_config.json: 'model_input_names' is \"token_type_ids\" but must be an array");
}

TEST_CASE("text::read_tokenizer: a generic class needs a post_processor that adds BERT's special tokens") {
  const TokenizerFolder folder;
  const std::string fault =
      "'post_processor' does not add [CLS] and [SEP] as BERT does; 'tokenizer_class' TokenizersBackend uses it";
  const auto error_with = [&](const nlohmann::json& processor) {
    return folder.error_with(nlohmann::json({{"post_processor", processor}}).dump().c_str());
  };
  put(folder / "tokenizer_config.json", R"({"tokenizer_class": "BertTokenizer"})");
  CHECK(error_with(nullptr) == "no error");
  CHECK(error_with({{"type", "ByteLevel"}}) == "no error");
  put(folder / "tokenizer_config.json", R"({"tokenizer_class": "TokenizersBackend"})");
  CHECK(error_with(nullptr) == fault);
  CHECK(error_with(5) == fault);
  CHECK(error_with({{"type", "ByteLevel"}}) == fault);
  const nlohmann::json bert{{"type", "BertProcessing"}, {"cls", {"[CLS]", 2}}, {"sep", {"[SEP]", 3}}};
  CHECK(error_with(bert) == "no error");
  for (const char* token : {"cls", "sep"}) {
    nlohmann::json wrong = bert;
    wrong[token][1] = 4;
    CHECK(error_with(wrong) == fault);
  }
  const nlohmann::json pair = nlohmann::json::parse(tokenizer_json()).at("post_processor");
  CHECK(error_with(pair) == "no error");
  const auto changed = [&](const char* place, const nlohmann::json& value) {
    nlohmann::json json = pair;
    json[nlohmann::json::json_pointer(place)] = value;
    return json;
  };
  CHECK(error_with(changed("/single", nlohmann::json::array())) == fault);
  CHECK(error_with(changed("/pair/3/Sequence/type_id", 0)) == fault);
  for (const char* token : {"[CLS]", "[SEP]"})
    CHECK(error_with(changed(("/special_tokens/" + std::string(token) + "/ids/0").c_str(), 4)) == fault);
}

TEST_CASE("text::read_tokenizer: ids of tokenizer.json are a sequence without gaps") {
  const TokenizerFolder folder;
  const std::string ids = "; the 8 tokens must have the ids from 0 to 7";
  CHECK(folder.error_with(R"({"model": {"vocab": {"c": 7}}})") == "no error");
  CHECK(folder.error_with(R"({"model": {"vocab": {"c": 8}}})") == "token 'c' has the id 8" + ids);
  CHECK(folder.error_with(R"({"model": {"vocab": {"c": -1}}})") == "token 'c' has the id -1" + ids);
  CHECK(folder.error_with(R"({"model": {"vocab": {"c": 7.0}}})") == "token 'c' has the id 7.0" + ids);
  CHECK(folder.error_with(R"({"model": {"vocab": {"c": 18446744073709551615}}})") ==
        "token 'c' has the id 18446744073709551615" + ids);
  CHECK(folder.error_with(R"({"model": {"vocab": {"c": 5}}})") == "tokens 'a' and 'c' have the same id 5");
  CHECK(folder.error_with(R"({"model": {"vocab": {"c\r": 7}}})") ==
        "token 'c\\x0d' of 'vocab' holds a line break or a byte-order mark");
  CHECK(folder.error_with(R"({"model": {"vocab": {"c\u0000": 7}}})") == "token 'c\\x00' of 'vocab' holds a NUL byte");
  put(folder / "tokenizer.json", R"({"model": {"vocab": {}}})");
  CHECK(folder.error().ends_with("tokenizer.json: 'vocab' has no tokens"));
}

// transformers 5 saves the vocabulary of bert-base-chinese so: it trims the token U+2028.
TEST_CASE("text::read_tokenizer: a token of tokenizer.json may be empty, and no text has it") {
  const TokenizerFolder folder;
  put(folder / "tokenizer.json", tokenizer_json(R"({"model": {"vocab": {"": 7, "c": 8}}})"));
  text::PretrainedTokenizer tokenizer = text::read_tokenizer(folder.path());
  REQUIRE(tokenizer.vocabulary.size() == 9);
  CHECK(tokenizer.vocabulary.token(7).empty());
  CHECK(tokenizer.vocabulary.find("c") == 8);
  const text::WordPiece words(std::move(tokenizer.vocabulary), {.uncased = true});
  CHECK(words.encode("a c \xE2\x80\xA8 ab").ids == std::vector<int>{2, 5, 8, 5, 6, 3});
}

// The expected ids and texts are those of transformers 5.24 (and of its backend, with the decoder of BertTokenizer).
TEST_CASE("text::read_tokenizer: added tokens are recognized as in transformers") {
  struct Case {
    const char *json, *config, *map, *added;  // changes to tokenizer.json, and files; nullptr if there is none
    const char* text;
    std::vector<std::int32_t> ids;
    const char* decoded;  // what all ids become
  };
  // "none" removes the added tokens of tokenizer.json. [NEW] has the id 7.
  const char* const lists = R"({"added_tokens": [{"id": 2, "content": "[CLS]", "special": true},
    {"id": 7, "content": "[NEW]", "normalized": true, "special": false}, {"id": 5, "content": "a", "single_word": true}]})";
  const char* const generic = R"({"tokenizer_class": "TokenizersBackend"})";
  const char* const generic_mask = R"({"tokenizer_class": "TokenizersBackend", "mask_token": "[MASK]"})";
  const char* const decoder = R"({"added_tokens_decoder": {"8": {"content": "zz"}, "7": {"content": "[NEW]"},
    "4": {"content": "[MASK]", "single_word": true, "special": true}}, "bos_token": "ab"})";
  const char* const generic_decoder = R"({"tokenizer_class": "TokenizersBackend", "added_tokens_decoder":
    {"7": {"content": "[NEW]", "special": true}}})";
  const std::vector<Case> cases = {
      // By default, the special tokens are recognized in capitals.
      {nullptr, nullptr, nullptr, nullptr, "a[MASK]a[mask]", {5, 4, 5, 1, 1, 1}, "ab"},
      // added_tokens.json: in any casing, even a special token.
      {nullptr, nullptr, nullptr, R"({"x y": 8, "[NEW]": 7})", "a[new]X Y", {5, 7, 8}, "ab [new] x y"},
      {nullptr, nullptr, nullptr, R"({"[MASK]": 4})", "[mask]", {4}, "[mask] ab"},
      // Named special tokens: in capitals only. A token of the vocabulary keeps its id, others follow it.
      {nullptr, R"({"bos_token": "a"})", nullptr, nullptr, "aa", {5, 5}, "##b"},
      {nullptr,
       R"({"additional_special_tokens": ["zz"], "bos_token": "[B]", "eos_token": "[E]"})",
       nullptr,
       nullptr,
       "[B][E]zzZZ",
       {7, 8, 9, 1},
       "ab"},
      {nullptr,
       R"({"extra_special_tokens": {"image_token": "[NEW]"}})",
       nullptr,
       nullptr,
       "[NEW][new]",
       {7, 1, 1, 1},
       "ab"},
      {nullptr,
       nullptr,
       R"({"mask_token": {"content": "[MASK]", "normalized": true}})",
       nullptr,
       "[mask]",
       {4},
       "[mask] ab"},
      {nullptr,
       nullptr,
       R"({"mask_token": {"content": "[MASK]", "single_word": true}})",
       nullptr,
       "a[MASK]",
       {5, 1, 1, 1},
       "ab"},
      // added_tokens_decoder replaces the other files, and is read by id.
      {nullptr,
       decoder,
       R"({"eos_token": "q"})",
       R"({"q": 9})",
       "[new]ZZab q a[MASK]",
       {7, 8, 9, 1, 5, 1, 1, 1},
       "ab [new] zz"},
      {nullptr,
       R"({"added_tokens_decoder": {"7": {"content": "[NEW]", "special": true}}})",
       nullptr,
       nullptr,
       "[new]",
       {1, 1, 1},
       "ab"},
      // tokenizer.json
      {lists, nullptr, nullptr, nullptr, "a[new]aa[MASK]", {5, 7, 1, 4}, "ab [new]"},
      {lists, generic, nullptr, nullptr, "a[new][MASK]", {5, 7, 1, 1, 1}, "[PAD] [UNK] [SEP] [MASK] ab [new]"},
      {lists, generic_mask, nullptr, nullptr, "[new][MASK]", {7, 4}, "[PAD] [UNK] [SEP] ab [new]"},
      // transformers decodes 7 to "[new]", because it keeps the normalized form of the [NEW] that was replaced.
      {lists, generic_decoder, nullptr, nullptr, "[NEW][new]", {7, 1, 1, 1}, "[PAD] [UNK] [SEP] [MASK] ab"},
      {lists, R"({"added_tokens_decoder": {}})", nullptr, nullptr, "[NEW]", {1, 1, 1}, "ab"},
      {lists, nullptr, nullptr, R"({"zz": 8})", "[NEW]ZZ", {7, 8}, "ab [new] zz"},
      {lists,
       R"({"mask_token": "[MASK]", "additional_special_tokens": ["zz"]})",
       nullptr,
       nullptr,
       "zz[MASK]",
       {8, 4},
       "ab [new]"}};
  for (const Case& c : cases) {
    const TokenizerFolder folder;
    if (c.json)
      put(folder / "tokenizer.json", tokenizer_json(c.json));
    else
      put(folder / "vocab.txt", small_vocabulary);
    for (const auto& [name, content] :
         {std::pair("tokenizer_config.json", c.config), std::pair("special_tokens_map.json", c.map),
          std::pair("added_tokens.json", c.added)})
      if (content) put(folder / name, content);
    INFO(c.text << (c.json ? c.json : "") << (c.config ? c.config : ""));
    REQUIRE(folder.error() == "no error");
    text::PretrainedTokenizer files = text::read_tokenizer(folder.path());
    const Index ids = files.ids();
    const text::WordPiece tokenizer(std::move(files.vocabulary), {.uncased = files.uncased, .special_tokens = false},
                                    std::move(files.added_tokens));
    CHECK(tokenizer.encode(c.text).ids == c.ids);
    CHECK(tokenizer.size() == ids);
    std::vector<std::int32_t> all(static_cast<std::size_t>(ids));
    std::iota(all.begin(), all.end(), 0);
    CHECK(tokenizer.decode(all) == c.decoded);
  }
}

TEST_CASE("text::read_tokenizer: an added token has the id of its place") {
  const TokenizerFolder folder;
  const auto place = [](const char* token, int id, int expected) {
    return "the added token '" + std::string(token) + "' has the id " + std::to_string(id) + "; its place is " +
           std::to_string(expected);
  };
  CHECK(folder.error_with(R"({"added_tokens": [{"id": 7, "content": "a"}]})") == place("a", 7, 5));
  CHECK(folder.error_with(R"({"added_tokens": [{"id": 8, "content": "[NEW]"}]})") == place("[NEW]", 8, 7));
  CHECK(folder.error_with(R"({"added_tokens": [{"content": "[SEP]"}]})") == "has no 'id'");
  CHECK(folder.error_with(R"({"added_tokens": [{"id": 5, "content": "a", "single_word": 1}]})") ==
        "'single_word' is 1 but must be true or false");
  CHECK(folder.error_with(R"({"added_tokens": [7]})") == "a member of 'added_tokens' must be a JSON object");
  CHECK(folder.error_with(R"({"added_tokens": {}})") == "'added_tokens' is {} but must be an array");
  CHECK(folder.error_with(R"({"added_tokens": [{"id": 7, "content": ""}, {"id": 7, "content": "x"}]})") == "no error");

  std::filesystem::remove(folder / "tokenizer.json");
  put(folder / "vocab.txt", small_vocabulary);
  const std::string added = folder / "added_tokens.json";
  put(added, R"({"[MASK]": 5})");
  CHECK(folder.error() == added + ": " + place("[MASK]", 5, 4));
  put(added, R"({"[MASK]": "x"})");
  CHECK(folder.error() == added + ": '[MASK]' is \"x\" but must be a whole number of at least 0");
  std::filesystem::remove(added);
  const auto decoder = [&](const std::string& content) {
    put(folder / "tokenizer_config.json", R"({"added_tokens_decoder": )" + content + "}");
    const std::string text = folder.error(), start = folder / "tokenizer_config.json: ";
    return text.starts_with(start) ? text.substr(start.size()) : text;
  };
  CHECK(decoder(R"({"0": {"content": "[PAD]"}, "4": {"content": "[MASK]"}})") == "no error");
  CHECK(decoder(R"({"7": {"content": "[MASK]"}})") == place("[MASK]", 7, 4));
  CHECK(decoder(R"({"7": []})") == "a member of 'added_tokens_decoder' is [] but must be a string or an object");
  for (const char* id : {"-1", "x", "", "1.0", "99999999999999999999"})
    CHECK(decoder("{\"" + std::string(id) + R"(": {"content": "[MASK]"}})") ==
          '\'' + std::string(id) + "' of 'added_tokens_decoder' is not an id");
}
