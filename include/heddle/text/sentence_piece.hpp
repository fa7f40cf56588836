// SentencePieceModel: the pieces and the character map of a file that SentencePiece wrote (sentencepiece_model.proto).
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <heddle/base/error.hpp>
#include <heddle/base/printable.hpp>
#include <heddle/base/utf8.hpp>

namespace heddle::text {

/// A model of SentencePiece.
struct SentencePieceModel {
  /// The kind of a piece; the values are those of the file.
  enum class Kind : std::uint8_t { normal = 1, unknown = 2, control = 3, user_defined = 4, unused = 5, byte = 6 };
  /// A token.
  struct Piece {
    std::string text;          ///< the token
    float score = 0;           ///< its logarithmic probability
    Kind kind = Kind::normal;  ///< what it is
  };

  std::vector<Piece> pieces;       ///< the tokens, by id
  std::string character_map = {};  ///< the bytes for PrecompiledMap; empty if texts are not normalized
  bool is_unigram = true;          ///< otherwise it is another kind of model, such as BPE

  /// Reads the bytes of a file, which messages name. @throws FileError for bytes of another form, and for a piece that
  /// is not UTF-8.
  static SentencePieceModel parse(std::string_view bytes, const std::string& name);
};

namespace detail {

// Reads the fields of a message in protocol buffers' wire format, in their order.
class ProtoReader {
 public:
  ProtoReader(std::string_view bytes, const std::string& name) : bytes_(bytes), name_(name) {}

  // Reads the next field, or returns false at the end. A number is in `value`; a field with a length is in `content`.
  bool next() {
    if (at_ == bytes_.size()) return false;
    const std::uint64_t tag = varint();
    field = tag >> 3;
    content = {};
    value = 0;
    switch (tag & 7) {
      case 0: value = varint(); break;
      case 1: value = fixed(8); break;
      case 2: content = take(varint()); break;
      case 5: value = fixed(4); break;
      default: fail_form();
    }
    return true;
  }

  std::uint64_t field = 0, value = 0;
  std::string_view content;

 private:
  [[noreturn]] void fail_form() const { fail<FileError>(name_, ": is not a model of SentencePiece"); }

  std::string_view take(std::uint64_t size) {
    if (size > bytes_.size() - at_) fail_form();
    const std::string_view taken = bytes_.substr(at_, static_cast<std::size_t>(size));
    at_ += taken.size();
    return taken;
  }
  std::uint64_t fixed(std::size_t size) {
    const std::string_view taken = take(size);
    std::uint64_t number = 0;
    for (std::size_t i = size; i-- > 0;) number = number << 8 | static_cast<unsigned char>(taken[i]);
    return number;
  }
  std::uint64_t varint() {
    std::uint64_t number = 0;
    for (unsigned shift = 0; shift < 64; shift += 7) {
      const auto byte = static_cast<unsigned char>(take(1)[0]);
      number |= std::uint64_t{byte & 0x7Fu} << shift;
      if (byte < 0x80) return number;
    }
    fail_form();
  }

  std::string_view bytes_;
  std::string name_;
  std::size_t at_ = 0;
};

}  // namespace detail

inline SentencePieceModel SentencePieceModel::parse(std::string_view bytes, const std::string& name) {
  SentencePieceModel model;
  const std::string file = io::printable(name);
  for (detail::ProtoReader all(bytes, file); all.next();) {
    detail::ProtoReader part(all.content, file);
    if (all.field == 1) {
      Piece piece;
      while (part.next()) {
        if (part.field == 1) piece.text = part.content;
        if (part.field == 2) piece.score = std::bit_cast<float>(static_cast<std::uint32_t>(part.value));
        if (part.field == 3 && part.value >= 1 && part.value <= 6) piece.kind = static_cast<Kind>(part.value);
      }
      require<FileError>(is_utf8(piece.text), file, ": piece ", model.pieces.size(), " is not valid UTF-8");
      model.pieces.push_back(std::move(piece));
    } else if (all.field == 2) {
      while (part.next())
        if (part.field == 3) model.is_unigram = part.value == 1;  // model_type
    } else if (all.field == 3) {
      while (part.next())
        if (part.field == 2) model.character_map = part.content;
    }
  }
  require<FileError>(!model.pieces.empty(), file, ": has no pieces");
  return model;
}

}  // namespace heddle::text
