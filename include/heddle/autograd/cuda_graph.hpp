// cuda::Graph: runs a function on the GPU, and replays it as a CUDA graph.
#pragma once
#include <any>
#include <cstring>
#include <exception>
#include <functional>
#include <map>
#include <optional>
#include <tuple>
#include <variant>

#include <heddle/autograd/backward.hpp>
#include <heddle/base/random.hpp>

namespace heddle {

namespace detail {

// --- the inputs of a run: tensors, types with each_input(), such as Sequences, and generators ---

template <class Input>
inline constexpr bool is_generator = std::is_same_v<Input, Random>;
// The type by which a function takes an input.
template <class Input>
using RunArgument = std::conditional_t<is_generator<Input>, Random&, const Input&>;

template <class Input>
inline constexpr bool is_run_input = requires(Input& input) {
  input.each_input([](auto&) {});
};
template <class T>
inline constexpr bool is_run_input<Tensor<T>> = true;
template <>
inline constexpr bool is_run_input<Random> = true;

template <class F, class T>
void each_tensor(Tensor<T>& input, F& f) {
  f(input);
}
template <class F>
void each_tensor(Random&, F&) {}
template <class F, class Input>
void each_tensor(Input& input, F& f) {
  input.each_input([&](auto& part) { each_tensor(part, f); });
}

// Appends the numbers by which the work on an input is launched.
template <class T>
void add_size(const Tensor<T>& input, std::vector<Index>& size) {
  size.push_back(input.has_data() ? input.rank() : -1);
  size.push_back(static_cast<Index>(input.device()));
  for (int axis = 0; axis < input.rank(); ++axis) size.push_back(input.dim(axis));
}
inline void add_size(const Random& input, std::vector<Index>& size) {
  size.push_back(static_cast<Index>(input.seed()));
  size.push_back(static_cast<Index>(input.stream()));
}
template <class Input>
void add_size(const Input& input, std::vector<Index>& size) {
  if constexpr (requires { input.launch_numbers(); })
    for (const Index number : input.launch_numbers()) size.push_back(number);
  const_cast<Input&>(input).each_input([&](const auto& part) { add_size(part, size); });
}

template <class Input>
void forget_host_values(Input& input) {
  if constexpr (requires { input.forget_host_values(); })
    input.forget_host_values();
  else if constexpr (requires { input.each_input([](auto&) {}); })
    input.each_input([](auto& part) { forget_host_values(part); });
}

// Returns a result without its graph, which would keep what a backward needs, and which no replay makes anew.
template <class T>
Tensor<T> without_graph(const Tensor<T>& result) {
  return detach(result);
}
template <class Result>
Result without_graph(Result result) {
  return result;
}

// --- runs ---

// Without CUDA, and for inputs on the CPU, a run is a call.
template <bool with_cuda>
class GraphRuns {
 public:
  template <class Result, class F, class... Inputs>
  Result run(F& f, Inputs&... inputs) {
    return without_graph(std::invoke(f, inputs...));
  }
  Index recorded() const { return 0; }
  Index replays() const { return 0; }
  const std::string& failure() const { return failure_; }

 private:
  std::string failure_;
};

// One size of the inputs.
struct RunsOfSize {
  std::any inputs, result;               // a tuple of the inputs on the GPU; the result of the recorded run
  Tensor<int> block;                     // the memory of the inputs
  std::vector<std::uint64_t> positions;  // of each generator: where the recorded run began
  std::vector<std::uint64_t> draws;      // of each generator: how many a run takes
  RunLog log;
  cuda::RecordedWork work;
  bool is_tried = false;  // the last run was a trial
  int attempts = 0;       // to record a run
  std::uint64_t last_run = 0;

  void update_casts() const {
    for (const auto& [weight, update] : log.casts) update(weight);
  }
};

template <>
class GraphRuns<true> {
 public:
  GraphRuns() = default;
  GraphRuns(const GraphRuns&) = delete;
  ~GraphRuns() {
    if (!memory_) return;
    const cuda::GraphMemory::Scope scope(*memory_);
    copy_out_gradients();
    sizes_.clear();
    memory_.reset();
  }

