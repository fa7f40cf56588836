// The parts that every program has: error messages, notes and exit codes.
#pragma once
#include <functional>
#include <string>

#include <heddle/train/run_failed.hpp>

namespace heddle::examples {

enum ExitCode { done = 0, failed = 1, bad_input = 2, stopped = 3 };

// The end of a program, without a message, because the reader of standard output has closed the pipe. Exit code 0.
struct OutputClosed {};
// Flushes standard output. Throws OutputClosed if its reader has closed the pipe, and train::RunFailed if it cannot be
// written. `cause` is the errno of an earlier write that failed.
void flush_output(int cause = 0);

// Whether mpirun may start a program several times.
enum class Launch { alone, together };

// Runs `work` and converts an exception into one line on standard error and an exit code: 1 for train::RunFailed,
// WriteError, CudaError, OutOfMemory, CommunicationError, std::bad_alloc and unexpected exceptions; 2 for other errors
// of heddle, which are caused by the input; 3 for Stopped (signals.hpp). Of several processes that fail for the same
// reason, one prints it; if one fails alone, it ends the others.
int run_program(const std::string& name, const std::function<void()>& work, Launch launch = Launch::alone);

// Prints one line on standard error, such as `sst2: note: …`. Only the first of several processes prints it.
void note(const std::string& text);
// Returns the first twelve names of a list for a message, separated by commas.
std::string shortened(const std::vector<std::string>& names);

// Returns the name that errors and notes begin with.
const std::string& program_name();

// Returns the text in one line, of at most 16 KiB: "; " replaces line feeds; other control characters and invalid UTF-8
// are escaped.
std::string one_line(const std::string& text);

}  // namespace heddle::examples
