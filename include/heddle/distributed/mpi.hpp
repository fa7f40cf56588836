// The transport on MPI, for programs that link heddle::mpi: Open MPI, MPICH and others.
#pragma once
#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1  // only the C interface is used
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif
#include <mpi.h>
#include <sched.h>

#include <chrono>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <heddle/base/processors.hpp>
#include <heddle/distributed/machine.hpp>

namespace heddle::distributed {

namespace detail {

// Throws CommunicationError if a call of MPI failed.
inline void check_mpi(int code, const char* call) {
  if (code == MPI_SUCCESS) return;
  char text[MPI_MAX_ERROR_STRING];
  int length = 0;
  MPI_Error_string(code, text, &length);
  fail<CommunicationError>("MPI: ", call, " failed: ", std::string_view(text, static_cast<std::size_t>(length)));
}

// A run of MPI, which is started unless the program has done so, and then ended with the last handle. If that is
// released because of an exception, the end of this process will end all others: they may be waiting for it.
class MpiRun {
 public:
  // Returns a handle to the run. Throws CommunicationError if MPI has ended.
  static std::shared_ptr<MpiRun> begin() {
    static std::mutex mutex;
    static std::weak_ptr<MpiRun> current;
    const std::lock_guard lock(mutex);
    std::shared_ptr<MpiRun> run = current.lock();
    if (!run) current = run = std::make_shared<MpiRun>();
    return run;
  }

  MpiRun() {
    int begun = 0, ended = 0;
    MPI_Initialized(&begun);
    MPI_Finalized(&ended);
    require<CommunicationError>(!ended,
                                "MPI has ended, and cannot start again; keep the communicator until the end of main()");
    is_own_ = !begun;
    if (is_own_)
      check_mpi(MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &level_), "MPI_Init_thread");
    else
      check_mpi(MPI_Query_thread(&level_), "MPI_Query_thread");
  }
  MpiRun(const MpiRun&) = delete;
  ~MpiRun() {
    if (!is_own_) return;
    if (std::uncaught_exceptions() > exceptions_)
      std::atexit([] { MPI_Abort(MPI_COMM_WORLD, 1); });
    else
      MPI_Finalize();
  }

  // Returns whether any thread may call MPI, one at a time.
  bool serves_all_threads() const { return level_ >= MPI_THREAD_SERIALIZED; }

 private:
  bool is_own_ = false;
  int level_ = MPI_THREAD_SINGLE;
  int exceptions_ = std::uncaught_exceptions();
};

// Waits for a request. MPI's own waiting occupies a processor, which another process or thread may need: this function
// yields after some microseconds, and sleeps after some hundred.
inline void wait(MPI_Request request, const char* call) {
  using Clock = std::chrono::steady_clock;
  constexpr std::chrono::microseconds spinning(20), yielding(500), sleep(50);
  const Clock::time_point begin = Clock::now();
  for (int done = 0;;) {
    check_mpi(MPI_Test(&request, &done, MPI_STATUS_IGNORE), call);
    if (done) return;
    const Clock::duration waited = Clock::now() - begin;
    if (waited > yielding)
      std::this_thread::sleep_for(sleep);
    else if (waited > spinning)
      sched_yield();
  }
}

}  // namespace detail