  template <class Result, class F, class... Inputs>
  Result run(F& f, Inputs&... inputs) {
    if (!cuda::can_record()) return call_on_gpu<Result>(f, inputs...);
    if (!memory_) memory_.emplace();
    memory_->require_own_stream();
    check_generators(inputs...);
    forget_moved();
    copy_out_gradients();
    RunsOfSize& of = runs_of_size(size_of<Result, F>(inputs...));
    if (of.work.is_complete()) {
      of.update_casts();
      if (moves_ != moves_on_gpu) return run<Result>(f, inputs...);
      return replay<Result>(of, inputs...);
    }
    if (of.is_tried && of.attempts < most_attempts && record<Result>(of, f, inputs...))
      return replay<Result>(of, inputs...);
    return try_out<Result>(of, f, inputs...);
  }

  Index recorded() const {
    return std::count_if(sizes_.begin(), sizes_.end(), [](const auto& each) { return each.second.work.is_complete(); });
  }
  Index replays() const { return replays_; }
  const std::string& failure() const { return failure_; }

 private:
  static constexpr std::size_t most_sizes = 64;  // that are kept
  static constexpr int most_attempts = 3;        // to record a size
  static constexpr std::size_t alignment = 256;  // bytes

  template <class Result, class F, class... Inputs>
  static Result call_on_gpu(F& f, Inputs&... inputs) {
    [[maybe_unused]] const auto moved = [](auto& input) -> decltype(auto) {
      if constexpr (is_generator<std::remove_cvref_t<decltype(input)>>)
        return (input);
      else
        return input.to(Device::cuda);
    };
    std::tuple<decltype(moved(inputs))...> on_gpu(moved(inputs)...);
    return without_graph(std::apply([&](auto&... arguments) { return std::invoke(f, arguments...); }, on_gpu));
  }

  // --- sizes ---

  template <class Result, class F, class... Inputs>
  static std::vector<Index> size_of(const Inputs&... inputs) {
    static const char function = 0;  // its address stands for the types
    std::vector<Index> size{reinterpret_cast<Index>(&function), static_cast<Index>(grad_mode), cuda::tf32_is_allowed()};
    (add_size(inputs, size), ...);
    return size;
  }
  RunsOfSize& runs_of_size(const std::vector<Index>& size) {
    RunsOfSize& found = sizes_[size];
    found.last_run = ++runs_;
    if (sizes_.size() > most_sizes)
      sizes_.erase(std::min_element(sizes_.begin(), sizes_.end(), [](const auto& a, const auto& b) {
        return a.second.last_run < b.second.last_run;
      }));
    return found;
  }
  // Forgets all records if a weight has moved since.
  void forget_moved() {
    const std::uint64_t now = moves_on_gpu;
    if (moves_ == now) return;
    copy_out_gradients();
    moves_ = now;
    if (recorded() > 0) failure_ = "a weight has moved, or its cast to another type has, since runs were recorded";
    sizes_.clear();
  }
  // Copies the gradients that the last replay has delivered, because another run will overwrite their memory.
  void copy_out_gradients() {
    if (RunsOfSize* const of = std::exchange(delivered_, nullptr))
      for (auto& leaf : of->log.leaves) leaf->copy_out();
  }

  // --- inputs ---

