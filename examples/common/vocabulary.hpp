// The WordPiece vocabulary of a trainer.
#pragma once
#include "trainer.hpp"

namespace heddle::examples {

// The file that --vocab names. Without --vocab it is vocab.txt in the folder of the trained model or, without such a
// model, in the folder that another flag names. It is read once, because it may be a pipe.
class VocabularyFile {
 public:
  // Reads the file. Throws FileError if it cannot be read, or if `folder` is needed but is not a folder.
  VocabularyFile(const Setup& setup, const std::string& folder, const std::string& flag = "--data")
      : path_(!setup.flags.vocab.empty() ? setup.flags.vocab : (setup.saved ? setup.flags.out : folder) + "/vocab.txt"),
        config_(io::printable(setup.flags.out + "/config.json")) {
    require<FileError>(!setup.flags.vocab.empty() || setup.saved || io::is_folder(folder), io::printable(folder),
                       ": is not a folder; ", flag, " needs one");
    require<FileError>(io::path_exists(path_), io::printable(path_), ": there is no such vocabulary",
                       setup.saved ? "; the model needs it" : "; give one with --vocab");
    content_ = io::read_file(path_);
  }

  // Returns the tokenizer. Throws FileError for an invalid vocabulary and, unless `rows` is 0, for another number of
  // tokens than `rows`.
  text::WordPiece tokenizer(const text::WordPieceOptions& options, Index rows = 0) const {
    text::Vocabulary vocabulary = read_vocabulary(content_, path_);
    require<FileError>(rows == 0 || rows == vocabulary.size(), config_, ": 'vocab_size' is ", rows, ", but ",
                       vocabulary.name(), " has ", vocabulary.size(), " tokens");
    return text::WordPiece(std::move(vocabulary), options);
  }

  const std::string& path() const { return path_; }
  const std::string& content() const { return content_; }

 private:
  std::string path_, config_, content_;
};

}  // namespace heddle::examples
