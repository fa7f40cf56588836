// The parts of a Tokenizer, as tokenizer.json describes them.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include <heddle/text/added_tokens.hpp>
#include <heddle/text/bpe.hpp>
#include <heddle/text/decoders.hpp>
#include <heddle/text/normalizers.hpp>
#include <heddle/text/pre_tokenizers.hpp>
#include <heddle/text/unigram.hpp>
#include <heddle/text/word_models.hpp>

namespace heddle::text {

/// A part of the form in which a text or a pair is given to a model: one of the texts, or special tokens.
struct TemplatePart {
  /// The kind of a part.
  enum class Kind {
    first_text,   ///< the text, or the first text of a pair
    second_text,  ///< the second text of a pair
    special       ///< special tokens
  };
  Kind kind = Kind::first_text;        ///< the text, or special tokens
  std::int32_t type_id = 0;            ///< the type of its tokens
  std::vector<std::int32_t> ids = {};  ///< the special tokens
};

/// Returns the number of special tokens in a form.
inline std::size_t count_special_tokens(const std::vector<TemplatePart>& form) {
  std::size_t count = 0;
  for (const TemplatePart& part : form) count += part.ids.size();
  return count;
}

/// A post-processor: the forms of texts and pairs, and the trimming of offsets. Without one in the file, a pair is its
/// two texts, whose types are 0 and 1.
struct PostProcessor {
  std::vector<TemplatePart> single = {{}};                                      ///< the form of a text
  std::vector<TemplatePart> pair = {{}, {TemplatePart::Kind::second_text, 1}};  ///< the form of a pair
  bool trims_offsets = false;      ///< whether offsets leave out the white space at the ends of a token
  bool adds_prefix_space = false;  ///< whether a single blank before the first token is not left out
};

/// The model that turns the words of a text into tokens.
using TokenModel = std::variant<BytePairEncoding, Unigram, WordPieceModel, WordLevel>;

/// The ids of a tokenizer are less than this, so that a table by id stays below 1 GB.
inline constexpr std::int32_t most_token_ids = std::int32_t{1} << 24;

/// The parts of a tokenizer.
struct TokenizerParts {
  TokenModel model;                                          ///< the model
  std::vector<std::pair<std::string, std::int32_t>> tokens;  ///< the model's tokens with their ids
  std::vector<Normalizer> normalizers = {};                  ///< in their order
  std::vector<PreTokenizer> pre_tokenizers = {};             ///< in their order
  PostProcessor post_processor = {};                         ///< the form of texts and pairs
  std::vector<Decoder> decoders = {};                        ///< in their order
  bool has_decoder = false;                                  ///< without one, tokens are joined with blanks
  std::vector<AddedToken> added_tokens = {};                 ///< the tokens that are recognized in a text
  bool truncates_left = false;                               ///< whether texts lose their beginning

  /// Returns whether texts are turned into lower case.
  bool is_uncased() const {
    return std::any_of(normalizers.begin(), normalizers.end(), [](const Normalizer& step) {
      const auto* bert = std::get_if<BertNormalizer>(&step);
      return std::holds_alternative<LowercaseNormalizer>(step) || (bert && bert->lowercase);
    });
  }
};

}  // namespace heddle::text
