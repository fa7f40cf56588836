#include <fstream>
#include <heddle/io/safetensors.hpp>
#include <sstream>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using io::DType;
using io::parse_safetensors;
using io::read_safetensors;

namespace {

constexpr const char* golden_io = HEDDLE_GOLDEN_DIR "/io/";

// Returns the lines of a file of scripts/golden-safetensors.py, split at tabs.
std::vector<std::vector<std::string>> golden_lines(const char* name) {
  std::ifstream file(std::string(golden_io) + name);
  REQUIRE(file);
  std::vector<std::vector<std::string>> lines;
  for (std::string line; std::getline(file, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream text(line);
    lines.emplace_back();
    for (std::string field; std::getline(text, field, '\t');) lines.back().push_back(field);
  }
  return lines;
}

// Returns the bytes that text stands for: \xNN is one byte, \*COUNT*BYTE that many equal bytes.
std::string unescaped(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '\\') {
      bytes += text[i];
    } else if (text[++i] == 'x') {
      bytes += static_cast<char>(std::stoi(text.substr(i + 1, 2), nullptr, 16));
      i += 2;
    } else {
      const std::size_t star = text.find('*', i + 1);
      bytes.append(std::stoul(text.substr(i + 1)), text[star + 1]);
      i = star + 1;
    }
  }
  return bytes;
}

// Returns a file: the header's length, the header and the data.
std::string file_of(const std::string& header, const std::string& data = "") {
  const std::uint64_t length = header.size();
  std::string bytes(sizeof length, '\0');
  std::memcpy(bytes.data(), &length, sizeof length);
  return bytes + header + data;
}
std::string entry(const std::string& dtype, const std::string& shape, const std::string& offsets) {
  return R"({"dtype":")" + dtype + R"(","shape":[)" + shape + R"(],"data_offsets":[)" + offsets + "]}";
}
// Returns a file of one tensor 'w'.
std::string one(const std::string& dtype, const std::string& shape, const std::string& offsets, std::size_t size = 4) {
  return file_of(R"({"w":)" + entry(dtype, shape, offsets) + '}', std::string(size, '\1'));
}

std::string refusal(const std::string& bytes) {
  const std::string message = error_of([&] { parse_safetensors(bytes, "m"); });
  return message.starts_with("m: ") ? message.substr(3) : message;
}

// Returns whether bytes are accepted; checks that a refusal is one short line about the file.
bool accepts(const std::string& bytes) {
  const std::string message = refusal(bytes);
  if (message == "no error") return true;
  if (message != io::printable(message, 400) || message.empty()) FAIL_CHECK(message);
  return false;
}

// Cases that the reference accepts and heddle refuses. The specification forbids text before the brace and repeated
// keys. A Tensor has at most eight axes, and its extents are signed. The reference accepts the last two cases only
// because its JSON library does.
const std::set<std::string> stricter{"leading space",
                                     "leading newline",
                                     "exact duplicate tensor",
                                     "duplicate metadata key",
                                     "duplicate unknown field",
                                     "duplicate key inside an unknown field",
                                     "nine axes",
                                     "extent of 2^63 beside a zero",
                                     "tensor as an array",
                                     "dtype as an object"};

}  // namespace

TEST_CASE("read_safetensors: the verdicts of the reference, or stricter on purpose") {
  std::size_t cases = 0;
  for (const auto& line : golden_lines("verdicts.txt")) {
    const std::string &verdict = line[0], &name = line[1];
    CAPTURE(name);
    CHECK(accepts(unescaped(line.size() > 2 ? line[2] : "")) == (verdict == "accept" && stricter.count(name) == 0));
    ++cases;
  }
  CHECK(cases > 140);
}

