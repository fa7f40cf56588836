// Batches of many threads' inputs: which inputs are computed together, and what happens to those that fail.
#include <heddle/models/batcher.hpp>

#include <atomic>
#include <cstdlib>
#include <latch>
#include <memory>
#include <string>

#include "catch.hpp"

using namespace heddle;
using models::BatcherOptions;

namespace {

// A function for a Batcher that records its batches and can be held up.
class Recorder {
 public:
  std::vector<int> operator()(const std::vector<int>& inputs) {
    std::unique_lock lock(mutex_);
    batches_.push_back(inputs);
    changed_.notify_all();
    changed_.wait(lock, [this] { return !is_held_; });
    std::vector<int> outputs;
    for (const int x : inputs) {
      if (x < 0) fail("negative: ", x);
      outputs.push_back(2 * x);
    }
    return outputs;
  }
  void hold(bool held) {
    const std::lock_guard lock(mutex_);
    is_held_ = held;
    changed_.notify_all();
  }
  // Waits until the function was called n times.
  void wait_for_calls(std::size_t n) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return batches_.size() >= n; });
  }
  std::vector<std::vector<int>> batches() const {
    const std::lock_guard lock(mutex_);
    return batches_;
  }

 private:
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::vector<int>> batches_;
  bool is_held_ = false;
};

using IntBatcher = models::Batcher<int, int>;

// A batcher of a recorder, whose inputs are their own costs. Its first batch, {1}, is held up until release().
struct HeldBatcher {
  Recorder recorder;
  std::atomic<int> computed = 0;
  IntBatcher batcher;

  explicit HeldBatcher(const BatcherOptions& options)
      : batcher([this](const std::vector<int>& inputs) { return recorder(inputs); }, options,
                [](int x) { return static_cast<std::size_t>(std::abs(x)); }) {
    recorder.hold(true);
    submit({1});
    recorder.wait_for_calls(1);
  }
  ~HeldBatcher() { recorder.hold(false); }
  void submit(std::vector<int> inputs) {
    batcher.submit(std::move(inputs), [this](const std::vector<int>& outputs, const std::exception_ptr& error) {
      computed += error ? 0 : static_cast<int>(outputs.size());
    });
  }
  // Computes everything and returns the batches after the first one.
  std::vector<std::vector<int>> release() {
    recorder.hold(false);
    batcher.stop();
    std::vector<std::vector<int>> batches = recorder.batches();
    batches.erase(batches.begin());
    return batches;
  }
};

}  // namespace

TEST_CASE("models::Batcher: requests of many threads have their own outputs in order") {
  Recorder recorder;
  IntBatcher batcher([&](const std::vector<int>& inputs) { return recorder(inputs); },
                     {.max_batch = 7, .max_wait = std::chrono::microseconds(100)});
  std::atomic<int> wrong = 0;
  std::vector<std::thread> clients;
  for (int client = 0; client < 8; ++client)
    clients.emplace_back([&, client] {
      for (int n = 0; n < 50; ++n) {
        const int first = 1000 * client + 10 * n;
        std::vector<int> inputs, expected;
        for (int i = 0; i < n % 10; ++i) inputs.push_back(first + i), expected.push_back(2 * (first + i));
        wrong += batcher(inputs) != expected;
        wrong += batcher(first) != 2 * first;
      }
    });
  for (std::thread& client : clients) client.join();
  CHECK(wrong == 0);
  std::size_t inputs = 0;
  for (const std::vector<int>& batch : recorder.batches()) {
    CHECK(batch.size() <= 7);
    inputs += batch.size();
  }
  CHECK(inputs == 8 * (50 + 5 * 45));
  const models::BatcherCounts counts = batcher.counts();
  CHECK(counts.inputs == inputs);
  CHECK(counts.batches == recorder.batches().size());
  CHECK(counts.failed + counts.refused + counts.waiting == 0);
}

TEST_CASE("models::Batcher: a batch has the oldest input and those of nearest cost that fit") {
  HeldBatcher held({.max_batch = 3, .max_cost = 100});
  held.submit({4, 90, 5, 80});
  held.submit({3, 6, 200});
  CHECK(held.release() == std::vector<std::vector<int>>{{4, 5, 3}, {90, 6}, {80}, {200}});
  CHECK(held.computed == 8);
}

