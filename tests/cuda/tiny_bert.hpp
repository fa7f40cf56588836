// The configuration of a BERT for tests.
#pragma once
#include <heddle/models/bert.hpp>

namespace heddle::testing {

constexpr models::BertConfig tiny_bert(double dropout, models::BertFamily family = models::BertFamily::bert) {
  models::BertConfig config;
  config.family = family;
  config.vocabulary = 50;
  config.D = 16;
  config.layers = 2;
  config.heads = 2;
  config.ff_width = 24;
  config.positions = 40;
  config.deviation = 0.3;
  config.dropout = config.attention_dropout = config.classifier_dropout = dropout;
  return config;
}

}  // namespace heddle::testing
