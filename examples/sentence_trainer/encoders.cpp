// Sentence encoders, trained on pairs or triples of texts.
#include <heddle/models/sentence_state.hpp>

#include "flags.hpp"
#include "sentence_model.hpp"

namespace heddle::examples {
namespace {

namespace of_sentences = models::detail;

struct NamedPooler {
  nn::Linear<> pooler;
  const char* name;
  static void visit(auto& self, auto&& f) { f(self.name, self.pooler); }
};

class EncoderSystem : public SentenceProgram {
 public:
  using Model = SentenceTrainee;
  using Flags = SentenceFlags;

  EncoderSystem(const Setup& setup, const Flags& own) : own_(own), flags_(setup.flags) {
    const bool is_saved = setup.saved.has_value();
    folder_ = is_saved ? flags_.out : flags_.model;
    require(!folder_.empty(), "there is no model: give the folder of one with --model");
    training_.loss = own.saved.at("loss");
    training_.temperature = own.temperature;
    training_.margin = own.margin;
    training_.cosine_distance = own.distance == "cosine";
    const std::vector<of_sentences::ModuleEntry> modules = of_sentences::read_modules(folder_);
    transformer_ = modules.empty() ? folder_ : modules[0].folder;
    state_ = of_sentences::SentenceFolder(folder_).load({});
    for (const of_sentences::SentenceModule& module : state_->model.modules)
      require<FileError>(module.as<of_sentences::PoolingModule>() || module.as<of_sentences::NormalizeModule>(),
                         io::printable(folder_),
                         ": has a Dense or LayerNorm module; sentence_trainer trains folders with "
                         "Pooling and Normalize");
    require<FileError>(state_->width > 0 && !state_->late, io::printable(folder_),
                       ": has no Pooling, so its texts have no vectors");
    const Index own_length = static_cast<Index>(state_->tokenizer.options().max_length);
    length_ = flags_.is_given("--max-length") ? flags_.sizes.max_length : own_length;
    require(length_ >= 2 && length_ <= state_->config.positions(), "--max-length is ", length_, "; the model has ",
            state_->config.positions(), " positions, and a text has 2 special tokens");
    if (length_ != own_length)
      state_->tokenizer = of_sentences::make_tokenizer(transformer_, state_->config.vocabulary(),
                                                       state_->config.positions(), false, length_)
                              .tokenizer;
    prompt_ = state_->prompts.initial();
    prompt_tokens_ = prompt_.empty() ? 0 : static_cast<Index>(state_->tokenizer.encode(prompt_).ids.size()) - 1;
    files_ = text::read_folder_tokenizer(transformer_).files;
    if (is_saved)
      for (const auto& [file, sum] : setup.saved->files) read_model_file(folder_, *setup.saved, file);
    add_files(modules);
    if (flags_.is_given("--dropout")) override_dropout();
    if (flags_.predict.empty()) read_rows();
  }

  ModelSizes sizes() const {
    const models::BertConfig& c = *state_->config.bert();
    return {c.layers, c.D, c.heads, c.D / c.heads, c.ff_width, length_};
  }
  bool is_uncased() const { return state_->tokenizer.is_uncased(); }
  Index vocabulary() const { return state_->config.vocabulary(); }
  std::vector<std::string> labels() const { return {}; }
  std::map<std::string, std::string> files() const { return files_; }
  train::RunSettings settings() const {
    io::Crc64 files, scores;
    for (const auto& [file, content] : files_) files.add(std::as_bytes(std::span(content)));
    for (const TextSets::Example& each : sets_->examples) {
      scores.add(std::as_bytes(std::span(each.lengths)));
      scores.add(std::as_bytes(std::span(&each.score, 1)));
    }
    return {{"--model", flags_.model.empty() ? train::no_file : checksum_of_model(transformer_)},
            {"--vocab", train::checksum(files.value())},
            {"--temperature", train::json_number(own_.temperature)},
            {"--margin", train::json_number(own_.margin)},
            {"--distance", own_.distance},
            {"--freeze", own_.freeze},
            {"--score", train::checksum(scores.value())},
            {"--max-length", std::to_string(length_)},
            {"--dropout for every dropout", flags_.is_given("--dropout") ? "yes" : "no"}};
  }
  std::string model_config() const {
    return to_json(state_->config, of_sentences::class_prefix(state_->config) + "Model").dump();
  }

