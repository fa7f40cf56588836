// Batches that mix the rows of several files by weight, however many rows there are. As for Batches, the rows of a
// batch are a function of (seed, epoch, number).
#pragma once
#include <cmath>

#include <heddle/data/batches.hpp>

namespace heddle::data {

/// The rows of a file, and how many of them an epoch has.
struct Share {
  Index rows;         ///< of the file
  double weight = 1;  ///< passes through the file in an epoch: 0.5 takes half of the rows, 2 takes each row twice
};

/// The rows of each batch of each epoch, from several files; the last batch of an epoch may be smaller. Rows are
/// numbered through all files. Every group of an epoch has as much of each file as the whole.
///
/// Neighbors in a file are read at about the same time, and the order of an epoch takes little memory: a file is cut
/// into windows of up to 1,024 rows, an epoch into groups of up to 65,536 rows, a group has the rows of some windows of
/// each file, and `Order::shuffled` shuffles the windows of a file and the rows of a group. An epoch that takes each
/// row once, and is a single group, has the order of Batches. An epoch with a part of a file, rounded to whole rows,
/// continues where the epoch before has ended, and begins a new pass after the last row.
class MixedBatches {
 public:
  /// Creates the batches. Their random streams are those from first_stream to first_stream + 2^56 - 1.
  /// @throws ShapeError for a negative number of rows and for a batch size below 1; Error for a weight that is not
  /// positive or above 1,000, or takes no row of a file that has some; for an epoch of more than 2^40 rows; and for
  /// 2^15 files or more.
  MixedBatches(const std::vector<Share>& shares, Index batch_size, Order order, std::uint64_t seed = 0,
               std::uint64_t first_stream = 0)
      : batch_size_(batch_size), order_(order), seed_(seed), first_stream_(first_stream) {
    require<ShapeError>(batch_size >= 1, "MixedBatches: the batch size must be at least 1, got ", batch_size);
    require(shares.size() < most_files, "MixedBatches: ", shares.size(), " files are more than ", most_files - 1);
    bool takes_each_once = true;
    Index first = 0;
    for (const auto& [rows, weight] : shares) {
      require<ShapeError>(rows >= 0, "MixedBatches: the number of rows must not be negative, got ", rows);
      require(weight > 0 && weight <= most_weight, "MixedBatches: the weight of a file must be above 0 and at most ",
              most_weight, ", got ", weight);
      require(rows <= most_rows, "MixedBatches: a file of ", rows, " rows has more than 2^40");
      const auto taken = static_cast<Index>(std::llround(static_cast<double>(rows) * weight));
      require(taken > 0 || rows == 0, "MixedBatches: the weight ", weight, " takes none of the ", rows,
              " rows of a file");
      files_.push_back({first, rows, taken});
      first += rows;
      per_epoch_ += taken;
      require(per_epoch_ <= most_rows, "MixedBatches: an epoch of ", per_epoch_, " rows has more than 2^40");
      takes_each_once = takes_each_once && taken == rows;
    }
    groups_ = std::max<Index>(1, (per_epoch_ + group_rows - 1) / group_rows);
    has_windows_ = order == Order::shuffled && !(groups_ == 1 && takes_each_once);
    for (File& file : files_) {
      const Index rows_of_window = std::clamp<Index>(file.rows / least_windows, 1, window_rows);
      file.windows = (file.rows + rows_of_window - 1) / rows_of_window;
    }
  }

  /// Returns the number of rows in an epoch.
  Index rows_per_epoch() const { return per_epoch_; }
  /// Returns the number of batches in an epoch.
  Index per_epoch() const { return per_epoch_ / batch_size_ + (per_epoch_ % batch_size_ != 0); }

  /// Returns the rows of batch `number` of an epoch; both are numbered from 0. The span is valid until the next call.
  /// @throws IndexError for an epoch that is negative or not below 2^30, and a batch that the epoch does not have.
  std::span<const Index> operator()(Index epoch, Index number) {
    require<IndexError>(0 <= epoch && epoch < most_epochs, "MixedBatches: epoch ", epoch, " is out of range");
    require<IndexError>(number >= 0 && number < per_epoch(), "MixedBatches: batch ", number,
                        " is out of range for an epoch of ", per_epoch(), " batches");
    batch_.clear();
    const Index end = std::min(per_epoch_, (number + 1) * batch_size_);
    for (Index at = number * batch_size_; at < end;) {
      const Index group = group_of(at), first = begin_of(group), last = std::min(end, begin_of(group + 1));
      if (epoch != epoch_ || group != group_) fill(epoch, group);
      batch_.insert(batch_.end(), rows_.begin() + (at - first), rows_.begin() + (last - first));
      at = last;
    }
    return batch_;
  }

