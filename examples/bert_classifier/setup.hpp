// The flags of bert_classifier, and the model and the tokenizer of a run. All parts of the program use them.
#pragma once
#include <heddle/models/text_batches.hpp>

#include "../common/tokenizer_id.hpp"
#include "../common/trainer.hpp"
#include "../common/vocabulary.hpp"
#include "labelled_texts.hpp"

namespace heddle::examples {

using models::PretrainedConfig;

struct BertFlags {
  OwnFlags saved{{"objective", "classes"}};  // what the model is trained for; a system sets its own
  std::string problem = "single", task = "ag_news", train, valid, freeze = "none", from_scratch = "no";
  std::string architecture = "auto";
  std::string pad_to_max = "no", label_weights = "none";
  std::vector<std::string> pretrain;
  TableColumns columns;
  bool is_reranker = false;  // whether the program is sentence_trainer
  // Returns the flag that asks for the problem.
  std::string asked() const { return is_reranker ? "--loss rerank" : "--problem " + problem; }
  static std::vector<std::string> choices() {
    return {"classes", "label sets", "values", "pair scores", "word labels", "masked tokens"};
  }
  void add(CLI::App& app) {
    add_choice(app, "--problem", problem, {"single", "multi", "regression", "token", "pair"},
               "What the labels are: one class of several, a set of labels, numbers, the labels of words, or the score "
               "of a pair of texts (default: that of the model's folder)");
    add_choice(app, "--task", task, {"ag_news", "sst2"}, "Data set in --data");
    add_path(app, "--train", train, "Table to train on, TSV or CSV with a header; for --problem token a CoNLL file");
    add_path(app, "--valid", valid, "Table, or texts or a token file for --pretrain, to validate on");
    add_path(app, "--text", columns.text, "Column of the text");
    add_path(app, "--text-pair", columns.second, "Column of the second text; --predict splits lines at a tab");
    add_path(app, "--label", columns.label,
             "Column of the class: its number from 0, or its name; or of names with | between them, or of a "
             "number; several columns with commas between them hold 0 or 1, or numbers");
    add_path(app, "--label-weights", label_weights,
             "Weights of the positive terms of --problem multi: none, balanced (absent rows to rows of each label), or "
             "numbers with commas between them");
    add_choice(app, "--format", columns.format, {"auto", "csv", "tsv"},
               "Format of the tables; auto: by name, otherwise by the first line");
    add_choice(app, "--freeze", freeze, {"none", "embeddings", "encoder"}, "Part of the model that is not trained");
    add_switch(app, "--pad-to-max", pad_to_max, "Pad every text to --max-length, to compare with packed batches");
    add_switch(app, "--from-scratch", from_scratch, "Train an encoder from random weights");
    add_choice(app, "--architecture", architecture,
               {"auto", "prenorm", "bert", "distilbert", "roberta", "mpnet", "electra", "albert", "modernbert",
                "nomic_bert", "gte", "deberta-v2"},
               "Architecture of a new model; auto: bert for --pretrain, prenorm for --from-scratch");
    add_paths(
        app, "--pretrain", pretrain,
        "Pre-train BERT or a relative as a masked language model on the lines of a text file, or on a token file; "
        "several files are mixed, and FILE:WEIGHT takes FILE so many times in an epoch, such as 0.3 times");
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
inline void print_report(const io::LoadReport& report, const std::string& folder) {
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
    const bool is_pair = !own_.columns.second.empty();
    const Index specials = found_ ? found_->special_tokens(is_pair) : is_pair ? 3 : 2;
    limit_ = std::min(limit_, folder_.empty() ? positions
                                              : models::detail::longest_text(folder_, tokenizer_limit_, positions,
                                                                             specials, is_pair));
    require(!flags_.is_given("--max-length") || flags_.sizes.max_length <= positions, "--max-length is ",
            flags_.sizes.max_length, "; the model has ", positions, " positions");
    length_ = flags_.is_given("--max-length") ? flags_.sizes.max_length : limit_;
    require(length_ >= specials, "--max-length is ", length_, is_pair ? "; a pair has " : "; a text has ", specials,
            " special tokens");
    options_.max_length = static_cast<std::size_t>(length_);
  }

  const TrainerFlags& flags() const { return flags_; }
  const PretrainedConfig& config() const { return config_; }
  PretrainedConfig& config() { return config_; }
  // Throws FileError for a folder whose configuration says that its classifier has another problem.
  void require_problem(models::Problem problem) const {
    const auto kind = config_.json.find("problem_type");
    require<FileError>(!config_.problem_type || *config_.problem_type == problem, config_file(), ": 'problem_type' is ",
                       kind == config_.json.end() ? "" : kind->dump(), ", which contradicts ", own_.asked());
  }
  std::string config_file() const { return io::printable(folder_ + "/config.json"); }
  const std::string& folder() const { return folder_; }  // has the initial weights; empty if they are drawn
  bool is_saved() const { return is_saved_; }
  bool is_applied() const { return flags_.evaluate || !flags_.predict.empty(); }
  bool is_uncased() const { return found_ ? found_->is_uncased() : flags_.uncased; }
  const std::string& data() const { return data_; }
  const text::Tokenizer& tokenizer() const { return *tokenizer_; }
  // Returns the token that hides another one.
  std::string mask_token() const { return found_ ? found_->mask_token : "[MASK]"; }
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
    return rows_of(encodings, labels);
  }
  EncodedTexts rows_of(const std::vector<text::Encoding>& encodings, const std::vector<int>& labels) const {
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
    return {{"--model", flags_.model.empty() ? train::no_file : checksum_of_model(flags_.model)},
            {"--from-scratch", own_.from_scratch},
            {"--vocab", train::checksum(files.value())},
            {"--freeze", own_.freeze},
            {"--pad-to-max", own_.pad_to_max},
            {"--max-length", std::to_string(length_)},
            {"--dropout for every dropout", flags_.is_given("--dropout") ? "yes" : "no"}};
  }

