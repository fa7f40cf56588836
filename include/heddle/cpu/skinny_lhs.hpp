// SkinnyLhs: a product whose left operand has few rows, as for a single text. It costs little more than reading the right
// operand, so it reads that in place; libraries copy all of it into their own order first.
#pragma once
#include <heddle/cpu/eigen.hpp>

namespace heddle::kernel {

// The left operand, transposed: the elements of one column are in the lanes of one or two registers.
class SkinnyLhs {
 public:
  static bool pays(Index rows, Index columns, Index depth) {
    constexpr Index worth_it = 1 << 18;  // numbers on the right: more than the first cache holds
    return rows > Half::lanes / 2 && rows <= 2 * lanes && columns * depth >= worth_it;
  }

  explicit SkinnyLhs(MatrixView<const float> a) : rows_(a.rows), at_once_({a.width, 2 * lanes}) {
    const View<float, 2> x = view<2>(at_once_);
    for (Index k = 0; k < a.width; ++k) {
      for (Index m = 0; m < rows_; ++m) x(k, m) = a(m, k);
      std::fill_n(&x(k, 0) + rows_, 2 * lanes - rows_, 0.f);
    }
  }

  // c = a b^T, or c += a b^T, for b [N, K].
  void times_transposed(MatrixView<const float> b, MatrixView<float> c, Into into) const {
    if (rows_ <= Half::lanes) return multiply<Half, None>(b, c, into);
    if (rows_ <= lanes) return multiply<Whole, None>(b, c, into);
    if (rows_ <= lanes + Half::lanes) return multiply<Whole, Half>(b, c, into);
    multiply<Whole, Whole>(b, c, into);
  }

 private:
  // Registers.
  struct Whole {
    using Packet = Eigen::internal::packet_traits<float>::type;
    static constexpr Index lanes = sizeof(Packet) / sizeof(float);
  };
  struct Half {
    using Packet = Eigen::internal::packet_traits<float>::half;
    static constexpr Index lanes = sizeof(Packet) / sizeof(float);
  };
  struct None {};
  static constexpr Index lanes = Whole::lanes;
  static constexpr int most_columns =
      lanes == 16 ? 8 : 6;                     // whose sums stay in registers: there are 32 in AVX-512, else 16
  static constexpr Index depth_at_once = 512;  // a sum of sums is nearer the exact one

  template <class First, class Second>
  void multiply(MatrixView<const float> b, MatrixView<float> c, Into into) const {
    float sums[most_columns][2 * lanes];
    const auto some_columns = [&]<int columns>(Index n) {
      std::fill_n(&sums[0][0], std::size(sums) * std::size(sums[0]), 0.f);
      for (Index k = 0; k < b.width; k += depth_at_once)
        add_block<columns, First, Second>(b, n, k, std::min(k + depth_at_once, b.width), sums);
      for (Index m = 0; m < rows_; ++m)
        for (int i = 0; i < columns; ++i) c(m, n + i) = (into == Into::add ? c(m, n + i) : 0.f) + sums[i][m];
    };
    Index n = 0;
    for (; n + most_columns <= c.width; n += most_columns) some_columns.template operator()<most_columns>(n);
    for (; n < c.width; ++n) some_columns.template operator()<1>(n);
  }

  // Adds the products of elements [k, end) with rows n to n + columns of b.
  template <int columns, class First, class Second>
  void add_block(MatrixView<const float> b, Index n, Index k, Index end, float (*sums)[2 * lanes]) const {
    using Eigen::internal::padd, Eigen::internal::ploadu, Eigen::internal::pmadd, Eigen::internal::pset1,
        Eigen::internal::pstoreu;
    constexpr bool two = !std::is_same_v<Second, None>;
    using Packet = typename First::Packet;
    using Other = typename std::conditional_t<two, Second, First>::Packet;
    Packet sum[columns];
    Other other[columns];
    for (int i = 0; i < columns; ++i) {
      sum[i] = pset1<Packet>(0.f);
      if constexpr (two) other[i] = pset1<Other>(0.f);
    }
    const float* a = at_once_.data() + k * 2 * lanes;
    const float* const rows = &b(n, 0);
    for (; k < end; ++k, a += 2 * lanes) {
      const Packet x = ploadu<Packet>(a);
      Other x_other;
      if constexpr (two) x_other = ploadu<Other>(a + First::lanes);
      for (int i = 0; i < columns; ++i) {
        const float weight = rows[i * b.stride + k];
        sum[i] = pmadd(x, pset1<Packet>(weight), sum[i]);
        if constexpr (two) other[i] = pmadd(x_other, pset1<Other>(weight), other[i]);
      }
    }
    for (int i = 0; i < columns; ++i) {
      pstoreu(sums[i], padd(ploadu<Packet>(sums[i]), sum[i]));
      if constexpr (two) pstoreu(sums[i] + First::lanes, padd(ploadu<Other>(sums[i] + First::lanes), other[i]));
    }
  }

  Index rows_;
  Tensor<float> at_once_;  // [K, lanes of two registers]
};

}  // namespace heddle::kernel
