// The tokenizer of a Hugging Face folder, of any kind: tokenizer.json, or the older files from which transformers makes
// one, with the settings of tokenizer_config.json.
#pragma once
#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <heddle/base/file.hpp>
#include <heddle/io/json_object.hpp>
#include <heddle/text/older_tokenizers.hpp>
#include <heddle/text/tokenizer.hpp>
#include <heddle/text/tokenizer_files.hpp>
#include <heddle/text/tokenizer_json.hpp>

namespace heddle::text {

/// The tokenizer of a folder, and its files unchanged.
struct FolderTokenizer {
  std::variant<TokenizerParts, PretrainedTokenizer> kind;  ///< BERT's tokenizer, or another one
  std::string name;                                        ///< the file with the vocabulary, as messages show it
  bool has_types = false;                                  ///< whether the model is given the token types of a pair
  Index max_length = 0;                           ///< maximum number of tokens, with special ones; 0 if none is given
  std::string mask_token = {};                    ///< the token that hides another one; empty if there is none
  std::map<std::string, std::string> files = {};  ///< contents by name, for saving them unchanged

  /// Returns whether texts are turned into lower case.
  bool is_uncased() const {
    const auto* bert = std::get_if<PretrainedTokenizer>(&kind);
    return bert ? bert->uncased : std::get<TokenizerParts>(kind).is_uncased();
  }
  /// Returns the number of ids, for which a model needs embeddings.
  Index ids() const {
    if (const auto* bert = std::get_if<PretrainedTokenizer>(&kind)) return bert->ids();
    const auto& parts = std::get<TokenizerParts>(kind);
    Index count = 0;
    for (const auto& [token, id] : parts.tokens) count = std::max<Index>(count, id + 1);
    for (const AddedToken& token : parts.added_tokens) count = std::max<Index>(count, token.id + 1);
    for (const auto* form : {&parts.post_processor.single, &parts.post_processor.pair})
      for (const TemplatePart& part : *form)
        for (const std::int32_t id : part.ids) count = std::max<Index>(count, id + 1);
    return count;
  }
  /// Returns the number of special tokens that are added to a text, or to a pair.
  Index special_tokens(bool is_pair) const {
    const auto* const parts = std::get_if<TokenizerParts>(&kind);
    if (!parts) return is_pair ? 3 : 2;
    const PostProcessor& forms = parts->post_processor;
    return static_cast<Index>(count_special_tokens(is_pair ? forms.pair : forms.single));
  }
  /// Returns the tokenizer. @throws FileError and Error as the constructors of WordPiece and TokenizerPipeline do.
  Tokenizer tokenizer(TokenizerOptions options = {}) const {
    const auto* const bert = std::get_if<PretrainedTokenizer>(&kind);
    if (!bert) return Tokenizer(TokenizerPipeline(std::get<TokenizerParts>(kind), options));
    return Tokenizer(WordPiece(bert->vocabulary,
                               {.uncased = bert->uncased,
                                .strip_accents = bert->strip_accents,
                                .special_tokens = options.special_tokens,
                                .max_length = options.max_length,
                                .offsets = options.offsets},
                               bert->added_tokens));
  }
};

namespace detail {

// Returns whether a member of a JSON file has a value; an absent or null member has the value `absent`.
inline bool has_value(const nlohmann::json& file, const char* place, const nlohmann::json& value,
                      const nlohmann::json& absent = {}) {
  const nlohmann::json::json_pointer at(place);
  const nlohmann::json found = file.contains(at) && !file.at(at).is_null() ? file.at(at) : absent;
  return found == value;
}

// Returns whether a tokenizer.json describes BERT's tokenizer, which WordPiece reads faster than TokenizerPipeline. The
// class of transformers decides whether the file's own special tokens count.
inline bool is_berts(const nlohmann::json& file, const std::string& type) {
  using namespace nlohmann::literals;
  if (!is_bert_class(type) || !file.contains("/model/vocab/[CLS]"_json_pointer) ||
      !file.contains("/model/vocab/[SEP]"_json_pointer))
    return false;
  const nlohmann::json& vocabulary = file["model"]["vocab"];
  if (is_generic_class(type) && !adds_bert_tokens(file, vocabulary["[CLS]"], vocabulary["[SEP]"])) return false;
  return has_value(file, "/model/type", "WordPiece", "WordPiece") && !file["model"].contains("merges") &&
         has_value(file, "/model/unk_token", "[UNK]", "[UNK]") &&
         has_value(file, "/model/continuing_subword_prefix", "##", "##") &&
         has_value(file, "/model/max_input_chars_per_word", Word::max_characters, Word::max_characters) &&
         has_value(file, "/normalizer/type", "BertNormalizer") &&
         has_value(file, "/normalizer/clean_text", true, true) &&
         has_value(file, "/normalizer/handle_chinese_chars", true, true) &&
         has_value(file, "/pre_tokenizer/type", "BertPreTokenizer") &&
         has_value(file, "/truncation/direction", "Right", "Right");
}

// Adds the settings of tokenizer_config.json to the parts of tokenizer.json, as transformers does.
inline void apply_settings(const JsonObject& settings, TokenizerParts& parts) {
  const std::string side = settings.text_or("truncation_side", parts.truncates_left ? "left" : "right");
  require<FileError>(side == "left" || side == "right", settings.file(), ": 'truncation_side' is ", quoted_name(side),
                     " but must be left or right");
  parts.truncates_left = side == "left";
  require<FileError>(!settings.boolean_or("split_special_tokens", false), settings.file(),
                     ": 'split_special_tokens' is true; heddle recognizes special tokens in texts");
  if (settings.has("add_prefix_space"))
    for (PreTokenizer& step : parts.pre_tokenizers)
      if (auto* bytes = std::get_if<ByteLevelPreTokenizer>(&step))
        parts.post_processor.adds_prefix_space = bytes->adds_prefix_space = settings.boolean("add_prefix_space");
}

// Returns the content of a token that a member of tokenizer_config.json names, or an empty text.
inline std::string named_token(const JsonObject& settings, const char* key) {
  const nlohmann::json* const token = settings.find(key);
  return token ? read_added_token(*token, settings.file(), '\'' + std::string(key) + '\'', true).content : "";
}

// Returns the token that hides another one: that of tokenizer_config.json or special_tokens_map.json, or otherwise
// <mask> or [MASK], if the tokenizer recognizes one of them. An empty text means that there is none.
inline std::string mask_token(const std::string& folder, const JsonObject& settings, const TokenizerParts& parts) {
  if (std::string named = named_token(settings, "mask_token"); !named.empty()) return named;
  const std::string map = folder + "/special_tokens_map.json";
  if (io::path_exists(map))
    if (std::string named = named_token(JsonFile(map).object(), "mask_token"); !named.empty()) return named;
  for (const AddedToken& token : parts.added_tokens)
    if (token.content == "<mask>" || token.content == "[MASK]") return token.content;
  return "";
}

}  // namespace detail

/// Reads the tokenizer of a Hugging Face folder. A tokenizer that is BERT's is read as read_tokenizer() does. For any
/// other, tokenizer.json decides, with truncation_side, add_prefix_space and model_max_length of tokenizer_config.json.
/// Without tokenizer.json, vocab.json and merges.txt are RoBERTa's tokenizer, sentencepiece.bpe.model is XLM-R's or
/// CamemBERT's, spm.model DeBERTa's and spiece.model ALBERT's.
/// The model is given token types if model_input_names of tokenizer_config.json has token_type_ids. @throws FileError
/// as read_tokenizer() and parse_tokenizer() do.
inline FolderTokenizer read_folder_tokenizer(const std::string& folder) {
  const std::string path = folder + "/tokenizer.json", config = folder + "/tokenizer_config.json";
  const auto read_bert = [&] {
    PretrainedTokenizer bert = read_tokenizer(folder);
    FolderTokenizer found{std::move(bert), ""};
    auto& kind = std::get<PretrainedTokenizer>(found.kind);
    found.name = kind.vocabulary.name();
    found.has_types = kind.has_types;
    found.max_length = kind.max_length;
    if (kind.vocabulary.find("[MASK]") != Vocabulary::none) found.mask_token = "[MASK]";
    found.files = kind.files;
    return found;
  };
  const io::JsonFile settings_file(io::path_exists(config) ? io::read_file(config) : "{}", config);
  const io::JsonObject settings = settings_file.object();
  std::optional<FolderTokenizer> read;
  if (io::path_exists(path)) {
    const io::JsonFile file(path);
    const io::JsonObject json = file.object();
    // The classes of BERT take the casing and the form from their own settings, which read_tokenizer() knows.
    const std::string type = settings.text_or("tokenizer_class", "BertTokenizer");
    const bool is_named = settings.has("tokenizer_class") && detail::is_bert_class(type);
    const bool truncates_right = settings.text_or("truncation_side", "right") == "right";
    if ((is_named && !detail::is_generic_class(type)) || (detail::is_berts(json.json(), type) && truncates_right))
      return read_bert();
    read = FolderTokenizer{detail::TokenizerReader(json).read(), json.file()};
  } else if (io::path_exists(folder + "/vocab.txt")) {
    return read_bert();
  } else if (const detail::OlderTokenizer* const older = detail::find_older_tokenizer(folder, settings)) {
    read = FolderTokenizer{older->read(folder, settings), io::printable(folder + '/' + older->vocabulary)};
  } else {
    return read_bert();
  }
  FolderTokenizer found = std::move(*read);
  detail::apply_settings(settings, std::get<TokenizerParts>(found.kind));
  found.max_length = detail::read_max_length(settings);
  if (settings.has("model_input_names")) {
    const nlohmann::json& names = settings.array("model_input_names");
    found.has_types = std::find(names.begin(), names.end(), "token_type_ids") != names.end();
  }
  found.mask_token = detail::mask_token(folder, settings, std::get<TokenizerParts>(found.kind));
  for (const char* name : detail::tokenizer_file_names)
    if (io::path_exists(folder + '/' + name)) found.files[name] = io::read_file(folder + '/' + name);
  return found;
}

inline Tokenizer Tokenizer::load(const std::string& path, TokenizerOptions options) {
  if (io::is_folder(path)) return read_folder_tokenizer(path).tokenizer(options);
  const io::JsonFile file(path);
  return Tokenizer(TokenizerPipeline(detail::TokenizerReader(file.object()).read(), options));
}

}  // namespace heddle::text
