#include <heddle/data/tsv.hpp>
#include <map>
#include <set>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using data::Table;

namespace {

Table tsv(const std::string& bytes) { return data::parse_tsv(data::parse_text(bytes, "t.tsv")); }
std::string tsv_error(const std::string& bytes) {
  return error_of([&] { tsv(bytes); });
}
std::vector<std::string> row(const Table& table, std::size_t r) { return {table[r].begin(), table[r].end()}; }
using Fields = std::vector<std::string>;

}  // namespace

TEST_CASE("read_tsv: reads a header and rows, in which only tab and newline are special") {
  const Table table = tsv("sentence\tlabel\na \"quoted, one' \\t \t1\n\t\n  x  \t 0\n");
  CHECK(table.columns() == Fields{"sentence", "label"});
  REQUIRE(table.rows() == 3);
  CHECK(row(table, 0) == Fields{"a \"quoted, one' \\t ", "1"});
  CHECK(row(table, 1) == Fields{"", ""});
  CHECK(row(table, 2) == Fields{"  x  ", " 0"});
  CHECK(table.line(2) == 4);
  CHECK(table.where(2) == "t.tsv:4");
  CHECK(table.notes.sentences().empty());
  CHECK(tsv("only a header\n").rows() == 0);
  CHECK(row(tsv("one column\n\nx"), 0) == Fields{""});
}

TEST_CASE("read_tsv: a carriage return is removed only at the end of a line") {
  const Table table = tsv("a\tb\r\n1\r2\t3\r\n4\t5\r");
  CHECK(table.columns() == Fields{"a", "b"});
  CHECK(row(table, 0) == Fields{"1\r2", "3"});
  CHECK(row(table, 1) == Fields{"4", "5"});
  CHECK(table.notes.crlf == 3);
  CHECK(table.notes.no_final_newline);
  CHECK(table.notes.sentences() == Fields{"3 lines end with CR LF", "the last line has no newline"});
}

TEST_CASE("read_tsv: a byte-order mark is no part of the first column's name") {
  const Table table = tsv("\xEF\xBB\xBFtext\n\xEF\xBB\xBFx\n");
  CHECK(table.column("text") == 0);
  CHECK(table[0][0] == "\xEF\xBB\xBFx");
  CHECK(table.notes.bom);
}

TEST_CASE("read_tsv: invalid UTF-8 is replaced by U+FFFD and counted") {
  const Table table = tsv("text\nfine \xEF\xBF\xBD\nbad \xFF\xE6\x97 end\n\xC3");
  CHECK(table[0][0] == "fine \xEF\xBF\xBD");
  CHECK(table[1][0] == "bad \xEF\xBF\xBD\xEF\xBF\xBD end");
  CHECK(table[2][0] == "\xEF\xBF\xBD");
  CHECK(table.notes.invalid_utf8 == 3);
  CHECK(table.notes.first_invalid_line == 3);
  CHECK(table.notes.sentences()[0] == "invalid UTF-8 was replaced by U+FFFD (3 times, first in line 3)");
}

TEST_CASE("read_tsv: names file and line of what it refuses") {
  CHECK(tsv_error("a\tb\n1\t2\n1\t2\t3\n") == "t.tsv:3: 3 columns, the header has 2");
  CHECK(tsv_error("a\tb\n\n") == "t.tsv:2: 1 column, the header has 2");
  CHECK(tsv_error("a\n1\t2") == "t.tsv:2: 2 columns, the header has 1");
  CHECK(tsv_error("") == "t.tsv: is empty; the first line must name the columns");
  CHECK(tsv_error("\xEF\xBB\xBF") == "t.tsv: is empty; the first line must name the columns");
  CHECK(tsv_error(std::string("a\nb\n1\0", 6)) == "t.tsv:3: the line contains a NUL byte; the file is not text");
  CHECK(tsv_error(std::string("\xFF\xFE"
                              "a\0",
                              4)) == "t.tsv: is UTF-16 text; only UTF-8 is read");
  CHECK(error_of([] { data::read_tsv("/none/x.tsv"); }) == "/none/x.tsv: cannot be opened: No such file or directory");
}

TEST_CASE("read_tsv: has at most 65,536 columns") {
  const std::string most(65535, '\t');
  const Table table = tsv(most + '\n' + most + "x\n" + most);
  CHECK(table.width() == 65536);
  CHECK(table.rows() == 2);
  CHECK(table[0][65535] == "x");
  CHECK(table[1][65535] == "");
  CHECK(tsv_error(most + "\t\n") == "t.tsv:1: more than 65536 columns");
  CHECK(tsv_error("a\nb\n" + most + '\t') == "t.tsv:3: more than 65536 columns");
}

TEST_CASE("Table: every field of a large table is found") {
  std::string bytes = "a\tb\tc\n";
  constexpr std::size_t count = 100'000;  // rows: several blocks of 65,536 fields, whose bounds lie inside rows
  for (std::size_t r = 0; r < count; ++r) bytes += std::to_string(r) + "\t\t" + std::string(r % 5, 'x') + '\n';
  const Table table = tsv(bytes);
  REQUIRE(table.rows() == count);
  std::size_t wrong = 0;
  for (std::size_t r = 0; r < count; ++r) {
    const Fields expected{std::to_string(r), "", std::string(r % 5, 'x')};
    const std::string_view last = table[r][2];
    wrong += row(table, r) != expected || last != expected[2] || table.line(r) != r + 2;
  }
  CHECK(wrong == 0);
}

TEST_CASE("Table: the error for an unknown column lists the existing ones") {
  const Table table = tsv("sentence\tlabel\tlabel\n");
  CHECK(table.column("sentence") == 0);
  CHECK(error_of([&] { table.column("text"); }) ==
        "t.tsv: no column 'text' (the header has 'sentence', 'label', 'label')");
  CHECK(error_of([&] { table.column("label"); }) ==
        "t.tsv: more than one column 'label' (the header has 'sentence', 'label', 'label')");
}

TEST_CASE("read_tsv: SST-2 as GLUE ships it") {
  const std::string folder = data_folder("SST-2");
  if (folder.empty()) return;
  const auto count = [&](const std::string& file) {
    const Table table = data::read_tsv(folder + "/sst2/" + file);
    CHECK(table.notes.sentences().empty());
    const std::size_t sentence = table.column("sentence"), label = table.column("label");
    std::map<std::string, std::size_t> labels;
    std::set<std::string> distinct;
    for (std::size_t r = 0; r < table.rows(); ++r) {
      ++labels[std::string(table[r][label])];
      distinct.emplace(table[r][sentence]);
      if (!table[r][sentence].ends_with(' ')) FAIL_CHECK(table.where(r));
    }
    return std::tuple(table.rows(), labels["0"], labels["1"], labels.size(), distinct.size());
  };
  CHECK(count("train.tsv") == std::tuple(67'349u, 29'780u, 37'569u, 2u, 66'978u));
  CHECK(std::get<0>(count("dev.tsv")) == 872);
  CHECK(std::get<1>(count("dev.tsv")) == 428);
  const Table test = data::read_tsv(folder + "/sst2/test.tsv");
  CHECK(test.rows() == 1'821);
  CHECK(test.column("index") == 0);
  CHECK(test.column("sentence") == 1);
  CHECK(error_of([&] { test.column("label"); }).ends_with("no column 'label' (the header has 'index', 'sentence')"));
}
