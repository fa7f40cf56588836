// rotary(x, table, sequences, options): queries and keys rotated by angles that grow with their positions (Su et al.
// 2021), in the form of GPT-NeoX: column i of a head and column i + K / 2 are a point of the plane. rotary_table()
// computes the cosines and sines.
#pragma once
#include <cmath>

#include <heddle/autograd/record.hpp>
#include <heddle/base/threads.hpp>
#include <heddle/core/sequences.hpp>
#include <heddle/cpu/vector.hpp>
#include <heddle/kernel/rotary_frequencies.hpp>
#include <heddle/ops/padded.hpp>

namespace heddle {

/// The options of rotary().
struct RotaryOptions {
  Index heads = 1;    ///< the number of blocks of K columns of x
  Index rotated = 1;  ///< the number of blocks that are rotated, from the first one on; the others are copied
};

namespace kernel {

// Computes cos(t f) and sin(t f) of each position t and frequency f. The product is rounded to float, as PyTorch does.
template <class A>
void rotary_table(Cpu, const RotaryFrequencies& frequencies, View<A, 2> table) {
  const Index half = frequencies.pairs;
  parallel(table.extent[0], row_grain(64 * half), [&](Index first, Index last) {
    for (Index t = first; t < last; ++t)
      for (Index i = 0; i < half; ++i) {
        const float angle = static_cast<float>(t) * frequencies.of_pair[i];
        table(t, i) = static_cast<A>(std::cos(static_cast<double>(angle)));
        table(t, half + i) = static_cast<A>(std::sin(static_cast<double>(angle)));
      }
  });
}

// y = (a cos - b sin, b cos + a sin) for each point (a, b) of the first `rotated` heads, with the table's row of the
// position. With `back`, the sines have the other sign: this is the inverse, and also the backward.
template <class T>
void rotary(Cpu, View<const T, 2> x, View<const Acc<T>, 2> table, View<const int, 1> position, Index rotated, bool back,
            View<T, 2> y) {
  using A = Acc<T>;
  const Index W = x.extent[1], K = table.extent[1], half = K / 2;
  parallel(x.extent[0], row_grain(W), [&](Index first, Index last) {
    for (Index n = first; n < last; ++n) {
      const A *const cosines = &table(position(n), 0), *const sines = cosines + half;
      for (Index h = 0; h < rotated; ++h) {
        const T *const a = &x(n, h * K), *const b = a + half;
        T *const ya = &y(n, h * K), *const yb = ya + half;
        for_each_chunk<A>(half, [&](Chunk<A> at) {
          const Vector<A> av = at.load(a), bv = at.load(b), c = at.load(cosines),
                          s = back ? Vector<A>(0) - at.load(sines) : at.load(sines);
          at.store(ya, av * c - bv * s);
          at.store(yb, bv * c + av * s);
        });
      }
      const Index kept = rotated * K;
      std::copy_n(x.data + n * W + kept, W - kept, y.data + n * W + kept);
    }
  });
}

}  // namespace kernel

/// Returns the frequencies of the pairs of columns of a head: base^(-2 i / K) for i from 0 to K / 2 - 1, in float as
/// PyTorch computes them. They are divided by `divisor`, for texts that are longer than those of the training (Chen et
/// al. 2023). @throws ShapeError unless K is even and from 2 to 512, and Error unless base and divisor are finite and
/// above 0.
inline std::vector<float> rotary_frequencies(Index K, double base = 10000, double divisor = 1) {
  require<ShapeError>(K >= 2 && K % 2 == 0 && K / 2 <= kernel::RotaryFrequencies::most,
                      "rotary_frequencies: K must be even and from 2 to 512, got ", K);
  require(std::isfinite(base) && base > 0, "rotary_frequencies: the base must be finite and above 0, got ", base);
  require(std::isfinite(divisor) && divisor > 0, "rotary_frequencies: the divisor must be finite and above 0, got ",
          divisor);
  std::vector<float> frequencies;
  for (Index i = 0; i < K; i += 2) {
    const float exponent = static_cast<float>(i) / static_cast<float>(K);
    frequencies.push_back(1 / static_cast<float>(std::pow(base, static_cast<double>(exponent))));
    frequencies.back() /= static_cast<float>(divisor);
  }
  return frequencies;
}

/// Returns the cosines and sines of the angles of positions 0 to L - 1: a row has K / 2 cosines and then K / 2 sines,
/// for as many frequencies. Rows in bf16 are rotated with a table in float. @throws ShapeError for a negative L, for no
/// frequency and for more than 256, and Error for a device that this build does not support.
template <std::floating_point T>
Tensor<T> rotary_table(Index L, const std::vector<float>& frequencies, Device device = Device::cpu) {  // [L, K]
  const auto pairs = static_cast<Index>(frequencies.size());
  require<ShapeError>(L >= 0, "rotary_table: L must not be negative, got ", L);
  require<ShapeError>(pairs >= 1 && pairs <= kernel::RotaryFrequencies::most,
                      "rotary_table: the number of frequencies must be from 1 to 256, got ", pairs);
  kernel::RotaryFrequencies given{{}, static_cast<int>(pairs)};
  std::copy(frequencies.begin(), frequencies.end(), given.of_pair);
  Tensor<T> table({L, 2 * pairs}, device);
  dispatch(table, [&](auto where) { kernel::rotary_table(where, given, view<2>(table)); });
  return table;
}

/// Returns x with the first `rotated` of its heads rotated by the table's row of each position; the other heads are
/// copied. So the queries and keys in the product of a combined map, [N, 3 * H * K], are rotated with {.heads = 3 * H,
/// .rotated = 2 * H}. Rows outside all sequences have position 0. @throws ShapeError unless x is [sequences.rows(),
/// heads * K] or a padded batch of these sequences, the table is [L, K], and `rotated` is from 0 to `heads`; IndexError
/// for a sequence longer than L.
template <Floating T>
Tensor<T> rotary(const Tensor<T>& x,           // [N, heads * K] or [B, T, heads * K]
                 const Tensor<Acc<T>>& table,  // [L, K]
                 const Sequences& sequences, const RotaryOptions& options) {
  require_rank("rotary", {"table", table}, 2);
  const Tensor<T> rows = detail::rows_of_batch(x, sequences);
  require_rows("rotary", {"x", rows}, sequences);
  require_same_device("rotary", {"x", rows}, {"table", table});
  const Index L = table.dim(0), K = table.dim(1);
  require<ShapeError>(K >= 2 && K % 2 == 0, "rotary: the table must have pairs of columns, got ", table.shape());
  require<ShapeError>(options.heads >= 1 && options.rotated >= 0 && options.rotated <= options.heads,
                      "rotary: heads must be at least 1 and rotated from 0 to heads, got ", options.heads, " and ",
                      options.rotated);
  require<ShapeError>(rows.rank() == 2 && rows.dim(1) == options.heads * K, "rotary: x ", x.shape(),
                      " must have columns for ", options.heads, " heads of ", K);
  require<IndexError>(sequences.longest() <= L, "rotary: a sequence of ", sequences.longest(),
                      " tokens is longer than the table's ", L, " positions");
  if (L == 0) return x;  // there is no row that a position could take
  const auto turned = [=, position = sequences.position()](const Tensor<T>& from, bool back) {
    Tensor<T> to = empty_like(from);
    dispatch(from, [&](auto device) {
      kernel::rotary(device, view<2>(from), view<2>(table), view<1>(position), options.rotated, back, view<2>(to));
    });
    return to;
  };
  const Tensor<T> y =
      record("rotary", turned(rows, false), inputs(rows), [=](const Tensor<T>& dy) { return turned(dy, true); });
  return detail::rows_as_given(y, x.shape(), sequences);
}

template <std::integral T, class... Others>
void rotary(const Tensor<T>&, const Others&...) = delete;  // needs cast<float>(x)

}  // namespace heddle
