// Classifiers that choose one class of several.
#include "setup.hpp"

namespace heddle::examples {
namespace {

class BertClassifierSystem : public FineTuning {
 public:
  using Model = models::SequenceClassifier<>;
  static TrainerFlags defaults() {
    TrainerFlags f = BertProgram::defaults();
    f.train_rows = 500;
    f.valid_rows = 1000;
    return f;
  }

  BertClassifierSystem(const Setup& setup, const Flags& own) : FineTuning(setup, own, "classes") {
    const TrainerFlags& flags = setup_.flags();
    if (!setup_.folder().empty()) {
      setup_.require_problem(models::Problem::single_label);
      require<FileError>(labels().size() >= 2, setup_.config_file(), ": has one class; a classifier has at least two");
    }
    const bool table = !own.train.empty() || !own.valid.empty();
    takes_tokens_ = table && (data::is_token_file(own.train) || data::is_token_file(own.valid));
    if (flags.predict.empty() && takes_tokens_)
      require(data::is_token_file(own.train) && data::is_token_file(own.valid),
              "token files need --train and --valid: one of them is no token file");
    else if (flags.predict.empty() && table)
      require(!own.train.empty() && !own.valid.empty() && !own.columns.text.empty() && !own.columns.label.empty(),
              "a table needs --train, --valid, --text and --label");
    for (const char* flag : {"--text", "--text-pair", "--label", "--format"})
      require(!takes_tokens_ || !flags.is_given(flag), flag, ": a token file has no columns");
    require(!flags.is_given("--label-weights"), "--label-weights needs --problem multi");
    if (flags.predict.empty()) {
      read_texts(setup.seed);
      choose_classes();
    }
    setup_.make_tokenizer();
  }

  std::string model_config() const { return to_json(setup_.config(), classifier_architecture(setup_.config())).dump(); }

  TextSplits read_splits() {
    if (takes_tokens_) {
      const auto split = [&](const std::string& path, Index most) {
        const data::TokenFile file = open_labelled_tokens(path, identify(setup_.tokenizer()), std::ssize(labels()));
        return SplitTexts(file, setup_.rows_of_tokens(0, file.count()), most);
      };
      return {split(own_.train, train_rows()), split(own_.valid, valid_rows()), {}};
    }
    return {encoded(train_, class_of_each(train_, labels(), may_be_numbers_)),
            encoded(valid_, class_of_each(valid_, labels(), may_be_numbers_)),
            {}};
  }
  EncodedTexts encode(const std::vector<std::string>& lines) const {
    return encode_lines(lines, !own_.columns.second.empty());
  }
  Model make_model(Random& random) const { return make_classifier(random); }

 private:
  void read_texts(std::uint64_t seed) {
    const TrainerFlags& flags = setup_.flags();
    if (takes_tokens_) return;
    if (!own_.train.empty()) {
      train_ = read_table(own_.train, own_.columns, train_rows());
      valid_ = read_table(own_.valid, own_.columns, valid_rows());
    } else if (own_.task == "sst2") {
      const TableColumns columns{"sentence", "", "label"};
      const std::string folder = setup_.flags().data.empty() ? HEDDLE_SAMPLES "/sst2/sample" : setup_.data();
      train_ = read_table(folder + "/train.tsv", columns, train_rows());
      valid_ = read_table(folder + "/dev.tsv", columns, valid_rows());
      train_.numbers_first = valid_.numbers_first = true;
    } else {
      const std::string whole = setup_.data() + "/train.csv", subset = setup_.data() + "/train_subset.csv";
      const bool is_limited = flags.is_given("--train-rows");
      train_ = read_ag_news(io::path_exists(whole) || !io::path_exists(subset) ? whole : subset, flags.train_rows,
                            is_limited ? std::nullopt : std::optional(seed));
      valid_ = read_ag_news(setup_.data() + "/test.csv", flags.valid_rows);
    }
  }
  // Chooses the classes: those of config.json if the model has a classifier, otherwise those of the task. For a table,
  // config.json decides if it names classes (id2label), otherwise the table.
  void choose_classes() {
    std::vector<std::string>& labels = setup_.config().labels;
    const bool task = own_.train.empty();
    const std::vector<std::string> of_task = own_.task == "sst2"
                                                 ? std::vector<std::string>{"negative", "positive"}
                                                 : std::vector<std::string>{"World", "Sports", "Business", "Sci/Tech"};
    if (has_head_) {
      require_printable(labels, setup_.folder() + "/config.json");
      const bool agrees = !task || labels.size() == of_task.size();
      require<FileError>(agrees, io::printable(setup_.folder() + "/config.json"), ": the model has ", labels.size(),
                         " classes; ", own_.task, " has ", of_task.size());
      may_be_numbers_ = task || !has_number(labels);
      return;
    }
    if (task) {
      labels = of_task;
    } else if (setup_.folder().empty() || setup_.config().json.value("id2label", nlohmann::json()).is_null()) {
      Classes classes = takes_tokens_ ? classes_of_tokens() : classes_in(train_, valid_);
      labels = std::move(classes.names);
      may_be_numbers_ = classes.are_numbers;
    } else {
      require_printable(labels, setup_.folder() + "/config.json");
      may_be_numbers_ = !has_number(labels);
    }
  }
  // Returns LABEL_0, LABEL_1 and so on, up to the highest label of both token files.
  Classes classes_of_tokens() const {
    int highest = 1;
    for (const std::string& path : {own_.train, own_.valid}) {
      const data::TokenFile file(path);
      for (Index text = 0; text < file.count(); ++text) highest = std::max(highest, file.label(text));
      constexpr int most = 10'000;
      require<FileError>(highest < most, file.name(), ": has the label ", highest, "; a classifier has at most ", most,
                         " classes");
    }
    return numbered_classes(highest);
  }

  LabelledTexts train_, valid_;
  bool takes_tokens_ = false;   // whether --train and --valid are token files
  bool may_be_numbers_ = true;  // whether a label may be the number of its class
};

}  // namespace

int train_classes(int argc, char** argv) { return trainer<BertClassifierSystem>(argc, argv); }

}  // namespace heddle::examples
