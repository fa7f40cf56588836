// Sums of a model's gradients over the parts of a batch and over processes, and copies of a model's weights.
#pragma once
#include <memory>
#include <optional>
#include <tuple>
#include <unordered_map>
#include <unordered_set>

#include <heddle/distributed/background.hpp>
#include <heddle/distributed/communicator.hpp>
#include <heddle/nn/module.hpp>
#include <heddle/optim/slots.hpp>
#include <heddle/optim/update.hpp>

namespace heddle::distributed {

/// How gradients of several processes become one.
struct GradientOptions {
  bool mean = true;                        ///< the mean over the processes, otherwise the sum
  Reduction reduction = Reduction::exact;  ///< the order of the additions
  Index message_bytes = Index{1} << 23;    ///< a message ends with the gradient with which it has so many bytes
};

namespace detail {

// Adds two gradients of a parameter, of which one or both may be empty.
template <class T>
struct AddGradients {
  Shape shape;

  RowGradient<T> operator()(const RowGradient<T>& a, const RowGradient<T>& b) const {
    if (!a) return b;
    if (!b) return a;
    if (a.rows && b.rows) return sum_of_rows(a, b);
    const Tensor<T> x = a.dense(shape), y = b.dense(shape);
    Tensor<T> added(shape, x.device());
    dispatch(x, [&](auto device) { kernel::add(device, view<1>(x), view<1>(y), view<1>(added)); });
    return {{}, added};
  }
};

// Adds values in a fixed tree, the sums of pairs, then of pairs of pairs, while they arrive one after the other. Keeps
// at most one sum for each level of the tree.
template <class Value, class Add>
class TreeSum {
 public:
  explicit TreeSum(Add add) : add_(std::move(add)) {}
  void push(Value value) {
    std::size_t level = 0;
    for (; level < sums_.size() && sums_[level]; ++level) value = add_(*std::exchange(sums_[level], {}), value);
    if (level == sums_.size()) sums_.emplace_back();
    sums_[level] = std::move(value);
  }
  // Returns the sum of all values, if there are any, and begins anew.
  std::optional<Value> take() {
    std::optional<Value> sum;
    for (std::optional<Value>& of_level : sums_)
      if (of_level) sum = sum ? add_(*of_level, *sum) : std::move(of_level);
    sums_.clear();
    return sum;
  }

 private:
  Add add_;
  std::vector<std::optional<Value>> sums_;  // [level]
};

// The form of a parameter's gradient on a process. If processes differ, the greatest applies.
enum class Form : char { none, rows, dense, not_finite };

// Writes x * factor, with 0 instead of -0: a sum is then the same whether a process adds zeros or nothing. On a GPU the
// factor is 1.
template <class T>
void write_scaled(const Tensor<T>& x, T factor, T* y) {
  if (x.device() != Device::cpu) {
    dispatch<T>(x.device(), [&](auto device) {
      const View<T, 1> to{y, {x.size()}};
      kernel::clear(device, to);
      kernel::add(device, view<1>(x), View<const T, 1>{y, {x.size()}}, to);
    });
    return;
  }
  const T* const from = x.data();
  kernel::parallel(x.size(), kernel::element_grain, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) y[i] = from[i] * factor + T(0);
  });
}

// The gradient of a parameter, summed over parts and groups of parts.
template <class T>
class SummedGradient {
 public:
  SummedGradient(std::string name, typename Parameter<T>::Identity parameter)
      : name_(std::move(name)), parameter_(std::move(parameter)) {}

  const std::string& name() const { return name_; }
  const Tensor<T>& value() const { return parameter_->value(); }
  Index size() const { return parameter_->shape().size(); }
  Form form() const { return form_; }

  void add_part() {
    parts_.push(heddle::detail::sparse_grad(value()));  // none if the parameter is frozen now
    if (value().requires_grad()) value().set_grad({});
  }
  void end_group() {
    if (auto sum = parts_.take()) groups_.push(std::move(*sum));
  }
  // Drops the gradient and all sums.
  void drop() {
    parts_.take();
    groups_.take();
    own_ = {};
    if (value().requires_grad()) value().set_grad({});
  }
  // Ends the sum of this process, which travels from a device. On a GPU it is not known yet whether it is finite.
  void end(Device device) {
    end_group();
    own_ = groups_.take().value_or(RowGradient<T>());
    form_ = !own_ ? Form::none : own_.rows ? Form::rows : Form::dense;
    if (!own_) return;
    own_.values = own_.values.to(own_.rows ? Device::cpu : device);
    if (own_.values.device() != Device::cpu) return;
    if (kernel::first_not_finite(Cpu{}, std::vector{view<1>(std::as_const(own_.values))}) >= 0)
      form_ = Form::not_finite;
  }
  // The sum of this process, of all elements or of some rows.
  const Tensor<T>& own() const { return own_.values; }
  // Marks the sum as not finite.
  void refuse() { form_ = Form::not_finite; }

