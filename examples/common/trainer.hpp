// The training loop of every system. A model brings
//   template <class A> Tensor<A> forward(const Tensor<int>& ids, const Sequences&, Random*) const   logits [B, C]
// and a static visit; the rest, from batches to files, is here.
#pragma once
#include <variant>

#include "evaluate.hpp"
#include "progress.hpp"
#include "run_checkpoints.hpp"
#include "signals.hpp"

namespace heddle::examples {

// Where each use of random numbers has its streams: none ever meets another, and each is a function of the seed and a count.
enum class Stream : std::uint64_t { init = 0, order = std::uint64_t{1} << 56, dropout = std::uint64_t{2} << 56 };
inline std::uint64_t stream(Stream use, Index number = 0) {
  return static_cast<std::uint64_t>(use) + static_cast<std::uint64_t>(number);
}

// One optimizer of those that the flags offer.
class Optimizer {
 public:
  template <class M>
  Optimizer(M& model, const TrainerFlags& f) : optimizer_(make(model, f)) {}
  void step(double factor) {
    std::visit([&](auto& o) { o.step(factor); }, optimizer_);
  }
  optim::Slots& slots() {
    return std::visit([](auto& o) -> optim::Slots& { return o.slots(); }, optimizer_);
  }

 private:
  using Any = std::variant<optim::Sgd, optim::Adam, optim::AdamW>;
  template <class M>
  static Any make(M& model, const TrainerFlags& f) {
    if (f.optimizer == "sgd") return optim::Sgd(model, {.lr = f.lr, .momentum = f.momentum});
    if (f.optimizer == "adamw") return optim::AdamW(model, {.lr = f.lr});
    return optim::Adam(model, {.lr = f.lr});
  }
  Any optimizer_;
};

// How a run begins.
enum class Start { anew, resumed, finished };

// Trains; with a folder it writes the best and the last weights there, and checkpoints from which the run goes on, bit for bit.
template <class A, class Model>
class Training {
 public:
  // `checksums` of what the run reads beside the rows, under the names of the flags.
  Training(Model& model, const Splits& splits, const TrainerFlags& flags, const ModelSizes& sizes, const OutFolder* out,
           const RunFlags& checksums)
      : model_(model),
        splits_(splits),
        flags_(flags),
        out_(out),
        optimizer_(model, flags),
        batches_(splits.train.count(), flags.batch_size,
                 flags.order == "shuffled" ? data::Order::shuffled : data::Order::sequential, flags.seed,
                 stream(Stream::order)),
        progress_(flags.progress) {
    if (!out) return;
    RunFlags identity = run_flags(flags, sizes);
    identity.insert(checksums.begin(), checksums.end());
    identity["--data"] = fingerprint(splits.train) + fingerprint(splits.valid) + fingerprint(splits.test);
    checkpoints_.emplace(*out, model, optimizer_.slots(), std::move(identity));
  }

  // Takes up the run that is in the folder, and its metrics. Throws FileError for metrics that are not the run's.
  Start resume(MetricsFile& metrics) {
    const auto found = checkpoints_->find();
    if (!found) {
      note("there is no checkpoint to resume from; the run starts from the beginning");
      return Start::anew;
    }
    state_ = *found;
    const bool trained = state_.epoch >= flags_.epochs || enough_steps();
    if (trained && checkpoints_->finished(state_)) {
      note("the run in " + flags_.out + " is finished: " + std::to_string(state_.step) + " steps");
      return Start::finished;
    }
    metrics.go_on(state_.written, state_.metrics == real_path(flags_.metrics));
    checkpoints_->restore(state_);
    note("resuming after step " + std::to_string(state_.step));
    return Start::resumed;
  }

  // Throws RunFailed, and Stopped after a signal.
  void run(MetricsFile& metrics) {
    metrics_ = &metrics;
    while (more()) {
      for (; state_.batch < batches_.per_epoch() && !enough_steps(); after_step()) step();
      end_epoch();
    }
    report<A>(model_, splits_, flags_, *metrics_);
    if (checkpoints_) checkpoints_->finish(state_);
  }

