#include "metrics.hpp"

#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <charconv>
#include <cmath>
#include <cstring>
#include <heddle/io/write_atomically.hpp>

#include "program.hpp"

namespace heddle::examples {
namespace {

double ratio(Index part, Index whole) { return whole ? static_cast<double>(part) / static_cast<double>(whole) : 0; }

std::string scores_json(const Scores& s) {
  return ",\"accuracy\":" + json_number(s.accuracy()) + ",\"precision\":" + json_number(s.precision()) +
         ",\"recall\":" + json_number(s.recall());
}

}  // namespace

std::string json_number(double value) {
  if (!std::isfinite(value)) return "null";
  char digits[32];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits, value).ptr);
}

Index Scores::labelled(int c) const {
  Index sum = 0;
  for (int p = 0; p < classes_; ++p) sum += count(c, p);
  return sum;
}
Index Scores::predicted(int c) const {
  Index sum = 0;
  for (int l = 0; l < classes_; ++l) sum += count(l, c);
  return sum;
}
template <class Total>
double Scores::of_classes(Total total) const {
  if (classes_ == 2) return ratio(count(1, 1), total(1));
  double sum = 0;
  for (int c = 0; c < classes_; ++c) sum += ratio(count(c, c), total(c));
  return sum / classes_;
}
double Scores::accuracy() const {
  Index right = 0, all = 0;
  for (int c = 0; c < classes_; ++c) {
    right += count(c, c);
    all += labelled(c);
  }
  return ratio(right, all);
}
double Scores::precision() const {
  return of_classes([this](int c) { return predicted(c); });
}
double Scores::recall() const {
  return of_classes([this](int c) { return labelled(c); });
}

void require_metrics(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) return;
  char begin[16] = {};
  io::InputFile(path).read(begin, sizeof begin - 1);
  const std::string_view text = begin;
  require<FileError>(text.starts_with("{\"step\"") || text.starts_with("{\"epoch") || text.starts_with("{\"final"),
                     io::printable(path), ": is no file of metrics; --metrics would add to it");
}

MetricsFile::MetricsFile(const std::string& path) : path_(path) {
  if (path.empty()) return;
  file_ = std::fopen(path.c_str(), "ae");
  if (!file_) fail<FileError>(io::printable(path), ": cannot be opened: ", std::strerror(errno));
  // Not every file system has locks.
  const bool held = size() && ::flock(::fileno(file_), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
  if (!held) return;
  std::fclose(file_);
  fail<FileError>(io::printable(path), ": another run is writing its metrics to this file");
}
MetricsFile::~MetricsFile() {
  if (file_) std::fclose(file_);
}

std::optional<Index> MetricsFile::size() const {
  struct stat status {};
  if (!file_ || ::fstat(::fileno(file_), &status) != 0 || !S_ISREG(status.st_mode)) return std::nullopt;
  return status.st_size;
}

io::Crc64 MetricsFile::sum_of_first(Index bytes) const {
  const std::string text = io::read_file(path_);
  io::Crc64 sum;
  sum.add(std::as_bytes(std::span(text.data(), std::min(text.size(), static_cast<std::size_t>(bytes)))));
  return sum;
}

void MetricsFile::cut(Index bytes, const io::Crc64& sum) {
  sum_ = sum;
  if (::ftruncate(::fileno(file_), bytes) != 0)
    fail<WriteError>(io::printable(path_), ": cannot be written: ", std::strerror(errno));
}

void MetricsFile::begin(bool again) {
  if (size().value_or(0) == 0) return;
  require<FileError>(again && io::read_file(path_).find("{\"final\"") == std::string::npos, io::printable(path_),
                     ": holds the metrics of another run; give another --metrics or remove it");
  cut(0, {});
}

void MetricsFile::go_on(const Written& written, bool same_name) {
  const auto there = size();
  if (!there) return;
  if (const io::Crc64 sum = sum_of_first(written.bytes);
      *there >= written.bytes && written.bytes > 0 && io::hex(sum.value()) == written.sum)
    return cut(written.bytes, sum);
  sum_ = sum_of_first(*there);
  if (!same_name || written.bytes == 0) return;
  require<FileError>(*there < written.bytes, io::printable(path_),
                     ": does not hold what the run had written there; give another --metrics or remove it");
  note(io::printable(path_) + ": has " + std::to_string(*there) + " of the " + std::to_string(written.bytes) +
       " bytes that the run had written; the lines between are missing");
}

void MetricsFile::line(const std::string& json) {
  if (!file_) return;
  if (std::fprintf(file_, "%s\n", json.c_str()) < 0 || std::fflush(file_) != 0)
    fail<WriteError>(io::printable(path_), ": cannot be written: ", std::strerror(errno));
  const std::string text = json + '\n';
  sum_.add(std::as_bytes(std::span(text)));
}

Written MetricsFile::sync() {
  const auto bytes = size();
  if (!bytes) return {};
  if (::fsync(::fileno(file_)) != 0)
    fail<WriteError>(io::printable(path_), ": cannot be written to the disk: ", std::strerror(errno));
  return {*bytes, io::hex(sum_.value())};
}

void MetricsFile::step(Index step, double loss, double lr, Index tokens, double seconds) {
  line("{\"step\":" + std::to_string(step) + ",\"loss\":" + json_number(loss) + ",\"lr\":" + json_number(lr) +
       ",\"tokens\":" + std::to_string(tokens) + ",\"seconds\":" + json_number(seconds) + "}");
}
void MetricsFile::epoch(Index epoch, double train_loss, const Scores& valid, double seconds) {
  line("{\"epoch\":" + std::to_string(epoch) + ",\"train_loss\":" + json_number(train_loss) + ",\"valid_loss\":" +
       json_number(valid.loss()) + scores_json(valid) + ",\"seconds\":" + json_number(seconds) + "}");
}
void MetricsFile::final(const std::string& split, const Scores& scores) {
  line("{\"final\":true,\"split\":\"" + split + "\",\"loss\":" + json_number(scores.loss()) + scores_json(scores) +
       "}");
}

}  // namespace heddle::examples
