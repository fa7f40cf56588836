// tokenizer.json: the input as the whole file, and the input as the members of its vocabulary.
#include <heddle/text/tokenizer_files.hpp>

#include "fuzz.hpp"

namespace {

using namespace heddle;

void check_tokenizer(const std::string& content) {
  const auto file = fuzz::attempt<FileError>([&] { return io::JsonFile(content, "input"); });
  if (!file) return;
  const auto read =
      fuzz::attempt<FileError>([&] { return text::detail::read_tokenizer_json(file->object(), "input"); });
  if (!read) return;
  const text::Vocabulary& vocabulary = read->vocabulary;
  text::detail::adds_bert_tokens(file->object().json(), vocabulary.find("[CLS]"), vocabulary.find("[SEP]"));
  const nlohmann::json ids = nlohmann::json::parse(content)["model"]["vocab"];
  fuzz::claim(static_cast<std::size_t>(vocabulary.size()) == ids.size(), "the vocabulary has all tokens");
  for (const auto& [token, id] : ids.items())
    fuzz::claim(id == vocabulary.find(token), "a token has the id that the file gives it");
  fuzz::claim(vocabulary.notes().empty(), "the tokens are kept as they are");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const fuzz::Input input(data, size);
  check_tokenizer(input.string());
  check_tokenizer(
      R"({"normalizer":{"type":"BertNormalizer"},"pre_tokenizer":{"type":"BertPreTokenizer"},"model":{"vocab":{)" +
      input.string() + "}}}");
  return 0;
}
