// embed_layer_norm_on_gpu: the sum of word, position and token type embeddings, its norm and a dropout, as the
// embedding layer of BERT computes them, in one kernel. Saves the sum, and the mean and rstd of its rows.
#pragma once
#include <heddle/nn/layer_norm.hpp>
#include <heddle/nn/positions.hpp>

#ifdef HEDDLE_CUDA
namespace heddle::nn::detail {

// Returns whether embed_layer_norm_on_gpu() takes the parameters of these modules. `types` may be null.
template <class T>
bool embeds_and_norms_on_gpu(const Embedding<T>& words, const LearnedPositions<T>& positions, const Embedding<T>* types,
                             const LayerNorm<T>& norm) {
  constexpr Index most_types = 16;  // the backward is for few types, each of them taken often
  const Index D = words.weight.shape()[1];
  const auto is_wide = [D](const Parameter<T>& weight) {
    return weight.shape()[-1] == D && weight.value().device() == Device::cuda;
  };
  if (types && (types->padding_id || types->weight.shape()[0] > most_types || !is_wide(types->weight))) return false;
  return is_wide(words.weight) && is_wide(positions.weight) && is_wide(norm.gamma) && norm.beta && is_wide(*norm.beta);
}

// Returns norm.dropped(x, p, random) of x = words(ids) + positions + types(type), as activations of type A. Absent
// types are 0; `types` may be null. Positions, ids and types are checked by the caller.
template <class A, class T>
Tensor<A> embed_layer_norm_on_gpu(const char* op, const Embedding<T>& words, const Tensor<int>& ids,
                                  const LearnedPositions<T>& positions, const Tensor<int>& position,
                                  const Embedding<T>* types, const Tensor<int>& type, const LayerNorm<T>& norm,
                                  double p, Random* random) {
  using heddle::detail::check_of_table, heddle::detail::gradient_on_gpu, heddle::detail::gradient_shape,
      heddle::detail::view_if_any;
  const Tensor<T> word_table = words.weight.value(), position_table = positions.weight.value(),
                  type_table = types ? types->weight.value() : Tensor<T>();
  const Tensor<A> gamma = norm.gamma.template as<A>(), beta = norm.template summands<A>();
  const Index N = ids.size(), D = word_table.dim(1), frozen = words.padding_id.value_or(-1),
              frozen_position = positions.padding_id.value_or(-1);

  Tensor<A> sum(heddle::detail::embedded_shape(ids.shape(), D), Device::cuda), y = empty_like(sum);
  heddle::detail::require_layer_norm(op, sum, gamma, beta, norm.eps);
  const kernel::ElementDropout result = heddle::detail::drawn_dropout(op, p, sum.shape(), random);
  Tensor<float> mean({N}, Device::cuda), rstd = empty_like(mean);
  const kernel::EmbeddingTables<T> tables{
      {check_of_table(word_table), view<1>(ids), view<2>(word_table)},
      {check_of_table(position_table), view<1>(position), view<2>(position_table)},
      {check_of_table(type_table ? type_table : word_table), view_if_any<1>(type), view_if_any<2>(type_table)}};
  kernel::embed_layer_norm(Cuda{}, tables, result, view<1>(gamma), view<1>(beta), norm.eps, view<2>(sum), view<2>(y),
                           view<1>(mean), view<1>(rstd));

  return record(op, y, inputs(word_table, position_table, type_table, gamma, beta),
                [=, of_words = gradient_shape(word_table), of_positions = gradient_shape(position_table),
                 of_types = gradient_shape(type_table)](const Tensor<A>& dy) {
                  Tensor<A> dsum = empty_like(sum);
                  auto dwords = gradient_on_gpu<T>(of_words), dpositions = gradient_on_gpu<T>(of_positions),
                       dtypes = gradient_on_gpu<T>(of_types);
                  using Weight = heddle::detail::WeightGradient<A>;
                  const auto compute = [&]<class E>() -> std::tuple<Tensor<T>, Tensor<T>, Tensor<T>, Weight, Weight> {
                    Tensor<E> dgamma(gamma.shape(), gamma.device()), dbeta = empty_like(dgamma);
                    kernel::layer_norm_backward(Cuda{}, result, view<2>(dy), view<2>(sum), view<1>(gamma),
                                                view<1>(mean), view<1>(rstd), view<2>(dsum), kernel::Into::set,
                                                view<1>(dgamma), view<1>(dbeta));
                    kernel::sum_taken_rows(Cuda{}, view<2>(std::as_const(dsum)), view<1>(ids), frozen,
                                           view_if_any<2>(dwords), view<1>(position), frozen_position,
                                           view_if_any<2>(dpositions), view_if_any<1>(type), view_if_any<2>(dtypes));
                    return {dwords, dpositions, dtypes, Weight(dgamma), Weight(dbeta)};
                  };
                  return heddle::detail::with_gradient_type(compute, gamma, beta);
                });
}

}  // namespace heddle::nn::detail
#endif