 private:
  bool enough_steps() const { return flags_.steps > 0 && state_.step >= flags_.steps; }
  // Whether there is a batch to train on or, after the last of an epoch, its validation to be made.
  bool more() const {
    return state_.epoch < flags_.epochs && !partial_reported_ && (state_.batch > 0 || !enough_steps());
  }

  void step() {
    const Stopwatch since_start;
    const data::Batch batch = splits_.train.batch(batches_(state_.epoch, state_.batch)).to(flags_.place());
    Random random(flags_.seed, stream(Stream::dropout, state_.step));
    const Tensor<float> loss = cross_entropy(logits<A>(model_, batch, &random), batch.labels);
    const double value = loss.item();
    if (!std::isfinite(value))
      throw RunFailed("the loss of step " + std::to_string(state_.step + 1) +
                      " is not finite; nothing was saved after it");
    backward(loss);
    const double factor = schedule_(state_.step);
    optimizer_.step(factor);
    ++state_.step;
    ++state_.batch;
    state_.loss_sum += value * static_cast<double>(batch.labels.size());
    state_.rows += batch.labels.size();
    metrics_->step(state_.step, value, flags_.lr * factor, batch.ids.size(), since_start.seconds());
    progress_.step(state_.epoch, state_.batch, batches_.per_epoch(), train_loss());
  }

  void after_step() {
    stop_on_signal();
    // A run that --steps ends inside an epoch can be continued from here, as if it had never paused.
    const bool due = flags_.checkpoint_every > 0 && state_.step % flags_.checkpoint_every == 0;
    if (due || (enough_steps() && state_.batch < batches_.per_epoch())) save();
  }

  void end_epoch() {
    const double seconds = since_epoch_.seconds();
    since_epoch_ = {};
    const Scores valid = evaluate<A>(model_, splits_.valid, flags_.batch_size, splits_.classes);
    if (!std::isfinite(valid.loss()))
      throw RunFailed("the validation loss after step " + std::to_string(state_.step) +
                      " is not finite; nothing was saved after it");
    progress_.clear();
    std::printf("epoch %lld  train loss %.4f  valid loss %.4f  accuracy %.4f  %.1f s\n",
                static_cast<long long>(state_.epoch), train_loss(), valid.loss(), valid.accuracy(), seconds);
    std::fflush(stdout);
    metrics_->epoch(state_.epoch, train_loss(), valid, seconds);
    if (checkpoints_) checkpoints_->publish(state_.step, !(valid.loss() >= state_.best));
    if (state_.batch < batches_.per_epoch()) {
      partial_reported_ = true;
      return;
    }
    RunState next;
    next.step = state_.step;
    next.epoch = state_.epoch + 1;
    next.best = std::min(state_.best, valid.loss());
    state_ = next;
    save();
    stop_on_signal();
  }

  double train_loss() const { return state_.loss_sum / static_cast<double>(state_.rows); }

  void save() {
    if (!checkpoints_) return;
    state_.metrics = real_path(flags_.metrics);
    state_.written = metrics_->sync();
    checkpoints_->save(state_);
  }

  void stop_on_signal() {
    const char* const signal = signals_.received();
    if (!signal) return;
    progress_.clear();
    save();
    const std::string after = std::string(signal) + " after step " + std::to_string(state_.step);
    throw Stopped(out_ ? "stopped by " + after + "; to go on: " + flags_.command + (flags_.resume ? "" : " --resume")
                       : "stopped by " + after + "; without --out nothing was saved");
  }

  Model& model_;
  const Splits& splits_;
  const TrainerFlags& flags_;
  const OutFolder* out_;
  Optimizer optimizer_;
  const optim::Constant schedule_;
  data::Batches batches_;
  MetricsFile* metrics_ = nullptr;
  Progress progress_;
  const StopSignals signals_;
  std::optional<RunCheckpoints<Model>> checkpoints_;
  RunState state_;
  Stopwatch since_epoch_;
  bool partial_reported_ = false;  // --steps ended the run inside an epoch, and that is validated
};

}  // namespace heddle::examples
