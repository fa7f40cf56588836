// Aligned: a word or a text that is normalized, with the range of the original text from which each of its bytes comes,
// as NormalizedString of the Rust tokenizers library keeps it.
#pragma once
#include <algorithm>
#include <cstddef>
#include <string_view>
#include <vector>

namespace heddle::text {

/// A range of bytes in a text.
struct TextRange {
  std::size_t begin = 0;  ///< offset of the first byte
  std::size_t end = 0;    ///< offset behind the last byte

  /// Compares both offsets.
  bool operator==(const TextRange&) const = default;
};

namespace detail {

// A run of combining marks that are not in canonical order yet.
class MarkRun {
 public:
  static constexpr char32_t dropped = 0;  // a mark that is sorted only; U+0000 itself is no mark

  bool empty() const { return marks_.empty(); }

  // Appends a mark. `is_first` says whether it begins what the character at `source` becomes.
  void append(char32_t code_point, char32_t combining_class, TextRange source = {}, bool is_first = true) {
    marks_.push_back({combining_class, code_point, is_first});
    if (is_first) sources_.push_back(source);
  }

  // Calls f(code point, source) for each mark that is not dropped, in canonical order, and clears the run. `before` is
  // the source of the character before the run.
  template <class F>
  void take(TextRange before, const F& f) {
    sort();
    auto next = sources_.begin();
    for (const Mark& mark : marks_) {
      if (mark.is_first) before = *next++;
      if (mark.code_point != dropped) f(mark.code_point, before);
    }
    marks_.clear();
    sources_.clear();
  }

 private:
  struct Mark {
    char32_t combining_class, code_point;
    bool is_first;
  };

  void sort() {
    std::stable_sort(marks_.begin(), marks_.end(),
                     [](const Mark& a, const Mark& b) { return a.combining_class < b.combining_class; });
  }

  std::vector<Mark> marks_;
  std::vector<TextRange> sources_;  // in the order of the original text
};

}  // namespace detail

/// A Word, or another Text with its functions, and the source of each of its characters: the range of the original
/// character from which it was made. All characters of a decomposition have the same source. Sorting a run of combining
/// marks does not move the sources, as in the Rust library: the first mark of the sorted run gets the source of the
/// run's first original character, and so on. Dropped marks take part in that.
template <class Text>
class Aligned {
 public:
  /// Returns the text. Requires a call of end_run() after the last mark.
  std::string_view text() const { return text_.text(); }
  /// Returns the number of characters of a Word.
  std::size_t characters() const { return text_.characters(); }
  /// Returns the range of the original text for bytes of text(), of which there must be at least one.
  TextRange source(TextRange bytes) const { return {sources_[bytes.begin].begin, sources_[bytes.end - 1].end}; }
  /// Returns the range of the original text for all characters, of which there must be at least one.
  TextRange source() const { return {sources_.front().begin, last_.end}; }

  /// Begins the next text.
  void clear() {
    end_run();
    text_.clear();
    sources_.clear();
  }

  /// Sets the source of what is appended next.
  void begin_character(TextRange source) {
    source_ = source;
    is_first_ = true;
  }

  /// Appends an ASCII character.
  void append_ascii(char c) {
    end_run();
    text_.append_ascii(c);
    add_source(source_);
  }

  /// Appends a code point.
  void append(char32_t code_point) {
    end_run();
    text_.append(code_point);
    add_source(source_);
  }

  /// Appends a combining mark, which end_run() sorts by its class.
  void append_mark(char32_t code_point, char32_t combining_class) {
    run_.append(code_point, combining_class, source_, is_first_);
    is_first_ = false;
  }

  /// Sorts a dropped mark among the others of its run. Ignores other characters, whose class is 0.
  void drop_mark(char32_t combining_class) {
    if (combining_class > 0) append_mark(detail::MarkRun::dropped, combining_class);
  }

  /// Ends a run of marks: later marks are not sorted into it.
  void end_run() {
    if (run_.empty()) return;
    run_.take(last_, [this](char32_t code_point, TextRange source) {
      text_.append(code_point);
      add_source(source);
    });
  }

 private:
  // Sets the source of the bytes that have been appended. A Word does not keep those of all characters.
  void add_source(TextRange source) {
    for (std::size_t size = text_.text().size(); sources_.size() < size;) sources_.push_back(source);
    last_ = source;
    is_first_ = false;
  }

  Text text_;
  std::vector<TextRange> sources_;  // of each byte of text()
  TextRange source_, last_;         // of the current character, and of the last one appended
  bool is_first_ = true;            // whether the current character has become nothing yet
  detail::MarkRun run_;
};

}  // namespace heddle::text
