// Tensors, autograd, operations, nn and optim in one include. The headers of io, text, data, models, train and view are
// separate.
//
// Each block includes those above it only. A message of the compiler about a header then names few others.
#pragma once
#include <heddle/base/number_types.hpp>
#include <heddle/base/random.hpp>
#include <heddle/version.hpp>

#include <heddle/core/create.hpp>
#include <heddle/core/host_copy.hpp>
#include <heddle/core/print.hpp>
#include <heddle/core/sequences.hpp>
#include <heddle/core/tensor.hpp>

#include <heddle/autograd/backward.hpp>

#include <heddle/ops/arithmetic.hpp>
#include <heddle/ops/cast.hpp>
#include <heddle/ops/compare.hpp>
#include <heddle/ops/concat.hpp>
#include <heddle/ops/cross_entropy.hpp>
#include <heddle/ops/disentangled_bias.hpp>
#include <heddle/ops/dropout.hpp>
#include <heddle/ops/embed.hpp>
#include <heddle/ops/expand.hpp>
#include <heddle/ops/gated.hpp>
#include <heddle/ops/gather.hpp>
#include <heddle/ops/layer_norm.hpp>
#include <heddle/ops/linear.hpp>
#include <heddle/ops/linear_gelu.hpp>
#include <heddle/ops/logical.hpp>
#include <heddle/ops/losses.hpp>
#include <heddle/ops/map.hpp>
#include <heddle/ops/matmul.hpp>
#include <heddle/ops/max.hpp>
#include <heddle/ops/maximum.hpp>
#include <heddle/ops/permute.hpp>
#include <heddle/ops/pow.hpp>
#include <heddle/ops/reduce.hpp>
#include <heddle/ops/reshape.hpp>
#include <heddle/ops/residual_layer_norm.hpp>
#include <heddle/ops/rms_norm.hpp>
#include <heddle/ops/rotary.hpp>
#include <heddle/ops/rows.hpp>
#include <heddle/ops/slice.hpp>
#include <heddle/ops/softmax.hpp>
#include <heddle/ops/statistics.hpp>
#include <heddle/ops/token_positions.hpp>
#include <heddle/ops/topk.hpp>
#include <heddle/ops/tril.hpp>
#include <heddle/ops/where.hpp>

#include <heddle/ops/attention/attention.hpp>

#include <heddle/nn/attention.hpp>
#include <heddle/nn/check_visit.hpp>
#include <heddle/nn/clone.hpp>
#include <heddle/nn/cross_attention.hpp>
#include <heddle/nn/embedding.hpp>
#include <heddle/nn/encoder.hpp>
#include <heddle/nn/feed_forward.hpp>
#include <heddle/nn/layer_norm.hpp>
#include <heddle/nn/linear.hpp>
#include <heddle/nn/module.hpp>
#include <heddle/nn/positions.hpp>
#include <heddle/nn/relative_positions.hpp>
#include <heddle/nn/rotary_positions.hpp>
#include <heddle/nn/summary.hpp>
#include <heddle/nn/transformer_encoder_layer.hpp>
#include <heddle/nn/weights.hpp>

#include <heddle/optim/adam.hpp>
#include <heddle/optim/clip.hpp>
#include <heddle/optim/schedule.hpp>
#include <heddle/optim/sgd.hpp>

#ifdef HEDDLE_COMPILED
#include <heddle/compiled/declarations.hpp>
#endif
