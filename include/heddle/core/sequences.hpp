// Sequences: which rows of an [N, D] tensor belong to which sequence of a batch. A packed batch has the rows of its
// real tokens without gaps. In a padded batch [B, T, D], sequence b is within rows [b * T, (b + 1) * T). Row-wise
// operations do not need Sequences.
#pragma once
#include <algorithm>
#include <array>
#include <numeric>

#include <heddle/core/move_together.hpp>

namespace heddle {

namespace data {
struct Batch;
}

/// B sequences with N rows in total. The index tensors are on one device; first rows and lengths are also on the host.
class Sequences {
 public:
  /// Builds packed Sequences: sequence b is the next lengths[b] rows. @throws ShapeError for a negative length, and for
  /// more than 2^31 - 1 rows.
  static Sequences packed(const std::vector<int>& lengths) {
    std::vector<int> begin;
    Index rows = 0;
    for (const int length : lengths) {
      begin.push_back(static_cast<int>(rows));
      rows += length;
      require<ShapeError>(rows <= std::numeric_limits<int>::max(), "packed: ", rows, " rows are more than 2^31 - 1");
    }
    return Sequences(begin, lengths, rows, 0);
  }

  /// Builds packed Sequences of one length: sequence b is rows [b * length, (b + 1) * length). @throws ShapeError for a
  /// negative length, a negative or larger count than 2^31 - 1, and for more than 2^31 - 1 rows.
  static Sequences packed(Index count, int length) {
    require<ShapeError>(count >= 0 && count <= std::numeric_limits<int>::max(),
                        "packed: the number of sequences must be in [0, 2^31 - 1], got ", count);
    return packed(std::vector<int>(static_cast<std::size_t>(count), length));
  }

  /// Builds padded Sequences: sequence b is the first lengths[b] of rows [b * T, (b + 1) * T). @throws ShapeError for a
  /// length outside [0, T], and for more than 2^31 - 1 rows.
  static Sequences padded(const std::vector<int>& lengths, Index T) {
    std::vector<int> begin;
    const Index rows = static_cast<Index>(lengths.size()) * T;
    require<ShapeError>(T >= 0 && rows <= std::numeric_limits<int>::max(), "padded: ", lengths.size(), " sequences of ",
                        T, " rows: the total number of rows must be in [0, 2^31 - 1]");
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      require<ShapeError>(lengths[b] <= T, "padded: length ", lengths[b], " of sequence ", b, " exceeds T = ", T);
      begin.push_back(static_cast<int>(static_cast<Index>(b) * T));
    }
    return Sequences(begin, lengths, rows, T);
  }

  /// Builds Sequences from a mask [B, T] that is 1 at real tokens and 0 at padding, which may precede or follow them.
  /// @throws ShapeError for another rank, for a value other than 0 and 1, and for a mask with holes, which lengths
  /// cannot express.
  static Sequences from_mask(const Tensor<int>& mask) {  // [B, T]
    require_rank("from_mask", {"mask", mask}, 2);
    const Index B = mask.dim(0), T = mask.dim(1);
    const std::vector<int> m = mask.host();
    std::vector<int> begin, lengths;
    for (Index b = 0; b < B; ++b) {
      Index first = 0, last = 0, ones = 0;
      for (Index t = 0; t < T; ++t) {
        const int value = m[static_cast<std::size_t>(b * T + t)];
        require<ShapeError>(value == 0 || value == 1, "from_mask: ", value, " at [", b, ", ", t,
                            "]; a mask holds 0 and 1");
        if (!value) continue;
        if (!ones++) first = t;
        last = t + 1;
      }
      require<ShapeError>(ones == last - first, "from_mask: row ", b, " has a hole between positions ", first, " and ",
                          last - 1, "; give such a mask to attention as a key mask, {.mask = …}");
      begin.push_back(static_cast<int>(b * T + first));
      lengths.push_back(static_cast<int>(ones));
    }
    return Sequences(begin, lengths, B * T, T);
  }

  Index count() const { return begin_.size(); }    ///< B
  Index rows() const { return position_.size(); }  ///< N, padding included
  Index longest() const { return longest_; }       ///< the greatest length
  Index padded_to() const { return padded_to_; }   ///< T, or 0 when packed
  /// Returns padded_to(), or longest() when packed: the extent of tensors with a place for each row of each sequence.
  Index extent() const { return padded_to_ > 0 ? padded_to_ : longest_; }
  /// Returns the device of the index tensors.
  Device device() const { return begin_.device(); }
  const Tensor<int>& begin() const { return begin_; }        ///< [B] first row of each
  const Tensor<int>& length() const { return length_; }      ///< [B]
  const Tensor<int>& position() const { return position_; }  ///< [N] position in its sequence; 0 for padding
  /// Returns the values of begin(), on the host. @throws Error in a run of a cuda::Graph.
  const std::vector<int>& begins() const {
    require_on_host();
    return begins_;
  }
  /// Returns the values of length(), on the host. @throws Error in a run of a cuda::Graph.
  const std::vector<int>& lengths() const {
    require_on_host();
    return lengths_;
  }
  /// Returns whether a sequence has no rows.
  bool has_empty() const { return has_empty_; }
  /// Returns whether every row belongs to a sequence.
  bool fill_all_rows() const { return fill_all_rows_; }

