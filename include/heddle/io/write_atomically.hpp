// Files are replaced, never overwritten: a temporary file beside the old one is written, synced and renamed over it.
// After a crash, on a full disk and for a concurrent reader, the file is either the whole old one or the whole new one.
#pragma once
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <optional>
#include <span>
#include <string_view>
#include <type_traits>

#include <heddle/io/file_sum.hpp>

namespace heddle {

/// The error of a file that could not be written. The old file is intact, with one exception: if only the last step
/// fails, the sync of the folder, the new file is already in place, but its name may not be durable.
struct WriteError : FileError {
  using FileError::FileError;
};

namespace io {

/// The file that write_atomically() passes to `fill`, written from beginning to end.
class OutputFile {
 public:
  /// Takes an open file descriptor; messages name the file `path`.
  OutputFile(const std::string& path, int file) : path_(path), file_(file) {}

  /// Appends the bytes. @throws WriteError if that fails.
  void write(std::span<const std::byte> bytes) {
    while (!bytes.empty()) {
      const ssize_t n = detail::retry([&] { return ::write(file_, bytes.data(), bytes.size()); });
      if (n < 0) detail::fail_file<WriteError>(path_, "cannot be written", errno);
      sum_.add(bytes.first(static_cast<std::size_t>(n)));
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  /// Appends a text. @throws WriteError if that fails.
  void write(std::string_view text) { write(std::as_bytes(std::span(text))); }

  /// Returns the size and checksum of the bytes written so far.
  FileSum sum() const { return sum_.value(); }

 private:
  const std::string& path_;
  int file_;
  detail::RunningFileSum sum_;
};

/// A function that writes the content of a file: fill(out).
template <class Fill>
concept Fills = requires(Fill fill, OutputFile& out) {
  fill(out);
};

namespace detail {

// The place of a file to be written: its folder, its name there, and the permissions of the file to be replaced.
struct Target {
  std::string folder, name;
  mode_t mode = 0;  // 0 if no file is replaced
};

// Returns the place of `path`. Follows symbolic links, so that their target is replaced; a dangling link is replaced
// itself. Throws WriteError for a write-protected file and for anything but a regular file: a rename would replace
// /dev/null.
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
                      ": is not a regular file and cannot be replaced");
  if (!exists) return target;
  if (::faccessat(AT_FDCWD, followed.c_str(), W_OK, AT_EACCESS) != 0)
    fail_file<WriteError>(path, "cannot be replaced", errno);
  target.mode = status.st_mode & 07777;
  return target;
}

inline Descriptor open_folder(const std::string& path, const std::string& named) {
  Descriptor folder(retry([&] { return ::openat(AT_FDCWD, path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC); }));
  if (folder.number() < 0) fail_file<WriteError>(named, "its folder cannot be opened", errno);
  return folder;
}

// Makes the names in an open folder durable. Some network file systems cannot sync a folder and return EINVAL.
inline void sync_folder(const Descriptor& folder, const std::string& named) {
  if (retry([&] { return ::fsync(folder.number()); }) != 0 && errno != EINVAL)
    fail_file<WriteError>(named, "its folder cannot be written to the disk", errno);
}

// Calls create(name) with names NAME.PID-N.tmp beside the target until it does not fail with EEXIST, and returns the
// last name.
template <class Create>
std::string temporary_name(const Target& target, Create&& create) {
  for (int n = 0;; ++n) {
    std::string name = target.name + '.' + std::to_string(::getpid()) + '-' + std::to_string(n) + ".tmp";
    if (create(name.c_str()) != -1 || errno != EEXIST) return name;
  }
}

struct Temporary {
  Descriptor file;
  std::string name;
};

// Creates a temporary file beside the target.
inline Temporary create_temporary(const std::string& path, int folder, const Target& target) {
  constexpr int flags = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  constexpr mode_t everybody = 0666;  // less the umask
  const mode_t mode = target.mode != 0 ? target.mode : everybody;
  int file = -1;
  std::string name = temporary_name(
      target, [&](const char* free) { return file = retry([&] { return ::openat(folder, free, flags, mode); }); });
  if (file < 0) fail_file<WriteError>(path, "no file can be created beside it", errno);
  return {Descriptor(file), std::move(name)};
}

template <class Fill>
FileSum replace_file(const std::string& path, Fill&& fill) {
  const Target target = find_target(path);
  const Descriptor folder = open_folder(target.folder, path);
  Temporary temporary = create_temporary(path, folder.number(), target);
  const int file = temporary.file.number();
  const auto check = [&](int result, const char* what) {
    if (result != 0) fail_file<WriteError>(path, what, errno);
  };
  OutputFile out(path, file);
  try {
    fill(out);
    // Restores the permissions that the umask removed. A file system without permissions refuses this, which
    // does no harm.
    if (target.mode != 0) (void)::fchmod(file, target.mode);
    check(retry([&] { return ::fsync(file); }), "cannot be written to the disk");
    // close() is never repeated: on Linux the file is closed even if close() fails or a signal interrupts it.
    check(::close(temporary.file.release()) != 0 && errno != EINTR ? -1 : 0, "cannot be closed");
    check(::renameat2(folder.number(), temporary.name.c_str(), folder.number(), target.name.c_str(), 0),
          "cannot be replaced");
  } catch (...) {
    ::unlinkat(folder.number(), temporary.name.c_str(), 0);
    throw;
  }
  sync_folder(folder, path);
  return out.sum();
}

// Gives the file `from` the second name `to`. Returns false if no link can be made, or if it would change the
// permissions of `to`.
inline bool replace_by_link(const std::string& from, const std::string& to) {
  const Target target = find_target(to);
  struct stat source {};
  if (::stat(from.c_str(), &source) != 0 || (target.mode != 0 && target.mode != (source.st_mode & 07777))) return false;
  const Descriptor folder = open_folder(target.folder, to);
  int linked = -1;
  const std::string temporary = temporary_name(target, [&](const char* free) {
    return linked = ::linkat(AT_FDCWD, from.c_str(), folder.number(), free, AT_SYMLINK_FOLLOW);
  });
  if (linked != 0) return false;
  const int renamed = ::renameat2(folder.number(), temporary.c_str(), folder.number(), target.name.c_str(), 0);
  const int cause = errno;
  ::unlinkat(folder.number(), temporary.c_str(), 0);  // a rename between two names of one file leaves both
  if (renamed != 0) fail_file<WriteError>(to, "cannot be replaced", cause);
  sync_folder(folder, to);
  return true;
}

}  // namespace detail

/// Returns true for the name of a temporary file, which a killed program may have left behind.
inline bool is_leftover(std::string_view name) {
  constexpr std::string_view end = ".tmp", part = "0123456789-";
  if (!name.ends_with(end)) return false;
  name.remove_suffix(end.size());
  const std::size_t dot = name.rfind('.');
  return dot != std::string_view::npos && dot + 1 < name.size() &&
         name.find_first_not_of(part, dot + 1) == std::string_view::npos;
}

/// Removes the temporary files that killed programs left of these files of a folder. What cannot be removed stays.
inline void remove_leftovers(const std::string& folder, std::span<const char* const> files) {
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator(folder, error)) {
    const std::string name = entry.path().filename().string();
    for (const char* const file : files)
      if (name.starts_with(std::string(file) + '.') && is_leftover(name)) std::filesystem::remove(entry.path(), error);
  }
}

/// Creates a folder unless a folder or file of this name exists. @throws WriteError if it cannot be created.
inline void make_folder(const std::string& path) {
  constexpr mode_t everybody = 0777;  // less the umask
  if (detail::retry([&] { return ::mkdir(path.c_str(), everybody); }) != 0 && errno != EEXIST)
    detail::fail_file<WriteError>(path, "the folder cannot be made", errno);
}

/// Replaces the file by the output of fill(OutputFile&), and returns its size and checksum. If anything fails, the
/// temporary file is removed. @throws WriteError with the file and the cause, OutOfMemory with the file, and exceptions
/// of `fill`.
template <Fills Fill>
FileSum write_atomically(const std::string& path, Fill&& fill) {
  return detail::with_memory_for(path, "written", [&] { return detail::replace_file(path, fill); });
}

/// Replaces the content of the file with these bytes, and returns its size and checksum. @throws WriteError and
/// OutOfMemory as above.
inline FileSum write_atomically(const std::string& path, std::string_view bytes) {
  return write_atomically(path, [&](OutputFile& out) { out.write(bytes); });
}

/// Replaces the file `to` by a copy of `from`. @throws FileError if `from` cannot be read, otherwise as
/// write_atomically().
inline FileSum copy_file(const std::string& from, const std::string& to) {
  return write_atomically(to, [&](OutputFile& out) {
    detail::for_each_part(from, [&](std::span<const std::byte> bytes) { out.write(bytes); });
  });
}

/// Replaces the file `to` by a hard link to `from`, a file that write_atomically() wrote. Returns false and changes
/// nothing if that is not possible: the file system has no links, `from` does not exist, or the files differ in their
/// permissions. @throws WriteError as write_atomically() does.
[[nodiscard]] inline bool link_file(const std::string& from, const std::string& to) {
  return detail::with_memory_for(to, "written", [&] { return detail::replace_by_link(from, to); });
}

}  // namespace io
}  // namespace heddle
