#include <heddle/train/metrics_file.hpp>

#include <sys/resource.h>
#include <sys/wait.h>

#include <charconv>
#include <clocale>
#include <csignal>
#include <limits>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using train::MetricsFile;
using train::MetricsPosition;

namespace {

std::string step_line(Index step) {
  return "{\"step\":" + std::to_string(step) + ",\"loss\":0.5,\"lr\":0.001,\"tokens\":7,\"seconds\":0.25}\n";
}
std::string step_lines(Index first, Index end) {
  std::string lines;
  for (Index step = first; step < end; ++step) lines += step_line(step);
  return lines;
}
void write_metrics(MetricsFile& file, Index first, Index end) {
  for (Index step = first; step < end; ++step) file.step(step, 0.5, 0.001, 7, 0.25);
}

// Writes `before` lines, takes the position for a checkpoint, and writes `after` more lines, like a run that is then
// killed. Returns the position.
MetricsPosition killed_run(const std::string& path, Index before, Index after) {
  MetricsFile file(path);
  file.begin(false);
  write_metrics(file, 0, before);
  const MetricsPosition position = file.sync();
  write_metrics(file, before, before + after);
  return position;
}

// Runs f in a child process and returns its result; "" if the child failed or was killed.
template <class F>
std::string in_child(F f) {
  int ends[2];
  REQUIRE(::pipe(ends) == 0);
  const pid_t child = ::fork();
  if (child == 0) {
    const std::string report = f();
    const auto written = ::write(ends[1], report.data(), report.size());
    ::_exit(written == static_cast<ssize_t>(report.size()) ? 0 : 1);
  }
  ::close(ends[1]);
  std::string report;
  char buffer[512];
  for (ssize_t n; (n = ::read(ends[0], buffer, sizeof buffer)) > 0;) report.append(buffer, static_cast<std::size_t>(n));
  ::close(ends[0]);
  int status = 1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  return status == 0 ? report : "";
}

}  // namespace

TEST_CASE("json_number: the shortest digits that read back as the same number") {
  using train::json_number;
  CHECK(json_number(0) == "0");
  CHECK(json_number(-0.0) == "-0");
  CHECK(json_number(0.1) == "0.1");
  CHECK(json_number(1. / 3) == "0.3333333333333333");
  CHECK(json_number(1e-300) == "1e-300");
  CHECK(json_number(5e-324) == "5e-324");
  CHECK(json_number(-1.7976931348623157e308) == "-1.7976931348623157e+308");
  CHECK(json_number(123456789) == "123456789");
  constexpr double infinite = std::numeric_limits<double>::infinity();
  for (const double value : {std::nan(""), infinite, -infinite}) CHECK(json_number(value) == "null");
  double value = 1;
  for (int i = 0; i < 2000; ++i) {
    value = value * -1.37 + 1e-3 / (i + 1);
    const std::string text = json_number(value);
    double again = 0;
    REQUIRE(std::from_chars(text.data(), text.data() + text.size(), again).ptr == text.data() + text.size());
    REQUIRE(again == value);
    if (std::abs(value) > 1e300) value = 1e-300;
  }
}

TEST_CASE("json_number: a decimal point in every locale") {
  const std::string before = std::setlocale(LC_NUMERIC, nullptr);
  for (const char* name : {"de_DE.UTF-8", "de_DE.utf8", "fr_FR.UTF-8", "de_DE"}) {
    if (!std::setlocale(LC_NUMERIC, name)) continue;
    CHECK(train::json_number(1234.5) == "1234.5");
  }
  std::setlocale(LC_NUMERIC, before.c_str());
}

