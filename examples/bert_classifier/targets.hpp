// Models whose targets are numbers: sets of labels, values, and scores of pairs.
#pragma once
#include <charconv>
#include <heddle/models/reranker.hpp>

#include "setup.hpp"
#include "target_model.hpp"

namespace heddle::examples {

constexpr const char* objective_of(TargetKind kind) {
  return kind == TargetKind::label_sets ? "label sets" : kind == TargetKind::values ? "values" : "pair scores";
}

template <TargetKind kind>
class TargetSystem : public FineTuning {
 public:
  using Model = TargetModel;
  struct Flags : BertFlags {
    Flags() {
      saved["objective"] = objective_of(kind);
      problem = kind == TargetKind::label_sets ? "multi" : kind == TargetKind::values ? "regression" : "pair";
    }
  };

  TargetSystem(const Setup& setup, const BertFlags& own) : FineTuning(setup, own, objective_of(kind)) {
    const TrainerFlags& flags = setup_.flags();
    if (!setup_.folder().empty() && has_head_) require_fitting_head();
    require(!flags.is_given("--task"), "--task: ", own.asked(), " needs a table, --train and --valid");
    require(kind == TargetKind::label_sets || !flags.is_given("--label-weights"),
            "--label-weights needs --problem multi");
    require(kind != TargetKind::pair_scores || !flags.predict.empty() || !own.columns.second.empty(), own.asked(),
            " needs --text-pair, the column of the second text");
    if (flags.predict.empty()) read_rows();
    nlohmann::json& json = setup_.config().json;
    if (!json.is_object()) json = nlohmann::json::object();
    if constexpr (kind == TargetKind::pair_scores) {
      json.erase("problem_type");  // with it, transformers would train with another loss
      has_sigmoid_ = !has_head_ || models::Reranker::has_sigmoid(setup_.folder());
      if (!has_sigmoid_) json["sentence_transformers"]["activation_fn"] = "torch.nn.modules.linear.Identity";
    } else {
      json["problem_type"] = kind == TargetKind::values ? "regression" : "multi_label_classification";
    }
    setup_.make_tokenizer();
  }

  train::RunSettings settings() const {
    train::RunSettings all = FineTuning::settings();
    io::Crc64 sum;
    sum.add(std::as_bytes(std::span(targets_->values)));
    all["--label"] = train::checksum(sum.value());
    all["--label-weights"] = own_.label_weights;
    return all;
  }
  std::string model_config() const { return to_json(setup_.config(), classifier_architecture(setup_.config())).dump(); }

  TextSplits read_splits() {
    const auto numbers = [](std::size_t first, std::size_t count) {
      std::vector<int> all(count);
      std::iota(all.begin(), all.end(), static_cast<int>(first));
      return all;
    };
    const std::size_t rows = train_.first.size();
    return {encoded(train_, numbers(0, rows)), encoded(valid_, numbers(rows, valid_.first.size())), {}};
  }
  EncodedTexts encode(const std::vector<std::string>& lines) const {
    return encode_lines(lines, kind == TargetKind::pair_scores || !own_.columns.second.empty());
  }
  Model make_model(Random& random) const {
    Model model(make_classifier(random), kind, targets_, {});
    if (!positive_weights_.empty())
      model.positive_weights =
          Tensor<float>({std::ssize(positive_weights_)}, positive_weights_).to(setup_.flags().target_device());
    return model;
  }

  // Prints the rows of each label.
  void print_targets() const {
    if (kind != TargetKind::label_sets) return;
    std::printf("labels      %zu\n", labels().size());
    const std::size_t rows = train_.first.size();
    print_counts("label", labels(), rows_of_labels(0, rows), rows_of_labels(rows, valid_.first.size()));
  }

  // Prints the labels whose probability is above 0.5 and all probabilities, or the values.
  void print_prediction(const std::string& /*text*/, std::span<const double> logits) const {
    std::string names, numbers;
    for (std::size_t c = 0; c < logits.size(); ++c) {
      const double x = logits[c];
      const bool is_logit = kind == TargetKind::values || setup_.flags().logits || !has_sigmoid_;
      if (x > 0) names += (names.empty() ? "" : "|") + labels()[c];
      numbers += (c > 0 ? "\t" : "") + nine_digits(is_logit ? x : 1 / (1 + std::exp(-x)));
    }
    print_line(kind == TargetKind::label_sets ? names + '\t' + numbers : numbers);
  }

 private:
  // Throws FileError for a folder with a head of another problem.
  void require_fitting_head() const {
    const std::size_t count = labels().size();
    if (kind == TargetKind::pair_scores) {
      require<FileError>(count == 1, setup_.config_file(), ": has ", count, " labels; a score of a pair is one");
      return;
    }
    setup_.require_problem(kind == TargetKind::values ? models::Problem::regression : models::Problem::multi_label);
  }

