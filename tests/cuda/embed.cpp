// The CUDA kernels that take rows of tables, check ids, and sum the gradient of the taken rows.
#include <heddle/gpu/kernels.hpp>
#include <heddle/nn/positions.hpp>
#include <heddle/ops/check_ids.hpp>
#include <heddle/ops/embed.hpp>

#include "../harness/agreement.hpp"
#include "device_array.hpp"
#include "lowered_limits.hpp"
#include "same_always.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

// --- check_ids ---

// Returns the message that the next synchronizing call throws, or nothing.
template <class I>
std::string said_of(const std::vector<I>& ids, const kernel::IdCheck& check) {
  const DeviceArray<I> on_device(ids);
  cudaDeviceSynchronize();  // the copy is on another stream
  kernel::check_ids(Cuda{}, check, View<const I, 1>{on_device.data(), {static_cast<Index>(ids.size())}});
  try {
    cuda::synchronize();
  } catch (const IndexError& error) {
    return error.what();
  }
  return "";
}

template <class I>
void check_reported(Index N, const std::vector<Index>& wrong) {
  CAPTURE(N, wrong, sizeof(I));
  std::vector<I> ids(size_of(N));
  for (Index n = 0; n < N; ++n) ids[size_of(n)] = static_cast<I>(n % 7);
  for (const Index n : wrong) ids[size_of(n)] = static_cast<I>(n % 2 ? -1 - n : 7 + n);
  const Index first = wrong.empty() ? -1 : *std::min_element(wrong.begin(), wrong.end());
  const std::string expected = first < 0 ? ""
                                         : "op: id " + std::to_string(first % 2 ? -1 - first : 7 + first) +
                                               " at position " + std::to_string(first) + " is outside the 7 rows";
  REQUIRE(said_of<I>(ids, {"op", "id", "outside the # rows", 7}) == expected);
}

// --- sum_taken_rows ---

template <class T, class I>
struct Taking {
  Index V, D;
  std::vector<I> ids;
  std::vector<T> dy = {};
  std::size_t dy_shift = 0, dx_shift = 0;  // elements from an aligned address

  Index N() const { return static_cast<Index>(ids.size()); }
  Taking& with_numbers() {
    for (const double v : random<T>({N(), D}, 5).host()) dy.push_back(T(static_cast<float>(v)));
    return *this;
  }
};

template <class Y, class T, class I>
std::vector<double> summed(const Taking<T, I>& in, Index frozen) {
  std::vector<T> shifted(in.dy_shift, T(0.f));
  shifted.insert(shifted.end(), in.dy.begin(), in.dy.end());
  const DeviceArray ids(in.ids);
  const DeviceArray dy(shifted);
  const DeviceArray dx(std::vector<Y>(size_of(in.V * in.D) + in.dx_shift, Y(77.f)));
  cudaDeviceSynchronize();  // the copies are on another stream
  kernel::sum_taken_rows(Cuda{}, View<const T, 2>{dy.data() + in.dy_shift, {in.N(), in.D}},
                         View<const I, 1>{ids.data(), {in.N()}}, frozen,
                         View<Y, 2>{dx.data() + in.dx_shift, {in.V, in.D}});
  cuda::synchronize();
  std::vector<double> all = joined(dx.host());
  for (std::size_t i = 0; i < in.dx_shift; ++i) REQUIRE(all[i] == 77);
  all.erase(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(in.dx_shift));
  return all;
}

// Requires the same bits with a sort and without one, if there are few enough ids.
template <class T, class I, class Y = T>
std::vector<double> on_gpu(const Taking<T, I>& in, Index frozen = -1) {
  const std::vector<double> found = summed<Y>(in, frozen);
  cuda::Limits sorted = cuda::limits;
  sorted.scanned_ids = 0;
  const LoweredLimits low(sorted);
  REQUIRE(summed<Y>(in, frozen) == found);
  return found;
}

// Adds the rows of dy one by one, in the order of their positions.
template <class A, class T, class I>
std::vector<double> on_cpu(const Taking<T, I>& in) {
  std::vector<A> dx(size_of(in.V * in.D));
  for (Index n = 0; n < in.N(); ++n) {
    const Index v = in.ids[size_of(n)];
    if (v < 0 || v >= in.V) continue;
    for (Index d = 0; d < in.D; ++d)
      dx[size_of(v * in.D + d)] += static_cast<A>(static_cast<float>(in.dy[size_of(n * in.D + d)]));
  }
  return joined(dx);
}

