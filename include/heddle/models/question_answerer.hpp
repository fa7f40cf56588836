// Answers questions with parts of a text, with a question answering folder of transformers. The rules are those of
// QuestionAnsweringPipeline in transformers 4.
#pragma once
#include <concepts>
#include <limits>
#include <tuple>
#include <unordered_map>

#include <heddle/models/text_model.hpp>

namespace heddle::models {

/// A part of a context that answers a question.
struct Answer {
  std::size_t begin = 0;  ///< offset of its first byte in the context
  std::size_t end = 0;    ///< offset behind its last byte
  std::string text = {};  ///< the part; empty for "no answer"
  float score = 0;        ///< see QuestionAnswerer
};

/// The options of a call. The defaults are the pipeline's.
struct AnswerOptions {
  Index count = 1;            ///< maximum number of answers that best() returns
  Index longest = 15;         ///< maximum number of tokens in an answer, before it is extended to whole words
  bool may_be_empty = false;  ///< whether "no answer" is one of the answers
  Index stride = 128;         ///< tokens that neighboring spans share; the default is at most half of max_length
  Index max_length = 384;     ///< maximum number of tokens in a span, with the question and 3 special tokens
};

namespace detail {

// Converts texts to lower case, to compare them. It has one lower-case sigma, where str.lower() of Python has two.
class LowerCase {
 public:
  std::string operator()(std::string_view text) const {
    std::string lower;
    for (const char *at = text.data(), *end = at + text.size(); at != end;) append(text::decode_utf8(at, end), lower);
    return lower;
  }

 private:
  void append(char32_t code_point, std::string& to) const {
    const text::Character character = characters_[code_point];
    const auto put = [&](char32_t c) {
      char bytes[text::max_utf8_bytes];
      if (c == final_sigma) c = sigma;
      to.append(bytes, static_cast<std::size_t>(text::encode_utf8(c, bytes)));
    };
    const bool is_letter = character.kind() == text::Kind::word || character.kind() == text::Kind::isolated;
    if (character.kind() == text::Kind::sequence) {
      for (const char32_t target : text::unicode::sequences[character.value()].targets)
        if (target) put(target);
    } else {
      put(is_letter && character.value() ? character.value() : code_point);
    }
  }

  static constexpr char32_t sigma = 0x3C3, final_sigma = 0x3C2;

  text::Characters characters_{true, false};
};

// The answers to a question, from one span of the context after another.
class FoundAnswers {
 public:
  // Adds an answer, or its score to an equal answer.
  void add(std::string_view context, text::TextRange range, double score, const LowerCase& lower_case) {
    const auto [at, is_new] = by_text_.try_emplace(lower_case(part_of(context, range)), answers_.size());
    if (is_new)
      answers_.push_back({range, score});
    else
      answers_[at->second].score += score;
  }
  // Adds the score of "no answer" in a span.
  void add_empty(double score) { empty_score_ = std::min(empty_score_, score); }

  // Returns the answers with the highest scores, best first. Those of equal scores stay in the order of their addition.
  std::vector<Answer> best(std::string_view context, const AnswerOptions& options) && {
    if (options.may_be_empty) answers_.push_back({{}, empty_score_});
    std::stable_sort(answers_.begin(), answers_.end(),
                     [](const Found& a, const Found& b) { return a.score > b.score; });
    std::vector<Answer> answers;
    for (const auto& [range, score] : answers_) {
      if (static_cast<Index>(answers.size()) == options.count) break;
      answers.push_back({range.begin, range.end, std::string(part_of(context, range)), static_cast<float>(score)});
    }
    return answers;
  }

 private:
  struct Found {
    text::TextRange range;
    double score;
  };

  static std::string_view part_of(std::string_view context, text::TextRange range) {
    return context.substr(range.begin, range.end - range.begin);
  }

