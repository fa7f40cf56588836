// Communicators, with threads in place of processes.
#include <heddle/distributed/communicator.hpp>

#include <numeric>

#include "../harness/numbers.hpp"
#include "catch.hpp"
#include "thread_transport.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// Numbers whose sum depends on the order of the additions.
std::vector<float> numbers_of_part(Index part, Index count) {
  std::vector<float> values;
  Random random(5, static_cast<std::uint64_t>(part));
  for (Index i = 0; i < count; ++i) {
    const std::uint64_t bits = random.next();
    values.push_back(std::ldexp(static_cast<float>(bits >> 40) - 8'388'608.f, static_cast<int>(bits % 23)));
  }
  return values;
}

// The sum of parts [first, last), added in halves.
std::vector<float> sum_in_halves(Index first, Index last, Index count) {
  if (last - first == 1) return numbers_of_part(first, count);
  std::vector<float> sum = sum_in_halves(first, (first + last) / 2, count);
  const std::vector<float> right = sum_in_halves((first + last) / 2, last, count);
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += right[i];
  return sum;
}

}  // namespace

TEST_CASE("parts_of: each process has a node of the tree, and together they have all parts") {
  using distributed::parts_of;
  const auto at = [](int rank, int size, Index parts) {
    const auto own = parts_of(rank, size, parts);
    return std::vector<Index>{own.first, own.last};
  };
  CHECK(at(0, 1, 1) == std::vector<Index>{0, 1});
  CHECK(at(0, 1, 8) == std::vector<Index>{0, 8});
  CHECK(at(2, 4, 8) == std::vector<Index>{4, 6});
  CHECK(at(0, 3, 4) == std::vector<Index>{0, 1});
  CHECK(at(1, 3, 4) == std::vector<Index>{1, 2});
  CHECK(at(2, 3, 4) == std::vector<Index>{2, 4});
  for (Index parts = 1; parts <= 64; parts *= 2)
    for (int size = 1; size <= parts; ++size) {
      Index next = 0;
      bool are_nodes = true;
      for (int rank = 0; rank < size; ++rank) {
        const auto own = parts_of(rank, size, parts);
        const Index count = own.last - own.first;
        are_nodes = are_nodes && own.first == next && count > 0 && (count & (count - 1)) == 0 && own.first % count == 0;
        next = own.last;
      }
      CAPTURE(parts, size);
      CHECK((are_nodes && next == parts));
    }
  CHECK_THROWS_WITH(parts_of(0, 3, 2), ContainsSubstring("2 parts of a batch for 3 processes; it must be a power of "
                                                         "two that is at least their number"));
  CHECK_THROWS_WITH(parts_of(0, 1, 6), ContainsSubstring("must be a power of two"));
}

TEST_CASE("all_reduce: the sum is that of one tree, whatever the number of processes") {
  constexpr Index parts = 16;
  for (const Index count : {0, 1, 2, 31, 33, 257}) {
    const std::vector<float> expected = sum_in_halves(0, parts, count);
    for (const int size : {1, 2, 3, 4, 5, 6, 7, 8, 11, 16}) {
      CAPTURE(count, size);
      std::vector<int> agrees(static_cast<std::size_t>(size), 0), is_near = agrees;
      on_processes(size, [&](const distributed::Communicator& c) {
        const auto own = distributed::parts_of(c.rank(), c.size(), parts);
        std::vector<float> sum = sum_in_halves(own.first, own.last, count), fast = sum;
        c.all_reduce(std::span(sum));
        agrees[static_cast<std::size_t>(c.rank())] = sum == expected;
        c.all_reduce(std::span(fast), distributed::Reduction::fast);
        bool near = true;
        for (std::size_t i = 0; i < fast.size(); ++i) near = near && std::abs(fast[i] - sum[i]) < 1e9f;
        is_near[static_cast<std::size_t>(c.rank())] = near;
      });
      CHECK(agrees == std::vector<int>(static_cast<std::size_t>(size), 1));
      CHECK(is_near == std::vector<int>(static_cast<std::size_t>(size), 1));
    }
  }
}

TEST_CASE("all_reduce: a tensor, in float and double") {
  std::vector<std::vector<double>> sums(3), values(3);
  on_processes(3, [&](const distributed::Communicator& c) {
    const Tensor<double> x({2, 2}, {1, 2, 3, 4});
    const auto rank = static_cast<std::size_t>(c.rank());
    sums[rank] = c.all_reduce(x).host();
    sums[rank].push_back(c.all_reduce(Tensor<float>(Shape{}, {.5f})).item());
    values[rank] = x.host();
  });
  CHECK(sums == std::vector<std::vector<double>>(3, {3, 6, 9, 12, 1.5}));
  CHECK(values == std::vector<std::vector<double>>(3, {1, 2, 3, 4}));
}

