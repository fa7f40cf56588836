// Where a run stands and what decides its result: what a checkpoint says beside weights and moments.
#pragma once
#include <limits>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include <heddle/data/batches.hpp>

#include "flags.hpp"
#include "metrics.hpp"

namespace heddle::examples {

struct RunState {
  Index step = 0;              // updates so far
  Index epoch = 0, batch = 0;  // what comes next
  double loss_sum = 0;         // of the epoch so far, over `rows` rows
  Index rows = 0;
  double best = std::numeric_limits<double>::infinity();  // the lowest validation loss so far
  std::string metrics;                                    // the real_path of the file of metrics
  Written written;                                        // there
};

// A file's name from the root, without links, and printable: two names of one file give the same, whatever bytes they hold.
// Empty for an empty name.
std::string real_path(const std::string& path);

// Flags that change a run's result, and checksums of what it reads, under the names of the flags; one is absent where the file is
// not there any more.
using RunFlags = std::map<std::string, std::string>;
RunFlags run_flags(const TrainerFlags& flags, const ModelSizes& sizes);
// A checksum of all ids and labels.
std::string fingerprint(const data::LabelledSequences& rows);

nlohmann::json to_json(const RunState& state, const RunFlags& flags);
// `file` stands for the checkpoint in messages. Absent flags are taken over from the state. Throws FileError for JSON that is no run's
// state, and Error that names each flag that is not as it was.
RunState read_state(const nlohmann::json& json, RunFlags& flags, const std::string& file);

}  // namespace heddle::examples
