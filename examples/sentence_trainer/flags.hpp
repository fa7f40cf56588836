// The flags of sentence_trainer, and its tables.
#pragma once
#include "../bert_classifier/labelled_texts.hpp"
#include "../common/trainer.hpp"

namespace heddle::examples {

struct SentenceFlags {
  OwnFlags saved{{"loss", "in_batch"}};
  std::string train, valid, distance = "euclidean", freeze = "none";
  double temperature = 0.05, margin = 5;
  TableColumns columns;  // `label` is the column of the score, and `third` that of a text that does not belong
  static std::vector<std::string> choices() { return {"in_batch", "triplet", "cosine", "rerank", "pair scores"}; }
  void add(CLI::App& app);
};

// Adds the flags that encoders and rerankers share.
void add_sentence_flags(CLI::App& app, std::string& loss, std::string& train, std::string& valid,
                        TableColumns& columns);

// Flags and defaults of all losses.
struct SentenceProgram {
  static constexpr const char* name = "sentence_trainer";
  static constexpr const char* sample = HEDDLE_SAMPLES;
  static constexpr bool free_length = true;
  static constexpr const char* unused_flags[] = {"--head-dim", "--layers",  "--d-model", "--heads",
                                                 "--ff-width", "--uncased", "--vocab",   "--data"};
  static constexpr const char* description =
      "Fine-tunes, evaluates and applies sentence encoders and rerankers from Hugging Face folders.";
  static TrainerFlags defaults() { return fine_tuning_flags(1, 2e-5); }
};

// Run the program for one kind of model, as trainer().
int train_encoders(int argc, char** argv);
int train_rerankers(int argc, char** argv);

}  // namespace heddle::examples
