// Reads tokenizer.json, the file of the Rust tokenizers library.
#pragma once
#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <heddle/base/file.hpp>
#include <heddle/io/json_object.hpp>
#include <heddle/text/base64.hpp>
#include <heddle/text/tokenizer.hpp>

namespace heddle::text {

namespace detail {

using io::JsonObject;
using nlohmann::json;

// Returns the two tokens of a rule that a blank separates, or no value for a text of another form.
inline std::optional<BytePairEncoding::Merge> merge_of(const std::string& line) {
  const std::size_t blank = line.find(' ');
  if (blank == line.npos || line.find(' ', blank + 1) != line.npos) return std::nullopt;
  return BytePairEncoding::Merge(line.substr(0, blank), line.substr(blank + 1));
}

// Reads the members of a tokenizer.json. Its functions throw FileError, which names the file and the member, for
// anything that heddle does not know.
class TokenizerReader {
 public:
  using Tokens = std::vector<std::pair<std::string, std::int32_t>>;

  explicit TokenizerReader(const JsonObject& file) : file_(file) {}

  TokenizerParts read() const {
    std::vector<PreTokenizer> pre_tokenizers;
    if (file_.has("pre_tokenizer")) add_pre_tokenizer(member(file_, "pre_tokenizer"), pre_tokenizers);
    bool is_byte_level = false;
    for (std::size_t i = 0; i < pre_tokenizers.size(); ++i) {
      if (!std::holds_alternative<ByteLevelPreTokenizer>(pre_tokenizers[i])) continue;
      require<FileError>(i + 1 == pre_tokenizers.size(), file_.file(),
                         ": 'pre_tokenizer' has steps after ByteLevel; heddle reads it as the last one");
      is_byte_level = true;
    }
    TokenizerParts parts = read_model(is_byte_level);
    parts.pre_tokenizers = std::move(pre_tokenizers);
    if (file_.has("normalizer")) add_normalizer(member(file_, "normalizer"), parts.normalizers);
    if (file_.has("post_processor")) read_post_processor(member(file_, "post_processor"), parts.post_processor);
    if (file_.has("decoder")) {
      parts.has_decoder = true;
      add_decoder(member(file_, "decoder"), parts.decoders);
    }
    if (file_.has("truncation")) {
      const std::string direction = member(file_, "truncation").text_or("direction", "Right");
      if (direction != "Right" && direction != "Left") refuse("direction", direction, "Left or Right");
      parts.truncates_left = direction == "Left";
    }
    read_added_tokens(parts);
    return parts;
  }

  // Reads a file that is a vocabulary, an object of ids.
  Tokens vocabulary() const { return tokens(file_.json()); }

 private:
  static constexpr Index most_ids = most_token_ids;

  JsonObject member(const JsonObject& object, const std::string& key) const {
    return {object.object(key), file_.file(), '\'' + key + '\''};
  }
  std::vector<JsonObject> members(const JsonObject& object, const std::string& key) const {
    std::vector<JsonObject> all;
    for (const json& item : object.array(key)) all.emplace_back(item, file_.file(), "a member of '" + key + '\'');
    return all;
  }
  [[noreturn]] void refuse(const std::string& key, const std::string& value, const std::string& known) const {
    fail<FileError>(file_.file(), ": '", key, "' is ", io::quoted_name(value), "; heddle reads ", known);
  }

  char32_t character(const JsonObject& object, const std::string& key) const {
    const std::string value = object.text(key);
    const char *at = value.data(), *const end = at + value.size();
    const char32_t c = at == end ? 0 : decode_utf8(at, end);
    require<FileError>(!value.empty() && at == end, file_.file(), ": '", key, "' is ", io::quoted_name(value),
                       " but must be one character");
    return c;
  }

  // Calls f() and adds the name of the file to its errors.
  template <class F>
  auto named(const F& f) const {
    try {
      return f();
    } catch (const FileError&) {
      throw;
    } catch (const Error& error) {
      fail<FileError>(file_.file(), ": ", error.what());
    }
  }

  SplitPattern pattern(const JsonObject& object) const {
    const JsonObject given = member(object, "pattern");
    return named([&] {
      if (given.has("String")) return SplitPattern::literal(given.text("String"));
      return SplitPattern::regex(given.text("Regex"));
    });
  }

