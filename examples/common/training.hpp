// The training loop of every system. A model provides a static visit() and
//   template <class A> Tensor<A> forward(const Tensor<int>& ids, const Sequences&, Random*) const   logits [B, C]
// or the forward() of models/, or, if it is trained on targets other than the batch's labels,
//   auto inputs_of(const data::Batch&, Random&) const       the inputs, with labels [M] (see evaluate.hpp)
//   template <class A> Tensor<A> forward(const Inputs&, Random*) const                              logits [M, C]
//   Inputs filled(const Inputs&, Index most)                as data::filled(), found by the type of the inputs
//   Inputs part(const Inputs&, const BatchPart&)            as data::part(), found likewise
// and may provide, if its task is not to choose one of several classes,
//   Tensor<float> loss(const Tensor<float>& logits, const Inputs&) const       the mean over the inputs' labels
//   Tensor<Index> predicted(const Tensor<float>& logits, const Inputs&) const  [M] compared with the labels
//   bool has_accuracy() const                               whether the rows predicted correctly are reported
//   auto tally(const data::Corpus& split, Index rows) const   counts the results on a split, as ClassTally
#pragma once
#include <exception>
#include <functional>
#include <variant>

#include <heddle/autograd/cuda_graph.hpp>
#include <heddle/distributed/gradients.hpp>
#include <heddle/distributed/sharded_state.hpp>
#include <heddle/train/charts.hpp>
#include <heddle/train/progress.hpp>
#include <heddle/train/run_checkpoints.hpp>
#include <heddle/train/tensorboard.hpp>

#include "evaluate.hpp"
#include "out_folder.hpp"
#include "processes.hpp"
#include "run_settings.hpp"
#include "signals.hpp"

namespace heddle::examples {

// The optimizer that the flags name.
class Optimizer {
 public:
  template <class M>
  Optimizer(M& model, const TrainerFlags& f) : optimizer_(make(model, f)) {}
  void step(const optim::StepOptions& settings) {
    std::visit([&](auto& o) { o.step(settings); }, optimizer_);
  }
  optim::Slots& state() {
    return std::visit([](auto& o) -> optim::Slots& { return o.state(); }, optimizer_);
  }

 private:
  using Any = std::variant<optim::Sgd, optim::Adam, optim::AdamW>;
  template <class M>
  static Any make(M& model, const TrainerFlags& f) {
    const double decay = f.weight_decay.value_or(0);
    if (f.optimizer == "sgd") return optim::Sgd(model, {.lr = f.lr, .momentum = f.momentum, .weight_decay = decay});
    if (f.optimizer == "adam") return optim::Adam(model, {.lr = f.lr, .weight_decay = decay});
    optim::AdamWOptions options{.lr = f.lr};
    options.weight_decay = f.weight_decay.value_or(options.weight_decay);
    return optim::AdamW(model, options);
  }
  Any optimizer_;
};

// The rows of each batch: in one order over all rows in memory, or, with token files or several sources, in windows.
class EpochBatches {
 public:
  EpochBatches(const data::Corpus& rows, const TrainerFlags& f) : batches_(make(rows, f)) {
    for (const data::Share& share : rows.shares()) rows_ += share.rows;
    if (const auto* mixed = std::get_if<data::MixedBatches>(&batches_)) rows_ = mixed->rows_per_epoch();
  }
  Index rows_per_epoch() const { return rows_; }
  Index per_epoch() const {
    return std::visit([](const auto& batches) { return batches.per_epoch(); }, batches_);
  }
  std::span<const Index> operator()(Index epoch, Index number) {
    return std::visit([&](auto& batches) { return batches(epoch, number); }, batches_);
  }

 private:
  using Any = std::variant<data::Batches, data::MixedBatches>;
  static Any make(const data::Corpus& rows, const TrainerFlags& f) {
    const data::Order order = f.order == "shuffled" ? data::Order::shuffled : data::Order::sequential;
    const std::vector<data::Share>& shares = rows.shares();
    if (rows.is_in_memory() && shares.size() <= 1 && (shares.empty() || shares[0].weight == 1))
      return data::Batches(rows.count(), f.step_rows(), order, f.seed, stream(Stream::order));
    return data::MixedBatches(shares, f.step_rows(), order, f.seed, stream(Stream::order));
  }

