// A trainer: one program that trains, evaluates and predicts. A system provides
//   static constexpr const char *name, *description, *sample   the program, and the folder of its sample
//   using Model                                                see training.hpp
//   struct Flags { OwnFlags saved; void add(CLI::App&); static std::vector<std::string> choices(); }
//                                                              its own flags; `saved`: those of the model, with values
//                                                              among choices()
//   static TrainerFlags defaults()
//   System(const Setup&, const Flags&)                         reads what prediction needs, such as a vocabulary
//   ModelSizes sizes() const; Index vocabulary() const; std::vector<std::string> labels() const
//   TextSplits read_splits()
//   EncodedTexts encode(const std::vector<std::string>&) const for --predict
//   Model make_model(Random&) const
// and may provide
//   static constexpr bool drop_last                            whether training skips a smaller last batch
//   static constexpr const char* unused_flags[]                common flags that it refuses
//   std::map<std::string, std::string> files() const           files of --out by name; called after read_splits()
//   train::RunSettings settings() const                        what decides the result besides flags and rows
//   std::string model_config() const                           members of config.json for other programs, as a JSON
//                                                              object
//   bool is_uncased() const                                    whether text is lower-cased; default: --uncased
//   static constexpr bool free_length                          if declared, --max-length may be changed for a trained
//                                                              model
//   void print_prediction(const std::string& text, std::span<const double> logits) const   prints what --predict
//                                                              reports of a text; default: classes. `logits` are those
//                                                              of the text, or, with `static constexpr bool
//                                                              labels_tokens`, of its tokens
//   void print_targets() const                                 prints the targets of the rows, at the start
//   after_step<A>(model, step, events), at_end<A>(splits, scores, out)   see TrainingOptions
#pragma once
#include "text.hpp"
#include "training.hpp"

namespace heddle::examples {

// The encoded texts of a split.
struct SplitTexts {
  data::Corpus rows;
  Index longest = 0;                  // tokens of the longest text, before truncation
  std::optional<Index> truncated{0};  // number of truncated texts, if it is known

  SplitTexts() = default;
  SplitTexts(EncodedTexts texts) { add(std::move(texts)); }
  // Takes the first texts of a token file; `limit` 0 is no limit.
  SplitTexts(const data::TokenFile& file, data::TokenFileRows texts, Index limit) {
    if (limit > 0) texts.last = std::min(texts.last, limit);
    add(file, texts);
  }

  void add(EncodedTexts texts, double weight = 1) {
    longest = std::max(longest, texts.longest);
    if (truncated) *truncated += texts.truncated;
    rows.add(std::move(texts.rows), weight);
  }
  void add(const data::TokenFile& file, const data::TokenFileRows& texts, double weight = 1) {
    longest = std::max(longest, file.longest());
    if (file.longest() > texts.max_length) truncated.reset();
    rows.add(file, texts, weight);
  }
};
struct TextSplits {
  SplitTexts train, valid, test;
};

// The input of a system's constructor: the flags, and the configuration of an earlier run if its model is used.
struct Setup {
  const TrainerFlags& flags;
  std::string data;  // the folder
  std::optional<SavedConfig> saved;
  // The saved values if there are any, otherwise those of the flags.
  ModelSizes sizes;
  bool uncased;
  std::uint64_t seed;

  // Returns the beginning of an error about a size: the file that has the saved sizes.
  std::string source() const { return saved ? io::printable(flags.out + "/config.json") + ": " : ""; }
};

// Returns "a", "a or b", or "a, b or c".
inline std::string alternatives(const std::vector<std::string>& words) {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i)
    text += (i == 0 ? "" : i + 1 == words.size() ? " or " : ", ") + words[i];
  return text;
}

// Throws FileError for a saved value that the flag cannot have.
inline void require_one_of(const std::string& file, const std::string& name, const std::string& value,
                           const std::vector<std::string>& choices) {
  require<FileError>(std::find(choices.begin(), choices.end(), value) != choices.end(), io::printable(file), ": '",
                     name, "' is ", io::quoted_name(value), " but must be ", alternatives(choices));
}

