// The state of a training run between two steps, and the settings that decide its result: the part of a checkpoint
// besides weights and moment estimates.
#pragma once
#include <cmath>
#include <limits>
#include <map>
#include <optional>
#include <string>

#include <heddle/base/printable.hpp>
#include <heddle/io/json_object.hpp>
#include <heddle/train/curve.hpp>
#include <heddle/train/early_stopping.hpp>
#include <heddle/train/metrics_file.hpp>
#include <heddle/train/tensorboard.hpp>

namespace heddle::train {

/// Sums over steps of training.
struct StepSums {
  double loss = 0;    ///< sum of the rows' losses
  Index correct = 0;  ///< rows whose class was predicted
  Index rows = 0;     ///< rows so far

  /// Adds a step with `count` rows.
  void add(double mean_loss, Index correct_rows, Index count) {
    loss += mean_loss * static_cast<double>(count);
    correct += correct_rows;
    rows += count;
  }
  /// Returns the mean loss of a row; 0 without rows.
  double mean_loss() const { return rows ? loss / static_cast<double>(rows) : 0; }
  /// Returns the share of rows that were predicted correctly; 0 without rows.
  double accuracy() const { return rows ? static_cast<double>(correct) / static_cast<double>(rows) : 0; }
};

/// The state of a run between two steps.
struct RunState {
  Index step = 0;                                         ///< updates so far
  Index epoch = 0;                                        ///< epoch of the next step
  Index batch = 0;                                        ///< batch of the next step
  StepSums epoch_sums;                                    ///< the steps of the epoch so far
  StepSums interval_sums;                                 ///< the steps since the last report to TensorBoard
  double best = std::numeric_limits<double>::infinity();  ///< the lowest validation loss so far
  std::string metrics;                                    ///< the path of the metrics file
  MetricsPosition metrics_position;                       ///< the end of the metrics file
  EventPosition events;                                   ///< the end of the event files
  std::map<std::string, Curve> curves;                    ///< for plots, by name
  nlohmann::json own;  ///< further state of the caller, such as that of EarlyStopping
};

/// The settings that decide the result of a run, such as flags, by name. A value that checksum() returned stands for
/// the content of a file; `no_file` stands for its absence.
using RunSettings = std::map<std::string, std::string>;
/// The setting of a file that was not given.
inline constexpr const char* no_file = "none";
/// Returns the setting that stands for a file of this CRC-64.
inline std::string checksum(std::uint64_t crc64) { return "crc64 " + io::hex(crc64); }

namespace detail {

// Returns a number as JSON. NaN and infinities become strings, because JSON has no such numbers.
inline nlohmann::json number_to_json(double value) {
  if (std::isfinite(value)) return value;
  return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
}
inline std::optional<double> number_from_json(const nlohmann::json& json) {
  if (json.is_number()) return json.get<double>();
  if (json == "nan") return std::numeric_limits<double>::quiet_NaN();
  if (json == "inf") return std::numeric_limits<double>::infinity();
  if (json == "-inf") return -std::numeric_limits<double>::infinity();
  return std::nullopt;
}

inline nlohmann::json to_json(const StepSums& p) {
  return {{"loss", number_to_json(p.loss)}, {"correct", p.correct}, {"rows", p.rows}};
}
inline nlohmann::json to_json(const Curve& curve) {
  nlohmann::json means = nlohmann::json::array();
  for (const double mean : curve.means()) means.push_back(number_to_json(mean));
  return {{"interval", curve.interval()},
          {"means", std::move(means)},
          {"pending_sum", number_to_json(curve.pending_sum())},
          {"pending_count", curve.pending_count()}};
}

inline void require_utf8(const char* what, const std::string& value) {
  require(text::is_utf8(value), "a run cannot be saved: ", what, ' ', io::quoted_name(value), " is not UTF-8");
}

inline io::JsonObject state_object(const nlohmann::json& json, const std::string& file) {
  return {json, file, "the state of a run"};
}
inline double read_number(const io::JsonObject& object, const char* key) {
  const auto value = number_from_json(object.at(key));
  if (!value)
    fail<FileError>(object.file(), ": '", key, "' is ", io::printable(object.at(key).dump(), 60),
                    " but must be a number");
  return *value;
}
inline StepSums read_sums(const io::JsonObject& object, const char* key) {
  const io::JsonObject sums = state_object(object.object(key), object.file());
  return {read_number(sums, "loss"), sums.count("correct"), sums.count("rows")};
}

inline void require_same_settings(const nlohmann::json& saved, RunSettings& settings, const std::string& file) {
  const auto is_checksum = [](const std::string& value) { return value.starts_with("crc64 "); };
  std::string different;
  for (const auto& [name, value] : settings) {
    const auto found = saved.find(name);
    const bool is_saved = found != saved.end() && found->is_string();
    const std::string before = is_saved ? found->get<std::string>() : "";
    if (is_saved && before == value) continue;
    different += (different.empty() ? "" : "; ") + name;
    if (!is_saved)
      different += (is_checksum(value) ? " is given" : " is " + value) + " and was not given before";
    else if (!is_checksum(before) && !is_checksum(value))
      different += " is " + value + " instead of " + before;
    else
      different += value == no_file ? " is not given" : " differs from what the run was started with";
  }
  require(different.empty(), file, ": a resumed run continues as it was started, but ", different);
  for (const auto& [name, value] : saved.items())
    if (value.is_string()) settings.emplace(name, value.get<std::string>());
}

inline Curve read_curve(const nlohmann::json& json, const std::string& file) {
  const io::JsonObject members = state_object(json, file);
  std::vector<double> means;
  for (const nlohmann::json& mean : members.array("means")) {
    const auto value = number_from_json(mean);
    if (!value)
      fail<FileError>(file, ": element ", means.size(), " of 'means' is ", io::printable(mean.dump(), 60),
                      " but must be a number");
    means.push_back(*value);
  }
  const Index interval = members.count("interval"), pending = members.count("pending_count");
  const double pending_sum = read_number(members, "pending_sum");
  try {
    return Curve(interval, std::move(means), pending_sum, pending);
  } catch (const Error& error) {
    fail<FileError>(file, ": 'curves': ", error.what());
  }
}

}  // namespace detail

/// Returns a run's state and settings as JSON, for Checkpoints::save. Numbers keep all their digits.
/// @throws Error for a text that is not UTF-8.
inline nlohmann::json to_json(const RunState& s, const RunSettings& settings) {
  detail::require_utf8("the metrics file", s.metrics);
  for (const auto& [name, value] : settings) {
    detail::require_utf8("the setting", name);
    detail::require_utf8("the setting", value);
  }
  nlohmann::json events = nlohmann::json::array(), curves = nlohmann::json::object();
  for (const auto& file : s.events.files) events.push_back({{"name", file.name}, {"bytes", file.bytes}});
  for (const auto& [name, curve] : s.curves) {
    detail::require_utf8("the curve", name);
    curves[name] = detail::to_json(curve);
  }
  nlohmann::json json{{"step", s.step},
                      {"epoch", s.epoch},
                      {"batch", s.batch},
                      {"of_epoch", detail::to_json(s.epoch_sums)},
                      {"of_interval", detail::to_json(s.interval_sums)},
                      {"metrics", s.metrics},
                      {"metrics_bytes", s.metrics_position.bytes},
                      {"metrics_sum", s.metrics_position.sum},
                      {"events", events},
                      {"curves", curves},
                      {"settings", settings}};
  if (s.best != RunState().best) json["best"] = detail::number_to_json(s.best);
  if (!s.own.is_null()) json["own"] = s.own;
  return json;
}

/// Reads the output of to_json(); error messages name `file` as the checkpoint. Settings that are absent from
/// `settings` are added from the checkpoint. @throws FileError for other JSON, and Error that names each setting that
/// differs.
inline RunState read_state(const nlohmann::json& json, RunSettings& settings, const std::string& file) {
  const io::JsonObject members = detail::state_object(json, file);
  detail::require_same_settings(members.object("settings"), settings, file);
  RunState s;
  s.step = members.count("step");
  s.epoch = members.count("epoch");
  s.batch = members.count("batch");
  s.epoch_sums = detail::read_sums(members, "of_epoch");
  s.interval_sums = detail::read_sums(members, "of_interval");
  s.metrics = members.text("metrics");
  s.metrics_position = {members.count("metrics_bytes"), members.text("metrics_sum")};
  for (const nlohmann::json& event : members.array("events")) {
    const io::JsonObject of_file = detail::state_object(event, file);
    s.events.files.push_back({of_file.text("name"), of_file.count("bytes")});
  }
  for (const auto& [name, curve] : members.object("curves").items()) s.curves[name] = detail::read_curve(curve, file);
  if (members.json().contains("best")) s.best = detail::read_number(members, "best");
  if (members.json().contains("own")) s.own = members.json()["own"];
  return s;
}

/// Writes the state of EarlyStopping as JSON, for RunState::own: `state.own = {{"stopping", stopping}}`.
inline void to_json(nlohmann::json& json, const EarlyStopping& stopping) {
  json = {{"best", detail::number_to_json(stopping.best())}, {"since_best", stopping.since_best()}};
}
/// Restores the state of EarlyStopping: `state.own.at("stopping").get_to(stopping)`. @throws Error for other JSON.
inline void from_json(const nlohmann::json& json, EarlyStopping& stopping) {
  const auto best = json.contains("best") ? detail::number_from_json(json["best"]) : std::nullopt;
  require(best && json.contains("since_best") && json["since_best"].is_number_integer(),
          "EarlyStopping: not the state of one: ", json.dump());
  stopping.restore(*best, json["since_best"].get<Index>());
}

}  // namespace heddle::train
