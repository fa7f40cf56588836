// A folder of sentence-transformers. Each line of the input is the content of a JSON file; an empty line stands for
// none. A folder that is accepted gives vectors and rows of the widths that it has.
#include <cmath>
#include <sstream>

#include <heddle/models/reranker.hpp>
#include <heddle/models/sentence_encoder.hpp>
#include <heddle/models/sparse_encoder.hpp>

#include "fuzz.hpp"
#include "io/files.hpp"

namespace {

using namespace heddle;

constexpr const char* config =
    R"({"model_type":"bert","vocab_size":14,"hidden_size":8,"num_hidden_layers":1,"num_attention_heads":2,)"
    R"("intermediate_size":8,"max_position_embeddings":12})";
constexpr const char* vocabulary = "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\nthe\na\nbig\ndog\nis\nit\n,\n.\n?\n";
constexpr const char* files[] = {
    "modules.json", "sentence_bert_config.json", "config_sentence_transformers.json", "1/config.json", "2/config.json",
    "3/config.json"};
constexpr Index positions = 12;

struct Dense {
  nn::Linear<> linear;
  static void visit(auto& self, auto&& f) { f("linear", self.linear); }
};
struct Norm {
  nn::LayerNorm<> norm;
  static void visit(auto& self, auto&& f) { f("norm", self.norm); }
};

// A folder with the weights of a small model and of three modules.
class ModelFolder : public testing::TemporaryFolder {
 public:
  ModelFolder() {
    for (const char* module : {"1", "2", "3"}) std::filesystem::create_directory(path() + '/' + module);
    testing::put(path() + "/config.json", config);
    testing::put(path() + "/vocab.txt", vocabulary);
    Random random(1);
    const models::BertMaskedLm<> model(*models::read_config(path()).bert(), random);
    io::save(model, path() + "/model.safetensors");
    io::save(Dense{nn::Linear<>(8, 5, random, false)}, path() + "/1/model.safetensors");
    io::save(Dense{nn::Linear<>(24, 6, random)}, path() + "/2/model.safetensors");
    io::save(Norm{nn::LayerNorm<>(6)}, path() + "/3/model.safetensors");
  }

  // Writes the lines of an input.
  void fill(const std::string& input) const {
    std::istringstream lines(input);
    for (const char* file : files) {
      std::string line;
      std::getline(lines, line);
      std::filesystem::remove(path() + '/' + file);
      if (!line.empty()) testing::put(path() + '/' + file, line);
    }
  }
};

void check_finite(const Tensor<float>& x) {
  for (const float value : x.host()) fuzz::claim(std::isfinite(value), "a vector is finite");
}

void check_rows(const models::SentenceEncoder& encoder) {
  const Tensor<float> rows = encoder.rows("The big dog, is it?");
  fuzz::claim(rows.dim(0) <= positions && rows.dim(1) == encoder.row_width(), "rows have the folder's width");
  check_finite(rows);
}

void check_encoder(const models::SentenceEncoder& encoder) {
  for (const auto& [name, prompt] : encoder.prompts()) check_rows(encoder.with_prompt(name));
  check_rows(encoder);
  if (encoder.width() == 0) return;
  const Tensor<float> vectors = encoder(std::vector<std::string>{"the big dog", ""});
  fuzz::claim(vectors.shape() == Shape{2, encoder.width()}, "vectors have the folder's width");
  check_finite(vectors);
}

void check_sparse(const models::SparseEncoder& encoder) {
  const models::SparseVector vector = encoder("the big dog");
  fuzz::claim(vector.ids.size() == vector.weights.size(), "each token has a weight");
  for (const std::int32_t id : vector.ids)
    fuzz::claim(id >= 0 && id < encoder.vocabulary(), "tokens are those of the vocabulary");
  for (const float weight : vector.weights) fuzz::claim(std::isfinite(weight) && weight > 0, "weights are positive");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const ModelFolder folder;
  const fuzz::Input input(data, size);
  set_threads(1);
  folder.fill(input.string());
  if (const auto found = fuzz::attempt<FileError>([&] { return models::SentenceEncoder::load(folder.path()); }))
    check_encoder(*found);
  if (const auto found = fuzz::attempt<FileError>([&] { return models::SparseEncoder::load(folder.path()); }))
    check_sparse(*found);
  fuzz::accepted<FileError>([&] { models::Reranker::has_sigmoid(folder.path()); });
  return 0;
}
