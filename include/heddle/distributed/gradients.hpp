// Sums of a model's gradients over the parts of a batch and over processes, and copies of a model's weights.
#pragma once
#include <optional>
#include <set>
#include <tuple>

#include <heddle/distributed/communicator.hpp>
#include <heddle/nn/module.hpp>
#include <heddle/optim/slots.hpp>
#include <heddle/optim/update.hpp>

namespace heddle::distributed {

namespace detail {

// Returns the sum of two gradients of a parameter, of which one or both may be empty.
template <class T>
RowGradient<T> sum(const RowGradient<T>& a, const RowGradient<T>& b, const Shape& shape) {
  if (!a) return b;
  if (!b) return a;
  if (a.rows && b.rows) return sum_of_rows(a, b);
  const Tensor<T> x = a.dense(shape), y = b.dense(shape);
  Tensor<T> added(shape, x.device());
  dispatch(x, [&](auto device) { kernel::add(device, view<1>(x), view<1>(y), view<1>(added)); });
  return {{}, added};
}

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

// A trained parameter, by its identity.
template <class T>
struct Trained {
  std::string name;
  typename Parameter<T>::Identity parameter;
};

// What a process has of a parameter's gradient.
enum class Has : char { nothing, rows, all, not_finite };

template <class T>
Has kind_of(const RowGradient<T>& gradient) {
  if (!gradient) return Has::nothing;
  const Tensor<T> values = gradient.values.to(Device::cpu);
  if (kernel::first_not_finite(Cpu{}, std::vector{view<1>(values)}) >= 0) return Has::not_finite;
  return gradient.rows ? Has::rows : Has::all;
}

// Writes x * factor, with 0 instead of -0: a sum is then the same whether a process adds zeros or nothing.
template <class T>
void write_scaled(const Tensor<T>& x, T factor, T* y) {
  const T* const from = x.data();
  kernel::parallel(x.size(), kernel::element_grain, [&](Index first, Index last) {
    for (Index i = first; i < last; ++i) y[i] = from[i] * factor + T(0);
  });
}

}  // namespace detail

/// How gradients of several processes become one.
struct GradientOptions {
  bool mean = true;                        ///< the mean over the processes, otherwise the sum
  Reduction reduction = Reduction::exact;  ///< the order of the additions
};

/// The sum of a model's gradients over the parts of a batch and over all processes. Parts are added in the order of one
/// tree: first those of a group, then groups, then processes. With as many parts and groups in all, and groups divided
/// among the processes as parts_of() does, the sum has the same bits for every number of processes. While parts are
/// added, there is one further copy of the gradients for each level of the tree.
class GradientSum {
 public:
  /// Creates the sum of the gradients of all parameters of `model` that are not frozen.
  template <class M>
  explicit GradientSum(M& model, Communicator communicator = {}, GradientOptions options = {})
      : communicator_(std::move(communicator)), options_(options) {
    each_parameter(model, [&]<class T>(const Name& name, const Parameter<T>& p) {
      static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                    "heddle: gradients of weights of float or double are added");
      if (!p.frozen()) std::get<std::vector<detail::Trained<T>>>(parameters_).push_back({name.str(), p.identity()});
    });
  }

  GradientSum(const GradientSum&) = delete;

  /// Takes the gradients that the parameters have, those of one part. They have none afterwards. A part without rows
  /// counts, too.
  void add_part() {
    Gradients gradients;
    take(std::get<0>(gradients));
    take(std::get<1>(gradients));
    parts_.push(std::move(gradients));
  }
  /// Ends a group of parts.
  void end_group() {
    if (std::optional<Gradients> sum = parts_.take()) groups_.push(std::move(*sum));
  }

  /// Adds the sums of all processes; the result becomes the gradients of the parameters. Every process calls it.
  /// @throws Error on all processes, which names a parameter and a process, if a gradient is not finite; the parameters
  /// then have no gradients. @throws CommunicationError.
  void finish() {
    end_group();
    Gradients own = groups_.take().value_or(Gradients());
    std::get<0>(own).resize(std::get<0>(parameters_).size());
    std::get<1>(own).resize(std::get<1>(parameters_).size());
    std::vector<detail::Has> kinds;
    for (const auto& gradient : std::get<0>(own)) kinds.push_back(detail::kind_of(gradient));
    for (const auto& gradient : std::get<1>(own)) kinds.push_back(detail::kind_of(gradient));
    const std::vector<detail::Has> all = communicator_.all_gather(kinds);
    require_finite(all, kinds.size());
    reduce(std::get<0>(own), all, 0, kinds.size());
    reduce(std::get<1>(own), all, std::get<0>(own).size(), kinds.size());
  }

 private:
  template <class T>
  using List = std::vector<RowGradient<T>>;
  using Gradients = std::tuple<List<float>, List<double>>;

