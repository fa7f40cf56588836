// TokenFileWriter: writes a token file (token_file.hpp), and continues one that was begun.
#pragma once
#include <sys/file.h>

#include <optional>

#include <heddle/data/token_file.hpp>

namespace heddle::data {

namespace detail {

// A file that grows at its end, after a header.
class GrowingFile {
 public:
  // Opens or creates a file, and locks it. Throws WriteError, also if another writer holds it, or has just given it
  // another name.
  explicit GrowingFile(std::string path, std::size_t header_size = 0)
      : path_(std::move(path)), header_size_(header_size), file_(open(path_)) {
    struct stat named {};
    const bool is_held = ::flock(file_.number(), LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    const struct stat own = status();
    if (is_held || ::stat(path_.c_str(), &named) != 0 || named.st_ino != own.st_ino || named.st_dev != own.st_dev)
      fail<WriteError>(io::printable(path_), ": another program is writing this file");
  }

  const std::string& path() const { return path_; }
  std::uint64_t size() const { return static_cast<std::uint64_t>(status().st_size); }
  // Returns the checksum of what was appended.
  std::uint64_t sum() const { return crc_.value(); }
  // Cuts the file off after `size` bytes, which it has, and continues at its end.
  void cut(std::uint64_t size) {
    buffer_.clear();
    crc_ = {};
    const io::InputFile written(path_);
    std::vector<std::byte> bytes(part_size);
    for (std::uint64_t at = header_size_; at < size; at += part_size) {
      const std::size_t count = std::min<std::uint64_t>(part_size, size - at);
      written.read_at(at, bytes.data(), count);
      crc_.add(std::span(bytes).first(count));
    }
    check(io::detail::retry([&] { return ::ftruncate(file_.number(), static_cast<off_t>(size)); }));
    check(::lseek(file_.number(), 0, SEEK_END) < 0 ? -1 : 0);
  }
  void append(std::span<const std::byte> bytes) {
    crc_.add(bytes);
    buffer_.insert(buffer_.end(), bytes.begin(), bytes.end());
    if (buffer_.size() >= part_size) flush();
  }
  void flush() {
    std::span<const std::byte> left = buffer_;
    while (!left.empty()) {
      const ssize_t n = io::detail::retry([&] { return ::write(file_.number(), left.data(), left.size()); });
      check(n < 0 ? -1 : 0);
      left = left.subspan(static_cast<std::size_t>(n));
    }
    buffer_.clear();
  }
  void overwrite(std::span<const std::byte> bytes) {
    const ssize_t n = io::detail::retry([&] { return ::pwrite(file_.number(), bytes.data(), bytes.size(), 0); });
    check(n == std::ssize(bytes) ? 0 : -1);
  }
  void sync() {
    flush();
    check(io::detail::retry([&] { return ::fsync(file_.number()); }));
  }

 private:
  static constexpr std::size_t part_size = std::size_t{1} << 20;

  struct stat status() const {
    struct stat status {};
    check(::fstat(file_.number(), &status));
    return status;
  }
  static int open(const std::string& path) {
    io::detail::check_path<WriteError>(path);
    constexpr mode_t everybody = 0666;  // less the umask
    const int file = io::detail::retry([&] { return ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, everybody); });
    if (file < 0) io::detail::fail_file<WriteError>(path, "cannot be opened", errno);
    return file;
  }
  void check(int result) const {
    if (result != 0) io::detail::fail_file<WriteError>(path_, "cannot be written", errno);
  }

