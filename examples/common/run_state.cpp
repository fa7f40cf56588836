#include "run_state.hpp"

#include <filesystem>
#include <heddle/base/printable.hpp>
#include <heddle/io/checkpoint_manifest.hpp>
#include <nlohmann/json.hpp>

#include "metrics.hpp"

namespace heddle::examples {
namespace {

constexpr const char* none = "none";  // in place of a checksum where there is no file

std::string text_of(bool value) { return value ? "yes" : "no"; }
std::string text_of(double value) { return json_number(value); }
std::string text_of(const std::string& value) { return value; }
template <std::integral T>
std::string text_of(T value) {
  return std::to_string(value);
}

void require_same_flags(const nlohmann::json& saved, RunFlags& flags, const std::string& file) {
  std::string different;
  for (const auto& [name, value] : flags) {
    const auto found = saved.find(name);
    const std::string before = found != saved.end() && found->is_string() ? found->get<std::string>() : "not given";
    if (before == value) continue;
    const bool checksum = name == "--data" || name == "--vocab" || name == "--init";
    different += (different.empty() ? "" : "; ") + name +
                 (checksum && value == none ? " is missing"
                  : checksum                ? " does not hold what the run was started with"
                                            : " is " + value + ", the run has " + before);
  }
  require(different.empty(), file, ": --resume goes on with the run as it was started, but ", different);
  for (const auto& [name, value] : saved.items())
    if (value.is_string()) flags.emplace(name, value.get<std::string>());
}

}  // namespace

std::string real_path(const std::string& path) {
  if (path.empty()) return "";
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  return io::printable(error ? path : real.string(), std::string::npos);
}

RunFlags run_flags(const TrainerFlags& f, const ModelSizes& s) {
  RunFlags flags{{"--uncased", text_of(f.uncased)},
                 {"--batch-size", text_of(f.batch_size)},
                 {"--train-rows", text_of(f.train_rows)},
                 {"--valid-rows", text_of(f.valid_rows)},
                 {"--lr", text_of(f.lr)},
                 {"--momentum", text_of(f.momentum)},
                 {"--dropout", text_of(f.dropout)},
                 {"--optimizer", text_of(f.optimizer)},
                 {"--order", text_of(f.order)},
                 {"--device", text_of(f.device)},
                 {"--precision", text_of(f.precision)},
                 {"--seed", text_of(f.seed)},
                 {"--layers", text_of(s.layers)},
                 {"--d-model", text_of(s.d_model)},
                 {"--heads", text_of(s.heads)},
                 {"--head-dim", text_of(s.head_dim)},
                 {"--ff-width", text_of(s.ff_width)},
                 {"--max-length", text_of(s.max_length)}};
  std::error_code error;
  if (f.init.empty())
    flags["--init"] = none;
  else if (std::filesystem::is_regular_file(f.init, error))
    flags["--init"] = io::hex(io::sum_of_file(f.init).crc64);
  return flags;
}

std::string fingerprint(const data::LabelledSequences& rows) {
  io::Crc64 crc;
  for (Index row = 0; row < rows.count(); ++row) {
    const int label = rows.label(row);
    crc.add(std::as_bytes(rows.ids(row)));
    crc.add(std::as_bytes(std::span(&label, 1)));
  }
  return io::hex(crc.value());
}

nlohmann::json to_json(const RunState& s, const RunFlags& flags) {
  nlohmann::json json{{"step", s.step},
                      {"epoch", s.epoch},
                      {"batch", s.batch},
                      {"loss_sum", s.loss_sum},
                      {"rows", s.rows},
                      {"metrics", s.metrics},
                      {"metrics_bytes", s.written.bytes},
                      {"metrics_sum", s.written.sum},
                      {"flags", flags}};
  if (std::isfinite(s.best)) json["best"] = s.best;
  return json;
}

RunState read_state(const nlohmann::json& json, RunFlags& flags, const std::string& file) {
  const auto member = [&](const char* key) -> const nlohmann::json& {
    const auto found = json.is_object() ? json.find(key) : json.end();
    require<FileError>(json.is_object() && found != json.end(), file, ": has no '", key, "'");
    return *found;
  };
  const auto count = [&](const char* key) {
    const nlohmann::json& value = member(key);
    require<FileError>(value.is_number_integer() && value >= 0, file, ": '", key,
                       "' must be a whole number of at least 0");
    return value.get<Index>();
  };
  const auto number = [&](const char* key) {
    const nlohmann::json& value = member(key);
    require<FileError>(value.is_number(), file, ": '", key, "' must be a number");
    return value.get<double>();
  };
  require<FileError>(member("flags").is_object(), file, ": 'flags' must be an object");
  require_same_flags(member("flags"), flags, file);
  RunState s;
  s.step = count("step");
  s.epoch = count("epoch");
  s.batch = count("batch");
  s.rows = count("rows");
  s.written.bytes = count("metrics_bytes");
  s.loss_sum = number("loss_sum");
  const auto text = [&](const char* key) {
    require<FileError>(member(key).is_string(), file, ": '", key, "' must be a text");
    return member(key).get<std::string>();
  };
  s.metrics = text("metrics");
  s.written.sum = text("metrics_sum");
  if (json.contains("best")) s.best = number("best");
  return s;
}

}  // namespace heddle::examples
