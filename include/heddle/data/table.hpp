// What the readers of TSV and CSV give: text fields in rows of equal width, and the line where each row began. The text
// of all fields is one string, so that a table takes little more than its file.
#pragma once
#include <algorithm>
#include <cstddef>
#include <iterator>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/data/text_file.hpp>

namespace heddle::data {

// The fields of one row, valid as long as the table. The number of a field is not checked.
class Row {
 public:
  class iterator {
   public:
    using value_type = std::string_view;
    using reference = std::string_view;
    using pointer = void;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    iterator() = default;
    iterator(const char* text, const std::size_t* begin) : text_(text), begin_(begin) {}
    std::string_view operator*() const { return {text_ + begin_[0], begin_[1] - begin_[0]}; }
    iterator& operator++() {
      ++begin_;
      return *this;
    }
    iterator operator++(int) { return {text_, begin_++}; }
    bool operator==(const iterator&) const = default;

   private:
    const char* text_ = nullptr;
    const std::size_t* begin_ = nullptr;
  };

  // The text of all rows, and where each of this row's fields begins in it, and the last one ends.
  Row(const char* text, const std::size_t* begin, std::size_t size) : text_(text), begin_(begin), size_(size) {}

  std::size_t size() const { return size_; }
  // One of them.
  std::string_view operator[](std::size_t field) const { return *iterator(text_, begin_ + field); }
  iterator begin() const { return {text_, begin_}; }
  iterator end() const { return {text_, begin_ + size_}; }

 private:
  const char* text_;
  const std::size_t* begin_;
  std::size_t size_;
};

// Rows and columns count from 0, lines of the file from 1. The number of a row is not checked.
class Table {
 public:
  // Empty; `file` begins the messages of errors, `bytes` is how much text will be added at most.
  explicit Table(std::string file, std::size_t bytes = 0) : file_(std::move(file)) { text_.reserve(bytes); }

  const std::vector<std::string>& columns() const { return columns_; }  // their names; none without a header
  std::size_t width() const { return width_; }                          // fields in every row
  std::size_t rows() const { return lines_.size(); }
  // A row.
  Row operator[](std::size_t row) const { return {text_.data(), begin_.data() + row * width_, width_}; }

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

  // For readers: fields one by one, then the end of the header, or of a row that began in a line. Throws FileError for a
  // row of another width than the header or, without one, the first row.
  void add(std::string_view field) {
    text_ += field;
    begin_.push_back(text_.size());
  }
  void end_header() {
    width_ = begin_.size() - 1;
    for (const std::string_view name : (*this)[0]) columns_.emplace_back(name);
    text_.clear();
    begin_.resize(1);
  }
  void end_row(std::size_t line) {
    const std::size_t fields = begin_.size() - 1 - rows() * width_;
    if (rows() == 0 && columns_.empty()) width_ = fields;
    if (fields != width_)
      fail<FileError>(detail::at_line(file_, line), ": ", fields, fields == 1 ? " column, " : " columns, ",
                      columns_.empty() ? "the first row has " : "the header has ", width_);
    lines_.push_back(line);
  }

 private:
  std::string file_;
  std::vector<std::string> columns_;
  std::size_t width_ = 0;
  std::string text_;                   // all fields, row by row
  std::vector<std::size_t> begin_{0};  // of each field in it, and the end
  std::vector<std::size_t> lines_;
};

}  // namespace heddle::data
