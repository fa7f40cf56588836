// Labels words, and finds entities such as names, with a token classifier's folder of transformers.
#pragma once
#include <heddle/models/text_model.hpp>
#include <heddle/ops/softmax.hpp>

namespace heddle::models {

/// A word and its label.
struct TaggedWord {
  std::size_t begin;  ///< offset of its first byte in the text
  std::size_t end;    ///< offset behind its last byte
  std::string label;  ///< of the word's first token
  float probability;  ///< of this label, for the first token

  /// Compares all members.
  bool operator==(const TaggedWord&) const = default;
};

/// Some neighboring words, or a token, with one label.
struct Entity {
  std::size_t begin;  ///< offset of its first byte in the text
  std::size_t end;    ///< offset behind its last byte
  std::string label;  ///< without B- and I-, except with Aggregation::none
  float score;        ///< the mean probability of the label over the tokens or words

  /// Compares all members.
  bool operator==(const Entity&) const = default;
};

/// How tokens become entities, as in transformers' pipeline. `none`: each token is one. `simple`: neighboring tokens of
/// one label are one. The others first choose one label for each word: that of its `first` token, that of the mean
/// (`average`) probabilities, or that of the token with the highest (`max`) probability.
enum class Aggregation { none, simple, first, average, max };

/// An encoder with a label for each token, and its tokenizer. Copies share both. Const functions may be called by
/// several threads at once, and throw Error for an object that was moved from. A text of more tokens than the model's
/// positions or the tokenizer's limit is truncated.
class TokenClassifier {
 public:
  /// Loads a folder of a BertForTokenClassification, or of a relative (BertFamily). @throws FileError that names the
  /// file and the fault, such as a missing model head, and Error for a device that this build does not support.
  static TokenClassifier load(const std::string& folder, const LoadOptions& options = {}) {
    PretrainedConfig config = detail::read_bert(folder, "label tokens");
    detail::LoadedTokenizer tokenizer = detail::make_tokenizer(folder, config, false, true);
    const auto labels = static_cast<Index>(config.labels.size());
    return TokenClassifier(detail::load_text_model<BertTokenClassifier<>>(
        folder, std::move(config), std::move(tokenizer), options, TokenHead::labels, labels));
  }

  /// Returns the names of the labels.
  const std::vector<std::string>& labels() const { return state_->config.labels; }

  /// Returns the words of a text with their labels. Words are counted as in text::Encoding::word_ids; punctuation marks
  /// are words, too. @throws Error for logits that are not finite.
  template <std::convertible_to<std::string_view> Text>
  std::vector<TaggedWord> operator()(const Text& text) const {
    return words_of({state_->tokenizer.encode(std::string_view(text))})[0];
  }
  /// Returns the words of each text. They are packed in batches, in order, without padding. @throws Error as above.
  std::vector<std::vector<TaggedWord>> operator()(const std::vector<std::string>& texts) const {
    return words_of(state_->tokenizer.encode_batch(texts));
  }

  /// Returns the entities of a text in order; tokens labelled O are none. Labels that begin with B- and I- say where an
  /// entity begins and where it goes on. If some of the folder's labels begin with S-, E-, U- or L-, these are single
  /// words and ends (BIOES and BILOU); transformers takes them as labels of their own. @throws Error as above.
  template <std::convertible_to<std::string_view> Text>
  std::vector<Entity> entities(const Text& text, Aggregation aggregation = Aggregation::simple) const {
    const std::string_view view = text;
    return entities_of({state_->tokenizer.encode(view)}, {view}, aggregation)[0];
  }
  /// Returns the entities of each text. @throws Error as above.
  std::vector<std::vector<Entity>> entities(const std::vector<std::string>& texts,
                                            Aggregation aggregation = Aggregation::simple) const {
    return entities_of(state_->tokenizer.encode_batch(texts), {texts.begin(), texts.end()}, aggregation);
  }

 private:
  using State = detail::TextModel<BertTokenClassifier<>>;

