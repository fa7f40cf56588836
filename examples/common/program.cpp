#include "program.hpp"

#include <cstdio>
#include <heddle/io/write_atomically.hpp>

namespace heddle::examples {
namespace {

std::string& name_of_program() {
  static std::string name = "heddle";
  return name;
}

int report(ExitCode code, const std::string& text) {
  std::fflush(stdout);
  std::fprintf(stderr, "%s: error: %s\n", program_name().c_str(), one_line(text).c_str());
  return code;
}

}  // namespace

const std::string& program_name() { return name_of_program(); }

std::string one_line(const std::string& text) {
  std::string line;
  for (const char c : text)
    if (c != '\n')
      line += c;
    else if (!line.empty() && line.back() != ' ')
      line += "; ";
  return io::printable(line, 16384);
}

void note(const std::string& text) {
  std::fprintf(stderr, "%s: note: %s\n", program_name().c_str(), one_line(text).c_str());
}

int run_program(const std::string& name, const std::function<void()>& work) {
  name_of_program() = name;
  try {
    work();
    if (std::fflush(stdout) != 0 && errno != EPIPE) return report(failed, "standard output cannot be written");
    return done;
  } catch (const RunFailed& error) {
    return report(failed, error.what());
  } catch (const WriteError& error) {
    return report(failed, error.what());
  } catch (const OutOfMemory& error) {
    return report(failed, error.what());
  } catch (const Error& error) {
    return report(bad_input, error.what());
  } catch (const std::bad_alloc&) {
    return report(failed, "out of memory");
  } catch (const std::exception& error) {
    return report(failed, error.what());
  }
}

}  // namespace heddle::examples
