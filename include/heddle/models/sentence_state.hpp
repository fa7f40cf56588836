// The state of a SentenceEncoder, and how it is read from a folder.
#pragma once
#include <heddle/models/late_interaction.hpp>
#include <heddle/models/sentence_module_files.hpp>
#include <heddle/models/text_model.hpp>

namespace heddle::models::detail {

struct SentenceState : TextModel<SentenceModel> {
  Prompts prompts{};
  std::optional<LateInteraction> late{};  // only of a folder for late interaction
  Index width = 0, row_width = 0;         // of the vectors and rows that the modules compute; a width of 0: no vectors
  Index dimensions = most_in_json;        // the greatest number of elements of a vector that are used

  using TextModel::TextModel;
};

// Reads the state of a SentenceEncoder from a folder.
class SentenceFolder {
 public:
  explicit SentenceFolder(const std::string& path)
      : folder_(path),
        modules_(read_modules(path)),
        file_(settings_file()),
        settings_(file_.object()),
        type_(settings_.text_or("model_type", "")) {}

  std::shared_ptr<SentenceState> load(const LoadOptions& options) const {
    const bool is_late = is_late_interaction();
    const TransformerSettings transformer =
        modules_.empty() ? TransformerSettings{.folder = folder_}
                         : read_transformer(modules_[0], "feature-extraction", "last_hidden_state");
    const LateInteractionFiles late(modules_, transformer, settings_);
    PretrainedConfig config = read_bert(transformer.folder, "embed sentences");
    LoadedTokenizer tokenizer = is_late ? late.tokenizer(config) : make_tokenizer(transformer, config);
    require_casing(transformer, tokenizer);
    require_sizes(config, transformer.folder);
    SentenceModules modules(modules_, config.bert()->D, is_late);
    if (is_late && type_ != "MultiVectorEncoder") modules.normalize_rows();
    auto encoder = make_without_values<BertEncoder<>>(*config.bert());
    load_pretrained(encoder, transformer.folder);
    auto state = std::make_shared<SentenceState>(std::move(config), std::move(tokenizer),
                                                 SentenceModel{std::move(encoder), std::move(modules.all)}, options);
    state->width = modules.vector_width;
    state->row_width = modules.row_width;
    state->prompts = read_prompts(settings_);
    state->dimensions = settings_.count_or("truncate_dim", most_in_json, 1, most_in_json);
    if (is_late) {
      late.add_prefixes(state->prompts);
      state->late = late.read(state->config, state->tokenizer);
    }
    return state;
  }

 private:
  // Returns config_sentence_transformers.json, or an empty object if there is none or no modules.json.
  io::JsonFile settings_file() const {
    const std::string path = folder_ + "/config_sentence_transformers.json";
    std::optional<io::JsonFile> found;
    if (!modules_.empty()) found = read_if_exists(path);
    return found ? std::move(*found) : io::JsonFile("{}", path);
  }
  bool has(const char* kind) const {
    return std::any_of(modules_.begin(), modules_.end(), [&](const ModuleEntry& m) { return m.kind() == kind; });
  }
  // Returns whether the folder has rows for late interaction instead of vectors. PyLate's older folders do not say so.
  bool is_late_interaction() const {
    if (type_ == "ColBERT" || type_ == "MultiVectorEncoder") return true;
    require<FileError>(type_.empty() || type_ == "SentenceTransformer", settings_.file(), ": 'model_type' is ",
                       io::quoted_name(type_), " but must be SentenceTransformer, MultiVectorEncoder or ColBERT");
    if (modules_.empty() || has("Pooling")) return false;
    require<FileError>(has("Dense"), modules_[0].list, ": has no Pooling");
    return true;
  }

  std::string folder_;
  std::vector<ModuleEntry> modules_;
  io::JsonFile file_;
  io::JsonObject settings_;
  std::string type_;
};

}  // namespace heddle::models::detail
