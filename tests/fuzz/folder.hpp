// A temporary folder whose files a fuzz target writes anew for each input.
#pragma once
#include <cstdio>
#include <filesystem>
#include <string>
#include <string_view>

#include "fuzz.hpp"

namespace heddle::fuzz {

class Folder {
 public:
  explicit Folder(const std::string& target) {
    std::string name = (std::filesystem::temp_directory_path() / ("fuzz-" + target + "-XXXXXX")).string();
    claim(mkdtemp(name.data()) != nullptr, "a temporary folder can be made");
    path_ = name;
  }
  Folder(const Folder&) = delete;
  ~Folder() { std::filesystem::remove_all(path_); }

  const std::string& path() const { return path_; }
  void write(const std::string& file, std::string_view content) const {
    std::FILE* const to = std::fopen((path_ + '/' + file).c_str(), "wb");
    claim(to && std::fwrite(content.data(), 1, content.size(), to) == content.size(), "a file can be written");
    std::fclose(to);
  }

 private:
  std::string path_;
};

}  // namespace heddle::fuzz
