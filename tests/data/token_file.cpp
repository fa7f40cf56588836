// Token files: what is written is read, also after a stop, and damage is found.
#include <heddle/data/token_file_writer.hpp>

#include <regex>

#include "../io/files.hpp"
#include "catch.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

using TokenTexts = std::vector<std::vector<int>>;

// TokenTexts of 0 to 9 tokens.
TokenTexts token_texts(int vocabulary, int count) {
  TokenTexts texts;
  for (int n = 0; n < count; ++n) {
    texts.emplace_back();
    for (int t = 0; t < n * 7 % 10; ++t) texts.back().push_back(static_cast<int>((n * 7919LL + t * 31LL) % vocabulary));
  }
  return texts;
}

void write_token_file(const std::string& path, int vocabulary, const TokenTexts& texts) {
  data::TokenFileWriter writer(path, vocabulary, 42);
  for (const std::vector<int>& text : texts) writer.add(text);
  writer.finish();
}

TokenTexts read_token_file(const std::string& path) {
  const data::TokenFile file(path);
  TokenTexts texts;
  for (Index n = 0; n < file.count(); ++n) {
    texts.push_back(file.ids(n));
    CHECK(file.length(n) == std::ssize(texts.back()));
  }
  return texts;
}

// Writes bytes into the middle of a file.
void overwrite_bytes(const std::string& path, std::size_t at, std::string_view bytes) {
  std::string content = get(path);
  content.replace(at, bytes.size(), bytes);
  put(path, content);
}

constexpr std::size_t token_header_size = sizeof(data::detail::TokenFileHeader);

}  // namespace

