#include <heddle/models/text_classifier.hpp>
#include <iostream>

int main(int, char** argv) try {
  const auto classify = heddle::models::TextClassifier::load(argv[1]);
  for (std::string line; std::getline(std::cin, line);) {
    const auto prediction = classify(line);
    std::cout << prediction.label << '\t' << prediction.probabilities[std::size_t(prediction.index)] << '\n';
  }
} catch (const heddle::Error& error) {
  std::cerr << error.what() << '\n';
  return 2;
}
