#include "text.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <heddle/data/csv.hpp>
#include <heddle/data/lines.hpp>
#include <optional>

namespace heddle::examples {
namespace {

constexpr std::size_t fields = 3, title = 1, description = 2;
constexpr std::string_view whitespace = " \t\n\v\f\r";

// The code points of bytes 128 to 159 in Windows-1252; 0 where it has none.
constexpr std::array<char32_t, 32> windows_1252{0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021,
                                                0x02C6, 0x2030, 0x0160, 0x2039, 0x0152, 0,      0x017D, 0,
                                                0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022, 0x2013, 0x2014,
                                                0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178};

struct NamedEntity {
  std::string_view name;
  char32_t code_point;
};
// The named entities that occur in AG News.
constexpr NamedEntity named_entities[] = {{"quot", '"'}, {"amp", '&'},       {"lt", '<'},       {"gt", '>'},
                                          {"nbsp", ' '}, {"hellip", 0x2026}, {"mdash", 0x2014}, {"rsquo", 0x2019}};

bool is_lower(char c) { return c >= 'a' && c <= 'z'; }
bool is_upper(char c) { return c >= 'A' && c <= 'Z'; }
bool is_letter(char c) { return is_lower(c) || is_upper(c); }
bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_punctuation(char c) { return c > ' ' && c < 0x7F && !is_letter(c) && !is_digit(c); }

std::string resolve_backslashes(std::string_view text) {
  std::string resolved;
  resolved.reserve(text.size());
  for (std::size_t i = 0; i < text.size(); ++i)
    if (text[i] != '\\')
      resolved += text[i];
    else if (!text.substr(i + 1).starts_with('$'))
      resolved += ' ';
  return resolved;
}

std::optional<char32_t> code_point_of_number(std::string_view digits) {
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), is_digit)) return {};
  std::uint32_t number = 0;
  if (std::from_chars(digits.data(), digits.data() + digits.size(), number).ec != std::errc()) return {};
  if (number >= 128 && number < 160) number = windows_1252[number - 128];
  const bool is_surrogate = number >= 0xD800 && number < 0xE000;
  if (number == 0 || is_surrogate || number > 0x10FFFF) return {};
  constexpr char32_t no_break_space = 0xA0;
  return number == no_break_space ? U' ' : char32_t{number};
}

std::optional<char32_t> code_point_of_entity(std::string_view name) {
  if (name.starts_with('#')) return code_point_of_number(name.substr(1));
  for (const NamedEntity& entity : named_entities)
    if (name == entity.name) return entity.code_point;
  return {};
}

// Returns the name between a possible start of an entity and the semicolon; empty if there is none.
std::string_view entity_name(std::string_view text) {
  std::size_t size = text.starts_with('#') ? 1 : 0;
  while (size < text.size() && (is_letter(text[size]) || is_digit(text[size]))) ++size;
  return text.substr(size).starts_with(';') ? text.substr(0, size) : std::string_view();
}

std::string decode_entities(std::string_view text) {
  std::string decoded;
  decoded.reserve(text.size());
  for (std::size_t i = 0; i < text.size();) {
    const bool is_prefix = text[i] == '&' || text[i] == ' ';
    if (is_prefix || i == 0) {
      const std::string_view name = entity_name(text.substr(i + is_prefix));
      if (const auto code_point = code_point_of_entity(name)) {
        char bytes[text::max_utf8_bytes];
        decoded.append(bytes, static_cast<std::size_t>(text::encode_utf8(*code_point, bytes)));
        i += is_prefix + name.size() + 1;
        continue;
      }
    }
    decoded += text[i++];
  }
  return decoded;
}

// Returns the size of the tag that the text begins with, 0 if it begins with none.
std::size_t tag_size(std::string_view text) {
  const std::size_t name = text.starts_with("</") ? 2 : 1;
  if (!text.starts_with('<') || name >= text.size() || !is_letter(text[name])) return 0;
  const std::size_t end = text.find_first_of("<>", name);
  return end != text.npos && text[end] == '>' ? end + 1 : 0;
}

std::string remove_tags(std::string_view text) {
  std::string kept;
  kept.reserve(text.size());
  while (!text.empty()) {
    const std::size_t tag = tag_size(text);
    if (tag == 0) kept += text[0];
    text.remove_prefix(std::max<std::size_t>(tag, 1));
  }
  return kept;
}

std::string lower_case(std::string_view text) {
  std::string lower(text);
  for (char& c : lower)
    if (is_upper(c)) c = static_cast<char>(c - 'A' + 'a');
  return lower;
}

// Returns the word in lower case, without digits and punctuation.
std::string letters_of(std::string_view word) {
  std::string letters;
  for (const char c : word)
    if (!is_digit(c) && !is_punctuation(c)) letters += is_upper(c) ? static_cast<char>(c - 'A' + 'a') : c;
  return letters;
}

