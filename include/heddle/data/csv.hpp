// Comma-separated tables as in RFC 4180: a field in quotes may hold commas, line ends and quotes (doubled). Every other
// use of a quote is an error, because readers disagree about its meaning. heddle has its own reader so that an error
// names file and line, and so that the text passes the checks of text_file.hpp.
#pragma once
#include <heddle/data/table.hpp>

namespace heddle::data {

/// The options of read_csv() and parse_csv().
struct CsvOptions {
  bool header = true;  ///< whether the first record names the columns
};

namespace detail {

class CsvReader {
 public:
  explicit CsvReader(TextFile& source) : source_(source), rest_(source.text) {}

  bool done() const { return rest_.empty(); }
  std::size_t line() const { return line_; }  // where the next record begins

  void read_record(Table& table) {
    const std::size_t line = line_;
    do {
      table.add(rest_.starts_with('"') ? quoted_field() : plain_field(), line);
    } while (take(','));
    if (take('\r')) ++source_.notes.crlf;
    if (take('\n')) ++line_;
  }

 private:
  bool take(char c) {
    if (!rest_.starts_with(c)) return false;
    rest_.remove_prefix(1);
    return true;
  }
  std::string_view take(std::size_t count) {
    count = std::min(count, rest_.size());
    const std::string_view taken = rest_.substr(0, count);
    rest_.remove_prefix(count);
    return taken;
  }
  bool at_line_end() const {
    return rest_.empty() || rest_ == "\r" || rest_.starts_with('\n') || rest_.starts_with("\r\n");
  }

  std::string_view plain_field() {
    std::string_view field = take(rest_.find_first_of(",\n\""));
    if (rest_.starts_with('"')) refuse(line_, "a quote inside a field that does not begin with one");
    if (field.ends_with('\r') && at_line_end()) {
      field.remove_suffix(1);
      ++source_.notes.crlf;
    }
    if (field.find('\r') != field.npos)
      refuse(line_, "a carriage return that is neither in quotes nor before a line feed");
    return field;
  }

  std::string_view quoted_field() {
    const std::size_t begin = line_;
    field_.clear();
    take('"');
    do {
      const std::string_view part = take(rest_.find('"'));
      if (rest_.empty()) refuse(begin, "a quote is opened here and never closed");
      line_ += static_cast<std::size_t>(std::count(part.begin(), part.end(), '\n'));
      field_ += part;
      take('"');
      if (rest_.starts_with('"')) field_ += '"';
    } while (take('"'));
    if (!rest_.starts_with(',') && !at_line_end()) refuse(line_, "text after the quote that closes a field");
    return field_;
  }

  [[noreturn]] void refuse(std::size_t line, const char* why) const {
    fail<FileError>(at_line(source_.file, line), ": ", why);
  }

  TextFile& source_;
  std::string_view rest_;
  std::string field_;  // the last quoted field, without its quotes
  std::size_t line_ = 1;
};

}  // namespace detail

/// Reads a table from text in memory. @throws FileError as read_csv() does.
inline Table parse_csv(TextFile source, CsvOptions options = {}) {
  Table table(source.file, source.text.size());
  detail::CsvReader reader(source);
  const auto count = [&](char c) {
    return static_cast<std::size_t>(std::count(source.text.begin(), source.text.end(), c));
  };
  for (bool first = true; !reader.done(); first = false) {
    const std::size_t line = reader.line();
    reader.read_record(table);
    if (first && options.header)
      table.end_header();
    else
      table.end_row(line);
    if (first) table.reserve(count(','), count('\n'));
  }
  require<FileError>(!options.header || table.width() > 0, source.file,
                     ": is empty; the first line must name the columns");
  table.notes = source.notes;
  return table;
}

/// Reads a file. @throws FileError for a file that cannot be read, and for an empty file if a header is expected.
/// @throws FileError with file and line for a row of another width, more than 65,536 columns, a stray quote or carriage
/// return, a quote that is never closed (the line where it opens), and a NUL byte.
inline Table read_csv(const std::string& path, CsvOptions options = {}) { return parse_csv(read_text(path), options); }

}  // namespace heddle::data
