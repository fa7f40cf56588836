#include <heddle/io/safetensors.hpp>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using io::DType;
using io::read_safetensors;
using io::TensorBytes;
using io::write_safetensors;

namespace {

template <class T, std::size_t N>
std::span<const std::byte> bytes_of(const T (&values)[N]) {
  return std::as_bytes(std::span(values));
}

const float two_floats[] = {1.5f, -2};
const std::uint8_t three_bytes[] = {1, 2, 3};
const std::int64_t one_long[] = {-1};
const bf16 one_bf16[] = {bf16(2.f)};
const bool two_bools[] = {true, false};

}  // namespace

TEST_CASE("write_safetensors: tensors are ordered by decreasing element size, then by name") {
  const TemporaryFolder folder;
  write_safetensors(folder / "m", {{"z", DType::u8, {3}, bytes_of(three_bytes)},
                                   {"b", DType::f32, {2, 1}, bytes_of(two_floats)},
                                   {"a", DType::boolean, {2}, bytes_of(two_bools)},
                                   {"h", DType::bf16, {}, bytes_of(one_bf16)},
                                   {"a2", DType::f32, {2}, bytes_of(two_floats)},
                                   {"n", DType::i64, {1}, bytes_of(one_long)}});
  const std::string header =
      R"({"__metadata__":{"format":"pt"},"n":{"dtype":"I64","shape":[1],"data_offsets":[0,8]},)"
      R"("a2":{"dtype":"F32","shape":[2],"data_offsets":[8,16]},"b":{"dtype":"F32","shape":[2,1],"data_offsets":[16,24]},)"
      R"("h":{"dtype":"BF16","shape":[],"data_offsets":[24,26]},"a":{"dtype":"BOOL","shape":[2],"data_offsets":[26,28]},)"
      R"("z":{"dtype":"U8","shape":[3],"data_offsets":[28,31]}})";
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  const std::string file = get(folder / "m");
  REQUIRE(file.size() == 8 + padded + 31);
  CHECK(file.substr(0, 8) ==
        std::string({static_cast<char>(padded & 255), static_cast<char>(padded >> 8), 0, 0, 0, 0, 0, 0}));
  CHECK(file.substr(8, padded) == header + std::string(padded - header.size(), ' '));
  CHECK(file.substr(file.size() - 5) == std::string("\1\0\1\2\3", 5));
}

TEST_CASE("write_safetensors: a tensor of any name is read back as it was written") {
  const TemporaryFolder folder;
  const std::vector<std::string> names{"",
                                       "a.b",
                                       "\"quoted\"",
                                       "back\\slash",
                                       "line\nfeed\ttab\x01\x7f",
                                       std::string("NUL\0", 4),
                                       "é \xE6\x97\xA5 \xF0\x9F\x98\x80",
                                       "__metadata",
                                       "dtype"};
  std::vector<TensorBytes> tensors;
  for (const std::string& name : names) tensors.push_back({name, DType::f32, {2}, bytes_of(two_floats)});
  tensors.push_back({"empty", DType::f64, {3, 0, 2}, {}});
  tensors.push_back({"deep", DType::i64, {1, 1, 1, 1, 1, 1, 1, 1}, bytes_of(one_long)});
  write_safetensors(folder / "m", tensors, {{"key \"\n", "value \\ é"}, {"format", "np"}});
  const io::Safetensors file = read_safetensors(folder / "m");
  CHECK(file.metadata() == std::map<std::string, std::string>{{"key \"\n", "value \\ é"}, {"format", "np"}});
  CHECK(file.tensors().size() == tensors.size());
  for (const TensorBytes& tensor : tensors) {
    CHECK(file[tensor.name].dtype == tensor.dtype);
    CHECK(file[tensor.name].shape == tensor.shape);
    const auto bytes = file.bytes(file[tensor.name]);
    CHECK(std::equal(bytes.begin(), bytes.end(), tensor.bytes.begin(), tensor.bytes.end()));
  }
  CHECK(folder.names() == std::set<std::string>{"m"});
}

TEST_CASE("write_safetensors: the same tensors give the same bytes in any order") {
  const TemporaryFolder folder;
  std::vector<TensorBytes> tensors{{"a", DType::f32, {2}, bytes_of(two_floats)},
                                   {"b", DType::u8, {3}, bytes_of(three_bytes)},
                                   {"c", DType::i64, {1}, bytes_of(one_long)}};
  write_safetensors(folder / "first", tensors);
  std::reverse(tensors.begin(), tensors.end());
  write_safetensors(folder / "second", tensors);
  CHECK(get(folder / "first") == get(folder / "second"));
  write_safetensors(folder / "none", {});
  CHECK(read_safetensors(folder / "none").tensors().empty());
}

TEST_CASE("write_safetensors: refuses invalid tensors and dtypes that it does not write, and keeps the old file") {
  const TemporaryFolder folder;
  put(folder / "m", "old");
  const auto refusal = [&](std::vector<TensorBytes> tensors, std::map<std::string, std::string> metadata = {}) {
    const std::string message = error_of<WriteError>([&] { write_safetensors(folder / "m", tensors, metadata); });
    CHECK(get(folder / "m") == "old");
    return message.starts_with(folder / "m: ") ? message.substr((folder / "m: ").size()) : message;
  };
  const TensorBytes good{"w", DType::f32, {2}, bytes_of(two_floats)};
  CHECK(refusal({good, {"w", DType::u8, {3}, bytes_of(three_bytes)}}) == "tensor 'w' is given twice");
  CHECK(refusal({{"\xff", DType::f32, {2}, good.bytes}}) == "tensor '\\xff' has a name that is not UTF-8");
  CHECK(refusal({{"__metadata__", DType::f32, {2}, good.bytes}}) ==
        "tensor '__metadata__' has a name that the format reserves");
  CHECK(refusal({{"w", DType::f32, {3}, good.bytes}}) == "tensor 'w' is given 8 bytes for F32 [3]");
  CHECK(refusal({{"w", DType::f4, {16}, good.bytes}}) == "tensor 'w' is of dtype F4, which heddle does not write");
  CHECK(refusal({good}, {{"k", "\xff"}}) == "metadata 'k' is not UTF-8");
  CHECK(error_of<WriteError>([&] { write_safetensors(folder / "none/m", {good}); }) ==
        folder / "none/m: its folder cannot be opened: No such file or directory");
}

TEST_CASE("safetensors: single tensors of several types to a file and back") {
  const TemporaryFolder folder;
  const std::string path = folder / "tensors.safetensors";
  const Tensor<float> x({2, 2}, {1, -2, 0.5, 4});
  const Tensor<Index> ids({3}, {7, 0, -1});
  const Tensor<bool> flag({}, {true});
  io::write_safetensors(path, {io::tensor_bytes("x", x), io::tensor_bytes("ids", ids), io::tensor_bytes("flag", flag)});
  const io::Safetensors file = io::read_safetensors(path);
  CHECK(file.tensor<float>("x").host() == x.host());
  CHECK(file.tensor<float>("x").shape() == x.shape());
  CHECK(file.tensor<double>("x").host() == std::vector<double>{1, -2, 0.5, 4});
  CHECK(file.tensor<Index>("ids").host() == ids.host());
  CHECK(file.tensor<bool>("flag").item());
  CHECK_THROWS_WITH(file.tensor<float>("y"), ContainsSubstring("has no tensor"));
  CHECK_THROWS_AS(file.tensor<bool>("ids"), FileError);
}
