// The tokenizer of a Hugging Face folder, of any kind: tokenizer.json, or the older files from which transformers makes
// one, with the settings of tokenizer_config.json.
#pragma once
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <heddle/base/file.hpp>
#include <heddle/io/json_object.hpp>
#include <heddle/text/sentence_piece.hpp>
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

// The tokens that tokenizer_config.json, special_tokens_map.json and added_tokens.json name for the vocabulary of an
// older tokenizer, with their options. Tokens that the vocabulary does not have follow it.
class NamedTokens {
 public:
  NamedTokens(const std::string& folder, const JsonObject& settings) : settings_(settings) {
    const auto open = [&](const char* name, std::optional<JsonFile>& file) {
      if (const std::string path = folder + '/' + name; io::path_exists(path)) file.emplace(path);
    };
    open("special_tokens_map.json", map_);
    open("added_tokens.json", added_);
    if (!settings.has("added_tokens_decoder")) return;
    const JsonObject decoder(settings.object("added_tokens_decoder"), settings.file(), "'added_tokens_decoder'");
    for (const auto& [key, entry] : decoder.json().get_ref<const nlohmann::json::object_t&>()) {
      AddedToken token = read(entry, settings.file(), "a member of 'added_tokens_decoder'");
      const char* const end = key.data() + key.size();
      require<FileError>(std::from_chars(key.data(), end, token.id).ptr == end && token.id >= 0, settings.file(), ": ",
                         quoted_name(key), " of 'added_tokens_decoder' is not an id");
      by_id_.emplace(token.id, std::move(token));
    }
  }

  // Returns the token of a member such as "mask_token", by default `absent`.
  AddedToken token(const char* key, const char* absent) const {
    AddedToken found{.content = absent, .special = true};
    if (const nlohmann::json* value = settings_.find(key))
      found = read(*value, settings_.file(), '\'' + std::string(key) + '\'');
    else if (const nlohmann::json* other = map_ ? map_->object().find(key) : nullptr)
      found = read(*other, map_->object().file(), '\'' + std::string(key) + '\'');
    for (const auto& [id, decoded] : by_id_)
      if (decoded.content == found.content) found = decoded;
    found.special = true;
    return found;
  }

  // Adds special tokens, and then the other tokens of the files, to those that are recognized in texts.
  void add_to(TokenizerParts& parts, const std::vector<AddedToken>& special) const {
    TokenTable known;
    for (const auto& [token, id] : parts.tokens) known.add(token, id);
    auto next = static_cast<std::int32_t>(parts.tokens.size());
    const auto add = [&](AddedToken token, const std::string& file, std::optional<std::int32_t> given) {
      const auto is_same = [&](const AddedToken& added) { return added.content == token.content; };
      if (token.content.empty() || std::any_of(parts.added_tokens.begin(), parts.added_tokens.end(), is_same)) return;
      token.id = known.find(token.content);
      if (token.id == TokenTable::none) known.add(token.content, token.id = next++);
      require<FileError>(!given || *given == token.id, file, ": the added token ", quoted_name(token.content),
                         " has the id ", given.value_or(0), "; its place is ", token.id);
      parts.added_tokens.push_back(std::move(token));
    };
    for (const AddedToken& token : special) add(token, settings_.file(), {});
    for (const auto& [id, token] : by_id_) add(token, settings_.file(), id);
    if (added_) {
      std::map<Index, std::string> by_id;
      const JsonObject ids = added_->object();
      for (const auto& [content, id] : ids.json().get_ref<const nlohmann::json::object_t&>())
        by_id[ids.count(content, 0, most_token_ids - 1)] = content;
      for (const auto& [id, content] : by_id)
        add({.content = content, .normalized = true}, ids.file(), static_cast<std::int32_t>(id));
    }
    if (settings_.has("additional_special_tokens"))
      for (const nlohmann::json& token : settings_.array("additional_special_tokens"))
        add(read(token, settings_.file(), "a member of 'additional_special_tokens'"), settings_.file(), {});
  }

