#include <heddle/base/file.hpp>
#include <thread>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using io::printable;
using io::read_file;

TEST_CASE("read_file: gives every byte") {
  const TemporaryFolder folder;
  std::string all;
  for (int byte = 0; byte < 256; ++byte) all += static_cast<char>(byte);
  for (const std::string& content : {std::string(), std::string("x"), all, std::string(1 << 17, 'y')}) {
    put(folder / "file", content);
    CHECK(read_file(folder / "file") == content);
  }
}

TEST_CASE("read_file: reads files without a size, such as pipes") {
  CHECK(read_file("/dev/null").empty());
  if (::access("/proc/self/status", R_OK) == 0) CHECK(read_file("/proc/self/status").find("Pid:") != std::string::npos);

  const TemporaryFolder folder;
  REQUIRE(::mkfifo((folder / "pipe").c_str(), 0600) == 0);
  const std::string content(300'000, 'z');
  std::thread writer([&] { put(folder / "pipe", content); });
  const bool same = read_file(folder / "pipe") == content;
  writer.join();
  CHECK(same);
}

TEST_CASE("read_file: names the file and the cause") {
  const TemporaryFolder folder;
  CHECK(error_of([&] { read_file(folder / "none"); }) == folder / "none: cannot be opened: No such file or directory");
  CHECK(error_of([&] { read_file(folder.path()); }) == folder.path() + ": is a folder, not a file");
  CHECK(error_of([] { read_file(""); }) == "a file name is empty; give a path");
  CHECK(error_of([] { read_file(std::string("a\0b", 3)); }) == "a\\x00b: the name of this file contains a NUL byte");
  CHECK(error_of([&] { read_file(folder / "a\nb\x1b[31m\xff"); }) ==
        folder / "a\\x0ab\\x1b[31m\\xff: cannot be opened: No such file or directory");

  put(folder / "secret", "x");
  std::filesystem::permissions(folder.path(), std::filesystem::perms::all);
  std::filesystem::permissions(folder / "secret", std::filesystem::perms::none);
  const Unprivileged nobody;
  CHECK(error_of([&] { read_file(folder / "secret"); }) == folder / "secret: cannot be opened: Permission denied");
}

TEST_CASE("printable: leaves text alone and escapes the rest") {
  CHECK(printable("") == "");
  CHECK(printable("plain 'text' \\ here") == "plain 'text' \\ here");
  CHECK(printable("ñ, \xE6\x97\xA5, \xF0\x9F\x98\x80, \xEF\xBF\xBD") ==
        "ñ, \xE6\x97\xA5, \xF0\x9F\x98\x80, \xEF\xBF\xBD");
  CHECK(printable(std::string_view("\0\t\r\n\x1b\x7f", 6)) == "\\x00\\x09\\x0d\\x0a\\x1b\\x7f");
  CHECK(printable("\xC2\x85 \xC2\x9B") == "\\xc2\\x85 \\xc2\\x9b");  // next line, control sequence introducer
  CHECK(printable("\xE2\x80\xA8 \xE2\x80\xA9") == "\\xe2\\x80\\xa8 \\xe2\\x80\\xa9");  // line and paragraph separator
  CHECK(printable("a\xE6\x97") == "a\\xe6\\x97");
  CHECK(printable("\xED\xA0\x80") == "\\xed\\xa0\\x80");
  CHECK(printable("abcdef", 3) == "abc...");
  CHECK(printable("abc", 3) == "abc");
}
