// Background: a thread that works through a list in order, while another thread prepares what comes next.
#pragma once
#include <condition_variable>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include <heddle/base/threads.hpp>

namespace heddle::distributed::detail {

// Calls work(0), work(1), … work(count - 1) on a thread of its own, each when it is allowed to.
class Background {
 public:
  Background(std::size_t count, std::function<void(std::size_t)> work)
      : allowed_(count, false), thread_([this, count, work = std::move(work)] { run(count, work); }) {}
  Background(const Background&) = delete;
  // Drops the calls that are not allowed yet.
  ~Background() {
    {
      const std::lock_guard lock(mutex_);
      is_dropped_ = true;
    }
    changed_.notify_one();
    if (thread_.joinable()) thread_.join();
  }

  void allow(std::size_t number) {
    {
      const std::lock_guard lock(mutex_);
      allowed_[number] = true;
    }
    changed_.notify_one();
  }
  // Waits for the last call. Rethrows what a call has thrown.
  void finish() {
    thread_.join();
    if (error_) std::rethrow_exception(error_);
  }

 private:
  void run(std::size_t count, const std::function<void(std::size_t)>& work) noexcept {
    set_threads(1);  // the pool of threads belongs to the others
    try {
      for (std::size_t number = 0; number < count; ++number) {
        {
          std::unique_lock lock(mutex_);
          changed_.wait(lock, [&] { return allowed_[number] || is_dropped_; });
          if (!allowed_[number]) return;
        }
        work(number);
      }
    } catch (...) {
      error_ = std::current_exception();
    }
  }

  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<bool> allowed_;
  bool is_dropped_ = false;
  std::exception_ptr error_;
  std::thread thread_;  // the last member: it uses the others
};

}  // namespace heddle::distributed::detail
