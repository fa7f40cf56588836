// A transport between threads of one process.
#pragma once
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <heddle/distributed/communicator.hpp>

namespace heddle::testing {

/// The messages between threads.
class Mail {
 public:
  void put(int from, int to, std::span<const std::byte> bytes) {
    const std::lock_guard lock(mutex_);
    boxes_[{from, to}].emplace_back(bytes.begin(), bytes.end());
    arrived_.notify_all();
  }
  std::vector<std::byte> take(int from, int to) {
    std::unique_lock lock(mutex_);
    auto& box = boxes_[{from, to}];
    arrived_.wait(lock, [&] { return !box.empty(); });
    std::vector<std::byte> bytes = std::move(box.front());
    box.pop_front();
    return bytes;
  }

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::map<std::pair<int, int>, std::deque<std::vector<std::byte>>> boxes_;
};

/// The transport of one of `size` threads.
class ThreadTransport final : public distributed::Transport {
 public:
  ThreadTransport(Mail& mail, int rank, int size) : mail_(mail), rank_(rank), size_(size) {}
  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void exchange(int other, std::span<const std::byte> sent, std::span<std::byte> received) override {
    require(other != rank_ && 0 <= other && other < size_, "exchange: there is no other process ", other);
    if (!sent.empty()) mail_.put(rank_, other, sent);
    if (!received.empty()) receive(other, received);
  }
  void broadcast(std::span<std::byte> bytes, int root) override {
    if (rank_ != root) return receive(root, bytes);
    for (int other = 0; other < size_; ++other)
      if (other != root) mail_.put(rank_, other, bytes);
  }
  void all_gather(std::span<const std::byte> own, std::span<std::byte> all) override {
    for (int other = 0; other < size_; ++other)
      if (other != rank_) mail_.put(rank_, other, own);
    for (int other = 0; other < size_; ++other) {
      const std::span<std::byte> place = all.subspan(static_cast<std::size_t>(other) * own.size(), own.size());
      if (other == rank_)
        std::copy(own.begin(), own.end(), place.begin());
      else
        receive(other, place);
    }
  }
  void add_in_any_order(std::span<float> values) override { add(values); }
  void add_in_any_order(std::span<double> values) override { add(values); }

 private:
  void receive(int from, std::span<std::byte> bytes) {
    const std::vector<std::byte> message = mail_.take(from, rank_);
    require(message.size() == bytes.size(), "process ", rank_, " expects ", bytes.size(), " bytes of process ", from,
            ", which sent ", message.size());
    std::copy(message.begin(), message.end(), bytes.begin());
  }
  // Adds the last process's values first.
  template <class T>
  void add(std::span<T> values) {
    std::vector<T> all(values.size() * static_cast<std::size_t>(size_));
    all_gather(std::as_bytes(values), std::as_writable_bytes(std::span(all)));
    std::fill(values.begin(), values.end(), T(0));
    for (std::size_t i = all.size(); i-- > 0;) values[i % values.size()] += all[i];
  }

  Mail& mail_;
  int rank_, size_;
};

/// Runs work(communicator) on as many threads as there are processes. Rethrows the first error, after all have ended.
inline void on_processes(int size, const std::function<void(const distributed::Communicator&)>& work) {
  Mail mail;
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(size));
  std::vector<std::thread> threads;
  for (int rank = 0; rank < size; ++rank)
    threads.emplace_back([&, rank] {
      set_threads(1);
      try {
        work(distributed::Communicator(std::make_shared<ThreadTransport>(mail, rank, size)));
      } catch (...) {
        errors[static_cast<std::size_t>(rank)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace heddle::testing
