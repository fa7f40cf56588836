#pragma once
#include <heddle/nn/clone.hpp>
#include <heddle/nn/init.hpp>
#include <heddle/ops/embed.hpp>

namespace heddle::nn {

namespace detail {
// Sets a row of a table to zeros, if one is given. Does nothing under NoInit.
template <class T>
void clear_row(Parameter<T>& table, std::optional<Index> row) {
  if (!row || NoInit::is_active()) return;
  const Index D = table.shape()[1];
  table.identity()->assign_rows(*row * D, zeros<T>({1, D}));
}
}  // namespace detail

/// The option of Embedding.
struct EmbeddingOptions {
  std::optional<Index> padding_id = {};  ///< the row that begins as zeros and is not trained
};

/// A table of V rows, like torch.nn.Embedding.
template <Floating T = float>
struct Embedding {
  Parameter<T> weight;              ///< [V, D]
  std::optional<Index> padding_id;  ///< the row that has no gradient

  /// Draws a standard normal table. @throws ShapeError for a size below 1, and IndexError for a padding_id
  /// outside [0, V).
  [[gnu::cold]] Embedding(Index V, Index D, Random& random, const EmbeddingOptions& options = {});
  /// Copies the members of `other` for clone().
  Embedding(const Embedding& other, Cloning& c) : weight(c(other.weight)), padding_id(other.padding_id) {}

  /// Sets the row of padding_id to zeros, if there is one. Does nothing under NoInit.
  void clear_padding();

  /// Returns the rows of the table for `ids`, as activations of type A. Rows are looked up first and then cast, so that
  /// a bf16 model does not cast the whole table. @throws IndexError for an id outside the table, as embed() does.
  template <class A = T, class Id>
  Tensor<A> operator()(const Tensor<Id>& ids) const {  // [...] int or int64, to [..., D]
    if constexpr (std::is_same_v<A, T>)
      return embed(ids, weight, padding_id);  // which heddle::compiled contains
    else
      return heddle::detail::embed_as<A>(ids, weight.value(), padding_id);
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) { f("weight", self.weight); }
};

template <Floating T>
Embedding<T>::Embedding(Index V, Index D, Random& random, const EmbeddingOptions& options)
    : weight(embedding_init<T>({require_size("Embedding", "V", V), require_size("Embedding", "D", D)}, random)),
      padding_id(options.padding_id) {
  require<IndexError>(!padding_id || (*padding_id >= 0 && *padding_id < V), "Embedding: padding_id ",
                      padding_id.value_or(0), " is outside the table's ", V, " rows");
  clear_padding();
}
template <Floating T>
void Embedding<T>::clear_padding() {
  detail::clear_row(weight, padding_id);
}

}  // namespace heddle::nn