TEST_CASE("models::Batcher: an input that is long for a batch of short ones is computed by itself") {
  HeldBatcher held({.max_batch = 4, .max_cost = 100});  // more than 25 and more than four times the oldest
  held.submit({2, 26, 3, 25, 6, 26, 30});
  CHECK(held.release() == std::vector<std::vector<int>>{{2, 3, 25, 6}, {26, 26, 30}});
  HeldBatcher few({.max_batch = 4, .max_cost = 100});
  few.submit({2, 26, 3});
  CHECK(few.release() == std::vector<std::vector<int>>{{2, 3}, {26}});
}

TEST_CASE("models::Batcher: inputs of equal cost are computed in their order") {
  Recorder recorder;
  IntBatcher batcher([&](const std::vector<int>& inputs) { return recorder(inputs); }, {.max_batch = 2});
  recorder.hold(true);
  batcher.submit({0}, [](auto&&...) {});
  recorder.wait_for_calls(1);
  batcher.submit({9, 1, 8, 2, 7}, [](auto&&...) {});
  recorder.hold(false);
  batcher.stop();
  CHECK(recorder.batches() == std::vector<std::vector<int>>{{0}, {9, 1}, {8, 2}, {7}});
}

TEST_CASE("models::Batcher: inputs wait for others up to a time") {
  Recorder recorder;
  IntBatcher batcher([&](const std::vector<int>& inputs) { return recorder(inputs); },
                     {.max_batch = 2, .max_wait = std::chrono::minutes(10)});
  batcher.submit({1}, [](auto&&...) {});
  CHECK(batcher(2) == 4);  // the batch is full
  CHECK(recorder.batches() == std::vector<std::vector<int>>{{1, 2}});
  batcher.submit({3}, [](auto&&...) {});
  batcher.stop();  // does not wait for more inputs
  CHECK(recorder.batches().size() == 2);

  IntBatcher brief([&](const std::vector<int>& inputs) { return recorder(inputs); },
                   {.max_batch = 2, .max_wait = std::chrono::milliseconds(1)});
  CHECK(brief(5) == 10);
  IntBatcher narrow([&](const std::vector<int>& inputs) { return recorder(inputs); },
                    {.max_batch = 9, .max_wait = std::chrono::minutes(10), .max_queue = 2});
  CHECK(narrow(std::vector{6, 7}) == std::vector{12, 14});  // the queue is full
}

TEST_CASE("models::Batcher: a full queue refuses a whole request") {
  HeldBatcher held({.max_batch = 2, .max_queue = 3});
  held.submit({5, 5});
  CHECK_THROWS_WITH(held.submit({6, 6}), "Batcher: the queue has 2 of 3 inputs and no place for 2 more");
  CHECK_THROWS_AS(held.submit({6, 6}), models::QueueFull);
  CHECK_THROWS_WITH(held.submit({1, 2, 3, 4}), "Batcher: a request has 4 inputs; the queue holds 3");
  held.submit({7});
  CHECK(held.batcher.counts().waiting == 3);
  CHECK(held.batcher.counts().refused == 4);
  CHECK(held.release() == std::vector<std::vector<int>>{{5, 5}, {7}});
  CHECK(held.computed == 4);
}

TEST_CASE("models::Batcher: an input fails alone") {
  HeldBatcher held({});
  std::vector<int> of_bad{1}, of_good;
  std::string error;
  bool failed = false;
  held.batcher.submit({-1, 3}, [&](const std::vector<int>& outputs, const std::exception_ptr& e) {
    of_bad = outputs;
    try {
      if (e) std::rethrow_exception(e);
    } catch (const Error& found) {
      error = found.what();
    }
  });
  held.batcher.submit({4, 5}, [&](const std::vector<int>& outputs, const std::exception_ptr& e) {
    of_good = outputs;
    failed = e != nullptr;
  });
  CHECK(held.release() == std::vector<std::vector<int>>{{-1, 3, 4, 5}, {-1}, {3}, {4}, {5}});
  CHECK(of_bad.empty());
  CHECK(error == "negative: -1");
  CHECK(of_good == std::vector{8, 10});
  CHECK(!failed);
  CHECK(held.batcher.counts().failed == 1);
  CHECK(held.batcher.counts().inputs == 5);
  CHECK(held.batcher.counts().batches == 2);
}

