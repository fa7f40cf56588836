// Vector<A>: as many floats or doubles as a register holds, and loops over rows of elements, one vector at a time. The
// CPU's kernels are written with it. Eigen's expressions would instantiate dozens of functions for each formula, and
// take most of the time of a compilation.
#pragma once
#include <algorithm>
#include <bit>
#include <cstring>
#include <limits>

#include <heddle/base/number_types.hpp>
#include <heddle/cpu/eigen.hpp>

namespace heddle::kernel {

#if defined(__AVX512F__)
inline constexpr int register_bytes = 64;
#elif defined(__AVX__)
inline constexpr int register_bytes = 32;
#else
inline constexpr int register_bytes = 16;
#endif

typedef float Floats __attribute__((vector_size(register_bytes)));
typedef double Doubles __attribute__((vector_size(register_bytes)));
// Vectors of 32-bit and 16-bit unsigned integers with as many lanes as Floats.
typedef std::uint32_t Words __attribute__((vector_size(register_bytes)));
typedef std::uint16_t Halves __attribute__((vector_size(register_bytes / 2)));

// Returns 2^n for the integer n that the lowest bits of each lane hold.
inline Floats power_of_lowest_bits(Floats x) {
  return reinterpret_cast<Floats>((reinterpret_cast<Words>(x) << 23) + 0x3f800000u);
}

// The lanes of one register, of type float or double (A). In a formula, a number stands for a vector of equal lanes.
// Lanes is a vector type of g++ and clang, whose operators compile to single instructions. The register's size is part
// of the type, so that object files for different instruction sets do not share functions that take vectors.
template <class A, int bytes = register_bytes>
struct Vector {
  using Scalar = A;
  static constexpr Index width = bytes / static_cast<Index>(sizeof(A));
  using Lanes = std::conditional_t<std::is_same_v<A, double>, Doubles, Floats>;
  static_assert(sizeof(Lanes) == width * sizeof(A));
  // The result of a comparison: all bits of a lane are set where it holds.
  struct Mask {
    decltype(Lanes{} < Lanes{}) bits;
    friend Mask operator||(Mask a, Mask b) { return {a.bits | b.bits}; }
  };

  Lanes lanes;

  Vector() = default;
  Vector(Lanes x) : lanes(x) {}
  Vector(A x) : lanes(x - Lanes{}) {}

  friend Vector operator+(Vector a, Vector b) { return a.lanes + b.lanes; }
  friend Vector operator-(Vector a, Vector b) { return a.lanes - b.lanes; }
  friend Vector operator*(Vector a, Vector b) { return a.lanes * b.lanes; }
  friend Vector operator/(Vector a, Vector b) { return a.lanes / b.lanes; }
  Vector& operator+=(Vector b) { return *this = *this + b; }

  friend Mask operator==(Vector a, Vector b) { return {a.lanes == b.lanes}; }
  friend Mask operator!=(Vector a, Vector b) { return {a.lanes != b.lanes}; }
  friend Mask operator<(Vector a, Vector b) { return {a.lanes < b.lanes}; }
  friend Mask operator<=(Vector a, Vector b) { return {a.lanes <= b.lanes}; }
  friend Mask operator>(Vector a, Vector b) { return {a.lanes > b.lanes}; }
  friend Mask operator>=(Vector a, Vector b) { return {a.lanes >= b.lanes}; }
  // Selects for each lane: `a` if the mask is set, otherwise `b`.
  friend Vector select(Mask mask, Vector a, Vector b) { return mask.bits ? a.lanes : b.lanes; }
  // Returns the larger value of each lane, as std::max does: if b is NaN, the result is a; if a is NaN, it is NaN.
  friend Vector max(Vector a, Vector b) { return a.lanes < b.lanes ? b.lanes : a.lanes; }

