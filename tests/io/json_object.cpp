#include <heddle/io/json_object.hpp>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

std::string json_error(const std::string& content) {
  return error_of([&] { io::JsonFile(content, "f.json"); });
}

}  // namespace

TEST_CASE("io::JsonFile: refuses everything but a JSON object, with the file and the place") {
  CHECK(json_error(R"({"a": 1})") == "no error");
  CHECK_THROWS_WITH(io::JsonFile("{\n\"a\": x}", "f.json"),
                    ContainsSubstring("f.json: is not JSON: at line 2, column 6"));
  CHECK_THROWS_WITH(io::JsonFile("", "f\n.json"), ContainsSubstring("f\\x0a.json: is not JSON: at line 1"));
  CHECK(json_error("[1e999]") == "f.json: is not JSON: number overflow parsing '1e999'");
  CHECK(json_error("[1]") == "f.json: the file must be a JSON object");
  CHECK(json_error("null") == "f.json: the file must be a JSON object");
  CHECK(json_error(std::string("{}\0{", 4)) == "f.json: is not JSON: it has a NUL byte");
  CHECK_THROWS_WITH(io::JsonFile("{\"a\": \"\xff\"}", "f.json"), ContainsSubstring("is not JSON: at line 1"));
  const auto nested = [](int levels) {
    const auto n = static_cast<std::size_t>(levels);
    return R"({"a":)" + std::string(n, '[') + std::string(n, ']') + "}";
  };
  CHECK(json_error(nested(128)) == "no error");
  CHECK(json_error(nested(129)) == "f.json: is nested more than 128 levels deep");
  CHECK(json_error(nested(1000000)) == "f.json: is nested more than 128 levels deep");
  const TemporaryFolder folder;
  CHECK_THROWS_AS(io::JsonFile(folder / "absent.json"), FileError);
  put(folder / "a.json", R"({"a": 3})");
  CHECK(io::JsonFile(folder / "a.json").object().count("a") == 3);
  CHECK(io::JsonFile(folder / "a.json").content() == R"({"a": 3})");
}

TEST_CASE("io::JsonObject: members are read with their types and ranges") {
  const io::JsonFile file(
      R"({"text": "x", "yes": true, "half": 0.5, "three": 3, "minus": -1, "real": 3.0, "none": null, "list": [1],
          "map": {}, "huge": 18446744073709551615, "most": 9223372036854775807})",
      "f.json");
  const io::JsonObject object = file.object();
  CHECK(object.file() == "f.json");
  CHECK(object.text("text") == "x");
  CHECK(object.boolean("yes"));
  CHECK(object.number("half", 0, 1) == 0.5);
  CHECK(object.number("three", 0, 10) == 3);
  CHECK(object.count("three") == 3);
  CHECK(object.count("most") == std::numeric_limits<Index>::max());
  CHECK(object.array("list").size() == 1);
  CHECK(object.object("map").empty());
  CHECK(object.has("three"));
  CHECK(!object.has("none"));
  CHECK(!object.has("absent"));

  const auto error = [&](auto read) { return error_of([&] { read(object); }); };
  CHECK(error([](auto& o) { o.at("absent"); }) == "f.json: has no 'absent'");
  CHECK(error([](auto& o) { o.text("none"); }) == "f.json: 'none' is null but must be a string");
  CHECK(error([](auto& o) { o.text("three"); }) == "f.json: 'three' is 3 but must be a string");
  CHECK(error([](auto& o) { o.boolean("three"); }) == "f.json: 'three' is 3 but must be true or false");
  CHECK(error([](auto& o) { o.object("list"); }) == "f.json: 'list' is [1] but must be an object");
  CHECK(error([](auto& o) { o.array("map"); }) == "f.json: 'map' is {} but must be an array");
  const std::string range = " but must be a number in [0, 1)";
  CHECK(error([](auto& o) { o.number("minus", 0, 1); }) == "f.json: 'minus' is -1" + range);
  CHECK(error([](auto& o) { o.number("three", 0, 1); }) == "f.json: 'three' is 3" + range);
  CHECK(error([](auto& o) { o.number("text", 0, 1); }) == "f.json: 'text' is \"x\"" + range);
  for (const auto& [key, value] : {std::pair{"minus", "-1"},
                                   {"real", "3.0"},
                                   {"text", "\"x\""},
                                   {"huge", "18446744073709551615"},
                                   {"yes", "true"}}) {
    const std::string start = std::string("f.json: '") + key + "' is " + value;
    CHECK(error([&, name = key](auto& o) { o.count(name); }) == start + " but must be a whole number of at least 0");
    CHECK(error([&, name = key](auto& o) { o.count(name, 1, 5); }) ==
          start + " but must be a whole number from 1 to 5");
  }
  CHECK(error([](auto& o) { o.count("most", 0, 5); }) ==
        "f.json: 'most' is 9223372036854775807 but must be a whole number from 0 to 5");
  CHECK(error([](auto& o) { o.count("minus", -1); }) == "no error");
}

TEST_CASE("io::JsonObject: absent and null members have a default, members of a wrong type do not") {
  const io::JsonFile file(R"({"none": null, "wrong": []})", "f.json");
  const io::JsonObject object = file.object();
  for (const char* key : {"absent", "none"}) {
    CHECK(object.text_or(key, "y") == "y");
    CHECK(object.boolean_or(key, true));
    CHECK(object.number_or(key, 7, 0, 1) == 7);
    CHECK(object.count_or(key, 9, 0, 1) == 9);
  }
  CHECK_THROWS_AS(object.text_or("wrong", "y"), FileError);
  CHECK_THROWS_AS(object.boolean_or("wrong", true), FileError);
  CHECK_THROWS_AS(object.number_or("wrong", 7, 0, 1), FileError);
  CHECK_THROWS_AS(object.count_or("wrong", 9, 0, 1), FileError);
  CHECK_THROWS_WITH(io::JsonObject(object.at("wrong"), "f.json", "a member"), "f.json: a member must be a JSON object");
}