  TextSplits read_splits() { return {std::move(train_), std::move(valid_), {}}; }
  EncodedTexts encode(const std::vector<std::string>& lines) const {
    EncodedTexts rows;
    for (const text::Encoding& e : encode_all(lines)) {
      rows.add(e.ids, 0, length_);
      rows.truncated += e.truncated > 0;
    }
    return rows;
  }
  Model make_model(Random& random) const {
    SentenceTrainee model(std::move(state_->model), training_, prompt_tokens_, state_->width, sets_);
    if (*model.pooler_name) model.pooler = read_pooler(model.pooler_name, random);
    if (own_.freeze == "embeddings")
      each_parameter(model.model.encoder.embeddings, [](const Name&, auto& p) { p.freeze(); });
    return model;
  }

  // Prints the elements of a text's vector, separated by tabs.
  void print_prediction(const std::string& /*text*/, std::span<const double> vector) const {
    std::string line;
    for (const double x : vector) line += (line.empty() ? "" : "\t") + nine_digits(x);
    print_line(line);
  }

 private:
  std::vector<text::Encoding> encode_all(const std::vector<std::string>& texts) const {
    return of_sentences::encode_with(state_->tokenizer, prompt_, texts);
  }

  void override_dropout() {
    const double p = flags_.dropout;
    auto& sizes = std::get<models::BertConfig>(state_->config.sizes);
    models::BertEncoder<>& encoder = state_->model.encoder;
    sizes.dropout = sizes.attention_dropout = sizes.rotary.ff_dropout = encoder.embeddings.dropout = p;
    for (models::BertLayer<>& layer : encoder.layers) layer.dropout = layer.attention_dropout = p;
    for (models::RotaryLayer<>& layer : encoder.rotary_layers)
      layer.dropout = layer.attention_dropout = layer.ff_dropout = p;
  }

  // Adds the files that sentence-transformers reads.
  void add_files(const std::vector<of_sentences::ModuleEntry>& modules) {
    nlohmann::ordered_json list = nlohmann::ordered_json::array();
    const auto add = [&](const std::string& path, const char* kind) {
      const std::size_t number = list.size();
      list.push_back({{"idx", number},
                      {"name", std::to_string(number)},
                      {"path", path},
                      {"type", std::string("sentence_transformers.models.") + kind}});
    };
    add("", "Transformer");
    for (const of_sentences::SentenceModule& module : state_->model.modules) {
      const std::string number = std::to_string(list.size());
      if (const auto* pooling = module.as<of_sentences::PoolingModule>()) {
        nlohmann::ordered_json config{{"word_embedding_dimension", state_->config.bert()->D}};
        set_poolings(pooling->poolings, config);
        config["include_prompt"] = pooling->includes_prompt;
        add(number + "_Pooling", "Pooling");
        files_[number + "_Pooling/config.json"] = config.dump(2) + '\n';
      } else {
        add(number + "_Normalize", "Normalize");
      }
    }
    files_["modules.json"] = list.dump(2) + '\n';
    files_["sentence_bert_config.json"] =
        nlohmann::ordered_json{{"max_seq_length", length_}, {"do_lower_case", false}}.dump(2) + '\n';
    const std::string settings = folder_ + "/config_sentence_transformers.json";
    files_["config_sentence_transformers.json"] =
        !modules.empty() && io::path_exists(settings)
            ? io::read_file(settings)
            : "{\n  \"prompts\": {},\n  \"default_prompt_name\": null,\n  \"similarity_fn_name\": \"cosine\"\n}\n";
  }

  // Describes poolings by the members that all versions of sentence-transformers read, which have one order. Another
  // order needs the newer list of names.
  static void set_poolings(const std::vector<models::Pooling>& poolings, nlohmann::ordered_json& config) {
    std::vector<models::Pooling> in_order;
    nlohmann::ordered_json members, names;
    for (const of_sentences::NamedPooling& known : of_sentences::named_poolings) {
      const bool is_on = std::find(poolings.begin(), poolings.end(), known.pooling) != poolings.end();
      if (is_on) in_order.push_back(known.pooling);
      members[known.older_member] = is_on;
    }
    for (const models::Pooling pooling : poolings)
      for (const of_sentences::NamedPooling& known : of_sentences::named_poolings)
        if (known.pooling == pooling) names.push_back(known.name);
    if (in_order == poolings)
      config.update(members);
    else
      config["pooling_mode"] = names;
  }

