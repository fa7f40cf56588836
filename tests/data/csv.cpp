#include <heddle/data/csv.hpp>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using data::Table;

namespace {

Table csv(const std::string& bytes, data::CsvOptions options = {.header = false}) {
  return data::parse_csv(data::parse_text(bytes, "t.csv"), options);
}
std::string csv_error(const std::string& bytes) {
  return error_of([&] { csv(bytes); });
}
using Fields = std::vector<std::string>;
std::vector<Fields> rows(const Table& table) {
  std::vector<Fields> all;
  for (std::size_t r = 0; r < table.rows(); ++r) all.emplace_back(table[r].begin(), table[r].end());
  return all;
}
std::vector<Fields> rows(const std::string& bytes) { return rows(csv(bytes)); }

}  // namespace

TEST_CASE("read_csv: reads fields with and without quotes") {
  CHECK(rows("a,b\nc,d\n") == std::vector<Fields>{{"a", "b"}, {"c", "d"}});
  CHECK(rows("\"a\",\"b\"") == std::vector<Fields>{{"a", "b"}});
  CHECK(rows("\"a,b\",\"c\"\"d\",\"\"\"\",\"\"\n") == std::vector<Fields>{{"a,b", "c\"d", "\"", ""}});
  CHECK(rows(",\n,") == std::vector<Fields>{{"", ""}, {"", ""}});
  CHECK(rows(" a , b ") == std::vector<Fields>{{" a ", " b "}});
  CHECK(rows("a\tb\\n'c'") == std::vector<Fields>{{"a\tb\\n'c'"}});
  CHECK(rows("").empty());
  CHECK(rows("\n") == std::vector<Fields>{{""}});
}

TEST_CASE("read_csv: line ends inside quotes are text; others end a row") {
  const Table table = csv("\"a\nb\r\nc\",1\r\nd,2\r\n\"e\",3\r\nf,\"4\"\r");
  CHECK(rows(table) == std::vector<Fields>{{"a\nb\r\nc", "1"}, {"d", "2"}, {"e", "3"}, {"f", "4"}});
  CHECK(table.line(0) == 1);
  CHECK(table.line(1) == 4);
  CHECK(table.where(3) == "t.csv:6");
  CHECK(table.notes.crlf == 4);
}

TEST_CASE("read_csv: line() counts quoted line feeds, and a row has at most 65,536 columns") {
  std::string bytes;
  std::vector<std::size_t> lines;
  for (std::size_t r = 0, line = 1; r < 1000; ++r) {
    lines.push_back(line);
    const std::size_t more = r % 7 == 0 ? r % 3 : 0;
    bytes += '"' + std::string(more, '\n') + "\"\n";
    line += 1 + more;
  }
  const Table table = csv(bytes);
  REQUIRE(table.rows() == lines.size());
  for (std::size_t r = 0; r < lines.size(); ++r)
    if (table.line(r) != lines[r]) FAIL_CHECK("row " << r << ": " << table.line(r) << ", not " << lines[r]);
  CHECK(csv_error("a\n" + std::string(65536, ',')) == "t.csv:2: more than 65536 columns");
}

TEST_CASE("read_csv: the header is an option") {
  const Table table = csv("text,\"label\"\nx,1\n", {.header = true});
  CHECK(table.columns() == Fields{"text", "label"});
  CHECK(table.column("label") == 1);
  CHECK(rows(table) == std::vector<Fields>{{"x", "1"}});
  CHECK(error_of([] { csv("x,1\n").column("label"); }) == "t.csv: no column 'label' (there is no header)");
  CHECK(error_of([] { csv("", {.header = true}); }) == "t.csv: is empty; the first line must name the columns");
  CHECK(csv("\xEF\xBB\xBF\"text\"\n", {}).column("text") == 0);
}

TEST_CASE("read_csv: names file and line of what it refuses") {
  CHECK(csv_error("a,b\nc\n") == "t.csv:2: 1 column, the first row has 2");
  CHECK(error_of([] { csv("a,b\nc,\"\n\",d\n", {}); }) == "t.csv:2: 3 columns, the header has 2");
  CHECK(csv_error("a\n\"x\n\n\"\nb,c\n") == "t.csv:5: 2 columns, the first row has 1");
  CHECK(csv_error("a\nb\"c\n") == "t.csv:2: a quote inside a field that does not begin with one");
  CHECK(csv_error("a, \"b\"\n") == "t.csv:1: a quote inside a field that does not begin with one");
  CHECK(csv_error("a\n\"b\nc\" d\n") == "t.csv:3: text after the quote that closes a field");
  CHECK(csv_error("a,b\r1,2\r") == "t.csv:1: a carriage return that is neither in quotes nor before a line feed");
  CHECK(csv_error("\"b\"\r,") == "t.csv:1: text after the quote that closes a field");
  CHECK(csv_error("a\nb\n\"c\nd\n\n") == "t.csv:3: a quote is opened here and never closed");
  CHECK(csv_error("a\n\"") == "t.csv:2: a quote is opened here and never closed");
  CHECK(csv_error("a\n\"\"\"") == "t.csv:2: a quote is opened here and never closed");
  CHECK(csv_error(std::string("a\n\"\n\0\"", 6)) == "t.csv:3: the line contains a NUL byte; the file is not text");
}

TEST_CASE("read_csv: AG News has the known classes, quotes, commas and lines") {
  const std::string folder = data_folder("AG News");
  if (folder.empty()) return;
  const auto check = [&](const std::string& file, const std::vector<std::size_t>& per_class, std::size_t quotes,
                         std::size_t commas) {
    CAPTURE(file);
    const Table table = data::read_csv(folder + "/ag_news/" + file, {.header = false});
    REQUIRE(table.width() == 3);
    CHECK(table.notes.sentences().empty());
    std::vector<std::size_t> found(4);
    std::size_t with_quote = 0, with_comma = 0;
    for (std::size_t r = 0; r < table.rows(); ++r) {
      ++found.at(static_cast<std::size_t>(table[r][0].at(0) - '1'));
      const std::string text = std::string(table[r][1]) + std::string(table[r][2]);
      with_quote += text.find('"') != std::string::npos;
      with_comma += text.find(',') != std::string::npos;
      if (table.line(r) != r + 1) FAIL_CHECK(table.where(r));
    }
    CHECK(found == per_class);
    CHECK(with_quote == quotes);
    CHECK(with_comma == commas);
  };
  check("train_subset.csv", {2908, 2770, 2854, 3104}, 510, 8298);
  check("test.csv", {1900, 1900, 1900, 1900}, 281, 5372);
}
