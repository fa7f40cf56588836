// bert_classifier: fine-tunes, evaluates and applies BERT and DistilBERT classifiers from Hugging Face folders, trains
// a pre-norm encoder from scratch, and pre-trains BERT on plain text.
#include <charconv>
#include <heddle/data/lines.hpp>
#include <heddle/models/text_batches.hpp>

#include "../common/trainer.hpp"
#include "../common/vocabulary.hpp"
#include "labelled_texts.hpp"
#include "pretrainer.hpp"

namespace heddle::examples {
namespace {

using models::PretrainedConfig;

struct BertFlags {
  OwnFlags saved{{"objective", "classes"}};
  std::string task = "ag_news", train, valid, freeze = "none", from_scratch = "no", pad_to_max = "no";
  std::vector<std::string> pretrain;
  TableColumns columns;
  static std::vector<std::string> choices() { return {"classes", "masked tokens"}; }
  void add(CLI::App& app) {
    add_choice(app, "--task", task, {"ag_news", "sst2"}, "Data set in --data");
    add_path(app, "--train", train, "Table to train on, TSV or CSV with a header");
    add_path(app, "--valid", valid, "Table, or texts or a token file for --pretrain, to validate on");
    add_path(app, "--text", columns.text, "Column of the text");
    add_path(app, "--text-pair", columns.second, "Column of the second text; --predict splits lines at a tab");
    add_path(app, "--label", columns.label, "Column of the class: its number from 0, or its name");
    add_choice(app, "--format", columns.format, {"auto", "csv", "tsv"},
               "Format of the tables; auto: by name, otherwise by the first line");
    add_choice(app, "--freeze", freeze, {"none", "embeddings", "encoder"}, "Part of the model that is not trained");
    add_switch(app, "--pad-to-max", pad_to_max, "Pad every text to --max-length, to compare with packed batches");
    add_switch(app, "--from-scratch", from_scratch, "Train a pre-norm encoder from random weights");
    add_paths(
        app, "--pretrain", pretrain,
        "Pre-train BERT as a masked language model on the lines of a text file, or on a token file; several files "
        "are mixed, and FILE:WEIGHT takes FILE so many times in an epoch, such as 0.3 times");
    // The defaults of these flags depend on other flags.
    for (const auto& [flag, help] :
         {std::pair{"--train-rows",
                    "Only the first N training rows (default: 500 rows of ag_news that --seed draws, otherwise all)"},
          {"--valid-rows", "Only the first N validation rows (default: 1000 of ag_news, otherwise all)"},
          {"--dropout", "Probability of every dropout, in [0, 1) (default: those of the model)"},
          {"--evaluate", "Do not train; report the metrics of the model in --out, --model or --init"}})
      set_help(app, flag, help);
  }
};

// Prints a note for the weights that a folder does not have, and one for those that the model does not have.
void print_report(const io::LoadReport& report, const std::string& folder) {
  const auto print = [&](const std::vector<std::string>& names, const char* what) {
    if (names.empty()) return;
    note(io::printable(folder) + ": " + what + " (" + std::to_string(names.size()) + "): " + shortened(names));
  };
  print(report.missing, "has no weights of the model head, which starts from random weights");
  print(report.unexpected, "has weights that the model does not have, which are ignored");
}

// The model and tokenizer of a run: those of a folder, or new ones that the flags describe.
class BertSetup {
 public:
  BertSetup(const Setup& setup, const BertFlags& own)
      : flags_(setup.flags), own_(own), data_(setup.data), is_saved_(setup.saved.has_value()) {
    check_flags();
    folder_ = is_saved_ ? flags_.out : flags_.model;
    if (folder_.empty())
      make_new(setup);
    else
      read_folder(setup);
    if (flags_.is_given("--dropout")) override_dropout();
    const Index positions = config_.positions();
    if (!flags_.predict.empty()) limit_ = std::max(limit_, positions);
    const Index specials = own_.columns.second.empty() ? 2 : 3;  // tokens
    limit_ = std::min(limit_, folder_.empty()
                                  ? positions
                                  : models::detail::longest_text(folder_, tokenizer_limit_, positions, specials));
    require(!flags_.is_given("--max-length") || flags_.sizes.max_length <= positions, "--max-length is ",
            flags_.sizes.max_length, "; the model has ", positions, " positions");
    length_ = flags_.is_given("--max-length") ? flags_.sizes.max_length : limit_;
    require(length_ >= specials, "--max-length is ", length_, specials == 2 ? "; a text has 2" : "; a pair has 3",
            " special tokens");
    options_.max_length = static_cast<std::size_t>(length_);
  }

