// Maps texts to weights of the vocabulary's tokens with a SPLADE folder of sentence-transformers (Formal et al. 2021).
#pragma once
#include <algorithm>

#include <heddle/models/sentence_folder.hpp>
#include <heddle/models/text_model.hpp>
#include <heddle/ops/concat.hpp>
#include <heddle/ops/map.hpp>

namespace heddle::models {

/// A vector over the vocabulary, most of whose elements are 0.
struct SparseVector {
  std::vector<std::int32_t> ids;  ///< the tokens of the other elements, ascending
  std::vector<float> weights;     ///< the elements, which are positive
};

namespace detail {

struct SparseState : TextModel<BertMaskedLm<>> {
  Prompts prompts{};
  bool adds = false;  // whether the tokens of a text are added; otherwise the largest weight counts
  bool takes_log_twice = false;
  Index most = most_in_json;  // the greatest number of elements that are not 0

  using TextModel::TextModel;
};

}  // namespace detail

/// A masked language model with SPLADE's pooling, and its tokenizer. The weight of a token of the vocabulary is
/// log(1 + max(logit, 0)), the largest one or the sum over the tokens of the text. Copies share both. Const functions
/// may be called by several threads at once, and throw Error for an object that was moved from.
class SparseEncoder {
 public:
  /// Loads a folder. modules.json defines the pooling; without it, the largest weight counts. @throws FileError that
  /// names the file and the fault, such as a module that heddle does not have, and Error for a device that this build
  /// does not support.
  static SparseEncoder load(const std::string& folder, const LoadOptions& options = {}) {
    const std::vector<detail::ModuleEntry> modules = detail::read_modules(folder);
    const detail::TransformerSettings transformer = modules.empty()
                                                        ? detail::TransformerSettings{.folder = folder}
                                                        : detail::read_transformer(modules[0], "fill-mask", "logits");
    require_modules(modules);
    PretrainedConfig config = detail::read_bert(transformer.folder, "compute sparse vectors");
    detail::LoadedTokenizer tokenizer = detail::make_tokenizer(transformer, config);
    detail::require_casing(transformer, tokenizer);
    require_sizes(config, transformer.folder);
    auto model = make_without_values<BertMaskedLm<>>(*config.bert());
    load_pretrained(model, transformer.folder);
    auto state = std::make_shared<State>(std::move(config), std::move(tokenizer), std::move(model), options);
    if (!modules.empty()) {
      read_pooling(modules[1], *state);
      if (const auto file = detail::read_if_exists(folder + "/config_sentence_transformers.json")) {
        const io::JsonObject settings = file->object();
        detail::require_only(settings, "model_type", "SparseEncoder");
        state->prompts = detail::read_prompts(settings);
        state->most = settings.count_or("max_active_dims", state->most, 1, state->most);
      }
    }
    return SparseEncoder(std::move(state));
  }

  /// Returns the number of tokens in the vocabulary.
  Index vocabulary() const { return state_->config.vocabulary(); }
  /// Returns the token of an id. @throws IndexError for an id that the tokenizer does not have.
  std::string_view token(std::int32_t id) const { return state_->tokenizer.token(id); }

  /// Returns the folder's prompts by name.
  const std::map<std::string, std::string>& prompts() const { return state_->prompts.texts; }
  /// Returns a copy that puts a prompt of the folder before each text, in place of its default prompt. @throws Error
  /// for a name that the folder does not have.
  SparseEncoder with_prompt(const std::string& name) const {
    return with_prompt_text(state_->prompts.at(state_.name(), name));
  }
  /// Returns a copy that puts `prompt` before each text; "" stands for none.
  SparseEncoder with_prompt_text(const std::string& prompt) const {
    SparseEncoder copy = *this;
    copy.prompt_ = prompt;
    return copy;
  }

  /// Returns the vector of one text, truncated to the model's positions or the folder's limit, whichever is smaller.
  /// @throws Error for weights that are not finite.
  template <std::convertible_to<std::string_view> Text>
  SparseVector operator()(const Text& text) const {
    return run({std::string(std::string_view(text))})[0];
  }
  /// Returns the vectors of texts. They are packed in batches, in order, without padding. @throws Error as above.
  std::vector<SparseVector> operator()(const std::vector<std::string>& texts) const { return run(texts); }

 private:
  using State = detail::SparseState;

  explicit SparseEncoder(std::shared_ptr<const State> state)
      : state_("SparseEncoder", std::move(state)), prompt_(state_->prompts.initial()) {}