  void read_rows() {
    const bool has_labels = !own_.columns.label.empty() || !own_.columns.third.empty();
    require(!own_.train.empty() && !own_.valid.empty() && !own_.columns.text.empty() && has_labels, own_.asked(),
            " needs --train, --valid, --text and ", own_.is_reranker ? "--score or --negative" : "--label");
    for (const std::string& path : {own_.train, own_.valid})
      require<FileError>(!data::is_token_file(path), io::printable(path),
                         ": is a token file, whose labels are classes; ", own_.asked(), " needs a table");
    require(own_.columns.label.empty() || own_.columns.third.empty(), own_.asked(),
            " takes --score or --negative, not both");
    train_ = as_pairs(read_table(own_.train, own_.columns, train_rows()));
    valid_ = as_pairs(read_table(own_.valid, own_.columns, valid_rows()));
    const std::vector<std::string>& columns = train_.label_columns;
    require<FileError>(kind != TargetKind::pair_scores || columns.size() == 1, io::printable(own_.train), ": ",
                       columns.size(), " columns of scores were given; a score of a pair is one");
    require(std::set<std::string>(columns.begin(), columns.end()).size() == columns.size(),
            "--label names a column twice");
    require<FileError>(valid_.label_columns.size() == columns.size(), io::printable(own_.valid), ": has ",
                       valid_.label_columns.size(), " of the columns in --label, but ", io::printable(own_.train),
                       " has ", columns.size());
    std::vector<std::string>& names = setup_.config().labels;
    constexpr double largest = std::numeric_limits<float>::max();
    const auto targets_of = [&](const LabelledTexts& texts) {
      if (kind == TargetKind::label_sets) return label_sets(texts, names);
      const bool is_pair = kind == TargetKind::pair_scores;
      return numbers_in(texts, is_pair ? 0 : -largest, is_pair ? 1 : largest, names);
    };
    if (!has_head_)
      names = kind == TargetKind::label_sets     ? labels_in(train_, valid_)
              : train_.label_columns.size() == 1 ? std::vector<std::string>{"LABEL_0"}
                                                 : train_.label_columns;
    require_printable(names, has_head_ ? setup_.folder() + "/config.json" : own_.train);
    require<FileError>(kind == TargetKind::label_sets || train_.label_columns.size() == names.size(),
                       io::printable(own_.train), ": ", train_.label_columns.size(),
                       " columns of numbers were given; the model has ", names.size());
    Targets all = targets_of(train_);
    const Targets valid = targets_of(valid_);
    all.values.insert(all.values.end(), valid.values.begin(), valid.values.end());
    targets_ = std::make_shared<const Targets>(std::move(all));
    if (kind == TargetKind::label_sets) choose_weights();
  }

  // Returns the number of rows that have each label, among `count` rows from `first` on.
  std::vector<Index> rows_of_labels(std::size_t first, std::size_t count) const {
    const auto width = static_cast<std::size_t>(targets_->width);
    std::vector<Index> rows(width);
    for (std::size_t i = first * width; i < (first + count) * width; ++i) rows[i % width] += targets_->values[i] > 0.5f;
    return rows;
  }

  // Computes the weights of the labels' positive terms.
  void choose_weights() {
    const std::string& text = own_.label_weights;
    if (text == "none") return;
    const std::size_t count = labels().size();
    if (text == "balanced") {
      const auto rows = static_cast<float>(train_.first.size());
      for (const Index with : rows_of_labels(0, train_.first.size()))
        positive_weights_.push_back(with == 0 || static_cast<float>(with) == rows
                                        ? 1.f
                                        : (rows - static_cast<float>(with)) / static_cast<float>(with));
      return;
    }
    const char *at = text.data(), *const end = at + text.size();
    for (bool more = true; more;) {
      float weight = 0;
      const auto [stop, error] = std::from_chars(at, end, weight);
      more = error == std::errc() && stop != end && *stop == ',';
      require(error == std::errc() && std::isfinite(weight) && weight > 0 && (stop == end || more), "--label-weights ",
              io::quoted_name(text), " must be none, balanced, or positive numbers with commas between them");
      positive_weights_.push_back(weight);
      at = stop + 1;
    }
    require(positive_weights_.size() == count, "--label-weights has ", positive_weights_.size(),
            " numbers; the model has ", count, " labels");
  }

  LabelledTexts train_, valid_;
  std::shared_ptr<const Targets> targets_ = std::make_shared<const Targets>();
  bool has_sigmoid_ = true;              // whether the score of a pair is the sigmoid of its logit
  std::vector<float> positive_weights_;  // empty if all are 1
};

}  // namespace heddle::examples
