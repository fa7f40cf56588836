// Initial weights of BERT and its relatives.
#pragma once
#include <algorithm>
#include <cmath>

#include <heddle/models/bert_config.hpp>
#include <heddle/nn/init.hpp>
#include <heddle/nn/module.hpp>

namespace heddle::models::detail {

// The place of a linear map, on which its initial deviation in ModernBERT depends.
enum class MapPlace {
  first,      // the first of a sublayer, a table, or any other
  last,       // the last of a sublayer, and the first of a head
  classifier  // the last of a head
};

// Returns the standard deviation of the initial weights.
inline double deviation_of(const BertConfig& config, MapPlace place) {
  if (config.family != BertFamily::modernbert || place == MapPlace::first) return config.deviation;
  if (place == MapPlace::classifier) return 1 / std::sqrt(static_cast<double>(config.D));
  return config.deviation / std::sqrt(2 * static_cast<double>(std::max<Index>(config.layers, 1)));
}

// Draws a module's weights as BERT does: matrices and tables normal, biases zero. ModernBERT's are truncated. Does
// nothing under NoInit.
template <class M>
void draw_as_bert(M& module, Random& random, const BertConfig& config, MapPlace place = MapPlace::first) {
  if (nn::NoInit::is_active()) return;
  const double deviation = deviation_of(config, place), most = config.rotary.cutoff * deviation;
  each_parameter(module, [&](const Name& name, auto& p) {
    const std::string& last = name.blocks[0];
    if (p.shape().rank() >= 2 && config.family == BertFamily::modernbert && deviation > 0)
      nn::init::trunc_normal(p, random, 0, deviation, -most, most);
    else if (p.shape().rank() >= 2)
      nn::init::normal(p, random, 0, deviation);
    else if (last.ends_with("bias"))
      p.assign(zeros<typename std::remove_cvref_t<decltype(p)>::Element>(p.shape()));
  });
}

}  // namespace heddle::models::detail
