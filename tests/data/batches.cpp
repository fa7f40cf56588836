#include <heddle/data/batches.hpp>

#include <algorithm>
#include <heddle/core/create.hpp>
#include <numeric>

#include "../catch.hpp"
#include "../harness/devices.hpp"

using namespace heddle;
using namespace heddle::data;
using namespace heddle::testing;

TEST_CASE("batches: every epoch holds each row once; the last batch may be smaller") {
  for (const Index rows : {0, 1, 31, 32, 33, 257}) {
    Batches batches(rows, 32, Order::shuffled, 1);
    CHECK(batches.per_epoch() == (rows + 31) / 32);
    for (Index epoch = 0; epoch < 2; ++epoch) {
      std::vector<Index> seen;
      for (Index n = 0; n < batches.per_epoch(); ++n)
        for (const Index row : batches(epoch, n)) seen.push_back(row);
      std::sort(seen.begin(), seen.end());
      std::vector<Index> all(static_cast<std::size_t>(rows));
      std::iota(all.begin(), all.end(), 0);
      CHECK(seen == all);
    }
  }
}

TEST_CASE("batches: the order is a function of seed and epoch, so that no earlier epoch is replayed") {
  const auto rows = [](Batches& batches, Index epoch, Index n) {
    const auto batch = batches(epoch, n);
    return std::vector<Index>(batch.begin(), batch.end());
  };
  Batches replayed(100, 7, Order::shuffled, 5), jumped(100, 7, Order::shuffled, 5), other(100, 7, Order::shuffled, 6);
  for (Index epoch = 0; epoch < 3; ++epoch) rows(replayed, epoch, 0);
  CHECK(rows(replayed, 3, 4) == rows(jumped, 3, 4));
  CHECK(rows(jumped, 3, 4) != rows(other, 3, 4));
  CHECK(rows(jumped, 3, 4) != rows(jumped, 4, 4));
  Batches sequential(10, 4, Order::sequential);
  CHECK(rows(sequential, 1, 2) == std::vector<Index>{8, 9});
}

TEST_CASE("filled: a vector gets one of few sizes, and its own elements come first") {
  std::vector<Index> sizes;
  for (Index M = 0; M <= 300; ++M) {
    const Tensor<int> x = arange<int>(0, static_cast<int>(M));
    const std::vector<int> values = filled(x, -7).host();
    const auto size = static_cast<Index>(values.size());
    CHECK(std::equal(values.begin(), values.begin() + M, x.data()));
    CHECK(std::count(values.begin() + M, values.end(), -7) == size - M);
    CHECK(size - M <= std::max<Index>(7, M / 8));
    if (sizes.empty() || sizes.back() != size) sizes.push_back(size);
  }
  CHECK(sizes.size() < 30);
  CHECK(std::is_sorted(sizes.begin(), sizes.end()));
}

TEST_CASE("filled: a batch gets sequences of ignored labels after its own") {
  LabelledSequences set;
  std::vector<Index> rows;
  for (int n = 0; n < 9; ++n) {
    set.add(std::vector<int>(static_cast<std::size_t>(3 + 5 * n), n + 1), n % 2);
    rows.push_back(n);
  }
  const Batch batch = set.batch(rows), fuller = filled(batch, set.longest());
  const Index N = batch.ids.size(), B = batch.labels.size();
  CHECK(N == 207);
  CHECK(fuller.ids.size() >= N);
  CHECK(fuller.ids.size() <= N + N / 8 + 16);
  const auto ids = fuller.ids.host(), labels = fuller.labels.host();
  CHECK(std::equal(ids.begin(), ids.begin() + N, batch.ids.data()));
  CHECK(std::count(ids.begin() + N, ids.end(), 0) == fuller.ids.size() - N);
  CHECK(std::equal(labels.begin(), labels.begin() + B, batch.labels.data()));
  CHECK(std::count(labels.begin() + B, labels.end(), ignored_label) == fuller.labels.size() - B);
  CHECK(fuller.sequences.rows() == fuller.ids.size());
  CHECK(fuller.sequences.count() == fuller.labels.size());
  CHECK(fuller.sequences.longest() == set.longest());
  CHECK_FALSE(fuller.types);
  CHECK_THROWS_WITH(filled(batch, 40), "filled: a sequence has 43 rows, more than the most, 40");
}

TEST_CASE("batches: gathers rows as packed sequences") {
  LabelledSequences set;
  const std::vector<int> a{1, 2, 3}, b{}, c{4};
  set.add(a, 1);
  set.add(b, 0);
  set.add(c, 1);
  const std::vector<Index> rows{2, 0, 1};
  const Batch batch = set.batch(rows);
  on_each_device<int>([&](Device device) {
    const Batch there = batch.to(device);
    CHECK(there.ids.device() == device);
    CHECK(there.ids.host() == std::vector<int>{4, 1, 2, 3});
    CHECK(there.sequences.device() == device);
    CHECK(there.sequences.length().host() == std::vector<int>{1, 3, 0});
    CHECK(there.labels.host() == std::vector<int>{1, 1, 0});
    CHECK_FALSE(there.types);
  });
}

TEST_CASE("batches: refuse a batch size of 0, a batch that does not exist, and rows that cannot be") {
  CHECK_THROWS_WITH(Batches(10, 3, Order::sequential)(-1, 0), "Batches: epoch -1 is negative");
  CHECK_THROWS_WITH(Batches(-1, 4, Order::shuffled), "Batches: the number of rows must not be negative, got -1");
  CHECK(Batches(0, 4, Order::shuffled).per_epoch() == 0);
  LabelledSequences set;
  const std::vector<int> ids{1, 2};
  for (const Index second : {-1, 3})
    CHECK_THROWS_WITH(set.add(ids, 1, second),
                      "LabelledSequences: the second text begins at token " + std::to_string(second) + " of 2");
  CHECK(set.count() == 0);
  set.add(ids, 1, 2);  // an empty second text
  CHECK(set.batch(std::vector<Index>{0}).types.host() == std::vector<int>{0, 0});
  CHECK_THROWS_AS(Batches(10, 0, Order::shuffled), ShapeError);
  Batches batches(10, 4, Order::sequential);
  CHECK_THROWS_AS(batches(0, 3), IndexError);
}
