// Communicator: what several processes that train one model together say to one another. Sums have the same bits for
// every number of processes: they are added in the order of one fixed tree.
#pragma once
#include <bit>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <heddle/autograd/gradient.hpp>
#include <heddle/core/move.hpp>
#include <heddle/distributed/transport.hpp>

namespace heddle::distributed {

/// The order in which values of several processes are added. `exact` is a fixed tree, so that the sum has the same bits
/// whatever the number of processes; `fast` leaves the order to MPI.
enum class Reduction { exact, fast };

/// Some consecutive parts of a batch that is cut into parts.
struct Parts {
  Index first;  ///< the first part
  Index last;   ///< one past the last part
};

/// Returns the parts that a process computes. The tree that adds them cuts parts and processes into halves; a process
/// has the parts of one of its nodes, so that the others receive one sum from it. @throws Error unless `parts` is a
/// power of two that is not below the number of processes.
inline Parts parts_of(int rank, int size, Index parts) {
  require(parts >= size && std::has_single_bit(static_cast<std::uint64_t>(parts)), "parts_of: ", parts,
          " parts of a batch for ", size, " processes; it must be a power of two that is at least their number");
  Parts own{0, parts};
  for (int first = 0, last = size; last - first > 1;) {
    const int middle = first + (last - first + 1) / 2;
    const Index half = own.first + (own.last - own.first) / 2;
    (rank < middle ? last : first) = middle;
    (rank < middle ? own.last : own.first) = half;
  }
  return own;
}

namespace detail {

// Returns the sum of two gradients. A row that only one of them has is copied.
template <class T>
RowGradient<T> sum_of_rows(const RowGradient<T>& a, const RowGradient<T>& b) {
  const Index width = a.values.dim(1);
  const Index *const x = a.rows.data(), *const y = b.rows.data();
  const Index of_a = a.rows.size(), of_b = b.rows.size();
  struct Source {
    Index in_a, in_b;  // -1: none
  };
  std::vector<Index> rows;
  std::vector<Source> sources;
  for (Index i = 0, j = 0; i < of_a || j < of_b;) {
    const bool from_a = i < of_a && (j == of_b || x[i] <= y[j]), from_b = j < of_b && (i == of_a || y[j] <= x[i]);
    rows.push_back(from_a ? x[i] : y[j]);
    sources.push_back({from_a ? i++ : -1, from_b ? j++ : -1});
  }
  const auto count = static_cast<Index>(rows.size());
  Tensor<T> values({count, width});
  T* const sum = values.data();
  kernel::parallel(count, kernel::row_grain(width), [&](Index first, Index last) {
    for (Index m = first; m < last; ++m) {
      const auto [i, j] = sources[static_cast<std::size_t>(m)];
      const T *const p = std::as_const(a.values).data() + std::max<Index>(i, 0) * width,
                     *const q = std::as_const(b.values).data() + std::max<Index>(j, 0) * width;
      if (i < 0 || j < 0)
        std::copy_n(i < 0 ? q : p, width, sum + m * width);
      else
        for (Index d = 0; d < width; ++d) sum[m * width + d] = p[d] + q[d];
    }
  });
  return {Tensor<Index>({count}, rows), values};
}

}  // namespace detail

/// The connection of this process with the others. A copy is another handle to it. Without argument: a single process.
/// All processes call the members in the same order and with the same shapes. Tensors on a GPU travel through the host,
/// unless nccl() made the communicator. @throws CommunicationError (every member but rank() and size()).
class Communicator {
 public:
  /// Makes the communicator of a single process.
  Communicator() : transport_(std::make_shared<NoTransport>()) {}
  /// Takes a transport, such as that of mpi().
  explicit Communicator(std::shared_ptr<Transport> transport) : transport_(std::move(transport)) {}

  /// Returns the number of this process, from 0.
  int rank() const { return transport_->rank(); }
  /// Returns the number of processes.
  int size() const { return transport_->size(); }

