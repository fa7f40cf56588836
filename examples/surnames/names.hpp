// Reads surnames from one file per language, and encodes a name as the ids of its characters.
#pragma once
#include <filesystem>
#include <heddle/data/lines.hpp>
#include <heddle/text/ascii_folding.hpp>

#include "../common/program.hpp"
#include "../common/text.hpp"

namespace heddle::examples {

inline constexpr std::string_view symbols = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ .,;'";
inline constexpr int cls = static_cast<int>(symbols.size());  // the id in front of every name

// Returns the ids of a name: CLS, then its symbols after folding to ASCII. Other characters are dropped.
inline std::vector<int> encode_name(std::string_view name) {
  std::vector<int> ids{cls};
  for (const char c : text::fold_to_ascii(stripped(name)))
    if (const std::size_t id = symbols.find(c); id != symbols.npos) ids.push_back(static_cast<int>(id));
  return ids;
}

// Returns the languages of a folder: the names of its files, sorted. Throws FileError for fewer than two.
inline std::vector<std::string> read_languages(const std::string& folder) {
  std::vector<std::string> languages;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error))
    if (entry.path().extension() == ".txt") languages.push_back(entry.path().stem().string());
  std::sort(languages.begin(), languages.end());
  require<FileError>(languages.size() >= 2, io::printable(folder), ": needs at least two files of names, such as ",
                     "Czech.txt, but has ", languages.size());
  return languages;
}

// Returns the names of a language, without blanks around them. Throws FileError if there is none, and for
// invalid UTF-8.
inline std::vector<std::string> read_names(const std::string& file) {
  data::Lines read = data::read_lines(file);
  data::require_utf8(read.notes, read.file);
  for (const std::string& sentence : read.notes.sentences()) note(read.file + ": " + sentence);
  std::vector<std::string> names;
  for (const std::string& line : read.lines)
    if (const std::string_view name = stripped(line); !name.empty()) names.emplace_back(name);
  for (const std::string& name : names)
    require<FileError>(name.find('\t') == name.npos, read.file, ": a tab in the name ", io::quoted_name(name));
  require<FileError>(!names.empty(), read.file, ": has no names");
  return names;
}

}  // namespace heddle::examples