  Any batches_;
  Index rows_ = 0;
};

// Returns the schedule that the flags name for a run of `total` steps: the factor of the learning rate by step.
inline std::function<double(Index)> make_schedule(const TrainerFlags& f, Index total) {
  if (f.schedule == "linear") return optim::Linear{total, f.warmup};
  if (f.schedule == "cosine") return optim::Cosine{total, f.warmup};
  if (f.schedule == "step") return optim::Step{f.gamma, f.gamma_every, f.warmup};
  return optim::Constant{f.warmup};
}

// Returns a checksum of all rows.
inline std::string fingerprint(const Splits& splits) {
  return "crc64 " + fingerprint(splits.train) + fingerprint(splits.valid) + fingerprint(splits.test);
}

// The start of a run: from the beginning, from a checkpoint, or none because the run is finished.
enum class Start { from_beginning, resumed, finished };

// The parts of the loop that differ between systems.
template <class Model>
struct TrainingOptions {
  bool drop_last = false;  // the last, smaller batch of an epoch is not trained on
  train::RunSettings settings = {};
  // Called after every 100th step with the number of steps so far, if the run has a folder.
  std::function<void(const Model&, Index, train::EventWriter&)> after_step = {};
  bool is_part = false;  // the training is a part of a run whose state the caller has saved
  // Called with the final scores, before the run counts as finished.
  std::function<void(const FinalScores&)> at_end = {};
};

// Trains a model. With a folder it writes the best and the last weights there, TensorBoard's events, and checkpoints
// from which a run resumes bit for bit.
template <class A, class Model>
class Training {
 public:
  Training(Model& model, const Splits& splits, const TrainerFlags& flags, const ModelSizes& sizes, const OutFolder* out,
           TrainingOptions<Model> options)
      : model_(model),
        splits_(splits),
        flags_(flags),
        out_(out),
        options_(std::move(options)),
        optimizer_(model, flags),
        batches_(splits.train, flags),
        per_epoch_(
            require_batches(options_.drop_last ? batches_.rows_per_epoch() / flags.step_rows() : batches_.per_epoch())),
        schedule_(make_schedule(flags, total_steps())),
        progress_(processes_.is_first() ? flags.progress : "none") {
    if (!out) return;
    train::RunSettings settings = run_settings(flags, sizes);
    settings.insert(options_.settings.begin(), options_.settings.end());
    settings["--data"] = fingerprint(splits);
    checkpoints_.emplace(out->path(), model, optimizer_.state(), std::move(settings), note);
  }

  // Resumes the run in the folder, and its metrics. Calls check() before anything is changed. Throws FileError for
  // metrics that are not the run's. The first process reads the checkpoint for all.
  template <class Check>
  Start resume(train::MetricsFile& metrics, Check check) {
    Start start{};
    processes_.on_first([&] { start = resume_here(metrics, check); });
    const distributed::Communicator& communicator = processes_.communicator();
    communicator.broadcast(std::span(&start, 1));
    if (start != Start::resumed || communicator.size() == 1) return start;
    train::RunSettings none;
    const std::string text = communicator.broadcast(to_json(state_, {}).dump());
    if (!processes_.is_first()) state_ = train::read_state(nlohmann::json::parse(text), none, "the first process");
    if (!flags_.shard_optimizer) distributed::broadcast(optimizer_.state(), communicator);  // otherwise run() does it
    return start;
  }

  // Trains up to the last epoch or step, and returns the final scores. Throws RunFailed, and Stopped after a signal.
  FinalScores run(train::MetricsFile& metrics) {
    metrics_ = &metrics;
    distributed::broadcast(model_, processes_.communicator());
    if (flags_.shard_optimizer && processes_.size() > 1) {
      sharded_.emplace(optimizer_.state(), processes_.communicator());
      std::printf("optimizer   state of %lld of %lld weights in this process\n",
                  static_cast<long long>(sharded_->own_size()), static_cast<long long>(sharded_->size()));
    }
    if (out_) {
      events_.emplace(out_->path(), state_.events, state_.step + 1);
      for (const std::string& sentence : events_->notes()) note(sentence);
    }
    while (more()) {
      for (; state_.batch < per_epoch_ && !enough_steps(); after_step()) step();
      end_epoch();
    }
    if (!graph_.failure().empty()) note("some steps were not replayed as CUDA graphs: " + graph_.failure());
    FinalScores scores = report<A>(model_, splits_, flags_, *metrics_);
    if (options_.at_end) options_.at_end(scores);
    if (events_) events_->sync();
    const auto whole = whole_state();
    if (checkpoints_) checkpoints_->finish(state_);
    return scores;
  }

