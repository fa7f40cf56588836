// Corpora: the order of rows that are mixed from several files, and texts in memory and in token files.
#include <heddle/data/corpus.hpp>
#include <heddle/data/token_file_writer.hpp>

#include <map>

#include "../catch.hpp"
#include "../io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using data::MixedBatches;
using data::Order;

namespace {

std::vector<Index> rows_of_epoch(MixedBatches& batches, Index epoch) {
  std::vector<Index> rows;
  for (Index n = 0; n < batches.per_epoch(); ++n) {
    const auto batch = batches(epoch, n);
    rows.insert(rows.end(), batch.begin(), batch.end());
  }
  return rows;
}
std::vector<Index> sorted(std::vector<Index> rows) {
  std::sort(rows.begin(), rows.end());
  return rows;
}
std::vector<Index> counting(Index count) {
  std::vector<Index> rows(static_cast<std::size_t>(count));
  std::iota(rows.begin(), rows.end(), Index{0});
  return rows;
}

// Writes texts of n % 10 + 2 tokens, whose ids are functions of n and of their place.
void write_numbered(const std::string& path, int count) {
  data::TokenFileWriter writer(path, 1000, 7);
  for (int n = 0; n < count; ++n) {
    std::vector<int> ids;
    for (int t = 0; t < n % 10 + 2; ++t) ids.push_back((n * 31 + t) % 1000);
    writer.add(ids);
  }
  writer.finish();
}

}  // namespace

