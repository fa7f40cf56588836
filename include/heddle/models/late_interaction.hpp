// The tokens of queries and documents whose rows are compared in late interaction (ColBERT; Khattab and Zaharia 2020):
// the settings of folders of PyLate, and of sentence-transformers' MultiVectorEncoder.
#pragma once
#include <heddle/models/sentence_folder.hpp>

namespace heddle::models::detail {

// What a text is in a search.
enum class TextRole { none, query, document };

struct LateInteraction {
  // Tokens, usually [MASK], that follow a query until it has `length` tokens.
  struct Expansion {
    std::size_t length;
    bool truncates;  // whether a query has at most `length` tokens, too
    bool attends;    // whether other tokens attend to them
    std::int32_t token;
  };

  std::optional<Expansion> expansion{};
  std::size_t longest = 0, longest_query = 0, longest_document = 0;  // in tokens
  std::vector<std::int32_t> skipped{};                               // tokens whose rows are left out
  std::vector<std::string> skipped_in{};                             // the roles of their texts: "query", "document"

  // Truncates the tokens of a text, and expands those of a query. Returns the number of tokens that others attend to.
  int prepare(text::Encoding& text, TextRole role) const {
    const std::size_t most = role == TextRole::query      ? longest_query
                             : role == TextRole::document ? longest_document
                                                          : longest;
    if (text.ids.size() > most) {
      text.ids.erase(text.ids.begin() + static_cast<std::ptrdiff_t>(most) - 1, text.ids.end() - 1);  // not [SEP]
      text.type_ids.resize(most);
    }
    const std::size_t count = text.ids.size();
    if (role == TextRole::query && expansion && count < expansion->length) {
      text.ids.resize(expansion->length, expansion->token);
      text.type_ids.resize(expansion->length, 0);
    }
    const bool attends_to_all = !expansion || expansion->attends;
    return static_cast<int>(attends_to_all ? text.ids.size() : count);
  }
  // Returns whether the rows of a token are used.
  bool uses(std::int32_t id, TextRole role) const {
    const char* const name = role == TextRole::query ? "query" : "document";
    return std::find(skipped_in.begin(), skipped_in.end(), name) == skipped_in.end() ||
           std::find(skipped.begin(), skipped.end(), id) == skipped.end();
  }
};

// Reads the settings of late interaction. A member of sentence_bert_config.json replaces PyLate's of the same name in
// config_sentence_transformers.json.
class LateInteractionFiles {
 public:
  // `settings` is the content of config_sentence_transformers.json. The arguments must outlive this object.
  LateInteractionFiles(const std::vector<ModuleEntry>& modules, const TransformerSettings& transformer,
                       const io::JsonObject& settings)
      : modules_(modules), transformer_(transformer), settings_(settings) {}

  // Puts PyLate's prefixes before the prompts of queries and documents.
  void add_prefixes(Prompts& prompts) const {
    for (const auto& [key, name] : {std::pair{"query_prefix", "query"}, {"document_prefix", "document"}}) {
      const std::string prefix = settings_.text_or(key, "");
      std::string& prompt = prompts.texts[name];
      if (!prompt.starts_with(prefix)) prompt = prefix + prompt;
    }
  }

