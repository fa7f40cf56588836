// Texts into token sequences, and the lines of --predict into classes.
#pragma once
#include <string>
#include <vector>

#include <heddle/data/batches.hpp>
#include <heddle/text/wordpiece.hpp>

namespace heddle::examples {

// Notes what was changed in its text. Throws FileError.
text::Vocabulary read_vocabulary(std::string tokens, const std::string& path);

struct EncodedTexts {
  data::LabelledSequences rows;
  Index longest = 0;    // tokens of the longest text, before truncation
  Index truncated = 0;  // texts
};

// All texts with a label each, encoded on all threads.
EncodedTexts encode(const text::WordPiece& tokenizer, const std::vector<std::string>& texts,
                    const std::vector<int>& labels);

// The lines of a file, or of standard input for "-", as text; notes what was changed for that. Throws FileError.
std::vector<std::string> read_lines(const std::string& path);

// One line a text: the class, then what each class was given, with nine significant digits and tabs between.
void print_prediction(const std::vector<double>& values);

// Scores as probabilities.
std::vector<double> softmax_of(const std::vector<double>& scores);

}  // namespace heddle::examples
