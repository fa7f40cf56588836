#include "run_settings.hpp"

#include <filesystem>
#include <heddle/base/printable.hpp>
#include <heddle/io/file_sum.hpp>
#include <heddle/io/weight_files.hpp>

namespace heddle::examples {
namespace {

std::string text_of(bool value) { return value ? "yes" : "no"; }
std::string text_of(double value) { return train::json_number(value); }
std::string text_of(const std::string& value) { return value; }
template <std::integral T>
std::string text_of(T value) {
  return std::to_string(value);
}

// Returns how a step computes its gradients: the batch size, and what else decides the order of the additions. It is
// one setting, so that a checkpoint of a run without the flags below can be compared with any other.
std::string batch_text(const TrainerFlags& f) {
  std::string further;
  if (f.shards > 1) further += " --shards " + text_of(f.shards);
  if (f.accumulate > 1) further += " --accumulate " + text_of(f.accumulate);
  if (f.reduction != "exact") further += " --reduction " + f.reduction;
  return text_of(f.batch_size) + (further.empty() ? "" : " with" + further);
}

}  // namespace

std::string real_path(const std::string& path) {
  if (path.empty()) return "";
  std::error_code error;
  const std::filesystem::path real = std::filesystem::weakly_canonical(std::filesystem::absolute(path, error), error);
  return io::printable(error ? path : real.string(), std::string::npos);
}

train::RunSettings run_settings(const TrainerFlags& f, const ModelSizes& s) {
  train::RunSettings settings{{"--uncased", text_of(f.uncased)},
                              {"--batch-size", batch_text(f)},
                              {"--train-rows", text_of(f.train_rows)},
                              {"--valid-rows", text_of(f.valid_rows)},
                              {"--lr", text_of(f.lr)},
                              {"--momentum", text_of(f.momentum)},
                              {"--weight-decay", f.weight_decay ? text_of(*f.weight_decay) : "the optimizer's"},
                              {"--clip", text_of(f.clip)},
                              {"--schedule", text_of(f.schedule)},
                              {"--warmup", text_of(f.warmup)},
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
  if (f.device == "cuda") settings["--graph"] = text_of(f.graph);
  if (f.schedule == "step") {
    settings["--gamma"] = text_of(f.gamma);
    settings["--gamma-every"] = text_of(f.gamma_every);
  } else if (f.schedule != "constant") {
    settings["--epochs"] = text_of(f.epochs);
    settings["--steps"] = text_of(f.steps);
  }
  std::error_code error;
  if (f.init.empty())
    settings["--init"] = train::no_file;
  else if (std::filesystem::is_regular_file(f.init, error))
    settings["--init"] = train::checksum(io::sum_of_file(f.init).crc64);
  return settings;
}

namespace {

void add_source(io::Crc64& crc, const data::LabelledSequences& rows) {
  for (Index row = 0; row < rows.count(); ++row) {
    const int label = rows.label(row);
    crc.add(std::as_bytes(rows.ids(row)));
    crc.add(std::as_bytes(std::span(&label, 1)));
  }
}
void add_source(io::Crc64& crc, const data::TokenFile& file, const data::TokenFileRows& rows) {
  crc.add("token file " + io::hex(file.checksum()) + ' ' + text_of(rows.first) + ' ' + text_of(rows.last) + ' ' +
          text_of(rows.max_length) + ' ' + text_of(rows.padded_to) + '\n');
}

}  // namespace

std::string checksum_of_model(const std::string& folder) {
  io::Crc64 all;
  std::vector<std::string> files = io::WeightFiles(folder).paths();
  files.push_back(folder + "/config.json");
  for (const std::string& file : files) {
    const std::uint64_t sum = io::sum_of_file(file).crc64;
    all.add(std::as_bytes(std::span(&sum, 1)));
  }
  return train::checksum(all.value());
}

std::string fingerprint(const data::Corpus& rows) {
  io::Crc64 crc;
  rows.each_source([&](const auto&... source) { add_source(crc, source...); });
  for (const data::Share& share : rows.shares())
    if (share.weight != 1) crc.add("weight " + text_of(share.weight) + '\n');
  return io::hex(crc.value());
}

}  // namespace heddle::examples
