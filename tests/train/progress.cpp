#include <heddle/train/progress.hpp>

#include <fcntl.h>

#include <cmath>
#include <cstdlib>
#include <heddle/base/file.hpp>
#include <memory>
#include <regex>
#include <thread>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using train::Progress;

namespace {

// A stream for the progress, and the text written to it.
class Screen {
 public:
  std::FILE* stream() const { return file_.get(); }
  std::string text() const {
    std::string all;
    std::rewind(file_.get());
    for (int c; (c = std::fgetc(file_.get())) != EOF;) all += static_cast<char>(c);
    return all;
  }

 private:
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> file_{std::tmpfile(), &std::fclose};
};

void wait_for_redraw() { std::this_thread::sleep_for(std::chrono::milliseconds(110)); }

}  // namespace

TEST_CASE("Progress: durations and rates") {
  using train::detail::clock_text;
  CHECK(clock_text(0) == "0:00");
  CHECK(clock_text(7.4) == "0:07");
  CHECK(clock_text(59.6) == "1:00");
  CHECK(clock_text(754) == "12:34");
  CHECK(clock_text(3599.4) == "59:59");
  CHECK(clock_text(3723) == "1:02:03");
  CHECK(clock_text(360000) == "100:00:00");
  using train::detail::rate_text;
  CHECK(rate_text(0.5) == "0.50");
  CHECK(rate_text(9.99) == "9.99");
  CHECK(rate_text(9.996) == "10.0");
  CHECK(rate_text(12.34) == "12.3");
  CHECK(rate_text(99.96) == "100");
  CHECK(rate_text(1234.5) == "1234");
  const train::Stopwatch stopwatch;
  const double first = stopwatch.seconds();
  CHECK(first >= 0);
  CHECK(stopwatch.seconds() >= first);
}

TEST_CASE("Progress: refuses an unknown mode") {
  for (const char* mode : {"auto", "bar", "lines", "none"}) Progress{mode};
  CHECK(error_of<Error>([] { Progress{"dots"}; }) == "Progress: the mode must be auto, bar, lines or none, got dots");
  CHECK_THROWS_AS(Progress(""), Error);
}

TEST_CASE("Progress: writes lines where there is no terminal, at most one in ten seconds") {
  for (const char* mode : {"auto", "lines"}) {
    const Screen screen;
    Progress progress(mode, screen.stream());
    for (Index step = 1; step <= 50; ++step) progress.step(2, step, 50, 0.69314);
    progress.clear();
    CHECK(screen.text() == "epoch 2: step 1 of 50, loss 0.6931\n");
  }
}

TEST_CASE("Progress: draws a bar on a terminal") {
  const io::detail::Descriptor screen(::posix_openpt(O_RDWR | O_NOCTTY));
  REQUIRE(screen.number() >= 0);
  REQUIRE((::grantpt(screen.number()) == 0 && ::unlockpt(screen.number()) == 0));
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> terminal(
      ::fdopen(::open(::ptsname(screen.number()), O_RDWR | O_NOCTTY), "w"), &std::fclose);
  REQUIRE(terminal);
  Progress progress("auto", terminal.get());
  progress.step(0, 1, 2, 1.5);
  char drawn[200] = {};
  REQUIRE(::read(screen.number(), drawn, sizeof drawn - 1) > 0);
  CHECK(std::string(drawn) == "\repoch 0 [###############...............] 1/2  loss 1.5000\x1b[K");
}

TEST_CASE("Progress: draws a bar with rate and remaining time, and clears it") {
  const Screen screen;
  Progress progress("bar", screen.stream());
  progress.clear();
  CHECK(screen.text().empty());
  progress.step(0, 1, 30, 1.5);
  const std::string first = "\repoch 0 [#.............................] 1/30  loss 1.5000\x1b[K";
  CHECK(screen.text() == first);
  const train::Stopwatch since_first;
  progress.step(0, 2, 30, 1.5);
  const std::string drawn = screen.text();
  const bool is_too_soon = since_first.seconds() < 0.09;  // false on a machine that is too busy
  if (is_too_soon) CHECK(drawn == first);
  wait_for_redraw();
  progress.step(0, 15, 30, 1.25);
  const std::string second = screen.text().substr(drawn.size());
  CAPTURE(second);
  CHECK(std::regex_match(second, std::regex("\repoch 0 \\[#{15}\\.{15}\\] 15/30  loss 1\\.2500  [0-9.]+ steps/s  "
                                            "[0-9]+:[0-9][0-9] left\x1b\\[K")));
  progress.step(0, 30, 30, 1);  // the end of an epoch is drawn at once
  const std::string third = screen.text().substr(drawn.size() + second.size());
  CHECK(third.starts_with("\repoch 0 [##############################] 30/30  loss 1.0000  "));
  CHECK(third.ends_with(" 0:00 left\x1b[K"));
  progress.clear();
  progress.clear();
  CHECK(screen.text() == drawn + second + third + "\r\x1b[K");
}

TEST_CASE("Progress: the rate counts from the first reported step of an epoch") {
  const Screen screen;
  Progress progress("bar", screen.stream());
  progress.step(3, 1000, 2000, 0);  // a resumed run
  const std::size_t first = screen.text().size();
  wait_for_redraw();
  progress.step(3, 1001, 2000, 0);
  std::smatch found;
  const std::string text = screen.text().substr(first);
  CAPTURE(text);
  REQUIRE(std::regex_search(text, found, std::regex("  ([0-9.]+) steps/s")));
  CHECK(std::stod(found[1]) < 10);  // one step in at least 0.11 s
  wait_for_redraw();
  progress.step(4, 1, 2000, 0);
  CHECK(screen.text().substr(first + text.size()) ==
        "\repoch 4 [..............................] 1/2000  loss 0.0000\x1b[K");
}

TEST_CASE("Progress: writes nothing if it is off or if there are no steps") {
  for (const char* mode : {"none", "lines", "bar"}) {
    const Screen screen;
    Progress progress(mode, screen.stream());
    progress.step(0, 0, 0, 1);
    if (std::string(mode) == "none") progress.step(0, 1, 2, 1);
    progress.clear();
    CHECK(screen.text().empty());
  }
}

TEST_CASE("Progress: numbers out of range do not change the length of the bar") {
  for (const Index done : {Index{7}, Index{1} << 40}) {
    const Screen screen;
    Progress progress("bar", screen.stream());
    progress.step(0, done, 5, std::nan(""));
    CHECK(screen.text() == "\repoch 0 [##############################] " + std::to_string(done) + "/5  loss nan\x1b[K");
  }
  const Screen screen;
  Progress progress("lines", screen.stream());
  progress.step(0, 1, 2, 1e300);
  CHECK(screen.text().starts_with("epoch 0: step 1 of 2, loss 1000000"));
  CHECK(screen.text().ends_with("\n"));
}
