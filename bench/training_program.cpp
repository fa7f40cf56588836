// training_program: fine-tunes the model of a Hugging Face folder on given batches for bench/peers/training_compare.py.
// Reads a JSON object that describes the training, and prints one with the loss and the seconds of each step.
#include <CLI/CLI.hpp>
#include <chrono>
#include <iostream>
#include <limits>

#include <heddle/heddle.hpp>
#include <heddle/models/pretrained.hpp>
#include <heddle/models/sentence_losses.hpp>
#include <heddle/train/cached_gradients.hpp>

using namespace heddle;
namespace {

using nlohmann::json;

// Some texts of a batch.
struct Texts {
  Tensor<int> ids, types;  // [N]; types are empty if the batch has none
  Sequences sequences;
};
// Reads texts [first, last) of a list, each a list of token ids.
Texts read_texts(const json& lists, const json& type_lists, std::size_t first, std::size_t last) {
  std::vector<int> ids, types, lengths;
  const auto append = [](std::vector<int>& all, const std::vector<int>& more) {
    all.insert(all.end(), more.begin(), more.end());
  };
  for (std::size_t text = first; text < last; ++text) {
    append(ids, lists.at(text));
    if (!type_lists.is_null()) append(types, type_lists.at(text));
    lengths.push_back(static_cast<int>(lists.at(text).size()));
  }
  const Shape shape{std::ssize(ids)};
  return {Tensor<int>(shape, ids), types.empty() ? Tensor<int>() : Tensor<int>(shape, types),
          Sequences::packed(lengths)};
}
Texts read_texts(const json& step) {
  const json& lists = step.at("texts").at(0);
  return read_texts(lists, step.value("types", json()), 0, lists.size());
}
Tensor<int> read_labels(const json& step, const char* key = "labels") {
  const std::vector<int> labels = step.at(key);
  return Tensor<int>({std::ssize(labels)}, labels);
}
template <class T>
Tensor<T> read_vector(const json& values) {  // [n]
  const std::vector<T> numbers = values;
  return Tensor<T>({std::ssize(numbers)}, numbers);
}
template <class T>
Tensor<T> read_matrix(const json& rows) {  // [B, C]
  std::vector<T> numbers;
  for (const json& row : rows) {
    const std::vector<T> values = row;
    numbers.insert(numbers.end(), values.begin(), values.end());
  }
  return Tensor<T>({std::ssize(rows), std::ssize(rows.at(0))}, numbers);
}

// Trains a model. differentiate(step) returns the loss of a batch after it has accumulated the gradients.
template <class Model, class Differentiate>
json train(Model& model, const json& job, const std::string& weights, Differentiate&& differentiate) {
  optim::AdamW optimizer(model, {.lr = job.at("lr"), .weight_decay = job.at("weight_decay")});
  std::vector<double> losses, seconds;
  for (const json& step : job.at("steps")) {
    const auto begin = std::chrono::steady_clock::now();
    losses.push_back(static_cast<double>(differentiate(step).item()));
    optimizer.step();
    seconds.push_back(std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count());
  }
  io::save(model, weights);
  return {{"losses", losses}, {"seconds", seconds}};
}
template <class Loss>
auto differentiated(Loss&& loss) {
  return [=](const json& step) {
    const auto value = loss(step);
    backward(value);
    return value;
  };
}

template <class T>
json train_texts(const models::PretrainedConfig& config, const std::string& folder, const json& job,
                 const std::string& weights, Random* random) {
  const std::string loss = job.at("loss");
  auto model = models::make_without_values<models::SequenceClassifier<T>>(config);
  models::load_pretrained(model, folder);
  const auto compute = [&](const json& step) -> Tensor<T> {
    const Texts texts = read_texts(step);
    const Tensor<T> z = model.forward(texts.ids, texts.sequences, {.types = texts.types, .random = random});
    if (loss == "classes") return cross_entropy(z, read_labels(step));
    if (loss == "pair") return bce_with_logits(reshape(z, {z.dim(0)}), read_vector<T>(step.at("targets")));
    const Tensor<T> targets = read_matrix<T>(step.at("targets"));
    if (loss == "regression") return mse_loss(z, targets);
    const json pos_weight = job.value("pos_weight", json());
    return bce_with_logits(z, targets, {.pos_weight = pos_weight.is_null() ? Tensor<T>() : read_vector<T>(pos_weight)});
  };
  return train(model, job, weights, differentiated(compute));
}

template <class T>
json train_tokens(const models::PretrainedConfig& config, const std::string& folder, const json& job,
                  const std::string& weights, Random* random) {
  const bool has_answers = job.at("loss") == "answers";
  const nn::NoInit undrawn;
  Random unused(0);
  models::BertTokenClassifier<T> model(*config.bert(),
                                       has_answers ? models::TokenHead::answer : models::TokenHead::labels,
                                       has_answers ? 2 : std::ssize(config.labels), unused);
  models::load_pretrained(model, folder);
  const auto compute = [&](const json& step) -> Tensor<T> {
    const Texts texts = read_texts(step);
    const Tensor<T> z = model.forward(texts.ids, texts.sequences, {.types = texts.types, .random = random});  // [N, C]
    if (!has_answers) return cross_entropy(z, read_labels(step));
    const auto loss = [&](Index column, const char* key) {
      const Tensor<T> padded = unpack(reshape(slice(z, 1, column, column + 1), {z.dim(0)}), texts.sequences);  // [B, T]
      return cross_entropy(
          masked_fill(padded, logical_not(texts.sequences.mask()), -std::numeric_limits<double>::infinity()),
          read_labels(step, key));
    };
    return (loss(0, "starts") + loss(1, "ends")) / 2;
  };
  return train(model, job, weights, differentiated(compute));
}

template <class T>
json train_masks(const models::PretrainedConfig& config, const std::string& folder, const json& job,
                 const std::string& weights, Random* random) {
  auto model = models::make_without_values<models::BertMaskedLm<T>>(*config.bert());
  models::load_pretrained(model, folder);
  const auto compute = [&](const json& step) {
    const Texts texts = read_texts(step);
    const Tensor<T> z =
        model.forward(texts.ids, texts.sequences, read_labels(step, "rows"), {.types = texts.types, .random = random});
    return cross_entropy(z, read_labels(step));
  };
  return train(model, job, weights, differentiated(compute));
}

template <class T>
json train_vectors(const models::PretrainedConfig& config, const std::string& folder, const json& job,
                   const std::string& weights, Random* random) {
  const std::string loss = job.at("loss");
  auto model = models::make_without_values<models::BertEncoder<T>>(*config.bert());
  models::load_pretrained(model, folder);
  const auto encode = [&](const json& lists, std::size_t first, std::size_t last, Random* dropout) {
    const Texts texts = read_texts(lists, json(), first, last);
    return mean_rows(model.forward(texts.ids, texts.sequences, {.random = dropout}), texts.sequences);
  };
  const auto ranking_loss = [&](const Tensor<T>& anchors, const Tensor<T>& candidates) {
    return models::multiple_negatives_ranking_loss(anchors, candidates, {.temperature = job.at("temperature")});
  };
  if (loss == "cached_ranking") {
    return train(model, job, weights, [&](const json& step) {
      const json& columns = step.at("texts");
      const std::size_t B = columns.at(0).size(), each = job.at("parts").get<std::size_t>() / columns.size();
      const auto part_of_columns = [&](Index part, Random* dropout) {
        const auto at = static_cast<std::size_t>(part);
        const std::size_t place = at % each;
        return encode(columns.at(at / each), place * B / each, (place + 1) * B / each, dropout);
      };
      const auto of_all = [&](const Tensor<T>& all) {
        const auto anchors = static_cast<Index>(B);
        return ranking_loss(slice(all, 0, 0, anchors), slice(all, 0, anchors, all.dim(0)));
      };
      return train::cached_backward(static_cast<Index>(each * columns.size()), part_of_columns, of_all, random);
    });
  }
  const auto compute = [&](const json& step) -> Tensor<T> {
    std::vector<Tensor<T>> vectors;
    for (const json& lists : step.at("texts")) vectors.push_back(encode(lists, 0, lists.size(), random));
    if (loss == "cosine")
      return models::cosine_similarity_loss(vectors.at(0), vectors.at(1), read_vector<T>(step.at("targets")));
    if (loss == "ranking") return ranking_loss(vectors.at(0), concat(std::vector(vectors.begin() + 1, vectors.end())));
    const bool is_cosine = job.at("distance") == "cosine";
    return models::triplet_loss(
        vectors.at(0), vectors.at(1), vectors.at(2),
        {.distance = is_cosine ? models::TripletDistance::cosine : models::TripletDistance::euclidean,
         .margin = job.at("margin")});
  };
  return train(model, job, weights, differentiated(compute));
}

template <class T>
json train_model(const std::string& folder, const json& job, const std::string& weights) {
  const models::PretrainedConfig config = models::read_config(folder);
  const std::string model = job.at("model");
  Random random(1);  // draws nothing if the folder's dropout is 0
  if (model == "texts") return train_texts<T>(config, folder, job, weights, &random);
  if (model == "tokens") return train_tokens<T>(config, folder, job, weights, &random);
  if (model == "masks") return train_masks<T>(config, folder, job, weights, &random);
  if (model == "vectors") return train_vectors<T>(config, folder, job, weights, &random);
  fail("there is no model ", model);
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Fine-tunes the model of a folder on given batches.");
  std::string job, folder, weights, precision = "float";
  int threads = 2;
  app.add_option("job", job, "the JSON file of the training")->required();
  app.add_option("folder", folder, "the model")->required();
  app.add_option("weights", weights, "the file for the final weights")->required();
  app.add_option("--precision", precision)->check(CLI::IsMember({"float", "double"}));
  app.add_option("--threads", threads)->check(CLI::PositiveNumber);
  try {
    app.parse(argc, argv);
    set_threads(threads);
    const json settings = io::parse_json(io::read_file(job), job);
    const json result = precision == "double" ? train_model<double>(folder, settings, weights)
                                              : train_model<float>(folder, settings, weights);
    std::cout << result.dump() << '\n';
  } catch (const CLI::ParseError& error) {
    return app.exit(error);
  } catch (const std::exception& error) {
    std::cerr << "training_program: error: " << error.what() << '\n';
    return 2;
  }
}