// Returns the setup, and sets a program's own flags to their saved values. Throws Error for a flag that
// differs from them.
template <class System>
Setup set_up(const TrainerFlags& flags, typename System::Flags& own, bool trained) {
  if constexpr (requires { System::unused_flags; })
    for (const char* flag : System::unused_flags)
      require(!flags.is_given(flag), flag, ": ", System::name, " has no use for this flag");
  Setup setup{flags,     flags.data.empty() ? System::sample : flags.data, std::nullopt, flags.sizes, flags.uncased,
              flags.seed};
  const bool is_saved = trained && !flags.out.empty() && io::path_exists(flags.out + "/config.json");
  require<FileError>(is_saved || !trained || !flags.init.empty() || !io::path_exists(flags.out + "/model.safetensors"),
                     io::printable(flags.out + "/config.json"), ": is missing, so the model beside it cannot be made");
  require<FileError>(is_saved || !trained || flags.out.empty() || (flags.model.empty() && !flags.init.empty()),
                     io::printable(flags.out), ": has no model (config.json)",
                     !flags.model.empty() ? "; leave out --out to apply the model in --model"
                     : io::path_exists(flags.out + "/pytorch_model.bin")
                         ? "; its pytorch_model.bin is a pickle, which heddle does not read"
                         : "");
  if (is_saved) {
    setup.saved = read_config(flags.out + "/config.json", System::name, own.saved);
    TrainerFlags compared = flags;
    if constexpr (requires { System::free_length; }) compared.given.erase("--max-length");
    require_agreement(compared, *setup.saved);
    setup.sizes = setup.saved->sizes;
    require(!flags.is_given("--seed") || !flags.evaluate || flags.seed == setup.saved->seed, "--seed is ", flags.seed,
            "; the model in ", io::printable(flags.out), " was trained with ", setup.saved->seed);
    setup.uncased = setup.saved->uncased;
    setup.seed = setup.saved->seed;
    for (const auto& [flag, value] : setup.saved->own) {
      require_one_of(flags.out + "/config.json", flag, value, System::Flags::choices());
      require(!flags.is_given("--" + flag) || own.saved[flag] == value, "--", flag, " is ", own.saved[flag],
              "; the model in ", io::printable(flags.out), " has ", value);
      own.saved[flag] = value;
    }
  }
  require<FileError>(!flags.predict.empty() || io::is_folder(setup.data), io::printable(setup.data),
                     ": is not a folder; --data needs one");
  return setup;
}

// Throws Error for a size that differs from the only one that the system supports. `flag` is its name in the message.
inline void require_size(const Setup& setup, const char* flag, Index value, Index only) {
  require(value == only, setup.source(), flag, " is ", value, " but must be ", only);
}

// Throws FileError for a class whose name would break a line of labels.txt. `path` is where the names were read, for
// the message.
inline void require_printable(const std::vector<std::string>& labels, const std::string& path) {
  for (const std::string& label : labels)
    require<FileError>(label == io::printable(label), io::printable(path), ": the class ", io::quoted_name(label),
                       " has a name with invalid bytes or control characters");
}

// Returns the content of config.json. Throws FileError for a class whose name would break a line of labels.txt.
template <class System>
SavedConfig config_of(const System& system, const Setup& setup, const OwnFlags& own) {
  require_printable(system.labels(), setup.data);
  bool is_uncased = setup.uncased;
  if constexpr (requires { system.is_uncased(); }) is_uncased = system.is_uncased();
  return {system.sizes(), system.vocabulary(), system.labels(), is_uncased, setup.seed, own};
}

template <class System>
typename System::Model make_model(const System& system, const TrainerFlags& flags) {
  Random random(flags.seed, stream(Stream::init));
  return system.make_model(random);
}

// Loads the weights of --init, otherwise those of the model in --out. If there is neither, the model keeps those of
// --model.
template <class Model>
void load_trained(Model& model, const Setup& setup) {
  const TrainerFlags& flags = setup.flags;
  if (flags.init.empty() && !setup.saved && !flags.model.empty()) return;
  const std::string file = flags.out + "/model.safetensors";
  require<FileError>(!flags.init.empty() || io::path_exists(file) || !io::path_exists(flags.out + "/pytorch_model.bin"),
                     io::printable(file),
                     ": does not exist; the pytorch_model.bin beside it is a pickle, which heddle does not read");
  load_weights(model, flags.init.empty() ? file : flags.init);
}

