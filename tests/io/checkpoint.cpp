#include <sys/wait.h>

#include <heddle/heddle.hpp>
#include <heddle/io/checkpoint.hpp>
#include <heddle/io/model.hpp>
#include <heddle/io/optimizer.hpp>

#include <deque>

#include "catch.hpp"
#include "harness/devices.hpp"
#include "io/files.hpp"
#include "io/watched_calls.hpp"

using namespace heddle;
using namespace heddle::testing;

namespace {

struct Net {
  nn::Linear<> hidden, out;

  explicit Net(Random& random) : hidden(3, 8, random), out(8, 2, random) {}
  Tensor<float> operator()(const Tensor<float>& x) const { return out(gelu(hidden(x))); }
  static void visit(auto& self, auto&& f) {
    f("hidden", self.hidden);
    f("out", self.out);
  }
};

// Half of a Net.
template <class L>
struct Hidden {
  L hidden;
  static void visit(auto& self, auto&& f) { f("hidden", self.hidden); }
};

// A model with a parameter that has no elements.
struct Odd {
  Parameter<float> empty{zeros<float>({0, 4})}, one{ones<float>({1})};
  static void visit(auto& self, auto&& f) {
    f("empty", self.empty);
    f("one", self.one);
  }
};

// A model in training, and its checkpoints.
struct Run {
  TemporaryFolder folder;
  Random random{1};
  Net net{random};
  optim::Adam adam{net, {.lr = 0.1}};
  io::Checkpoints all{folder / "all"};
  int steps = 0;

  void step() {
    Random noise(2, static_cast<std::uint64_t>(++steps));
    const Tensor<float> x = randn<float>({4, 3}, noise);
    backward(cross_entropy(net(x), Tensor<int>({4}, {0, 1, 0, 1})));
    adam.step();
  }
  void save() {
    all.save(steps, "{\"steps\":" + std::to_string(steps) + "}", [&](const std::string& to) {
      return io::FileSums{{"model.safetensors", io::save(net, to + "/model.safetensors")},
                          {"optimizer.safetensors", io::save_optimizer(adam.state(), to + "/optimizer.safetensors")}};
    });
  }
  // Loads the newest intact checkpoint. Returns its number of steps, or 0 if there is none, and the notes on damaged
  // checkpoints.
  std::pair<int, std::string> load() {
    std::string damaged;
    const auto found = io::Checkpoints(folder / "all").newest([&](const std::string& why) { damaged += why + '\n'; });
    if (!found) return {0, damaged};
    io::load(net, found->file("model.safetensors"));
    io::load_optimizer(adam.state(), found->file("optimizer.safetensors"));
    steps = nlohmann::json::parse(found->manifest.state).at("steps").get<int>();
    return {steps, damaged};
  }
  std::vector<float> weights() const { return net.hidden.weight.value().host(); }
};

std::string path_of(const Run& run, const std::string& number, const std::string& file) {
  return run.folder / ("all/" + std::string(12 - number.size(), '0') + number + '/' + file);
}

}  // namespace

TEST_CASE("Crc64: the published check value, whole and in parts") {
  io::Crc64 whole, parts;
  whole.add("123456789");
  for (const char* part : {"1", "23", "", "456789"}) parts.add(part);
  CHECK(io::hex(whole.value()) == "995dc9bbdf1939fa");
  CHECK(parts.value() == whole.value());
  std::string many;
  for (int i = 0; i < 1000; ++i) many += static_cast<char>(i * 7);
  io::Crc64 one, split;
  one.add(many);
  split.add(std::string_view(many).substr(0, 333));
  split.add(std::string_view(many).substr(333));
  CHECK(one.value() == split.value());
}

TEST_CASE("Checkpoints: training continues from one, bit for bit") {
  Run whole, cut;
  for (int i = 0; i < 3; ++i) whole.step(), cut.step();
  cut.save();
  for (int i = 0; i < 3; ++i) whole.step(), cut.step();
  CHECK(cut.load() == std::pair(3, std::string()));
  for (int i = 0; i < 3; ++i) cut.step();
  CHECK(cut.weights() == whole.weights());
}