  void add_normalizer(const JsonObject& n, std::vector<Normalizer>& out) const {
    const std::string type = n.text("type");
    if (type == "Sequence") {
      for (const JsonObject& step : members(n, "normalizers")) add_normalizer(step, out);
    } else if (type == "BertNormalizer") {
      const bool lowercase = n.boolean_or("lowercase", true);
      out.push_back(BertNormalizer{.clean_text = n.boolean_or("clean_text", true),
                                   .handle_chinese_chars = n.boolean_or("handle_chinese_chars", true),
                                   .strip_accents = n.boolean_or("strip_accents", lowercase),
                                   .lowercase = lowercase});
    } else if (type == "NFC") {
      out.push_back(NormalFormNormalizer{NormalForm::nfc});
    } else if (type == "NFD") {
      out.push_back(NormalFormNormalizer{NormalForm::nfd});
    } else if (type == "NFKC") {
      out.push_back(NormalFormNormalizer{NormalForm::nfkc});
    } else if (type == "NFKD") {
      out.push_back(NormalFormNormalizer{NormalForm::nfkd});
    } else if (type == "Lowercase") {
      out.push_back(LowercaseNormalizer());
    } else if (type == "StripAccents") {
      out.push_back(StripAccentsNormalizer());
    } else if (type == "Strip") {
      out.push_back(StripNormalizer{n.boolean_or("strip_left", true), n.boolean_or("strip_right", true)});
    } else if (type == "Prepend") {
      out.push_back(PrependNormalizer{n.text("prepend")});
    } else if (type == "Replace") {
      out.push_back(ReplaceNormalizer{pattern(n), n.text("content")});
    } else if (type == "Precompiled") {
      const std::optional<std::string> bytes = from_base64(n.text("precompiled_charsmap"));
      require<FileError>(bytes.has_value(), file_.file(), ": 'precompiled_charsmap' is not base64");
      out.push_back(PrecompiledNormalizer{named([&] { return std::make_shared<const PrecompiledMap>(*bytes); })});
    } else {
      refuse("type' of 'normalizer", type,
             "BertNormalizer, NFC, NFD, NFKC, NFKD, Lowercase, StripAccents, Strip, Prepend, Replace, Precompiled and "
             "Sequence");
    }
  }

  SplitBehavior behavior(const JsonObject& object, const std::string& absent) const {
    const std::string name = object.text_or("behavior", absent);
    for (const auto& [known, value] : {std::pair{"Removed", SplitBehavior::removed},
                                       {"Isolated", SplitBehavior::isolated},
                                       {"Contiguous", SplitBehavior::contiguous},
                                       {"MergedWithPrevious", SplitBehavior::merged_with_previous},
                                       {"MergedWithNext", SplitBehavior::merged_with_next}})
      if (name == known) return value;
    refuse("behavior", name, "Removed, Isolated, Contiguous, MergedWithPrevious and MergedWithNext");
  }

  static SplitPattern any_of(std::uint32_t properties) { return SplitPattern::characters(CharacterSet(properties)); }

  MetaspacePreTokenizer metaspace(const JsonObject& m) const {
    using Prepend = MetaspacePreTokenizer::Prepend;
    MetaspacePreTokenizer step{.replacement = character(m, "replacement"), .is_split = m.boolean_or("split", true)};
    const std::string scheme = m.text_or("prepend_scheme", "always");
    if (scheme != "always" && scheme != "first" && scheme != "never")
      refuse("prepend_scheme", scheme, "always, first and never");
    step.prepend = scheme == "always" ? Prepend::always : scheme == "first" ? Prepend::first : Prepend::never;
    require<FileError>(m.boolean_or("add_prefix_space", true) || scheme == "never", file_.file(),
                       ": 'add_prefix_space' is false, but 'prepend_scheme' is ", scheme);
    return step;
  }

