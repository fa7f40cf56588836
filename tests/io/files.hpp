// A folder that is removed at the end of a test, and other helpers for tests of files.
#pragma once
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <heddle/base/error.hpp>
#include <iostream>
#include <iterator>
#include <set>
#include <string>
#include <string_view>

namespace heddle::testing {

class TemporaryFolder {
 public:
  TemporaryFolder() : path_((std::filesystem::temp_directory_path() / "heddle-XXXXXX").string()) {
    require(::mkdtemp(path_.data()) != nullptr, "tests: the temporary folder cannot be created");
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;
  // Makes all folders accessible first, because a test may have locked some.
  ~TemporaryFolder() {
    std::error_code ignored;
    for (const auto& entry : std::filesystem::recursive_directory_iterator(path_, ignored))
      if (entry.is_directory(ignored))
        std::filesystem::permissions(entry, std::filesystem::perms::owner_all, std::filesystem::perm_options::add,
                                     ignored);
    std::filesystem::remove_all(path_, ignored);
  }

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + '/' + name; }
  std::set<std::string> names() const {
    std::set<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) names.insert(entry.path().filename().string());
    return names;
  }

 private:
  std::string path_;
};

inline void put(const std::string& path, std::string_view content) {
  std::ofstream(path, std::ios::binary).write(content.data(), static_cast<std::streamsize>(content.size()));
}
inline std::string get(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// A scope in which the process runs as an unprivileged user, because permissions do not apply to root.
class Unprivileged {
 public:
  Unprivileged() : was_root_(::geteuid() == 0) {
    constexpr uid_t nobody = 65534;
    if (was_root_) require(::seteuid(nobody) == 0, "tests: cannot become another user");
  }
  Unprivileged(const Unprivileged&) = delete;
  Unprivileged& operator=(const Unprivileged&) = delete;
  ~Unprivileged() {
    if (was_root_ && ::seteuid(0) != 0) std::abort();
  }

 private:
  bool was_root_;
};

// Returns the folder of real data. If HEDDLE_DATA is not set, returns an empty string and prints that the test is
// skipped.
inline std::string data_folder(const char* test) {
  const char* const folder = std::getenv("HEDDLE_DATA");
  if (!folder) std::cerr << "skipped: " << test << ": HEDDLE_DATA is not set\n";
  return folder ? folder : "";
}

// Returns the message of the call's exception, or "no error".
template <class E = FileError, class Call>
std::string error_of(Call call) {
  try {
    call();
  } catch (const E& error) {
    return error.what();
  }
  return "no error";
}

}  // namespace heddle::testing