template <class System>
constexpr bool prints_predictions = requires(const System& system, const std::string& text,
                                             std::span<const double> logits) {
  system.print_prediction(text, logits);
};

template <class A, class System>
void predict(const TrainerFlags& flags, typename System::Flags& own) {
  // The limits of a batch. A text of more tokens is a batch by itself.
  constexpr Index most_rows = 256, most_tokens = 8192;
  const Setup setup = set_up<System>(flags, own, true);
  const System system(setup, own);
  auto model = make_model(system, flags);
  load_trained(model, setup);
  to(model, flags.target_device());
  const std::vector<std::string> texts = read_texts(flags.predict);
  const EncodedTexts encoded = system.encode(texts);
  if (encoded.truncated)
    note(std::to_string(encoded.truncated) + (encoded.truncated == 1 ? " text was" : " texts were") + " truncated to " +
         std::to_string(system.sizes().max_length) + " tokens");
  const NoGrad quiet;
  for (Index first = 0, last = 0; first < encoded.rows.count(); first = last) {
    std::vector<Index> rows;
    Index tokens = 0;
    do {
      tokens += encoded.rows.length(last);
      rows.push_back(last++);
    } while (last < encoded.rows.count() && std::ssize(rows) < most_rows &&
             tokens + encoded.rows.length(last) <= most_tokens);
    const data::Batch batch = encoded.rows.batch(rows).to(flags.target_device());
    const Tensor<double> z = cast<double>(logits<A>(model, batch).to(Device::cpu)), p = softmax(z, -1);  // [B, C]
    const Index C = z.dim(1);
    constexpr bool labels_tokens = requires { System::labels_tokens; };
    for (Index b = 0; b < batch.sequences.count(); ++b) {
      const auto text = static_cast<std::size_t>(b);
      const Index row = labels_tokens ? batch.sequences.begins()[text] : b;
      const Index count = labels_tokens ? batch.sequences.lengths()[text] : 1;
      const std::span of_text(z.data() + row * C, static_cast<std::size_t>(count * C));
      require<train::RunFailed>(std::all_of(of_text.begin(), of_text.end(), [](double x) { return std::isfinite(x); }),
                                flags.predict == "-" ? "standard input" : io::printable(flags.predict), ':',
                                first + b + 1, ": the model's logits are not finite");
      if constexpr (prints_predictions<System>)
        system.print_prediction(texts[static_cast<std::size_t>(first + b)], of_text);
      else
        print_prediction({(flags.logits ? z : p).data() + row * C, static_cast<std::size_t>(C)});
    }
  }
}

// Prints how many training and validation rows have each name. `kind` is what the names are, and `unit` what is counted
// instead of rows.
inline void print_counts(const char* kind, const std::vector<std::string>& names, const std::vector<Index>& train,
                         const std::vector<Index>& valid, const char* unit = "") {
  for (std::size_t i = 0; i < names.size(); ++i)
    std::printf("%-11s %s: %lld training, %lld validation%s\n", kind, names[i].c_str(),
                static_cast<long long>(train[i]), static_cast<long long>(valid[i]), unit);
}

// Prints the rows of each class, and a note for the classes that only the training or only the validation rows have.
inline void print_classes(const Splits& splits, const std::vector<std::string>& names) {
  const auto counts_of = [&](const data::Corpus& rows) {
    std::vector<Index> counts(names.size());
    for (Index row = 0; row < rows.count(); ++row) ++counts[static_cast<std::size_t>(rows.label(row))];
    return counts;
  };
  const std::vector<Index> train = counts_of(splits.train), valid = counts_of(splits.valid);
  std::vector<std::string> without_train, without_valid;
  print_counts("class", names, train, valid);
  for (std::size_t i = 0; i < names.size(); ++i) {
    if (train[i] == 0 && valid[i] > 0) without_train.push_back(names[i]);
    if (valid[i] == 0 && train[i] > 0) without_valid.push_back(names[i]);
  }
  const auto print = [&](const std::vector<std::string>& classes, const char* rows, const char* others) {
    if (classes.empty()) return;
    note(std::to_string(classes.size()) + (classes.size() == 1 ? " class has " : " classes have ") + rows +
         " rows but no " + others + " rows: " + shortened(classes));
  };
  for (std::size_t i = 0; names.size() > 2 && i < names.size(); ++i)
    if (2 * train[i] > splits.train.count())
      note(std::to_string(train[i]) + " of the " + std::to_string(splits.train.count()) +
           " training rows are of class " + names[i]);
  print(without_train, "validation", "training");
  print(without_valid, "training", "validation");
}

