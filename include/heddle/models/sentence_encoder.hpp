// Embeds text with a model folder of BERT, DistilBERT or sentence-transformers (Reimers and Gurevych 2019).
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>

#include <heddle/models/text_batches.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/maximum.hpp>
#include <heddle/ops/reduce.hpp>

namespace heddle::models {

/// The rule that makes a sentence's vector from its tokens' vectors: their mean, or the vector of [CLS].
enum class Pooling { mean, cls };

/// An encoder with a tokenizer and a pooling. Copies share them. Const functions may be called by several threads at
/// once, and throw Error for an object that was moved from.
class SentenceEncoder {
 public:
  /// Loads a folder. modules.json defines the pooling and the normalization; without it vectors are means, normalized
  /// to length 1. @throws FileError that names the file and the fault, such as a module that heddle does not have, and
  /// Error for a device that this build does not support.
  static SentenceEncoder load(const std::string& folder, Device device = Device::cpu) {
    const Modules modules = read_modules(folder);
    const PretrainedConfig config = read_config(modules.encoder);
    require<FileError>(config.bert(), io::printable(modules.encoder + "/config.json"),
                       ": must describe a BERT or DistilBERT to embed sentences");
    text::WordPiece tokenizer =
        detail::make_tokenizer(modules.encoder, config.vocabulary(), config.positions(), 2, modules.max_length)
            .tokenizer;
    require<FileError>(!modules.lower_case || tokenizer.options().uncased, io::printable(modules.encoder),
                       ": 'do_lower_case' is true in sentence_bert_config.json, but the tokenizer is cased");
    require<FileError>(!modules.width || modules.width == config.bert()->D, modules.pooling_file,
                       ": is for vectors of width ", modules.width, "; the model's width is ", config.bert()->D);
    require_sizes(config, modules.encoder);
    auto model = make_without_values<BertEncoder<>>(*config.bert());
    load_pretrained(model, modules.encoder);
    to(model, device);
    return SentenceEncoder(
        std::make_shared<const State>(std::move(tokenizer), std::move(model), modules.pooling, modules.normalized));
  }

  /// Returns the width D of the vectors.
  Index width() const { return state().model.config.D; }
  /// Returns how rows become one vector.
  Pooling pooling() const { return state().pooling; }
  bool normalized() const { return state().normalized; }  ///< whether vectors have length 1

  /// Returns the vector [D] of one text, truncated to the model's positions or the folder's limit, whichever is
  /// smaller. @throws Error for values that are not finite.
  template <std::convertible_to<std::string_view> Text>
  Tensor<float> operator()(const Text& text) const {
    return run({state().tokenizer.encode(std::string_view(text))}).with_shape({width()});
  }
  /// Returns the vectors [B, D] of B texts. They are packed in batches, in order, without padding. @throws Error as for
  /// one text.
  Tensor<float> operator()(const std::vector<std::string>& texts) const {
    return run(state().tokenizer.encode_batch(texts));
  }

 private:
  struct Modules {
    std::string encoder;         // the folder of the transformer
    std::string pooling_file{};  // path of the pooling's config.json, for messages
    Pooling pooling = Pooling::mean;
    bool normalized = true;
    Index width = 0;       // width of the vectors; 0 if the folder does not give it
    Index max_length = 0;  // maximum number of tokens, which replaces the tokenizer's; 0 if the folder does not give it
    bool lower_case = false;  // whether texts are converted to lower case before the tokenizer reads them
  };

  struct State {
    text::WordPiece tokenizer;
    BertEncoder<> model;
    Pooling pooling;
    bool normalized;
    State(text::WordPiece t, BertEncoder<> m, Pooling p, bool n)
        : tokenizer(std::move(t)), model(std::move(m)), pooling(p), normalized(n) {}
  };

  explicit SentenceEncoder(std::shared_ptr<const State> state) : state_(std::move(state)) {}

  const State& state() const {
    require(state_ != nullptr, "SentenceEncoder: the object was moved from");
    return *state_;
  }

  static constexpr Index most = 1'000'000'000;  // the largest size that a JSON file may give

  // Returns the name of the pooling that a configuration chooses.
  static std::string pooling_name(const io::JsonObject& config) {
    if (config.has("pooling_mode")) return config.text("pooling_mode");
    // Without a name, each pooling has a member that turns it on. The mean is on by default.
    std::string chosen = config.has("pooling_mode_mean_tokens") ? "none" : "mean";
    for (const auto& [key, value] : config.json().get_ref<const nlohmann::json::object_t&>()) {
      if (!key.starts_with("pooling_mode_") || value != true) continue;
      require<FileError>(chosen == "none", config.file(), ": has more than one pooling; heddle uses 'mean' or 'cls'");
      chosen = key == "pooling_mode_mean_tokens" ? "mean" : key == "pooling_mode_cls_token" ? "cls" : key;
    }
    return chosen;
  }

