// The WordPiece tokenizer of a Hugging Face folder: vocab.txt or tokenizer.json, and tokenizer_config.json.
#pragma once
#include <algorithm>
#include <cmath>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <heddle/io/json_object.hpp>
#include <heddle/text/wordpiece.hpp>

namespace heddle::io {

/// The vocabulary and the options of a folder's tokenizer, and its files unchanged.
struct PretrainedTokenizer {
  text::Vocabulary vocabulary;                    ///< the tokens
  bool uncased = true;                            ///< whether texts are lower-cased
  std::optional<bool> strip_accents = {};         ///< whether they lose their accents; by default if `uncased`
  bool has_types = true;                          ///< whether the model is given the token types of a pair
  Index max_length = 0;                           ///< maximum number of tokens, with special ones; 0 if none is given
  std::map<std::string, std::string> files = {};  ///< contents by name, for saving them unchanged
};

namespace detail {

// Throws FileError if a member is present and differs from `only`, the one value that heddle supports. null counts as absent.
inline void require_value(const JsonObject& object, const std::string& key, const nlohmann::json& only) {
  const nlohmann::json* const value = object.find(key);
  if (value && *value != only)
    fail<FileError>(object.file(), ": '", key, "' is ", printable(value->dump(), 60),
                    "; heddle reads WordPiece tokenizers where it is ", only.dump());
}

// The members that name BERT's special tokens, and the tokens.
inline constexpr std::pair<const char*, const char*> bert_tokens[] = {{"unk_token", "[UNK]"},
                                                                      {"sep_token", "[SEP]"},
                                                                      {"cls_token", "[CLS]"},
                                                                      {"pad_token", "[PAD]"},
                                                                      {"mask_token", "[MASK]"}};

// Throws FileError unless an added token is one of those that WordPiece recognizes in a text, and has its id in the vocabulary.
inline void require_known_token(const text::Vocabulary& vocabulary, const std::string& token, Index id,
                                const std::string& file) {
  const bool known = std::any_of(std::begin(bert_tokens), std::end(bert_tokens),
                                 [&](const auto& special) { return token == special.second; });
  require<FileError>(known && id >= 0 && vocabulary.find(token) == id, file, ": the added token ", quoted_name(token),
                     " is not one of [UNK] [SEP] [PAD] [CLS] [MASK] with its id in the vocabulary");
}

// Returns the text of a special token, which a file gives as a string or as an object; messages call it `what`. Throws FileError for an
// object with an option that changes where the token is recognized. If `has_options` is false, the tokenizer ignores these options, and
// they are not checked. lstrip and rstrip change nothing: BERT drops blanks.
inline std::string special_token(const nlohmann::json& token, const std::string& file, const std::string& what,
                                 bool has_options = true) {
  if (token.is_string()) return token.get<std::string>();
  if (!token.is_object())
    fail<FileError>(file, ": ", what, " is ", printable(token.dump(), 60), " but must be a string or an object");
  const JsonObject object(token, file, what);
  for (const char* option : {"single_word", "normalized"})
    require<FileError>(!has_options || !object.boolean_or(option, false), file, ": '", option, "' of ", what,
                       " is true; heddle reads WordPiece tokenizers where it is false");
  return object.text("content");
}

// Checks the members of tokenizer_config.json or special_tokens_map.json that name special tokens: those of bert_tokens, other members
// whose name ends with "_token", and lists such as additional_special_tokens. Also checks the options of these tokens (see special_token),
// unless there is a tokenizer.json, which has its own.
inline void check_special_tokens(const JsonObject& config, const text::Vocabulary& vocabulary,
                                 bool has_tokenizer_json) {
  const auto check = [&](const nlohmann::json& token, const std::string& key) {
    const std::string text = special_token(token, config.file(), '\'' + printable(key, 60) + '\'', !has_tokenizer_json);
    require_known_token(vocabulary, text, vocabulary.find(text), config.file());
  };
  for (const auto& [key, value] : config.json().get_ref<const nlohmann::json::object_t&>()) {
    const auto* const only = std::find_if(std::begin(bert_tokens), std::end(bert_tokens),
                                          [&name = key](const auto& t) { return name == t.first; });
    if (only != std::end(bert_tokens)) {
      if (value.is_null() ||
          special_token(value, config.file(), '\'' + key + '\'', !has_tokenizer_json) != only->second)
        fail<FileError>(config.file(), ": '", key, "' is ", printable(value.dump(), 60),
                        "; heddle reads WordPiece tokenizers where it is \"", only->second, '"');
    } else if (key.ends_with("_token") && (value.is_string() || value.is_object())) {
      check(value, key);
    } else if (key == "additional_special_tokens" || key == "extra_special_tokens" ||
               key == "model_specific_special_tokens") {
      for (const nlohmann::json& token : value) check(token, key);
    }
  }
}

// Checks that a tokenizer.json recognizes each of BERT's special tokens that the vocabulary has, unless tokenizer_config.json names it.
inline void require_all_special_tokens(const JsonObject& tokenizer, const JsonObject& config,
                                       const text::Vocabulary& vocabulary) {
  std::set<std::string> added;
  if (tokenizer.has("added_tokens"))
    for (const nlohmann::json& entry : tokenizer.array("added_tokens"))
      added.insert(special_token(entry, tokenizer.file(), "a member of 'added_tokens'"));
  for (const auto& [key, text] : bert_tokens)
    require<FileError>(added.count(text) || config.has(key) || vocabulary.find(text) == text::Vocabulary::none,
                       tokenizer.file(), ": 'added_tokens' has no ", text, "; heddle recognizes it in a text");
}

// Returns the lines of a vocabulary from its map of tokens to ids. Throws FileError unless the ids of n tokens are 0 to n - 1.
inline std::string vocabulary_lines(const nlohmann::json& ids, const std::string& file) {
  require<FileError>(!ids.empty(), file, ": 'vocab' has no tokens");
  std::vector<const std::string*> tokens(ids.size());
  for (const auto& [token, id] : ids.get_ref<const nlohmann::json::object_t&>()) {
    if (!id.is_number_integer() || id < 0 || id >= tokens.size())
      fail<FileError>(file, ": token ", quoted_name(token), " has the id ", printable(id.dump(), 60), "; the ",
                      tokens.size(), " tokens must have the ids from 0 to ", tokens.size() - 1);
    const std::string*& place = tokens[id.get<std::size_t>()];
    if (place)
      fail<FileError>(file, ": tokens ", quoted_name(*place), " and ", quoted_name(token), " have the same id ",
                      id.dump());
    if (token.find_first_of("\r\n") != token.npos || (id == 0 && token.starts_with("\xEF\xBB\xBF")))
      fail<FileError>(file, ": token ", quoted_name(token), " of 'vocab' holds a line break or a byte-order mark");
    require<FileError>(token.find('\0') == token.npos, file, ": token ", quoted_name(token),
                       " of 'vocab' holds a NUL byte");
    place = &token;
  }
  std::string lines;
  for (const std::string* token : tokens) lines += *token + '\n';
  return lines;
}

// Returns a member that is true, false, or absent; null counts as absent.
inline std::optional<bool> boolean_or_null(const JsonObject& object, const std::string& key) {
  return object.has(key) ? std::optional(object.boolean_or(key, false)) : std::nullopt;
}

// The files of a tokenizer: read_tokenizer() keeps the contents of those that exist.
inline constexpr const char* tokenizer_file_names[] = {"tokenizer.json", "vocab.txt", "tokenizer_config.json",
                                                       "special_tokens_map.json", "added_tokens.json"};

// Reads the vocabulary and the casing of tokenizer.json; `path` is its name in messages.
inline PretrainedTokenizer read_tokenizer_json(const JsonObject& all, const std::string& path) {
  const std::string& shown = all.file();
  const JsonObject model(all.object("model"), shown);
  const std::string type = model.text_or("type", "WordPiece");
  require<FileError>(type == "WordPiece", shown, ": is a tokenizer of type ", quoted_name(type),
                     "; heddle reads WordPiece");
  require_value(model, "unk_token", "[UNK]");
  require_value(model, "continuing_subword_prefix", "##");
  require_value(model, "max_input_chars_per_word", text::Word::max_characters);
  const nlohmann::json& ids = model.object("vocab");
  PretrainedTokenizer tokenizer{
      text::Vocabulary(vocabulary_lines(ids, shown), path, text::Vocabulary::EmptyToken::allowed)};

  const JsonObject normalizer(all.object("normalizer"), shown, "'normalizer'");
  require_value(normalizer, "type", "BertNormalizer");
  require_value(normalizer, "clean_text", true);
  require_value(normalizer, "handle_chinese_chars", true);
  tokenizer.uncased = normalizer.boolean_or("lowercase", true);
  tokenizer.strip_accents = boolean_or_null(normalizer, "strip_accents");
  require_value(JsonObject(all.object("pre_tokenizer"), shown, "'pre_tokenizer'"), "type", "BertPreTokenizer");
  if (all.has("truncation"))
    require_value(JsonObject(all.object("truncation"), shown, "'truncation'"), "direction", "Right");
  if (all.has("added_tokens"))
    for (const nlohmann::json& entry : all.array("added_tokens")) {
      const JsonObject token(entry, shown, "a member of 'added_tokens'");
      require_known_token(tokenizer.vocabulary, special_token(entry, shown, "a member of 'added_tokens'"),
                          token.count("id"), shown);
    }
  return tokenizer;
}

// Returns whether a tokenizer.json adds [CLS] and [SEP] to a text and to a pair as BERT does.
inline bool adds_bert_tokens(const nlohmann::json& tokenizer, const text::Vocabulary& vocabulary) {
  using nlohmann::json;
  const json text = json::parse(R"([{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                                    {"Sequence": {"id": "A", "type_id": 0}},
                                    {"SpecialToken": {"id": "[SEP]", "type_id": 0}}])");
  json pair = text;
  pair.push_back(json::parse(R"({"Sequence": {"id": "B", "type_id": 1}})"));
  pair.push_back(json::parse(R"({"SpecialToken": {"id": "[SEP]", "type_id": 1}})"));
  const json begin = vocabulary.find("[CLS]"), end = vocabulary.find("[SEP]");
  const auto has = [&](const char* place, const json& expected) {
    const json::json_pointer at(place);
    return tokenizer.contains(at) && tokenizer.at(at) == expected;
  };
  if (has("/post_processor/type", "BertProcessing"))
    return has("/post_processor/cls", json::array({"[CLS]", begin})) &&
           has("/post_processor/sep", json::array({"[SEP]", end}));
  return has("/post_processor/type", "TemplateProcessing") && has("/post_processor/single", text) &&
         has("/post_processor/pair", pair) && has("/post_processor/special_tokens/[CLS]/ids", json::array({begin})) &&
         has("/post_processor/special_tokens/[SEP]/ids", json::array({end}));
}

// Checks the tokens that added_tokens.json adds to vocab.txt.
inline void check_added_tokens(const text::Vocabulary& vocabulary, const JsonObject& ids) {
  for (const auto& [token, id] : ids.json().get_ref<const nlohmann::json::object_t&>())
    require_known_token(vocabulary, token, id.is_number_integer() ? id.get<Index>() : -1, ids.file());
}

// Returns the class of a tokenizer: tokenizer_class of tokenizer_config.json, otherwise that of config.json, otherwise BertTokenizer.
inline std::string tokenizer_class(const JsonObject& config, const JsonObject& model_config) {
  const JsonObject& source = config.has("tokenizer_class") ? config : model_config;
  const std::string type = source.text_or("tokenizer_class", "BertTokenizer");
  bool is_known = false;
  for (const char* name : {"BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast",
                           "PreTrainedTokenizerFast", "TokenizersBackend"})
    is_known = is_known || type == name;
  require<FileError>(is_known, source.file(), ": 'tokenizer_class' is ", quoted_name(type),
                     "; heddle reads those of BERT and DistilBERT, PreTrainedTokenizerFast and TokenizersBackend");
  return type;
}

// Returns the maximum number of tokens in a text, or 0 if there is no limit, for which transformers writes 1e30: any value from
// 1e9 on means no limit.
inline Index read_max_length(const JsonObject& config) {
  constexpr double most = 1e9;
  const char* const key = config.json().contains("model_max_length") ? "model_max_length" : "max_len";
  const nlohmann::json* const length = config.find(key);
  if (!length) return 0;
  const double value = length->is_number() ? length->get<double>() : 0;
  require<FileError>(value >= 1 && value == std::floor(value), config.file(), ": '", key, "' is ",
                     printable(length->dump(), 60), " but must be a whole number of at least 1");
  return value < most ? static_cast<Index>(value) : 0;
}

// Applies tokenizer_config.json and the class of the tokenizer. `json` is tokenizer.json, or nullptr if there is none. With it,
// PreTrainedTokenizerFast and TokenizersBackend take the casing and the special tokens from tokenizer.json.
inline void apply_tokenizer_config(PretrainedTokenizer& tokenizer, const JsonObject& config, const std::string& type,
                                   const JsonObject* json) {
  require_value(config, "truncation_side", "right");
  require_value(config, "split_special_tokens", false);
  check_special_tokens(config, tokenizer.vocabulary, json != nullptr);
  const bool is_generic = type == "PreTrainedTokenizerFast" || type == "TokenizersBackend";
  if (json && is_generic) {
    require<FileError>(adds_bert_tokens(json->json(), tokenizer.vocabulary), json->file(),
                       ": 'post_processor' does not add [CLS] and [SEP] as BERT does; 'tokenizer_class' ", type,
                       " uses it");
    require_all_special_tokens(*json, config, tokenizer.vocabulary);
  } else {
    tokenizer.uncased = config.boolean_or("do_lower_case", true);
    tokenizer.strip_accents = boolean_or_null(config, "strip_accents");
    require_value(config, "tokenize_chinese_chars", true);
  }
  if (config.has("model_input_names")) {
    const nlohmann::json& names = config.array("model_input_names");
    tokenizer.has_types = std::find(names.begin(), names.end(), "token_type_ids") != names.end();
  } else {
    tokenizer.has_types = !is_generic && !type.starts_with("DistilBert");
  }
  if (config.has("added_tokens_decoder"))
    for (const auto& [id, entry] : config.object("added_tokens_decoder").get_ref<const nlohmann::json::object_t&>()) {
      const std::string text = special_token(entry, config.file(), "a member of 'added_tokens_decoder'");
      const Index known = tokenizer.vocabulary.find(text);
      require_known_token(tokenizer.vocabulary, text, id == std::to_string(known) ? known : -1, config.file());
    }
  tokenizer.max_length = read_max_length(config);
}

}  // namespace detail

