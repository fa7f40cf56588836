// Operations on tensors of more than 2^31 elements, whose offsets go beyond 32 bits, and on more heads than a grid's y
// dimension allows. Where the GPU is interpreted, memory that no operation touches costs nothing, because it is made of
// fresh pages. Prints `ok: …` or `FAILED: …` for each operation. Exits with 77 if there is too little memory.
#include <cuda_runtime_api.h>

#include <cstring>
#include <fstream>
#include <heddle/heddle.hpp>

using namespace heddle;

namespace {

constexpr Index boundary = Index{1} << 31;
constexpr int exit_skipped = 77;
int failures = 0;

void report(const char* what, bool is_right) {
  std::printf("%s: %s\n", is_right ? "ok" : "FAILED", what);
  std::fflush(stdout);
  failures += !is_right;
}

// --- parts of tensors ---

template <class T>
std::vector<T> part(const Tensor<T>& x, Index first, Index count) {
  std::vector<T> values(static_cast<std::size_t>(count));
  cuda::to_host(values.data(), x.device_data() + first, values.size() * sizeof(T));
  return values;
}
template <class T>
void set_part(Tensor<T>& x, Index first, const std::vector<T>& values) {
  cuda::to_device(x.device_data() + first, values.data(), values.size() * sizeof(T));
}

// Returns positions on either side of the boundary, and in the last block of `size` elements.
std::vector<Index> probes(Index size) { return {0, boundary / 2, boundary - 1, boundary, boundary + 1, size - 1}; }

// Returns ones, except at the probes, which hold 2, 3, 4, ...
Tensor<bf16> marked(const Shape& shape) {
  Tensor<bf16> x = ones<bf16>(shape, Device::cuda);
  float mark = 2;
  for (const Index i : probes(shape.size())) set_part(x, i, {bf16(mark++)});
  return x;
}
// Returns whether y holds factor * 2, factor * 3, ... at the positions that marked() marks, and `factor` next to the
// last one.
bool has_marks(const Tensor<bf16>& y, float factor) {
  float mark = 2;
  for (const Index i : probes(y.size()))
    if (static_cast<float>(part(y, i, 1)[0]) != factor * mark++) return false;
  return static_cast<float>(part(y, y.size() - 2, 1)[0]) == factor;
}

// --- operations ---

void check_elementwise() {
  const Index N = boundary + 1003;
  const Tensor<bf16> x = marked({N});
  report("ones: a fill", has_marks(x, 1));
  report("a product with a number", has_marks(x * 2, 2));
  report("relu", has_marks(relu(x), 1));
}

void check_copies() {
  const Index M = boundary / 2 + 77;
  const Tensor<bf16> x = marked({2, M});
  const Tensor<bf16> y = transpose(x);  // [M, 2]
  bool is_right = true;
  for (const Index i : probes(2 * M)) {
    const Index row = i / M, column = i % M;
    is_right = is_right && static_cast<float>(part(y, column * 2 + row, 1)[0]) == static_cast<float>(part(x, i, 1)[0]);
  }
  report("transpose", is_right);
  report("slice",
         static_cast<float>(part(slice(x, 1, M - 5, M), 9, 1)[0]) == static_cast<float>(part(x, 2 * M - 1, 1)[0]));
}

void check_reductions() {
  const Index N = boundary + 1003;
  Tensor<bf16> x = ones<bf16>({1, N}, Device::cuda);
  report("argmax of equal elements", argmax(x, 1).host()[0] == 0);
  set_part(x, N - 5, {bf16(2.f)});
  report("argmax", argmax(x, 1).host()[0] == N - 5);
  // bf16 has no value between 2^31 and 2^31 + 2^24.
  report("sum along a row", static_cast<float>(sum(x, 1).host()[0]) == 0x1p31f);
  const Index rows = boundary / 1024 + 5;
  const Tensor<bf16> y = marked({rows, 1024});
  const auto sums = sum(y, 1).host();
  report("sum along many rows", static_cast<float>(sums[static_cast<std::size_t>(rows - 2)]) == 1024.f &&
                                    static_cast<float>(sums[boundary / 1024]) == 1024.f + 8.f);
}

void check_rows() {
  const Index rows = boundary / 1024 + 9, C = 1024;
  const Tensor<bf16> y = softmax(ones<bf16>({rows, C}, Device::cuda), 1);
  bool is_right = true;
  for (const Index i : probes(rows * C)) is_right = is_right && static_cast<float>(part(y, i, 1)[0]) == 1.f / 1024;
  report("softmax", is_right);
}

void check_embed() {
  const Index V = boundary / 64 + 5, D = 64;
  Tensor<bf16> table = variable(marked({V, D}));
  const Tensor<std::int64_t> ids = Tensor<std::int64_t>({3}, {V - 1, 0, boundary / 64}).to(Device::cuda);
  const Tensor<bf16> y = embed(ids, table);
  const auto taken = y.host();
  report("embed", static_cast<float>(taken[63]) == 7.f && static_cast<float>(taken[64]) == 2.f &&
                      static_cast<float>(taken[128]) == 5.f && static_cast<float>(taken[129]) == 6.f);
  backward(y, ones<bf16>({3, D}, Device::cuda));
  const Tensor<bf16> gradient = table.grad();
  const auto last = part(gradient, (V - 1) * D, D), other = part(gradient, (V - 2) * D, D);
  report("the gradient of embed", static_cast<float>(last[63]) == 1.f && static_cast<float>(other[63]) == 0.f);
}

// --- attention over the last rows of a large matrix ---

// A matrix [rows, stride] of which only the last rows are used.
template <class T>
struct LastRows {
  static constexpr Index used = 100, stride = 1024;
  Index first;
  Tensor<T> x;

