// Classifies text with a model folder of Hugging Face or of heddle's program bert_classifier.
#pragma once
#include <heddle/models/text_model.hpp>
#include <heddle/ops/softmax.hpp>

namespace heddle::models {

/// The result for a text.
struct Prediction {
  int index = 0;                          ///< the class with the highest probability
  std::string label;                      ///< its name in the folder's id2label
  std::vector<float> probabilities;       ///< the probability of each class; of a regression none
  std::vector<std::size_t> indices = {};  ///< multi-label: those whose probability is at least the threshold
  std::vector<float> values = {};         ///< regression: the value of each label; index is that of the highest

  /// Compares all members.
  bool operator==(const Prediction&) const = default;
};

/// A classifier and its tokenizer: of texts that have one label each or any number, or of texts that have values.
/// Copies share both. Const functions may be called by several threads at once, and throw Error for an object that was
/// moved from.
class TextClassifier {
 public:
  /// Loads a folder with config.json, the files of a tokenizer, and model.safetensors or its shards: a classifier of
  /// BERT, of one of its relatives, or a pre-norm one. @throws FileError that names the file and the fault, such as a
  /// missing model head, and Error for a device that this build does not support.
  static TextClassifier load(const std::string& folder, const LoadOptions& options = {}) {
    PretrainedConfig config = read_config(folder);
    require_problem(config, folder);
    require_sizes(config, folder);
    detail::LoadedTokenizer tokenizer = detail::make_tokenizer(folder, config);
    auto model = make_without_values<SequenceClassifier<>>(config);
    load_pretrained(model, folder);
    return TextClassifier(
        std::make_shared<const State>(std::move(config), std::move(tokenizer), std::move(model), options));
  }

  /// Returns the names of the classes, in the order of the probabilities.
  const std::vector<std::string>& labels() const { return state_->config.labels; }
  /// Returns the content of config.json.
  const PretrainedConfig& config() const { return state_->config; }
  /// Returns what the logits are.
  Problem problem() const { return state_->config.problem(); }

  /// Returns a copy that has another threshold for the labels of a multi-label classifier than 0.5. @throws Error
  /// unless it is in [0, 1].
  TextClassifier with_threshold(float threshold) const {
    require(threshold >= 0 && threshold <= 1, "TextClassifier: a threshold must be in [0, 1], got ", threshold);
    TextClassifier copy = *this;
    copy.threshold_ = threshold;
    return copy;
  }

  /// Classifies one text, truncated to the model's positions or the tokenizer's limit, whichever is smaller. @throws
  /// Error for logits that are not finite.
  template <std::convertible_to<std::string_view> Text>
  Prediction operator()(const Text& text) const {
    return run({state_->tokenizer.encode(std::string_view(text))})[0];
  }
  /// Classifies a pair of texts, such as a premise and a hypothesis. The model is given their token types if it has
  /// them and the folder's tokenizer returns them in transformers (see text::read_tokenizer()). @throws Error if the
  /// model's positions or the tokenizer's limit allow fewer than three tokens, and as for one text.
  template <std::convertible_to<std::string_view> Text, std::convertible_to<std::string_view> Second>
  Prediction operator()(const Text& a, const Second& b) const {
    return run({state_->tokenizer.encode_pair(std::string_view(a), std::string_view(b))})[0];
  }
  /// Classifies many texts. They are packed in batches, in order, without padding. @throws Error as for one text.
  std::vector<Prediction> operator()(const std::vector<std::string>& texts) const {
    return run(state_->tokenizer.encode_batch(texts));
  }
  /// Classifies each text in `a` with the text at the same position in `b` as a pair. @throws Error for different
  /// sizes, and as for one pair.
  std::vector<Prediction> operator()(const std::vector<std::string>& a, const std::vector<std::string>& b) const {
    return run(state_->tokenizer.encode_batch(a, b));
  }

 private:
  using State = detail::TextModel<SequenceClassifier<>>;

  explicit TextClassifier(std::shared_ptr<const State> state) : state_("TextClassifier", std::move(state)) {}

  std::vector<Prediction> run(const std::vector<text::Encoding>& texts) const {
    std::vector<Prediction> predictions;
    const auto compute = [&]<class A>(A, const Tensor<int>& ids, const Sequences& sequences,
                                      const ForwardOptions<A>& options) {
      return state_->model.template forward<A>(ids, sequences, options);
    };
    state_->run(state_.name(), texts, compute, [&](const Tensor<float>& z, std::size_t) {
      const Tensor<float> results = problem() == Problem::single_label ? softmax(z, -1) : z;  // [B, C]
      const Index C = results.dim(1);
      for (Index b = 0; b < results.dim(0); ++b)
        predictions.push_back(prediction_of({std::as_const(results).data() + b * C, static_cast<std::size_t>(C)}));
    });
    return predictions;
  }
  // Returns the prediction for a text's probabilities, or for its logits unless it has one label.
  Prediction prediction_of(std::span<const float> row) const {
    const auto best = static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
    Prediction p{static_cast<int>(best), labels()[best], {row.begin(), row.end()}};
    if (problem() == Problem::regression) p.values = std::exchange(p.probabilities, {});
    if (problem() != Problem::multi_label) return p;
    for (float& x : p.probabilities) x = detail::sigmoid_of(x);
    for (std::size_t label = 0; label < row.size(); ++label)
      if (p.probabilities[label] >= threshold_) p.indices.push_back(label);
    return p;
  }

  detail::Shared<State> state_;
  float threshold_ = 0.5F;
};

}  // namespace heddle::models