 private:
  static constexpr Index report_every = 10;       // steps between two reports to TensorBoard
  static constexpr Index after_step_every = 100;  // steps between two calls of TrainingOptions::after_step

  // Resumes the run in this process.
  template <class Check>
  Start resume_here(train::MetricsFile& metrics, Check check) {
    const auto found = checkpoints_->find();
    if (!found) {
      note("there is no checkpoint to resume from; the run starts from the beginning");
      return Start::from_beginning;
    }
    state_ = *found;
    const bool trained = state_.epoch >= flags_.epochs || enough_steps();
    if (trained && checkpoints_->finished(state_)) {
      note("the run in " + flags_.out + " is finished: " + std::to_string(state_.step) + " steps");
      return Start::finished;
    }
    check();
    const std::string missing = metrics.resume(state_.metrics_position, state_.metrics == real_path(flags_.metrics));
    if (!missing.empty()) note(missing);
    checkpoints_->restore(state_);
    note("resuming after step " + std::to_string(state_.step));
    return Start::resumed;
  }

  Index require_batches(Index batches) const {
    require(batches > 0, "--batch-size ", flags_.batch_size,
            flags_.accumulate > 1 ? " with --accumulate " + std::to_string(flags_.accumulate) : "",
            " is more than the ", batches_.rows_per_epoch(),
            " rows to train on, and the last, smaller batch is dropped");
    return batches;
  }
  Index total_steps() const {
    const Index most = std::numeric_limits<Index>::max();
    const Index all = flags_.epochs <= most / per_epoch_ ? flags_.epochs * per_epoch_ : most;
    return flags_.steps > 0 ? std::min(flags_.steps, all) : all;
  }
  bool enough_steps() const { return flags_.steps > 0 && state_.step >= flags_.steps; }
  // Returns whether a batch is left to train on, or an epoch is left to validate.
  bool more() const {
    return state_.epoch < flags_.epochs && !partial_reported_ && (state_.batch > 0 || !enough_steps());
  }

  // The results of a step's forward and backward.
  struct Computed {
    Tensor<float> loss;
    Tensor<Index> predicted;
  };
  // A step that was made.
  struct Made {
    Index step, batch;  // after it
    double lr;
    Index tokens;
  };
  // A step whose results are on their way to the host.
  struct Enqueued {
    Made made;
    HostCopy<float> loss;
    HostCopy<Index> predicted;
    HostCopy<int> labels;
  };

  // Trains on a batch.
  void step() {
    const data::Batch batch = splits_.train.batch(batches_(state_.epoch, state_.batch));
    Random random = dropout_generator(flags_.seed, state_.step);
    Random masks(flags_.seed, stream(Stream::masks, state_.step));
    const auto inputs = inputs_of(model_, batch, masks);
    if (parts_ > 1)
      step_in_parts(inputs, batch.tokens(), random);
    else
      step_at_once(inputs, batch.tokens(), random);
  }

