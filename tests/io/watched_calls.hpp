// System calls that fail on purpose: the Calls of write_atomically and of all that saves by it.
#pragma once
#include <heddle/io/write_atomically.hpp>
#include <string>

namespace heddle::testing {

// The system's calls, written down; number `failing` fails with `error`, or ends the process where that is 0, and no write takes more
// than `most` bytes. On request the file system knows plain renames only.
struct Watched {
  inline static std::string calls;
  inline static int count, failing, error;
  inline static std::size_t most;
  inline static bool plain_renames;

  static void reset(int failing_call, int with) {
    calls.clear();
    count = 0;
    failing = failing_call;
    error = with;
    most = 1 << 20;
    plain_renames = false;
  }
  static bool fails(const char* call) {
    calls += call;
    if (count++ != failing) return false;
    if (error == 0) ::_exit(0);
    errno = error;
    return true;
  }

  using Real = io::SystemCalls;
  static int open(int folder, const char* name, int flags, mode_t mode) {
    return fails("open ") ? -1 : Real::open(folder, name, flags, mode);
  }
  static ssize_t write(int file, const void* from, std::size_t size) {
    return fails("write ") ? -1 : Real::write(file, from, std::min(size, most));
  }
  static int fsync(int file) { return fails("fsync ") ? -1 : Real::fsync(file); }
  static int close(int file) {
    const bool failed = fails("close ");
    return Real::close(file) != 0 || failed ? -1 : 0;
  }
  static int rename(int folder, const char* from, const char* to, unsigned flags = 0) {
    if (fails("rename ")) return -1;
    if (!plain_renames || flags == 0) return Real::rename(folder, from, to, flags);
    errno = EINVAL;
    return -1;
  }
  static int mkdir(const char* path, mode_t mode) { return fails("mkdir ") ? -1 : Real::mkdir(path, mode); }
};

}  // namespace heddle::testing
