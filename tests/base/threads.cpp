#include <chrono>
#include <csignal>
#include <filesystem>
#include <heddle/base/threads.hpp>
#include <numeric>
#include <thread>
#include <vector>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// A scope that restores the number of threads at its end.
struct KeepThreads {
  int before = threads();
  ~KeepThreads() { set_threads(before); }
};

// Adds up [0, total) in pieces.
Index sum_up_to(Index total, Index grain) {
  std::vector<Index> sums(kernel::Pieces::most, 0);
  kernel::parallel(kernel::Pieces(total, grain), [&](Index piece, Index first, Index last) {
    for (Index i = first; i < last; ++i) sums[static_cast<std::size_t>(piece)] += i;
  });
  return std::accumulate(sums.begin(), sums.end(), Index{0});
}

// Runs two pieces that call `inside` and wait for each other; returns whether they ran at the same time. It retries for
// half a minute, because on a busy machine helpers may start late, and the pool then pauses for a while.
template <class F>
bool pieces_overlap(const F& inside) {
  const auto now = [] { return std::chrono::steady_clock::now(); };
  std::atomic<int> begun = 0;
  for (const auto give_up = now() + std::chrono::seconds(30); begun < 2 && now() < give_up;) {
    begun = 0;
    kernel::parallel(2, 1, [&](Index first, Index) {
      inside();
      ++begun;
      for (const auto end = now() + std::chrono::milliseconds(50); begun < 2 && now() < end;) std::this_thread::yield();
      if (first == 0 && begun < 2)
        begun = -1;  // the other piece has not begun; if it begins now, it does not run at the same time
    });
  }
  return begun == 2;
}

void write(const std::filesystem::path& path, const std::string& text) {
  std::filesystem::create_directories(path.parent_path());
  put(path, text);
}

}  // namespace

TEST_CASE("threads: every piece runs once, on any number of threads") {
  const KeepThreads keep;
  for (const int count : {1, 2, 3, 64, 1000}) {
    set_threads(count);
    for (const Index total : {0, 1, 2, 63, 64, 65, 100000}) CHECK(sum_up_to(total, 1) == total * (total - 1) / 2);
  }
}

TEST_CASE("threads: pieces run at the same time") {
  const KeepThreads keep;
  set_threads(2);
  CHECK(pieces_overlap([] {}));
}

TEST_CASE("threads: the first exception of a piece is rethrown, and the other pieces run") {
  const KeepThreads keep;
  for (const int count : {1, 2}) {
    set_threads(count);
    std::atomic<int> ran = 0;
    const auto throwing = [&](Index first, Index) {
      ++ran;
      if (first % 7 == 3) throw Error("piece");
    };
    CHECK_THROWS_WITH(kernel::parallel(40, 1, throwing), "piece");
    CHECK(ran == 40);
    CHECK(sum_up_to(1000, 1) == 499500);
  }
}

TEST_CASE("threads: a parallel loop may run inside another one") {
  const KeepThreads keep;
  set_threads(2);
  std::atomic<Index> sum = 0;
  kernel::parallel(8, 1, [&](Index, Index) { sum += sum_up_to(1000, 1); });
  CHECK(sum == 8 * 499500);
}

TEST_CASE("threads: several callers at a time get correct sums, although only one of them has the pool") {
  std::vector<std::thread> callers;
  std::atomic<int> wrong = 0;
  for (int i = 0; i < 8; ++i)
    callers.emplace_back([&, i] {
      set_threads(1 + i % 4);
      for (Index n = 0; n < 500; ++n) wrong += sum_up_to(n, 1) != n * (n - 1) / 2;
    });
  for (std::thread& caller : callers) caller.join();
  CHECK(wrong == 0);
}

TEST_CASE("threads: set_threads affects the calling thread only, and needs at least 1") {
  const KeepThreads keep;
  set_threads(3);
  int elsewhere = 0;
  std::thread([&] { elsewhere = threads(); }).join();
  CHECK(threads() == 3);
  CHECK(elsewhere == keep.before);
  CHECK_THROWS_WITH(set_threads(0), "set_threads: the number of threads must be at least 1, got 0");
  CHECK_THROWS_WITH(set_threads(-3), "set_threads: the number of threads must be at least 1, got -3");
  CHECK(threads() == 3);
}

TEST_CASE("threads: signal handlers run on the program's own threads") {
  const KeepThreads keep;
  set_threads(2);
  const pthread_t caller = pthread_self();
  std::atomic<int> open = 0;
  REQUIRE(pieces_overlap([&] {
    sigset_t blocked;
    pthread_sigmask(SIG_SETMASK, nullptr, &blocked);
    if (!pthread_equal(pthread_self(), caller)) open += !sigismember(&blocked, SIGINT);
  }));
  CHECK(open == 0);
}

TEST_CASE("processors: no more than the control groups of the process allow") {
  const TemporaryFolder folder;
  const std::string memberships = folder / "cgroup", root = folder / "groups";
  const auto processors = [&] { return detail::processors_of_groups(memberships, root, 16); };
  CHECK(processors() == 16);  // no control groups

  write(memberships, "1:name=systemd:/x\n0::/a/b\n");
  CHECK(processors() == 16);
  write(root + "/a/b/cpu.max", "max 100000\n");
  CHECK(processors() == 16);
  write(root + "/a/cpu.max", "250000 100000\n");  // two and a half
  CHECK(processors() == 3);
  write(root + "/a/b/cpu.max", "1000 100000\n");
  CHECK(processors() == 1);
  write(root + "/a/b/cpu.max", "nonsense");
  CHECK(processors() == 3);

  write(memberships, "5:cpuacct,cpu:/host/path\n");  // version 1; the path is not the container's
  CHECK(processors() == 16);
  write(root + "/cpu/cpu.cfs_quota_us", "-1\n");
  write(root + "/cpu/cpu.cfs_period_us", "100000\n");
  CHECK(processors() == 16);
  write(root + "/cpu/cpu.cfs_quota_us", "400000\n");
  CHECK(processors() == 4);
  write(memberships, "5:cpuset:/host/path\n");
  CHECK(processors() == 16);
}