  void add_pre_tokenizer(const JsonObject& p, std::vector<PreTokenizer>& out) const {
    const std::string type = p.text("type");
    using enum SplitBehavior;
    if (type == "Sequence") {
      for (const JsonObject& step : members(p, "pretokenizers")) add_pre_tokenizer(step, out);
    } else if (type == "BertPreTokenizer") {
      out.push_back(SplitPreTokenizer{any_of(property::white_space), removed});
      out.push_back(SplitPreTokenizer{any_of(property::punctuation), isolated});
    } else if (type == "ByteLevel") {
      out.push_back(ByteLevelPreTokenizer{p.boolean("add_prefix_space"), p.boolean_or("use_regex", true)});
    } else if (type == "Metaspace") {
      out.push_back(metaspace(p));
    } else if (type == "Whitespace") {
      out.push_back(SplitPreTokenizer{SplitPattern::words(), removed, true});
    } else if (type == "WhitespaceSplit") {
      out.push_back(SplitPreTokenizer{any_of(property::white_space), removed});
    } else if (type == "Punctuation") {
      out.push_back(SplitPreTokenizer{any_of(property::punctuation), behavior(p, "Isolated")});
    } else if (type == "Digits") {
      out.push_back(SplitPreTokenizer{any_of(property::numeric),
                                      p.boolean_or("individual_digits", false) ? isolated : contiguous});
    } else if (type == "CharDelimiterSplit") {
      CharacterSet set;
      set.add(character(p, "delimiter"), character(p, "delimiter"));
      out.push_back(SplitPreTokenizer{SplitPattern::characters(std::move(set)), removed});
    } else if (type == "Split") {
      out.push_back(SplitPreTokenizer{pattern(p), behavior(p, ""), p.boolean_or("invert", false)});
    } else {
      refuse("type' of 'pre_tokenizer", type,
             "BertPreTokenizer, ByteLevel, Metaspace, Whitespace, WhitespaceSplit, Punctuation, Digits, "
             "CharDelimiterSplit, Split and Sequence");
    }
  }

  std::int32_t id(const json& value, const std::string& what) const {
    if (!io::is_whole_number(value, 0, most_ids - 1))
      fail<FileError>(file_.file(), ": ", what, " is ", io::printable(value.dump(), 60),
                      " but must be a whole number from 0 to ", most_ids - 1);
    return value.get<std::int32_t>();
  }

  Tokens tokens(const JsonObject& model) const { return tokens(model.object("vocab")); }
  Tokens tokens(const json& vocabulary) const {
    Tokens all;
    all.reserve(vocabulary.size());
    for (const auto& [token, value] : vocabulary.get_ref<const json::object_t&>())
      all.emplace_back(token, id(value, "the id of token " + io::quoted_name(token)));
    require<FileError>(!all.empty(), file_.file(), ": the vocabulary has no tokens");
    return all;
  }

  std::vector<BytePairEncoding::Merge> merges(const JsonObject& model) const {
    std::vector<BytePairEncoding::Merge> all;
    const json& list = model.array("merges");
    all.reserve(list.size());
    for (const json& merge : list) {
      if (merge.is_array() && merge.size() == 2 && merge[0].is_string() && merge[1].is_string())
        all.emplace_back(merge[0].get<std::string>(), merge[1].get<std::string>());
      else if (auto pair = merge_of(merge.is_string() ? merge.get<std::string>() : ""))
        all.push_back(std::move(*pair));
      else
        fail<FileError>(file_.file(), ": merge ", all.size() + 1, " is ", io::printable(merge.dump(), 60),
                        " but must be two tokens");
    }
    return all;
  }

  TokenizerParts read_model(bool is_byte_level) const {
    const JsonObject model = member(file_, "model");
    // Older files do not name the type.
    const std::string type = model.text_or("type", model.has("merges")               ? "BPE"
                                                   : model.json().contains("unk_id") ? "Unigram"
                                                                                     : "WordPiece");
    require<FileError>(!is_byte_level || type == "BPE", file_.file(),
                       ": 'pre_tokenizer' is ByteLevel, which heddle reads for BPE only, not for ", type);
    if (type == "BPE") {
      if (const json* dropout = model.find("dropout"); dropout && *dropout != 0)
        refuse("dropout", dropout->dump(), "BPE without dropout");
      Tokens all = tokens(model);
      BpeOptions options{.unknown = model.text_or("unk_token", ""),
                         .continuing_prefix = model.text_or("continuing_subword_prefix", ""),
                         .end_of_word_suffix = model.text_or("end_of_word_suffix", ""),
                         .fuses_unknown = model.boolean_or("fuse_unk", false),
                         .byte_fallback = model.boolean_or("byte_fallback", false),
                         .ignore_merges = model.boolean_or("ignore_merges", false),
                         .is_byte_level = is_byte_level};
      TokenModel bpe = named([&] { return BytePairEncoding(all, merges(model), std::move(options)); });
      return {std::move(bpe), std::move(all)};
    }
    if (type == "Unigram") return read_unigram(model);
    Tokens all = tokens(model);
    const std::string unknown = model.text_or("unk_token", "[UNK]");
    if (type == "WordPiece") {
      const Index most = model.count_or("max_input_chars_per_word", 100, 0, most_ids);
      TokenModel pieces = named([&] {
        return WordPieceModel(all, unknown, model.text_or("continuing_subword_prefix", "##"),
                              static_cast<std::size_t>(most));
      });
      return {std::move(pieces), std::move(all)};
    }
    if (type != "WordLevel") refuse("type' of 'model", type, "WordPiece, BPE, Unigram and WordLevel");
    TokenModel words = named([&] { return WordLevel(all, unknown); });
    return {std::move(words), std::move(all)};
  }

