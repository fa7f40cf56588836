#include <heddle/data/conll.hpp>
#include <utility>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

using WordsAndLabels = std::vector<std::pair<std::string, std::string>>;  // of a sentence

data::LabelledWords conll(const std::string& bytes) { return data::parse_conll(data::parse_text(bytes, "t.conll")); }
std::string conll_error(const std::string& bytes) {
  return error_of([&] { conll(bytes); });
}

std::vector<WordsAndLabels> conll_sentences(const std::string& bytes) {
  std::vector<WordsAndLabels> all;
  for (const data::Sentence& sentence : conll(bytes).sentences) {
    REQUIRE(sentence.words.size() == sentence.labels.size());
    all.emplace_back();
    for (std::size_t i = 0; i < sentence.words.size(); ++i)
      all.back().emplace_back(sentence.words[i], sentence.labels[i]);
  }
  return all;
}

}  // namespace

TEST_CASE("read_conll: reads words, labels and lines of a file as CoNLL-2003 has it") {
  const data::LabelledWords read = conll(
      "-DOCSTART- -X- -X- O\n"
      "\n"
      "EU NNP B-NP B-ORG\n"
      "rejects VBZ B-VP O\n"
      "\n"
      "Peter NNP B-NP B-PER\n"
      "Blackburn NNP I-NP I-PER\n");
  REQUIRE(read.sentences.size() == 2);
  CHECK(read.sentences[0].words == std::vector<std::string>{"EU", "rejects"});
  CHECK(read.sentences[0].labels == std::vector<std::string>{"B-ORG", "O"});
  CHECK(read.sentences[0].line == 3);
  CHECK(read.sentences[1].words == std::vector<std::string>{"Peter", "Blackburn"});
  CHECK(read.sentences[1].labels == std::vector<std::string>{"B-PER", "I-PER"});
  CHECK(read.sentences[1].line == 6);
  CHECK(read.file == "t.conll");
  CHECK(read.where(0) == "t.conll:3");
  CHECK(read.where(1, 1) == "t.conll:7");
  CHECK(read.notes.sentences().empty());
}

TEST_CASE("read_conll: columns are separated by tabs, or by runs of blanks in a line without tabs") {
  CHECK(conll_sentences("a O\n") == std::vector<WordsAndLabels>{{{"a", "O"}}});
  CHECK(conll_sentences("  a   x  O  \n") == std::vector<WordsAndLabels>{{{"a", "O"}}});
  CHECK(conll_sentences("New York\tB-LOC\n") == std::vector<WordsAndLabels>{{{"New York", "B-LOC"}}});
  CHECK(conll_sentences(" a \t\t x y \n") == std::vector<WordsAndLabels>{{{"a", "x y"}}});
  CHECK(conll_sentences("a\tO\nb O\n") == std::vector<WordsAndLabels>{{{"a", "O"}, {"b", "O"}}});
  // Only blanks and tabs separate: a no-break space is part of a word.
  CHECK(conll_sentences("1\xC2\xA0"
                        "000 B-NUM\n") == std::vector<WordsAndLabels>{{{"1\xC2\xA0"
                                                                        "000",
                                                                        "B-NUM"}}});
}

TEST_CASE("read_conll: sentences end at empty lines, at blank lines and at documents") {
  const std::vector<WordsAndLabels> expected{{{"a", "O"}}, {{"b", "O"}}};
  for (const char* between : {"\n", "\n\n\n", "  \n", "\t\n", " \t \n", "-DOCSTART-\n", "-DOCSTART- O\n",
                              "-DOCSTART-\tO\n", " -DOCSTART- (2 x)\n\n"}) {
    CAPTURE(between);
    CHECK(conll_sentences("a O\n" + std::string(between) + "b O\n") == expected);
    CHECK(conll_sentences(between + std::string("a O\n\nb O\n") + between) == expected);
  }
  CHECK(conll_sentences("-DOCSTART-2 O\n-docstart- O\n") ==
        std::vector<WordsAndLabels>{{{"-DOCSTART-2", "O"}, {"-docstart-", "O"}}});
}

