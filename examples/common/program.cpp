#include "program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <heddle/io/write_atomically.hpp>
#include <utility>

#include "processor.hpp"
#include "signals.hpp"

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

std::string shortened(const std::vector<std::string>& names) {
  constexpr std::size_t most = 12;
  std::string list;
  for (std::size_t i = 0; i < std::min(most, names.size()); ++i) list += (i ? ", " : "") + names[i];
  return list + (names.size() > most ? ", …" : "");
}

void note(const std::string& text) {
  std::fprintf(stderr, "%s: note: %s\n", program_name().c_str(), one_line(text).c_str());
}

// Opens /dev/null for each standard stream that the shell closed. Otherwise the first file that is opened would
// become standard output. Input cannot be read from it, and output cannot be written to it, so that neither is lost
// without an error.
void open_standard_streams() {
  for (const auto& [file, mode] :
       {std::pair{STDIN_FILENO, O_WRONLY}, {STDOUT_FILENO, O_RDONLY}, {STDERR_FILENO, O_RDWR}})
    if (::fcntl(file, F_GETFD) < 0) ::open("/dev/null", mode);
}

// Returns whether the reader of standard output has closed the pipe. Asks the system, because a stream records that it
// failed but not why.
bool nobody_reads() {
  pollfd output{STDOUT_FILENO, 0, 0};
  return ::poll(&output, 1, 0) == 1 && (output.revents & POLLERR) != 0;
}

void flush_output(int cause) {
  const bool flushed = std::fflush(stdout) == 0;
  if (flushed && !std::ferror(stdout)) return;
  if (!flushed) cause = errno;
  if (cause == EPIPE || nobody_reads()) throw OutputClosed();
  fail<train::RunFailed>("standard output cannot be written",
                         cause ? ": " + std::generic_category().message(cause) : std::string());
}

int run_program(const std::string& name, const std::function<void()>& work) {
  name_of_program() = name;
  if (!processor_checked()) return failed;
  open_standard_streams();
  // While these signals are ignored, a failing write returns an error instead, which is handled.
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  try {
    work();
    flush_output();
    return done;
  } catch (const OutputClosed&) {
    return done;
  } catch (const Stopped& stop) {
    note(stop.what());
    return stopped;
  } catch (const train::RunFailed& error) {
    return report(failed, error.what());
  } catch (const WriteError& error) {
    return report(failed, error.what());
  } catch (const OutOfMemory& error) {
    return report(failed, error.what());
  } catch (const CudaError& error) {
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