  /// Returns the transport.
  const std::shared_ptr<Transport>& transport() const { return transport_; }
  /// Returns whether tensors on a GPU travel without a copy on the host.
  bool reaches_gpus() const { return transport_->reaches_gpus(); }
  /// Returns whether another thread than before may call the members.
  bool serves_all_threads() const { return transport_->serves_all_threads(); }

  /// Waits until every process has called this function.
  void barrier() const { all_gather(std::vector<char>(1)); }

  /// Copies the values of process `root` to all others.
  template <class T>
  void broadcast(std::span<T> values, int root = 0) const {
    transport_->broadcast(std::as_writable_bytes(values), root);
  }
  /// Writes the elements of a tensor of process `root` into those of all others, which have the same shape.
  template <class T>
  void broadcast(Tensor<T>& x, int root = 0) const {
    if (x.device() == Device::cuda && reaches_gpus())
      return transport_->broadcast_on_gpus(std::as_writable_bytes(span_of(x)), root);
    Tensor<T> here = x.to(Device::cpu);
    broadcast(span_of(here), root);
    if (x.device() != Device::cpu && rank() != root) x = here.to(x.device());
  }
  /// Returns the text of process `root`.
  std::string broadcast(std::string text, int root = 0) const {
    std::uint64_t length = text.size();
    broadcast(std::span(&length, 1), root);
    text.resize(length);
    broadcast(std::span(text), root);
    return text;
  }

  /// Returns the values of all processes, in their order. Each gives as many.
  template <class T>
  std::vector<T> all_gather(const std::vector<T>& own) const {
    std::vector<T> all(own.size() * static_cast<std::size_t>(size()));
    transport_->all_gather(std::as_bytes(std::span(own)), std::as_writable_bytes(std::span(all)));
    return all;
  }

  /// Replaces the values of the other processes by theirs: `values` has those of all, one after another, and process p
  /// gives counts[p] of them.
  template <class T>
  void all_gather_in_place(std::span<T> values, const std::vector<Index>& counts) const {
    for (int process = 0; process < size(); ++process)
      if (const std::span<T> part = next(values, counts, process); !part.empty()) broadcast(part, process);
  }
  /// Writes the values of all processes to `all` on process `root`, one after another. Process p gives counts[p] of
  /// them. Elsewhere `all` is not used.
  template <class T>
  void gather(std::span<const T> own, std::span<T> all, const std::vector<Index>& counts, int root = 0) const {
    if (rank() != root) {
      if (!own.empty()) exchange<T>(root, own, {});
      return;
    }
    for (int process = 0; process < size(); ++process) {
      const std::span<T> part = next(all, counts, process);
      if (process == root)
        std::copy(own.begin(), own.end(), part.begin());
      else if (!part.empty())
        exchange<T>(process, {}, part);
    }
  }
  /// Writes counts[p] of the values of process `root` to `own` of process p, those after what the processes before p
  /// get. Elsewhere `all` is not used.
  template <class T>
  void scatter(std::span<const T> all, std::span<T> own, const std::vector<Index>& counts, int root = 0) const {
    if (rank() != root) {
      if (!own.empty()) exchange<T>(root, {}, own);
      return;
    }
    for (int process = 0; process < size(); ++process) {
      const std::span<const T> part = next(all, counts, process);
      if (process == root)
        std::copy(part.begin(), part.end(), own.begin());
      else if (!part.empty())
        exchange<T>(process, part, {});
    }
  }

  /// Returns the first process whose value differs from that of process 0, if there is one.
  template <class T>
  std::optional<int> first_different(const T& own) const {
    const std::vector<T> all = all_gather(std::vector<T>{own});
    for (int other = 1; other < size(); ++other)
      if (all[static_cast<std::size_t>(other)] != all[0]) return other;
    return std::nullopt;
  }

