// The system of the program surnames: a classifier of surnames by language.
#pragma once
#include <heddle/data/split.hpp>

#include "../common/trainer.hpp"
#include "model.hpp"
#include "names.hpp"

namespace heddle::examples {

class Surnames {
 public:
  using Model = SurnameModel;
  static constexpr const char* name = "surnames";
  static constexpr const char* description = "Trains a classifier of surnames by language, evaluates and applies it.";
  static constexpr const char* sample = HEDDLE_SAMPLES "/surnames/sample";
  static constexpr const char* unused_flags[] = {"--vocab", "--uncased"};
  struct Flags {
    OwnFlags saved{{"layer", "own"}};
    static std::vector<std::string> choices() { return {"own", "library"}; }
    void add(CLI::App& app) {
      add_choice(app, "--layer", saved["layer"], choices(),
                 "This program's encoder layer, or nn::TransformerEncoderLayer");
    }
  };
  static TrainerFlags defaults() {
    TrainerFlags f;
    f.epochs = 10;
    f.batch_size = 16;
    f.sizes = {.layers = 1, .d_model = 64, .heads = 1, .head_dim = 64, .ff_width = 64, .max_length = 64};
    return f;
  }

  Surnames(const Setup& setup, const Flags& own)
      : setup_(setup),
        is_library_(own.saved.at("layer") == "library"),
        languages_(setup.saved ? setup.saved->labels : read_languages(setup.data)) {
    require_size(setup, "--layers", setup.sizes.layers, 1);
    require_size(setup, "--heads", setup.sizes.heads, 1);
    require_size(setup, "--head-dim", setup.sizes.head_dim, setup.sizes.d_model);
  }

  ModelSizes sizes() const { return setup_.sizes; }
  Index vocabulary() const { return cls; }
  std::vector<std::string> labels() const { return languages_; }
  std::map<std::string, std::string> files() const { return {{"split.tsv", split_}}; }

  // Returns the split of the seed with which the model was trained.
  TextSplits read_splits() {
    require<FileError>(languages_ == read_languages(setup_.data), io::printable(setup_.data),
                       ": its files are not named after the languages that the model knows");
    std::vector<std::string> names;
    std::vector<std::vector<int>> ids;
    std::vector<int> labels;
    for (std::size_t l = 0; l < languages_.size(); ++l)
      for (const std::string& each : read_names(setup_.data + '/' + languages_[l] + ".txt")) {
        names.push_back(each);
        ids.push_back(encode_name(each));
        labels.push_back(static_cast<int>(l));
      }
    const data::Split split =
        data::stratified_split(labels, ids, {.seed = setup_.seed, .first_stream = stream(Stream::split)});
    const auto rows_of = [&](const std::string& part, const std::vector<Index>& rows, Index limit) {
      EncodedTexts texts;
      for (const Index row : rows) {
        const auto i = static_cast<std::size_t>(row);
        split_ += part + '\t' + languages_[static_cast<std::size_t>(labels[i])] + '\t' + names[i] + '\n';
        if (limit == 0 || texts.rows.count() < limit) texts.add(ids[i], labels[i], sizes().max_length);
      }
      return texts;
    };
    return {rows_of("train", split.train, setup_.flags.train_rows),
            rows_of("valid", split.valid, setup_.flags.valid_rows), rows_of("test", split.test, 0)};
  }
  EncodedTexts encode(const std::vector<std::string>& names) const {
    EncodedTexts out;
    for (const std::string& each : names) out.add(encode_name(each), 0, sizes().max_length);
    return out;
  }
  std::string token(int id) const {
    return id == cls ? "[CLS]" : std::string(1, symbols[static_cast<std::size_t>(id)]);
  }
  Model make_model(Random& random, bool library) const {
    return Model(sizes(), cls, static_cast<Index>(languages_.size()), setup_.flags.dropout, library, random);
  }
  Model make_model(Random& random) const { return make_model(random, is_library_); }

  // Prints the confusion matrix of the test names. With --layer library, also trains the program's own layer and
  // compares both.
  template <class A>
  void at_end(const Splits& splits, const FinalScores& scores, const OutFolder* out) const {
    const TrainerFlags& flags = setup_.flags;
    report_confusion(*scores.test.confusion, languages_, out);
    if (!is_library_) return;
    std::printf("\nthe same training with --layer own\n");
    Random random(flags.seed, stream(Stream::init));
    Model own = make_model(random, false);
    to(own, flags.target_device());
    Training<A, Model> training(own, splits, flags, sizes(), nullptr, {.is_part = true});
    train::MetricsFile none("");
    const FinalScores own_scores = training.run(none);
    std::printf("\nlayer    valid accuracy  test accuracy\n");
    for (const auto& [label, s] : {std::pair{"library", &scores}, {"own", &own_scores}})
      std::printf("%-7s  %14.4f  %13.4f\n", label, s->valid["accuracy"], s->test["accuracy"]);
  }

 private:
  Setup setup_;
  bool is_library_;
  std::vector<std::string> languages_;
  std::string split_;  // the content of split.tsv
};

}  // namespace heddle::examples
