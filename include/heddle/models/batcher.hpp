// Collects the inputs of many threads into batches, so that a server computes them together.
#pragma once
#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <functional>
#include <iterator>
#include <list>
#include <memory>
#include <mutex>
#include <new>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include <heddle/base/error.hpp>

namespace heddle::models {

/// A request that does not fit into the queue of a Batcher now. A server answers it with status 429 or 503.
struct QueueFull : Error {
  using Error::Error;
};

/// The limits of a Batcher.
struct BatcherOptions {
  std::size_t max_batch = 32;             ///< the most inputs of a batch
  std::size_t max_cost = 16384;           ///< the largest total cost of a batch; a costlier input is computed alone
  std::chrono::microseconds max_wait{0};  ///< how long an input waits for others while the thread is idle
  std::size_t max_queue = 1024;           ///< the most inputs in the queue
};

/// The counters of a Batcher, from its creation on.
struct BatcherCounts {
  std::uint64_t inputs = 0;   ///< inputs that were computed or failed
  std::uint64_t failed = 0;   ///< inputs that failed
  std::uint64_t refused = 0;  ///< inputs that did not fit into the queue
  std::uint64_t batches = 0;  ///< batches; calls for the inputs of a failed batch are not counted
  std::size_t waiting = 0;    ///< inputs in the queue now
  double seconds_waited = 0;  ///< time in the queue, summed over the inputs
  double seconds_busy = 0;    ///< time in the function
};

/// Calls a function for batches of inputs, on a thread of its own. Its member functions may be called by several
/// threads at once. The function and those that receive outputs may call submit() and counts() only, and must not
/// destroy the batcher.
///
/// A batch begins when the thread is idle and max_batch inputs wait, or inputs with a total cost of max_cost, or one
/// that has waited for max_wait. Without max_wait, the inputs that arrive during a batch form the next ones. A batch
/// has the oldest input and, of the others that fit, those whose costs are nearest to its cost, so no input is passed
/// over forever. An input joins no batch of a cheaper one if it is more than four times as costly and takes more than
/// max_cost / max_batch: a long text does not hold up short ones.
///
/// If the function throws for a batch, it is called for each input alone: an input does not fail because of another.
template <class Input, class Output>
class Batcher {
 public:
  using Inputs = std::vector<Input>;    ///< the inputs of a request
  using Outputs = std::vector<Output>;  ///< their outputs, in the same order
  /// Computes the outputs of a batch.
  using Function = std::function<Outputs(const Inputs&)>;
  /// Returns the cost of an input, such as the tokens of a text; 0 counts as 1. Called by the threads that submit.
  using Cost = std::function<std::size_t(const Input&)>;
  /// Receives the outputs of a request, or no outputs and the error that occurred first. It must not throw, and must
  /// therefore catch what submit() throws.
  using Done = std::function<void(Outputs, std::exception_ptr)>;

  /// Starts the thread. Each input has cost 1 unless `cost` is given. @throws Error for an empty function or a limit
  /// that is out of range: max_wait is from 0 to an hour, the others are at least 1.
  explicit Batcher(Function compute, const BatcherOptions& options = {}, Cost cost = {})
      : compute_(std::move(compute)), options_(options), cost_(std::move(cost)) {
    require(static_cast<bool>(compute_), "Batcher: the function is empty");
    require(options.max_batch > 0 && options.max_cost > 0 && options.max_queue > 0,
            "Batcher: max_batch, max_cost and max_queue must be at least 1, got ", options.max_batch, ", ",
            options.max_cost, " and ", options.max_queue);
    require(options.max_wait >= options.max_wait.zero() && options.max_wait <= std::chrono::hours(1),
            "Batcher: max_wait must be from 0 to an hour, got ", options.max_wait.count(), " microseconds");
    thread_ = std::thread([this] { run(); });
  }
  Batcher(const Batcher&) = delete;
  Batcher& operator=(const Batcher&) = delete;
  /// Stops as stop() does.
  ~Batcher() { stop(); }