  std::vector<Found> answers_;
  std::unordered_map<std::string, std::size_t> by_text_;  // the answers, by their text in lower case
  double empty_score_ = std::numeric_limits<double>::infinity();
};

}  // namespace detail

/// An encoder that finds the beginnings and ends of answers, and its tokenizer. Copies share both. Const functions may
/// be called by several threads at once, and throw Error for an object that was moved from.
///
/// The rules are those of transformers' pipeline. A context that does not fit into max_length tokens beside its
/// question is read in overlapping spans; the question is never truncated. The score of the tokens from i to j of a
/// span is p_i q_j, where p and q are the softmax of the logits of beginnings and of ends over the tokens of the
/// context and [CLS]. The 2 count + 10 pairs with the highest scores in each span are extended to whole words. Pairs
/// with the same text in any casing, in one span or several, are one answer: it has the place of the first and the sum
/// of the scores, which may exceed 1. The score of "no answer" is the lowest p_0 q_0 of a span, where 0 is [CLS].
///
/// Unlike the pipeline, heddle has no answers with a score of 0, and none that begins at a "[CLS]" in the question.
class QuestionAnswerer {
 public:
  /// Loads a folder of BertForQuestionAnswering, or of a relative (BertFamily). @throws FileError that names the
  /// file and the fault, such as a missing model head, and Error for a device that this build does not support.
  static QuestionAnswerer load(const std::string& folder, const LoadOptions& options = {}) {
    PretrainedConfig config = detail::read_bert(folder, "answer questions");
    detail::LoadedTokenizer tokenizer = detail::make_tokenizer(folder, config, true);
    require_question_first(folder);
    const auto limit = static_cast<Index>(tokenizer.tokenizer.options().max_length);
    std::vector<text::TemplatePart> form = tokenizer.tokenizer.form(true);
    require_form(form, folder);
    // The tokenizer neither truncates nor adds special tokens, because spans are put together here.
    tokenizer.tokenizer = tokenizer.tokenizer.with({.special_tokens = false, .offsets = true});
    auto model = detail::load_text_model<BertTokenClassifier<>>(folder, std::move(config), std::move(tokenizer),
                                                                options, TokenHead::answer, Index{2});
    return QuestionAnswerer(std::make_shared<const State>(std::move(model), limit, std::move(form)));
  }

  /// Returns the best answer to a question, or an empty one with a score of 0 if the context has no tokens.
  /// options.count is not used. A span has at most as many tokens as the model has positions and the tokenizer's limit
  /// allows. @throws Error for an empty text, for an option that is out of range, and for logits that are not finite.
  /// @throws Error for a context of several spans if the question leaves it no place in a span, or not more than
  /// options.stride tokens.
  template <std::convertible_to<std::string_view> Question, std::convertible_to<std::string_view> Context>
  Answer operator()(const Question& question, const Context& context, AnswerOptions options = {}) const {
    options.count = 1;
    return first_of(run({std::string_view(question)}, {std::string_view(context)}, options)[0]);
  }
  /// Returns the options.count best answers, best first, or fewer if there are no more. @throws Error as above.
  template <std::convertible_to<std::string_view> Question, std::convertible_to<std::string_view> Context>
  std::vector<Answer> best(const Question& question, const Context& context, const AnswerOptions& options) const {
    return run({std::string_view(question)}, {std::string_view(context)}, options)[0];
  }
  /// Returns the best answer to each question from the context at the same position. Spans are packed in batches, in
  /// order, without padding. @throws Error for different numbers of questions and contexts, and as above.
  std::vector<Answer> operator()(const std::vector<std::string>& questions, const std::vector<std::string>& contexts,
                                 AnswerOptions options = {}) const {
    options.count = 1;
    std::vector<Answer> answers;
    for (const std::vector<Answer>& best :
         run({questions.begin(), questions.end()}, {contexts.begin(), contexts.end()}, options))
      answers.push_back(first_of(best));
    return answers;
  }

 private:
  using Texts = std::vector<std::string_view>;
  using Encodings = std::vector<text::Encoding>;

  static constexpr double masked_logit = -10000;  // as in the pipeline

  struct State {
    std::shared_ptr<const detail::TextModel<BertTokenClassifier<>>> model;
    Index limit;                           // maximum number of tokens that the model and its tokenizer allow
    std::vector<text::TemplatePart> form;  // of a question and its context
    Index specials = 0;                    // special tokens in the form
    std::size_t after_context = 0;         // those behind the context
    detail::LowerCase lower_case;
    State(std::shared_ptr<const detail::TextModel<BertTokenClassifier<>>> m, Index l, std::vector<text::TemplatePart> f)
        : model(std::move(m)), limit(l), form(std::move(f)) {
      for (const text::TemplatePart& part : form) {
        specials += std::ssize(part.ids);
        after_context = part.kind == text::TemplatePart::Kind::second_text ? 0 : after_context + part.ids.size();
      }
    }
  };

  // Some tokens of a context, which the model reads after the question.
  struct Span {
    std::size_t pair;        // number of the question and its context
    std::size_t begin, end;  // the tokens
  };
  // The tokens from `begin` to `end`, included, of the model's input.
  struct Candidate {
    double score;
    std::size_t begin, end;
  };

