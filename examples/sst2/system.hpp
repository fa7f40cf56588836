// The system of the program sst2: an encoder classifier on SST-2.
#pragma once
#include <heddle/data/tsv.hpp>

#include "../common/trainer.hpp"
#include "../common/vocabulary.hpp"
#include "model.hpp"

namespace heddle::examples {

// Returns the first `limit` rows of a file (0: all). Throws FileError for a label that is not 0 or 1.
inline EncodedTexts read_sst2(const std::string& path, Index limit, const text::WordPiece& tokenizer) {
  const data::Table table = data::read_tsv(path);
  for (const std::string& sentence : table.notes.sentences()) note(path + ": " + sentence);
  const std::size_t sentence = table.column("sentence"), label = table.column("label");
  std::vector<std::string> texts;
  std::vector<int> labels;
  const std::size_t rows = limit ? std::min(table.rows(), static_cast<std::size_t>(limit)) : table.rows();
  require<FileError>(rows > 0, io::printable(path), ": has no rows");
  for (std::size_t row = 0; row < rows; ++row) {
    const std::string_view l = table[row][label];
    require<FileError>(l == "0" || l == "1", table.where(row), ": the label is ", io::quoted_name(l),
                       " but must be 0 or 1");
    texts.emplace_back(table[row][sentence]);
    labels.push_back(l == "1");
  }
  return encode(tokenizer, texts, labels);
}

class Sst2 {
 public:
  using Model = Sst2Model;
  static constexpr int classes = 2;
  static constexpr const char* name = "sst2";
  static constexpr const char* description = "Trains an encoder classifier on SST-2, evaluates and applies it.";
  static constexpr const char* sample = HEDDLE_SAMPLES "/sst2/sample";
  struct Flags {
    OwnFlags saved = {};
    static std::vector<std::string> choices() { return {}; }
    void add(CLI::App&) {}
  };
  static TrainerFlags defaults() { return {}; }

  Sst2(const Setup& setup, const Flags&)
      : flags_(setup.flags), data_(setup.data), vocabulary_(setup, setup.data), sizes_(setup.sizes) {
    if (sizes_.ff_width == 0) sizes_.ff_width = 4 * sizes_.d_model;
    if (setup.saved)
      require<FileError>(setup.saved->labels.size() == classes, io::printable(flags_.out + "/config.json"),
                         ": the model has ", setup.saved->labels.size(), " classes; ", name, " has ", classes);
    tokenizer_.emplace(
        vocabulary_.tokenizer({.uncased = setup.uncased, .max_length = static_cast<std::size_t>(sizes_.max_length)},
                              setup.saved ? setup.saved->vocabulary : 0));
  }

  ModelSizes sizes() const { return sizes_; }
  Index vocabulary() const { return tokenizer_->vocabulary().size(); }
  std::vector<std::string> labels() const { return {"negative", "positive"}; }
  std::map<std::string, std::string> files() const { return {{"vocab.txt", vocabulary_.content()}}; }
  train::RunSettings settings() const { return {{"--vocab", train::checksum(io::crc64(vocabulary_.content()))}}; }

  TextSplits read_splits() {
    TextSplits splits{read_split("train", flags_.train_rows), read_split("dev", flags_.valid_rows), {}};
    const data::Corpus& train = splits.train.rows;
    std::set<int> found;
    for (Index row = 0; row < train.count(); ++row) found.insert(train.label(row));
    require<FileError>(flags_.evaluate || found.size() == classes, io::printable(file_of("train")), ": the ",
                       train.count(), " rows to train on hold a single class; two are needed");
    return splits;
  }
  EncodedTexts encode(const std::vector<std::string>& texts) const {
    return examples::encode(*tokenizer_, texts, std::vector<int>(texts.size(), 0));
  }
  std::string token(int id) const { return std::string(tokenizer_->token(id)); }
  Model make_model(Random& random) const {
    return Model({.vocabulary = vocabulary(),
                  .max_length = sizes_.max_length,
                  .d_model = sizes_.d_model,
                  .heads = sizes_.heads,
                  .head_dim = sizes_.head_dim,
                  .ff_width = sizes_.ff_width,
                  .layers = sizes_.layers,
                  .classes = classes,
                  .dropout = flags_.dropout},
                 random);
  }

 private:
  // Returns the file of a split: a table, or a token file if there is no table.
  std::string file_of(const std::string& split) const {
    const std::string table = data_ + '/' + split + ".tsv", tokens = data_ + '/' + split + ".tokens";
    return io::path_exists(table) || !io::path_exists(tokens) ? table : tokens;
  }
  SplitTexts read_split(const std::string& split, Index limit) const {
    const std::string file = file_of(split);
    if (file.ends_with(".tsv")) return read_sst2(file, limit, *tokenizer_);
    return {open_labelled_tokens(file, identify(*tokenizer_), classes), {.max_length = sizes_.max_length}, limit};
  }

  const TrainerFlags& flags_;
  std::string data_;
  VocabularyFile vocabulary_;
  ModelSizes sizes_;
  std::optional<text::WordPiece> tokenizer_;
};

}  // namespace heddle::examples
