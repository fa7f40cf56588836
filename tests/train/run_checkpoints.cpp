#include <heddle/heddle.hpp>
#include <heddle/train/early_stopping.hpp>
#include <heddle/train/run_checkpoints.hpp>

#include "catch.hpp"
#include "harness/compare.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using train::EarlyStopping;
using train::RunCheckpoints;
using train::RunFailed;
using train::RunSettings;
using train::RunState;

namespace {

// A model that is trained with checkpoints in a folder. A new object on the same folder stands for the run
// after a kill.
struct SmallRun {
  std::vector<std::string> notes;
  Random random{1};
  nn::Linear<> model{3, 2, random};
  optim::Adam adam{model, {.lr = 0.1}};
  RunState state;
  RunCheckpoints<nn::Linear<>> checkpoints;

  explicit SmallRun(const TemporaryFolder& folder, RunSettings settings = {{"--lr", "0.1"}})
      : checkpoints(folder.path(), model, adam.state(), std::move(settings),
                    [this](const std::string& sentence) { notes.push_back(sentence); }) {}

  void train_to(Index last, double factor = 1) {
    while (state.step < last) {
      Random noise(2, static_cast<std::uint64_t>(state.step));
      const Tensor<float> loss = cross_entropy(model(randn<float>({4, 3}, noise)), Tensor<int>({4}, {0, 1, 0, 1}));
      backward(loss);
      adam.step(factor);
      ++state.step;
      state.epoch_sums.add(loss.item(), 0, 4);
      state.curves["training"].add(loss.item());
    }
  }
  void train_and_save(Index last) {
    train_to(last);
    checkpoints.save(state);
  }
  bool resume() {
    const auto found = checkpoints.find();
    if (!found) return false;
    state = *found;
    checkpoints.restore(state);
    return true;
  }
  void set_weight(float value) {
    std::vector<float> values = model.weight.value().host();
    values[4] = value;
    model.weight.assign(Tensor<float>(model.weight.shape(), values));
  }
  std::vector<float> weights() const { return model.weight.value().host(); }
  // Returns the weights, moment estimates and numbers of steps.
  std::vector<float> everything() {
    std::vector<float> all;
    const auto append = [&](const std::vector<float>& values) { all.insert(all.end(), values.begin(), values.end()); };
    adam.state().each([&](const auto& slot) {
      const auto& value = slot.parameter->value();
      if constexpr (std::is_same_v<decltype(value.host()), std::vector<float>>) {
        append(value.host());
        for (const auto& moment : slot.moments)
          if (moment) append(moment.host());
        append({static_cast<float>(slot.steps)});
      }
    });
    return all;
  }
};

std::vector<float> weights_in(const std::string& path) {
  Random random(9);
  nn::Linear<> model(3, 2, random);
  io::load(model, path);
  return model.weight.value().host();
}

ino_t inode(const std::string& path) {
  struct stat status {};
  REQUIRE(::stat(path.c_str(), &status) == 0);
  return status.st_ino;
}

std::string checkpoint_file(const TemporaryFolder& folder, const std::string& step, const std::string& file) {
  return folder / ("checkpoint/" + std::string(12 - step.size(), '0') + step + '/' + file);
}

}  // namespace

TEST_CASE("RunCheckpoints: a run is resumed bit for bit") {
  const TemporaryFolder folder, other;
  SmallRun whole(other);
  whole.train_to(6);
  {
    SmallRun killed(folder);
    CHECK_FALSE(killed.checkpoints.find());
    killed.train_and_save(3);
    killed.train_to(5);  // these steps are lost
  }
  SmallRun resumed(folder);
  const std::vector<float> before = resumed.everything();
  const auto found = resumed.checkpoints.find();
  REQUIRE(found);
  CHECK(found->step == 3);
  CHECK(same_bits(resumed.everything(), before));  // finding changes nothing
  resumed.state = *found;
  resumed.checkpoints.restore(resumed.state);
  resumed.train_to(6);
  CHECK(resumed.everything().size() == 3 * 8 + 2);
  CHECK(same_bits(resumed.everything(), whole.everything()));
  CHECK(resumed.state.curves["training"].means() == whole.state.curves["training"].means());
  CHECK(resumed.state.epoch_sums.loss == whole.state.epoch_sums.loss);
  CHECK(resumed.notes.empty());
}

