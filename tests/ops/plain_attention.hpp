// Softmax attention by its formula, with plain loops that add one product after the other in T. In double it gives the
// expected values, in float the error that a kernel is allowed.
#pragma once
#include <heddle/ops/attention/attention.hpp>

namespace heddle::testing {

template <class T>
class PlainAttention {
 public:
  PlainAttention(Tensor<T> q, Tensor<T> k, Tensor<T> v, Sequences queries, AttentionOptions<T> options)
      : q_(std::move(q)),
        k_(std::move(k)),
        v_(std::move(v)),
        queries_(std::move(queries)),
        keys_(options.keys ? *options.keys : queries_),
        options_(std::move(options)),
        width_(q_.dim(1) / options_.heads),
        value_width_(v_.dim(1) / options_.heads),
        scale_(static_cast<T>(options_.scale.value_or(1 / std::sqrt(static_cast<double>(width_))))),
        drawn_("plain_attention", q_, k_, queries_, options_) {
    drawn_.draw("plain_attention", options_.dropout, options_.random);
  }

  Tensor<T> forward() const {  // [Nq, H * Kv]
    Tensor<T> y = zeros(Shape{q_.dim(0), v_.dim(1)});
    each_query([&](const Query& at) {
      for (const Index j : at.seen)
        for (Index d = 0; d < value_width_; ++d)
          y.data()[at.value + d] += at.keep(j) * at.p(j) * v_.data()[at.key_value(*this, j) + d];
    });
    return y;
  }

  // Returns the gradients of q, k, v and the bias.
  std::vector<Tensor<T>> backward(const Tensor<T>& dy) const {
    Tensor<T> dq = zeros(q_.shape()), dk = zeros(k_.shape()), dv = zeros(v_.shape()), dbias;
    if (options_.bias) dbias = zeros(options_.bias.shape());
    each_query([&](const Query& at) {
      std::vector<T> dp(at.row.size() / 2);
      T delta = 0;
      for (const Index j : at.seen) {
        T sum = 0;
        for (Index d = 0; d < value_width_; ++d) sum += dy.data()[at.value + d] * v_.data()[at.key_value(*this, j) + d];
        dp[static_cast<std::size_t>(j)] = sum * at.keep(j);
        delta += at.p(j) * dp[static_cast<std::size_t>(j)];
      }
      for (const Index j : at.seen) {
        const T ds = at.p(j) * (dp[static_cast<std::size_t>(j)] - delta);
        if (dbias) dbias.data()[place(dbias, at, j)] += ds;
        for (Index d = 0; d < width_; ++d) {
          dq.data()[at.query + d] += scale_ * ds * k_.data()[at.key(*this, j) + d];
          dk.data()[at.key(*this, j) + d] += scale_ * ds * q_.data()[at.query + d];
        }
        for (Index d = 0; d < value_width_; ++d)
          dv.data()[at.key_value(*this, j) + d] += at.keep(j) * at.p(j) * dy.data()[at.value + d];
      }
    });
    return {dq, dk, dv, dbias};
  }

 private:
  // One query of a head: the offsets of its elements in q and y, the row of its first key, its visible keys (`seen`),
  // their probabilities, and the dropout factors of all keys.
  struct Query {
    Index b, h, i, query, value, first_key;
    std::vector<Index> seen;
    std::vector<T> row;  // [2, keys]

    T& p(Index j) { return row[static_cast<std::size_t>(j)]; }
    T p(Index j) const { return row[static_cast<std::size_t>(j)]; }
    T keep(Index j) const { return row[row.size() / 2 + static_cast<std::size_t>(j)]; }
    Index key(const PlainAttention& of, Index j) const { return (first_key + j) * of.k_.dim(1) + h * of.width_; }
    Index key_value(const PlainAttention& of, Index j) const {
      return (first_key + j) * of.v_.dim(1) + h * of.value_width_;
    }
  };

  static Tensor<T> zeros(const Shape& shape) {
    Tensor<T> x(shape);
    std::fill_n(x.data(), x.size(), T(0));
    return x;
  }
  // Returns the index of a score in a mask or a bias, which is broadcast along axes of extent 1.
  template <class E>
  static Index place(const Tensor<E>& x, const Query& at, Index j) {
    const auto index = [&](int axis, Index of) { return std::min(of, x.dim(axis) - 1); };
    return ((index(0, at.b) * x.dim(1) + index(1, at.h)) * x.dim(2) + index(2, at.i)) * x.dim(3) + j;
  }

  template <class F>
  void each_query(F&& f) const {
    for (Index b = 0; b < queries_.count(); ++b)
      for (Index h = 0; h < options_.heads; ++h)
        for (Index i = 0; i < queries_.length().data()[b]; ++i) f(query(b, h, i));
  }

  Query query(Index b, Index h, Index i) const {
    const Index n = queries_.begin().data()[b] + i, count = keys_.length().data()[b];
    Query at{b, h, i, n * q_.dim(1) + h * width_, n * v_.dim(1) + h * value_width_, keys_.begin().data()[b], {}, {}};
    at.row.assign(static_cast<std::size_t>(2 * count), T(1));
    if (drawn_.dropout.threshold > 0)
      kernel::draw_tile_factors(drawn_.plan(), {b, h, i, 0}, {at.row.data() + count, 1, count, count});
    T greatest = -std::numeric_limits<T>::infinity(), sum = 0;
    for (Index j = 0; j < count; ++j) {
      T s = 0;
      for (Index d = 0; d < width_; ++d) s += q_.data()[at.query + d] * k_.data()[at.key(*this, j) + d];
      at.p(j) = s * scale_;
      const T bias = options_.bias ? options_.bias.data()[place(options_.bias, at, j)] : T(0);
      if (options_.bias) at.p(j) += bias;
      if ((options_.causal && j > i) || std::abs(i - j) > options_.window ||
          (options_.mask.has_data() && !options_.mask.data()[place(options_.mask, at, j)]) ||
          bias == -std::numeric_limits<T>::infinity())
        continue;
      at.seen.push_back(j);
      greatest = std::max(greatest, at.p(j));
    }
    for (const Index j : at.seen) sum += at.p(j) = std::exp(at.p(j) - greatest);
    for (const Index j : at.seen) at.p(j) /= sum;
    return at;
  }

  const Tensor<T> q_, k_, v_;
  const Sequences queries_, keys_;
  const AttentionOptions<T> options_;
  const Index width_, value_width_;
  const T scale_;
  detail::AttentionCall<T> drawn_;
};

template <class T>
Tensor<T> plain_attention(const Tensor<T>& q, const Tensor<T>& k, const Tensor<T>& v, const Sequences& sequences,
                          const AttentionOptions<T>& options) {
  const PlainAttention<T> plain(detach(q), detach(k), detach(v), sequences, options);
  return record("plain_attention", plain.forward(), std::vector<Tensor<T>>{q, k, v, options.bias},
                [=](const Tensor<T>& dy) { return plain.backward(dy); });
}

}  // namespace heddle::testing
