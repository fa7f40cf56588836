// --out: a folder that one run at a time holds.
#pragma once
#include <string>
#include <vector>

#include <heddle/base/file.hpp>

#include "flags.hpp"

namespace heddle::examples {

class OutFolder {
 public:
  // Creates the folder, locks it, and removes what a killed run left half-written. Unless the run is to be resumed, a folder that
  // holds results is refused, and in any case one that holds another program's. Throws Error.
  OutFolder(const std::string& path, const std::string& program, bool resume);

  // Whether an earlier run of the program began here, with or without results.
  bool begun() const { return begun_; }
  // Whether it was to write its metrics to this file: what it left there before its first checkpoint is its own.
  bool began_with(const std::string& metrics) const;
  // Remembers that for the next start.
  void begin_with(const std::string& metrics) const;
  std::string file(const std::string& name) const { return path_ + '/' + name; }

 private:
  std::string path_;
  bool begun_ = false;
  io::detail::Descriptor lock_{-1};  // of the folder itself: it ends with the process, whatever ends that
};

// What config.json of a trainer's folder says: enough to make the model again.
struct SavedConfig {
  ModelSizes sizes;
  Index vocabulary = 0, classes = 2;
  bool uncased = false;
};
// Writes config.json and vocab.txt. Throws FileError where there is another model's config.json, or another vocab.txt that no run of
// the program left.
void describe_model(const OutFolder& out, const std::string& program, const SavedConfig& config,
                    const std::string& vocabulary);
// Throws FileError for a file that cannot be read or is not this program's.
SavedConfig read_config(const std::string& path, const std::string& program);
// Throws Error for a flag that says otherwise.
void require_agreement(const TrainerFlags& flags, const SavedConfig& saved);

bool exists(const std::string& path);
bool is_folder(const std::string& path);

// Throws FileError where --metrics names a file that the run reads (inputs) or that it writes itself.
void require_own_metrics(const TrainerFlags& flags, const std::vector<std::string>& inputs);

}  // namespace heddle::examples