TEST_CASE("RunCheckpoints: publish writes the best and the last weights") {
  const TemporaryFolder folder;
  const std::string best = folder / "model.safetensors", last = folder / "last.safetensors";
  SmallRun run(folder);
  run.train_to(1);
  run.checkpoints.publish(1, true);
  const std::vector<float> first = run.weights();
  CHECK(weights_in(best) == first);
  CHECK(weights_in(last) == first);
  CHECK(inode(best) == inode(last));  // written once
  run.train_to(2);
  run.checkpoints.publish(2, false);
  CHECK(weights_in(best) == first);
  CHECK(weights_in(last) == run.weights());
  run.train_to(3);
  run.checkpoints.publish(3, true);
  CHECK(weights_in(best) == run.weights());
  CHECK(inode(best) == inode(last));

  run.state.best = 0.5;
  run.checkpoints.save(run.state);
  for (const char* name : {"model.safetensors", "best.safetensors"})
    CHECK(inode(checkpoint_file(folder, "3", name)) == inode(best));
  run.train_and_save(4);  // best weights of an earlier step are copied
  CHECK(get(checkpoint_file(folder, "4", "best.safetensors")) == get(best));
  CHECK(inode(checkpoint_file(folder, "4", "best.safetensors")) != inode(best));
  CHECK(weights_in(checkpoint_file(folder, "4", "model.safetensors")) == run.weights());
}

TEST_CASE("RunCheckpoints: the best weights are restored with a checkpoint") {
  const TemporaryFolder folder;
  const std::string best = folder / "model.safetensors";
  std::vector<float> first;
  {
    SmallRun run(folder);
    run.train_to(1);
    run.state.best = 0.5;
    run.checkpoints.publish(1, true);
    first = run.weights();
    run.train_and_save(2);
    run.train_to(3);
    run.checkpoints.publish(3, true);  // better weights, which are not in the checkpoint
  }
  CHECK(weights_in(best) != first);
  SmallRun run(folder);
  REQUIRE(run.resume());
  CHECK(run.state.best == 0.5);
  CHECK(weights_in(best) == first);
  CHECK(run.weights() != first);
  run.train_and_save(3);
  CHECK(weights_in(checkpoint_file(folder, "3", "best.safetensors")) == first);
}

TEST_CASE("RunCheckpoints: steps that are repeated after a restore are written again") {
  const TemporaryFolder folder;
  SmallRun run(folder);
  run.train_to(1);
  run.state.best = 0.5;
  run.checkpoints.publish(1, true);
  run.checkpoints.save(run.state);
  const std::vector<float> first = run.weights();
  run.train_to(2);
  run.state.best = 0.25;
  run.checkpoints.publish(2, true);
  const std::vector<float> before = run.weights();
  REQUIRE(run.resume());
  run.train_to(2, 0.25);
  REQUIRE(run.weights() != before);
  run.checkpoints.publish(2, false);
  CHECK(weights_in(folder / "last.safetensors") == run.weights());
  run.checkpoints.save(run.state);
  CHECK(weights_in(checkpoint_file(folder, "2", "model.safetensors")) == run.weights());
  CHECK(weights_in(checkpoint_file(folder, "2", "best.safetensors")) == first);
}

TEST_CASE("RunCheckpoints: the same state is saved once") {
  const TemporaryFolder folder;
  SmallRun run(folder);
  run.train_and_save(1);
  const ino_t first = inode(checkpoint_file(folder, "1", "manifest.json"));
  run.checkpoints.save(run.state);
  CHECK(inode(checkpoint_file(folder, "1", "manifest.json")) == first);
  run.state.epoch = 1;  // the end of the epoch, after its validation
  run.checkpoints.save(run.state);
  SmallRun again(folder);
  REQUIRE(again.resume());
  CHECK(again.state.epoch == 1);
  const ino_t second = inode(checkpoint_file(folder, "1", "manifest.json"));
  again.checkpoints.save(again.state);
  CHECK(inode(checkpoint_file(folder, "1", "manifest.json")) == second);
}

