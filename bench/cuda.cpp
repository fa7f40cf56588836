// cuda_bench: times heddle on the GPU. Prints one JSON object per line, each as soon as it is known: first the GPU,
// then for each benchmark its name, its minimum number of operations or bytes (not for sst2), and
//   seconds    the time of a single call with a cold L2 cache; for a step the same as in_a_row
//   in_a_row   the time per call in a sequence of calls, including the host's time
//   failed     the error message, if the benchmark threw
// The line NAME/first_steps of a training step has the seconds per step of the first step of each shape, which include
// the choice of an algorithm for each product, the loading of kernels and the first allocations; NAME/step has those of
// later steps. bench/peers/gpu.py does the same work in PyTorch under the same names; scripts/gpu-report writes a page
// with both results.
#include <charconv>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "attention.hpp"
#include "device/limits.cuh"
#include "gpu_steps.hpp"

namespace heddle::bench::gpu {
namespace {

using Json = nlohmann::json;

struct Work {
  std::string group, name;
  Json costs;  // flops, bytes, and the size of the copy whose rate is the limit
  std::function<Call()> make;
  int shapes = 0;  // the number of shapes that a training step cycles through; 0: the call is not a step
};

// The sizes of all benchmarks.
struct Sizes {
  Index texts = 32, heads = 12, width = 768;
  std::vector<Index> lengths{512, 128, 2048}, windowed_lengths{2048}, head_widths{64},
      copied_bytes{6291456, 12582912, 25165824, 50331648, 1073741824};
  std::vector<Index> short_lengths{};
  std::vector<Index> products{4096, 8192}, rows{16384, 4096}, counted_rows{};
  Index linear_rows = 4096;
  Index vocabulary = 28996, step_length = 128;
  std::vector<Index> step_texts{8, 32};
  int layers = 12;
};

// Returns sizes for tests of this program where a GPU is interpreted.
Sizes tiny_sizes() {
  return {.texts = 2,
          .heads = 1,
          .width = 64,
          .lengths = {24},
          .windowed_lengths = {24},
          .copied_bytes = {8192},
          .products = {32},
          .rows = {16},
          .linear_rows = 16,
          .vocabulary = 640,
          .step_length = 8,
          .step_texts = {2},
          .layers = 1};
}

// Returns sizes for scripts/kernel-costs, which counts what kernels do.
Sizes counted_sizes() {
  return {.texts = 1,
          .heads = 2,
          .lengths = {512},
          .windowed_lengths = {512, 1024},
          .head_widths = {16, 32, 64, 128, 160},
          .copied_bytes = {},
          .short_lengths = {128},
          .products = {},
          .rows = {},
          .counted_rows = {2048},
          .linear_rows = 0,
          .step_texts = {}};
}

std::vector<Work> all;

// Adds the benchmarks of a function of one tensor, alone and with its backward.
template <class T, class F>
void add_both(const std::string& op, Index rows, Index width, F f, const Json& forward, const Json& both) {
  all.push_back({"rows", op + "/forward", forward, [=]() -> Call {
                   return [f, x = normal<T>(rows, width)] {
                     const NoGrad quiet;
                     f(x);
                   };
                 }});
  all.push_back({"rows", op + "/forward_backward", both, [=]() -> Call {
                   const Tensor<T> x = variable(normal<T>(rows, width)), y = detach(f(x));
                   return [f, x, dy = normal<T>(y.dim(0), y.dim(1))] {
                     backward(f(x), dy);
                     x.set_grad({});
                   };
                 }});
}

// --- the machine's limits ---

void add_copy(Index bytes) {
  all.push_back({"limits", "copy/" + std::to_string(bytes), {{"bytes", 2 * bytes}}, [=]() -> Call {
                   const Tensor<float> from = normal<float>(bytes / 4096, 1024);
                   return [from, to = empty_like(from), bytes]() mutable {
                     cuda::on_device(to.device_data(), std::as_const(from).device_data(),
                                     static_cast<std::size_t>(bytes));
                   };
                 }});
}

void add_peak(Index n) {
  all.push_back({"limits",
                 "peak/bf16/" + sizes({n, n, n}),
                 {{"flops", 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n)}},
                 [=]() -> Call { return [a = normal<bf16>(n, n), b = normal<bf16>(n, n)] { matmul(a, b); }; }});
}

// --- operations ---

void add_attention(const Sizes& sizes_of, Index length, Index head_width, double fill, double dropout,
                   Index window = AttentionOptions<float>().window) {
  for (const bool backward : {false, true}) {
    const AttentionCase c{sizes_of.texts, sizes_of.heads, head_width, length, fill, dropout, backward, window};
    const std::string name = "attention/" + sizes({c.batch, c.heads, length, c.head_dim}) +
                             (fill < 1 ? "/lengths" : "/full") + (dropout > 0 ? "/dropout" : "") +
                             (window < AttentionOptions<float>().window ? "/window" + std::to_string(window) : "") +
                             (backward ? "/forward_backward" : "/forward");
    all.push_back({"attention", name, {{"flops", c.flops()}}, [=]() -> Call {
                     const Sequences texts = Sequences::packed(c.lengths()).to(Device::cuda);
                     const Index N = texts.rows(), D = c.heads * c.head_dim;
                     return attention_call_of(c, normal<bf16>(N, 3 * D), normal<bf16>(N, D), texts, Tensor<bool>());
                   }});
  }
}

// The weights of a benchmark. The first call creates them, because the list of all benchmarks is created without a GPU.
// Each call begins without gradients.
template <class T>
struct Weights {
  Tensor<T> weight, bias;
  template <class Make>
  void renew(Make make, Index out) {
    if (!weight) {
      weight = variable(make());
      bias = variable(zeros<T>({out}, Device::cuda));
    }
    weight.set_grad({});
    bias.set_grad({});
  }
};

template <class T>
void add_rows(Index N, Index D) {
  const Index bytes = N * D * static_cast<Index>(sizeof(T));
  // Forward: x and y; backward: dy, dx, and one of x and y.
  const Json forward{{"bytes", 2 * bytes}, {"copy", bytes}}, both{{"bytes", 5 * bytes}, {"copy", bytes}};
  const auto name = [&](const char* op) { return op + ('/' + std::string(name_of<T>()) + '/' + sizes({N, D})); };
  const auto norm = [w = std::make_shared<Weights<T>>(), D](const Tensor<T>& x) {
    w->renew([D] { return ones<T>({D}, Device::cuda); }, D);
    return layer_norm(x, w->weight, w->bias);
  };
  add_both<T>(name("layer_norm"), N, D, norm, forward, both);
  add_both<T>(
      name("gelu"), N, D, [](const Tensor<T>& x) { return gelu(x); }, forward, both);
  add_both<T>(
      name("softmax"), N, D, [](const Tensor<T>& x) { return softmax(x, -1); }, forward, both);
}

// Adds the operations on rows whose accesses scripts/kernel-costs counts.
template <class T>
void add_counted_rows(Index N, Index D) {
  const auto add = [&](const char* op, auto f) {
    add_both<T>(op + ('/' + std::string(name_of<T>())), N, D, f, Json::object(), Json::object());
  };
  const auto add_norm = [&](const char* op, auto f) {
    add(op, [f, D, w = std::make_shared<Weights<T>>()](const Tensor<T>& x) {
      w->renew([D] { return ones<T>({D}, Device::cuda); }, D);
      return f(x, *w);
    });
  };
  constexpr double eps = 1e-5, p = 0.1;
  add_norm("layer_norm", [](const Tensor<T>& x, const Weights<T>& w) { return layer_norm(x, w.weight, w.bias); });
  add_norm("rms_norm", [](const Tensor<T>& x, const Weights<T>& w) { return rms_norm(x, w.weight); });
  add_norm("residual_layer_norm", [=](const Tensor<T>& x, const Weights<T>& w) {
    Random random(1);
    return residual_layer_norm(x, x, w.weight, w.bias, eps, p, &random);
  });
  add("dropout", [=](const Tensor<T>& x) {
    Random random(1);
    return dropout(x, p, random);
  });
  add("gelu", [](const Tensor<T>& x) { return gelu(x); });
  add("softmax", [](const Tensor<T>& x) { return softmax(x, -1); });
}

template <class T>
void add_linear(Index N, Index out, Index in) {
  const double flops = 2.0 * static_cast<double>(N * out) * static_cast<double>(in);
  const auto layer = [w = std::make_shared<Weights<T>>(), out, in](const Tensor<T>& x) {
    w->renew([=] { return normal<T>(out, in); }, out);
    return linear(x, w->weight, w->bias);
  };
  add_both<T>("linear/" + std::string(name_of<T>()) + '/' + sizes({N, out, in}), N, in, layer, {{"flops", flops}},
              {{"flops", 3 * flops}});
}

void add_step(const std::string& name, const Json& costs, std::function<Call()> make, int shapes) {
  all.push_back({"steps", name, costs, std::move(make), shapes});
}

void add_encoder_step(const Sizes& s, Index B) {
  const Index S = s.step_length;
  const int layers = s.layers, D = static_cast<int>(s.width);
  const double flops = 3 * 2.0 * 12 * layers * D * D * static_cast<double>(B * S);
  for (const bool replays : {false, true})
    add_step(
        "encoder/bf16/" + sizes({B, S}) + (replays ? "/graph" : ""), {{"flops", flops}},
        [=] { return encoder_step(layers, D, B, S, replays); }, replays ? 2 : 1);
}

void add_all(const Sizes& s) {
  for (const Index length : s.lengths)
    for (const Index head_width : s.head_widths)
      for (const double fill : {0.75, 1.0})
        for (const double dropout : {0.1, 0.0}) add_attention(s, length, head_width, fill, dropout);
  constexpr Index window = 64;  // that of ModernBERT's local layers
  for (const Index length : s.windowed_lengths) add_attention(s, length, 64, 1, 0, window);
  for (const Index length : s.short_lengths)
    for (const double dropout : {0.1, 0.0}) add_attention(s, length, 64, 1, dropout);
  for (const Index bytes : s.copied_bytes) add_copy(bytes);
  for (const Index n : s.products) add_peak(n);
  // The first run of a size is a call, and the second one is recorded.
  for (const bool replays : {false, true})
    add_step(
        replays ? "sst2/fp32/graph" : "sst2/fp32", Json::object(), [=] { return sst2_step(s.vocabulary, replays); },
        replays ? 2 * batches : batches);
  for (const Index B : s.step_texts) add_encoder_step(s, B);
  for (const Index N : s.rows) {
    add_rows<bf16>(N, s.width);
    add_rows<float>(N, s.width);
  }
  const Index D = s.width;
  for (const Index N : s.counted_rows) {
    add_counted_rows<bf16>(N, D);
    add_counted_rows<float>(N, D);
  }
  for (const auto& [out, in] : {std::pair{D, D}, {3 * D, D}, {4 * D, D}, {D, 4 * D}}) {
    if (s.linear_rows == 0) continue;
    add_linear<bf16>(s.linear_rows, out, in);
    add_linear<float>(s.linear_rows, out, in);
  }
}

Json machine() {
  int device = 0, runtime = 0, driver = 0;
  cudaDeviceProp p{};
  check(cudaGetDevice(&device));
  check(cudaGetDeviceProperties(&p, device));
  check(cudaRuntimeGetVersion(&runtime));
  check(cudaDriverGetVersion(&driver));
  return {{"gpu", p.name},
          {"capability", std::to_string(p.major) + '.' + std::to_string(p.minor)},
          {"cuda_runtime", runtime},
          {"cuda_driver", driver},
          {"l2_bytes", p.l2CacheSize},
          {"memory_bytes", p.totalGlobalMem},
          {"multiprocessors", p.multiProcessorCount}};
}

void print(const Json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

// The flags of the command line.
struct Flags {
  std::string group, filter;
  bool list = false, gpu = false, tiny = false, counted = false;
  Index block_heads = cuda::Limits().block_heads;
};

bool is_chosen(const Work& work, const Flags& flags) {
  return (flags.group.empty() || work.group == flags.group) && work.name.find(flags.filter) != std::string::npos;
}

Json line_of(const Work& work, const char* suffix = "") {
  Json line = work.costs;
  line["name"] = work.name + suffix;
  return line;
}

void list(const Flags& flags) {
  for (const Work& work : all) {
    if (!is_chosen(work, flags)) continue;
    if (work.shapes > 0) print(line_of(work, "/first_steps"));
    print(line_of(work, work.shapes > 0 ? "/step" : ""));
  }
}

void measure_call(const Work& work, Timer& timer) {
  Call call = work.make();
  Json line = line_of(work);
  line["seconds"] = timer.alone(call);
  line["in_a_row"] = timer.in_a_row(call);
  print(line);
}

void measure_step(const Work& work, Timer& timer) {
  Call call = work.make();
  Json first = line_of(work, "/first_steps"), steady = line_of(work, "/step");
  first["seconds"] = timer.first(call, work.shapes);
  print(first);
  steady["seconds"] = steady["in_a_row"] = timer.in_a_row(call);
  print(steady);
}

// Measures the chosen benchmarks. Returns whether all of them worked.
bool measure(const Flags& flags) {
  Timer timer(flags.tiny || flags.counted);
  bool whole = true;
  for (const Work& work : all) {
    if (!is_chosen(work, flags)) continue;
    std::fprintf(stderr, "begins: %s\n", work.name.c_str());  // names the benchmark that hangs
    try {
      work.shapes > 0 ? measure_step(work, timer) : measure_call(work, timer);
    } catch (const std::exception& error) {
      Json line = line_of(work, work.shapes > 0 ? "/step" : "");
      line["failed"] = error.what();
      print(line);
      whole = false;
    }
    cuda::trim();
  }
  return whole;
}

// Returns whether the command line is valid.
bool parse(int argc, char** argv, Flags& flags) {
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--list")
      flags.list = true;
    else if (flag == "--gpu")
      flags.gpu = true;
    else if (flag == "--tiny")
      flags.tiny = true;
    else if (flag == "--counted")
      flags.counted = true;
    else if (flag == "--group" && i + 1 < argc)
      flags.group = argv[++i];
    else if (flag == "--filter" && i + 1 < argc)
      flags.filter = argv[++i];
    else if (flag == "--block-heads" && i + 1 < argc) {
      const std::string_view number = argv[++i];
      const auto [end, error] = std::from_chars(number.begin(), number.end(), flags.block_heads);
      if (error != std::errc() || end != number.end() || flags.block_heads < 0) return false;
    } else
      return false;
  }
  const std::vector<std::string> groups{"", "attention", "limits", "steps", "rows"};
  return std::find(groups.begin(), groups.end(), flags.group) != groups.end();
}

int run(int argc, char** argv) {
  Flags flags;
  if (!parse(argc, argv, flags)) {
    std::fprintf(
        stderr,
        "usage: cuda_bench [--group GROUP] [--filter TEXT] [--list | --gpu] [--tiny | --counted] [--block-heads N]\n"
        "  --group   attention, limits, steps or rows alone\n"
        "  --filter  the benchmarks whose name contains TEXT\n"
        "  --list    print the benchmarks; needs no GPU\n"
        "  --gpu     print the GPU alone\n"
        "  --tiny    small sizes and few calls, to test this program\n"
        "  --counted few calls for scripts/kernel-costs: attention of one text, and operations on rows\n"
        "  --block-heads  from N heads on, attention's backward of short texts is one kernel\n");
    return 2;
  }
  add_all(flags.tiny ? tiny_sizes() : flags.counted ? counted_sizes() : Sizes());
  if (flags.list) {
    list(flags);
    return 0;
  }
  if (const std::string why = cuda::unavailable(); !why.empty()) {
    std::fprintf(stderr, "cuda_bench: %s\n", why.c_str());
    return 2;
  }
  print(machine());
  cuda::limits.block_heads = flags.block_heads;
  return flags.gpu || measure(flags) ? 0 : 1;
}

}  // namespace
}  // namespace heddle::bench::gpu

int main(int argc, char** argv) try {
  return heddle::bench::gpu::run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "cuda_bench: %s\n", error.what());
  return 1;
}
