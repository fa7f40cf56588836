#include "io/watched_calls.hpp"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdarg>
#include <heddle/base/error.hpp>

namespace heddle::testing {
namespace {

struct Watch {
  CallRules rules;
  int count = 0;
  std::string names;
};
Watch watch;
bool is_watching = false;

// Records the call. Returns whether it must fail, and then sets errno; if the rules' error is 0, ends the process
// instead.
bool fails(const char* name) {
  if (!is_watching) return false;
  watch.names += name;
  watch.names += ' ';
  if (watch.count++ != watch.rules.failing) return false;
  if (watch.rules.error == 0) ::_exit(0);
  errno = watch.rules.error;
  return true;
}

bool is_written(int file) {
  const int flags = ::fcntl(file, F_GETFL);
  return flags != -1 && (flags & O_ACCMODE) == O_WRONLY;
}

}  // namespace

WatchedCalls::WatchedCalls(const CallRules& rules) {
  require(!is_watching, "tests: calls are watched already");
  watch = {rules, 0, {}};
  is_watching = true;
}
WatchedCalls::~WatchedCalls() { is_watching = false; }
int WatchedCalls::count() const { return watch.count; }
const std::string& WatchedCalls::names() const { return watch.names; }

// The linker sends the calls of this program to __wrap_NAME, and __real_NAME to the C library.
extern "C" {

int __real_openat(int folder, const char* name, int flags, ...);
ssize_t __real_write(int file, const void* from, std::size_t size);
int __real_fsync(int file);
int __real_close(int file);
int __real_linkat(int from_folder, const char* from, int to_folder, const char* to, int flags);
int __real_renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags);
int __real_mkdir(const char* path, mode_t mode);

int __wrap_openat(int folder, const char* name, int flags, ...) {
  mode_t mode = 0;
  if (flags & O_CREAT) {
    va_list rest;
    va_start(rest, flags);
    mode = va_arg(rest, mode_t);
    va_end(rest);
  }
  return fails("open") ? -1 : __real_openat(folder, name, flags, mode);
}
ssize_t __wrap_write(int file, const void* from, std::size_t size) {
  if (!is_watching) return __real_write(file, from, size);
  return fails("write") ? -1 : __real_write(file, from, std::min(size, watch.rules.longest_write));
}
int __wrap_fsync(int file) { return fails("fsync") ? -1 : __real_fsync(file); }
int __wrap_close(int file) {
  const bool failed = is_watching && is_written(file) && fails("close");
  const int result = __real_close(file);
  if (failed) errno = watch.rules.error;
  return failed ? -1 : result;
}
int __wrap_linkat(int from_folder, const char* from, int to_folder, const char* to, int flags) {
  return fails("link") ? -1 : __real_linkat(from_folder, from, to_folder, to, flags);
}
int __wrap_renameat2(int from_folder, const char* from, int to_folder, const char* to, unsigned flags) {
  if (fails("rename")) return -1;
  if (!is_watching || !watch.rules.plain_renames || flags == 0)
    return __real_renameat2(from_folder, from, to_folder, to, flags);
  errno = EINVAL;
  return -1;
}
int __wrap_mkdir(const char* path, mode_t mode) { return fails("mkdir") ? -1 : __real_mkdir(path, mode); }

}  // extern "C"

}  // namespace heddle::testing
