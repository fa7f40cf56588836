// cross_entropy on the GPU. Formulas: include/heddle/ops/cross_entropy.hpp.
//
//   rows        Forward. A team of threads owns a row: 1 to 32 lanes for up to 1024 classes, a block for more. A block
//               iterates over rows. It reads the logits once, or twice with label smoothing (the second time from
//               cache). For the mean it finally writes the sums of its rows' losses and weights; the last block to
//               finish adds those of all blocks, and divides the losses by the weights.
//   held        Backward. A team owns a row and keeps it in registers: logits are read once, and dlogits written once.
//   streamed    Backward of rows that a block cannot hold: above 16,384 classes, or 4,096 without accesses of 16 bytes.
//               A block owns a row and reads it twice, the second time from cache.
//   smoothed    Backward with label smoothing and class weights: one block computes Targets::smooth times the sum of
//               the weights.
//
// A row whose label is ignored or is not a class is not read, and its dlogits are zeros.
#include <heddle/gpu/calls.hpp>

#include "device/instances.cuh"
#include "device/limits.cuh"
#include "device/online_softmax.cuh"
#include "device/report.cuh"
#include "device/workspace.cuh"

namespace heddle::kernel {
namespace {

using cuda::infinity;

constexpr int smooth_threads = cuda::block_threads(256);
constexpr int logits_threads = cuda::block_threads(512);  // the most threads of a block that owns a row

// The target distribution of a row. The target t of class c is `smooth` w_c, plus `share` w_y if c is the label y.
template <class T, class L>
struct Targets {
  View<const L, 1> labels;
  std::int64_t ignored;
  Index classes;
  View<const T, 1> weights;  // all ones if it has no data
  float share, smooth;

  Targets(View<const L, 1> l, std::int64_t ignored_label, Index C, View<const T, 1> w, double smoothing)
      : labels(l),
        ignored(ignored_label),
        classes(C),
        weights(w),
        share(static_cast<float>(1 - smoothing)),
        smooth(static_cast<float>(smoothing / static_cast<double>(C))) {}

  // Returns the label of row n, or -1 if the row is ignored, has an invalid label or is beyond the last.
  __device__ Index label(Index n) const {
    if (n >= labels.extent[0]) return -1;
    const std::int64_t y = labels(n);
    return y == ignored || y < 0 || y >= classes ? -1 : y;
  }
  __device__ float weight(Index c) const { return weights.data ? static_cast<float>(weights(c)) : 1.f; }
  // Loads the weights of neighboring classes from c on.
  template <int width>
  __device__ void weights_from(Index c, float (&w)[width]) const {
    if (weights.data) return cuda::load_floats(weights.data + c, w);
    for (float& v : w) v = 1;
  }
};

// Returns the sum of w (log_sum - (z - greatest)) over all classes.
template <int width, class Team, class T, class L>
__device__ float smoothed_loss(const Team& team, const Targets<T, L>& targets, const T* row, Index C, float greatest,
                               float log_sum) {
  float loss = 0;
  for (Index c = Index{team.rank()} * width; c < C; c += Index{team.size()} * width) {
    float z[width], w[width];
    cuda::load_floats(row + c, z);
    targets.weights_from(c, w);
    for (int j = 0; j < width; ++j) loss += w[j] * (log_sum - (z[j] - greatest));
  }
  return team.sum(loss);
}

// The results of the forward. Without a mean, `losses` has the loss of each row, and the divisor is 1.
template <class T>
struct LossResults {
  View<T, 1> losses;       // [N], or [1] for the mean
  View<float, 1> divisor;  // [1] the sum of the rows' weights
  View<float, 1> log_sum;  // [N]
  View<float, 2> sums;     // [blocks, 2] the sums of the block's losses and weights; no data without a mean
  unsigned* done;          // blocks that have finished
};

// Reports the label of row n if it is the first invalid one.
template <class L>
struct LabelCheck {
  IdCheck check;
  View<const L, 1> labels;
  cuda::Report* report;

