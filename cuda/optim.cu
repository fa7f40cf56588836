// Steps of optimizers, and what is asked of all gradients before one. Formulas: include/heddle/optim/rules.hpp and
// clip.hpp.
//
// All parameters are one launch: each is cut in pieces of 4096 elements, and a block owns a piece, which it finds in
// the table of parameters that is copied to the GPU first.
//
//   update_piece     16 bytes a thread at a time. Value and moments are read and written once, the gradient read
//                    once.
//   find_not_finite  Gradients are read once.
//   scale_piece      Gradients are read once, and their multiples written.
//   sum_squares      Gradients are read once; one double a piece is written. The block that is done last adds those: each
//                    thread every 256th, then all threads, in order.
#include "device/shared.cuh"
#include "device/vector.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {
namespace steps {

using cuda::warp_size;

constexpr int threads = cuda::block_threads(256);
constexpr int warps = threads / warp_size;
constexpr int width = cuda::vector_width<float>;
constexpr int vectors = 4;                                 // of a thread: to be worth the search in the table
constexpr Index piece = Index{threads} * width * vectors;  // elements

struct Entry {
  Updated parameter;
  Index first_piece;
  bool wide;  // all that there is of it begins where a vector may
};

// The table, on the device until the call is over.
class Table {
 public:
  explicit Table(const std::vector<Updated>& parameters)
      : count_(static_cast<Index>(parameters.size())), memory_(count_) {
    std::vector<Entry> entries;
    for (const Updated& u : parameters) {
      entries.push_back({u, pieces_, cuda::aligned<width>(u.value, u.first, u.second, u.gradient)});
      pieces_ += (u.size + piece - 1) / piece;
    }
    cuda::to_device(memory_.data(), entries.data(), entries.size() * sizeof(Entry));
  }
  View<const Entry, 1> entries() const { return {memory_.data(), {count_}}; }
  Index pieces() const { return pieces_; }
  unsigned blocks() const { return cuda::blocks_for(pieces_, 1); }

 private:
  Index count_, pieces_ = 0;
  cuda::Workspace<Entry> memory_;
};

// What a block owns of a parameter: elements [first, last).
struct Piece {
  Updated parameter;
  bool wide;
  Index number, first, last;

