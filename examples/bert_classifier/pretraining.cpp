// Pre-training on plain text.
#include <charconv>
#include <heddle/data/lines.hpp>
#include <set>

#include "pretrainer.hpp"
#include "setup.hpp"

namespace heddle::examples {
namespace {

// Pre-training: the model learns to restore tokens that are hidden from it.
class BertPretraining : public BertProgram {
 public:
  using Model = Pretrainer;
  struct Flags : BertFlags {
    Flags() { saved["objective"] = "masked tokens"; }
  };

  BertPretraining(const Setup& setup, const Flags& own) : own_(own), setup_(setup, own) {
    require(own.freeze == "none", "--pretrain and --freeze exclude each other");
    for (const char* flag : {"--problem", "--task", "--train", "--text", "--text-pair", "--label", "--label-weights"})
      require(!setup_.flags().is_given(flag), "--pretrain and ", flag, " exclude each other");
    const models::BertConfig* const sizes = setup_.config().bert();
    require<FileError>(
        sizes && sizes->family != models::BertFamily::distilbert, io::printable(setup_.folder() + "/config.json"),
        ": describes a model that --pretrain does not train; it trains BERT, RoBERTa, MPNet, ELECTRA, ALBERT, "
        "ModernBERT, NomicBERT, GTE and DeBERTa");
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
  std::string model_config() const {
    return to_json(setup_.config(), models::detail::class_prefix(setup_.config()) + "ForMaskedLM").dump();
  }

  TextSplits read_splits() {
    TextSplits splits;
    for (const Source& source : sources_)
      data::is_token_file(source.path) ? add_tokens(source, splits) : add_lines(source, splits);
    if (own_.valid.empty()) return splits;
    const Index limit = setup_.flags().valid_rows;
    if (data::is_token_file(own_.valid)) {
      const data::TokenFile file = open_tokens(own_.valid, identify(setup_.tokenizer()));
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
    const std::string mask_token = setup_.mask_token();
    const std::int32_t mask = mask_token.empty() ? text::TokenTable::none : setup_.tokenizer().find(mask_token);
    require(mask != text::TokenTable::none, "--pretrain: the tokenizer has no mask token");
    const bool is_read = !setup_.folder().empty() && !setup_.is_saved();
    if (is_read) models::require_sizes(setup_.config(), setup_.folder());
    Model model(*setup_.config().bert(), {mask, kept_tokens()}, random);
    if (is_read)
      if (const auto report = models::load_pretrained(model.model, setup_.folder(), models::MissingHead::drawn);
          !setup_.flags().resume)
        print_report(report, setup_.folder());
    return model;
  }

 private:
  // Returns the ids that are never hidden: those that the tokenizer adds to texts, and padding, if there is one.
  std::vector<int> kept_tokens() const {
    std::set<int> ids;
    for (const text::TemplatePart& part : setup_.tokenizer().form(true)) ids.insert(part.ids.begin(), part.ids.end());
    for (const char* token : {"[PAD]", "<pad>"})
      if (const std::int32_t id = setup_.tokenizer().find(token); id != text::TokenTable::none) ids.insert(id);
    return {ids.begin(), ids.end()};
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
    const data::TokenFile file = open_tokens(source.path, identify(setup_.tokenizer()));
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

}  // namespace

int pretrain(int argc, char** argv) { return trainer<BertPretraining>(argc, argv); }

}  // namespace heddle::examples
