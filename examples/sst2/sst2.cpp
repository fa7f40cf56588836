// sst2: trains, evaluates and applies the encoder classifier on SST-2.
#include <cstdio>
#include <heddle/data/tsv.hpp>

#include "../common/text.hpp"
#include "../common/trainer.hpp"
#include "model.hpp"

namespace heddle::examples {
namespace {

constexpr const char* program = "sst2";
constexpr int classes = 2;
constexpr std::size_t rows_at_once = 256;  // of --predict

struct LabelledTexts {
  std::vector<std::string> texts;
  std::vector<int> labels;
};

LabelledTexts read_split(const std::string& path, Index limit) {
  const data::Table table = data::read_tsv(path);
  for (const std::string& sentence : table.notes.sentences()) note(path + ": " + sentence);
  const std::size_t sentence = table.column("sentence"), label = table.column("label");
  LabelledTexts split;
  const std::size_t rows = limit ? std::min(table.rows(), static_cast<std::size_t>(limit)) : table.rows();
  require<FileError>(rows > 0, io::printable(path), ": has no rows");
  for (std::size_t row = 0; row < rows; ++row) {
    const std::string_view l = table[row][label];
    require<FileError>(l == "0" || l == "1", table.where(row), ": the label is ", io::quoted_name(l),
                       ", it must be 0 or 1");
    split.texts.emplace_back(table[row][sentence]);
    split.labels.push_back(l == "1");
  }
  return split;
}

Sst2Model make_model(const ModelSizes& s, Index vocabulary, const TrainerFlags& flags) {
  Random random(flags.seed, stream(Stream::init));
  return Sst2Model({.vocabulary = vocabulary,
                    .max_length = s.max_length,
                    .d_model = s.d_model,
                    .heads = s.heads,
                    .head_dim = s.head_dim,
                    .ff_width = s.ff_width,
                    .layers = s.layers,
                    .classes = classes,
                    .dropout = flags.dropout},
                   random);
}

// The data set, its vocabulary, and the model's sizes: of the folder of an earlier run where there is one.
struct Setup {
  std::string data, vocab;
  ModelSizes sizes;
  bool uncased;
  std::string tokens = {};  // what `vocab` holds, read once: it may be a pipe
  Index vocabulary = 0;     // tokens that the model was made for; 0: it is yet to be made
};

text::WordPiece make_tokenizer(const Setup& setup, const TrainerFlags& flags) {
  text::Vocabulary vocabulary = read_vocabulary(setup.tokens, setup.vocab);
  require<FileError>(setup.vocabulary == 0 || setup.vocabulary == vocabulary.size(),
                     io::printable(flags.out + "/config.json"), ": 'vocab_size' is ", setup.vocabulary, ", but ",
                     vocabulary.name(), " has ", vocabulary.size(), " tokens");
  return text::WordPiece(std::move(vocabulary),
                         {.uncased = setup.uncased, .max_length = static_cast<std::size_t>(setup.sizes.max_length)});
}

Setup set_up(const TrainerFlags& flags, bool trained) {
  Setup setup{flags.data.empty() ? HEDDLE_SAMPLE : flags.data, flags.vocab, flags.sizes, flags.uncased};
  if (setup.sizes.ff_width == 0) setup.sizes.ff_width = 4 * setup.sizes.d_model;
  if (trained && !flags.out.empty() && exists(flags.out + "/config.json")) {
    const SavedConfig saved = read_config(flags.out + "/config.json", program);
    require_agreement(flags, saved);
    require<FileError>(saved.classes == classes, io::printable(flags.out + "/config.json"), ": the model has ",
                       saved.classes, " classes, ", program, " has ", classes);
    setup.sizes = saved.sizes;
    setup.uncased = saved.uncased;
    setup.vocabulary = saved.vocabulary;
    if (setup.vocab.empty()) setup.vocab = flags.out + "/vocab.txt";
  }
  const bool data_needed = flags.predict.empty() || setup.vocab.empty();
  require<FileError>(!data_needed || is_folder(setup.data), io::printable(setup.data),
                     ": is no folder; --data needs one");
  if (setup.vocab.empty()) setup.vocab = setup.data + "/vocab.txt";
  require<FileError>(exists(setup.vocab), io::printable(setup.vocab),
                     ": there is no such vocabulary; give one with --vocab");
  setup.tokens = io::read_file(setup.vocab);
  return setup;
}

void load_trained(Sst2Model& model, const TrainerFlags& flags) {
  const std::string file = flags.out + "/model.safetensors";
  require<FileError>(!flags.init.empty() || exists(file) || !exists(flags.out + "/pytorch_model.bin"),
                     io::printable(file),
                     ": is not there; the pytorch_model.bin beside it is a pickle, which is not read");
  load_weights(model, flags.init.empty() ? file : flags.init);
}

template <class A>
void predict(const TrainerFlags& flags) {
  const Setup setup = set_up(flags, true);
  const text::WordPiece tokenizer = make_tokenizer(setup, flags);
  Sst2Model model = make_model(setup.sizes, tokenizer.vocabulary().size(), flags);
  load_trained(model, flags);
  to(model, flags.place());
  const std::vector<std::string> lines = read_texts(flags.predict);
  const EncodedTexts encoded = encode(tokenizer, lines, std::vector<int>(lines.size(), 0));
  if (encoded.truncated)
    note(std::to_string(encoded.truncated) + " texts were truncated to " + std::to_string(setup.sizes.max_length) +
         " tokens");
  const NoGrad quiet;
  data::Batches batches(encoded.rows.count(), rows_at_once, data::Order::sequential);
  for (Index number = 0; number < batches.per_epoch(); ++number) {
    const data::Batch batch = encoded.rows.batch(batches(0, number)).to(flags.place());
    const Tensor<double> z = cast<double>(logits<A>(model, batch).to(Device::cpu)), p = softmax(z, -1);
    for (Index b = 0; b < z.dim(0); ++b) {
      if (!std::isfinite(z.data()[b * classes] + z.data()[b * classes + 1]))
        throw RunFailed("line " + std::to_string(number * static_cast<Index>(rows_at_once) + b + 1) +
                        ": the model's scores are not finite");
      print_prediction({(flags.logits ? z : p).data() + b * classes, classes});
    }
  }
}

void print_start(const Splits& splits, const text::WordPiece& tokenizer, const EncodedTexts& train,
                 const EncodedTexts& valid, const Sst2Model& model, Index max_length) {
  std::printf("rows        %lld training, %lld validation\n", static_cast<long long>(splits.train.count()),
              static_cast<long long>(splits.valid.count()));
  std::printf("classes     %d\n", splits.classes);
  std::printf("vocabulary  %d tokens\n", tokenizer.vocabulary().size());
  std::printf("longest     %lld tokens, %lld texts truncated to %lld\n",
              static_cast<long long>(std::max(train.longest, valid.longest)),
              static_cast<long long>(train.truncated + valid.truncated), static_cast<long long>(max_length));
  std::printf("parameters  %lld\n", static_cast<long long>(parameter_count(model)));
  std::fflush(stdout);
}

template <class A>
void run(const TrainerFlags& flags) {
  const Setup setup = set_up(flags, flags.evaluate);
  if (!flags.metrics.empty()) {
    require_own_metrics(flags, {setup.vocab, setup.data + "/train.tsv", setup.data + "/dev.tsv", flags.init});
    require_metrics(flags.metrics);
  }
  std::optional<OutFolder> out;
  if (!flags.out.empty() && !flags.evaluate) out.emplace(flags.out, program, flags.resume);
  const LabelledTexts train_texts = read_split(setup.data + "/train.tsv", flags.train_rows);
  const LabelledTexts valid_texts = read_split(setup.data + "/dev.tsv", flags.valid_rows);
  require<FileError>(flags.evaluate || std::set(train_texts.labels.begin(), train_texts.labels.end()).size() == classes,
                     io::printable(setup.data + "/train.tsv"), ": the ", train_texts.labels.size(),
                     " rows to train on hold a single class; two are needed");
  const text::WordPiece tokenizer = make_tokenizer(setup, flags);
  EncodedTexts train_rows = encode(tokenizer, train_texts.texts, train_texts.labels);
  EncodedTexts valid_rows = encode(tokenizer, valid_texts.texts, valid_texts.labels);
  Sst2Model model = make_model(setup.sizes, tokenizer.vocabulary().size(), flags);
  if (flags.evaluate) load_trained(model, flags);
  to(model, flags.place());

  Splits splits;
  splits.train = std::move(train_rows.rows);
  splits.valid = std::move(valid_rows.rows);
  if (!flags.evaluate && flags.batch_size > splits.train.count())
    note("--batch-size " + std::to_string(flags.batch_size) + " is more than the " +
         std::to_string(splits.train.count()) + " rows to train on, which make one batch");
  const auto print = [&] { print_start(splits, tokenizer, train_rows, valid_rows, model, setup.sizes.max_length); };
  if (flags.evaluate) {
    print();
    MetricsFile metrics(flags.metrics);
    report<A>(model, splits, flags, metrics);
    return;
  }
  Training<A, Sst2Model> training(model, splits, flags, setup.sizes, out ? &*out : nullptr,
                                  {{"--vocab", io::hex(io::crc64(setup.tokens))}});
  MetricsFile metrics(flags.metrics);
  const Start start = flags.resume ? training.resume(metrics) : Start::anew;
  if (start == Start::finished) return;
  if (start == Start::anew) {
    if (!flags.init.empty()) load_weights(model, flags.init);
    metrics.begin(flags.resume && out->began_with(flags.metrics));
  }
  if (out) {
    describe_model(*out, program, {setup.sizes, tokenizer.vocabulary().size(), classes, setup.uncased}, setup.tokens);
    out->begin_with(flags.metrics);
  }
  print();
  training.run(metrics);
}

}  // namespace
}  // namespace heddle::examples

int main(int argc, char** argv) {
  using namespace heddle::examples;
  return run_program(program, [&] {
    const ParsedFlags parsed =
        parse_flags(argc, argv, "Trains an encoder classifier on SST-2, evaluates and applies it.", {});
    if (parsed.exit) return;
    const TrainerFlags& flags = parsed.flags;
    const bool bf16_rows = flags.precision == "bf16";
    if (!flags.predict.empty())
      bf16_rows ? predict<heddle::bf16>(flags) : predict<float>(flags);
    else
      bf16_rows ? run<heddle::bf16>(flags) : run<float>(flags);
  });
}
