// Reads the modules of a sentence-transformers folder from their files.
#pragma once
#include <heddle/models/sentence_folder.hpp>
#include <heddle/models/sentence_modules.hpp>

namespace heddle::models::detail {

// The names of the poolings in `pooling_mode`, and of the older members that turn them on. Vectors of several older
// members are concatenated in this order.
struct NamedPooling {
  const char *name, *older_member;
  Pooling pooling;
};
inline constexpr NamedPooling named_poolings[] = {
    {"cls", "pooling_mode_cls_token", Pooling::cls},
    {"max", "pooling_mode_max_tokens", Pooling::max},
    {"mean", "pooling_mode_mean_tokens", Pooling::mean},
    {"mean_sqrt_len_tokens", "pooling_mode_mean_sqrt_len_tokens", Pooling::mean_sqrt_len},
    {"weightedmean", "pooling_mode_weightedmean_tokens", Pooling::weighted_mean},
    {"lasttoken", "pooling_mode_lasttoken", Pooling::last}};

inline Pooling pooling_of(const io::JsonObject& config, const std::string& name) {
  std::string names;
  for (const NamedPooling& known : named_poolings) {
    if (name == known.name) return known.pooling;
    names += std::string(names.empty() ? "" : ", ") + known.name;
  }
  fail<FileError>(config.file(), ": the pooling ", io::quoted_name(name), " is not one of ", names);
}

// Returns the poolings that a module's config.json chooses: those of `pooling_mode`, a string or a list, or else those
// that are turned on; the mean if there are none.
inline std::vector<Pooling> read_poolings(const io::JsonObject& config) {
  std::vector<Pooling> poolings;
  if (const nlohmann::json* const mode = config.find("pooling_mode")) {
    if (!mode->is_array()) return {pooling_of(config, config.text("pooling_mode"))};
    for (const nlohmann::json& name : *mode) {
      require<FileError>(name.is_string(), config.file(), ": 'pooling_mode' must be a string or an array of strings");
      poolings.push_back(pooling_of(config, name.get<std::string>()));
    }
    require<FileError>(!poolings.empty(), config.file(), ": 'pooling_mode' is empty");
    return poolings;
  }
  for (const NamedPooling& known : named_poolings)
    if (config.boolean_or(known.older_member, false)) poolings.push_back(known.pooling);
  for (const auto& [key, value] : config.json().get_ref<const nlohmann::json::object_t&>()) {
    const bool is_known = std::any_of(std::begin(named_poolings), std::end(named_poolings),
                                      [&name = key](const NamedPooling& p) { return name == p.older_member; });
    require<FileError>(is_known || !key.starts_with("pooling_mode_") || value == false, config.file(), ": the pooling ",
                       io::quoted_name(key), " is one that heddle does not have");
  }
  if (poolings.empty()) poolings.push_back(Pooling::mean);
  return poolings;
}

// The activations, by the names of torch's classes.
inline constexpr std::pair<const char*, DenseActivation> dense_activations[] = {
    {"Identity", [](const Tensor<float>& x) { return x; }},
    {"Tanh", [](const Tensor<float>& x) { return tanh(x); }},
    {"ReLU", [](const Tensor<float>& x) { return relu(x); }},
    {"GELU", [](const Tensor<float>& x) { return gelu(x); }},
    {"Sigmoid", [](const Tensor<float>& x) { return sigmoid(x); }},
    {"SiLU", [](const Tensor<float>& x) { return silu(x); }},
    {"Softplus", [](const Tensor<float>& x) { return softplus(x); }}};

// The modules after the transformer, and the widths of the rows and vectors that they compute.
class SentenceModules {
 public:
  // `D` is the width of the transformer's rows. A Dense that does not name its input maps rows if `of_rows`. Without
  // entries, there are a mean and a normalization. Throws FileError that names the file and the fault.
  SentenceModules(const std::vector<ModuleEntry>& entries, Index D, bool of_rows) : row_width(D), of_rows_(of_rows) {
    for (std::size_t i = 1; i < entries.size(); ++i) add(entries[i]);
    if (!entries.empty()) return;
    all.push_back({false, PoolingModule{{Pooling::mean}, true}});
    all.push_back({false, NormalizeModule()});
    vector_width = D;
  }

  // Adds a module that gives rows length 1.
  void normalize_rows() { all.push_back({true, NormalizeModule()}); }

  std::vector<SentenceModule> all;
  Index row_width;
  Index vector_width = 0;  // 0 without a pooling

 private:
  void add(const ModuleEntry& entry) {
    const std::string kind = entry.kind();
    if (kind == "Pooling") return add_pooling(entry.config().object());
    if (kind == "Dense") return add_dense(entry, entry.config().object());
    if (kind == "LayerNorm") return add_layer_norm(entry, entry.config().object());
    if (kind == "Normalize") return add_normalize(entry);
    // LateInteraction reads MultiVectorMask. Dropout does nothing in prediction.
    require<FileError>(kind == "Dropout" || (kind == "MultiVectorMask" && of_rows_), entry.list, ": the module ",
                       io::quoted_name(entry.type),
                       " is one that heddle does not have; it has Transformer, Pooling, Dense, LayerNorm, Normalize "
                       "and Dropout");
  }

