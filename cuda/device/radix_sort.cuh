// A stable sort of places 0, 1, ... by a number of each, its key: digit by digit, the lowest first, so that places with
// the same key stay in order. For each digit of up to 8 bits
//
//   count_digits     One block owns a tile of neighbouring places and counts how many have each digit. Keys are read
//                    once.
//   begin_blocks     One warp owns a digit and adds up what the blocks before each have of it. 1/8 of the keys' bytes
//                    or less, where the last block is full.
//   move_to_order    One block owns the same tile. It puts it in order in shared memory, so that neighbouring threads
//                    write neighbouring pairs. Keys and places are read once and written once.
//
// Counts are the only things that are added by atomics: integers, whose sum knows no order.
#pragma once
#include <bit>
#include <limits>

#include "shared.cuh"
#include "workspace.cuh"

namespace heddle::cuda {

// The source of the first digit: the key of a place is computed, Key::operator()(Index place) on the device.
template <class Key>
struct ByPlace {
  Key of;
  __device__ unsigned key(Index n) const { return of(n); }
  __device__ unsigned place(Index n) const { return static_cast<unsigned>(n); }
};
// And of those that follow: what the digits before have put in order.
struct Pairs {
  unsigned *keys, *places;
  __device__ unsigned key(Index n) const { return keys[n]; }
  __device__ unsigned place(Index n) const { return places[n]; }
};

namespace radix {

constexpr int threads = block_threads(256);
constexpr int warps = threads / warp_size;
constexpr int each = 8;  // places of a thread
constexpr int tile = threads * each;
constexpr int digit_bits = std::countr_zero(static_cast<unsigned>(threads));
constexpr int most_digits = 1 << digit_bits;
static_assert(most_digits == threads, "a thread for each digit");

struct Digit {
  int shift, bits;
  HEDDLE_HD int count() const { return 1 << bits; }
  HEDDLE_HD unsigned of(unsigned key) const { return key >> shift & ((1u << bits) - 1); }
};

__device__ inline int lane() { return static_cast<int>(threadIdx.x) % warp_size; }
__device__ inline int warp() { return static_cast<int>(threadIdx.x) / warp_size; }

// The sum over the lanes up to and with this one.
__device__ inline unsigned sum_up_to(unsigned value) {
  for (unsigned distance = 1; distance < warp_size; distance *= 2) {
    const unsigned below = __shfl_up_sync(all_lanes, value, distance);
    if (static_cast<unsigned>(lane()) >= distance) value += below;
  }
  return value;
}

// The sum over the threads of the block before this one. `which` tells the calls of a kernel apart.
template <int which>
__device__ unsigned sum_before(unsigned value) {
  auto& of_warp = shared<unsigned[warps], which>();
  const unsigned sum = sum_up_to(value);
  if (lane() == warp_size - 1) of_warp[warp()] = sum;
  __syncthreads();
  unsigned before = sum - value;
  for (int w = 0; w < warp(); ++w) before += of_warp[w];
  return before;
}

// Those lanes that are inside and have the same digit. All lanes come.
__device__ inline unsigned lanes_with(unsigned digit, int bits, bool inside) {
  unsigned same = __ballot_sync(all_lanes, inside);
  for (int bit = 0; bit < bits; ++bit) {
    const bool set = digit >> bit & 1;
    const unsigned with = __ballot_sync(all_lanes, set);
    same &= set ? with : ~with;
  }
  return same;
}

// counts [digits, blocks]
template <class Source>
__global__ __launch_bounds__(threads) void count_digits(Source source, Index count, Digit digit,
                                                        View<unsigned, 2> counts) {
  auto& found = shared<unsigned[most_digits]>();
  found[threadIdx.x] = 0;
  __syncthreads();
  for (int i = 0; i < each; ++i) {
    const Index n = Index{blockIdx.x} * tile + i * threads + threadIdx.x;
    if (n < count) atomicAdd(&found[digit.of(source.key(n))], 1u);
  }
  __syncthreads();
  if (static_cast<int>(threadIdx.x) < digit.count()) counts(threadIdx.x, blockIdx.x) = found[threadIdx.x];
}

// Of each count the sum of those of the same digit before it; totals [digits] are the sums of all.
[[maybe_unused]] static __global__ __launch_bounds__(threads) void begin_blocks(View<unsigned, 2> counts,
                                                                                View<unsigned, 1> totals) {
  constexpr int together = 8;  // loads of a lane that are on their way at once
  const auto [digits, blocks] = counts.extent;
  const Index d = Index{blockIdx.x} * warps + warp();
  if (d >= digits) return;
  unsigned before = 0;
  for (Index first = lane(); first - lane() < blocks; first += together * warp_size) {
    unsigned here[together];
    for (int i = 0; i < together; ++i) {
      const Index b = first + i * warp_size;
      here[i] = b < blocks ? counts(d, b) : 0;
    }
    for (int i = 0; i < together; ++i) {
      const Index b = first + i * warp_size;
      const unsigned sum = sum_up_to(here[i]);
      if (b < blocks) counts(d, b) = before + sum - here[i];
      before += __shfl_sync(all_lanes, sum, warp_size - 1);
    }
  }
  if (lane() == 0) totals(d) = before;
}

template <class Source>
__global__ __launch_bounds__(threads) void move_to_order(Source source, Index count, Digit digit,
                                                         View<const unsigned, 2> begins, View<const unsigned, 1> totals,
                                                         Pairs to) {
  auto& begin = shared<unsigned[warps][most_digits]>();
  auto& shift = shared<unsigned[most_digits]>();  // from a position in the tile's order to that in the whole
  auto& pairs = shared<unsigned[2][tile]>();
  const Index tile_begin = Index{blockIdx.x} * tile;
  const int filled = count - tile_begin < tile ? static_cast<int>(count - tile_begin) : tile;
  const auto d = threadIdx.x;

  // A warp's places are neighbours, 32 of them at a time. How many of the same digit it has before each.
  unsigned key[each], rank[each];
  const int first = warp() * each * warp_size + lane();
  for (int i = 0; i < each; ++i) {
    const int k = first + i * warp_size;
    key[i] = k < filled ? source.key(tile_begin + k) : 0;
  }
  for (int w = 0; w < warps; ++w) begin[w][d] = 0;
  __syncthreads();
  for (int i = 0; i < each; ++i) {
    const bool inside = first + i * warp_size < filled;
    const unsigned same = lanes_with(digit.of(key[i]), digit.bits, inside);
    const unsigned before = static_cast<unsigned>(__popc(same & ((1u << lane()) - 1)));
    unsigned& seen = begin[warp()][digit.of(key[i])];
    if (inside) rank[i] = seen + before;
    __syncwarp();
    if (inside && before == 0) seen += static_cast<unsigned>(__popc(same));
    __syncwarp();
  }
  __syncthreads();

  // A thread is a digit: where it begins in the tile, for each warp, and in the whole.
  unsigned in_tile = 0;
  for (int w = 0; w < warps; ++w) {
    const unsigned seen = begin[w][d];
    begin[w][d] = in_tile;
    in_tile += seen;
  }
  const bool is_digit = static_cast<int>(d) < digit.count();
  const unsigned digit_begin = sum_before<0>(in_tile);
  const unsigned before = sum_before<1>(is_digit ? totals(d) : 0);
  for (int w = 0; w < warps; ++w) begin[w][d] += digit_begin;
  if (is_digit) shift[d] = before + begins(d, blockIdx.x) - digit_begin;
  __syncthreads();

  for (int i = 0; i < each; ++i) {
    const int k = first + i * warp_size;
    if (k >= filled) continue;
    const unsigned at = begin[warp()][digit.of(key[i])] + rank[i];
    pairs[0][at] = key[i];
    pairs[1][at] = source.place(tile_begin + k);
  }
  __syncthreads();
  for (unsigned at = threadIdx.x; at < static_cast<unsigned>(filled); at += threads) {
    const unsigned n = at + shift[digit.of(pairs[0][at])];
    to.keys[n] = pairs[0][at];
    to.places[n] = pairs[1][at];
  }
}

}  // namespace radix

// The places 0, 1, ... `count` - 1 in the order of their keys, of which none is above `largest`; for the stream's work
// to come.
class SortedPlaces {
 public:
  static constexpr Index most = std::numeric_limits<unsigned>::max();

