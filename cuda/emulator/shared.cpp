// The shared memory of a block, with a gap after each array, and the asynchronous copies into it.
#include <cstring>

#include "sanitizers.hpp"
#include "thread.hpp"

namespace heddle::emulator {
namespace {

constexpr std::size_t gap = 256;               // bytes after each array that must not be accessed
constexpr std::size_t most_fixed = 48 * 1024;  // bytes of static shared memory
constexpr std::size_t banks_period = 128;      // bytes: arrays begin at the first bank
constexpr int garbage = 0xff;                  // NaN in every format

std::size_t rounded(std::size_t bytes, std::size_t to) { return (bytes + to - 1) / to * to; }

// Fills memory with options().fill. The writes are volatile, so that the compiler does not emit a call of memset, which
// ThreadSanitizer would attribute to the GPU thread.
void fill(std::byte* memory, std::size_t bytes) {
  auto* const words = reinterpret_cast<volatile std::uint32_t*>(memory);
  for (std::size_t i = 0; i < rounded(bytes, 4) / 4; ++i) words[i] = options().fill;
}

std::byte* take(std::size_t bytes, Where where) {
  std::byte* const memory = block.shared + block.shared_used;
  block.shared_used += rounded(bytes, banks_period) + gap;
  if (block.shared_used > shared_bytes) fault("the block takes more shared memory than any GPU has", where);
  unpoison(memory, rounded(bytes, 8));
  fill(memory, bytes);
  poison(memory, rounded(bytes, 8));
  unpoison(memory, bytes);
  return memory;
}

}  // namespace

void clear_shared(std::byte* memory, const LaunchShape& shape) {
  block.shared = memory;
  block.shared_used = 0;
  block.dynamic_bytes = shape.shared_bytes;
  block.most_shared = shape.most_shared;
  block.dynamic_used = 0;
  block.fixed_count = block.dynamic_count = 0;
  poison(memory, shared_bytes);
}

void* fixed_shared(const void* key, std::size_t bytes, Where where) {
  std::size_t all = bytes;
  for (unsigned i = 0; i < block.fixed_count; ++i) {
    if (block.fixed[i].key == key) return block.fixed[i].memory;
    all += block.fixed[i].bytes;
  }
  if (all > most_fixed) fault(text("%zu bytes of static shared memory, but the limit is %zu", all, most_fixed), where);
  if (all + block.dynamic_bytes > block.most_shared)
    fault(text("%zu bytes of static and %zu bytes of dynamic shared memory, but the launch's limit is %zu", all,
               block.dynamic_bytes, block.most_shared),
          where);
  if (block.fixed_count == Block::most_arrays) fault("more than 32 shared arrays; raise Block::most_arrays", where);
  Array& made = block.fixed[block.fixed_count++];
  made = {key, take(bytes, where), bytes};
  return made.memory;
}

void* next_shared(std::size_t bytes, Where where) {
  const unsigned number = running->arrays++;
  if (number < block.dynamic_count) {
    const Array& there = block.dynamic[number];
    if (there.bytes != bytes)
      fault(text("array %u of the dynamic shared memory has %zu bytes here, and %zu for another thread", number, bytes,
                 there.bytes),
            where);
    return there.memory;
  }
  block.dynamic_used += rounded(bytes, shared_alignment);
  if (block.dynamic_used > block.dynamic_bytes)
    fault(text("%zu bytes of dynamic shared memory are taken; the kernel was launched with %zu", block.dynamic_used,
               block.dynamic_bytes),
          where);
  if (block.dynamic_count == Block::most_arrays) fault("more than 32 shared arrays; raise Block::most_arrays", where);
  Array& made = block.dynamic[block.dynamic_count++];
  made = {nullptr, take(bytes, where), bytes};
  return made.memory;
}

void copy_async(void* to, const void* from, std::size_t bytes, std::size_t valid, Where where) {
  Thread& self = *running;
  if (self.copy_count == Thread::most_copies)
    fault("more than 128 asynchronous copies in flight; raise Thread::most_copies", where);
  if (bytes != 4 && bytes != 8 && bytes != 16)
    fault(text("an asynchronous copy of %zu bytes; 4, 8 or 16 are allowed", bytes), where);
  if (valid > bytes) fault(text("an asynchronous copy of %zu bytes, of which %zu are valid", bytes, valid), where);
  if (reinterpret_cast<std::uintptr_t>(to) % bytes || (valid && reinterpret_cast<std::uintptr_t>(from) % bytes))
    fault(text("an asynchronous copy of %zu bytes that is not aligned", bytes), where);
  self.copies[self.copy_count++] = {to, from, bytes, valid, self.groups};
  std::memset(to, garbage, bytes);  // the content before the copy is complete is undefined
}

void commit_copies() { ++running->groups; }

void wait_copies(unsigned groups) {
  Thread& self = *running;
  unsigned left = 0;
  for (unsigned i = 0; i < self.copy_count; ++i) {
    const Copy copy = self.copies[i];
    if (copy.group + groups >= self.groups) {  // among the last, or not committed
      self.copies[left++] = copy;
      continue;
    }
    if (copy.valid > 0) std::memcpy(copy.to, copy.from, copy.valid);
    if (copy.valid < copy.bytes) std::memset(static_cast<std::byte*>(copy.to) + copy.valid, 0, copy.bytes - copy.valid);
  }
  self.copy_count = left;
}

}  // namespace heddle::emulator
