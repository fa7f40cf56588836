// The loop over all parameters that a step of every optimizer is, in pieces for the threads.
#pragma once
#include <atomic>

#include <heddle/eigen.hpp>
#include <heddle/optim/gpu_gradients.hpp>
#include <heddle/optim/slots.hpp>
#include <heddle/parallel.hpp>

namespace heddle::optim {

// One step; made anew for each.
class Update {
 public:
  explicit Update(Slots& slots) : slots_(slots) {}
  Update(const Update&) = delete;
  ~Update() {
    slots_.each([](auto& slot) { slot.step.gradient = {}; });
  }

  // Updates every parameter that has a gradient, in pieces, all parameters in one parallel loop; then drops the
  // gradients. prepare(slot) makes room for what it remembers; rule(slot) gives the function that updates elements
  // [first, first + count): f(value, gradient, first, count), `gradient` that of element `first`. Of a gradient by rows
  // the other rows are zero; where rests(slot) says so, zeros change no row that nothing is remembered of, and such rows
  // are passed over. Nothing is updated when a gradient is not finite: Error names the parameter. Of parameters on
  // the GPU, constants(slot, updated) fills in what differs between them and gives the kernel's rule.
  template <class Prepare, class Rests, class Rule, class Constants>
  void run(Prepare&& prepare, Rests&& rests, Rule&& rule, [[maybe_unused]] Constants&& constants) {
    slots_.each([&](auto& slot) {
      if (!slot.frozen) slot.step.gradient = sparse_grad(slot.parameter->value());
    });
    gather();
    require_finite();
    each_updated([&](auto& slot) {
      prepare(slot);
      if (!slot.step.gradient.rows) return;
      wake(slot);
      slot.step.zeros.resize(static_cast<std::size_t>(slot.step.gradient.values.dim(1)));
    });
    each_updated([&](auto& slot) {
      ++slot.steps;
      slot.step.value = slot.parameter->device_data();
      slot.step.first = slot.first ? slot.first.device_data() : nullptr;
      slot.step.second = slot.second ? slot.second.device_data() : nullptr;
      slot.step.rests = rests(slot);
      if (!slot.step.gradient.rows) slot.awake.clear();
    });
    each_piece([&](auto& slot, const Piece& piece) { update_piece(slot, piece, rule(slot)); });
#ifdef HEDDLE_CUDA
    using GpuRule = std::invoke_result_t<Constants, const Slot<float>&, kernel::Updated&>;
    GpuRule gpu_rule{};
    for (std::size_t i = 0; i < slots_on_gpu_.size(); ++i) {
      const Slot<float>& slot = *slots_on_gpu_[i];
      kernel::Updated& u = on_gpu_.parameters[i];
      u.value = slot.step.value, u.first = slot.step.first, u.second = slot.step.second;
      gpu_rule = constants(slot, u);
    }
    if (!slots_on_gpu_.empty()) kernel::update(Cuda{}, gpu_rule, on_gpu_.parameters);
#endif
    slots_.each([](auto& slot) {
      if (slot.parameter->value().requires_grad()) slot.parameter->value().set_grad({});
    });
  }

 private:
  static constexpr Index piece_size = 32768;       // elements: a few microseconds of memory traffic
  static constexpr Index cache_line = 64;          // bytes
  static constexpr Index rows_ahead = 6;           // the processor does not foresee which row comes next
  static constexpr char remembers = 1, given = 2;  // in Slot::awake; `given` during a step, for a row with a gradient

  // Elements of one parameter, or rows where its gradient is one by rows.
  struct Piece {
    Slot<float>* floats = nullptr;
    Slot<double>* doubles = nullptr;  // one of the two is there
    Index first, last;

    Piece(Slot<float>& slot, Index from, Index to) : floats(&slot), first(from), last(to) {}
    Piece(Slot<double>& slot, Index from, Index to) : doubles(&slot), first(from), last(to) {}
  };

  template <class F>
  void each_updated(F&& f) {
    slots_.each([&](auto& slot) {
      if (slot.step.gradient) f(slot);
    });
  }

  // Cuts what is to be updated on the CPU into pieces, and lists what is on the GPU.
  void gather() {
    each_updated([&]<class T>(Slot<T>& slot) {
      const auto& g = slot.step.gradient;
      if constexpr (std::is_same_v<T, float>)
        if (on_gpu_.take(g.values)) return slots_on_gpu_.push_back(&slot);
      const Index width = g.rows ? g.values.dim(1) : 1, total = g.rows ? slot.parameter->shape()[0] : g.values.size();
      const Index size = piece_size / std::max<Index>(width, 1) + 1;
      for (Index first = 0; first < total; first += size)
        pieces_.push_back({slot, first, std::min(total, first + size)});
    });
  }