  const TrainerFlags& flags() const { return flags_; }
  const PretrainedConfig& config() const { return config_; }
  PretrainedConfig& config() { return config_; }
  const std::string& folder() const { return folder_; }  // has the initial weights; empty if they are drawn
  bool is_saved() const { return is_saved_; }
  bool is_applied() const { return flags_.evaluate || !flags_.predict.empty(); }
  bool is_uncased() const { return options_.uncased; }
  const std::string& data() const { return data_; }
  const text::Vocabulary& vocabulary() const { return tokenizer_->vocabulary(); }

  const text::WordPiece& tokenizer() const { return *tokenizer_; }
  // Returns how the texts of a token file become rows.
  data::TokenFileRows rows_of_tokens(Index first, Index last) const {
    return {first, last, length_, own_.pad_to_max == "yes" ? length_ : 0};
  }
  const std::map<std::string, std::string>& files() const { return files_; }

  ModelSizes sizes() const {
    ModelSizes s;
    if (const models::BertConfig* c = config_.bert())
      s = {c->layers, c->D, c->heads, c->D / c->heads, c->ff_width, length_};
    else if (const models::PreNormConfig* p = config_.pre_norm())
      s = {p->layers, p->D, p->heads, p->D / p->heads, p->ff_width, length_};
    return s;
  }

  // Encodes texts on all threads, with a second text where `second` has one. `second` may be empty.
  EncodedTexts encode(const std::vector<std::string>& first, const std::vector<std::optional<std::string>>& second,
                      const std::vector<int>& labels) const {
    std::vector<text::Encoding> encodings(first.size());
    constexpr Index grain = 32;
    kernel::parallel(static_cast<Index>(first.size()), grain, [&](Index begin, Index end) {
      for (auto i = static_cast<std::size_t>(begin); i < static_cast<std::size_t>(end); ++i)
        encodings[i] =
            !second.empty() && second[i] ? tokenizer_->encode_pair(first[i], *second[i]) : tokenizer_->encode(first[i]);
    });
    EncodedTexts rows;
    for (std::size_t i = 0; i < encodings.size(); ++i) {
      const text::Encoding& e = encodings[i];
      const auto one = std::find(e.type_ids.begin(), e.type_ids.end(), 1);
      rows.longest = std::max(rows.longest, static_cast<Index>(e.ids.size() + e.truncated));
      rows.truncated += e.truncated > 0;
      const bool typed = one != e.type_ids.end() && has_types_ && config_.has_types();
      rows.rows.add(e.ids, labels[i], typed ? std::optional<Index>(one - e.type_ids.begin()) : std::nullopt);
    }
    return padded(std::move(rows));
  }
  EncodedTexts padded(EncodedTexts rows) const {
    if (own_.pad_to_max == "yes") rows.rows.pad_to(length_);
    return rows;
  }

  train::RunSettings settings() const {
    io::Crc64 files;
    for (const auto& [name, content] : files_) files.add(std::as_bytes(std::span(content)));
    return {{"--model", flags_.model.empty() ? train::no_file : train::checksum(sum_of_model())},
            {"--from-scratch", own_.from_scratch},
            {"--vocab", train::checksum(files.value())},
            {"--freeze", own_.freeze},
            {"--pad-to-max", own_.pad_to_max},
            {"--max-length", std::to_string(length_)},
            {"--dropout for every dropout", flags_.is_given("--dropout") ? "yes" : "no"}};
  }

