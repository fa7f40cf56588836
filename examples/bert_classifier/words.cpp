// Models that label words, trained on CoNLL files.
#include <heddle/data/conll.hpp>

#include "setup.hpp"
#include "word_model.hpp"

namespace heddle::examples {
namespace {

class WordSystem : public FineTuning {
 public:
  using Model = WordModel;
  static constexpr bool labels_tokens = true;  // --predict receives the logits of each token
  struct Flags : BertFlags {
    Flags() {
      saved["objective"] = "word labels";
      problem = "token";
    }
  };

  WordSystem(const Setup& setup, const Flags& own) : FineTuning(setup, own, "word labels", "ForTokenClassification") {
    require(own.from_scratch == "no",
            "--problem token needs a folder of a BERT or a relative; --from-scratch has none");
    require<FileError>(setup_.config().bert(), setup_.config_file(),
                       ": describes a heddle-prenorm model, which cannot label words");
    for (const char* flag : {"--task", "--text", "--text-pair", "--label", "--format", "--label-weights"})
      require(!setup_.flags().is_given(flag), flag, ": --problem token reads CoNLL files, which have no such choice");
    setup_.use_offsets();
    setup_.make_tokenizer();
    if (setup_.flags().predict.empty()) read_sentences();
    setup_.config().json.erase("problem_type");
  }

  std::string model_config() const {
    return to_json(setup_.config(), models::detail::class_prefix(setup_.config()) + "ForTokenClassification").dump();
  }
  train::RunSettings settings() const {
    train::RunSettings all = FineTuning::settings();
    io::Crc64 sum;
    for (const WordLabels& each : *words_)
      for (const std::vector<int>& numbers : {each.tokens, each.labels}) sum.add(std::as_bytes(std::span(numbers)));
    all["--label"] = train::checksum(sum.value());
    return all;
  }

  TextSplits read_splits() { return {std::move(train_), std::move(valid_), {}}; }
  EncodedTexts encode(const std::vector<std::string>& lines) const {
    return setup_.rows_of(setup_.tokenizer().encode_batch(lines), std::vector<int>(lines.size()));
  }
  Model make_model(Random& random) const {
    const PretrainedConfig& config = setup_.config();
    const auto count = static_cast<Index>(config.labels.size());
    models::require_sizes(config, setup_.folder());
    models::BertTokenClassifier<> model(*config.bert(), models::TokenHead::labels, count, random);
    load(model, random);
    freeze(model);
    return {std::move(model), words_, std::make_shared<const std::vector<std::string>>(config.labels)};
  }

  // Prints the words of each label.
  void print_targets() const {
    std::printf("labels      %zu\n", labels().size());
    print_counts("label", labels(), words_of_labels(0, train_sentences_),
                 words_of_labels(train_sentences_, words_->size()), " words");
  }

  // Prints a line for each word, with its label and the label's probability, or all logits, and an empty line.
  void print_prediction(const std::string& text, std::span<const double> logits) const {
    const text::Encoding encoding = setup_.tokenizer().encode(text);
    const std::size_t width = labels().size();
    std::string lines;
    for (std::size_t t = 0; t < encoding.ids.size(); ++t) {
      const int word = encoding.word_ids[t];
      if (word < 0 || (t > 0 && encoding.word_ids[t - 1] == word)) continue;
      std::size_t end = encoding.offsets[t].end;
      for (std::size_t next = t; next < encoding.ids.size() && encoding.word_ids[next] == word; ++next)
        end = std::max<std::size_t>(end, encoding.offsets[next].end);
      const std::span z = logits.subspan(t * width, width);
      const auto best = static_cast<std::size_t>(std::max_element(z.begin(), z.end()) - z.begin());
      double sum = 0;
      for (const double x : z) sum += std::exp(x - z[best]);
      lines += text.substr(encoding.offsets[t].begin, end - encoding.offsets[t].begin) + '\t' + labels()[best];
      if (setup_.flags().logits)
        for (const double x : z) lines += '\t' + nine_digits(x);
      else
        lines += '\t' + nine_digits(1 / sum);
      lines += '\n';
    }
    print_line(lines);
  }

