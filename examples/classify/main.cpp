#include <heddle/models/text_classifier.hpp>
#include <iostream>

int main(int argc, char** argv) try {
  if (argc != 2) return std::cerr << "usage: classify FOLDER\n", 2;
  const auto classify = heddle::models::TextClassifier::load(argv[1]);
  for (std::string line; std::getline(std::cin, line);) {
    const auto prediction = classify(line);
    std::cout << prediction.label << '\t' << prediction.probabilities[std::size_t(prediction.index)] << '\n';
  }
} catch (const heddle::Error& error) {
  return std::cerr << error.what() << '\n', 2;
}