TEST_CASE("Checkpoints: the newest and the one before it are kept") {
  Run run;
  for (int i = 0; i < 4; ++i) run.step(), run.save();
  std::set<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(run.folder / "all"))
    names.insert(entry.path().filename().string());
  CHECK(names == std::set<std::string>{"000000000003", "000000000004"});
  run.save();  // replaces the checkpoint of the same number
  CHECK(run.load().first == 4);
}

TEST_CASE("Checkpoints: the manifest holds the sums that writing returned, and they are those of the files") {
  Run run;
  run.step();
  run.save();
  const auto found = io::Checkpoints(run.folder / "all").newest([](const std::string& why) { FAIL_CHECK(why); });
  REQUIRE(found);
  REQUIRE(found->manifest.files.size() == 2);
  for (const auto& [name, sum] : found->manifest.files) {
    const std::string content = get(found->file(name));
    CHECK(sum == io::FileSum{content.size(), io::crc64(content)});
    CHECK(sum == io::sum_of_file(found->file(name)));
  }
}

TEST_CASE("Checkpoints: a save reads none of its files") {
  Run run;
  run.step();
  const std::string folder = run.all.save(7, "{}", [&](const std::string& to) {
    put(to + "/x", "content");
    return io::FileSums{{"x", {7, 0}}};  // not the checksum of the content
  });
  CHECK(folder == run.folder / "all/000000000007");
  CHECK(get(folder + "/manifest.json").find(R"("x":{"bytes":7,"crc64":"0000000000000000"})") != std::string::npos);
}

TEST_CASE("Checkpoints: without a folder there is no checkpoint, and leftovers are removed") {
  Run run;
  CHECK(run.load() == std::pair(0, std::string()));
  run.step();
  run.save();
  std::filesystem::create_directories(run.folder / "all/000000000002.tmp");
  put(run.folder / "all/000000000002.tmp/model.safetensors", "half");
  CHECK(run.load().first == 1);
  run.all.clean();
  CHECK_FALSE(std::filesystem::exists(run.folder / "all/000000000002.tmp"));
}

TEST_CASE("Checkpoints: a damaged one is named, and the one before it is taken") {
  Run run;
  run.step();
  run.save();
  run.step();
  run.save();
  const std::string file = path_of(run, "2", "optimizer.safetensors");
  std::string bytes = get(file);
  bytes[bytes.size() - 3] ^= 1;
  put(file, bytes);
  const auto [steps, why] = run.load();
  CHECK(steps == 1);
  CHECK(why == file + ": is damaged: its checksum is wrong\n");
  run.step();  // the next save replaces the damaged checkpoint
  io::Checkpoints all(run.folder / "all");
  all.newest([](const std::string&) {});
  run.save();
  CHECK(run.load() == std::pair(2, std::string()));
}

TEST_CASE("Checkpoints: whichever call of a save fails, an intact one loads and the error names file and cause") {
  int calls = 0;
  for (const int error : {ENOSPC, EIO}) {
    for (int call = 0; call == 0 || call < calls; ++call) {
      CAPTURE(call, error);
      Run run;
      run.step();
      run.save();
      const auto saved = run.weights();
      run.step();
      constexpr std::size_t longest_write = 1000;  // so that writes are short, too
      const std::string message = error_of<WriteError>([&] {
        const WatchedCalls watched({.failing = call, .error = error, .longest_write = longest_write});
        run.save();
      });
      if (calls == 0) {
        Run another;
        another.step();
        const WatchedCalls watched({.longest_write = longest_write});
        another.save();
        calls = watched.count();
        REQUIRE(calls > 20);
      }
      CHECK(message.starts_with(run.folder / "all"));
      CHECK(message.ends_with(": " + std::generic_category().message(error)));
      const bool only_the_last_sync_failed = call >= calls - 2;
      if (only_the_last_sync_failed) {
        CHECK(run.load() == std::pair(2, std::string()));
      } else {
        CHECK(run.load() == std::pair(1, std::string()));
        CHECK(run.weights() == saved);
      }
      for (const auto& entry : std::filesystem::recursive_directory_iterator(run.folder / "all"))
        CHECK_FALSE(entry.path().string().ends_with(".tmp"));
    }
  }
}

