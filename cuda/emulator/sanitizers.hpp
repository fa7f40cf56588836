// The functions of AddressSanitizer and ThreadSanitizer for programs that implement their own stacks and
// synchronization. They are null unless the sanitizer is linked.
#pragma once
#include <cstddef>

extern "C" {
[[gnu::weak]] void* __tsan_get_current_fiber();
[[gnu::weak]] void* __tsan_create_fiber(unsigned flags);
[[gnu::weak]] void __tsan_destroy_fiber(void* fiber);
[[gnu::weak]] void __tsan_switch_to_fiber(void* fiber, unsigned flags);
[[gnu::weak]] void __tsan_acquire(void* object);
[[gnu::weak]] void __tsan_release(void* object);

[[gnu::weak]] void __sanitizer_start_switch_fiber(void** fake_stack, const void* bottom, std::size_t size);
[[gnu::weak]] void __sanitizer_finish_switch_fiber(void* fake_stack, const void** bottom, std::size_t* size);
[[gnu::weak]] void __asan_poison_memory_region(const volatile void* memory, std::size_t size);
[[gnu::weak]] void __asan_unpoison_memory_region(const volatile void* memory, std::size_t size);
}

namespace heddle::emulator {

constexpr unsigned tsan_no_ordering = 1;  // a switch between fibers is not a synchronization

inline bool races_are_watched() { return __tsan_create_fiber != nullptr; }

// Orders the work before a release ahead of the work after an acquire.
inline void release(void* object) {
  if (races_are_watched()) __tsan_release(object);
}
inline void acquire(void* object) {
  if (races_are_watched()) __tsan_acquire(object);
}

inline void poison(const void* memory, std::size_t size) {
  if (__asan_poison_memory_region) __asan_poison_memory_region(memory, size);
}
inline void unpoison(const void* memory, std::size_t size) {
  if (__asan_unpoison_memory_region) __asan_unpoison_memory_region(memory, size);
}

}  // namespace heddle::emulator
