// The system of the program ag_news: a self-attention classifier of news on BERT's embedding layer.
#pragma once
#include <heddle/data/csv.hpp>
#include <heddle/train/heat_map.hpp>

#include "../common/trainer.hpp"
#include "../common/vocabulary.hpp"
#include "pretrained.hpp"
#include "text.hpp"

namespace heddle::examples {

class AgNews {
 public:
  using Model = NewsModel;
  static constexpr const char* name = "ag_news";
  static constexpr const char* description =
      "Trains a self-attention classifier of news on BERT's embedding layer, evaluates and applies it.";
  static constexpr const char* sample = HEDDLE_SAMPLES "/ag_news/sample";
  static constexpr bool drop_last = true;
  static constexpr const char* unused_flags[] = {"--dropout", "--ff-width"};
  struct Flags {
    OwnFlags saved{{"plain-text", "no"}};
    std::string embeddings, train_embeddings = "no", stop_words, lemmas;
    static std::vector<std::string> choices() { return {"yes", "no"}; }
    void add(CLI::App& app) {
      add_path(app, "--embeddings", embeddings, "Hugging Face folder of a BERT model, whose embedding layer is used");
      add_switch(app, "--train-embeddings", train_embeddings, "Train the embedding layer too");
      add_switch(app, "--plain-text", saved["plain-text"], "Keep case, digits, punctuation and all words");
      add_path(app, "--stop-words", stop_words, "Words to remove, one a line");
      add_path(app, "--lemmas", lemmas, "Table of words to replace: word, tab, lemma");
    }
  };
  static TrainerFlags defaults() {
    TrainerFlags f;
    f.epochs = 5;
    f.lr = 5e-5;
    f.train_rows = 20'000;
    f.valid_rows = 1'000;
    f.sizes = {.layers = 1, .d_model = 768, .heads = 1, .head_dim = 768, .ff_width = 0, .max_length = 512};
    return f;
  }

  AgNews(const Setup& setup, const Flags& own)
      : flags_(setup.flags),
        own_(own),
        data_(setup.data),
        vocabulary_(setup, own.embeddings.empty() ? setup.data : own.embeddings,
                    own.embeddings.empty() ? "--data" : "--embeddings"),
        sizes_(setup.sizes),
        is_plain_(own.saved.at("plain-text") == "yes"),
        is_saved_(setup.saved.has_value()) {
    require(!is_saved_ || own.embeddings.empty(), "--embeddings: the model in ", io::printable(flags_.out),
            " has its own embedding layer");
    if (!own.embeddings.empty()) use(own.embeddings);
    require_size(setup, "--layers", sizes_.layers, 1);
    require_size(setup, "--ff-width", sizes_.ff_width, 0);
    require(sizes_.max_length <= 512, setup.source(), "--max-length is ", sizes_.max_length,
            "; ag_news has at most 512 positions");
    read_cleaning(setup, own);
    const std::string own_vocabulary = flags_.out + "/vocab.txt";
    require<FileError>(
        !is_saved_ || !io::path_exists(own_vocabulary) || io::read_file(own_vocabulary) == vocabulary_.content(),
        io::printable(vocabulary_.path()), ": is not the vocabulary of the model in ", io::printable(flags_.out));
    tokenizer_.emplace(vocabulary_.tokenizer({.uncased = setup.uncased, .special_tokens = false}));
    rows_ = pretrained_ ? pretrained_->vocabulary() : setup.saved ? setup.saved->vocabulary : tokens();
    for (const char* needed : {"[CLS]", "[UNK]"})
      require<FileError>(tokenizer_->vocabulary().id(needed) < rows_, io::printable(vocabulary_.path()), ": '", needed,
                         "' is token ", tokenizer_->vocabulary().id(needed), ", but the embedding layer has ", rows_,
                         " rows");
  }

