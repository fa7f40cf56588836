// bert_program: runs the model of a Hugging Face folder for bench/peers/bert_compare.py and questions_compare.py.
// Prints one JSON object; `embed` prints one line of numbers per text instead.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>

#include <heddle/heddle.hpp>
#include <heddle/models/question_answerer.hpp>
#include <heddle/models/sentence_encoder.hpp>
#include <heddle/models/text_classifier.hpp>

namespace heddle::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Flags {
  std::string folder, batches, questions, precision = "fp32";
  int threads = 2, calls = 10, tokens = 20;
};

struct Batch {
  Tensor<int> ids, types;  // [N]; types is empty if the file has none
  Sequences sequences;
  Tensor<int> labels;  // [B]
};

struct Model {
  models::PretrainedConfig config;
  models::SequenceClassifier<> classifier;

  explicit Model(const std::string& folder)
      : config(models::read_config(folder)),
        classifier(models::make_without_values<models::SequenceClassifier<>>(config)) {
    models::load_pretrained(classifier, folder);
  }
  Index classes() const { return static_cast<Index>(config.labels.size()); }
};

Tensor<int> flattened(const nlohmann::json& rows) {
  std::vector<int> values;
  for (const auto& row : rows)
    for (const auto& value : row) values.push_back(value.get<int>());
  return Tensor<int>({static_cast<Index>(values.size())}, values);
}

// Returns a batch. Its labels are arbitrary: 0, 1, … in turn.
Batch make_batch(const nlohmann::json& ids, const nlohmann::json& types, Index classes) {
  std::vector<int> lengths;
  Tensor<int> labels({static_cast<Index>(ids.size())});
  for (const auto& row : ids) {
    labels.data()[lengths.size()] = static_cast<int>(static_cast<Index>(lengths.size()) % classes);
    lengths.push_back(static_cast<int>(row.size()));
  }
  return {flattened(ids), types.is_null() ? Tensor<int>() : flattened(types), Sequences::packed(lengths), labels};
}

nlohmann::json read_json(const std::string& path) {
  std::ifstream file(path);
  require(file.good(), "cannot open ", path);
  return nlohmann::json::parse(file);
}

// Reads a JSON array of batches, {"ids": [[…], …], "types": [[…], …]} each. Types may be absent.
std::vector<Batch> read_batches(const std::string& path, Index classes) {
  std::vector<Batch> batches;
  for (const nlohmann::json& batch : read_json(path))
    batches.push_back(make_batch(batch.at("ids"), batch.value("types", nlohmann::json()), classes));
  require(!batches.empty(), path, " has no batches");
  return batches;
}

double seconds_since(Clock::time_point begin) { return std::chrono::duration<double>(Clock::now() - begin).count(); }

// Times `count` calls of run(batch). Takes the batches in turn, after one untimed call for each batch.
template <class Run>
std::vector<double> time_calls(const std::vector<Batch>& batches, int count, Run&& run) {
  for (const Batch& batch : batches) run(batch);
  std::vector<double> seconds;
  for (int call = 0; call < count; ++call) {
    const auto begin = Clock::now();
    run(batches[static_cast<std::size_t>(call) % batches.size()]);
    seconds.push_back(seconds_since(begin));
  }
  return seconds;
}

// Returns the smallest value v such that at least `share` of the values are at most v.
double quantile(std::vector<double> values, double share) {
  const auto rank = static_cast<std::size_t>(std::ceil(share * static_cast<double>(values.size())));
  const auto at = values.begin() + static_cast<std::ptrdiff_t>(std::max<std::size_t>(rank, 1) - 1);
  std::nth_element(values.begin(), at, values.end());
  return *at;
}

nlohmann::json timings(const std::vector<double>& seconds) {
  return {{"median", quantile(seconds, 0.5)}, {"p99", quantile(seconds, 0.99)}, {"seconds", seconds}};
}

template <class A>
Tensor<A> logits_of(const Model& model, const Batch& batch, Random* random = nullptr) {
  return model.classifier.forward<A>(batch.ids, batch.sequences, {.types = batch.types, .random = random});
}

template <class A>
nlohmann::json forward(const Flags& flags) {
  const Model model(flags.folder);
  const NoGrad quiet;
  return timings(time_calls(read_batches(flags.batches, model.classes()), flags.calls,
                            [&](const Batch& batch) { logits_of<A>(model, batch).host(); }));
}

template <class A>
nlohmann::json step(const Flags& flags) {
  Model model(flags.folder);
  optim::AdamW optimizer(model.classifier, {.lr = 5e-5});
  Random random(2);
  return timings(time_calls(read_batches(flags.batches, model.classes()), flags.calls, [&](const Batch& batch) {
    backward(cross_entropy(cast<float>(logits_of<A>(model, batch, &random)), batch.labels));
    optimizer.step();
  }));
}

template <class A>
nlohmann::json logits(const Flags& flags) {
  const Model model(flags.folder);
  const NoGrad quiet;
  nlohmann::json rows = nlohmann::json::array();
  for (const Batch& batch : read_batches(flags.batches, model.classes())) {
    const std::vector<float> values = cast<float>(logits_of<A>(model, batch)).host();
    for (auto row = values.begin(); row != values.end(); row += model.classes())
      rows.push_back(std::vector<double>(row, row + model.classes()));
  }
  return {{"logits", rows}};
}