  // Lets the tokenizer give offsets.
  void use_offsets() { options_.offsets = true; }
  // Makes the tokenizer, which takes over the vocabulary. Called after the checks of a system's constructor.
  void make_tokenizer() {
    if (tokenizer_) return;
    if (found_)
      tokenizer_ = found_->tokenizer(options_);
    else
      tokenizer_.emplace(
          text::WordPiece(std::move(*tokens_),
                          {.uncased = flags_.uncased, .max_length = options_.max_length, .offsets = options_.offsets}));
  }

 private:
  void check_flags() const {
    const bool pretrain = !own_.pretrain.empty(), scratch = own_.from_scratch == "yes";
    require(!scratch || flags_.model.empty(), "--from-scratch and --model exclude each other");
    require(!scratch || !pretrain, "--from-scratch and --pretrain exclude each other");
    require(is_saved_ || scratch || pretrain || !flags_.model.empty(),
            "there is no model: give the folder of one with --model",
            own_.is_reranker ? "" : ", or --from-scratch, or --pretrain");
    require(flags_.model.empty() || flags_.vocab.empty(), "--vocab: the model in --model has its own tokenizer");
    const bool table = !own_.train.empty() || !own_.valid.empty();
    for (const char* flag : {"--text", "--text-pair", "--label", "--format"})
      require(!flags_.is_given(flag) || table || !flags_.predict.empty(), flag, " needs --train and --valid");
    require(!table || !flags_.is_given("--task"), "--task and --train exclude each other");
    require(own_.train.empty() || flags_.data.empty(), "--data and --train exclude each other");
    require(!flags_.is_given("--architecture") || scratch || pretrain,
            "--architecture needs --from-scratch or --pretrain");
    require(!pretrain || (own_.architecture != "prenorm" && own_.architecture != "distilbert"), "--pretrain has no ",
            "--architecture ", own_.architecture,
            "; it has bert, roberta, mpnet, electra, albert, modernbert, nomic_bert, gte and deberta-v2");
    if (flags_.model.empty()) return;
    for (const char* flag : {"--layers", "--d-model", "--heads", "--ff-width", "--uncased", "--architecture"})
      require(!flags_.is_given(flag), flag, ": the model in --model has its own");
  }

