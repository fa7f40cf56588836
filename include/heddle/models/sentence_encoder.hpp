// Embeds text with a model folder of BERT, of a relative or of sentence-transformers (Reimers and Gurevych 2019).
#pragma once
#include <heddle/models/sentence_state.hpp>

namespace heddle::models {

/// An encoder with a tokenizer and the modules of its folder, such as a pooling. Copies share them. Const functions may
/// be called by several threads at once, and throw Error for an object that was moved from.
class SentenceEncoder {
 public:
  /// Loads a folder. modules.json defines how vectors are computed; without it they are means, normalized to length 1.
  /// @throws FileError that names the file and the fault, such as a module that heddle does not have, and Error for a
  /// device that this build does not support.
  static SentenceEncoder load(const std::string& folder, const LoadOptions& options = {}) {
    return SentenceEncoder(detail::SentenceFolder(folder).load(options));
  }

  /// Returns the number of elements of a vector; 0 if the folder has no pooling.
  Index width() const { return std::min(width_ > 0 ? width_ : state_->dimensions, state_->width); }
  /// Returns the width of the rows.
  Index row_width() const { return state_->row_width; }
  /// Returns the poolings whose vectors are concatenated.
  std::vector<Pooling> poolings() const { return state_->model.poolings(); }
  /// Returns whether vectors have length 1.
  bool normalized() const { return state_->model.normalizes() && width() == state_->width; }
  /// Returns the folder's prompts by name.
  const std::map<std::string, std::string>& prompts() const { return state_->prompts.texts; }

  /// Returns a copy that puts a prompt of the folder before each text, in place of its default prompt. @throws Error
  /// for a name that the folder does not have.
  SentenceEncoder with_prompt(const std::string& name) const {
    SentenceEncoder copy = with_prompt_text(state_->prompts.at(state_.name(), name));
    if (name == "query") copy.role_ = detail::TextRole::query;
    if (name == "document") copy.role_ = detail::TextRole::document;
    return copy;
  }
  /// Returns a copy that puts `prompt` before each text; "" stands for none.
  SentenceEncoder with_prompt_text(const std::string& prompt) const {
    SentenceEncoder copy = *this;
    copy.set_prompt(prompt);
    copy.role_ = detail::TextRole::none;
    return copy;
  }
  /// Returns a copy whose vectors are the first `count` elements. As in sentence-transformers, they are not normalized
  /// again. @throws Error unless `count` is from 1 to the number of elements that the folder's modules compute.
  SentenceEncoder with_dimensions(Index count) const {
    require(count >= 1 && count <= state_->width, state_.name(), ": a vector has ", state_->width,
            " elements; it cannot be truncated to ", count);
    SentenceEncoder copy = *this;
    copy.width_ = count;
    return copy;
  }

  /// Returns the vector [D] of one text, truncated to the model's positions or the folder's limit, whichever is
  /// smaller. @throws Error for values that are not finite.
  template <std::convertible_to<std::string_view> Text>
  Tensor<float> operator()(const Text& text) const {
    return run({std::string(std::string_view(text))}).with_shape({width()});
  }
  /// Returns the vectors [B, D] of B texts. They are packed in batches, in order, without padding. @throws Error as for
  /// one text.
  Tensor<float> operator()(const std::vector<std::string>& texts) const { return run(texts); }

  /// Returns the rows [tokens, D] of one text, [CLS] and [SEP] among them: the last hidden state, changed by the
  /// folder's modules for rows. In a folder for late interaction (ColBERT), texts with the prompts "query" and
  /// "document" have the folder's lengths and expansions, and the rows of punctuation may be left out. @throws Error as
  /// for a vector.
  template <std::convertible_to<std::string_view> Text>
  Tensor<float> rows(const Text& text) const {
    return rows_of({std::string(std::string_view(text))})[0];
  }
  /// Returns the rows of each text. @throws Error as for a vector.
  std::vector<Tensor<float>> rows(const std::vector<std::string>& texts) const { return rows_of(texts); }

 private:
  using State = detail::SentenceState;