TEST_CASE("MetricsFile: one JSON object a line") {
  const TemporaryFolder folder;
  const std::string path = folder / "m.jsonl";
  MetricsFile file(path);
  file.begin(false);
  file.step(1, 0.5, 1e-4, 128, 0.25);
  CHECK(get(path) == "{\"step\":1,\"loss\":0.5,\"lr\":1e-04,\"tokens\":128,\"seconds\":0.25}\n");  // flushed
  file.step(2, std::nan(""), 1e-300, 0, 1);
  train::Scores scores(2);
  scores.add_loss(0.25, 4);
  for (int i = 0; i < 3; ++i) scores.confusion.add(1, 1);
  scores.confusion.add(0, 1);
  file.epoch(0, 0.75, scores, 12.5);
  file.final("test", scores);
  CHECK(get(path) ==
        "{\"step\":1,\"loss\":0.5,\"lr\":1e-04,\"tokens\":128,\"seconds\":0.25}\n"
        "{\"step\":2,\"loss\":null,\"lr\":1e-300,\"tokens\":0,\"seconds\":1}\n"
        "{\"epoch\":0,\"train_loss\":0.75,\"valid_loss\":0.25,\"accuracy\":0.75,\"precision\":0.75,\"recall\":1,"
        "\"seconds\":12.5}\n"
        "{\"final\":true,\"split\":\"test\",\"loss\":0.25,\"accuracy\":0.75,\"precision\":0.75,\"recall\":1}\n");
  const MetricsPosition position = file.sync();
  const std::string content = get(path);
  CHECK(position.bytes == static_cast<Index>(content.size()));
  CHECK(position.sum == io::hex(io::crc64(content)));
}

TEST_CASE("require_metrics: a regular file must be a metrics file or empty; a missing file is no error") {
  const TemporaryFolder folder;
  const std::string path = folder / "file";
  train::require_metrics(path);
  train::require_metrics("");
  train::require_metrics("/dev/null");
  for (const char* content : {"", "{\"step\":1", "{\"epoch\":0,", "{\"final\":true"}) {
    put(path, content);
    train::require_metrics(path);
  }
  for (const char* content : {"{", "text of a user", "{\"steak\":1}", " {\"step\":1}"}) {
    put(path, content);
    CHECK(error_of([&] { train::require_metrics(path); }) == path + ": is not a metrics file; choose another file");
  }
}

TEST_CASE("MetricsFile: begin drops the lines of the same run and refuses those of another") {
  const TemporaryFolder folder;
  const std::string path = folder / "m.jsonl";
  const std::string refused = path + ": holds the metrics of another run; choose another file or remove it";
  put(path, step_lines(0, 3) + "{\"step\":3,\"lo");
  CHECK(error_of([&] { MetricsFile(path).begin(false); }) == refused);
  CHECK(get(path).size() > step_lines(0, 3).size());
  {
    MetricsFile file(path);
    file.begin(true);
    write_metrics(file, 0, 2);
    const MetricsPosition position = file.sync();
    CHECK(get(path) == step_lines(0, 2));
    CHECK(position.sum == io::hex(io::crc64(step_lines(0, 2))));
  }
  const std::string finished = step_lines(0, 2) + "{\"final\":true,\"split\":\"valid\",\"loss\":1}\n";
  put(path, finished);
  CHECK(error_of([&] { MetricsFile(path).begin(true); }) == refused);
  CHECK(error_of([&] { MetricsFile(path).begin(false); }) == refused);
  CHECK(get(path) == finished);
  put(path, "");
  MetricsFile(path).begin(false);
  put(path, "my own notes\n");
  for (const bool is_own : {true, false})
    CHECK(error_of([&] { MetricsFile(path).begin(is_own); }) == path + ": is not a metrics file; choose another file");
  CHECK(get(path) == "my own notes\n");
}

TEST_CASE("MetricsFile: a killed run is continued without a gap or a repeated line") {
  const TemporaryFolder folder;
  const std::string path = folder / "m.jsonl";
  for (const char* partial : {"", "{\"step\":5,\"lo"}) {
    CAPTURE(partial);
    put(path, "");
    const MetricsPosition position = killed_run(path, 3, 2);
    put(path, get(path) + partial);
    MetricsFile file(path);
    CHECK(file.resume(position, true).empty());
    CHECK(get(path) == step_lines(0, 3));
    write_metrics(file, 3, 6);
    CHECK(get(path) == step_lines(0, 6));
    const MetricsPosition next = file.sync();
    CHECK(next.bytes == static_cast<Index>(step_lines(0, 6).size()));
    CHECK(next.sum == io::hex(io::crc64(step_lines(0, 6))));
  }
}