TEST_CASE("models::Batcher: inputs and outputs that can only be moved, and a request that follows another") {
  struct Number {
    explicit Number(int x) : value(std::make_unique<int>(x)) {}
    std::unique_ptr<int> value;
  };
  std::atomic<int> last = 0;
  models::Batcher<std::unique_ptr<int>, Number> batcher([](const std::vector<std::unique_ptr<int>>& inputs) {
    std::vector<Number> outputs;
    for (const auto& x : inputs) outputs.emplace_back(*x + 1);
    return outputs;
  });
  CHECK(*batcher(std::make_unique<int>(3)).value == 4);
  std::vector<std::unique_ptr<int>> inputs;
  inputs.push_back(std::make_unique<int>(5));
  batcher.submit(std::move(inputs), [&](std::vector<Number> outputs, std::exception_ptr) {
    std::vector<std::unique_ptr<int>> next;
    next.push_back(std::move(outputs[0].value));
    batcher.submit(std::move(next), [&](std::vector<Number> found, std::exception_ptr) { last = *found[0].value; });
  });
  while (last == 0) std::this_thread::yield();
  CHECK(last == 7);
}

TEST_CASE("models::Batcher: errors") {
  const IntBatcher::Function twice = [](const std::vector<int>& inputs) { return inputs; };
  CHECK_THROWS_WITH(IntBatcher(IntBatcher::Function()), "Batcher: the function is empty");
  CHECK_THROWS_WITH(IntBatcher(twice, {.max_batch = 0}),
                    "Batcher: max_batch, max_cost and max_queue must be at least 1, got 0, 16384 and 1024");
  CHECK_THROWS_WITH(IntBatcher(twice, {.max_wait = std::chrono::microseconds(-1)}),
                    "Batcher: max_wait must be from 0 to an hour, got -1 microseconds");
  CHECK_THROWS_AS(IntBatcher(twice, {.max_cost = 0}), Error);
  CHECK_THROWS_AS(IntBatcher(twice, {.max_queue = 0}), Error);
  CHECK_THROWS_AS(IntBatcher(twice, {.max_wait = std::chrono::hours(2)}), Error);

  IntBatcher none([](const std::vector<int>&) { return std::vector<int>(); });
  CHECK_THROWS_WITH(none(1), "Batcher: the function returned 0 outputs for 1 inputs");
  CHECK(none(std::vector<int>()).empty());
  CHECK_THROWS_WITH(none(std::vector{1, 2}), "Batcher: the function returned 0 outputs for 1 inputs");
  CHECK_THROWS_WITH(none.submit({1}, nullptr), "Batcher: the function that receives the outputs is empty");
  IntBatcher costs(twice, {}, [](int x) -> std::size_t { return x < 0 ? throw Error("no cost") : 0; });
  CHECK(costs(1) == 1);
  CHECK_THROWS_WITH(costs(std::vector{1, -1}), "no cost");

  IntBatcher stopped(twice);
  CHECK(stopped(3) == 3);
  stopped.stop();
  stopped.stop();
  CHECK_THROWS_WITH(stopped(3), "Batcher: it was stopped");
}

TEST_CASE("models::Batcher: the destructor computes what waits") {
  std::atomic<int> computed = 0;
  {
    IntBatcher batcher([](const std::vector<int>& inputs) { return inputs; },
                       {.max_batch = 4, .max_wait = std::chrono::minutes(10)});
    for (int i = 0; i < 10; ++i)
      batcher.submit({i}, [&](const std::vector<int>& outputs, const std::exception_ptr&) {
        computed += static_cast<int>(outputs.size());
      });
  }
  CHECK(computed == 10);
}

TEST_CASE("models::Batcher: threads may stop it while others submit") {
  for (int turn = 0; turn < 20; ++turn) {
    IntBatcher batcher([](const std::vector<int>& inputs) { return inputs; });
    std::atomic<int> accepted = 0, computed = 0;
    std::latch start(4);
    std::vector<std::thread> threads;
    for (int i = 0; i < 4; ++i)
      threads.emplace_back([&, i] {
        start.arrive_and_wait();
        if (i == 3) return batcher.stop();
        try {
          for (int n = 0; n < 100; ++n) {
            batcher.submit({n}, [&](const std::vector<int>&, const std::exception_ptr&) { ++computed; });
            ++accepted;
          }
        } catch (const Error&) {
        }
      });
    for (std::thread& thread : threads) thread.join();
    batcher.stop();
    CHECK(accepted == computed);
  }
}
