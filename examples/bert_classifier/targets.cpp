#include "targets.hpp"

namespace heddle::examples {

int train_targets(int argc, char** argv, const std::string& problem) {
  if (problem == "multi") return trainer<TargetSystem<TargetKind::label_sets>>(argc, argv);
  if (problem == "regression") return trainer<TargetSystem<TargetKind::values>>(argc, argv);
  return trainer<TargetSystem<TargetKind::pair_scores>>(argc, argv);
}

}  // namespace heddle::examples