  template <class Key>
  SortedPlaces(Key key, Index count, unsigned largest, cudaStream_t stream)
      : count_(count), memory_{Workspace<unsigned>(2 * count), Workspace<unsigned>(2 * count)} {
    const int bits = static_cast<int>(std::bit_width(largest > 0 ? largest : 1u));
    const int passes = (bits + radix::digit_bits - 1) / radix::digit_bits, of_digit = (bits + passes - 1) / passes;
    sort(ByPlace<Key>{key}, {0, of_digit}, stream);
    for (int pass = 1; pass < passes; ++pass) sort(pairs(), {pass * of_digit, of_digit}, stream);
  }
  // Each of the places, in order, and its key.
  Pairs pairs() const { return {memory_[last_].data(), memory_[last_].data() + count_}; }

 private:
  template <class Source>
  void sort(Source source, radix::Digit digit, cudaStream_t stream) {
    const unsigned blocks = blocks_for(count_, radix::tile);
    const Index digits = digit.count();
    const Workspace<unsigned> memory(digits * (Index{blocks} + 1));
    unsigned *const counts = memory.data(), *const totals = counts + digits * blocks;
    launch<radix::count_digits<Source>>(blocks, radix::threads, 0, stream, source, count_, digit,
                                        View<unsigned, 2>{counts, {digits, blocks}});
    launch<radix::begin_blocks>(blocks_for(digits, radix::warps), radix::threads, 0, stream,
                                View<unsigned, 2>{counts, {digits, blocks}}, View<unsigned, 1>{totals, {digits}});
    last_ = 1 - last_;
    launch<radix::move_to_order<Source>>(blocks, radix::threads, 0, stream, source, count_, digit,
                                         View<const unsigned, 2>{counts, {digits, blocks}},
                                         View<const unsigned, 1>{totals, {digits}}, pairs());
  }

  Index count_;
  Workspace<unsigned> memory_[2];
  int last_ = 0;  // the one that holds the pairs
};

}  // namespace heddle::cuda
