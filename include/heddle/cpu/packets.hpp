// Vector registers, for kernels that keep their sums in them. Eigen provides the instructions: Packet is its type of a
// register.
#pragma once
#include <heddle/cpu/eigen.hpp>

namespace heddle::kernel {

template <class A>
using Packet = typename Eigen::internal::packet_traits<A>::type;
template <class A>
inline constexpr Index packet_lanes = Eigen::internal::packet_traits<A>::size;

// Calls f(i) for i = 0 to n - 1, each a constant, so that arrays indexed by i stay in registers. The function that
// calls it must be [[gnu::flatten]]. Otherwise g++ does not inline some calls of f in a large program, the arrays stay
// in memory, and a product takes three times as long.
template <int n, class F>
[[gnu::always_inline]] inline void unrolled(F&& f) {
  [&]<int... i>(std::integer_sequence<int, i...>) { (f(std::integral_constant<int, i>{}), ...); }
  (std::make_integer_sequence<int, n>{});
}

// g++ warns that the vector type Packet loses its attributes as a template argument of PacketBlock.
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wignored-attributes"
// Transposes x, which has at most `columns` rows, into to [x.width, columns]; the other columns become zero.
template <class A>
[[gnu::flatten]] void transpose_rows(MatrixView<const A> x, Index columns, A* to) {
  constexpr int lanes = static_cast<int>(packet_lanes<A>);
  const Packet<A> zero = Eigen::internal::pset1<Packet<A>>(A(0));
  for (Index n = 0; n < columns; n += lanes) {
    Index k = 0;
    if (n < x.rows)
      for (; k + lanes <= x.width; k += lanes) {
        Eigen::internal::PacketBlock<Packet<A>, lanes> square;
        unrolled<lanes>([&](auto i) {
          square.packet[i] = n + i < x.rows ? Eigen::internal::ploadu<Packet<A>>(&x(n + i, k)) : zero;
        });
        Eigen::internal::ptranspose(square);
        unrolled<lanes>([&](auto i) { Eigen::internal::pstoreu(to + (k + i) * columns + n, square.packet[i]); });
      }
    else
      for (; k < x.width; ++k) Eigen::internal::pstoreu(to + k * columns + n, zero);
    for (; k < x.width; ++k)
      for (Index i = 0; i < lanes; ++i) to[k * columns + n + i] = n + i < x.rows ? x(n + i, k) : A(0);
  }
}
#pragma GCC diagnostic pop

}  // namespace heddle::kernel
