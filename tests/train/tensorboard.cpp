#include <sys/resource.h>
#include <sys/wait.h>

#include <csignal>
#include <heddle/io/crc64.hpp>
#include <heddle/train/heat_map.hpp>
#include <heddle/train/tensorboard.hpp>
#include <limits>
#include <numeric>

#include "catch.hpp"
#include "io/files.hpp"
#include "io/watched_calls.hpp"
#include "train/read_events.hpp"

using namespace heddle;
using namespace heddle::testing;
using train::EventPosition;
using train::EventWriter;

namespace {

std::string hex_bytes(std::string_view bytes) {
  std::string text;
  for (const char byte : bytes) text += io::hex(static_cast<unsigned char>(byte)).substr(14);
  return text;
}

std::vector<Index> steps_between(Index first, Index end) {
  std::vector<Index> steps(static_cast<std::size_t>(end - first));
  std::iota(steps.begin(), steps.end(), first);
  return steps;
}

void write_steps(EventWriter& writer, Index first, Index end) {
  for (Index step = first; step < end; ++step) writer.scalar("loss", 1.0 / static_cast<double>(step + 1), step);
}

MessageReader only_event(const TemporaryFolder& folder) {
  const std::vector<ReadEvent> events = read_run(folder);
  REQUIRE(events.size() == 2);
  return events[1].value;
}

const std::string old_name = "events.out.tfevents.1600000000.host.1.0.heddle";

}  // namespace

TEST_CASE("event_record: gives the bytes of TensorFlow's writer") {
  CHECK(hex_bytes(train::detail::version_record(1.0)) ==
        "1800000000000000a37f4b2209000000000000f03f1a0d627261696e2e4576656e743a3286bf577a");
  CHECK(hex_bytes(train::detail::scalar_record("loss", 0.5, 3, 2.0)) ==
        "1a00000000000000129bd82d09000000000000004010032a0d0a0b0a046c6f7373150000003fbac36b94");
}

TEST_CASE("EventWriter: creates a folder with one file") {
  const TemporaryFolder folder;
  const std::string path = folder / "runs/today";
  const double before = train::detail::seconds_since_1970();
  EventWriter writer(path);
  const EventPosition position = writer.sync();
  REQUIRE(position.files.size() == 1);
  const std::string& name = position.files[0].name;
  CHECK(train::detail::is_event_file_name(name));
  CHECK(train::detail::seconds_of_event_file(name) >= static_cast<Index>(before));
  CHECK_THAT(name, ContainsSubstring('.' + std::to_string(::getpid()) + ".0.heddle"));
  const std::vector<ReadEvent> events = read_events(get(path + '/' + name));
  REQUIRE(events.size() == 1);
  CHECK(events[0].version == "brain.Event:2");
  CHECK(events[0].wall_time >= before);
  CHECK(events[0].wall_time <= train::detail::seconds_since_1970());
  CHECK(writer.notes().empty());
}

TEST_CASE("EventWriter: two writers never share a file, and the names sort in the order of their creation") {
  const TemporaryFolder folder;
  std::vector<std::string> names;
  for (int i = 0; i < 4; ++i) names.push_back(EventWriter(folder.path()).sync().files[0].name);
  CHECK(std::is_sorted(names.begin(), names.end()));
  CHECK(folder.names().size() == 4);
}

TEST_CASE("EventWriter: writes scalars") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  const double infinity = std::numeric_limits<double>::infinity();
  const std::vector<double> values{0.1, 0, -3e20, infinity, std::numeric_limits<double>::quiet_NaN()};
  constexpr Index large = Index{1} << 40;
  for (std::size_t i = 0; i < values.size(); ++i) writer.scalar("a/b", values[i], large + static_cast<Index>(i));
  const std::vector<ReadEvent> events = read_run(folder);
  REQUIRE(events.size() == 6);
  for (std::size_t i = 0; i < values.size(); ++i) {
    CHECK(events[i + 1].step == large + static_cast<Index>(i));
    CHECK(events[i + 1].tag == "a/b");
    CHECK(events[i + 1].value.has(2));
    const float expected = static_cast<float>(values[i]), found = events[i + 1].value.float32(2);
    CHECK((found == expected || (std::isnan(found) && std::isnan(expected))));
  }
  CHECK_THROWS_AS(writer.scalar("", 1, 1), Error);
  CHECK_THROWS_AS(writer.text("", "x", 1), Error);
  CHECK(read_run(folder).size() == 6);
}

