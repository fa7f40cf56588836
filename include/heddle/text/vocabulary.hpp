// Vocabulary: the tokens of a vocab.txt, one a line, numbered from 0. The bytes of a token are kept as they are: real
// vocabularies hold single combining marks, which trimming or normalizing would damage. The hash table holds ids, not
// pointers, so that a vocabulary is a plain value.
#pragma once
#include <algorithm>
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <heddle/base/error.hpp>
#include <heddle/base/file.hpp>
#include <heddle/base/printable.hpp>
#include <heddle/base/utf8.hpp>
#include <heddle/text/byte_hash.hpp>

namespace heddle::text {

/// The tokens of a vocabulary, which have less than 2^30 bytes in all.
class Vocabulary {
 public:
  static constexpr std::int32_t none = -1;                        ///< the id of no token
  static constexpr std::size_t max_bytes = std::size_t{1} << 30;  ///< size limit; offsets and ids then fit in 32 bits

  /// Reads a file. @throws FileError if it cannot be read, and as below.
  static Vocabulary load(const std::string& path) { return Vocabulary(io::read_file(path), path); }

  /// Whether a token may be empty. A tokenizer.json may have one; no text contains it.
  enum class EmptyToken { refused, allowed };

  /// Takes lines that end with LF or CR LF (the last one may end without LF); errors name the file `name`. A byte-order
  /// mark is skipped. @throws FileError if there is no line, and for max_bytes or more. @throws FileError with the
  /// number of the line for a token that is empty, is not UTF-8, contains a NUL byte, or is repeated.
  explicit Vocabulary(std::string lines, const std::string& name = "vocabulary",
                      EmptyToken empty_token = EmptyToken::refused)
      : name_(io::printable(name)), text_(std::move(lines)), empty_token_(empty_token) {
    bom_ = text_.starts_with("\xEF\xBB\xBF");
    if (bom_) text_.erase(0, 3);
    require<FileError>(!text_.empty(), name_, ": is empty; a vocabulary holds one token a line");
    require<FileError>(text_.size() < max_bytes, name_, ": has ", text_.size(), " bytes; a vocabulary has fewer than ",
                       max_bytes);
    if (text_.back() != '\n') text_ += '\n';
    drop_crlf();
    for (std::size_t begin = 0; begin < text_.size(); begin = begin_.back()) {
      const std::size_t end = text_.find('\n', begin);
      check(std::string_view(text_).substr(begin, end - begin), begin_.size());
      begin_.push_back(static_cast<std::uint32_t>(end + 1));
    }
    slots_.resize(std::bit_ceil(2 * begin_.size()));
    for (std::int32_t id = 0; id < size(); ++id) add(id);
  }

  /// Returns the number of tokens.
  std::int32_t size() const { return static_cast<std::int32_t>(begin_.size()) - 1; }
  const std::string& name() const { return name_; }  ///< the file, as messages show it
  std::size_t longest() const { return longest_; }   ///< bytes of the longest token

  /// Returns a sentence for each change to the file's text. The sentences do not name the file.
  std::vector<std::string> notes() const {
    std::vector<std::string> all;
    if (bom_) all.emplace_back("a byte-order mark was skipped");
    if (crlf_ > 0) all.push_back(std::to_string(crlf_) + (crlf_ == 1 ? " line ends" : " lines end") + " with CR LF");
    return all;
  }

  /// Returns a token, which is valid as long as the vocabulary. @throws IndexError for an id outside 0 to size() - 1.
  std::string_view token(std::int32_t id) const {
    require<IndexError>(id >= 0 && id < size(), name_, ": id ", id, " is outside 0 to ", size() - 1);
    return line(id);
  }

  /// Returns the token's id, or `none`.
  std::int32_t find(std::string_view token) const {
    return token.substr(0, 2) == "##" ? find_continuation(token.substr(2)) : find(detail::byte_hash(token), "", token);
  }
  /// Returns the id of the token that is "##" followed by `piece`, or `none`.
  std::int32_t find_continuation(std::string_view piece) const { return find(~detail::byte_hash(piece), "##", piece); }

  /// Returns the token's id. @throws FileError if there is none.
  std::int32_t id(std::string_view token) const {
    const std::int32_t found = find(token);
    require<FileError>(found != none, name_, ": has no token ", io::quoted_name(token));
    return found;
  }

 private:
  struct Slot {
    std::uint32_t tag = 0;  // the upper half of the hash, which does not choose the slot
    std::int32_t id = none;
  };

  std::string_view line(std::int32_t id) const {
    const auto i = static_cast<std::size_t>(id);
    return std::string_view(text_).substr(begin_[i], begin_[i + 1] - begin_[i] - 1);
  }

  void drop_crlf() {
    std::size_t to = 0;
    for (std::size_t i = 0; i < text_.size(); ++i)
      if (text_.compare(i, 2, "\r\n") != 0) text_[to++] = text_[i];
    crlf_ = text_.size() - to;
    text_.resize(to);
  }

  void check(std::string_view token, std::size_t number) const {
    require<FileError>(!token.empty() || empty_token_ == EmptyToken::allowed, name_, ':', number,
                       ": the token is empty");
    require<FileError>(is_utf8(token), name_, ':', number, ": the token is not valid UTF-8");
    require<FileError>(token.find('\0') == token.npos, name_, ':', number,
                       ": the token contains a NUL byte; a vocabulary is a text file");
  }

  void add(std::int32_t id) {
    const std::string_view token = line(id);
    const std::int32_t twin = find(token);
    require<FileError>(twin == none, name_, ':', id + 1, ": token ", io::quoted_name(token), " is on line ", twin + 1,
                       " already");
    longest_ = std::max(longest_, token.size());
    const std::uint64_t h = token.substr(0, 2) == "##" ? ~detail::byte_hash(token.substr(2)) : detail::byte_hash(token);
    std::size_t slot = h & (slots_.size() - 1);
    while (slots_[slot].id != none) slot = (slot + 1) & (slots_.size() - 1);
    slots_[slot] = {static_cast<std::uint32_t>(h >> 32), id};
  }

  std::int32_t find(std::uint64_t h, std::string_view prefix, std::string_view rest) const {
    for (std::size_t slot = h & (slots_.size() - 1); slots_[slot].id != none; slot = (slot + 1) & (slots_.size() - 1)) {
      if (slots_[slot].tag != h >> 32) continue;
      const std::string_view token = line(slots_[slot].id);
      if (token.size() == prefix.size() + rest.size() && token.substr(prefix.size()) == rest &&
          token.substr(0, prefix.size()) == prefix)
        return slots_[slot].id;
    }
    return none;
  }

  std::string name_, text_;
  EmptyToken empty_token_;
  bool bom_ = false;
  std::size_t crlf_ = 0;                 // lines that ended with CR LF
  std::vector<std::uint32_t> begin_{0};  // the offset of each line, and of the end
  std::vector<Slot> slots_;
  std::size_t longest_ = 0;
};

}  // namespace heddle::text
