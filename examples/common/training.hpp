// The training loop of every system. A model provides a static visit() and
//   template <class A> Tensor<A> forward(const Tensor<int>& ids, const Sequences&, Random*) const   logits [B, C]
// or the forward() of models/, or, if it is trained on targets other than the batch's labels,
//   auto inputs_of(const data::Batch&, Random&) const       the inputs, with labels [M] (see evaluate.hpp)
//   template <class A> Tensor<A> forward(const Inputs&, Random*) const                              logits [M, C]
//   Inputs filled(const Inputs&, Index most)                as data::filled(), found by the type of the inputs
#pragma once
#include <exception>
#include <functional>
#include <variant>

#include <heddle/autograd/cuda_graph.hpp>
#include <heddle/train/charts.hpp>
#include <heddle/train/progress.hpp>
#include <heddle/train/run_checkpoints.hpp>
#include <heddle/train/tensorboard.hpp>

#include "evaluate.hpp"
#include "out_folder.hpp"
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

// Returns the schedule that the flags name for a run of `total` steps: the factor of the learning rate by step.
inline std::function<double(Index)> make_schedule(const TrainerFlags& f, Index total) {
  if (f.schedule == "linear") return optim::Linear{total, f.warmup};
  if (f.schedule == "cosine") return optim::Cosine{total, f.warmup};
  if (f.schedule == "step") return optim::Step{f.gamma, f.gamma_every, f.warmup};
  return optim::Constant{f.warmup};
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
        batches_(splits.train.count(), flags.batch_size,
                 flags.order == "shuffled" ? data::Order::shuffled : data::Order::sequential, flags.seed,
                 stream(Stream::order)),
        per_epoch_(
            require_batches(options_.drop_last ? splits.train.count() / flags.batch_size : batches_.per_epoch())),
        schedule_(make_schedule(flags, total_steps())),
        progress_(flags.progress) {
    if (!out) return;
    train::RunSettings settings = run_settings(flags, sizes);
    settings.insert(options_.settings.begin(), options_.settings.end());
    settings["--data"] = "crc64 " + fingerprint(splits.train) + fingerprint(splits.valid) + fingerprint(splits.test);
    checkpoints_.emplace(out->path(), model, optimizer_.state(), std::move(settings), note);
  }

  // Resumes the run in the folder, and its metrics. Calls check() before anything is changed. Throws FileError for
  // metrics that are not the run's.
  template <class Check>
  Start resume(train::MetricsFile& metrics, Check check) {
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

  // Trains up to the last epoch or step, and returns the final scores. Throws RunFailed, and Stopped after a signal.
  FinalScores run(train::MetricsFile& metrics) {
    metrics_ = &metrics;
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
    if (checkpoints_) checkpoints_->finish(state_);
    return scores;
  }

 private:
  static constexpr Index report_every = 10;       // steps between two reports to TensorBoard
  static constexpr Index after_step_every = 100;  // steps between two calls of TrainingOptions::after_step

  Index require_batches(Index batches) const {
    require(batches > 0, "--batch-size ", flags_.batch_size, " is more than the ", splits_.train.count(),
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
  // A step whose results are on their way to the host.
  struct Enqueued {
    Index step, batch;  // after it
    HostCopy<float> loss;
    HostCopy<Index> predicted;
    HostCopy<int> labels;
    double lr;
    Index tokens;
  };

  // Trains on a batch. On the GPU the results are read while the next step runs, so that neither the host nor the GPU
  // waits for the other.
  void step() {
    if (!enqueued_) since_results_ = {};
    const data::Batch batch = splits_.train.batch(batches_(state_.epoch, state_.batch));
    Random random = dropout_generator(flags_.seed, state_.step);
    Random masks(flags_.seed, stream(Stream::masks, state_.step));
    const auto inputs = inputs_of(model_, batch, masks);
    const bool on_cpu = flags_.target_device() == Device::cpu;
    const auto compute = [&](const auto& there, Random& dropout) {
      const Tensor<float> z = logits<A>(model_, there, &dropout), loss = cross_entropy(z, there.labels);
      if (on_cpu) require_finite(loss.item(), state_.step + 1);
      backward(loss, unit_);
      return Computed{detach(loss), argmax(detach(z), -1)};
    };
    const auto [loss, predicted] =
        graph_.run(compute, replays_ ? filled(inputs, longest_) : inputs.to(flags_.target_device()), random);
    optim::StepOptions settings{.factor = schedule_(state_.step)};
    if (flags_.clip > 0) settings.max_norm = flags_.clip;
    try {
      optimizer_.step(settings);
    } catch (const Error&) {  // of a GPU, if HEDDLE_SYNC=1
      read_results();
      require_finite(loss.item(), state_.step + 1);
      throw;
    }
    ++state_.step;
    ++state_.batch;
    Enqueued now{state_.step,
                 state_.batch,
                 HostCopy(loss),
                 HostCopy(predicted),
                 HostCopy(inputs.labels),
                 flags_.lr * settings.factor,
                 batch.tokens()};
    if (const std::optional<Enqueued> before = std::exchange(enqueued_, std::move(now))) report_step(*before);
    const bool reports = options_.after_step && events_ && state_.step % after_step_every == 0;
    if (on_cpu || reports) read_results();
    if (reports) options_.after_step(model_, state_.step, *events_);
  }

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
    require_finite(loss, done.step);
    const Tensor<int> labels = values(done.labels, failure);
    const Index correct = count_correct(values(done.predicted, failure), labels), rows = labels.size();
    state_.epoch_sums.add(loss, correct, rows);
    metrics_->step(done.step, loss, done.lr, done.tokens, since_results_.seconds());
    since_results_ = {};
    if (events_) write_events(done, loss, correct, rows);
    progress_.step(state_.epoch, done.batch, per_epoch_, state_.epoch_sums.mean_loss());
    if (!failure) return;
    if (enqueued_) require_finite(values(enqueued_->loss, failure).item(), enqueued_->step);
    std::rethrow_exception(failure);
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

  void write_events(const Enqueued& done, double loss, Index correct, Index rows) {
    state_.interval_sums.add(loss, correct, rows);
    state_.curves["training"].add(loss);
    if (done.step % report_every != 0) return;
    events_->scalar("Loss/train", state_.interval_sums.mean_loss(), done.step);
    events_->scalar("Accuracy/train", state_.interval_sums.accuracy(), done.step);
    events_->scalar("Scheduler LR", done.lr, done.step);
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
    const train::Scores valid = evaluate<A>(model_, splits_.valid, flags_.batch_size, splits_.classes);
    require<train::RunFailed>(std::isfinite(valid.loss()), "the validation loss after step ", state_.step,
                              " is not finite; nothing was saved after it");
    progress_.clear();
    const double train_loss = state_.epoch_sums.mean_loss();
    std::printf("epoch %lld  train loss %.4f  accuracy %.4f  valid loss %.4f  accuracy %.4f  %.1f s\n",
                static_cast<long long>(state_.epoch), train_loss, state_.epoch_sums.accuracy(), valid.loss(),
                valid.confusion.accuracy(), seconds);
    std::fflush(stdout);
    metrics_->epoch(state_.epoch, train_loss, valid, seconds);
    if (checkpoints_) checkpoints_->publish(state_.step, !(valid.loss() >= state_.best));
    if (events_) {
      events_->scalar("Loss/valid", valid.loss(), state_.step);
      events_->scalar("Accuracy/valid", valid.confusion.accuracy(), state_.step);
    }
    if (state_.batch < per_epoch_) {
      partial_reported_ = true;
      plot();
      return;
    }
    state_.curves["validation"].add(valid.loss());
    plot();
    ++state_.epoch;
    state_.batch = 0;
    state_.epoch_sums = {};
    state_.best = std::min(state_.best, valid.loss());
    save();
    stop_on_signal();
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

  void save() {
    read_results();
    if (!checkpoints_) return;
    state_.metrics = real_path(flags_.metrics);
    state_.metrics_position = metrics_->sync();
    state_.events = events_->sync();
    checkpoints_->save(state_);
  }

  void stop_on_signal() {
    const char* const signal = signals_.received();
    if (!signal) return;
    progress_.clear();
    save();
    const std::string after = options_.is_part ? "" : " after step " + std::to_string(state_.step);
    throw Stopped("stopped by " + std::string(signal) + after +
                  (flags_.out.empty() ? "; without --out nothing was saved"
                                      : "; to continue: " + flags_.command + (flags_.resume ? "" : " --resume")));
  }

  Model& model_;
  const Splits& splits_;
  const TrainerFlags& flags_;
  const OutFolder* out_;
  const TrainingOptions<Model> options_;
  Optimizer optimizer_;
  data::Batches batches_;
  const Index per_epoch_;
  const std::function<double(Index)> schedule_;
  const Tensor<float> unit_ = ones<float>(Shape{}, flags_.target_device());  // the gradient of each loss
  // Whether steps are replayed as CUDA graphs.
  const bool replays_ = flags_.target_device() == Device::cuda && flags_.graph == "auto";
  const Index longest_ = splits_.train.longest();
  cuda::Graph graph_{replays_ ? Device::cuda : Device::cpu};
  train::MetricsFile* metrics_ = nullptr;
  std::optional<train::EventWriter> events_;
  train::Progress progress_;
  const StopSignals signals_;
  std::optional<train::RunCheckpoints<Model>> checkpoints_;
  train::RunState state_;
  std::optional<Enqueued> enqueued_;
  train::Stopwatch since_epoch_, since_results_;
  bool partial_reported_ = false;  // --steps ended the run inside an epoch, which has been validated
};

}  // namespace heddle::examples
