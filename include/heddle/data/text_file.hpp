// A text file for the readers of tables and lines: valid UTF-8 without a byte-order mark, lines that end at LF or CR
// LF. Changes to the text are counted, so that a program can report them.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/base/error.hpp>
#include <heddle/base/file.hpp>
#include <heddle/base/utf8.hpp>

namespace heddle::data {

/// Changes made to a file's text, and unusual properties of it that are not errors.
struct TextNotes {
  bool bom = false;                    ///< whether a byte-order mark was skipped
  std::size_t crlf = 0;                ///< lines that ended with CR LF; a CR at the end of the text may count too
  std::size_t invalid_utf8 = 0;        ///< invalid sequences, each replaced by U+FFFD
  std::size_t first_invalid_line = 0;  ///< line of the first of them
  bool no_final_newline = false;       ///< whether the last line has no newline

  /// Returns a sentence for each note, without the file's name.
  std::vector<std::string> sentences() const {
    std::vector<std::string> all;
    if (bom) all.emplace_back("a byte-order mark was skipped");
    if (crlf > 0) all.push_back(std::to_string(crlf) + (crlf == 1 ? " line ends" : " lines end") + " with CR LF");
    if (invalid_utf8 > 0)
      all.push_back("invalid UTF-8 was replaced by U+FFFD (" + std::to_string(invalid_utf8) + " times, first in line " +
                    std::to_string(first_invalid_line) + ')');
    if (no_final_newline) all.emplace_back("the last line has no newline");
    return all;
  }
};

/// A whole file: valid UTF-8 without a byte-order mark, with its original line ends.
struct TextFile {
  std::string file;  ///< printable, for messages
  std::string text;  ///< the content
  TextNotes notes;   ///< remarks on it
};

namespace detail {

// Returns FILE:LINE, for messages.
inline std::string at_line(const std::string& file, std::size_t line) { return file + ':' + std::to_string(line); }

inline void replace_invalid(TextFile& source) {
  std::string valid;
  std::size_t line = 1;
  for (const char *at = source.text.data(), *end = at + source.text.size(); at != end;) {
    const char* const begin = at;
    const char32_t c = text::decode_utf8(at, end);
    const std::string_view bytes(begin, static_cast<std::size_t>(at - begin));
    constexpr std::string_view replacement = "\xEF\xBF\xBD";
    if (c == '\n') ++line;
    if (c == text::replacement_character && bytes != replacement && source.notes.invalid_utf8++ == 0)
      source.notes.first_invalid_line = line;
    valid += c == text::replacement_character ? replacement : bytes;
  }
  source.text = std::move(valid);
}

}  // namespace detail

/// Parses bytes in memory as read_text() parses a file; messages call them `name`. @throws FileError for UTF-16 text,
/// and with file and line for a NUL byte.
inline TextFile parse_text(std::string bytes, const std::string& name) {
  TextFile source{io::printable(name), std::move(bytes), {}};
  const bool utf16 = source.text.starts_with("\xFF\xFE") || source.text.starts_with("\xFE\xFF");
  require<FileError>(!utf16, source.file, ": is UTF-16 text; only UTF-8 is read");
  const std::size_t nul = source.text.find('\0');
  if (nul != std::string::npos) {
    const auto newlines = std::count(source.text.data(), source.text.data() + nul, '\n');
    fail<FileError>(detail::at_line(source.file, static_cast<std::size_t>(newlines) + 1),
                    ": the line contains a NUL byte; the file is not text");
  }
  source.notes.bom = source.text.starts_with("\xEF\xBB\xBF");
  if (source.notes.bom) source.text.erase(0, 3);
  if (!text::is_utf8(source.text)) detail::replace_invalid(source);
  source.notes.no_final_newline = !source.text.empty() && source.text.back() != '\n';
  return source;
}

/// Reads a file. @throws FileError if it cannot be read or is UTF-16 text, and with file and line for a NUL byte.
inline TextFile read_text(const std::string& path) { return parse_text(io::read_file(path), path); }

/// Refuses text that was not UTF-8, for programs that do not want it replaced. @throws FileError with file and line.
inline void require_utf8(const TextNotes& notes, const std::string& file) {
  require<FileError>(notes.invalid_utf8 == 0, detail::at_line(io::printable(file), notes.first_invalid_line),
                     ": holds bytes that are not UTF-8");
}

/// Calls each(line, number) for every line, without its LF or CR LF. Lines are numbered from 1. A CR at the end of the
/// text is removed too. Counts lines with CR LF in source.notes.crlf.
template <class Each>
void for_each_line(TextFile& source, Each each) {
  std::string_view rest = source.text;
  for (std::size_t number = 1; !rest.empty(); ++number) {
    const std::size_t newline = rest.find('\n');
    std::string_view line = rest.substr(0, newline);
    rest.remove_prefix(newline == std::string_view::npos ? rest.size() : newline + 1);
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
      // A CR at the end of the text may be half of a line end: it counts if other lines end with CR LF.
      if (newline != std::string_view::npos || source.notes.crlf > 0) ++source.notes.crlf;
    }
    each(line, number);
  }
}

}  // namespace heddle::data
