// A folder of checkpoints. Each is a folder of files that is renamed into place after everything in it was synced, and
// is checked to the last bit before it is used. The one before the newest is kept in case the newest is damaged.
#pragma once
#include <dirent.h>

#include <functional>
#include <optional>
#include <vector>

#include <heddle/io/checkpoint_manifest.hpp>
#include <heddle/io/write_atomically.hpp>

namespace heddle::io {

/// A checkpoint whose files are intact.
struct Checkpoint {
  std::string folder;           ///< the path of its folder
  CheckpointManifest manifest;  ///< its number, files and state

  /// Returns whether the checkpoint holds a file of this name.
  bool has(const std::string& name) const { return manifest.files.count(name) > 0; }
  /// Returns the path of a file of the checkpoint.
  std::string file(const std::string& name) const { return folder + '/' + name; }
};

/// A folder of checkpoints. Only one process at a time may use it: the caller holds a lock.
class Checkpoints {
 public:
  /// Takes the folder's path; the folder is made when the first checkpoint is written.
  explicit Checkpoints(std::string folder) : folder_(std::move(folder)) {}

  /// Returns the intact checkpoint with the highest number, or nothing if there are no checkpoints. Calls
  /// damaged(sentence) for each damaged one with a higher number. @throws FileError for a folder or checkpoint that
  /// this user may not read, and if there are checkpoints but none is intact: starting from the beginning is the user's
  /// decision.
  std::optional<Checkpoint> newest(const std::function<void(const std::string&)>& damaged) {
    restore();
    std::vector<std::string> names = entries(is_number);
    std::sort(names.rbegin(), names.rend());
    for (auto name = names.begin(); name != names.end(); ++name) try {
        Checkpoint found = open(folder_ + '/' + *name);
        kept_ = {*name, name + 1 == names.end() ? "" : *(name + 1)};
        return found;
      } catch (const FileError& error) {
        require_readable(folder_ + '/' + *name);
        damaged(error.what());
      }
    require<FileError>(names.empty(), printable(folder_),
                       ": none of its checkpoints can be used; remove them to start from the beginning");
    return std::nullopt;
  }

  /// Saves checkpoint `number` with the caller's state, one JSON value; replaces a checkpoint of the same number.
  /// fill(folder) writes the files into a temporary folder, syncs them as write_atomically() does, and returns the
  /// FileSum of each by name. The folder is renamed once everything is on the disk. Removes all checkpoints except this
  /// one and the one that was saved or read before. Returns the checkpoint's folder. @throws WriteError, OutOfMemory,
  /// exceptions of `fill`, FileError for files whose names or sizes differ from those that `fill` returned and for a
  /// manifest that write_manifest() refuses, and Error for a number outside [0, 10^12). The older checkpoints are then
  /// intact.
  template <class Fill>
  std::string save(std::int64_t number, const std::string& state, Fill&& fill) {
    return detail::with_memory_for(folder_, "written", [&] { return save_named(digits(number), number, state, fill); });
  }

  /// Removes the remains of a killed save. @throws FileError if the folder cannot be read.
  void clean() {
    restore();
    for (const std::string& name :
         entries([](const std::string& n) { return n.ends_with(draft_suffix) || is_aside(n); }))
      remove(name);
  }

 private:
  static constexpr const char* draft_suffix = ".tmp";
  static constexpr const char* aside_suffix = ".old";  // a checkpoint that is being replaced
  static constexpr const char* manifest_name = "manifest.json";
  static constexpr std::size_t width = 12;  // digits of a number, so that names sort by number

  static std::string digits(std::int64_t number) {
    require(number >= 0 && number < 1'000'000'000'000, "the number of a checkpoint must be from 0 to 10^12 - 1, got ",
            number);
    const std::string text = std::to_string(number);
    return std::string(width - text.size(), '0') + text;
  }
  static bool is_number(const std::string& name) {
    return name.size() == width && name.find_first_not_of("0123456789") == std::string::npos;
  }

  static bool is_aside(const std::string& name) {
    return name.ends_with(aside_suffix) && is_number(name.substr(0, name.rfind('.')));
  }

  // Restores a checkpoint that a killed save had set aside, unless its successor is complete.
  void restore() const {
    for (const std::string& name : entries(is_aside)) {
      const std::string aside = folder_ + '/' + name, place = aside.substr(0, aside.rfind('.'));
      struct stat status {};
      if (::lstat(place.c_str(), &status) != 0) (void)std::rename(aside.c_str(), place.c_str());
    }
  }

  template <class Fill>
  std::string save_named(const std::string& name, std::int64_t number, const std::string& state, Fill&& fill) {
    std::string folder = folder_ + '/' + name;
    const std::string draft = folder + draft_suffix;
    make_folder(folder_);
    restore();
    remove(name + draft_suffix);
    try {
      make_folder(draft);
      const FileSums files = fill(draft);
      require_files(draft, files);
      // The manifest is written last: the sync of its folder also makes the names of the other files durable.
      const std::string manifest = draft + '/' + manifest_name;
      write_atomically(manifest, write_manifest(number, files, state, printable(manifest)));
      put_in_place(draft, folder);
    } catch (...) {
      remove(name + draft_suffix);
      throw;
    }
    detail::sync_folder(detail::open_folder(folder_, folder_), folder_);
    if (name != kept_.first) kept_ = {name, kept_.first};
    for (const std::string& other : entries(is_number))
      if (other != kept_.first && other != kept_.second) remove(other);
    for (const char* suffix : {draft_suffix, aside_suffix}) remove(name + suffix);  // also the replaced checkpoint
    return folder;
  }