  // Eigen's functions. For double, Eigen 3.4 vectorizes only abs, exp and log.
  friend Vector abs(Vector x) {
    return x.with_eigen([](const auto& v) { return v.abs(); });
  }
  friend Vector erf(Vector x) {
    return x.with_eigen([](const auto& v) { return v.erf(); });
  }
  // Clamps its argument: exp(-infinity) is a subnormal number.
  friend Vector exp(Vector x) {
    return x.with_eigen([](const auto& v) { return v.exp(); });
  }
  // Returns exp(x) for x <= 88, with an error of about one last bit; where it is less than the smallest normal number,
  // exactly 0. For float the function takes half as many instructions as exp().
  friend Vector exp_or_zero(Vector x) {
    constexpr A smallest = std::numeric_limits<A>::min();
    if constexpr (std::is_same_v<A, double>) {
      return max(exp(x) - smallest, Vector(0));
    } else {
      // exp(x) = 2^n exp(r), where n is the integer next to x / log 2. The sum with 1.5 * 2^23 rounds to an integer and
      // holds it in its lowest bits. log 2 has two parts, so that n times the first is exact (Cody and Waite, 1980).
      constexpr float to_integer = 0x1.8p23f, log_2 = 0.693359375f, rest_of_log_2 = -2.12194440e-4f;
      const Vector shifted = x * Vector(1.44269504f) + to_integer, n = shifted - to_integer;
      const Vector r = x - n * log_2 - n * rest_of_log_2;
      // (exp(r) - 1 - r) / r^2 for |r| <= log(2) / 2: the polynomial with the least greatest error.
      Vector q = r * Vector(0x1.6a23cep-10f) + 0x1.123a2p-7f;
      q = q * r + 0x1.5558f2p-5f;
      q = q * r + 0x1.555492p-3f;
      q = q * r + 0x1.fffffcp-2f;
      const Vector exp_of_r = q * (r * r) + r + Vector(1);
      const Vector power = power_of_lowest_bits(shifted.lanes);
      constexpr float log_of_smallest = -87.33654f;
      return select(x < log_of_smallest, Vector(0), exp_of_r * power);
    }
  }
  friend Vector log(Vector x) {
    return x.with_eigen([](const auto& v) { return v.log(); });
  }
  friend Vector log1p(Vector x) {
    return x.with_eigen([](const auto& v) { return v.log1p(); });
  }
  // Rounds correctly. Eigen's square root does not, and it may return NaN for infinity.
  friend Vector sqrt(Vector x) {
#if defined(__AVX512F__)
    if constexpr (std::is_same_v<A, float>)
      return _mm512_mask_sqrt_ps(x.lanes, 0xffff, x.lanes);  // with a mask, because g++ 12 warns of _mm512_sqrt_ps
    else
      return _mm512_mask_sqrt_pd(x.lanes, 0xff, x.lanes);
#elif defined(__AVX__)
    if constexpr (std::is_same_v<A, float>)
      return _mm256_sqrt_ps(x.lanes);
    else
      return _mm256_sqrt_pd(x.lanes);
#elif defined(__SSE2__)
    if constexpr (std::is_same_v<A, float>)
      return _mm_sqrt_ps(x.lanes);
    else
      return _mm_sqrt_pd(x.lanes);
#else
    for (Index i = 0; i < width; ++i) x.lanes[i] = std::sqrt(x.lanes[i]);
    return x;
#endif
  }
  friend Vector tanh(Vector x) {
    return x.with_eigen([](const auto& v) { return v.tanh(); });
  }
  // Returns std::pow of each lane, because Eigen 3.4's vectorized pow gives infinity instead of -infinity for (-0)^-1.
  friend Vector pow(Vector x, Vector y) {
    for (Index i = 0; i < width; ++i) x.lanes[i] = std::pow(x.lanes[i], y.lanes[i]);
    return x;
  }