  // Trains on a batch as a whole. On the GPU the results are read while the next step runs, so that neither the host
  // nor the GPU waits for the other.
  template <class Inputs>
  void step_at_once(const Inputs& inputs, Index tokens, Random& random) {
    if (!enqueued_) since_results_ = {};
    const bool on_cpu = flags_.target_device() == Device::cpu;
    const auto compute = [&](const auto& there, Random& dropout) {
      const Tensor<float> z = logits<A>(model_, there, &dropout), loss = loss_of(model_, z, there);
      if (on_cpu) require_finite(loss.item(), state_.step + 1);
      backward(loss, unit_);
      return Computed{detach(loss), predicted_by(model_, detach(z), there)};
    };
    const auto [loss, predicted] =
        graph_.run(compute, replays_ ? filled(inputs, longest_) : inputs.to(flags_.target_device()), random);
    const optim::StepOptions settings = step_options();
    try {
      optimizer_.step(settings);
    } catch (const Error&) {  // of a GPU, if HEDDLE_SYNC=1
      read_results();
      require_finite(loss.item(), state_.step + 1);
      throw;
    }
    ++state_.step;
    ++state_.batch;
    Enqueued now{{state_.step, state_.batch, flags_.lr * settings.factor, tokens},
                 HostCopy(loss),
                 HostCopy(predicted),
                 HostCopy(inputs.labels)};
    if (const std::optional<Enqueued> before = std::exchange(enqueued_, std::move(now))) report_step(*before);
    const bool reports = calls_after_step();
    if (on_cpu || reports) read_results();
    if (reports) options_.after_step(model_, state_.step, *events_);
  }

  // The results of a part of a batch.
  struct OfPart {
    double loss = 0, correct = 0, rows = 0;  // the loss is the sum over the rows
  };

  // Trains on a batch in parts, whose gradients are summed one by one; other processes have other parts. A part's
  // gradients are those of its share of the batch's mean loss, with the dropout that its rows have in the whole batch.
  template <class Inputs>
  void step_in_parts(const Inputs& inputs, Index tokens, const Random& random) {
    since_results_ = {};
    const distributed::Communicator& communicator = processes_.communicator();
    if (!gradients_) {
      using distributed::Reduction;
      const auto reduction = flags_.reduction == "fast" ? Reduction::fast : Reduction::exact;
      gradients_.emplace(model_, communicator, distributed::GradientOptions{.mean = false, .reduction = reduction});
    }
    std::vector<OfPart> results(static_cast<std::size_t>(parts_));
    const distributed::Parts shards = distributed::parts_of(communicator.rank(), communicator.size(), flags_.shards);
    const distributed::Parts own{shards.first * flags_.accumulate, shards.last * flags_.accumulate};
    Tensor<float> vectors;  // [B, D] of the whole batch, with their gradient, if the loss compares rows
    if constexpr (compares_rows<Model>) {
      OfPart all;
      vectors = vectors_with_gradient(inputs, own, random, all);
      if (own.first == 0) results[0] = all;
    }
    for (Index part = own.first; part < own.last; ++part) {
      const BatchPart place = data::place_of_part(inputs.sequences, part, parts_);
      const auto compute = [&] {
        if constexpr (compares_rows<Model>)
          backward_of_vectors(inputs, place, random, vectors);
        else
          results[static_cast<std::size_t>(part)] = backward_of_part(inputs, place, random);
      };
      if (part + 1 == own.last) {
        gradients_->add_last_part(compute);
        break;
      }
      compute();
      gradients_->add_part();
      if ((part + 1) % flags_.accumulate == 0) gradients_->end_group();
    }
    std::exception_ptr failure;
    try {
      gradients_->finish();
    } catch (const distributed::CommunicationError&) {
      throw;
    } catch (const Error&) {  // a gradient is not finite; perhaps the loss is not, either
      failure = std::current_exception();
    }
    const OfPart all = sum_over_processes(results);
    const double loss = all.loss / all.rows;
    require_finite(loss, state_.step + 1);
    if (failure) std::rethrow_exception(failure);
    const optim::StepOptions settings = step_options();
    optimizer_.step(settings);
    if (sharded_) sharded_->gather_weights();
    ++state_.step;
    ++state_.batch;
    report_step({state_.step, state_.batch, flags_.lr * settings.factor, tokens}, loss, static_cast<Index>(all.correct),
                static_cast<Index>(all.rows));
    if (calls_after_step()) options_.after_step(model_, state_.step, *events_);
  }

