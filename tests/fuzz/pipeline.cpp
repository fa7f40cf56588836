// Tokenizers of any kind on any bytes, and any tokenizer.json. The first byte and the next choose:
//   below 0x80: a tokenizer of tests/golden/tokenizers; the rest is the text
//   below 0xC0: a small one of them, to whose file a JSON merge patch is applied; the rest is the patch, 0xFF, and the
//               text
//   otherwise:  the rest is a whole file, 0xFF, and the text
// A tab separates the two texts of a pair.
#include <heddle/text/tokenizer_json.hpp>

#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "fuzz.hpp"

namespace {

using namespace heddle;
using text::Encoding;
using text::TextRange;
using text::TokenizerParts;
using text::TokenizerPipeline;
using Ids = std::vector<std::int32_t>;

// The paths of the golden tokenizers of at most `most` bytes, in order.
std::vector<std::string> golden_files(std::uintmax_t most) {
  std::vector<std::string> files;
  for (const auto& folder : std::filesystem::directory_iterator(HEDDLE_GOLDEN_DIR "/tokenizers"))
    if (const auto file = folder.path() / "tokenizer.json"; exists(file) && file_size(file) <= most)
      files.push_back(file.string());
  std::sort(files.begin(), files.end());
  fuzz::claim(!files.empty(), "there are golden tokenizers");
  return files;
}

// One tokenizer with several options. Making it takes longer than encoding a text, so one that is used once has only
// the first two.
struct Pipelines {
  TokenizerPipeline whole, aligned;
  std::optional<TokenizerPipeline> short_aligned, bare;

  Pipelines(const TokenizerParts& parts, bool is_kept) : whole(parts), aligned(parts, {.offsets = true}) {
    if (!is_kept) return;
    short_aligned.emplace(parts, text::TokenizerOptions{.max_length = longest, .offsets = true});
    bare.emplace(parts, text::TokenizerOptions{.special_tokens = false, .max_length = 3});
  }

