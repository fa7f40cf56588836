// cuda_bench: times heddle on the GPU. Prints one JSON object per line: first the GPU, then for each benchmark its name, its
// minimum number of operations or bytes (not for sst2/fp32/step), and
//   seconds    the time of a single call with a cold L2 cache; for a step the same as in_a_row
//   in_a_row   the time per call in a sequence of calls, including the host's time
//   failed     the error message, if the benchmark threw
// bench/peers/gpu.py does the same work in PyTorch under the same names; scripts/gpu-report writes a page with both results.
#include <cstdio>
#include <cstring>
#include <nlohmann/json.hpp>

#include "attention.hpp"
#include "gpu_steps.hpp"

namespace heddle::bench::gpu {
namespace {

struct Work {
  std::string name;
  nlohmann::json costs;  // flops, bytes, and the size of the copy whose rate is the limit
  std::function<Call()> make;
  bool is_step = false;
};
std::vector<Work> all;

// Adds the benchmarks of a function of one tensor, alone and with its backward.
template <class T, class F>
void add_both(const std::string& op, Index rows, Index width, F f, const nlohmann::json& forward,
              const nlohmann::json& both) {
  all.push_back({op + "/forward", forward, [=]() -> Call {
                   return [f, x = normal<T>(rows, width)] {
                     const NoGrad quiet;
                     f(x);
                   };
                 }});
  all.push_back({op + "/forward_backward", both, [=]() -> Call {
                   const Tensor<T> x = variable(normal<T>(rows, width)), y = detach(f(x));
                   return [f, x, dy = normal<T>(y.dim(0), y.dim(1))] {
                     backward(f(x), dy);
                     x.set_grad({});
                   };
                 }});
}

// --- the machine's limits ---

void add_copy(Index bytes) {
  all.push_back({"copy/" + std::to_string(bytes), {{"bytes", 2 * bytes}}, [=]() -> Call {
                   const Tensor<float> from = normal<float>(bytes / 4096, 1024);
                   return [from, to = empty_like(from), bytes]() mutable {
                     cuda::on_device(to.device_data(), std::as_const(from).device_data(),
                                     static_cast<std::size_t>(bytes));
                   };
                 }});
}

void add_peak(Index n) {
  all.push_back({"peak/bf16/" + sizes({n, n, n}),
                 {{"flops", 2.0 * static_cast<double>(n) * static_cast<double>(n) * static_cast<double>(n)}},
                 [=]() -> Call { return [a = normal<bf16>(n, n), b = normal<bf16>(n, n)] { matmul(a, b); }; }});
}

// --- operations ---

void add_attention(Index length, double fill, double dropout) {
  for (const bool backward : {false, true}) {
    const AttentionCase c{32, 12, 64, length, fill, dropout, backward};
    const std::string name = "attention/" + sizes({c.batch, c.heads, length, c.head_dim}) +
                             (fill < 1 ? "/lengths" : "/full") + (dropout > 0 ? "/dropout" : "") +
                             (backward ? "/forward_backward" : "/forward");
    all.push_back({name, {{"flops", c.flops()}}, [=]() -> Call {
                     const Sequences texts = Sequences::packed(c.lengths()).to(Device::cuda);
                     const Index N = texts.rows(), D = c.heads * c.head_dim;
                     return attention_call_of(c, normal<bf16>(N, 3 * D), normal<bf16>(N, D), texts, Tensor<bool>());
                   }});
  }
}

// The weights of a benchmark. The first call creates them, because the list of all benchmarks is created without a GPU. Each call begins
// without gradients.
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
  const nlohmann::json forward{{"bytes", 2 * bytes}, {"copy", bytes}}, both{{"bytes", 5 * bytes}, {"copy", bytes}};
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

void add_all() {
  for (const Index length : {512, 128, 2048})
    for (const double fill : {0.75, 1.0})
      for (const double dropout : {0.1, 0.0}) add_attention(length, fill, dropout);
  for (const Index bytes : {6291456, 12582912, 25165824, 50331648, 1073741824}) add_copy(bytes);
  for (const Index n : {4096, 8192}) add_peak(n);
  all.push_back({"sst2/fp32/step", nlohmann::json::object(), sst2_step, true});
  for (const auto& [batch, length] : {std::pair<Index, Index>{8, 128}, {32, 128}}) {
    const Index B = batch, S = length;
    all.push_back({"encoder/bf16/" + sizes({B, S}) + "/step",
                   {{"flops", 3 * 2.0 * 12 * 12 * 768 * 768 * static_cast<double>(B * S)}},
                   [=] { return encoder_step(B, S); },
                   true});
  }
  for (const Index N : {16384, 4096}) {
    add_rows<bf16>(N, 768);
    add_rows<float>(N, 768);
  }
  for (const auto& [out, in] : {std::pair<Index, Index>{768, 768}, {2304, 768}, {3072, 768}, {768, 3072}}) {
    add_linear<bf16>(4096, out, in);
    add_linear<float>(4096, out, in);
  }
}

nlohmann::json machine() {
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

void print(const nlohmann::json& line) {
  std::printf("%s\n", line.dump().c_str());
  std::fflush(stdout);
}

// Measures all benchmarks that match. Returns whether all of them worked.
bool measure(const std::string& filter) {
  print(machine());
  Timer timer;
  bool whole = true;
  for (const Work& work : all) {
    if (work.name.find(filter) == std::string::npos) continue;
    nlohmann::json line = work.costs;
    line["name"] = work.name;
    try {
      Call call = work.make();
      if (!work.is_step) line["seconds"] = timer.alone(call);
      line["in_a_row"] = timer.in_a_row(call);
      if (work.is_step) line["seconds"] = line["in_a_row"];
    } catch (const Error& error) {
      line["failed"] = error.what();
      whole = false;
    }
    print(line);
    cuda::trim();
  }
  return whole;
}

int run(int argc, char** argv) {
  std::string filter;
  bool list = false, understood = true;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--list"))
      list = true;
    else if (!std::strcmp(argv[i], "--filter") && i + 1 < argc)
      filter = argv[++i];
    else
      understood = false;
  }
  if (!understood) {
    std::fprintf(stderr,
                 "usage: cuda_bench [--filter TEXT]   time the benchmarks whose name contains TEXT\n"
                 "       cuda_bench --list            list all benchmarks; needs no GPU\n");
    return 2;
  }
  add_all();
  if (list) {
    for (const Work& work : all) {
      nlohmann::json line = work.costs;
      line["name"] = work.name;
      print(line);
    }
    return 0;
  }
  if (const std::string why = cuda::unavailable(); !why.empty()) {
    std::fprintf(stderr, "cuda_bench: %s\n", why.c_str());
    return 2;
  }
  return measure(filter) ? 0 : 1;
}

}  // namespace
}  // namespace heddle::bench::gpu

int main(int argc, char** argv) try {
  return heddle::bench::gpu::run(argc, argv);
} catch (const std::exception& error) {
  std::fprintf(stderr, "cuda_bench: %s\n", error.what());
  return 1;
}