  // The block of the inputs: how many draws further each generator begins, the tensors from the host, and those from
  // the GPU.
  struct Places {
    std::vector<std::size_t> first;              // byte of each tensor that has data
    std::size_t from_host = alignment, all = 0;  // bytes
  };
  template <class... Inputs>
  static Places places_of(const Inputs&... inputs) {
    constexpr std::size_t generators = (std::size_t{0} + ... + is_generator<Inputs>);
    static_assert(generators * sizeof(std::uint64_t) <= alignment);
    Places places;
    const auto reserve = [](std::size_t& end, const auto& x) {
      const std::size_t first = end;
      end += (bytes_of(x) + alignment - 1) / alignment * alignment;
      return first;
    };
    each_input(
        [&](const auto& x) { places.first.push_back(x.device() == Device::cpu ? reserve(places.from_host, x) : 0); },
        inputs...);
    places.all = places.from_host;
    std::size_t n = 0;
    each_input(
        [&](const auto& x) {
          if (x.device() == Device::cuda) places.first[n] = reserve(places.all, x);
          ++n;
        },
        inputs...);
    return places;
  }
  // Calls f(tensor) for each tensor of the inputs that has data.
  template <class F, class... Inputs>
  static void each_input(F f, Inputs&... inputs) {
    [[maybe_unused]] const auto call = [&](auto& x) {
      if (x.has_data()) f(x);
    };
    (each_tensor(const_cast<std::remove_const_t<Inputs>&>(inputs), call), ...);
  }
  static std::byte* block_of(RunsOfSize& of) { return reinterpret_cast<std::byte*>(of.block.device_data()); }
  static const std::uint64_t* further_of(RunsOfSize& of, std::size_t generator) {
    return reinterpret_cast<const std::uint64_t*>(block_of(of)) + generator;
  }

  // Returns the inputs as the function sees them, in the memory of their size.
  template <class... Inputs>
  static std::tuple<Inputs...>& place(RunsOfSize& of, const Inputs&... inputs) {
    const Places places = places_of(inputs...);
    if (!of.block) of.block = Tensor<int>({static_cast<Index>(places.all / sizeof(int))}, Device::cuda);
    auto& placed = of.inputs.emplace<std::tuple<Inputs...>>(inputs...);
    std::apply(
        [&](auto&... each) {
          auto first = places.first.begin();
          each_input(
              [&](auto& x) {
                require(
                    !x.requires_grad(),
                    "cuda::Graph: an input requires a gradient, which a run does not compute; capture the variable in "
                    "the function, or detach the input");
                using T = typename std::remove_cvref_t<decltype(x)>::Element;
                x = Tensor<T>::within(of.block, *first++, x.shape());
              },
              each...);
          (forget_host_values(each), ...);
        },
        placed);
    return placed;
  }

  // Copies the inputs to the GPU. Those on the host, and how much further each generator begins, in one piece.
  template <class... Inputs>
  void upload(RunsOfSize& of, const Inputs&... inputs) {
    const Places places = places_of(inputs...);
    staged_.assign(places.from_host, std::byte{0});
    std::size_t generator = 0;
    each_generator(
        [&](const Random& random) {
          const std::uint64_t further = of.positions.empty() ? 0 : random.position() - of.positions[generator];
          std::memcpy(staged_.data() + generator++ * sizeof(further), &further, sizeof(further));
        },
        inputs...);
    auto first = places.first.begin();
    each_input(
        [&](const auto& x) {
          const std::size_t at = *first++;
          if (x.device() == Device::cpu)
            std::memcpy(staged_.data() + at, x.device_data(), bytes_of(x));
          else if (x.device_data() != static_cast<const void*>(block_of(of) + at))
            cuda::on_device(block_of(of) + at, x.device_data(), bytes_of(x));
        },
        inputs...);
    cuda::to_device(block_of(of), staged_.data(), staged_.size());
  }
  template <class T>
  static std::size_t bytes_of(const Tensor<T>& x) {
    return static_cast<std::size_t>(x.size()) * sizeof(T);
  }
  template <class F, class... Inputs>
  static void each_generator(F f, Inputs&... inputs) {
    [[maybe_unused]] const auto call = [&](auto& input) {
      if constexpr (is_generator<std::remove_cvref_t<decltype(input)>>) f(input);
    };
    (call(inputs), ...);
  }

  // --- kinds of runs ---

  template <class Result, class F, class... Inputs>
  static Result call(F& f, std::tuple<Inputs...>& placed) {
    return without_graph(
        std::apply([&](Inputs&... each) { return std::invoke(f, static_cast<RunArgument<Inputs>>(each)...); }, placed));
  }

