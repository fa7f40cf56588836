// A metrics file with one JSON object per line. A resumed run continues it without repeated lines, and without gaps
// unless the file lost lines or is another one. POSIX only.
#pragma once
#include <sys/file.h>

#include <charconv>
#include <cmath>
#include <cstdio>
#include <optional>

#include <heddle/base/file.hpp>
#include <heddle/io/crc64.hpp>
#include <heddle/io/write_atomically.hpp>
#include <heddle/train/scores.hpp>

namespace heddle::train {

/// The size of a metrics file and the checksum of its bytes.
struct MetricsPosition {
  Index bytes = 0;  ///< the size in bytes
  std::string sum;  ///< CRC-64 of the bytes in hexadecimal; empty if the metrics go to a pipe or to no file
};

/// Returns the shortest digits that read back as the same number, in every locale; "null" if it is not finite.
inline std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  char digits[32];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

/// Refuses a regular file that is not empty and does not begin like a metrics file, so that a wrong name does not
/// overwrite a user's file. @throws FileError for such a file, and for one that cannot be read.
inline void require_metrics(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) return;
  char begin[16] = {};
  io::InputFile(path).read(begin, sizeof begin - 1);
  const std::string_view text = begin;
  require<FileError>(text.starts_with("{\"step\"") || text.starts_with("{\"epoch") || text.starts_with("{\"final"),
                     io::printable(path), ": is not a metrics file; choose another file");
}

/// A file of JSON objects, one per line. Each line is flushed. Without a path nothing is written. All functions that
/// write throw WriteError. Lines are put together by hand because the destructor of nlohmann::json allocates, which
/// ends the program if memory runs out.
class MetricsFile {
 public:
  /// Opens the file for appending. @throws FileError if that fails, or if another process holds the file.
  explicit MetricsFile(const std::string& path);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  ~MetricsFile() {
    if (file_) std::fclose(file_);
  }

  /// Begins a run. If `is_own`, the file may hold lines of the same run, which was killed before its first checkpoint:
  /// they are dropped. @throws FileError for a file that holds another run's lines, and for one that is no metrics
  /// file.
  void begin(bool is_own);
  /// Continues a run at a position returned by sync(). `same_name` tells whether the run wrote to a file of this name.
  /// If the file holds the run's lines, drops the lines after the position, which will be written again. Otherwise
  /// continues after the last complete line if the file has another name, if it is too short, or if the run's metrics
  /// went to a pipe or to no file. Returns a message about the missing lines if a file of the same name is too short,
  /// otherwise an empty string. @throws FileError for a file of the same name that is long enough and has other
  /// content.
  std::string resume(const MetricsPosition& position, bool same_name);

  /// Writes the line of a step. `loss` is the loss of the batch before the update, `lr` the learning rate, `tokens` the
  /// number of tokens without padding.
  void step(Index step, double loss, double lr, Index tokens, double seconds) {
    line("{\"step\":" + std::to_string(step) + ",\"loss\":" + json_number(loss) + ",\"lr\":" + json_number(lr) +
         ",\"tokens\":" + std::to_string(tokens) + ",\"seconds\":" + json_number(seconds) + "}");
  }
  /// Writes the line of an epoch, with the loss and the metrics of the validation data. The names of metrics are not
  /// escaped: they must be valid inside a JSON string.
  void epoch(Index epoch, double train_loss, double valid_loss, const std::vector<Metric>& valid, double seconds) {
    line("{\"epoch\":" + std::to_string(epoch) + ",\"train_loss\":" + json_number(train_loss) +
         ",\"valid_loss\":" + json_number(valid_loss) + members(valid) + ",\"seconds\":" + json_number(seconds) + "}");
  }
  /// Writes the line of an epoch of a classifier.
  void epoch(Index epoch, double train_loss, const Scores& valid, double seconds) {
    this->epoch(epoch, train_loss, valid.loss(), valid.metrics(), seconds);
  }
  /// Writes the scores of a split after training. `split` and the names of metrics are not escaped: they must be valid
  /// inside a JSON string.
  void final(const std::string& split, double loss, const std::vector<Metric>& metrics) {
    line("{\"final\":true,\"split\":\"" + split + "\",\"loss\":" + json_number(loss) + members(metrics) + "}");
  }
  /// Writes the scores of a classifier on a split after training.
  void final(const std::string& split, const Scores& scores) { final(split, scores.loss(), scores.metrics()); }
  /// Synchronizes the file with the disk and returns its position.
  MetricsPosition sync();

