// Rerankers: models that score a pair of texts.
#include "../bert_classifier/targets.hpp"
#include "flags.hpp"

namespace heddle::examples {
namespace {

class RerankerSystem : public TargetSystem<TargetKind::pair_scores> {
 public:
  struct Flags : BertFlags {
    Flags() {
      saved = {{"objective", "pair scores"}, {"loss", "rerank"}};
      problem = "pair";
      is_reranker = true;
    }
    static std::vector<std::string> choices() { return SentenceFlags::choices(); }
    void add(CLI::App& app) {
      add_sentence_flags(app, saved["loss"], train, valid, columns);
      add_choice(app, "--freeze", freeze, {"none", "embeddings", "encoder"}, "Part of the model that is not trained");
    }
  };
  static constexpr const char *name = SentenceProgram::name, *sample = SentenceProgram::sample,
                              *description = SentenceProgram::description;
  static constexpr const auto& unused_flags = SentenceProgram::unused_flags;
  static TrainerFlags defaults() { return SentenceProgram::defaults(); }

  RerankerSystem(const Setup& setup, const Flags& own) : TargetSystem(setup, own) {}
};

}  // namespace

int train_rerankers(int argc, char** argv) { return trainer<RerankerSystem>(argc, argv); }

}  // namespace heddle::examples
