// --out: a folder that one run at a time holds.
#pragma once
#include <string>

#include "flags.hpp"

namespace heddle::examples {

class OutFolder {
 public:
  // Creates the folder, takes its lock, and refuses one that holds the results of another run. Throws Error.
  explicit OutFolder(const std::string& path);
  OutFolder(const OutFolder&) = delete;
  ~OutFolder();

  std::string file(const std::string& name) const { return path_ + '/' + name; }

 private:
  std::string path_;
  int lock_ = -1;
};

// What config.json of a trainer's folder says: enough to make the model again.
struct SavedConfig {
  ModelSizes sizes;
  Index vocabulary = 0, classes = 2;
  bool uncased = false;
};
void write_config(const std::string& path, const std::string& program, const SavedConfig& config);
// Throws FileError for a file that cannot be read or is not this program's.
SavedConfig read_config(const std::string& path, const std::string& program);

bool exists(const std::string& path);

}  // namespace heddle::examples