  static constexpr Index bucket_bytes = Index{1} << 25;

  template <class T>
  const std::vector<detail::Trained<T>>& parameters() const {
    return std::get<std::vector<detail::Trained<T>>>(parameters_);
  }

  template <class T>
  void take(List<T>& gradients) const {
    for (const detail::Trained<T>& trained : parameters<T>()) {
      const Tensor<T>& value = trained.parameter->value();
      gradients.push_back(heddle::detail::sparse_grad(value));
      value.set_grad({});
    }
  }

  Gradients sum_of(const Gradients& a, const Gradients& b) const {
    return {sum_of(std::get<0>(a), std::get<0>(b)), sum_of(std::get<1>(a), std::get<1>(b))};
  }
  template <class T>
  List<T> sum_of(const List<T>& a, const List<T>& b) const {
    List<T> sums;
    for (std::size_t i = 0; i < a.size(); ++i)
      sums.push_back(detail::sum(a[i], b[i], parameters<T>()[i].parameter->shape()));
    return sums;
  }

  // `kinds` has `count` of each process.
  void require_finite(const std::vector<detail::Has>& kinds, std::size_t count) const {
    const auto found = std::find(kinds.begin(), kinds.end(), detail::Has::not_finite);
    if (found == kinds.end()) return;
    const auto at = static_cast<std::size_t>(found - kinds.begin()), i = at % count,
               floats = parameters<float>().size();
    const std::string& name = i < floats ? parameters<float>()[i].name : parameters<double>()[i - floats].name;
    fail("the gradient of parameter '", name, "' is not finite",
         communicator_.size() > 1 ? " on process " + std::to_string(at / count) : std::string(),
         "; nothing was updated, and all gradients were cleared");
  }

  // Adds the gradients of parameters of T over the processes. Those of the first parameter have kinds[first], and those
  // of the next process are `count` further.
  template <class T>
  void reduce(List<T>& own, const std::vector<detail::Has>& kinds, std::size_t first, std::size_t count) const {
    const auto factor = static_cast<T>(options_.mean ? 1. / communicator_.size() : 1.);
    std::vector<std::size_t> dense;
    for (std::size_t i = 0; i < own.size(); ++i) {
      auto of_any = detail::Has::nothing;
      for (std::size_t at = first + i; at < kinds.size(); at += count) of_any = std::max(of_any, kinds[at]);
      if (of_any == detail::Has::all) dense.push_back(i);
      if (of_any != detail::Has::rows) continue;
      const Tensor<T>& value = parameters<T>()[i].parameter->value();
      const Shape& shape = value.shape();
      RowGradient<T> rows{Tensor<Index>({0}), Tensor<T>({0, shape.product(1, shape.rank())})};
      if (own[i]) {
        rows = {own[i].rows, empty_like(own[i].values)};
        detail::write_scaled(own[i].values, factor, rows.values.data());
      }
      own[i] = {};
      heddle::detail::set_sparse_grad(value, communicator_.all_reduce(rows));
    }
    for (auto begin = dense.begin(); begin != dense.end();) {
      auto end = begin;
      Index size = 0;
      do size += parameters<T>()[*end].parameter->shape().size();
      while (++end != dense.end() && size < bucket_bytes / static_cast<Index>(sizeof(T)));
      reduce_bucket<T>(own, {begin, end}, size, factor);
      begin = end;
    }
  }
  // Adds the gradients of some parameters, of `size` elements in all, in one message.
  template <class T>
  void reduce_bucket(List<T>& own, std::span<const std::size_t> members, Index size, T factor) const {
    Tensor<T> bucket({size});
    Index at = 0;
    for (const std::size_t i : members) {
      const Shape& shape = parameters<T>()[i].parameter->shape();
      T* const place = bucket.data() + at;
      if (own[i])
        detail::write_scaled(own[i].dense(shape).to(Device::cpu), factor, place);
      else
        std::fill_n(place, shape.size(), T(0));
      own[i] = {};
      at += shape.size();
    }
    communicator_.all_reduce(std::span(bucket.data(), static_cast<std::size_t>(size)), options_.reduction);
    at = 0;
    for (const std::size_t i : members) {
      const Tensor<T>& value = parameters<T>()[i].parameter->value();
      value.set_grad(bucket.leading(at, at + value.size()).with_shape(value.shape()).to(value.device()));
      at += value.size();
    }
  }

  // Adds two sums for TreeSum.
  struct Add {
    const GradientSum* self;
    Gradients operator()(const Gradients& a, const Gradients& b) const { return self->sum_of(a, b); }
  };

  Communicator communicator_;
  GradientOptions options_;
  std::tuple<std::vector<detail::Trained<float>>, std::vector<detail::Trained<double>>> parameters_;
  detail::TreeSum<Gradients, Add> parts_{Add{this}}, groups_{Add{this}};
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