  // The tokens of a text, without the special ones that were added, and their probabilities [T, C].
  struct Tokens {
    const text::Encoding& text;
    std::vector<std::size_t> numbers;
    const float* probabilities;
    std::size_t labels;

    std::span<const float> of(std::size_t number) const { return {probabilities + number * labels, labels}; }
  };
  // A token or a word whose label is chosen.
  struct Chosen {
    std::size_t begin, end;
    int label;
    float score;
  };
  // The place of a label in an entity.
  enum class Place { begin, inside, end, single };

  explicit TokenClassifier(std::shared_ptr<const State> state) : state_("TokenClassifier", std::move(state)) {}

  // Calls describe(tokens, number) for each text, and returns the results.
  template <class Result, class Describe>
  std::vector<std::vector<Result>> run(const std::vector<text::Encoding>& texts, Describe describe) const {
    std::vector<std::vector<Result>> results;
    const auto compute = [&]<class A>(A, const Tensor<int>& ids, const Sequences& sequences,
                                      const ForwardOptions<A>& options) {
      return state_->model.template forward<A>(ids, sequences, options);
    };
    state_->run(state_.name(), texts, compute, [&](const Tensor<float>& z, std::size_t first) {
      const Tensor<float> p = softmax(z, -1);  // [N, C]
      const float *row = std::as_const(p).data(), *const end = row + p.size();
      for (std::size_t text = first; row != end; ++text) {
        Tokens tokens{texts[text], {}, row, labels().size()};
        for (std::size_t t = 0; t < texts[text].ids.size(); ++t)
          if (texts[text].word_ids[t] >= 0) tokens.numbers.push_back(t);
        results.push_back(describe(tokens, text));
        row += texts[text].ids.size() * labels().size();
      }
    });
    return results;
  }

  static int best_of(std::span<const float> probabilities) {
    return static_cast<int>(std::max_element(probabilities.begin(), probabilities.end()) - probabilities.begin());
  }
  const std::string& name_of(int label) const { return labels()[static_cast<std::size_t>(label)]; }

  std::vector<std::vector<TaggedWord>> words_of(const std::vector<text::Encoding>& texts) const {
    return run<TaggedWord>(texts, [&](const Tokens& tokens, std::size_t) {
      std::vector<TaggedWord> words;
      std::int32_t last = -1;
      for (const std::size_t t : tokens.numbers) {
        const Chosen token = chosen_token(tokens, t);
        if (const std::int32_t word = tokens.text.word_ids[t]; std::exchange(last, word) != word)
          words.push_back({token.begin, token.end, name_of(token.label), token.score});
        else
          words.back().end = token.end;
      }
      return words;
    });
  }
  std::vector<std::vector<Entity>> entities_of(const std::vector<text::Encoding>& encoded,
                                               const std::vector<std::string_view>& texts,
                                               Aggregation aggregation) const {
    return run<Entity>(encoded, [&](const Tokens& tokens, std::size_t number) {
      std::vector<Chosen> chosen;
      if (aggregation == Aggregation::none || aggregation == Aggregation::simple)
        for (const std::size_t t : tokens.numbers) chosen.push_back(chosen_token(tokens, t));
      else
        chosen = chosen_words(tokens, texts[number], aggregation);
      return aggregation == Aggregation::none ? ungrouped(chosen) : grouped(chosen);
    });
  }

  Chosen chosen_token(const Tokens& tokens, std::size_t t) const {
    const auto p = tokens.of(t);
    const int best = best_of(p);
    return {tokens.text.offsets[t].begin, tokens.text.offsets[t].end, best, p[static_cast<std::size_t>(best)]};
  }