TEST_CASE("EventWriter: makes strings valid UTF-8, which readers insist on") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  writer.scalar("\xC3\xA9\xFF", 1, 1);
  CHECK(read_run(folder)[1].tag == "\xC3\xA9\xEF\xBF\xBD");
}

TEST_CASE("EventWriter: writes images") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  train::Image image(7, 5, {1, 2, 3});
  image.set(6, 4, {9, 9, 9});
  writer.image("map", image, 4);
  const MessageReader encoded = only_event(folder).message(4);
  CHECK(encoded.integer(1) == 5);
  CHECK(encoded.integer(2) == 7);
  CHECK(encoded.integer(3) == 3);
  const DecodedPng png = read_png(encoded.bytes(4));
  CHECK(std::vector<std::uint8_t>(image.pixels().begin(), image.pixels().end()) == png.pixels);
}

TEST_CASE("EventWriter: writes text as PyTorch does") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  writer.text("note", "**bold**\n\n| a | b |", 4);
  const std::vector<ReadEvent> events = read_run(folder);
  REQUIRE(events.size() == 2);
  CHECK(events[1].tag == "note/text_summary");
  const MessageReader tensor = events[1].value.message(8);
  CHECK(tensor.integer(1) == 7);                        // DT_STRING
  CHECK(tensor.message(2).message(2).integer(1) == 1);  // shape [1]
  CHECK(tensor.bytes(8) == "**bold**\n\n| a | b |");
  CHECK(events[1].value.message(9).message(1).bytes(1) == "text");  // the plugin
}

TEST_CASE("EventWriter: writes histograms") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  std::vector<float> values;
  for (int i = 0; i <= 100; ++i) values.push_back(static_cast<float>(i));
  values.push_back(std::numeric_limits<float>::infinity());
  values.push_back(std::numeric_limits<float>::quiet_NaN());
  writer.histogram("w", values, 4);
  const MessageReader histogram = only_event(folder).message(5);
  CHECK(histogram.float64(1) == 0);
  CHECK(histogram.float64(2) == 100);
  CHECK(histogram.float64(3) == 101);
  CHECK(histogram.float64(4) == 5050);
  CHECK(histogram.float64(5) == 338350);
  const std::vector<double> limits = histogram.float64s(6), counts = histogram.float64s(7);
  REQUIRE(limits.size() == 50);
  REQUIRE(counts.size() == 50);
  CHECK(limits.back() == 100);
  CHECK(std::is_sorted(limits.begin(), limits.end()));
  CHECK(counts.front() == 2);
  CHECK(counts.back() == 3);
  CHECK(std::accumulate(counts.begin(), counts.end(), 0.0) == 101);
}

TEST_CASE("count_values: takes every input") {
  using train::detail::count_values;
  using Limits = std::numeric_limits<double>;
  const double nan = Limits::quiet_NaN(), infinity = Limits::infinity();
  for (const std::vector<double>& values : {std::vector<double>{},
                                            {nan, infinity, -infinity},
                                            {3.5},
                                            {-2, -2, -2},
                                            {0, 0},
                                            {Limits::max(), Limits::lowest()},
                                            {0, Limits::denorm_min()},
                                            {1e8, std::nextafter(1e8, 2e8)},
                                            {1, 2, nan, 3},
                                            {Limits::max(), Limits::max()}}) {
    const auto histogram = count_values(std::span<const double>(values));
    const auto finite = std::count_if(values.begin(), values.end(), [](double x) { return std::isfinite(x); });
    CHECK(histogram.count == static_cast<double>(finite));
    CHECK(std::accumulate(histogram.bucket.begin(), histogram.bucket.end(), 0.0) == histogram.count);
    REQUIRE(histogram.bucket.size() == histogram.bucket_limit.size());
    CHECK(!histogram.bucket.empty());
    CHECK(histogram.bucket.size() <= 60);
    CHECK(std::is_sorted(histogram.bucket_limit.begin(), histogram.bucket_limit.end()));
    CHECK(histogram.bucket_limit.back() == histogram.max);
    for (const double limit : histogram.bucket_limit) CHECK(std::isfinite(limit));
  }
}

