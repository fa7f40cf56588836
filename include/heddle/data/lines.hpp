// Files with one item per line, and folders of them in which each file is a class: Arabic.txt, Chinese.txt, ...
#pragma once
#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/data/text_file.hpp>

namespace heddle::data {

/// The lines of a text file.
struct Lines {
  std::string file;                ///< printable, for messages
  std::string label;               ///< the file's name without folder and extension
  std::vector<std::string> lines;  ///< lines[i] is line i + 1 of the file; empty lines are kept
  TextNotes notes;                 ///< remarks on the text
};

/// Reads lines from text in memory.
inline Lines parse_lines(TextFile source) {
  Lines result{source.file, std::filesystem::path(source.file).stem().string(), {}, {}};
  for_each_line(source, [&](std::string_view line, std::size_t) { result.lines.emplace_back(line); });
  result.notes = source.notes;
  return result;
}

/// Reads a file. @throws FileError if it cannot be read, and with file and line for a NUL byte.
inline Lines read_lines(const std::string& path) { return parse_lines(read_text(path)); }

/// Returns all *.txt files of a folder, sorted by the bytes of their names, so that the order is the same everywhere.
/// @throws FileError if there are none or the folder cannot be read, and as read_lines() does.
inline std::vector<Lines> read_folder(const std::string& folder) {
  std::error_code error;
  std::vector<std::string> paths;
  const std::filesystem::directory_iterator entries(folder, error);
  for (auto entry = begin(entries); !error && entry != end(entries); entry.increment(error))
    if (entry->path().extension() == ".txt") paths.push_back(entry->path().string());
  require<FileError>(!error, io::printable(folder), ": cannot be read as a folder: ", error.message());
  require<FileError>(!paths.empty(), io::printable(folder), ": the folder has no .txt files");
  std::sort(paths.begin(), paths.end());
  std::vector<Lines> all;
  for (const std::string& path : paths) all.push_back(read_lines(path));
  return all;
}

}  // namespace heddle::data
