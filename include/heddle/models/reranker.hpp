// Scores how well texts answer a query, with a cross-encoder's folder of transformers or sentence-transformers
// (Nogueira and Cho 2019).
#pragma once
#include <heddle/models/text_model.hpp>

namespace heddle::models {

/// A text's place in a ranking.
struct RankedText {
  std::size_t index;  ///< its number among the texts
  float score;        ///< its score

  /// Compares all members.
  bool operator==(const RankedText&) const = default;
};

/// A cross-encoder with one label, and its tokenizer. Copies share both. Const functions may be called by several
/// threads at once, and throw Error for an object that was moved from.
class Reranker {
 public:
  /// Loads a folder of a classifier with one label: a BERT, a relative or a pre-norm encoder. A score is the sigmoid of
  /// the logit, or the logit itself, as config_sentence_transformers.json says, or config.json in older folders;
  /// otherwise it is the sigmoid. @throws FileError that names the file and the fault, such as several labels, and
  /// Error for a device that this build does not support.
  static Reranker load(const std::string& folder, const LoadOptions& options = {}) {
    PretrainedConfig config = read_config(folder);
    require<FileError>(config.labels.size() == 1, io::printable(folder + "/config.json"), ": has ",
                       config.labels.size(), " labels; a reranker has one");
    require_sizes(config, folder);
    const bool is_sigmoid = has_sigmoid(folder);
    detail::LoadedTokenizer tokenizer = detail::make_tokenizer(folder, config, true);
    auto model = make_without_values<SequenceClassifier<>>(config);
    load_pretrained(model, folder);
    return Reranker(std::make_shared<const State>(std::move(config), std::move(tokenizer), std::move(model), options),
                    is_sigmoid);
  }

  /// Returns whether a folder's scores are sigmoids. @throws FileError for another function of torch; one that is not
  /// torch's is ignored, as in sentence-transformers.
  static bool has_sigmoid(const std::string& folder) {
    const auto read = [](const io::JsonObject& object, const char* key) -> std::optional<bool> {
      if (!object.has(key)) return std::nullopt;
      const std::string path = object.text(key), name = path.substr(path.rfind('.') + 1);
      if (!path.starts_with("torch.")) return std::nullopt;
      require<FileError>(name == "Sigmoid" || name == "Identity", object.file(), ": '", key, "' is ",
                         io::quoted_name(path), "; heddle has Sigmoid and Identity");
      return name == "Sigmoid";
    };
    std::optional<bool> found;
    // Without modules.json, sentence-transformers does not read its own settings.
    const std::string settings_of_modules = folder + "/config_sentence_transformers.json";
    if (has_modules(folder) && io::path_exists(settings_of_modules)) {
      const io::JsonFile file(settings_of_modules);
      const io::JsonObject settings = file.object();
      require<FileError>(!settings.has("default_prompt_name"), settings.file(),
                         ": 'default_prompt_name' is given; a reranker puts no prompt before a query");
      found = read(settings, "activation_fn");
    }
    const io::JsonFile file(folder + "/config.json");
    const io::JsonObject config = file.object();
    if (!found && config.has("sentence_transformers"))
      found = read(io::JsonObject(config.object("sentence_transformers"), config.file(), "'sentence_transformers'"),
                   "activation_fn");
    if (!found) found = read(config, "sbert_ce_default_activation_function");
    return found.value_or(true);
  }

  /// Returns whether a score is the sigmoid of the logit.
  bool is_sigmoid() const { return is_sigmoid_; }
  /// Returns a copy whose scores are the sigmoid of the logit, or the logit.
  Reranker with_sigmoid(bool yes) const { return Reranker(*this, yes); }

  /// Returns the score of a text for a query. A pair of more tokens than the model's positions or the tokenizer's
  /// limit is truncated as text::truncated_lengths() says. @throws Error for a score that is not finite.
  template <std::convertible_to<std::string_view> Text>
  float score(std::string_view query, const Text& text) const {
    return run({state_->tokenizer.encode_pair(query, std::string_view(text))})[0];
  }
  /// Returns the scores of texts for a query. The pairs are packed in batches, without padding. @throws Error as above.
  std::vector<float> score(std::string_view query, const std::vector<std::string>& texts) const {
    return run(state_->tokenizer.encode_batch(std::vector<std::string_view>(texts.size(), query), views_of(texts)));
  }
  /// Returns the scores of pairs: of each query with the text at the same position. @throws Error for different sizes,
  /// and as above.
  std::vector<float> score(const std::vector<std::string>& queries, const std::vector<std::string>& texts) const {
    return run(state_->tokenizer.encode_batch(queries, texts));
  }

  /// Returns the `count` best texts for a query, best first; equal scores stay in order. @throws Error as above.
  std::vector<RankedText> rank(std::string_view query, const std::vector<std::string>& texts,
                               std::size_t count = std::string::npos) const {
    const std::vector<float> scores = score(query, texts);
    std::vector<RankedText> ranked;
    for (std::size_t i = 0; i < scores.size(); ++i) ranked.push_back({i, scores[i]});
    std::stable_sort(ranked.begin(), ranked.end(), [](const auto& a, const auto& b) { return a.score > b.score; });
    ranked.resize(std::min(count, ranked.size()));
    return ranked;
  }

 private:
  using State = detail::TextModel<SequenceClassifier<>>;

  Reranker(std::shared_ptr<const State> state, bool is_sigmoid)
      : state_("Reranker", std::move(state)), is_sigmoid_(is_sigmoid) {}
  Reranker(const Reranker& other, bool is_sigmoid) : state_(other.state_), is_sigmoid_(is_sigmoid) {}

  static std::vector<std::string_view> views_of(const std::vector<std::string>& texts) {
    return {texts.begin(), texts.end()};
  }

  // Returns whether a folder has a modules.json. Throws FileError unless it lists a transformer in the folder itself.
  static bool has_modules(const std::string& folder) {
    const std::string path = folder + "/modules.json", shown = io::printable(path);
    if (!io::path_exists(path)) return false;
    const nlohmann::json list = io::parse_json(io::read_file(path), shown);
    require<FileError>(list.is_array(), shown, ": must be a JSON array");
    for (const nlohmann::json& entry : list) {
      const io::JsonObject module(entry, shown, "a module");
      const std::string type = module.text("type"), kind = type.substr(type.rfind('.') + 1);
      require<FileError>(kind == "Transformer" && module.text_or("path", "").empty(), shown, ": has the module ",
                         io::quoted_name(type), "; a reranker has one Transformer, with an empty path");
    }
    require<FileError>(list.size() == 1, shown, ": has ", list.size(), " modules; a reranker has one Transformer");
    return true;
  }

  std::vector<float> run(const std::vector<text::Encoding>& pairs) const {
    std::vector<float> scores;
    const auto compute = [&]<class A>(A, const Tensor<int>& ids, const Sequences& sequences,
                                      const ForwardOptions<A>& options) {
      return state_->model.template forward<A>(ids, sequences, options);
    };
    state_->run(state_.name(), pairs, compute, [&](const Tensor<float>& z, std::size_t) {
      for (Index b = 0; b < z.dim(0); ++b)
        scores.push_back(is_sigmoid_ ? detail::sigmoid_of(z.data()[b]) : z.data()[b]);
    });
    return scores;
  }

  detail::Shared<State> state_;
  bool is_sigmoid_;
};

}  // namespace heddle::models