  __device__ void operator()(Index n) const {
    if (n < labels.extent[0] && check.is_invalid(labels(n))) cuda::report_if_first(check, labels, n, report);
  }
};

template <int width, class Team, class T, class L>
__global__ __launch_bounds__(Team::most_threads) void cross_entropy_rows(Team team, View<const T, 2> logits,
                                                                         Targets<T, L> targets, LabelCheck<L> check,
                                                                         LossResults<T> to) {
  float loss = 0, weight = 0;
  for (Index first = Index{blockIdx.x} * team.rows(); first < logits.extent[0];
       first += Index{gridDim.x} * team.rows()) {
    const Index n = first + team.row(), label = targets.label(n);
    const Index C = label < 0 ? 0 : logits.extent[1];  // lanes without a row take part in the warp's reductions
    const T* const z = logits.data + n * logits.extent[1];
    const cuda::OnlineSoftmax all = cuda::online_softmax<width>(team, z, C);
    const float log_all = logf(all.sum);
    const float smoothed = targets.smooth > 0 ? smoothed_loss<width>(team, targets, z, C, all.greatest, log_all) : 0.f;
    if (team.rank() > 0) continue;
    check(n);
    float row_loss = 0;
    if (label >= 0) {
      const float w = targets.weight(label);
      to.log_sum(n) = log_all;
      row_loss = targets.share * w * (log_all - (static_cast<float>(z[label]) - all.greatest));
      if (targets.smooth > 0) row_loss += targets.smooth * smoothed;
      loss += row_loss;
      weight += w;
    }
    if (!to.sums.data && n < to.losses.extent[0]) to.losses(n) = T(row_loss);
  }
  if (!to.sums.data) {
    if (blockIdx.x == 0 && threadIdx.x == 0) to.divisor(0) = 1;
    return;
  }
  loss = cuda::block_sum(loss);
  weight = cuda::block_sum(weight);
  if (threadIdx.x == 0) {
    to.sums(blockIdx.x, 0) = loss;
    to.sums(blockIdx.x, 1) = weight;
  }
  if (!cuda::finishes_last(to.done, static_cast<int>(gridDim.x))) return;
  loss = weight = 0;
  for (Index block = threadIdx.x; block < to.sums.extent[0]; block += blockDim.x) {
    loss += to.sums(block, 0);
    weight += to.sums(block, 1);
  }
  loss = cuda::block_sum(loss);
  weight = cuda::block_sum(weight);
  if (threadIdx.x > 0) return;
  to.divisor(0) = weight;
  to.losses(0) = T(loss / weight);
}

template <class T>
__global__ __launch_bounds__(smooth_threads) void cross_entropy_smoothed(View<const T, 1> weights, float smooth,
                                                                         float* sum) {
  float all = 0;
  for (Index c = threadIdx.x; c < weights.extent[0]; c += smooth_threads)
    all += smooth * static_cast<float>(weights(c));
  all = cuda::block_sum(all);
  if (threadIdx.x == 0) *sum = all;
}

// The factors that all rows of the backward share.
struct LossScale {
  float all_smooth;  // smooth times the sum of the class weights, if the host knows it
  const float*
      all_smooth_sum;  // the same product on the device, computed by cross_entropy_smoothed; null if the host knows it
  const float* divisor;
  bool by_row;

  __device__ float smoothed() const { return all_smooth_sum ? *all_smooth_sum : all_smooth; }
};

// The computation of dlogits of a row from its logits.
template <class T, class L>
struct RowGradient {
  const Targets<T, L>& targets;
  Index label;
  float log_sum;       // the logarithm of the sum of exp(z - greatest)
  float greatest = 0;  // the largest logit; set after construction, once the team has reduced it
  float scale, of_label, of_all;

  __device__ RowGradient(const Targets<T, L>& all, const LossScale& loss, View<const T, 1> dy,
                         View<const float, 1> log_sums, Index n)
      : targets(all),
        label(all.label(n)),
        log_sum(label < 0 ? 0.f : log_sums(n)),
        scale(label < 0 ? 0.f : static_cast<float>(dy(loss.by_row ? n : 0)) / *loss.divisor),
        of_label(label < 0 ? 0.f : all.share * all.weight(label)),
        of_all(of_label + loss.smoothed()) {}

