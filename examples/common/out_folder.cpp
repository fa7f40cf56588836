#include "out_folder.hpp"

#include <sys/file.h>
#include <sys/stat.h>

#include <filesystem>
#include <heddle/io/write_atomically.hpp>
#include <nlohmann/json.hpp>

namespace heddle::examples {

bool exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}

OutFolder::OutFolder(const std::string& path) : path_(path) {
  const std::string shown = io::printable(path);
  std::error_code error;
  std::filesystem::create_directories(path, error);
  require<FileError>(std::filesystem::is_directory(path), shown,
                     ": cannot be used as a folder for results: ", error ? error.message() : "it is a file");
  lock_ = ::open(file(".lock").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0666);
  require<FileError>(lock_ >= 0, shown, ": cannot be written: ", std::generic_category().message(errno));
  if (::flock(lock_, LOCK_EX | LOCK_NB) != 0) {
    ::close(std::exchange(lock_, -1));
    fail<FileError>(shown, ": another run is writing to this folder");
  }
  for (const char* result : {"model.safetensors", "last.safetensors", "config.json"})
    if (exists(file(result))) {
      ::close(std::exchange(lock_, -1));
      fail<FileError>(shown, ": holds the results of another run (", result, "); give another --out or remove them");
    }
}
OutFolder::~OutFolder() {
  if (lock_ < 0) return;
  std::remove(file(".lock").c_str());
  ::close(lock_);
}

void write_config(const std::string& path, const std::string& program, const SavedConfig& config) {
  const ModelSizes& s = config.sizes;
  nlohmann::ordered_json json{{"program", program},         {"vocab_size", config.vocabulary},
                              {"classes", config.classes},  {"uncased", config.uncased},
                              {"max_length", s.max_length}, {"layers", s.layers},
                              {"d_model", s.d_model},       {"heads", s.heads},
                              {"head_dim", s.head_dim},     {"ff_width", s.ff_width}};
  io::write_atomically(path, json.dump(2) + '\n');
}

SavedConfig read_config(const std::string& path, const std::string& program) {
  const std::string text = io::read_file(path), shown = io::printable(path);
  const auto json = nlohmann::json::parse(text, nullptr, false);
  require<FileError>(json.is_object(), shown, ": is not a JSON object");
  const auto get = [&](const char* key, auto& value, Index least) {
    using T = std::remove_reference_t<decltype(value)>;
    const auto found = json.find(key);
    require<FileError>(found != json.end(), shown, ": has no '", key, "'");
    if constexpr (std::is_same_v<T, Index>) {
      require<FileError>(found->is_number_integer() && found->template get<Index>() >= least, shown, ": '", key,
                         "' must be a whole number of at least ", least);
    } else {
      require<FileError>(found->is_boolean(), shown, ": '", key, "' must be true or false");
    }
    value = found->template get<T>();
  };
  const auto name = json.find("program");
  require<FileError>(name != json.end() && *name == program, shown, ": is not the configuration of a model of ",
                     program);
  SavedConfig config;
  get("vocab_size", config.vocabulary, 1);
  get("classes", config.classes, 2);
  get("uncased", config.uncased, 0);
  get("max_length", config.sizes.max_length, 1);
  get("layers", config.sizes.layers, 1);
  get("d_model", config.sizes.d_model, 1);
  get("heads", config.sizes.heads, 1);
  get("head_dim", config.sizes.head_dim, 1);
  get("ff_width", config.sizes.ff_width, 1);
  return config;
}

}  // namespace heddle::examples
