// The command line of the interpreter's own tests, which compare results with plain C++ and plant faults that it must
// report.
//   PROGRAM            runs all checks, and prints `ok: …` for each
//   PROGRAM --faults   lists the faults: the name, a tab, and a regular expression of the message that reports it
//   PROGRAM NAME       plants the fault
#pragma once
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <initializer_list>
#include <stdexcept>
#include <string>

namespace heddle::testing {

// Throws unless a result is the expected one. NaN equals NaN.
template <class Actual, class Expected>
void expect_equal(const std::string& what, Actual actual, Expected expected) {
  if (actual == expected || (actual != actual && expected != expected)) return;
  throw std::runtime_error("wrong: " + what + " is " + std::to_string(actual) + " instead of " +
                           std::to_string(expected));
}

// Runs the program again if a setting of the interpreter is missing, because settings are read when the program starts.
inline void require_settings(std::initializer_list<const char*> settings, char** arguments) {
  bool is_missing = false;
  for (const char* name : settings) {
    is_missing |= std::getenv(name) == nullptr;
    setenv(name, "1", 1);
  }
  if (is_missing) execv("/proc/self/exe", arguments);
}

// Runs a command line and returns the exit code. A fault has a name and a message; plant(fault) plants it, and needs
// the settings. Checks and faults throw for a wrong result.
template <class Faults, class Plant>
int run_self_test(int count, char** arguments, std::initializer_list<const char*> settings, void (*run_checks)(),
                  const Faults& faults, Plant plant) {
  const std::string name = count > 1 ? arguments[1] : "";
  try {
    if (name.empty()) {
      run_checks();
      return 0;
    }
    if (name != "--faults") require_settings(settings, arguments);
    for (const auto& fault : faults) {
      if (name == "--faults") std::printf("%s\t%s\n", fault.name, fault.message);
      if (name != fault.name) continue;
      plant(fault);
      return 0;
    }
    if (name == "--faults") return 0;
    throw std::runtime_error("there is no fault '" + name + "'");
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}

}  // namespace heddle::testing
