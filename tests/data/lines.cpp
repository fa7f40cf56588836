#include <heddle/data/lines.hpp>
#include <map>
#include <set>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using Texts = std::vector<std::string>;

namespace {

data::Lines lines_of(const std::string& bytes) {
  return data::parse_lines(data::parse_text(bytes, "folder/Some.Name.txt"));
}

}  // namespace

TEST_CASE("read_lines: splits at LF alone and keeps empty lines") {
  CHECK(lines_of("").lines.empty());
  CHECK(lines_of("a").lines == Texts{"a"});
  CHECK(lines_of("a\n").lines == Texts{"a"});
  CHECK(lines_of("\n").lines == Texts{""});
  CHECK(lines_of(" a \n\n\xC2\xA0"
                 "b\n")
            .lines == Texts{" a ", "",
                            "\xC2\xA0"
                            "b"});
  CHECK(lines_of("a\v\f\xC2\x85\xE2\x80\xA8z\rb\n").lines == Texts{"a\v\f\xC2\x85\xE2\x80\xA8z\rb"});
  CHECK(lines_of("a\r\nb\r\n").lines == Texts{"a", "b"});
  CHECK(lines_of("a\r\nb\r\n").notes.crlf == 2);
  CHECK(lines_of("a\nb").notes.no_final_newline);
  CHECK(!lines_of("").notes.no_final_newline);
  CHECK(lines_of("").label == "Some.Name");
  CHECK(lines_of("").file == "folder/Some.Name.txt");
}

TEST_CASE("read_folder: each file is one class, in the order of the file names") {
  const TemporaryFolder folder;
  for (const char* name : {"b.txt", "a.txt", "Z.txt", "\xC3\xA9.txt", "notes.md", "txt", ".txt"})
    put(folder / name, "1\n2\n");
  const auto classes = data::read_folder(folder.path());
  Texts labels;
  for (const data::Lines& file : classes) {
    labels.push_back(file.label);
    CHECK(file.lines == Texts{"1", "2"});
  }
  CHECK(labels == Texts{"Z", "a", "b", "\xC3\xA9"});
}

TEST_CASE("read_folder: names the folder if it is missing, is not a folder, or is empty") {
  const TemporaryFolder folder;
  put(folder / "file", "");
  CHECK(error_of([&] { data::read_folder(folder / "none"); }) ==
        folder / "none: cannot be read as a folder: No such file or directory");
  CHECK(error_of([&] { data::read_folder(folder / "file"); }) ==
        folder / "file: cannot be read as a folder: Not a directory");
  CHECK(error_of([&] { data::read_folder(folder.path()); }) == folder.path() + ": the folder has no .txt files");
}

TEST_CASE("read_folder: the surnames of 18 languages") {
  const std::string data = data_folder("the surnames");
  if (data.empty()) return;
  std::map<std::string, std::pair<std::size_t, std::size_t>> counts;
  std::size_t lines = 0, distinct = 0;
  for (const data::Lines& file : heddle::data::read_folder(data + "/names")) {
    const std::set<std::string> names(file.lines.begin(), file.lines.end());
    counts[file.label] = {file.lines.size(), names.size()};
    lines += file.lines.size();
    distinct += names.size();
    CHECK(file.notes.sentences().empty());
  }
  CHECK(counts.size() == 18);
  CHECK(lines == 20'074);
  CHECK(distinct == 18'015);
  CHECK(counts["Arabic"] == std::pair<std::size_t, std::size_t>(2000, 108));
  CHECK(counts["Russian"] == std::pair<std::size_t, std::size_t>(9408, 9342));
  CHECK(counts["Vietnamese"] == std::pair<std::size_t, std::size_t>(73, 71));
}
