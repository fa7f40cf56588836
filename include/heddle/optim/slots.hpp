// What every optimizer keeps: for each parameter its identity, its group and its state. Holding identities, an optimizer made
// before the model was moved or loaded goes on training it.
#pragma once
#include <atomic>
#include <functional>

#include <heddle/eigen.hpp>
#include <heddle/nn/module.hpp>
#include <heddle/parallel.hpp>

namespace heddle::optim {

// Parameters that are treated differently from the rest.
struct Group {
  std::function<bool(const std::string& name)> select;
  std::optional<double> lr = {}, weight_decay = {};
  bool frozen = false;
};

// One parameter of an optimizer.
template <class T>
struct Slot {
  using Element = T;
  std::string name;
  typename Parameter<T>::Identity parameter;
  std::optional<double> lr, weight_decay;  // of its group
  bool frozen = false;
  std::int64_t steps = 0;        // how often it was updated
  std::vector<T> first, second;  // what the optimizer remembers of each element; empty where it needs nothing
  // Of each row, whether what is remembered of it may be other than zero; empty where that was not looked at.
  std::vector<char> awake;
};

// All parameters of an optimizer, those of floats before those of doubles.
class Slots {
 public:
  // The first group that selects a parameter's name has it. Throws Error for a group that selects nothing.
  template <class M>
  Slots(const char* optimizer, M& model, const std::vector<Group>& groups) : optimizer_(optimizer) {
    std::vector<int> selected(groups.size(), 0);
    each_parameter(model, [&](const Name& name, auto& p) {
      using T = typename std::remove_cvref_t<decltype(p)>::Element;
      Slot<T> slot;
      slot.name = name.str();
      slot.parameter = p.identity();
      for (std::size_t g = 0; g < groups.size(); ++g) {
        if (!groups[g].select(slot.name)) continue;
        ++selected[g];
        slot.lr = groups[g].lr;
        slot.weight_decay = groups[g].weight_decay;
        slot.frozen = groups[g].frozen;
        break;
      }
      std::get<std::vector<Slot<T>>>(slots_).push_back(std::move(slot));
    });
    for (std::size_t g = 0; g < groups.size(); ++g)
      require(selected[g] > 0, optimizer, ": parameter group ", g, " selects no parameter");
  }

  // Sgd, Adam or AdamW: what begins its messages.
  const char* optimizer() const { return optimizer_; }

  // Calls f(slot) for each parameter, in the order of the visits: those of float first, then those of double.
  template <class F>
  void each(F&& f) {
    for (auto& slot : std::get<0>(slots_)) f(slot);
    for (auto& slot : std::get<1>(slots_)) f(slot);
  }
  template <class F>
  void each(F&& f) const {
    for (const auto& slot : std::get<0>(slots_)) f(slot);
    for (const auto& slot : std::get<1>(slots_)) f(slot);
  }

  // Updates every parameter that has a gradient, in pieces, all parameters in one parallel loop; then drops the
  // gradients. prepare(slot) makes room for what it remembers; rule(slot) gives the function that updates elements
  // [first, first + count): f(value, gradient, first, count), `gradient` that of element `first`. Of a gradient by rows
  // the other rows are zero; where rests(slot) says so, zeros change no row that nothing is remembered of, and such rows
  // are passed over. Nothing is updated when a gradient is not finite: Error names the parameter.
  template <class Prepare, class Rests, class Rule>
  void update(Prepare&& prepare, Rests&& rests, Rule&& rule) {
    const auto each_type = [&](auto&& f) {
      f(std::get<0>(slots_), std::get<0>(work_));
      f(std::get<1>(slots_), std::get<1>(work_));
    };
    each_type([&](auto& slots, auto& work) { gather(slots, work); });
    each_type([&](auto&, auto& work) { require_finite(work); });
    each_type([&](auto&, auto& work) {
      for (auto& w : work.parameters) {
        prepare(*w.slot);
        if (w.gradient.rows) wake(*w.slot);
      }
    });
    each_type([&](auto&, auto& work) {
      for (auto& w : work.parameters) {
        ++w.slot->steps;
        w.value = w.slot->parameter->data();
        w.rests = rests(*w.slot);
        if (!w.gradient.rows) w.slot->awake.clear();
      }
      each_piece(work, [&](const auto& w, Piece piece) { update_piece(w, piece, work.zeros.data(), rule(*w.slot)); });
      work.parameters.clear();
    });
    each([](auto& slot) {
      if (slot.parameter->value().requires_grad()) slot.parameter->value().set_grad({});
    });
  }

 private:
  static constexpr Index piece_size = 32768;  // elements: a few microseconds of memory traffic
  static constexpr Index cache_line = 64;     // bytes
  static constexpr Index rows_ahead = 6;      // the processor does not foresee which row comes next

  // Elements of one parameter, or rows where its gradient is one by rows.
  struct Piece {
    std::size_t parameter;
    Index first, last;
  };
  template <class T>
  struct Parameterwise {
    Slot<T>* slot;
    RowGradient<T> gradient;
    T* value = nullptr;
    bool rests = false;
  };
  // What one step goes through; kept from step to step for its memory.
  template <class T>
  struct Work {
    std::vector<Parameterwise<T>> parameters;
    std::vector<Piece> pieces;
    std::vector<T> zeros;  // a gradient for the longest row that has none
  };