 private:
  static constexpr Index group_rows = Index{1} << 16, window_rows = 1024, least_windows = 64;
  static constexpr Index most_rows = Index{1} << 40;
  static constexpr double most_weight = 1000;
  static constexpr std::size_t most_files = std::size_t{1} << 15;
  // The random streams of groups and of passes: a group adds its epoch and its number from bit 30 on; a pass adds bit
  // 55, its number, which is below 2^40, and that of its file from bit 40 on.
  static constexpr int bits_of_epoch = 30, bits_of_pass = 40, bit_of_passes = 55;
  static constexpr Index most_epochs = Index{1} << bits_of_epoch;

  struct File {
    Index first, rows, taken;  // its first row, all its rows, and those that an epoch takes
    Index windows = 0;
    Index pass = -1;                // the one that the next two belong to
    std::vector<Index> order = {};  // of the windows
    std::vector<Index> ends = {};   // one past the last place of each of them in the pass
  };

  // Returns floor(total * part / parts).
  static Index cut(Index total, Index part, Index parts) {
    __extension__ using Wide = __int128;
    return static_cast<Index>(static_cast<Wide>(total) * part / parts);
  }

  // Returns the place in the epoch at which a group begins.
  Index begin_of(Index group) const {
    Index place = 0;
    for (const File& file : files_) place += cut(file.taken, group, groups_);
    return place;
  }
  // Returns the group that has a place of the epoch.
  Index group_of(Index place) const {
    Index group = cut(groups_, place, per_epoch_);
    while (begin_of(group) > place) --group;
    while (begin_of(group + 1) <= place) ++group;
    return group;
  }

  // Returns the row of a file at place n of those that an epoch takes of it.
  Index row_at(std::size_t number, Index epoch, Index n) {
    File& file = files_[number];
    __extension__ using Wide = __int128;
    const Wide place = static_cast<Wide>(epoch) * file.taken + n;
    const auto pass = static_cast<Index>(place / file.rows), offset = static_cast<Index>(place % file.rows);
    if (!has_windows_) return offset;
    if (pass != file.pass) begin_pass(number, pass);
    const auto window = std::upper_bound(file.ends.begin(), file.ends.end(), offset) - file.ends.begin();
    const Index first = window > 0 ? file.ends[static_cast<std::size_t>(window - 1)] : 0;
    return cut(file.rows, file.order[static_cast<std::size_t>(window)], file.windows) + offset - first;
  }
  // Shuffles the windows of a file for a pass.
  void begin_pass(std::size_t number, Index pass) {
    File& file = files_[number];
    file.order = shuffled(file.windows, seed_,
                          first_stream_ + (std::uint64_t{1} << bit_of_passes) + static_cast<std::uint64_t>(pass) +
                              (static_cast<std::uint64_t>(number) << bits_of_pass));
    file.ends.clear();
    Index end = 0;
    for (const Index window : file.order) {
      end += cut(file.rows, window + 1, file.windows) - cut(file.rows, window, file.windows);
      file.ends.push_back(end);
    }
    file.pass = pass;
  }

  // Makes the rows of a group.
  void fill(Index epoch, Index group) {
    rows_.clear();
    for (std::size_t f = 0; f < files_.size(); ++f) {
      const Index first = cut(files_[f].taken, group, groups_), last = cut(files_[f].taken, group + 1, groups_);
      for (Index n = first; n < last; ++n) rows_.push_back(files_[f].first + row_at(f, epoch, n));
    }
    if (order_ == Order::shuffled) {
      const auto stream = static_cast<std::uint64_t>(epoch) + (static_cast<std::uint64_t>(group) << bits_of_epoch);
      std::vector<Index> shuffled_rows;
      shuffled_rows.reserve(rows_.size());
      for (const Index n : shuffled(std::ssize(rows_), seed_, first_stream_ + stream))
        shuffled_rows.push_back(rows_[static_cast<std::size_t>(n)]);
      rows_ = std::move(shuffled_rows);
    }
    epoch_ = epoch;
    group_ = group;
  }

  std::vector<File> files_;
  Index batch_size_;
  Order order_;
  std::uint64_t seed_, first_stream_;
  Index per_epoch_ = 0;
  Index groups_ = 1;
  bool has_windows_ = false;
  Index epoch_ = -1, group_ = -1;  // those of rows_
  std::vector<Index> rows_, batch_;
};

}  // namespace heddle::data