  // The last parameter that does not begin behind the block: one without elements begins where the next does.
  __device__ explicit Piece(View<const Entry, 1> entries) : number(0) {
    for (Index behind = entries.extent[0]; behind - number > 1;) {
      const Index middle = (number + behind) / 2;
      (entries(middle).first_piece <= blockIdx.x ? number : behind) = middle;
    }
    parameter = entries(number).parameter;
    wide = entries(number).wide;
    first = (blockIdx.x - entries(number).first_piece) * piece;
    last = first + piece < parameter.size ? first + piece : parameter.size;
  }
};

// Calls f(count, e) for the elements [e, e + count) of the piece that are the thread's: vectors where there may be
// some, and single ones for the rest. The count is a type.
template <class F>
__device__ void each_vector(const Piece& own, F&& f) {
  const Index rest = own.wide ? own.last - (own.last - own.first) % width : own.first;
  const int thread = static_cast<int>(threadIdx.x);
  for (Index e = own.first + thread * width; e < rest; e += threads * width) f(std::integral_constant<int, width>(), e);
  for (Index e = rest + thread; e < own.last; e += threads) f(std::integral_constant<int, 1>(), e);
}

// --- rules: what becomes of one element p with gradient g; m and v are what is remembered of it ---

struct Adam {
  static constexpr int moments = 2;
  AdamRule rule;
  __device__ static bool reads_moments(const Updated&) { return true; }
  __device__ void operator()(const Updated& u, float& p, float gradient, float& m, float& v) const {
    const float g = gradient + u.coupled * p;
    v = rule.beta2 * v + rule.rest2 * (g * g);
    m += rule.rest1 * (g - m);
    p = u.shrink * p - u.rate * m / (sqrtf(v) * u.root + rule.eps);
  }
};

struct Momentum {
  static constexpr int moments = 1;
  SgdRule rule;
  __device__ static bool reads_moments(const Updated& u) { return !u.begins; }
  __device__ void operator()(const Updated& u, float& p, float gradient, float& b, float&) const {
    const float g = gradient + u.coupled * p;
    b = rule.momentum * b + g;  // of b = 0 at first, when it is not read
    p -= u.rate * b;
  }
};

struct Plain {
  static constexpr int moments = 0;
  __device__ static bool reads_moments(const Updated&) { return false; }
  __device__ void operator()(const Updated& u, float& p, float gradient, float&, float&) const {
    p -= u.rate * (gradient + u.coupled * p);
  }
};

template <class Rule>
__global__ __launch_bounds__(threads) void update_piece(Rule rule, View<const Entry, 1> entries) {
  const Piece own(entries);
  const Updated& u = own.parameter;
  const bool reads = rule.reads_moments(u);
  each_vector(own, [&]<int count>(std::integral_constant<int, count>, Index e) {
    float p[count], g[count], m[count] = {}, v[count] = {};
    cuda::load_floats(u.value + e, p);
    cuda::load_floats(u.gradient + e, g);
    if (Rule::moments > 0 && reads) cuda::load_floats(u.first + e, m);
    if (Rule::moments > 1 && reads) cuda::load_floats(u.second + e, v);
    for (int i = 0; i < count; ++i) rule(u, p[i], g[i], m[i], v[i]);
    cuda::store_floats(u.value + e, p);
    if (Rule::moments > 0) cuda::store_floats(u.first + e, m);
    if (Rule::moments > 1) cuda::store_floats(u.second + e, v);
  });
}

template <class Rule>
void update_all(Rule rule, const std::vector<Updated>& parameters) {
  const Table table(parameters);
  cuda::launch<update_piece<Rule>>(table.blocks(), threads, 0, cuda::current_stream(), rule, table.entries());
}

// Gradients times a factor, in `value`.
__global__ __launch_bounds__(threads) void scale_piece(float factor, View<const Entry, 1> entries) {
  const Piece own(entries);
  const Updated& u = own.parameter;
  each_vector(own, [&]<int count>(std::integral_constant<int, count>, Index e) {
    float values[count];
    cuda::load_floats(u.gradient + e, values);
    for (float& v : values) v *= factor;
    cuda::store_floats(u.value + e, values);
  });
}

// --- sums ---

// `from_last` becomes how many parameters there are from the first that is not finite on; 0 stays where there is none.
// A maximum of integers knows no order.
__global__ __launch_bounds__(threads) void find_not_finite(View<const Entry, 1> entries, unsigned* from_last) {
  const Piece own(entries);
  const float* const g = own.parameter.gradient;
  float zero = 0;
  each_vector(own, [&]<int count>(std::integral_constant<int, count>, Index e) {
    float values[count];
    cuda::load_floats(g + e, values);
    for (int i = 0; i < count; ++i) zero += values[i] * 0;  // NaN unless it is finite
  });
  if (!__syncthreads_or(!(zero == 0)) || threadIdx.x > 0) return;
  atomicMax(from_last, static_cast<unsigned>(entries.extent[0] - own.number));
}

// Thread 0 receives the sum over the block.
__device__ double block_sum(double value) {
  auto& of_warp = cuda::shared<double[warps]>();
  for (int distance = warp_size / 2; distance > 0; distance /= 2)
    value += __shfl_xor_sync(cuda::all_lanes, value, distance);
  if (threadIdx.x % warp_size == 0) of_warp[threadIdx.x / warp_size] = value;
  __syncthreads();
  if (threadIdx.x > 0) return 0;
  for (int w = 1; w < warps; ++w) value += of_warp[w];
  return value;
}

// `done` counts blocks, from 0 on.
__global__ __launch_bounds__(threads) void sum_squares(View<const Entry, 1> entries, View<double, 1> sums,
                                                       unsigned* done, double* total) {
  const Piece own(entries);
  const float* const g = own.parameter.gradient;
  double sum = 0;
  each_vector(own, [&]<int count>(std::integral_constant<int, count>, Index e) {
    float values[count];
    cuda::load_floats(g + e, values);
    for (int i = 0; i < count; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  });
  sum = block_sum(sum);
  auto& last = cuda::shared<bool>();
  if (threadIdx.x == 0) {
    sums(blockIdx.x) = sum;
    last = cuda::count_after_writes(done) == gridDim.x - 1;
  }
  __syncthreads();
  if (!last) return;
  sum = 0;
  for (Index k = threadIdx.x; k < sums.extent[0]; k += threads) sum += sums(k);
  sum = block_sum(sum);
  if (threadIdx.x == 0) *total = sum;
}

}  // namespace steps
}  // namespace

Index first_not_finite(Cuda, const std::vector<Updated>& parameters) {
  const steps::Table table(parameters);
  if (table.pieces() == 0) return -1;
  const cuda::Workspace<unsigned> found(1);
  cuda::clear(found.data(), sizeof(unsigned));
  cuda::launch<steps::find_not_finite>(table.blocks(), steps::threads, 0, cuda::current_stream(), table.entries(),
                                       found.data());
  unsigned from_last = 0;
  cuda::to_host(&from_last, found.data(), sizeof(unsigned));
  return from_last > 0 ? static_cast<Index>(parameters.size()) - from_last : -1;
}

void update(Cuda, AdamRule rule, const std::vector<Updated>& parameters) {
  steps::update_all(steps::Adam{rule}, parameters);
}

void update(Cuda, SgdRule rule, const std::vector<Updated>& parameters) {
  if (rule.momentum == 0) return steps::update_all(steps::Plain{}, parameters);
  steps::update_all(steps::Momentum{rule}, parameters);
}

void scale_gradients(Cuda, float factor, const std::vector<Updated>& parameters) {
  const steps::Table table(parameters);
  cuda::launch<steps::scale_piece>(table.blocks(), steps::threads, 0, cuda::current_stream(), factor, table.entries());
}

double sum_of_squares(Cuda, const std::vector<Updated>& parameters) {
  const steps::Table table(parameters);
  if (table.pieces() == 0) return 0;
  const cuda::Workspace<double> memory(table.pieces() + 1);
  const cuda::Workspace<unsigned> done(1);
  double* const total = memory.data() + table.pieces();
  cuda::clear(done.data(), sizeof(unsigned));
  cuda::launch<steps::sum_squares>(table.blocks(), steps::threads, 0, cuda::current_stream(), table.entries(),
                                   View<double, 1>{memory.data(), {table.pieces()}}, done.data(), total);
  double sum = 0;
  cuda::to_host(&sum, total, sizeof(double));
  return sum;
}

}  // namespace heddle::kernel
