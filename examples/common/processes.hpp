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
  // Connects this process with the others. Those but the first print nothing from then on. Throws Error if there are
  // others and the program was built without MPI.
  void start();

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

  // Lets this process use its share of the machine's processors.
  void share_processors() const;

 private:
  distributed::Communicator communicator_;
};

}  // namespace heddle::examples