 private:
  static AddedToken read(const nlohmann::json& value, const std::string& file, const std::string& what) {
    AddedToken token = read_added_token(value, file, what, true);
    if (!value.is_object()) return token;
    const JsonObject object(value, file, what);
    token.special = object.boolean_or("special", true);
    token.lstrip = object.boolean_or("lstrip", false);
    token.rstrip = object.boolean_or("rstrip", false);
    return token;
  }

  JsonObject settings_;
  std::optional<JsonFile> map_, added_;
  std::map<std::int32_t, AddedToken> by_id_;
};

// The special tokens of RoBERTa and XLM-R, to which the files may give other names.
struct RobertaTokens {
  NamedTokens names;
  AddedToken begin, end, unknown, padding, separator, first, mask;

  RobertaTokens(const std::string& folder, const JsonObject& settings)
      : names(folder, settings),
        begin(names.token("bos_token", "<s>")),
        end(names.token("eos_token", "</s>")),
        unknown(names.token("unk_token", "<unk>")),
        padding(names.token("pad_token", "<pad>")),
        separator(names.token("sep_token", "</s>")),
        first(names.token("cls_token", "<s>")),
        mask(names.token("mask_token", "<mask>")) {}

  // Adds the tokens to those that are recognized in texts, and sets the form of texts and pairs.
  void add_to(TokenizerParts& parts) const {
    using enum TemplatePart::Kind;
    names.add_to(parts, {begin, end, unknown, separator, padding, first, mask});
    const auto id_of = [&](const AddedToken& token) {
      return std::find_if(parts.added_tokens.begin(), parts.added_tokens.end(),
                          [&](const AddedToken& added) { return added.content == token.content; })
          ->id;
    };
    const TemplatePart cls{special, 0, {id_of(first)}}, sep{special, 0, {id_of(separator)}};
    parts.post_processor.single = {cls, {first_text, 0}, sep};
    parts.post_processor.pair = {cls, {first_text, 0}, sep, sep, {second_text, 0}, sep};
  }
};

// Reads vocab.json and merges.txt as transformers' RobertaTokenizer does.
inline TokenizerParts read_roberta(const std::string& folder, const JsonObject& settings) {
  const io::JsonFile vocabulary(folder + "/vocab.json");
  std::vector<std::pair<std::string, std::int32_t>> tokens = TokenizerReader(vocabulary.object()).vocabulary();
  const std::string path = folder + "/merges.txt", text = io::read_file(path);
  std::vector<BytePairEncoding::Merge> merges;
  std::size_t number = 0;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    std::string line = text.substr(begin, end - begin);
    begin = end + 1;
    ++number;
    if (line.ends_with('\r')) line.pop_back();
    if (line.starts_with("#version") || (line.empty() && begin >= text.size())) continue;
    std::optional<BytePairEncoding::Merge> merge = merge_of(line);
    require<FileError>(merge.has_value(), printable(path), ':', number, ": ", quoted_name(line),
                       " must be two tokens, separated by a blank");
    merges.push_back(std::move(*merge));
  }
  const bool adds_prefix_space = settings.boolean_or("add_prefix_space", false);
  try {
    BytePairEncoding model(tokens, merges, {.is_byte_level = true});
    TokenizerParts parts{std::move(model), std::move(tokens)};
    parts.pre_tokenizers = {ByteLevelPreTokenizer{adds_prefix_space}};
    parts.decoders = {ByteLevelDecoder()};
    parts.has_decoder = true;
    parts.post_processor.trims_offsets = settings.boolean_or("trim_offsets", true);
    parts.post_processor.adds_prefix_space = adds_prefix_space;
    RobertaTokens(folder, settings).add_to(parts);
    return parts;
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    fail<FileError>(printable(path), ": ", error.what());
  }
}

