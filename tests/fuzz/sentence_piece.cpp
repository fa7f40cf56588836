// Models of SentencePiece. The first byte chooses the class that reads the model and its options; the rest is the file.
// A tokenizer that is accepted takes any of a few texts.
#include <heddle/text/folder_tokenizer.hpp>

#include "fuzz.hpp"
#include "io/files.hpp"

namespace {

using namespace heddle;

constexpr const char* texts[] = {"", " ", "a big dog, 1, is `` it? ", "Ab\xCC\x81 \xEF\xBC\xA1\xC2\xA0<s>[MASK]x\xFF"};

// Writes a model and the settings of its class.
void fill(const testing::TemporaryFolder& folder, unsigned char options, std::string_view model) {
  constexpr std::size_t classes = 4;
  const text::detail::OlderTokenizer& known = text::detail::older_tokenizers[1 + options % classes];
  for (const text::detail::OlderTokenizer& other : text::detail::older_tokenizers)
    std::filesystem::remove(folder / other.vocabulary);
  testing::put(folder / known.vocabulary, model);
  const auto flag = [&](int bit) { return options >> bit & 1 ? "true" : "false"; };
  testing::put(folder / "tokenizer_config.json", R"({"tokenizer_class":")" + std::string(known.name) +
                                                     R"(","do_lower_case":)" + flag(2) + R"(,"split_by_punct":)" +
                                                     flag(3) + R"(,"keep_accents":)" + flag(4) +
                                                     R"(,"add_prefix_space":)" + flag(5) + '}');
}

void check_text(const text::Tokenizer& tokenizer, std::string_view text) {
  const text::Encoding e = tokenizer.encode(text);
  for (const std::int32_t id : e.ids) fuzz::claim(id >= 0 && id < tokenizer.size(), "ids are in range");
  const std::string decoded = tokenizer.decode(e.ids);
  fuzz::claim(text::to_valid_utf8(decoded) == decoded, "a decoded text is UTF-8");
  const text::Encoding pair = tokenizer.encode(text, text);
  fuzz::claim(pair.ids.size() >= e.ids.size(), "a pair has all tokens of its texts");
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const testing::TemporaryFolder folder;
  if (size == 0) return 0;
  const fuzz::Input input(data + 1, size - 1);
  fill(folder, data[0], input.text());
  const auto found = fuzz::attempt<FileError>([&] { return text::read_folder_tokenizer(folder.path()); });
  if (!found) return 0;
  const text::Tokenizer tokenizer = found->tokenizer({.offsets = true});
  fuzz::claim(tokenizer.size() == found->ids(), "a model needs a row for each token");
  for (const char* const text : texts) check_text(tokenizer, text);
  return 0;
}
