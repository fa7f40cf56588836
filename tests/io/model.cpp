#include <heddle/heddle.hpp>
#include <heddle/io/model.hpp>

#include <deque>
#include <filesystem>

#include "../catch.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

struct Folder {
  std::filesystem::path path = std::filesystem::temp_directory_path() / ("heddle-model-" + std::to_string(::getpid()));
  Folder() { std::filesystem::create_directories(path); }
  ~Folder() { std::filesystem::remove_all(path); }
  std::string operator()(const std::string& name) const { return (path / name).string(); }
};

template <class T = float>
struct Model {
  nn::SinusoidalPositions<T> positions{5, 4};
  nn::MultiHeadAttention<T> attention;
  nn::LayerNorm<T> norm{4};
  explicit Model(Random& random) : attention(4, 2, random) {}
  static void visit(auto& self, auto&& f) {
    f("pos", self.positions);
    f("attention", self.attention);
    f("norm", self.norm);
  }
};

struct Other {
  Parameter<float> weight{Tensor<float>({3}, {1, 2, 3})}, extra{Tensor<float>({1}, {1})};
  static void visit(auto& self, auto&& f) {
    f("norm.weight", self.weight);
    f("extra", self.extra);
  }
};

struct InDouble {
  Parameter<double> extra{Tensor<double>({1}, {1})}, weight{Tensor<double>({2}, {1, 2})};
  static void visit(auto& self, auto&& f) {
    f("extra", self.extra);
    f("weight", self.weight);
  }
};

struct Tied {
  Parameter<float> a{Tensor<float>({2}, {1, 2})}, b{share(a)};
  static void visit(auto& self, auto&& f) {
    f("a", self.a);
    f("b", self.b);
  }
};

struct Second {
  Parameter<float> b{Tensor<float>({2}, {5, 6})};
  Buffer<float> table{Tensor<float>({1}, {9})};
  static void visit(auto& self, auto&& f) {
    f("b", self.b);
    f("table", self.table);
  }
};

template <class M>
std::vector<double> all_values(M& model) {
  std::vector<double> all;
  walk(model, [&](const Name&, auto& x) {
    for (const auto v : x.value().host()) all.push_back(static_cast<double>(v));
  });
  return all;
}

}  // namespace

TEST_CASE("io::save and load: restore weights bit for bit; a file has a combined parameter as three tensors") {
  const Folder folder;
  Random random(1);
  Model<> model(random), other(random);
  io::save(model, folder("m.safetensors"));
  const auto file = io::read_safetensors(folder("m.safetensors"));
  std::vector<std::string> names;
  for (const auto& tensor : file.tensors()) names.push_back(tensor.name);
  std::sort(names.begin(), names.end());
  CHECK(names == std::vector<std::string>{"attention.key.bias", "attention.key.weight", "attention.out.bias",
                                          "attention.out.weight", "attention.query.bias", "attention.query.weight",
                                          "attention.value.bias", "attention.value.weight", "norm.bias", "norm.weight",
                                          "pos.pe"});
  std::vector<float> key(16);
  file.read(file["attention.key.weight"], key.data());
  CHECK(key[0] == model.attention.qkv.weight.value().host()[16]);
  CHECK(all_values(other) != all_values(model));
  CHECK(io::load(other, folder("m.safetensors")).unexpected.empty());
  CHECK(all_values(other) == all_values(model));
  Model<double> wide(random);
  io::load(wide, folder("m.safetensors"));
  CHECK(all_values(wide) == all_values(model));
}

TEST_CASE("io::load: an optimizer made before the load still trains the model") {
  const Folder folder;
  Random random(1);
  nn::Linear<> model(2, 2, random), from(2, 2, random);
  optim::Sgd sgd(model, {.lr = 1});
  io::save(from, folder("l.safetensors"));
  io::load(model, folder("l.safetensors"));
  backward(sum(model(Tensor<float>({1, 2}, {1, 1}))));
  sgd.step();
  CHECK(model.weight.value().host()[0] == from.weight.value().host()[0] - 1);
}

struct TiedPair {
  Parameter<float> table, out;
  explicit TiedPair(Index D) : table(ones<float>({5, D})), out(share(table)) {}
  static void visit(auto& self, auto&& f) {
    f("table", self.table);
    f("out", self.out);
  }
};

TEST_CASE("io::load: a shared weight of another shape is not missing under its other name") {
  const Folder folder;
  io::save(TiedPair(4), folder("tied.safetensors"));
  TiedPair wide(6);
  CHECK_THROWS_WITH(io::load(wide, folder("tied.safetensors")),
                    folder("tied.safetensors") +
                        ": does not hold the weights of this model; mismatched 1: 'table' [5, 4] for [5, 6]");
}