TEST_CASE("MetricsFile: a run whose checkpoint is before the first line is continued too") {
  const TemporaryFolder folder;
  const std::string path = folder / "m.jsonl";
  const MetricsPosition position = killed_run(path, 0, 2);
  CHECK(position.bytes == 0);
  {
    MetricsFile file(path);
    CHECK(file.resume(position, true).empty());
    write_metrics(file, 0, 3);
    CHECK(get(path) == step_lines(0, 3));
    CHECK(file.sync().sum == io::hex(io::crc64(step_lines(0, 3))));
  }
  // The run's lines cannot be recognized in a file of another name if the position is 0 bytes.
  CHECK(MetricsFile(path).resume(position, false).empty());
  CHECK(get(path) == step_lines(0, 3));
  // The position of a run that wrote no metrics drops no lines.
  CHECK(MetricsFile(path).resume({}, true).empty());
  CHECK(get(path) == step_lines(0, 3));
}

TEST_CASE("MetricsFile: a file of the same name with other content is refused and left as it is") {
  const TemporaryFolder folder;
  const std::string path = folder / "m.jsonl";
  const MetricsPosition position = killed_run(path, 3, 0);
  std::string other = get(path);
  other[10] = '9';
  for (const std::string& content : {other, other + step_lines(3, 5)}) {
    put(path, content);
    CHECK(error_of([&] { MetricsFile(path).resume(position, true); }) ==
          path + ": does not hold what the run had written there; choose another file or remove it");
    CHECK(get(path) == content);
  }
}

TEST_CASE("MetricsFile: a file that is too short is continued, and a sentence says so") {
  const TemporaryFolder folder;
  const std::string path = folder / "m.jsonl";
  const MetricsPosition position = killed_run(path, 3, 0);
  const auto sentence = [&](std::size_t bytes) {
    return path + ": has " + std::to_string(bytes) + " of the " + std::to_string(position.bytes) +
           " bytes that the run had written; the missing lines are not written again";
  };
  const std::string partial = step_lines(0, 2) + "{\"step\":2,\"loss\"";
  for (const std::string& content : {step_lines(0, 2), partial}) {
    put(path, content);
    MetricsFile file(path);
    CHECK(file.resume(position, true) == sentence(content.size()));
    write_metrics(file, 3, 4);
    CHECK(get(path) == step_lines(0, 2) + step_line(3));
    CHECK(file.sync().sum == io::hex(io::crc64(step_lines(0, 2) + step_line(3))));
  }
  put(path, "");
  CHECK(MetricsFile(path).resume(position, true) == sentence(0));
  std::filesystem::remove(path);
  CHECK(MetricsFile(path).resume(position, true) == sentence(0));
}

TEST_CASE("MetricsFile: another file is continued at its end, a renamed file of the run at the checkpoint's position") {
  const TemporaryFolder folder;
  const std::string path = folder / "m.jsonl", other = folder / "other.jsonl";
  const MetricsPosition position = killed_run(path, 3, 2);
  std::filesystem::rename(path, folder / "moved.jsonl");
  {
    MetricsFile file(folder / "moved.jsonl");
    CHECK(file.resume(position, false).empty());
    CHECK(get(folder / "moved.jsonl") == step_lines(0, 3));
  }
  for (const std::string& content : {std::string(), step_lines(7, 20), step_lines(7, 9) + "{\"step\":9,\"lo"}) {
    CAPTURE(content);
    put(other, content);
    const std::string whole_lines = content.substr(0, content.rfind('\n') + 1);
    MetricsFile file(other);
    CHECK(file.resume(position, false).empty());
    write_metrics(file, 3, 5);
    CHECK(get(other) == whole_lines + step_lines(3, 5));
    const MetricsPosition next = file.sync();
    CHECK(next.bytes == static_cast<Index>(get(other).size()));
    CHECK(next.sum == io::hex(io::crc64(get(other))));
  }
}

