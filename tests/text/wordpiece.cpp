#include <heddle/text/wordpiece.hpp>

#include <map>

#include "catch.hpp"
#include "golden_text.hpp"
#include "harness/devices.hpp"
#include "io/files.hpp"

namespace {

using namespace heddle;
using namespace heddle::testing;
using text::Encoding;
using text::Vocabulary;
using text::WordPiece;

constexpr auto unlimited = text::WordPieceOptions{}.max_length;

TEST_CASE("WordPiece: gives the ids and type ids of the Rust library") {
  const Vocabulary vocabulary = Vocabulary::load(text_golden("vocab.txt"));
  std::size_t count = 0;
  for (const std::string& line : lines_of(text_golden("cases.txt"))) {
    INFO(line);
    const auto fields = fields_of(line);
    REQUIRE(fields.size() == 7);
    const WordPiece tokenizer(vocabulary, {.uncased = fields[0] == "uncased",
                                           .special_tokens = fields[1] == "special",
                                           .max_length = fields[2] == "-" ? unlimited : std::stoul(fields[2])});
    const std::string a = from_hex(fields[3].substr(1)), b = from_hex(fields[4].substr(1));
    const Encoding encoding = fields[4] == "-" ? tokenizer.encode(a) : tokenizer.encode_pair(a, b);
    std::string ids = "=", types = "=";
    for (const std::int32_t id : encoding.ids) ids += (ids.size() > 1 ? "," : "") + std::to_string(id);
    for (const std::int32_t type : encoding.type_ids) types += std::to_string(type);
    CHECK(ids == fields[5]);
    CHECK(types == fields[6]);
    ++count;
  }
  CHECK(count > 500);
}

TEST_CASE("WordPiece: truncates the longer text of a pair first, and breaks ties as the Rust library does") {
  for (const std::string& line : lines_of(text_golden("truncation.txt"))) {
    INFO(line);
    const auto fields = fields_of(line);
    for (std::size_t limit = 0; limit + 2 < fields.size(); ++limit) {
      const auto [n1, n2] = text::truncated_lengths(std::stoul(fields[0]), std::stoul(fields[1]), limit);
      CHECK(std::to_string(n1) + ',' + std::to_string(n2) == fields[limit + 2]);
    }
  }
}

const char* const small = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\n##b\n[\n]\nSEP\nsep\nx";

TEST_CASE("WordPiece: recognizes special tokens anywhere, in capitals only, whether cased or uncased") {
  for (const bool uncased : {false, true}) {
    const WordPiece tokenizer(Vocabulary(small), {.uncased = uncased, .special_tokens = false});
    CHECK(tokenizer.encode("a[SEP]b").ids == std::vector<std::int32_t>{5, 3, 6});
    CHECK(tokenizer.encode("[[MASK]][SEP]").ids == std::vector<std::int32_t>{8, 4, 9, 3});
    CHECK(tokenizer.encode("a[sep]").ids == std::vector<std::int32_t>{5, 8, 11, 9});
    CHECK(tokenizer.encode("[SEP").ids == std::vector<std::int32_t>{8, uncased ? 11 : 10});
    CHECK(tokenizer.encode("[\xFFSEP]").ids == std::vector<std::int32_t>{8, uncased ? 11 : 10, 9});
  }
  const WordPiece without_mask(Vocabulary("[UNK]\n[\n]\nMASK"), {.special_tokens = false});
  CHECK(without_mask.encode("[MASK]").ids == std::vector<std::int32_t>{1, 3, 2});
}

TEST_CASE("WordPiece: finds added tokens as the Rust library does") {
  std::vector<text::AddedToken> added;
  const Vocabulary vocabulary = Vocabulary::load(text_golden("vocab.txt"));
  const std::vector<std::string> lines = lines_of(text_golden("added.txt"));
  for (const std::string& line : lines)
    if (const auto fields = fields_of(line); fields[0] == "token")
      added.push_back({from_hex(fields[3].substr(1)), std::stoi(fields[1]), fields[2].find('w') != std::string::npos,
                       fields[2].find('n') != std::string::npos});
  for (const text::AddedToken& token : WordPiece::special_tokens(vocabulary)) added.push_back(token);
  const auto tokenizer = [&](bool uncased, std::optional<bool> strip_accents) {
    return WordPiece(vocabulary, {.uncased = uncased, .strip_accents = strip_accents, .special_tokens = false}, added);
  };
  const std::map<std::string, WordPiece> tokenizers{{"cased", tokenizer(false, {})},
                                                    {"uncased", tokenizer(true, {})},
                                                    {"lowered", tokenizer(true, false)},
                                                    {"stripped", tokenizer(false, true)}};
  std::size_t texts = 0;
  for (const std::string& line : lines) {
    const auto fields = fields_of(line);
    if (fields[0] == "token") continue;
    INFO(line);
    std::string ids;
    for (const std::int32_t id : tokenizers.at(fields[0]).encode(from_hex(fields[1].substr(1))).ids)
      ids += (ids.empty() ? "" : ",") + std::to_string(id);
    CHECK('=' + ids == fields[2]);
    ++texts;
  }
  CHECK(texts == 406);
}

TEST_CASE("WordPiece: added tokens have the vocabulary's ids, or follow it") {
  const WordPiece tokenizer(Vocabulary(small), {.special_tokens = false}, {{"[NEW]", 13}, {"a", 5}, {"x y", 14}});
  CHECK(tokenizer.size() == 15);
  CHECK(tokenizer.token(12) == "x");
  CHECK(tokenizer.token(13) == "[NEW]");
  CHECK(tokenizer.token(14) == "x y");
  CHECK(tokenizer.encode("[NEW]x yab").ids == std::vector<std::int32_t>{13, 14, 5, 6});
  CHECK(tokenizer.encode("[SEP]").ids == std::vector<std::int32_t>{8, 10, 9});  // it is not among the added tokens
  CHECK(error_of<IndexError>([&] { tokenizer.token(15); }) == "vocabulary: id 15 is outside 0 to 14");
  for (const int id : {4, 6, 13})
    CHECK(error_of<Error>([&] {
            WordPiece(Vocabulary(small), {}, {{"a", id}});
          }) == "WordPiece: the added token 'a' has the id " + std::to_string(id) + "; its place is 5");
  CHECK(error_of<Error>([&] {
          WordPiece(Vocabulary(small), {}, {{"[NEW]", 14}});
        }) == "WordPiece: the added token '[NEW]' has the id 14; its place is 13");
}

TEST_CASE("WordPiece: counts special tokens in max_length, and says how many tokens it cut off") {
  const WordPiece tokenizer(Vocabulary(small), {.max_length = 4});
  CHECK(tokenizer.encode("a b") == Encoding{{2, 5, 6, 3}, {0, 0, 0, 0}, 0});
  CHECK(tokenizer.encode("a b abb") == Encoding{{2, 5, 6, 3}, {0, 0, 0, 0}, 3});
  CHECK(tokenizer.encode_pair("a b", "x x") == Encoding{{2, 3, 12, 3}, {0, 0, 1, 1}, 3});
  CHECK(tokenizer.encode_pair("a", "") == Encoding{{2, 5, 3, 3}, {0, 0, 0, 1}, 0});
  CHECK(tokenizer.encode("") == Encoding{{2, 3}, {0, 0}, 0});
  const WordPiece nothing(Vocabulary(small), {.special_tokens = false, .max_length = 0});
  CHECK(nothing.encode("a b") == Encoding{{}, {}, 2});
  CHECK(nothing.encode_pair("a", "b") == Encoding{{}, {}, 2});
}

TEST_CASE("WordPiece: a word of more than a hundred characters, or with an unknown piece, is one [UNK]") {
  const WordPiece tokenizer(Vocabulary("[UNK]\na\n##a\n\xC3\xA9\n##\xC3\xA9"), {.special_tokens = false});
  CHECK(tokenizer.encode(std::string(100, 'a')).ids.size() == 100);
  CHECK(tokenizer.encode(std::string(101, 'a')).ids == std::vector<std::int32_t>{0});
  std::string accents;
  for (int i = 0; i < 100; ++i) accents += "\xC3\xA9";
  CHECK(tokenizer.encode(accents).ids.size() == 100);
  CHECK(tokenizer.encode(accents + 'a').ids == std::vector<std::int32_t>{0});
  CHECK(tokenizer.encode("aaxaa a").ids == std::vector<std::int32_t>{0, 1});
}

TEST_CASE("WordPiece: a batch gives what its texts give alone, with any number of threads") {
  const Vocabulary vocabulary = Vocabulary::load(text_golden("vocab.txt"));
  const WordPiece tokenizer(vocabulary, {.uncased = true, .max_length = 12});
  std::vector<std::string> texts;
  for (int i = 0; i < 1000; ++i)
    texts.push_back("the quick brown fox " + std::string(static_cast<std::size_t>(i % 50), 'a'));
  const std::vector<std::string> others(texts.rbegin(), texts.rend());
  const int before = threads();
  for (const int count : {1, 2, 5}) {
    set_threads(count);
    const auto single = tokenizer.encode_batch(texts), pairs = tokenizer.encode_batch(texts, others);
    REQUIRE(single.size() == texts.size());
    REQUIRE(pairs.size() == texts.size());
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < texts.size(); ++i)
      wrong += single[i] != tokenizer.encode(texts[i]) || pairs[i] != tokenizer.encode_pair(texts[i], others[i]);
    CHECK(wrong == 0);
  }
  set_threads(before);
  CHECK(tokenizer.encode_batch({"the", "fox"}).size() == 2);
  CHECK(tokenizer.encode_batch(std::vector<std::string_view>{}).empty());
  CHECK(error_of<Error>([&] {
          tokenizer.encode_batch({"a"}, {"b", "c"});
        }) == "encode_batch: each pair needs two texts, but the sizes are 1 and 2");
}