template <class T, class I>
void check_sums(Taking<T, I> in) {
  in.with_numbers();
  for (const auto& [dy_shift, dx_shift] : {std::pair{0u, 0u}, {1u, 0u}, {0u, 1u}}) {
    in.dy_shift = dy_shift;
    in.dx_shift = dx_shift;
    CAPTURE(in.N(), in.V, in.D, in.dy_shift, in.dx_shift, sizeof(T));
    expect_close<T>(on_gpu(in), on_cpu<double>(in), on_cpu<float>(in));
  }
}

template <class I = std::int32_t>
std::vector<I> drawn(Index N, Index V) {
  std::vector<I> ids(size_of(N));
  std::uint64_t word = 1;
  for (I& id : ids) id = static_cast<I>((word = word * 0x5851f42d4c957f2du + 1) >> 33) % static_cast<I>(V);
  return ids;
}
template <class I>
std::vector<I> shuffled(std::vector<I> ids) {
  const auto order = drawn<std::int64_t>(static_cast<Index>(ids.size()), Index{1} << 30);
  for (std::size_t n = ids.size(); n > 1; --n) std::swap(ids[n - 1], ids[size_of(order[n - 1]) % n]);
  return ids;
}
// Returns ids in which row v occurs times[v] times, in a shuffled order.
std::vector<std::int32_t> taken_as_often(const std::vector<Index>& times) {
  std::vector<std::int32_t> ids;
  for (std::size_t v = 0; v < times.size(); ++v) ids.insert(ids.end(), size_of(times[v]), static_cast<std::int32_t>(v));
  return shuffled(ids);
}

}  // namespace

TEST_CASE("cuda check_ids: the first invalid id is reported, whichever block finds it") {
  check_reported<std::int32_t>(0, {});
  for (const Index N : {1, 33, 1023, 1024, 1025, 5000}) {
    if (races_are_watched() && N > 1025) continue;
    check_reported<std::int32_t>(N, {});
    check_reported<std::int64_t>(N, {N - 1});
    check_reported<std::int32_t>(N, {N - 1, N / 2, N / 3});
    check_reported<std::int64_t>(N, {0, N / 2});
  }
}

TEST_CASE("cuda check_ids: more ids than 256 blocks take at once") {
  if (races_are_watched()) return;
  constexpr Index N = 256 * 1024 + 1;
  check_reported<std::int32_t>(N, {});
  check_reported<std::int32_t>(N, {N - 1});
  check_reported<std::int64_t>(N, {N - 1, 2047, 2049, N / 2});
}

TEST_CASE("cuda check_ids: blocks that check several groups of ids") {
  for (const Index blocks : {1, 2}) {
    const LoweredLimits low({.id_blocks = blocks});
    const Index N = races_are_watched() ? 2050 : 5000;
    check_reported<std::int32_t>(N, {});
    check_reported<std::int32_t>(N, {N - 1});
    check_reported<std::int64_t>(N, {N - 1, N / 2 + 1, 1025});
  }
}

TEST_CASE("cuda check_ids: of several operations before a synchronization, the first one's invalid id is reported") {
  const std::vector<std::int32_t> first{1, 9, 2, -4}, second{8, 1};
  const DeviceArray a(first), b(second);
  const kernel::IdCheck check{"op", "id", "outside the # rows", 7}, other{"other", "id", "outside the # rows", 7};
  const auto enqueue = [&] {
    kernel::check_ids(Cuda{}, check, View<const std::int32_t, 1>{a.data(), {4}});
    kernel::check_ids(Cuda{}, other, View<const std::int32_t, 1>{b.data(), {2}});
  };
  for (int time = 0; time < 2; ++time) {
    enqueue();
    CHECK_THROWS_WITH(cuda::synchronize(), "op: id 9 at position 1 is outside the 7 rows");
    cuda::synchronize();  // the report is gone
  }
  kernel::check_ids(Cuda{}, other, View<const std::int32_t, 1>{b.data(), {2}});
  CHECK_THROWS_WITH(cuda::synchronize(), "other: id 8 at position 0 is outside the 7 rows");
}

TEST_CASE("cuda check_ids: an id of more than 32 bits") {
  const std::vector<Index> ids{1, 0, Index{1} << 32};
  CHECK(said_of(ids, {"op", "id", "outside the # rows", 7}) == "op: id 4294967296 at position 2 is outside the 7 rows");
}

TEST_CASE("cuda check_ids: the message does not depend on the schedule") {
  std::vector<std::int32_t> ids(3000, 1);
  ids[1100] = ids[2999] = 9;
  ids[2100] = -4;
  expect_same_always([&] { return said_of(ids, {"op", "id", "outside", 7}); });
}

