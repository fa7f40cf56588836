// attention: times attention of one shape, and prints its share of the processor's peak, which is measured in
// the same run.
#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdio>

#include "attention.hpp"
#include "machine.hpp"

namespace heddle::bench {
namespace {

struct Flags {
  AttentionCase shape{8, 12, 64, 128};
  std::string dtype = "fp32", device = "cpu";
  int threads = 2;
  bool mask = false, json = false;
};

// Returns the median time of a call in seconds. Times at least seven calls, which take half a second or more in total.
template <class Call>
double median_seconds(Call&& call) {
  using Clock = std::chrono::steady_clock;
  constexpr std::size_t least = 7;
  constexpr double enough = 0.5;
  std::vector<double> seconds;
  call();
  for (double sum = 0; seconds.size() < least || sum < enough; sum += seconds.back()) {
    const auto begin = Clock::now();
    call();
    seconds.push_back(std::chrono::duration<double>(Clock::now() - begin).count());
  }
  std::nth_element(seconds.begin(), seconds.begin() + static_cast<std::ptrdiff_t>(seconds.size() / 2), seconds.end());
  return seconds[seconds.size() / 2];
}

double peak([[maybe_unused]] const std::string& dtype) {
#ifdef __AVX512BF16__
  if (dtype == "bf16") return peak_flops(2) / median_seconds([] { on_every_thread([] { multiply_add_bf16(); }); });
#endif
  return peak_flops(1) / median_seconds([] { on_every_thread([] { multiply_add(); }); });
}

template <class T>
double seconds_of(const Flags& flags, bool backward) {
  AttentionCase c = flags.shape;
  c.backward = backward;
  return median_seconds(flags.mask ? masked_attention_call<T>(c) : attention_call<T>(c));
}

void run(const Flags& flags) {
  set_threads(flags.threads);
  const double limit = peak(flags.dtype);
  if (!flags.json)
    std::printf("%s, %d threads, peak %.0f GFLOP/s\n%-18s %12s %12s %8s\n", flags.dtype.c_str(), flags.threads,
                limit / 1e9, "", "ms", "GFLOP/s", "share");
  for (const bool backward : {false, true}) {
    AttentionCase c = flags.shape;
    c.backward = backward;
    const double seconds =
        flags.dtype == "bf16" ? seconds_of<bf16>(flags, backward) : seconds_of<float>(flags, backward);
    const double rate = c.flops() / seconds;
    const char* const what = backward ? "forward_backward" : "forward";
    if (flags.json)
      std::printf(
          "{\"what\":\"%s\",\"batch\":%lld,\"heads\":%lld,\"head_dim\":%lld,\"length\":%lld,\"fill\":%g,"
          "\"window\":%lld,\"dtype\":\"%s\",\"dropout\":%g,\"mask\":%s,\"device\":\"%s\",\"threads\":%d,"
          "\"seconds\":%.9g,\"flops_per_second\":%.6g,\"peak_flops_per_second\":%.6g}\n",
          what, static_cast<long long>(c.batch), static_cast<long long>(c.heads), static_cast<long long>(c.head_dim),
          static_cast<long long>(c.length), c.fill, static_cast<long long>(std::min(c.window, c.length)),
          flags.dtype.c_str(), c.dropout, flags.mask ? "true" : "false", flags.device.c_str(), flags.threads, seconds,
          rate, limit);
    else
      std::printf("%-18s %12.3f %12.1f %7.1f%%\n", what, seconds * 1e3, rate / 1e9, 100 * rate / limit);
  }
}

}  // namespace
}  // namespace heddle::bench

int main(int argc, char** argv) {
  using heddle::Index;
  heddle::bench::Flags flags;
  CLI::App app("Times attention, forward and forward with backward: the median of many calls");
  const auto size = [&](const char* name, Index& value, const char* text) {
    app.add_option(name, value, text)->check(CLI::Range(Index{1}, Index{1} << 20))->capture_default_str();
  };
  size("--batch", flags.shape.batch, "Sequences");
  size("--heads", flags.shape.heads, "Heads");
  size("--head-dim", flags.shape.head_dim, "Width of a head");
  size("--length", flags.shape.length, "Tokens of the longest sequence");
  app.add_option("--fill", flags.shape.fill, "Mean length, as a share of the longest")->check(CLI::Range(0.5, 1.0));
  app.add_option("--window", flags.shape.window, "Greatest distance of a key that a query sees")
      ->check(CLI::Range(Index{0}, Index{1} << 20));
  app.add_option("--dtype", flags.dtype, "Type of queries, keys and values")->check(CLI::IsMember({"fp32", "bf16"}));
  app.add_option("--dropout", flags.shape.dropout, "Share of attention weights to drop")->check(CLI::Range(0.0, 0.999));
  app.add_flag("--mask", flags.mask, "Padded rows and a mask of keys instead of packed rows");
  app.add_option("--device", flags.device, "Device that runs attention")->check(CLI::IsMember({"cpu"}));
  app.add_option("--threads", flags.threads, "Threads")->check(CLI::Range(1, 1024))->capture_default_str();
  app.add_flag("--json", flags.json, "Print one JSON object per line");
  try {
    app.parse(argc, argv);
    heddle::bench::run(flags);
  } catch (const CLI::Success& e) {
    return app.exit(e);
  } catch (const CLI::Error& e) {
    std::fprintf(stderr, "attention: error: %s\n", e.what());
    return 2;
  } catch (const std::exception& e) {
    std::fprintf(stderr, "attention: error: %s\n", e.what());
    return 1;
  }
}