TEST_CASE("read_conll: a comment stands before the first word of a sentence") {
  CHECK(conll_sentences("# sent_id = 1\n# text = a b\na O\nb O\n\n# text = c\nc O\n") ==
        std::vector<WordsAndLabels>{{{"a", "O"}, {"b", "O"}}, {{"c", "O"}}});
  CHECK(conll_sentences("# id 5f3-a domain=en\na _ _ O\n") == std::vector<WordsAndLabels>{{{"a", "O"}}});
  CHECK(conll_sentences("# id 5f3-a\tdomain=en\na _ _ O\n") == std::vector<WordsAndLabels>{{{"a", "O"}}});
  CHECK(conll("# text = a\na O\n").sentences[0].line == 2);
  // Other lines that begin with # are words.
  CHECK(conll_sentences("# O\n1 O\n") == std::vector<WordsAndLabels>{{{"#", "O"}, {"1", "O"}}});
  CHECK(conll_sentences("#\tO\n#tag O\n") == std::vector<WordsAndLabels>{{{"#", "O"}, {"#tag", "O"}}});
  CHECK(conll_sentences("a O\n# SYM = B-X\n# id x O\n") ==
        std::vector<WordsAndLabels>{{{"a", "O"}, {"#", "B-X"}, {"#", "O"}}});
  CHECK(conll_sentences("# SYM =\n") == std::vector<WordsAndLabels>{{{"#", "="}}});
}

TEST_CASE("read_conll: labels and words keep their characters") {
  CHECK(conll_sentences("\xC3\x89mile B-geo_nam\n\xE4\xBA\xBA I-\xE4\xBA\xBA\n, ,\n\" ''\n-LRB- S-A/B+c:1|2\n") ==
        std::vector<WordsAndLabels>{{{"\xC3\x89mile", "B-geo_nam"},
                                     {"\xE4\xBA\xBA", "I-\xE4\xBA\xBA"},
                                     {",", ","},
                                     {"\"", "''"},
                                     {"-LRB-", "S-A/B+c:1|2"}}});
}

TEST_CASE("read_conll: notes tell of CR LF, a byte-order mark, no final newline and invalid UTF-8") {
  const data::LabelledWords read = conll("\xEF\xBB\xBF-DOCSTART- O\r\n\r\na O\r\n\r\nb\xFF O");
  REQUIRE(read.sentences.size() == 2);
  CHECK(read.sentences[0].labels == std::vector<std::string>{"O"});
  CHECK(read.sentences[1].words == std::vector<std::string>{"b\xEF\xBF\xBD"});
  CHECK(read.notes.bom);
  CHECK(read.notes.crlf == 4);
  CHECK(read.notes.no_final_newline);
  CHECK(read.notes.invalid_utf8 == 1);
  CHECK(read.notes.first_invalid_line == 5);
}

TEST_CASE("read_conll: names file and line of what it refuses") {
  const std::string needed = "a line must have a word and a label, got ";
  CHECK(conll_error("a O\nEU\nb O\n") == "t.conll:2: " + needed + "'EU'");
  CHECK(conll_error("a O\n\n  EU \n") == "t.conll:3: " + needed + "'  EU '");
  CHECK(conll_error("New York\t\n") == "t.conll:1: " + needed + "'New York\\x09'");
  CHECK(conll_error("\tO\n") == "t.conll:1: " + needed + "'\\x09O'");
  CHECK(conll_error("a\t \n") == "t.conll:1: " + needed + "'a\\x09 '");
  CHECK(conll_error("a O\r\r\n\r\r\n") == "t.conll:2: " + needed + "'\\x0d'");
  CHECK(conll_error("#\n") == "t.conll:1: " + needed + "'#'");
  for (const char* none : {"", "\n", " \n\t\n\r\n", "\xEF\xBB\xBF", "-DOCSTART- -X- -X- O\n\n", "# text = a\n"})
    CHECK(conll_error(none) == "t.conll: has no sentence; each line must have a word and a label");
  CHECK(conll_error(std::string("a O\nb\0 O\n", 9)) == "t.conll:2: the line contains a NUL byte; the file is not text");
  CHECK(error_of([] { data::read_conll("/none/x.conll"); }) ==
        "/none/x.conll: cannot be opened: No such file or directory");
  const TemporaryFolder folder;
  put(folder / "x.conll", "a O\n\nb B-X\n");
  CHECK(data::read_conll(folder / "x.conll").sentences.size() == 2);
  CHECK(data::read_conll(folder / "x.conll").where(1) == folder / "x.conll:3");
}