  template <class T>
  static void gather(std::vector<Slot<T>>& slots, Work<T>& work) {
    work.parameters.clear();
    work.pieces.clear();
    for (Slot<T>& slot : slots) {
      const Tensor<T>& value = slot.parameter->value();
      RowGradient<T> gradient = slot.frozen ? RowGradient<T>() : sparse_grad(value);
      if (!gradient) continue;
      const bool by_rows = static_cast<bool>(gradient.rows);
      const Index width = by_rows ? gradient.values.dim(1) : 1, total = by_rows ? value.dim(0) : value.size();
      const Index size = piece_size / std::max<Index>(width, 1) + 1;
      if (by_rows) work.zeros.resize(std::max(work.zeros.size(), static_cast<std::size_t>(width)));
      for (Index first = 0; first < total; first += size)
        work.pieces.push_back({work.parameters.size(), first, std::min(total, first + size)});
      work.parameters.push_back({&slot, std::move(gradient)});
    }
  }

  template <class T, class F>
  static void each_piece(Work<T>& work, F&& f) {
    kernel::parallel(static_cast<Index>(work.pieces.size()), 1, [&](Index first, Index last) {
      for (Index i = first; i < last; ++i) {
        const Piece piece = work.pieces[static_cast<std::size_t>(i)];
        f(std::as_const(work.parameters[piece.parameter]), piece);
      }
    });
  }

  // Where the rows of a piece begin among those that the gradient has.
  template <class T>
  static Index first_row(const RowGradient<T>& gradient, Index row) {
    const Index* const rows = gradient.rows.device_data();
    return std::lower_bound(rows, rows + gradient.rows.size(), row) - rows;
  }

  template <class T, class Apply>
  static void update_piece(const Parameterwise<T>& w, Piece piece, const T* zeros, Apply&& apply) {
    const RowGradient<T>& g = w.gradient;
    const T* const values = g.values.device_data();
    if (!g.rows) return apply(w.value, values + piece.first, piece.first, piece.last - piece.first);
    Slot<T>& slot = *w.slot;
    char* const awake = slot.awake.data();
    const Index D = g.values.dim(1), begin = first_row(g, piece.first), end = first_row(g, piece.last);
    const Index* const rows = g.rows.device_data();
    constexpr char remembers = 1, given = 2;
    for (Index m = begin; m < end; ++m) awake[rows[m]] |= given;
    const auto prefetch = [&](const T* x, Index r) {
      for (Index d = 0; x && d < D; d += cache_line / static_cast<Index>(sizeof(T)))
        __builtin_prefetch(x + r * D + d, 1);
    };
    Index ahead = piece.first, waiting = 0;
    for (Index r = piece.first, m = begin; r < piece.last; ++r) {
      for (; waiting < rows_ahead && ahead < piece.last; ++ahead) {
        if (!awake[ahead] && w.rests) continue;
        prefetch(w.value, ahead);
        prefetch(slot.first.empty() ? nullptr : slot.first.data(), ahead);
        prefetch(slot.second.empty() ? nullptr : slot.second.data(), ahead);
        ++waiting;
      }
      if (!awake[r] && w.rests) continue;
      --waiting;
      apply(w.value, awake[r] & given ? values + m++ * D : zeros, r * D, D);
      awake[r] = slot.first.empty() ? 0 : remembers;
    }
  }

  template <class T>
  static void wake(Slot<T>& slot) {
    if (!slot.awake.empty()) return;
    const Shape& shape = slot.parameter->value().shape();
    const auto rows = static_cast<std::size_t>(shape[0]),
               width = static_cast<std::size_t>(shape.product(1, shape.rank()));
    slot.awake.resize(rows);
    for (const std::vector<T>* remembered : {&slot.first, &slot.second})
      for (std::size_t e = 0; e < remembered->size(); ++e)
        if ((*remembered)[e] != 0) slot.awake[e / width] = 1;
  }

  template <class T>
  void require_finite(Work<T>& work) const {
    // x * 0 is 0 for a finite x and NaN otherwise.
    const auto finite = [](const T* x, Index count) { return (kernel::array(x, count) * T(0)).sum() == 0; };
    std::atomic<bool> all_finite = true;
    each_piece(work, [&](const Parameterwise<T>& w, Piece piece) {
      const RowGradient<T>& g = w.gradient;
      const Index D = g.rows ? g.values.dim(1) : 1;
      const Index first = g.rows ? first_row(g, piece.first) : piece.first;
      const Index last = g.rows ? first_row(g, piece.last) : piece.last;
      if (!finite(g.values.device_data() + first * D, (last - first) * D)) all_finite = false;
    });
    if (all_finite) return;
    for (const Parameterwise<T>& w : work.parameters)
      require(finite(w.gradient.values.device_data(), w.gradient.values.size()), optimizer_, ": the gradient of '",
              w.slot->name, "' is not finite; nothing was updated");
  }

  const char* optimizer_;
  std::tuple<std::vector<Slot<float>>, std::vector<Slot<double>>> slots_;
  std::tuple<Work<float>, Work<double>> work_;
};

}  // namespace heddle::optim