TEST_CASE("EventWriter: continues without missing or repeating a step") {
  const TemporaryFolder folder;
  EventPosition position;
  {
    EventWriter writer(folder.path());
    write_steps(writer, 0, 5);
    position = writer.sync();
    write_steps(writer, 5, 9);  // after the checkpoint
  }
  for (Index round = 1; round <= 3; ++round) {
    EventWriter writer(folder.path(), position, 5 * round);
    CHECK(writer.notes().empty());
    write_steps(writer, 5 * round, 5 * round + 5);
    position = writer.sync();
    CHECK(position.files.size() == static_cast<std::size_t>(round) + 1);
    write_steps(writer, 5 * round + 5, 5 * round + 7);
  }
  EventWriter writer(folder.path(), position, 20);
  CHECK(steps_of(folder, "loss") == steps_between(0, 20));

  // The second event of a continued file makes an open TensorBoard discard the events that it has read from
  // this step on.
  std::vector<Index> restarts;
  for (const ReadEvent& event : read_run(folder))
    if (event.session_status == 1) restarts.push_back(event.step);
  CHECK(restarts == std::vector<Index>{5, 10, 15, 20});
  CHECK(folder.names().size() == 5);
}

TEST_CASE("EventWriter: truncates the part of a record that a killed run left") {
  const TemporaryFolder folder;
  EventPosition position;
  {
    EventWriter writer(folder.path());
    write_steps(writer, 0, 3);
    position = writer.sync();
    write_steps(writer, 3, 6);
  }
  const std::string path = folder / position.files[0].name;
  const std::string bytes = get(path);
  put(path, bytes.substr(0, bytes.size() - 7));
  EventWriter writer(folder.path(), position, 3);
  write_steps(writer, 3, 5);
  CHECK(steps_of(folder, "loss") == steps_between(0, 5));
}

TEST_CASE("EventWriter: removes the files that were written after the checkpoint, and only its own") {
  const TemporaryFolder folder;
  EventPosition position;
  {
    EventWriter writer(folder.path());
    write_steps(writer, 0, 3);
    position = writer.sync();
  }
  { EventWriter(folder.path(), position, 3).scalar("loss", 1, 3); }
  put(folder / old_name, "");
  const std::set<std::string> foreign{"events.out.tfevents.1600000000.host", "events.out.tfevents.123.host.1.0.heddle",
                                      "notes.heddle", "events.out.tfevents.1600000000.host.1.0.heddle.bak"};
  for (const std::string& name : foreign) put(folder / name, "x");

  const EventPosition next = EventWriter(folder.path(), position, 3).sync();
  std::set<std::string> expected = foreign;
  for (const EventPosition::File& file : next.files) expected.insert(file.name);
  CHECK(folder.names() == expected);
  CHECK(next.files.size() == 2);
  CHECK(next.files[0] == position.files[0]);
}

TEST_CASE("EventWriter: begins a run again from an empty position") {
  const TemporaryFolder folder;
  {
    EventWriter writer(folder.path());
    write_steps(writer, 0, 3);
  }
  EventWriter writer(folder.path(), {}, 0);
  write_steps(writer, 0, 2);
  CHECK(steps_of(folder, "loss") == steps_between(0, 2));
  CHECK(folder.names().size() == 1);
}

