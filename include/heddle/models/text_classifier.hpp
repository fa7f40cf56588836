// Classifies text with a model folder of Hugging Face or of heddle's program bert_classifier.
#pragma once
#include <cmath>
#include <memory>

#include <heddle/models/pretrained.hpp>
#include <heddle/models/text_batches.hpp>
#include <heddle/ops/softmax.hpp>

namespace heddle::models {

/// The class of a text.
struct Prediction {
  int index = 0;                     ///< the class with the highest probability
  std::string label;                 ///< its name in the folder's id2label
  std::vector<float> probabilities;  ///< the probability of each class
};

/// A classifier and its tokenizer. Copies share both. Const functions may be called by several threads at once, and
/// throw Error for an object that was moved from.
class TextClassifier {
 public:
  /// Loads a folder with config.json, vocab.txt or tokenizer.json, and model.safetensors or its shards: a BERT,
  /// DistilBERT or pre-norm classifier. @throws FileError that names the file and the fault, such as a missing model
  /// head, and Error for a device that this build does not support.
  static TextClassifier load(const std::string& folder, Device device = Device::cpu) {
    PretrainedConfig config = read_config(folder);
    require_single_label(config, folder);
    require_sizes(config, folder);
    detail::LoadedTokenizer loaded = detail::make_tokenizer(folder, config);
    auto model = make_without_values<SequenceClassifier<>>(config);
    load_pretrained(model, folder);
    to(model, device);
    return TextClassifier(std::make_shared<const State>(std::move(config), std::move(loaded), std::move(model)));
  }

  /// Returns the names of the classes, in the order of the probabilities.
  const std::vector<std::string>& labels() const { return state().config.labels; }
  /// Returns the content of config.json.
  const PretrainedConfig& config() const { return state().config; }

  /// Classifies one text, truncated to the model's positions or the tokenizer's limit, whichever is smaller. @throws
  /// Error for probabilities that are not finite.
  template <std::convertible_to<std::string_view> Text>
  Prediction operator()(const Text& text) const {
    return run({state().tokenizer.encode(std::string_view(text))})[0];
  }
  /// Classifies a pair of texts, such as a premise and a hypothesis. The model is given their token types if it has
  /// them and the folder's tokenizer returns them in transformers (see io::read_tokenizer()). @throws Error if the
  /// model's positions or the tokenizer's limit allow fewer than three tokens, and as for one text.
  template <std::convertible_to<std::string_view> Text, std::convertible_to<std::string_view> Second>
  Prediction operator()(const Text& a, const Second& b) const {
    return run({state().tokenizer.encode_pair(std::string_view(a), std::string_view(b))})[0];
  }
  /// Classifies many texts. They are packed in batches, in order, without padding. @throws Error as for one text.
  std::vector<Prediction> operator()(const std::vector<std::string>& texts) const {
    return run(state().tokenizer.encode_batch(texts));
  }

 private:
  struct State {
    PretrainedConfig config;
    text::WordPiece tokenizer;
    bool has_types;  // whether the model is given the token types of a pair
    SequenceClassifier<> model;
    State(PretrainedConfig c, detail::LoadedTokenizer t, SequenceClassifier<> m)
        : config(std::move(c)), tokenizer(std::move(t.tokenizer)), has_types(t.has_types), model(std::move(m)) {}
  };

  explicit TextClassifier(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  const State& state() const {
    require(state_ != nullptr, "TextClassifier: the object was moved from");
    return *state_;
  }

  std::vector<Prediction> run(const std::vector<text::Encoding>& texts) const {
    const NoGrad quiet;
    const State& loaded = state();
    const PretrainedConfig& config = loaded.config;
    const SequenceClassifier<>& model = loaded.model;
    std::vector<Prediction> predictions;
    detail::each_batch(
        texts, loaded.has_types, device_of(model),
        [&](const Tensor<int>& ids, const Tensor<int>& type_ids, const Sequences& sequences) {
          const Tensor<float> p =
              softmax(model.forward(ids, sequences, {.types = type_ids}), -1).to(Device::cpu);  // [B, C]
          const Index C = p.dim(1);
          for (Index b = 0; b < p.dim(0); ++b) {
            const std::span row(std::as_const(p).data() + b * C, static_cast<std::size_t>(C));
            require(std::all_of(row.begin(), row.end(), [](float x) { return std::isfinite(x); }),
                    "TextClassifier: the probabilities of text ", predictions.size(),
                    " are not finite; check the weights of the model");
            const auto best = static_cast<std::size_t>(std::max_element(row.begin(), row.end()) - row.begin());
            predictions.push_back({static_cast<int>(best), config.labels[best], {row.begin(), row.end()}});
          }
        });
    return predictions;
  }

  std::shared_ptr<const State> state_;
};

}  // namespace heddle::models
