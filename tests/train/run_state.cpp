#include <heddle/io/checkpoint_manifest.hpp>
#include <heddle/train/run_state.hpp>

#include <algorithm>
#include <cstring>

#include "catch.hpp"
#include "io/files.hpp"

using namespace heddle;
using namespace heddle::testing;
using train::Curve;
using train::RunSettings;
using train::RunState;

namespace {

const RunSettings some_settings{{"--lr", "0.1"}, {"--data", train::checksum(0x1234)}, {"--init", train::no_file}};

Curve awkward_curve(Index steps) {
  Curve curve;
  for (Index step = 1; step <= steps; ++step) curve.add(-1e-9 / (static_cast<double>(step) + 1. / 3));
  return curve;
}

RunState some_state() {
  RunState s;
  s.step = 1234567890123;
  s.epoch = 3;
  s.batch = 17;
  s.epoch_sums = {1. / 3, 5, 9};
  s.interval_sums = {-0.1 - 0.2, 1, 2};
  s.best = 5e-324;
  s.metrics = "/runs/\u00E4/m.jsonl";
  s.metrics_position = {4321, "0123456789abcdef"};
  s.events.files = {{"events.out.tfevents.1600000000.host.1.0.heddle", 88},
                    {"events.out.tfevents.1600000001.host.1.0.heddle", 0}};
  s.curves["training"] = awkward_curve(1500);
  s.curves["validation"] = awkward_curve(3);
  s.curves[""] = Curve();
  return s;
}

bool same_number(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }
bool same_sums(const train::StepSums& a, const train::StepSums& b) {
  return same_number(a.loss, b.loss) && a.correct == b.correct && a.rows == b.rows;
}
bool same_state(const RunState& a, const RunState& b) {
  bool same = a.step == b.step && a.epoch == b.epoch && a.batch == b.batch && same_sums(a.epoch_sums, b.epoch_sums) &&
              same_sums(a.interval_sums, b.interval_sums) && same_number(a.best, b.best) && a.metrics == b.metrics &&
              a.metrics_position.bytes == b.metrics_position.bytes &&
              a.metrics_position.sum == b.metrics_position.sum && a.events == b.events &&
              a.curves.size() == b.curves.size();
  for (auto at = a.curves.begin(), of_b = b.curves.begin(); same && at != a.curves.end(); ++at, ++of_b) {
    const Curve &c = at->second, &d = of_b->second;
    same = at->first == of_b->first && c.interval() == d.interval() && c.pending_count() == d.pending_count() &&
           same_number(c.pending_sum(), d.pending_sum()) &&
           std::equal(c.means().begin(), c.means().end(), d.means().begin(), d.means().end(), same_number);
  }
  return same;
}

// Reads a state as a checkpoint does: from text.
RunState read_back(const nlohmann::json& json, RunSettings settings = some_settings) {
  return train::read_state(nlohmann::json::parse(json.dump()), settings, "FILE");
}

}  // namespace

TEST_CASE("RunState: is read back bit for bit") {
  const RunState state = some_state();
  CHECK(same_state(read_back(to_json(state, some_settings)), state));
  CHECK(same_state(read_back(to_json(RunState(), {}), {}), RunState()));
  RunSettings settings = some_settings;
  train::read_state(to_json(state, some_settings), settings, "FILE");
  CHECK(settings == some_settings);
}

TEST_CASE("RunState: numbers that are not finite are read back too") {
  constexpr double infinite = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  for (const double value : {infinite, -infinite, nan}) {
    CAPTURE(value);
    RunState state = some_state();
    state.best = value;
    state.epoch_sums.loss = value;
    state.interval_sums.loss = value;
    state.curves["training"] = Curve(2, std::vector<double>(300, value), value, 1);
    CHECK(same_state(read_back(to_json(state, some_settings)), state));
  }
}

TEST_CASE("RunState: a member that is missing or of another type is an error that names the file and the member") {
  const nlohmann::json whole = nlohmann::json::parse(to_json(some_state(), some_settings).dump());
  const auto error = [](const nlohmann::json& json) { return error_of([&] { read_back(json); }); };
  for (const auto& [key, value] : whole.items()) {
    CAPTURE(key);
    nlohmann::json json = whole;
    json.erase(key);
    if (key == "best")
      CHECK(same_number(read_back(json).best, std::numeric_limits<double>::infinity()));
    else
      CHECK(error(json) == "FILE: has no '" + key + "'");
    for (const nlohmann::json& wrong : {nlohmann::json(true), nlohmann::json(nullptr)}) {
      json[key] = wrong;
      CHECK(error(json).starts_with("FILE: '" + key + "' is " + wrong.dump() + " but must be a"));
    }
  }
  for (const char* key : {"step", "epoch", "batch", "metrics_bytes"})
    for (const nlohmann::json& wrong :
         {nlohmann::json(-1), nlohmann::json(1.5), nlohmann::json("1"), nlohmann::json(~std::uint64_t{0})}) {
      nlohmann::json json = whole;
      json[key] = wrong;
      CHECK(error(json) ==
            std::string("FILE: '") + key + "' is " + wrong.dump() + " but must be a whole number of at least 0");
    }
  for (const char* key : {"of_epoch", "of_interval"}) {
    for (const char* member : {"loss", "correct", "rows"}) {
      nlohmann::json json = whole;
      json[key].erase(member);
      CHECK(error(json) == std::string("FILE: has no '") + member + "'");
      json[key][member] = "many";
      CHECK(error(json).starts_with(std::string("FILE: '") + member + "' is \"many\" but must be a"));
    }
  }
  for (const char* member : {"name", "bytes"}) {
    nlohmann::json json = whole;
    json["events"][1].erase(member);
    CHECK(error(json) == std::string("FILE: has no '") + member + "'");
    json["events"][1][member] = false;
    CHECK(error(json).starts_with(std::string("FILE: '") + member + "' is false but must be a"));
    json["events"][1] = 3;
    CHECK(error(json) == "FILE: the state of a run must be a JSON object");
  }
  for (const char* member : {"interval", "means", "pending_sum", "pending_count"}) {
    nlohmann::json json = whole;
    json["curves"]["training"].erase(member);
    CHECK(error(json) == std::string("FILE: has no '") + member + "'");
    json["curves"]["training"][member] = "text";
    CHECK(error(json).starts_with(std::string("FILE: '") + member + "' is \"text\" but must be a"));
  }
  nlohmann::json json = whole;
  json["curves"]["training"]["means"][7] = "text";
  CHECK(error(json) == R"(FILE: element 7 of 'means' is "text" but must be a number)");
  json = whole;
  json["curves"]["training"]["interval"] = 0;
  CHECK(error(json).starts_with("FILE: 'curves': Curve: an interval of 0 with "));
  for (const nlohmann::json& none : {nlohmann::json(), nlohmann::json::array(), nlohmann::json(1)})
    CHECK(error(none) == "FILE: the state of a run must be a JSON object");
}