  // Reads the configuration and the tokenizer of a folder.
  void read_folder(const Setup& setup) {
    config_ = models::read_config(folder_);
    const std::string type = own_.architecture == "prenorm" ? "heddle-prenorm" : own_.architecture;
    require(type == "auto" || type == config_.model_type(), "--architecture is ", own_.architecture, "; the model in ",
            io::printable(folder_), " is ", config_.model_type());
    found_ = text::read_folder_tokenizer(folder_);
    if (is_saved_) {
      for (const auto& [name, sum] : setup.saved->files) read_model_file(folder_, *setup.saved, name);
      for (const auto& [name, content] : found_->files)
        require<FileError>(setup.saved->files.count(name), io::printable(folder_ + '/' + name),
                           ": is not a file of the model; remove it");
    }
    require<FileError>(found_->ids() <= config_.vocabulary(), found_->name, ": has ", found_->ids(),
                       " tokens; the model has ", config_.vocabulary(), " embeddings");
    tokenizer_limit_ = found_->max_length;
    has_types_ = found_->has_types;
    if (const auto* bert = std::get_if<text::PretrainedTokenizer>(&found_->kind))
      for (const std::string& sentence : bert->vocabulary.notes()) note(found_->name + ": " + sentence);
    files_ = found_->files;
    if (flags_.vocab.empty()) return;
    const auto own = files_.find("vocab.txt");
    require(own != files_.end() && own->second == io::read_file(flags_.vocab), "--vocab is ",
            io::printable(flags_.vocab), "; the model in ", io::printable(flags_.out), " has another vocabulary");
  }

  // Makes the configuration that the flags describe, and reads the vocabulary.
  void make_new(const Setup& setup) {
    const VocabularyFile file(setup, data_);
    tokens_ = read_vocabulary(file.content(), file.path());
    const ModelSizes& s = flags_.sizes;
    require(s.d_model % s.heads == 0, "--d-model ", s.d_model, " is not a multiple of --heads ", s.heads);
    const Index V = tokens_->size();
    const bool is_auto = own_.architecture == "auto";
    if (is_auto ? own_.pretrain.empty() : own_.architecture == "prenorm") {
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
      if (!is_auto) set_family(c, file.path());
      config_.sizes = c;
      if (c.family == models::BertFamily::modernbert) name_special_tokens();
    }
    files_["vocab.txt"] = file.content();
    files_["tokenizer_config.json"] = std::string("{\n  \"do_lower_case\": ") + (flags_.uncased ? "true" : "false") +
                                      ",\n  \"model_max_length\": " + std::to_string(s.max_length) +
                                      ",\n  \"tokenizer_class\": \"BertTokenizer\"\n}\n";
  }

  // Sets the ids of special tokens, because the defaults of ModernBERT are those of a larger vocabulary.
  void name_special_tokens() {
    const auto id_of = [&](const char* token) {
      const std::int32_t id = tokens_->find(token);
      return id == text::Vocabulary::none ? nlohmann::json() : nlohmann::json(id);
    };
    for (const char* key : {"bos_token_id", "cls_token_id"}) config_.json[key] = id_of("[CLS]");
    for (const char* key : {"eos_token_id", "sep_token_id"}) config_.json[key] = id_of("[SEP]");
  }

