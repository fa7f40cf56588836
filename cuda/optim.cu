// Optimizer steps, and the functions of all gradients that run before a step. Formulas: the rules of
// include/heddle/optim, and clip.hpp.
//
// One launch processes all parameters. Each parameter is split into pieces of 4096 elements, and a block owns a piece.
// It finds the piece in a table of parameters, which is copied to the GPU before the launch.
//
//   update_piece  A thread processes 16 bytes at a time. Value and moment estimates are read and written once; the
//                 gradient is read once. The value's cast to bf16, if there is one, is written.
//   scale_piece   Gradients are read once, and their multiples written.
//   sum_squares   Gradients are read once; one double is written for each piece. The last block to finish adds them:
//                 each thread adds every 256th, then the threads' sums are added in a fixed order. The sum is finite if
//                 and only if all gradients are: the squares of floats and their sum are far from double's limit.
#include <heddle/optim/adam_rule.hpp>
#include <heddle/optim/sgd_rule.hpp>

#include "device/block.cuh"
#include "device/instances.cuh"
#include "device/steps.cuh"
#include "device/vector.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {
namespace steps {

using cuda::warp_size;

constexpr int threads = cuda::block_threads(256);
constexpr int warps = threads / warp_size;
constexpr int width = cuda::vector_width<float>;
constexpr int vectors = 4;  // vectors of a thread: enough to amortize the search in the table
constexpr Index piece = Index{threads} * width * vectors;  // elements

// The arrays of one gradient. `Args` below is ScaleArgs, or UpdateArgs of a rule.
struct ScaleArgs {
  const float* gradient;
  Index size;
  float* result;  // null if the gradient is only read
};
inline Index size_of(const ScaleArgs& args) { return args.size; }
inline bool can_move_vectors(const ScaleArgs& args) { return cuda::aligned<width>(args.gradient, args.result); }
template <class Rule>
Index size_of(const UpdateArgs<Rule>& args) {
  return args.value.extent[0];
}
template <class Rule>
bool can_move_vectors(const UpdateArgs<Rule>& args) {
  bool aligned = cuda::aligned<width>(args.value.data, args.gradient) && cuda::aligned<width>(args.cast);
  for (const float* moment : args.moments) aligned = aligned && cuda::aligned<width>(moment);
  return aligned;
}

template <class Args>
struct Entry {
  Args args;
  Index size, first_piece;
  bool moves_vectors;  // all its arrays are aligned to 16 bytes
};

// The table of all parameters, in device memory until the call returns.
template <class Args>
class Table {
 public:
  explicit Table(const std::vector<Args>& parameters) : count_(static_cast<Index>(parameters.size())), memory_(count_) {
    std::vector<Entry<Args>> entries;
    for (const Args& args : parameters) {
      entries.push_back({args, size_of(args), pieces_, can_move_vectors(args)});
      pieces_ += (size_of(args) + piece - 1) / piece;
    }
    cuda::to_device(memory_.data(), entries.data(), entries.size() * sizeof(Entry<Args>));
  }
  View<const Entry<Args>, 1> entries() const { return {memory_.data(), {count_}}; }
  Index pieces() const { return pieces_; }
  unsigned blocks() const { return cuda::blocks_for(pieces(), 1); }

 private:
  Index count_, pieces_ = 0;
  cuda::Workspace<Entry<Args>> memory_;
};

// Returns the number of the parameter that a block's piece belongs to: the last one that does not begin after it. An
// empty parameter begins where the next one does.
template <class Args>
__device__ Index parameter_of(View<const Entry<Args>, 1> entries, Index block) {
  Index number = 0;
  for (Index after = entries.extent[0]; after - number > 1;) {
    const Index middle = (number + after) / 2;
    (entries(middle).first_piece <= block ? number : after) = middle;
  }
  return number;
}

// Elements [first, last) of a parameter, which a block owns.
struct Piece {
  bool moves_vectors;
  Index number, first, last;

