// Corpus: the texts of several sources as one list of rows, each source in memory or in a token file.
#pragma once
#include <utility>
#include <variant>

#include <heddle/data/mixed_batches.hpp>
#include <heddle/data/token_file.hpp>

namespace heddle::data {

/// How the texts of a token file become rows.
struct TokenFileRows {
  Index first = 0;                                       ///< the first text
  Index last = std::numeric_limits<Index>::max();        ///< one past the last text
  Index max_length = std::numeric_limits<Index>::max();  ///< tokens of a row; a longer text keeps its last token, [SEP]
  Index padded_to = 0;  ///< tokens of each row in a batch, filled up with id 0; 0: rows are packed without padding
};

/// The rows of several sources, numbered through all of them: labelled sequences, and texts of token files, which are
/// read when a batch needs them. Several threads may read. A copy shares the sources.
class Corpus {
 public:
  /// Creates a corpus without rows.
  Corpus() = default;
  /// Creates a corpus of one source.
  Corpus(LabelledSequences rows, double weight = 1) { add(std::move(rows), weight); }

  /// Adds sequences. For the weight, see Share. @throws ShapeError if they are padded to another length than the rows
  /// so far.
  void add(LabelledSequences rows, double weight = 1) {
    const Index rows_count = rows.count(), most = rows.longest(), padded_to = rows.padded_to();
    add(std::make_shared<const LabelledSequences>(std::move(rows)), rows_count, most, padded_to, weight);
  }
  /// Adds texts of a token file. @throws IndexError for a range that the file does not have; ShapeError for a length
  /// below 1, and for rows that are padded to another length than those so far.
  void add(TokenFile file, TokenFileRows rows = {}, double weight = 1) {
    rows.last = std::min(rows.last, file.count());
    require<IndexError>(0 <= rows.first && rows.first <= rows.last, "Corpus: the texts ", rows.first, " to ", rows.last,
                        " are no range of ", file.count(), " texts");
    require<ShapeError>(rows.max_length >= 1, "Corpus: the length of a row must be at least 1, got ", rows.max_length);
    const Index most = rows.padded_to > 0 ? rows.padded_to : std::min(file.longest(), rows.max_length);
    add(Texts{std::move(file), rows}, rows.last - rows.first, most, rows.padded_to, weight);
  }

  /// Returns the number of rows.
  Index count() const { return ends_.empty() ? 0 : ends_.back(); }
  /// Returns a number of tokens that no row exceeds, padding included: the greatest if all sources are in memory.
  Index longest() const { return longest_; }
  /// Returns the rows and the weight of each source, for MixedBatches.
  const std::vector<Share>& shares() const { return shares_; }
  /// Returns whether every row is in memory.
  bool is_in_memory() const {
    return std::all_of(sources_.begin(), sources_.end(),
                       [](const Source& source) { return std::holds_alternative<Sequences>(source); });
  }

  /// Returns the number of tokens that a row has in a batch, padding included. @throws FileError for a token file that
  /// was changed.
  Index length(Index row) const {
    const auto [source, n] = find(row);
    return std::visit([n = n](const auto& texts) { return length_of(texts, n); }, *source);
  }
  /// Returns the token ids of a row. @throws FileError as length() does.
  std::vector<int> ids(Index row) const {
    const auto [source, n] = find(row);
    return std::visit([n = n](const auto& texts) { return ids_of(texts, n); }, *source);
  }
  /// Returns the label of a row; 0 if a token file has none. @throws FileError as length() does.
  int label(Index row) const {
    const auto [source, n] = find(row);
    return std::visit([n = n](const auto& texts) { return label_of(texts, n); }, *source);
  }
  /// Returns a copy of some rows, in the order given. @throws ShapeError as LabelledSequences::batch() does, and
  /// FileError as length() does.
  Batch batch(std::span<const Index> rows) const {
    if (sources_.size() == 1)
      if (const auto* only = std::get_if<Sequences>(&sources_[0])) return (*only)->batch(rows);
    LabelledSequences some;
    std::vector<Index> numbers;
    for (const Index row : rows) {
      numbers.push_back(some.count());
      const auto [source, n] = find(row);
      std::visit([&, n = n](const auto& texts) { add_to(some, texts, n); }, *source);
    }
    return some.batch(numbers);
  }

  /// Calls f(sequences) or f(file, rows) for each source.
  template <class F>
  void each_source(F&& f) const {
    for (const Source& source : sources_) {
      if (const auto* sequences = std::get_if<Sequences>(&source))
        f(**sequences);
      else
        f(std::get<Texts>(source).file, std::get<Texts>(source).rows);
    }
  }

 private:
  using Sequences = std::shared_ptr<const LabelledSequences>;
  struct Texts {
    TokenFile file;
    TokenFileRows rows;
  };
  using Source = std::variant<Sequences, Texts>;

  void add(Source source, Index rows, Index most, Index padded_to, double weight) {
    require<ShapeError>(sources_.empty() || padded_to == padded_to_, "Corpus: rows that are padded to ", padded_to,
                        " tokens are added to rows that are padded to ", padded_to_, "; 0 is no padding");
    padded_to_ = padded_to;
    ends_.push_back(count() + rows);
    shares_.push_back({rows, weight});
    sources_.push_back(std::move(source));
    longest_ = std::max(longest_, most);
  }
  // Returns the source of a row, and the number of the row in it.
  std::pair<const Source*, Index> find(Index row) const {
    require<IndexError>(0 <= row && row < count(), "Corpus: there is no row ", row, " among ", count());
    const auto source = static_cast<std::size_t>(std::upper_bound(ends_.begin(), ends_.end(), row) - ends_.begin());
    return {&sources_[source], row - (source > 0 ? ends_[source - 1] : 0)};
  }

  // The properties of row n of a source.
  static Index length_of(const Sequences& rows, Index n) { return rows->length(n); }
  static Index length_of(const Texts& texts, Index n) {
    if (texts.rows.padded_to > 0) return texts.rows.padded_to;
    return std::min(texts.file.length(texts.rows.first + n), texts.rows.max_length);
  }
  static std::vector<int> ids_of(const Sequences& rows, Index n) {
    const std::span<const int> ids = rows->ids(n);
    return {ids.begin(), ids.end()};
  }
  static std::vector<int> ids_of(const Texts& texts, Index n) {
    std::vector<int> ids = texts.file.ids(texts.rows.first + n);
    if (std::ssize(ids) > texts.rows.max_length) {
      const int last = ids.back();
      ids.resize(static_cast<std::size_t>(texts.rows.max_length));
      ids.back() = last;
    }
    return ids;
  }
  static int label_of(const Sequences& rows, Index n) { return rows->label(n); }
  static int label_of(const Texts& texts, Index n) { return texts.file.label(texts.rows.first + n); }
  static void add_to(LabelledSequences& batch, const Sequences& rows, Index n) {
    const std::span<const int> ids = rows->ids(n);
    const Index second = rows->second(n);
    batch.add(ids, rows->label(n), second < std::ssize(ids) ? std::optional(second) : std::nullopt);
    batch.pad_to(rows->padded_to());
  }
  static void add_to(LabelledSequences& batch, const Texts& texts, Index n) {
    batch.add(ids_of(texts, n), label_of(texts, n));
    batch.pad_to(texts.rows.padded_to);
  }

  std::vector<Source> sources_;
  std::vector<Share> shares_;
  std::vector<Index> ends_;  // one past the last row of each source
  Index longest_ = 0;
  Index padded_to_ = 0;
};

}  // namespace heddle::data
