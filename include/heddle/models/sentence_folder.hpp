// The settings of a sentence-transformers folder: its modules, its prompts and the limits of its transformer.
#pragma once
#include <heddle/models/text_batches.hpp>

namespace heddle::models::detail {

inline constexpr Index most_in_json = 1'000'000'000;  // the largest size that a JSON file may give

// Returns a file's content, or nothing if the file does not exist.
inline std::optional<io::JsonFile> read_if_exists(const std::string& path) {
  return io::path_exists(path) ? std::optional<io::JsonFile>(std::in_place, path) : std::nullopt;
}

// Throws FileError if a member is present and differs from `only`. null counts as absent.
inline void require_only(const io::JsonObject& object, const std::string& key, const nlohmann::json& only) {
  const nlohmann::json* const value = object.find(key);
  if (value && *value != only)
    fail<FileError>(object.file(), ": '", key, "' is ", io::printable(value->dump(), 60),
                    "; heddle reads folders where it is ", only.dump());
}

// A module that modules.json lists.
struct ModuleEntry {
  std::string type;    // its class, such as "sentence_transformers.models.Pooling"
  std::string folder;  // the folder of its files
  std::string list;    // the path of modules.json, for messages

  // Returns the name of its class, such as "Pooling".
  std::string kind() const { return type.substr(type.rfind('.') + 1); }
  // Returns its config.json, which must exist.
  io::JsonFile config() const { return io::JsonFile(folder + "/config.json"); }
};

// Returns whether a class is sentence-transformers' own, or the one that PyLate has in its place. Another one may have
// the same name.
inline bool is_known_class(const std::string& type) {
  return type.starts_with("sentence_transformers.") || type == "pylate.models.Dense.Dense";
}

// Reads modules.json. Returns no modules if it does not exist. Throws FileError for a file that is not a list of
// modules, for a module outside the folder, and unless the first module, and only this one, is a transformer.
inline std::vector<ModuleEntry> read_modules(const std::string& folder) {
  const std::string path = folder + "/modules.json", shown = io::printable(path);
  require<FileError>(io::is_folder(folder), io::printable(folder), ": is not a folder");
  std::vector<ModuleEntry> modules;
  if (!io::path_exists(path)) return modules;
  const nlohmann::json list = io::parse_json(io::read_file(path), shown);
  require<FileError>(list.is_array(), shown, ": must be a JSON array");
  require<FileError>(!list.empty(), shown, ": has no modules");
  for (const nlohmann::json& entry : list) {
    const io::JsonObject module(entry, shown, "a module");
    const std::string type = module.text("type"), at = module.text_or("path", "");
    require<FileError>(!at.starts_with('/') && ('/' + at + '/').find("/../") == at.npos && at.find('\0') == at.npos,
                       shown, ": the module's path ", io::quoted_name(at), " is outside the folder");
    require<FileError>(is_known_class(type), shown, ": the module ", io::quoted_name(type),
                       " is not one of sentence-transformers");
    modules.push_back({type, at.empty() ? folder : folder + '/' + at, shown});
    const bool is_transformer = type.ends_with("Transformer");
    require<FileError>(is_transformer == (modules.size() == 1), shown, ": module ", modules.size() - 1, " is ",
                       io::quoted_name(modules.back().kind()),
                       "; the first module, and only this one, must be a Transformer");
  }
  return modules;
}

// The settings of the transformer.
struct TransformerSettings {
  std::string folder;                     // its folder
  std::optional<io::JsonFile> file = {};  // sentence_bert_config.json or its older name, if there is one
  Index max_length = 0;     // maximum number of tokens, which replaces the tokenizer's; 0 if none is given
  bool lower_case = false;  // whether texts are converted to lower case before the tokenizer reads them
};

// Reads the settings of a transformer, whose `task` and whose output in transformers the caller needs. Throws FileError
// for another one, and for options of the tokenizer that heddle does not have.
inline TransformerSettings read_transformer(const ModuleEntry& module, const std::string& task,
                                            const std::string& output) {
  TransformerSettings settings{.folder = module.folder};
  for (const char* name : {"sentence_bert_config.json", "sentence_distilbert_config.json"})
    if (!settings.file) settings.file = read_if_exists(module.folder + '/' + name);
  std::string given = module.kind() == "MLMTransformer" ? "fill-mask" : "feature-extraction";
  if (settings.file) {
    const io::JsonObject config = settings.file->object();
    given = config.text_or("transformer_task", given);
    settings.max_length = config.count_or("max_seq_length", 0, 2, most_in_json);
    settings.lower_case = config.boolean_or("do_lower_case", false);
    for (const char* key : {"processing_kwargs", "processor_kwargs", "tokenizer_args", "config_kwargs", "config_args"})
      require_only(config, key, nlohmann::json::object());
    require_only(config, "module_output_name", "token_embeddings");
    if (config.has("modality_config")) {
      const io::JsonObject modalities(config.object("modality_config"), config.file(), "'modality_config'");
      const io::JsonObject text(modalities.object("text"), config.file(), "'text' of 'modality_config'");
      require_only(text, "method", "forward");
      require_only(text, "method_output_name", output);
    }
  }
  require<FileError>(given == task, settings.file ? settings.file->object().file() : module.list,
                     ": the transformer's task is ", io::quoted_name(given), " but must be ", io::quoted_name(task));
  return settings;
}

// Returns the tokenizer of a transformer.
inline LoadedTokenizer make_tokenizer(const TransformerSettings& transformer, const PretrainedConfig& config) {
  return make_tokenizer(transformer.folder, config.vocabulary(), config.positions(), false, transformer.max_length);
}
// Throws FileError if texts would have to be converted to lower case for a cased tokenizer.
inline void require_casing(const TransformerSettings& transformer, const LoadedTokenizer& loaded) {
  require<FileError>(!transformer.lower_case || loaded.tokenizer.is_uncased(), io::printable(transformer.folder),
                     ": 'do_lower_case' is true in sentence_bert_config.json, but the tokenizer is cased");
}

// The texts that may be put before each text.
struct Prompts {
  std::map<std::string, std::string> texts = {{"document", ""}, {"query", ""}};  // as in sentence-transformers
  std::optional<std::string> default_name{};

