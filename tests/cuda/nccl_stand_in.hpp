// A stand-in for NCCL: threads of one process are its processes, each with a GPU. It records the calls, checks their
// buffers, streams, counts and order, and moves the memory.
#pragma once
#include <heddle/distributed/nccl.hpp>

#include <array>
#include <atomic>
#include <map>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "../distributed/thread_transport.hpp"

namespace heddle::testing {

class NcclStandIn {
 public:
  using Functions = distributed::detail::NcclFunctions;

  /// A call that moved memory.
  struct Call {
    std::string name;
    std::size_t count;
    int other;
    void* stream;
  };

  /// Returns the functions.
  static const Functions& functions() {
    static const Functions table = [] {
      Functions f;
      f.error_text = [](Functions::Result) { return last_error().c_str(); };
      f.unique_id = [](Functions::UniqueId* id) {
        static std::atomic<int> worlds{0};
        const int number = ++worlds;
        std::memcpy(id->bytes, &number, sizeof number);
        return Functions::success;
      };
      f.begin = begin;
      f.end = [](Functions::Communicator c) {
        delete member(c);
        return Functions::success;
      };
      f.abort = f.end;
      f.group_begin = [] {
        ++depth();
        return Functions::success;
      };
      f.group_end = [] { return --depth() > 0 ? Functions::success : flush(); };
      f.send = [](const void* from, std::size_t count, Functions::Type type, int other, Functions::Communicator c,
                  void* stream) {
        return add({sending, member(c), const_cast<void*>(from), nullptr, count, type, other, stream});
      };
      f.receive = [](void* to, std::size_t count, Functions::Type type, int other, Functions::Communicator c,
                     void* stream) {
        return add({receiving, member(c), nullptr, to, count, type, other, stream});
      };
      f.broadcast = [](const void* from, void* to, std::size_t count, Functions::Type type, int root,
                       Functions::Communicator c, void* stream) {
        return add({broadcasting, member(c), const_cast<void*>(from), to, count, type, root, stream});
      };
      f.all_reduce = [](const void* from, void* to, std::size_t count, Functions::Type type, Functions::Operation,
                        Functions::Communicator c, void* stream) {
        return add({all_reducing, member(c), const_cast<void*>(from), to, count, type, -1, stream});
      };
      return f;
    }();
    return table;
  }
  /// Returns the calls of this thread, and forgets them.
  static std::vector<Call> calls() { return std::exchange(recorded(), {}); }

 private:
  struct World {
    Mail mail;
  };
  struct Member {
    std::shared_ptr<World> world;
    int rank, size, gpu;
  };
  enum Kind { sending, receiving, broadcasting, all_reducing };
  static constexpr const char* names[] = {"ncclSend", "ncclRecv", "ncclBroadcast", "ncclAllReduce"};
  struct Operation {
    Kind kind;
    Member* member;
    void *from, *to;
    std::size_t count;
    Functions::Type type;
    int other;
    void* stream;

    const char* name() const { return names[kind]; }
    std::size_t bytes() const { return count * (type == Functions::float32 ? 4 : 1); }
    // What the other side must expect.
    std::string label() const { return names[kind == receiving ? sending : kind] + (' ' + std::to_string(bytes())); }
  };

  static Member* member(Functions::Communicator c) { return reinterpret_cast<Member*>(c); }
  static std::string& last_error() {
    thread_local std::string text;
    return text;
  }
  static int& depth() {
    thread_local int value = 0;
    return value;
  }
  static std::vector<Operation>& pending() {
    thread_local std::vector<Operation> operations;
    return operations;
  }
  static std::vector<Call>& recorded() {
    thread_local std::vector<Call> all;
    return all;
  }
  static Functions::Result begin(Functions::Communicator* c, int size, Functions::UniqueId id, int rank) {
    static std::mutex mutex;
    static std::map<int, std::weak_ptr<World>> worlds;
    int number = 0;
    std::memcpy(&number, id.bytes, sizeof number);
    const std::lock_guard lock(mutex);
    std::shared_ptr<World> world = worlds[number].lock();
    if (!world) worlds[number] = world = std::make_shared<World>();
    *c = reinterpret_cast<Functions::Communicator>(new Member{world, rank, size, cuda::current_device()});
    return Functions::success;
  }
  static Functions::Result add(const Operation& operation) {
    pending().push_back(operation);
    return depth() > 0 ? Functions::success : flush();
  }
  // Executes the operations of a group, the ones that send first.
  static Functions::Result flush() {
    const std::vector<Operation> operations = std::exchange(pending(), {});
    try {
      for (const Operation& o : operations) check(o);
      if (!operations.empty()) cuda::synchronize();
      for (const Operation& o : operations) send(o);
      for (const Operation& o : operations) receive(o);
    } catch (const Error& error) {
      last_error() = error.what();
      return static_cast<Functions::Result>(1);
    }
    for (const Operation& o : operations) recorded().push_back({o.name(), o.count, o.other, o.stream});
    return Functions::success;
  }
  static void check(const Operation& o) {
    const Member& m = *o.member;
    require(o.count > 0, o.name(), ": moves nothing");
    require(cuda::current_device() == m.gpu, o.name(), ": GPU ", cuda::current_device(), " is current, not ", m.gpu);
    require(o.stream == cuda::stream(), o.name(), ": is not on the calling thread's stream");
    for (const void* memory : {o.from, o.to})
      require(!memory || cuda::device_of(memory) == m.gpu, o.name(), ": the memory is on another GPU");
    require(o.other == -1 || (0 <= o.other && o.other < m.size), o.name(), ": there is no process ", o.other);
  }
  static void send(const Operation& o) {
    const Member& m = *o.member;
    if (!o.from || (o.kind == broadcasting && m.rank != o.other)) return;
    std::vector<std::byte> message(o.bytes());
    cuda::to_host(message.data(), o.from, message.size());
    const std::string label = o.label();
    for (int to = 0; to < m.size; ++to) {
      if (o.kind == sending ? to != o.other : to == m.rank) continue;
      m.world->mail.put(m.rank, to, std::as_bytes(std::span(label)));
      m.world->mail.put(m.rank, to, message);
    }
  }
  static std::vector<std::byte> take(const Operation& o, int from) {
    const std::vector<std::byte> label = o.member->world->mail.take(from, o.member->rank);
    const std::string text(reinterpret_cast<const char*>(label.data()), label.size());
    require(text == o.label(), o.name(), ": process ", from, " sent '", text, "' where '", o.label(), "' is expected");
    return o.member->world->mail.take(from, o.member->rank);
  }
  static void receive(const Operation& o) {
    const Member& m = *o.member;
    if (!o.to || (o.kind == broadcasting && m.rank == o.other)) return;
    std::vector<std::byte> result;
    if (o.kind == all_reducing) {
      std::vector<float> sum(o.count), part(o.count);
      for (int from = m.size - 1; from >= 0; --from) {  // another order than that of heddle
        if (from == m.rank) {
          cuda::to_host(part.data(), o.from, o.bytes());
        } else {
          const std::vector<std::byte> message = take(o, from);
          std::memcpy(part.data(), message.data(), message.size());
        }
        for (std::size_t i = 0; i < o.count; ++i) sum[i] += part[i];
      }
      result.assign(std::as_bytes(std::span(sum)).begin(), std::as_bytes(std::span(sum)).end());
    } else {
      result = take(o, o.other);
    }
    cuda::to_device(o.to, result.data(), result.size());
  }
};

}  // namespace heddle::testing
