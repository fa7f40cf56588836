// Ranks documents for a query. In nn::CrossAttention each word of the query attends to the words of one document, and
// bce_with_logits trains one score for each pair of a query and a document.
#include <iostream>
#include <vector>

#include <heddle/heddle.hpp>

using namespace heddle;

// A query is two topics, a document is two topics and six other words. One of a query's candidates has both its topics.
constexpr int topics = 20, other_words = 20, query_length = 2, document_length = 8, candidates = 4;

struct Batch {
  Tensor<int> query_ids, document_ids;  // [Nq], [Nd]
  Sequences queries, documents;         // P pairs; the candidates of a query are adjacent
  Tensor<float> relevant;               // [P], 1 or 0
};

Batch make_batch(int query_count, Random& random) {
  const auto draw = [&](unsigned n) { return static_cast<int>(random.next() % n); };
  std::vector<int> query_ids, document_ids;
  std::vector<float> relevant;
  for (int query = 0; query < query_count; ++query) {
    const int first = draw(topics), second = (first + 1 + draw(topics - 1)) % topics, best = draw(candidates);
    for (int candidate = 0; candidate < candidates; ++candidate) {
      const int wrong = (second + 1 + draw(topics - 1)) % topics;  // any topic but the second
      query_ids.insert(query_ids.end(), {first, second});
      document_ids.insert(document_ids.end(), {first, candidate == best ? second : wrong});
      for (int t = 2; t < document_length; ++t) document_ids.push_back(topics + draw(other_words));
      relevant.push_back(candidate == best);
    }
  }
  const auto P = static_cast<Index>(relevant.size());
  return {Tensor<int>({P * query_length}, query_ids), Tensor<int>({P * document_length}, document_ids),
          Sequences::packed(std::vector<int>(relevant.size(), query_length)),
          Sequences::packed(std::vector<int>(relevant.size(), document_length)), Tensor<float>({P}, relevant)};
}

struct Reranker {
  nn::Embedding<> embedding;
  nn::CrossAttention<> attention;
  nn::Linear<> hidden, out;

  Tensor<float> operator()(const Batch& batch) const {
    const Tensor<float> query = embedding(batch.query_ids), document = embedding(batch.document_ids);
    const Tensor<float> found = attention(query, batch.queries, document, batch.documents);  // [Nq, D]
    const Tensor<float> match = mean_rows(gelu(hidden(query + found)), batch.queries);       // [P, D]
    return squeeze(out(match), 1);                                                           // [P]
  }
  static void visit(auto& self, auto&& f) {
    f("embedding", self.embedding), f("attention", self.attention), f("hidden", self.hidden), f("out", self.out);
  }
};

// Returns the share of queries whose relevant document has the best score.
float ranking_accuracy(const Reranker& model, const Batch& batch) {
  const NoGrad no_grad;
  const Tensor<float> scores = reshape(model(batch), {-1, candidates});     // [queries, candidates]
  const Tensor<float> targets = reshape(batch.relevant, {-1, candidates});  // [queries, candidates]
  return mean(cast<float>(argmax(scores, 1) == argmax(targets, 1))).item();
}

int main() {
  Random random(1);
  Reranker model{{topics + other_words, 32, random}, {32, 2, random}, {32, 32, random}, {32, 1, random}};
  optim::AdamW optimizer(model, {.lr = 3e-3});
  for (int step = 1; step <= 400; ++step) {
    const Batch batch = make_batch(16, random);
    const Tensor<float> loss = bce_with_logits(model(batch), batch.relevant);
    backward(loss);
    optimizer.step();
    if (step % 100 == 0) std::cout << "step " << step << "  loss " << loss.item() << '\n';
  }
  const float accuracy = ranking_accuracy(model, make_batch(500, random));
  std::cout << "new queries with the relevant document in first place: " << accuracy << '\n';
  if (accuracy >= 0.9f) return 0;
  std::cerr << "reranker: expected a ranking accuracy of at least 0.9, got " << accuracy << '\n';
  return 1;
}
