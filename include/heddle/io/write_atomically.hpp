// A file is replaced, never overwritten: a temporary file beside it is written, synced and renamed over it, so that a
// crash, a full disk or a reader meanwhile meets the old file or the new one, whole.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>

#include <heddle/base/file.hpp>

namespace heddle {

// A file could not be written. What stood at its place stands there still (or the new file does, when only the last
// step failed: making the folder's entry durable).
struct WriteError : FileError {
  using FileError::FileError;
};

namespace io {

// The calls that may fail while a file is written. Tests pass calls of their own that fail on purpose.
struct SystemCalls {
  static int open(int folder, const char* name, int flags, mode_t mode) { return ::openat(folder, name, flags, mode); }
  static ssize_t write(int file, const void* from, std::size_t count) { return ::write(file, from, count); }
  static int fsync(int file) { return ::fsync(file); }
  static int close(int file) { return ::close(file); }
  static int rename(int folder, const char* from, const char* to, unsigned flags = 0) {
    return ::renameat2(folder, from, folder, to, flags);
  }
  static int mkdir(const char* path, mode_t mode) { return ::mkdir(path, mode); }
};

// What write_atomically hands out to be filled, in order.
template <class Calls = SystemCalls>
class OutputFile {
 public:
  OutputFile(const std::string& path, int file) : path_(path), file_(file) {}

  // All bytes, in as many calls as it takes. Throws WriteError.
  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = detail::retry([&] { return Calls::write(file_, bytes.data(), bytes.size()); });
      if (n < 0) detail::fail_file<WriteError>(path_, "cannot be written", errno);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  // The same.
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

 private:
  const std::string& path_;
  int file_;
};

template <class Fill, class Calls>
concept Fills = requires(Fill fill, OutputFile<Calls>& out) {
  fill(out);
};

namespace detail {

// Where a file is to be written: its folder, its name there, and the permissions of the file to be replaced.
struct Target {
  std::string folder, name;
  mode_t mode = 0;  // 0: there is no file yet
};

// Follows symbolic links, so that the file they lead to is replaced and not the link; one that leads nowhere is replaced
// itself. Refuses to replace what is no
// regular file (a rename would put a file in the place of /dev/null) and what is write-protected.
inline Target find_target(const std::string& path) {
  check_path<WriteError>(path);
  const std::unique_ptr<char, decltype(&std::free)> real(::realpath(path.c_str(), nullptr), &std::free);
  const std::string followed = real ? real.get() : path;
  const std::size_t slash = followed.rfind('/');
  Target target{slash == std::string::npos ? "." : followed.substr(0, slash + 1), followed.substr(slash + 1)};
  struct stat status {};
  const bool exists = ::stat(followed.c_str(), &status) == 0;
  require<WriteError>(!target.name.empty() && !(exists && S_ISDIR(status.st_mode)), printable(path),
                      ": is a folder, not a file");
  require<WriteError>(!exists || S_ISREG(status.st_mode), printable(path),
                      ": is no regular file and cannot be replaced");
  if (!exists) return target;
  if (::faccessat(AT_FDCWD, followed.c_str(), W_OK, AT_EACCESS) != 0)
    fail_file<WriteError>(path, "cannot be replaced", errno);
  target.mode = status.st_mode & 07777;
  return target;
}

template <class Calls>
Descriptor open_folder(const std::string& path, const std::string& named) {
  Descriptor folder(retry([&] { return Calls::open(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0); }));
  if (folder.number() < 0) fail_file<WriteError>(named, "its folder cannot be opened", errno);
  return folder;
}

// Makes the names in an open folder durable. Some network file systems cannot sync a folder and say EINVAL.
template <class Calls>
void sync_folder(const Descriptor& folder, const std::string& named) {
  if (retry([&] { return Calls::fsync(folder.number()); }) != 0 && errno != EINVAL)
    fail_file<WriteError>(named, "its folder cannot be written to the disk", errno);
}

struct Temporary {
  Descriptor file;
  std::string name;
};

// Creates a file beside the target under a name that nothing has yet: NAME.PID-N.tmp.
template <class Calls>
Temporary create_temporary(const std::string& path, int folder, const Target& target) {
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  constexpr mode_t everybody = 0666;  // less the umask
  const mode_t mode = target.mode != 0 ? target.mode : everybody;
  for (int n = 0;; ++n) {
    std::string name = target.name + '.' + std::to_string(::getpid()) + '-' + std::to_string(n) + ".tmp";
    const int file = retry([&] { return Calls::open(folder, name.c_str(), flags, mode); });
    if (file >= 0) return {Descriptor(file), std::move(name)};
    if (errno != EEXIST) fail_file<WriteError>(path, "no file can be created beside it", errno);
  }
}

template <class Calls, class Fill>
void replace_file(const std::string& path, Fill&& fill) {
  const Target target = find_target(path);
  const Descriptor folder = open_folder<Calls>(target.folder, path);
  Temporary temporary = create_temporary<Calls>(path, folder.number(), target);
  const int file = temporary.file.number();
  const auto check = [&](int result, const char* what) {
    if (result != 0) fail_file<WriteError>(path, what, errno);
  };
  try {
    OutputFile<Calls> out(path, file);
    fill(out);
    // Undoes the umask. A file system without permissions refuses, where nothing is lost by it.
    if (target.mode != 0) (void)::fchmod(file, target.mode);
    check(retry([&] { return Calls::fsync(file); }), "cannot be written to the disk");
    // Closed also when it fails, and on Linux when a signal interrupts it: never to be repeated.
    check(Calls::close(temporary.file.release()) != 0 && errno != EINTR ? -1 : 0, "cannot be closed");
    check(Calls::rename(folder.number(), temporary.name.c_str(), target.name.c_str()), "cannot be replaced");
  } catch (...) {
    ::unlinkat(folder.number(), temporary.name.c_str(), 0);
    throw;
  }
  sync_folder<Calls>(folder, path);
}

}  // namespace detail

// Whether a file of this name is one that a killed program was writing, and nobody's now.
inline bool is_leftover(std::string_view name) {
  constexpr std::string_view end = ".tmp", part = "0123456789-";
  if (!name.ends_with(end)) return false;
  name.remove_suffix(end.size());
  const std::size_t dot = name.rfind('.');
  return dot != std::string_view::npos && dot + 1 < name.size() &&
         name.find_first_not_of(part, dot + 1) == std::string_view::npos;
}

// Creates a folder, unless it is there. Throws WriteError.
template <class Calls = SystemCalls>
void make_folder(const std::string& path) {
  constexpr mode_t everybody = 0777;  // less the umask
  if (detail::retry([&] { return Calls::mkdir(path.c_str(), everybody); }) != 0 && errno != EEXIST)
    detail::fail_file<WriteError>(path, "the folder cannot be made", errno);
}

// Replaces the file by what fill(OutputFile&) writes. Throws WriteError (a FileError) that names the file and the
// cause, OutOfMemory that names the file, and passes on what else `fill` throws; the temporary file is removed then.
template <class Calls = SystemCalls, Fills<Calls> Fill>
void write_atomically(const std::string& path, Fill&& fill) {
  detail::with_memory_for(path, "written", [&] { detail::replace_file<Calls>(path, fill); });
}

// By these bytes.
template <class Calls = SystemCalls>
void write_atomically(const std::string& path, std::string_view bytes) {
  write_atomically<Calls>(path, [&](OutputFile<Calls>& out) { out.write(bytes); });
}

}  // namespace io
}  // namespace heddle