TEST_CASE("Checkpoints: on a file system that cannot exchange names, a checkpoint that is saved again is never lost") {
  const TemporaryFolder folder;
  const std::string all = folder / "all";
  const auto save = [&](int value) {
    io::Checkpoints(all).save(1, std::to_string(value), [&](const std::string& to) {
      return io::FileSums{{"x", io::write_atomically(to + "/x", std::to_string(value))}};
    });
  };
  const auto saved = [&] {
    const auto found = io::Checkpoints(all).newest([](const std::string& why) { FAIL_CHECK(why); });
    REQUIRE(found);
    CHECK(get(found->file("x")) == found->manifest.state);
    return std::stoi(found->manifest.state);
  };
  constexpr int none = -1, killed = 0;  // `none`: no call fails; `killed`: the error with which a call ends the process
  // Saves on a file system with plain renames only, and returns the names of the calls.
  const auto save_with = [&](int value, int failing_call, int error) {
    const WatchedCalls watched({.failing = failing_call, .error = error, .plain_renames = true});
    save(value);
    return watched.names();
  };
  save_with(1, none, 0);
  const std::string names = save_with(2, none, 0);
  CHECK(saved() == 2);
  const auto calls = static_cast<int>(std::count(names.begin(), names.end(), ' '));
  REQUIRE(names.ends_with("rename rename rename open fsync "));
  for (const int error : {EIO, killed})
    for (int call = 0; call < calls; ++call) {
      CAPTURE(call, error);
      std::filesystem::remove_all(all);
      save_with(1, none, 0);
      if (error == killed) {
        const pid_t child = ::fork();
        if (child == 0) save_with(2, call, error), ::_exit(1);
        int status = 1;
        REQUIRE((::waitpid(child, &status, 0) == child && status == 0));
      } else {
        CHECK(error_of<WriteError>([&] {
                save_with(2, call, error);
              }).ends_with(": " + std::generic_category().message(error)));
      }
      CHECK(saved() == (call < calls - 2 ? 1 : 2));
      io::Checkpoints(all).clean();
      CHECK(saved() == (call < calls - 2 ? 1 : 2));
      const std::filesystem::directory_iterator left(all), end;
      CHECK(std::distance(left, end) == 1);
    }
}

TEST_CASE("Checkpoints: every cut and every flipped bit is found") {
  Run run;
  run.step();
  run.save();
  Random random(7);
  const auto below = [&](std::size_t n) { return static_cast<std::size_t>(random.next() % n); };
  const auto found = [&] {
    int damaged = 0;
    const std::string why = error_of<FileError>(
        [&] { io::Checkpoints(run.folder / "all").newest([&](const std::string&) { ++damaged; }); });
    return damaged == 1 &&
           why.ends_with(": none of its checkpoints can be used; remove them to start from the beginning");
  };
  constexpr std::size_t page = 4096;
  const int random_damages = testing::is_exhaustive() ? 700 : 70;
  for (const char* name : {"model.safetensors", "optimizer.safetensors", "manifest.json"}) {
    const std::string file = path_of(run, "1", name), whole = get(file);
    CAPTURE(name, whole.size());
    std::set<std::size_t> cuts{0};
    for (std::size_t at = page; at < whole.size(); at += page) cuts.insert(at);
    for (int i = 0; i < random_damages; ++i) cuts.insert(below(whole.size()));
    for (const std::size_t cut : cuts) {
      put(file, std::string_view(whole).substr(0, cut));
      if (!found()) FAIL_CHECK("cut after " << cut << " bytes");
    }
    for (int i = 0; i < random_damages; ++i) {
      std::string flipped = whole;
      const std::size_t at = below(whole.size());
      flipped[at] = static_cast<char>(flipped[at] ^ 1 << below(8));
      put(file, flipped);
      if (!found()) FAIL_CHECK("a bit of byte " << at << " flipped");
    }
    put(file, whole);
  }
  CHECK(run.load().first == 1);
}

