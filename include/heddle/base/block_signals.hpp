// BlockSignals: keeps signal handlers from interrupting this thread.
#pragma once
#include <csignal>
#include <initializer_list>

namespace heddle::detail {

// A scope in which signals on the calling thread are blocked; they are delivered afterwards. Faults that the thread
// raises itself are not blocked.
class BlockSignals {
 public:
  BlockSignals() {
    sigset_t blocked;
    sigfillset(&blocked);
    for (const int fault : {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGTRAP, SIGABRT}) sigdelset(&blocked, fault);
    pthread_sigmask(SIG_SETMASK, &blocked, &previous_);
  }
  BlockSignals(const BlockSignals&) = delete;
  BlockSignals& operator=(const BlockSignals&) = delete;
  ~BlockSignals() { pthread_sigmask(SIG_SETMASK, &previous_, nullptr); }

 private:
  sigset_t previous_;
};

}  // namespace heddle::detail
