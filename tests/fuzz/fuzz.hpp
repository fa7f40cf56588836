// The common part of the fuzz targets: claims that end the program if they are false, a check that each error is one
// visible line, and a bound on memory. libFuzzer provides main(); each target is one LLVMFuzzerTestOneInput.
#pragma once
#include <sanitizer/allocator_interface.h>

#include <atomic>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>

#include <heddle/base/error.hpp>
#include <heddle/base/printable.hpp>

namespace heddle::fuzz {

inline void claim(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "FALSE: %s\n", what);
  std::abort();
}

// The number of live bytes on the heap, without the sanitizers' own, and its limit. The hooks are C functions, so the
// members are static. The few allocations of libFuzzer's own thread, which watches the resident set, are included.
class Memory {
 public:
  static constexpr std::int64_t spare = 64 << 20;  // bytes allowed in addition to twice the input

  static void install() {
    static const int installed = __sanitizer_install_malloc_and_free_hooks(on_malloc, on_free);
    claim(installed != 0, "the sanitizer takes hooks for malloc and free");
  }
  static void allow(std::size_t input_size) { limit_ = live_ + 2 * static_cast<std::int64_t>(input_size) + spare; }
  static void allow_all() { limit_ = std::numeric_limits<std::int64_t>::max(); }

 private:
  static void on_malloc(const volatile void*, std::size_t bytes) {
    live_ += static_cast<std::int64_t>(bytes);
    if (live_ <= limit_) return;
    allow_all();  // the report needs memory
    claim(false, "an input takes no more memory than twice its size plus 64 MiB");
  }
  static void on_free(const volatile void* block) {
    live_ -= static_cast<std::int64_t>(__sanitizer_get_allocated_size(const_cast<const void*>(block)));
  }

  inline static std::atomic<std::int64_t> live_ = 0, limit_ = std::numeric_limits<std::int64_t>::max();
};

// One input, and the bound on memory while it is processed.
class Input {
 public:
  Input(const std::uint8_t* data, std::size_t size) : text_(reinterpret_cast<const char*>(data), size) {
    Memory::install();
    Memory::allow(size);
  }
  Input(const Input&) = delete;
  ~Input() { Memory::allow_all(); }

  std::string_view text() const { return text_; }
  std::string string() const { return std::string(text_); }

 private:
  std::string_view text_;
};

// Returns whether f() returns without an exception. Returns false if f() throws an E, whose text must be one short,
// visible line. Any other exception ends the program.
template <class E, class F>
bool accepted(F&& f) {
  constexpr std::size_t longest = 1000;  // bytes of an error: names are abridged
  try {
    f();
    return true;
  } catch (const E& error) {
    const std::string_view text = error.what();
    claim(!text.empty() && text.size() <= longest, "an error says something, and briefly");
    claim(io::printable(text) == text, "an error is one line of visible text");
    return false;
  }
}

// Returns f(), or nothing if it throws an E, as above. The caller uses the result after this call, so that later errors
// end the program.
template <class E, class F>
auto attempt(F&& f) {
  std::optional<std::invoke_result_t<F>> result;
  accepted<E>([&] { result.emplace(f()); });
  return result;
}

}  // namespace heddle::fuzz
