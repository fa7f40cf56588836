// The transport on NCCL, for tensors on GPUs of several processes or threads. Host memory travels as before.
#pragma once
#include <dlfcn.h>

#include <memory>
#include <string>
#include <type_traits>
#include <utility>

#include <heddle/distributed/communicator.hpp>
#include <heddle/gpu/runtime.hpp>

namespace heddle::distributed {

namespace detail {

// The functions of NCCL that heddle calls, with the types of its binary interface (nccl.h, version 2.7 and later).
struct NcclFunctions {
  struct UniqueId {
    char bytes[128];
  };
  using Communicator = struct ncclComm*;
  enum Result : int { success = 0 };
  enum Type : int { bytes = 0, float32 = 7 };
  enum Operation : int { sum = 0 };

  const char* (*error_text)(Result) = nullptr;
  Result (*unique_id)(UniqueId*) = nullptr;
  Result (*begin)(Communicator*, int size, UniqueId, int rank) = nullptr;
  Result (*end)(Communicator) = nullptr;
  Result (*abort)(Communicator) = nullptr;
  Result (*group_begin)() = nullptr;
  Result (*group_end)() = nullptr;
  Result (*send)(const void*, std::size_t, Type, int other, Communicator, void* stream) = nullptr;
  Result (*receive)(void*, std::size_t, Type, int other, Communicator, void* stream) = nullptr;
  Result (*broadcast)(const void*, void*, std::size_t, Type, int root, Communicator, void* stream) = nullptr;
  Result (*all_reduce)(const void*, void*, std::size_t, Type, Operation, Communicator, void* stream) = nullptr;

  // Returns those of the library. It is opened once, and never closed. Throws CommunicationError.
  static const NcclFunctions& of_library() {
    static const NcclFunctions* const functions = new NcclFunctions(open());
    return *functions;
  }

 private:
  static NcclFunctions open() {
    constexpr const char* file = "libnccl.so.2";
    void* const library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
    if (!library)
      fail<CommunicationError>("NCCL cannot be loaded: ", dlerror(),
                               "; install it or add its folder to LD_LIBRARY_PATH");
    NcclFunctions functions;
    const auto find = [&](auto& function, const char* name) {
      function = reinterpret_cast<std::remove_reference_t<decltype(function)>>(dlsym(library, name));
      if (!function) fail<CommunicationError>(file, " has no ", name);
    };
    find(functions.error_text, "ncclGetErrorString");
    find(functions.unique_id, "ncclGetUniqueId");
    find(functions.begin, "ncclCommInitRank");
    find(functions.end, "ncclCommDestroy");
    find(functions.abort, "ncclCommAbort");
    find(functions.group_begin, "ncclGroupStart");
    find(functions.group_end, "ncclGroupEnd");
    find(functions.send, "ncclSend");
    find(functions.receive, "ncclRecv");
    find(functions.broadcast, "ncclBroadcast");
    find(functions.all_reduce, "ncclAllReduce");
    return functions;
  }
};

}  // namespace detail

/// A transport that moves memory of GPUs by NCCL, and that of hosts by another transport. Every process, or thread,
/// has a GPU of its own: the calling thread's when this object is made and used.
class NcclTransport final : public Transport {
 public:
  /// Connects the GPUs of all processes of `host`. Every process makes one. @throws CommunicationError if NCCL cannot
  /// be loaded or fails, on all processes.
  explicit NcclTransport(std::shared_ptr<Transport> host)
      : NcclTransport(std::move(host), [] { return &detail::NcclFunctions::of_library(); }) {}
  /// @private Takes a function that returns the functions of NCCL, or throws CommunicationError.
  template <class Open>
  NcclTransport(std::shared_ptr<Transport> host, Open open) : host_(std::move(host)) {
    detail::NcclFunctions::UniqueId id{};
    // No process may wait for others that cannot come.
    fail_together([&] {
      nccl_ = open();
      if (rank() == 0) check(nccl_->unique_id(&id), "ncclGetUniqueId");
    });
    host_->broadcast(std::as_writable_bytes(std::span(&id, 1)), 0);
    fail_together([&] { check(nccl_->begin(&communicator_, size(), id, rank()), "ncclCommInitRank"); });
  }
  NcclTransport(const NcclTransport&) = delete;
  /// Ends the connection; while an exception is thrown, without waiting for the other processes.
  ~NcclTransport() override {
    if (communicator_) (std::uncaught_exceptions() > 0 ? nccl_->abort : nccl_->end)(communicator_);
  }

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  bool serves_all_threads() const override { return host_->serves_all_threads(); }
  void exchange(int other, std::span<const std::byte> sent, std::span<std::byte> received) override {
    host_->exchange(other, sent, received);
  }
  void broadcast(std::span<std::byte> bytes, int root) override { host_->broadcast(bytes, root); }
  void all_gather(std::span<const std::byte> own, std::span<std::byte> all) override { host_->all_gather(own, all); }
  void add_in_any_order(std::span<float> values) override { host_->add_in_any_order(values); }
  void add_in_any_order(std::span<double> values) override { host_->add_in_any_order(values); }