  TokenizerParts read_unigram(const JsonObject& model) const {
    std::vector<std::pair<std::string, double>> scored;
    Tokens all;
    for (const json& entry : model.array("vocab")) {
      if (!entry.is_array() || entry.size() != 2 || !entry[0].is_string() || !entry[1].is_number())
        fail<FileError>(file_.file(), ": token ", scored.size(), " of 'vocab' is ", io::printable(entry.dump(), 60),
                        " but must be a text and its score");
      all.emplace_back(entry[0].get<std::string>(), static_cast<std::int32_t>(scored.size()));
      scored.emplace_back(all.back().first, entry[1].get<double>());
    }
    require<FileError>(!all.empty() && static_cast<Index>(all.size()) <= most_ids, file_.file(), ": 'vocab' has ",
                       all.size(), " tokens; it must have 1 to ", most_ids);
    std::optional<std::int32_t> unknown;
    if (const json* value = model.find("unk_id")) unknown = id(*value, "'unk_id'");
    TokenModel unigram = named([&] { return Unigram(scored, unknown, model.boolean_or("byte_fallback", false)); });
    return {std::move(unigram), std::move(all)};
  }

  // Reads a special token that is given as [token, id].
  TemplatePart special_token(const JsonObject& object, const std::string& key, std::int32_t type_id) const {
    const json& pair = object.array(key);
    require<FileError>(pair.size() == 2, file_.file(), ": '", key, "' must be a token and its id");
    return {TemplatePart::Kind::special, type_id, {id(pair[1], "the id of '" + key + '\'')}};
  }

  void read_post_processor(const JsonObject& p, PostProcessor& out) const {
    using enum TemplatePart::Kind;
    const std::string type = p.text("type");
    if (type == "Sequence") {
      bool has_form = false;
      for (const JsonObject& step : members(p, "processors")) {
        const bool is_form = step.text("type") != "ByteLevel";
        require<FileError>(!is_form || !has_form, file_.file(),
                           ": 'post_processor' adds special tokens twice; heddle reads one such step");
        has_form = has_form || is_form;
        read_post_processor(step, out);
      }
    } else if (type == "ByteLevel") {
      out.trims_offsets = p.boolean_or("trim_offsets", true);
      out.adds_prefix_space = p.boolean_or("add_prefix_space", true);
    } else if (type == "BertProcessing") {
      out.single = {special_token(p, "cls", 0), {first_text, 0}, special_token(p, "sep", 0)};
      out.pair = out.single;
      out.pair.push_back({second_text, 1});
      out.pair.push_back(special_token(p, "sep", 1));
    } else if (type == "RobertaProcessing") {
      out.single = {special_token(p, "cls", 0), {first_text, 0}, special_token(p, "sep", 0)};
      out.pair = out.single;
      out.pair.push_back(special_token(p, "sep", 0));
      out.pair.push_back({second_text, 0});
      out.pair.push_back(special_token(p, "sep", 0));
      out.trims_offsets = p.boolean_or("trim_offsets", true);
      out.adds_prefix_space = p.boolean_or("add_prefix_space", true);
    } else if (type == "TemplateProcessing") {
      out.single = form(p, "single");
      out.pair = form(p, "pair");
      const auto has_second = [](const TemplatePart& part) { return part.kind == second_text; };
      require<FileError>(std::none_of(out.single.begin(), out.single.end(), has_second), file_.file(),
                         ": 'single' has the sequence B, which a single text has not");
    } else {
      refuse("type' of 'post_processor", type,
             "BertProcessing, RobertaProcessing, TemplateProcessing, ByteLevel and Sequence");
    }
  }