  /// Returns the output of an input. @throws what the function throws for it, QueueFull, and Error after stop().
  Output operator()(Input input) {
    Inputs one;
    one.push_back(std::move(input));
    return std::move((*this)(std::move(one))[0]);
  }
  /// Returns the outputs of the inputs, which may be computed in several batches. @throws as for one input.
  Outputs operator()(Inputs inputs) {
    Answer answer;
    submit(std::move(inputs),
           [&answer](Outputs outputs, std::exception_ptr error) { answer.give(std::move(outputs), std::move(error)); });
    return answer.wait();
  }
  /// Puts all inputs of a request into the queue and returns. Calls `done` when all are computed, on the thread of the
  /// batcher; for no inputs, at once. @throws QueueFull if the queue has no place for all of them now, and Error if it
  /// never has, for an empty `done`, and after stop(); then `done` is not called.
  void submit(Inputs inputs, Done done) {
    require(static_cast<bool>(done), "Batcher: the function that receives the outputs is empty");
    if (inputs.empty()) return done({}, nullptr);
    const std::size_t count = inputs.size();
    require(count <= options_.max_queue, "Batcher: a request has ", count, " inputs; the queue holds ",
            options_.max_queue);
    const auto request = std::make_shared<Request>(std::move(done), count);
    std::list<Item> items;
    std::size_t cost = 0;
    for (Input& input : inputs) {
      const std::size_t own = cost_ ? std::max<std::size_t>(cost_(std::as_const(input)), 1) : 1;
      items.push_back({std::move(input), own, request, items.size(), Clock::now(), false, nullptr});
      cost += own;
    }
    std::size_t waiting = 0;
    {
      const std::lock_guard lock(mutex_);
      require(!is_stopping_, "Batcher: it was stopped");
      waiting = queue_.size();
      if (count <= options_.max_queue - waiting) {
        queued_cost_ += cost;
        queue_.splice(queue_.end(), items);
        changed_.notify_one();
        return;
      }
      counts_.refused += count;
    }
    fail<QueueFull>("Batcher: the queue has ", waiting, " of ", options_.max_queue, " inputs and no place for ", count,
                    " more");
  }

  /// Refuses further inputs, computes those that wait, and ends the thread. A second call waits for the first.
  void stop() {
    std::call_once(stopped_, [this] {
      {
        const std::lock_guard lock(mutex_);
        is_stopping_ = true;
      }
      changed_.notify_one();
      thread_.join();
    });
  }

  /// Returns the counters.
  BatcherCounts counts() const {
    const std::lock_guard lock(mutex_);
    BatcherCounts counts = counts_;
    counts.waiting = queue_.size();
    return counts;
  }

 private:
  using Clock = std::chrono::steady_clock;

  // Inputs that were submitted together, and their outputs. The memory of `all` is reserved by the thread that submits.
  struct Request {
    Request(Done f, std::size_t count) : done(std::move(f)), outputs(count), left(count) { all.reserve(count); }
    Done done;
    std::vector<std::optional<Output>> outputs;
    Outputs all;
    std::exception_ptr error;
    std::size_t left;  // inputs that are not yet computed
  };
  struct Item {
    Input input;
    std::size_t cost;
    std::shared_ptr<Request> request;
    std::size_t place;  // among the inputs of the request
    Clock::time_point arrival;
    bool is_chosen;  // for the batch that is being composed
    std::exception_ptr error;
  };

  // The outputs of a request that a thread waits for. Neither they nor the error have another owner after give().
  class Answer {
   public:
    void give(Outputs outputs, std::exception_ptr error) {
      const std::lock_guard lock(mutex_);
      outputs_ = std::move(outputs);
      error_ = std::move(error);
      is_given_ = true;
      given_.notify_one();
    }
    Outputs wait() {
      std::unique_lock lock(mutex_);
      given_.wait(lock, [this] { return is_given_; });
      if (error_) std::rethrow_exception(error_);
      return std::move(outputs_);
    }

   private:
    std::mutex mutex_;
    std::condition_variable given_;
    Outputs outputs_;
    std::exception_ptr error_;
    bool is_given_ = false;
  };

  void run() {
    for (;;) {
      std::list<Item> batch = take();
      if (batch.empty()) return;
      compute(batch);
    }
  }

