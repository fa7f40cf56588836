#include <heddle/text/wordpiece.hpp>

#include "catch.hpp"
#include "golden_text.hpp"
#include "harness/devices.hpp"
#include "io/files.hpp"

namespace {

using namespace heddle;
using namespace heddle::testing;
using text::AddedToken;
using text::Encoding;
using text::TextRange;
using text::Vocabulary;
using text::WordPiece;
using Ids = std::vector<std::int32_t>;
using Ranges = std::vector<TextRange>;

// Returns "=" and the numbers, separated by commas, as the golden files have them.
template <class Numbers>
std::string joined(const Numbers& numbers) {
  std::string text = "=";
  for (const auto number : numbers) text += (text.size() > 1 ? "," : "") + std::to_string(number);
  return text;
}

std::vector<std::size_t> flat(const Ranges& ranges) {
  std::vector<std::size_t> numbers;
  for (const TextRange& range : ranges) numbers.insert(numbers.end(), {range.begin, range.end});
  return numbers;
}

// Returns the bytes of the text that became each token.
std::vector<std::string> sources(std::string_view text, const Encoding& encoding) {
  std::vector<std::string> parts;
  for (const TextRange& range : encoding.offsets) parts.emplace_back(text.substr(range.begin, range.end - range.begin));
  return parts;
}

TEST_CASE("WordPiece: gives the offsets, words and decoded texts of the Rust library") {
  const Vocabulary vocabulary = Vocabulary::load(text_golden("vocab.txt"));
  const std::vector<std::string> lines = lines_of(text_golden("offsets.txt"));
  std::vector<AddedToken> tokens = WordPiece::special_tokens(vocabulary);
  const std::size_t usual = tokens.size();
  std::size_t count = 0;
  for (const std::string& line : lines) {
    INFO(line);
    const auto fields = fields_of(line);
    const auto has_option = [&](char letter) { return fields[2].find(letter) != std::string::npos; };
    if (fields[0] == "token") {
      tokens.push_back({.content = from_hex(fields[3].substr(1)),
                        .id = std::stoi(fields[1]),
                        .single_word = has_option('w'),
                        .normalized = has_option('n'),
                        .special = has_option('s')});
      continue;
    }
    REQUIRE(fields.size() == 11);
    const text::WordPieceOptions options{
        .uncased = fields[0] == "uncased" || fields[0] == "lowered",
        .strip_accents = fields[0] == "uncased" || fields[0] == "stripped",
        .special_tokens = fields[2] == "special",
        .max_length = fields[3] == "-" ? text::WordPieceOptions{}.max_length : std::stoul(fields[3]),
        .offsets = true};
    auto recognized = tokens;
    if (fields[1] == "-") recognized.resize(usual);
    const WordPiece tokenizer(vocabulary, options, recognized);
    const std::string a = from_hex(fields[4].substr(1)), b = from_hex(fields[5].substr(1));
    const Encoding encoding = fields[5] == "-" ? tokenizer.encode(a) : tokenizer.encode_pair(a, b);
    CHECK(joined(encoding.ids) == fields[6]);
    CHECK(joined(flat(encoding.offsets)) == fields[7]);
    CHECK(joined(encoding.word_ids) == fields[8]);
    CHECK(tokenizer.decode(encoding.ids) == from_hex(fields[9].substr(1)));
    CHECK(tokenizer.decode(encoding.ids, false) == from_hex(fields[10].substr(1)));
    ++count;
  }
  CHECK(count > 200);
}

const char* const tiny =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\ne\n##t\nete\n,\n中\n\u1112\n##\u1161\n##\u11AB\ni\n##\u0307\n##a";

TEST_CASE("WordPiece: offsets are bytes of the original text") {
  const WordPiece tokenizer(Vocabulary(tiny), {.uncased = true, .special_tokens = false, .offsets = true});
  std::string text = "Éte, e\u0301te";  // É has two bytes, the accent of its own two, too
  Encoding encoding = tokenizer.encode(text);
  CHECK(encoding.ids == Ids{9, 10, 9});
  CHECK(encoding.offsets == Ranges{{0, 4}, {4, 5}, {6, 11}});
  CHECK(encoding.word_ids == Ids{0, 1, 2});
  // A dropped accent at the end of a word belongs to no token.
  CHECK(tokenizer.encode("e\u0301,").offsets == Ranges{{0, 1}, {3, 4}});
  // The jamo of a syllable share its bytes, and the pieces of a word its number.
  encoding = tokenizer.encode("a 한,");
  CHECK(encoding.ids == Ids{5, 12, 13, 14, 10});
  CHECK(encoding.offsets == Ranges{{0, 1}, {2, 5}, {2, 5}, {2, 5}, {5, 6}});
  CHECK(encoding.word_ids == Ids{0, 1, 1, 1, 2});
  // Ideographs are words of their own. Control characters vanish, within a token, too.
  text = "a中中a\u0001b";
  encoding = tokenizer.encode(text);
  CHECK(encoding.ids == Ids{5, 11, 11, 5, 6});
  CHECK(sources(text, encoding) == std::vector<std::string>{"a", "中", "中", "a", "b"});
  CHECK(encoding.word_ids == Ids{0, 1, 2, 3, 3});
  CHECK(tokenizer.encode("e\u007Ft\u00ADe").offsets == Ranges{{0, 6}});
}

TEST_CASE("WordPiece: a letter that becomes two characters gives its bytes to both") {
  const WordPiece lowered(Vocabulary(tiny),
                          {.uncased = true, .strip_accents = false, .special_tokens = false, .offsets = true});
  const Encoding encoding = lowered.encode("İa");  // U+0130 becomes i and U+0307
  CHECK(encoding.ids == Ids{15, 16, 17});
  CHECK(encoding.offsets == Ranges{{0, 2}, {0, 2}, {2, 3}});
}

TEST_CASE("WordPiece: marks that are sorted keep the order of their sources") {
  const WordPiece tokenizer(Vocabulary("[UNK]\na\n##\U0001D165\n##\U0001D16D"),  // of combining classes 216 and 226
                            {.uncased = true, .special_tokens = false, .offsets = true});
  CHECK(tokenizer.encode("a\U0001D165\U0001D16D").offsets == Ranges{{0, 1}, {1, 5}, {5, 9}});
  const Encoding sorted = tokenizer.encode("a\U0001D16D\U0001D165");
  CHECK(sorted.ids == Ids{1, 2, 3});
  CHECK(sorted.offsets == Ranges{{0, 1}, {1, 5}, {5, 9}});
  // As in the Rust library, a mark that is sorted before an accent (of class 230) gets its place.
  CHECK(tokenizer.encode("a\u0301\U0001D165").offsets == Ranges{{0, 1}, {1, 3}});
  CHECK(tokenizer.encode("a\U0001D165\u0301").offsets == Ranges{{0, 1}, {1, 5}});
}

TEST_CASE("WordPiece: invalid bytes belong to no token") {
  const WordPiece tokenizer(Vocabulary(tiny), {.special_tokens = false, .offsets = true});
  const Encoding encoding = tokenizer.encode(
      "\xFF"
      "a\xE2\x82"
      "b\xFF, \xED\xA0\x80"
      "e\xC3");
  CHECK(encoding.ids == Ids{5, 6, 10, 7});
  CHECK(encoding.offsets == Ranges{{1, 2}, {4, 5}, {6, 7}, {11, 12}});
  CHECK(encoding.word_ids == Ids{0, 0, 1, 2});
  CHECK(tokenizer.encode("e\xF0\x9F\x98te").offsets == Ranges{{0, 6}});
}

TEST_CASE("WordPiece: [UNK] has the offsets of its whole word, of any length") {
  const WordPiece tokenizer(Vocabulary(tiny), {.uncased = true, .special_tokens = false, .offsets = true});
  CHECK(tokenizer.encode(" axe ").offsets == Ranges{{1, 4}});
  for (const std::size_t n : {100u, 101u, 5000u}) {
    std::string word = "á";
    for (std::size_t i = 1; i < n; ++i) word += "â";
    const Encoding encoding = tokenizer.encode("a " + word + "\u0301 a");
    CHECK(encoding.ids.size() == (n == 100 ? 102 : 3));
    CHECK(encoding.offsets[1] == (n == 100 ? TextRange{2, 4} : TextRange{2, 2 + 2 * n}));
    CHECK(encoding.offsets.back() == TextRange{5 + 2 * n, 6 + 2 * n});
    CHECK(encoding.word_ids.back() == 2);
  }
}

TEST_CASE("WordPiece: added tokens in a text have offsets and count as words") {
  const std::vector<AddedToken> tokens{{.content = "[SEP]", .id = 3, .special = true},
                                       {.content = "New  York", .id = 18, .normalized = true},
                                       {.content = "中", .id = 11},
                                       {.content = "it", .id = 19, .single_word = true}};
  const WordPiece tokenizer(Vocabulary(tiny), {.uncased = true, .special_tokens = false, .offsets = true}, tokens);
  const std::string text = "a[SEP]e  Néw\u00A0 york,中a it itit";
  const Encoding encoding = tokenizer.encode(text);
  CHECK(encoding.ids == Ids{5, 3, 7, 18, 10, 11, 5, 19, 1});
  CHECK(sources(text, encoding) ==
        std::vector<std::string>{"a", "[SEP]", "e", "Néw\u00A0 york", ",", "中", "a", "it", "itit"});
  CHECK(encoding.word_ids == Ids{0, 1, 2, 3, 4, 5, 6, 7, 8});
}

TEST_CASE("WordPiece: special tokens that are added have no offsets and no word") {
  const WordPiece tokenizer(Vocabulary(tiny), {.max_length = 6, .offsets = true});
  const TextRange added{};
  CHECK(tokenizer.encode("") == Encoding{{2, 3}, {0, 0}, 0, {added, added}, {-1, -1}});
  // Truncation may cut a word. A pair's offsets and words are those of each text.
  CHECK(tokenizer.encode(",,, ab") == Encoding{{2, 10, 10, 10, 5, 3},
                                               {0, 0, 0, 0, 0, 0},
                                               1,
                                               {added, {0, 1}, {1, 2}, {2, 3}, {4, 5}, added},
                                               {-1, 0, 1, 2, 3, -1}});
  CHECK(tokenizer.encode_pair("a,", " ab") == Encoding{{2, 5, 3, 5, 6, 3},
                                                       {0, 0, 0, 1, 1, 1},
                                                       1,
                                                       {added, {0, 1}, added, {1, 2}, {2, 3}, added},
                                                       {-1, 0, -1, 0, 0, -1}});
  CHECK(tokenizer.encode_pair("", "") == Encoding{{2, 3, 3}, {0, 0, 1}, 0, {added, added, added}, {-1, -1, -1}});
}

TEST_CASE("WordPiece: ids do not depend on the option `offsets`, without which there are none") {
  const Vocabulary vocabulary = Vocabulary::load(text_golden("vocab.txt"));
  for (const bool uncased : {false, true}) {
    const WordPiece with(vocabulary, {.uncased = uncased, .offsets = true}), without(vocabulary, {.uncased = uncased});
    for (const std::string& line : lines_of(text_golden("cases.txt"))) {
      const std::string text = from_hex(fields_of(line)[3].substr(1));
      Encoding encoding = with.encode(text);
      CHECK(encoding.offsets.size() == encoding.ids.size());
      CHECK(encoding.word_ids.size() == encoding.ids.size());
      encoding.offsets.clear();
      encoding.word_ids.clear();
      CHECK(encoding == without.encode(text));
    }
  }
}

TEST_CASE("WordPiece: decodes ids as the Rust library does") {
  const WordPiece tokenizer(Vocabulary(
      "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\n##b\n.\n,\n'\ns\n's\nn't\n'm\n're\n've\n?\n!\ndo\nnot\n##.\nit\nca"));
  const auto decode = [&](Ids ids) { return tokenizer.decode(ids); };
  CHECK(decode({}) == "");
  CHECK(decode({2, 5, 6, 5, 3}) == "ab a");
  CHECK(decode({6, 6}) == "##bb");  // the first token keeps its ##
  CHECK(decode({2, 6, 6}) == "##bb");
  CHECK(decode({5, 7, 5, 8, 5, 16, 17, 20}) == "a. a, a?!.");
  CHECK(decode({21, 11, 22, 12, 5, 13, 5, 14, 5, 15}) == "it's can't a'm a're a've");
  CHECK(decode({21, 9, 10}) == "it ' s");  // the rules apply to each token alone
  CHECK(decode({18, 19}) == "do not");
  CHECK(decode({5, 1, 4, 0}) == "a");
  CHECK(tokenizer.decode(Ids{2, 5, 1, 6, 3}, false) == "[CLS] a [UNK]b [SEP]");
  CHECK(error_of<IndexError>([&] { decode({5, 23}); }) == "vocabulary: id 23 is outside 0 to 22");
  CHECK(error_of<IndexError>([&] { decode({-1}); }) == "vocabulary: id -1 is outside 0 to 22");
}

TEST_CASE("WordPiece: decodes added tokens in their normalized form, and leaves out special ones") {
  const WordPiece tokenizer(Vocabulary("[UNK]\na"), {.uncased = true, .special_tokens = false},
                            {{.content = "Do NOT", .id = 2, .normalized = true},
                             {.content = "Kept", .id = 3},
                             {.content = "<s>", .id = 4, .special = true},
                             {.content = "##x . y", .id = 5}});
  CHECK(tokenizer.decode(Ids{1, 2, 3, 4, 5}) == "a don't Keptx. y");
  CHECK(tokenizer.decode(Ids{2, 4, 1}, false) == "do not <s> a");
  CHECK(tokenizer.decode(Ids{0}) == "[UNK]");  // it is not among the added tokens
  CHECK(error_of<IndexError>([&] { tokenizer.decode(Ids{6}); }) == "vocabulary: id 6 is outside 0 to 5");
}

}  // namespace