TEST_CASE("all_reduce: gradients of rows are added row by row, and only their rows are in the sum") {
  constexpr Index V = 9, D = 5;
  for (const int size : {1, 2, 3, 4, 7}) {
    const auto of_process = [](int rank) {  // process 1 has no rows
      const std::vector<Index> rows = rank == 1 ? std::vector<Index>{} : std::vector<Index>{0, rank % 4 + 1, 6};
      const auto count = static_cast<Index>(rows.size());
      return RowGradient<float>{Tensor<Index>({count}, rows),
                                Tensor<float>({count, D}, numbers_of_part(rank, count * D))};
    };
    std::vector<std::vector<float>> dense;
    for (int rank = 0; rank < size; ++rank) dense.push_back(of_process(rank).dense({V, D}).host());
    std::vector<int> agrees(static_cast<std::size_t>(size), 0);
    on_processes(size, [&](const distributed::Communicator& c) {
      const RowGradient<float> sum = c.all_reduce(of_process(c.rank()));
      std::vector<float> whole = dense[static_cast<std::size_t>(c.rank())];
      c.all_reduce(std::span(whole));
      const std::vector<Index> rows = sum.rows.host();
      bool ok = sum.dense({V, D}).host() == whole && std::is_sorted(rows.begin(), rows.end());
      ok = ok && std::adjacent_find(rows.begin(), rows.end()) == rows.end() && rows.size() <= 6;
      agrees[static_cast<std::size_t>(c.rank())] = ok;
    });
    CAPTURE(size);
    CHECK(agrees == std::vector<int>(static_cast<std::size_t>(size), 1));
  }
}

TEST_CASE("broadcast, all_gather and barrier") {
  std::vector<int> agrees(3, 0);
  on_processes(3, [&](const distributed::Communicator& c) {
    Tensor<int> ids({2}, {c.rank(), 10 * c.rank()});
    c.broadcast(ids, 2);
    bool ok = ids.host() == std::vector<int>{2, 20};
    ok = ok && c.broadcast(c.rank() == 0 ? std::string("a\0b", 3) : "longer text") == std::string("a\0b", 3);
    ok = ok && c.broadcast(std::string(c.rank() == 1 ? "" : "x"), 1).empty();
    ok = ok && c.all_gather(std::vector<double>{c.rank() + .5, -1.}) == std::vector<double>{.5, -1, 1.5, -1, 2.5, -1};
    ok = ok && c.all_gather(std::vector<int>{}).empty();
    ok = ok && !c.first_different(5) && c.first_different(c.rank() == 2 ? 6 : 5) == 2 &&
         c.first_different(c.rank()) == 1;
    c.barrier();
    agrees[static_cast<std::size_t>(c.rank())] = ok;
  });
  CHECK(agrees == std::vector<int>(3, 1));
}

TEST_CASE("gather, scatter and all_gather_in_place: parts of any sizes") {
  for (const int size : {1, 2, 3, 5})
    on_processes(size, [&](const distributed::Communicator& c) {
      // Process p has 3 p % 4 of the numbers 0, 1, 2, …
      std::vector<Index> counts;
      Index all_count = 0, before = 0;
      for (int p = 0; p < size; ++p) {
        counts.push_back(3 * p % 4);
        if (p < c.rank()) before += counts.back();
        all_count += counts.back();
      }
      std::vector<float> expected(static_cast<std::size_t>(all_count));
      std::iota(expected.begin(), expected.end(), 0.f);
      const auto own_part = std::span<const float>(expected).subspan(
          static_cast<std::size_t>(before), static_cast<std::size_t>(counts[static_cast<std::size_t>(c.rank())]));
      const std::vector<float> own(own_part.begin(), own_part.end());

      for (int root = 0; root < size; ++root) {
        std::vector<float> all(c.rank() == root ? expected.size() : 0), part(own.size());
        c.gather(std::span(own), std::span(all), counts, root);
        require(c.rank() != root || all == expected, "gather");
        c.scatter(std::span<const float>(all), std::span(part), counts, root);
        require(part == own, "scatter");
      }
      std::vector<float> values(expected.size(), -1);
      std::copy(own.begin(), own.end(), values.begin() + before);
      c.all_gather_in_place(std::span(values), counts);
      require(values == expected, "all_gather_in_place");
    });
}

TEST_CASE("a communicator without a transport is a single process") {
  const distributed::Communicator alone;
  CHECK((alone.rank() == 0 && alone.size() == 1));
  std::vector<float> values{1, 2};
  alone.all_reduce(std::span(values));
  alone.all_reduce(std::span(values), distributed::Reduction::fast);
  CHECK(values == std::vector<float>{1, 2});
  CHECK(alone.broadcast(std::string("text")) == "text");
  CHECK(alone.all_gather(values) == values);
  alone.barrier();
}

TEST_CASE("launched: the variables of each launcher, of which one process is none") {
  const auto with = [](const char* size, const char* rank, int processes, int number) {
    ::setenv(size, std::to_string(processes).c_str(), 1);
    ::setenv(rank, std::to_string(number).c_str(), 1);
    const distributed::Launched found = distributed::launched();
    ::unsetenv(size);
    ::unsetenv(rank);
    return found.size == (processes > 1 ? processes : 1) && found.rank == (processes > 1 ? number : 0);
  };
  CHECK(with("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", 4, 3));
  CHECK(with("PMI_SIZE", "PMI_RANK", 2, 1));
  CHECK(with("MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK", 2, 0));
  CHECK(with("SLURM_STEP_NUM_TASKS", "SLURM_PROCID", 8, 7));
  CHECK(with("OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", 1, 0));
  CHECK(distributed::launched().size == 1);
}
