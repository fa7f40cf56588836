// Files of words with labels: what was read, written and read again is equal.
#include <heddle/data/conll.hpp>

#include "tables.hpp"

namespace {

using namespace heddle;

// Lines end with CR LF, so that a label may end with CR. The first line is empty, so that a word may begin with a
// byte-order mark.
std::string written(const data::LabelledWords& words) {
  std::string text = "\r\n";
  for (const data::Sentence& sentence : words.sentences) {
    for (std::size_t i = 0; i < sentence.words.size(); ++i)
      text += sentence.words[i] + '\t' + sentence.labels[i] + "\r\n";
    text += "\r\n";
  }
  return text;
}

void check_column(std::string_view column) {
  fuzz::claim(!column.empty() && text::is_utf8(column), "words and labels are valid UTF-8 and not empty");
  fuzz::claim(column.find_first_of("\t\n") == column.npos, "words and labels have no tabs and newlines");
  fuzz::claim(column.front() != ' ' && column.back() != ' ', "words and labels have no blanks around them");
}

void check_sentences(const data::LabelledWords& words, const data::TextFile& source) {
  const auto lines = static_cast<std::size_t>(std::count(source.text.begin(), source.text.end(), '\n')) + 1;
  fuzz::claim(!words.sentences.empty(), "a file has a sentence");
  std::size_t next = 1;
  for (const data::Sentence& sentence : words.sentences) {
    fuzz::claim(!sentence.words.empty() && sentence.words.size() == sentence.labels.size(), "each word has a label");
    fuzz::claim(sentence.line >= next, "sentences stand in the order of their lines");
    next = sentence.line + sentence.words.size() + 1;  // after the line that ends the sentence
    fuzz::claim(next <= lines + 2, "each word stands on a line of the file");
    for (const std::string& word : sentence.words) check_column(word);
    for (const std::string& label : sentence.labels) check_column(label);
  }
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Input input(data, size);
  const auto source = fuzz::read_text(input);
  if (!source) return 0;
  const auto words = fuzz::attempt<FileError>([&] { return data::parse_conll(*source); });
  if (!words) return 0;
  check_sentences(*words, *source);
  const data::LabelledWords again = data::parse_conll(data::parse_text(written(*words), "again"));
  fuzz::claim(again.sentences.size() == words->sentences.size(), "the number of sentences reads the same");
  for (std::size_t i = 0; i < again.sentences.size(); ++i)
    fuzz::claim(again.sentences[i].words == words->sentences[i].words &&
                    again.sentences[i].labels == words->sentences[i].labels,
                "words and labels read back as they were written");
  return 0;
}
