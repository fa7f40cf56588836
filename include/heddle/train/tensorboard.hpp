// Event files for TensorBoard: scalars, images, histograms and texts of a run, and their continuation after a crash.
#pragma once
#include <dirent.h>

#include <chrono>
#include <cstdio>
#include <ctime>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/io/write_atomically.hpp>
#include <heddle/train/event_record.hpp>
#include <heddle/train/image.hpp>
#include <heddle/train/png.hpp>

namespace heddle::train {

/// The end of a run's event files. A checkpoint stores it, so that a resumed run continues them.
struct EventPosition {
  /// One event file.
  struct File {
    std::string name;  ///< without its folder
    Index bytes;       ///< its size
    /// Returns whether name and size are equal.
    friend bool operator==(const File&, const File&) = default;
  };
  std::vector<File> files;  ///< in the order of their names
  /// Returns whether both list the same files in the same order.
  friend bool operator==(const EventPosition&, const EventPosition&) = default;
};

namespace detail {

inline constexpr std::string_view event_file_prefix = "events.out.tfevents.", event_file_suffix = ".heddle";
inline constexpr int second_digits = 10;  // TensorBoard reads files in name order; ten digits last until 2286

// Returns true for the names that EventWriter gives its files: events.out.tfevents.SECONDS.HOST.PID.N.heddle.
inline bool is_event_file_name(std::string_view name) {
  constexpr std::string_view digits = "0123456789";
  constexpr std::string_view letters = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-.";
  if (!name.starts_with(event_file_prefix)) return false;
  name.remove_prefix(event_file_prefix.size());
  return name.find_first_not_of(digits) == second_digits && name.ends_with(event_file_suffix) &&
         name[second_digits] == '.' && name.find_first_not_of(letters) == std::string_view::npos;
}

inline Index seconds_of_event_file(const std::string& name) {
  return std::stoll(name.substr(event_file_prefix.size(), second_digits));
}

// Returns the name of this computer, with '-' in place of each character that is not a letter or digit.
inline std::string host_name() {
  constexpr std::size_t longest = 64;
  std::array<char, longest + 1> name{};
  if (::gethostname(name.data(), longest) != 0 || name[0] == '\0') return "host";
  std::string host = name.data();
  for (char& c : host)
    if (!((c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z'))) c = '-';
  return host;
}

inline double seconds_since_1970() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

// A folder with event files. Its functions throw WriteError with the file and the cause.
class EventFolder {
 public:
  // Opens the folder. Creates it and its parent folders if they do not exist.
  explicit EventFolder(const std::string& path) : path_(path), folder_(open(path)) {}

  std::string path_of(const std::string& name) const { return path_ + '/' + name; }

  // Returns the names of all files that an EventWriter has created in the folder.
  std::set<std::string> names() const {
    io::detail::Descriptor file(io::detail::retry([&] { return ::openat(folder_.number(), ".", read_flags); }));
    const std::unique_ptr<DIR, int (*)(DIR*)> entries(file.number() < 0 ? nullptr : ::fdopendir(file.number()),
                                                      ::closedir);
    if (!entries) io::detail::fail_file<WriteError>(path_, "the folder cannot be read", errno);
    file.release();  // closed with the entries
    std::set<std::string> names;
    for (;;) {
      errno = 0;
      const dirent* const entry = ::readdir(entries.get());
      if (!entry) break;
      if (is_event_file_name(entry->d_name)) names.insert(entry->d_name);
    }
    if (errno != 0) io::detail::fail_file<WriteError>(path_, "the folder cannot be read", errno);
    return names;
  }

  void remove(const std::string& name) const {
    if (::unlinkat(folder_.number(), name.c_str(), 0) != 0 && errno != ENOENT)
      io::detail::fail_file<WriteError>(path_of(name), "cannot be removed", errno);
  }

  // Truncates a file to `bytes`. Returns its size before, or -1 if there is no such file. A shorter file is
  // left as it is.
  Index truncate(const std::string& name, Index bytes) const {
    // Follows no link to another file, and does not wait for the reader of a pipe.
    constexpr int flags = O_WRONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC;
    const io::detail::Descriptor file(
        io::detail::retry([&] { return ::openat(folder_.number(), name.c_str(), flags); }));
    if (file.number() < 0 && errno == ENOENT) return -1;
    struct stat status {};
    if (file.number() < 0 || ::fstat(file.number(), &status) != 0)
      io::detail::fail_file<WriteError>(path_of(name), "cannot be opened", errno);
    require<WriteError>(S_ISREG(status.st_mode), io::printable(path_of(name)), ": is not a regular file");
    const Index size = status.st_size;
    if (size > bytes && (io::detail::retry([&] { return ::ftruncate(file.number(), bytes); }) != 0 ||
                         io::detail::retry([&] { return ::fsync(file.number()); }) != 0))
      io::detail::fail_file<WriteError>(path_of(name), "cannot be truncated", errno);
    return size;
  }

  // Creates a file whose name sorts after all names with at most `latest` seconds, and returns the name in `name`.
  io::detail::Descriptor create(Index latest, std::string& name) const {
    constexpr int flags = O_WRONLY | O_APPEND | O_CREAT | O_EXCL | O_CLOEXEC;
    constexpr mode_t everybody = 0666;            // less the umask
    constexpr Index last_second = 9'999'999'999;  // of ten digits
    const auto now = static_cast<Index>(seconds_since_1970());
    const std::string seconds = std::to_string(std::clamp<Index>(std::max(now, latest + 1), 0, last_second));
    const std::string start = std::string(event_file_prefix) + std::string(second_digits - seconds.size(), '0') +
                              seconds + '.' + host_name() + '.' + std::to_string(::getpid()) + '.';
    for (int n = 0;; ++n) {
      name = start + std::to_string(n) + std::string(event_file_suffix);
      const int file = io::detail::retry([&] { return ::openat(folder_.number(), name.c_str(), flags, everybody); });
      if (file >= 0) return io::detail::Descriptor(file);
      if (errno != EEXIST) io::detail::fail_file<WriteError>(path_of(name), "cannot be created", errno);
    }
  }

  // Makes the names in the folder durable.
  void sync() const { io::detail::sync_folder(folder_, path_); }

 private:
  static constexpr int read_flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;

  static int open(const std::string& path) {
    io::detail::check_path<WriteError>(path);
    for (std::size_t slash = path.find('/', 1); slash != std::string::npos; slash = path.find('/', slash + 1))
      make(path.substr(0, slash));
    make(path);
    const int number = io::detail::retry([&] { return ::openat(AT_FDCWD, path.c_str(), read_flags); });
    if (number < 0) io::detail::fail_file<WriteError>(path, "the folder cannot be opened", errno);
    return number;
  }
  // Creates a folder unless it exists. On some file systems mkdir of an existing folder fails with an error that is not
  // EEXIST.
  static void make(const std::string& path) {
    struct stat status {};
    if (::stat(path.c_str(), &status) != 0) io::make_folder(path);
  }

  std::string path_;
  io::detail::Descriptor folder_;
};

// Throws FileError for a wrong name, a negative size or a repeated file: the position may come from a damaged
// checkpoint.
inline void check_position(const EventPosition& position) {
  std::set<std::string_view> names;
  for (const EventPosition::File& file : position.files) {
    require<FileError>(is_event_file_name(file.name), io::quoted_name(file.name),
                       " is not the name of an event file of heddle (events.out.tfevents.SECONDS.HOST.PID.N.heddle)");
    require<FileError>(file.bytes >= 0, io::quoted_name(file.name), ": an event file cannot have ", file.bytes,
                       " bytes");
    require<FileError>(names.insert(file.name).second, io::quoted_name(file.name), " is listed twice");
  }
}

}  // namespace detail

/// A writer of TensorBoard events, in a folder that holds no other run. Start `tensorboard --logdir` with this folder
/// or one above it.
///
/// Each event is written by one system call, so TensorBoard can show it at once; sync() makes it durable. Steps of a
/// tag should increase. TensorBoard groups tags by the text before a slash. All functions throw WriteError with the
/// file and the cause if an event cannot be written; the file then ends with the previous event. They throw Error for
/// an event of 2 GiB or more. A writer must not be used by two threads at once.
class EventWriter {
 public:
  /// Starts a run: adds an event file to the folder. Creates the folder and its parent folders if they do not exist.
  /// @throws WriteError if a folder or file cannot be created or written.
  explicit EventWriter(const std::string& folder) : folder_(folder) { start(latest_second(folder_.names())); }

  /// Continues the run in the folder from a position that sync() returned. Truncates the files of the position to their
  /// recorded sizes, removes all other files of an EventWriter from the folder, and adds a file. Events of `next_step`
  /// and later that an open TensorBoard has read are dropped there. With an empty position the run begins again.
  /// notes() describes the files that are missing or too short. @throws FileError if the position is invalid, and Error
  /// if `next_step` is negative; then no file is changed. @throws WriteError if a file cannot be changed or created.
  EventWriter(const std::string& folder, const EventPosition& position, Index next_step)
      : folder_(checked(folder, position, next_step)) {
    const std::set<std::string> found = folder_.names();
    std::set<std::string> names = found;
    for (const EventPosition::File& file : position.files) names.erase(file.name);
    for (const std::string& name : names) folder_.remove(name);

    Index latest = latest_second(found);
    for (const EventPosition::File& file : position.files) {
      restore(file);
      latest = std::max(latest, detail::seconds_of_event_file(file.name));
    }
    start(latest);
    append(detail::restart_record(next_step, detail::seconds_since_1970()));
  }

  /// Takes over the open file.
  EventWriter(EventWriter&&) = default;
  /// Takes over the open file.
  EventWriter& operator=(EventWriter&&) = default;

  /// Writes a number, which TensorBoard stores as a float. It may be NaN or infinite. @throws Error if the
  /// tag is empty.
  void scalar(const std::string& tag, double value, Index step) {
    append(detail::scalar_record(tag, value, step, detail::seconds_since_1970()));
  }
  /// Writes an image as PNG. If some parts of a program are compiled with zlib and others without it, the linker
  /// chooses one encoder (png.hpp). @throws Error if the tag is empty.
  void image(const std::string& tag, const Image& image, Index step) {
    append(detail::image_record(tag, image.width(), image.height(), encode_png(image), step,
                                detail::seconds_since_1970()));
  }
  /// Writes the distribution of the values, in 50 buckets. Values that are not finite are left out. @throws Error if
  /// the tag is empty.
  void histogram(const std::string& tag, std::span<const float> values, Index step) {
    append(detail::histogram_record(tag, detail::count_values(values), step, detail::seconds_since_1970()));
  }
  /// Writes the distribution of the values, as for float. @throws Error if the tag is empty.
  void histogram(const std::string& tag, std::span<const double> values, Index step) {
    append(detail::histogram_record(tag, detail::count_values(values), step, detail::seconds_since_1970()));
  }
  /// Writes a text in Markdown; TensorBoard shows it under "TAG/text_summary". @throws Error if the tag is empty.
  void text(const std::string& tag, const std::string& markdown, Index step) {
    append(detail::text_record(tag, markdown, step, detail::seconds_since_1970()));
  }

  /// Writes all events to the disk (fsync), and returns the position after them. @throws WriteError if that fails.
  EventPosition sync() {
    if (io::detail::retry([&] { return ::fsync(file_.number()); }) != 0)
      io::detail::fail_file<WriteError>(path(), "cannot be written to the disk", errno);
    folder_.sync();
    EventPosition position = earlier_;
    position.files.push_back({name_, bytes_});
    return position;
  }

  /// Returns one sentence for each file of the position that was missing or too short.
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  static const std::string& checked(const std::string& folder, const EventPosition& position, Index next_step) {
    detail::check_position(position);
    require(next_step >= 0, "EventWriter: next_step must not be negative, got ", next_step);
    return folder;
  }

  static Index latest_second(const std::set<std::string>& names) {
    return names.empty() ? 0 : detail::seconds_of_event_file(*names.rbegin());
  }

  std::string path() const { return folder_.path_of(name_); }

  void start(Index latest_second) {
    file_ = folder_.create(latest_second, name_);
    append(detail::version_record(detail::seconds_since_1970()));
  }

  void restore(const EventPosition::File& file) {
    const Index size = folder_.truncate(file.name, file.bytes);
    const std::string shown = io::printable(folder_.path_of(file.name));
    if (size < 0)
      notes_.push_back(shown + ": the file is missing; the run continues without its events");
    else if (size < file.bytes)
      notes_.push_back(shown + ": the file has only " + std::to_string(size) + " of " + std::to_string(file.bytes) +
                       " bytes; the run continues without its last events");
    if (size >= 0) earlier_.files.push_back({file.name, std::min(size, file.bytes)});
  }

  // Appends a record. TensorBoard stops reading at an incomplete record, so a part of one is removed if the
  // write fails.
  void append(const std::string& record) {
    const std::string file = path();
    require<WriteError>(file_.number() >= 0, io::printable(file), ": was closed after an error");
    try {
      io::OutputFile(file, file_.number()).write(record);
    } catch (const WriteError&) {
      if (io::detail::retry([&] { return ::ftruncate(file_.number(), bytes_); }) != 0)
        file_ = io::detail::Descriptor(-1);
      throw;
    }
    bytes_ += static_cast<Index>(record.size());
  }

  detail::EventFolder folder_;
  io::detail::Descriptor file_{-1};
  std::string name_;
  Index bytes_ = 0;
  EventPosition earlier_;
  std::vector<std::string> notes_;
};

}  // namespace heddle::train
