// The modules of sentence-transformers that follow the transformer: poolings, and maps of rows and vectors.
#pragma once
#include <cmath>
#include <variant>

#include <heddle/models/bert.hpp>
#include <heddle/ops/cast.hpp>
#include <heddle/ops/concat.hpp>
#include <heddle/ops/embed.hpp>
#include <heddle/ops/losses.hpp>

namespace heddle::models {

/// A rule that makes a text's vector from the rows of its tokens.
enum class Pooling {
  mean,           ///< their mean
  cls,            ///< the first row, that of [CLS]
  max,            ///< the largest element of each column
  mean_sqrt_len,  ///< their sum, divided by the square root of their number
  weighted_mean,  ///< their mean with the weights 1, 2, 3, … by position
  last            ///< the last row, that of [SEP]
};

namespace detail {

// The rows of some texts without the first rows of each.
class PooledRows {
 public:
  PooledRows(const Tensor<float>& rows, const Sequences& sequences, Index skipped)  // rows [N, D]
      : rows_(rows), sequences_(sequences), skipped_(skipped) {
    if (skipped == 0) {
      first_ = sequences.begin();
      return;
    }
    std::vector<int> kept, lengths, first;
    for (std::size_t b = 0; b < sequences.begins().size(); ++b) {
      const int begin = sequences.begins()[b], length = sequences.lengths()[b];
      const int left = std::max(length - static_cast<int>(skipped), 0);
      lengths.push_back(left);
      for (int t = length - left; t < length; ++t) kept.push_back(begin + t);
      first.push_back(begin + (left > 0 ? length - left : 0));  // the first row of all if none is left
    }
    rows_ = take_rows(rows, tensor_of(kept));
    sequences_ = Sequences::packed(lengths).to(rows.device());
    first_ = tensor_of(first);
    all_ = rows;
  }

  Tensor<float> operator()(Pooling pooling) const {  // [B, D]
    switch (pooling) {
      case Pooling::cls: return take_rows(skipped_ ? all_ : rows_, first_);
      case Pooling::max: return max_rows(rows_, sequences_);
      case Pooling::mean_sqrt_len:
        return sum_rows(rows_, sequences_) / column_of([](double length) { return std::sqrt(length); });
      case Pooling::weighted_mean: {
        const Tensor<float> weights =
            cast<float>(sequences_.position()).with_shape({rows_.dim(0), 1}) + static_cast<double>(skipped_ + 1);
        // The sum of the weights from skipped_ + 1 on.
        const auto sum = [first = static_cast<double>(skipped_) + 1](double length) {
          return length * (2 * first + length - 1) / 2;
        };
        return sum_rows(rows_ * weights, sequences_) / column_of(sum);
      }
      case Pooling::last: return last_rows(rows_, sequences_);
      case Pooling::mean: break;
    }
    return mean_rows(rows_, sequences_);
  }

 private:
  Tensor<int> tensor_of(const std::vector<int>& values) const {
    return Tensor<int>({static_cast<Index>(values.size())}, values).to(rows_.device());
  }
  // Returns f(length) of each text [B, 1], or 1 where that is 0.
  template <class F>
  Tensor<float> column_of(F&& f) const {
    std::vector<float> values;
    for (const int length : sequences_.lengths()) values.push_back(length ? static_cast<float>(f(length)) : 1.0F);
    return Tensor<float>({sequences_.count(), 1}, values).to(rows_.device());
  }

  Tensor<float> rows_, all_;  // without the skipped ones, and with them
  Sequences sequences_;
  Tensor<int> first_;  // [B] the first row of each text
  Index skipped_;
};

struct PoolingModule {
  std::vector<Pooling> poolings;
  bool includes_prompt;

  // Returns the vectors of texts whose first `prompt` tokens are those of the prompt.
  Tensor<float> operator()(const Tensor<float>& rows, const Sequences& sequences, Index prompt) const {
    const PooledRows pool(rows, sequences, includes_prompt ? 0 : prompt);
    std::vector<Tensor<float>> parts;
    for (const Pooling pooling : poolings) parts.push_back(pool(pooling));
    return parts.size() == 1 ? parts[0] : concat(parts, 1);
  }
  static void visit(auto&, auto&&) {}
};

using DenseActivation = Tensor<float> (*)(const Tensor<float>&);

struct DenseModule {
  nn::Linear<> linear;
  bool is_residual = false;                // whether the input is added to the result
  std::optional<nn::Linear<>> residual{};  // maps that input, if the widths differ
  DenseActivation activation = nullptr;

