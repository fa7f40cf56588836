// GraphMemory, RecordedWork and GraphRun: the parts of cuda::Graph that call CUDA. They are defined in cuda/graphs.cu
// and cuda/runtime.cu.
#pragma once
#include <cstdint>
#include <memory>
#include <string>

namespace heddle::cuda {

/// Returns whether runs can be recorded: not if HEDDLE_SYNC=1, because no recorded launch can be synchronized.
bool can_record();

/// Device memory that only the recorded runs of one Graph use, on the stream of the thread that creates it. A block
/// that such a run releases serves later ones only, so that a replay finds its own.
class GraphMemory {
 public:
  /// Opens the memory.
  GraphMemory();
  GraphMemory(const GraphMemory&) = delete;
  /// Lets all later work on the stream use the blocks.
  ~GraphMemory();
  /// Returns the number of this memory, which no other has.
  std::uint64_t id() const { return id_; }
  /// The scope in which the calling thread has the memory's GPU and stream.
  class Scope {
   public:
    /// Begins the scope.
    explicit Scope(const GraphMemory& memory) noexcept;
    Scope(const Scope&) = delete;
    ~Scope();

   private:
    int gpu_;
    void* stream_;
  };
  /// Throws Error in a run, and unless the calling thread's stream is that of the memory.
  void require_own_stream() const;

 private:
  const int gpu_;
  void* const stream_;
  const std::uint64_t id_;
};

/// The work of a recorded run.
class RecordedWork {
 public:
  /// Makes an empty record.
  RecordedWork();
  RecordedWork(const RecordedWork&) = delete;
  ~RecordedWork();
  /// Returns whether a run was recorded.
  bool is_complete() const;
  /// Returns why the last run could not be recorded, as a sentence.
  const std::string& failure() const;
  /// Enqueues the work. @throws CudaError.
  void launch() const;

  struct State;  ///< what CUDA made of the run

 private:
  friend class GraphRun;
  std::unique_ptr<State> state_;
};

/// The scope of a run on the calling thread, in which calls that wait for the GPU throw Error. A `trial` run takes
/// place, and shows how much memory it needs and which bytes it copies from the host. A `recorded` one after it
/// enqueues nothing, allocates in the GraphMemory, and must copy the same bytes.
class GraphRun {
 public:
  /// The kinds of runs.
  enum class Kind { trial, recorded };
  /// Begins a run. `log` is for run_log(). @throws Error within another run, and on another stream than the memory's.
  GraphRun(const GraphMemory& memory, RecordedWork& work, Kind kind, void* log);
  GraphRun(const GraphRun&) = delete;
  /// Abandons a run that was not finished.
  ~GraphRun();
  /// Ends the run; drops the record unless it `is_whole`. Returns false if there is no record.
  bool finish(bool is_whole = true);
  /// Returns whether a recorded run needs more memory than the trial.
  bool lacks_memory() const;

  struct State;  ///< the run as other functions see it

 private:
  std::unique_ptr<State> state_;
};

/// Returns what the calling thread's run was given as its log; null outside of runs.
void* run_log();

}  // namespace heddle::cuda