  std::string path_;
  std::size_t header_size_;
  io::detail::Descriptor file_;
  std::vector<std::byte> buffer_;
  io::Crc64 crc_;
};

}  // namespace detail

/// Whether the texts of a token file have labels, such as the numbers of their classes.
enum class TextLabels { none, written };

/// Writes a token file, which has its name only when it is complete. Until then the texts are in files beside it whose
/// names end with .part, .part.ends, .part.labels and .part.state; a writer of the same name continues after the last
/// save().
class TokenFileWriter {
 public:
  /// Begins or continues a file. Ids are below `vocabulary`; `tokenizer` is a checksum of what makes them.
  /// @throws WriteError for a file that cannot be written, and FileError if the file was begun with another vocabulary
  /// or tokenizer, or with or without labels, or what was written of it is damaged.
  TokenFileWriter(const std::string& path, Index vocabulary, std::uint64_t tokenizer,
                  TextLabels labels = TextLabels::none)
      : path_(regular(path)),
        was_begun_(io::path_exists(path + ".part")),
        ids_(path + ".part", sizeof header_),
        ends_(path + ".part.ends"),
        vocabulary_(vocabulary) {
    constexpr Index of_two_bytes = 1 << 16;
    header_.id_bytes = vocabulary <= of_two_bytes ? 2 : 4;
    if (labels == TextLabels::written) {
      header_.label_bytes = sizeof(std::int32_t);
      labels_.emplace(path + ".part.labels");
    }
    header_.tokenizer = tokenizer;
    // A state without .part is that of a writer which ended after it had completed the file.
    const bool continues = was_begun_ && io::path_exists(state_file());
    if (continues) read_state();
    cut();
    require<FileError>(!continues || sum_ == sum(), io::printable(ids_.path()), ": was changed, or a file beside it; ",
                       "remove ", io::printable(state_file()), " to begin anew");
  }
  TokenFileWriter(const TokenFileWriter&) = delete;

  /// Returns the note of the save() after which this writer continues; nothing if it begins a file.
  const std::optional<std::string>& resumed() const { return resumed_; }
  /// Returns the number of texts so far.
  Index texts() const { return static_cast<Index>(header_.texts); }
  /// Returns the number of tokens so far.
  Index tokens() const { return static_cast<Index>(header_.tokens); }

  /// Appends a text; the label is ignored if the texts have none. @throws IndexError for an id outside the vocabulary,
  /// and WriteError.
  void add(std::span<const int> ids, std::int32_t label = 0) {
    for (const int id : ids)
      require<IndexError>(0 <= id && id < vocabulary_, "TokenFileWriter: id ", id, " is outside the vocabulary of ",
                          vocabulary_, " tokens");
    header_.id_bytes == 2 ? append(ids, narrow_) : append(ids, wide_);
    header_.tokens += ids.size();
    header_.longest = std::max<std::uint64_t>(header_.longest, ids.size());
    ++header_.texts;
    ends_.append(std::as_bytes(std::span(&header_.tokens, 1)));
    if (labels_) labels_->append(std::as_bytes(std::span(&label, 1)));
  }
  /// Makes the texts so far durable, with a note such as the place in the input. @throws WriteError.
  void save(const std::string& note) {
    ids_.sync();
    ends_.sync();
    if (labels_) labels_->sync();
    const nlohmann::json state{{"id_bytes", header_.id_bytes},
                               {"label_bytes", header_.label_bytes},
                               {"tokenizer", io::hex(header_.tokenizer)},
                               {"texts", header_.texts},
                               {"tokens", header_.tokens},
                               {"longest", header_.longest},
                               {"sum", sum()},
                               {"note", note}};
    io::write_atomically(state_file(), state.dump());
  }
  /// Completes the file. The writer must not be used any more. @throws WriteError.
  void finish() {
    ids_.flush();
    ends_.flush();
    const std::vector<std::byte> padding(header_.ids_size() - header_.tokens * header_.id_bytes);
    ids_.append(padding);
    const auto append_file = [&](const detail::GrowingFile& file) {
      io::detail::for_each_part(file.path(), [&](std::span<const std::byte> bytes) { ids_.append(bytes); });
    };
    append_file(ends_);
    if (labels_) {
      labels_->flush();
      append_file(*labels_);
      ids_.append(std::vector<std::byte>(header_.labels_size() - header_.texts * header_.label_bytes));
    }
    ids_.flush();
    io::Crc64 sums;
    {
      const io::InputFile written(ids_.path());
      std::vector<std::byte> bytes(header_.block_size);
      for (std::uint64_t block = 0; block < header_.blocks(); ++block) {
        const std::uint64_t first = block * header_.block_size;
        const std::uint64_t size = std::min(header_.block_size, header_.content_size() - first);
        require<WriteError>(written.read_at(sizeof header_ + first, bytes.data(), size) == size,
                            io::printable(ids_.path()), ": was changed while it was written");
        io::Crc64 crc;
        crc.add(std::span(bytes).first(size));
        const std::uint64_t sum = crc.value();
        ids_.append(std::as_bytes(std::span(&sum, 1)));
        sums.add(std::as_bytes(std::span(&sum, 1)));
      }
    }
    ids_.flush();
    header_.sums = sums.value();
    header_.sum = header_.own_sum();
    ids_.overwrite(std::as_bytes(std::span(&header_, 1)));
    ids_.sync();
    if (::rename(ids_.path().c_str(), path_.c_str()) != 0)
      io::detail::fail_file<WriteError>(path_, "cannot be replaced", errno);
    ::unlink(state_file().c_str());
    ::unlink(ends_.path().c_str());
    if (labels_) ::unlink(labels_->path().c_str());
    const std::size_t slash = path_.rfind('/');
    io::detail::sync_folder(
        io::detail::open_folder(slash == std::string::npos ? "." : path_.substr(0, slash + 1), path_), path_);
  }

