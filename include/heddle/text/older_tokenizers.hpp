// The tokenizers of the files from before tokenizer.json: vocab.json with merges.txt, and models of SentencePiece.
#pragma once
#include <algorithm>
#include <charconv>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/base/file.hpp>
#include <heddle/io/json_object.hpp>
#include <heddle/text/sentence_piece.hpp>
#include <heddle/text/tokenizer_files.hpp>
#include <heddle/text/tokenizer_json.hpp>

namespace heddle::text::detail {

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

  // Returns the token of a member such as "mask_token", otherwise the usual one. A member that is a text only names it.
  AddedToken token(const char* key, AddedToken usual) const {
    AddedToken found = std::move(usual);
    const auto take = [&](const nlohmann::json& value, const std::string& file) {
      AddedToken given = read(value, file, '\'' + std::string(key) + '\'');
      if (value.is_object())
        found = std::move(given);
      else
        found.content = std::move(given.content);
    };
    if (const nlohmann::json* value = settings_.find(key))
      take(*value, settings_.file());
    else if (const nlohmann::json* other = map_ ? map_->object().find(key) : nullptr)
      take(*other, map_->object().file());
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

// The special tokens of a class of transformers, unless the files name others, and the form of a pair.
struct UsualTokens {
  const char *first, *separator, *unknown, *padding, *mask;
  bool unknown_is_normalized = false, mask_strips_left = false;
  bool has_types = false;  // a pair is like BERT's, otherwise like RoBERTa's
};
inline constexpr UsualTokens roberta_tokens{
    .first = "<s>", .separator = "</s>", .unknown = "<unk>", .padding = "<pad>", .mask = "<mask>"};
inline constexpr UsualTokens camembert_tokens = [] {
  UsualTokens usual = roberta_tokens;
  usual.mask_strips_left = true;
  return usual;
}();
inline constexpr UsualTokens albert_tokens = [] {
  UsualTokens usual = camembert_tokens;
  usual.first = "[CLS]", usual.separator = "[SEP]", usual.mask = "[MASK]";
  usual.has_types = true;
  return usual;
}();
inline constexpr UsualTokens deberta_tokens = [] {
  UsualTokens usual = albert_tokens;
  usual.unknown = "[UNK]", usual.padding = "[PAD]";
  usual.unknown_is_normalized = true;
  usual.mask_strips_left = false;
  return usual;
}();

// The special tokens of a folder.
struct SpecialTokens {
  NamedTokens names;
  AddedToken begin, end, unknown, padding, separator, first, mask;
  bool has_types;

  SpecialTokens(const std::string& folder, const JsonObject& settings, const UsualTokens& usual)
      : names(folder, settings),
        begin(names.token("bos_token", {.content = usual.first})),
        end(names.token("eos_token", {.content = usual.separator})),
        unknown(names.token("unk_token", {.content = usual.unknown, .normalized = usual.unknown_is_normalized})),
        padding(names.token("pad_token", {.content = usual.padding})),
        separator(names.token("sep_token", {.content = usual.separator})),
        first(names.token("cls_token", {.content = usual.first})),
        mask(names.token("mask_token", {.content = usual.mask, .lstrip = usual.mask_strips_left})),
        has_types(usual.has_types) {}

  // Adds the tokens, and then the other ones, to those that are recognized in texts. Sets the form of texts and pairs.
  void add_to(TokenizerParts& parts, const std::vector<std::string>& others = {}) const {
    using enum TemplatePart::Kind;
    std::vector<AddedToken> all{begin, end, unknown, separator, padding, first, mask};
    for (const std::string& other : others) all.push_back({.content = other, .special = true});
    names.add_to(parts, all);
    const auto part = [&](const AddedToken& token, std::int32_t type) {
      const auto found = std::find_if(parts.added_tokens.begin(), parts.added_tokens.end(),
                                      [&](const AddedToken& added) { return added.content == token.content; });
      return TemplatePart{special, type, {found->id}};
    };
    const TemplatePart cls = part(first, 0), sep = part(separator, 0);
    parts.post_processor.single = {cls, {first_text, 0}, sep};
    if (has_types)
      parts.post_processor.pair = {cls, {first_text, 0}, sep, {second_text, 1}, part(separator, 1)};
    else
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
    SpecialTokens(folder, settings, roberta_tokens).add_to(parts);
    return parts;
  } catch (const FileError&) {
    throw;
  } catch (const Error& error) {
    fail<FileError>(printable(path), ": ", error.what());
  }
}

// A token and its logarithmic probability.
using ScoredPiece = std::pair<std::string, double>;

// Reads a model of SentencePiece. Throws FileError unless it is a Unigram model with more than the three or four pieces
// that are no text.
inline SentencePieceModel read_pieces(const std::string& path) {
  SentencePieceModel model = SentencePieceModel::parse(io::read_file(path), path);
  require<FileError>(model.is_unigram && model.pieces.size() > 3, io::printable(path),
                     ": must be a Unigram model of more than three pieces");
  return model;
}

// Adds the pieces from number `first` on.
inline void add_pieces(const SentencePieceModel& model, std::size_t first, std::vector<ScoredPiece>& scored) {
  for (std::size_t i = first; i < model.pieces.size(); ++i)
    scored.emplace_back(model.pieces[i].text, static_cast<double>(model.pieces[i].score));
}

// Returns the parts of a tokenizer whose words begin with U+2581, without added tokens.
inline TokenizerParts unigram_parts(const std::vector<ScoredPiece>& scored, std::int32_t unknown,
                                    std::vector<Normalizer> normalizers, std::vector<PreTokenizer> pre_tokenizers,
                                    bool is_prepended = true) {
  using Prepend = MetaspacePreTokenizer::Prepend;
  std::vector<std::pair<std::string, std::int32_t>> tokens;
  for (const auto& [token, score] : scored) tokens.emplace_back(token, static_cast<std::int32_t>(tokens.size()));
  TokenizerParts parts{Unigram(scored, unknown, false), std::move(tokens)};
  parts.normalizers = std::move(normalizers);
  parts.pre_tokenizers = std::move(pre_tokenizers);
  parts.pre_tokenizers.push_back(MetaspacePreTokenizer{.prepend = is_prepended ? Prepend::always : Prepend::never});
  parts.decoders = {MetaspaceDecoder{.is_prepended = is_prepended}};
  parts.has_decoder = true;
  return parts;
}

// Adds the character map of a model of SentencePiece, if it has one.
inline void add_character_map(const SentencePieceModel& model, std::vector<Normalizer>& normalizers) {
  if (!model.character_map.empty())
    normalizers.push_back(PrecompiledNormalizer{std::make_shared<const PrecompiledMap>(model.character_map)});
}

// Returns the tokenizer of XLM-R and CamemBERT, which cut texts at white space; the unknown token is number 3.
inline TokenizerParts fairseq_parts(const SentencePieceModel& model, const JsonObject& settings,
                                    const std::vector<ScoredPiece>& scored) {
  constexpr std::int32_t unknown = 3;
  std::vector<Normalizer> normalizers;
  add_character_map(model, normalizers);
  return unigram_parts(
      scored, unknown, std::move(normalizers),
      {SplitPreTokenizer{SplitPattern::characters(CharacterSet(property::white_space)), SplitBehavior::removed}},
      settings.boolean_or("add_prefix_space", true));
}

// Reads sentencepiece.bpe.model as transformers' XLMRobertaTokenizer does: the ids of its first three pieces are those
// of four special tokens, and the mask token follows the others.
inline TokenizerParts read_xlm_roberta(const std::string& folder, const JsonObject& settings) {
  const SentencePieceModel model = read_pieces(folder + "/sentencepiece.bpe.model");
  const SpecialTokens names(folder, settings, roberta_tokens);
  std::vector<ScoredPiece> scored;
  for (const AddedToken* token : {&names.begin, &names.padding, &names.end, &names.unknown})
    scored.emplace_back(token->content, 0);
  add_pieces(model, 3, scored);
  scored.emplace_back(names.mask.content, 0);
  TokenizerParts parts = fairseq_parts(model, settings, scored);
  names.add_to(parts);
  return parts;
}

// Reads sentencepiece.bpe.model as transformers' CamembertTokenizer does: five tokens take the place of its first
// piece, and the mask token follows the others.
inline TokenizerParts read_camembert(const std::string& folder, const JsonObject& settings) {
  const SentencePieceModel model = read_pieces(folder + "/sentencepiece.bpe.model");
  const SpecialTokens names(folder, settings, camembert_tokens);
  constexpr double least = -100;  // a text never becomes this token
  std::vector<ScoredPiece> scored{{"<s>NOTUSED", 0},
                                  {names.padding.content, 0},
                                  {"</s>NOTUSED", 0},
                                  {names.unknown.content, 0},
                                  {"<unk>NOTUSED", least}};
  add_pieces(model, 1, scored);
  scored.emplace_back(names.mask.content, 0);
  TokenizerParts parts = fairseq_parts(model, settings, scored);
  std::vector<std::string> unused;
  if (!settings.has("additional_special_tokens")) unused = {"<s>NOTUSED", "</s>NOTUSED", "<unk>NOTUSED"};
  names.add_to(parts, unused);
  return parts;
}

// Returns the tokenizer of ALBERT and DeBERTa, whose ids are the pieces' numbers. Pieces that are control symbols are
// recognized in texts. Pieces that the model's maker defined are pieces like others, as for SentencePiece.
inline TokenizerParts numbered_parts(const SentencePieceModel& model, const std::string& path,
                                     const SpecialTokens& names, const std::vector<ScoredPiece>& scored,
                                     std::vector<Normalizer> normalizers, std::vector<PreTokenizer> pre_tokenizers) {
  using Kind = SentencePieceModel::Kind;
  const auto unknown = std::find_if(model.pieces.begin(), model.pieces.end(),
                                    [](const auto& piece) { return piece.kind == Kind::unknown; });
  require<FileError>(unknown != model.pieces.end(), io::printable(path), ": has no piece for unknown text");
  add_character_map(model, normalizers);
  normalizers.push_back(ReplaceNormalizer{SplitPattern::regex(" {2,}"), " "});
  TokenizerParts parts = unigram_parts(scored, static_cast<std::int32_t>(unknown - model.pieces.begin()),
                                       std::move(normalizers), std::move(pre_tokenizers));
  std::vector<std::string> controls;
  for (const auto& piece : model.pieces)
    if (piece.kind == Kind::control) controls.push_back(piece.text);
  names.add_to(parts, controls);
  return parts;
}

// Reads spiece.model as AlbertConverter of transformers does.
inline TokenizerParts read_albert(const std::string& folder, const JsonObject& settings) {
  const std::string path = folder + "/spiece.model";
  const SentencePieceModel model = read_pieces(path);
  std::vector<ScoredPiece> scored;
  add_pieces(model, 0, scored);
  constexpr double penalty = 100;  // of a piece that ends with a digit and a comma: the comma is a token of its own
  for (auto& [piece, score] : scored)
    if (piece.size() > 1 && piece.back() == ',' && piece[piece.size() - 2] >= '0' && piece[piece.size() - 2] <= '9')
      score -= penalty;
  std::vector<Normalizer> normalizers{ReplaceNormalizer{SplitPattern::literal("``"), "\""},
                                      ReplaceNormalizer{SplitPattern::literal("''"), "\""}};
  if (!settings.boolean_or("keep_accents", false)) {
    normalizers.push_back(NormalFormNormalizer{NormalForm::nfkd});
    normalizers.push_back(StripAccentsNormalizer());
  }
  if (settings.boolean_or("do_lower_case", true)) normalizers.push_back(LowercaseNormalizer());
  return numbered_parts(model, path, SpecialTokens(folder, settings, albert_tokens), scored, std::move(normalizers),
                        {});
}

// Reads spm.model as DebertaV2Converter of transformers does. The mask token follows the pieces.
inline TokenizerParts read_deberta(const std::string& folder, const JsonObject& settings) {
  const std::string path = folder + "/spm.model";
  const SentencePieceModel model = read_pieces(path);
  std::vector<ScoredPiece> scored;
  add_pieces(model, 0, scored);
  std::vector<Normalizer> normalizers;
  if (settings.boolean_or("do_lower_case", false)) normalizers.push_back(LowercaseNormalizer());
  normalizers.push_back(StripNormalizer());
  std::vector<PreTokenizer> pre_tokenizers;
  if (settings.boolean_or("split_by_punct", false))
    pre_tokenizers.push_back(
        SplitPreTokenizer{SplitPattern::characters(CharacterSet(property::punctuation)), SplitBehavior::isolated});
  return numbered_parts(model, path, SpecialTokens(folder, settings, deberta_tokens), scored, std::move(normalizers),
                        std::move(pre_tokenizers));
}

// How the files from before tokenizer.json are read for a class of transformers.
struct OlderTokenizer {
  const char *name, *other_name;         // the class without "Fast", and one that is the same
  const char *model_type, *other_model;  // of models that have it
  const char *vocabulary, *further;      // the files; `further` may be nullptr
  TokenizerParts (*read_parts)(const std::string& folder, const JsonObject& settings);

  // Returns whether a folder has the files.
  bool is_in(const std::string& folder) const {
    return io::path_exists(folder + '/' + vocabulary) && (!further || io::path_exists(folder + '/' + further));
  }
  // Reads the files. Throws FileError.
  TokenizerParts read(const std::string& folder, const JsonObject& settings) const {
    try {
      return read_parts(folder, settings);
    } catch (const FileError&) {
      throw;
    } catch (const Error& error) {
      fail<FileError>(io::printable(folder + '/' + vocabulary), ": ", error.what());
    }
  }
};
inline constexpr OlderTokenizer older_tokenizers[] = {
    {"RobertaTokenizer", "LongformerTokenizer", "roberta", "longformer", "vocab.json", "merges.txt", read_roberta},
    {"XLMRobertaTokenizer", "", "xlm-roberta", "", "sentencepiece.bpe.model", nullptr, read_xlm_roberta},
    {"CamembertTokenizer", "", "camembert", "", "sentencepiece.bpe.model", nullptr, read_camembert},
    {"DebertaV2Tokenizer", "", "deberta-v2", "", "spm.model", nullptr, read_deberta},
    {"AlbertTokenizer", "", "albert", "", "spiece.model", nullptr, read_albert},
};

// Returns how the older files of a folder are read, or nullptr if it has none. The class of its tokenizer decides, or
// otherwise the type of its model; without both the files do. Throws FileError for a class or a type whose files are
// others.
inline const OlderTokenizer* find_older_tokenizer(const std::string& folder, const JsonObject& settings) {
  const auto in_folder = [&](const OlderTokenizer& known) { return known.is_in(folder); };
  const auto* const first = std::find_if(std::begin(older_tokenizers), std::end(older_tokenizers), in_folder);
  if (first == std::end(older_tokenizers)) return nullptr;
  const std::string path = folder + "/config.json";
  const std::optional<JsonFile> model =
      io::path_exists(path) ? std::optional<JsonFile>(std::in_place, path) : std::nullopt;
  const auto find = [&](const JsonObject& object, const char* key) {
    std::string name = object.text(key);
    const std::string given = name;
    if (name.ends_with("Fast")) name.erase(name.size() - 4);
    for (const OlderTokenizer& known : older_tokenizers)
      for (const char* one : {known.name, known.other_name, known.model_type, known.other_model})
        if (!name.empty() && name == one && known.is_in(folder)) return &known;
    fail<FileError>(object.file(), ": '", key, "' is ", quoted_name(given),
                    "; without a tokenizer.json, heddle does not read its vocabulary");
  };
  if (settings.has("tokenizer_class")) return find(settings, "tokenizer_class");
  if (model && model->object().has("tokenizer_class")) return find(model->object(), "tokenizer_class");
  if (model && model->object().has("model_type")) return find(model->object(), "model_type");
  return first;
}

}  // namespace heddle::text::detail