  bool reaches_gpus() const override { return true; }
  void* second_stream() override {
    if constexpr (heddle::detail::has_cuda) {
      if (!second_stream_) second_stream_ = std::make_shared<cuda::Stream>();
      return second_stream_->get();
    }
    return nullptr;
  }
  void exchange_on_gpus(int other, std::span<const std::byte> sent, std::span<std::byte> received) override {
    using Type = detail::NcclFunctions::Type;
    check(nccl_->group_begin(), "ncclGroupStart");
    if (!sent.empty())
      check(nccl_->send(sent.data(), sent.size(), Type::bytes, other, communicator_, stream()), "ncclSend");
    if (!received.empty())
      check(nccl_->receive(received.data(), received.size(), Type::bytes, other, communicator_, stream()), "ncclRecv");
    check(nccl_->group_end(), "ncclGroupEnd");
  }
  void broadcast_on_gpus(std::span<std::byte> bytes, int root) override {
    if (bytes.empty()) return;
    check(nccl_->broadcast(bytes.data(), bytes.data(), bytes.size(), detail::NcclFunctions::bytes, root, communicator_,
                           stream()),
          "ncclBroadcast");
  }
  void add_in_any_order_on_gpus(std::span<float> values) override {
    if (values.empty()) return;
    check(nccl_->all_reduce(values.data(), values.data(), values.size(), detail::NcclFunctions::float32,
                            detail::NcclFunctions::sum, communicator_, stream()),
          "ncclAllReduce");
  }

 private:
  // Calls f(). If it throws CommunicationError on some processes, throws that of the first of them on all.
  template <class F>
  void fail_together(F&& f) const {
    std::string error;
    try {
      f();
    } catch (const CommunicationError& failure) {
      error = failure.what();
    }
    const Communicator processes(host_);
    const std::vector<char> failed = processes.all_gather(std::vector<char>{!error.empty()});
    const auto first = std::find(failed.begin(), failed.end(), char(1));
    if (first == failed.end()) return;
    const auto process = static_cast<int>(first - failed.begin());
    error = processes.broadcast(error, process);
    fail<CommunicationError>(size() > 1 ? "process " + std::to_string(process) + ": " : std::string(), error);
  }
  static void* stream() {
    if constexpr (heddle::detail::has_cuda) return cuda::stream();
    return nullptr;
  }
  void check(detail::NcclFunctions::Result result, const char* call) const {
    if (result != detail::NcclFunctions::success)
      fail<CommunicationError>("NCCL: ", call, " failed: ", nccl_->error_text(result));
  }

  std::shared_ptr<Transport> host_;
  const detail::NcclFunctions* nccl_ = nullptr;
  detail::NcclFunctions::Communicator communicator_ = nullptr;
  std::shared_ptr<cuda::Stream> second_stream_;  // made when it is first needed
};

/// Returns a communicator of the same processes whose tensors on GPUs travel by NCCL, which is opened at run time.
/// Every process calls it, after choose_gpu() or cuda::set_device(). @throws CommunicationError as NcclTransport does.
inline Communicator nccl(const Communicator& processes) {
  return Communicator(std::make_shared<NcclTransport>(processes.transport()));
}

}  // namespace heddle::distributed
