// A module that the consumer defines. Two translation units use it, and both include the same headers of heddle.
#pragma once
#include <heddle/heddle.hpp>

#include <heddle/data/batches.hpp>
#include <heddle/data/csv.hpp>
#include <heddle/data/tsv.hpp>
#include <heddle/io/model.hpp>
#include <heddle/io/safetensors.hpp>
#include <heddle/io/write_atomically.hpp>
#include <heddle/text/wordpiece.hpp>

struct Classifier {
  heddle::nn::Embedding<> embedding;
  heddle::nn::Encoder<> encoder;
  heddle::nn::Linear<> out;

  Classifier(heddle::Index vocabulary, heddle::Random& random)
      : embedding(vocabulary, 16, random), encoder(1, {.D = 16, .heads = 2}, random), out(16, 2, random) {}

  heddle::Tensor<float> operator()(const heddle::Tensor<int>& ids,
                                   const heddle::Sequences& sequences) const {  // [B, 2]
    return out(heddle::first_rows(encoder(embedding(ids), sequences), sequences));
  }

  static void visit(auto& self, auto&& f) {
    f("embedding", self.embedding);
    f("encoder", self.encoder);
    f("out", self.out);
  }
};

// Returns the loss before and after some steps of training.
std::pair<float, float> train(Classifier& model, const heddle::data::Batch& batch);