  // Computes the gradients of a part.
  template <class Inputs>
  OfPart backward_of_part(const Inputs& inputs, const BatchPart& place, const Random& random) {
    const auto here = part(inputs, place);
    const Index rows = here.labels.size();
    if (rows == 0) return {};
    const auto there = here.to(flags_.target_device());
    Random dropout = random.for_part(place);
    const Tensor<float> z = logits<A>(model_, there, &dropout), loss = loss_of(model_, z, there);
    const auto share = static_cast<float>(rows) / static_cast<float>(inputs.labels.size());
    backward(loss, full<float>(Shape{}, share, flags_.target_device()));
    const Index correct = count_correct(predicted_by(model_, detach(z), there).to(Device::cpu), here.labels);
    return {loss.item() * static_cast<double>(rows), static_cast<double>(correct), static_cast<double>(rows)};
  }

  // Returns the vectors of the whole batch as a variable with the gradient of the loss: those of this process's parts
  // are computed without a graph, those of other processes are received (GradCache, Gao et al. 2021).
  template <class Inputs>
  Tensor<float> vectors_with_gradient(const Inputs& inputs, const distributed::Parts& own, const Random& random,
                                      OfPart& result) {
    const Index rows = inputs.sequences.count(), width = model_.width();
    std::vector<float> all(static_cast<std::size_t>(rows * width));
    for (Index number = own.first; number < own.last; ++number) {
      const NoGrad quiet;
      const BatchPart place = data::place_of_part(inputs.sequences, number, parts_);
      if (place.sequences == 0) continue;
      Random dropout = random.for_part(place);
      const auto there = part(inputs, place).to(flags_.target_device());
      const std::vector<float> values = logits<A>(model_, there, &dropout).host();
      std::copy(values.begin(), values.end(), all.begin() + place.first_sequence * width);
    }
    processes_.communicator().all_reduce(std::span(all));
    const Tensor<float> vectors = variable(Tensor<float>({rows, width}, all).to(flags_.target_device()));
    const auto there = inputs.to(flags_.target_device());
    const Tensor<float> loss = loss_of(model_, vectors, there);
    backward(loss);
    const auto labels = static_cast<double>(inputs.labels.size());
    const Tensor<Index> predicted = predicted_by(model_, detach(vectors), there).to(Device::cpu);
    result = {loss.item() * labels, static_cast<double>(count_correct(predicted, inputs.labels)), labels};
    return vectors;
  }
  // Computes a part's vectors again, with a graph, and its gradients from theirs.
  template <class Inputs>
  void backward_of_vectors(const Inputs& inputs, const BatchPart& place, const Random& random,
                           const Tensor<float>& vectors) {
    if (place.sequences == 0) return;
    Random dropout = random.for_part(place);
    const auto there = part(inputs, place).to(flags_.target_device());
    backward(logits<A>(model_, there, &dropout),
             vectors.grad().leading(place.first_sequence, place.first_sequence + place.sequences));
  }

  // Returns the sum of the results of all parts, added in the order of the parts. A process has those of its own parts.
  // Also lets all processes know of a signal that one has received.
  OfPart sum_over_processes(const std::vector<OfPart>& results) {
    std::vector<double> numbers;
    for (const OfPart& one : results) numbers.insert(numbers.end(), {one.loss, one.correct, one.rows});
    const char* const signal = signals_.received();
    numbers.push_back(signal ? 1 : 0);
    processes_.communicator().all_reduce(std::span(numbers));  // parts of other processes are zeros here
    if (numbers.back() > 0 && !signal_) signal_ = signal ? signal : "a signal to another process";
    OfPart sum;
    for (std::size_t i = 0; i + 1 < numbers.size(); i += 3) {
      sum.loss += numbers[i];
      sum.correct += numbers[i + 1];
      sum.rows += numbers[i + 2];
    }
    return sum;
  }

  optim::StepOptions step_options() const {
    optim::StepOptions settings{.factor = schedule_(state_.step)};
    if (flags_.clip > 0) settings.max_norm = flags_.clip;
    return settings;
  }
  // Returns whether TrainingOptions::after_step is called after this step.
  bool calls_after_step() const { return options_.after_step && events_ && state_.step % after_step_every == 0; }

  static void require_finite(double loss, Index step) {
    require<train::RunFailed>(std::isfinite(loss), "the loss of step ", step,
                              " is not finite; nothing was saved after it");
  }