  // Waits for a batch and removes it from the queue. Returns no items when the batcher was stopped and the queue is
  // empty.
  std::list<Item> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return is_stopping_ || !queue_.empty(); });
    if (queue_.empty()) return {};
    const auto is_full = [this] {
      return is_stopping_ || queue_.size() >= std::min(options_.max_batch, options_.max_queue) ||
             queued_cost_ >= options_.max_cost;
    };
    changed_.wait_until(lock, queue_.front().arrival + options_.max_wait, is_full);
    queue_.front().is_chosen = true;
    try {
      choose_others();
    } catch (const std::bad_alloc&) {
      // The batch has the items that were chosen before.
    }
    const Clock::time_point now = Clock::now();
    std::list<Item> batch;
    for (auto item = queue_.begin(); item != queue_.end();) {
      const auto next = std::next(item);
      if (item->is_chosen) {
        queued_cost_ -= item->cost;
        counts_.seconds_waited += std::chrono::duration<double>(now - item->arrival).count();
        batch.splice(batch.end(), queue_, item);
      }
      item = next;
    }
    return batch;
  }

  // Chooses the items that are computed with the first one.
  void choose_others() {
    const std::size_t first = queue_.front().cost, share = options_.max_cost / options_.max_batch;
    const auto is_long = [&](const Item& item) { return item.cost > share && item.cost / 4 > first; };
    const auto distance = [&](const Item* item) {
      return item->cost > first ? item->cost - first : first - item->cost;
    };
    std::vector<Item*> others;
    for (auto item = std::next(queue_.begin()); item != queue_.end(); ++item)
      if (!is_long(*item)) others.push_back(&*item);
    std::stable_sort(others.begin(), others.end(),
                     [&](const Item* a, const Item* b) { return distance(a) < distance(b); });
    std::size_t count = 1, cost = std::min(first, options_.max_cost);
    for (Item* const item : others) {
      if (count == options_.max_batch) return;
      if (item->cost > options_.max_cost - cost) continue;
      item->is_chosen = true;
      cost += item->cost;
      ++count;
    }
  }

  // Computes the outputs of a batch and hands them to the requests.
  void compute(std::list<Item>& batch) {
    const Clock::time_point begin = Clock::now();
    if (!call(batch) && batch.size() > 1) {
      for (auto item = batch.begin(); item != batch.end(); ++item) {
        std::list<Item> one;
        const auto next = std::next(item);
        one.splice(one.end(), batch, item);
        call(one);
        batch.splice(next, one);
      }
    }
    {
      const std::lock_guard lock(mutex_);
      counts_.inputs += batch.size();
      counts_.failed += static_cast<std::uint64_t>(
          std::count_if(batch.begin(), batch.end(), [](const Item& item) { return item.error != nullptr; }));
      ++counts_.batches;
      counts_.seconds_busy += std::chrono::duration<double>(Clock::now() - begin).count();
    }
    for (Item& item : batch) finish(item);
  }

  // Calls the function, and stores its outputs or, in each item, its error. Returns whether it succeeded; if not, the
  // items have their inputs.
  bool call(std::list<Item>& items) {
    Inputs inputs;
    std::exception_ptr error;
    try {
      inputs.reserve(items.size());
      for (Item& item : items) inputs.push_back(std::move(item.input));
      Outputs outputs = compute_(std::as_const(inputs));
      require(outputs.size() == inputs.size(), "Batcher: the function returned ", outputs.size(), " outputs for ",
              inputs.size(), " inputs");
      auto output = outputs.begin();
      for (Item& item : items) {
        item.request->outputs[item.place].emplace(std::move(*output++));
        item.error = nullptr;
      }
      return true;
    } catch (...) {
      error = std::current_exception();
    }
    auto input = inputs.begin();
    for (Item& item : items) {
      if (input != inputs.end()) item.input = std::move(*input++);
      item.error = error;
    }
    return false;
  }

  // Counts an item of its request as computed. After the last one, calls `done`.
  static void finish(Item& item) {
    Request& request = *item.request;
    if (item.error && !request.error) request.error = std::move(item.error);
    if (--request.left == 0) {
      if (!request.error)
        for (std::optional<Output>& output : request.outputs) request.all.push_back(std::move(*output));
      request.outputs.clear();
      request.done(std::move(request.all), std::move(request.error));
    }
    item.request.reset();
    item.error = nullptr;
  }

  const Function compute_;
  const BatcherOptions options_;
  const Cost cost_;
  mutable std::mutex mutex_;
  std::condition_variable changed_;
  std::list<Item> queue_;        // in order of arrival
  std::size_t queued_cost_ = 0;  // of the items in the queue
  bool is_stopping_ = false;
  BatcherCounts counts_;
  std::once_flag stopped_;
  std::thread thread_;
};

}  // namespace heddle::models
