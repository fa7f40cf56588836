#include "labelled_texts.hpp"

#include <algorithm>
#include <charconv>
#include <heddle/data/csv.hpp>
#include <heddle/data/tsv.hpp>
#include <set>

#include "../ag_news/text.hpp"
#include "../common/program.hpp"

namespace heddle::examples {
namespace {

void print_notes(const data::TextNotes& notes, const std::string& path) {
  for (const std::string& sentence : notes.sentences()) note(io::printable(path) + ": " + sentence);
}

// Returns the number in a cell, or nothing unless it is a whole number from 0 to 999,999.
std::optional<int> number_in(const std::string& cell) {
  int number = 0;
  constexpr std::size_t most_digits = 6;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), number);
  const bool whole =
      error == std::errc() && end == cell.data() + cell.size() && cell.size() <= most_digits && cell[0] != '-';
  return whole ? std::optional(number) : std::nullopt;
}

}  // namespace

LabelledTexts read_table(const std::string& path, const TableColumns& columns, Index limit) {
  const bool is_csv = path.ends_with(".csv") || path.ends_with(".CSV");
  const data::Table table = is_csv ? data::read_csv(path) : data::read_tsv(path);
  print_notes(table.notes, path);
  const std::size_t first = table.column(columns.text), label = table.column(columns.label);
  const std::size_t second = columns.second.empty() ? first : table.column(columns.second);
  const std::size_t rows = limit ? std::min(table.rows(), static_cast<std::size_t>(limit)) : table.rows();
  LabelledTexts texts;
  texts.file = io::printable(path);
  require<FileError>(rows > 0, texts.file, ": has no rows");
  for (std::size_t row = 0; row < rows; ++row) {
    texts.first.emplace_back(table[row][first]);
    if (!columns.second.empty()) texts.second.emplace_back(table[row][second]);
    texts.labels.emplace_back(table[row][label]);
    texts.lines.push_back(table.line(row));
  }
  return texts;
}

LabelledTexts read_ag_news(const std::string& path, Index limit) {
  const NewsRows rows = read_news(path, limit);
  print_notes(rows.notes, path);
  LabelledTexts texts;
  texts.file = io::printable(path);
  texts.numbers_first = true;
  for (std::size_t row = 0; row < rows.texts.size(); ++row) {
    texts.first.push_back(repair(rows.texts[row]));
    texts.labels.push_back(std::to_string(rows.labels[row]));
    texts.lines.push_back(row + 1);
  }
  return texts;
}

std::vector<int> class_of_each(const LabelledTexts& texts, const std::vector<std::string>& classes) {
  std::vector<int> all;
  for (std::size_t row = 0; row < texts.labels.size(); ++row) {
    const std::string& cell = texts.labels[row];
    require<FileError>(!cell.empty(), texts.where(row), ": the label is empty");
    const auto count = static_cast<int>(classes.size());
    const auto named = std::find(classes.begin(), classes.end(), cell);
    int number = number_in(cell).value_or(-1);
    const bool is_number = number >= 0 && number < count;
    if (named != classes.end() && !(texts.numbers_first && is_number))
      number = static_cast<int>(named - classes.begin());
    require<FileError>(number >= 0 && number < count, texts.where(row), ": the label is ", io::quoted_name(cell),
                       " but must be a number from 0 to ", classes.size() - 1, " or the name of one of the ",
                       classes.size(), " classes");
    all.push_back(number);
  }
  return all;
}

std::vector<std::string> classes_in(const LabelledTexts& texts) {
  for (std::size_t row = 0; row < texts.labels.size(); ++row)
    require<FileError>(texts.labels[row] == io::printable(texts.labels[row]), texts.where(row), ": the label is ",
                       io::quoted_name(texts.labels[row]), ", which has invalid bytes or control characters");
  const std::set<std::string> cells(texts.labels.begin(), texts.labels.end());
  std::vector<std::string> classes(cells.begin(), cells.end());
  int highest = 0;
  for (const std::string& cell : cells)
    highest = std::max(highest, number_in(cell).value_or(std::numeric_limits<int>::max()));
  if (highest < std::numeric_limits<int>::max()) {
    classes.clear();
    for (int i = 0; i <= highest; ++i) classes.push_back("LABEL_" + std::to_string(i));
  }
  constexpr std::size_t most = 10'000;
  require<FileError>(classes.size() >= 2 && classes.size() <= most, texts.file, ": has ", classes.size(),
                     classes.size() == 1 ? " class" : " classes", "; a classifier needs 2 to ", most);
  return classes;
}

}  // namespace heddle::examples