 private:
  template <class F>
  Vector with_eigen(F f) const {
    Eigen::Array<A, width, 1> x;
    std::memcpy(x.data(), &lanes, sizeof lanes);
    x = f(x);
    Vector y;
    std::memcpy(&y.lanes, x.data(), sizeof lanes);
    return y;
  }
};

// Returns the lower or the upper half of the lanes. The indices are literals, because nvcc does not expand a
// pack of them.
template <class Lanes>
[[gnu::always_inline]] inline auto lower_half(Lanes x) {
  constexpr std::size_t half = sizeof x / sizeof x[0] / 2;
  static_assert(half == 1 || half == 2 || half == 4 || half == 8);
  if constexpr (half == 1) return x[0];
  if constexpr (half == 2) return __builtin_shufflevector(x, x, 0, 1);
  if constexpr (half == 4) return __builtin_shufflevector(x, x, 0, 1, 2, 3);
  if constexpr (half == 8) return __builtin_shufflevector(x, x, 0, 1, 2, 3, 4, 5, 6, 7);
}
template <class Lanes>
[[gnu::always_inline]] inline auto upper_half(Lanes x) {
  constexpr std::size_t half = sizeof x / sizeof x[0] / 2;
  if constexpr (half == 1) return x[1];
  if constexpr (half == 2) return __builtin_shufflevector(x, x, 2, 3);
  if constexpr (half == 4) return __builtin_shufflevector(x, x, 4, 5, 6, 7);
  if constexpr (half == 8) return __builtin_shufflevector(x, x, 8, 9, 10, 11, 12, 13, 14, 15);
}

// Returns the reduction of all lanes by f, in the order of a binary tree. f takes two values of a
// compiler's vector type, or two numbers.
template <class Lanes, class F>
[[gnu::always_inline]] inline auto reduce_lanes(Lanes x, F f) {
  const auto joined = f(lower_half(x), upper_half(x));
  if constexpr (sizeof joined == sizeof x[0])
    return joined;
  else
    return reduce_lanes(joined, f);
}
template <class A, int bytes>
A sum_of_lanes(Vector<A, bytes> x) {
  return reduce_lanes(x.lanes, [](auto a, auto b) { return a + b; });
}
template <class A, int bytes>
A max_of_lanes(Vector<A, bytes> x) {
  return reduce_lanes(x.lanes, [](auto a, auto b) { return a < b ? b : a; });
}

// Returns bf16 as floats.
inline Floats widened(Halves x) { return reinterpret_cast<Floats>(__builtin_convertvector(x, Words) << 16); }
// Returns floats rounded to bf16, as bf16's constructor rounds them.
inline Halves narrowed(Floats x) {
  const Words word = reinterpret_cast<Words>(x);
  const Words rounded = (word + 0x7fffu + (word >> 16 & 1u)) >> 16;
  return __builtin_convertvector(x != x ? Words{} + 0x7fffu : rounded, Halves);
}

// Returns `width` elements of T as a vector of A, rounded if A is narrower.
template <class A, class T, int bytes = register_bytes>
Vector<A, bytes> load_vector(const T* x) {
  Vector<A, bytes> y;
  if constexpr (std::is_same_v<A, T>) {
    std::memcpy(&y.lanes, x, sizeof y.lanes);
  } else if constexpr (std::is_same_v<T, bf16> && std::is_same_v<A, float>) {
    Halves halves;
    std::memcpy(&halves, x, sizeof halves);
    y.lanes = widened(halves);
  } else {
    for (Index i = 0; i < y.width; ++i) y.lanes[i] = static_cast<A>(x[i]);
  }
  return y;
}
// Stores all lanes of x as elements of T, rounded.
template <class T, class A, int bytes>
void store_vector(T* y, Vector<A, bytes> x) {
  if constexpr (std::is_same_v<A, T>) {
    std::memcpy(y, &x.lanes, sizeof x.lanes);
  } else if constexpr (std::is_same_v<T, bf16> && std::is_same_v<A, float>) {
    const Halves halves = narrowed(x.lanes);
    std::memcpy(y, &halves, sizeof halves);
  } else {
    for (Index i = 0; i < x.width; ++i) y[i] = static_cast<T>(x.lanes[i]);
  }
}

#if defined(__AVX__) && !defined(__AVX512F__)
inline constexpr std::int32_t words_of_mask[16] = {-1, -1, -1, -1, -1, -1, -1, -1};
#endif
// Returns the first `count` elements in a vector; the other lanes are 0. `count` must be less than the number of lanes.
// Uses masked loads where the processor has them. The alternative, a copy to an array, is slow: the load of the array
// waits for the stores of its elements.
template <class A, class T, int bytes = register_bytes>
Vector<A, bytes> load_part(const T* x, Index count) {
  [[maybe_unused]] constexpr bool is_float = std::is_same_v<A, float> && std::is_same_v<T, float>;
  [[maybe_unused]] constexpr bool is_double = std::is_same_v<A, double> && std::is_same_v<T, double>;
#if defined(__AVX512F__)
  const unsigned mask = (1u << count) - 1;
  if constexpr (is_float) return _mm512_maskz_loadu_ps(static_cast<__mmask16>(mask), x);
  if constexpr (is_double) return _mm512_maskz_loadu_pd(static_cast<__mmask8>(mask), x);
#if defined(__AVX512BW__) && defined(__AVX512VL__)
  if constexpr (std::is_same_v<A, float> && std::is_same_v<T, bf16>)
    return widened(std::bit_cast<Halves>(_mm256_maskz_loadu_epi16(static_cast<__mmask16>(mask), x)));
#endif
#elif defined(__AVX__)
  if constexpr (is_float || is_double) {
    constexpr Index words = sizeof(A) / sizeof(std::int32_t);
    __m256i mask;
    std::memcpy(&mask, words_of_mask + 8 - words * count, sizeof mask);
    if constexpr (is_float)
      return _mm256_maskload_ps(x, mask);
    else
      return _mm256_maskload_pd(x, mask);
  }
#endif
  A lanes[Vector<A, bytes>::width] = {};
  for (Index i = 0; i < count; ++i) lanes[i] = static_cast<A>(x[i]);
  return load_vector<A>(lanes);
}
// Stores the first `count` lanes of x as elements of T, rounded.
template <class T, class A, int bytes>
void store_part(T* y, Vector<A, bytes> x, Index count) {
#if defined(__AVX512F__)
  const unsigned mask = (1u << count) - 1;
  if constexpr (std::is_same_v<T, float> && std::is_same_v<A, float>)
    return _mm512_mask_storeu_ps(y, static_cast<__mmask16>(mask), x.lanes);
  if constexpr (std::is_same_v<T, double> && std::is_same_v<A, double>)
    return _mm512_mask_storeu_pd(y, static_cast<__mmask8>(mask), x.lanes);
#endif
  T elements[Vector<A, bytes>::width];
  store_vector(elements, x);
  std::copy_n(elements, count, y);
}

// Adjacent elements of a row: as many as a vector has lanes, or fewer at the end of the row.
template <class A, int bytes = register_bytes>
struct Chunk {
  using V = Vector<A, bytes>;