TEST_CASE("WordPiece: refuses a vocabulary without the special tokens it needs, and a max_length below their number") {
  const auto refusal = [](const char* lines, text::WordPieceOptions options) {
    return error_of<Error>([&] { WordPiece(Vocabulary(lines, "v.txt"), options); });
  };
  CHECK(refusal("a\n[CLS]\n[SEP]", {}) == "v.txt: has no token '[UNK]'");
  CHECK(refusal("a\n[UNK]\n[SEP]", {}) == "v.txt: has no token '[CLS]'");
  CHECK(refusal("a\n[UNK]\n[CLS]", {}) == "v.txt: has no token '[SEP]'");
  CHECK(refusal("[UNK]", {.special_tokens = false}) == "no error");
  CHECK(refusal(small, {.max_length = 1}) == "WordPiece: max_length 1 cannot hold the 2 special tokens");
  const WordPiece tight(Vocabulary(small), {.max_length = 2});
  CHECK(tight.encode("a b").ids == std::vector<std::int32_t>{2, 3});
  CHECK(error_of<Error>([&] { tight.encode_pair("a", "b"); }) ==
        "WordPiece: max_length 2 cannot hold the 3 special tokens");
}

TEST_CASE("WordPiece: any bytes are text") {
  const Vocabulary vocabulary = Vocabulary::load(text_golden("vocab.txt"));
  const WordPiece cased(vocabulary, {}), uncased(vocabulary, {.uncased = true});
  std::uint64_t state = 1;
  std::string bytes;
  for (int i = 0; i < 20000; ++i) {
    bytes.clear();
    for (int length = i % 40; length > 0; --length) {
      state = state * 6364136223846793005u + 1442695040888963407u;
      bytes += static_cast<char>(state >> 56);
    }
    const auto a = cased.encode(bytes), b = uncased.encode(bytes);
    if (a.ids.size() < 2 || b.ids.size() < 2) FAIL("no [CLS] and [SEP]");
  }
}