  // Makes the tokenizer, which takes over the vocabulary. Called after the checks of a system's constructor.
  void make_tokenizer() {
    if (!tokenizer_) tokenizer_.emplace(std::move(*tokens_), options_, std::move(added_tokens_));
  }

 private:
  void check_flags() const {
    const bool pretrain = !own_.pretrain.empty(), scratch = own_.from_scratch == "yes";
    require(!scratch || flags_.model.empty(), "--from-scratch and --model exclude each other");
    require(!scratch || !pretrain, "--from-scratch and --pretrain exclude each other");
    require(is_saved_ || scratch || pretrain || !flags_.model.empty(),
            "there is no model: give the folder of one with --model, or --from-scratch, or --pretrain");
    require(flags_.model.empty() || flags_.vocab.empty(), "--vocab: the model in --model has its own tokenizer");
    const bool table = !own_.train.empty() || !own_.valid.empty();
    for (const char* flag : {"--text", "--text-pair", "--label", "--format"})
      require(!flags_.is_given(flag) || table || !flags_.predict.empty(), flag, " needs --train and --valid");
    require(!table || !flags_.is_given("--task"), "--task and --train exclude each other");
    require(own_.train.empty() || flags_.data.empty(), "--data and --train exclude each other");
    if (flags_.model.empty()) return;
    for (const char* flag : {"--layers", "--d-model", "--heads", "--ff-width", "--uncased"})
      require(!flags_.is_given(flag), flag, ": the model in --model has its own");
  }

  // Throws FileError unless the model chooses one label of several.
  void require_single_label() const {
    const std::string file = io::printable(folder_ + "/config.json");
    const auto kind = config_.json.find("problem_type");
    require<FileError>(!config_.problem_type || config_.problem() == models::Problem::single_label, file,
                       ": 'problem_type' is ", kind == config_.json.end() ? "" : kind->dump(),
                       "; bert_classifier trains models that choose one label of several");
    require<FileError>(config_.labels.size() >= 2, file, ": has one class; a classifier has at least two");
  }

  // Reads the configuration and the tokenizer of a folder.
  void read_folder(const Setup& setup) {
    config_ = models::read_config(folder_);
    if (own_.pretrain.empty()) require_single_label();
    io::PretrainedTokenizer tokenizer = io::read_tokenizer(folder_);
    if (is_saved_) {
      for (const auto& [name, sum] : setup.saved->files) read_model_file(folder_, *setup.saved, name);
      for (const auto& [name, content] : tokenizer.files)
        require<FileError>(setup.saved->files.count(name), io::printable(folder_ + '/' + name),
                           ": is not a file of the model; remove it");
    }
    require<FileError>(tokenizer.ids() <= config_.vocabulary(), tokenizer.vocabulary.name(), ": has ", tokenizer.ids(),
                       " tokens; the model has ", config_.vocabulary(), " embeddings");
    options_.uncased = tokenizer.uncased;
    options_.strip_accents = tokenizer.strip_accents;
    tokenizer_limit_ = tokenizer.max_length;
    has_types_ = tokenizer.has_types;
    for (const std::string& sentence : tokenizer.vocabulary.notes())
      note(tokenizer.vocabulary.name() + ": " + sentence);
    tokens_ = std::move(tokenizer.vocabulary);
    added_tokens_ = std::move(tokenizer.added_tokens);
    files_ = std::move(tokenizer.files);
    if (flags_.vocab.empty()) return;
    const auto own = files_.find("vocab.txt");
    require(own != files_.end() && own->second == io::read_file(flags_.vocab), "--vocab is ",
            io::printable(flags_.vocab), "; the model in ", io::printable(flags_.out), " has another vocabulary");
  }