  /// Replaces values by their sums over all processes.
  template <class T>
  void all_reduce(std::span<T> values, Reduction reduction = Reduction::exact) const {
    static_assert(std::is_same_v<T, float> || std::is_same_v<T, double>,
                  "heddle: all_reduce adds values of float or double");
    all_reduce(Cpu{}, values, reduction);
  }
  /// Replaces the values of a tensor by their sums over all processes. All tensors have the same shape.
  template <class T>
  void all_reduce_in_place(Tensor<T>& x, Reduction reduction = Reduction::exact) const {
    if (x.device() == Device::cpu || !reaches_gpus()) {
      Tensor<T> here = x.to(Device::cpu);
      all_reduce(span_of(here), reduction);
      if (x.device() != Device::cpu) x = here.to(x.device());
    } else {
      dispatch<T>(x.device(), [&](auto where) { all_reduce(where, span_of(x), reduction); });
    }
  }
  /// Returns the sum of a tensor's values over all processes, on its device. All tensors have the same shape.
  template <class T>
  Tensor<T> all_reduce(const Tensor<T>& x, Reduction reduction = Reduction::exact) const {
    Tensor<T> sum = heddle::detail::deep_copy(x);
    all_reduce_in_place(sum, reduction);
    return sum;
  }
  /// Returns the sum over all processes of gradients that are sparse by rows, of one width. Only their rows travel.
  template <class T>
  RowGradient<T> all_reduce(const RowGradient<T>& own) const {
    const Index width = own.values.dim(1);
    RowGradient<T> sum = own;
    if (is_power_of_two()) {
      for (int distance = 1; distance < size(); distance *= 2)
        sum = detail::sum_of_rows(sum, exchanged(rank() ^ distance, sum));
      return sum;
    }
    const RowGradient<T> none{Tensor<Index>({0}), Tensor<T>({0, width})};
    up_the_tree([&](int other) { sum = detail::sum_of_rows(sum, exchanged(other, none)); },
                [&](int other) { exchanged(other, sum); });
    Index count = sum.rows.size();
    broadcast(std::span(&count, 1));
    if (rank() != 0) sum = {Tensor<Index>({count}), Tensor<T>({count, width})};
    broadcast(sum.rows);
    broadcast(sum.values);
    return sum;
  }

 private:
  bool is_power_of_two() const { return std::has_single_bit(static_cast<unsigned>(size())); }

  template <class T>
  static std::span<T> span_of(Tensor<T>& x) {
    return {x.device_data(), static_cast<std::size_t>(x.size())};
  }
  // Cuts the values of a process off the beginning of `left`.
  template <class T>
  static std::span<T> next(std::span<T>& left, const std::vector<Index>& counts, int process) {
    const auto count = static_cast<std::size_t>(counts[static_cast<std::size_t>(process)]);
    const std::span<T> part = left.first(count);
    left = left.subspan(count);
    return part;
  }
  template <class T>
  void exchange(int other, std::span<const T> sent, std::span<T> received) const {
    exchange<T>(Cpu{}, other, sent, received);
  }

  // The functions below work on host memory, or on that of the calling thread's GPU.
  template <class T, class Where>
  void exchange(Where, int other, std::span<const T> sent, std::span<T> received) const {
    if constexpr (std::is_same_v<Where, Cpu>)
      transport_->exchange(other, std::as_bytes(sent), std::as_writable_bytes(received));
    else
      transport_->exchange_on_gpus(other, std::as_bytes(sent), std::as_writable_bytes(received));
  }
  template <class T, class Where>
  void all_reduce(Where where, std::span<T> values, Reduction reduction) const {
    if (size() == 1) return;
    if (reduction == Reduction::exact)
      is_power_of_two() ? add_by_halves(where, values) : add_at_first(where, values);
    else if constexpr (std::is_same_v<Where, Cpu>)
      transport_->add_in_any_order(values);
    else
      transport_->add_in_any_order_on_gpus(values);
  }
  // Adds another process's values to these.
  template <class T, class Where>
  static void add(Where where, std::span<const T> others, std::span<T> values) {
    const auto count = static_cast<Index>(values.size());
    if (count > 0)
      kernel::add(where, View<const T, 1>{others.data(), {count}}, View<const T, 1>{values.data(), {count}},
                  View<T, 1>{values.data(), {count}});
  }
  // Returns room for as many values.
  template <class T, class Where>
  static Tensor<T> room_for(Where, std::size_t count) {
    return Tensor<T>({static_cast<Index>(count)}, std::is_same_v<Where, Cpu> ? Device::cpu : Device::cuda);
  }

