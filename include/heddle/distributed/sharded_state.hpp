// ShardedState: the moment estimates of an optimizer, split over processes (Rajbhandari et al. 2020, ZeRO stage 1).
#pragma once
#include <heddle/distributed/communicator.hpp>
#include <heddle/optim/slots.hpp>

namespace heddle::distributed {

/// The state of an optimizer, split over processes. Each process updates some rows of the parameters and has moment
/// estimates of these alone, about an equal share of all. All processes compute a step from the gradients of all, so
/// that weights have the same bits as without splitting. The parameters are on the CPU.
///
/// All processes call the members in the same order. @throws CommunicationError (every member).
class ShardedState {
 public:
  /// Splits the state that process 0 has; all others may have none. The optimizer must outlive this object.
  /// @throws Error if a parameter is not on the CPU.
  ShardedState(optim::Slots& state, Communicator communicator) : state_(state), communicator_(std::move(communicator)) {
    state.each([&](auto& slot) {
      require(slot.parameter->value().device() == Device::cpu, "ShardedState: parameter '", slot.name,
              "' is on a GPU; the state of an optimizer is split for parameters on the CPU");
      if (!slot.frozen) size_ += slot.parameter->shape().size();
    });
    if (!is_first()) state.each([](auto& slot) { slot.moments = {}; });
    for (std::size_t k = 0; k < state.moments().size(); ++k) split(k);
    Index before = 0;
    state.each([&](auto& slot) {
      slot.own = rows_of(slot, before, communicator_.rank());
      slot.row_flags.clear();
      communicator_.broadcast(std::span(&slot.steps, 1));
      steps_.push_back(slot.steps);
      before += counted(slot);
    });
  }
  ShardedState(const ShardedState&) = delete;

  /// Sends the rows that this process has updated, and receives the others. Call it after each step.
  void gather_weights() {
    Index before = 0;
    std::size_t number = 0;
    state_.each([&]<class T>(optim::Slot<T>& slot) {
      if (std::exchange(steps_[number++], slot.steps) != slot.steps && !slot.frozen) {
        // A process that has updated all rows only reads them, so that their cast to bf16 stays.
        const auto size = static_cast<std::size_t>(slot.parameter->shape().size());
        T* const values = slot.is_part() ? slot.parameter->data() : const_cast<T*>(slot.parameter->value().data());
        communicator_.all_gather_in_place(std::span(values, size), counts_of(slot, before));
      }
      before += counted(slot);
    });
  }

  /// Returns the number of elements that this process updates.
  Index own_size() const {
    Index size = 0;
    state_.each([&](const auto& slot) { size += slot.frozen ? 0 : slot.own_shape().size(); });
    return size;
  }
  /// Returns the number of elements that all processes update.
  Index size() const { return size_; }

  /// A scope in which process 0 has the whole state, for io::save_optimizer. No step may be made in it.
  class Whole {
   public:
    /// Gathers the moment estimates on process 0.
    explicit Whole(ShardedState& sharded) : sharded_(sharded) {
      for (std::size_t k = 0; k < sharded.state_.moments().size(); ++k) sharded.gather(k);
      if (sharded.is_first()) sharded.state_.each([](auto& slot) { slot.own = {}; });
    }
    Whole(const Whole&) = delete;
    /// Releases what was gathered.
    ~Whole() {
      if (!sharded_.is_first()) return;
      Index before = 0;
      sharded_.state_.each([&](auto& slot) {
        slot.own = sharded_.rows_of(slot, before, 0);
        before += counted(slot);
        for (auto& moment : slot.moments) moment = own_part(slot, moment);
      });
    }

   private:
    ShardedState& sharded_;
  };

 private:
  bool is_first() const { return communicator_.rank() == 0; }

  template <class T>
  static Index counted(const optim::Slot<T>& slot) {
    return slot.frozen ? 0 : slot.parameter->shape().size();
  }
  // Returns the rows of a process. `before` is the number of elements of the parameters before this one. All elements
  // are cut into equal parts; a row belongs to the part in which it begins.
  template <class T>
  optim::Rows rows_of(const optim::Slot<T>& slot, Index before, int process) const {
    const Index width = std::max<Index>(1, slot.width());
    const auto cut = [&](int number) {
      if (number == communicator_.size()) return slot.rows();
      __extension__ using Wide = __int128;
      const auto element = static_cast<Index>(static_cast<Wide>(size_) * number / communicator_.size());
      return std::clamp<Index>((element - before + width - 1) / width, 0, slot.rows());
    };
    return slot.frozen ? optim::Rows{} : optim::Rows{cut(process), cut(process + 1)};
  }
  // Returns the number of elements of a parameter that each process has.
  template <class T>
  std::vector<Index> counts_of(const optim::Slot<T>& slot, Index before) const {
    std::vector<Index> counts;
    for (int process = 0; process < communicator_.size(); ++process) {
      const auto [first, last] = rows_of(slot, before, process);
      counts.push_back((last - first) * slot.width());
    }
    return counts;
  }
  // Returns a copy of the own rows of a moment estimate of all rows.
  template <class T>
  static Tensor<T> own_part(const optim::Slot<T>& slot, const Tensor<T>& all) {
    if (!all || !slot.is_part()) return all;
    const auto [first, last] = slot.own_rows();
    if (first == last) return {};
    return heddle::detail::deep_copy(all.leading(first, last));
  }
  template <class T>
  static std::span<T> span_of(Tensor<T>& x) {
    if (!x) return {};
    return {x.data(), static_cast<std::size_t>(x.size())};
  }

  // Calls f(slot, exists, before) for each parameter that is not frozen: whether a process has moment estimate k of it,
  // and the number of elements before it.
  template <class F>
  void each_moment(std::size_t k, F&& f) {
    std::vector<char> exists;
    state_.each([&](const auto& slot) { exists.push_back(slot.moments[k].has_data()); });
    const std::vector<char> all = communicator_.all_gather(exists);
    for (std::size_t at = 0; at < all.size(); ++at) exists[at % exists.size()] |= all[at];
    Index before = 0;
    std::size_t number = 0;
    state_.each([&](auto& slot) {
      const bool is_there = exists[number++] != 0;
      if (!slot.frozen) f(slot, is_there, before);
      before += counted(slot);
    });
  }
  // Gives each process its rows of moment estimate k, which process 0 has.
  void split(std::size_t k) {
    each_moment(k, [&]<class T>(optim::Slot<T>& slot, bool exists, Index before) {
      slot.own = rows_of(slot, before, communicator_.rank());
      Tensor<T> all = slot.moments[k], own;
      if (exists) {
        if (slot.own_shape().size() > 0) own = Tensor<T>(slot.own_shape());
        communicator_.scatter(std::span<const T>(span_of(all)), span_of(own), counts_of(slot, before));
      }
      slot.moments[k] = own;
    });
  }
  // Replaces moment estimate k by that of all rows on process 0.
  void gather(std::size_t k) {
    each_moment(k, [&]<class T>(optim::Slot<T>& slot, bool exists, Index before) {
      if (!exists) return;
      Tensor<T> all, own = slot.moments[k];
      if (is_first()) all = Tensor<T>(slot.parameter->shape());
      communicator_.gather(std::span<const T>(span_of(own)), span_of(all), counts_of(slot, before));
      if (is_first()) slot.moments[k] = all;
    });
  }

  optim::Slots& state_;
  Communicator communicator_;
  Index size_ = 0;                   // elements of all parameters that are not frozen
  std::vector<std::int64_t> steps_;  // of each parameter, when its rows were gathered
};

}  // namespace heddle::distributed