/// A transport on the processes of an MPI communicator.
class MpiTransport final : public Transport {
 public:
  /// Takes a communicator of MPI, which it duplicates. Starts MPI if it does not run; then it ends it, too.
  /// @throws CommunicationError.
  explicit MpiTransport(MPI_Comm communicator = MPI_COMM_WORLD) {
    check(MPI_Comm_dup(communicator, &communicator_), "MPI_Comm_dup");
    check(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "MPI_Comm_set_errhandler");
    check(MPI_Comm_rank(communicator_, &rank_), "MPI_Comm_rank");
    check(MPI_Comm_size(communicator_, &size_), "MPI_Comm_size");
  }
  MpiTransport(const MpiTransport&) = delete;
  ~MpiTransport() override {
    if (std::uncaught_exceptions() == 0) MPI_Comm_free(&communicator_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  bool serves_all_threads() const override { return run_->serves_all_threads(); }

  void exchange(int other, std::span<const std::byte> sent, std::span<std::byte> received) override {
    while (!sent.empty() || !received.empty()) {
      const auto out = sent.first(std::min(sent.size(), most_bytes));
      const auto in = received.first(std::min(received.size(), most_bytes));
      MPI_Request sending = MPI_REQUEST_NULL, receiving = MPI_REQUEST_NULL;
      if (!in.empty())
        check(MPI_Irecv(in.data(), int_of(in.size()), MPI_BYTE, other, 0, communicator_, &receiving), "MPI_Irecv");
      if (!out.empty())
        check(MPI_Isend(out.data(), int_of(out.size()), MPI_BYTE, other, 0, communicator_, &sending), "MPI_Isend");
      detail::wait(receiving, "MPI_Irecv");
      detail::wait(sending, "MPI_Isend");
      sent = sent.subspan(out.size());
      received = received.subspan(in.size());
    }
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    for (; !bytes.empty(); bytes = bytes.subspan(std::min(bytes.size(), most_bytes))) {
      MPI_Request request;
      const int count = int_of(std::min(bytes.size(), most_bytes));
      check(MPI_Ibcast(bytes.data(), count, MPI_BYTE, root, communicator_, &request), "MPI_Ibcast");
      detail::wait(request, "MPI_Ibcast");
    }
  }
  void all_gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    require<CommunicationError>(own.size() <= most_bytes, "all_gather: ", own.size(), " bytes of a process; ",
                                most_bytes, " are allowed");
    MPI_Request request;
    check(MPI_Iallgather(own.data(), int_of(own.size()), MPI_BYTE, all.data(), int_of(own.size()), MPI_BYTE,
                         communicator_, &request),
          "MPI_Iallgather");
    detail::wait(request, "MPI_Iallgather");
  }
  void add_in_any_order(std::span<float> values) override { add(values, MPI_FLOAT); }
  void add_in_any_order(std::span<double> values) override { add(values, MPI_DOUBLE); }

 private:
  static constexpr std::size_t most_bytes = std::size_t{1} << 30;  // of one message; MPI counts in int

  static int int_of(std::size_t count) { return static_cast<int>(count); }
  static void check(int code, const char* call) { detail::check_mpi(code, call); }

  template <class T>
  void add(std::span<T> values, MPI_Datatype type) {
    for (; !values.empty(); values = values.subspan(std::min(values.size(), most_bytes / sizeof(T)))) {
      MPI_Request request;
      const int count = int_of(std::min(values.size(), most_bytes / sizeof(T)));
      check(MPI_Iallreduce(MPI_IN_PLACE, values.data(), count, type, MPI_SUM, communicator_, &request),
            "MPI_Iallreduce");
      detail::wait(request, "MPI_Iallreduce");
    }
  }

  std::shared_ptr<detail::MpiRun> run_ = detail::MpiRun::begin();
  MPI_Comm communicator_ = MPI_COMM_NULL;
  int rank_ = 0, size_ = 1;
};

/// Returns the communicator of all processes that mpirun started. Starts MPI if it does not run; the last handle ends
/// it, so keep it until the end of main(). If that goes because of an exception, this process ends all others at its
/// exit, because they may be waiting for it. @throws CommunicationError.
inline Communicator mpi() { return Communicator(std::make_shared<MpiTransport>()); }

/// Returns the number of threads for this process: its share of the processors that it and the other processes on this
/// machine may use, by their affinity masks and control groups, but at least 1. OMP_NUM_THREADS takes precedence. Every
/// process of the communicator calls it. @throws CommunicationError.
inline int share_of_processors(const Communicator& communicator) {
  const std::vector<int> here = processes_on_machine(communicator);
  struct Processors {  // nvcc crashes on a vector of cpu_set_t, a struct without a name
    cpu_set_t set;
  };
  Processors own;
  CPU_ZERO(&own.set);
  sched_getaffinity(0, sizeof own.set, &own.set);
  const std::vector<Processors> all = communicator.all_gather(std::vector(1, own));
  double share = 0;
  for (std::size_t processor = 0; processor < CPU_SETSIZE; ++processor) {
    if (!CPU_ISSET(processor, &own.set)) continue;
    int users = 0;
    for (const int process : here) users += CPU_ISSET(processor, &all[static_cast<std::size_t>(process)].set);
    share += 1. / users;
  }
  const int available = heddle::detail::available_processors();
  if (std::getenv("OMP_NUM_THREADS")) return available;
  const int of_mask = CPU_COUNT(&own.set);
  const bool has_quota = available < of_mask;
  return std::max(1, static_cast<int>(has_quota ? std::min<double>(share, available / static_cast<double>(here.size()))
                                                : share + 1e-9));
}

}  // namespace heddle::distributed
