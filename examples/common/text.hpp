// Encodes texts as token sequences, reads the lines of --predict and prints their classes.
#pragma once
#include <algorithm>
#include <span>
#include <string>
#include <vector>

#include <heddle/data/corpus.hpp>
#include <heddle/text/wordpiece.hpp>

namespace heddle::examples {

// Returns the vocabulary in the content of a file. Prints a note for each change that was made to it. Throws FileError.
text::Vocabulary read_vocabulary(std::string tokens, const std::string& path);

struct EncodedTexts {
  data::LabelledSequences rows;
  Index longest = 0;    // tokens of the longest text, before truncation
  Index truncated = 0;  // number of truncated texts

  // Adds a text, cut to its first `max_length` ids.
  void add(std::span<const int> ids, int label, Index max_length) {
    const auto length = static_cast<Index>(ids.size());
    longest = std::max(longest, length);
    truncated += length > max_length;
    rows.add(ids.first(static_cast<std::size_t>(std::min(length, max_length))), label);
  }
};

// Encodes all texts and pairs them with their labels, on all threads.
EncodedTexts encode(const text::WordPiece& tokenizer, const std::vector<std::string>& texts,
                    const std::vector<int>& labels);

// The tokenizer that made the ids of a token file.
struct TokenizerId {
  std::uint64_t checksum;
  std::string flags;  // of tokenize, which choose it; for messages
};

// Identifies BERT's tokenizer by its vocabulary, by its added tokens besides the usual ones, and by the options that
// decide ids besides lengths.
TokenizerId identify(const text::WordPiece& tokenizer);

// Opens a token file. Throws FileError if its ids are those of another tokenizer.
data::TokenFile open_tokens(const std::string& path, const TokenizerId& tokenizer);

// Opens a token file as above, for a classifier. Throws FileError for a file without texts or labels, and for a label
// that is not the number of one of the classes.
data::TokenFile open_labelled_tokens(const std::string& path, const TokenizerId& tokenizer, Index classes);

// Returns the lines of a file, or of standard input for "-". Prints a note for each kind of change to the text. Throws
// FileError.
std::vector<std::string> read_texts(const std::string& path);

// Returns a line without the blanks around it.
inline std::string_view stripped(std::string_view line) {
  const std::size_t first = std::min(line.find_first_not_of(" \t"), line.size());
  return line.substr(first, line.find_last_not_of(" \t") + 1 - first);
}

// Returns a number with at most nine significant digits.
std::string nine_digits(double value);

// Prints a line of results. Throws RunFailed if standard output cannot be written.
void print_line(const std::string& line);

// Prints the line of one text, separated by tabs: the number of the class with the highest value, then all values with
// at most nine significant digits.
void print_prediction(std::span<const double> values);

}  // namespace heddle::examples