  // Returns the default prompt.
  std::string initial() const { return default_name ? texts.at(*default_name) : ""; }

  // Returns the prompt of a name. Throws Error that begins with `caller` for a name that the folder does not have.
  const std::string& at(const char* caller, const std::string& name) const {
    const auto found = texts.find(name);
    if (found != texts.end()) return found->second;
    std::string names;
    for (const auto& [known, prompt] : texts) names += (names.empty() ? "" : ", ") + io::quoted_name(known);
    fail(caller, ": the folder has no prompt ", io::quoted_name(name), "; its prompts are ", names);
  }
};

// Reads the prompts of config_sentence_transformers.json. Throws FileError for a prompt that is not a string, and for a
// default prompt that is not in the list.
inline Prompts read_prompts(const io::JsonObject& settings) {
  Prompts prompts;
  if (settings.has("prompts")) {
    const io::JsonObject list(settings.object("prompts"), settings.file(), "'prompts'");
    for (const auto& [name, text] : list.json().get_ref<const nlohmann::json::object_t&>())
      prompts.texts[name] = list.text_or(name, "");
  }
  if (!settings.has("default_prompt_name")) return prompts;
  prompts.default_name = settings.text("default_prompt_name");
  require<FileError>(prompts.texts.contains(*prompts.default_name), settings.file(), ": 'default_prompt_name' is ",
                     io::quoted_name(*prompts.default_name), ", which is not one of 'prompts'");
  return prompts;
}

// Returns the tokens of texts with a prompt before each.
inline std::vector<text::Encoding> encode_with(const text::Tokenizer& tokenizer, const std::string& prompt,
                                               const std::vector<std::string>& texts) {
  if (prompt.empty()) return tokenizer.encode_batch(texts);
  std::vector<std::string> prompted;
  prompted.reserve(texts.size());
  for (const std::string& text : texts) prompted.push_back(prompt + text);
  return tokenizer.encode_batch(prompted);
}

}  // namespace heddle::models::detail
