// The tokenizer of a Hugging Face folder, of any kind: tokenizer.json, or the older files from which transformers makes
// one, with the settings of tokenizer_config.json.
#pragma once
#include <algorithm>
#include <cstdint>
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
    return count;
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
  for (PreTokenizer& step : parts.pre_tokenizers)
    if (auto* bytes = std::get_if<ByteLevelPreTokenizer>(&step))
      bytes->adds_prefix_space = settings.boolean_or("add_prefix_space", bytes->adds_prefix_space);
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

// The special tokens of RoBERTa and XLM-R: tokenizer_config.json may give them other names.
struct RobertaTokens {
  std::string begin, end, unknown, padding, separator, first, mask;

  explicit RobertaTokens(const JsonObject& settings) {
    const auto name = [&](const char* key, const char* absent) {
      const std::string given = named_token(settings, key);
      return given.empty() ? std::string(absent) : given;
    };
    begin = name("bos_token", "<s>");
    end = name("eos_token", "</s>");
    unknown = name("unk_token", "<unk>");
    separator = name("sep_token", "</s>");
    padding = name("pad_token", "<pad>");
    first = name("cls_token", "<s>");
    mask = name("mask_token", "<mask>");
  }

  // Adds the special tokens to those that are recognized in texts, and sets the form of texts and pairs. Special tokens
  // that the vocabulary does not have follow it, as in transformers.
  void add_to(TokenizerParts& parts) const {
    using enum TemplatePart::Kind;
    TokenTable known;
    for (const auto& [token, id] : parts.tokens) known.add(token, id);
    auto next = static_cast<std::int32_t>(known.size());
    for (const std::string& token : {begin, end, unknown, separator, padding, first, mask}) {
      std::int32_t id = known.find(token);
      const auto is_same = [&](const AddedToken& added) { return added.content == token; };
      if (std::any_of(parts.added_tokens.begin(), parts.added_tokens.end(), is_same)) continue;
      if (id == TokenTable::none) known.add(token, id = next++);
      parts.added_tokens.push_back({.content = token, .id = id, .special = true});
    }
    const TemplatePart cls{special, 0, {known.find(first)}}, sep{special, 0, {known.find(separator)}};
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
    RobertaTokens(settings).add_to(parts);
    return parts;
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    fail<FileError>(printable(path), ": ", error.what());
  }
}

// Reads sentencepiece.bpe.model as transformers' XLMRobertaTokenizer does: the ids of its first three pieces are those
// of four special tokens, and the mask token follows the others.
inline TokenizerParts read_xlm_roberta(const std::string& path, const JsonObject& settings) {
  const SentencePieceModel model = SentencePieceModel::parse(io::read_file(path), path);
  require<FileError>(model.is_unigram && model.pieces.size() > 3, printable(path),
                     ": must be a Unigram model of more than three pieces");
  const RobertaTokens names(settings);
  std::vector<std::pair<std::string, double>> scored;
  for (const std::string& token : {names.begin, names.padding, names.end, names.unknown}) scored.emplace_back(token, 0);
  for (std::size_t i = 3; i < model.pieces.size(); ++i)
    scored.emplace_back(model.pieces[i].text, static_cast<double>(model.pieces[i].score));
  scored.emplace_back(names.mask, 0);
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
    if (detail::is_berts(json.json(), settings.text_or("tokenizer_class", "BertTokenizer")) &&
        settings.text_or("truncation_side", "right") == "right")
      return read_bert();
    read = FolderTokenizer{detail::TokenizerReader(json).read(), json.file()};
  } else if (io::path_exists(vocabulary) && io::path_exists(folder + "/merges.txt")) {
    read = FolderTokenizer{detail::read_roberta(folder, settings), io::printable(vocabulary)};
  } else if (io::path_exists(pieces)) {
    read = FolderTokenizer{detail::read_xlm_roberta(pieces, settings), io::printable(pieces)};
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