// Reads sentencepiece.bpe.model as transformers' XLMRobertaTokenizer does: the ids of its first three pieces are those
// of four special tokens, and the mask token follows the others.
inline TokenizerParts read_xlm_roberta(const std::string& folder, const std::string& path, const JsonObject& settings) {
  const SentencePieceModel model = SentencePieceModel::parse(io::read_file(path), path);
  require<FileError>(model.is_unigram && model.pieces.size() > 3, printable(path),
                     ": must be a Unigram model of more than three pieces");
  const RobertaTokens names(folder, settings);
  std::vector<std::pair<std::string, double>> scored;
  for (const AddedToken* token : {&names.begin, &names.padding, &names.end, &names.unknown})
    scored.emplace_back(token->content, 0);
  for (std::size_t i = 3; i < model.pieces.size(); ++i)
    scored.emplace_back(model.pieces[i].text, static_cast<double>(model.pieces[i].score));
  scored.emplace_back(names.mask.content, 0);
  std::vector<std::pair<std::string, std::int32_t>> tokens;
  for (const auto& [token, score] : scored) tokens.emplace_back(token, static_cast<std::int32_t>(tokens.size()));
  constexpr std::int32_t unknown = 3;
  TokenizerParts parts{Unigram(scored, unknown, false), std::move(tokens)};
  try {
    if (!model.character_map.empty())
      parts.normalizers = {PrecompiledNormalizer{std::make_shared<const PrecompiledMap>(model.character_map)}};
  } catch (const Error& error) {
    fail<FileError>(printable(path), ": ", error.what());
  }
  using Prepend = MetaspacePreTokenizer::Prepend;
  const bool is_prepended = settings.boolean_or("add_prefix_space", true);
  parts.pre_tokenizers = {
      SplitPreTokenizer{SplitPattern::characters(CharacterSet(property::white_space)), SplitBehavior::removed},
      MetaspacePreTokenizer{.prepend = is_prepended ? Prepend::always : Prepend::never}};
  parts.decoders = {MetaspaceDecoder{.is_prepended = is_prepended}};
  parts.has_decoder = true;
  names.add_to(parts);
  return parts;
}

// Throws FileError unless the class of a folder's tokenizer is one of some names; without a class, unless its model is
// of one of some types, if it is known.
inline void require_class(const std::string& folder, const JsonObject& settings,
                          std::initializer_list<const char*> classes, std::initializer_list<const char*> models) {
  const std::string path = folder + "/config.json";
  const std::optional<JsonFile> model =
      io::path_exists(path) ? std::optional<JsonFile>(std::in_place, path) : std::nullopt;
  const auto require_one = [](const JsonObject& object, const char* key, std::initializer_list<const char*> known) {
    const std::string name = object.text(key);
    require<FileError>(std::any_of(known.begin(), known.end(), [&](const char* one) { return name == one; }),
                       object.file(), ": '", key, "' is ", quoted_name(name),
                       "; without a tokenizer.json, heddle does not read its vocabulary");
  };
  if (settings.has("tokenizer_class")) return require_one(settings, "tokenizer_class", classes);
  if (model && model->object().has("tokenizer_class")) return require_one(model->object(), "tokenizer_class", classes);
  if (model && model->object().has("model_type")) require_one(model->object(), "model_type", models);
}

}  // namespace detail

/// Reads the tokenizer of a Hugging Face folder. A tokenizer that is BERT's is read as read_tokenizer() does. For any
/// other, tokenizer.json decides, with truncation_side, add_prefix_space and model_max_length of tokenizer_config.json.
/// Without tokenizer.json, vocab.json and merges.txt are RoBERTa's tokenizer, and sentencepiece.bpe.model is XLM-R's.
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
  const std::string vocabulary = folder + "/vocab.json", pieces = folder + "/sentencepiece.bpe.model";
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
  } else if (io::path_exists(vocabulary) && io::path_exists(folder + "/merges.txt")) {
    detail::require_class(
        folder, settings,
        {"RobertaTokenizer", "RobertaTokenizerFast", "LongformerTokenizer", "LongformerTokenizerFast"},
        {"roberta", "longformer"});
    read = FolderTokenizer{detail::read_roberta(folder, settings), io::printable(vocabulary)};
  } else if (io::path_exists(pieces)) {
    detail::require_class(folder, settings, {"XLMRobertaTokenizer", "XLMRobertaTokenizerFast"}, {"xlm-roberta"});
    read = FolderTokenizer{detail::read_xlm_roberta(folder, pieces, settings), io::printable(pieces)};
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
