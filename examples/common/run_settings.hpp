// The settings of a trainer's run, which decide its result: flags, and checksums of the files that it reads.
#pragma once
#include <string>

#include <heddle/data/corpus.hpp>
#include <heddle/train/run_state.hpp>

#include "flags.hpp"

namespace heddle::examples {

// Returns a file's absolute printable path with links resolved, so that two names of one file give the same path.
// Returns an empty string for an empty name.
std::string real_path(const std::string& path);

// Returns those flags of every trainer that decide the result. --epochs, --steps, --gamma and --gamma-every are left
// out unless the schedule depends on them. An --init that is not a regular file, such as one removed since the run
// began, has no entry.
train::RunSettings run_settings(const TrainerFlags& flags, const ModelSizes& sizes);

// Returns the setting that stands for the weights and config.json of a folder. Throws FileError.
std::string checksum_of_model(const std::string& folder);

// Returns a checksum of all ids and labels.
std::string fingerprint(const data::Corpus& rows);

}  // namespace heddle::examples
