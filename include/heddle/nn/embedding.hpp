#pragma once
#include <heddle/nn/clone.hpp>
#include <heddle/nn/init.hpp>
#include <heddle/ops/embed.hpp>

namespace heddle::nn {

/// A table of V rows, like torch.nn.Embedding.
template <Floating T = float>
struct Embedding {
  Parameter<T> weight;  ///< [V, D]

  /// Draws a standard normal table. @throws ShapeError for a size below 1.
  [[gnu::cold]] Embedding(Index V, Index D, Random& random);
  /// Copies the members of `other` for clone().
  Embedding(const Embedding& other, Cloning& c) : weight(c(other.weight)) {}

  /// Returns the rows of the table for `ids`, as activations of type A. Rows are looked up first and then cast, so that a bf16 model does
  /// not cast the whole table. @throws IndexError for an id outside the table, as embed() does.
  template <class A = T, class Id>
  Tensor<A> operator()(const Tensor<Id>& ids) const {  // [...] int or int64, to [..., D]
    return cast<A>(embed(ids, weight));
  }

  /// Visits the members.
  static void visit(auto& self, auto&& f) { f("weight", self.weight); }
};

template <Floating T>
Embedding<T>::Embedding(Index V, Index D, Random& random)
    : weight(embedding_init<T>({require_size("Embedding", "V", V), require_size("Embedding", "D", D)}, random)) {}

}  // namespace heddle::nn