  std::vector<TemplatePart> form(const JsonObject& p, const std::string& key) const {
    using enum TemplatePart::Kind;
    std::vector<TemplatePart> parts;
    for (const JsonObject& part : members(p, key)) {
      const bool is_text = part.has("Sequence");
      const JsonObject given = member(part, is_text ? "Sequence" : "SpecialToken");
      const auto type_id = static_cast<std::int32_t>(given.count("type_id", 0, most_ids));
      const std::string name = given.text("id");
      if (is_text) {
        if (name != "A" && name != "B") refuse("id' of 'Sequence", name, "A and B");
        parts.push_back({name == "A" ? first_text : second_text, type_id});
        continue;
      }
      TemplatePart tokens{special, type_id};
      const JsonObject specials = member(p, "special_tokens");
      require<FileError>(specials.has(name), file_.file(), ": '", key, "' has the special token ",
                         io::quoted_name(name), ", which 'special_tokens' does not have");
      for (const json& value : member(specials, name).array("ids"))
        tokens.ids.push_back(id(value, "an id of the special token " + io::quoted_name(name)));
      parts.push_back(std::move(tokens));
    }
    return parts;
  }

  void add_decoder(const JsonObject& d, std::vector<Decoder>& out) const {
    const std::string type = d.text("type");
    if (type == "Sequence") {
      for (const JsonObject& step : members(d, "decoders")) add_decoder(step, out);
    } else if (type == "WordPiece") {
      out.push_back(WordPieceDecoder{d.text_or("prefix", "##"), d.boolean_or("cleanup", true)});
    } else if (type == "ByteLevel") {
      out.push_back(ByteLevelDecoder());
    } else if (type == "Metaspace") {
      const MetaspacePreTokenizer step = metaspace(d);
      out.push_back(MetaspaceDecoder{step.replacement, step.prepend != MetaspacePreTokenizer::Prepend::never});
    } else if (type == "BPEDecoder") {
      out.push_back(BpeDecoder{d.text_or("suffix", "</w>")});
    } else if (type == "ByteFallback") {
      out.push_back(ByteFallbackDecoder());
    } else if (type == "Fuse") {
      out.push_back(FuseDecoder());
    } else if (type == "Strip") {
      const auto most = [&](const char* key) { return static_cast<std::size_t>(d.count(key, 0, most_ids)); };
      out.push_back(StripDecoder{character(d, "content"), most("start"), most("stop")});
    } else if (type == "Replace") {
      out.push_back(ReplaceDecoder{pattern(d), d.text("content")});
    } else {
      refuse("type' of 'decoder", type,
             "WordPiece, ByteLevel, Metaspace, BPEDecoder, ByteFallback, Fuse, Strip, Replace and Sequence");
    }
  }

  // Reads the added tokens. As in the library, a token of the model has its id, and the others follow in their order,
  // whatever ids the file gives them.
  void read_added_tokens(TokenizerParts& parts) const {
    if (!file_.has("added_tokens")) return;
    TokenTable known;
    for (const auto& [token, number] : parts.tokens) known.add(token, number);
    auto next = static_cast<std::int32_t>(parts.tokens.size());
    for (const JsonObject& given : members(file_, "added_tokens")) {
      id(given.at("id"), "the id of an added token");
      AddedToken token{.content = given.text("content"),
                       .single_word = given.boolean_or("single_word", false),
                       .normalized = given.boolean_or("normalized", true),
                       .special = given.boolean_or("special", false),
                       .lstrip = given.boolean_or("lstrip", false),
                       .rstrip = given.boolean_or("rstrip", false)};
      if (token.content.empty()) continue;
      const std::int32_t found = known.find(token.content);
      token.id = found == TokenTable::none ? next++ : found;
      known.add(token.content, token.id);
      parts.added_tokens.push_back(std::move(token));
    }
  }

  JsonObject file_;
};

}  // namespace detail

/// Reads the content of a tokenizer.json; messages name it `path`. The file's own padding and maximum length do not
/// count; its side of truncation does. @throws FileError that names the member for a file that is not JSON, and for
/// anything that heddle does not know.
inline TokenizerParts parse_tokenizer(std::string content, const std::string& path) {
  const io::JsonFile file(std::move(content), path);
  return detail::TokenizerReader(file.object()).read();
}

}  // namespace heddle::text