  // Makes the configuration that the flags describe, and reads the vocabulary.
  void make_new(const Setup& setup) {
    const VocabularyFile file(setup, data_);
    tokens_ = read_vocabulary(file.content(), file.path());
    added_tokens_ = text::WordPiece::special_tokens(*tokens_);
    options_.uncased = flags_.uncased;
    const ModelSizes& s = flags_.sizes;
    require(s.d_model % s.heads == 0, "--d-model ", s.d_model, " is not a multiple of --heads ", s.heads);
    const Index V = tokens_->size();
    if (own_.pretrain.empty()) {
      config_.sizes = models::PreNormConfig{.vocabulary = V,
                                            .D = s.d_model,
                                            .layers = s.layers,
                                            .heads = s.heads,
                                            .ff_width = s.ff_width,
                                            .positions = s.max_length};
    } else {
      models::BertConfig c;
      c.vocabulary = V;
      c.D = s.d_model;
      c.layers = s.layers;
      c.heads = s.heads;
      c.ff_width = s.ff_width;
      c.positions = s.max_length;
      config_.sizes = c;
    }
    files_["vocab.txt"] = file.content();
    files_["tokenizer_config.json"] = std::string("{\n  \"do_lower_case\": ") + (flags_.uncased ? "true" : "false") +
                                      ",\n  \"model_max_length\": " + std::to_string(s.max_length) +
                                      ",\n  \"tokenizer_class\": \"BertTokenizer\"\n}\n";
  }

  void override_dropout() {
    const double p = flags_.dropout;
    if (auto* bert = std::get_if<models::BertConfig>(&config_.sizes))
      bert->dropout = bert->attention_dropout = bert->classifier_dropout = bert->answer_dropout = p;
    else
      std::get<models::PreNormConfig>(config_.sizes).dropout =
          std::get<models::PreNormConfig>(config_.sizes).embedding_dropout = p;
  }

  std::uint64_t sum_of_model() const {
    io::Crc64 all;
    std::vector<std::string> files = io::WeightFiles(flags_.model).paths();
    files.push_back(flags_.model + "/config.json");
    for (const std::string& file : files) {
      const std::uint64_t sum = io::sum_of_file(file).crc64;
      all.add(std::as_bytes(std::span(&sum, 1)));
    }
    return all.value();
  }

  const TrainerFlags& flags_;
  const BertFlags& own_;
  std::string data_, folder_;
  bool is_saved_;
  PretrainedConfig config_{};
  std::optional<text::Vocabulary> tokens_;
  std::vector<text::AddedToken> added_tokens_;
  text::WordPieceOptions options_;
  std::optional<text::WordPiece> tokenizer_;
  std::map<std::string, std::string> files_;
  Index limit_ = 512, tokenizer_limit_ = 0, length_ = 0;
  bool has_types_ = true;
};

// Flags and defaults that fine-tuning and pre-training share.
struct BertProgram {
  using Flags = BertFlags;
  static constexpr const char* name = "bert_classifier";
  static constexpr const char* sample = HEDDLE_SAMPLES "/ag_news/sample";
  static constexpr bool free_length = true;
  static constexpr const char* unused_flags[] = {"--head-dim"};
  static constexpr const char* description =
      "Fine-tunes, evaluates and applies BERT and DistilBERT classifiers, and pre-trains BERT.";
  static TrainerFlags defaults() {
    TrainerFlags f;
    f.takes_model = true;
    f.epochs = 3;
    f.lr = 5e-5;
    f.optimizer = "adamw";
    f.schedule = "linear";
    f.sizes = {.layers = 12, .d_model = 768, .heads = 12, .head_dim = 64, .ff_width = 3072, .max_length = 512};
    return f;
  }
};

class BertClassifierSystem : public BertProgram {
 public:
  using Model = models::SequenceClassifier<>;
  static TrainerFlags defaults() {
    TrainerFlags f = BertProgram::defaults();
    f.train_rows = 500;
    f.valid_rows = 1000;
    return f;
  }

