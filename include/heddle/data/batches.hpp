// Batches of token sequences as packed rows. The rows of a batch are a function of (seed, epoch, number): a run can
// continue at any point without replaying the previous batches.
#pragma once
#include <algorithm>
#include <limits>
#include <numeric>
#include <optional>
#include <span>

#include <heddle/base/random.hpp>
#include <heddle/base/row_rounding.hpp>
#include <heddle/core/sequences.hpp>

namespace heddle::data {

/// Returns the numbers 0 to count - 1 in an order that depends on (seed, stream) alone (Fisher and Yates;
/// Knuth 3.4.2, P). @throws ShapeError for a negative count.
inline std::vector<Index> shuffled(Index count, std::uint64_t seed, std::uint64_t stream) {
  require<ShapeError>(count >= 0, "shuffled: the number of rows must not be negative, got ", count);
  __extension__ using Wide = unsigned __int128;
  std::vector<Index> order(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = static_cast<Index>(i);
  Random random(seed, stream);
  for (std::size_t i = order.size(); i > 1; --i) {
    // The high half of a 64 x 64 bit product is uniform below i except for a bias of i / 2^64.
    const auto pick = static_cast<std::size_t>(static_cast<Wide>(random.next()) * i >> 64);
    std::swap(order[i - 1], order[pick]);
  }
  return order;
}

/// The order of the rows in an epoch.
enum class Order { shuffled, sequential };

/// The rows of each batch of each epoch; the last batch of an epoch may be smaller.
class Batches {
 public:
  /// Creates the batches of `rows` rows. Epoch e is shuffled with the random stream first_stream + e. @throws
  /// ShapeError for a negative number of rows and for a batch size below 1.
  Batches(Index rows, Index batch_size, Order order, std::uint64_t seed = 0, std::uint64_t first_stream = 0)
      : rows_(rows), batch_size_(batch_size), order_(order), seed_(seed), first_stream_(first_stream) {
    require<ShapeError>(rows >= 0, "Batches: the number of rows must not be negative, got ", rows);
    require<ShapeError>(batch_size >= 1, "Batches: the batch size must be at least 1, got ", batch_size);
  }

  /// Returns the number of batches in an epoch.
  Index per_epoch() const { return rows_ / batch_size_ + (rows_ % batch_size_ != 0); }

  /// Returns the rows of batch `number` of an epoch; both are numbered from 0. The span is valid until a batch of
  /// another epoch is requested. @throws IndexError for a negative epoch and a batch that the epoch does not have.
  std::span<const Index> operator()(Index epoch, Index number) {
    require<IndexError>(epoch >= 0, "Batches: epoch ", epoch, " is negative");
    require<IndexError>(number >= 0 && number < per_epoch(), "Batches: batch ", number,
                        " is out of range for an epoch of ", per_epoch(), " batches");
    if (epoch != epoch_) {
      if (order_ == Order::shuffled) {
        order_of_epoch_ = shuffled(rows_, seed_, first_stream_ + static_cast<std::uint64_t>(epoch));
      } else {
        order_of_epoch_.resize(static_cast<std::size_t>(rows_));
        std::iota(order_of_epoch_.begin(), order_of_epoch_.end(), Index{0});
      }
      epoch_ = epoch;
    }
    const Index first = number * batch_size_;
    return std::span(order_of_epoch_)
        .subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(std::min(batch_size_, rows_ - first)));
  }

 private:
  Index rows_, batch_size_;
  Order order_;
  std::uint64_t seed_, first_stream_;
  Index epoch_ = -1;
  std::vector<Index> order_of_epoch_;
};

/// The rows of one training step. N is the total number of tokens, padding included.
struct Batch {
  Tensor<int> ids;         ///< [N]
  Sequences sequences;     ///< B sequences
  Tensor<int> labels;      ///< [B]
  Tensor<int> types = {};  ///< [N] 1 for the second text of a pair; empty if there is none

