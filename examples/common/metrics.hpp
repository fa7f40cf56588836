// What a classifier is measured by, and the file of measurements.
#pragma once
#include <cstdio>
#include <optional>
#include <string>
#include <vector>

#include <heddle/base/shape.hpp>
#include <heddle/io/crc64.hpp>

namespace heddle::examples {

// Sums over the rows of a data set.
class Scores {
 public:
  explicit Scores(int classes) : counts_(static_cast<std::size_t>(classes * classes)), classes_(classes) {}

  void add(int label, int predicted) { ++counts_[static_cast<std::size_t>(label * classes_ + predicted)]; }
  // The mean loss of `rows` rows.
  void add_loss(double mean, Index rows) {
    loss_ += mean * static_cast<double>(rows);
    rows_ += rows;
  }

  Index rows() const { return rows_; }
  double loss() const { return rows_ ? loss_ / static_cast<double>(rows_) : 0; }
  double accuracy() const;
  // Of class 1 for two classes, the mean over the classes for more; 0/0 is 0.
  double precision() const;
  double recall() const;

 private:
  Index count(int label, int predicted) const {
    return counts_[static_cast<std::size_t>(label * classes_ + predicted)];
  }
  Index labelled(int c) const;
  Index predicted(int c) const;
  template <class Total>
  double of_classes(Total total) const;

  std::vector<Index> counts_;  // [label][predicted]
  int classes_;
  double loss_ = 0;
  Index rows_ = 0;
};

// How much a file of metrics holds, and the checksum of that.
struct Written {
  Index bytes = 0;
  std::string sum;
};

// A slip of the keyboard must not spoil a file of the user's: throws FileError for one that holds anything but metrics.
void require_metrics(const std::string& path);

// A file to which one JSON object a line is appended and flushed. Without a path nothing is written. Lines are put together by hand
// because the destructor of nlohmann::json allocates, which ends the program if memory runs out. Throws WriteError.
class MetricsFile {
 public:
  // Throws FileError where another run is writing to it.
  explicit MetricsFile(const std::string& path);
  MetricsFile(const MetricsFile&) = delete;
  ~MetricsFile();

  // For a run that begins: drops what it left when it was ended before its first checkpoint, where `again` says that the file is
  // its own; there are no final lines then. Throws FileError for a file that holds another run's.
  void begin(bool again);
  // For a run that goes on from a checkpoint, when the file was `written`: drops what came after it, which will be written again.
  // A file of another name goes on where it ends, unless it is that one, moved. Throws FileError for one of the same name that
  // holds anything else.
  void go_on(const Written& written, bool same_name);

  void step(Index step, double loss, double lr, Index tokens, double seconds);
  void epoch(Index epoch, double train_loss, const Scores& valid, double seconds);
  void final(const std::string& split, const Scores& scores);
  // Puts on the disk what was written, and says what the file holds.
  Written sync();

 private:
  void line(const std::string& json);
  void cut(Index bytes, const io::Crc64& sum);

  std::optional<Index> size() const;  // bytes; nothing for a pipe and the like
  io::Crc64 sum_of_first(Index bytes) const;

  std::string path_;
  std::FILE* file_ = nullptr;
  io::Crc64 sum_;  // of all that the file holds
};

// The shortest digits that read back as the same number, whatever the locale; null where JSON has no number.
std::string json_number(double value);

}  // namespace heddle::examples
