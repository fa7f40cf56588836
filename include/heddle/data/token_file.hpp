// Token files: the ids of many texts in a file that is mapped into memory, for corpora that do not fit into it.
//
// The format, in little-endian numbers: a header (TokenFileHeader); the ids, of 2 or 4 bytes each, filled up to a
// multiple of 8 bytes; for each text one past its last token, 8 bytes each; the texts' labels, if they have any, 4
// bytes each, filled up likewise; and the CRC-64 of each MiB from the ids on.
#pragma once
#include <sys/mman.h>
#include <sys/stat.h>

#include <atomic>
#include <bit>
#include <cstring>
#include <memory>
#include <span>
#include <vector>

#include <heddle/base/shape.hpp>
#include <heddle/io/json_object.hpp>
#include <heddle/io/write_atomically.hpp>

namespace heddle::data {

namespace detail {

static_assert(std::endian::native == std::endian::little, "heddle: token files are little-endian");

struct TokenFileHeader {
  char magic[8] = {'h', 'e', 'd', 'd', 'l', 'e', 't', 'k'};
  std::uint32_t version = 1;
  std::uint16_t id_bytes = 2, label_bytes = 0;  // 2 or 4, and 0 or 4
  std::uint64_t texts = 0, tokens = 0;
  std::uint64_t longest = 0;    // tokens of the longest text
  std::uint64_t tokenizer = 0;  // the checksum of what made the ids
  std::uint64_t sums = 0;       // the CRC-64 of the CRC-64s at the end
  std::uint64_t sum = 0;        // the CRC-64 of the header before this member

  std::uint64_t own_sum() const {
    io::Crc64 crc;
    crc.add(std::as_bytes(std::span(this, 1)).first(offsetof(TokenFileHeader, sum)));
    return crc.value();
  }
  // The bytes of the ids with what fills them up, of the labels likewise, and of all with the ends.
  std::uint64_t ids_size() const { return (tokens * id_bytes + 7) / 8 * 8; }
  std::uint64_t labels_size() const { return (texts * label_bytes + 7) / 8 * 8; }
  std::uint64_t ends_size() const { return texts * sizeof(std::uint64_t); }
  std::uint64_t content_size() const { return ids_size() + ends_size() + labels_size(); }
  std::uint64_t blocks() const { return (content_size() + block_size - 1) / block_size; }
  std::uint64_t file_size() const {
    return sizeof(TokenFileHeader) + content_size() + blocks() * sizeof(std::uint64_t);
  }

  static constexpr std::uint64_t block_size = std::uint64_t{1} << 20;
};
static_assert(sizeof(TokenFileHeader) == 64);

// A file that is mapped into memory for reading.
class MappedFile {
 public:
  explicit MappedFile(const std::string& path) {
    const io::InputFile checked(path);
    require<FileError>(checked.is_regular(), io::printable(path), ": is not a regular file");
    size_ = checked.size();
    if (size_ == 0) return;
    const io::detail::Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC));
    memory_ = ::mmap(nullptr, size_, PROT_READ, MAP_SHARED, file.number(), 0);
    if (memory_ == MAP_FAILED) io::detail::fail_file<FileError>(path, "cannot be mapped into memory", errno);
  }
  MappedFile(const MappedFile&) = delete;
  ~MappedFile() {
    if (size_ > 0 && memory_ != MAP_FAILED) ::munmap(memory_, size_);
  }

  std::span<const std::byte> bytes() const { return {static_cast<const std::byte*>(memory_), size_}; }

 private:
  void* memory_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace detail

/// Returns whether a path names a regular file that begins as a token file does. @throws FileError for a regular file
/// that cannot be read.
inline bool is_token_file(const std::string& path) {
  struct stat status {};
  if (::stat(path.c_str(), &status) != 0 || !S_ISREG(status.st_mode)) return false;
  detail::TokenFileHeader header;
  char begin[sizeof header.magic];
  return io::InputFile(path).read(begin, sizeof begin) == sizeof begin &&
         std::memcmp(begin, header.magic, sizeof begin) == 0;
}

/// The texts of a token file, which `tokenize --to` and TokenFileWriter write. Opening it reads the header and the
/// checksums; each MiB is checked when it is first read. The file must not change afterwards; truncating it ends the
/// program (SIGBUS). Several threads may read. A copy is another handle.
class TokenFile {
 public:
  /// Opens a file. @throws FileError for a file that cannot be read, that is no token file, or that is truncated.
  explicit TokenFile(const std::string& path) : shared_(std::make_shared<Shared>(path)) {}

  /// Returns the number of texts.
  Index count() const { return static_cast<Index>(header().texts); }
  /// Returns the number of tokens of all texts.
  Index tokens() const { return static_cast<Index>(header().tokens); }
  /// Returns the tokens of the longest text.
  Index longest() const { return static_cast<Index>(header().longest); }
  /// Returns the checksum of the tokenizer that made the ids, as it was given to the writer.
  std::uint64_t tokenizer() const { return header().tokenizer; }
  /// Returns the checksum of the file's content. Reads nothing.
  std::uint64_t checksum() const { return header().sum; }
  /// Returns the printable name of the file.
  const std::string& name() const { return shared_->name; }