  static constexpr std::size_t longest = 12;
};

void check_ids(const TokenizerPipeline& tokenizer, const Encoding& e) {
  fuzz::claim(e.type_ids.size() == e.ids.size(), "each token has a type");
  for (const std::int32_t id : e.ids) fuzz::claim(id >= 0 && id < tokenizer.size(), "ids are in range");
  std::string whole;
  if (!fuzz::accepted<Error>([&] { whole = tokenizer.decode(e.ids, false); })) return;
  fuzz::claim(text::to_valid_utf8(whole) == whole, "a decoded text is UTF-8");
}

void check_aligned(Encoding aligned, const Encoding& e, std::size_t longest_text) {
  fuzz::claim(aligned.offsets.size() == e.ids.size() && aligned.word_ids.size() == e.ids.size(),
              "each token has offsets and a word");
  for (std::size_t i = 0; i < e.ids.size(); ++i) {
    const TextRange range = aligned.offsets[i];
    fuzz::claim(range.begin <= range.end && range.end <= longest_text, "the offsets of a token are in its text");
    fuzz::claim(aligned.word_ids[i] >= 0 || (aligned.word_ids[i] == -1 && range == TextRange{}),
                "a special token that is added has no offsets");
  }
  aligned.offsets.clear();
  aligned.word_ids.clear();
  fuzz::claim(aligned == e, "offsets change nothing else");
}

void check_text(const Pipelines& p, std::string_view text) {
  Encoding e;
  if (!fuzz::accepted<Error>([&] { e = p.whole.encode(text); })) return;  // Unigram without an unknown token
  check_ids(p.whole, e);
  check_aligned(p.aligned.encode(text), e, text.size());
  fuzz::claim(p.whole.encode(text::to_valid_utf8(text)).ids == e.ids, "invalid UTF-8 is encoded like U+FFFD");
  if (!p.bare) return;
  const Encoding cut = p.short_aligned->encode(text);
  fuzz::claim(cut.ids.size() == std::min(e.ids.size(), Pipelines::longest), "an encoding is truncated to max_length");
  fuzz::claim(cut.ids.size() + cut.truncated == e.ids.size(), "truncated tokens are counted");
  fuzz::claim(p.bare->encode(text).ids.size() <= 3, "max_length holds without special tokens");
}

void check_pair(const Pipelines& p, std::string_view a, std::string_view b) {
  Encoding e, cut;
  if (!fuzz::accepted<Error>([&] { e = p.whole.encode_pair(a, b); })) return;
  check_ids(p.whole, e);
  check_aligned(p.aligned.encode_pair(a, b), e, std::max(a.size(), b.size()));
  if (!p.bare || !fuzz::accepted<Error>([&] { cut = p.short_aligned->encode_pair(a, b); })) return;
  fuzz::claim(cut.ids.size() == std::min(e.ids.size(), Pipelines::longest), "a pair is truncated to max_length");
}

void check(const Pipelines& pipelines, std::string_view text) {
  check_text(pipelines, text);
  const std::size_t tab = std::min(text.find('\t'), text.size());
  check_pair(pipelines, text.substr(0, tab), text.substr(std::min(tab + 1, text.size())));
}

// Returns whether texts may become so long that a short input takes much memory, as in the library.
bool multiplies_texts(const TokenizerParts& parts) {
  std::size_t growth = 1, decoded = 1;
  for (const auto& step : parts.normalizers)
    if (const auto* replace = std::get_if<text::ReplaceNormalizer>(&step))
      growth = std::min<std::size_t>(growth * (1 + replace->by.size()), 1 << 20);
  for (const auto& step : parts.decoders)
    if (const auto* replace = std::get_if<text::ReplaceDecoder>(&step))
      decoded = std::min<std::size_t>(decoded * (1 + replace->by.size()), 1 << 20);
  return growth > 100 || decoded > 100;
}

void check_file(const std::string& content, std::string_view text) {
  const auto parts = fuzz::attempt<FileError>([&] { return text::parse_tokenizer(content, "input"); });
  if (!parts || multiplies_texts(*parts)) return;
  std::unique_ptr<Pipelines> pipelines;
  if (fuzz::accepted<Error>([&] { pipelines = std::make_unique<Pipelines>(*parts, false); })) check(*pipelines, text);
}

void check_golden(std::size_t choice, std::string_view text) {
  static const std::vector<std::string> files = golden_files(1 << 20);
  static std::vector<std::unique_ptr<Pipelines>> made(files.size());
  auto& pipelines = made[choice % files.size()];
  if (!pipelines) {
    const std::string& file = files[choice % files.size()];
    pipelines = std::make_unique<Pipelines>(text::parse_tokenizer(io::read_file(file), file), true);
  }
  check(*pipelines, text);
}

void check_patched(std::size_t choice, std::string_view patch, std::string_view text) {
  static const std::vector<nlohmann::json> files = [] {
    std::vector<nlohmann::json> read;
    for (const std::string& file : golden_files(6000)) read.push_back(nlohmann::json::parse(io::read_file(file)));
    return read;
  }();
  const auto change = nlohmann::json::parse(patch, nullptr, false);
  if (!change.is_object()) return;
  nlohmann::json file = files[choice % files.size()];
  file.merge_patch(change);
  check_file(file.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace), text);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  if (size < 2) return 0;
  const fuzz::Input input(data, size);
  std::string_view rest = input.text().substr(2);
  if (data[0] < 0x80) {
    check_golden(data[1], rest);
    return 0;
  }
  const std::size_t end = std::min(rest.find('\xFF'), rest.size());
  const std::string_view text = rest.substr(std::min(end + 1, rest.size()));
  if (data[0] < 0xC0)
    check_patched(data[1], rest.substr(0, end), text);
  else
    check_file(std::string(rest.substr(0, end)), text);
  return 0;
}