// Prints the sizes of the data and the model.
template <class System, class Model>
void print_start(const System& system, const Splits& splits, const TextSplits& texts, const SavedConfig& config,
                 const Model& model) {
  const auto number = [](Index n) { return static_cast<long long>(n); };
  std::printf("rows        %lld training, %lld validation", number(splits.train.count()), number(splits.valid.count()));
  if (splits.test.count() > 0) std::printf(", %lld test", number(splits.test.count()));
  std::printf("\n");
  if (!has_targets<Model>) {
    std::printf("classes     %lld\n", number(static_cast<Index>(config.labels.size())));
    print_classes(splits, config.labels);
  }
  if constexpr (requires { system.print_targets(); }) system.print_targets();
  std::printf("vocabulary  %lld tokens\n", number(config.vocabulary));
  std::printf("longest     %lld tokens, ",
              number(std::max({texts.train.longest, texts.valid.longest, texts.test.longest})));
  if (texts.train.truncated && texts.valid.truncated)
    std::printf("%lld texts truncated",
                number(*texts.train.truncated + *texts.valid.truncated + *texts.test.truncated));
  else
    std::printf("longer texts are truncated");
  std::printf(" to %lld\n", number(config.sizes.max_length));
  std::printf("parameters  %lld\n", number(parameter_count(model)));
  std::fflush(stdout);
}

// Draws the lengths of the training texts, or of many of them.
inline void plot_lengths(const OutFolder& out, const data::Corpus& rows) {
  constexpr Index most = 100'000;
  const Index every = rows.is_in_memory() ? 1 : rows.count() / most + 1;
  std::vector<double> lengths;
  for (Index row = 0; row < rows.count(); row += every) lengths.push_back(static_cast<double>(rows.ids(row).size()));
  io::write_atomically(out.file("lengths.svg"),
                       train::histogram_chart("Length of the training texts", "tokens", lengths));
}

// Prints a confusion matrix with precision, recall and F1 of each class, and draws it in --out.
inline void report_confusion(const train::ConfusionMatrix& confusion, const std::vector<std::string>& names,
                             const OutFolder* out) {
  const std::string table = to_text(confusion, names);
  std::printf("\n%s", table.c_str());
  if (!out) return;
  io::write_atomically(out->file("confusion.txt"), table);
  io::write_atomically(out->file("confusion.svg"),
                       train::matrix_chart("Confusion matrix", "class", "predicted class", names, confusion.counts()));
}

