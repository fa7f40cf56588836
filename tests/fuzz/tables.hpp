// Properties of every table, read from any file.
#pragma once
#include <algorithm>
#include <optional>
#include <string>
#include <string_view>

#include <heddle/data/table.hpp>

#include "fuzz.hpp"

namespace heddle::fuzz {

inline void check_text(const data::TextFile& source, std::string_view bytes) {
  claim(text::is_utf8(source.text), "a text is valid UTF-8 once it is read");
  claim(source.text.find('\0') == std::string::npos, "a text has no NUL byte");
  const bool changed = source.notes.bom || source.notes.invalid_utf8 > 0;
  claim(changed || source.text == bytes, "a text is as it was, or a note says what was changed");
  claim(source.notes.invalid_utf8 == 0 || source.notes.first_invalid_line > 0, "the first invalid line is named");
}

// Returns the input as text for the readers of tables, or nothing if parse_text refuses it.
inline std::optional<data::TextFile> read_text(const Input& input) {
  auto source = attempt<FileError>([&] { return data::parse_text(input.string(), "input"); });
  if (source) check_text(*source, input.text());
  return source;
}

inline void check_table(const data::Table& table, const data::TextFile& source) {
  const auto lines = static_cast<std::size_t>(std::count(source.text.begin(), source.text.end(), '\n')) + 1;
  std::size_t before = 0;
  for (std::size_t row = 0; row < table.rows(); ++row) {
    claim(table[row].size() == table.width(), "every row has the table's width");
    claim(table.line(row) > before && table.line(row) <= lines, "rows stand in the order of their lines");
    before = table.line(row);
    for (const std::string_view field : table[row]) claim(text::is_utf8(field), "fields are valid UTF-8");
  }
  claim(table.columns().empty() || table.columns().size() == table.width(), "the header has the table's width");
  constexpr std::size_t looked_up = 8;  // because each look-up costs a pass over all columns
  for (std::size_t i = 0; i < std::min(looked_up, table.columns().size()); ++i)
    if (std::count(table.columns().begin(), table.columns().end(), table.columns()[i]) == 1)
      claim(table.column(table.columns()[i]) == i, "a column is found by its name");
  const std::size_t notes = table.notes.bom + (table.notes.crlf > 0) + (table.notes.invalid_utf8 > 0) +
                            std::size_t{table.notes.no_final_newline};
  claim(table.notes.sentences().size() == notes, "each note has a sentence");
}

}  // namespace heddle::fuzz
