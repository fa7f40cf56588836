// What the readers of TSV and CSV give: text fields in rows of equal width, and the line where each row began.
#pragma once
#include <algorithm>
#include <iterator>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/data/text_file.hpp>

namespace heddle::data {

// Rows and columns count from 0, lines of the file from 1. The number of a row is not checked.
class Table {
 public:
  // Empty; `file` begins the messages of errors.
  explicit Table(std::string file) : file_(std::move(file)) {}

  const std::vector<std::string>& columns() const {
    return columns_;
  }                                             // their names; empty where the file has no header
  std::size_t width() const { return width_; }  // fields in every row
  std::size_t rows() const { return lines_.size(); }
  // The fields of a row, valid as long as the table.
  std::span<const std::string> operator[](std::size_t row) const { return {cells_.data() + row * width_, width_}; }

  // The position of a column. Throws FileError with the columns there are, unless exactly one has the name.
  std::size_t column(std::string_view name) const {
    const auto count = std::count(columns_.begin(), columns_.end(), name);
    std::string list;
    constexpr std::size_t most = 20;
    for (std::size_t i = 0; i < std::min(most, columns_.size()); ++i)
      list += (list.empty() ? "" : ", ") + io::quoted_name(columns_[i]);
    if (columns_.size() > most) list += ", …";
    require<FileError>(count == 1, file_, ": ", count == 0 ? "no" : "more than one", " column ", io::quoted_name(name),
                       " (", list.empty() ? "there is no header" : "the header has " + list, ')');
    return static_cast<std::size_t>(std::find(columns_.begin(), columns_.end(), name) - columns_.begin());
  }

  // The line where a row begins, from 1; and FILE:LINE, the beginning of an error about the row.
  std::size_t line(std::size_t row) const { return lines_[row]; }
  std::string where(std::size_t row) const { return detail::at_line(file_, line(row)); }

  TextNotes notes;

  // For readers. Both empty `fields`. Throws FileError for a row of another width than the header or, without one, the
  // first row.
  void set_header(std::vector<std::string>& fields) {
    columns_ = std::exchange(fields, {});
    width_ = columns_.size();
  }
  void append(std::vector<std::string>& fields, std::size_t line) {
    if (lines_.empty() && columns_.empty()) width_ = fields.size();
    if (fields.size() != width_)
      fail<FileError>(detail::at_line(file_, line), ": ", fields.size(),
                      fields.size() == 1 ? " column, " : " columns, ",
                      columns_.empty() ? "the first row has " : "the header has ", width_);
    std::move(fields.begin(), fields.end(), std::back_inserter(cells_));
    fields.clear();
    lines_.push_back(line);
  }

 private:
  std::string file_;
  std::vector<std::string> columns_;
  std::size_t width_ = 0;
  std::vector<std::string> cells_;  // [rows, width]
  std::vector<std::size_t> lines_;
};

}  // namespace heddle::data