TEST_CASE("RunCheckpoints: what changes after the last save of a step is saved when the run finishes") {
  const TemporaryFolder folder;
  SmallRun run(folder);
  run.train_to(4);
  run.state.own = {{"loss", 1}};
  run.checkpoints.save(run.state);
  run.state.own = {{"final", 7}};
  run.state.best = 0.5;
  run.checkpoints.publish(4, true);
  run.checkpoints.finish(run.state);
  SmallRun again(folder);
  const auto found = again.checkpoints.find();
  REQUIRE(found);
  CHECK(again.checkpoints.finished(*found));
  CHECK(found->own == nlohmann::json{{"final", 7}});
  CHECK(found->best == 0.5);
  CHECK(weights_in(checkpoint_file(folder, "4", "best.safetensors")) == run.weights());
}

TEST_CASE("RunCheckpoints: weights that change without a new step are saved with the state that goes with them") {
  const TemporaryFolder folder;
  SmallRun run(folder);
  run.train_and_save(1);
  run.train_to(2);
  run.state.step = 1;
  run.state.own = {{"again", true}};
  run.checkpoints.save(run.state);
  CHECK(weights_in(checkpoint_file(folder, "1", "model.safetensors")) == run.weights());
}

TEST_CASE("RunCheckpoints: a best score without best weights of this run is an error, and nothing is saved") {
  const char* const message =
      "RunCheckpoints: state.best is 0.1, but no publish(step, true) has written the best weights";
  const TemporaryFolder folder;
  {
    SmallRun earlier(folder);
    earlier.train_to(1);
    earlier.checkpoints.publish(1, true);
    earlier.checkpoints.save(earlier.state);  // its best score is not finite, so it has no best weights
  }
  SmallRun run(folder);
  REQUIRE(run.resume());
  run.train_to(2);
  run.state.best = 0.1;
  CHECK(error_of<Error>([&] { run.checkpoints.save(run.state); }) == message);
  CHECK_FALSE(std::filesystem::exists(checkpoint_file(folder, "2", "manifest.json")));
  run.checkpoints.publish(2, true);
  run.checkpoints.save(run.state);
  CHECK(weights_in(checkpoint_file(folder, "2", "best.safetensors")) == run.weights());
}

TEST_CASE("RunCheckpoints: moment estimates that could not be restored are not saved") {
  const TemporaryFolder folder;
  SmallRun run(folder);
  run.train_and_save(1);
  run.train_to(2);
  std::string name;
  run.adam.state().each([&](auto& slot) {
    if (!name.empty() || !slot.moments[0]) return;
    name = slot.name;
    slot.moments[0].data()[0] = std::nanf("");
  });
  REQUIRE_FALSE(name.empty());
  const std::string error = error_of<Error>([&] { run.checkpoints.save(run.state); });
  CHECK(error.find(name) != std::string::npos);
  CHECK(error.find("but must be finite") != std::string::npos);
  CHECK_FALSE(std::filesystem::exists(checkpoint_file(folder, "2", "manifest.json")));
  SmallRun again(folder);
  CHECK(again.resume());
}

TEST_CASE("RunCheckpoints: weights that are not finite are named and never saved") {
  for (const float bad : {std::nanf(""), std::numeric_limits<float>::infinity()}) {
    const TemporaryFolder folder;
    SmallRun run(folder);
    run.train_to(1);
    run.checkpoints.publish(1, true);
    run.checkpoints.save(run.state);
    const std::string weights = get(folder / "model.safetensors");
    run.train_to(2);
    run.set_weight(bad);
    CHECK(error_of<RunFailed>([&] { run.checkpoints.publish(2, true); }) ==
          "nothing was saved after step 2: the weight 'weight' holds a value that is not finite");
    CHECK(error_of<RunFailed>([&] { run.checkpoints.save(run.state); }) ==
          "step 2, nothing was saved since the previous checkpoint: the weight 'weight' holds a value that is not "
          "finite");
    CHECK(get(folder / "model.safetensors") == weights);
    CHECK(get(folder / "last.safetensors") == weights);
    CHECK(folder.names() == std::set<std::string>{"checkpoint", "last.safetensors", "model.safetensors"});
    SmallRun again(folder);
    REQUIRE(again.resume());
    CHECK(again.state.step == 1);
  }
}