TEST_CASE("cuda sum_taken_rows: rows of any number and width") {
  if (races_are_watched()) {
    check_sums<float>(Taking<float, int>{33, 5, drawn(33, 33)});
    check_sums<bf16>(Taking<bf16, Index>{3, 16, drawn<Index>(300, 2)});
    check_sums<float>(Taking<float, int>{60, 1, drawn(2049, 50)});
    return;
  }
  for (const Index N : {0, 1, 31, 33, 257})
    for (const Index D : {1, 8, 31, 64, 257}) {
      const Index V = N % 50 + 1;
      check_sums(Taking<float, int>{V, D, drawn(N, V)});
      check_sums(Taking<bf16, Index>{V, D, drawn<Index>(N, V)});
    }
  check_sums(Taking<float, int>{300, 8, drawn(33, 300)});
  check_sums(Taking<float, Index>{7, 768, drawn<Index>(50, 7)});
  check_sums(Taking<bf16, int>{7, 768, drawn(50, 7)});
}

TEST_CASE("cuda sum_taken_rows: a table without rows or columns, and no ids") {
  CHECK(on_gpu(Taking<float, int>{0, 3, {0, 1, 2}}.with_numbers()).empty());
  CHECK(on_gpu(Taking<float, int>{3, 0, {0, 1, 2}}.with_numbers()).empty());
  CHECK(on_gpu(Taking<bf16, Index>{2, 2, {}}.with_numbers()) == std::vector<double>(4));
}

TEST_CASE(
    "cuda sum_taken_rows: a row that is taken fewer than 128 times is the sum of its rows of dy in ascending order") {
  const Index N = races_are_watched() ? 300 : 3000;
  const auto in = Taking<float, int>{50, 3, drawn(N, 50)}.with_numbers();
  CHECK(on_gpu(in) == on_cpu<float>(in));  // bit by bit: another order rounds differently
}

TEST_CASE("cuda sum_taken_rows: tables around a power of two, and an id that needs one bit more") {
  if (races_are_watched()) return;
  for (const Index V : {1, 2, 3, 4, 254, 255, 256, 257, 65534, 65535, 65536}) {
    std::vector<int> ids = drawn(300, V);
    ids[7] = static_cast<int>(V);
    ids[8] = -1;
    check_sums(Taking<float, int>{V, 1, ids});
  }
  check_sums(Taking<float, int>{1000, 3, drawn(20000, 1000)});
}

TEST_CASE("cuda sum_taken_rows: half a million ids") {
  if (races_are_watched()) return;
  const Index N = 256 * 2048 + 1;
  Taking<float, int> in{3, 1, drawn(N, 3), std::vector<float>(size_of(N), 1.f)};
  in.ids.back() = 0;
  CHECK(on_gpu(in) == on_cpu<double>(in));
}

TEST_CASE("cuda sum_taken_rows: a row that is taken often") {
  if (races_are_watched()) {
    check_sums(Taking<float, int>{3, 4, taken_as_often({5, 300, 129})});
    return;
  }
  for (const Index D : {1, 8, 33}) {
    check_sums(Taking<float, int>{9, D, taken_as_often({127, 128, 129, 0, 255, 256, 257, 1, 1000})});
    check_sums(Taking<bf16, int>{9, D, taken_as_often({1, 257, 384, 127, 1, 128, 0, 0, 900})});
    check_sums(Taking<float, int>{2, D, taken_as_often({0, 5000})});
  }
}

TEST_CASE("cuda sum_taken_rows: threads that sum several columns") {
  const LoweredLimits low({.gradient_column_blocks = 1});
  for (const Index D : races_are_watched() ? std::vector<Index>{300} : std::vector<Index>{257, 300, 1032}) {
    check_sums(Taking<float, int>{3, D, taken_as_often({5, 130, 129})});
    check_sums(Taking<bf16, Index>{5, D, drawn<Index>(33, 6)});
  }
}

TEST_CASE("cuda sum_taken_rows: the sum of a row depends on nothing but its own rows") {
  const Index D = 3, often = 391;
  Taking<float, int> alone{1, D, std::vector<int>(size_of(often), 0)};
  alone.with_numbers();
  const auto expected = on_gpu(alone);
  for (const Index before : {1, 77, 128}) {
    Taking<float, int> in{3, D, {}, {}};
    std::size_t at = 0;
    for (Index n = 0; n < often + before; ++n) {
      const bool own = n >= before;
      in.ids.push_back(own ? 2 : 1);
      for (Index d = 0; d < D; ++d) in.dy.push_back(own ? alone.dy[at++] : 1.f);
    }
    const auto got = on_gpu(in);
    CHECK(std::equal(expected.begin(), expected.end(), got.begin() + 2 * D));
  }
}