  ModelSizes sizes() const { return sizes_; }
  Index vocabulary() const { return rows_; }
  std::vector<std::string> labels() const { return {"World", "Sports", "Business", "Sci/Tech"}; }
  std::map<std::string, std::string> files() const {
    std::map<std::string, std::string> files = cleaning_files_;
    files["vocab.txt"] = vocabulary_.content();
    return files;
  }
  train::RunSettings settings() const {
    const auto sum = [&](const char* file) {
      const auto found = cleaning_files_.find(file);
      return found == cleaning_files_.end() ? std::string(train::no_file) : train::checksum(io::crc64(found->second));
    };
    return {{"--vocab", train::checksum(io::crc64(vocabulary_.content()))},
            {"--stop-words", sum("stop_words.txt")},
            {"--lemmas", sum("lemmas.txt")},
            {"--train-embeddings", own_.train_embeddings},
            {"--embeddings", pretrained_ ? train::checksum(pretrained_->checksum()) : train::no_file}};
  }

  TextSplits read_splits() {
    const std::string whole = data_ + "/train.csv", subset = data_ + "/train_subset.csv";
    require<FileError>(io::path_exists(whole) || io::path_exists(subset), io::printable(data_),
                       ": has neither train.csv nor train_subset.csv");
    const std::string train = io::path_exists(whole) ? whole : subset;
    choose_pictures(train);
    return {read_split(train, flags_.train_rows), read_split(data_ + "/test.csv", flags_.valid_rows), {}};
  }
  EncodedTexts encode(const std::vector<std::string>& texts) const {
    return encode(texts, std::vector<int>(texts.size(), 0));
  }
  std::string token(int id) const { return std::string(tokenizer_->token(id)); }
  Model make_model(Random& random) const {
    Model model(sizes_, rows_, 4, random);
    if (pretrained_)
      pretrained_->read_into(model.embeddings);
    else if (!is_saved_ && flags_.init.empty() && !flags_.resume)
      note("the embedding layer is drawn at random from the seed; --embeddings reads one");
    if (own_.train_embeddings == "no") each_parameter(model.embeddings, [](const Name&, auto& p) { p.freeze(); });
    return model;
  }

  // Draws the attention on up to two texts of the training file.
  template <class A>
  void after_step(const Model& model, Index step, train::EventWriter& events) const {
    const NoGrad quiet;
    for (const auto& [text, ids] : pictures_) {
      const auto T = static_cast<Index>(ids.size());
      const Sequences one = Sequences::packed({static_cast<int>(T)}).to(flags_.target_device());
      const Tensor<float> x =
          cast<float>(model.embeddings.forward<A>(Tensor<int>({T}, ids).to(flags_.target_device()), one));  // [T, D]
      const Tensor<float> weights = model.attend.record(x, one).weights.to(Device::cpu);  // [1, H, T, T]
      std::vector<std::string> tokens;
      for (const int id : ids) tokens.emplace_back(tokenizer_->token(id));
      events.image("Text attention: " + text, train::heat_map({view<3>(weights), tokens, tokens}), step);
    }
  }

 private:
  // Takes the sizes of the folder's embedding layer. Throws Error for a --d-model that differs, for a --max-length
  // above the layer's positions, and, if --head-dim is not given, for --heads that do not divide the width.
  void use(const std::string& folder) {
    pretrained_.emplace(folder);
    const Index width = pretrained_->width(), positions = std::min<Index>(512, pretrained_->positions());
    require(!flags_.is_given("--d-model") || sizes_.d_model == width, "--d-model is ", sizes_.d_model,
            "; the embedding layer in ", io::printable(folder), " has ", width);
    require(!flags_.is_given("--max-length") || sizes_.max_length <= positions, "--max-length is ", sizes_.max_length,
            "; the embedding layer in ", io::printable(folder), " has ", positions, " positions");
    if (!flags_.is_given("--max-length")) sizes_.max_length = positions;
    sizes_.d_model = width;
    require(flags_.is_given("--head-dim") || width % sizes_.heads == 0, "--heads ", sizes_.heads,
            " do not divide the width ", width, " of the embedding layer; give a --head-dim");
    if (!flags_.is_given("--head-dim")) sizes_.head_dim = width / sizes_.heads;
  }