  /// Returns the batch on `device`. Shares the tensors that are on that device already. On the GPU, the tensors that it
  /// copies share one block: a write to one of them counts as a write to all. @throws Error for a device that this
  /// build does not support.
  Batch to(Device device) const {
    Batch b = *this;
    Sequences& s = b.sequences;
    heddle::detail::move_together(device, {&b.ids, &b.labels, &b.types, &s.begin_, &s.length_, &s.position_});
    return b;
  }
  /// @private Calls f with each tensor, and with the sequences.
  template <class F>
  void each_input(F&& f) {
    f(ids);
    f(sequences);
    f(labels);
    f(types);
  }
  /// Returns the number of tokens without padding.
  Index tokens() const {
    const std::vector<int>& lengths = sequences.lengths();
    return std::accumulate(lengths.begin(), lengths.end(), Index{0});
  }
};

/// Returns part `number` of `count` parts of some rows, such as those of a batch: of n rows, those from
/// number * n / count on. A process that trains together with others takes part communicator.rank() of
/// communicator.size(). @throws IndexError unless 0 <= number < count.
inline std::span<const Index> part(std::span<const Index> rows, Index number, Index count) {
  require<IndexError>(0 <= number && number < count, "part: there is no part ", number, " of ", count);
  const Index n = std::ssize(rows), first = number * n / count, last = (number + 1) * n / count;
  return rows.subspan(static_cast<std::size_t>(first), static_cast<std::size_t>(last - first));
}

/// Returns the place of part `number` of `count` parts of a batch. A part has consecutive sequences, as many as the
/// others or one more. It may be empty. @throws IndexError unless 0 <= number < count.
inline BatchPart place_of_part(const Sequences& batch, Index number, Index count) {
  require<IndexError>(0 <= number && number < count, "place_of_part: there is no part ", number, " of ", count);
  const Index B = batch.count(), first = number * B / count, last = (number + 1) * B / count;
  const auto row = [&](Index b) -> Index {
    if (b == B) return batch.rows();
    return batch.begins()[static_cast<std::size_t>(b)];
  };
  return {number, row(first), row(last) - row(first), first, last - first, batch.longest()};
}

/// Returns the sequences of a part of a batch, as a batch of its own.
inline Sequences part(const Sequences& batch, const BatchPart& place) {
  const auto first = batch.lengths().begin() + place.first_sequence;
  const std::vector<int> lengths(first, first + place.sequences);
  return batch.padded_to() > 0 ? Sequences::padded(lengths, batch.padded_to()) : Sequences::packed(lengths);
}
/// Returns a part of a batch that is on the host. The ids and labels are handles into those of the batch.
inline Batch part(const Batch& batch, const BatchPart& place) {
  const auto rows = [&](const Tensor<int>& x) {
    return x ? x.leading(place.first_row, place.first_row + place.rows) : x;
  };
  return {rows(batch.ids), part(batch.sequences, place),
          batch.labels.leading(place.first_sequence, place.first_sequence + place.sequences), rows(batch.types)};
}

/// The label of the sequences that filled() adds: cross_entropy() ignores it by default.
inline constexpr int ignored_label = -100;

/// Returns the elements of x [M], followed by `value` so often that vectors of similar sizes get few sizes: there are
/// at most an eighth more elements, or seven. For inputs of cuda::Graph that are not part of a batch, such as the
/// numbers of rows and their labels.
inline Tensor<int> filled(const Tensor<int>& x, int value) {
  std::vector<int> values = x.host();
  const Index step = std::max<Index>(8, heddle::detail::row_step(x.size()));
  values.resize(static_cast<std::size_t>((x.size() + step - 1) / step * step), value);
  const auto size = static_cast<Index>(values.size());
  return Tensor<int>({size}, std::move(values));
}

/// Returns a packed batch filled up with sequences of token 0 and ignored_label, so that similar batches have the same
/// numbers of rows and sequences; longest() is rounded up to a power of two, but not beyond `most`, the greatest length
/// of any batch. There are at most an eighth more rows, and a few: the real ones come first. A loss that ignores the
/// label has the same value and gradients, but for rounding. For cuda::Graph. Nothing is added to a padded batch.
/// @throws ShapeError if a sequence is longer than `most`.
inline Batch filled(const Batch& batch, Index most = std::numeric_limits<int>::max()) {
  const Sequences& sequences = batch.sequences;
  require<ShapeError>(sequences.longest() <= most, "filled: a sequence has ", sequences.longest(),
                      " rows, more than the most, ", most);
  constexpr Index least_longest = 16;  // rows
  const Index rows = sequences.rows();
  Index longest = heddle::detail::power_of_two(std::max(sequences.longest(), least_longest));
  if (sequences.padded_to() > 0) {
    longest = std::max(std::min(longest, sequences.padded_to()), sequences.longest());
    return {batch.ids, sequences.with_longest(longest), batch.labels, batch.types};
  }
  longest = std::max(std::min(longest, most), sequences.longest());
  const Index step = heddle::detail::row_step(rows);
  // So many sequences of 1 to `longest` rows can have up to step - 1 rows more than their number.
  const Index enough = longest > 1 ? std::max<Index>(1, (step - 1 + longest - 2) / (longest - 1)) : 1;
  const Index more = (rows + enough + step - 1) / step * step - rows;
  const Index added = longest > 1 ? enough : more;
  std::vector<int> lengths = sequences.lengths();
  for (Index n = 0; n < added; ++n) lengths.push_back(static_cast<int>(more / added + (n < more % added)));
  const auto extended = [](const Tensor<int>& x, Index count, int value) {
    if (!x) return x;
    std::vector<int> values = x.host();
    values.resize(values.size() + static_cast<std::size_t>(count), value);
    const auto size = static_cast<Index>(values.size());
    return Tensor<int>({size}, values);
  };
  return {extended(batch.ids, more, 0), Sequences::packed(lengths).with_longest(longest),
          extended(batch.labels, added, ignored_label), extended(batch.types, more, 0)};
}

/// Labelled token sequences, whose ids are in one memory block.
class LabelledSequences {
 public:
  /// Adds a text, or a pair of texts of which the second begins at token `second`. @throws IndexError for a `second`
  /// that is negative or beyond the last token.
  void add(std::span<const int> ids, int label, std::optional<Index> second = {}) {
    require<IndexError>(!second || (*second >= 0 && *second <= std::ssize(ids)),
                        "LabelledSequences: the second text begins at token ", second.value_or(0), " of ", ids.size());
    ids_.insert(ids_.end(), ids.begin(), ids.end());
    ends_.push_back(static_cast<Index>(ids_.size()));
    labels_.push_back(label);
    seconds_.push_back(second.value_or(static_cast<Index>(ids.size())));
    has_pairs_ = has_pairs_ || second;
  }
  /// Pads every sequence of a batch to T tokens, with id 0. T = 0, the default, packs the sequences without padding.
  void pad_to(Index T) { padded_to_ = T; }
  /// Returns the number of tokens that pad_to() was given.
  Index padded_to() const { return padded_to_; }

