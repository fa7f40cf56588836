// Checkpoints of a training run from which it resumes bit for bit: weights, moment estimates, the best weights so far,
// the run's state, and further weights and state of the caller.
#pragma once
#include <algorithm>
#include <functional>

#include <heddle/io/checkpoint.hpp>
#include <heddle/io/model.hpp>
#include <heddle/io/optimizer.hpp>
#include <heddle/train/run_failed.hpp>
#include <heddle/train/run_state.hpp>

namespace heddle::train {

/// Checks that all weights are finite. @throws RunFailed that names the first one that is not; `where` begins the
/// message.
template <class Model>
void require_finite(const Model& model, const std::string& where) {
  walk_once(model, [&](const Name& name, const auto& x) {
    // One call per weight, not per value, because name.str() may allocate memory.
    const auto values = x.value().host();
    require<RunFailed>(std::all_of(values.begin(), values.end(), [](auto value) { return std::isfinite(value); }),
                       where, ": the weight '", name.str(), "' holds a value that is not finite");
  });
}

/// The results of a run in a folder: `model.safetensors` (the best weights), `last.safetensors` and `checkpoint/`. Only
/// one process at a time may use the folder: the caller holds a lock. The model and the optimizer's slots must outlive
/// the object.
template <class Model>
class RunCheckpoints {
 public:
  /// Creates the folder if it is missing, and removes the partial files and checkpoints of a killed run. find() calls
  /// `note` with each sentence that the user should see. @throws WriteError if the folder cannot be created, and
  /// FileError if that of the checkpoints cannot be read.
  RunCheckpoints(const std::string& folder, Model& model, optim::Slots& optimizer, RunSettings settings,
                 std::function<void(const std::string&)> note = {})
      : folder_(folder),
        model_(model),
        optimizer_(optimizer),
        settings_(std::move(settings)),
        note_(std::move(note)),
        all_(folder + "/checkpoint") {
    io::make_folder(folder);
    static constexpr const char* written[] = {"model.safetensors", "last.safetensors"};
    io::remove_leftovers(folder, written);
    all_.clean();
  }

  /// Adds the weights of another model to every checkpoint, such as a moving average of the weights: save() writes them
  /// to NAME.safetensors, and restore() reads them. Call it before find(); `other` must outlive the object. Further
  /// state that is no tensor belongs in RunState::own. @throws Error after restore(), and for a name that is empty, has
  /// characters besides letters, digits, _ and -, or is in use.
  template <class Other>
  void add_weights(const std::string& name, Other& other) {
    constexpr const char* letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-";
    require(!name.empty() && name.find_first_not_of(letters) == name.npos, "RunCheckpoints: ", io::quoted_name(name),
            " must consist of letters, digits, _ and -");
    const auto is_same = [&](const FurtherWeights& further) { return further.file == name + ".safetensors"; };
    require(name != "model" && name != "optimizer" && name != "best" &&
                std::none_of(further_.begin(), further_.end(), is_same),
            "RunCheckpoints: the name ", io::quoted_name(name), " is in use");
    require(!is_restored_, "RunCheckpoints: the weights ", io::quoted_name(name),
            " were added after restore(), which therefore did not read them");
    further_.push_back({name + ".safetensors",
                        [&other, name](Index step) {
                          require_finite(other, "step " + std::to_string(step) + ", nothing was saved: " + name);
                        },
                        [&other](const std::string& path) { return io::save(other, path); },
                        [&other](const std::string& path) { io::load(other, path); }});
  }

  /// Returns the state of the newest intact checkpoint, if there is one. Does not change the model or the optimizer:
  /// restore() does. @throws Error for a run that was started with other settings, and FileError as
  /// io::Checkpoints::newest() and read_state() do.
  std::optional<RunState> find() {
    found_ = all_.newest([&](const std::string& damaged) {
      if (note_) note_(damaged + "; the checkpoint is skipped");
    });
    if (!found_) return std::nullopt;
    return read_state(nlohmann::json::parse(found_->manifest.state), settings_, io::printable(found_->folder));
  }
  /// Restores weights, moment estimates and the best weights from the checkpoint whose state find() returned.
  /// @throws Error if it returned none, and if the checkpoint has weights that were not added; FileError for a file
  /// that cannot be read or does not fit the model or the optimizer; and WriteError if the best weights cannot be
  /// copied.
  void restore(const RunState& state) {
    require(found_.has_value(), "RunCheckpoints: restore() needs a checkpoint that find() returned");
    for (const FurtherWeights& further : further_)
      require<FileError>(found_->has(further.file), io::printable(found_->folder), ": has no ", further.file,
                         "; the run was started without these weights");
    for (const auto& file : found_->manifest.files)
      require(is_known(file.first), io::printable(found_->folder), ": holds ", file.first,
              ", which would be lost; call add_weights() before find()");
    io::load(model_, found_->file("model.safetensors"));
    for (const FurtherWeights& further : further_) further.load(found_->file(further.file));
    io::load_optimizer(optimizer_, found_->file("optimizer.safetensors"));
    if (found_->has("best.safetensors")) io::copy_file(found_->file("best.safetensors"), file("model.safetensors"));
    // A resumed run is unfinished until finish(), even if it has no step left.
    ::unlink(finished_file().c_str());
    is_restored_ = true;
    saved_state_ = text_of(state);
    saved_step_ = state.step;
    has_best_ = found_->has("best.safetensors");
    // The steps after the checkpoint run again and may give other weights, so files written for them before must not be
    // reused.
    best_step_ = -1;
    written_ = {};
  }

