#include <heddle/train/retrieval_scores.hpp>

#include "../catch.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

using Documents = std::vector<Index>;

}  // namespace

TEST_CASE("RetrievalScores: the values of sentence-transformers") {
  train::RetrievalScores scores;
  scores.add(Documents{7, 2, 9, 4, 1}, Documents{2, 4, 11});
  scores.add(Documents{3, 8, 5}, Documents{3});
  scores.add(Documents{6, 0}, Documents{5});
  scores.add(Documents{1, 2, 3, 4, 5, 6}, Documents{6, 4, 2, 1});
  CHECK(scores.count() == 4);
  // InformationRetrievalEvaluator.compute_metrics of sentence-transformers 6.2.0.
  struct Expected {
    Index k;
    double recall, ndcg, mrr;
  };
  for (const auto& [k, recall, ndcg, mrr] : {Expected{1, 0.3125, 0.5, 0.5},
                                             {2, 0.4583333333333333, 0.5967132018086354, 0.625},
                                             {3, 0.4583333333333333, 0.5153606369886217, 0.625},
                                             {5, 0.6041666666666666, 0.5757498081175905, 0.625},
                                             {10, 0.6666666666666666, 0.6105138529952845, 0.625}}) {
    CAPTURE(k);
    CHECK(scores.recall_at(k) == Approx(recall).epsilon(1e-14));
    CHECK(scores.ndcg_at(k) == Approx(ndcg).epsilon(1e-14));
    CHECK(scores.mrr_at(k) == Approx(mrr).epsilon(1e-14));
  }
}

TEST_CASE("RetrievalScores: worked by hand") {
  train::RetrievalScores scores;
  scores.add(Documents{5, 1, 4, 2}, Documents{2, 1});  // hits at ranks 2 and 4
  CHECK(scores.recall_at(1) == 0);
  CHECK(scores.recall_at(2) == 0.5);
  CHECK(scores.recall_at(4) == 1);
  CHECK(scores.mrr_at(1) == 0);
  CHECK(scores.mrr_at(2) == 0.5);
  CHECK(scores.ndcg_at(1) == 0);
  const double at_rank_2 = 1 / std::log2(3.), at_rank_4 = 1 / std::log2(5.);
  CHECK(scores.ndcg_at(3) == Approx(at_rank_2 / (1 + at_rank_2)));
  CHECK(scores.ndcg_at(4) == Approx((at_rank_2 + at_rank_4) / (1 + at_rank_2)));
  CHECK(scores.ndcg_at(1000) == scores.ndcg_at(4));
  scores.add(Documents{2, 1, 9}, Documents{1, 2, 2});  // a set: 2 counts once
  CHECK(scores.recall_at(2) == 0.75);
  CHECK(scores.mrr_at(2) == 0.75);
  CHECK(scores.ndcg_at(1) == 0.5);
}

TEST_CASE("RetrievalScores: no queries, and queries that find nothing") {
  train::RetrievalScores scores;
  CHECK(scores.count() == 0);
  CHECK(scores.recall_at(1) == 0);
  CHECK(scores.ndcg_at(1) == 0);
  CHECK(scores.mrr_at(1) == 0);
  scores.add(Documents{}, Documents{1});
  scores.add(Documents{2, 3}, Documents{1});
  CHECK(scores.count() == 2);
  CHECK(scores.recall_at(10) == 0);
  CHECK(scores.ndcg_at(10) == 0);
  CHECK(scores.mrr_at(10) == 0);
}

TEST_CASE("RetrievalScores: refuses queries without relevant documents, repeated documents and k below 1") {
  train::RetrievalScores scores;
  scores.add(Documents{1}, Documents{1});
  CHECK_THROWS_WITH(scores.add(Documents{1}, Documents{}), "RetrievalScores: query 1 has no relevant documents");
  CHECK_THROWS_WITH(scores.add(Documents{4, 1, 4}, Documents{1}),
                    "RetrievalScores: query 1 has found document 4 twice");
  CHECK_THROWS_WITH(scores.recall_at(0), "RetrievalScores: k must be at least 1, got 0");
  CHECK_THROWS_AS(scores.ndcg_at(-1), Error);
  CHECK_THROWS_AS(scores.mrr_at(0), Error);
  CHECK(scores.count() == 1);
}