TEST_CASE("MetricsFile: one run at a time writes to a file") {
  const TemporaryFolder folder;
  const std::string path = folder / "m.jsonl";
  const std::string why = ": another run is writing its metrics to this file; choose another file or wait for that run";
  const std::string refused = path + why;
  {
    MetricsFile file(path);
    CHECK(error_of([&] { MetricsFile second(path); }) == refused);
    std::filesystem::create_symlink(path, folder / "link");
    CHECK(error_of([&] { MetricsFile second(folder / "link"); }) == folder / "link" + why);
    CHECK(in_child([&] { return error_of([&] { MetricsFile second(path); }); }) == refused);
    write_metrics(file, 0, 1);
  }
  MetricsFile(path).begin(true);
  CHECK(get(path).empty());
}

TEST_CASE("MetricsFile: without a path nothing is written") {
  MetricsFile file("");
  file.begin(false);
  write_metrics(file, 0, 3);
  file.final("test", train::Scores(2));
  const MetricsPosition position = file.sync();
  CHECK(position.bytes == 0);
  CHECK(position.sum.empty());
  CHECK(file.resume({10, "0"}, true).empty());
  static_assert(!std::is_copy_constructible_v<MetricsFile> && !std::is_copy_assignable_v<MetricsFile>);
}

TEST_CASE("MetricsFile: a file that cannot be opened or written is named") {
  const TemporaryFolder folder;
  CHECK(error_of([&] { MetricsFile file(folder / "none/m.jsonl"); }) ==
        folder / "none/m.jsonl: cannot be opened: No such file or directory");
  CHECK(error_of([&] { MetricsFile file(folder.path()); }) == folder.path() + ": cannot be opened: Is a directory");
  MetricsFile full("/dev/full");
  CHECK(error_of<WriteError>([&] { write_metrics(full, 0, 1); }) ==
        "/dev/full: cannot be written: No space left on device");
}

TEST_CASE("MetricsFile: a full disk is a WriteError, and the run continues once there is space") {
  const TemporaryFolder folder;
  const std::string path = folder / "m.jsonl";
  const MetricsPosition position = killed_run(path, 3, 0);
  const std::string report = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlim_t size = step_lines(0, 5).size() + 10;
    const rlimit limit{size, size};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) return std::string("no limit");
    MetricsFile file(path);
    file.resume(position, true);
    return error_of<WriteError>([&] { write_metrics(file, 3, 100); });
  });
  CHECK(report == path + ": cannot be written: File too large");
  CHECK(get(path).starts_with(step_lines(0, 5)));
  MetricsFile file(path);
  CHECK(file.resume(position, true).empty());
  write_metrics(file, 3, 8);
  CHECK(get(path) == step_lines(0, 8));
}

TEST_CASE("MetricsFile: devices and pipes have no position") {
  {
    MetricsFile file("/dev/null");
    MetricsFile second("/dev/null");
    file.begin(false);
    write_metrics(file, 0, 2);
    CHECK(file.sync().sum.empty());
    CHECK(file.resume({10, "0"}, true).empty());
  }
  const TemporaryFolder folder;
  const std::string path = folder / "pipe";
  REQUIRE(::mkfifo(path.c_str(), 0600) == 0);
  train::require_metrics(path);
  const io::detail::Descriptor reader(::open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC));
  REQUIRE(reader.number() >= 0);
  MetricsFile file(path);
  file.begin(false);
  write_metrics(file, 0, 2);
  const MetricsPosition position = file.sync();
  CHECK(position.bytes == 0);
  CHECK(position.sum.empty());
  CHECK(file.resume({10, "0"}, true).empty());
  char read[1000] = {};
  CHECK(::read(reader.number(), read, sizeof read - 1) > 0);
  CHECK(read == step_lines(0, 2));
}