  // Chooses a label for each word.
  std::vector<Chosen> chosen_words(const Tokens& tokens, std::string_view text, Aggregation aggregation) const {
    std::vector<Chosen> words;
    for (std::size_t i = 0, end = 0; i < tokens.numbers.size(); i = end) {
      end = i + 1;
      while (end < tokens.numbers.size() && continues_word(tokens, tokens.numbers[end], text)) ++end;
      const std::span<const std::size_t> own(tokens.numbers.data() + i, end - i);
      Chosen word = chosen_of(tokens, own, aggregation);
      word.begin = tokens.text.offsets[own.front()].begin;
      word.end = tokens.text.offsets[own.back()].end;
      words.push_back(word);
    }
    return words;
  }
  Chosen chosen_of(const Tokens& tokens, std::span<const std::size_t> word, Aggregation aggregation) const {
    Chosen best = chosen_token(tokens, word.front());
    if (aggregation == Aggregation::max)
      for (const std::size_t t : word)
        if (const Chosen other = chosen_token(tokens, t); other.score > best.score) best = other;
    if (aggregation != Aggregation::average) return best;
    std::vector<float> mean(tokens.labels);
    for (std::size_t label = 0; label < mean.size(); ++label) {
      float sum = 0;
      for (const std::size_t t : word) sum += tokens.of(t)[label];
      mean[label] = sum / static_cast<float>(word.size());
    }
    best.label = best_of(mean);
    best.score = mean[static_cast<std::size_t>(best.label)];
    return best;
  }
  // Returns whether a token continues a word. As in transformers' pipeline, that is a token other than the unknown one
  // that has another number of characters than the text that it stands for, such as "##ing" for "ing". If tokens have
  // no such prefix, it is one before which, and at whose beginning, the text has no blank.
  bool continues_word(const Tokens& tokens, std::size_t t, std::string_view text) const {
    const std::string_view token = state_->tokenizer.token(tokens.text.ids[t]);
    if (token == "[UNK]" || token == "<unk>") return false;
    const auto [begin, end] = tokens.text.offsets[t];
    if (!state_->tokenizer.has_continuing_prefix())
      return begin > 0 && text[begin - 1] != ' ' && (begin == text.size() || text[begin] != ' ');
    return characters_in(token) != characters_in(text.substr(begin, end - begin));
  }
  static std::size_t characters_in(std::string_view bytes) {
    std::size_t count = 0;
    for (const char *at = bytes.data(), *end = at + bytes.size(); at != end; ++count) text::decode_utf8(at, end);
    return count;
  }

  std::vector<Entity> ungrouped(const std::vector<Chosen>& chosen) const {
    std::vector<Entity> entities;
    for (const Chosen& one : chosen)
      if (name_of(one.label) != "O") entities.push_back({one.begin, one.end, name_of(one.label), one.score});
    return entities;
  }
  // Joins neighbors of one label.
  std::vector<Entity> grouped(const std::vector<Chosen>& chosen) const {
    std::vector<Entity> entities;
    for (std::size_t i = 0, end = 0; i < chosen.size(); i = end) {
      for (end = i + 1; end < chosen.size() && goes_on(chosen[end - 1].label, chosen[end].label);) ++end;
      const std::string &name = name_of(chosen[i].label), label = name.substr(name.find('-') + 1);
      if (label == "O") continue;
      float sum = 0;
      for (std::size_t k = i; k < end; ++k) sum += chosen[k].score;
      entities.push_back({chosen[i].begin, chosen[end - 1].end, label, sum / static_cast<float>(end - i)});
    }
    return entities;
  }
  bool goes_on(int before, int after) const {
    const auto [place, label] = parts_of(after);
    const auto [last_place, last_label] = parts_of(before);
    return label == last_label && place != Place::begin && place != Place::single && last_place != Place::end &&
           last_place != Place::single;
  }
  // Returns the place and the name that a label stands for.
  std::pair<Place, std::string_view> parts_of(int label) const {
    const std::string_view name = name_of(label);
    if (name.size() < 2 || name[1] != '-') return {Place::inside, name};
    const std::string_view rest = name.substr(2);
    if (name[0] == 'B') return {Place::begin, rest};
    if (name[0] == 'I') return {Place::inside, rest};
    if (name[0] == 'E' || name[0] == 'L') return {Place::end, rest};
    if (name[0] == 'S' || name[0] == 'U') return {Place::single, rest};
    return {Place::inside, name};
  }

  detail::Shared<State> state_;
};

}  // namespace heddle::models
