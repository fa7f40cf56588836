// attention_view: draws a model's attention on a text as one HTML page, or writes it as JSON, CSV or SVG.
#include <CLI/CLI.hpp>
#include <heddle/io/write_atomically.hpp>
#include <heddle/models/pretrained.hpp>
#include <heddle/models/sentence_folder.hpp>
#include <heddle/view/attention_files.hpp>

#include "../ag_news/system.hpp"
#include "../sst2/system.hpp"
#include "../surnames/system.hpp"

namespace heddle::examples {
namespace {

struct ViewFlags {
  std::string model, text, format = "html", out;
  std::optional<std::string> second;
  std::optional<Index> layer, head;
};

Index to_number(const std::string& flag, const std::string& text) {
  Index number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  require(error == std::errc{} && stop == end && number >= 0, flag, ": ", io::quoted_name(text),
          " is not a whole number of at least 0");
  return number;
}

// Returns nothing if the command line is --help or --version, which is answered here.
std::optional<ViewFlags> parse(int argc, char** argv) {
  CLI::App app("Draws what a model attends to in a text");
  ViewFlags f;
  std::string layer, head, second;
  app.set_version_flag("--version", version_text());
  app.add_option("--model", f.model, "Hugging Face folder of a BERT or a relative, or the --out folder of a trainer")
      ->required()
      ->type_name("DIR");
  app.add_option("--text", f.text, "Text to show")->required()->type_name("TEXT");
  app.add_option("--text-b", second, "Second text of a pair")->type_name("TEXT");
  add_choice(app, "--format", f.format, {"html", "json", "csv", "svg"}, "Kind of file");
  app.add_option("--layer", layer, "Layer of the first view or of the head drawn as SVG, from 0 (default: 0)")
      ->type_name("N");
  app.add_option("--head", head, "Head of the first view (default: all) or the head drawn as SVG (default: 0), from 0")
      ->type_name("N");
  app.add_option("--out", f.out, "File to write")->required()->type_name("FILE");
  if (!parse_command_line(app, argc, argv)) return std::nullopt;
  for (const auto& [flag, value] : {std::pair{"--model", &f.model}, {"--out", &f.out}})
    require(!value->empty(), flag, " is given without a name");
  if (app.count("--text-b") > 0) f.second = second;
  if (app.count("--layer") > 0) f.layer = to_number("--layer", layer);
  if (app.count("--head") > 0) f.head = to_number("--head", head);
  return f;
}

pictures::AttentionMap make_map(const std::vector<nn::AttentionRecord<float>>& records, std::vector<std::string> tokens,
                                const ViewFlags& flags) {
  pictures::AttentionMap map;
  map.tokens = std::move(tokens);
  for (const nn::AttentionRecord<float>& r : records) map.layers.push_back({r.weights, r.queries, r.keys});
  map.texts = {flags.text};
  if (flags.second) map.texts.push_back(*flags.second);
  std::error_code error;
  const std::string path = std::filesystem::weakly_canonical(flags.model, error).string();
  map.title = "Attention in " + io::printable(path.substr(path.rfind('/') + 1));
  return map;
}

void note_truncation(Index had, Index length) {
  if (had > length)
    note("the text has " + std::to_string(had) + " tokens and was truncated to " + std::to_string(length) + " tokens");
}

// Returns the attention of a model that the trainer of a system wrote.
template <class System>
pictures::AttentionMap attention_of_system(const ViewFlags& flags) {
  require(!flags.second, "--text-b: a model of ", System::name, " reads one text, not a pair");
  TrainerFlags trainer = System::defaults();
  trainer.out = flags.model;
  trainer.predict = "-";
  typename System::Flags own;
  const Setup setup = set_up<System>(trainer, own, true);
  const System system(setup, own);
  auto model = make_model(system, trainer);
  load_trained(model, setup);
  const EncodedTexts encoded = system.encode({flags.text});
  const std::span<const int> ids = encoded.rows.ids(0);
  note_truncation(encoded.longest, std::ssize(ids));
  const Tensor<int> batch({std::ssize(ids)}, std::vector<int>(ids.begin(), ids.end()));
  std::vector<std::string> tokens;
  for (const int id : ids) tokens.push_back(system.token(id));
  return make_map(model.attention(batch, Sequences::packed({static_cast<int>(ids.size())})), std::move(tokens), flags);
}

// Returns the folder of the transformer: that of a model of sentence-transformers may be inside of its folder.
std::string transformer_in(const std::string& folder) {
  const auto modules = models::detail::read_modules(folder);
  return modules.empty() ? folder : modules[0].folder;
}

// Returns the attention of a model in a Hugging Face folder, with any head.
pictures::AttentionMap attention_of_folder(const std::string& folder, const ViewFlags& flags) {
  const models::PretrainedConfig config = models::read_config(folder);
  models::require_sizes(config, folder);
  const models::detail::LoadedTokenizer loaded =
      models::detail::make_tokenizer(folder, config, flags.second.has_value());
  const text::Tokenizer& tokenizer = loaded.tokenizer;
  const text::Encoding text =
      flags.second ? tokenizer.encode_pair(flags.text, *flags.second) : tokenizer.encode(flags.text);
  const auto T = static_cast<Index>(text.ids.size());
  note_truncation(T + static_cast<Index>(text.truncated), T);
  const Tensor<int> ids({T}, std::vector<int>(text.ids.begin(), text.ids.end()));
  const Sequences one = Sequences::packed({static_cast<int>(T)});
  std::vector<nn::AttentionRecord<float>> records;
  if (const models::BertConfig* bert = config.bert()) {
    auto model = models::make_without_values<models::BertEncoder<>>(*bert);
    models::load_pretrained(model, folder);
    Tensor<int> types;
    if (flags.second && loaded.has_types)
      types = Tensor<int>({T}, std::vector<int>(text.type_ids.begin(), text.type_ids.end()));
    model.forward(ids, one, {.types = types, .records = &records});
  } else {
    auto model = models::make_without_values<models::SequenceClassifier<>>(config);
    models::load_pretrained(model, folder);
    model.forward(ids, one, {.records = &records});
  }
  std::vector<std::string> tokens;
  for (const int id : text.ids) tokens.emplace_back(tokenizer.token(id));
  pictures::AttentionMap map = make_map(records, std::move(tokens), flags);
  if (flags.second)
    map.second = std::min<Index>(static_cast<Index>(tokenizer.second_text(flags.text, *flags.second).first), T - 1);
  return map;
}

pictures::AttentionMap attention_of(const ViewFlags& flags) {
  require<FileError>(io::is_folder(flags.model), io::printable(flags.model), ": is not a folder; --model needs one");
  const std::string folder = transformer_in(flags.model), path = folder + "/config.json", shown = io::printable(path);
  require<FileError>(io::path_exists(path), shown, ": is missing; --model needs the folder of a model");
  const io::JsonFile file(path);
  const io::JsonObject config = file.object();
  if (config.has("model_type")) return attention_of_folder(folder, flags);
  require<FileError>(config.has("program"), shown,
                     ": is the configuration of neither a Hugging Face model nor a trainer's model");
  const std::string program = config.text("program");
  if (program == Sst2::name) return attention_of_system<Sst2>(flags);
  if (program == AgNews::name) return attention_of_system<AgNews>(flags);
  if (program == Surnames::name) return attention_of_system<Surnames>(flags);
  fail<FileError>(shown, ": describes a model of ", io::quoted_name(program), ", which attention_view does not know");
}

void write_view(const ViewFlags& flags) {
  require(text::is_utf8(flags.text), "--text: is not UTF-8");
  require(text::is_utf8(flags.second.value_or("")), "--text-b: is not UTF-8");
  const std::string folder = std::filesystem::path(flags.out).parent_path().string();
  require<FileError>(folder.empty() || io::is_folder(folder), io::printable(flags.out), ": its folder does not exist");
  require<FileError>(!io::is_folder(flags.out), io::printable(flags.out), ": is a folder; --out needs a file");
  const NoGrad quiet;
  const pictures::AttentionMap map = attention_of(flags);
  const Index layers = std::ssize(map.layers);
  require(layers > 0, io::printable(flags.model), ": the model has no layers");
  const Index heads = map.layers[0].weights.dim(1);
  const auto require_below = [&](const char* flag, Index value, Index count, const char* what) {
    require(value < count, flag, " is ", value, "; the model has ", what, " 0 to ", count - 1);
  };
  require_below("--layer", flags.layer.value_or(0), layers, "layers");
  require_below("--head", flags.head.value_or(0), heads, "heads");
  for (const pictures::LayerAttention& layer : map.layers)
    for (const Tensor<float>* x : {&layer.weights, &layer.queries, &layer.keys})
      require<train::RunFailed>(all(isfinite(*x)).item(), io::printable(flags.model),
                                ": the model's attention is not finite");
  const pictures::PageOptions first{flags.layer.value_or(0), flags.head};
  io::write_atomically(flags.out, [&](io::OutputFile& out) {
    const auto write = [&](std::string_view text) { out.write(text); };
    if (flags.format == "html")
      write(pictures::attention_page(map, first));
    else if (flags.format == "json")
      pictures::write_attention_json(map, write, first);
    else if (flags.format == "csv")
      pictures::write_attention_csv(map, write);
    else if (flags.layer || flags.head)
      write(pictures::attention_heat_map(map, first.layer, first.head.value_or(0)));
    else
      write(pictures::attention_overview(map));
  });
}

}  // namespace
}  // namespace heddle::examples

int main(int argc, char** argv) {
  return heddle::examples::run_program("attention_view", [&] {
    const auto flags = heddle::examples::parse(argc, argv);
    if (flags) heddle::examples::write_view(*flags);
  });
}
