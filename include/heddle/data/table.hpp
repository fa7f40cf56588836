// The tables that the readers of TSV and CSV return: text fields in rows of equal width, and the line at which each row
// began. The text of all fields is one string, and the offset of each takes four bytes, so a file that is mostly
// separators needs only a few times its size in memory.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/data/text_file.hpp>

namespace heddle::data {

/// The fields of one row, valid as long as the table. Fields are numbered from 0; their index is not checked.
class Row {
 public:
  /// An input iterator over the fields of a row.
  class iterator {
   public:
    /// The types that std::iterator_traits reads.
    /// @{
    using value_type = std::string_view;
    using reference = std::string_view;
    using pointer = void;
    using difference_type = std::ptrdiff_t;
    using iterator_category = std::input_iterator_tag;
    /// @}
    iterator() = default;
    /// Takes a field's text and a pointer to the offset of its beginning. The next element is the offset of its end.
    iterator(const char* text, const std::uint32_t* begin) : text_(text), begin_(begin) {}
    /// Returns the field.
    std::string_view operator*() const { return {text_, size()}; }
    /// Moves to the next field.
    iterator& operator++() {
      text_ += size();
      ++begin_;
      return *this;
    }
    /// Moves to the next field and returns the iterator from before.
    iterator operator++(int) {
      const iterator before = *this;
      ++*this;
      return before;
    }
    /// Returns whether both point at the same field.
    bool operator==(const iterator& other) const { return begin_ == other.begin_; }

   private:
    std::uint32_t size() const { return begin_[1] - begin_[0]; }

    const char* text_ = nullptr;
    const std::uint32_t* begin_ = nullptr;
  };

  /// Creates a row from the beginning of its text and size + 1 offsets: where each field begins, and where the last one
  /// ends. Offsets are modulo 2^32; only their differences count.
  Row(const char* text, const std::uint32_t* begin, std::size_t size) : text_(text), begin_(begin), size_(size) {}

  /// Returns the number of fields.
  std::size_t size() const { return size_; }
  /// Returns a field.
  std::string_view operator[](std::size_t field) const { return *at(field); }
  /// Returns an iterator at the first field.
  iterator begin() const { return at(0); }
  /// Returns an iterator past the last field.
  iterator end() const { return at(size_); }

 private:
  iterator at(std::size_t field) const { return {text_ + (begin_[field] - begin_[0]), begin_ + field}; }

  const char* text_;
  const std::uint32_t* begin_;
  std::size_t size_;
};

/// A table of text fields. Rows and columns are numbered from 0, lines of the file from 1. The index of a row is not
/// checked.
class Table {
 public:
  static constexpr std::size_t most_columns = 65536;  ///< the most columns of a table

  /// Creates an empty table. `file` begins error messages; memory for `bytes` bytes of text is reserved.
  explicit Table(std::string file, std::size_t bytes = 0) : file_(std::move(file)) { text_.reserve(bytes); }

  const std::vector<std::string>& columns() const { return columns_; }  ///< names; empty without a header
  std::size_t width() const { return width_; }                          ///< fields in every row
  /// Returns the number of rows, without the header.
  std::size_t rows() const { return rows_; }
  /// Returns a row.
  Row operator[](std::size_t row) const {
    const std::size_t first = row * width_, base = bases_[first / block];
    return {text_.data() + base + (begin_[first] - static_cast<std::uint32_t>(base)), begin_.data() + first, width_};
  }

  /// Returns the position of a column. @throws FileError with the columns of the table unless exactly one has the name.
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

  /// Returns the line where a row begins, from 1.
  std::size_t line(std::size_t row) const {
    const auto after = std::upper_bound(jumps_.begin(), jumps_.end(), std::pair(row, std::string::npos));
    return (after - 1)->second + (row - (after - 1)->first);
  }
  /// Returns FILE:LINE, the beginning of an error about a row.
  std::string where(std::size_t row) const { return detail::at_line(file_, line(row)); }

  TextNotes notes;  ///< remarks on the text of the file

  /// Adds a field of the row that begins in `line`. Readers add the fields one by one, then call end_header() or
  /// end_row(). @throws FileError for more than most_columns columns, and for more than 2^31 - 1 bytes in a block of
  /// 65,536 consecutive fields.
  void add(std::string_view field, std::size_t line) {
    if (begin_.size() - row_begin_ == most_columns)
      fail<FileError>(detail::at_line(file_, line), ": more than ", most_columns, " columns");
    if (begin_.size() == bases_.size() * block + 1) bases_.push_back(text_.size());
    text_ += field;
    if (text_.size() - bases_.back() > most_text)
      fail<FileError>(detail::at_line(file_, line), ": ", block, " consecutive fields hold more than ", most_text,
                      " bytes");
    begin_.push_back(static_cast<std::uint32_t>(text_.size()));
  }
  /// Takes the fields added so far as the names of the columns.
  void end_header() {
    width_ = begin_.size() - 1;
    for (const std::string_view name : (*this)[0]) columns_.emplace_back(name);
    text_.clear();
    begin_.resize(1);
    bases_.resize(1);
  }
  /// Ends a row, which begins in `line`. @throws FileError if its width is not that of the header or, without one,
  /// of the first row.
  void end_row(std::size_t line) {
    const std::size_t fields = begin_.size() - row_begin_;
    if (rows_ == 0 && columns_.empty()) width_ = fields;
    if (fields != width_)
      fail<FileError>(detail::at_line(file_, line), ": ", fields, fields == 1 ? " column, " : " columns, ",
                      columns_.empty() ? "the first row has " : "the header has ", width_);
    if (jumps_.empty() || line != this->line(rows_)) jumps_.emplace_back(rows_, line);
    ++rows_;
    row_begin_ = begin_.size();
  }
  /// Reserves memory for the fields of a file with at most these numbers of separators and lines. Call it once the
  /// width is known.
  void reserve(std::size_t separators, std::size_t lines) {
    begin_.reserve(1 + std::min(width_ * (lines + 1), separators + lines + 1));
  }

 private:
  static constexpr std::size_t block = 65536;  // fields; a row is in at most two blocks
  static constexpr std::size_t most_text = std::numeric_limits<std::int32_t>::max();  // bytes; a row is below 4 GiB

  std::string file_;
  std::vector<std::string> columns_;
  std::size_t width_ = 0, rows_ = 0;
  std::string text_;                     // all fields, row by row
  std::vector<std::uint32_t> begin_{0};  // offset of each field in text_, and of the end, modulo 2^32
  std::vector<std::size_t> bases_{0};    // full offset of the first field of each block
  std::size_t row_begin_ = 1;            // index in begin_ of the end of the current row's first field
  // Rows that do not begin on the line after the beginning of the previous row, with their lines.
  std::vector<std::pair<std::size_t, std::size_t>> jumps_;
};

}  // namespace heddle::data
