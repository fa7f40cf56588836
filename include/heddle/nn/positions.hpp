// Modules that add to each token's embedding the row of a table for its position. The table is fixed (sines and
// cosines) or learned.
#pragma once
#include <heddle/core/sequences.hpp>
#include <heddle/nn/embedding.hpp>
#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/padded.hpp>
#include <heddle/ops/token_positions.hpp>

namespace heddle::nn {

/// Returns the table pe(t, 2i) = sin(t / 10000^(2i/D)), where pe(t, 2i+1) is the cosine of the same angle (Vaswani et
/// al. 2017). If D is odd, a row ends with a sine. The table is [L, D]. @throws ShapeError for an L or D below 1.
template <class T>
Tensor<T> sinusoidal_table(Index L, Index D) {  // [L, D]
  Tensor<T> pe({require_size("SinusoidalPositions", "L", L), require_size("SinusoidalPositions", "D", D)});
  T* out = pe.data();
  for (Index t = 0; t < L; ++t)
    for (Index d = 0; d < D; ++d) {
      const double angle = static_cast<double>(t) *
                           std::exp(-std::log(10000.0) * static_cast<double>(d / 2 * 2) / static_cast<double>(D));
      *out++ = static_cast<T>(d % 2 ? std::cos(angle) : std::sin(angle));
    }
  return pe;
}

/// Checks that a table of L positions suffices. @throws IndexError for a sequence longer than L.
inline void require_positions(const char* module, const Sequences& sequences, Index L) {
  require<IndexError>(sequences.longest() <= L, module, ": a sequence of ", sequences.longest(),
                      " tokens is longer than the table's ", L, " positions");
}

namespace detail {

// Rows that are not computed yet.
struct RowsOn {
  Shape of_rows;
  Device where;
  const Shape& shape() const { return of_rows; }
  Device device() const { return where; }
};

// Checks that `x` has one row for each row of the sequences, as wide as the table.
template <class Rows, class T>
void require_rows_of_table(const char* module, const Rows& x, const Tensor<T>& table, const Sequences& sequences) {
  require_rows(module, {"x", x}, sequences);
  require_rank(module, {"x", x}, 2);
  require_same(module, "D", {"x", x, 1}, {"the table", table, 1});
}

// Checks that a table of positions, of which sequences may take `L`, suffices for the rows of `words` with these ids,
// before they are computed.
template <class T, class Id>
void require_embedded_positions(const char* module, const Tensor<T>& words, const Tensor<Id>& ids,
                                const Tensor<T>& table, const Sequences& sequences, Index L) {
  const Shape shape = heddle::detail::embedded_shape(ids.shape(), words.dim(1));
  const RowsOn rows{heddle::detail::shape_of_rows(shape, sequences), words.device()};
  require_positions(module, sequences, L);
  require_rows_of_table(module, rows, table, sequences);
}

// Returns x with the rows of the table that added_rows() returns, after the checks of add_positions().
template <class T, class Rows>
Tensor<T> add_rows_of_table(const char* module, const Tensor<T>& x, const Tensor<T>& table, const Sequences& sequences,
                            Rows&& added_rows) {
  const Tensor<T> rows = heddle::detail::rows_of_batch(x, sequences);
  require_rows_of_table(module, rows, table, sequences);
  return heddle::detail::rows_as_given(rows + added_rows(), x.shape(), sequences);
}

}  // namespace detail

/// Returns x [N, D] or [B, T, D] with each token's row of the table [L, D] added. @throws ShapeError unless x is
/// [sequences.rows(), D] or a padded batch [B, T, D] of these sequences, and IndexError for a position that is not in
/// the table.
template <class T>
Tensor<T> add_positions(const char* module, const Tensor<T>& x, const Tensor<T>& table, const Sequences& sequences) {
  return detail::add_rows_of_table(module, x, table, sequences, [&] { return take_rows(table, sequences.position()); });
}

/// Returns positions(embedding(ids), sequences) as activations of type A, on a GPU in one kernel. `positions` is one of
/// the modules below, and `table` is its table [L, D]. @throws IndexError, ShapeError and Error as both modules do.
template <class A, class T, class Id, class Positions>
Tensor<A> embed_at_positions(const char* module, const Embedding<T>& embedding, const Tensor<Id>& ids,
                             const Positions& positions, const Tensor<T>& table, const Sequences& sequences) {
  if constexpr (heddle::detail::embeds_on_gpu<T, A>) {
    const Tensor<T>& words = embedding.weight.value();
    if (words.device() == Device::cuda && table.device() == Device::cuda) {
      detail::require_embedded_positions(module, words, ids, table, sequences, table.dim(0));
      return heddle::detail::embed_as<A>(ids, words, embedding.padding_id, sequences.position(), table);
    }
  }
  return positions(embedding.template operator()<A>(ids), sequences);
}

/// A fixed table that is added to x: x + pe(position). The table is saved with the weights.
template <Floating T = float>
struct SinusoidalPositions {
  Buffer<T> pe;  ///< [1, L, D], the shape of `pe` in batch-first PyTorch code

  /// Computes the table for sequences of at most L tokens. @throws ShapeError for a size below 1.
  [[gnu::cold]] SinusoidalPositions(Index L, Index D);
  /// Copies the members of `other` for clone().
  SinusoidalPositions(const SinusoidalPositions& other, Cloning& c) : pe(c(other.pe)) {}

