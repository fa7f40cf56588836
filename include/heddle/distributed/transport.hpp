// Transport: how bytes travel between processes. distributed/mpi.hpp has the one on MPI.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <span>

#include <heddle/base/error.hpp>

namespace heddle::distributed {

/// A failure of the connection between processes, for example because one of them has ended.
struct CommunicationError : Error {
  using Error::Error;
};

/// Moves bytes between processes 0 to size() - 1. All processes call the functions in the same order, with the same
/// sizes; a call returns when the bytes have arrived. @throws CommunicationError (every function).
class Transport {
 public:
  virtual ~Transport() = default;
  /// Returns the number of this process.
  virtual int rank() const = 0;
  /// Returns the number of processes.
  virtual int size() const = 0;
  /// Returns whether a thread may call the members while another one, which called them before, does not.
  virtual bool serves_all_threads() const { return true; }
  /// Sends bytes to another process and receives bytes from it. Either span may be empty.
  virtual void exchange(int other, std::span<const std::byte> sent, std::span<std::byte> received) = 0;
  /// Copies the bytes of process `root` to all others.
  virtual void broadcast(std::span<std::byte> bytes, int root) = 0;
  /// Writes the bytes of all processes to `all`, in the order of the processes.
  virtual void all_gather(std::span<const std::byte> own, std::span<std::byte> all) = 0;
  /// Replaces values by their sums over all processes, in an order that the transport chooses.
  virtual void add_in_any_order(std::span<float> values) = 0;
  /// Replaces values by their sums over all processes, in an order that the transport chooses.
  virtual void add_in_any_order(std::span<double> values) = 0;

  /// Returns whether the functions below move memory of the calling thread's GPU. They enqueue their work on the
  /// calling thread's stream and return before it is complete.
  virtual bool reaches_gpus() const { return false; }
  /// Returns a stream of the calling thread's GPU for transfers that run beside the work on its own stream.
  virtual void* second_stream() { refuse_gpus(); }
  /// Does what exchange() does.
  virtual void exchange_on_gpus(int, std::span<const std::byte>, std::span<std::byte>) { refuse_gpus(); }
  /// Does what broadcast() does.
  virtual void broadcast_on_gpus(std::span<std::byte>, int) { refuse_gpus(); }
  /// Does what add_in_any_order() does.
  virtual void add_in_any_order_on_gpus(std::span<float>) { refuse_gpus(); }

 private:
  [[noreturn]] static void refuse_gpus() { fail<CommunicationError>("this transport does not reach GPUs"); }
};

/// The transport of a single process.
class NoTransport final : public Transport {
 public:
  int rank() const override { return 0; }
  int size() const override { return 1; }
  void exchange(int, std::span<const std::byte>, std::span<std::byte>) override {}
  void broadcast(std::span<std::byte>, int) override {}
  void all_gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    std::copy(own.begin(), own.end(), all.begin());
  }
  void add_in_any_order(std::span<float>) override {}
  void add_in_any_order(std::span<double>) override {}
};

/// The number of processes that a launcher such as mpirun or srun has started together with this one, and the number of
/// this one.
struct Launched {
  int size = 1;  ///< the number of processes
  int rank = 0;  ///< the number of this process
};
/// Reads the environment variables of Open MPI, MPICH and Slurm. Needs no MPI, so that a program that was built without
/// it can tell that it was started several times.
inline Launched launched() {
  constexpr const char* names[][2] = {{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"},
                                      {"PMI_SIZE", "PMI_RANK"},
                                      {"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"},
                                      {"SLURM_STEP_NUM_TASKS", "SLURM_PROCID"}};
  const auto number = [](const char* name) {
    const char* const value = std::getenv(name);
    return value ? std::atoi(value) : 0;
  };
  for (const auto& [size, rank] : names)
    if (number(size) > 1) return {number(size), number(rank)};
  return {};
}

}  // namespace heddle::distributed