  // Reads stop words and lemmas. They belong to the model: a trained one has them in its folder.
  void read_cleaning(const Setup& setup, const Flags& own) {
    const auto read = [&](const char* flag, const std::string& path, const std::string& file, auto&& parse) {
      require(path.empty() || !is_plain_, flag, " and --plain-text exclude each other");
      std::optional<std::string> content;
      if (is_saved_)
        content = read_model_file(flags_.out, *setup.saved, file);
      else if (!path.empty())
        content = io::read_file(path);
      require<FileError>(!is_saved_ || path.empty() || content == io::read_file(path), io::printable(path),
                         ": is not what the model in ", io::printable(flags_.out), " was trained with");
      if (!content) return;
      parse(data::parse_text(*content, is_saved_ ? flags_.out + '/' + file : path));
      cleaning_files_[file] = std::move(*content);
    };
    read("--stop-words", own.stop_words, "stop_words.txt",
         [&](const data::TextFile& words) { cleaning_.stop_words = read_stop_words(words); });
    read("--lemmas", own.lemmas, "lemmas.txt",
         [&](const data::TextFile& table) { cleaning_.lemmas = read_lemmas(table); });
  }

  Index tokens() const { return tokenizer_->vocabulary().size(); }

  // Returns the text that the model sees.
  std::string prepared(const std::string& text) const {
    const std::string repaired = repair(text);
    return is_plain_ ? repaired : clean(repaired, cleaning_);
  }
  // Returns [CLS] and the text's tokens; a token without a row in the embedding layer becomes [UNK].
  std::vector<int> ids_of(std::span<const std::int32_t> tokens_of_text) const {
    const text::Vocabulary& v = tokenizer_->vocabulary();
    std::vector<int> ids{v.id("[CLS]")};
    for (const std::int32_t id : tokens_of_text) ids.push_back(id < rows_ ? id : v.id("[UNK]"));
    return ids;
  }
  EncodedTexts encode(const std::vector<std::string>& texts, const std::vector<int>& labels) const {
    std::vector<std::string> prepared_texts;
    for (const std::string& text : texts) prepared_texts.push_back(prepared(text));
    const auto encodings = tokenizer_->encode_batch(prepared_texts);
    EncodedTexts rows;
    for (std::size_t i = 0; i < texts.size(); ++i) rows.add(ids_of(encodings[i].ids), labels[i], sizes_.max_length);
    return rows;
  }
  EncodedTexts read_split(const std::string& path, Index limit) const {
    const NewsRows rows = read_news(path, limit);
    for (const std::string& sentence : rows.sentences) note(io::printable(path) + ": " + sentence);
    return encode(rows.texts, rows.labels);
  }

  // Keeps the texts of the training file whose attention is drawn.
  void choose_pictures(const std::string& path) {
    if (flags_.out.empty() || flags_.evaluate) return;
    const NewsTable news = read_news_table(path);
    for (const std::size_t row : {std::size_t{1129}, std::size_t{4534}}) {
      if (row >= news.rows()) {
        note(io::printable(path) + ": row " + std::to_string(row) + ", counted from 0, is missing, so it is not drawn");
        continue;
      }
      const std::string text = prepared(news.text(row));
      if (!pictures_.empty() && pictures_[0].first == text) continue;  // a tag has one picture a step
      std::vector<int> ids = ids_of(tokenizer_->encode(text).ids);
      ids.resize(std::min(ids.size(), static_cast<std::size_t>(sizes_.max_length)));
      pictures_.emplace_back(text, ids);
    }
  }

  const TrainerFlags& flags_;
  const Flags& own_;
  std::string data_;
  VocabularyFile vocabulary_;
  ModelSizes sizes_;
  bool is_plain_, is_saved_;
  std::optional<PretrainedEmbeddings> pretrained_;
  CleanOptions cleaning_;
  std::map<std::string, std::string> cleaning_files_;  // content by name in --out
  std::optional<text::WordPiece> tokenizer_;
  Index rows_ = 0;  // rows of the embedding layer
  std::vector<std::pair<std::string, std::vector<int>>> pictures_;
};

}  // namespace heddle::examples
