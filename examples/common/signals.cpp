#include "signals.hpp"

#include <csignal>

namespace heddle::examples {
namespace {

volatile std::sig_atomic_t received_signal = 0;

void set_handlers(void (*handler)(int), int flags) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = flags;
  for (const int signal : {SIGINT, SIGTERM}) sigaction(signal, &action, nullptr);
}

}  // namespace

StopSignals::StopSignals() {
  received_signal = 0;
  // SA_RESETHAND: the second one does what it does by default.
  set_handlers([](int signal) { received_signal = signal; }, static_cast<int>(SA_RESTART | SA_RESETHAND));
}
StopSignals::~StopSignals() { set_handlers(SIG_DFL, 0); }

const char* StopSignals::received() const {
  switch (received_signal) {
    case 0: return nullptr;
    case SIGINT: return "SIGINT";
    default: return "SIGTERM";
  }
}

}  // namespace heddle::examples