  explicit QuestionAnswerer(std::shared_ptr<const State> state) : state_("QuestionAnswerer", std::move(state)) {}

  // Throws FileError for a tokenizer that pads on the left: transformers' pipeline then reads the context before the
  // question.
  static void require_question_first(const std::string& folder) {
    const std::string path = folder + "/tokenizer_config.json";
    if (io::path_exists(path)) text::detail::require_value(io::JsonFile(path).object(), "padding_side", "right");
  }
  // Throws FileError unless a pair begins with a special token, which stands for "no answer", and the question precedes
  // the context.
  static void require_form(const std::vector<text::TemplatePart>& form, const std::string& folder) {
    using enum text::TemplatePart::Kind;
    std::vector<text::TemplatePart::Kind> texts;
    for (const text::TemplatePart& part : form)
      if (part.kind != special) texts.push_back(part.kind);
    require<FileError>(!form.empty() && form[0].kind == special && !form[0].ids.empty() &&
                           texts == std::vector{first_text, second_text},
                       io::printable(folder + "/tokenizer.json"),
                       ": 'post_processor' must begin a pair with a special token, and give the first text before the "
                       "second");
  }
  static Answer first_of(const std::vector<Answer>& answers) { return answers.empty() ? Answer() : answers.front(); }

  // Returns the best answers to each question.
  std::vector<std::vector<Answer>> run(const Texts& questions, const Texts& contexts, AnswerOptions options) const {
    const State& state = *state_;
    complete(options, state.limit);
    require_texts(questions, contexts);
    const text::Tokenizer& tokenizer = state.model->tokenizer;
    const Encodings asked = tokenizer.encode_batch(questions), read = tokenizer.encode_batch(contexts);
    std::vector<Span> spans;
    for (std::size_t pair = 0; pair < questions.size(); ++pair)
      append_spans(pair, asked[pair].ids.size(), read[pair].ids.size(), options, spans);
    Encodings inputs;
    for (const Span& span : spans) inputs.push_back(input_of(span, asked[span.pair], read[span.pair]));

    std::vector<detail::FoundAnswers> found(questions.size());
    const auto compute = [&]<class A>(A, const Tensor<int>& ids, const Sequences& sequences,
                                      const ForwardOptions<A>& o) {
      return state.model->model.template forward<A>(ids, sequences, o);
    };
    state.model->run(state_.name(), inputs, compute, [&](const Tensor<float>& z, std::size_t number) {
      const float *row = z.data(), *const end = row + z.size();  // [N, 2]
      for (; row != end; row += 2 * inputs[number++].ids.size()) {
        const std::size_t pair = spans[number].pair;
        find(row, spans[number], inputs[number], read[pair], contexts[pair], options, found[pair]);
      }
    });

    std::vector<std::vector<Answer>> answers;
    for (std::size_t pair = 0; pair < questions.size(); ++pair)
      answers.push_back(std::move(found[pair]).best(contexts[pair], options));
    return answers;
  }

  // Checks the options, and limits the length of spans to what the model allows.
  void complete(AnswerOptions& options, Index limit) const {
    for (const auto& [option, value, least] : {std::tuple("count", options.count, 1),
                                               {"longest", options.longest, 1},
                                               {"stride", options.stride, 0},
                                               {"max_length", options.max_length, 1}})
      require(value >= least, state_.name(), ": ", option, " must be at least ", least, ", got ", value);
    options.max_length = std::min(options.max_length, limit);
    if (options.stride == AnswerOptions().stride) options.stride = std::min(options.stride, options.max_length / 2);
  }
  void require_texts(const Texts& questions, const Texts& contexts) const {
    require(questions.size() == contexts.size(), state_.name(), ": each question needs a context, but the sizes are ",
            questions.size(), " and ", contexts.size());
    for (std::size_t pair = 0; pair < questions.size(); ++pair) {
      require(!questions[pair].empty(), state_.name(), ": question ", pair, " is empty");
      require(!contexts[pair].empty(), state_.name(), ": context ", pair, " is empty");
    }
  }