  // Replaces the logits of the classes from c on with their gradients.
  template <int width>
  __device__ void make(Index c, float (&z)[width]) const {
    float w[width] = {};
    if (targets.smooth > 0) targets.weights_from(c, w);
    for (int j = 0; j < width; ++j) {
      float dz = expf(z[j] - greatest - log_sum) * of_all - targets.smooth * w[j];
      if (c + j == label) dz -= of_label;
      z[j] = label < 0 ? 0.f : dz * scale;
    }
  }
};

template <int each, int width, class Team, class T, class L>
__global__ __launch_bounds__(Team::most_threads) void cross_entropy_held(Team team, View<const T, 1> dy,
                                                                         View<const T, 2> logits, Targets<T, L> targets,
                                                                         LossScale loss, View<const float, 1> log_sum,
                                                                         View<T, 2> dlogits) {
  constexpr int accesses = each / width;
  const Index n = Index{blockIdx.x} * team.rows() + team.row(), row = n * logits.extent[1];
  float z[accesses][width];
  cuda::load_held(team, logits.data + row, targets.label(n) < 0 ? 0 : logits.extent[1], -infinity, z);
  RowGradient<T, L> gradient(targets, loss, dy, log_sum, n);
  float greatest = -infinity;
  for (int i = 0; i < accesses; ++i)
    for (int j = 0; j < width; ++j) greatest = fmaxf(greatest, z[i][j]);
  gradient.greatest = team.max(greatest);
  if (n >= logits.extent[0]) return;
  cuda::for_held<width, accesses>(team, logits.extent[1], [&](int i, int first) {
    gradient.make(first, z[i]);
    cuda::store_floats(dlogits.data + row + first, z[i]);
  });
}

template <int width, class T, class L>
__global__ __launch_bounds__(logits_threads) void cross_entropy_streamed(cuda::BlockTeam<logits_threads> team,
                                                                         View<const T, 1> dy, View<const T, 2> logits,
                                                                         Targets<T, L> targets, LossScale loss,
                                                                         View<const float, 1> log_sum,
                                                                         View<T, 2> dlogits) {
  constexpr int each = cuda::most_held<width>, accesses = each / width;
  const Index n = blockIdx.x, C = logits.extent[1], row = n * C, step = Index{team.size()} * each;
  const Index read = targets.label(n) < 0 ? 0 : C;
  float greatest = -infinity;
  float z[accesses][width];
  for (Index c = 0; c < read; c += step) {
    cuda::load_held(team, logits.data + row + c, read - c, -infinity, z);
    for (int i = 0; i < accesses; ++i)
      for (int j = 0; j < width; ++j) greatest = fmaxf(greatest, z[i][j]);
  }
  RowGradient<T, L> gradient(targets, loss, dy, log_sum, n);
  gradient.greatest = team.max(greatest);
  for (Index c = 0; c < C; c += step) {
    cuda::load_held(team, logits.data + row + c, read - c, -infinity, z);
    cuda::for_held<width, accesses>(team, C - c, [&](int i, int first) {
      gradient.make(c + first, z[i]);
      cuda::store_floats(dlogits.data + row + c + first, z[i]);
    });
  }
}

}  // namespace

template <OnGpu T, Label L>
void cross_entropy(Cuda, const IdCheck& check, View<const T, 2> logits, View<const L, 1> labels, std::int64_t ignored,
                   View<const T, 1> class_weights, double smoothing, bool by_row, View<T, 1> loss,
                   View<float, 1> divisor, View<float, 1> log_sum) {
  const Index N = logits.extent[0], C = logits.extent[1];
  const cudaStream_t stream = cuda::current_stream();
  const Targets<T, L> targets(labels, ignored, C, class_weights, smoothing);
  const auto launch = [&]<int width>(std::integral_constant<int, width>) {
    const auto rows = [&]<class Team>(Team team) {
      // At least one, because the mean of no rows is written as well.
      const Index blocks = std::clamp<Index>(cuda::blocks_for(N, team.rows()), 1, cuda::limits.loss_blocks);
      const cuda::Workspace<float> memory(blocks * 2);
      const LossResults<T> to{
          loss, divisor, log_sum, {by_row ? nullptr : memory.data(), {blocks, 2}}, cuda::counters(1)};
      cuda::launch<cross_entropy_rows<width, Team, T, L>>(static_cast<unsigned>(blocks), team.threads(), 0, stream,
                                                          team, logits, targets,
                                                          LabelCheck<L>{check, labels, cuda::report()}, to);
    };
    constexpr int each = cuda::most_held<width>;
    if (C <= cuda::warp_size * cuda::warp_size) return rows(cuda::LaneTeam::for_row(C, each));
    rows(cuda::BlockTeam<logits_threads>::for_row(C, each));
  };
  cuda::with_width<T>(C, launch, logits.data, class_weights.data);
}

template <OnGpu T, Label L>
void cross_entropy_backward(Cuda, View<const T, 1> dy, View<const T, 2> logits, View<const L, 1> labels,
                            std::int64_t ignored, View<const T, 1> class_weights, double smoothing, bool by_row,
                            View<const float, 1> divisor, View<const float, 1> log_sum, View<T, 2> dlogits) {
  const Index N = logits.extent[0], C = logits.extent[1];
  if (N * C == 0) return;
  const cudaStream_t stream = cuda::current_stream();
  const Targets<T, L> targets(labels, ignored, C, class_weights, smoothing);
  const cuda::Workspace<float> all_smooth(1);
  const bool add_up = class_weights.data && smoothing > 0;
  if (add_up)
    cuda::launch<cross_entropy_smoothed<T>>(1, smooth_threads, 0, stream, class_weights, targets.smooth,
                                            all_smooth.data());
  const LossScale scale{static_cast<float>(smoothing), add_up ? all_smooth.data() : nullptr, divisor.data, by_row};
  const auto launch = [&]<int width>(std::integral_constant<int, width>) {
    const auto held = [&]<class Team, int each>(Team team, std::integral_constant<int, each>) {
      cuda::launch<cross_entropy_held<each, width, Team, T, L>>(cuda::blocks_for(N, team.rows()), team.threads(), 0,
                                                                stream, team, dy, logits, targets, scale, log_sum,
                                                                dlogits);
    };
    if (cuda::with_team<width, logits_threads>(C, held)) return;
    const cuda::BlockTeam<logits_threads> team{logits_threads};
    cuda::launch<cross_entropy_streamed<width, T, L>>(cuda::blocks_for(N, 1), team.threads(), 0, stream, team, dy,
                                                      logits, targets, scale, log_sum, dlogits);
  };
  cuda::with_width<T>(C, launch, logits.data, class_weights.data, dlogits.data);
}

[[maybe_unused, gnu::used]] constexpr auto cross_entropy_instances =
    cuda::instances<float, bf16>([]<class T>(cuda::Type<T>) {
      return cuda::instances<std::int32_t, std::int64_t>(
          []<class L>(cuda::Type<L>) { return std::tuple(&cross_entropy<T, L>, &cross_entropy_backward<T, L>); });
    });

}  // namespace heddle::kernel