  // Returns the pooler of the model's folder, or a new one. It is not trained.
  nn::Linear<> read_pooler(const std::string& pooler, Random& random) const {
    const models::BertConfig& config = *state_->config.bert();
    NamedPooler named{nn::Linear<>(config.D, config.D, random), pooler.c_str()};
    of_sentences::draw_as_bert(named.pooler, random, config);
    const std::string prefix = std::string(models::encoder_name(config.family)) + '.';
    const auto rename = [&](const std::string& weight) {
      const std::string shortened_name = weight.substr(weight.starts_with(prefix) ? prefix.size() : 0);
      return shortened_name.starts_with(pooler + '.') ? shortened_name : std::string();
    };
    const io::WeightFiles files(transformer_);
    io::load(named, files.weights(rename), [](const std::string&) { return true; });
    each_parameter(named, [](const Name&, auto& p) { p.freeze(); });
    return std::move(named.pooler);
  }

  void read_rows() {
    require(!own_.train.empty() && !own_.valid.empty() && !own_.columns.text.empty() && !own_.columns.second.empty(),
            "sentence_trainer needs --train, --valid, --text and --text-pair");
    const bool has_negatives = !own_.columns.third.empty(), has_scores = !own_.columns.label.empty();
    const bool learns_scores = training_.loss == "cosine";
    require(training_.loss != "triplet" || has_negatives, "--loss triplet needs --negative");
    require(!learns_scores || has_scores, "--loss cosine needs --score");
    require(!learns_scores || !has_negatives, "--negative: --loss cosine has pairs with a score");
    auto sets = std::make_shared<TextSets>();
    std::map<std::string, int> numbers;  // of all distinct texts
    const auto read = [&](const std::string& path, const char* flag, Index limit, bool reads_scores) {
      TableColumns columns = own_.columns;
      (reads_scores ? columns.third : columns.label).clear();
      return encoded(read_table(path, columns, flags_.is_given(flag) ? limit : 0), *sets, numbers);
    };
    train_ = read(own_.train, "--train-rows", flags_.train_rows, learns_scores);
    valid_ = read(own_.valid, "--valid-rows", flags_.valid_rows, has_scores);
    sets_ = std::move(sets);
  }

  // Encodes the texts of a table's rows, and adds them to `sets`.
  SplitTexts encoded(const LabelledTexts& table, TextSets& sets, std::map<std::string, int>& numbers) const {
    require<FileError>(table.label_columns.size() <= 1, table.file, ": ", table.label_columns.size(),
                       " columns of scores were given; a pair has one");
    const std::vector<float> scores = table.labels.empty() ? std::vector<float>() : numbers_in(table, -1, 1).values;
    EncodedTexts rows;
    std::vector<const std::vector<std::string>*> columns{&table.first, &table.second};
    if (!table.third.empty()) columns.push_back(&table.third);
    std::vector<std::vector<text::Encoding>> encodings;
    for (const std::vector<std::string>* column : columns) encodings.push_back(encode_all(*column));
    for (std::size_t row = 0; row < table.first.size(); ++row) {
      TextSets::Example example;
      std::vector<int> ids;
      for (std::size_t place = 0; place < columns.size(); ++place) {
        const text::Encoding& e = encodings[place][row];
        rows.longest = std::max(rows.longest, static_cast<Index>(e.ids.size() + e.truncated));
        rows.truncated += e.truncated > 0;
        example.lengths.push_back(static_cast<int>(e.ids.size()));
        const auto next = static_cast<int>(numbers.size());
        example.texts.push_back(numbers.emplace((*columns[place])[row], next).first->second);
        ids.insert(ids.end(), e.ids.begin(), e.ids.end());
      }
      example.has_score = !scores.empty();
      if (example.has_score) example.score = scores[row];
      rows.rows.add(ids, static_cast<int>(sets.examples.size()));
      sets.examples.push_back(std::move(example));
    }
    return rows;
  }

  const Flags& own_;
  const TrainerFlags& flags_;
  std::string folder_, transformer_, prompt_;
  SentenceTraining training_;
  std::shared_ptr<of_sentences::SentenceState> state_;  // without the model once it is made
  Index length_ = 0, prompt_tokens_ = 0;
  std::map<std::string, std::string> files_;
  SplitTexts train_, valid_;
  std::shared_ptr<const TextSets> sets_ = std::make_shared<const TextSets>();
};

}  // namespace

int train_encoders(int argc, char** argv) { return trainer<EncoderSystem>(argc, argv); }

}  // namespace heddle::examples
