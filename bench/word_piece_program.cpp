// word_piece_program: encodes and decodes lines for bench/peers/word_piece_compare.py.
//   word_piece_program VOCAB cased|uncased|lowered|stripped ADDED MAX
// ADDED is a file of added tokens, `OPTIONS xBYTES` a line. OPTIONS are letters: w (single_word), n (normalized) and s
// (special), or "-". MAX is the maximum length. A line of input is `xBYTES`, `xBYTES xBYTES` for a pair, or
// `=ID,ID,...`. A line of output is `=IDS =TYPES =OFFSETS =WORDS` for texts, nothing for ids, and then `xTEXT xTEXT`:
// the ids decoded without special tokens and with them. Bytes are in hexadecimal.
#include <charconv>
#include <fstream>
#include <iostream>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/text/wordpiece.hpp>

namespace heddle::bench {
namespace {

using Ids = std::vector<std::int32_t>;

std::string from_hex(std::string_view field) {
  std::string bytes;
  for (std::size_t i = 1; i + 1 < field.size(); i += 2) {
    unsigned value = 0;
    std::from_chars(field.data() + i, field.data() + i + 2, value, 16);
    bytes += static_cast<char>(value);
  }
  return bytes;
}

std::string to_hex(std::string_view bytes) {
  std::string field = "x";
  for (const char c : bytes)
    for (const int shift : {4, 0}) field += "0123456789abcdef"[static_cast<unsigned char>(c) >> shift & 15];
  return field;
}

template <class Number>
std::string joined(const std::vector<Number>& numbers) {
  std::string field = "=";
  for (const Number number : numbers) field += (field.size() > 1 ? "," : "") + std::to_string(number);
  return field;
}

Ids split(const std::string& field) {
  Ids ids;
  std::istringstream in(field.substr(1));
  for (std::string id; std::getline(in, id, ',');) ids.push_back(std::stoi(id));
  return ids;
}

text::WordPiece make_tokenizer(const std::string& vocab, const std::string& mode, const std::string& added,
                               std::size_t max_length) {
  text::Vocabulary vocabulary = text::Vocabulary::load(vocab);
  std::vector<text::AddedToken> tokens = text::WordPiece::special_tokens(vocabulary);
  std::int32_t next = vocabulary.size();
  std::ifstream in(added);
  for (std::string options, field; in >> options >> field;) {
    const auto has = [&](char letter) { return options.find(letter) != options.npos; };
    const std::string content = from_hex(field);
    const std::int32_t known = vocabulary.find(content);
    tokens.push_back({content, known == text::Vocabulary::none ? next++ : known, has('w'), has('n'), has('s')});
  }
  return text::WordPiece(std::move(vocabulary),
                         {.uncased = mode == "uncased" || mode == "lowered",
                          .strip_accents = mode == "uncased" || mode == "stripped",
                          .max_length = max_length,
                          .offsets = true},
                         std::move(tokens));
}

std::string answer(const text::WordPiece& tokenizer, const std::string& first, const std::string& second) {
  const auto decoded = [&](const Ids& ids) {
    return to_hex(tokenizer.decode(ids)) + ' ' + to_hex(tokenizer.decode(ids, false));
  };
  if (first.starts_with('=')) return decoded(split(first));
  const text::Encoding e =
      second.empty() ? tokenizer.encode(from_hex(first)) : tokenizer.encode_pair(from_hex(first), from_hex(second));
  std::vector<std::size_t> offsets;
  for (const text::TextRange& range : e.offsets) offsets.insert(offsets.end(), {range.begin, range.end});
  return joined(e.ids) + ' ' + joined(e.type_ids) + ' ' + joined(offsets) + ' ' + joined(e.word_ids) + ' ' +
         decoded(e.ids);
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) {
  if (argc != 5) {
    std::cerr << "usage: word_piece_program VOCAB cased|uncased|lowered|stripped ADDED MAX\n";
    return 2;
  }
  std::ios::sync_with_stdio(false);
  const auto tokenizer = heddle::bench::make_tokenizer(argv[1], argv[2], argv[3], std::stoul(argv[4]));
  for (std::string line; std::getline(std::cin, line);) {
    const std::size_t blank = line.find(' ');
    std::cout << heddle::bench::answer(tokenizer, line.substr(0, blank),
                                       blank == line.npos ? "" : line.substr(blank + 1))
              << '\n';
  }
}