TEST_CASE("cuda sum_taken_rows: ids out of range are skipped") {
  const Index far = Index{1} << 32, least = std::numeric_limits<Index>::min();
  check_sums(Taking<float, Index>{4, 3, {0, -1, 3, 4, far, far + 1, 0, least, -far, 2}});
  check_sums(Taking<bf16, int>{4, 8, std::vector<int>(200, 4)});
}

TEST_CASE("cuda sum_taken_rows: results do not depend on schedules or garbage in memory") {
  const Index N = races_are_watched() ? 300 : 2300;
  const auto in = Taking<float, int>{50, 5, drawn(N, 40)}.with_numbers();
  expect_same_always([&] { return on_gpu(in); });
  const auto often = Taking<bf16, int>{3, 16, taken_as_often({130, 400, 2})}.with_numbers();
  expect_same_always([&] { return on_gpu(often); });
}

TEST_CASE("cuda sum_taken_rows: 4096 ids, and one more") {
  if (races_are_watched()) return;
  for (const Index N : {4096, 4097}) check_sums(Taking<float, int>{900, 4, drawn(N, 900)});
}

TEST_CASE("cuda sum_taken_rows: the gradient of a frozen row is 0") {
  for (const Index frozen : {0, 1, 6}) {
    const auto in = Taking<float, int>{7, 8, drawn(200, 7)}.with_numbers();
    std::vector<double> expected = on_gpu(in);
    std::fill_n(expected.begin() + frozen * in.D, in.D, 0.);
    CHECK(on_gpu(in, frozen) == expected);
  }
}

TEST_CASE("cuda sum_taken_rows: gradients in bf16 for a table in float are not rounded") {
  for (const Index D : {3, 8, 64}) {
    const auto in = Taking<bf16, int>{9, D, taken_as_often({3, 0, 130, 20})}.with_numbers();
    Taking<float, int> same{in.V, D, in.ids};
    for (const bf16 value : in.dy) same.dy.push_back(static_cast<float>(value));
    CHECK(on_gpu<bf16, int, float>(in) == on_gpu(same));
  }
}

// --- embed ---

namespace {

// Token ids in texts of several lengths, some of them empty.
struct Texts {
  Tensor<int> ids;
  Sequences sequences;

  static Texts packed(const std::vector<int>& lengths, Index V) {
    const Sequences sequences = Sequences::packed(lengths);
    return {Tensor<int>({sequences.rows()}, drawn(sequences.rows(), V)), sequences};
  }
  static Texts padded(const std::vector<int>& lengths, Index T, Index V) {
    const Index B = static_cast<Index>(lengths.size());
    return {Tensor<int>({B, T}, drawn(B * T, V)), Sequences::padded(lengths, T)};
  }
};

// Returns the embeddings on a device, followed by the gradients of the tables that are trained.
template <class A, class Positions>
std::vector<std::vector<double>> embeddings_on(Device device, const Texts& texts, Index V, Index D,
                                               [[maybe_unused]] const nn::PositionOptions& options) {
  constexpr bool is_trained = !std::is_constructible_v<Positions, Index, Index>;
  Random drawn_from(3);
  nn::Embedding<> words(V, D, drawn_from, {.padding_id = 1});
  auto positions = [&] {
    if constexpr (is_trained)
      return Positions(9, D, drawn_from, options);
    else
      return Positions(9, D);
  }();
  to(words, device);
  to(positions, device);
  const Tensor<A> y = positions.template embed<A>(words, texts.ids.to(device), texts.sequences.to(device));
  backward(sum(cast<float>(y) * cast<float>(random<float>(y.shape(), 7)).to(device)));
  const auto numbers = [](const auto& x) { return joined(x.host()); };
  std::vector<std::vector<double>> found{numbers(y), numbers(words.weight.grad())};
  if constexpr (is_trained) found.push_back(numbers(positions.weight.grad()));
  return found;
}

template <class A, class Positions>
void check_embeddings(const Texts& texts, Index V, Index D, const nn::PositionOptions& options = {}) {
  CAPTURE(texts.ids.shape(), V, D, sizeof(A));
  const auto expected = embeddings_on<A, Positions>(Device::cpu, texts, V, D, options),
             found = embeddings_on<A, Positions>(Device::cuda, texts, V, D, options);
  CHECK(found[0] == expected[0]);
  CHECK(found[1] == expected[1]);
  if (found.size() < 3) return;
  // The CPU rounds the gradient of positions in bf16.
  const double error = std::is_same_v<A, bf16> ? 0.004 : 0;
  for (std::size_t i = 0; i < expected[2].size(); ++i)
    CHECK(std::abs(found[2][i] - expected[2][i]) <= error * std::abs(expected[2][i]));
}

}  // namespace

