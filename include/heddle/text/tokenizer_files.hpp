// The WordPiece tokenizer of a Hugging Face folder: vocab.txt or tokenizer.json, and tokenizer_config.json.
#pragma once
#include <algorithm>
#include <charconv>
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

namespace heddle::text {

/// The vocabulary and the options of a folder's tokenizer, and its files unchanged.
struct PretrainedTokenizer {
  Vocabulary vocabulary;                          ///< the tokens
  std::vector<AddedToken> added_tokens = {};      ///< those that are recognized in a text; ids follow the vocabulary's
  bool uncased = true;                            ///< whether texts are lower-cased
  std::optional<bool> strip_accents = {};         ///< whether they lose their accents; by default if `uncased`
  bool has_types = true;                          ///< whether the model is given the token types of a pair
  Index max_length = 0;                           ///< maximum number of tokens, with special ones; 0 if none is given
  std::map<std::string, std::string> files = {};  ///< contents by name, for saving them unchanged

  /// Returns the number of ids, for which a model needs embeddings.
  Index ids() const {
    Index count = vocabulary.size();
    for (const AddedToken& token : added_tokens) count = std::max<Index>(count, token.id + 1);
    return count;
  }
};

namespace detail {

using io::JsonFile;
using io::JsonObject;
using io::printable;
using io::quoted_name;

// Throws FileError if a member is present and differs from `only`, the one value that heddle supports. null counts as
// absent.
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

// Returns whether a token is one of BERT's five.
inline bool is_bert_token(const std::string& token) {
  return std::any_of(std::begin(bert_tokens), std::end(bert_tokens),
                     [&](const auto& special) { return token == special.second; });
}

// Returns an added token, without its id, which a file gives as a string or as an object; messages call it `what`. The
// defaults of the options are transformers': a token is normalized unless it is special.
inline AddedToken read_added_token(const nlohmann::json& token, const std::string& file, const std::string& what,
                                   bool is_special) {
  if (token.is_string()) return {.content = token.get<std::string>(), .normalized = !is_special, .special = is_special};
  if (!token.is_object())
    fail<FileError>(file, ": ", what, " is ", printable(token.dump(), 60), " but must be a string or an object");
  const JsonObject object(token, file, what);
  const std::string content = object.text("content");
  is_special = object.boolean_or("special", is_special) || is_bert_token(content);
  return {.content = content,
          .single_word = object.boolean_or("single_word", false),
          .normalized = object.boolean_or("normalized", !is_special),
          .special = is_special};
}

// The added tokens of a tokenizer, in the order in which transformers adds them, which determines their ids: a token of
// the vocabulary keeps its id, and the others follow the vocabulary.
class AddedTokens {
 public:
  explicit AddedTokens(const Vocabulary& vocabulary) : vocabulary_(&vocabulary), next_(vocabulary.size()) {}

  bool has(const std::string& content) const { return find(content) != all_.end(); }

  // Adds a token, unless it has been added or is empty. Throws FileError if the file gives it another id than
  // its place does.
  void add(AddedToken token, const std::string& file, std::optional<Index> id = {}) {
    if (!token.content.empty() && !has(token.content)) {
      const std::int32_t known = vocabulary_->find(token.content);
      token.id = known == Vocabulary::none ? next_++ : known;
      all_.push_back(token);
    }
    if (const auto added = find(token.content); added != all_.end() && id)
      require<FileError>(*id == added->id, file, ": the added token ", quoted_name(token.content), " has the id ", *id,
                         "; its place is ", added->id);
  }
  // The same, and gives a token that has been added the options of this one.
  void add_or_replace(const AddedToken& token, const std::string& file, Index id) {
    add(token, file, id);
    if (const auto added = find(token.content); added != all_.end()) {
      added->single_word = token.single_word;
      added->normalized = token.normalized;
      added->special = token.special;
    }
  }

  std::vector<AddedToken> all() && { return std::move(all_); }

 private:
  std::vector<AddedToken>::iterator find(const std::string& content) {
    return std::find_if(all_.begin(), all_.end(), [&](const AddedToken& t) { return t.content == content; });
  }
  std::vector<AddedToken>::const_iterator find(const std::string& content) const {
    return const_cast<AddedTokens*>(this)->find(content);
  }