TEST_CASE("EventWriter: names a new file so that it sorts after all files that were in the folder") {
  const TemporaryFolder folder;
  const std::string future = "events.out.tfevents.4000000000.host.1.0.heddle";
  put(folder / future, train::detail::version_record(1));
  const Index size = static_cast<Index>(get(folder / future).size());
  // A file from a computer with a later clock.
  const EventPosition listed = EventWriter(folder.path(), {{{future, size}}}, 1).sync();
  REQUIRE(listed.files.size() == 2);
  CHECK(train::detail::seconds_of_event_file(listed.files[1].name) == 4'000'000'001);
  // A file that is removed counts too: an open TensorBoard has read it and takes only later ones.
  const EventPosition again = EventWriter(folder.path(), {}, 0).sync();
  CHECK(train::detail::seconds_of_event_file(again.files[0].name) == 4'000'000'002);

  put(folder / "events.out.tfevents.9999999999.host.1.0.heddle", "");
  CHECK(train::detail::is_event_file_name(EventWriter(folder.path()).sync().files[0].name));
}

TEST_CASE("EventWriter: notes files that are missing or too short") {
  const TemporaryFolder folder;
  put(folder / old_name, train::detail::version_record(1));
  const std::string missing = "events.out.tfevents.1500000000.host.1.0.heddle";
  EventWriter writer(folder.path(), {{{missing, 40}, {old_name, 50}}}, 7);
  CHECK(writer.notes() ==
        std::vector<std::string>{
            folder / missing + ": the file is missing; the run continues without its events",
            folder / old_name + ": the file has only 40 of 50 bytes; the run continues without its last events"});
  const EventPosition position = writer.sync();
  REQUIRE(position.files.size() == 2);
  CHECK(position.files[0] == EventPosition::File{old_name, 40});
  CHECK(EventWriter(folder.path(), position, 7).notes().empty());

  const TemporaryFolder empty;
  CHECK(EventWriter(empty / "gone", position, 7).notes().size() == 2);
}

TEST_CASE("EventWriter: refuses a position from a damaged checkpoint before it changes a file") {
  const TemporaryFolder folder;
  put(folder / old_name, "content");
  put(folder / "events.out.tfevents.1600000001.host.1.0.heddle", "not listed");
  const std::string valid = "events.out.tfevents.1600000000.host.1.0.heddle";
  for (const std::string& name :
       {std::string(), std::string("x"), std::string("../") + valid,
        std::string("events.out.tfevents./1600000000.heddle"),
        std::string("events.out.tfevents.1600000000./../../x.heddle"),
        std::string("events.out.tfevents.1600000000.host"), std::string("events.out.tfevents.16000000000.host.heddle"),
        std::string("events.out.tfevents..heddle"), std::string("events.out.tfevents.1600000000.heddl"), valid + '\n',
        std::string("events.out.tfevents.1600000000.\0.heddle", 40), std::string("model.safetensors")}) {
    CAPTURE(name);
    CHECK_THROWS_AS(EventWriter(folder.path(), {{{valid, 3}, {name, 10}}}, 1), FileError);
  }
  CHECK_THROWS_AS(EventWriter(folder.path(), {{{valid, -1}}}, 1), FileError);
  CHECK_THROWS_AS(EventWriter(folder.path(), {{{valid, 1}, {valid, 2}}}, 1), FileError);
  CHECK_THROWS_AS(EventWriter(folder.path(), {{{valid, 1}}}, -1), Error);
  CHECK(get(folder / old_name) == "content");
  CHECK(folder.names().size() == 2);
  CHECK(error_of([&] {
          EventWriter(folder.path(), {{{"../x", 3}}}, 1);
        }) == "'../x' is not the name of an event file of heddle (events.out.tfevents.SECONDS.HOST.PID.N.heddle)");
}

TEST_CASE("EventWriter: follows no link and waits for no pipe when it truncates a file") {
  const TemporaryFolder folder;
  put(folder / "precious", "content");
  std::filesystem::create_symlink(folder / "precious", folder / old_name);
  CHECK_THROWS_AS(EventWriter(folder.path(), {{{old_name, 0}}}, 1), WriteError);
  CHECK(get(folder / "precious") == "content");
  std::filesystem::remove(folder / old_name);
  REQUIRE(::mkfifo((folder / old_name).c_str(), 0600) == 0);
  CHECK_THROWS_AS(EventWriter(folder.path(), {{{old_name, 0}}}, 1), WriteError);
}

TEST_CASE("EventWriter: an error names the folder and the cause") {
  const TemporaryFolder folder;
  put(folder / "file", "x");
  CHECK(error_of<WriteError>([&] { EventWriter writer(folder / "file"); }) ==
        folder / "file: the folder cannot be opened: Not a directory");
  CHECK(error_of<WriteError>([&] { EventWriter writer(folder / "file/run"); }) ==
        folder / "file/run: the folder cannot be made: Not a directory");
  CHECK(error_of<WriteError>([&] { EventWriter writer(""); }) == "a file name is empty; give a path");
}

TEST_CASE("EventWriter: writes each record with one system call") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  const WatchedCalls calls;
  writer.scalar("loss", 1, 1);
  writer.text("note", std::string(100'000, 'x'), 1);
  CHECK(calls.names() == "write write ");
  writer.sync();
  CHECK(calls.names() == "write write fsync fsync ");
}

TEST_CASE("EventWriter: continues after a short write or a signal") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  {
    const WatchedCalls calls({.longest_write = 5});
    writer.scalar("loss", 1, 1);
    CHECK(calls.count() > 5);
  }
  {
    const WatchedCalls calls({.failing = 0, .error = EINTR});
    writer.scalar("loss", 1, 2);
  }
  CHECK(steps_of(folder, "loss") == steps_between(1, 3));
}

TEST_CASE("EventWriter: removes the part of a record that fit on a full disk") {
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  writer.scalar("loss", 1, 1);
  const std::string name = writer.sync().files[0].name;
  {
    const WatchedCalls calls({.failing = 3, .error = ENOSPC, .longest_write = 5});
    CHECK(error_of<WriteError>([&] { writer.scalar("loss", 1, 2); }) ==
          folder / name + ": cannot be written: No space left on device");
  }
  writer.scalar("loss", 1, 3);
  CHECK(steps_of(folder, "loss") == std::vector<Index>{1, 3});
  CHECK(writer.sync().files[0].bytes == static_cast<Index>(get(folder / name).size()));

  const WatchedCalls calls({.failing = 0, .error = EIO});
  CHECK(error_of<WriteError>([&] { writer.sync(); }) ==
        folder / name + ": cannot be written to the disk: Input/output error");
}

TEST_CASE("EventWriter: leaves whole records at the limit of a file's size") {
  const TemporaryFolder folder;
  const pid_t child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{1000, 1000};
    if (::setrlimit(RLIMIT_FSIZE, &limit) != 0) ::_exit(2);
    EventWriter writer(folder.path());
    try {
      for (Index step = 0;; ++step) writer.scalar("loss", 1, step);
    } catch (const WriteError&) {
      ::_exit(0);
    } catch (...) {
      ::_exit(3);
    }
  }
  int status = -1;
  REQUIRE(::waitpid(child, &status, 0) == child);
  CHECK(status == 0);
  CHECK(steps_of(folder, "loss").size() > 10);  // every record is whole
}

TEST_CASE("EventWriter: can be moved, not copied") {
  static_assert(!std::is_copy_constructible_v<EventWriter> && !std::is_copy_assignable_v<EventWriter>);
  const TemporaryFolder folder;
  EventWriter writer(folder.path());
  writer.scalar("loss", 1, 0);
  EventWriter moved = std::move(writer);
  moved.scalar("loss", 1, 1);
  CHECK(steps_of(folder, "loss") == steps_between(0, 2));
}