TEST_CASE("read_manifest: refuses what write_manifest does not write") {
  const auto error = [](const std::string& body) {
    return error_of<FileError>([&] { io::read_manifest(body + io::detail::seal(body), "m"); });
  };
  CHECK(error_of<FileError>([] { io::read_manifest("", "m"); }) ==
        "m: is cut off, or is not the manifest of a checkpoint");
  CHECK(error_of<FileError>([] { io::read_manifest("{,\"crc64\":\"0\"}\n", "m"); }) == "m: its checksum is wrong");
  CHECK(error("[1") == "m: is not a JSON object");
  CHECK(error(R"({"a":1)") == "m: 'heddle_checkpoint' is missing or not a whole number of at least 0");
  CHECK(error(R"({"heddle_checkpoint":2)") == "m: is of format 2; this version of heddle reads 1");
  CHECK(error(R"({"heddle_checkpoint":1,"number":-1)") == "m: 'number' is missing or not a whole number of at least 0");
  CHECK(error(R"({"heddle_checkpoint":1,"number":1,"files":[])") == "m: 'files' is missing or not an object");
  CHECK(error(R"({"heddle_checkpoint":1,"number":1,"files":{})") == "m: has no 'state'");
  CHECK(error(R"({"heddle_checkpoint":1,"number":1,"state":0,"files":{"../x":{}})") ==
        "m: '../x' cannot be the name of a checkpoint's file");
  CHECK(error(R"({"heddle_checkpoint":1,"number":1,"state":0,"files":{"x":1})") ==
        "m: the entry of 'x' is not an object");
  CHECK(error(R"({"heddle_checkpoint":1,"number":1,"state":0,"files":{"x":{"crc64":"z"}})") ==
        "m: the checksum of 'x' is not 16 hexadecimal digits");
  const std::string deep = std::string(2000, '[') + std::string(2000, ']');
  CHECK(io::read_manifest(io::write_manifest(1, {}, deep, "m"), "m").state == deep);
  CHECK(error_of<FileError>([] { io::read_manifest(std::string(65537, ' '), "m"); }) ==
        "m: has 65537 bytes; a manifest has at most 65536");
  const std::map<std::string, io::FileSum> files{{"x", {3, 0xFFFFFFFFFFFFFFFF}}, {"\"y\"", {0, 0}}};
  const auto again = io::read_manifest(io::write_manifest(12, files, R"({"deep":[1,2.5,"text"]})", "m"), "m");
  CHECK(again.number == 12);
  CHECK(again.files == files);
  CHECK(again.state == R"({"deep":[1,2.5,"text"]})");
}

