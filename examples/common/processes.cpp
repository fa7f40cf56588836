#include "processes.hpp"

#include <cstdio>

namespace heddle::examples {

Processes& Processes::all() {
  static Processes processes;
  return processes;
}

void Processes::start() {
  communicator_ = connect();
  if (!is_first() && !std::freopen("/dev/null", "w", stdout)) fail("/dev/null cannot be opened");
}

void Processes::share_processors() const {
  if (size() > 1) set_threads(share_of_processors(communicator_));
}

}  // namespace heddle::examples
