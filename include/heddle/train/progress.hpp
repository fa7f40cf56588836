// The progress of a training run on standard error: a bar on a terminal, otherwise a line every ten seconds.
#pragma once
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <string>

#include <heddle/base/error.hpp>
#include <heddle/base/shape.hpp>

namespace heddle::train {

/// A clock that starts at its construction.
class Stopwatch {
 public:
  /// Returns the seconds since the beginning.
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

namespace detail {

// Returns a duration such as 0:07, 12:34 or 1:02:03.
inline std::string clock_text(double seconds) {
  const auto total = static_cast<long long>(seconds + 0.5);
  char text[32];
  if (total >= 3600)
    std::snprintf(text, sizeof text, "%lld:%02lld:%02lld", total / 3600, total / 60 % 60, total % 60);
  else
    std::snprintf(text, sizeof text, "%lld:%02lld", total / 60, total % 60);
  return text;
}

// Returns a rate with three digits, or as a whole number from 100 on.
inline std::string rate_text(double per_second) {
  char text[32];
  // The limits allow for rounding: 99.96 is shown as 100, not as 100.0.
  std::snprintf(text, sizeof text, per_second >= 99.95 ? "%.0f" : per_second >= 9.995 ? "%.1f" : "%.2f", per_second);
  return text;
}

}  // namespace detail

/// A display of epoch, step, loss, rate and remaining time of the epoch. A bar is redrawn at most ten times a second,
/// and after the last step of an epoch. A line is printed at most every ten seconds.
class Progress {
 public:
  /// Creates the display. `mode` is auto, bar, lines or none; auto is a bar if `stream` is a terminal, lines otherwise.
  /// @throws Error for another mode.
  explicit Progress(const std::string& mode = "auto", std::FILE* stream = stderr)
      : stream_(stream), style_(style_of(mode, stream)) {}

  /// Reports that `done` of the `total` steps of an epoch are done, with the mean loss so far.
  void step(Index epoch, Index done, Index total, double loss) {
    if (style_ == Style::none || total < 1) return;
    const double now = since_start_.seconds();
    if (epoch != epoch_ || done < first_done_) begin_epoch(epoch, done, now);
    const double interval = style_ == Style::bar ? 0.1 : 10;  // seconds
    if (now - last_shown_ < interval && !(done == total && style_ == Style::bar)) return;
    last_shown_ = now;
    print(text(done, total, loss, now));
  }
  /// Clears the bar, so that a line may be printed.
  void clear() {
    if (!on_screen_) return;
    std::fprintf(stream_, "\r\x1b[K");
    std::fflush(stream_);
    on_screen_ = false;
  }

 private:
  enum class Style { none, lines, bar };

  static Style style_of(const std::string& mode, std::FILE* stream) {
    require(mode == "auto" || mode == "bar" || mode == "lines" || mode == "none",
            "Progress: the mode must be auto, bar, lines or none, got ", mode);
    if (mode == "none") return Style::none;
    return mode == "bar" || (mode == "auto" && ::isatty(::fileno(stream))) ? Style::bar : Style::lines;
  }

  // The rate counts from the first step that is reported: an epoch may begin in the middle, after a resume.
  void begin_epoch(Index epoch, Index done, double now) {
    epoch_ = epoch;
    first_done_ = done;
    epoch_began_ = now;
  }

  std::string text(Index done, Index total, double loss, double now) const {
    const double seconds = now - epoch_began_;
    const double rate = seconds > 0 ? static_cast<double>(done - first_done_) / seconds : 0;
    char head[160];
    if (style_ == Style::bar) {
      const int filled = static_cast<int>(std::clamp<Index>(done, 0, total) * bar_width / total);
      std::snprintf(head, sizeof head, "epoch %lld [%.*s%.*s] %lld/%lld  loss %.4f", static_cast<long long>(epoch_),
                    filled, "##############################", bar_width - filled, "..............................",
                    static_cast<long long>(done), static_cast<long long>(total), loss);
    } else {
      std::snprintf(head, sizeof head, "epoch %lld: step %lld of %lld, loss %.4f", static_cast<long long>(epoch_),
                    static_cast<long long>(done), static_cast<long long>(total), loss);
    }
    if (rate <= 0) return head;
    const std::string left = detail::clock_text(static_cast<double>(total - done) / rate);
    return std::string(head) + (style_ == Style::bar ? "  " : ", ") + detail::rate_text(rate) +
           (style_ == Style::bar ? " steps/s  " + left + " left" : " steps/s, " + left + " left");
  }

  void print(const std::string& line) {
    if (style_ == Style::lines) {
      std::fprintf(stream_, "%s\n", line.c_str());
    } else {
      // A line that wraps could not be overwritten.
      winsize window{};
      const bool has_width = ::ioctl(::fileno(stream_), TIOCGWINSZ, &window) == 0 && window.ws_col > 1;
      const std::size_t width = has_width ? window.ws_col - std::size_t{1} : line.size();
      std::fprintf(stream_, "\r%s\x1b[K", line.substr(0, width).c_str());
      on_screen_ = true;
    }
    std::fflush(stream_);
  }

  static constexpr int bar_width = 30;

  std::FILE* stream_;
  Style style_;
  Stopwatch since_start_;
  double last_shown_ = -1e9, epoch_began_ = 0;
  Index epoch_ = -1, first_done_ = 0;
  bool on_screen_ = false;
};

}  // namespace heddle::train