  // Calls the function, and notes what a recorded run needs.
  template <class Result, class F, class... Inputs>
  Result try_out(RunsOfSize& of, F& f, Inputs&... inputs) {
    of.is_tried = false;
    of.log = {};
    of.positions.clear();
    std::tuple<std::remove_const_t<Inputs>...>& placed = place(of, inputs...);
    upload(of, inputs...);
    cuda::GraphRun scope(*memory_, of.work, cuda::GraphRun::Kind::trial, &of.log);
    Result result = call<Result>(f, placed);
    scope.finish();
    move_generators(
        placed, [](Random& given, const Random& used) { given.seek(used.position()); }, inputs...);
    of.is_tried = true;
    return result;
  }

  // Calls the function and records its work, which does not run yet. Returns false if that is not possible.
  template <class Result, class F, class... Inputs>
  bool record(RunsOfSize& of, F& f, Inputs&... inputs) {
    ++of.attempts;
    of.update_casts();
    of.is_tried = false;
    of.positions.clear();
    of.draws.clear();
    std::tuple<std::remove_const_t<Inputs>...>& placed = place(of, inputs...);
    std::size_t generator = 0;
    std::apply(
        [&](auto&... each) {
          each_generator([&](Random& r) { r = r.with_further(further_of(of, generator++)); }, each...);
        },
        placed);
    cuda::GraphRun scope(*memory_, of.work, cuda::GraphRun::Kind::recorded, &of.log);
    for (auto& leaf : of.log.leaves) leaf->set_aside();
    of.log.is_closed = true;
    std::exception_ptr failure;
    try {
      of.result = call<Result>(f, placed);
    } catch (...) {
      failure = std::current_exception();
    }
    const bool is_recorded = scope.finish(!failure);
    for (auto& leaf : of.log.leaves) leaf->keep_place();
    if (!is_recorded) failure_ = of.work.failure();
    if (failure && !scope.lacks_memory()) std::rethrow_exception(failure);
    if (!is_recorded) {
      of.result.reset();
      return false;
    }
    move_generators(
        placed,
        [&](const Random& given, const Random& used) {
          of.positions.push_back(given.position());
          of.draws.push_back(used.position() - given.position());
        },
        inputs...);
    return true;
  }

  template <class Result, class... Inputs>
  Result replay(RunsOfSize& of, Inputs&... inputs) {
    upload(of, inputs...);
    of.work.launch();
    for (auto& leaf : of.log.leaves) leaf->deliver();
    delivered_ = &of;
    std::size_t generator = 0;
    each_generator([&](Random& random) { random.seek(random.position() + of.draws[generator++]); }, inputs...);
    ++replays_;
    return std::any_cast<const Result&>(of.result);
  }

  // Throws Error if a generator is given twice: each of both would begin where the run begins.
  template <class... Inputs>
  static void check_generators(const Inputs&... inputs) {
    std::vector<const Random*> given;
    each_generator([&](const Random& random) { given.push_back(&random); }, inputs...);
    std::sort(given.begin(), given.end());
    require(std::adjacent_find(given.begin(), given.end()) == given.end(),
            "cuda::Graph: a Random is given twice as an input of a run");
  }
  // Calls f(given, used) for each generator, as it was given and as the function has used it.
  template <class Placed, class F, class... Inputs>
  static void move_generators(const Placed& placed, F f, Inputs&... inputs) {
    [[maybe_unused]] const auto call = [&](auto& given, const auto& used) {
      if constexpr (is_generator<std::remove_cvref_t<decltype(given)>>) f(given, used);
    };
    std::apply([&](const auto&... used) { (call(inputs, used), ...); }, placed);
  }

