// Between rows and sequences: padded batches packed and unpacked, and one row for each sequence.
#pragma once
#include <heddle/ops/embed.hpp>
#include <heddle/sequences.hpp>

namespace heddle {

namespace kernel {

template <class T>
void mean_rows(Cpu, View<const T, 2> x, View<const int, 1> begin, View<const int, 1> length, View<T, 2> y) {
  RowArray<Acc<T>> sum(x.extent[1]);
  for (Index b = 0; b < begin.extent[0]; ++b) {
    sum.setZero();
    for (Index t = 0; t < length(b); ++t) sum += load(row(x, begin(b) + t));
    store(row(y, b), sum / static_cast<Acc<T>>(std::max(length(b), 1)));
  }
}

template <class T>
void mean_rows_backward(Cpu device, View<const T, 2> dy, View<const int, 1> begin, View<const int, 1> length, View<T, 2> dx) {
  clear(device, View<T, 1>{dx.data, {dx.extent[0] * dx.extent[1]}});
  for (Index b = 0; b < begin.extent[0]; ++b)
    for (Index t = 0; t < length(b); ++t) store(row(dx, begin(b) + t), load(row(dy, b)) / static_cast<Acc<T>>(length(b)));
}

// Copies the tokens of each sequence between two layouts of the same sequences; what is no token is zeroed.
template <class T>
void copy_tokens(Cpu device, View<const int, 1> from_begin, View<const int, 1> to_begin, View<const int, 1> length,
                 View<const T, 2> from, View<T, 2> to) {
  clear(device, View<T, 1>{to.data, {to.extent[0] * to.extent[1]}});
  for (Index b = 0; b < length.extent[0]; ++b)
    std::copy_n(from.data + from_begin(b) * from.extent[1], length(b) * from.extent[1], to.data + to_begin(b) * to.extent[1]);
}

}  // namespace kernel

// Rows of x moved from one layout of sequences to another, as many of each as `to` has.
template <class T>
Tensor<T> move_tokens(const char* op, const Tensor<T>& x, Shape shape, const Sequences& from, const Sequences& to) {
  Tensor<T> y(shape, x.device());
  on(x, [&](auto device) {
    kernel::copy_tokens(device, view<1>(from.begin()), view<1>(to.begin()), view<1>(to.length()), view<2>(x), view<2>(y));
  });
  return record(op, y, inputs(x), [=, x_shape = x.shape()](const Tensor<T>& dy) {
    Tensor<T> dx(x_shape, dy.device());
    on(dy, [&](auto device) {
      kernel::copy_tokens(device, view<1>(to.begin()), view<1>(from.begin()), view<1>(to.length()), view<2>(dy), view<2>(dx));
    });
    return dx;
  });
}

// The tokens of a padded batch as rows, in the order of Sequences::packed(s.lengths()). s tells their lengths; where it is padded
// itself, it also tells where each sequence begins. Throws ShapeError.
template <class T>
Tensor<T> pack(const Tensor<T>& x,        // [B, T, D], to [N, D]
               const Sequences& s) {
  require_rank("pack", {"x", x, 0}, 3);
  require<ShapeError>(x.dim(0) == s.count() && x.dim(1) >= s.longest(), "pack: x ", x.shape(), " must be [", s.count(),
                      ", at least ", s.longest(), ", D] for these sequences");
  const Sequences padded = s.padded_to() ? s : Sequences::padded(s.lengths(), x.dim(1)).to(s.device());
  require<ShapeError>(padded.padded_to() == x.dim(1), "pack: x ", x.shape(), " is padded to ", x.dim(1), ", its sequences to ",
                      s.padded_to());
  const Sequences packed = Sequences::packed(s.lengths()).to(s.device());
  return move_tokens("pack", x, {packed.rows(), x.dim(2)}, padded, packed);
}

// Rows as a padded batch with zeros where there is no token; T is what s is padded to, or its longest length. Throws ShapeError.
template <class T>
Tensor<T> unpack(const Tensor<T>& rows,   // [N, D], to [B, T, D]
                 const Sequences& s) {
  require_rank("unpack", {"rows", rows, 0}, 2);
  require_rows("unpack", {"rows", rows, 0}, s);
  const Index T_ = s.padded_to() ? s.padded_to() : s.longest();
  const Sequences padded = Sequences::padded(s.lengths(), T_).to(s.device());
  return move_tokens("unpack", rows, {s.count(), T_, rows.dim(1)}, s, padded);
}

// The first token's row of each sequence; zeros for one without tokens. Throws ShapeError.
template <class T>
Tensor<T> first_rows(const Tensor<T>& x,  // [N, D], to [B, D]
                     const Sequences& s) {
  require_rank("first_rows", {"x", x, 0}, 2);
  require_rows("first_rows", {"x", x, 0}, s);
  std::vector<int> one;
  for (const int length : s.lengths()) one.push_back(std::min(length, 1));
  const Sequences alone = Sequences::padded(one, 1).to(s.device());
  return move_tokens("first_rows", x, {s.count(), x.dim(1)}, s, alone);
}

// The mean of each sequence's rows; zeros for one without tokens. Throws ShapeError.
template <class T>
Tensor<T> mean_rows(const Tensor<T>& x,   // [N, D], to [B, D]
                    const Sequences& s) {
  require_rank("mean_rows", {"x", x, 0}, 2);
  require_rows("mean_rows", {"x", x, 0}, s);
  Tensor<T> y({s.count(), x.dim(1)}, x.device());
  on(x, [&](auto device) { kernel::mean_rows(device, view<2>(x), view<1>(s.begin()), view<1>(s.length()), view<2>(y)); });
  return record("mean_rows", y, inputs(x), [=, shape = x.shape()](const Tensor<T>& dy) {
    Tensor<T> dx(shape, dy.device());
    on(dy, [&](auto device) {
      kernel::mean_rows_backward(device, view<2>(dy), view<1>(s.begin()), view<1>(s.length()), view<2>(dx));
    });
    return dx;
  });
}

}  // namespace heddle
