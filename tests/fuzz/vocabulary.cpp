// Vocabularies: every line is found by its text and by its number, and no other text or number is found.
#include <heddle/text/vocabulary.hpp>

#include "fuzz.hpp"

namespace {

using namespace heddle;
using text::Vocabulary;

void check_token(const Vocabulary& vocabulary, std::int32_t id) {
  const std::string_view token = vocabulary.token(id);
  fuzz::claim(!token.empty() && token.find_first_of(std::string_view("\n\0", 2)) == token.npos && text::is_utf8(token),
              "a token is a line of UTF-8");
  fuzz::claim(token.size() <= vocabulary.longest(), "no token is longer than the longest");
  fuzz::claim(vocabulary.find(token) == id && vocabulary.id(token) == id, "a token is found by its text");
  if (token.starts_with("##"))
    fuzz::claim(vocabulary.find_continuation(token.substr(2)) == id, "a continuation is found by its text");
}

void check_probe(const Vocabulary& vocabulary, const std::string& probe) {
  const std::int32_t id = vocabulary.find(probe);
  fuzz::claim(id == Vocabulary::none || vocabulary.token(id) == probe, "a token that is found equals the probe");
  fuzz::claim(vocabulary.find_continuation(probe) == vocabulary.find("##" + probe), "both look-ups agree");
  fuzz::claim(fuzz::accepted<FileError>([&] { vocabulary.id(probe); }) == (id != Vocabulary::none),
              "id() refuses what find() does not know");
}

// Returns a file's lines as a vocabulary keeps them: each ends with LF alone.
std::string kept_lines(std::string file) {
  if (file.starts_with("\xEF\xBB\xBF")) file.erase(0, 3);
  if (!file.ends_with('\n')) file += '\n';
  std::string kept;
  for (std::size_t i = 0; i < file.size(); ++i)
    if (file.compare(i, 2, "\r\n") != 0) kept += file[i];
  return kept;
}

void check_vocabulary(const Vocabulary& vocabulary, const std::string& file) {
  std::string lines;
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) {
    check_token(vocabulary, id);
    lines += std::string(vocabulary.token(id)) + '\n';
  }
  fuzz::claim(lines == kept_lines(file), "the tokens are the file's lines");
  for (const std::int32_t outside : {-1, vocabulary.size()})
    fuzz::claim(!fuzz::accepted<IndexError>([&] { vocabulary.token(outside); }), "an id out of range is refused");
  constexpr std::size_t probes = 6;  // pieces of the file, of growing length
  for (std::size_t i = 0; i < probes; ++i) check_probe(vocabulary, lines.substr(i * lines.size() / probes, i));
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Input input(data, size);
  const auto read = fuzz::attempt<FileError>([&] { return Vocabulary(input.string(), "input"); });
  if (read) check_vocabulary(*read, input.string());
  return 0;
}