 private:
  void read_sentences() {
    require(!own_.train.empty() && !own_.valid.empty(), "--problem token needs --train and --valid, CoNLL files");
    for (const std::string& path : {own_.train, own_.valid})
      require<FileError>(!data::is_token_file(path), io::printable(path),
                         ": is a token file, whose words have no labels; --problem token needs a CoNLL file");
    const data::LabelledWords train = read(own_.train, train_rows()), valid = read(own_.valid, valid_rows());
    std::vector<std::string>& names = setup_.config().labels;
    if (!has_head_) {
      std::set<std::string> distinct;
      for (const data::LabelledWords* file : {&train, &valid})
        for (const data::Sentence& sentence : file->sentences)
          distinct.insert(sentence.labels.begin(), sentence.labels.end());
      names.assign(distinct.begin(), distinct.end());
      constexpr std::size_t most = 10'000;
      require<FileError>(names.size() <= most, train.file, ": has ", names.size(), " labels; a model has at most ",
                         most);
    }
    require_printable(names, has_head_ ? setup_.folder() + "/config.json" : own_.train);
    std::vector<WordLabels> words;
    train_ = encoded(train, words);
    train_sentences_ = words.size();
    valid_ = encoded(valid, words);
    words_ = std::make_shared<const std::vector<WordLabels>>(std::move(words));
  }
  static data::LabelledWords read(const std::string& path, Index limit) {
    data::LabelledWords file = data::read_conll(path);
    for (const std::string& sentence : file.notes.sentences()) note(file.file + ": " + sentence);
    if (limit > 0 && limit < std::ssize(file.sentences)) file.sentences.resize(static_cast<std::size_t>(limit));
    return file;
  }

  // Encodes sentences, and adds the labels of their words to `words`.
  SplitTexts encoded(const data::LabelledWords& file, std::vector<WordLabels>& words) const {
    std::vector<std::string> texts;
    for (const data::Sentence& sentence : file.sentences) {
      std::string text;
      for (const std::string& word : sentence.words) text += (text.empty() ? "" : " ") + word;
      texts.push_back(std::move(text));
    }
    std::vector<text::Encoding> found;
    std::vector<int> numbers;
    const std::vector<text::Encoding> all = setup_.tokenizer().encode_batch(texts);
    Index without_tokens = 0;
    for (std::size_t i = 0; i < all.size(); ++i) {
      WordLabels each = labels_of(file, i, all[i], without_tokens);
      if (each.tokens.empty()) continue;
      numbers.push_back(static_cast<int>(words.size()));
      words.push_back(std::move(each));
      found.push_back(all[i]);
    }
    if (without_tokens > 0)
      note(file.file + ": " + std::to_string(without_tokens) +
           (without_tokens == 1 ? " word has no token and was left out" : " words have no token and were left out"));
    require<FileError>(!found.empty(), file.file, ": has no word with a token");
    return setup_.rows_of(found, numbers);
  }

  // Returns the words of a sentence that have a token. Counts words without one, except those that were truncated.
  WordLabels labels_of(const data::LabelledWords& file, std::size_t number, const text::Encoding& encoding,
                       Index& without_tokens) const {
    const data::Sentence& sentence = file.sentences[number];
    const std::vector<std::string>& names = setup_.config().labels;
    WordLabels found;
    std::size_t begin = 0, token = 0;  // of the word
    for (std::size_t w = 0; w < sentence.words.size(); ++w) {
      const auto label = std::find(names.begin(), names.end(), sentence.labels[w]) - names.begin();
      require<FileError>(label < std::ssize(names), file.where(number, w), ": the label ",
                         io::quoted_name(sentence.labels[w]), " is none of the model's ", names.size(), " labels");
      const std::size_t end = begin + sentence.words[w].size();
      const auto ends_before = [&](std::size_t t) {
        return encoding.word_ids[t] < 0 || encoding.offsets[t].begin < begin;
      };
      while (token < encoding.ids.size() && ends_before(token)) ++token;
      if (token < encoding.ids.size() && encoding.offsets[token].begin < end) {
        found.tokens.push_back(static_cast<int>(token));
        found.labels.push_back(static_cast<int>(label));
      } else {
        without_tokens += token < encoding.ids.size() || encoding.truncated == 0;
      }
      begin = end + 1;
    }
    return found;
  }

  std::vector<Index> words_of_labels(std::size_t first, std::size_t last) const {
    std::vector<Index> counts(labels().size());
    for (std::size_t i = first; i < last; ++i)
      for (const int label : (*words_)[i].labels) ++counts[static_cast<std::size_t>(label)];
    return counts;
  }

  SplitTexts train_, valid_;
  std::size_t train_sentences_ = 0;
  std::shared_ptr<const std::vector<WordLabels>> words_ = std::make_shared<const std::vector<WordLabels>>();
};

}  // namespace

int train_words(int argc, char** argv) { return trainer<WordSystem>(argc, argv); }

}  // namespace heddle::examples