  Tensor<float> operator()(const Tensor<float>& x) const {
    const Tensor<float> y = activation(linear(x));
    return is_residual ? y + (residual ? (*residual)(x) : x) : y;
  }
  static void visit(auto& self, auto&& f) {
    f("linear", self.linear);
    f("residual", self.residual);
  }
};

struct LayerNormModule {
  nn::LayerNorm<> norm;

  Tensor<float> operator()(const Tensor<float>& x) const { return norm(x); }
  static void visit(auto& self, auto&& f) { f("norm", self.norm); }
};

struct NormalizeModule {
  Tensor<float> operator()(const Tensor<float>& x) const { return normalize(x); }
  static void visit(auto&, auto&&) {}
};

// A module, and whether it changes the rows of the tokens. Otherwise it makes or changes the vectors of the texts.
struct SentenceModule {
  bool changes_rows;
  std::variant<PoolingModule, DenseModule, LayerNormModule, NormalizeModule> map;

  template <class Map>
  const Map* as() const {
    return std::get_if<Map>(&map);
  }
  // Applies a module that is not a pooling.
  Tensor<float> operator()(const Tensor<float>& x) const {
    return std::visit(
        [&]<class Map>(const Map& m) {
          if constexpr (std::is_same_v<Map, PoolingModule>)
            return x;
          else
            return m(x);
        },
        map);
  }
  static void visit(auto& self, auto&& f) {
    std::visit([&](auto& m) { std::remove_cvref_t<decltype(m)>::visit(m, f); }, self.map);
  }
};

// A transformer and its modules.
struct SentenceModel {
  BertEncoder<> encoder;
  std::vector<SentenceModule> modules;

  // Returns the rows of the tokens [N, D']. If `keys` is given, tokens attend only to its rows.
  template <class A>
  Tensor<float> rows(const Tensor<int>& ids, const Sequences& sequences, const Sequences* keys = nullptr) const {
    Tensor<float> x = cast<float>(keys ? encoder.template attending_to<A>(ids, sequences, *keys)
                                       : encoder.template forward<A>(ids, sequences));
    for (const SentenceModule& module : modules)
      if (module.changes_rows) x = module(x);
    return x;
  }
  // Returns the vectors of the texts [B, D']. `prompt` is the number of the tokens of the prompt. The encoder's dropout
  // is active if and only if `random` is given.
  template <class A>
  Tensor<float> vectors(const Tensor<int>& ids, const Sequences& sequences, Index prompt,
                        Random* random = nullptr) const {
    Tensor<float> x, y;
    auto module = modules.begin();
    if (!random && reads_first_rows_only(prompt)) {
      y = cast<float>(encoder.template first<A>(ids, sequences));
      ++module;
    } else {
      x = cast<float>(encoder.template forward<A>(ids, sequences, {.random = random}));
    }
    for (; module != modules.end(); ++module)
      if (const auto* const pooling = module->as<PoolingModule>())
        y = (*pooling)(x, sequences, prompt);
      else if (module->changes_rows)
        x = (*module)(x);
      else
        y = (*module)(y);
    return y;
  }

  // Returns the poolings of the last module that has some.
  std::vector<Pooling> poolings() const {
    std::vector<Pooling> last;
    for (const SentenceModule& module : modules)
      if (const auto* const pooling = module.as<PoolingModule>()) last = pooling->poolings;
    return last;
  }
  // Returns whether the last module that changes vectors gives them length 1.
  bool normalizes() const {
    bool last = false;
    for (const SentenceModule& module : modules)
      if (!module.changes_rows) last = module.as<NormalizeModule>();
    return last;
  }

  static void visit(auto& self, auto&& f) {
    f("encoder", self.encoder);
    f("modules", self.modules);
  }

 private:
  bool reads_first_rows_only(Index prompt) const {
    const PoolingModule* const first = modules.front().as<PoolingModule>();
    const auto reads_rows = [](const SentenceModule& m) { return m.changes_rows || m.as<PoolingModule>(); };
    return first && first->poolings == std::vector<Pooling>{Pooling::cls} && (first->includes_prompt || prompt == 0) &&
           std::none_of(modules.begin() + 1, modules.end(), reads_rows);
  }
};

}  // namespace detail
}  // namespace heddle::models