TEST_CASE("read_safetensors: the verdicts of the reference on a file that is changed at each position") {
  std::string base;
  for (const auto& line : golden_lines("mutations.txt")) {
    const std::string &kind = line[0], &verdicts = line[1];
    if (kind == "base") {
      base = unescaped(verdicts);
      continue;
    }
    std::uint64_t length = 0;
    std::memcpy(&length, base.data(), sizeof length);
    const std::string header = base.substr(sizeof length, length), data = base.substr(sizeof length + length);
    std::size_t next = 0, more_strict = 0;
    const auto compare = [&](const std::string& bytes) {
      const bool accepted = accepts(bytes), expected = verdicts.at(next++) == '1';
      if (accepted && !expected) FAIL_CHECK(kind << ' ' << next - 1 << " is accepted");
      if (!accepted && expected) {
        ++more_strict;
        CHECK_THAT(refusal(bytes), ContainsSubstring("twice") || ContainsSubstring("does not begin"));
      }
    };
    if (kind == "prefix") {
      for (std::size_t n = 0; n < base.size(); ++n) compare(base.substr(0, n));
    } else if (kind == "flip") {
      for (std::size_t i = 0; i < sizeof length + length; ++i)
        for (int bit = 0; bit < 8; ++bit) {
          std::string changed = base;
          changed[i] = static_cast<char>(changed[i] ^ 1 << bit);
          compare(changed);
        }
    } else if (kind == "replace") {
      for (std::size_t i = sizeof length; i < sizeof length + length; ++i)
        for (const char c : std::string_view("\0 \"09-.,:[]{}\\en\xff\xc3", 18)) {
          std::string changed = base;
          changed[i] = c;
          compare(changed);
        }
    } else {
      for (std::size_t i = 0; i < length; ++i)
        compare(file_of(header.substr(0, kind == "double" ? i + 1 : i) + header.substr(kind == "double" ? i : i + 1),
                        data));
    }
    CAPTURE(kind);
    CHECK(next == verdicts.size());
    CHECK(more_strict < 10);
  }
}

TEST_CASE("read_safetensors: a refusal says what, where, and the limit") {
  CHECK(refusal("1234567") == "has 7 bytes; a safetensors file has at least 8");
  CHECK(refusal(std::string("\1\xe1\xf5\x05\0\0\0\0", 8)) ==
        "is not a safetensors file, or it is damaged: the header's length is 100000001; the limit is 100000000");
  CHECK(refusal(std::string("\3\0\0\0\0\0\0\0{}", 10)) ==
        "is not a safetensors file, or it is damaged: the header's length is 3, but only 2 bytes follow");
  CHECK(refusal(file_of("")) == "the header does not begin with '{'");
  CHECK(refusal(file_of(" {}")) == "the header does not begin with '{'");
  CHECK(refusal(file_of(std::string("{}\0", 3))) == "the header has a NUL byte at offset 2");
  CHECK(refusal(file_of("{\"a\":}")) == "the header is not valid JSON at byte 6, counted from 1");
  CHECK(refusal(file_of("{\"\xff\":1}")) == "the header is not valid JSON at byte 3, counted from 1");
  CHECK(refusal(file_of("{}", "x")) == "the tensors take 0 bytes; the file holds 1 after its header");
  CHECK(refusal(file_of(R"({"w":1})")) == "tensor 'w' must be an object, not 1");
  CHECK(refusal(file_of(R"({"w":{}})")) == "tensor 'w' has no dtype");
  CHECK(refusal(file_of(R"({"w":{"dtype":["F32"]}})")) == "dtype of tensor 'w' must be a string, not an array");
  CHECK(refusal(file_of(R"({"w":{"shape":null}})")) == "shape of tensor 'w' must be an array, not null");
  CHECK(refusal(file_of(R"({"w":{"shape":[2,-3]}})")) == "extent 1 of tensor 'w' must be a whole number, not -3");
  CHECK(refusal(file_of(R"({"w":{"shape":[2.5]}})")) == "extent 0 of tensor 'w' must be a whole number, not 2.5");
  CHECK(refusal(file_of(R"({"w":{"shape":["2"]}})")) == "extent 0 of tensor 'w' must be a whole number, not a string");
  CHECK(refusal(file_of(R"({"w":{"data_offsets":[true]}})")) ==
        "data_offsets of tensor 'w' must be two whole numbers, not true");
  CHECK(refusal(file_of(R"({"w":{"shape":[9223372036854775808]}})")) ==
        "extent 0 of tensor 'w' is 9223372036854775808; the limit is 9223372036854775807");
  CHECK(refusal(file_of(R"({"__metadata__":{"k":1}})")) == "__metadata__ 'k' must be a string, not 1");
  CHECK(refusal(file_of(R"({"__metadata__":7})")) == "__metadata__ must be an object, not 7");
  CHECK(refusal(file_of(R"({"w":{"dtype":"F32","dtype":"F32"}})")) ==
        "the key 'dtype' appears twice in one object of the header");
  CHECK(refusal(one("F33", "1", "0,4")) == "dtype of tensor 'w' is 'F33', which the format does not have");
  CHECK(refusal(one("F32", "1,1,1,1,1,1,1,1,1", "0,4")) == "tensor 'w' has 9 axes; the limit is 8");
  CHECK(refusal(one("F32", "1", "0")) == "tensor 'w' has 1 data_offsets instead of 2");
  CHECK(refusal(one("F32", "4294967296,4294967296", "0,4")) ==
        "tensor 'w' has more elements than the limit 9223372036854775807");
  CHECK(refusal(one("F64", "288230376151711744", "0,4")) ==
        "tensor 'w': F64 [288230376151711744] does not match data_offsets [0, 4]");
  CHECK(refusal(one("F4", "3", "0,2")) == "tensor 'w': F4 [3] does not match data_offsets [0, 2]");
  CHECK(refusal(one("F32", "2,3", "0,20", 20)) == "tensor 'w': F32 [2, 3] does not match data_offsets [0, 20]");
  CHECK(refusal(one("F32", "1", "4,0")) == "tensor 'w': F32 [1] does not match data_offsets [4, 0]");
  CHECK(refusal(one("F32", "1", "4,8", 8)) == "tensor 'w' begins at byte 4 of the data; the one before it ends at 0");
  CHECK(refusal(one("F32", "1", "0,4", 3)) == "the tensors take 4 bytes; the file holds 3 after its header");
  CHECK(refusal(file_of(R"({"w":{"x":)" + std::string(126, '['))) == "the header is nested more than 127 levels deep");
  CHECK(refusal(file_of("{\"a\\u000a\\u001b\":1}")) == "tensor 'a\\x0a\\x1b' must be an object, not 1");
  CHECK(refusal(file_of("{\"" + std::string(1000, 'n') + "\":1}")).size() < 300);
  CHECK(error_of([] { parse_safetensors("", "a\nb"); }).starts_with("a\\x0ab: has 0 bytes"));
}

