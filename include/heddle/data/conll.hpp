// Files of words with labels, as those of the CoNLL shared tasks: a word and its label on each line, and an empty line
// after each sentence. Many data sets for named entities and parts of speech are in this form.
#pragma once
#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/data/text_file.hpp>

namespace heddle::data {

/// The words of a sentence, with one label each.
struct Sentence {
  std::vector<std::string> words;   ///< the words
  std::vector<std::string> labels;  ///< the label of each word, such as B-PER
  std::size_t line = 0;             ///< the line of the first word, from 1; each further word is on the next line
};

/// The sentences of a CoNLL file. Each has at least one word.
struct LabelledWords {
  std::string file;                 ///< printable, for messages
  std::vector<Sentence> sentences;  ///< the sentences, in the order of the file
  TextNotes notes;                  ///< remarks on the text

  /// Returns FILE:LINE, the beginning of an error about a word. The indices are not checked.
  std::string where(std::size_t sentence, std::size_t word = 0) const {
    return detail::at_line(file, sentences[sentence].line + word);
  }
};

namespace detail {

// Returns the text without blanks and tabs at both ends.
inline std::string_view trimmed(std::string_view text) {
  constexpr std::string_view blanks = " \t";
  const std::size_t begin = std::min(text.find_first_not_of(blanks), text.size());
  return text.substr(begin, text.find_last_not_of(blanks) + 1 - begin);
}

// Returns whether a trimmed line marks the beginning of a document. Further columns have no meaning.
inline bool begins_document(std::string_view line) {
  constexpr std::string_view mark = "-DOCSTART-";
  return line.starts_with(mark) &&
         (line.size() == mark.size() || line[mark.size()] == ' ' || line[mark.size()] == '\t');
}

// Returns whether a trimmed line before the first word of a sentence is a comment: `# name = value`, as in CoNLL-U, or
// `# id value`, as in MultiCoNER. Every other # is a word.
inline bool is_comment(std::string_view line) {
  return line.starts_with("# ") && (line.starts_with("# id ") || line.find(" = ") != line.npos);
}

// Returns the first and the last column of a line. Tabs separate the columns of a line that has one, and blanks those
// of other lines. Both results are empty if the line has one column.
inline std::pair<std::string_view, std::string_view> first_and_last(std::string_view line) {
  const bool has_tabs = line.find('\t') != line.npos;
  if (!has_tabs) line = trimmed(line);
  const char separator = has_tabs ? '\t' : ' ';
  const std::size_t first_end = line.find(separator);
  if (first_end == line.npos) return {};
  return {trimmed(line.substr(0, first_end)), trimmed(line.substr(line.rfind(separator) + 1))};
}

}  // namespace detail

/// Reads sentences from text in memory. @throws FileError as read_conll() does.
inline LabelledWords parse_conll(TextFile source) {
  LabelledWords result{source.file, {}, {}};
  bool in_sentence = false;
  for_each_line(source, [&](std::string_view line, std::size_t number) {
    const std::string_view content = detail::trimmed(line);
    if (content.empty() || detail::begins_document(content)) {
      in_sentence = false;
      return;
    }
    if (!in_sentence && detail::is_comment(content)) return;
    const auto [word, label] = detail::first_and_last(line);
    if (word.empty() || label.empty())
      fail<FileError>(detail::at_line(source.file, number), ": a line must have a word and a label, got ",
                      io::quoted_name(line));
    if (!in_sentence) result.sentences.push_back({{}, {}, number});
    in_sentence = true;
    result.sentences.back().words.emplace_back(word);
    result.sentences.back().labels.emplace_back(label);
  });
  require<FileError>(!result.sentences.empty(), source.file,
                     ": has no sentence; each line must have a word and a label");
  result.notes = source.notes;
  return result;
}

/// Reads a file. The first column of a line is the word, and the last one is the label. Tabs separate the columns of a
/// line that has one, so its word may hold blanks; blanks separate those of other lines. Blanks around a column are
/// removed. A sentence ends at a line that is empty or blank, and at one that begins with -DOCSTART-. Before the first
/// word of a sentence, `# name = value` and `# id value` are comments; every other # is a word.
/// @throws FileError if the file cannot be read or has no sentence, and with file and line for a line without a word
/// or a label, and for a NUL byte.
inline LabelledWords read_conll(const std::string& path) { return parse_conll(read_text(path)); }

}  // namespace heddle::data