  // Renames the draft to `place`. A checkpoint of the same number is exchanged for the draft in one step if the file
  // system supports that; otherwise it is set aside first.
  void put_in_place(const std::string& draft, const std::string& place) const {
    const auto rename = [](const std::string& from, const std::string& to, unsigned flags) {
      return detail::retry([&] { return ::renameat2(AT_FDCWD, from.c_str(), AT_FDCWD, to.c_str(), flags); });
    };
    if (rename(draft, place, RENAME_NOREPLACE) == 0) return;
    if (errno == EEXIST && rename(draft, place, RENAME_EXCHANGE) == 0) return;
    if (errno == EINVAL || errno == ENOSYS) {
      const std::string aside = place + aside_suffix;
      remove(aside.substr(aside.rfind('/') + 1));
      if ((rename(place, aside, 0) == 0 || errno == ENOENT) && rename(draft, place, 0) == 0) return;
      const int cause = errno;
      restore();
      errno = cause;
    }
    detail::fail_file<WriteError>(place, "cannot be put in place", errno);
  }

  // Checks that the folder holds these files and nothing else, without reading them.
  static void require_files(const std::string& folder, const FileSums& files) {
    const auto all = [](const std::string&) { return true; };
    const std::vector<std::string> names = Checkpoints(folder).entries(all);
    for (const std::string& name : names) {
      struct stat status {};
      const std::string path = folder + '/' + name;
      require<FileError>(::lstat(path.c_str(), &status) == 0 && S_ISREG(status.st_mode), printable(path),
                         ": is not a regular file, and a checkpoint holds nothing else");
      const auto sum = files.find(name);
      require<FileError>(sum != files.end(), printable(path),
                         ": has no checksum among those of the checkpoint's files");
      require_size(path, static_cast<std::uint64_t>(status.st_size), sum->second);
    }
    for (const auto& [name, sum] : files)
      require<FileError>(std::find(names.begin(), names.end(), name) != names.end(), printable(folder + '/' + name),
                         ": has a checksum, but was not written");
  }

  static void require_size(const std::string& path, std::uint64_t bytes, const FileSum& sum) {
    require<FileError>(bytes == sum.bytes, printable(path), ": has ", bytes, " bytes instead of ", sum.bytes);
  }

  // Throws for a checkpoint that this user may not read. It is not damaged; if it were skipped, the next saves would
  // remove it.
  static void require_readable(const std::string& folder) {
    const auto all = [](const std::string&) { return true; };
    for (const std::string& name : Checkpoints(folder).entries(all))
      if (::access((folder + '/' + name).c_str(), R_OK) != 0 && errno == EACCES)
        detail::fail_file<FileError>(folder + '/' + name, "cannot be read", EACCES);
  }

  static Checkpoint open(const std::string& folder) {
    const std::string file = folder + '/' + manifest_name;
    detail::require_regular_if_exists(file);
    Checkpoint found{folder, read_manifest(read_file(file), printable(file))};
    for (const auto& [name, sum] : found.manifest.files) {
      detail::require_regular_if_exists(found.file(name));
      const FileSum there = sum_of_file(found.file(name));
      require_size(found.file(name), there.bytes, sum);
      require<FileError>(there.crc64 == sum.crc64, printable(found.file(name)), ": is damaged: its checksum is wrong");
    }
    return found;
  }

  // Returns the names in the folder for which wanted(name) is true. Does not use std::filesystem, because libstdc++'s
  // directory iterators end the program if memory runs out.
  template <class Wanted>
  std::vector<std::string> entries(Wanted wanted) const {
    std::vector<std::string> names;
    const std::unique_ptr<DIR, int (*)(DIR*)> folder(::opendir(folder_.c_str()), &::closedir);
    if (!folder && errno != ENOENT) detail::fail_file<FileError>(folder_, "the folder cannot be read", errno);
    while (const dirent* const entry = folder ? ::readdir(folder.get()) : nullptr)
      if (std::string name = entry->d_name; name != "." && name != ".." && wanted(name))
        names.push_back(std::move(name));
    return names;
  }

  // Removes a folder and its content, as far as possible.
  void remove(const std::string& name) const noexcept {
    try {
      const std::string gone = folder_ + '/' + name;
      if (::unlink(gone.c_str()) == 0) return;  // a file or a link, which is not followed
      const Checkpoints inside(gone);
      for (const std::string& entry : inside.entries([](const std::string&) { return true; })) inside.remove(entry);
      ::rmdir(gone.c_str());
    } catch (const std::exception&) {
    }
  }

  std::string folder_;
  std::pair<std::string, std::string> kept_;  // the checkpoint that was saved or read last, and the one before it
};

}  // namespace heddle::io
