// --out: a folder that one run at a time holds.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include <heddle/base/file.hpp>

#include "flags.hpp"

namespace heddle::examples {

class OutFolder {
 public:
  // Creates the folder, locks it, and removes what a killed run left half-written. Throws Error for a folder that holds
  // another program's results, or any results unless the run is resumed.
  OutFolder(const std::string& path, const std::string& program, bool resume);

  // Returns whether an earlier run of the program began here, with or without results.
  bool begun() const { return begun_; }
  // Returns whether that run wrote its metrics to this file. If so, the lines of a run that was killed before its first
  // checkpoint may be dropped.
  bool began_with(const std::string& metrics) const;
  // Records the metrics file for began_with() at the next start.
  void begin_with(const std::string& metrics) const;
  const std::string& path() const { return path_; }
  std::string file(const std::string& name) const { return path_ + '/' + name; }

 private:
  std::string path_;
  bool begun_ = false;
  io::detail::Descriptor lock_{-1};  // a lock on the folder itself, which ends with the process
};

// The values of flags that only one program has and that belong to its model, by name.
using OwnFlags = std::map<std::string, std::string>;

// The content of config.json in a trainer's folder: enough to make the model again.
struct SavedConfig {
  ModelSizes sizes;
  Index vocabulary = 0;
  std::vector<std::string> labels;  // the names of the classes
  bool uncased = false;
  std::uint64_t seed = 0;
  OwnFlags own = {};
  std::map<std::string, std::string> files = {};  // checksums of the model's other files, by name
};
// Writes config.json, labels.txt and `files`, which maps the names of the model's other files, such as vocab.txt, to
// their content. `model` is a JSON object with the members of config.json that other programs read, or empty. With it,
// the configuration is the member 'heddle' of config.json; without it, config.json is the configuration. Throws
// FileError if the folder has results and another config.json, or a file with one of these names and other content that
// no earlier run of the program wrote.
void describe_model(const OutFolder& out, const std::string& program, const SavedConfig& config,
                    std::map<std::string, std::string> files, const std::string& model = "");
// Returns the content of a file that belongs to the model in a folder, or nothing if the model has none of this name.
// Throws FileError if the file is missing or was changed since the model was saved.
std::optional<std::string> read_model_file(const std::string& folder, const SavedConfig& config,
                                           const std::string& name);
// Reads config.json; `own` has the flags that the program adds. Throws FileError for a file that cannot be read or is
// another program's.
SavedConfig read_config(const std::string& path, const std::string& program, const OwnFlags& own);
// Throws Error for a flag that differs from the configuration.
void require_agreement(const TrainerFlags& flags, const SavedConfig& saved);

// Throws FileError if --metrics names a file that the run writes itself, or that holds anything but metrics.
void require_own_metrics(const TrainerFlags& flags);

}  // namespace heddle::examples