  // Appends the spans of a context of `tokens` tokens, whose question has `asked` tokens.
  void append_spans(std::size_t pair, std::size_t asked, std::size_t tokens, const AnswerOptions& options,
                    std::vector<Span>& spans) const {
    const Index specials = state_->specials, place = options.max_length - specials - static_cast<Index>(asked);
    if (static_cast<Index>(tokens) <= place) return spans.push_back({pair, 0, tokens});
    require(place > 0, state_.name(), ": question ", pair, " has ", asked, " tokens; with ", specials,
            " special tokens and a token of the context, that is more than max_length, ", options.max_length);
    require(options.stride < place, state_.name(), ": the stride is ", options.stride, " but must be less than ", place,
            ", the number of tokens of the context that fit beside question ", pair, " into max_length, ",
            options.max_length);
    const auto length = static_cast<std::size_t>(place), step = static_cast<std::size_t>(place - options.stride);
    std::size_t begin = 0;
    for (; begin + length < tokens; begin += step) spans.push_back({pair, begin, begin + length});
    spans.push_back({pair, begin, tokens});
  }

  text::Encoding input_of(const Span& span, const text::Encoding& question, const text::Encoding& context) const {
    using enum text::TemplatePart::Kind;
    text::Encoding input;
    const auto append = [&](std::span<const std::int32_t> ids) {
      input.ids.insert(input.ids.end(), ids.begin(), ids.end());
    };
    for (const text::TemplatePart& part : state_->form) {
      switch (part.kind) {
        case special: append(part.ids); break;
        case first_text: append(question.ids); break;
        case second_text: append(std::span(context.ids).subspan(span.begin, span.end - span.begin)); break;
      }
      input.type_ids.resize(input.ids.size(), part.type_id);
    }
    return input;
  }

  // Adds the answers in a span, whose logits are [T, 2].
  void find(const float* logits, const Span& span, const text::Encoding& input, const text::Encoding& context,
            std::string_view text, const AnswerOptions& options, detail::FoundAnswers& found) const {
    const std::size_t T = input.ids.size(), end = T - state_->after_context;
    const std::size_t begin = end - (span.end - span.begin);  // of the context
    std::vector<double> p = probabilities(logits, input.ids, {begin, end}),
                        q = probabilities(logits + 1, input.ids, {begin, end});
    found.add_empty(p[0] * q[0]);
    std::vector<Candidate> candidates;
    const auto longest = static_cast<std::size_t>(std::min<Index>(options.longest, static_cast<Index>(T)));
    for (std::size_t i = 1; i < end; ++i)
      for (std::size_t j = i; j < std::min(end, i + longest); ++j)
        if (static_cast<float>(p[i] * q[j]) > 0) candidates.push_back({p[i] * q[j], i, j});
    keep_best(candidates, options.count);
    for (const Candidate& candidate : candidates)
      if (candidate.begin >= begin)  // a [CLS] in the question is no answer
        found.add(text,
                  words_of(span, context, span.begin + candidate.begin - begin, span.begin + candidate.end - begin),
                  candidate.score, state_->lower_case);
  }

  // Returns the softmax over every second logit. Only [CLS] and the tokens of the context have their own logits; the
  // others have masked_logit.
  static std::vector<double> probabilities(const float* logits, const std::vector<std::int32_t>& ids,
                                           text::TextRange context) {
    const std::size_t T = ids.size();
    std::vector<double> p(T, masked_logit);
    for (std::size_t t = 0; t < T; ++t)
      if (ids[t] == ids[0] || (t >= context.begin && t < context.end)) p[t] = static_cast<double>(logits[2 * t]);
    const double greatest = *std::max_element(p.begin(), p.end());
    double sum = 0;
    for (double& value : p) sum += value = std::exp(value - greatest);
    for (double& value : p) value /= sum;
    return p;
  }

  // Keeps as many candidates as the pipeline does for `count` answers, best first.
  static void keep_best(std::vector<Candidate>& candidates, Index count) {
    const std::size_t all = candidates.size();
    const std::size_t kept =
        static_cast<std::size_t>(count) < all ? std::min(all, 2 * static_cast<std::size_t>(count) + 10) : all;
    std::partial_sort(candidates.begin(), candidates.begin() + static_cast<std::ptrdiff_t>(kept), candidates.end(),
                      [](const Candidate& a, const Candidate& b) {
                        return std::tie(b.score, a.begin, a.end) < std::tie(a.score, b.begin, b.end);
                      });
    candidates.resize(kept);
  }

  // Returns the bytes of the tokens from `first` to `last` of a context, and of those of their words in the span.
  static text::TextRange words_of(const Span& span, const text::Encoding& context, std::size_t first,
                                  std::size_t last) {
    const std::vector<std::int32_t>& words = context.word_ids;
    while (first > span.begin && words[first - 1] == words[first]) --first;
    while (last + 1 < span.end && words[last + 1] == words[last]) ++last;
    return {context.offsets[first].begin, context.offsets[last].end};
  }

  detail::Shared<State> state_;
};

}  // namespace heddle::models