  // Reports the results of the step that is enqueued, if there is one.
  void read_results() {
    if (const std::optional<Enqueued> done = std::exchange(enqueued_, std::nullopt)) report_step(*done);
  }
  // Reports the results of a step. If gradients were not finite, those of this step or of the one that is enqueued
  // after it, throws the error at the end, or RunFailed if it is the loss of that step that is not finite.
  void report_step(const Enqueued& done) {
    std::exception_ptr failure;
    const double loss = values(done.loss, failure).item();
    require_finite(loss, done.made.step);
    const Tensor<int> labels = values(done.labels, failure);
    report_step(done.made, loss, count_correct(values(done.predicted, failure), labels), labels.size());
    if (!failure) return;
    if (enqueued_) require_finite(values(enqueued_->loss, failure).item(), enqueued_->made.step);
    std::rethrow_exception(failure);
  }
  void report_step(const Made& made, double loss, Index correct, Index rows) {
    state_.epoch_sums.add(loss, correct, rows);
    metrics_->step(made.step, loss, made.lr, made.tokens, since_results_.seconds());
    since_results_ = {};
    if (events_) write_events(made, loss, correct, rows);
    progress_.step(state_.epoch, made.batch, per_epoch_, state_.epoch_sums.mean_loss());
  }
  // Returns a copy's values. Stores the error of a step whose gradients are not finite in `failure`; others are thrown.
  template <class T>
  static Tensor<T> values(const HostCopy<T>& copy, std::exception_ptr& failure) {
    try {
      return copy.get();
    } catch (const IndexError&) {
      throw;
    } catch (const CudaError&) {
      throw;
    } catch (const Error&) {
      failure = std::current_exception();
      return copy.get();
    }
  }

  void write_events(const Made& made, double loss, Index correct, Index rows) {
    state_.interval_sums.add(loss, correct, rows);
    state_.curves["training"].add(loss);
    if (made.step % report_every != 0) return;
    events_->scalar("Loss/train", state_.interval_sums.mean_loss(), made.step);
    if (has_accuracy(model_)) events_->scalar("Accuracy/train", state_.interval_sums.accuracy(), made.step);
    events_->scalar("Scheduler LR", made.lr, made.step);
    state_.interval_sums = {};
  }

  void after_step() {
    stop_on_signal();
    // A run that --steps ends inside an epoch can be continued from here, as if it had never paused.
    const bool due = flags_.checkpoint_every > 0 && state_.step % flags_.checkpoint_every == 0;
    if (due || (enough_steps() && state_.batch < per_epoch_)) save();
  }

  void end_epoch() {
    read_results();
    const double seconds = since_epoch_.seconds();
    since_epoch_ = {};
    const SplitScores valid = evaluate<A>(model_, splits_.valid, flags_.batch_size, splits_.classes);
    require<train::RunFailed>(std::isfinite(valid.loss), "the validation loss after step ", state_.step,
                              " is not finite; nothing was saved after it");
    progress_.clear();
    const double train_loss = state_.epoch_sums.mean_loss();
    const std::vector<train::Metric> train{{"accuracy", state_.epoch_sums.accuracy()}};
    // The line of a classifier shows its accuracy only.
    const std::span<const train::Metric> shown(valid.metrics.data(), valid.confusion ? 1 : valid.metrics.size());
    std::printf("epoch %lld  train loss %.4f%s  valid loss %.4f%s  %.1f s\n", static_cast<long long>(state_.epoch),
                train_loss, has_accuracy(model_) ? to_text(train).c_str() : "", valid.loss, to_text(shown).c_str(),
                seconds);
    std::fflush(stdout);
    metrics_->epoch(state_.epoch, train_loss, valid.loss, valid.metrics, seconds);
    if (checkpoints_) checkpoints_->publish(state_.step, !(valid.loss >= state_.best));
    if (events_) {
      events_->scalar("Loss/valid", valid.loss, state_.step);
      for (const train::Metric& each : shown) events_->scalar(tag_of(each.name), each.value, state_.step);
    }
    if (state_.batch < per_epoch_) {
      partial_reported_ = true;
      plot();
      return;
    }
    state_.curves["validation"].add(valid.loss);
    plot();
    ++state_.epoch;
    state_.batch = 0;
    state_.epoch_sums = {};
    state_.best = std::min(state_.best, valid.loss);
    save();
    stop_on_signal();
  }

