#include "labelled_texts.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <heddle/data/batches.hpp>
#include <heddle/data/csv.hpp>
#include <heddle/data/tsv.hpp>
#include <numeric>
#include <set>

#include "../ag_news/text.hpp"
#include "../common/evaluate.hpp"
#include "../common/program.hpp"
#include "../common/text.hpp"

namespace heddle::examples {
namespace {

void print_notes(const std::vector<std::string>& sentences, const std::string& path) {
  for (const std::string& sentence : sentences) note(io::printable(path) + ": " + sentence);
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

// Returns a cell without blanks around it. A whole number has one form, however it is written: 2 for 2.0, 02 and +2.
std::string label_in(std::string_view cell) {
  const std::string_view name = stripped(cell);
  const bool is_negative = name.starts_with('-');
  std::string_view digits = name.substr(is_negative || name.starts_with('+') ? 1 : 0);
  const std::size_t point = std::min(digits.find('.'), digits.size());
  const bool is_whole = point > 0 && digits.find_first_not_of("0123456789") >= point &&
                        digits.find_first_not_of('0', point + 1) == digits.npos;
  if (!is_whole) return std::string(name);
  digits = digits.substr(0, point);
  digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return (is_negative && digits != "0" ? "-" : "") + std::string(digits);
}

// Returns the parts of a text between separators, one part more than there are separators.
std::vector<std::string_view> split_at(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = std::min(text.find(separator), text.size());
    parts.push_back(text.substr(0, end));
    if (end == text.size()) return parts;
    text.remove_prefix(end + 1);
  }
}

// Returns the names of the columns in `text`: that column, if a table has it, otherwise those between commas.
std::vector<std::string> names_of(const std::string& text, const data::Table& table) {
  if (std::find(table.columns().begin(), table.columns().end(), text) != table.columns().end()) return {text};
  std::vector<std::string> names;
  for (const std::string_view name : split_at(text, ',')) names.emplace_back(stripped(name));
  return names;
}

// Returns the names in a cell, with | between them and without blanks around them; none for an empty cell.
std::vector<std::string> names_in(std::string_view cell) {
  std::vector<std::string> names;
  if (cell.empty()) return names;
  for (const std::string_view name : split_at(cell, '|')) names.push_back(label_in(name));
  return names;
}

// Returns the format of a table: that of its name, otherwise that of its first line, which has tabs or commas.
std::string format_of(const std::string& path, std::string_view text) {
  std::string end = path.substr(path.size() - std::min<std::size_t>(path.size(), 4));
  for (char& c : end) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  if (end == ".csv" || end == ".tsv") return end.substr(1);
  const std::string_view header = text.substr(0, text.find('\n'));
  return header.find('\t') == header.npos && header.find(',') != header.npos ? "csv" : "tsv";
}

// Returns the label that each column stands for: that of its name, or that of its place, if no column has the name of a
// label.
std::vector<std::size_t> places_of(const LabelledTexts& texts, const std::vector<std::string>& labels) {
  std::vector<std::size_t> places;
  std::size_t found = 0;
  for (const std::string& column : texts.label_columns) {
    const auto label = static_cast<std::size_t>(std::find(labels.begin(), labels.end(), column) - labels.begin());
    found += label < labels.size();
    places.push_back(label);
  }
  if (found == 0) std::iota(places.begin(), places.end(), std::size_t{0});
  for (std::size_t c = 0; found > 0 && texts.label_columns.size() > 1 && c < places.size(); ++c)
    require<FileError>(places[c] < labels.size(), texts.file, ": the column ", io::quoted_name(texts.label_columns[c]),
                       " is none of the model's ", labels.size(), " labels");
  return places;
}

}  // namespace

LabelledTexts read_table(const std::string& path, const TableColumns& columns, Index limit) {
  data::TextFile file = data::read_text(path);
  const std::string format = columns.format == "auto" ? format_of(path, file.text) : columns.format;
  const data::Table table = format == "csv" ? data::parse_csv(std::move(file)) : data::parse_tsv(std::move(file));
  print_notes(table.notes.sentences(), path);
  const std::size_t first = table.column(columns.text);
  LabelledTexts texts;
  if (!columns.label.empty()) texts.label_columns = names_of(columns.label, table);
  std::vector<std::size_t> cells;
  for (const std::string& name : texts.label_columns) cells.push_back(table.column(name));
  const std::size_t second = columns.second.empty() ? first : table.column(columns.second);
  const std::size_t third = columns.third.empty() ? first : table.column(columns.third);
  const std::size_t rows = limit ? std::min(table.rows(), static_cast<std::size_t>(limit)) : table.rows();
  texts.file = io::printable(path);
  require<FileError>(rows > 0, texts.file, ": has no rows");
  for (std::size_t row = 0; row < rows; ++row) {
    texts.first.emplace_back(table[row][first]);
    if (!columns.second.empty()) texts.second.emplace_back(table[row][second]);
    if (!columns.third.empty()) texts.third.emplace_back(table[row][third]);
    for (const std::size_t cell : cells) texts.labels.push_back(label_in(table[row][cell]));
    texts.lines.push_back(table.line(row));
  }
  return texts;
}

LabelledTexts as_pairs(LabelledTexts texts) {
  if (texts.third.empty() || !texts.labels.empty()) return texts;
  LabelledTexts pairs;
  pairs.file = texts.file;
  pairs.label_columns = {"score"};
  for (std::size_t row = 0; row < texts.first.size(); ++row)
    for (const bool belongs : {true, false}) {
      pairs.first.push_back(texts.first[row]);
      pairs.second.push_back(belongs ? texts.second[row] : texts.third[row]);
      pairs.labels.emplace_back(belongs ? "1" : "0");
      pairs.lines.push_back(texts.lines[row]);
    }
  return pairs;
}

LabelledTexts read_ag_news(const std::string& path, Index limit, std::optional<std::uint64_t> seed) {
  const NewsRows rows = read_news(path, seed ? 0 : limit);
  print_notes(rows.sentences, path);
  const auto count = static_cast<Index>(rows.texts.size());
  std::vector<Index> chosen(static_cast<std::size_t>(count));
  std::iota(chosen.begin(), chosen.end(), Index{0});
  if (seed) chosen = data::shuffled(count, *seed, stream(Stream::split));
  if (limit > 0) chosen.resize(static_cast<std::size_t>(std::min(count, limit)));
  std::sort(chosen.begin(), chosen.end());
  LabelledTexts texts;
  texts.file = io::printable(path);
  texts.numbers_first = true;
  for (const Index row : chosen) {
    const auto n = static_cast<std::size_t>(row);
    texts.first.push_back(repair(rows.texts[n]));
    texts.labels.push_back(std::to_string(rows.labels[n]));
    texts.lines.push_back(rows.lines[n]);
  }
  return texts;
}

std::vector<int> class_of_each(const LabelledTexts& texts, const std::vector<std::string>& classes,
                               bool may_be_numbers) {
  std::vector<int> all;
  for (std::size_t row = 0; row < texts.labels.size(); ++row) {
    const std::string& cell = texts.labels[row];
    require<FileError>(!cell.empty(), texts.where(row), ": the label is empty");
    const auto count = static_cast<int>(classes.size());
    const auto named = std::find(classes.begin(), classes.end(), cell);
    int number = may_be_numbers ? number_in(cell).value_or(-1) : -1;
    const bool is_number = number >= 0 && number < count;
    if (named != classes.end() && !(texts.numbers_first && is_number))
      number = static_cast<int>(named - classes.begin());
    const std::string numbers = may_be_numbers ? "a number from 0 to " + std::to_string(count - 1) + " or " : "";
    require<FileError>(number >= 0 && number < count, texts.where(row), ": the label is ", io::quoted_name(cell),
                       " but must be ", numbers, "the name of one of the ", classes.size(), " classes");
    all.push_back(number);
  }
  return all;
}

Classes classes_in(const LabelledTexts& train, const LabelledTexts& valid) {
  std::set<std::string> cells;
  for (const LabelledTexts* texts : {&train, &valid})
    for (std::size_t row = 0; row < texts->labels.size(); ++row) {
      const std::string& cell = texts->labels[row];
      require<FileError>(!cell.empty(), texts->where(row), ": the label is empty");
      require<FileError>(cell == io::printable(cell), texts->where(row), ": the label is ", io::quoted_name(cell),
                         ", which has invalid bytes or control characters");
      cells.insert(cell);
    }
  Classes classes{{cells.begin(), cells.end()},
                  std::all_of(cells.begin(), cells.end(), [](const auto& cell) { return number_in(cell); })};
  if (classes.are_numbers) {
    int highest = 0;
    for (const std::string& cell : cells) highest = std::max(highest, *number_in(cell));
    classes = numbered_classes(highest);
  }
  constexpr std::size_t most = 10'000;
  const std::size_t count = classes.names.size();
  require<FileError>(count >= 2 && count <= most, train.file, ": has ", count, count == 1 ? " class" : " classes",
                     "; a classifier needs 2 to ", most);
  return classes;
}

Classes numbered_classes(int highest) {
  Classes classes{{}, true};
  for (int i = 0; i <= highest; ++i) classes.names.push_back("LABEL_" + std::to_string(i));
  return classes;
}

std::vector<std::string> labels_in(const LabelledTexts& train, const LabelledTexts& valid) {
  std::vector<std::string> labels = train.label_columns;
  for (const std::string& name : labels)
    require<FileError>(labels.size() == 1 || (!name.empty() && name.find('|') == name.npos), train.file,
                       ": the column ", io::quoted_name(name), " cannot be a label; its name is empty or has a |");
  if (labels.size() == 1) {
    std::set<std::string> names;
    for (const LabelledTexts* texts : {&train, &valid})
      for (std::size_t row = 0; row < texts->labels.size(); ++row)
        for (const std::string& name : names_in(texts->labels[row])) {
          require<FileError>(!name.empty(), texts->where(row), ": the labels ", io::quoted_name(texts->labels[row]),
                             " have an empty name");
          require<FileError>(name == io::printable(name), texts->where(row), ": the label is ", io::quoted_name(name),
                             ", which has invalid bytes or control characters");
          names.insert(name);
        }
    labels.assign(names.begin(), names.end());
  }
  constexpr std::size_t most = 10'000;
  require<FileError>(!labels.empty() && labels.size() <= most, train.file, ": has ", labels.size(),
                     " labels; a model needs 1 to ", most);
  return labels;
}

Targets label_sets(const LabelledTexts& texts, const std::vector<std::string>& labels) {
  const std::size_t columns = texts.label_columns.size(), width = labels.size();
  Targets targets{static_cast<Index>(width), {}};
  require<FileError>(columns == 1 || columns == width, texts.file, ": ", columns,
                     " columns of labels were given; the model has ", width, " labels");
  const std::vector<std::size_t> places = places_of(texts, labels);
  for (std::size_t row = 0; row < texts.first.size(); ++row) {
    std::vector<float> values(width);
    if (columns == 1) {
      const std::string& cell = texts.labels[row];
      for (const std::string& name : names_in(cell)) {
        const auto label = static_cast<std::size_t>(std::find(labels.begin(), labels.end(), name) - labels.begin());
        require<FileError>(label < width, texts.where(row), ": the label ", io::quoted_name(name),
                           " is none of the model's ", width, " labels");
        require<FileError>(values[label] == 0, texts.where(row), ": has the label ", io::quoted_name(name), " twice");
        values[label] = 1;
      }
    } else {
      for (std::size_t c = 0; c < columns; ++c) {
        const std::string& cell = texts.labels[row * columns + c];
        require<FileError>(cell == "0" || cell == "1", texts.where(row), ": the column ",
                           io::quoted_name(texts.label_columns[c]), " is ", io::quoted_name(cell),
                           " but must be 0 or 1");
        values[places[c]] = cell == "1" ? 1.f : 0.f;
      }
    }
    targets.values.insert(targets.values.end(), values.begin(), values.end());
  }
  return targets;
}

Targets numbers_in(const LabelledTexts& texts, double least, double most, const std::vector<std::string>& labels) {
  const std::size_t columns = texts.label_columns.size();
  Targets targets{static_cast<Index>(columns), std::vector<float>(texts.labels.size())};
  const std::vector<std::size_t> places = places_of(texts, labels);
  for (std::size_t i = 0; i < texts.labels.size(); ++i) {
    const std::string& cell = texts.labels[i];
    const char* const begin = cell.data() + (cell.starts_with('+') && !cell.starts_with("+-") ? 1 : 0);
    const char* const end = cell.data() + cell.size();
    double value = 0;
    const auto [stop, error] = std::from_chars(begin, end, value);
    const bool is_number = error == std::errc() && stop == end && value >= least && value <= most;
    require<FileError>(is_number, texts.where(i / columns), ": the label is ", io::quoted_name(cell),
                       " but must be a number",
                       most > 1    ? ""
                       : least < 0 ? " from -1 to 1"
                                   : " from 0 to 1");
    targets.values[i - i % columns + places[i % columns]] = static_cast<float>(value);
  }
  return targets;
}

bool has_number(const std::vector<std::string>& classes) {
  return std::any_of(classes.begin(), classes.end(),
                     [](const std::string& name) { return number_in(name).has_value(); });
}

}  // namespace heddle::examples
