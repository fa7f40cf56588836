// Progress on standard error: a bar on a terminal, a line now and then elsewhere.
#pragma once
#include <chrono>
#include <string>

#include <heddle/base/shape.hpp>

namespace heddle::examples {

class Stopwatch {
 public:
  double seconds() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - start_).count(); }

 private:
  std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
};

class Progress {
 public:
  // mode: auto, bar, lines or none.
  explicit Progress(const std::string& mode);

  // Called after each step of an epoch with the mean loss so far.
  void step(Index epoch, Index done, Index total, double loss);
  // Clears the bar, so that a line may be printed.
  void clear();

 private:
  enum class Style { none, lines, bar } style_;
  Stopwatch since_start_;
  double last_shown_ = -1;
  bool on_screen_ = false;
};

}  // namespace heddle::examples