TEST_CASE("Checkpoints: a state or file that could not be read back is refused when it is saved") {
  Run run;
  run.step();
  run.save();
  const auto error = [&](const std::string& state, const std::string& name) {
    return error_of<FileError>([&] {
      io::Checkpoints(run.folder / "all").save(2, state, [&](const std::string& to) {
        return io::FileSums{{name, io::write_atomically(to + '/' + name, "x")}};
      });
    });
  };
  for (const std::string& state :
       {std::string("nonsense"), std::string("1,\"number\":5"), std::string("\xEF\xBB\xBF{}"),
        std::string("{}\0garbage", 10), std::string("{}}\0", 4)})
    CHECK(error(state, "x").ends_with("2.tmp/manifest.json: the state is not one JSON value"));
  CHECK(error('"' + std::string(70000, 'x') + '"', "x").ends_with(" bytes; a manifest has at most 65536"));
  CHECK(error("{}", ".hidden").ends_with(": '.hidden' cannot be the name of a checkpoint's file"));
  CHECK(error("{}", "manifest.json").ends_with(": 'manifest.json' cannot be the name of a checkpoint's file"));
  const auto filled = [&](auto fill) {
    const std::string why = error_of<FileError>([&] { io::Checkpoints(run.folder / "all").save(2, "{}", fill); });
    CHECK_FALSE(std::filesystem::exists(run.folder / "all/000000000002.tmp"));
    return why;
  };
  const std::string refused = ": is not a regular file, and a checkpoint holds nothing else";
  CHECK(filled([](const std::string& to) {
          std::filesystem::create_directories(to + "/a/b");
          put(to + "/a/b/c", "x");
          return io::FileSums();
        }) == run.folder / ("all/000000000002.tmp/a" + refused));
  CHECK(filled([](const std::string& to) {
          ::mkfifo((to + "/pipe").c_str(), 0600);
          return io::FileSums();
        }).ends_with("/pipe" + refused));
  CHECK(filled([](const std::string& to) {
          ::symlink("/dev/zero", (to + "/link").c_str());
          return io::FileSums();
        }).ends_with("/link" + refused));
  const auto filled_with = [&](const io::FileSums& sums) {
    return filled([&](const std::string& to) {
      put(to + "/x", "content");
      return sums;
    });
  };
  CHECK(filled_with({}).ends_with("2.tmp/x: has no checksum among those of the checkpoint's files"));
  CHECK(filled_with({{"x", {6, 0}}}).ends_with("2.tmp/x: has 7 bytes instead of 6"));
  CHECK(filled_with({{"x", {7, 0}}, {"y", {}}}).ends_with("2.tmp/y: has a checksum, but was not written"));
  CHECK(run.load() == std::pair(1, std::string()));
}

TEST_CASE("Checkpoints: a folder that cannot be read is an error, not an empty one") {
  Run run;
  put(run.folder / "all", "a file");
  CHECK(error_of<FileError>([&] { run.load(); }) == run.folder / "all: the folder cannot be read: Not a directory");
}

TEST_CASE("load_optimizer: refuses another optimizer's state and changes nothing") {
  Run run;
  run.step();
  const std::string file = run.folder / "state";
  io::save_optimizer(run.adam.state(), file);
  optim::AdamW decoupled(run.net);
  CHECK(error_of<FileError>([&] { io::load_optimizer(decoupled.state(), file); }) ==
        file + ": is the state of the optimizer Adam, not of AdamW");
  io::save(run.net, run.folder / "weights");
  CHECK(error_of<FileError>([&] { io::load_optimizer(decoupled.state(), run.folder / "weights"); }) ==
        run.folder / "weights: is not the state of an optimizer");
  Random random(3);
  Hidden<nn::Linear<>> other{nn::Linear<>(3, 4, random)};
  optim::Adam adam(other);
  CHECK(error_of<FileError>([&] { io::load_optimizer(adam.state(), file); }) ==
        file + ": 'first.hidden.weight' is F32 [8, 3]; this optimizer has F32 [4, 3]");
  optim::Adam part(run.net.hidden);
  CHECK(error_of<FileError>([&] { io::load_optimizer(part.state(), file); }).starts_with(file + ": has no tensor "));
  Hidden<nn::Linear<>&> half{run.net.hidden};
  optim::Adam few(half);
  CHECK(error_of<FileError>([&] { io::load_optimizer(few.state(), file); }) ==
        file + ": has 6 tensors that this optimizer does not have");
}

TEST_CASE("load_optimizer: loads the saved state of a parameter without elements") {
  Odd model;
  const TemporaryFolder folder;
  const std::string file = folder / "state.safetensors";
  optim::Adam adam(model, {.lr = 0.1});
  for (int step = 0; step < 3; ++step) {
    backward(sum(model.one.value()) + sum(model.empty.value()));
    adam.step();
  }
  io::save_optimizer(adam.state(), file);
  CHECK_NOTHROW(io::load_optimizer(adam.state(), file));
}