  Index first;  // the first element
  Index count;  // the number of elements, at most V::width

  // Returns the chunk's elements of a row; further lanes are 0.
  template <class T>
  V load(const T* row) const {
    if (is_full()) [[likely]]
      return load_vector<A>(row + first);
    return load_part<A>(row + first, count);
  }
  // Stores x in the chunk's elements of a row, rounded to T.
  template <class T>
  void store(T* row, V x) const {
    if (is_full()) [[likely]]
      return store_vector(row + first, x);
    store_part(row + first, x, count);
  }
  // Returns x with `other` in the lanes that have no element.
  V fill(V x, A other) const {
    if (is_full()) [[likely]]
      return x;
    return select(numbers(std::make_index_sequence<V::width>{}) < V(static_cast<A>(count)), x, V(other));
  }

 private:
  bool is_full() const { return count == V::width; }
  // Returns the lane numbers 0, 1, 2, ... as a vector.
  template <std::size_t... Is>
  static V numbers(std::index_sequence<Is...>) {
    return V(typename V::Lanes{static_cast<A>(Is)...});
  }
};

// Calls f(chunk) for the elements [first, last) of a row. Full chunks have a loop of their own, from which the compiler
// removes the branches for other chunks. Inlined together with f, so that the sums accumulated in f stay in registers.
template <class A, class F>
[[gnu::always_inline, gnu::flatten]] inline void for_each_chunk(Index first, Index last, F&& f) {
  constexpr Index width = Vector<A>::width;
  for (; first + width <= last; first += width) f(Chunk<A>{first, width});
  if (first < last) f(Chunk<A>{first, last - first});
}
// Calls f(chunk) for a row of n elements.
template <class A, class F>
[[gnu::always_inline, gnu::flatten]] inline void for_each_chunk(Index n, F&& f) {
  for_each_chunk<A>(0, n, f);
}

// Returns the sum of f(chunk) over all elements of a row. Two partial sums alternate, so that additions overlap.
template <class A, class F>
[[gnu::always_inline, gnu::flatten]] inline A sum_of(Index n, F&& f) {
  constexpr Index width = Vector<A>::width;
  Vector<A> even(0), odd(0);
  Index i = 0;
  for (; i + width <= n; i += width) {
    const Vector<A> next = even + f(Chunk<A>{i, width});
    even = odd;
    odd = next;
  }
  if (const Chunk<A> rest{i, n - i}; rest.count > 0) even += rest.fill(f(rest), 0);
  return sum_of_lanes(even + odd);
}
// Returns the largest of f(chunk) over all elements of a row; -infinity if there are none. Ignores NaN.
template <class A, class F>
[[gnu::always_inline, gnu::flatten]] inline A max_of(Index n, F&& f) {
  constexpr Index width = Vector<A>::width;
  constexpr A least = -std::numeric_limits<A>::infinity();
  Vector<A> top(least);
  Index i = 0;
  for (; i + width <= n; i += width) top = max(top, f(Chunk<A>{i, width}));
  if (const Chunk<A> rest{i, n - i}; rest.count > 0) top = max(top, rest.fill(f(rest), least));
  return max_of_lanes(top);
}

// Scratch memory for n numbers, aligned to a cache line. A load that crosses cache lines is slow soon after a
// store to them.
template <class A>
class Scratch {
 public:
  explicit Scratch(Index n) : memory_({n}), data_(memory_.data()) {}
  A* data() const { return data_; }
  // Sets all numbers to 0, and returns their address.
  A* zeroed() {
    std::fill_n(data_, memory_.size(), A(0));
    return data_;
  }