template <class A>
nlohmann::json latency(const Flags& flags) {
  const Model model(flags.folder);
  const NoGrad quiet;
  nlohmann::json ids;
  for (int t = 0; t < flags.tokens; ++t) ids.push_back(t + 1);
  const std::vector<Batch> batches = {make_batch({ids}, nullptr, model.classes())};
  return timings(time_calls(batches, flags.calls, [&](const Batch& batch) { logits_of<A>(model, batch).host(); }));
}

// Prints the vector of each line of the standard input, values separated by blanks.
void embed(const Flags& flags) {
  const auto encode = models::SentenceEncoder::load(flags.folder);
  std::vector<std::string> lines;
  for (std::string line; std::getline(std::cin, line);) lines.push_back(line);
  const std::vector<float> values = encode(lines).host();
  for (std::size_t i = 0; i < values.size(); ++i)
    std::printf("%.9g%c", static_cast<double>(values[i]),
                (i + 1) % static_cast<std::size_t>(encode.width()) ? ' ' : '\n');
}

nlohmann::json to_json(const std::vector<models::Answer>& answers) {
  nlohmann::json all = nlohmann::json::array();
  for (const models::Answer& a : answers)
    all.push_back({{"begin", a.begin}, {"end", a.end}, {"text", a.text}, {"score", a.score}});
  return all;
}

// Answers the questions of each group, all together if one answer to each is wanted.
nlohmann::json answer(const Flags& flags) {
  const auto answerer = models::QuestionAnswerer::load(flags.folder);
  nlohmann::json all = nlohmann::json::array();
  for (const nlohmann::json& group : read_json(flags.questions)) {
    models::AnswerOptions options;
    options.count = group.value("count", options.count);
    options.longest = group.value("longest", options.longest);
    options.may_be_empty = group.value("may_be_empty", options.may_be_empty);
    options.stride = group.value("stride", options.stride);
    options.max_length = group.value("max_length", options.max_length);
    const std::vector<std::string> questions = group.at("questions"), contexts = group.at("contexts");
    if (options.count == 1)
      for (const models::Answer& best : answerer(questions, contexts, options)) all.push_back(to_json({best}));
    else
      for (std::size_t i = 0; i < questions.size(); ++i)
        all.push_back(to_json(answerer.best(questions[i], contexts.at(i), options)));
  }
  return {{"answers", all}};
}

// Returns the peak resident memory of the process in bytes.
double peak_bytes() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);)
    if (line.starts_with("VmHWM:")) return 1024 * std::stod(line.substr(6));
  fail("/proc/self/status has no VmHWM");
}

nlohmann::json load(const Flags& flags) {
  const auto begin = Clock::now();
  const auto classify = models::TextClassifier::load(flags.folder);
  return {{"seconds", seconds_since(begin)}, {"peak_bytes", peak_bytes()}, {"classes", classify.labels().size()}};
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) {
  using namespace heddle::bench;
  Flags flags;
  CLI::App app("Runs the model of a Hugging Face folder and prints one JSON object; embed prints lines of numbers");
  app.require_subcommand(1);
  const auto add = [&](const char* name, const char* text, auto run) {
    CLI::App* const command = app.add_subcommand(name, text);
    command->add_option("folder", flags.folder, "Folder of the model")->required();
    command->add_option("--threads", flags.threads, "Threads")->check(CLI::Range(1, 1024))->capture_default_str();
    command->callback([&flags, run] {
      heddle::set_threads(flags.threads);
      run();
    });
    return command;
  };
  const auto add_precise = [&](const char* name, const char* text, auto run) {
    CLI::App* const command = add(name, text, [&flags, run] {
      const nlohmann::json result = flags.precision == "bf16" ? run(heddle::bf16()) : run(float());
      std::printf("%s\n", result.dump().c_str());
    });
    command->add_option("--precision", flags.precision, "Type of activations")->check(CLI::IsMember({"fp32", "bf16"}));
    return command;
  };
  const auto add_batches = [&](CLI::App* command) {
    command->add_option("--batches", flags.batches, "JSON array of {\"ids\": [[…], …], \"types\": [[…], …]}")
        ->required();
    return command;
  };
  const auto add_calls = [&](CLI::App* command) {
    command->add_option("--calls", flags.calls, "Timed calls")->check(CLI::Range(1, 1 << 20))->capture_default_str();
    return command;
  };
  add_calls(
      add_batches(add_precise("forward", "Times the forward pass", [&]<class A>(A) { return forward<A>(flags); })));
  add_calls(add_batches(add_precise("step", "Times the training step", [&]<class A>(A) { return step<A>(flags); })));
  add_batches(add_precise("logits", "Prints the logits of each text", [&]<class A>(A) { return logits<A>(flags); }));
  add_calls(add_precise("latency", "Times the forward pass of one text", [&]<class A>(A) { return latency<A>(flags); }))
      ->add_option("--tokens", flags.tokens, "Tokens of the text")
      ->check(CLI::Range(1, 512))
      ->capture_default_str();
  add("embed", "Prints the vector of each line of the standard input", [&] { embed(flags); });
  add("answer", "Prints the answers to questions", [&] { std::puts(answer(flags).dump().c_str()); })
      ->add_option("--questions", flags.questions,
                   "JSON array of {\"questions\": […], \"contexts\": […]} and members of AnswerOptions")
      ->required();
  add("load", "Prints the time and the peak memory of loading", [&] { std::puts(load(flags).dump().c_str()); });
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::Error& e) {
    std::fprintf(stderr, "bert_program: error: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "bert_program: error: %s\n", e.what());
    return 1;
  }
}
