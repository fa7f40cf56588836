// Counts memory traffic: the cycles of shared memory, with the conflicts of its banks, and the sectors of global
// memory.
#include <algorithm>

#include "memory.hpp"

namespace heddle::ptx {

namespace {

constexpr u32 bank_count = 32;
constexpr u32 word_bytes = 4;
constexpr u32 sector_bytes = 32;

// A small set of at most `capacity` numbers.
template <int capacity>
struct SmallSet {
  u64 values[capacity];
  int size = 0;

  void insert(u64 value) {
    for (int i = 0; i < size; ++i)
      if (values[i] == value) return;
    if (size < capacity) values[size++] = value;
  }
};

}  // namespace

// A wavefront serves each of the 32 banks once. The lanes are served together if each accesses up to 4 bytes, in
// halves for 8 bytes and in quarters for 16 bytes. Lanes that access the same word share it. More than 8 words of a
// bank count as 8.
void count_shared(Warp& warp, const u64 (&addresses)[32], u32 mask, u32 bytes, bool write) {
  Kernel::Traffic& traffic = warp.block->kernel->traffic;
  const int group = bytes <= 4 ? 32 : bytes == 8 ? 16 : 8;
  for (int first = 0; first < 32; first += group) {
    SmallSet<8> words[bank_count];
    int wavefronts = 0;
    for (int lane = first; lane < first + group; ++lane) {
      if (!(mask >> lane & 1)) continue;
      const u64 last_word = (addresses[lane] + bytes - 1) / word_bytes;
      for (u64 word = addresses[lane] / word_bytes; word <= last_word; ++word) {
        auto& bank = words[word % bank_count];
        bank.insert(word);
        wavefronts = std::max(wavefronts, bank.size);
      }
    }
    traffic.wavefronts[write] += static_cast<u64>(wavefronts);
    traffic.least_wavefronts[write] += wavefronts > 0;
  }
}

void count_global(Warp& warp, const u64 (&addresses)[32], u32 mask, u32 bytes, bool write) {
  Kernel::Traffic& traffic = warp.block->kernel->traffic;
  SmallSet<64> sectors;
  SmallSet<32> distinct;
  lanes(mask, [&](int lane) {
    distinct.insert(addresses[lane]);
    const u64 last_sector = (addresses[lane] + bytes - 1) / sector_bytes;
    for (u64 sector = addresses[lane] / sector_bytes; sector <= last_sector; ++sector) sectors.insert(sector);
  });
  const u64 least_bytes = static_cast<u64>(distinct.size) * bytes;
  traffic.sectors[write] += static_cast<u64>(sectors.size);
  traffic.least_sectors[write] += (least_bytes + sector_bytes - 1) / sector_bytes;
}

}  // namespace heddle::ptx