TEST_CASE("cuda embed: words and positions, and their gradients, have the bits of the CPU") {
  for (const Index D : {1, 8, 33, 64}) {
    const Index V = 11;
    for (const Texts& texts : {Texts::packed({3, 0, 9, 1}, V), Texts::packed({}, V), Texts::padded({2, 5, 0}, 6, V)}) {
      check_embeddings<float, nn::LearnedPositions<>>(texts, V, D);
      check_embeddings<bf16, nn::LearnedPositions<>>(texts, V, D);
      check_embeddings<float, nn::LearnedPositions<>>(texts, V, D, {.padding_id = 1});
      check_embeddings<bf16, nn::LearnedPositions<>>(texts, V, D, {.padding_id = 4});
      check_embeddings<float, nn::SinusoidalPositions<>>(texts, V, D);
      check_embeddings<bf16, nn::SinusoidalPositions<>>(texts, V, D);
    }
  }
}

TEST_CASE("cuda embed: a frozen table has no gradient, and the other one has") {
  const Texts texts = Texts::packed({3, 5}, 7);
  Random drawn_from(3);
  nn::Embedding<> words(7, 8, drawn_from);
  nn::LearnedPositions<> positions(9, 8, drawn_from);
  to(words, Device::cuda);
  to(positions, Device::cuda);
  words.weight.freeze();
  backward(sum(positions.embed(words, texts.ids, texts.sequences.to(Device::cuda))));
  CHECK(!words.weight.grad());
  CHECK(joined(positions.weight.grad().host())[0] == 2);
}

TEST_CASE("cuda embed: the first invalid id is reported by the next synchronization") {
  const auto message = [](const std::vector<int>& ids) -> std::string {
    const Tensor<float> table = ones<float>({7, 4}).to(Device::cuda);
    const Tensor<float> y = embed(Tensor<int>({static_cast<Index>(ids.size())}, ids).to(Device::cuda), table);
    try {
      cuda::synchronize();
    } catch (const IndexError& error) {
      return error.what();
    }
    return "";
  };
  CHECK(message({0, 6, 3}) == "");
  CHECK(message({0, 7, 3, -1}) == "embed: id 7 at position 1 is outside the table's 7 rows");
  std::vector<int> many(500, 2);
  many[499] = many[130] = -4;
  CHECK(message(many) == "embed: id -4 at position 130 is outside the table's 7 rows");
  CHECK(message({1}) == "");  // the report is gone
}

TEST_CASE("cuda embed: errors of shapes and lengths are those of the CPU") {
  Random drawn_from(3);
  const auto message = [&](Device device, Index D, const std::vector<int>& lengths, Index rows) -> std::string {
    nn::Embedding<> words(7, 8, drawn_from);
    nn::LearnedPositions<> positions(9, D, drawn_from);
    to(words, device);
    to(positions, device);
    try {
      positions.embed(words, zeros<int>({rows}).to(device), Sequences::packed(lengths).to(device));
    } catch (const Error& error) {
      std::string text = error.what();
      for (const char* name : {"the CPU", "the GPU"})
        if (const auto at = text.find(name); at != text.npos) text.replace(at, 7, "a device");
      return text;
    }
    return "";
  };
  const auto check = [&](Index D, const std::vector<int>& lengths, Index rows) {
    const std::string expected = message(Device::cpu, D, lengths, rows);
    CHECK(!expected.empty());
    CHECK(message(Device::cuda, D, lengths, rows) == expected);
  };
  check(8, {10}, 10);
  check(8, {3, 2}, 6);
  check(7, {3, 2}, 5);
}

TEST_CASE("cuda embed: the reported id does not depend on the schedule") {
  std::vector<int> ids(300, 1);
  ids[110] = ids[299] = 9;
  ids[210] = -4;
  const Tensor<int> there = Tensor<int>({300}, ids).to(Device::cuda);
  const Tensor<float> table = ones<float>({7, 4}).to(Device::cuda);
  expect_same_always([&]() -> std::string {
    const Tensor<float> y = embed(there, table);
    try {
      cuda::synchronize();
    } catch (const IndexError& error) {
      return error.what();
    }
    return "";
  });
}
