// Texts as packed batches for a model that was loaded from a folder.
#pragma once
#include <algorithm>

#include <heddle/core/sequences.hpp>
#include <heddle/models/pretrained.hpp>

namespace heddle::models::detail {

// Returns the maximum number of tokens in a text: the model's positions, or the tokenizer's limit (0: none) if that is
// smaller. Throws FileError that names the file if that is less than `specials`, the number of special tokens of a text
// or a pair.
inline Index longest_text(const std::string& folder, Index tokenizer_limit, Index positions, Index specials,
                          bool is_pair) {
  const bool is_tokenizers = tokenizer_limit > 0 && tokenizer_limit < positions;
  const Index length = is_tokenizers ? tokenizer_limit : positions;
  require<FileError>(length >= specials,
                     io::printable(folder + (is_tokenizers ? "/tokenizer_config.json" : "/config.json")), ": ",
                     is_tokenizers ? "'model_max_length' is " : "the number of positions is ", length,
                     is_pair ? "; a pair has " : "; a text has ", specials, " special tokens");
  return length;
}

// A folder's tokenizer, whether the model is given its token types, and the token that hides another one.
struct LoadedTokenizer {
  text::Tokenizer tokenizer;
  bool has_types;
  std::string mask_token = {};
};

// Returns the tokenizer of a folder for texts or pairs, which truncates to longest_text(); `limit`, if it is given,
// replaces the tokenizer's own. It gives offsets if `offsets`. Throws FileError as longest_text() does, and for a
// vocabulary with more tokens than the model has embeddings.
inline LoadedTokenizer make_tokenizer(const std::string& folder, Index vocabulary, Index positions,
                                      bool is_pair = false, Index limit = 0, bool offsets = false) {
  const text::FolderTokenizer files = text::read_folder_tokenizer(folder);
  const Index length =
      longest_text(folder, limit > 0 ? limit : files.max_length, positions, files.special_tokens(is_pair), is_pair);
  require<FileError>(files.ids() <= vocabulary, files.name, ": has ", files.ids(), " tokens; the model has ",
                     vocabulary, " embeddings");
  return {files.tokenizer({.max_length = static_cast<std::size_t>(length), .offsets = offsets}), files.has_types,
          files.mask_token};
}
// Returns the tokenizer of a folder with this configuration. `has_types` is false if the model has fewer than two
// token types.
inline LoadedTokenizer make_tokenizer(const std::string& folder, const PretrainedConfig& config, bool is_pair = false,
                                      bool offsets = false) {
  LoadedTokenizer loaded = make_tokenizer(folder, config.vocabulary(), config.positions(), is_pair, 0, offsets);
  loaded.has_types = loaded.has_types && config.has_types();
  return loaded;
}

// Calls f(ids [N], types [N] or empty, sequences) for one batch after another, in the order of the texts. A batch has
// at most 4096 tokens, or a single longer text.
template <class F>
void each_batch(const std::vector<text::Encoding>& texts, bool has_types, Device device, F&& f) {
  constexpr std::size_t most_tokens_at_once = 4096;
  for (std::size_t first = 0, last = 0; first < texts.size(); first = last) {
    std::vector<int> ids, types, lengths;
    bool pairs = false;
    do {
      const text::Encoding& text = texts[last++];
      ids.insert(ids.end(), text.ids.begin(), text.ids.end());
      types.insert(types.end(), text.type_ids.begin(), text.type_ids.end());
      lengths.push_back(static_cast<int>(text.ids.size()));
      pairs = pairs || std::any_of(text.type_ids.begin(), text.type_ids.end(), [](int type) { return type != 0; });
    } while (last < texts.size() && ids.size() + texts[last].ids.size() <= most_tokens_at_once);
    const auto tensor = [&](const std::vector<int>& values) {
      return Tensor<int>({static_cast<Index>(values.size())}, values).to(device);
    };
    f(tensor(ids), has_types && pairs ? tensor(types) : Tensor<int>(), Sequences::packed(lengths).to(device));
  }
}

}  // namespace heddle::models::detail
