// Recall, nDCG and MRR of a search: how many of the relevant documents of a query it finds, and at which ranks. The
// formulas are those of InformationRetrievalEvaluator in sentence-transformers and of BEIR, for documents that are
// either relevant or not.
#pragma once
#include <algorithm>
#include <cmath>
#include <set>
#include <span>
#include <utility>
#include <vector>

#include <heddle/base/error.hpp>
#include <heddle/base/shape.hpp>

namespace heddle::train {

/// Collects the results of many queries. All scores are means over the queries, and 0 without queries.
class RetrievalScores {
 public:
  /// Adds a query: the documents that were found, the best one first, and the set of the documents that are relevant,
  /// in any order. @throws Error for a query without relevant documents, and if a document was found twice.
  void add(std::span<const Index> ranked, std::span<const Index> relevant) {
    require(!relevant.empty(), "RetrievalScores: query ", queries_.size(), " has no relevant documents");
    std::vector<Index> sorted(ranked.begin(), ranked.end());
    std::sort(sorted.begin(), sorted.end());
    const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
    if (twice != sorted.end())
      fail("RetrievalScores: query ", queries_.size(), " has found document ", *twice, " twice");
    const std::set<Index> known(relevant.begin(), relevant.end());
    Query query{{}, static_cast<Index>(known.size())};
    for (std::size_t i = 0; i < ranked.size(); ++i)
      if (known.contains(ranked[i])) query.hits.push_back(static_cast<Index>(i) + 1);
    queries_.push_back(std::move(query));
  }

  /// Returns the number of queries.
  Index count() const { return static_cast<Index>(queries_.size()); }
  /// Returns the share of the relevant documents that are among the first k. @throws Error for k < 1.
  double recall_at(Index k) const {
    return mean(k, [k](const Query& query) {
      const auto end = std::upper_bound(query.hits.begin(), query.hits.end(), k);
      return static_cast<double>(end - query.hits.begin()) / static_cast<double>(query.relevant);
    });
  }
  /// Returns the normalized discounted cumulative gain of the first k: the sum of 1 / log2(rank + 1) over the relevant
  /// documents among them, divided by that of the best order. @throws Error for k < 1.
  double ndcg_at(Index k) const {
    return mean(k, [k](const Query& query) {
      double gain = 0, best = 0;
      for (const Index rank : query.hits)
        if (rank <= k) gain += discount(rank);
      for (Index rank = 1; rank <= std::min(k, query.relevant); ++rank) best += discount(rank);
      return gain / best;
    });
  }
  /// Returns the mean of 1 / rank of the first relevant document, or 0 where none is among the first k. @throws Error
  /// for k < 1.
  double mrr_at(Index k) const {
    return mean(k, [k](const Query& query) {
      return query.hits.empty() || query.hits[0] > k ? 0 : 1 / static_cast<double>(query.hits[0]);
    });
  }

 private:
  struct Query {
    std::vector<Index> hits;  // ranks of the relevant documents that were found, from 1, increasing
    Index relevant;           // number of relevant documents
  };

  static double discount(Index rank) { return 1 / std::log2(static_cast<double>(rank) + 1); }
  template <class Score>
  double mean(Index k, Score score) const {
    require(k >= 1, "RetrievalScores: k must be at least 1, got ", k);
    double sum = 0;
    for (const Query& query : queries_) sum += score(query);
    return queries_.empty() ? 0 : sum / static_cast<double>(queries_.size());
  }

  std::vector<Query> queries_;
};

}  // namespace heddle::train
