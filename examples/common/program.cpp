#include "program.hpp"

#include <fcntl.h>
#include <poll.h>
#include <unistd.h>

#include <csignal>
#include <cstdio>
#include <heddle/io/write_atomically.hpp>
#include <utility>

#include "processes.hpp"
#include "processor.hpp"
#include "signals.hpp"

namespace heddle::examples {
namespace {

std::string& name_of_program() {
  static std::string name = "heddle";
  return name;
}

// How a program ended, and what it says about it.
struct Ending {
  ExitCode code = done;
  std::string text = {};  // empty: nothing
  bool is_error = true;   // otherwise a note
  bool by_first = false;  // the first process failed; it has the code and the text
};

Ending outcome_of(const std::function<void()>& work) {
  try {
    work();
    flush_output();
    return {};
  } catch (const OutputClosed&) {
    return {};
  } catch (const FirstFailed&) {
    return {.code = failed, .by_first = true};
  } catch (const Stopped& stop) {
    return {stopped, stop.what(), false};
  } catch (const train::RunFailed& error) {
    return {failed, error.what()};
  } catch (const WriteError& error) {
    return {failed, error.what()};
  } catch (const OutOfMemory& error) {
    return {failed, error.what()};
  } catch (const CudaError& error) {
    return {failed, error.what()};
  } catch (const distributed::CommunicationError& error) {
    return {failed, error.what()};
  } catch (const Error& error) {
    return {bad_input, error.what()};
  } catch (const std::bad_alloc&) {
    return {failed, "out of memory"};
  } catch (const std::exception& error) {
    return {failed, error.what()};
  }
}

void print(const Ending& ending, const std::string& prefix = "") {
  std::fflush(stdout);
  if (ending.text.empty()) return;
  std::fprintf(stderr, "%s: %s: %s%s\n", program_name().c_str(), ending.is_error ? "error" : "note", prefix.c_str(),
               one_line(ending.text).c_str());
}

// Ends one of several processes. Usually all end for the same reason, which the first one prints. If the others go on
// although this one has failed, they are ended.
int end_together(const Ending& ending) {
  constexpr double seconds = 5;  // so long, others may take to come to the same end
  const int rank = Processes::all().communicator().rank();
  if (rank == 0) print(ending);
  const std::optional<std::vector<int>> codes =
      exit_codes(ending.code, ending.code == done || ending.code == stopped ? -1 : seconds);
  const bool is_reported = rank == 0 || ending.by_first || (codes && codes->front() != done);
  if (!is_reported) print(ending, "process " + std::to_string(rank) + ": ");
  if (!codes) end_all(ending.code);
  disconnect();
  return ending.by_first ? codes->front() : ending.code;
}

// Returns how a program ends that is not made for several processes but was started as some.
Ending refuse_processes(int size) {
  return {bad_input, "this program runs as one process, but was started as " + std::to_string(size)};
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
  if (!Processes::all().is_first()) return;
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

int run_program(const std::string& name, const std::function<void()>& work, Launch launch) {
  name_of_program() = name;
  if (!processor_checked()) return failed;
  open_standard_streams();
  // While these signals are ignored, a failing write returns an error instead, which is handled.
  for (const int signal : {SIGPIPE, SIGXFSZ}) std::signal(signal, SIG_IGN);
  const distributed::Launched launched = distributed::launched();
  const Ending ending =
      launched.size > 1 && launch == Launch::alone ? refuse_processes(launched.size) : outcome_of(work);
  if (Processes::all().size() > 1) return end_together(ending);
  if (launched.rank == 0) print(ending);
  return ending.code;
}

}  // namespace heddle::examples