  /// Returns which positions of a padded batch hold rows of each sequence: true at real tokens, false at padding. T is
  /// extent(). from_mask(cast<int>(mask())) gives the same sequences, padded. The result is on device().
  Tensor<bool> mask() const {  // [B, T]
    require_on_host();
    const Index T = extent();
    std::vector<bool> real(static_cast<std::size_t>(count() * T), false);
    for (Index b = 0; b < count(); ++b) {
      const auto n = static_cast<std::size_t>(b);
      const Index first = padded_to_ > 0 ? begins_[n] : b * T;
      std::fill_n(real.begin() + first, lengths_[n], true);
    }
    return Tensor<bool>({count(), T}, real).to(device());
  }

  /// Returns the same sequences with a greater longest(): kernels on a GPU are launched as for a batch that has a
  /// sequence of this length. Results of attention are the same, but its dropout draws for longest() rounded up to a
  /// power of two, at least 16; mask(), unpack() and other tensors of scores or padded rows have longest() columns.
  /// @throws ShapeError for fewer rows than the longest sequence has.
  Sequences with_longest(Index rows) const {
    require<ShapeError>(rows >= longest_, "with_longest: ", rows,
                        " rows are fewer than those of the longest sequence, ", longest_);
    Sequences s = *this;
    s.longest_ = rows;
    return s;
  }

  /// @private Calls f with each index tensor.
  template <class F>
  void each_input(F&& f) {
    f(begin_);
    f(length_);
    f(position_);
  }
  /// @private Returns the numbers, besides shapes, by which operations choose and launch kernels.
  std::array<Index, 4> launch_numbers() const { return {longest_, padded_to_, has_empty_, fill_all_rows_}; }
  /// @private Forgets the values on the host, which a replay of a run would not have.
  void forget_host_values() {
    begins_.clear();
    lengths_.clear();
    is_on_host_ = false;
  }

  /// Returns a copy on another device. @throws Error for a device that this build does not support.
  Sequences to(Device device) const {
    Sequences s = *this;
    detail::move_together(device, {&s.begin_, &s.length_, &s.position_});
    return s;
  }

 private:
  friend struct data::Batch;

  Sequences(const std::vector<int>& begin, const std::vector<int>& lengths, Index rows, Index T)
      : begins_(begin), lengths_(lengths), padded_to_(T) {
    for (std::size_t b = 0; b < lengths.size(); ++b)
      require<ShapeError>(lengths[b] >= 0, "Sequences: length ", lengths[b], " of sequence ", b, " is negative");
    const Index B = static_cast<Index>(lengths.size());
    std::vector<int> position(static_cast<std::size_t>(rows), 0);
    has_empty_ = std::find(lengths.begin(), lengths.end(), 0) != lengths.end();
    fill_all_rows_ = std::accumulate(lengths.begin(), lengths.end(), Index{0}) >= rows;
    for (std::size_t b = 0; b < lengths.size(); ++b) {
      longest_ = std::max<Index>(longest_, lengths[b]);
      for (int t = 0; t < lengths[b]; ++t) position[static_cast<std::size_t>(begin[b] + t)] = t;
    }
    begin_ = Tensor<int>({B}, begin);
    length_ = Tensor<int>({B}, lengths);
    position_ = Tensor<int>({rows}, position);
  }

  void require_on_host() const {
    require(is_on_host_,
            "Sequences: the lengths of an input of cuda::Graph are on the GPU only, because they differ "
            "from one replay to the next");
  }

  std::vector<int> begins_, lengths_;
  Tensor<int> begin_, length_, position_;
  Index longest_ = 0, padded_to_ = 0;
  bool has_empty_ = false, fill_all_rows_ = true, is_on_host_ = true;
};

namespace detail {

// Returns whether a shape is [B, T, ...] for these sequences, which are padded to T.
inline bool is_padded_batch(const Shape& s, const Sequences& sequences) {
  return sequences.padded_to() > 0 && s.rank() >= 3 && s[0] == sequences.count() && s[1] == sequences.padded_to();
}

}  // namespace detail

/// Checks that x has one row per row of its sequences, on the same device. @throws ShapeError for another number of
/// rows, and Error for another device.
inline void require_rows(const char* op, const Operand& x, const Sequences& sequences) {
  detail::require_present(op, x);
  const bool could_be_packed = !sequences.padded_to() && x.shape.rank() >= 3 && x.shape[0] == sequences.count();
  require<ShapeError>(x.shape.rank() >= 1 && x.shape[0] == sequences.rows(), op, ": ", x.name, ' ', x.shape,
                      " must have one row for each of the ", sequences.rows(), " rows of its ", sequences.count(),
                      " sequences",
                      could_be_packed ? "; pack(x, sequences) gives the rows of a padded batch"
                                      : (sequences.padded_to() ? ", or be a padded batch [B, T, ...] of them" : ""));
  require(x.device == sequences.device(), op, ": ", x.name, " is on ", x.device, ", its sequences are on ",
          sequences.device(), "; move one of them with .to(Device)");
}

}  // namespace heddle
