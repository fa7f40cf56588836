// The checkpoints of a run in --out: model, optimizer, the best weights so far, and where the run stands.
#pragma once
#include <heddle/io/checkpoint.hpp>
#include <heddle/io/model.hpp>
#include <heddle/io/optimizer.hpp>

#include "evaluate.hpp"
#include "out_folder.hpp"
#include "run_state.hpp"

namespace heddle::examples {

template <class Model>
class RunCheckpoints {
 public:
  RunCheckpoints(const OutFolder& out, Model& model, optim::Slots& optimizer, RunFlags flags)
      : out_(out), model_(model), optimizer_(optimizer), flags_(std::move(flags)), all_(out.file("checkpoint")) {
    all_.clean();
  }

  // Where the newest whole checkpoint stands; nothing is changed yet. Throws Error for a run that was started with other flags.
  std::optional<RunState> find() {
    found_ = all_.newest([](const std::string& damaged) { note(damaged + "; the checkpoint is passed over"); });
    if (!found_) return std::nullopt;
    return read_state(found_->manifest.state, flags_, io::printable(found_->folder));
  }
  // Takes up what was found: weights, moments, the best weights.
  void restore(const RunState& state) {
    io::load(model_, found_->file("model.safetensors"));
    io::load_optimizer(optimizer_, found_->file("optimizer.safetensors"));
    // Never a second name for one file: what damages it would damage every checkpoint.
    if (found_->has("best.safetensors"))
      io::write_atomically(out_.file("model.safetensors"), io::read_file(found_->file("best.safetensors")));
    // What goes on is not finished, whatever --steps the next start is given.
    ::unlink(finished_file().c_str());
    saved_step_ = state.step;
    saved_epoch_ = state.epoch;
  }

  void save(const RunState& state) {
    if (state.step == saved_step_ && state.epoch == saved_epoch_) return;
    require_finite(model_, "step " + std::to_string(state.step) + ", nothing was saved after the checkpoint before");
    all_.save(state.step, to_json(state, flags_).dump(), [&](const std::string& folder) {
      io::save(model_, folder + "/model.safetensors");
      io::save_optimizer(optimizer_, folder + "/optimizer.safetensors");
      if (std::isfinite(state.best)) io::write_atomically(folder + "/best.safetensors", best_weights());
    });
    saved_step_ = state.step;
    saved_epoch_ = state.epoch;
  }

  // A run is finished when its final metrics are reported as well.
  void finish(const RunState& state) { io::write_atomically(finished_file(), std::to_string(state.step)); }
  bool finished(const RunState& state) const {
    return exists(finished_file()) && io::read_file(finished_file()) == std::to_string(state.step);
  }

 private:
  std::string finished_file() const { return out_.file("checkpoint/finished"); }

  // That the run's own file is gone is no fault of its input.
  std::string best_weights() const try {
    return io::read_file(out_.file("model.safetensors"));
  } catch (const FileError& error) {
    throw RunFailed(std::string(error.what()) +
                    "; the run had its best weights there, and the checkpoint before this one is whole");
  }

  const OutFolder& out_;
  Model& model_;
  optim::Slots& optimizer_;
  RunFlags flags_;
  io::Checkpoints all_;
  std::optional<io::Checkpoint> found_;
  Index saved_step_ = -1, saved_epoch_ = -1;
};

}  // namespace heddle::examples