  static void require_modules(const std::vector<detail::ModuleEntry>& modules) {
    for (std::size_t i = 1; i < modules.size(); ++i)
      require<FileError>(
          modules[i].kind() == "SpladePooling" && i == 1, modules[i].list, ": the module ",
          io::quoted_name(modules[i].type),
          " is one that heddle does not have in a sparse encoder; it has a Transformer and a SpladePooling");
    require<FileError>(modules.size() != 1, modules.empty() ? "" : modules[0].list, ": has no SpladePooling");
  }

  static void read_pooling(const detail::ModuleEntry& module, State& state) {
    const io::JsonFile file = module.config();
    const io::JsonObject config = file.object();
    const auto is_second = [&](const char* key, const std::string& first, const std::string& second) {
      const std::string given = config.text_or(key, first);
      require<FileError>(given == first || given == second, config.file(), ": '", key, "' is ", io::quoted_name(given),
                         " but must be ", first, " or ", second);
      return given == second;
    };
    state.adds = is_second("pooling_strategy", "max", "sum");
    state.takes_log_twice = is_second("activation_function", "relu", "log1p_relu");
  }

  std::vector<SparseVector> run(const std::vector<std::string>& texts) const {
    const State& state = *state_;
    std::vector<SparseVector> vectors;
    const auto compute = [&]<class A>(A, const Tensor<int>& ids, const Sequences& sequences, const ForwardOptions<A>&) {
      return weights<A>(ids, sequences);
    };
    state.run(state_.name(), detail::encode_with(state.tokenizer, prompt_, texts), compute,
              [&](const Tensor<float>& all, std::size_t) {
                const auto V = static_cast<std::size_t>(all.dim(1));
                for (Index b = 0; b < all.dim(0); ++b) vectors.push_back(sparse({all.data() + b * all.dim(1), V}));
              });
    return vectors;
  }

  // Returns the weights of all tokens of the vocabulary for each text [B, V]. Logits have a row for each token of a
  // text, 120 kB for a vocabulary of 30,522; those of a few texts exist at once.
  template <class A>
  Tensor<float> weights(const Tensor<int>& ids, const Sequences& sequences) const {
    constexpr int most_rows_at_once = 512;
    const std::vector<int>& lengths = sequences.lengths();
    std::vector<Tensor<float>> parts;
    for (auto text = lengths.begin(); text != lengths.end();) {
      const Index begin = sequences.begins()[static_cast<std::size_t>(text - lengths.begin())];
      int rows = 0;
      std::vector<int> some;
      do {
        rows += *text;
        some.push_back(*text++);
      } while (text != lengths.end() && rows + *text <= most_rows_at_once);
      const Sequences part = Sequences::packed(some).to(ids.device());
      const Tensor<float> logits =
          cast<float>(state_->model.template forward<A>(ids.leading(begin, begin + rows), part));  // [rows, V]
      parts.push_back(state_->adds ? sums(weights_of(logits), some) : weights_of(max_rows(logits, part)));
    }
    return concat(parts);
  }
  // Returns the sum of each text's rows. It adds a few at a time, and then the sums of these, because the rounding
  // errors of one long sum are larger.
  static Tensor<float> sums(Tensor<float> rows, std::vector<int> lengths) {  // [N, V] to [B, V]
    constexpr int most_at_once = 8;
    while (rows.dim(0) > static_cast<Index>(lengths.size())) {
      std::vector<int> some, counts;
      for (int left : lengths) {
        counts.push_back((left + most_at_once - 1) / most_at_once);
        for (; left > 0; left -= most_at_once) some.push_back(std::min(left, most_at_once));
      }
      rows = sum_rows(rows, Sequences::packed(some).to(rows.device()));
      lengths = counts;
    }
    return rows;
  }

  Tensor<float> weights_of(const Tensor<float>& logits) const {
    const Tensor<float> weights = log1p(relu(logits));
    return state_->takes_log_twice ? log1p(weights) : weights;
  }

  // Returns the positive weights, and only the largest if there are more than the folder allows.
  SparseVector sparse(std::span<const float> weights) const {
    std::vector<std::int32_t> ids;
    for (std::size_t id = 0; id < weights.size(); ++id)
      if (weights[id] > 0) ids.push_back(static_cast<std::int32_t>(id));
    const auto weight = [&](std::int32_t id) { return weights[static_cast<std::size_t>(id)]; };
    if (static_cast<Index>(ids.size()) > state_->most) {
      std::stable_sort(ids.begin(), ids.end(), [&](auto a, auto b) { return weight(a) > weight(b); });
      ids.resize(static_cast<std::size_t>(state_->most));
      std::sort(ids.begin(), ids.end());
    }
    SparseVector vector{std::move(ids), {}};
    for (const std::int32_t id : vector.ids) vector.weights.push_back(weight(id));
    return vector;
  }

  detail::Shared<State> state_;
  std::string prompt_;
};

}  // namespace heddle::models