  // Adds the values of 2^n processes. In each of n steps two processes exchange halves of what they still add up;
  // afterwards each has the sums of one piece, and the pieces travel back the same way (Rabenseifner 2004).
  template <class T, class Where>
  void add_by_halves(Where where, std::span<T> values) const {
    std::vector<std::pair<std::span<T>, std::span<T>>> halves;  // of each step: the half that is kept, and the other
    Tensor<T> room = room_for<T>(where, (values.size() + 1) / 2);
    std::span<T> left = values;
    for (int distance = 1; distance < size(); distance *= 2) {
      std::span<T> kept = left.first(left.size() / 2), given = left.subspan(left.size() / 2);
      if (rank() & distance) std::swap(kept, given);
      const std::span<T> received = span_of(room).first(kept.size());
      exchange<T>(where, rank() ^ distance, given, received);
      add<T>(where, received, kept);
      halves.emplace_back(kept, given);
      left = kept;
    }
    for (int distance = size() / 2; distance > 0; distance /= 2) {
      const auto [kept, given] = halves.back();
      halves.pop_back();
      exchange<T>(where, rank() ^ distance, kept, given);
    }
  }

  // Adds the values of any number of processes at the first one, and copies the sums to the others.
  template <class T, class Where>
  void add_at_first(Where where, std::span<T> values) const {
    Tensor<T> room = room_for<T>(where, values.size());
    up_the_tree(
        [&](int other) {
          exchange<T>(where, other, {}, span_of(room));
          add<T>(where, span_of(room), values);
        },
        [&](int other) { exchange<T>(where, other, values, {}); });
    if constexpr (std::is_same_v<Where, Cpu>)
      broadcast(values);
    else
      transport_->broadcast_on_gpus(std::as_writable_bytes(values), 0);
  }

  // Walks up the tree that parts_of() describes. Of each node, the first process of the left half calls receive(other),
  // and the first one of the right half send(other); each with the number of the other one.
  template <class Receive, class Send>
  void up_the_tree(Receive receive, Send send) const {
    std::vector<std::pair<int, int>> halves;  // the first processes of the halves of each node
    for (int first = 0, last = size(); last - first > 1;) {
      const int middle = first + (last - first + 1) / 2;
      halves.emplace_back(first, middle);
      (rank() < middle ? last : first) = middle;
    }
    for (; !halves.empty(); halves.pop_back()) {
      const auto [left, right] = halves.back();
      if (rank() == left) receive(right);
      if (rank() == right) send(left);
    }
  }

  // Sends a sparse gradient to another process and returns its own.
  template <class T>
  RowGradient<T> exchanged(int other, const RowGradient<T>& own) const {
    const Index count = own.rows.size();
    Index others = 0;
    exchange<Index>(other, std::span(&count, 1), std::span(&others, 1));
    RowGradient<T> received{Tensor<Index>({others}), Tensor<T>({others, own.values.dim(1)})};
    exchange<Index>(other, {own.rows.data(), static_cast<std::size_t>(count)}, span_of(received.rows));
    exchange<T>(other, {own.values.data(), static_cast<std::size_t>(own.values.size())}, span_of(received.values));
    return received;
  }

  std::shared_ptr<Transport> transport_;
};

}  // namespace heddle::distributed
