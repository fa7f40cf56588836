#pragma once
#include <heddle/nn/linear.hpp>
#include <heddle/ops/attention/attention.hpp>
#include <heddle/ops/padded.hpp>

namespace heddle::nn {

/// Attention of one set of sequences to another, with H heads of width K: out(attention(query(x), key(memory),
/// value(memory))). Sequence b of x sees sequence b of the memory. One product with one combined parameter computes
/// keys and values; files hold two weights.
template <Floating T = float>
struct CrossAttention {
  Linear<T> query;      ///< D to H * K
  Linear<T> key_value;  ///< memory_width to 2 * H * K: keys and values
  Linear<T> out;        ///< H * K to D
  int heads;            ///< number of heads

  /// Draws the weights. K is D / heads. A memory width of 0 stands for D. @throws ShapeError if D is not a multiple of
  /// the number of heads, and for a size below 1.
  CrossAttention(Index D, int head_count, Random& random, Index memory_width = 0, bool with_bias = true)
      : query(D, divisible(D, head_count), random, with_bias),
        key_value(memory_width ? memory_width : D, 2 * D, random, with_bias),
        out(D, D, random, with_bias),
        heads(head_count) {}
  /// Copies the members of `other` for clone().
  CrossAttention(const CrossAttention& other, Cloning& c)
      : query(c(other.query)), key_value(c(other.key_value)), out(c(other.out)), heads(other.heads) {}

  /// Returns the attention of x to `memory`. `heads` and `keys` of the options are ignored; the other options apply.
  /// @throws ShapeError for an x or a memory of another width, and ShapeError and Error as attention() does.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x,  // [Nq, D] or [B, Tq, D]
                       const Sequences& sequences,
                       const Tensor<A>& memory,  // [Nk, memory_width] or [B, Tk, memory_width]
                       const Sequences& memory_sequences, AttentionOptions<A> options = {}) const {
    require<ShapeError>(memory.rank() >= 2, "CrossAttention: the memory must be [N, D] or [B, T, D], got ",
                        memory.shape());
    options.heads = heads;
    options.keys = &memory_sequences;
    const Tensor<A> kv = key_value(heddle::detail::rows_of_batch(memory, memory_sequences));  // [Nk, 2 * H * K]
    const Index each = kv.dim(-1) / 2;
    return out(attention(query(x), columns(kv, 0, each), columns(kv, each, each), sequences, options));
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)

  /// Visits the members.
  static void visit(auto& self, auto&& f) {
    f("query", self.query);
    f(std::vector<std::string>{"key.weight", "value.weight"}, self.key_value.weight);
    f(std::vector<std::string>{"key.bias", "value.bias"}, self.key_value.bias);
    f("out", self.out);
  }

 private:
  static Index divisible(Index D, int heads) {
    require_size("CrossAttention", "D", D);
    require_size("CrossAttention", "heads", heads);
    require<ShapeError>(D % heads == 0, "CrossAttention: D = ", D, " does not divide into ", heads, " heads");
    return D;
  }
};

}  // namespace heddle::nn