  /// Returns the number of tokens of a text, numbered from 0. @throws IndexError for a number out of range, and
  /// FileError for content that was changed.
  Index length(Index text) const {
    const auto [first, last] = range(text);
    return static_cast<Index>(last - first);
  }
  /// Returns whether the texts have labels.
  bool has_labels() const { return header().label_bytes > 0; }
  /// Returns the label of a text; 0 if the texts have none. @throws IndexError and FileError as length() does.
  int label(Index text) const {
    require_text(text);
    std::int32_t label = 0;
    if (!has_labels()) return label;
    const std::uint64_t at =
        header().ids_size() + header().ends_size() + static_cast<std::uint64_t>(text) * sizeof label;
    std::memcpy(&label, content(at, sizeof label), sizeof label);
    return label;
  }
  /// Returns the ids of a text. @throws IndexError and FileError as length() does.
  std::vector<int> ids(Index text) const {
    const auto [first, last] = range(text);
    std::vector<int> ids(last - first);
    const std::uint64_t width = header().id_bytes;
    const std::byte* const from = content(first * width, (last - first) * width);
    const auto copy = [&]<class Id>(Id) {
      for (std::size_t t = 0; t < ids.size(); ++t) {
        Id id;
        std::memcpy(&id, from + t * sizeof(Id), sizeof(Id));
        ids[t] = static_cast<int>(id);
      }
    };
    width == 2 ? copy(std::uint16_t{}) : copy(std::uint32_t{});
    return ids;
  }

 private:
  // The mapped file, and which of its blocks were checked.
  struct Shared {
    std::string name;
    detail::MappedFile file;
    detail::TokenFileHeader header;
    std::vector<std::atomic<bool>> checked;

    explicit Shared(const std::string& path) : name(io::printable(path)), file(path), checked(read_header()) {
      const std::span<const std::byte> bytes = file.bytes();
      io::Crc64 sums;
      sums.add(bytes.last(checked.size() * sizeof(std::uint64_t)));
      require<FileError>(sums.value() == header.sums, name, ": its checksums were changed");
    }
    // Reads and checks the header. Returns the number of blocks.
    std::size_t read_header() {
      const std::span<const std::byte> bytes = file.bytes();
      const detail::TokenFileHeader expected;
      require<FileError>(
          bytes.size() >= sizeof header && std::memcmp(bytes.data(), expected.magic, sizeof expected.magic) == 0, name,
          ": is not a token file");
      std::memcpy(&header, bytes.data(), sizeof header);
      require<FileError>(header.version == expected.version, name, ": has version ", header.version,
                         " of the format; this heddle reads version ", expected.version);
      constexpr std::uint64_t most = std::uint64_t{1} << 56;
      require<FileError>(header.sum == header.own_sum() && (header.id_bytes == 2 || header.id_bytes == 4) &&
                             (header.label_bytes == 0 || header.label_bytes == 4) && header.tokens < most &&
                             header.texts < most,
                         name, ": its header was changed");
      require<FileError>(bytes.size() == header.file_size(), name, ": has ", bytes.size(), " bytes; ", header.texts,
                         " texts of ", header.tokens, " tokens take ", header.file_size());
      return static_cast<std::size_t>(header.blocks());
    }
  };

  const detail::TokenFileHeader& header() const { return shared_->header; }

  void require_text(Index text) const {
    require<IndexError>(0 <= text && text < count(), "TokenFile: there is no text ", text, " among ", count());
  }
  // Returns the first token of a text, and one past the last.
  std::pair<std::uint64_t, std::uint64_t> range(Index text) const {
    require_text(text);
    const auto end_of = [&](Index n) {
      std::uint64_t end;
      const std::uint64_t at = header().ids_size() + static_cast<std::uint64_t>(n) * sizeof end;
      std::memcpy(&end, content(at, sizeof end), sizeof end);
      return end;
    };
    const std::uint64_t first = text == 0 ? 0 : end_of(text - 1), last = end_of(text);
    require<FileError>(first <= last && last <= header().tokens, shared_->name, ": the end of text ", text,
                       " was changed");
    return {first, last};
  }
  // Returns `size` bytes of ids and ends, of which the blocks are checked.
  const std::byte* content(std::uint64_t first, std::uint64_t size) const {
    const std::span<const std::byte> all =
        shared_->file.bytes().subspan(sizeof(detail::TokenFileHeader), header().content_size());
    constexpr std::uint64_t block_size = detail::TokenFileHeader::block_size;
    for (std::uint64_t block = first / block_size; size > 0 && block <= (first + size - 1) / block_size; ++block) {
      std::atomic<bool>& checked = shared_->checked[block];
      if (checked.load(std::memory_order_relaxed)) continue;
      io::Crc64 crc;
      crc.add(all.subspan(block * block_size, std::min(block_size, all.size() - block * block_size)));
      std::uint64_t sum;
      std::memcpy(&sum, all.data() + all.size() + block * sizeof sum, sizeof sum);
      require<FileError>(crc.value() == sum, shared_->name, ": the content after byte ",
                         sizeof(detail::TokenFileHeader) + block * block_size, " was changed");
      checked.store(true, std::memory_order_relaxed);
    }
    return all.data() + first;
  }

  std::shared_ptr<Shared> shared_;
};

}  // namespace heddle::data