  BertClassifierSystem(const Setup& setup, const Flags& own) : own_(own), setup_(setup, own) {
    const TrainerFlags& flags = setup_.flags();
    require<FileError>(own.saved.at("objective") == "classes", io::printable(flags.out + "/config.json"),
                       ": describes a masked language model, which has no classes; fine-tune it with --model");
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
    if (flags.predict.empty()) read_texts(setup.seed);
    choose_classes();
    setup_.make_tokenizer();
  }

  ModelSizes sizes() const { return setup_.sizes(); }
  bool is_uncased() const { return setup_.is_uncased(); }
  Index vocabulary() const { return setup_.config().vocabulary(); }
  std::vector<std::string> labels() const { return setup_.config().labels; }
  std::map<std::string, std::string> files() const { return setup_.files(); }
  train::RunSettings settings() const { return setup_.settings(); }
  std::string model_config() const { return to_json(setup_.config(), classifier_architecture(setup_.config())).dump(); }

  TextSplits read_splits() {
    if (takes_tokens_) {
      const auto split = [&](const std::string& path, Index most) {
        const data::TokenFile file = open_labelled_tokens(path, setup_.tokenizer(), std::ssize(labels()));
        return SplitTexts(file, setup_.rows_of_tokens(0, file.count()), most);
      };
      const TrainerFlags& flags = setup_.flags();
      return {split(own_.train, limit("--train-rows", flags.train_rows)),
              split(own_.valid, limit("--valid-rows", flags.valid_rows)),
              {}};
    }
    return {encoded(train_, class_of_each(train_, labels(), may_be_numbers_)),
            encoded(valid_, class_of_each(valid_, labels(), may_be_numbers_)),
            {}};
  }
  EncodedTexts encode(const std::vector<std::string>& lines) const {
    std::vector<std::string> first = lines;
    std::vector<std::optional<std::string>> second;
    if (!own_.columns.second.empty())
      for (std::string& line : first) {
        const std::size_t tab = line.find('\t');
        second.push_back(tab == line.npos ? std::nullopt : std::optional(line.substr(tab + 1)));
        line.resize(std::min(tab, line.size()));
      }
    return setup_.encode(first, second, std::vector<int>(lines.size(), 0));
  }
  Model make_model(Random& random) const {
    const bool is_read = setup_.is_saved() || !setup_.folder().empty();
    if (is_read) models::require_sizes(setup_.config(), setup_.folder());
    Model model = is_read ? models::make_without_values<Model>(setup_.config()) : Model(setup_.config(), random);
    if (is_read && !setup_.is_saved()) {
      const auto head = setup_.is_applied() ? models::MissingHead::refused : models::MissingHead::drawn;
      model.draw_head(random);
      const io::LoadReport report = models::load_pretrained(model, setup_.folder(), head);
      if (!setup_.flags().resume) print_report(report, setup_.folder());
    }
    freeze(model);
    return model;
  }

 private:
  void read_texts(std::uint64_t seed) {
    const TrainerFlags& flags = setup_.flags();
    if (takes_tokens_) return;
    if (!own_.train.empty()) {
      train_ = read_table(own_.train, own_.columns, limit("--train-rows", flags.train_rows));
      valid_ = read_table(own_.valid, own_.columns, limit("--valid-rows", flags.valid_rows));
    } else if (own_.task == "sst2") {
      const TableColumns columns{"sentence", "", "label"};
      const std::string folder = setup_.flags().data.empty() ? HEDDLE_SAMPLES "/sst2/sample" : setup_.data();
      train_ = read_table(folder + "/train.tsv", columns, limit("--train-rows", flags.train_rows));
      valid_ = read_table(folder + "/dev.tsv", columns, limit("--valid-rows", flags.valid_rows));
      train_.numbers_first = valid_.numbers_first = true;
    } else {
      const std::string whole = setup_.data() + "/train.csv", subset = setup_.data() + "/train_subset.csv";
      const bool is_limited = flags.is_given("--train-rows");
      train_ = read_ag_news(io::path_exists(whole) || !io::path_exists(subset) ? whole : subset, flags.train_rows,
                            is_limited ? std::nullopt : std::optional(seed));
      valid_ = read_ag_news(setup_.data() + "/test.csv", flags.valid_rows);
    }
  }
  // Returns the limit of rows: `value` if the flag is given, otherwise 0 (all rows), because only AG News has a limit
  // by default.
  Index limit(const char* flag, Index value) const { return setup_.flags().is_given(flag) ? value : 0; }

