#include "flags.hpp"

#include "../common/program.hpp"

namespace heddle::examples {

void add_sentence_flags(CLI::App& app, std::string& loss, std::string& train, std::string& valid,
                        TableColumns& columns) {
  add_choice(app, "--loss", loss, {"in_batch", "triplet", "cosine", "rerank"},
             "in_batch: the pair of a text is found among those of the batch; triplet: it is closer than --negative; "
             "cosine: the cosine is --score; rerank: a reranker scores pairs");
  add_path(app, "--train", train, "Table to train on, TSV or CSV with a header");
  add_path(
      app, "--valid", valid,
      "Table to validate on: with --score by Spearman's correlation, otherwise by searching the pair of each text");
  add_path(app, "--text", columns.text, "Column of the text, such as a question");
  add_path(app, "--text-pair", columns.second, "Column of the text that belongs to it");
  add_path(app, "--negative", columns.third, "Column of a text that does not belong to it");
  add_path(app, "--score", columns.label,
           "Column of the similarity: -1 to 1, of a reranker 0 to 1; of in_batch and triplet only --valid has it");
  add_choice(app, "--format", columns.format, {"auto", "csv", "tsv"},
             "Format of the tables; auto: by name, otherwise by the first line");
}

void SentenceFlags::add(CLI::App& app) {
  add_sentence_flags(app, saved["loss"], train, valid, columns);
  add_positive(app, "--temperature", temperature, "Divides the cosines of in_batch");
  add_positive(app, "--margin", margin, "How much closer triplet wants the pair");
  add_choice(app, "--distance", distance, {"euclidean", "cosine"}, "Distance of triplet");
  add_choice(app, "--freeze", freeze, {"none", "embeddings"}, "Part of the model that is not trained");
}

}  // namespace heddle::examples