  /// Returns the number of tokens that a row has in a batch, padding included.
  Index length(Index row) const { return padded_to_ > 0 ? padded_to_ : std::ssize(ids(row)); }

  /// Returns the greatest number of tokens of a row, padding included; 0 if there are no rows.
  Index longest() const {
    Index most = 0;
    for (Index row = 0; row < count(); ++row) most = std::max(most, length(row));
    return most;
  }
  /// Returns the number of rows. Rows are numbered from 0; the row numbers that functions take are not checked.
  Index count() const { return static_cast<Index>(labels_.size()); }
  /// Returns the token ids of a row.
  std::span<const int> ids(Index row) const {
    const Index first = row ? ends_[static_cast<std::size_t>(row - 1)] : 0;
    return std::span(ids_).subspan(static_cast<std::size_t>(first),
                                   static_cast<std::size_t>(ends_[static_cast<std::size_t>(row)] - first));
  }
  /// Returns the label of a row.
  int label(Index row) const { return labels_[static_cast<std::size_t>(row)]; }
  /// Returns the token at which the second text of a row begins, or the row's number of tokens if there is none.
  Index second(Index row) const { return seconds_[static_cast<std::size_t>(row)]; }

  /// Returns a copy of some rows, in the order given. @throws ShapeError for more than 2^31 - 1 tokens, and for a row
  /// that is longer than the padded length.
  Batch batch(std::span<const Index> rows) const {
    std::vector<int> all, types, lengths, labels;
    for (const Index row : rows) {
      const auto one = ids(row);
      all.insert(all.end(), one.begin(), one.end());
      if (has_pairs_) {
        types.resize(types.size() + static_cast<std::size_t>(second(row)), 0);
        types.resize(all.size(), 1);
      }
      if (padded_to_ > 0) {
        all.resize((lengths.size() + 1) * static_cast<std::size_t>(padded_to_), 0);
        if (has_pairs_) types.resize(all.size(), 0);
      }
      lengths.push_back(static_cast<int>(one.size()));
      labels.push_back(label(row));
    }
    const auto tensor = [](const std::vector<int>& values) {
      return Tensor<int>({static_cast<Index>(values.size())}, values);
    };
    return {tensor(all), padded_to_ > 0 ? Sequences::padded(lengths, padded_to_) : Sequences::packed(lengths),
            tensor(labels), has_pairs_ ? tensor(types) : Tensor<int>()};
  }

 private:
  std::vector<int> ids_;
  std::vector<Index> ends_;  // one past the last token of each sequence
  std::vector<Index> seconds_;
  std::vector<int> labels_;
  bool has_pairs_ = false;
  Index padded_to_ = 0;
};

}  // namespace heddle::data
