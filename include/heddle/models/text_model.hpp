// A model of a folder with its tokenizer, and its results for texts: what TextClassifier and the other types share.
#pragma once
#include <cmath>
#include <memory>

#include <heddle/cpu/gemm.hpp>
#include <heddle/models/load_options.hpp>
#include <heddle/models/text_batches.hpp>
#include <heddle/ops/cast.hpp>

namespace heddle::models::detail {

// A model and its tokenizer.
template <class Model>
struct TextModel {
  PretrainedConfig config;
  text::Tokenizer tokenizer;
  bool has_types;          // whether the model is given the token types of a pair
  std::string mask_token;  // the token that hides another one; empty if there is none
  Model model;
  Precision precision;

  TextModel(PretrainedConfig c, LoadedTokenizer t, Model m, const LoadOptions& options)
      : config(std::move(c)),
        tokenizer(std::move(t.tokenizer)),
        has_types(t.has_types),
        mask_token(std::move(t.mask_token)),
        model(std::move(m)),
        precision(options.precision) {
    to(model, options.device);
  }

  // Calls compute(a, ids [N], sequences, options) for the texts, in batches and in their order, where a is a value of
  // the type of the activations, and use(result, first) for the result of each, in float and on the CPU, and the number
  // of the first of its texts. `name` is the caller's.
  template <class Compute, class Use>
  void run(const char* name, const std::vector<text::Encoding>& texts, Compute&& compute, Use&& use) const {
    const NoGrad quiet;
    const RowwiseProducts rowwise;
    std::size_t first = 0;
    each_batch(
        texts, has_types, device_of(model),
        [&](const Tensor<int>& ids, const Tensor<int>& types, const Sequences& sequences) {
          Tensor<float> result;
          if (precision == Precision::bf16)
            result = cast<float>(compute(bf16{}, ids, sequences, ForwardOptions<bf16>{.types = types})).to(Device::cpu);
          else
            result = compute(float{}, ids, sequences, ForwardOptions<float>{.types = types}).to(Device::cpu);
          require_finite(name, result, sequences, first);
          use(std::as_const(result), first);
          first += static_cast<std::size_t>(sequences.count());
        });
  }

 private:
  // Throws Error for a result that is not finite. It has a row for each text or for each token; if it has another
  // number of rows, the error does not name the text.
  static void require_finite(const char* name, const Tensor<float>& result, const Sequences& sequences,
                             std::size_t first) {
    const float *const begin = result.data(), *const end = begin + result.size();
    const float* const bad = std::find_if(begin, end, [](float x) { return !std::isfinite(x); });
    if (bad == end) return;
    const Index row = (bad - begin) / (result.size() / result.dim(0));
    std::size_t text = first, last = first + static_cast<std::size_t>(sequences.count());
    if (result.dim(0) == sequences.count()) {
      text = first + static_cast<std::size_t>(row);
    } else if (result.dim(0) == sequences.rows()) {
      const std::vector<int>& begins = sequences.begins();
      text = last - static_cast<std::size_t>(begins.end() - std::upper_bound(begins.begin(), begins.end(), row)) - 1;
    } else if (sequences.count() > 1) {
      fail(name, ": a result of texts ", first, " to ", last - 1, " is not finite; check the weights of the model");
    }
    fail(name, ": the result of text ", text, " is not finite; check the weights of the model");
  }
};

// Shares a model among the copies of an object. Its functions throw Error for an object that was moved from.
template <class State>
class Shared {
 public:
  Shared(const char* name, std::shared_ptr<const State> state) : name_(name), state_(std::move(state)) {}
  const State* operator->() const { return &**this; }
  const State& operator*() const {
    require(state_ != nullptr, name_, ": the object was moved from");
    return *state_;
  }
  const char* name() const { return name_; }

 private:
  const char* name_;
  std::shared_ptr<const State> state_;
};

// Loads a model with one of the heads of BERT from a folder; `arguments` follow the configuration of its constructor.
template <class Model, class... Arguments>
std::shared_ptr<const TextModel<Model>> load_text_model(const std::string& folder, PretrainedConfig config,
                                                        LoadedTokenizer tokenizer, const LoadOptions& options,
                                                        const Arguments&... arguments) {
  require_sizes(config, folder);
  const nn::NoInit undrawn;
  Random unused(0);
  Model model(*config.bert(), arguments..., unused);
  load_pretrained(model, folder);
  return std::make_shared<const TextModel<Model>>(std::move(config), std::move(tokenizer), std::move(model), options);
}

// Returns the configuration of a folder with a BERT or one of its relatives, which `purpose` needs. Throws FileError.
inline PretrainedConfig read_bert(const std::string& folder, const char* purpose) {
  PretrainedConfig config = read_config(folder);
  require<FileError>(config.bert(), io::printable(folder + "/config.json"),
                     ": describes a heddle-prenorm model, which cannot ", purpose);
  return config;
}

// Returns 1 / (1 + exp(-z)).
inline float sigmoid_of(float z) { return static_cast<float>(1 / (1 + std::exp(-static_cast<double>(z)))); }

}  // namespace heddle::models::detail
