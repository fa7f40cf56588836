// Tab-separated tables as GLUE ships them: a header, one row a line, and no quoting. A quotation mark is an
// ordinary character.
#pragma once
#include <heddle/data/table.hpp>

namespace heddle::data {

/// Reads a table from text in memory. @throws FileError as read_tsv() does.
inline Table parse_tsv(TextFile source) {
  Table table(source.file, source.text.size());
  for_each_line(source, [&](std::string_view line, std::size_t number) {
    for (std::size_t tab = 0; tab != std::string_view::npos;) {
      tab = line.find('\t');
      table.add(line.substr(0, tab), number);
      if (tab != std::string_view::npos) line.remove_prefix(tab + 1);
    }
    if (number > 1) return table.end_row(number);
    table.end_header();
    const auto count = [&](char c) {
      return static_cast<std::size_t>(std::count(source.text.begin(), source.text.end(), c));
    };
    table.reserve(count('\t'), count('\n'));
  });
  require<FileError>(table.width() > 0, source.file, ": is empty; the first line must name the columns");
  table.notes = source.notes;
  return table;
}

/// Reads a file. @throws FileError if it cannot be read or is empty, and with file and line for a row of another width
/// than the header, more than 65,536 columns and a NUL byte.
inline Table read_tsv(const std::string& path) { return parse_tsv(read_text(path)); }

}  // namespace heddle::data
