// The errors that heddle throws. what() is one sentence, or a small table that names the operands of an operation.
#pragma once
#include <locale>
#include <sstream>
#include <stdexcept>

namespace heddle {

/// The base of every exception that heddle throws.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Shapes or axes that do not fit, or a size that is out of range.
struct ShapeError : Error {
  using Error::Error;
};
/// An id outside its table, or a position outside a tensor.
struct IndexError : Error {
  using Error::Error;
};
/// A file that cannot be read or written, or whose content is invalid.
struct FileError : Error {
  using Error::Error;
};
/// Thrown if memory for a tensor, or for a file that is read or written, runs out.
struct OutOfMemory : Error {
  using Error::Error;
};
/// A CUDA call that failed.
struct CudaError : Error {
  using Error::Error;
};

/// Throws E with all parts streamed into one message, in the classic locale.
template <class E = Error, class... Parts>
[[noreturn, gnu::cold, gnu::noinline]] void fail(const Parts&... parts) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  (text << ... << parts);
  throw E(text.str());
}

/// Throws E with the streamed parts unless `ok`. The parts are always evaluated; the message is built only when thrown.
template <class E = Error, class... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail<E>(parts...);
}

}  // namespace heddle
