// Recorded runs, by CUDA's stream capture.
#include "device/graph_run.cuh"

#include <cstring>
#include <string_view>
#include <vector>

#include <heddle/gpu/graphs.hpp>

#include "device/workspace.cuh"

namespace heddle::cuda {
namespace {

// Bytes that a trial has copied from the host.
struct HostBytesOfRun {
  std::size_t bytes, hash, at;  // `at` is their place in pinned memory
};

constexpr std::size_t pinned_alignment = 256;

}  // namespace

struct RecordedWork::State {
  BlockCounts blocks;  // of the trial
  std::vector<HostBytesOfRun> copies;
  std::size_t pinned_bytes = 0;
  char* pinned = nullptr;
  cudaGraphExec_t executable = nullptr;
  cudaStream_t stream = nullptr;
  std::string failure;

  // Forgets the trial, and the record if there is one.
  void clear() {
    if (executable) {
      cudaStreamSynchronize(stream);  // the work may be under way
      cudaGraphExecDestroy(executable);
    }
    if (pinned) cudaFreeHost(pinned);
    cudaGetLastError();
    *this = {};
  }
};

struct GraphRun::State {
  std::uint64_t memory;
  RecordedWork::State& work;
  bool is_recorded;
  void* log;
  std::size_t next_copy = 0;
  bool lacks_memory = false;
};

namespace {
thread_local GraphRun::State* run_of_thread = nullptr;
}

bool can_record() { return !synchronizes_each_launch(); }
void* run_log() { return run_of_thread ? run_of_thread->log : nullptr; }
MemoryOfRun memory_of_run() {
  return run_of_thread ? MemoryOfRun{run_of_thread->memory, run_of_thread->is_recorded} : MemoryOfRun{0, false};
}
bool is_recorded_run() { return run_of_thread && run_of_thread->is_recorded; }

void refuse_in_run(const char* call) {
  require(!run_of_thread, call,
          " cannot be part of a run of cuda::Graph, whose replays run on the GPU alone; return "
          "tensors from the function, and go on after the run");
}
void fail_for_memory(std::size_t bytes) {
  run_of_thread->lacks_memory = true;
  fail<CudaError>("cuda::Graph: a recorded run needs a block of ", bytes, " bytes that its trial did not need");
}

const void* host_bytes_of_run(const void* from, std::size_t bytes) {
  if (!run_of_thread) return from;
  RecordedWork::State& work = run_of_thread->work;
  const std::size_t hash = std::hash<std::string_view>()({static_cast<const char*>(from), bytes});
  if (!run_of_thread->is_recorded) {
    work.copies.push_back({bytes, hash, work.pinned_bytes});
    work.pinned_bytes += (bytes + pinned_alignment - 1) / pinned_alignment * pinned_alignment;
    return from;
  }
  const std::size_t number = run_of_thread->next_copy++;
  require(number < work.copies.size() && work.copies[number].bytes == bytes && work.copies[number].hash == hash,
          "cuda::Graph: the function copies ", bytes,
          " bytes from the host that are not those of the run before; "
          "tensors that change from run to run must be inputs of the run");
  return std::memcpy(work.pinned + work.copies[number].at, from, bytes);
}

RecordedWork::RecordedWork() : state_(new State) {}
RecordedWork::~RecordedWork() { state_->clear(); }
bool RecordedWork::is_complete() const { return state_->executable != nullptr; }
const std::string& RecordedWork::failure() const { return state_->failure; }
void RecordedWork::launch() const { check(cudaGraphLaunch(state_->executable, current_stream()), "cudaGraphLaunch"); }

GraphRun::GraphRun(const GraphMemory& memory, RecordedWork& work, Kind kind, void* log) {
  memory.require_own_stream();
  RecordedWork::State& to = *work.state_;
  if (kind == Kind::trial) {
    to.clear();
    to.stream = current_stream();
    count_blocks(memory.id());
  } else {
    reserve_blocks(memory.id(), to.blocks);
    if (to.pinned_bytes > 0 && !to.pinned) {
      void* pinned = nullptr;
      check(cudaMallocHost(&pinned, to.pinned_bytes), "cudaMallocHost");
      to.pinned = static_cast<char*>(pinned);
    }
    check(cudaStreamBeginCapture(to.stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  }
  state_.reset(new State{memory.id(), to, kind == Kind::recorded, log});
  run_of_thread = state_.get();
}
GraphRun::~GraphRun() {
  if (run_of_thread == state_.get()) finish(false);
}

bool GraphRun::lacks_memory() const { return state_->lacks_memory; }

bool GraphRun::finish(bool is_whole) {
  run_of_thread = nullptr;
  RecordedWork::State& work = state_->work;
  if (!state_->is_recorded) {
    work.blocks = counted_blocks(state_->memory);
    return true;
  }
  cudaGraph_t graph = nullptr;
  is_whole = is_whole && !state_->lacks_memory;
  cudaError_t error = cudaStreamEndCapture(work.stream, &graph);
  if (error == cudaSuccess && is_whole) error = cudaGraphInstantiate(&work.executable, graph, 0);
  if (graph) cudaGraphDestroy(graph);
  if (error == cudaSuccess && is_whole) return true;
  cudaGetLastError();
  work.executable = nullptr;
  work.failure = state_->lacks_memory   ? "the recorded run needs more memory than the run before it"
                 : error == cudaSuccess ? "the recorded run ended early"
                                        : std::string("CUDA cannot record the run: ") + cudaGetErrorString(error);
  return false;
}

}  // namespace heddle::cuda