  explicit SentenceEncoder(std::shared_ptr<const State> state) : state_("SentenceEncoder", std::move(state)) {
    set_prompt(state_->prompts.initial());
  }

  void set_prompt(const std::string& prompt) {
    prompt_ = prompt;
    // All tokens of the prompt as a text, with [CLS] and without [SEP].
    prompt_tokens_ = prompt.empty() ? 0 : static_cast<Index>(state_->tokenizer.encode(prompt).ids.size()) - 1;
  }

  Tensor<float> run(const std::vector<std::string>& texts) const {
    const State& state = *state_;
    require(state.width > 0, state_.name(), ": the folder's modules have no Pooling; use rows()");
    const Index D = width();
    Tensor<float> all({static_cast<Index>(texts.size()), D});
    float* to = all.data();
    const auto compute = [&]<class A>(A, const Tensor<int>& ids, const Sequences& sequences, const ForwardOptions<A>&) {
      return state.model.template vectors<A>(ids, sequences, prompt_tokens_);
    };
    state.run(state_.name(), detail::encode_with(state.tokenizer, prompt_, texts), compute,
              [&](const Tensor<float>& vectors, std::size_t) {
                for (Index b = 0; b < vectors.dim(0); ++b) to = std::copy_n(vectors.data() + b * vectors.dim(1), D, to);
              });
    return all;
  }

  // Texts that are computed together.
  struct Group {
    std::vector<std::size_t> numbers;  // their numbers among all texts
    std::vector<text::Encoding> texts;
    std::vector<int> attended;  // how many tokens of each its tokens attend to; if empty, all
  };

  std::vector<Tensor<float>> rows_of(const std::vector<std::string>& texts) const {
    const std::optional<detail::LateInteraction>& late = state_->late;
    Group whole, expanded;
    std::vector<text::Encoding> encoded = detail::encode_with(state_->tokenizer, prompt_, texts);
    for (std::size_t i = 0; i < encoded.size(); ++i) {
      const int attended = late ? late->prepare(encoded[i], role_) : static_cast<int>(encoded[i].ids.size());
      const bool is_whole = attended == static_cast<int>(encoded[i].ids.size());
      Group& group = is_whole ? whole : expanded;
      group.numbers.push_back(i);
      group.texts.push_back(std::move(encoded[i]));
      if (!is_whole) group.attended.push_back(attended);
    }
    std::vector<Tensor<float>> all(texts.size());
    for (const Group* group : {&whole, &expanded}) add_rows(*group, all);
    return all;
  }
  // Computes the rows of a group. Expanded texts have one length, so that the tokens that are attended to are a padded
  // batch.
  void add_rows(const Group& group, std::vector<Tensor<float>>& all) const {
    const State& state = *state_;
    auto attended = group.attended.begin();
    const auto compute = [&]<class A>(A, const Tensor<int>& ids, const Sequences& sequences, const ForwardOptions<A>&) {
      if (group.attended.empty()) return state.model.template rows<A>(ids, sequences);
      const auto begin = std::exchange(attended, attended + sequences.count());
      const Sequences keys = Sequences::padded({begin, attended}, sequences.longest()).to(ids.device());
      return state.model.template rows<A>(ids, sequences, &keys);
    };
    state.run(state_.name(), group.texts, compute, [&](const Tensor<float>& rows, std::size_t text) {
      for (const float *from = rows.data(), *const end = from + rows.size(); from != end; ++text) {
        std::vector<float> used;
        for (const std::int32_t id : group.texts[text].ids) {
          if (!state.late || state.late->uses(id, role_)) used.insert(used.end(), from, from + row_width());
          from += row_width();
        }
        all[group.numbers[text]] = Tensor<float>({static_cast<Index>(used.size()) / row_width(), row_width()}, used);
      }
    });
  }

  detail::Shared<State> state_;
  std::string prompt_;
  detail::TextRole role_ = detail::TextRole::none;
  Index prompt_tokens_ = 0;
  Index width_ = 0;  // the number of elements of a vector that are used; 0: the folder's
};

}  // namespace heddle::models