TEST_CASE("load_optimizer: refuses step counts and moment estimates that no update can produce") {
  Run run;
  run.step();
  const std::string file = run.folder / "state";
  const std::vector<float> fine(24, 0.5f);
  const auto bad = [](float value) {
    std::vector<float> values(24, 0.5f);
    values[7] = value;
    return values;
  };
  // Returns the error for this state of hidden.weight. The states of all other parameters are valid.
  const auto error = [&](auto& optimizer, std::int64_t steps, const std::vector<float>& first,
                         const std::vector<float>& second) {
    io::save_optimizer(optimizer.state(), file);
    const io::Safetensors saved = io::read_safetensors(file);
    std::vector<io::TensorBytes> tensors;
    std::deque<std::vector<std::byte>> bytes;  // alive until they are written
    for (const io::TensorInfo& tensor : saved.tensors())
      if (tensor.name.find("hidden.weight") == std::string::npos)
        tensors.push_back({tensor.name, tensor.dtype, tensor.shape, bytes.emplace_back(saved.bytes(tensor))});
    tensors.push_back({"steps.hidden.weight", io::DType::i64, {}, std::as_bytes(std::span(&steps, 1))});
    for (const auto& [name, values] : {std::pair{"first.", &first}, std::pair{"second.", &second}})
      if (!values->empty())
        tensors.push_back(
            {name + std::string("hidden.weight"), io::DType::f32, {8, 3}, std::as_bytes(std::span(*values))});
    io::write_safetensors(file, tensors, saved.metadata());
    const std::string why = error_of<FileError>([&] { io::load_optimizer(optimizer.state(), file); });
    return why.starts_with(file + ": ") ? why.substr(file.size() + 2) : why;
  };
  constexpr float nan = std::numeric_limits<float>::quiet_NaN(), infinite = std::numeric_limits<float>::infinity();
  constexpr std::int64_t most = std::numeric_limits<std::int64_t>::max();
  optim::Adam& adam = run.adam;
  const std::vector<float> none;
  CHECK(error(adam, -1, fine, fine) == "'steps.hidden.weight' is -1 but must be from 0 to 1000000000000");
  CHECK(error(adam, most, fine, fine).starts_with("'steps.hidden.weight' is 9223372036854775807 but must be"));
  CHECK(error(adam, 3, bad(nan), fine) == "'first.hidden.weight' holds nan but must be finite");
  CHECK(error(adam, 3, bad(-infinite), fine) == "'first.hidden.weight' holds -inf but must be finite");
  CHECK(error(adam, 3, fine, bad(nan)) == "'second.hidden.weight' holds nan but must be at least 0");
  CHECK(error(adam, 3, fine, bad(-1e-9f)) == "'second.hidden.weight' holds -1e-09 but must be at least 0");
  CHECK(error(adam, 3, fine, none) == "has no tensor 'second.hidden.weight' after 3 updates");
  CHECK(error(adam, 3, none, none) == "has no tensor 'first.hidden.weight' after 3 updates");
  CHECK(error(adam, 0, fine, fine) ==
        "'first.hidden.weight' exists, but Adam keeps no moment estimates after 0 updates");
  CHECK(error(adam, 0, none, none) == "no error");
  CHECK(error(adam, 3, bad(-1), bad(infinite)) == "no error");
  optim::Sgd sgd(run.net, {.momentum = 0.9});
  CHECK(error(sgd, 3, fine, fine) == "has 1 tensor that this optimizer does not have");
  CHECK(error(sgd, 0, fine, none) == "'first.hidden.weight' exists, but Sgd keeps no moment estimates after 0 updates");
  CHECK(error(sgd, 3, none, none) == "no error");
  CHECK(error(sgd, 3, fine, none) == "no error");
}