  /// Returns x with the row of each token's position added. @throws ShapeError as add_positions() does, and IndexError
  /// for a sequence longer than L.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x, const Sequences& sequences) const {  // [N, D] or [B, T, D]
    require_positions("SinusoidalPositions", sequences, pe.shape()[1]);
    const Tensor<A> table = pe.template as<A>();
    return add_positions("SinusoidalPositions", x, table.with_shape({pe.shape()[1], pe.shape()[2]}), sequences);
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)

  /// Returns (*this)(embedding(ids), sequences) as activations of type A, on a GPU in one kernel. @throws IndexError,
  /// ShapeError and Error as both modules do.
  template <class A = T, class Id>
  Tensor<A> embed(const Embedding<T>& embedding, const Tensor<Id>& ids,
                  const Sequences& sequences) const {  // [N] to [N, D], or [B, T] to [B, T, D]
    return embed_at_positions<A>("SinusoidalPositions", embedding, ids, *this,
                                 pe.value().with_shape({pe.shape()[1], pe.shape()[2]}), sequences);
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) { f("pe", self.pe); }
};

template <Floating T>
SinusoidalPositions<T>::SinusoidalPositions(Index L, Index D) : pe(sinusoidal_table<T>(L, D).with_shape({1, L, D})) {}

/// The option of LearnedPositions.
struct PositionOptions {
  /// The token of padding, for the positions of RoBERTa: the table has padding_id + 1 more rows, sequences count their
  /// other tokens from row padding_id + 1, and row padding_id begins as zeros and is not trained (token_positions()).
  std::optional<Index> padding_id = {};
};

/// A trained table that is added to x: x + weight(position).
template <Floating T = float>
struct LearnedPositions {
  Parameter<T> weight;              ///< [L, D], or [padding_id + 1 + L, D]
  std::optional<Index> padding_id;  ///< the option; positions then depend on the ids

  /// Draws a standard normal table for sequences of at most L tokens. @throws ShapeError for a size below 1, and
  /// IndexError for a negative padding_id.
  LearnedPositions(Index L, Index D, Random& random, const PositionOptions& options = {})
      : weight(embedding_init<T>({rows_for(L, options), require_size("LearnedPositions", "D", D)}, random)),
        padding_id(options.padding_id) {
    clear_padding();
  }
  /// Copies the members of `other` for clone().
  LearnedPositions(const LearnedPositions& other, Cloning& c) : weight(c(other.weight)), padding_id(other.padding_id) {}

  /// Returns L, the greatest length of a sequence.
  Index longest() const { return weight.shape()[0] - (padding_id ? *padding_id + 1 : 0); }

  /// Sets the row of padding_id to zeros, if there is one. Does nothing under NoInit.
  void clear_padding() { detail::clear_row(weight, padding_id); }

  /// Returns the row of each token [N]. @throws ShapeError and IndexError as token_positions() does, if there is a
  /// padding_id.
  template <class Id>
  Tensor<int> rows_of(const Tensor<Id>& ids, const Sequences& sequences) const {  // [N] or [B, T]
    return padding_id ? token_positions(ids, sequences, *padding_id) : sequences.position();
  }

  /// Returns x with the row of each token's position added. @throws ShapeError as add_positions() does, IndexError for
  /// a sequence longer than L, and Error if there is a padding_id, because positions then depend on the ids.
  template <Floating A>
  Tensor<A> operator()(const Tensor<A>& x, const Sequences& sequences) const {  // [N, D] or [B, T, D]
    require(!padding_id, "LearnedPositions: with a padding_id, positions depend on the ids; call embed()");
    require_positions("LearnedPositions", sequences, longest());
    return add_positions("LearnedPositions", x, weight.template as<A>(), sequences);
  }
  template <std::integral A>
  void operator()(const Tensor<A>&, const auto&...) const = delete;  // needs cast<float>(x)

  /// Returns embedding(ids) with the row of each token's position added, as activations of type A, on a GPU in one
  /// kernel. @throws IndexError, ShapeError and Error as both modules do.
  template <class A = T, class Id>
  Tensor<A> embed(const Embedding<T>& embedding, const Tensor<Id>& ids,
                  const Sequences& sequences) const {  // [N] to [N, D], or [B, T] to [B, T, D]
    if (!padding_id) return embed_at_positions<A>("LearnedPositions", embedding, ids, *this, weight.value(), sequences);
    const char* const module = "LearnedPositions";
    if constexpr (heddle::detail::embeds_on_gpu<T, A>) {
      const Tensor<T>&words = embedding.weight.value(), &table = weight.value();
      if (words.device() == Device::cuda && table.device() == Device::cuda) {
        detail::require_embedded_positions(module, words, ids, table, sequences, longest());
        return heddle::detail::embed_as<A>(ids, words, embedding.padding_id, rows_of(ids, sequences), table,
                                           *padding_id);
      }
    }
    require_positions(module, sequences, longest());
    const Tensor<A> table = weight.template as<A>();
    return detail::add_rows_of_table(module, embedding.template operator()<A>(ids), table, sequences,
                                     [&] { return heddle::embed(rows_of(ids, sequences), table, padding_id); });
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) { f("weight", self.weight); }

 private:
  static Index rows_for(Index L, const PositionOptions& options) {
    const Index padding = options.padding_id.value_or(-1);
    require<IndexError>(padding >= 0 || !options.padding_id, "LearnedPositions: padding_id ", padding, " is negative");
    return require_size("LearnedPositions", "L", L) + padding + 1;
  }
};

}  // namespace heddle::nn