TEST_CASE("io::load: lists missing, mismatched and unexpected names, and changes nothing") {
  const Folder folder;
  Random random(1);
  Model<> model(random);
  const auto before = all_values(model);
  Other other;
  io::save(other, folder("o.safetensors"));
  CHECK_THROWS_WITH(io::load(model, folder("o.safetensors")),
                    ContainsSubstring("does not hold the weights of this model; missing 9: 'attention.query.weight'") &&
                        ContainsSubstring("; mismatched 1: 'norm.weight' [3] for [4]; unexpected 1: 'extra'"));
  CHECK_THROWS_AS(io::load(model, folder("o.safetensors")), FileError);
  CHECK(all_values(model) == before);
}

TEST_CASE("io: a shared weight is saved once and loaded under either name; a buffer may be absent") {
  const Folder folder;
  Tied tied;
  io::save(tied, folder("t.safetensors"));
  CHECK(io::read_safetensors(folder("t.safetensors")).tensors().size() == 1);
  Second second;
  std::vector<io::TensorBytes> only_b{{"b", io::DType::f32, {2}, std::as_bytes(std::span(second.b.value().data(), 2))}};
  io::write_safetensors(folder("b.safetensors"), only_b);
  io::load(tied, folder("b.safetensors"));
  CHECK(tied.a.value().host() == std::vector<float>{5, 6});
  io::load(second, folder("b.safetensors"));
  CHECK(second.table.value().item() == 9);
}

TEST_CASE("io::load: a shared weight whose names have different values in the file is refused") {
  const Folder folder;
  Tied tied;
  const std::vector<float> one{5, 6}, other{5, 7};
  const auto tensor = [](const char* name, const std::vector<float>& values) {
    return io::TensorBytes{name, io::DType::f32, {2}, std::as_bytes(std::span(values))};
  };
  io::write_safetensors(folder("same.safetensors"), {tensor("a", one), tensor("b", one)});
  io::load(tied, folder("same.safetensors"));
  CHECK(tied.b.value().host() == one);
  io::write_safetensors(folder("other.safetensors"), {tensor("a", one), tensor("b", other)});
  CHECK_THROWS_WITH(io::load(tied, folder("other.safetensors")),
                    ContainsSubstring("'a' and 'b' are one shared weight of this model, but their values differ"));
  CHECK(tied.b.value().host() == one);
}

TEST_CASE("io::load: a combined parameter of which one name is missing is not loaded in part") {
  const Folder folder;
  Random random(1);
  Model<> model(random), other(random);
  io::save(model, folder("m.safetensors"));
  const auto whole = io::read_safetensors(folder("m.safetensors"));
  std::vector<io::TensorBytes> some;
  std::deque<std::vector<std::byte>> bytes;  // alive until they are written
  for (const auto& tensor : whole.tensors())
    if (tensor.name != "attention.key.weight")
      some.push_back({tensor.name, tensor.dtype, tensor.shape, bytes.emplace_back(whole.bytes(tensor))});
  io::write_safetensors(folder("s.safetensors"), some);
  const auto before = all_values(other);
  CHECK_THROWS_WITH(io::load(other, folder("s.safetensors")), ContainsSubstring("; missing 1: 'attention.key.weight'"));
  CHECK(all_values(other) == before);
}

TEST_CASE("io::load: a value that does not fit the model's type leaves all weights as they were") {
  const Folder folder;
  Other model;
  const std::vector<double> extra{1}, weight{1, 1e300, 3};
  io::write_safetensors(folder("d.safetensors"),
                        {{"extra", io::DType::f64, {1}, std::as_bytes(std::span(extra))},
                         {"norm.weight", io::DType::f64, {3}, std::as_bytes(std::span(weight))}});
  const auto before = all_values(model);
  CHECK_THROWS_AS(io::load(model, folder("d.safetensors")), FileError);
  CHECK(all_values(model) == before);
}

TEST_CASE("io::load: an invalid BOOL leaves all weights of a model in double as they were") {
  const Folder folder;
  InDouble model;
  const std::vector<double> extra{7};
  const std::vector<std::uint8_t> weight{1, 2};
  io::write_safetensors(folder("b.safetensors"),
                        {{"extra", io::DType::f64, {1}, std::as_bytes(std::span(extra))},
                         {"weight", io::DType::boolean, {2}, std::as_bytes(std::span(weight))}});
  CHECK_THROWS_WITH(io::load(model, folder("b.safetensors")), ContainsSubstring("the BOOL at position 1 is 2"));
  CHECK(model.extra.value().host() == std::vector<double>{1});
}