  // Writes the sum, multiplied by `factor`, to memory of a device, and releases it.
  void write(T factor, Device device, T* y) {
    if (own_)
      write_scaled(std::exchange(own_, {}).dense(parameter_->shape()).to(device), factor, y);
    else
      dispatch<T>(device, [&](auto where) { kernel::clear(where, View<T, 1>{y, {size()}}); });
  }
  // Adds the rows of all processes, and stores the sum as the parameter's gradient.
  void reduce_rows(T factor, const Communicator& communicator) {
    const Index width = parameter_->shape().product(1, parameter_->shape().rank());
    RowGradient<T> rows{Tensor<Index>({0}), Tensor<T>({0, width})};
    if (own_) {
      rows = {own_.rows, empty_like(own_.values)};
      write_scaled(own_.values, factor, rows.values.data());
      own_ = {};
    }
    heddle::detail::set_sparse_grad(value(), communicator.all_reduce(rows));
  }
  // Stores the sum over all processes as the parameter's gradient.
  void set(const Tensor<T>& sum) const {
    require(value().requires_grad(), "GradientSum: parameter '", name_,
            "' is frozen on this process but has a gradient on another");
    value().set_grad(sum.with_shape(value().shape()).to(value().device()));
  }

 private:
  std::string name_;
  typename Parameter<T>::Identity parameter_;
  TreeSum<RowGradient<T>, AddGradients<T>> parts_{AddGradients<T>{parameter_->shape()}},
      groups_{AddGradients<T>{parameter_->shape()}};
  RowGradient<T> own_;  // the sum of this process
  Form form_ = Form::none;
};

// Gradients that travel in one message.
class Bucket {
 public:
  virtual ~Bucket() = default;
  // Writes the gradient of a member, whose sum has ended. Returns whether it is the last one.
  virtual bool fill(std::size_t member) = 0;
  // Returns whether all members are written.
  virtual bool is_full() const = 0;
  // Writes the number of the first member that is not finite, or -1, to memory of the bucket's device.
  virtual void find_not_finite(Index* first) const = 0;
  // Marks a member's sum as not finite.
  virtual void refuse(std::size_t member) = 0;
  // Adds the gradients of all processes.
  virtual void reduce(const Communicator& communicator, Reduction reduction) = 0;
  // Stores the sums as the gradients of the parameters, except those of which no process has a gradient.
  virtual void store(const std::vector<Form>& forms) const = 0;
};

template <class T>
class BucketOf final : public Bucket {
 public:
  struct Member {
    SummedGradient<T>* gradient;
    std::size_t number;  // of the parameter
    Index first;         // element of the bucket
  };
  BucketOf(std::vector<Member> members, Index size, T factor, Device device)
      : members_(std::move(members)), values_({size}, device), factor_(factor) {}

  bool fill(std::size_t member) override {
    const Member& m = members_[member];
    m.gradient->write(factor_, values_.device(), values_.device_data() + m.first);
    const Index last = m.first + m.gradient->size(),
                next = member + 1 < members_.size() ? members_[member + 1].first : values_.size();
    if (last < next)  // elements between two members
      dispatch<T>(values_.device(), [&](auto device) {
        kernel::clear(device, View<T, 1>{values_.device_data() + last, {next - last}});
      });
    ++filled_;
    return is_full();
  }
  bool is_full() const override { return filled_ == members_.size(); }
  void find_not_finite(Index* first) const override {
    if constexpr (std::is_same_v<T, float>) {
      std::vector<View<const T, 1>> parts;
      for (const Member& m : members_) parts.push_back({values_.device_data() + m.first, {m.gradient->size()}});
      dispatch<T>(values_.device(), [&](auto device) { kernel::find_not_finite(device, parts, first); });
    }
  }
  void refuse(std::size_t member) override { members_[member].gradient->refuse(); }
  void reduce(const Communicator& communicator, Reduction reduction) override {
    communicator.all_reduce_in_place(values_, reduction);
  }
  void store(const std::vector<Form>& forms) const override {
    for (const Member& m : members_)
      if (forms[m.number] != Form::none) m.gradient->set(values_.leading(m.first, m.first + m.gradient->size()));
  }