  // Returns the tag of a validation metric in TensorBoard: Accuracy/valid for accuracy.
  static std::string tag_of(std::string name) {
    name[0] = static_cast<char>(std::toupper(static_cast<unsigned char>(name[0])));
    return name + "/valid";
  }

  // Does nothing without --plot or without a folder; a second training that a system adds has no folder.
  void plot() {
    if (!flags_.plot || !out_) return;
    const auto series = [&](const std::string& name, Index steps) {
      const train::Curve& curve = state_.curves[name];
      train::Series points{name, {}, curve.means()};
      for (std::size_t i = 1; i <= points.y.size(); ++i)
        points.x.push_back(static_cast<double>(static_cast<Index>(i) * curve.interval() * steps));
      return points;
    };
    io::write_atomically(
        out_->file("losses.svg"),
        train::line_chart({"Loss", "step", "mean loss", {series("training", 1), series("validation", per_epoch_)}}));
  }

  // Returns a scope in which the first process has the whole state of the optimizer, if it saves checkpoints.
  std::unique_ptr<distributed::ShardedState::Whole> whole_state() {
    return sharded_ && !flags_.out.empty() ? std::make_unique<distributed::ShardedState::Whole>(*sharded_) : nullptr;
  }
  // The first of several processes saves; the others wait, so that none ends before it has.
  void save() {
    read_results();
    const auto whole = whole_state();
    processes_.on_first([&] {
      if (!checkpoints_) return;
      state_.metrics = real_path(flags_.metrics);
      state_.metrics_position = metrics_->sync();
      state_.events = events_->sync();
      checkpoints_->save(state_);
    });
  }

  // Several processes end for a signal that all know of.
  void stop_on_signal() {
    const char* const signal = processes_.size() > 1 ? signal_ : signals_.received();
    if (!signal) return;
    progress_.clear();
    save();
    const std::string after = options_.is_part ? "" : " after step " + std::to_string(state_.step);
    throw Stopped("stopped by " + std::string(signal) + after +
                  (flags_.out.empty()
                       ? "; without --out nothing was saved"
                       : "; to continue: " + flags_.command + shards() + (flags_.resume ? "" : " --resume")));
  }

  // Returns the flag without which another number of processes would not continue the run.
  std::string shards() const {
    return flags_.shards == 1 || flags_.is_given("--shards") ? "" : " --shards " + std::to_string(flags_.shards);
  }

  Model& model_;
  const Splits& splits_;
  const TrainerFlags& flags_;
  const OutFolder* out_;
  const TrainingOptions<Model> options_;
  Optimizer optimizer_;
  EpochBatches batches_;
  const Index per_epoch_;
  const std::function<double(Index)> schedule_;
  const Tensor<float> unit_ = ones<float>(Shape{}, flags_.target_device());  // the gradient of each loss
  const Index parts_ = flags_.shards * flags_.accumulate;                    // of a batch
  // Whether steps are replayed as CUDA graphs.
  const bool replays_ =
      flags_.target_device() == Device::cuda && flags_.graph == "auto" && parts_ == 1 && !compares_rows<Model>;
  const Index longest_ = splits_.train.longest();
  cuda::Graph graph_{replays_ ? Device::cuda : Device::cpu};
  std::optional<distributed::GradientSum> gradients_;  // of the parts of a step
  std::optional<distributed::ShardedState> sharded_;   // with --shard-optimizer
  train::MetricsFile* metrics_ = nullptr;
  std::optional<train::EventWriter> events_;
  const Processes& processes_ = Processes::all();
  train::Progress progress_;
  const StopSignals signals_;
  const char* signal_ = nullptr;  // one that one of several processes has received
  std::optional<train::RunCheckpoints<Model>> checkpoints_;
  train::RunState state_;
  std::optional<Enqueued> enqueued_;
  train::Stopwatch since_epoch_, since_results_;
  bool partial_reported_ = false;  // --steps ended the run inside an epoch, which has been validated
};

}  // namespace heddle::examples
