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
  // Restores weights, moments and the best weights from the checkpoint that find() returned.
  void restore(const RunState& state) {
    io::load(model_, found_->file("model.safetensors"));
    io::load_optimizer(optimizer_, found_->file("optimizer.safetensors"));
    if (found_->has("best.safetensors"))
      io::copy_file(found_->file("best.safetensors"), out_.file("model.safetensors"));
    // A run that continues is not finished, whatever --steps the next start is given.
    ::unlink(finished_file().c_str());
    saved_step_ = state.step;
    saved_epoch_ = state.epoch;
  }

  // Writes last.safetensors and, if these weights are the best so far, model.safetensors.
  void publish(Index step, bool is_best) {
    require_finite(model_, "step " + std::to_string(step) + ", nothing was saved after it");
    if (is_best) {
      write_weights(step, out_.file("model.safetensors"));
      best_step_ = step;
    }
    write_weights(step, out_.file("last.safetensors"));
  }

  void save(const RunState& state) {
    if (state.step == saved_step_ && state.epoch == saved_epoch_) return;
    require_finite(model_, "step " + std::to_string(state.step) + ", nothing was saved after the checkpoint before");
    const std::string saved = all_.save(state.step, to_json(state, flags_).dump(), [&](const std::string& folder) {
      io::FileSums files{{"model.safetensors", write_weights(state.step, folder + "/model.safetensors")},
                         {"optimizer.safetensors", io::save_optimizer(optimizer_, folder + "/optimizer.safetensors")}};
      if (std::isfinite(state.best))
        files["best.safetensors"] = write_best_weights(state.step, folder + "/best.safetensors");
      return files;
    });
    written_.path = saved + "/model.safetensors";
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

  // Writes the weights after a step to a file. They are written once: further files of the same step are links to the first, or are
  // written too if it cannot be linked.
  io::FileSum write_weights(Index step, const std::string& path) {
    const bool is_linked = written_.step == step && io::link_file(written_.path, path);
    if (!is_linked) written_ = {step, path, io::save(model_, path)};
    return written_.sum;
  }
  // Best weights of an earlier step are copied: if checkpoints shared a file, its damage would damage all of them.
  io::FileSum write_best_weights(Index step, const std::string& path) try {
    return best_step_ == step ? write_weights(step, path) : io::copy_file(out_.file("model.safetensors"), path);
  } catch (const WriteError&) {
    throw;
  } catch (const FileError& error) {  // not the fault of the run's input
    throw RunFailed(std::string(error.what()) +
                    "; the run had its best weights there, and the checkpoint before this one is whole");
  }

  const OutFolder& out_;
  Model& model_;
  optim::Slots& optimizer_;
  RunFlags flags_;
  io::Checkpoints all_;
  std::optional<io::Checkpoint> found_;
  Index saved_step_ = -1, saved_epoch_ = -1, best_step_ = -1;
  struct {
    Index step = -1;
    std::string path;
    io::FileSum sum;
  } written_;  // the weights that were written last, and one of their files
};

}  // namespace heddle::examples