  const Vocabulary* vocabulary_;
  std::int32_t next_;
  std::vector<AddedToken> all_;
};

// Adds the tokens that members of tokenizer_config.json or special_tokens_map.json name: those of bert_tokens, which
// must be BERT's, other members whose name ends with "_token", and lists such as additional_special_tokens.
inline void add_special_tokens(AddedTokens& tokens, const JsonObject& config) {
  const auto& members = config.json().get_ref<const nlohmann::json::object_t&>();
  const auto add = [&](const nlohmann::json& token, const std::string& key) {
    tokens.add(read_added_token(token, config.file(), '\'' + printable(key, 60) + '\'', true), config.file());
  };
  for (const auto& [key, value] : members) {
    const auto* const only = std::find_if(std::begin(bert_tokens), std::end(bert_tokens),
                                          [&name = key](const auto& t) { return name == t.first; });
    if (only != std::end(bert_tokens)) {
      const std::string content =
          value.is_null() ? "" : read_added_token(value, config.file(), '\'' + key + '\'', true).content;
      // PyLate pads with [MASK]; heddle does not pad.
      if (content != only->second && !(key == "pad_token" && content == "[MASK]"))
        fail<FileError>(config.file(), ": '", key, "' is ", printable(value.dump(), 60),
                        "; heddle reads WordPiece tokenizers where it is \"", only->second, '"');
      add(value, key);
    } else if (key.ends_with("_token") && (value.is_string() || value.is_object())) {
      add(value, key);
    }
  }
  for (const char* key : {"extra_special_tokens", "additional_special_tokens", "model_specific_special_tokens"}) {
    const auto list = members.find(key);
    if (list == members.end()) continue;
    for (const nlohmann::json& token : list->second) add(token, key);
  }
}

// Returns the lines of a vocabulary from its map of tokens to ids. Throws FileError unless the ids of n tokens
// are 0 to n - 1.
inline std::string vocabulary_lines(const nlohmann::json& ids, const std::string& file) {
  require<FileError>(!ids.empty(), file, ": 'vocab' has no tokens");
  std::vector<const std::string*> tokens(ids.size());
  for (const auto& [token, id] : ids.get_ref<const nlohmann::json::object_t&>()) {
    if (!io::is_whole_number(id, 0, std::ssize(tokens) - 1))
      fail<FileError>(file, ": token ", quoted_name(token), " has the id ", printable(id.dump(), 60), "; the ",
                      tokens.size(), " tokens must have the ids from 0 to ", tokens.size() - 1);
    const auto number = id.get<std::size_t>();
    const std::string*& place = tokens[number];
    if (place)
      fail<FileError>(file, ": tokens ", quoted_name(*place), " and ", quoted_name(token), " have the same id ",
                      id.dump());
    if (token.find_first_of("\r\n") != token.npos || (number == 0 && token.starts_with("\xEF\xBB\xBF")))
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
inline constexpr const char* tokenizer_file_names[] = {"tokenizer.json",
                                                       "vocab.txt",
                                                       "tokenizer_config.json",
                                                       "special_tokens_map.json",
                                                       "added_tokens.json",
                                                       "vocab.json",
                                                       "merges.txt",
                                                       "sentencepiece.bpe.model",
                                                       "spm.model",
                                                       "spiece.model"};

// Reads the vocabulary and the casing of tokenizer.json; `path` is its name in messages.
inline PretrainedTokenizer read_tokenizer_json(const JsonObject& all, const std::string& path) {
  const std::string& shown = all.file();
  const JsonObject model(all.object("model"), shown);
  const std::string type = model.text_or("type", "WordPiece");
  require<FileError>(type == "WordPiece", shown, ": is a tokenizer of type ", quoted_name(type),
                     "; heddle reads WordPiece");
  require_value(model, "unk_token", "[UNK]");
  require_value(model, "continuing_subword_prefix", "##");
  require_value(model, "max_input_chars_per_word", Word::max_characters);
  const nlohmann::json& ids = model.object("vocab");
  PretrainedTokenizer tokenizer{Vocabulary(vocabulary_lines(ids, shown), path, Vocabulary::EmptyToken::allowed)};

  const JsonObject normalizer(all.object("normalizer"), shown, "'normalizer'");
  require_value(normalizer, "type", "BertNormalizer");
  require_value(normalizer, "clean_text", true);
  require_value(normalizer, "handle_chinese_chars", true);
  tokenizer.uncased = normalizer.boolean_or("lowercase", true);
  tokenizer.strip_accents = boolean_or_null(normalizer, "strip_accents");
  require_value(JsonObject(all.object("pre_tokenizer"), shown, "'pre_tokenizer'"), "type", "BertPreTokenizer");
  if (all.has("truncation"))
    require_value(JsonObject(all.object("truncation"), shown, "'truncation'"), "direction", "Right");
  return tokenizer;
}

// Adds the tokens of a tokenizer.json.
inline void add_json_tokens(AddedTokens& tokens, const JsonObject& all) {
  const std::string what = "a member of 'added_tokens'";
  if (all.has("added_tokens"))
    for (const nlohmann::json& entry : all.array("added_tokens")) {
      const JsonObject token(entry, all.file(), what);
      tokens.add(read_added_token(entry, all.file(), what, false), all.file(), token.count("id"));
    }
}

// Adds the tokens of tokenizer_config.json's added_tokens_decoder, an object by id.
inline void add_decoder_tokens(AddedTokens& tokens, const JsonObject& config) {
  std::map<Index, const nlohmann::json*> by_id;
  for (const auto& [key, entry] : config.object("added_tokens_decoder").get_ref<const nlohmann::json::object_t&>()) {
    Index id = -1;
    const char* const end = key.data() + key.size();
    require<FileError>(std::from_chars(key.data(), end, id).ptr == end && id >= 0, config.file(), ": ",
                       quoted_name(key), " of 'added_tokens_decoder' is not an id");
    by_id[id] = &entry;
  }
  for (const auto& [id, entry] : by_id)
    tokens.add_or_replace(read_added_token(*entry, config.file(), "a member of 'added_tokens_decoder'", false),
                          config.file(), id);
}

// Adds the tokens of added_tokens.json, an object of ids.
inline void add_legacy_tokens(AddedTokens& tokens, const JsonObject& ids) {
  std::map<Index, std::string> by_id;
  for (const auto& [token, id] : ids.json().get_ref<const nlohmann::json::object_t&>()) by_id[ids.count(token)] = token;
  for (const auto& [id, token] : by_id) tokens.add({.content = token, .normalized = true}, ids.file(), id);
}

// Returns whether a tokenizer.json adds [CLS] and [SEP], which have the ids `begin` and `end`, to a text and to a pair
// as BERT does.
inline bool adds_bert_tokens(const nlohmann::json& tokenizer, const nlohmann::json& begin, const nlohmann::json& end) {
  using nlohmann::json;
  const json text = json::parse(R"([{"SpecialToken": {"id": "[CLS]", "type_id": 0}},
                                    {"Sequence": {"id": "A", "type_id": 0}},
                                    {"SpecialToken": {"id": "[SEP]", "type_id": 0}}])");
  json pair = text;
  pair.push_back(json::parse(R"({"Sequence": {"id": "B", "type_id": 1}})"));
  pair.push_back(json::parse(R"({"SpecialToken": {"id": "[SEP]", "type_id": 1}})"));
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

// Returns whether read_tokenizer() reads a class of transformers.
inline bool is_bert_class(const std::string& type) {
  for (const char* name : {"BertTokenizer", "BertTokenizerFast", "DistilBertTokenizer", "DistilBertTokenizerFast",
                           "ElectraTokenizer", "ElectraTokenizerFast", "PreTrainedTokenizerFast", "TokenizersBackend"})
    if (type == name) return true;
  return false;
}

// Returns the class of a tokenizer: tokenizer_class of tokenizer_config.json, otherwise that of config.json, otherwise
// BertTokenizer.
inline std::string tokenizer_class(const JsonObject& config, const JsonObject& model_config) {
  const JsonObject& source = config.has("tokenizer_class") ? config : model_config;
  const std::string type = source.text_or("tokenizer_class", "BertTokenizer");
  require<FileError>(is_bert_class(type), source.file(), ": 'tokenizer_class' is ", quoted_name(type),
                     "; without a tokenizer.json, heddle reads those of BERT, DistilBERT and ELECTRA, "
                     "PreTrainedTokenizerFast and TokenizersBackend");
  return type;
}

// Returns whether a class of transformers takes everything from tokenizer.json, if there is one.
inline bool is_generic_class(const std::string& type) {
  return type == "PreTrainedTokenizerFast" || type == "TokenizersBackend";
}

// Returns the maximum number of tokens in a text, or 0 if there is no limit, for which transformers writes 1e30: any
// value from 1e9 on means no limit.
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

// Applies tokenizer_config.json and the class of the tokenizer. `json` is tokenizer.json, or nullptr if there is none.
// With it, PreTrainedTokenizerFast and TokenizersBackend take the casing and the special tokens from tokenizer.json.
// Otherwise BERT's are added, and added_tokens_decoder replaces the tokens of tokenizer.json.
inline void apply_tokenizer_config(PretrainedTokenizer& tokenizer, const JsonObject& config, const std::string& type,
                                   const JsonObject* json, AddedTokens& tokens) {
  require_value(config, "truncation_side", "right");
  require_value(config, "split_special_tokens", false);
  const bool is_generic = is_generic_class(type);
  const bool has_decoder = config.has("added_tokens_decoder");
  if (json && (is_generic || !has_decoder)) add_json_tokens(tokens, *json);
  if (has_decoder) add_decoder_tokens(tokens, config);
  if (json && is_generic) {
    require<FileError>(
        adds_bert_tokens(json->json(), tokenizer.vocabulary.find("[CLS]"), tokenizer.vocabulary.find("[SEP]")),
        json->file(), ": 'post_processor' does not add [CLS] and [SEP] as BERT does; 'tokenizer_class' ", type,
        " uses it");
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
  tokenizer.max_length = read_max_length(config);
}

}  // namespace detail

/// Reads the tokenizer of a Hugging Face folder: tokenizer.json, or otherwise vocab.txt. Its class is tokenizer_class
/// of tokenizer_config.json or, without it, of config.json; the default is BertTokenizer. The options follow
/// transformers:
/// - Casing: do_lower_case of tokenizer_config.json, or true if the file or the member is absent, and strip_accents, by
///   default as do_lower_case. If there is a tokenizer.json and the class is PreTrainedTokenizerFast or
///   TokenizersBackend, the two are those of tokenizer.json.
/// - Token types: the model is given them if model_input_names of tokenizer_config.json has token_type_ids; without
///   that member, if the class is BERT's.
/// - Added tokens: those of tokenizer.json and of added_tokens_decoder (without it, of added_tokens.json), and the
///   special tokens that tokenizer_config.json and special_tokens_map.json name.
/// @throws FileError for a folder without a vocabulary, for a tokenizer that is not BERT's WordPiece, if one of BERT's
/// special tokens has another name, and for an added token with another id than transformers gives it.
inline PretrainedTokenizer read_tokenizer(const std::string& folder) {
  std::map<std::string, std::string> files;
  for (const char* name : detail::tokenizer_file_names)
    if (io::path_exists(folder + '/' + name)) files[name] = io::read_file(folder + '/' + name);
  const auto parse = [&](const char* name) {
    const auto found = files.find(name);
    return found == files.end() ? std::nullopt
                                : std::optional<io::JsonFile>(std::in_place, found->second, folder + '/' + name);
  };
  // Returns the object of a file, or an empty one if the file does not exist.
  const io::JsonFile empty("{}", folder);
  const auto object = [&](const std::optional<io::JsonFile>& file) { return (file ? *file : empty).object(); };

  const std::optional<io::JsonFile> json = parse("tokenizer.json"), config = parse("tokenizer_config.json");
  const auto lines = files.find("vocab.txt");
  require<FileError>(json || lines != files.end(), io::printable(folder), ": has neither tokenizer.json nor vocab.txt");
  PretrainedTokenizer tokenizer = json ? detail::read_tokenizer_json(json->object(), folder + "/tokenizer.json")
                                       : PretrainedTokenizer{Vocabulary(lines->second, folder + "/vocab.txt")};
  const std::string model = folder + "/config.json";
  const std::optional<io::JsonFile> model_config =
      io::path_exists(model) ? std::optional<io::JsonFile>(std::in_place, model) : std::nullopt;
  const io::JsonObject all = object(json), settings = object(config);
  const std::string type = detail::tokenizer_class(settings, object(model_config));
  detail::AddedTokens tokens(tokenizer.vocabulary);
  detail::apply_tokenizer_config(tokenizer, settings, type, json ? &all : nullptr, tokens);
  const bool reads_older_files = !settings.has("added_tokens_decoder");  // as transformers
  const auto added = parse("added_tokens.json"), map = parse("special_tokens_map.json");
  if (added && reads_older_files) detail::add_legacy_tokens(tokens, added->object());
  detail::add_special_tokens(tokens, settings);
  if (map && reads_older_files) detail::add_special_tokens(tokens, map->object());
  if (!json || !detail::is_generic_class(type))
    for (const AddedToken& token : WordPiece::special_tokens(tokenizer.vocabulary)) tokens.add(token, folder);
  tokenizer.added_tokens = std::move(tokens).all();
  tokenizer.files = std::move(files);
  return tokenizer;
}

}  // namespace heddle::text