template <class A, class System>
void run(const TrainerFlags& flags, typename System::Flags& own) {
  using Model = typename System::Model;
  const Setup setup = set_up<System>(flags, own, flags.evaluate);
  System system(setup, own);
  const SavedConfig config = config_of(system, setup, own.saved);
  if (!flags.metrics.empty()) require_own_metrics(flags);
  const Processes& processes = Processes::all();
  std::optional<OutFolder> out;  // only the first process has it
  processes.on_first([&] {
    if (!flags.out.empty() && !flags.evaluate) out.emplace(flags.out, System::name, flags.resume);
  });
  TextSplits texts = system.read_splits();
  Model model = make_model(system, flags);
  if (flags.evaluate) load_trained(model, setup);
  to(model, flags.target_device());

  const Splits splits{std::move(texts.train.rows), std::move(texts.valid.rows), std::move(texts.test.rows),
                      static_cast<int>(config.labels.size())};
  require<FileError>(splits.valid.count() > 0, io::printable(setup.data), ": has no rows left to validate on");
  TrainingOptions<Model> options;
  if constexpr (requires { System::drop_last; }) options.drop_last = System::drop_last;
  if (!flags.evaluate && !options.drop_last && flags.step_rows() > splits.train.count())
    note("--batch-size " + std::to_string(flags.batch_size) +
         (flags.accumulate > 1 ? " with --accumulate " + std::to_string(flags.accumulate) : "") + " is more than the " +
         std::to_string(splits.train.count()) + " rows to train on, which make one batch");
  if constexpr (requires { system.settings(); }) options.settings = system.settings();
  for (const auto& [flag, value] : own.saved) options.settings["--" + flag] = value;
  if (processes.size() > 1) {
    io::Crc64 crc;
    for (const train::RunSettings& some : {run_settings(flags, config.sizes), options.settings})
      for (const auto& [name, value] : some) crc.add(name + '=' + value + '\n');
    crc.add(fingerprint(splits));
    processes.require_same(crc.value(), "has other files or other data");
  }
  std::optional<train::MetricsFile> metrics;
  processes.on_first([&] { metrics.emplace(flags.metrics); });
  if (!metrics) metrics.emplace("");
  if (flags.evaluate) {
    distributed::broadcast(model, processes.communicator());
    print_start(system, splits, texts, config, model);
    report<A>(model, splits, flags, *metrics);
    return;
  }
  if constexpr (requires(train::EventWriter & events) { system.template after_step<A>(model, Index{}, events); })
    options.after_step = [&](const Model& m, Index step, train::EventWriter& events) {
      system.template after_step<A>(m, step, events);
    };
  if constexpr (requires(FinalScores & scores) { system.template at_end<A>(splits, scores, &*out); })
    options.at_end = [&](const FinalScores& scores) {
      system.template at_end<A>(splits, scores, out ? &*out : nullptr);
    };
  Training<A, Model> training(model, splits, flags, config.sizes, out ? &*out : nullptr, std::move(options));
  const auto describe = [&] {
    std::map<std::string, std::string> files;
    if constexpr (requires { system.files(); }) files = system.files();
    std::string model_config;
    if constexpr (requires { system.model_config(); }) model_config = system.model_config();
    describe_model(*out, System::name, config, std::move(files), model_config);
  };
  const Start start = flags.resume ? training.resume(*metrics, describe) : Start::from_beginning;
  if (start == Start::finished) return;
  if (start == Start::from_beginning) {
    if (!flags.init.empty()) load_weights(model, flags.init);
    processes.on_first([&] { metrics->begin(flags.resume && out->began_with(flags.metrics)); });
  }
  processes.on_first([&] {
    if (!out) return;
    describe();
    out->begin_with(flags.metrics);
    if (flags.plot) plot_lengths(*out, splits.train);
  });
  print_start(system, splits, texts, config, model);
  training.run(*metrics);
}

// Runs a trainer's main().
template <class System>
int trainer(int argc, char** argv) {
  const auto work = [&] {
    Processes& processes = Processes::all();
    processes.start(argc, argv);
    typename System::Flags own;
    ParsedFlags parsed =
        parse_flags(argc, argv, System::description, System::defaults(), [&](CLI::App& app) { own.add(app); });
    if (parsed.exit) return;
    TrainerFlags& flags = parsed.flags;
    const Index enough = heddle::detail::power_of_two(processes.size());
    if (flags.shards == 0) flags.shards = enough;
    require(flags.shards >= enough, "--shards ", flags.shards, " is less than the ", processes.size(), " processes");
    processes.share_processors(flags.threads == 0);
    const Processes::OnGpus on_gpus(processes, flags.target_device() == Device::cuda);
    const bool bf16_rows = flags.precision == "bf16";
    if (!flags.predict.empty()) {
      if (!processes.is_first()) return;
      if constexpr (has_targets<typename System::Model> && !prints_predictions<System>)
        fail("--predict needs a classifier");
      else
        bf16_rows ? predict<bf16, System>(flags, own) : predict<float, System>(flags, own);
    } else {
      bf16_rows ? run<bf16, System>(flags, own) : run<float, System>(flags, own);
    }
  };
  return run_program(System::name, work, Launch::together);
}

}  // namespace heddle::examples