  // Returns the tokenizer, which truncates to the model's positions only. It reads a prefix that is an added token, or
  // one of the vocabulary, as one token, as in sentence-transformers.
  LoadedTokenizer tokenizer(const PretrainedConfig& config) const {
    LoadedTokenizer loaded =
        make_tokenizer(transformer_.folder, config.vocabulary(), config.positions(), false, most_in_json);
    std::vector<text::AddedToken> added = loaded.tokenizer.added_tokens();
    bool is_changed = false;
    for (const char* key : {"query_prefix", "document_prefix"})
      if (const std::optional<text::AddedToken> token = prefix_token(settings_.text_or(key, ""), loaded.tokenizer)) {
        std::erase_if(added, [&](const text::AddedToken& t) { return t.content == token->content; });
        added.push_back(*token);
        is_changed = true;
      }
    if (!is_changed) return loaded;
    std::sort(added.begin(), added.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
    return {loaded.tokenizer.with(std::move(added)), false, loaded.mask_token};
  }

  // Reads the settings for the folder's tokenizer.
  LateInteraction read(const PretrainedConfig& config, const text::Tokenizer& tokenizer) const {
    LateInteraction late;
    const Index positions = config.positions(),
                given = transformer_.max_length > 0 ? transformer_.max_length
                                                    : text::read_folder_tokenizer(transformer_.folder).max_length;
    late.longest = static_cast<std::size_t>(longest_text(transformer_.folder, given, positions, 2, false));
    const auto longest_of = [&](const char* key) {
      const std::optional<io::JsonObject> object = holder_of(key);
      const Index length = object ? object->count_or(key, 0, least_length, most_in_json) : 0;
      return length > 0 ? static_cast<std::size_t>(std::min(length, positions)) : late.longest;
    };
    late.longest_query = longest_of("query_length");
    late.longest_document = longest_of("document_length");
    late.expansion = read_expansion(tokenizer, positions);
    if (late.expansion)
      late.longest_query =
          late.expansion->truncates ? late.expansion->length : std::max(late.longest_query, late.expansion->length);
    read_skipped(tokenizer, late);
    return late;
  }

 private:
  static constexpr Index least_length = 3;  // [CLS], [SEP] and a token between them

  // Returns the object that has a member, null or not.
  std::optional<io::JsonObject> holder_of(const std::string& key) const {
    if (transformer_.file)
      if (io::JsonObject object = transformer_.file->object(); object.json().contains(key)) return object;
    return settings_.json().contains(key) ? std::optional(settings_) : std::nullopt;
  }
  bool is_pylates() const {
    for (const char* key : {"query_length", "document_length", "do_query_expansion", "attend_to_expansion_tokens",
                            "attend_to_mask_tokens", "query_prefix", "document_prefix", "skiplist_words"})
      if (settings_.json().contains(key)) return true;
    return false;
  }

  // Returns the token that a prefix or its first word is, if the tokenizer does not recognize it in a text.
  static std::optional<text::AddedToken> prefix_token(const std::string& prefix, const text::Tokenizer& tokenizer) {
    const std::size_t begin = std::min(prefix.find_first_not_of(' '), prefix.size());
    for (const std::string& token : {prefix, prefix.substr(begin, prefix.find(' ', begin) - begin)}) {
      const std::int32_t id = token.empty() ? text::TokenTable::none : tokenizer.find(token);
      if (id == text::TokenTable::none) continue;
      std::vector<std::int32_t> ids;
      tokenizer.append(token, ids);
      if (ids == std::vector{id}) break;
      return text::AddedToken{.content = token, .id = id, .special = true};
    }
    return std::nullopt;
  }

  std::optional<LateInteraction::Expansion> read_expansion(const text::Tokenizer& tokenizer, Index positions) const {
    LateInteraction::Expansion expansion{.length = 0, .truncates = true, .attends = false, .token = 0};
    std::string token = "[MASK]", file = settings_.file();
    Index length = 0;
    if (const std::optional<io::JsonObject> holder = holder_of("query_expansion")) {
      if (!holder->has("query_expansion")) return std::nullopt;
      const io::JsonObject given(holder->object("query_expansion"), holder->file(), "'query_expansion'");
      const std::string strategy = given.text("strategy");
      require<FileError>(strategy == "fixed" || strategy == "min", given.file(), ": 'strategy' is ",
                         io::quoted_name(strategy), " but must be fixed or min");
      expansion.truncates = strategy == "fixed";
      expansion.attends = given.boolean_or("attend", false);
      token = given.text_or("token", token);
      length = given.count("length", least_length, most_in_json);
      file = given.file();
    } else {
      if (!is_pylates() || !settings_.boolean_or("do_query_expansion", true)) return std::nullopt;
      expansion.attends =
          settings_.boolean_or("attend_to_expansion_tokens", settings_.boolean_or("attend_to_mask_tokens", false));
      length = settings_.count_or("query_length", 32, least_length, most_in_json);
    }
    require<FileError>(length <= positions, file, ": queries are expanded to ", length, " tokens; the model has ",
                       positions, " positions");
    expansion.length = static_cast<std::size_t>(length);
    expansion.token = tokenizer.find(token);
    require<FileError>(expansion.token != text::TokenTable::none, file, ": queries are expanded with ",
                       io::quoted_name(token), ", which the vocabulary does not have");
    return expansion;
  }

  void read_skipped(const text::Tokenizer& tokenizer, LateInteraction& late) const {
    late.skipped_in = {"document"};
    const auto skip = [&](const std::string& word) {
      if (const std::int32_t id = tokenizer.find(word); id != text::TokenTable::none) late.skipped.push_back(id);
    };
    const auto strings = [](const io::JsonObject& config, const char* key) {
      std::vector<std::string> all;
      if (config.has(key))
        for (const nlohmann::json& word : config.array(key)) {
          require<FileError>(word.is_string(), config.file(), ": '", key, "' must be an array of strings");
          all.push_back(word.get<std::string>());
        }
      return all;
    };
    const auto mask = std::find_if(modules_.begin(), modules_.end(),
                                   [](const ModuleEntry& m) { return m.kind() == "MultiVectorMask"; });
    if (mask != modules_.end()) {
      const io::JsonFile file = mask->config();
      const io::JsonObject config = file.object();
      require<FileError>(!config.has("keep_only_token_ids") || config.array("keep_only_token_ids").empty(),
                         config.file(), ": 'keep_only_token_ids' is given; heddle has 'skiplist_words' only");
      for (const std::string& word : strings(config, "skiplist_words")) skip(word);
      const nlohmann::json* const roles = config.find("skiplist_tasks");
      if (roles && roles->is_string())
        late.skipped_in = {roles->get<std::string>()};
      else if (roles)
        late.skipped_in = strings(config, "skiplist_tasks");
    } else if (settings_.has("skiplist_words")) {
      for (const std::string& word : strings(settings_, "skiplist_words")) skip(word);
    } else if (settings_.text_or("model_type", "") == "ColBERT" || settings_.json().contains("query_prefix") ||
               settings_.json().contains("document_prefix")) {
      for (const char c : std::string_view("!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~")) skip(std::string(1, c));
    }
  }

  const std::vector<ModuleEntry>& modules_;
  const TransformerSettings& transformer_;
  const io::JsonObject& settings_;
};

}  // namespace heddle::models::detail
