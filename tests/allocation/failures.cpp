// Makes each allocation of a training step, a save and a read fail in turn, except those of oneDNN: malloc returns null
// for the k-th request, for each k. This is a separate program because it replaces the C library's malloc, which
// sanitizers replace, too.
#include <malloc.h>

#include <atomic>
#include <heddle/heddle.hpp>
#include <heddle/io/checkpoint.hpp>
#include <heddle/io/model.hpp>
#include <heddle/io/optimizer.hpp>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

constexpr long never = -1;
std::atomic<long> requests_until_failure = never, live_blocks = 0;

bool fails() {
  long left = requests_until_failure.load();
  while (left != never)
    if (requests_until_failure.compare_exchange_weak(left, left - 1)) return left == 0;
  return false;
}
void* counted(void* block) {
  if (block) ++live_blocks;
  return block;
}

}  // namespace

extern "C" {
void* __libc_malloc(std::size_t);
void* __libc_calloc(std::size_t, std::size_t);
void* __libc_realloc(void*, std::size_t);
void* __libc_memalign(std::size_t, std::size_t);
void __libc_free(void*);

void* malloc(std::size_t size) { return fails() ? nullptr : counted(__libc_malloc(size)); }
void* calloc(std::size_t count, std::size_t size) { return fails() ? nullptr : counted(__libc_calloc(count, size)); }
void* realloc(void* block, std::size_t size) {
  if (fails()) return nullptr;
  void* const moved = __libc_realloc(block, size);
  return block ? moved : counted(moved);
}
// oneDNN allocates with these two functions and ends the program if they fail, so they never fail.
int posix_memalign(void** block, std::size_t alignment, std::size_t size) {
  *block = counted(__libc_memalign(alignment, size));
  return *block ? 0 : ENOMEM;
}
void* memalign(std::size_t alignment, std::size_t size) { return counted(__libc_memalign(alignment, size)); }
// The memory of tensors is requested again after a failure; the second request fails too.
void* aligned_alloc(std::size_t alignment, std::size_t size) {
  static thread_local bool again = false;
  if (std::exchange(again, false)) return nullptr;
  again = fails();
  return again ? nullptr : counted(__libc_memalign(alignment, size));
}
void free(void* block) {
  if (block) --live_blocks;
  __libc_free(block);
}
}

namespace {

enum class Outcome { no_failure, failure_handled, exception };

// Calls f and refuses its k-th request for memory; returns how f ended.
template <class F>
Outcome refuse(long k, F&& f) {
  requests_until_failure = k;
  try {
    f();
  } catch (const OutOfMemory&) {
    return Outcome::exception;
  } catch (const std::bad_alloc&) {
    return Outcome::exception;
  }
  return requests_until_failure.exchange(never) == never ? Outcome::failure_handled : Outcome::no_failure;
}

struct Net {
  nn::Embedding<> embedding;
  nn::EncoderLayer<> layer;
  nn::Linear<> out;

  explicit Net(Random& random) : embedding(20, 8, random), layer({.D = 8, .heads = 2}, random), out(8, 2, random) {}
  Tensor<float> operator()(const Tensor<int>& ids, const Sequences& s, Random* random) const {
    return out(first_rows(layer(embedding(ids), s, random), s));
  }
  static void visit(auto& self, auto&& f) {
    f("embedding", self.embedding);
    f("layer", self.layer);
    f("out", self.out);
  }
};

struct Training {
  Random random{1};
  Net net{random};
  optim::Adam adam{net};
  const Tensor<int> ids{{7}, {1, 2, 3, 4, 5, 6, 7}}, labels{{2}, {0, 1}};
  const Sequences sequences = Sequences::packed({3, 4});

  float step() {
    Random noise(2);
    const Tensor<float> loss = cross_entropy(net(ids, sequences, &noise), labels);
    backward(loss);
    adam.step();
    return loss.item();
  }
};

}  // namespace

