// Fills the masks of a text, with a masked language model's folder of transformers.
#pragma once
#include <numeric>

#include <heddle/models/text_model.hpp>
#include <heddle/ops/softmax.hpp>

namespace heddle::models {

/// A token that a mask may stand for.
struct MaskToken {
  std::int32_t id;    ///< its id
  std::string token;  ///< the token as it is in the vocabulary, such as "##ing"
  float probability;  ///< its probability among all tokens of the vocabulary

  /// Compares all members.
  bool operator==(const MaskToken&) const = default;
};

/// A masked language model and its tokenizer. Copies share both. Const functions may be called by several threads at
/// once, and throw Error for an object that was moved from.
class FillMask {
 public:
  /// Loads a folder of a BERT or one of its relatives for masked language modelling. @throws FileError that names the
  /// file and the fault, such as a missing model head or a tokenizer without a mask token, and Error for a device that
  /// this build does not support.
  static FillMask load(const std::string& folder, const LoadOptions& options = {}) {
    PretrainedConfig config = detail::read_bert(folder, "fill masks");
    detail::LoadedTokenizer tokenizer = detail::make_tokenizer(folder, config);
    require<FileError>(tokenizer.tokenizer.find(tokenizer.mask_token) != text::TokenTable::none, io::printable(folder),
                       ": its tokenizer has no ",
                       tokenizer.mask_token.empty() ? "mask token" : io::quoted_name(tokenizer.mask_token));
    return FillMask(detail::load_text_model<BertMaskedLm<>>(folder, std::move(config), std::move(tokenizer), options));
  }

  /// Returns the mask token, such as [MASK].
  const std::string& mask_token() const { return state_->mask_token; }

  /// Returns the `count` most probable tokens for each mask_token() of a text, most probable first; of equal ones that
  /// of the smaller id. @throws Error for a text without a mask among the tokens that are left after truncation, and
  /// for logits that are not finite.
  template <std::convertible_to<std::string_view> Text>
  std::vector<std::vector<MaskToken>> operator()(const Text& text, std::size_t count = 5) const {
    return run({state_->tokenizer.encode(std::string_view(text))}, count)[0];
  }
  /// Returns the tokens for each mask of each text. The texts are packed in batches, in order, without padding. @throws
  /// Error as above.
  std::vector<std::vector<std::vector<MaskToken>>> operator()(const std::vector<std::string>& texts,
                                                              std::size_t count = 5) const {
    return run(state_->tokenizer.encode_batch(texts), count);
  }

 private:
  using State = detail::TextModel<BertMaskedLm<>>;

  explicit FillMask(std::shared_ptr<const State> state) : state_("FillMask", std::move(state)) {}

  std::vector<std::vector<std::vector<MaskToken>>> run(const std::vector<text::Encoding>& texts,
                                                       std::size_t count) const {
    const std::int32_t mask = state_->tokenizer.find(state_->mask_token);
    std::vector<std::size_t> masks;  // of each text
    for (std::size_t text = 0; text < texts.size(); ++text) {
      masks.push_back(static_cast<std::size_t>(std::count(texts[text].ids.begin(), texts[text].ids.end(), mask)));
      require(masks.back() > 0, "FillMask: text ", text, " has no ", state_->mask_token, " among its ",
              texts[text].ids.size(), " tokens", texts[text].truncated > 0 ? ", to which it was truncated" : "");
    }
    const auto compute = [&]<class A>(A, const Tensor<int>& ids, const Sequences& sequences,
                                      const ForwardOptions<A>& options) {
      std::vector<int> rows;
      const std::vector<int> all = ids.host();
      for (std::size_t row = 0; row < all.size(); ++row)
        if (all[row] == mask) rows.push_back(static_cast<int>(row));
      const Tensor<int> of_masks = Tensor<int>({std::ssize(rows)}, rows).to(ids.device());
      return state_->model.template forward<A>(ids, sequences, of_masks, options);
    };
    std::vector<std::vector<std::vector<MaskToken>>> results;
    state_->run(state_.name(), texts, compute, [&](const Tensor<float>& z, std::size_t) {
      const Tensor<float> p = softmax(z, -1);  // [M, V]
      const float *row = std::as_const(p).data(), *const end = row + p.size();
      while (row != end) {
        std::vector<std::vector<MaskToken>>& of_text = results.emplace_back();
        for (std::size_t m = 0; m < masks[results.size() - 1]; ++m, row += p.dim(1))
          of_text.push_back(best_of({row, static_cast<std::size_t>(p.dim(1))}, count));
      }
    });
    return results;
  }
  // Returns the most probable tokens. A model may have more embeddings than its tokenizer has tokens: those are left
  // out.
  std::vector<MaskToken> best_of(std::span<const float> probabilities, std::size_t count) const {
    const auto known = std::min(probabilities.size(), static_cast<std::size_t>(state_->tokenizer.size()));
    std::vector<std::int32_t> ids(known);
    std::iota(ids.begin(), ids.end(), 0);
    const auto last = ids.begin() + static_cast<std::ptrdiff_t>(std::min(count, known));
    const auto probability = [&](std::int32_t id) { return probabilities[static_cast<std::size_t>(id)]; };
    std::partial_sort(ids.begin(), last, ids.end(), [&](std::int32_t a, std::int32_t b) {
      return std::pair(-probability(a), a) < std::pair(-probability(b), b);
    });
    std::vector<MaskToken> best;
    for (auto id = ids.begin(); id != last; ++id)
      best.push_back({*id, std::string(state_->tokenizer.token(*id)), probability(*id)});
    return best;
  }

  detail::Shared<State> state_;
};

}  // namespace heddle::models