TEST_CASE("TokenFile: reads what was written, with ids of 16 and of 32 bits") {
  const TemporaryFolder folder;
  for (const int vocabulary : {2, 65536, 65537, 250'002}) {
    const TokenTexts texts = token_texts(vocabulary, 40);
    write_token_file(folder / "tokens", vocabulary, texts);
    CAPTURE(vocabulary);
    CHECK(read_token_file(folder / "tokens") == texts);
    const data::TokenFile file(folder / "tokens");
    CHECK((file.count() == 40 && file.tokens() == 180 && file.longest() == 9 && file.tokenizer() == 42));
    CHECK(folder.names() == std::set<std::string>{"tokens"});
  }
  write_token_file(folder / "none", 10, {});
  CHECK(data::TokenFile(folder / "none").count() == 0);
  write_token_file(folder / "empty", 10, {{}, {}});
  CHECK(read_token_file(folder / "empty") == TokenTexts{{}, {}});
}

TEST_CASE("TokenFile: the bytes are those of the format") {
  const TemporaryFolder folder;
  write_token_file(folder / "tokens", 1000, {{1, 258}, {}, {3}});
  const std::string bytes = get(folder / "tokens");
  CHECK(bytes.size() == 64 + 8 + 3 * 8 + 8);
  CHECK(bytes.substr(0, 8) == "heddletk");
  CHECK(bytes.substr(8, 8) == std::string("\1\0\0\0\2\0\0\0", 8));                     // version, id bytes
  CHECK(bytes.substr(16, 16) == std::string("\3\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0", 16));  // texts, tokens
  CHECK(bytes.substr(64, 8) == std::string("\1\0\2\1\3\0\0\0", 8));                    // ids, filled up
  CHECK(bytes.substr(72, 24) == std::string("\2\0\0\0\0\0\0\0\2\0\0\0\0\0\0\0\3\0\0\0\0\0\0\0", 24));  // ends
}

TEST_CASE("TokenFile: texts with labels") {
  const TemporaryFolder folder;
  const TokenTexts texts = token_texts(1000, 31);
  const auto label = [](std::size_t n) { return static_cast<std::int32_t>(n * n * 1000); };
  {
    data::TokenFileWriter writer(folder / "tokens", 1000, 42, data::TextLabels::written);
    for (std::size_t n = 0; n < 20; ++n) writer.add(texts[n], label(n));
    writer.save("twenty");
    writer.add(texts[20], 7);
  }
  CHECK_THROWS_WITH(data::TokenFileWriter(folder / "tokens", 1000, 42), ContainsSubstring("was begun with labels"));
  data::TokenFileWriter writer(folder / "tokens", 1000, 42, data::TextLabels::written);
  for (std::size_t n = 20; n < texts.size(); ++n) writer.add(texts[n], label(n));
  writer.finish();
  CHECK(folder.names() == std::set<std::string>{"tokens"});
  const data::TokenFile file(folder / "tokens");
  CHECK(file.has_labels());
  for (std::size_t n = 0; n < texts.size(); ++n) CHECK(file.label(static_cast<Index>(n)) == label(n));
  CHECK(read_token_file(folder / "tokens") == texts);
  CHECK_THROWS_AS(file.label(31), IndexError);
  const std::string bytes = get(folder / "tokens");
  CHECK(bytes.substr(8, 8) == std::string("\1\0\0\0\2\0\4\0", 8));  // version, bytes of an id and of a label
  CHECK(bytes.size() == 64 + (2 * 135 + 2) + 31 * 8 + 32 * 4 + 8);
  overwrite_bytes(folder / "tokens", bytes.size() - 12, "x");
  CHECK_THROWS_WITH(data::TokenFile(folder / "tokens").label(30), ContainsSubstring("was changed"));
  write_token_file(folder / "none", 10, {{1}});
  CHECK((!data::TokenFile(folder / "none").has_labels() && data::TokenFile(folder / "none").label(0) == 0));
}

TEST_CASE("TokenFile: files larger than a block") {
  const TemporaryFolder folder;
  TokenTexts texts;
  for (int n = 0; n < 30; ++n) texts.emplace_back(50'000, n * 1000 + 7);
  write_token_file(folder / "tokens", 100'000, texts);
  CHECK(read_token_file(folder / "tokens") == texts);
  // A change is found when its block is read.
  overwrite_bytes(folder / "tokens", token_header_size + 3 * (std::size_t{1} << 20) + 5, "x");
  const data::TokenFile file(folder / "tokens");
  CHECK(file.ids(0) == texts[0]);
  CHECK_THROWS_WITH(file.ids(16), ContainsSubstring("tokens: the content after byte 3145792 was changed"));
  CHECK(file.ids(29) == texts[29]);
}

TEST_CASE("TokenFile: other files, and files that were changed, are refused by name") {
  const TemporaryFolder folder;
  const std::string path = folder / "tokens";
  write_token_file(path, 1000, token_texts(1000, 20));
  const std::string whole = get(path);
  const auto refused = [&](const std::string& content, const std::string& message) {
    put(path, content);
    CHECK_THROWS_WITH(data::TokenFile(path), ContainsSubstring(path + ": " + message));
  };
  refused("", "is not a token file");
  refused("some text", "is not a token file");
  refused(std::string(1000, 'x'), "is not a token file");
  refused(whole.substr(0, whole.size() - 1), "has 415 bytes; 20 texts of 90 tokens take 416");
  refused(whole + '\n', "has 417 bytes");
  refused(whole.substr(0, 63), "is not a token file");
  std::string changed = whole;
  changed[8] = 2;
  refused(changed, "has version 2 of the format; this heddle reads version 1");
  for (const std::size_t at : {12u, 16u, 24u, 32u, 40u, 48u, 56u}) {
    changed = whole;
    changed[at] = static_cast<char>(changed[at] + 1);
    refused(changed, "its header was changed");
  }
  changed = whole;
  changed.back() = static_cast<char>(changed.back() + 1);
  refused(changed, "its checksums were changed");
  changed = whole;
  changed[token_header_size] = static_cast<char>(changed[token_header_size] + 1);
  put(path, changed);
  CHECK_THROWS_WITH(data::TokenFile(path).length(0), ContainsSubstring("the content after byte 64 was changed"));
  CHECK_THROWS_WITH(data::TokenFile(folder / "missing"), ContainsSubstring("missing"));
  CHECK_THROWS_WITH(data::TokenFile(folder.path()), ContainsSubstring("is a folder"));
  put(path, whole);
  CHECK_THROWS_WITH(data::TokenFile(path).ids(20), ContainsSubstring("there is no text 20 among 20"));
  CHECK_THROWS_WITH(data::TokenFile(path).length(-1), ContainsSubstring("there is no text -1"));
}

TEST_CASE("TokenFile: more than 2^32 tokens") {
  const TemporaryFolder folder;
  const std::string path = folder / "tokens";
  // The first text has 2^32 zeros, which take no place on the disk.
  data::detail::TokenFileHeader header;
  const std::uint64_t zeros = std::uint64_t{1} << 32;
  const std::vector<std::uint16_t> second{7, 65535, 9, 1};
  header.texts = 2;
  header.tokens = zeros + second.size();
  header.longest = zeros;
  std::string tail(reinterpret_cast<const char*>(second.data()), 8);
  for (const std::uint64_t end : {zeros, header.tokens}) tail.append(reinterpret_cast<const char*>(&end), 8);
  const std::uint64_t of_zeros = io::crc64(std::string(header.block_size, '\0')), of_tail = io::crc64(tail);
  std::string sums;
  for (std::uint64_t block = 0; block + 1 < header.blocks(); ++block)
    sums.append(reinterpret_cast<const char*>(&of_zeros), 8);
  sums.append(reinterpret_cast<const char*>(&of_tail), 8);
  header.sums = io::crc64(sums);
  header.sum = header.own_sum();
  put(path, std::string_view(reinterpret_cast<const char*>(&header), sizeof header));
  std::filesystem::resize_file(path, sizeof header + 2 * zeros);
  std::ofstream(path, std::ios::binary | std::ios::app) << tail << sums;

  const data::TokenFile file(path);
  CHECK((file.count() == 2 && file.tokens() == static_cast<Index>(zeros) + 4));
  CHECK(file.length(0) == static_cast<Index>(zeros));
  CHECK(file.ids(1) == std::vector<int>{7, 65535, 9, 1});
}

TEST_CASE("TokenFileWriter: continues after the last save, and ends with the same bytes") {
  const TemporaryFolder folder;
  const TokenTexts texts = token_texts(1000, 50);
  write_token_file(folder / "whole", 1000, texts);
  {
    data::TokenFileWriter writer(folder / "tokens", 1000, 42);
    CHECK(!writer.resumed());
    for (std::size_t n = 0; n < 20; ++n) writer.add(texts[n]);
    writer.save("twenty");
    for (std::size_t n = 20; n < 25; ++n) writer.add(texts[n]);
    CHECK_THROWS_WITH(data::TokenFileWriter(folder / "tokens", 1000, 42),
                      ContainsSubstring("another program is writing this file"));
  }
  CHECK(!io::path_exists(folder / "tokens"));
  CHECK_THROWS_WITH(data::TokenFileWriter(folder / "tokens", 1000, 43), ContainsSubstring("another tokenizer"));
  CHECK_THROWS_WITH(data::TokenFileWriter(folder / "tokens", 100'000, 42), ContainsSubstring("another tokenizer"));
  for (const int rounds : {0, 1}) {
    data::TokenFileWriter writer(folder / "tokens", 1000, 42);
    CHECK((writer.resumed() == "twenty" && writer.texts() == 20));
    CHECK_THROWS_WITH(writer.add(std::vector{1, 1000}), ContainsSubstring("id 1000 is outside the vocabulary of 1000"));
    if (rounds == 0) continue;
    for (std::size_t n = 20; n < 50; ++n) writer.add(texts[n]);
    writer.finish();
  }
  CHECK(get(folder / "tokens") == get(folder / "whole"));
  CHECK(folder.names() == std::set<std::string>{"tokens", "whole"});

  {
    data::TokenFileWriter writer(folder / "short", 1000, 42);
    writer.add(texts[9]);
    writer.save("");
  }
  overwrite_bytes(folder / "short.part", 66, "x");
  CHECK_THROWS_WITH(data::TokenFileWriter(folder / "short", 1000, 42), ContainsSubstring("short.part: was changed"));
  put(folder / "short.part.state", std::regex_replace(get(folder / "short.part.state"), std::regex("\"tokens\":."),
                                                      "\"tokens\":9223372036854775807"));
  CHECK_THROWS_WITH(data::TokenFileWriter(folder / "short", 1000, 42), ContainsSubstring("is shorter than it was"));
  std::filesystem::resize_file(folder / "short.part", 10);
  CHECK_THROWS_WITH(data::TokenFileWriter(folder / "short", 1000, 42), ContainsSubstring("is shorter than it was"));
  // A writer that ends after it has completed the file leaves a state without .part: the next one begins anew.
  std::filesystem::remove(folder / "short.part");
  data::TokenFileWriter anew(folder / "short", 1000, 42);
  CHECK((!anew.resumed() && anew.texts() == 0));
  anew.add(texts[9]);
  anew.finish();
  CHECK(read_token_file(folder / "short") == TokenTexts{texts[9]});
  CHECK(!io::path_exists(folder / "short.part.state"));
  put(folder / "short.part", "");
  put(folder / "short.part.state", "{\"id_bytes\":2}");
  CHECK_THROWS_AS(data::TokenFileWriter(folder / "short", 1000, 42), FileError);
  CHECK_THROWS_AS(data::TokenFileWriter(folder / "no/folder", 1000, 42), WriteError);
  std::filesystem::create_directory(folder / "subfolder");
  CHECK_THROWS_WITH(data::TokenFileWriter(folder / "subfolder", 1000, 42), ContainsSubstring("is not a regular file"));
  CHECK_THROWS_WITH(data::TokenFileWriter("/dev/null", 1000, 42), ContainsSubstring("is not a regular file"));
  CHECK(!io::path_exists(folder / "subfolder.part"));
}
