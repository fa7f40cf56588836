#include "progress.hpp"

#include <unistd.h>

#include <cstdio>

namespace heddle::examples {

namespace {
constexpr double bar_interval = 0.1, line_interval = 10;  // seconds
constexpr int bar_width = 30;
}  // namespace

Progress::Progress(const std::string& mode)
    : style_(mode == "none"                                               ? Style::none
             : mode == "bar" || (mode == "auto" && isatty(STDERR_FILENO)) ? Style::bar
                                                                          : Style::lines) {}

void Progress::step(Index epoch, Index done, Index total, double loss) {
  if (style_ == Style::none) return;
  const double now = since_start_.seconds();
  const double interval = style_ == Style::bar ? bar_interval : line_interval;
  if (now - last_shown_ < interval && !(done == total && style_ == Style::bar)) return;
  last_shown_ = now;
  if (style_ == Style::lines) {
    std::fprintf(stderr, "epoch %lld: step %lld of %lld, loss %.4f\n", static_cast<long long>(epoch),
                 static_cast<long long>(done), static_cast<long long>(total), loss);
    return;
  }
  const int filled = static_cast<int>(done * bar_width / total);
  std::fprintf(stderr, "\repoch %lld [%s%s] %lld/%lld loss %.4f ", static_cast<long long>(epoch),
               std::string(static_cast<std::size_t>(filled), '#').c_str(),
               std::string(static_cast<std::size_t>(bar_width - filled), '.').c_str(), static_cast<long long>(done),
               static_cast<long long>(total), loss);
  std::fflush(stderr);
  on_screen_ = true;
}

void Progress::clear() {
  if (!on_screen_) return;
  std::fprintf(stderr, "\r\x1b[K");
  std::fflush(stderr);
  on_screen_ = false;
}

}  // namespace heddle::examples
