#include <heddle/text/vocabulary.hpp>

#include "catch.hpp"
#include "golden_text.hpp"
#include "io/files.hpp"

namespace {

using namespace heddle;
using namespace heddle::testing;
using text::Vocabulary;

TEST_CASE("Vocabulary: numbers lines from 0, and a last line without LF counts") {
  for (const char* lines : {"a\nb\n##c", "a\nb\n##c\n"}) {
    const Vocabulary vocabulary(lines);
    REQUIRE(vocabulary.size() == 3);
    CHECK(vocabulary.token(0) == "a");
    CHECK(vocabulary.token(2) == "##c");
    CHECK(vocabulary.id("b") == 1);
    CHECK(vocabulary.find("##c") == 2);
    CHECK(vocabulary.find_continuation("c") == 2);
    CHECK(vocabulary.find("c") == Vocabulary::none);
    CHECK(vocabulary.find_continuation("a") == Vocabulary::none);
    CHECK(vocabulary.find("") == Vocabulary::none);
    CHECK(vocabulary.longest() == 3);
  }
}

TEST_CASE("Vocabulary: keeps blanks, marks and carriage returns inside a line as they are") {
  const Vocabulary vocabulary(" a\na \n\xCC\x81\na\rb\n\t\n#\n##\n###\n");
  REQUIRE(vocabulary.size() == 8);
  CHECK(vocabulary.token(2) == "\xCC\x81");
  CHECK(vocabulary.token(3) == "a\rb");
  for (std::int32_t id = 0; id < vocabulary.size(); ++id) CHECK(vocabulary.find(vocabulary.token(id)) == id);
}

TEST_CASE("Vocabulary: finds every token of every length, and nothing else") {
  std::string lines;
  std::vector<std::string> tokens;
  for (std::size_t length = 1; length <= 70; ++length)
    for (const char* prefix : {"", "##"})
      for (const char last : {'x', 'y'}) tokens.push_back(prefix + std::string(length - 1, 'a') + last);
  for (const auto& token : tokens) lines += token + '\n';
  const Vocabulary vocabulary = Vocabulary(lines);
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    CHECK(vocabulary.id(tokens[i]) == static_cast<std::int32_t>(i));
    CHECK(vocabulary.find(tokens[i] + 'z') == Vocabulary::none);
    CHECK(vocabulary.find('z' + tokens[i]) == Vocabulary::none);
  }
}

TEST_CASE("Vocabulary: an error names the file and the line") {
  const TemporaryFolder folder;
  const auto refusal = [&](const std::string& content) {
    put(folder / "vocab.txt", content);
    return error_of([&] { Vocabulary::load(folder / "vocab.txt"); });
  };
  const std::string file = folder / "vocab.txt";
  CHECK(refusal("") == file + ": is empty; a vocabulary holds one token a line");
  CHECK(refusal("a\n\nb\n") == file + ":2: the token is empty");
  CHECK(refusal("\n") == file + ":1: the token is empty");
  CHECK(refusal("a\nb\n\n") == file + ":3: the token is empty");
  CHECK(refusal("a\nb\na\n") == file + ":3: token 'a' is on line 1 already");
  CHECK(refusal("##a\nb\x1b\nb\x1b") == file + ":3: token 'b\\x1b' is on line 2 already");
  CHECK(refusal("a\n\xff\n") == file + ":2: the token is not valid UTF-8");
  CHECK(refusal(std::string("a\nb\0\n", 5)) == file + ":2: the token contains a NUL byte; a vocabulary is a text file");
  CHECK(refusal("a\na\r\n") == file + ":2: token 'a' is on line 1 already");
  CHECK(refusal("a\n") == "no error");
  CHECK(error_of([&] { Vocabulary::load(folder / "missing.txt"); }).starts_with(folder / "missing.txt"));
  CHECK(error_of([&] { Vocabulary::load(folder.path()); }).starts_with(folder.path()));
}

TEST_CASE("Vocabulary: says which token or id it does not have") {
  const Vocabulary vocabulary("a\nb\n", "v.txt");
  CHECK(error_of([&] { vocabulary.id("c"); }) == "v.txt: has no token 'c'");
  CHECK(error_of<IndexError>([&] { vocabulary.token(2); }) == "v.txt: id 2 is outside 0 to 1");
  CHECK(error_of<IndexError>([&] { vocabulary.token(-1); }) == "v.txt: id -1 is outside 0 to 1");
}

TEST_CASE("Vocabulary: removes a byte-order mark and the CR of CR LF, and notes both") {
  for (const char* lines : {"\xEF\xBB\xBF[A]\r\nc\nb\r\n", "\xEF\xBB\xBF[A]\r\nc\nb\r"}) {
    const Vocabulary windows(lines);
    REQUIRE(windows.size() == 3);
    CHECK(windows.id("[A]") == 0);
    CHECK(windows.id("b") == 2);
    CHECK(windows.notes() == std::vector<std::string>{"a byte-order mark was skipped", "2 lines end with CR LF"});
  }
  CHECK(Vocabulary("a\r\nb\n").notes() == std::vector<std::string>{"1 line ends with CR LF"});
  CHECK(Vocabulary("a\r\r\n").token(0) == "a\r");
  CHECK(Vocabulary("a\n").notes().empty());
  CHECK(error_of([&] { Vocabulary("\xEF\xBB\xBF", "v.txt"); }) ==
        "v.txt: is empty; a vocabulary holds one token a line");
  CHECK(error_of([&] { Vocabulary("\r\n", "v.txt"); }) == "v.txt:1: the token is empty");
}

}  // namespace