  template <class Args>
  __device__ explicit Piece(View<const Entry<Args>, 1> entries) : number(parameter_of(entries, blockIdx.x)) {
    const Entry<Args>& entry = entries(number);
    moves_vectors = entry.moves_vectors;
    first = (blockIdx.x - entry.first_piece) * piece;
    last = first + piece < entry.size ? first + piece : entry.size;
  }
};

// Calls f(count, e) for the thread's elements [e, e + count) of the piece: vectors if the arrays are aligned, and
// single elements for the rest. The count is passed as a type.
template <class F>
__device__ void each_vector(const Piece& own, F&& f) {
  const Index rest = own.moves_vectors ? own.last - (own.last - own.first) % width : own.first;
  const int thread = static_cast<int>(threadIdx.x);
  for (Index e = own.first + thread * width; e < rest; e += threads * width) f(std::integral_constant<int, width>(), e);
  for (Index e = rest + thread; e < own.last; e += threads) f(std::integral_constant<int, 1>(), e);
}

template <class Rule>
__global__ __launch_bounds__(threads) void update_piece(View<const Entry<UpdateArgs<Rule>>, 1> entries,
                                                        const cuda::StepState* state) {
  constexpr int moment_count = UpdateArgs<Rule>::moment_count;
  if (state->is_stopped) return;
  const float factor = state->factor;
  const Piece own(entries);
  const UpdateArgs<Rule>& args = entries(own.number).args;
  const Rule rule = args.rule;
  each_vector(own, [&]<int count>(std::integral_constant<int, count>, Index e) {
    float p[count], g[count], moments[moment_count][count] = {};
    cuda::load_floats(args.value.data + e, p);
    cuda::load_floats(args.gradient + e, g);
    for (int k = 0; k < moment_count; ++k)
      if (args.moments[k]) cuda::load_floats(args.moments[k] + e, moments[k]);
    for (int i = 0; i < count; ++i) {
      float of_element[moment_count];
      for (int k = 0; k < moment_count; ++k) of_element[k] = moments[k][i];
      rule(p[i], __fmul_rn(g[i], factor), of_element);  // not fused with an addition of the rule
      for (int k = 0; k < moment_count; ++k) moments[k][i] = of_element[k];
    }
    cuda::store_floats(args.value.data + e, p);
    if (args.cast) cuda::store_floats(args.cast + e, p);
    for (int k = 0; k < moment_count; ++k)
      if (args.moments[k]) cuda::store_floats(args.moments[k] + e, moments[k]);
  });
}

// Computes result = factor * gradient.
__global__ __launch_bounds__(threads) void scale_piece(float factor, View<const Entry<ScaleArgs>, 1> entries) {
  const Piece own(entries);
  const ScaleArgs& args = entries(own.number).args;
  each_vector(own, [&]<int count>(std::integral_constant<int, count>, Index e) {
    float values[count];
    cuda::load_floats(args.gradient + e, values);
    for (float& v : values) v *= factor;
    cuda::store_floats(args.result + e, values);
  });
}

// Returns the gradients as arguments of the kernels that only read them.
inline std::vector<ScaleArgs> to_read(const std::vector<View<const float, 1>>& gradients) {
  std::vector<ScaleArgs> args;
  for (const auto& gradient : gradients) args.push_back({gradient.data, gradient.extent[0], nullptr});
  return args;
}

// --- sums ---

// Returns the sum over the block in thread 0, and 0 in the others.
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

// The sum of the squares of all gradients, and the first one that is not finite; -1 if all are.
struct Squares {
  double sum;
  Index not_finite;
};

// The last block calls one of these: Store writes the squares for the host, StoreNotFinite the index of the first
// gradient that is not finite, and Decide decides a step by them.
struct Store {
  Squares* result;
  __device__ void operator()(const Squares& squares) const { *result = squares; }
};
struct StoreNotFinite {
  Index* result;
  __device__ void operator()(const Squares& squares) const { *result = squares.not_finite; }
};
struct Decide {
  cuda::StepCheck step;
  Clipping clipping;
  __device__ void operator()(const Squares& squares) const {
    Clipping of_all = clipping;
    of_all.squares_on_gpu = squares.sum;
    cuda::decide(step, of_all, squares.not_finite);
  }
};

// Passes the squares of all gradients to `use`. `done` counts the blocks that have finished.
template <class Args, class Use>
__global__ __launch_bounds__(threads) void sum_squares(View<const Entry<Args>, 1> entries, View<double, 1> sums,
                                                       unsigned* done, Use use) {
  const Piece own(entries);
  const float* const g = entries(own.number).args.gradient;
  double sum = 0;
  each_vector(own, [&]<int count>(std::integral_constant<int, count>, Index e) {
    float values[count];
    cuda::load_floats(g + e, values);
    for (int i = 0; i < count; ++i) sum += static_cast<double>(values[i]) * static_cast<double>(values[i]);
  });
  sum = block_sum(sum);
  if (threadIdx.x == 0) sums(blockIdx.x) = sum;
  if (!cuda::finishes_last(done, static_cast<int>(gridDim.x))) return;
  sum = 0;
  for (Index k = threadIdx.x; k < sums.extent[0]; k += threads) sum += sums(k);
  sum = block_sum(sum);
  if (threadIdx.x > 0) return;
  Index not_finite = -1;
  if (!(sum < cuda::infinity)) {
    Index block = 0;
    while (sums(block) < cuda::infinity) ++block;
    not_finite = parameter_of(entries, block);
  }
  use(Squares{sum, not_finite});
}

// Computes the squares of the gradients of a table that is not empty.
template <class Args, class Use>
void enqueue_squares(const Table<Args>& table, const Use& use) {
  const cuda::Workspace<double> sums(table.pieces());
  cuda::launch<sum_squares<Args, Use>>(table.blocks(), threads, 0, cuda::current_stream(), table.entries(),
                                       View<double, 1>{sums.data(), {table.pieces()}}, cuda::counters(1), use);
}

// Returns the squares of gradients. Synchronizes.
inline Squares squares_of(const std::vector<View<const float, 1>>& gradients) {
  const Table table(to_read(gradients));
  Squares squares{0, -1};
  if (table.pieces() == 0) return squares;
  const cuda::Workspace<Squares> result(1);
  enqueue_squares(table, Store{result.data()});
  cuda::to_host(&squares, result.data(), sizeof(Squares));
  return squares;
}

}  // namespace steps
}  // namespace