TEST_CASE("read_safetensors: refuses a folder, a missing file and a file that is not regular") {
  const TemporaryFolder folder;
  CHECK(error_of([&] { read_safetensors(folder / "none"); }) ==
        folder / "none: cannot be opened: No such file or directory");
  CHECK(error_of([&] { read_safetensors(folder.path()); }) == folder.path() + ": is a folder, not a file");
  CHECK(refusal("This is a text.\n") ==
        "is not a safetensors file, or it is damaged: the header's length is "
        "2338328219631577172; the limit is 100000000");
  CHECK(error_of([] { read_safetensors("/dev/null"); }) == "/dev/null: is not a regular file");
}

TEST_CASE("read_safetensors: no memory is allocated for a header or data that the file claims but does not contain") {
  // The length alone must not make the reader allocate.
  const std::string claim("\0\xe1\xf5\x05\0\0\0\0", 8);
  CHECK(refusal(claim + "{}") ==
        "is not a safetensors file, or it is damaged: the header's length is 100000000, but only 2 bytes follow");
  CHECK(refusal(one("U8", "1125899906842624", "0,1125899906842624")) ==
        "the tensors take 1125899906842624 bytes; the file holds 4 after its header");
}

TEST_CASE("Safetensors: finds tensors by name, and gives them in the order of their bytes") {
  const std::string header = R"({"b":)" + entry("U8", "2", "1,3") + R"(,"a":)" + entry("U8", "1", "0,1") + R"(,"":)" +
                             entry("F32", "2,0", "3,3") + R"(,"__metadata__":{"format":"pt","k":"é"}})";
  io::Safetensors file = parse_safetensors(file_of(header, "xyz"), "m");
  const io::Safetensors moved = std::move(file);
  REQUIRE(moved.tensors().size() == 3);
  CHECK(moved.tensors()[0].name == "a");
  CHECK(moved.tensors()[1].name == "b");
  CHECK(moved.tensors()[2].name == "");
  CHECK(moved.metadata() == std::map<std::string, std::string>{{"format", "pt"}, {"k", "é"}});
  CHECK(moved.find("c") == nullptr);
  CHECK(error_of([&] { moved["c"]; }) == "m: has no tensor 'c'");
  CHECK(moved["b"].shape == Shape{2});
  CHECK(moved["b"].dtype == DType::u8);
  CHECK(moved.bytes(moved["b"])[0] == std::byte{'y'});
  CHECK(moved.bytes(moved[""]).empty());
  CHECK(moved[""].shape == Shape{2, 0});
  std::int32_t values[2];
  moved.read(moved["b"], values);
  CHECK(values[1] == 'z');
}