TEST_CASE("RunCheckpoints: a damaged checkpoint is noted, and the one before it is taken") {
  const TemporaryFolder folder;
  std::vector<float> first;
  {
    SmallRun run(folder);
    run.train_and_save(1);
    first = run.everything();
    run.train_and_save(2);
  }
  const std::string file = checkpoint_file(folder, "2", "optimizer.safetensors");
  std::string bytes = get(file);
  bytes[bytes.size() - 1] ^= 1;
  put(file, bytes);
  SmallRun run(folder);
  REQUIRE(run.resume());
  CHECK(run.state.step == 1);
  CHECK(same_bits(run.everything(), first));
  CHECK(run.notes == std::vector<std::string>{file + ": is damaged: its checksum is wrong; the checkpoint is skipped"});
  run.train_and_save(2);  // replaces the damaged checkpoint
  SmallRun again(folder);
  REQUIRE(again.resume());
  CHECK(again.state.step == 2);
  CHECK(same_bits(again.everything(), run.everything()));

  put(file, bytes);
  put(checkpoint_file(folder, "1", "manifest.json"), "");
  CHECK_THROWS_AS(SmallRun(folder).checkpoints.find(), FileError);
}

TEST_CASE("RunCheckpoints: a finished run is no longer finished once it continues") {
  const TemporaryFolder folder;
  SmallRun run(folder);
  run.train_and_save(2);
  CHECK_FALSE(run.checkpoints.finished(run.state));
  run.checkpoints.finish(run.state);
  CHECK(run.checkpoints.finished(run.state));
  SmallRun again(folder);
  const auto found = again.checkpoints.find();
  REQUIRE(found);
  CHECK(again.checkpoints.finished(*found));
  CHECK_FALSE(again.checkpoints.finished(RunState()));
  again.state = *found;
  again.checkpoints.restore(again.state);
  CHECK_FALSE(again.checkpoints.finished(again.state));
}

TEST_CASE("RunCheckpoints: a run that was started with other settings is refused, and nothing is changed") {
  const TemporaryFolder folder;
  {
    SmallRun run(folder);
    run.train_and_save(1);
  }
  SmallRun run(folder, {{"--lr", "0.2"}, {"--seed", "1"}});
  const std::vector<float> before = run.everything();
  CHECK(error_of<Error>([&] { run.checkpoints.find(); }) ==
        folder /
            "checkpoint/000000000001: a resumed run continues as it was started, but --lr is 0.2 instead of "
            "0.1; --seed is 1 and was not given before");
  CHECK(same_bits(run.everything(), before));
  SmallRun same(folder, {});  // takes over the settings of the run
  REQUIRE(same.resume());
  same.train_and_save(2);
  CHECK(error_of<Error>([&] { run.checkpoints.find(); }).find("--lr is 0.2 instead of 0.1") != std::string::npos);
}

TEST_CASE("RunCheckpoints: if the best weights are missing, the run fails and keeps the previous checkpoint") {
  const TemporaryFolder folder;
  SmallRun run(folder);
  run.train_to(1);
  run.state.best = 0.5;
  run.checkpoints.publish(1, true);
  run.checkpoints.save(run.state);
  run.train_to(2);
  std::filesystem::remove(folder / "model.safetensors");
  CHECK(error_of<RunFailed>([&] { run.checkpoints.save(run.state); }) ==
        folder /
            "model.safetensors: cannot be opened: No such file or directory; the run had its best weights there, "
            "and the previous checkpoint is intact");
  SmallRun again(folder);
  REQUIRE(again.resume());
  CHECK(again.state.step == 1);
  CHECK(weights_in(folder / "model.safetensors") == again.weights());
}

TEST_CASE("RunCheckpoints: removes what a killed run left half-written") {
  const TemporaryFolder folder;
  std::filesystem::create_directories(folder / "checkpoint/000000000007.tmp");
  put(folder / "checkpoint/000000000007.tmp/model.safetensors", "half");
  const std::string mine = folder / "mine.123-1.tmp";
  for (const std::string& file : {folder / "last.safetensors.123-1.tmp", folder / "model.safetensors.9-2.tmp", mine})
    put(file, "half");
  SmallRun run(folder);
  CHECK_FALSE(std::filesystem::exists(folder / "last.safetensors.123-1.tmp"));
  CHECK_FALSE(std::filesystem::exists(folder / "model.safetensors.9-2.tmp"));
  CHECK(std::filesystem::exists(mine));
  CHECK_FALSE(std::filesystem::exists(folder / "checkpoint/000000000007.tmp"));
  CHECK_FALSE(run.resume());
  CHECK_THROWS_AS(run.checkpoints.restore(RunState()), Error);
}

