// The text of AG News: repaired text is UTF-8, and cleaned text is words; lists of stop words and tables of lemmas.
#include "ag_news/text.hpp"

#include <algorithm>

#include "tables.hpp"

namespace {

using namespace heddle;
using namespace heddle::examples;

// Checks that cleaning leaves no ASCII characters except lower-case letters, controls, and one blank between two words.
void check_cleaned(const std::string& cleaned, const CleanOptions& options) {
  const auto is_deleted = [](char c) { return (c > ' ' && c < 'a') || (c > 'z' && c <= '~'); };
  fuzz::claim(text::is_utf8(cleaned), "a cleaned text is valid UTF-8");
  fuzz::claim(std::none_of(cleaned.begin(), cleaned.end(), is_deleted),
              "no capitals, digits or punctuation marks are left");
  fuzz::claim(cleaned.find_first_of("\t\n\v\f\r") == cleaned.npos && cleaned.find("  ") == cleaned.npos &&
                  !cleaned.starts_with(' ') && !cleaned.ends_with(' '),
              "one blank stands between two words");
  fuzz::claim(clean(cleaned, options) == cleaned, "cleaning again changes nothing");
}

void check_text(const std::string& text) {
  const std::string repaired = repair(text);
  fuzz::claim(text::is_utf8(repaired), "a repaired text is valid UTF-8");
  fuzz::claim(repaired.size() <= text.size(), "a repaired text is no longer than it was");
  check_cleaned(clean(repaired), {});
  const std::string cleaned = clean(repaired);
  const CleanOptions first_word{{cleaned.substr(0, cleaned.find(' '))}, {}};
  check_cleaned(clean(repaired, first_word), first_word);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Input input(data, size);
  const auto source = fuzz::read_text(input);
  if (!source) return 0;
  check_text(source->text);
  if (const auto words = fuzz::attempt<FileError>([&] { return read_stop_words(*source); }))
    for (const std::string& word : *words)
      fuzz::claim(!word.empty() && word.find_first_of(" \t\n\v\f\r") == word.npos, "a stop word is one word");
  if (const auto lemmas = fuzz::attempt<FileError>([&] { return read_lemmas(*source); }))
    for (const auto& [word, lemma] : *lemmas)
      fuzz::claim(!word.empty() && !lemma.empty() && (word + lemma).find('\t') == word.npos, "a lemma has two fields");
  return 0;
}