// Returns the class in a cell, from 0, or nothing unless it is 1, 2, 3 or 4.
std::optional<int> class_in(std::string_view cell) {
  return cell.size() == 1 && cell[0] >= '1' && cell[0] <= '4' ? std::optional(cell[0] - '1') : std::nullopt;
}

}  // namespace

NewsTable read_news_table(const std::string& path) {
  NewsTable news{data::read_csv(path, {.header = false}), 0};
  const data::Table& table = news.table;
  data::require_utf8(table.notes, path);
  require<FileError>(table.rows() > 0, io::printable(path), ": has no rows");
  if (table.width() != fields)
    fail<FileError>(table.where(0), ": ", table.width(), table.width() == 1 ? " field" : " fields",
                    "; AG News has 3: class, title and description");
  const bool is_header = lower_case(table[0][title]) == "title" && lower_case(table[0][description]) == "description";
  if (is_header && !class_in(table[0][0])) news.first = 1;
  require<FileError>(news.rows() > 0, io::printable(path), ": has a header, but no rows");
  return news;
}

std::vector<std::string> NewsTable::sentences() const {
  std::vector<std::string> all = table.notes.sentences();
  if (first > 0) all.emplace_back("the first line is a header");
  return all;
}

NewsRows read_news(const std::string& path, Index limit) {
  const NewsTable news = read_news_table(path);
  NewsRows read{{}, {}, {}, news.sentences()};
  const std::size_t rows = limit ? std::min(news.rows(), static_cast<std::size_t>(limit)) : news.rows();
  for (std::size_t row = news.first; row < news.first + rows; ++row) {
    const std::string_view cell = news.table[row][0];
    const std::optional<int> number = class_in(cell);
    if (!number)
      fail<FileError>(news.table.where(row), ": the class is ", io::quoted_name(cell), " but must be 1, 2, 3 or 4");
    read.texts.push_back(news.text(row - news.first));
    read.labels.push_back(*number);
    read.lines.push_back(news.table.line(row));
  }
  return read;
}

std::string NewsTable::text(std::size_t row) const {
  return std::string(table[first + row][title]) + ' ' + std::string(table[first + row][description]);
}

std::string repair(std::string_view text) { return remove_tags(decode_entities(resolve_backslashes(text))); }

std::string clean(std::string_view repaired, const CleanOptions& options) {
  std::string cleaned;
  while (!repaired.empty()) {
    const std::size_t end = std::min(repaired.find_first_of(whitespace), repaired.size());
    const std::string word = letters_of(repaired.substr(0, end));
    repaired.remove_prefix(std::min(end + 1, repaired.size()));
    if (word.empty() || options.stop_words.contains(word)) continue;
    const auto lemma = options.lemmas.find(word);
    if (!cleaned.empty()) cleaned += ' ';
    cleaned += lemma == options.lemmas.end() ? word : lemma->second;
  }
  return cleaned;
}

std::set<std::string, std::less<>> read_stop_words(const data::TextFile& file) {
  const data::Lines read = data::parse_lines(file);
  data::require_utf8(read.notes, read.file);
  std::set<std::string, std::less<>> words;
  for (std::size_t i = 0; i < read.lines.size(); ++i) {
    const std::string& word = read.lines[i];
    if (word.find_first_of(whitespace) != word.npos)
      fail<FileError>(data::detail::at_line(read.file, i + 1), ": ", io::quoted_name(word),
                      " holds whitespace; a line of stop words must be one word");
    if (!word.empty()) words.insert(word);
  }
  return words;
}

std::map<std::string, std::string, std::less<>> read_lemmas(const data::TextFile& file) {
  const data::Lines read = data::parse_lines(file);
  data::require_utf8(read.notes, read.file);
  std::map<std::string, std::string, std::less<>> lemmas;
  for (std::size_t i = 0; i < read.lines.size(); ++i) {
    const std::string_view line = read.lines[i];
    const std::size_t tab = line.find('\t');
    if (tab == line.npos || tab == 0 || tab + 1 == line.size() || line.find('\t', tab + 1) != line.npos)
      fail<FileError>(data::detail::at_line(read.file, i + 1), ": the line is ", io::quoted_name(line),
                      " but must be a word, a tab and a lemma");
    const auto [entry, is_new] = lemmas.emplace(line.substr(0, tab), line.substr(tab + 1));
    if (!is_new && entry->second != line.substr(tab + 1))
      fail<FileError>(data::detail::at_line(read.file, i + 1), ": the word ", io::quoted_name(entry->first),
                      " has the lemma ", io::quoted_name(line.substr(tab + 1)), " here and ",
                      io::quoted_name(entry->second), " before");
  }
  return lemmas;
}

}  // namespace heddle::examples
