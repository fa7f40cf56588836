#include "text.hpp"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstdio>
#include <heddle/data/lines.hpp>
#include <heddle/io/crc64.hpp>

#include "program.hpp"

namespace heddle::examples {

text::Vocabulary read_vocabulary(std::string tokens, const std::string& path) {
  text::Vocabulary vocabulary(std::move(tokens), path);
  for (const std::string& sentence : vocabulary.notes()) note(vocabulary.name() + ": " + sentence);
  return vocabulary;
}

EncodedTexts encode(const text::WordPiece& tokenizer, const std::vector<std::string>& texts,
                    const std::vector<int>& labels) {
  EncodedTexts out;
  const auto encodings = tokenizer.encode_batch(texts);
  for (std::size_t i = 0; i < texts.size(); ++i) {
    const auto& e = encodings[i];
    out.longest = std::max(out.longest, static_cast<Index>(e.ids.size() + e.truncated));
    out.truncated += e.truncated > 0;
    out.rows.add(e.ids, labels[i]);
  }
  return out;
}

TokenizerId identify(const text::WordPiece& tokenizer) {
  io::Crc64 crc;
  const text::WordPieceOptions& options = tokenizer.options();
  crc.add(std::string("wordpiece ") + (options.uncased ? "uncased " : "") +
          (options.strip_accents.value_or(options.uncased) ? "without accents " : "") +
          (options.special_tokens ? "special tokens\n" : "\n"));
  for (std::int32_t id = 0; id < tokenizer.vocabulary().size(); ++id) {
    crc.add(tokenizer.token(id));
    crc.add("\n");
  }
  if (tokenizer.added_tokens() != text::WordPiece::special_tokens(tokenizer.vocabulary()))
    for (const text::AddedToken& token : tokenizer.added_tokens())
      crc.add(token.content + ' ' + std::to_string(token.id) + (token.single_word ? " word" : "") +
              (token.normalized ? " normalized\n" : "\n"));
  return {crc.value(), options.uncased ? "the vocabulary of this model and --uncased"
                                       : "the vocabulary of this model, without --uncased"};
}

data::TokenFile open_tokens(const std::string& path, const TokenizerId& tokenizer) {
  data::TokenFile file(path);
  require<FileError>(file.tokenizer() == tokenizer.checksum, file.name(),
                     ": its ids are of another tokenizer; make it by tokenize with ", tokenizer.flags);
  return file;
}

data::TokenFile open_labelled_tokens(const std::string& path, const TokenizerId& tokenizer, Index classes) {
  const data::TokenFile file = open_tokens(path, tokenizer);
  require<FileError>(file.count() > 0, file.name(), ": has no texts");
  require<FileError>(file.has_labels(), file.name(), ": its texts have no labels; make it by tokenize with --labels");
  for (Index text = 0; text < file.count(); ++text)
    require<FileError>(0 <= file.label(text) && file.label(text) < classes, file.name(), ": text ", text + 1,
                       " has the label ", file.label(text), " but must have one from 0 to ", classes - 1);
  return file;
}

namespace {

// Reads the rest of standard input: a shell may have read lines of it before.
std::string read_standard_input() {
  std::string text;
  char part[65536];
  while (const std::size_t count = std::fread(part, 1, sizeof part, stdin)) text.append(part, count);
  require<train::RunFailed>(!std::ferror(stdin),
                            "standard input cannot be read: ", std::generic_category().message(errno));
  return text;
}

}  // namespace

std::vector<std::string> read_texts(const std::string& path) {
  const bool is_piped = path == "-";
  data::Lines read =
      is_piped ? data::parse_lines(data::parse_text(read_standard_input(), "standard input")) : data::read_lines(path);
  if (is_piped) read.notes.no_final_newline = false;  // usual for echo -n and for typed text
  for (const std::string& sentence : read.notes.sentences()) note(read.file + ": " + sentence);
  return std::move(read.lines);
}

std::string nine_digits(double value) {
  char digits[32];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, value, std::chars_format::general, 9).ptr);
}

void print_line(const std::string& line) {
  if (std::puts(line.c_str()) < 0) flush_output(errno);
}

void print_prediction(std::span<const double> values) {
  std::string line = std::to_string(std::max_element(values.begin(), values.end()) - values.begin());
  for (const double v : values) line += '\t' + nine_digits(v);
  print_line(line);
}

}  // namespace heddle::examples