  // Reads the config.json of a pooling in `folder`.
  static void read_pooling(const std::string& folder, Modules& modules) {
    const io::JsonFile file(folder + "/config.json");
    const io::JsonObject config = file.object();
    const std::string chosen = pooling_name(config);
    require<FileError>(chosen == "mean" || chosen == "cls", config.file(), ": the pooling ", io::quoted_name(chosen),
                       " is not one of 'mean' and 'cls'");
    modules.pooling = chosen == "mean" ? Pooling::mean : Pooling::cls;
    modules.pooling_file = config.file();
    for (const char* name : {"word_embedding_dimension", "embedding_dimension"})
      if (config.has(name)) modules.width = config.count(name, 1, most);
  }

  // Reads modules.json, which must list a transformer, a pooling and optionally a normalization.
  static Modules read_modules(const std::string& folder) {
    const std::string path = folder + "/modules.json", shown = io::printable(path);
    require<FileError>(io::is_folder(folder), io::printable(folder), ": is not a folder");
    if (!io::path_exists(path)) return {.encoder = folder};
    const nlohmann::json list = io::parse_json(io::read_file(path), shown);
    require<FileError>(list.is_array(), shown, ": must be a JSON array");
    Modules modules{.encoder = folder, .normalized = false};
    std::string kinds;
    for (const nlohmann::json& entry : list) {
      const io::JsonObject module(entry, shown, "a module");
      const std::string type = module.text("type"), kind = type.substr(type.rfind('.') + 1),
                        at = module.text_or("path", "");
      require<FileError>(!at.starts_with('/') && ('/' + at + '/').find("/../") == at.npos && at.find('\0') == at.npos,
                         shown, ": the module's path ", io::quoted_name(at), " is outside the folder");
      const std::string of_module = at.empty() ? folder : folder + '/' + at;
      kinds += (kinds.empty() ? "" : ", ") + kind;
      if (kind == "Transformer") {
        modules.encoder = of_module;
        for (const char* name : {"sentence_bert_config.json", "sentence_distilbert_config.json"}) {
          const std::string limits = of_module + '/' + name;
          if (!io::path_exists(limits)) continue;
          const io::JsonFile file(limits);
          modules.max_length = file.object().count_or("max_seq_length", 0, 2, most);
          modules.lower_case = file.object().boolean_or("do_lower_case", false);
          break;
        }
      } else if (kind == "Pooling") {
        read_pooling(of_module, modules);
      } else if (kind == "Normalize") {
        modules.normalized = true;
      }
    }
    if (const std::string settings = folder + "/config_sentence_transformers.json"; io::path_exists(settings)) {
      const io::JsonFile file(settings);
      require<FileError>(!file.object().has("default_prompt_name"), io::printable(settings),
                         ": 'default_prompt_name' is given; heddle puts no prompt before a text");
    }
    require<FileError>(kinds == "Transformer, Pooling" || kinds == "Transformer, Pooling, Normalize", shown,
                       ": the modules are ", io::quoted_name(kinds),
                       "; heddle has Transformer, Pooling and Normalize, in this order");
    return modules;
  }

  Tensor<float> run(const std::vector<text::Encoding>& texts) const {
    const NoGrad quiet;
    const State& loaded = state();
    const BertEncoder<>& model = loaded.model;
    const Index D = width();
    Tensor<float> all({static_cast<Index>(texts.size()), D});
    float *const begin = all.data(), *to = begin;
    detail::each_batch(
        texts, false, device_of(model), [&](const Tensor<int>& ids, const Tensor<int>&, const Sequences& sequences) {
          Tensor<float> x = loaded.pooling == Pooling::cls ? model.first(ids, sequences)
                                                           : mean_rows(model.forward(ids, sequences), sequences);
          if (loaded.normalized)
            x = x / maximum(sqrt(sum(x * x, -1, true)), full<float>({1}, 1e-12, x.device()));  // as torch's normalize
          const std::vector<float> values = x.host();
          const auto bad = std::find_if(values.begin(), values.end(), [](float v) { return !std::isfinite(v); });
          require(bad == values.end(), "SentenceEncoder: the vector of text ",
                  (to - begin + (bad - values.begin())) / D, " is not finite; check the weights of the model");
          to = std::copy(values.begin(), values.end(), to);
        });
    return all;
  }

  std::shared_ptr<const State> state_;
};

}  // namespace heddle::models