  void add_pooling(const io::JsonObject& config) {
    for (const char* name : {"word_embedding_dimension", "embedding_dimension"}) {
      const Index width = config.count_or(name, row_width, 1, most_in_json);
      require<FileError>(width == row_width, config.file(), ": is for rows of width ", width,
                         "; those of the model have width ", row_width);
    }
    const bool includes_prompt = !config.json().contains("include_prompt") || config.boolean("include_prompt");
    PoolingModule pooling{read_poolings(config), includes_prompt};
    vector_width = static_cast<Index>(pooling.poolings.size()) * row_width;
    all.push_back({false, std::move(pooling)});
  }

  // Returns whether a module changes rows; otherwise it changes vectors. Throws FileError for other inputs and outputs.
  bool changes_rows(const io::JsonObject& config, bool by_default) const {
    const std::string input =
        config.text_or("module_input_name", by_default ? "token_embeddings" : "sentence_embedding");
    require<FileError>(input == "token_embeddings" || input == "sentence_embedding", config.file(),
                       ": 'module_input_name' is ", io::quoted_name(input),
                       " but must be token_embeddings or sentence_embedding");
    require_only(config, "module_output_name", input);
    return input == "token_embeddings";
  }
  Index& width_of(bool rows) { return rows ? row_width : vector_width; }
  void require_vectors(bool rows, const io::JsonObject& config) const {
    require<FileError>(rows || vector_width > 0, config.file(),
                       ": reads the vector of a text, but no Pooling precedes it");
  }
  void require_width(const io::JsonObject& config, const char* key, Index width) const {
    const Index given = config.count(key, 1, most_in_json);
    require<FileError>(given == width, config.file(), ": '", key, "' is ", given, " but must be ", width,
                       ", the width of the preceding module");
  }

  // Reads the weights of a module. `shapes` are compared first, so that no memory is allocated for others.
  template <class Make>
  static auto loaded(const ModuleEntry& entry, const std::vector<std::pair<std::string, Shape>>& shapes, Make&& make) {
    const io::WeightFiles files(entry.folder);
    const io::WeightSource source = files.weights([](const std::string& name) { return name; });
    for (const auto& [name, expected] : shapes) {
      const auto found = source.tensors.find(name);
      require<FileError>(found != source.tensors.end(), io::printable(source.name), ": has no ", io::quoted_name(name));
      const Shape& shape = found->second.tensor->shape;
      require<FileError>(shape == expected, io::printable(source.name), ": ", io::quoted_name(name), " is ", shape,
                         " but must be ", expected, " as in config.json");
    }
    const nn::NoInit undrawn;
    Random unused(0);
    auto module = make(unused);
    const io::LoadReport report = io::load(module, source);
    require<FileError>(report.unexpected.empty(), io::printable(source.name), ": has ",
                       report.unexpected.empty() ? "" : report.unexpected[0], ", which config.json does not describe");
    return module;
  }

  void add_dense(const ModuleEntry& entry, const io::JsonObject& config) {
    const bool rows = changes_rows(config, of_rows_);
    require_vectors(rows, config);
    Index& width = width_of(rows);
    require_width(config, "in_features", width);
    const Index in = width, out = config.count("out_features", 1, most_in_json);
    const bool has_bias = config.boolean_or("bias", true), is_residual = config.boolean_or("use_residual", false);
    std::vector<std::pair<std::string, Shape>> shapes = {{"linear.weight", {out, in}}};
    const bool maps_residual = is_residual && in != out;
    if (maps_residual) shapes.push_back({"residual.weight", {out, in}});
    const DenseActivation activation = activation_of(config);
    DenseModule dense = loaded(entry, shapes, [&](Random& unused) {
      DenseModule made{nn::Linear<>(in, out, unused, has_bias), is_residual, std::nullopt, activation};
      if (maps_residual) made.residual.emplace(in, out, unused, false);
      return made;
    });
    width = out;
    all.push_back({rows, std::move(dense)});
  }
  static DenseActivation activation_of(const io::JsonObject& config) {
    const std::string path = config.text_or("activation_function", "torch.nn.modules.activation.Tanh"),
                      name = path.substr(path.rfind('.') + 1);
    std::string names;
    for (const auto& [known, activation] : dense_activations) {
      if (path.starts_with("torch.") && name == known) return activation;
      names += std::string(names.empty() ? "" : ", ") + known;
    }
    fail<FileError>(config.file(), ": 'activation_function' is ", io::quoted_name(path), "; heddle has ", names,
                    " of torch.nn");
  }

  void add_layer_norm(const ModuleEntry& entry, const io::JsonObject& config) {
    require_vectors(false, config);
    require_width(config, "dimension", vector_width);
    all.push_back({false, loaded(entry, {{"norm.weight", {vector_width}}},
                                 [&](Random&) { return LayerNormModule{nn::LayerNorm<>(vector_width)}; })});
  }

  void add_normalize(const ModuleEntry& entry) {
    const std::optional<io::JsonFile> file = read_if_exists(entry.folder + "/config.json");
    const bool rows = file && changes_rows(file->object(), false);
    if (!rows && vector_width == 0) return;  // as in sentence-transformers
    all.push_back({rows, NormalizeModule()});
  }

  bool of_rows_;
};

}  // namespace heddle::models::detail
