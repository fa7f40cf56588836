// Functions that read files, and helpers for reading and writing: they check names, repeat calls that a signal
// interrupts, and throw errors that name the file and the cause. POSIX only.
#pragma once
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <new>
#include <string>
#include <system_error>
#include <utility>

#include <heddle/base/error.hpp>
#include <heddle/base/printable.hpp>

namespace heddle::io {
namespace detail {

template <class E>
[[noreturn]] void fail_file(const std::string& path, const char* what, int cause) {
  fail<E>(printable(path), ": ", what, ": ", std::generic_category().message(cause));
}

// Throws FileError if `path` exists and is not a regular file: opening a pipe without a writer would block.
inline void require_regular_if_exists(const std::string& path) {
  struct stat status {};
  require<FileError>(::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode), printable(path),
                     ": is not a regular file");
}

template <class E>
void check_path(const std::string& path) {
  require<E>(!path.empty(), "a file name is empty; give a path");
  require<E>(path.find('\0') == std::string::npos, printable(path), ": the name of this file contains a NUL byte");
}

template <class Call>
auto retry(Call call) {
  for (;;)
    if (const auto result = call(); result != -1 || errno != EINTR) return result;
}

// Calls f. If memory runs out, the error names the file and `done`: "read" or "written".
template <class F>
auto with_memory_for(const std::string& path, const char* done, F&& f) {
  try {
    return f();
  } catch (const std::bad_alloc&) {
    fail<OutOfMemory>(printable(path), ": out of memory while the file was ", done);
  }
}

class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(Descriptor&& from) noexcept : number_(std::exchange(from.number_, -1)) {}
  Descriptor& operator=(Descriptor&& from) noexcept {
    std::swap(number_, from.number_);
    return *this;
  }
  ~Descriptor() {
    if (number_ >= 0) ::close(number_);
  }
  int number() const { return number_; }
  int release() { return std::exchange(number_, -1); }

 private:
  int number_;
};

}  // namespace detail

/// Returns whether there is a file or folder of this name.
inline bool path_exists(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0;
}
/// Returns whether there is a folder of this name.
inline bool is_folder(const std::string& path) {
  struct stat status {};
  return ::stat(path.c_str(), &status) == 0 && S_ISDIR(status.st_mode);
}

/// A file that is open for reading. @throws FileError that names the file and the cause.
class InputFile {
 public:
  /// Opens a file. @throws FileError if there is none, it cannot be read, or it is a folder.
  explicit InputFile(const std::string& path) : path_(path), file_(open(path)) {
    struct stat status {};
    if (::fstat(file_.number(), &status) != 0) detail::fail_file<FileError>(path, "cannot be read", errno);
    require<FileError>(!S_ISDIR(status.st_mode), printable(path), ": is a folder, not a file");
    regular_ = S_ISREG(status.st_mode);
    size_ = regular_ ? static_cast<std::size_t>(status.st_size) : 0;
  }

  bool is_regular() const { return regular_; }  ///< whether it is a regular file, not a pipe or a device
  std::size_t size() const { return size_; }  ///< size in bytes when it was opened; 0 for a pipe and for files in /proc

  /// Reads the next `count` bytes and returns the number of bytes read, which is smaller only at the end of the file.
  std::size_t read(void* to, std::size_t count) {
    return read_all(
        count, [&](std::size_t done) { return ::read(file_.number(), static_cast<char*>(to) + done, count - done); });
  }

  /// Reads `count` bytes starting at `offset` and returns the number of bytes read. Does not move the position of
  /// read(). May be called by several threads at once.
  std::size_t read_at(std::size_t offset, void* to, std::size_t count) const {
    return read_all(count, [&](std::size_t done) {
      return ::pread(file_.number(), static_cast<char*>(to) + done, count - done, static_cast<off_t>(offset + done));
    });
  }

 private:
  // Calls `call` with the number of bytes read so far, until `count` bytes are read or the file ends.
  template <class Call>
  std::size_t read_all(std::size_t count, Call call) const {
    std::size_t done = 0;
    while (done < count) {
      const ssize_t n = detail::retry([&] { return call(done); });
      if (n < 0) detail::fail_file<FileError>(path_, "cannot be read", errno);
      if (n == 0) break;
      done += static_cast<std::size_t>(n);
    }
    return done;
  }
  static int open(const std::string& path) {
    detail::check_path<FileError>(path);
    const int number = detail::retry([&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC); });
    if (number < 0) detail::fail_file<FileError>(path, "cannot be opened", errno);
    return number;
  }

  std::string path_;
  detail::Descriptor file_;
  bool regular_ = false;
  std::size_t size_ = 0;
};

/// Returns all bytes of a file. The size of the file is only a first estimate: a file may grow in the meantime, and a
/// pipe has no size. @throws FileError if the file cannot be read, or if a pipe or device gives more than about 1 GiB;
/// OutOfMemory that names the file.
inline std::string read_file(const std::string& path) {
  constexpr std::size_t pipe_limit = std::size_t{1} << 30;  // a device such as /dev/zero never ends
  constexpr std::size_t first_step = 1 << 16;
  return detail::with_memory_for(path, "read", [&] {
    InputFile file(path);
    std::string bytes;
    for (std::size_t step = file.size() + 1;; step = std::max(bytes.size(), first_step)) {
      const std::size_t before = bytes.size();
      bytes.resize(before + step);
      bytes.resize(before + file.read(bytes.data() + before, step));
      if (bytes.size() < before + step) return bytes;
      require<FileError>(file.is_regular() || bytes.size() <= pipe_limit, printable(path),
                         ": is not a regular file, and gave more than ", pipe_limit, " bytes");
    }
  });
}

}  // namespace heddle::io
