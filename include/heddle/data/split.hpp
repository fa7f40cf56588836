// A split of rows into training, validation and test rows that keeps the share of each class.
#pragma once
#include <cmath>
#include <map>

#include <heddle/data/batches.hpp>

namespace heddle::data {

/// The options of stratified_split.
struct SplitOptions {
  double valid = 0.1;              ///< share of each class's rows for validation, in [0, 1)
  double test = 0.1;               ///< share of each class's rows for the test, in [0, 1)
  std::uint64_t seed = 0;          ///< seed of the shuffle
  std::uint64_t first_stream = 0;  ///< first of the random streams: one per class, then three for the parts
};

/// The numbers of the rows of each part, in random order.
struct Split {
  std::vector<Index> train;  ///< rows for training
  std::vector<Index> valid;  ///< rows for validation
  std::vector<Index> test;   ///< rows for the test
};

/// Splits rows by their labels. keys[row] identifies the content of a row, such as its text; Key needs operator<. Rows
/// with the same label and the same key stay in one part, so that no part repeats a row of another. A class whose keys
/// repeat often may therefore have fewer validation and test rows than its share. The result is a function of the
/// arguments. @throws ShapeError unless there is one key per label; Error for a negative share, and for shares with a
/// sum of 1 or more.
template <class Key>
Split stratified_split(const std::vector<int>& labels, const std::vector<Key>& keys, const SplitOptions& options = {}) {
  require<ShapeError>(labels.size() == keys.size(), "stratified_split: each row needs a label and a key, got ",
                      labels.size(), " labels and ", keys.size(), " keys");
  require(options.valid >= 0 && options.test >= 0 && options.valid + options.test < 1, "stratified_split: the shares ",
          options.valid, " and ", options.test, " must not be negative, and their sum must be below 1");
  std::map<int, std::map<Key, std::vector<Index>>> classes;  // label, key, rows
  for (std::size_t row = 0; row < labels.size(); ++row)
    classes[labels[row]][keys[row]].push_back(static_cast<Index>(row));

  Split split;
  std::uint64_t stream = options.first_stream;
  for (const auto& [label, groups] : classes) {
    std::vector<const std::vector<Index>*> order;
    double rows = 0;
    for (const auto& [key, group] : groups) {
      order.push_back(&group);
      rows += static_cast<double>(group.size());
    }
    auto valid_left = std::llround(options.valid * rows), test_left = std::llround(options.test * rows);
    for (const Index next : shuffled(static_cast<Index>(order.size()), options.seed, stream++)) {
      const std::vector<Index>& group = *order[static_cast<std::size_t>(next)];
      const auto size = static_cast<long long>(group.size());
      const auto put_into = [&](std::vector<Index>& part) { part.insert(part.end(), group.begin(), group.end()); };
      if (size <= valid_left) {
        valid_left -= size;
        put_into(split.valid);
      } else if (size <= test_left) {
        test_left -= size;
        put_into(split.test);
      } else {
        put_into(split.train);
      }
    }
  }
  for (std::vector<Index>* part : {&split.train, &split.valid, &split.test}) {
    std::vector<Index> mixed;
    for (const Index next : shuffled(static_cast<Index>(part->size()), options.seed, stream++))
      mixed.push_back((*part)[static_cast<std::size_t>(next)]);
    *part = std::move(mixed);
  }
  return split;
}

}  // namespace heddle::data