TEST_CASE("RunState: settings that differ are all named") {
  const nlohmann::json json =
      to_json(RunState(), {{"--lr", "0.1"}, {"--seed", "1"}, {"--data", train::checksum(1)}, {"--epochs", "5"}});
  const auto error = [&](RunSettings settings) {
    return error_of<Error>([&] { train::read_state(json, settings, "FILE"); });
  };
  const std::string start = "FILE: a resumed run continues as it was started, but ";
  CHECK(error({{"--lr", "0.2"}, {"--seed", "1"}}) == start + "--lr is 0.2 instead of 0.1");
  CHECK(error({{"--lr", "0.2"}, {"--seed", "2"}, {"--warmup", "3"}}) ==
        start + "--lr is 0.2 instead of 0.1; --seed is 2 instead of 1; --warmup is 3 and was not given before");
}

TEST_CASE("RunState: checksums stand for files, and are not shown") {
  const auto error = [](const std::string& saved, const std::string& value) {
    RunSettings settings{{"--vocab", value}};
    return error_of<Error>([&] { train::read_state(to_json(RunState(), {{"--vocab", saved}}), settings, "FILE"); });
  };
  const std::string one = train::checksum(1), two = train::checksum(2), none = train::no_file,
                    start = "FILE: a resumed run continues as it was started, but --vocab";
  CHECK(one == "crc64 0000000000000001");
  CHECK(error(one, one) == "no error");
  CHECK(error(none, none) == "no error");
  CHECK(error(one, two) == start + " differs from what the run was started with");
  CHECK(error(one, none) == start + " is not given");
  CHECK(error(none, two) == start + " differs from what the run was started with");
  RunSettings added{{"--vocab", two}};
  CHECK(error_of<Error>([&] { train::read_state(to_json(RunState(), {}), added, "FILE"); }) ==
        start + " is given and was not given before");
}

TEST_CASE("RunState: settings that are absent are taken over") {
  const nlohmann::json json = to_json(RunState(), {{"--lr", "0.1"}, {"--seed", "1"}, {"--data", train::checksum(1)}});
  RunSettings settings{{"--seed", "1"}};
  train::read_state(json, settings, "FILE");
  CHECK(settings == RunSettings{{"--lr", "0.1"}, {"--seed", "1"}, {"--data", train::checksum(1)}});
}

TEST_CASE("RunState: a text that is not UTF-8 is refused where it is saved") {
  RunState state;
  CHECK(error_of<Error>([&] {
          to_json(state, {{"--labels", "\xFF"}});
        }) == "a run cannot be saved: the setting '\\xff' is not UTF-8");
  CHECK_THROWS_AS(to_json(state, {{"\xFF", ""}}), Error);
  state.curves["\xFF"];
  CHECK_THROWS_AS(to_json(state, {}), Error);
  state.curves.clear();
  state.metrics = "\xC3";
  CHECK(error_of<Error>([&] { to_json(state, {}); }) == "a run cannot be saved: the metrics file '\\xc3' is not UTF-8");
}

TEST_CASE("RunState: two full curves and a hundred event files fit into a manifest") {
  RunState state = some_state();
  state.curves.clear();
  state.curves["training"] = awkward_curve(2 * Curve::limit - 1);  // 511 points of 17 digits
  state.curves["validation"] = awkward_curve(Curve::limit - 1);
  state.events.files.clear();
  for (int i = 0; i < 100; ++i)
    state.events.files.push_back(
        {"events.out.tfevents." + std::to_string(1600000000 + i) + ".computer.1234567.0.heddle", 1'000'000'000});
  REQUIRE(state.curves["training"].means().size() == 511);
  const std::string text = to_json(state, some_settings).dump();
  CAPTURE(text.size());
  CHECK(text.size() < io::detail::manifest_limit * 3 / 5);
  const std::string manifest = io::write_manifest(1, {}, text, "FILE");
  CHECK(same_state(read_back(nlohmann::json::parse(io::read_manifest(manifest, "FILE").state)), state));
}

TEST_CASE("StepSums: mean loss and accuracy weigh batches by their rows") {
  train::StepSums sums;
  CHECK(sums.mean_loss() == 0);
  CHECK(sums.accuracy() == 0);
  sums.add(1, 2, 3);
  sums.add(5, 1, 1);
  CHECK(sums.rows == 4);
  CHECK(sums.mean_loss() == 2);
  CHECK(sums.accuracy() == 0.75);
}