 private:
  std::vector<Member> members_;
  std::size_t filled_ = 0;
  Tensor<T> values_;
  T factor_;
};

}  // namespace detail

/// The sum of a model's gradients over the parts of a batch and over all processes. Parts are added in the order of one
/// tree: first those of a group, then groups, then processes. With as many parts and groups in all, and groups divided
/// among the processes as parts_of() does, the sum has the same bits for every number of processes. While parts are
/// added, there is one further copy of the gradients for each level of the tree. A parameter that is unfrozen later is
/// not added: make another GradientSum.
class GradientSum final : private heddle::detail::PassWatch {
 public:
  /// Creates the sum of the gradients of all parameters of `model` that are not frozen, for any number of batches.
  template <class M>
  explicit GradientSum(M& model, Communicator communicator = {}, GradientOptions options = {})
      : communicator_(std::move(communicator)), options_(options) {
    each_parameter(model, [&]<class T>(const Name& name, const Parameter<T>& p) {
      static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                    "heddle: gradients of weights of float or double are added");
      if (!p.frozen()) of<T>().emplace_back(name.str(), p.identity());
    });
    reset();
  }
  GradientSum(const GradientSum&) = delete;

  /// Takes the gradients that the parameters have, those of one part. They have none afterwards. A part without rows
  /// counts, too. @throws Error after the last part of a batch.
  void add_part() {
    require_more();
    each([](auto& gradient, std::size_t) { gradient.add_part(); });
  }
  /// Ends a group of parts.
  void end_group() {
    each([](auto& gradient, std::size_t) { gradient.end_group(); });
  }
  /// Adds the last part of the batch on this process: calls compute(), which runs one backward on this thread, or does
  /// nothing for a part without rows. From the second batch on, gradients travel while the backward runs: each as soon
  /// as it is complete, in messages of some MiB; on GPUs, if nccl() made the communicator. Every process calls it for
  /// its last part, or none does. If compute() throws, the batch is dropped, and other processes may wait for this one
  /// until it ends. @throws Error for a second backward, and after the last part of a batch.
  template <class F>
  void add_last_part(F&& compute) {
    require_more();
    const bool sends = begin_sending();
    has_last_ = true;
    try {
      const Watching watching(*this);
      compute();
    } catch (...) {
      reset();
      each([](auto& gradient, std::size_t) { gradient.drop(); });
      throw;
    }
    if (!sends) return each([](auto& gradient, std::size_t) { gradient.add_part(); });
    each([&](auto& gradient, std::size_t number) {
      if (!places_[number])
        gradient.add_part();
      else if (!is_sent_[number])
        send(number);
    });
  }

  /// Adds the sums of all processes; the result becomes the gradients of the parameters. Every process calls it.
  /// @throws Error on all processes, which names a parameter and a process, if a gradient is not finite; the parameters
  /// then have no gradients. @throws CommunicationError.
  void finish() {
    std::vector<detail::Form> own;
    device_ = device_of_messages();
    each([&](auto& gradient, std::size_t number) {
      if (!is_sent_[number]) gradient.end(device_);
    });
    check_on_gpu();
    check_sent_on_gpu();
    each([&](const auto& gradient, std::size_t) { own.push_back(gradient.form()); });
    if (background_) background_->finish();
    join_streams();
    if (forms_.empty()) require_same_number();
    const std::vector<detail::Form> all = communicator_.all_gather(own);
    forms_ = own;
    for (std::size_t at = 0; at < all.size(); ++at)
      forms_[at % own.size()] = std::max(forms_[at % own.size()], all[at]);
    const auto refused = std::find(all.begin(), all.end(), detail::Form::not_finite);
    if (refused != all.end()) fail_not_finite(static_cast<std::size_t>(refused - all.begin()));

    each([&]<class T>(detail::SummedGradient<T>& gradient, std::size_t number) {
      if (forms_[number] == detail::Form::rows && !places_[number]) gradient.reduce_rows(factor<T>(), communicator_);
    });
    const std::size_t sent = buckets_.size();
    make_buckets();
    for (std::size_t number = 0; number < is_sent_.size(); ++number)
      if (places_[number] && !is_sent_[number]) buckets_[places_[number]->bucket]->fill(places_[number]->member);
    for (std::size_t b = sent; b < buckets_.size(); ++b) buckets_[b]->reduce(communicator_, options_.reduction);
    for (const auto& bucket : buckets_) bucket->store(forms_);
    reset();
  }

 private:
  // The place of a parameter's gradient in a message.
  struct Place {
    std::size_t bucket, member;
  };
  // A scope in which this object follows the backward passes of the thread.
  class Watching {
   public:
    explicit Watching(GradientSum& self) : watch_(self) { heddle::detail::PassWatches::add(watch_); }
    Watching(const Watching&) = delete;
    ~Watching() { heddle::detail::PassWatches::remove(watch_); }

   private:
    heddle::detail::PassWatch& watch_;
  };

  static constexpr Index alignment = 64;  // elements; the optimizer's kernels read aligned gradients as vectors
  // Fewer travel in the time of starting a thread.
  Index least_bytes_to_send() const { return std::min(Index{1} << 20, options_.message_bytes); }

  template <class T>
  std::vector<detail::SummedGradient<T>>& of() {
    return std::get<std::vector<detail::SummedGradient<T>>>(gradients_);
  }
  // Calls f(gradient, number) for each parameter.
  template <class F>
  void each(F&& f) {
    std::size_t number = 0;
    for (auto& gradient : of<float>()) f(gradient, number++);
    for (auto& gradient : of<double>()) f(gradient, number++);
  }
  template <class T>
  T factor() const {
    return static_cast<T>(options_.mean ? 1. / communicator_.size() : 1.);
  }

  // Prepares for the next batch.
  void reset() {
    background_.reset();
    join_streams();
    buckets_.clear();
    not_finite_ = {};
    places_.assign(of<float>().size() + of<double>().size(), std::nullopt);
    is_sent_.assign(places_.size(), false);
    numbers_.clear();
    last_uses_.clear();
    has_pass_ = has_last_ = false;
  }
  void require_more() const { require(!has_last_, "GradientSum: the last part of the batch was added; call finish()"); }

  // Makes buckets for those dense gradients that have none. The last parameters, whose gradients are complete first,
  // are in the first buckets.
  void make_buckets() {
    make_buckets<float>(0);
    make_buckets<double>(of<float>().size());
  }
  template <class T>
  void make_buckets(std::size_t first) {
    std::vector<typename detail::BucketOf<T>::Member> members;
    Index size = 0;
    const auto end_bucket = [&] {
      if (!members.empty())
        buckets_.push_back(
            std::make_unique<detail::BucketOf<T>>(std::exchange(members, {}), size, factor<T>(), device_));
      size = 0;
    };
    for (std::size_t i = of<T>().size(); i-- > 0;) {
      if (forms_[first + i] != detail::Form::dense || places_[first + i]) continue;
      places_[first + i] = Place{buckets_.size(), members.size()};
      members.push_back({&of<T>()[i], first + i, size});
      size = (size + of<T>()[i].size() + alignment - 1) / alignment * alignment;
      if (size * static_cast<Index>(sizeof(T)) >= options_.message_bytes) end_bucket();
    }
    end_bucket();
  }

  // Returns the device from which gradients travel: the GPU if all parameters are there, the transport reaches it, and
  // the sum is not divided.
  Device device_of_messages() {
    bool on_gpu = communicator_.reaches_gpus() && of<double>().empty() && factor<float>() == 1;
    each([&](const auto& gradient, std::size_t) { on_gpu = on_gpu && gradient.value().device() == Device::cuda; });
    return on_gpu ? Device::cuda : Device::cpu;
  }
  // Finds a sum on the GPU that is not finite. Waits for the GPU.
  void check_on_gpu() {
    std::vector<View<const float, 1>> sums;
    std::vector<detail::SummedGradient<float>*> owners;
    for (auto& gradient : of<float>())
      if (gradient.own() && gradient.own().device() == Device::cuda) {
        sums.push_back(view<1>(gradient.own()));
        owners.push_back(&gradient);
      }
    if (sums.empty()) return;
    const Index first = dispatch<float>(Device::cuda, [&](auto gpu) { return kernel::first_not_finite(gpu, sums); });
    if (first >= 0) owners[static_cast<std::size_t>(first)]->refuse();
  }

  // Finds a sum that is not finite among those that are sent on the GPU. Waits for the GPU.
  void check_sent_on_gpu() {
    if (!not_finite_) return;
    const std::vector<Index> found = not_finite_.host();
    for (std::size_t b = 0; b < found.size(); ++b)
      if (found[b] >= 0) buckets_[b]->refuse(static_cast<std::size_t>(found[b]));
  }
  // Orders later work on the thread's stream after what was sent on the GPU.
  void join_streams() {
    if constexpr (heddle::detail::has_cuda)
      if (stream_) cuda::order_streams(std::exchange(stream_, nullptr), cuda::stream());
  }

  // Starts to send gradients while a backward runs, if it is worth it and the last batch shows which are dense.
  bool begin_sending() {
    Index bytes = 0;
    bool on_cpu = true;
    each([&]<class T>(const detail::SummedGradient<T>& gradient, std::size_t number) {
      if (number < forms_.size() && forms_[number] == detail::Form::dense)
        bytes += gradient.size() * static_cast<Index>(sizeof(T));
      on_cpu = on_cpu && gradient.value().device() == Device::cpu;
    });
    device_ = device_of_messages();
    const bool on_gpu = device_ == Device::cuda;
    if (communicator_.size() == 1 || bytes < least_bytes_to_send()) return false;
    if (!on_gpu && !(on_cpu && communicator_.serves_all_threads())) return false;
    make_buckets();
    each([&](const auto& gradient, std::size_t number) {
      if (places_[number]) numbers_[gradient.value().node().get()] = number;
    });
    if (on_gpu) {
      stream_ = communicator_.transport()->second_stream();
      not_finite_ = Tensor<Index>({static_cast<Index>(buckets_.size())}, device_);
      next_bucket_ = 0;
    } else {
      background_.emplace(buckets_.size(),
                          [this](std::size_t bucket) { buckets_[bucket]->reduce(communicator_, options_.reduction); });
    }
    return true;
  }
  // Adds a gradient of the last part, which is complete, to its bucket.
  void send(std::size_t number) {
    bool is_last = false;
    const auto fill = [&](auto& gradient) {
      gradient.add_part();
      gradient.end(device_);
      is_last = buckets_[places_[number]->bucket]->fill(places_[number]->member);
    };
    const std::size_t floats = of<float>().size();
    number < floats ? fill(of<float>()[number]) : fill(of<double>()[number - floats]);
    is_sent_[number] = true;
    if (!is_last) return;
    background_ ? background_->allow(places_[number]->bucket) : send_on_gpu(places_[number]->bucket);
  }
  // Sends a bucket that is full, and those that were full before it but follow it: all processes send in one order.
  void send_on_gpu(std::size_t bucket) {
    if constexpr (heddle::detail::has_cuda) {
      buckets_[bucket]->find_not_finite(not_finite_.device_data() + bucket);
      for (; next_bucket_ < buckets_.size() && buckets_[next_bucket_]->is_full(); ++next_bucket_) {
        cuda::order_streams(cuda::stream(), stream_);
        const cuda::StreamScope scope(stream_);
        buckets_[next_bucket_]->reduce(communicator_, options_.reduction);
      }
    }
  }

  // Finds the last operation of a pass that contributes to each parameter: the one with the lowest id that uses it.
  void begins(const heddle::detail::NodeRef& root) override {
    require(!std::exchange(has_pass_, true),
            "add_last_part: the last part has a second backward; add the losses and call backward once");
    std::unordered_map<std::size_t, std::uint64_t> lowest;  // by parameter
    std::unordered_set<const heddle::detail::Node*> seen{root.get()};
    std::vector<const heddle::detail::Node*> left{root.get()};
    while (!left.empty()) {
      const heddle::detail::Node* const node = left.back();
      left.pop_back();
      for (const heddle::detail::NodeRef& input : node->input_nodes()) {
        if (!input) continue;
        if (!input->is_leaf()) {
          if (seen.insert(input.get()).second) left.push_back(input.get());
        } else if (const auto found = numbers_.find(input.get()); found != numbers_.end()) {
          std::uint64_t& id = lowest.try_emplace(found->second, node->id).first->second;
          id = std::min(id, node->id);
        }
      }
    }
    last_uses_.assign(lowest.begin(), lowest.end());
    std::sort(last_uses_.begin(), last_uses_.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  }
  void reaches(std::uint64_t id) override {
    for (; !last_uses_.empty() && last_uses_.back().second > id; last_uses_.pop_back()) send(last_uses_.back().first);
  }

  // Throws Error on all processes unless all have as many parameters.
  void require_same_number() const {
    const std::optional<int> other = communicator_.first_different(places_.size());
    require(!other, "GradientSum: process ", other.value_or(0),
            " has another number of parameters that are not frozen than process 0");
  }
  // Throws the error about entry `at` of what all processes have.
  [[noreturn]] void fail_not_finite(std::size_t at) {
    std::string name;
    each([&](const auto& gradient, std::size_t number) {
      if (number == at % places_.size()) name = gradient.name();
    });
    const std::string process =
        communicator_.size() > 1 ? " on process " + std::to_string(at / places_.size()) : std::string();
    forms_.clear();
    reset();
    fail("the gradient of parameter '", name, "' is not finite", process,
         "; nothing was updated, and all gradients were cleared");
  }

  Communicator communicator_;
  GradientOptions options_;
  std::tuple<std::vector<detail::SummedGradient<float>>, std::vector<detail::SummedGradient<double>>> gradients_;
  Device device_ = Device::cpu;      // from which gradients travel
  std::vector<detail::Form> forms_;  // of the last batch, by the number of the parameter
  std::vector<std::unique_ptr<detail::Bucket>> buckets_;
  std::vector<std::optional<Place>> places_;
  std::vector<bool> is_sent_;
  std::unordered_map<const heddle::detail::Node*, std::size_t> numbers_;  // of the parameters that are sent
  bool has_pass_ = false;                                         // whether the backward of the last part has begun
  bool has_last_ = false;                                         // whether the last part was added
  std::vector<std::pair<std::size_t, std::uint64_t>> last_uses_;  // parameters and ids, ascending by id
  void* stream_ = nullptr;       // on which buckets travel between GPUs; null when they do not
  Tensor<Index> not_finite_;     // of each bucket on the GPU: the first member that is not finite, or -1
  std::size_t next_bucket_ = 0;  // to be sent
  std::optional<detail::Background> background_;  // the last member: it uses the others
};

