#include "out_folder.hpp"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <heddle/io/json_object.hpp>
#include <heddle/io/write_atomically.hpp>
#include <heddle/text/tokenizer_files.hpp>
#include <nlohmann/json.hpp>

#include "run_settings.hpp"

namespace heddle::examples {

namespace {

// The files that the programs write into --out with io::write_atomically().
constexpr const char* written_files[] = {"model.safetensors",
                                         "last.safetensors",
                                         "config.json",
                                         "started.json",
                                         "vocab.txt",
                                         "labels.txt",
                                         "split.tsv",
                                         "stop_words.txt",
                                         "lemmas.txt",
                                         "confusion.txt",
                                         "confusion.svg",
                                         "losses.svg",
                                         "lengths.svg",
                                         "tokenizer.json",
                                         "tokenizer_config.json",
                                         "special_tokens_map.json",
                                         "added_tokens.json",
                                         "modules.json",
                                         "sentence_bert_config.json",
                                         "config_sentence_transformers.json"};

// Returns the configuration in a config.json: the file's object, or its member 'heddle' if other programs read
// the file too.
const nlohmann::json& own_members(const nlohmann::json& json) {
  const auto own = json.find("heddle");
  return own != json.end() && own->is_object() ? *own : json;
}

// Returns whether this program wrote a config.json; false for a file that is not JSON.
bool is_config_of(const std::string& file, const std::string& program) {
  const auto json = nlohmann::json::parse(io::read_file(file), nullptr, false);
  return json.is_object() && own_members(json).value("program", nlohmann::json()) == program;
}

// Returns the checksums of the files that a config.json of this program lists, by name.
std::map<std::string, std::string> listed_files(const std::string& config) {
  std::map<std::string, std::string> sums;
  if (!io::path_exists(config)) return sums;
  const auto json = nlohmann::json::parse(io::read_file(config), nullptr, false);
  if (!json.is_object()) return sums;
  const nlohmann::json files = own_members(json).value("files", nlohmann::json::object());
  for (const auto& [name, sum] : files.items())
    if (sum.is_string()) sums[name] = sum.get<std::string>();
  return sums;
}

// Writes a file unless it has this content. Makes its folder.
void write_if_new(const std::string& file, const std::string& text) {
  std::error_code error;  // write_atomically() reports it
  std::filesystem::create_directories(std::filesystem::path(file).parent_path(), error);
  if (!io::path_exists(file) || io::read_file(file) != text) io::write_atomically(file, text);
}

}  // namespace

OutFolder::OutFolder(const std::string& path, const std::string& program, bool resume) : path_(path) {
  const std::string shown = io::printable(path);
  std::error_code error, dangling;
  std::filesystem::create_directories(path, error);
  require<FileError>(io::is_folder(path), shown, ": cannot be used as a folder for results: ",
                     std::filesystem::is_symlink(path, dangling) && !io::path_exists(path) ? "it is a dangling link"
                     : error                                                               ? error.message()
                                                                                           : "it is a file");
  lock_ = io::detail::Descriptor(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (lock_.number() < 0 || ::access(path.c_str(), W_OK | X_OK) != 0)
    io::detail::fail_file<FileError>(path, "cannot be written", errno);
  require<FileError>(::flock(lock_.number(), LOCK_EX | LOCK_NB) == 0, shown,
                     ": another run is writing to this folder; give another --out, or wait for that run");
  for (const char* result : {"model.safetensors", "last.safetensors", "checkpoint"})
    require<FileError>(resume || !io::path_exists(file(result)), shown, ": holds the results of another run (", result,
                       "); give another --out, continue that run with --resume, or remove them");
  // A config.json without results may be overwritten if this program wrote it.
  const std::string config = file("config.json");
  begun_ = io::path_exists(config) && is_config_of(config, program);
  const bool foreign = io::path_exists(config) && !begun_;
  require<FileError>(!foreign && !io::path_exists(file("pytorch_model.bin")), shown, ": holds another model (",
                     foreign ? "config.json" : "pytorch_model.bin", "); give another --out");
  for (const char* result : {"model.safetensors", "last.safetensors"})
    require<FileError>(begun_ || !io::path_exists(file(result)), shown, ": holds weights of another program (", result,
                       "); give another --out, or remove them");
  io::remove_leftovers(path, written_files);
}

bool OutFolder::began_with(const std::string& metrics) const {
  const std::string started = file("started.json");
  if (!begun_ || !io::path_exists(started)) return false;
  const auto json = nlohmann::json::parse(io::read_file(started), nullptr, false);
  return json.is_object() && json.contains("metrics") && json["metrics"] == real_path(metrics);
}
void OutFolder::begin_with(const std::string& metrics) const {
  write_if_new(file("started.json"), nlohmann::json{{"metrics", real_path(metrics)}}.dump() + '\n');
}

void describe_model(const OutFolder& out, const std::string& program, const SavedConfig& config,
                    std::map<std::string, std::string> files, const std::string& model) {
  const ModelSizes& s = config.sizes;
  nlohmann::ordered_json json{
      {"program", program},  {"vocab_size", config.vocabulary}, {"labels", config.labels}, {"uncased", config.uncased},
      {"seed", config.seed}, {"max_length", s.max_length},      {"layers", s.layers},      {"d_model", s.d_model},
      {"heads", s.heads},    {"head_dim", s.head_dim},          {"ff_width", s.ff_width}};
  for (const auto& [name, value] : config.own) json[name] = value;
  for (const std::string& label : config.labels) files["labels.txt"] += label + '\n';
  for (const auto& [name, content] : files) json["files"][name] = train::checksum(io::crc64(content));
  if (!model.empty()) {
    nlohmann::ordered_json all = nlohmann::ordered_json::parse(model);
    all["heddle"] = std::move(json);
    json = std::move(all);
  }
  const std::string path = out.file("config.json"), text = json.dump(2) + '\n';
  const bool results = io::path_exists(out.file("model.safetensors")) || io::path_exists(out.file("last.safetensors"));
  require<FileError>(!results || !io::path_exists(path) || io::read_file(path) == text, io::printable(path),
                     ": describes a different model from this run's");
  // Files of an earlier run of this program may be replaced and removed, others not.
  const std::map<std::string, std::string> earlier =
      out.begun() ? listed_files(path) : std::map<std::string, std::string>();
  const auto may_replace = [&](const std::string& name) {
    const auto sum = earlier.find(name);
    return sum != earlier.end() && train::checksum(io::crc64(io::read_file(out.file(name)))) == sum->second;
  };
  for (const auto& [name, content] : files) {
    const std::string file = out.file(name);
    require<FileError>(!io::path_exists(file) || io::read_file(file) == content || may_replace(name),
                       io::printable(file), ": differs from the file of this run; give another --out, or remove it");
  }
  // A model folder is read with every tokenizer file and module in it, so those of an earlier run must not stay.
  std::vector<std::string> stale;
  for (const char* name : text::detail::tokenizer_file_names)
    require<FileError>(model.empty() || files.count(name) || !io::path_exists(out.file(name)) || may_replace(name),
                       io::printable(out.file(name)), ": is not a file of this run; give another --out, or remove it");
  for (const auto& [name, sum] : earlier)
    if (!files.count(name) && io::path_exists(out.file(name)) && may_replace(name)) stale.push_back(out.file(name));
  // A run that is killed here can be repeated, because config.json always lists the files that may be replaced: in a
  // new folder it is written first; in the folder of an earlier run the earlier list stays until the other files are
  // written.
  if (!out.begun()) write_if_new(path, text);
  for (const std::string& file : stale) std::filesystem::remove(file);
  for (const auto& [name, content] : files) write_if_new(out.file(name), content);
  write_if_new(path, text);
}

std::optional<std::string> read_model_file(const std::string& folder, const SavedConfig& config,
                                           const std::string& name) {
  const auto found = config.files.find(name);
  if (found == config.files.end()) return std::nullopt;
  const std::string file = folder + '/' + name;
  require<FileError>(io::path_exists(file), io::printable(file), ": is missing, but it belongs to the model");
  std::string content = io::read_file(file);
  require<FileError>(train::checksum(io::crc64(content)) == found->second, io::printable(file),
                     ": is not the file that belongs to the model");
  return content;
}

void require_own_metrics(const TrainerFlags& flags) {
  const std::string metrics = real_path(flags.metrics), shown = io::printable(flags.metrics);
  const auto is = [&](const std::string& file) { return metrics == real_path(file); };
  struct stat asked {};
  struct stat printed {};
  for (const int stream : {STDOUT_FILENO, STDERR_FILENO})
    require<FileError>(::stat(flags.metrics.c_str(), &asked) != 0 || !S_ISREG(asked.st_mode) ||
                           ::fstat(stream, &printed) != 0 || asked.st_dev != printed.st_dev ||
                           asked.st_ino != printed.st_ino,
                       shown, ": receives what the run prints; give another --metrics");
  train::require_metrics(flags.metrics);
  if (flags.out.empty()) return;
  bool written = metrics.starts_with(real_path(flags.out + "/checkpoint") + '/');
  written |= is(flags.out + "/checkpoint");
  for (const char* name : written_files) written |= is(flags.out + '/' + name);
  require<FileError>(!written, shown, ": is written by the run itself; give another --metrics");
}

void require_agreement(const TrainerFlags& flags, const SavedConfig& saved) {
  const ModelSizes &now = flags.sizes, &then = saved.sizes;
  const std::tuple<const char*, Index, Index> sizes[] = {
      {"--layers", now.layers, then.layers},       {"--d-model", now.d_model, then.d_model},
      {"--heads", now.heads, then.heads},          {"--head-dim", now.head_dim, then.head_dim},
      {"--ff-width", now.ff_width, then.ff_width}, {"--max-length", now.max_length, then.max_length}};
  for (const auto& [flag, asked, has] : sizes)
    require(!flags.given.count(flag) || asked == has, flag, " is ", asked, "; the model in ", io::printable(flags.out),
            " has ", has);
  require(!flags.uncased || saved.uncased, "--uncased: the model in ", io::printable(flags.out), " is cased");
}

SavedConfig read_config(const std::string& path, const std::string& program, const OwnFlags& own) {
  const std::string text = io::read_file(path), shown = io::printable(path);
  const auto all = nlohmann::json::parse(text, nullptr, false);
  require<FileError>(all.is_object(), shown, ": is not a JSON object");
  const nlohmann::json& json = own_members(all);
  const io::JsonObject members(json, shown);
  const auto get = [&](const char* key, Index& value, Index least = 1) {
    value = members.count(key, least, largest_size);
  };
  const auto refuse = [&](const std::string& what, const nlohmann::json& value, const char* expected) {
    fail<FileError>(shown, ": ", what, " is ", io::printable(value.dump(), 60), " but must be ", expected);
  };
  const auto name = json.find("program");
  require<FileError>(name != json.end() && *name == program, shown, ": is not the configuration of a model of ",
                     program);
  SavedConfig config;
  config.vocabulary = members.count("vocab_size", 1, std::numeric_limits<std::int32_t>::max());
  const nlohmann::json& labels = members.at("labels");
  // Whether the model chooses one class of several.
  const bool chooses = json.value("objective", nlohmann::json("classes")) == "classes" && !json.contains("loss");
  if (!labels.is_array() || (chooses && labels.size() < 2))
    refuse("'labels'", labels, chooses ? "a list of the names of at least two classes" : "a list of names");
  for (const auto& label : labels) {
    if (!label.is_string())
      refuse("element " + std::to_string(config.labels.size()) + " of 'labels'", label, "a string");
    const std::string name_of_class = label.get<std::string>();
    require<FileError>(std::find(config.labels.begin(), config.labels.end(), name_of_class) == config.labels.end(),
                       shown, ": 'labels' holds ", io::quoted_name(name_of_class), " twice");
    config.labels.push_back(name_of_class);
  }
  const nlohmann::json& seed = members.at("seed");
  if (!seed.is_number_unsigned()) refuse("'seed'", seed, "a whole number of at least 0");
  config.seed = seed.get<std::uint64_t>();
  config.uncased = members.boolean("uncased");
  get("max_length", config.sizes.max_length);
  get("layers", config.sizes.layers);
  get("d_model", config.sizes.d_model);
  get("heads", config.sizes.heads);
  get("head_dim", config.sizes.head_dim);
  get("ff_width", config.sizes.ff_width, 0);
  if (json.contains("files"))
    for (const auto& [file, sum] : members.object("files").items()) {
      if (!sum.is_string()) refuse("the checksum of " + io::quoted_name(file) + " in 'files'", sum, "a string");
      config.files[file] = sum.get<std::string>();
    }
  for (const auto& [key, value] : own) config.own[key] = members.text(key);
  return config;
}

}  // namespace heddle::examples