  explicit LastRows(Index unused, Index width = stride) : first(unused), x({unused + used, width}, Device::cuda) {}
  Index width() const { return x.dim(1); }
  MatrixView<T> columns(Index from, Index count) { return {x.device_data() + from, x.dim(0), count, width()}; }
  MatrixView<const T> columns(Index from, Index count) const {
    return {x.device_data() + from, x.dim(0), count, width()};
  }
  void fill(std::uint64_t seed) {
    Random random(seed);
    set_part(x, first * width(), randn<T>({used * width()}, random).host());
  }
  std::vector<T> values() const { return part(x, first * width(), used * width()); }
};

// Returns y and the gradients of attention with causal masks, dropout and a bias over two sequences that begin at row
// `first`.
template <class T>
std::vector<T> attention_from(Index first, Index K) {
  constexpr Index heads = 2, shorter = 40, longer = LastRows<T>::used - shorter;
  const Index D = heads * K;
  LastRows<T> qkv(first), gradients(first), y(first, D), dy(first, D);
  qkv.fill(1);
  dy.fill(2);
  for (Index n = 0; n < LastRows<T>::used; ++n)  // the columns on the right are not written
    set_part(gradients.x, (first + n) * gradients.width(),
             std::vector<T>(static_cast<std::size_t>(gradients.width()), T(0.f)));
  const auto there = [](const std::vector<int>& values) {
    return Tensor<int>({static_cast<Index>(values.size())}, values).to(Device::cuda);
  };
  const Tensor<int> begin = there({static_cast<int>(first), static_cast<int>(first + shorter)});
  const Tensor<int> length = there({static_cast<int>(shorter), static_cast<int>(longer)});
  Random random(3);
  const Tensor<T> bias = randn<T>({1, 1, 1, longer}, random).to(Device::cuda);
  Tensor<float> lse({heads, first + LastRows<T>::used}, Device::cuda), delta = empty_like(lse),
                                                                       dbias({longer}, Device::cuda);
  const kernel::AttentionPlan<T> plan{.q_begin = view<1>(begin),
                                      .q_length = view<1>(length),
                                      .k_begin = view<1>(begin),
                                      .k_length = view<1>(length),
                                      .longest_q = longer,
                                      .longest_k = longer,
                                      .heads = heads,
                                      .scale = 0.2f,
                                      .past = kernel::any_distance,
                                      .future = 0,
                                      .mask = {},
                                      .bias = kernel::per_score(bias),
                                      .dropout = kernel::DropoutRule("large_tensors", 0.25),
                                      .draws = {5, 0, 3},
                                      .tf32 = false};
  const auto& x = std::as_const(qkv);
  kernel::attention(Cuda{}, plan, x.columns(0, D), x.columns(D, D), x.columns(2 * D, D), y.columns(0, D), view<2>(lse));
  kernel::attention_backward(
      Cuda{}, plan, x.columns(0, D), x.columns(D, D), x.columns(2 * D, D), std::as_const(y).columns(0, D),
      view<2>(std::as_const(lse)), std::as_const(dy).columns(0, D), view<2>(delta), gradients.columns(0, D),
      gradients.columns(D, D), gradients.columns(2 * D, D), kernel::PerScore<float>{dbias.device_data(), 0, 0, 0});
  std::vector<T> all = y.values();
  const std::vector<T> of_inputs = gradients.values();
  all.insert(all.end(), of_inputs.begin(), of_inputs.end());
  return all;
}

template <class T>
void check_attention(const char* what, Index K) {
  const Index far = boundary / LastRows<T>::stride + 3;
  const std::vector<T> near = attention_from<T>(0, K), distant = attention_from<T>(far, K);
  const bool is_number = std::none_of(near.begin(), near.end(),
                                      [](T value) { return static_cast<float>(value) != static_cast<float>(value); });
  report(what, is_number && near.size() == distant.size() &&
                   std::memcmp(near.data(), distant.data(), near.size() * sizeof(T)) == 0);
  cuda::trim();
}

// Checks attention over more heads than a grid's y dimension allows. All sequences are alike, and so must be their
// results.
template <class T>
void check_many_heads(const char* what, Index K) {
  constexpr Index heads = 2, length = 3, count = 65536 / heads + 5;
  const Index size = length * heads * K;  // of a sequence
  const auto repeated = [&](std::uint64_t seed) {
    Random random(seed);
    const std::vector<T> once = randn<T>({size}, random).host();
    std::vector<T> all;
    for (Index b = 0; b < count; ++b) all.insert(all.end(), once.begin(), once.end());
    return Tensor<T>({count * length, heads * K}, all).to(Device::cuda);
  };
  const Sequences sequences = Sequences::packed(std::vector<int>(count, length)).to(Device::cuda);
  const Tensor<T> q = variable(repeated(1)), k = variable(repeated(2)), v = variable(repeated(3));
  const Tensor<T> y = attention(q, k, v, sequences, {.heads = heads});
  backward(y, repeated(4));
  bool is_right = true;
  for (const Tensor<T>& x : {detach(y), q.grad(), k.grad(), v.grad()}) {
    const std::vector<T> values = x.host();
    const auto of = [&](Index b) { return values.data() + b * size; };
    for (Index b = 1; b < count; ++b)
      is_right = is_right && std::memcmp(of(b), of(0), static_cast<std::size_t>(size) * sizeof(T)) == 0;
    is_right = is_right && std::all_of(of(0), of(1), [](T value) { return std::isfinite(static_cast<float>(value)); });
  }
  report(what, is_right);
  cuda::trim();
}

// Returns the memory that the machine can give, in GiB. An interpreted GPU takes its memory from there, too.
double available_on_host() {
  std::ifstream info("/proc/meminfo");
  for (std::string name; info >> name;)
    if (double kilobytes = 0; name == "MemAvailable:" && info >> kilobytes) return kilobytes / (1 << 20);
  return 0;
}
double available_memory() {
  std::size_t free = 0, total = 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) return 0;
  return std::min(available_on_host(), static_cast<double>(free) / (1 << 30));
}

}  // namespace

int main() {
  constexpr double needed = 13;  // GiB: three tensors of 4 GiB
  if (const double available = available_memory(); available < needed) {
    std::printf("skipped: tensors beyond 2^31 elements need %.0f GiB of memory, and %.1f are available\n", needed,
                available);
    return exit_skipped;
  }
  for (const auto check : {check_elementwise, check_copies, check_reductions, check_rows, check_embed}) {
    check();
    cuda::trim();
  }
  check_attention<bf16>("attention in bf16", 64);
  check_attention<float>("attention in float", 64);
  check_attention<bf16>("attention with wide heads", 160);
  check_many_heads<bf16>("attention in bf16 over many heads", 8);
  check_many_heads<float>("attention in float over many heads", 8);
  check_many_heads<bf16>("attention over many wide heads", 136);
  return failures > 0;
}