  std::optional<cuda::GraphMemory> memory_;  // destroyed last
  std::map<std::vector<Index>, RunsOfSize> sizes_;
  RunsOfSize* delivered_ = nullptr;  // whose gradients are in the leaves
  std::vector<std::byte> staged_;
  std::uint64_t moves_ = moves_on_gpu, runs_ = 0;
  Index replays_ = 0;
  std::string failure_;
};

}  // namespace detail

namespace cuda {

/// Runs a function on the GPU many times, such as the forward and the backward of a training step, with little work
/// for the host. The first run with inputs of a size is a call of the function. The second one is recorded; it and the
/// later ones are launches of a CUDA graph, whose results and gradients are those of calls, bit for bit. The size is
/// what decides how kernels are launched: the shapes and devices of tensors, longest() of sequences, and the seed and
/// stream of a Random, so steps should share one, or seek(). data::filled() makes batches of few sizes.
///
/// The function must do the same work in each run with inputs of a size. What changes must be an input: a tensor,
/// Sequences, data::Batch, or a Random, whose draws go on from run to run. A number that the function captures, or a
/// tensor that it makes on the host, keeps the value that it had in the recorded run; a run that copies other bytes
/// from the host than the run before it throws Error. Calls that wait for the GPU, such as item(), steps of an
/// optimizer, and set_grad() and zero_grad() throw Error in a run: they follow it. A returned tensor has no graph; a
/// function that returns several, in a struct, detaches them. The function must not keep tensors that it makes, and the
/// weights and tensors that it uses must outlive the Graph.
///
/// A run adds to the gradients of variables and parameters that are there. A later run overwrites the tensors that a
/// run has returned, and ends the use of handles that grad() has returned before it. If a weight moves to other memory,
/// as with to(), or is frozen or unfrozen, runs are recorded again.
///
/// A Graph is for one function, one stream, and one thread at a time. Meanwhile no other thread may use that stream,
/// and gradients are used on that stream only. On the CPU, and on the GPU if HEDDLE_SYNC=1, each run is a call of the
/// function.
class Graph {
 public:
  /// Creates a Graph of runs on a device.
  explicit Graph(Device device = Device::cuda) : device_(device) {}

  /// Runs f with these inputs, and returns its result. f takes a Random by reference, and other inputs by const
  /// reference, on the device of the Graph. Inputs on the host go to the GPU in one copy. @throws what f throws; Error
  /// for a run that differs from that before it, for a call that a run does not allow, and on another stream than that
  /// of the first run.
  template <class F, class... Inputs>
  auto run(F&& f, Inputs&&... inputs) {
    static_assert((heddle::detail::is_run_input<std::remove_cvref_t<Inputs>> && ...),
                  "heddle: the inputs of a run are tensors, Sequences, data::Batch and Random");
    using Result =
        std::remove_cvref_t<std::invoke_result_t<F&, heddle::detail::RunArgument<std::remove_cvref_t<Inputs>>...>>;
    if constexpr (std::is_void_v<Result>) {
      const auto without_result = [&f](heddle::detail::RunArgument<std::remove_cvref_t<Inputs>>... on_device) {
        std::invoke(f, on_device...);
        return std::monostate();
      };
      run_on_device<std::monostate>(without_result, inputs...);
    } else {
      return run_on_device<Result>(f, inputs...);
    }
  }

  /// Returns how many sizes of inputs are recorded.
  Index recorded() const { return on_gpu_.recorded(); }
  /// Returns how many runs were launches of a CUDA graph.
  Index replays() const { return on_gpu_.replays(); }
  /// Returns why the last run that could not be recorded was a call, as a sentence; empty if there is none.
  const std::string& failure() const { return on_gpu_.failure(); }

 private:
  template <class Result, class F, class... Inputs>
  Result run_on_device(F& f, Inputs&... inputs) {
    if (device_ == Device::cpu) return heddle::detail::without_graph(std::invoke(f, inputs...));
    return on_gpu_.template run<Result>(f, inputs...);
  }

  Device device_;
  heddle::detail::GraphRuns<heddle::detail::has_cuda> on_gpu_;
};

}  // namespace cuda
}  // namespace heddle