  // Sets the members that depend on --architecture. Dropout, activation and eps are those of transformers by default.
  void set_family(models::BertConfig& config, const std::string& vocabulary) const {
    const models::BertConfig absent = models::detail::find_model_type(own_.architecture)->absent;
    config.family = absent.family;
    config.classifier_dropout = absent.classifier_dropout;
    config.activation = absent.activation;
    config.dropout = absent.dropout;
    config.attention_dropout = absent.attention_dropout;
    config.embedding_width = std::min(absent.embedding_width, config.D);
    config.eps = absent.eps;
    config.rotary = absent.rotary;
    config.deberta.greatest_distance = std::max<Index>(config.positions, config.deberta.buckets / 2 + 2);
    if (!models::detail::form_of(config.family).has_types || absent.types == 0) config.types = 0;
    const Index K = config.D / config.heads;
    require(!config.has_rotary() || (K % 2 == 0 && K <= 512), "--d-model ", config.D, " and --heads ", config.heads,
            " give heads that are ", K, " wide; rotary positions need an even width of at most 512");
    if (config.family == models::BertFamily::roberta) {
      const std::int32_t padding = tokens_->find("[PAD]");
      require<FileError>(padding != text::Vocabulary::none, io::printable(vocabulary),
                         ": has no [PAD], from which RoBERTa counts positions");
      config.padding_id = padding;
    } else if (config.family == models::BertFamily::mpnet) {
      config.padding_id = absent.padding_id;
      const std::string token(config.vocabulary > 1 ? tokens_->token(1) : "");
      require<FileError>(token == "[PAD]" || token.starts_with("[unused"), io::printable(vocabulary), ": token 1 is ",
                         io::quoted_name(token),
                         " but must be [PAD] or an unused token, because MPNet counts positions from it");
    }
  }

  void override_dropout() {
    const double p = flags_.dropout;
    if (auto* bert = std::get_if<models::BertConfig>(&config_.sizes))
      bert->dropout = bert->attention_dropout = bert->classifier_dropout = bert->answer_dropout =
          bert->rotary.ff_dropout = p;
    else
      std::get<models::PreNormConfig>(config_.sizes).dropout =
          std::get<models::PreNormConfig>(config_.sizes).embedding_dropout = p;
  }

  const TrainerFlags& flags_;
  const BertFlags& own_;
  std::string data_, folder_;
  bool is_saved_;
  PretrainedConfig config_{};
  std::optional<text::Vocabulary> tokens_;
  std::optional<text::FolderTokenizer> found_;  // of the folder
  text::TokenizerOptions options_;
  std::optional<text::Tokenizer> tokenizer_;
  std::map<std::string, std::string> files_;
  Index limit_ = 512, tokenizer_limit_ = 0, length_ = 0;
  bool has_types_ = true;
};

// Flags and defaults of all parts.
struct BertProgram {
  using Flags = BertFlags;
  static constexpr const char* name = "bert_classifier";
  static constexpr const char* sample = HEDDLE_SAMPLES "/ag_news/sample";
  static constexpr bool free_length = true;
  static constexpr const char* unused_flags[] = {"--head-dim"};
  static constexpr const char* description =
      "Fine-tunes, evaluates and applies BERT and its relatives with every head, and pre-trains them.";
  static TrainerFlags defaults() { return fine_tuning_flags(3, 5e-5); }
};

// A system that fine-tunes a model with a head.
class FineTuning : public BertProgram {
 public:
  ModelSizes sizes() const { return setup_.sizes(); }
  bool is_uncased() const { return setup_.is_uncased(); }
  Index vocabulary() const { return setup_.config().vocabulary(); }
  std::vector<std::string> labels() const { return setup_.config().labels; }
  std::map<std::string, std::string> files() const { return setup_.files(); }
  train::RunSettings settings() const { return setup_.settings(); }

 protected:
  // `objective` is what the system trains for, one of BertFlags::choices(), and `head` the end of the name of its
  // models' class in transformers.
  FineTuning(const Setup& setup, const BertFlags& own, const std::string& objective,
             const std::string& head = "ForSequenceClassification")
      : own_(own), setup_(setup, own) {
    const std::string& found = own.saved.at("objective");
    require<FileError>(found == objective, io::printable(setup.flags.out + "/config.json"),
                       found == "masked tokens"
                           ? ": describes a masked language model, which has no classes; fine-tune it with --model"
                           : ": describes a model of another --problem, '" + found + "'");
    has_head_ = setup_.is_saved() || (!setup_.folder().empty() && has_head(setup_.folder()));
    if (has_head_ && setup_.config().json.is_object()) {
      const auto kinds = setup_.config().json.find("architectures");
      const bool has_name =
          kinds != setup_.config().json.end() && kinds->is_array() && kinds->size() == 1 && (*kinds)[0].is_string();
      const std::string kind = has_name ? (*kinds)[0].get<std::string>() : head;
      require<FileError>(kind.ends_with(head) || kind.find("For") == kind.npos, setup_.config_file(),
                         ": 'architectures' is ", io::quoted_name(kind), ", whose head is not that of ", own.asked());
    }
    if (setup.flags.predict.empty()) return;
    require(!setup_.folder().empty(), "--predict needs the folder of a model, --out or --model");
    require<FileError>(has_head_, io::printable(setup_.folder()),
                       ": has no weights of a classifier, so it cannot predict");
  }
  static bool has_head(const std::string& folder) {
    const io::WeightFiles files(folder);
    return files.has("classifier.weight") || files.has("classifier.out_proj.weight");
  }

