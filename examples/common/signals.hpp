// Handling of SIGINT and SIGTERM: the first signal asks the run to end after its step, a second one ends it at once.
#pragma once
#include <stdexcept>
#include <string>

namespace heddle::examples {

// The end of a run by a signal, after its state was saved if --out is given. Exit code 3.
struct Stopped : std::runtime_error {
  using std::runtime_error::runtime_error;
};

// A scope in which the first of these signals is only recorded. A nested object changes nothing.
class StopSignals {
 public:
  StopSignals();
  StopSignals(const StopSignals&) = delete;
  ~StopSignals();

  // Returns the name of the received signal, or nullptr.
  const char* received() const;

 private:
  bool is_outermost_;
};

}  // namespace heddle::examples
