#include <sys/time.h>

#include <algorithm>
#include <chrono>
#include <heddle/base/block_signals.hpp>
#include <heddle/cpu/gemm.hpp>

#include "catch.hpp"

using namespace heddle;

namespace {

volatile std::sig_atomic_t signals = 0, elsewhere = 0;
pthread_t tested;
const char* near;  // an address in the stack of `tested`

void handler(int) {
  constexpr std::ptrdiff_t stack = std::ptrdiff_t{8} << 20;
  if (!pthread_equal(pthread_self(), tested)) return;  // other threads handle signals while `tested` blocks them
  char here;
  const char* const at = &here;
  signals = signals + 1;
  if (near - at < 0 || near - at > stack) elsewhere = elsewhere + 1;
}

// A scope in which a timer sends SIGVTALRM after every 200 us of the process's user CPU time; `handler` handles it.
class Interrupted {
 public:
  Interrupted() {
    struct sigaction action {};
    action.sa_handler = handler;
    action.sa_flags = SA_RESTART;
    sigaction(SIGVTALRM, &action, &before_);
    const itimerval often{{0, 200}, {0, 200}};
    setitimer(ITIMER_VIRTUAL, &often, nullptr);
  }
  Interrupted(const Interrupted&) = delete;
  ~Interrupted() {
    const itimerval never{};
    setitimer(ITIMER_VIRTUAL, &never, nullptr);
    sigaction(SIGVTALRM, &before_, nullptr);
  }

 private:
  struct sigaction before_;
};

template <class T>
void products_for(std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (std::chrono::steady_clock::now() < end)
    for (const Index depth : {16, 64, 84, 85, 96, 200, 400, 900}) {
      std::vector<T> a(static_cast<std::size_t>(300 * depth), T(1.f)), b(static_cast<std::size_t>(64 * depth), T(1.f)),
          c(300 * 64);
      const MatrixView<const T> rows{a.data(), 300, depth, depth}, columns{b.data(), 64, depth, depth};
      kernel::product<false, true>(rows, columns, MatrixView<T>{c.data(), 300, 64, 64}, kernel::Into::set);
      const MatrixView<const T> down{a.data(), depth, 300, 300}, across{b.data(), depth, 64, 64};
      kernel::product<true, false>(down, across, MatrixView<T>{c.data(), 300, 64, 64}, kernel::Into::add);
      REQUIRE(std::all_of(c.begin(), c.end(), [&](float value) {
        return value == static_cast<float>(T(2.f * static_cast<float>(depth)));
      }));
    }
}

}  // namespace

TEST_CASE("signals: a handler that runs during a product runs on the stack of its thread") {
  char here;
  near = &here;
  tested = pthread_self();
  signals = 0;
  elsewhere = 0;
  {
    const Interrupted often;
    products_for<float>(std::chrono::milliseconds(400));
    products_for<bf16>(std::chrono::milliseconds(400));
  }
  CHECK(signals > 5);
  CHECK(elsewhere == 0);
}

TEST_CASE("signals: a signal that arrives while signals are blocked is delivered afterwards") {
  signals = 0;
  tested = pthread_self();
  struct sigaction action {
  }, before{};
  action.sa_handler = handler;
  sigaction(SIGUSR1, &action, &before);
  {
    const detail::BlockSignals blocked;
    raise(SIGUSR1);
    CHECK(signals == 0);
  }
  CHECK(signals == 1);
  sigaction(SIGUSR1, &before, nullptr);
}
