// The processes of a trainer that mpirun started: they train one model together, each on a part of every batch.
#pragma once
#include <exception>

#include "launch.hpp"

namespace heddle::examples {

// The end of a process because the first one has failed, which reports the error.
struct FirstFailed {};

class Processes {
 public:
  // Returns the processes of this run: this one alone before start().
  static Processes& all();
  // Connects this process with the others. Those but the first print nothing from then on. Throws Error if the others
  // cannot be reached, for example because the program was built without MPI, and if they were started with other
  // arguments, except --threads and --progress.
  void start(int argc, char** argv);
  // Throws Error if a process has another value; `what` names it.
  void require_same(std::uint64_t value, const char* what) const;

  const distributed::Communicator& communicator() const { return communicator_; }
  int size() const { return communicator_.size(); }
  bool is_first() const { return communicator_.rank() == 0; }

  // Calls f() on the first process alone; the others wait. If it throws, they throw FirstFailed.
  template <class F>
  void on_first(F&& f) const {
    std::exception_ptr error;
    if (is_first()) try {
        f();
      } catch (...) {
        error = std::current_exception();
      }
    char failed = error != nullptr;
    communicator_.broadcast(std::span(&failed, 1));
    if (error) std::rethrow_exception(error);
    if (failed) throw FirstFailed();
  }

  // Finds this process's share of the machine's processors, and uses it if `yes`. All processes call it.
  void share_processors(bool yes) const;

  // A scope in which each of several processes has a GPU of its own, as long as there are enough, and tensors travel
  // between GPUs by NCCL. Otherwise a note says why they travel through the host. All processes create it.
  class OnGpus {
   public:
    // Without `yes` it does nothing. Throws CommunicationError.
    OnGpus(Processes& processes, bool yes);
    OnGpus(const OnGpus&) = delete;
    ~OnGpus() { processes_.communicator_ = hosts_; }

   private:
    Processes& processes_;
    const distributed::Communicator hosts_ = processes_.communicator_;
  };

 private:
  distributed::Communicator communicator_;
};

}  // namespace heddle::examples