  template <class F>
  void each_piece(F&& f) {
    kernel::parallel(static_cast<Index>(pieces_.size()), 1, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) {
        const Piece& piece = pieces_[static_cast<std::size_t>(i)];
        if (piece.floats)
          f(*piece.floats, piece);
        else
          f(*piece.doubles, piece);
      }
    });
  }

  // Where the rows of a piece begin among those that the gradient has.
  static Index first_row(const Tensor<Index>& rows, Index row) {
    const Index* const begin = rows.device_data();
    return std::lower_bound(begin, begin + rows.size(), row) - begin;
  }

  template <class T>
  static void prefetch(const T* x, Index count) {
    for (Index d = 0; d < count; d += cache_line / static_cast<Index>(sizeof(T))) __builtin_prefetch(x + d, 1);
  }

  template <class T, class Apply>
  static void update_piece(Slot<T>& slot, const Piece& piece, Apply&& apply) {
    const RowGradient<T>& g = slot.step.gradient;
    const T* const values = g.values.device_data();
    T* const value = slot.step.value;
    if (!g.rows) return apply(value, values + piece.first, piece.first, piece.last - piece.first);
    const bool all = !slot.step.rests;
    char* const awake = slot.awake.data();
    const Index D = g.values.dim(1), begin = first_row(g.rows, piece.first), end = first_row(g.rows, piece.last);
    const Index* const rows = g.rows.device_data();
    for (Index m = begin; m < end; ++m) awake[rows[m]] |= given;
    Index ahead = piece.first, waiting = 0;
    for (Index r = piece.first, m = begin; r < piece.last; ++r) {
      for (; waiting < rows_ahead && ahead < piece.last; ++ahead) {
        if (!awake[ahead] && !all) continue;
        prefetch(value + ahead * D, D);
        if (slot.first) prefetch(slot.step.first + ahead * D, D);
        if (slot.second) prefetch(slot.step.second + ahead * D, D);
        ++waiting;
      }
      if (!awake[r] && !all) continue;
      --waiting;
      apply(value, awake[r] & given ? values + m++ * D : slot.step.zeros.data(), r * D, D);
      awake[r] = slot.first ? remembers : 0;
    }
  }

  template <class T>
  static void wake(Slot<T>& slot) {
    if (!slot.awake.empty()) return;
    const Shape& shape = slot.parameter->shape();
    const Index width = shape.product(1, shape.rank());
    slot.awake.resize(static_cast<std::size_t>(shape[0]));
    for (const Tensor<T>& moments : {slot.first, slot.second})
      for (Index e = 0; e < moments.size(); ++e)
        if (moments.device_data()[e] != 0) slot.awake[static_cast<std::size_t>(e / width)] = remembers;
  }

  void require_finite() {
    // x * 0 is 0 for a finite x and NaN otherwise.
    const auto finite = [](const auto* x, Index count) { return (kernel::array(x, count) * 0).sum() == 0; };
    std::atomic<bool> all_finite = true;
    each_piece([&](auto& slot, const Piece& piece) {
      const auto& g = slot.step.gradient;
      const Index D = g.rows ? g.values.dim(1) : 1;
      const Index first = g.rows ? first_row(g.rows, piece.first) : piece.first;
      const Index last = g.rows ? first_row(g.rows, piece.last) : piece.last;
      if (!finite(g.values.device_data() + first * D, (last - first) * D)) all_finite = false;
    });
    const auto refuse = [&](const auto& slot) {
      fail(slots_.optimizer(), ": the gradient of '", slot.name, "' is not finite; nothing was updated");
    };
#ifdef HEDDLE_CUDA
    if (!slots_on_gpu_.empty())
      if (const Index wrong = kernel::first_not_finite(Cuda{}, on_gpu_.parameters); wrong >= 0)
        refuse(*slots_on_gpu_[static_cast<std::size_t>(wrong)]);
#endif
    if (all_finite) return;
    each_updated([&](auto& slot) {
      const auto& values = slot.step.gradient.values;
      if (values.device() == Device::cpu && !finite(values.device_data(), values.size())) refuse(slot);
    });
  }

  Slots& slots_;
  std::vector<Piece> pieces_;
  GpuGradients on_gpu_;
  std::vector<Slot<float>*> slots_on_gpu_;  // of those
};

}  // namespace heddle::optim