/// Reads the tokenizer of a Hugging Face folder: tokenizer.json, or otherwise vocab.txt. Its class is tokenizer_class of
/// tokenizer_config.json or, without it, of config.json; the default is BertTokenizer. The options follow transformers:
/// - Casing: do_lower_case of tokenizer_config.json, or true if the file or the member is absent, and strip_accents, by default as
///   do_lower_case. If there is a tokenizer.json and the class is PreTrainedTokenizerFast or TokenizersBackend, the two are those of
///   tokenizer.json.
/// - Token types: the model is given them if model_input_names of tokenizer_config.json has token_type_ids; without that member, if the
///   class is BERT's.
/// @throws FileError for a folder without a vocabulary, for a tokenizer that is not BERT's WordPiece, and for special and added tokens
/// except BERT's five.
inline PretrainedTokenizer read_tokenizer(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const char* name : detail::tokenizer_file_names)
    if (path_exists(folder + '/' + name)) files[name] = read_file(folder + '/' + name);
  const auto parse = [&](const char* name) {
    const auto found = files.find(name);
    return found == files.end() ? std::nullopt
                                : std::optional<JsonFile>(std::in_place, found->second, folder + '/' + name);
  };
  // Returns the object of a file, or an empty one if the file does not exist.
  const JsonFile empty("{}", folder);
  const auto object = [&](const std::optional<JsonFile>& file) { return (file ? *file : empty).object(); };

  const std::optional<JsonFile> json = parse("tokenizer.json"), config = parse("tokenizer_config.json");
  const auto lines = files.find("vocab.txt");
  require<FileError>(json || lines != files.end(), printable(folder), ": has neither tokenizer.json nor vocab.txt");
  PretrainedTokenizer tokenizer = json ? detail::read_tokenizer_json(json->object(), folder + "/tokenizer.json")
                                       : PretrainedTokenizer{text::Vocabulary(lines->second, folder + "/vocab.txt")};
  const std::string model = folder + "/config.json";
  const std::optional<JsonFile> model_config =
      path_exists(model) ? std::optional<JsonFile>(std::in_place, model) : std::nullopt;
  const JsonObject all = object(json), settings = object(config);
  detail::apply_tokenizer_config(tokenizer, settings, detail::tokenizer_class(settings, object(model_config)),
                                 json ? &all : nullptr);
  if (!settings.has("added_tokens_decoder")) {  // with it, transformers does not read the two files
    if (const auto added = parse("added_tokens.json"))
      detail::check_added_tokens(tokenizer.vocabulary, added->object());
    if (const auto map = parse("special_tokens_map.json"))
      detail::check_special_tokens(map->object(), tokenizer.vocabulary, json.has_value());
  }
  tokenizer.files = std::move(files);
  return tokenizer;
}

}  // namespace heddle::io
