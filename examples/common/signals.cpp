#include "signals.hpp"

#include <csignal>
#include <utility>

namespace heddle::examples {
namespace {

constexpr int stopping[] = {SIGINT, SIGTERM};
volatile std::sig_atomic_t received_signal = 0;
bool is_watching = false;

void set(int signal, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigaction(signal, &action, nullptr);
}

// Returns whether the process ignores the signal, as a parent process may have requested.
bool ignored(int signal) {
  struct sigaction action {};
  return sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_IGN;
}

void note_signal(int signal) {
  received_signal = signal;
  for (const int each : stopping)
    if (!ignored(each)) set(each, SIG_DFL);
}

}  // namespace

StopSignals::StopSignals() : is_outermost_(!std::exchange(is_watching, true)) {
  if (!is_outermost_) return;
  received_signal = 0;
  for (const int signal : stopping)
    if (!ignored(signal)) set(signal, note_signal);
}
StopSignals::~StopSignals() {
  if (!is_outermost_) return;
  is_watching = false;
  for (const int signal : stopping)
    if (!ignored(signal)) set(signal, SIG_DFL);
}

const char* StopSignals::received() const {
  switch (received_signal) {
    case 0: return nullptr;
    case SIGINT: return "SIGINT";
    default: return "SIGTERM";
  }
}

}  // namespace heddle::examples