TEST_CASE("RunCheckpoints: a run that was never saved is saved when it finishes") {
  const TemporaryFolder folder;
  SmallRun run(folder);
  run.train_to(2);
  run.checkpoints.finish(run.state);
  SmallRun again(folder);
  const auto found = again.checkpoints.find();
  REQUIRE(found);
  CHECK(found->step == run.state.step);
  CHECK(again.checkpoints.finished(*found));
}

TEST_CASE("RunCheckpoints: the state of EarlyStopping, before its first improvement too, and text that is no UTF-8") {
  const TemporaryFolder folder;
  SmallRun run(folder);
  run.train_to(1);
  EarlyStopping stopping({.patience = 5});
  for (const double value : {quiet_nan<double>, 0.5, 0.7}) {
    stopping.add(value);
    ++run.state.step;
    run.state.own = {{"stopping", stopping}};
    run.checkpoints.save(run.state);
    SmallRun again(folder);
    const auto found = again.checkpoints.find();
    REQUIRE(found);
    EarlyStopping restored({.patience = 5});
    found->own.at("stopping").get_to(restored);
    CHECK(restored.best() == stopping.best());
    CHECK(restored.since_best() == stopping.since_best());
    CHECK(error_of<Error>([&] { found->own.get_to(restored); }).starts_with("EarlyStopping: not the state of one: "));
  }
  ++run.state.step;
  run.state.own = "\xFF";
  CHECK(error_of<Error>([&] {
          run.checkpoints.save(run.state);
        }).starts_with("RunCheckpoints: RunState::own cannot be saved: "));
  run.state.own = {{"losses", {0.5, std::nan("")}}};
  CHECK(error_of<Error>([&] { run.checkpoints.save(run.state); }) ==
        "RunCheckpoints: RunState::own holds a number that is not finite, which JSON cannot express; save it as text");
}

TEST_CASE("RunCheckpoints: further weights and state of the caller") {
  const TemporaryFolder folder;
  Random other(9);
  {
    SmallRun run(folder);
    nn::Linear<> average = clone(run.model);
    run.checkpoints.add_weights("average", average);
    run.train_to(3);
    run.state.own = {{"best", 0.5}, {"names", {"a", "b"}}};
    run.checkpoints.save(run.state);
  }
  SmallRun again(folder);
  const std::vector<float> initial = again.weights();
  nn::Linear<> average(3, 2, other);
  again.checkpoints.add_weights("average", average);
  REQUIRE(again.resume());
  CHECK(average.weight.host() == initial);
  CHECK(again.weights() != initial);
  CHECK(again.state.own.at("best") == 0.5);
  CHECK(again.state.own.at("names").at(1) == "b");
  for (const char* name : {"", "a/b", "model", "optimizer", "best", "average"})
    CHECK(error_of<Error>([&] { again.checkpoints.add_weights(name, average); }).starts_with("RunCheckpoints: "));
  CHECK(error_of<Error>([&] { again.checkpoints.add_weights("late", average); }).find("were added after restore()") !=
        std::string::npos);
  SmallRun forgetful(folder);
  REQUIRE(forgetful.checkpoints.find());
  CHECK(error_of<Error>([&] {
          forgetful.checkpoints.restore(again.state);
        }).ends_with(": holds average.safetensors, which would be lost; call add_weights() before find()"));
  SmallRun more(folder);
  more.checkpoints.add_weights("teacher", average);
  REQUIRE(more.checkpoints.find());
  CHECK(error_of<FileError>([&] {
          more.checkpoints.restore(again.state);
        }).ends_with("has no teacher.safetensors; the run was started without these weights"));
  average.weight.assign(Tensor<float>({2, 3}, {1, 2, infinity<float>, 4, 5, 6}));
  ++again.state.step;
  CHECK(error_of<RunFailed>([&] {
          again.checkpoints.save(again.state);
        }).find("average: the weight 'weight' holds a value that is not finite") != std::string::npos);
}