  // Chooses the classes: those of config.json if the model has a classifier, otherwise those of the task. For a table,
  // config.json decides if it names classes (id2label), otherwise the table.
  void choose_classes() {
    const bool has_head = setup_.is_saved() || (!setup_.folder().empty() && has_classifier(setup_.folder()));
    std::vector<std::string>& labels = setup_.config().labels;
    const bool task = own_.train.empty();
    const std::vector<std::string> of_task = own_.task == "sst2"
                                                 ? std::vector<std::string>{"negative", "positive"}
                                                 : std::vector<std::string>{"World", "Sports", "Business", "Sci/Tech"};
    if (!setup_.flags().predict.empty()) {
      require(!setup_.folder().empty(), "--predict needs the folder of a model, --out or --model");
      require<FileError>(has_head, io::printable(setup_.folder()),
                         ": has no weights of a classifier, so it cannot predict");
      return;
    }
    if (has_head) {
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
  static bool has_classifier(const std::string& folder) {
    const io::WeightFiles files(folder);
    return files.has("classifier.weight");
  }

  EncodedTexts encoded(const LabelledTexts& texts, const std::vector<int>& classes) const {
    return setup_.encode(texts.first, {texts.second.begin(), texts.second.end()}, classes);
  }

  void freeze(Model& model) const {
    const auto freeze_all = [](auto& module) { each_parameter(module, [](const Name&, auto& p) { p.freeze(); }); };
    const auto freeze_part = [&](auto& classifier) {
      if (own_.freeze == "embeddings") freeze_embeddings(classifier.encoder, freeze_all);
      if (own_.freeze == "encoder") freeze_all(classifier.encoder);
    };
    if (model.bert) freeze_part(*model.bert);
    if (model.pre_norm) freeze_part(*model.pre_norm);
  }
  static void freeze_embeddings(models::BertEncoder<>& encoder, const auto& freeze_all) {
    freeze_all(encoder.embeddings);
  }
  static void freeze_embeddings(models::PreNormEncoder<>& encoder, const auto& freeze_all) {
    freeze_all(encoder.tokens);
    freeze_all(encoder.positions);
    freeze_all(encoder.norm);
  }

  const Flags& own_;
  BertSetup setup_;
  LabelledTexts train_, valid_;
  bool takes_tokens_ = false;   // whether --train and --valid are token files
  bool may_be_numbers_ = true;  // whether a label may be the number of its class
};

// Pre-training: the model learns to restore tokens that are hidden from it.
class BertPretraining : public BertProgram {
 public:
  using Model = Pretrainer;
  struct Flags : BertFlags {
    Flags() { saved["objective"] = "masked tokens"; }
  };

  BertPretraining(const Setup& setup, const Flags& own) : own_(own), setup_(setup, own) {
    require(own.freeze == "none", "--pretrain and --freeze exclude each other");
    for (const char* flag : {"--task", "--train", "--text", "--text-pair", "--label"})
      require(!setup_.flags().is_given(flag), "--pretrain and ", flag, " exclude each other");
    require<FileError>(setup_.config().bert() && setup_.config().model_type() == "bert",
                       io::printable(setup_.folder() + "/config.json"),
                       ": must be the configuration of BERT to be pre-trained");
    const nlohmann::json& config = setup_.config().json;
    const nlohmann::json tied =
        config.is_object() ? config.value("tie_word_embeddings", nlohmann::json()) : nlohmann::json();
    require<FileError>(tied.is_null() || tied == true, io::printable(setup_.folder() + "/config.json"),
                       ": 'tie_word_embeddings' is ", io::printable(tied.dump(), 60),
                       "; heddle pre-trains models whose decoder is their word embeddings");
    for (const std::string& text : own.pretrain) sources_.push_back(source_of(text));
    setup_.make_tokenizer();
    setup_.config().labels.clear();
  }

  ModelSizes sizes() const { return setup_.sizes(); }
  bool is_uncased() const { return setup_.is_uncased(); }
  Index vocabulary() const { return setup_.config().vocabulary(); }
  std::vector<std::string> labels() const { return {"other", "hidden token"}; }
  std::map<std::string, std::string> files() const { return setup_.files(); }
  train::RunSettings settings() const {
    train::RunSettings settings = setup_.settings();
    std::string weights;
    for (const Source& source : sources_) weights += (weights.empty() ? "" : ", ") + train::json_number(source.weight);
    if (weights != "1") settings["--pretrain with the weights"] = weights;
    return settings;
  }
  std::string model_config() const { return to_json(setup_.config(), "BertForMaskedLM").dump(); }

  TextSplits read_splits() {
    TextSplits splits;
    for (const Source& source : sources_)
      data::is_token_file(source.path) ? add_tokens(source, splits) : add_lines(source, splits);
    if (own_.valid.empty()) return splits;
    const Index limit = setup_.flags().valid_rows;
    if (data::is_token_file(own_.valid)) {
      const data::TokenFile file = open_tokens(own_.valid, setup_.tokenizer());
      require<FileError>(file.count() > 0, file.name(), ": has no text");
      splits.valid.add(file, setup_.rows_of_tokens(0, limited(file.count(), limit)));
    } else {
      splits.valid.add(encode_some(read_lines(own_.valid), own_.valid, limit));
    }
    return splits;
  }
  EncodedTexts encode(const std::vector<std::string>& lines) const {
    return setup_.encode(lines, {}, std::vector<int>(lines.size(), 0));
  }
  Model make_model(Random& random) const {
    const text::Vocabulary& v = setup_.vocabulary();
    const bool is_read = !setup_.folder().empty() && !setup_.is_saved();
    if (is_read) models::require_sizes(setup_.config(), setup_.folder());
    Model model(*setup_.config().bert(), {v.id("[MASK]"), kept_tokens()}, random);
    if (is_read)
      if (const auto report = models::load_pretrained(model.model, setup_.folder(), models::MissingHead::drawn);
          !setup_.flags().resume)
        print_report(report, setup_.folder());
    return model;
  }

 private:
  // Returns the ids that are never hidden; a vocabulary may be without [PAD].
  std::vector<int> kept_tokens() const {
    std::vector<int> ids;
    for (const char* token : {"[CLS]", "[SEP]", "[PAD]"})
      if (const std::int32_t id = setup_.vocabulary().find(token); id != text::Vocabulary::none) ids.push_back(id);
    return ids;
  }
  // A file to train on.
  struct Source {
    std::string path;
    double weight = 1;
  };
  // Reads FILE or FILE:WEIGHT. A name that a file has is never cut.
  static Source source_of(const std::string& text) {
    const std::size_t colon = text.rfind(':');
    if (colon == text.npos || colon == 0 || io::path_exists(text)) return {text};
    Source source{text.substr(0, colon), 0};
    const char* const end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, source.weight);
    if (error == std::errc::invalid_argument || stop != end) return {text};
    require(error == std::errc() && source.weight >= least_weight && source.weight <= most_weight, "--pretrain ",
            io::printable(text), ": the weight must be from ", least_weight, " to ", most_weight);
    return source;
  }
  static constexpr double least_weight = 0.001, most_weight = 1000;

  static constexpr Index hold_out_every = 20;  // texts
  // Returns the number of rows that a limit leaves; 0 is no limit.
  static Index limited(Index rows, Index limit) { return limit > 0 ? std::min(rows, limit) : rows; }
  // Throws FileError for a file that is too short to hold texts out.
  static void require_held_out(const std::string& path, Index texts, const char* kind) {
    require<FileError>(texts >= hold_out_every, io::printable(path), ": has ", texts, ' ', kind,
                       texts == 1 ? "; " : "s; ", hold_out_every, " are needed, because one of ", hold_out_every,
                       " is used to validate; or give --valid");
  }

  // Adds the lines of a text file. Without --valid, every 20th is used to validate.
  void add_lines(const Source& source, TextSplits& splits) const {
    std::vector<std::string> train = read_lines(source.path), valid;
    if (own_.valid.empty()) {
      require_held_out(source.path, std::ssize(train), "line");
      std::vector<std::string> lines = std::exchange(train, {});
      for (std::size_t i = 0; i < lines.size(); ++i)
        ((i + 1) % hold_out_every == 0 ? valid : train).push_back(std::move(lines[i]));
      splits.valid.add(encode_some(std::move(valid), source.path, setup_.flags().valid_rows));
    }
    splits.train.add(encode_some(std::move(train), source.path, setup_.flags().train_rows), source.weight);
  }
  // Adds the texts of a token file. Without --valid, the last ones are used to validate: one of 20, but at most 1,000.
  void add_tokens(const Source& source, TextSplits& splits) const {
    constexpr Index most_held_out = 1000;
    const data::TokenFile file = open_tokens(source.path, setup_.tokenizer());
    Index last = file.count();
    require<FileError>(last > 0, file.name(), ": has no text");
    if (own_.valid.empty()) {
      require_held_out(source.path, last, "text");
      last -= std::min(last / hold_out_every, most_held_out);
      const Index rows = limited(file.count() - last, setup_.flags().valid_rows);
      splits.valid.add(file, setup_.rows_of_tokens(last, last + rows));
    }
    splits.train.add(file, setup_.rows_of_tokens(0, limited(last, setup_.flags().train_rows)), source.weight);
  }

  // Encodes the first lines that have a token which can be masked. Throws FileError if there is none.
  EncodedTexts encode_some(std::vector<std::string> lines, const std::string& path, Index limit) const {
    lines.resize(static_cast<std::size_t>(limited(std::ssize(lines), limit)));
    const std::vector<int> kept = kept_tokens();
    EncodedTexts all = encode(lines), some;
    some.longest = all.longest;
    some.truncated = all.truncated;
    for (Index row = 0; row < all.rows.count(); ++row) {
      const auto ids = all.rows.ids(row);
      const bool can_hide = std::any_of(ids.begin(), ids.end(),
                                        [&](int id) { return std::find(kept.begin(), kept.end(), id) == kept.end(); });
      if (can_hide) some.rows.add(ids, 0);
    }
    const Index left_out = all.rows.count() - some.rows.count();
    if (left_out > 0)
      note(io::printable(path) + ": " + std::to_string(left_out) +
           (left_out == 1 ? " text has no token that can be masked and was skipped"
                          : " texts have no token that can be masked and were skipped"));
    require<FileError>(some.rows.count() > 0, io::printable(path), ": has no text with a token that can be masked");
    return setup_.padded(std::move(some));
  }
  // Returns the lines that hold more than blanks.
  static std::vector<std::string> read_lines(const std::string& path) {
    std::vector<std::string> lines = examples::read_texts(path);
    std::erase_if(lines, [](const std::string& line) { return stripped(line).empty(); });
    require<FileError>(!lines.empty(), io::printable(path), ": has no text");
    return lines;
  }

  const Flags& own_;
  BertSetup setup_;
  std::vector<Source> sources_;
};

bool is_pretraining(int argc, char** argv) {
  return std::any_of(argv + 1, argv + argc,
                     [](const std::string& word) { return word == "--pretrain" || word.starts_with("--pretrain="); });
}

}  // namespace
}  // namespace heddle::examples

int main(int argc, char** argv) {
  using namespace heddle::examples;
  return is_pretraining(argc, argv) ? trainer<BertPretraining>(argc, argv) : trainer<BertClassifierSystem>(argc, argv);
}