 private:
  Tensor<A> memory_;
  A* data_;  // Tensor::data() counts a write, which would be a race between threads
};

inline constexpr Index scalar_loop_limit = 4;  // up to this many elements, a scalar loop is faster than vectors

// Adds n elements of x to sum. For integers, A is an unsigned type, because its overflow is defined.
template <class A, class T>
void add_row(A* sum, const T* x, Index n) {
  if constexpr (!std::is_integral_v<A>)
    if (n > scalar_loop_limit)
      return for_each_chunk<A>(n, [&](Chunk<A> at) { at.store(sum, at.load(sum) + at.load(x)); });
  for (Index i = 0; i < n; ++i) sum[i] += static_cast<A>(x[i]);
}
// Computes sum [width], the sum of the rows row(0) to row(n - 1), from partial sums of 64 rows, so that rounding errors
// hardly grow with n. `scratch` has `width` numbers.
template <class A, class Row>
void add_rows(A* sum, Index n, Index width, const Row& row, Scratch<A>& scratch) {
  constexpr Index block = 64;
  std::fill_n(sum, width, A(0));
  for (Index i = 0; i < std::min(n, block); ++i) add_row(sum, row(i), width);
  for (Index first = block; first < n; first += block) {
    A* const part = scratch.zeroed();
    for (Index i = first; i < std::min(n, first + block); ++i) add_row(part, row(i), width);
    add_row(sum, part, width);
  }
}
// Computes y = x * factor for n elements; y may be x.
template <class T, class U, class A>
void scale_row(T* y, const U* x, Index n, A factor) {
  for_each_chunk<A>(n, [&](Chunk<A> at) { at.store(y, at.load(x) * factor); });
}
// Computes y = x / divisor for n elements.
template <class T, class U, class A>
void divide_row(T* y, const U* x, Index n, A divisor) {
  if constexpr (!std::is_integral_v<A>)
    if (n > scalar_loop_limit) return for_each_chunk<A>(n, [&](Chunk<A> at) { at.store(y, at.load(x) / divisor); });
  for (Index i = 0; i < n; ++i) y[i] = static_cast<T>(static_cast<A>(x[i]) / divisor);
}
// Copies n elements of x to y, rounded if T is narrower.
template <class T, class U>
void copy_row(T* y, const U* x, Index n) {
  using A = std::conditional_t<std::is_same_v<T, double> || std::is_same_v<U, double>, double, float>;
  for_each_chunk<A>(n, [&](Chunk<A> at) { at.store(y, at.load(x)); });
}

// A converter of rows of T to Acc<T>, for rows that are read more than once. It returns the row itself if T is Acc<T>.
// For bf16 it returns a copy, which the next call overwrites.
template <class T>
class WideRow {
 public:
  using A = Acc<T>;
  explicit WideRow(Index n) : n_(n), copy_(std::is_same_v<T, A> ? 0 : n + Vector<A>::width) {}
  const A* operator()(const T* row) {
    if constexpr (std::is_same_v<T, A>) {
      return row;
    } else {
      // Stores whole vectors, also past the end of the row, because a load of a partly stored vector waits.
      for_each_chunk<A>(n_, [&](Chunk<A> at) { store_vector(copy_.data() + at.first, at.load(row)); });
      return copy_.data();
    }
  }

 private:
  Index n_;
  Scratch<A> copy_;
};

}  // namespace heddle::kernel