Index first_not_finite(Cuda, const std::vector<View<const float, 1>>& gradients) {
  return steps::squares_of(gradients).not_finite;
}
void find_not_finite(Cuda, const std::vector<View<const float, 1>>& gradients, Index* first) {
  const steps::Table table(steps::to_read(gradients));
  constexpr Index none = -1;
  if (table.pieces() == 0) return cuda::to_device(first, &none, sizeof none);
  steps::enqueue_squares(table, steps::StoreNotFinite{first});
}
double sum_of_squares(Cuda, const std::vector<View<const float, 1>>& gradients) {
  return steps::squares_of(gradients).sum;
}

template <class Rule>
void update(Cuda, const std::vector<UpdateArgs<Rule>>& parameters, const Clipping& clipping,
            const std::shared_ptr<EnqueuedStep>& step) {
  try {
    const steps::Table table(parameters);
    if (table.pieces() == 0) return step->decide(EnqueuedStep::Outcome::applied);
    const cuda::StepScope scope(step);
    steps::enqueue_squares(table, steps::Decide{scope.check(), clipping});
    cuda::launch<steps::update_piece<Rule>>(table.blocks(), steps::threads, 0, cuda::current_stream(), table.entries(),
                                            scope.check().state);
  } catch (...) {
    step->decide(EnqueuedStep::Outcome::skipped);
    throw;
  }
}
// The rules that run on a GPU.
[[maybe_unused, gnu::used]] constexpr auto update_instances =
    cuda::instances<optim::AdamRule<float>, optim::SgdRule<float>>(
        []<class Rule>(cuda::Type<Rule>) { return &update<Rule>; });

void scale(Cuda, float factor, const std::vector<View<const float, 1>>& gradients,
           const std::vector<View<float, 1>>& results) {
  std::vector<steps::ScaleArgs> args = steps::to_read(gradients);
  for (std::size_t i = 0; i < args.size(); ++i) args[i].result = results[i].data;
  const steps::Table table(args);
  cuda::launch<steps::scale_piece>(table.blocks(), steps::threads, 0, cuda::current_stream(), factor, table.entries());
}

}  // namespace heddle::kernel