TEST_CASE("allocation: if any allocation of a training step fails, nothing leaks and the next step works") {
  set_threads(1);  // so that requests come in the same order each time
  Training t;
  t.step();
  HostPool::instance().trim();
  zero_grad(t.net);
  // Runs a step in which this request is refused. Returns the number of blocks that it leaves behind.
  Outcome ended{};
  const auto left_by = [&](long request) {
    HostPool::instance().trim();
    const long blocks = live_blocks;
    ended = refuse(request, [&] { t.step(); });
    zero_grad(t.net);
    HostPool::instance().trim();
    return live_blocks - blocks;
  };
  long k = 0;
  for (; k == 0 || ended != Outcome::no_failure; ++k) {
    const std::size_t memory = HostPool::instance().stats().in_use;
    // Objects that are created once, at first use, stay allocated; a leak recurs. So a request that leaves blocks
    // behind is refused again.
    if (left_by(k) != 0 && left_by(k) != 0) FAIL_CHECK("request " << k << " leaks");
    if (HostPool::instance().stats().in_use != memory) FAIL_CHECK("request " << k << " leaks tensors");
    REQUIRE(std::isfinite(t.step()));
  }
  INFO("requests of a step: " << k);
  CHECK(k > 100);
}

TEST_CASE("allocation: if any allocation of a save fails, an intact checkpoint loads and the error names its path") {
  set_threads(1);
  const TemporaryFolder folder;
  Training t;
  const std::string all = folder / "all";
  io::Checkpoints checkpoints(all);
  const std::string state = "{}";
  const auto save = [&](int number) {
    checkpoints.save(number, state, [&](const std::string& to) {
      io::FileSums files{{"model.safetensors", io::save(t.net, to + "/model.safetensors")},
                         {"optimizer.safetensors", io::save_optimizer(t.adam.state(), to + "/optimizer.safetensors")}};
      if (io::link_file(to + "/model.safetensors", to + "/best.safetensors"))
        files["best.safetensors"] = files["model.safetensors"];
      return files;
    });
  };
  t.step();
  save(1);
  t.step();
  long k = 0;
  for (Outcome ended{}; k == 0 || ended != Outcome::no_failure; ++k) {
    std::string message;
    ended = refuse(k, [&] {
      try {
        save(2);
      } catch (const Error& error) {
        message = error.what();
        throw OutOfMemory(message);
      }
    });
    const bool failed = ended == Outcome::exception;
    if (failed && message.find(all) != 0) FAIL_CHECK("request " << k << " ends in '" << message << "'");
    const auto found = io::Checkpoints(all).newest([](const std::string& why) { FAIL_CHECK(why); });
    REQUIRE(found);
    CHECK(found->manifest.number <= 2);
    if (!failed) CHECK(found->manifest.number == 2);
    io::load(t.net, found->file("model.safetensors"));
    io::load_optimizer(t.adam.state(), found->file("optimizer.safetensors"));
  }
  INFO("requests of a save: " << k);
  CHECK(k > 100);
}

TEST_CASE("allocation: if any allocation of a read fails, the error names the file") {
  const TemporaryFolder folder;
  const std::string file = folder / "a-name-that-is-longer-than-what-a-string-holds-in-itself";
  Training t;
  io::save(t.net, file);
  const auto each = [&](auto read) {
    long k = 0;
    for (Outcome ended{}; k == 0 || ended != Outcome::no_failure; ++k) {
      std::string message;
      ended = refuse(k, [&] {
        try {
          read(file);
        } catch (const OutOfMemory& error) {
          message = error.what();
          throw;
        }
      });
      if (ended == Outcome::exception && message != file + ": out of memory while the file was read")
        FAIL_CHECK("request " << k << " ends in '" << message << "'");
    }
    return k;
  };
  CHECK(each([](const std::string& name) { io::read_file(name); }) > 2);
  CHECK(each([](const std::string& name) { io::read_safetensors(name); }) > 20);
}