// Compares with the ids that the Rust library gave for the same lines, as scripts/golden-text.py recorded them.
TEST_CASE("WordPiece: SST-2, AG News and all code points with both BERT vocabularies") {
  const std::string folder = data_folder("WordPiece on real data");
  if (folder.empty()) return;
  const auto lines = [&](const std::string& source) {
    if (source != "code-points") return lines_of(folder + '/' + source);
    std::vector<std::string> all;
    for (char32_t c = 0; c < 0x110000; ++c) {
      char bytes[text::max_utf8_bytes];
      if (c < 0xD800 || c >= 0xE000)
        all.push_back('a' + std::string(bytes, static_cast<std::size_t>(text::encode_utf8(c, bytes))) + 'b');
    }
    return all;
  };
  for (const std::string& line : lines_of(text_golden("data.txt"))) {
    INFO(line);
    const auto fields = fields_of(line);
    REQUIRE(fields.size() == 5);
    const bool pairs = fields[2] == "pairs", is_large = std::stoul(fields[3]) > 400'000;  // tokens
    if (is_large && !testing::is_exhaustive()) continue;
    const WordPiece tokenizer(Vocabulary::load(folder + "/vocab/bert-base-" + fields[0] + "-vocab.txt"),
                              {.uncased = fields[0] == "uncased", .max_length = pairs ? 40 : unlimited});
    const std::vector<std::string> texts = lines(fields[1]);
    const std::vector<std::string_view> first(texts.begin(), texts.end() - (pairs ? 1 : 0));
    const std::vector<std::string_view> second(texts.begin() + 1, texts.end());
    Crc32 crc;
    std::size_t count = 0;
    for (const Encoding& e : pairs ? tokenizer.encode_batch(first, second) : tokenizer.encode_batch(first)) {
      crc.add(std::vector<std::int32_t>{static_cast<std::int32_t>(e.ids.size())});
      crc.add(e.ids);
      crc.add(e.type_ids);
      count += e.ids.size();
    }
    CHECK(count == std::stoul(fields[3]));
    CHECK(crc.value() == std::stoul(fields[4], nullptr, 16));
  }
}

}  // namespace