  // Returns the limit of rows: `value` if the flag is given, otherwise 0 (all rows).
  Index limit(const char* flag, Index value) const { return setup_.flags().is_given(flag) ? value : 0; }
  Index train_rows() const { return limit("--train-rows", setup_.flags().train_rows); }
  Index valid_rows() const { return limit("--valid-rows", setup_.flags().valid_rows); }

  bool is_read() const { return setup_.is_saved() || !setup_.folder().empty(); }
  // Draws the head of a model, and reads the weights of --model.
  template <class Model>
  void load(Model& model, Random& random) const {
    if (!is_read() || setup_.is_saved()) return;
    const auto head = setup_.is_applied() ? models::MissingHead::refused : models::MissingHead::drawn;
    model.draw_head(random);
    const io::LoadReport report = models::load_pretrained(model, setup_.folder(), head);
    if (!setup_.flags().resume) print_report(report, setup_.folder());
  }
  models::SequenceClassifier<> make_classifier(Random& random) const {
    using Model = models::SequenceClassifier<>;
    if (is_read()) models::require_sizes(setup_.config(), setup_.folder());
    Model model = is_read() ? models::make_without_values<Model>(setup_.config()) : Model(setup_.config(), random);
    load(model, random);
    if (model.bert) freeze(*model.bert);
    if (model.pre_norm) freeze(*model.pre_norm);
    return model;
  }

  // Freezes the part of a model that --freeze names.
  void freeze(auto& model) const {
    const auto freeze_all = [](auto& module) { each_parameter(module, [](const Name&, auto& p) { p.freeze(); }); };
    if (own_.freeze == "embeddings") freeze_embeddings(model.encoder, freeze_all);
    if (own_.freeze == "encoder") freeze_all(model.encoder);
  }
  static void freeze_embeddings(models::BertEncoder<>& encoder, const auto& freeze_all) {
    freeze_all(encoder.embeddings);
  }
  static void freeze_embeddings(models::PreNormEncoder<>& encoder, const auto& freeze_all) {
    freeze_all(encoder.tokens);
    freeze_all(encoder.positions);
    freeze_all(encoder.norm);
  }

  // Encodes lines of --predict: texts, or pairs with a tab between them.
  EncodedTexts encode_lines(const std::vector<std::string>& lines, bool are_pairs) const {
    std::vector<std::string> first = lines;
    std::vector<std::optional<std::string>> second;
    if (are_pairs)
      for (std::string& line : first) {
        const std::size_t tab = line.find('\t');
        second.push_back(tab == line.npos ? std::nullopt : std::optional(line.substr(tab + 1)));
        line.resize(std::min(tab, line.size()));
      }
    return setup_.encode(first, second, std::vector<int>(lines.size(), 0));
  }
  EncodedTexts encoded(const LabelledTexts& texts, const std::vector<int>& labels) const {
    return setup_.encode(texts.first, {texts.second.begin(), texts.second.end()}, labels);
  }

  const BertFlags& own_;
  BertSetup setup_;
  bool has_head_ = false;  // whether the folder has the weights of a head
};

// Run the program for one kind of problem, as trainer().
int train_classes(int argc, char** argv);
int train_targets(int argc, char** argv, const std::string& problem);  // multi, regression or pair
int train_words(int argc, char** argv);
int pretrain(int argc, char** argv);

}  // namespace heddle::examples
