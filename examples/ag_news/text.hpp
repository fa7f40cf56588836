// The text of AG News: reads its rows, repairs the damage that was done when the data set was made, and cleans the text
// to lower-case words.
#pragma once
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/base/shape.hpp>
#include <heddle/data/table.hpp>
#include <heddle/data/text_file.hpp>

namespace heddle::examples {

/// The lines of a file of AG News.
struct NewsTable {
  data::Table table;  // class, title, description
  std::size_t first;  // 1 if there is a header, otherwise 0

  std::size_t rows() const { return table.rows() - first; }
  // Returns the title, a blank and the description, as they stand in the file.
  std::string text(std::size_t row) const;
  // Returns a sentence for each change made to the file's text, and one for a header.
  std::vector<std::string> sentences() const;
};

/// Reads a file of AG News: CSV with the fields class, title, description. A first line whose last fields are "title"
/// and "description", in upper or lower case, is a header. @throws FileError for a file that cannot be read or has no
/// rows, and with file and line for a row without three fields and for bytes that are not UTF-8.
NewsTable read_news_table(const std::string& path);

/// The rows of a file of AG News.
struct NewsRows {
  std::vector<std::string> texts;      // the title, a blank and the description, as they stand in the file
  std::vector<int> labels;             // 0 to 3: the file's class minus 1
  std::vector<std::size_t> lines;      // the line of each row, from 1
  std::vector<std::string> sentences;  // changes made to the file's text, and a header
};

/// Reads the first `limit` rows (0: all) of a file of AG News. @throws FileError as read_news_table() does, and with
/// file and line for a class that is not 1, 2, 3 or 4. The fields of rows beyond the limit are counted, but their
/// classes are not read.
NewsRows read_news(const std::string& path, Index limit = 0);

/// Returns the text with its backslashes, entities and tags resolved, in this order:
///
/// 1. `\$` becomes `$`; every other backslash stands for a lost line break and becomes a blank.
/// 2. Entities are decoded once: `#N;` with a decimal N, and `quot; amp; lt; gt; nbsp; hellip; mdash; rsquo;`. The data
///    set has a blank in place of most ampersands. So these sequences count as entities after `&`, after a blank
///    (U+0020), and at the start of the text; the ampersand or the blank is removed. N from 128 to 159 is read as
///    Windows-1252, as browsers do, every other N as a code point. `nbsp;` and `#160;` become a blank, `hellip;`
///    becomes U+2026. A number without a character stays as it is: 0, a surrogate, more than 0x10FFFF, and a byte that
///    Windows-1252 leaves open.
/// 3. Tags are removed and leave nothing. A tag is `<`, an optional `/`, an ASCII letter, and all up to the next `>` if
///    no `<` stands between. Tickers in angle brackets, such as `<MSFT.O>`, are tags by this rule and are removed too
///    (25 of the 19,236 rows of the test set and the training subset have one); `a < b`, `> 3` and `<7269.T>` stay.
///
/// Blanks are neither trimmed nor merged. Valid UTF-8 stays valid.
std::string repair(std::string_view text);

/// The tables of clean(). Both are compared with words in lower case, without digits and punctuation.
struct CleanOptions {
  std::set<std::string, std::less<>> stop_words;           // words to remove
  std::map<std::string, std::string, std::less<>> lemmas;  // replacements of the words that are left
};

/// Returns the words of a repaired text, joined by one blank. ASCII letters become lower case, ASCII digits and the 32
/// ASCII punctuation marks are deleted without a replacement ("U.S." becomes "us"), and the rest is split at ASCII
/// whitespace. Stop words are removed, then lemmas replace words. All other characters stay: letters outside ASCII keep
/// their case.
///
/// Stop words are compared as they are given. One with an apostrophe, such as "don't", never matches, because the text
/// has "dont" by then.
std::string clean(std::string_view repaired, const CleanOptions& options = {});

/// Reads a list of stop words, one a line; empty lines are ignored. @throws FileError with file and line for a line
/// that holds whitespace, and for bytes that are not UTF-8.
std::set<std::string, std::less<>> read_stop_words(const data::TextFile& file);

/// Reads a table of lemmas, `word<TAB>lemma` a line. @throws FileError with file and line for a line without exactly
/// one tab, an empty field, a word with two different lemmas, and bytes that are not UTF-8.
std::map<std::string, std::string, std::less<>> read_lemmas(const data::TextFile& file);

}  // namespace heddle::examples