/// Replaces the gradients of a model by their mean over all processes: call it between backward() and the optimizer's
/// step. Every process calls it; a process without gradients counts as one with zeros. The gradient of an embedding
/// travels as rows. @throws Error and CommunicationError as GradientSum::finish() does.
template <class M>
void all_reduce_gradients(M& model, const Communicator& communicator, GradientOptions options = {}) {
  GradientSum sum(model, communicator, options);
  sum.add_part();
  sum.finish();
}

/// Copies the weights and buffers of process `root` to all others. @throws CommunicationError.
template <class M>
void broadcast(M& model, const Communicator& communicator, int root = 0) {
  if (communicator.size() == 1) return;
  walk_once(model, [&](const Name&, auto& x) {
    auto values = x.value().to(Device::cpu).without_node();
    if (communicator.rank() != root) values = heddle::detail::deep_copy(values);
    communicator.broadcast(values, root);
    if (communicator.rank() != root) x.assign(values);
  });
}

/// Copies the state of an optimizer of process `root` to all others, whose optimizers are of the same kind, for the
/// same model. @throws CommunicationError.
inline void broadcast(optim::Slots& state, const Communicator& communicator, int root = 0) {
  if (communicator.size() == 1) return;
  state.synchronize();
  state.each([&](auto& slot) {
    using T = typename std::remove_cvref_t<decltype(slot)>::Element;
    const bool is_root = communicator.rank() == root;
    communicator.broadcast(std::span(&slot.steps, 1), root);
    for (std::size_t k = 0; k < state.moments().size(); ++k) {
      Tensor<T>& moment = slot.moments[k];
      char exists = moment.has_data();
      communicator.broadcast(std::span(&exists, 1), root);
      Tensor<T> values;
      if (exists) {
        values = is_root ? moment.to(Device::cpu) : Tensor<T>(slot.parameter->shape());
        communicator.broadcast(values, root);
      }
      if (!is_root) moment = values;
    }
    if (!is_root) slot.row_flags.clear();
  });
}

}  // namespace heddle::distributed