 private:
  static std::string members(const std::vector<Metric>& metrics) {
    std::string text;
    for (const Metric& each : metrics) text += ",\"" + each.name + "\":" + json_number(each.value);
    return text;
  }

  void line(const std::string& json);
  void cut(Index bytes, const io::Crc64& sum);
  std::optional<Index> size() const;  // bytes; nothing for a pipe or a device
  io::Crc64 sum_of_first(Index bytes) const;
  Index end_of_last_line() const;

  std::string path_;
  std::FILE* file_ = nullptr;
  io::Crc64 sum_;  // of all bytes of the file
};

inline MetricsFile::MetricsFile(const std::string& path) : path_(path) {
  if (path.empty()) return;
  file_ = std::fopen(path.c_str(), "ae");
  if (!file_) io::detail::fail_file<FileError>(path, "cannot be opened", errno);
  // Not every file system has locks.
  const bool held = size() && ::flock(::fileno(file_), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!held) return;
  std::fclose(file_);
  fail<FileError>(io::printable(path),
                  ": another run is writing its metrics to this file; choose another file or wait for that run");
}

inline std::optional<Index> MetricsFile::size() const {
  struct stat status {};
  if (!file_ || ::fstat(::fileno(file_), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return status.st_size;
}

inline io::Crc64 MetricsFile::sum_of_first(Index bytes) const {
  const std::string text = io::read_file(path_);
  io::Crc64 sum;
  sum.add(std::string_view(text).substr(0, static_cast<std::size_t>(bytes)));
  return sum;
}

inline Index MetricsFile::end_of_last_line() const {
  const std::size_t last = io::read_file(path_).rfind('\n');
  return last == std::string::npos ? 0 : static_cast<Index>(last) + 1;
}

inline void MetricsFile::cut(Index bytes, const io::Crc64& sum) {
  sum_ = sum;
  if (::ftruncate(::fileno(file_), bytes) != 0) io::detail::fail_file<WriteError>(path_, "cannot be written", errno);
}

inline void MetricsFile::begin(bool is_own) {
  if (size().value_or(0) == 0) return;
  require_metrics(path_);
  require<FileError>(is_own && io::read_file(path_).find("{\"final\"") == std::string::npos, io::printable(path_),
                     ": holds the metrics of another run; choose another file or remove it");
  cut(0, {});
}

inline std::string MetricsFile::resume(const MetricsPosition& position, bool same_name) {
  const auto found = size();
  if (!found) return "";
  // The run had written nothing before its checkpoint. The checksum is empty only if the metrics went to a pipe or to
  // no file.
  if (same_name && position.bytes == 0 && !position.sum.empty()) {
    begin(true);
    return "";
  }
  if (const io::Crc64 sum = sum_of_first(position.bytes);
      *found >= position.bytes && position.bytes > 0 && io::hex(sum.value()) == position.sum) {
    cut(position.bytes, sum);
    return "";
  }
  const bool is_shorter = same_name && *found < position.bytes;
  require<FileError>(!same_name || is_shorter || position.bytes == 0, io::printable(path_),
                     ": does not hold what the run had written there; choose another file or remove it");
  const Index end = end_of_last_line();
  cut(end, sum_of_first(end));
  if (!is_shorter) return "";
  return io::printable(path_) + ": has " + std::to_string(*found) + " of the " + std::to_string(position.bytes) +
         " bytes that the run had written; the missing lines are not written again";
}

inline void MetricsFile::line(const std::string& json) {
  if (!file_) return;
  if (std::fprintf(file_, "%s\n", json.c_str()) < 0 || std::fflush(file_) != 0)
    io::detail::fail_file<WriteError>(path_, "cannot be written", errno);
  sum_.add(json);
  sum_.add("\n");
}

inline MetricsPosition MetricsFile::sync() {
  const auto bytes = size();
  if (!bytes) return {};
  if (::fsync(::fileno(file_)) != 0) io::detail::fail_file<WriteError>(path_, "cannot be written to the disk", errno);
  return {*bytes, io::hex(sum_.value())};
}

}  // namespace heddle::train