TEST_CASE("MixedBatches: every epoch holds each row once, in any number of windows and files") {
  for (const Order order : {Order::shuffled, Order::sequential})
    for (const auto& counts :
         {std::vector<Index>{}, {0}, {1}, {33}, {257, 0, 31}, {65'536}, {70'000}, {1, 200'001, 999}}) {
      std::vector<data::Share> shares;
      Index all = 0;
      for (const Index count : counts) {
        shares.push_back({count});
        all += count;
      }
      MixedBatches batches(shares, 33, order, 1, 5);
      CAPTURE(all);
      CHECK((batches.rows_per_epoch() == all && batches.per_epoch() == (all + 32) / 33));
      std::vector<Index> before;
      for (const Index epoch : {0, 3}) {
        const std::vector<Index> rows = rows_of_epoch(batches, epoch);
        CHECK(sorted(rows) == counting(all));
        CHECK((all < 2 || (rows == before) == (order == Order::sequential && epoch > 0)));
        before = rows;
      }
    }
}

TEST_CASE("MixedBatches: a single group of whole files has the order of Batches") {
  for (const Index count : {1, 1000, 65'536}) {
    data::Batches whole(count, 100, Order::shuffled, 3, 9);
    MixedBatches mixed({{count / 3}, {count - count / 3}}, 100, Order::shuffled, 3, 9);
    for (const Index epoch : {0, 2})
      for (Index n = 0; n < whole.per_epoch(); ++n) {
        const auto a = whole(epoch, n), b = mixed(epoch, n);
        REQUIRE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
      }
  }
}

TEST_CASE("MixedBatches: a batch is a function of seed, epoch and number, also across groups") {
  const std::vector<data::Share> shares{{150'000, 0.7}, {50'000, 2.5}};
  MixedBatches all(shares, 1000, Order::shuffled, 3), other(shares, 1000, Order::shuffled, 4);
  const std::vector<Index> rows = rows_of_epoch(all, 4);
  CHECK(rows != rows_of_epoch(other, 4));
  MixedBatches jumped(shares, 1000, Order::shuffled, 3);
  for (const Index n : {200, 3, 76, 0, 229, 115}) {
    const auto batch = jumped(4, n);
    CHECK(std::equal(batch.begin(), batch.end(), rows.begin() + n * 1000, rows.begin() + n * 1000 + std::ssize(batch)));
  }
  // One batch may have all groups.
  MixedBatches large(shares, 500'000, Order::shuffled, 3);
  const auto whole = large(4, 0);
  CHECK(std::equal(whole.begin(), whole.end(), rows.begin(), rows.end()));
}

TEST_CASE("MixedBatches: a weight is a number of passes, and the next epoch continues the last pass") {
  for (const Index count : {10, 1000, 100'000}) {
    MixedBatches batches({{count, 0.3}, {count, 2}}, 64, Order::shuffled, 1);
    CHECK(batches.rows_per_epoch() == count * 3 / 10 + 2 * count);
    std::map<Index, int> uses;
    for (Index epoch = 0; epoch < 10; ++epoch)
      for (const Index row : rows_of_epoch(batches, epoch)) ++uses[row];
    CHECK(std::ssize(uses) == 2 * count);
    CHECK(std::all_of(uses.begin(), uses.end(),
                      [&](const auto& use) { return use.second == (use.first < count ? 3 : 20); }));
  }
}

TEST_CASE("MixedBatches: every stretch has as much of each file as the whole, and few windows of it") {
  const Index count = 1'000'000;
  MixedBatches batches({{count}, {count, 0.5}}, 32, Order::shuffled, 2);
  std::set<Index> windows;
  Index of_first = 0, moves = 0;
  constexpr Index steps = 1024;
  for (Index n = 0; n < steps; ++n) {
    const auto batch = batches(0, n);
    for (std::size_t i = 0; i < batch.size(); ++i) {
      of_first += batch[i] < count;
      windows.insert(batch[i] / 1024);
      moves += i > 0 && std::abs(batch[i] - batch[i - 1]) > 1024;
    }
  }
  CHECK(std::abs(static_cast<double>(of_first) / (32. * steps) - 2. / 3) < 0.01);
  CHECK(windows.size() < 200);         // a group has 43 and 22 windows, each in two stretches of 1,024 numbers
  CHECK(moves > 31 * steps * 9 / 10);  // neighbors of a batch come from different windows
}

TEST_CASE("MixedBatches: 10^12 rows need neither time nor memory") {
  MixedBatches batches({{Index{1'000'000'000'000} / 50, 50}}, 32, Order::sequential);
  CHECK(batches.per_epoch() == 31'250'000'000);
  const auto last = batches((Index{1} << 30) - 1, 31'249'999'999);
  CHECK((std::ssize(last) == 32 && last.back() == Index{1'000'000'000'000} / 50 - 1));
}

TEST_CASE("MixedBatches: wrong arguments are refused") {
  CHECK_THROWS_WITH(MixedBatches({{-1}}, 1, Order::shuffled), ContainsSubstring("must not be negative, got -1"));
  CHECK_THROWS_WITH(MixedBatches({{1}}, 0, Order::shuffled), ContainsSubstring("batch size must be at least 1, got 0"));
  for (const double weight : {0., -1., 1000.5, std::nan("")})
    CHECK_THROWS_WITH(MixedBatches({{1, weight}}, 1, Order::shuffled), ContainsSubstring("above 0 and at most 1000"));
  CHECK_THROWS_WITH(MixedBatches({{5, 1e-300}}, 1, Order::shuffled), ContainsSubstring("takes none of the 5 rows"));
  CHECK_THROWS_WITH(MixedBatches(std::vector<data::Share>(12'000, {Index{1} << 40, 1000}), 1, Order::shuffled),
                    ContainsSubstring("more than 2^40"));
  CHECK_THROWS_WITH(MixedBatches({{Index{1} << 40}, {1}}, 1, Order::shuffled), ContainsSubstring("more than 2^40"));
  CHECK_THROWS_WITH(MixedBatches(std::vector<data::Share>(32768, {1}), 1, Order::shuffled),
                    ContainsSubstring("32768 files are more than 32767"));
  MixedBatches batches({{10}}, 4, Order::shuffled);
  CHECK_THROWS_AS(batches(-1, 0), IndexError);
  CHECK_THROWS_AS(batches(Index{1} << 30, 0), IndexError);
  CHECK_THROWS_AS(batches(0, 3), IndexError);
  CHECK_THROWS_AS(batches(0, -1), IndexError);
}

TEST_CASE("Corpus: rows of memory and of token files in one list") {
  const TemporaryFolder folder;
  write_numbered(folder / "tokens", 40);
  data::LabelledSequences sequences;
  sequences.add(std::vector{1, 2, 3}, 1);
  sequences.add(std::vector{4, 5, 6, 7}, 0, 2);
  data::Corpus corpus(sequences, 0.5);
  corpus.add(data::TokenFile(folder / "tokens"), {.first = 10, .last = 30, .max_length = 6}, 2);
  CHECK((corpus.count() == 22 && corpus.longest() == 6 && !corpus.is_in_memory()));
  CHECK((corpus.shares().size() == 2 && corpus.shares()[0].rows == 2 && corpus.shares()[0].weight == 0.5 &&
         corpus.shares()[1].rows == 20 && corpus.shares()[1].weight == 2));
  CHECK((corpus.ids(1) == std::vector{4, 5, 6, 7} && corpus.label(0) == 1 && corpus.label(5) == 0));
  // Text 13 of the file has five tokens, and text 19 eleven, of which six are left with the last one.
  CHECK((corpus.ids(5) == std::vector{403, 404, 405, 406, 407} && corpus.length(5) == 5));
  CHECK((corpus.ids(11) == std::vector{589, 590, 591, 592, 593, 599} && corpus.length(11) == 6));

  const data::Batch batch = corpus.batch(std::vector<Index>{5, 1, 11});
  CHECK(batch.ids.host() == std::vector{403, 404, 405, 406, 407, 4, 5, 6, 7, 589, 590, 591, 592, 593, 599});
  CHECK(batch.sequences.lengths() == std::vector{5, 4, 6});
  CHECK(batch.types.host() == std::vector{0, 0, 0, 0, 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0});
  CHECK(batch.labels.host() == std::vector{0, 0, 0});

  data::Corpus padded;
  CHECK((padded.count() == 0 && padded.longest() == 0 && padded.is_in_memory()));
  padded.add(data::TokenFile(folder / "tokens"), {.max_length = 8, .padded_to = 8});
  CHECK((padded.length(0) == 8 && padded.longest() == 8));
  CHECK(padded.batch(std::vector<Index>{0}).ids.host() == std::vector{0, 1, 0, 0, 0, 0, 0, 0});
  CHECK(data::Corpus(sequences).is_in_memory());
  CHECK_THROWS_WITH(padded.add(sequences),
                    ContainsSubstring("rows that are padded to 0 tokens are added to rows that are padded to 8"));
  CHECK_THROWS_AS(corpus.add(data::TokenFile(folder / "tokens"), {.padded_to = 8}), ShapeError);
}

TEST_CASE("Corpus: a file of 10 GB is read in any order, and again after a stop") {
  // Every text has 512 tokens, so that a block of the file has 1,024 texts. The blocks hold zeros, which take no place
  // on the disk, but for every 512th.
  const TemporaryFolder folder;
  const std::string path = folder / "tokens";
  constexpr std::uint64_t length = 512, blocks = 9537, of_block = 1024, written = 512;
  const auto id = [](std::uint64_t text, std::uint64_t t) {
    return text / of_block % written == 0 ? static_cast<std::uint16_t>((text * 31 + t) % 60'000) : std::uint16_t{0};
  };
  data::detail::TokenFileHeader header;
  header.texts = blocks * of_block;
  header.tokens = header.texts * length;
  header.longest = length;
  REQUIRE(header.tokens > std::uint64_t{1} << 32);
  std::vector<std::uint64_t> ends, sums(blocks, io::crc64(std::string(header.block_size, '\0')));
  for (std::uint64_t text = 1; text <= header.texts; ++text) ends.push_back(text * length);
  std::ofstream file(path, std::ios::binary);
  const auto write = [&](const auto& values) {
    const auto bytes = std::as_bytes(std::span(values));
    file.write(reinterpret_cast<const char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    return bytes;
  };
  for (std::uint64_t block = 0; block < blocks; block += written) {
    std::vector<std::uint16_t> ids;
    for (std::uint64_t n = 0; n < header.block_size / 2; ++n)
      ids.push_back(id(block * of_block + n / length, n % length));
    file.seekp(static_cast<std::streamoff>(sizeof header + block * header.block_size));
    io::Crc64 crc;
    crc.add(write(ids));
    sums[block] = crc.value();
  }
  file.seekp(static_cast<std::streamoff>(sizeof header + header.ids_size()));
  for (auto left = write(ends); !left.empty(); left = left.subspan(std::min(left.size(), std::size_t{1} << 20))) {
    io::Crc64 crc;
    crc.add(left.first(std::min(left.size(), std::size_t{1} << 20)));
    sums.push_back(crc.value());
  }
  io::Crc64 crc;
  crc.add(write(sums));
  header.sums = crc.value();
  header.sum = header.own_sum();
  file.seekp(0);
  write(std::vector(1, header));
  file.close();
  CHECK(std::filesystem::file_size(path) > 10'000'000'000);

  data::Corpus corpus;
  corpus.add(data::TokenFile(path));
  REQUIRE(corpus.count() == static_cast<Index>(header.texts));
  MixedBatches batches(corpus.shares(), 32, Order::shuffled, 1);
  for (const Index number : {0, 1, 2, 3, 150'000, 150'001, 305'183}) {
    const auto span = batches(2, number);
    const std::vector<Index> rows(span.begin(), span.end());
    MixedBatches resumed(corpus.shares(), 32, Order::shuffled, 1);
    const auto again = resumed(2, number);
    CHECK(std::equal(rows.begin(), rows.end(), again.begin(), again.end()));
    std::vector<int> expected;
    for (const Index row : rows)
      for (std::uint64_t t = 0; t < length; ++t) expected.push_back(id(static_cast<std::uint64_t>(row), t));
    CHECK(corpus.batch(rows).ids.host() == expected);
  }
  CHECK(corpus.batch(std::vector<Index>{1, corpus.count() - 1}).ids.host()[1] == 32);
  CHECK(corpus.ids(9216 * 1024 + 1)[511] == id(9216 * 1024 + 1, 511));
  CHECK(corpus.ids(9216 * 1024 + 1)[511] > 0);
}

TEST_CASE("Corpus: wrong ranges and numbers are refused") {
  const TemporaryFolder folder;
  write_numbered(folder / "tokens", 10);
  const data::TokenFile file(folder / "tokens");
  data::Corpus corpus;
  CHECK_THROWS_WITH(corpus.add(file, {.first = -1}), ContainsSubstring("the texts -1 to 10 are no range of 10 texts"));
  CHECK_THROWS_WITH(corpus.add(file, {.first = 11}), ContainsSubstring("the texts 11 to 10 are no range of 10 texts"));
  CHECK_THROWS_WITH(corpus.add(file, {.max_length = 0}), ContainsSubstring("must be at least 1, got 0"));
  CHECK_THROWS_AS(corpus.ids(0), IndexError);
  corpus.add(file);
  CHECK_THROWS_AS(corpus.length(-1), IndexError);
  CHECK_THROWS_AS(corpus.batch(std::vector<Index>{10}), IndexError);
  CHECK((data::is_token_file(folder / "tokens") && !data::is_token_file(folder / "none") &&
         !data::is_token_file(folder.path())));
  put(folder / "short", "heddlet");
  CHECK(!data::is_token_file(folder / "short"));
}