TEST_CASE("read_safetensors: every value of a file that the reference wrote") {
  const io::Safetensors file = read_safetensors(std::string(golden_io) + "values.safetensors");
  CHECK(file.metadata().at("made by") == "the reference");
  std::size_t others = 0;
  for (const auto& tensor : file.tensors()) others += !readable(tensor.dtype);
  CHECK(others == 11);
  const auto lines = golden_lines("values.txt");
  CHECK(lines.size() + others == file.tensors().size());
  for (const auto& line : lines) {
    const std::string name = unescaped(line[0]);
    CAPTURE(name);
    const io::TensorInfo& tensor = file[name];
    CHECK(line[1] == std::map<DType, std::string>{{DType::f64, "float64"},
                                                  {DType::f32, "float32"},
                                                  {DType::f16, "float16"},
                                                  {DType::bf16, "bfloat16"},
                                                  {DType::i64, "int64"},
                                                  {DType::i32, "int32"},
                                                  {DType::u8, "uint8"},
                                                  {DType::boolean, "bool"}}[tensor.dtype]);
    std::string shape;
    for (const Index extent : tensor.shape) shape.append(shape.empty() ? "" : "x").append(std::to_string(extent));
    CHECK(line[2] == (shape.empty() ? "scalar" : shape));
    std::istringstream words(line.size() > 3 ? line[3] : "");
    const auto size = static_cast<std::size_t>(tensor.shape.size());
    std::vector<double> values(size);
    std::vector<std::int64_t> integers(size);
    file.read(tensor, values.data());
    const bool integral = tensor.dtype == DType::i64 || tensor.dtype == DType::i32;
    if (integral) file.read(tensor, integers.data());
    std::string word;
    std::size_t i = 0;
    for (; words >> word; ++i) {
      CAPTURE(i, word);
      REQUIRE(i < size);
      if (integral) CHECK(integers[i] == std::stoll(word));
      const double expected = std::strtod(word.c_str(), nullptr);
      CHECK((std::isnan(expected) ? std::isnan(values[i])
                                  : std::bit_cast<std::int64_t>(values[i]) == std::bit_cast<std::int64_t>(expected)));
    }
    CHECK(i == size);
  }
}

TEST_CASE("read_safetensors: a miniature checkpoint of Hugging Face") {
  const std::string data = data_folder("the miniature checkpoint");
  if (data.empty()) return;
  const io::Safetensors file = read_safetensors(data + "/checkpoint-tiny-bert/model.safetensors");
  CHECK(file.tensors().size() == 24);
  Index floats = 0;
  for (const auto& tensor : file.tensors()) floats += tensor.dtype == DType::f32 ? tensor.shape.size() : 0;
  CHECK(floats == 10'185);
  const auto& ids = file["bert.embeddings.position_ids"];
  CHECK(ids.shape == Shape{1, 16});
  std::vector<std::int64_t> positions(16);
  file.read(ids, positions.data());
  for (std::size_t i = 0; i < 16; ++i) CHECK(positions[i] == static_cast<std::int64_t>(i));
  std::vector<float> weights(16);
  file.read(file["bert.embeddings.LayerNorm.weight"], weights.data());
  CHECK(weights == std::vector<float>(16, 1));
  CHECK(file["bert.encoder.layer.0.intermediate.dense.weight"].shape == Shape{64, 16});
}