 private:
  // Returns the path. Throws WriteError if it names something that is no regular file.
  static const std::string& regular(const std::string& path) {
    struct stat status {};
    require<WriteError>(::stat(path.c_str(), &status) != 0 || S_ISREG(status.st_mode), io::printable(path),
                        ": is not a regular file");
    return path;
  }

  std::string state_file() const { return path_ + ".part.state"; }

  template <class Id>
  void append(std::span<const int> ids, std::vector<Id>& converted) {
    converted.resize(ids.size());
    std::transform(ids.begin(), ids.end(), converted.begin(), [](int id) { return static_cast<Id>(id); });
    ids_.append(std::as_bytes(std::span(converted)));
  }

  // Returns the checksums of what was written.
  std::string sum() const {
    return io::hex(ids_.sum()) + ' ' + io::hex(ends_.sum()) + (labels_ ? ' ' + io::hex(labels_->sum()) : "");
  }

  // Reads the state of the last save.
  void read_state() {
    const io::JsonFile file(state_file());
    const io::JsonObject state = file.object();
    require<FileError>(
        state.count("id_bytes") == header_.id_bytes && state.text("tokenizer") == io::hex(header_.tokenizer),
        state.file(), ": was begun with another tokenizer; remove it to begin anew");
    require<FileError>(state.count("label_bytes") == header_.label_bytes, state.file(), ": was begun ",
                       labels_ ? "without" : "with", " labels; remove it to begin anew");
    header_.texts = static_cast<std::uint64_t>(state.count("texts"));
    header_.tokens = static_cast<std::uint64_t>(state.count("tokens"));
    header_.longest = static_cast<std::uint64_t>(state.count("longest"));
    resumed_ = state.text("note");
    constexpr std::uint64_t most = std::uint64_t{1} << 56;
    require<FileError>(header_.tokens < most && header_.texts < most &&
                           ids_.size() >= sizeof header_ + header_.tokens * header_.id_bytes &&
                           ends_.size() >= header_.ends_size() &&
                           (!labels_ || labels_->size() >= header_.texts * header_.label_bytes),
                       io::printable(ids_.path()), ": is shorter than it was; remove ", state.file(), " to begin anew");
    sum_ = state.text("sum");
  }
  // Cuts off what was written after the last save.
  void cut() {
    ids_.cut(sizeof header_ + header_.tokens * header_.id_bytes);
    ends_.cut(header_.ends_size());
    if (labels_) labels_->cut(header_.texts * header_.label_bytes);
  }

  std::string path_;
  bool was_begun_;
  detail::GrowingFile ids_, ends_;
  std::optional<detail::GrowingFile> labels_;
  Index vocabulary_;
  detail::TokenFileHeader header_;
  std::optional<std::string> resumed_;
  std::string sum_;                    // of what was written until the last save
  std::vector<std::uint16_t> narrow_;  // the ids of one text
  std::vector<std::uint32_t> wide_;
};

}  // namespace heddle::data