  /// Writes last.safetensors and, if these weights are the best so far, model.safetensors.
  /// @throws RunFailed for weights that are not finite; in that case both files are unchanged. @throws WriteError if a
  /// file cannot be written.
  void publish(Index step, bool is_best) {
    require_finite(model_, "nothing was saved after step " + std::to_string(step));
    if (is_best) {
      write_weights(step, file("model.safetensors"));
      best_step_ = step;
      has_best_ = true;
    }
    write_weights(step, file("last.safetensors"));
  }

  /// Saves a checkpoint, unless the newest one has the same state, and removes all but this one and the one before it:
  /// without find(), all checkpoints of an earlier run. If state.best is finite, the checkpoint has the best weights,
  /// which publish() must have written. @throws RunFailed for weights that are not finite, and if the file of the best
  /// weights cannot be read; Error for a finite state.best without best weights, for moment estimates that restore()
  /// would refuse, and for further state with a number that is not finite or text that is not UTF-8; and WriteError if
  /// the checkpoint cannot be written.
  void save(const RunState& state) {
    const std::string text = text_of(state);
    if (text == saved_state_) return;
    if (state.step == saved_step_) written_ = {};  // the weights may have changed since
    require(!std::isfinite(state.best) || has_best_, "RunCheckpoints: state.best is ", state.best,
            ", but no publish(step, true) has written the best weights");
    require_finite(model_, "step " + std::to_string(state.step) + ", nothing was saved since the previous checkpoint");
    for (const FurtherWeights& further : further_) further.require_finite(state.step);
    const std::string saved = all_.save(state.step, text, [&](const std::string& folder) {
      io::FileSums files{{"model.safetensors", write_weights(state.step, folder + "/model.safetensors")},
                         {"optimizer.safetensors", io::save_optimizer(optimizer_, folder + "/optimizer.safetensors")}};
      for (const FurtherWeights& further : further_) files[further.file] = further.save(folder + '/' + further.file);
      if (std::isfinite(state.best))
        files["best.safetensors"] = write_best_weights(state.step, folder + "/best.safetensors");
      return files;
    });
    written_.path = saved + "/model.safetensors";
    saved_state_ = text;
    saved_step_ = state.step;
  }

  /// Saves the state as save() does, and marks the run as finished. Call it after the final metrics were reported.
  /// @throws RunFailed, Error and WriteError as save() does, and WriteError if the mark cannot be written.
  void finish(const RunState& state) {
    save(state);
    io::write_atomically(finished_file(), std::to_string(state.step));
  }
  /// Returns whether the run was marked as finished in this state, which find() returned. Call it before restore(),
  /// which removes the mark. @throws FileError if the mark cannot be read.
  bool finished(const RunState& state) const {
    struct stat status {};
    return ::stat(finished_file().c_str(), &status) == 0 &&
           io::read_file(finished_file()) == std::to_string(state.step);
  }

 private:
  std::string file(const std::string& name) const { return folder_ + '/' + name; }
  // Returns whether a checkpoint's file is one of those that restore() reads.
  bool is_known(const std::string& name) const {
    return name == "model.safetensors" || name == "optimizer.safetensors" || name == "best.safetensors" ||
           std::any_of(further_.begin(), further_.end(), [&](const auto& further) { return further.file == name; });
  }
  std::string text_of(const RunState& state) const try {
    require(has_finite_numbers(state.own),
            "RunCheckpoints: RunState::own holds a number that is not finite, which JSON ",
            "cannot express; save it as text");
    return to_json(state, settings_).dump();
  } catch (const nlohmann::json::exception& error) {
    fail("RunCheckpoints: RunState::own cannot be saved: ", error.what());
  }
  // Returns whether all numbers of a JSON value are finite.
  static bool has_finite_numbers(const nlohmann::json& value) {
    if (value.is_number_float()) return std::isfinite(value.get<double>());
    return !value.is_structured() || std::all_of(value.begin(), value.end(), has_finite_numbers);
  }
  std::string finished_file() const { return file("checkpoint/finished"); }

  // Writes the weights after a step to a file. Further files of the same step are links to the first; if linking
  // fails, the weights are written again.
  io::FileSum write_weights(Index step, const std::string& path) {
    const bool is_linked = written_.step == step && io::link_file(written_.path, path);
    if (!is_linked) written_ = {step, path, io::save(model_, path)};
    return written_.sum;
  }
  // Best weights of an earlier step are copied: if checkpoints shared a file, its damage would damage all of them.
  io::FileSum write_best_weights(Index step, const std::string& path) try {
    return best_step_ == step ? write_weights(step, path) : io::copy_file(file("model.safetensors"), path);
  } catch (const WriteError&) {
    throw;
  } catch (const FileError& error) {  // not the fault of the run's input
    fail<RunFailed>(error.what(), "; the run had its best weights there, and the previous checkpoint is intact");
  }

  std::string folder_;
  Model& model_;
  optim::Slots& optimizer_;
  RunSettings settings_;
  std::function<void(const std::string&)> note_;
  io::Checkpoints all_;
  std::optional<io::Checkpoint> found_;
  std::string saved_state_;  // of the newest checkpoint
  Index saved_step_ = -1;
  Index best_step_ = -1;   // of the best weights that this process has written
  bool has_best_ = false;  // whether model.safetensors has the best weights of this run
  struct Written {
    Index step = -1;
    std::string path;
    io::FileSum sum;
  };
  struct FurtherWeights {
    std::string file;
    std::function<void(Index step)> require_finite;
    std::function<io::FileSum(const std::string& path)> save;
    std::function<void(const std::string& path)> load;
  };
  std::vector<FurtherWeights> further_;
  bool is_restored_ = false;
  Written written_;  // the weights that were written last, and one of their files
};

}  // namespace heddle::train
