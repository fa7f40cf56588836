// The errors that heddle throws. what() is one sentence, or a small table that names the operands of an operation.
#pragma once
#include <initializer_list>
#include <locale>
#include <sstream>
#include <stdexcept>
#include <string>

namespace heddle {

/// The base of every exception that heddle throws.
struct Error : std::runtime_error {
  using std::runtime_error::runtime_error;
};
/// Shapes or axes that do not fit, or a size that is out of range.
struct ShapeError : Error {
  using Error::Error;
};
/// An id, index or position that is out of range.
struct IndexError : Error {
  using Error::Error;
};
/// A file that cannot be read or written, or whose content is invalid.
struct FileError : Error {
  using Error::Error;
};
/// A lack of memory, for example for a tensor or for a file that is read or written.
struct OutOfMemory : Error {
  using Error::Error;
};
/// A CUDA call that failed.
struct CudaError : Error {
  using Error::Error;
};

namespace detail {

// A value of any type and the function that prints it, so that the code that composes a message is not compiled for
// each list of types.
struct MessagePart {
  const void* value;
  void (*print)(std::ostream& out, const void* value);

  MessagePart(const char* text)
      : value(text), print([](std::ostream& out, const void* p) { out << static_cast<const char*>(p); }) {}
  template <class T>
  MessagePart(const T& x)
      : value(&x), print([](std::ostream& out, const void* p) { out << *static_cast<const T*>(p); }) {}
};

// Prints the parts in the classic locale.
[[gnu::cold]] inline std::string message(std::initializer_list<MessagePart> parts) {
  std::ostringstream text;
  text.imbue(std::locale::classic());
  for (const MessagePart& part : parts) part.print(text, part.value);
  return text.str();
}

template <class E>
[[noreturn, gnu::cold, gnu::noinline]] void fail_with(std::initializer_list<MessagePart> parts) {
  throw E(message(parts));
}

}  // namespace detail

/// Throws E with all parts streamed into one message, in the classic locale.
// Always inlined, because a separate function for each list of types would take longer to compile.
template <class E = Error, class... Parts>
[[noreturn, gnu::always_inline]] inline void fail(const Parts&... parts) {
  detail::fail_with<E>({detail::MessagePart(parts)...});
}

/// Throws E with the streamed parts unless `ok`. The parts are always evaluated; the message is built only if E is
/// thrown.
template <class E = Error, class... Parts>
void require(bool ok, const Parts&... parts) {
  if (!ok) [[unlikely]]
    fail<E>(parts...);
}

}  // namespace heddle
