// WordPiece on any bytes. The first byte chooses the tokenizer; a tab separates the two texts of a pair.
#include <heddle/text/wordpiece.hpp>
#include <span>

#include "fuzz.hpp"

namespace {

using namespace heddle;
using text::Encoding;
using text::WordPiece;
using text::WordPieceOptions;
using Ids = std::vector<std::int32_t>;

constexpr std::size_t unlimited = std::numeric_limits<std::size_t>::max();

// Words, pieces, marks and special tokens, so that short texts reach all branches of the tokenizer.
constexpr const char* vocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n##a\n##b\n##c\nab\n##ab\nabc\n##bcab\n##aaaaaaaa\nA\nB\n##A\n##B\n."
    "\n,\n-\n"
    "'\n[\n]\n#\n##\n###\n##.\n1\n##1\n\xC3\xA9\n##\xC3\xA9\ne\n##e\n\xCC\x81\n##"
    "\xCC\x81\n\xE4\xB8\xAD\n\xEA\xB0\x80\n\xE1\x84"
    "\x80\n##\xE1\x85\xA1\nss\n##s\n\xC3\x9F\ni\n##\xCC\x87\n\xF0\x9F\x99\x82\n##\xF0\x9F\x99\x82\n";

// All tokenizers with one setting of `uncased`. They are made once, because making one takes longer than
// encoding most texts.
struct Tokenizers {
  WordPiece whole, max_2, max_7, bare, bare_max_0, bare_max_5;

  explicit Tokenizers(bool uncased)
      : whole(make(uncased, true, unlimited)),
        max_2(make(uncased, true, 2)),
        max_7(make(uncased, true, 7)),
        bare(make(uncased, false, unlimited)),
        bare_max_0(make(uncased, false, 0)),
        bare_max_5(make(uncased, false, 5)) {}

  static WordPiece make(bool uncased, bool special_tokens, std::size_t max_length) {
    return WordPiece(text::Vocabulary(vocabulary),
                     {.uncased = uncased, .special_tokens = special_tokens, .max_length = max_length});
  }
  const WordPiece& operator[](unsigned choice) const {
    const WordPiece* all[] = {&whole, &max_2, &max_7, &bare, &bare_max_0, &bare_max_5};
    return *all[choice % std::size(all)];
  }
};

Ids append(const WordPiece& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.append(text, ids);
  for (const std::int32_t id : ids) fuzz::claim(id >= 0 && id < tokenizer.vocabulary().size(), "ids are in range");
  return ids;
}

bool is_prefix(std::span<const std::int32_t> part, const Ids& whole) {
  return part.size() <= whole.size() && std::equal(part.begin(), part.end(), whole.begin());
}

// Checks that the ids are those of the texts, truncated, between the special tokens. `second` is the number of tokens
// of type 0.
void check(const WordPiece& tokenizer, const Encoding& e, std::size_t second, const Ids& a, const Ids* b) {
  const WordPieceOptions& options = tokenizer.options();
  const std::size_t special = options.special_tokens ? 1 : 0;
  const std::size_t specials = special * (b ? 3 : 2), size = e.ids.size();
  const std::size_t whole = a.size() + (b ? b->size() : 0) + specials;
  fuzz::claim(size == std::min(whole, options.max_length), "an encoding is truncated to max_length, and no further");
  fuzz::claim(size + e.truncated == whole, "truncated tokens are counted");
  fuzz::claim(e.type_ids.size() == size && std::is_sorted(e.type_ids.begin(), e.type_ids.end()), "types are 0, then 1");
  const std::span ids(e.ids);
  fuzz::claim(is_prefix(ids.subspan(special, second - 2 * special), a), "the first text is cut off at its end");
  if (b)
    fuzz::claim(is_prefix(ids.subspan(second, size - second - special), *b), "the second text is cut off at its end");
  if (!special) return;
  const auto& v = tokenizer.vocabulary();
  fuzz::claim(ids.front() == v.id("[CLS]") && ids[second - 1] == v.id("[SEP]") && ids.back() == v.id("[SEP]"),
              "the special tokens stand around the texts");
}

void check_text(const WordPiece& tokenizer, std::string_view text) {
  const Encoding e = tokenizer.encode(text);
  fuzz::claim(e == tokenizer.encode(text), "a text is encoded alike each time");
  check(tokenizer, e, e.ids.size(), append(tokenizer, text), nullptr);
}

void check_pair(const WordPiece& tokenizer, std::string_view a, std::string_view b) {
  Encoding e;
  const bool is_accepted = fuzz::accepted<Error>([&] { e = tokenizer.encode_pair(a, b); });
  fuzz::claim(is_accepted == (!tokenizer.options().special_tokens || tokenizer.options().max_length >= 3),
              "a pair is refused if and only if max_length is below the number of its special tokens");
  if (!is_accepted) return;
  const Ids second = append(tokenizer, b);
  const auto ones = static_cast<std::size_t>(std::count(e.type_ids.begin(), e.type_ids.end(), 1));
  check(tokenizer, e, e.ids.size() - ones, append(tokenizer, a), &second);
}

// Returns the text with U+FFFD for invalid UTF-8.
std::string repaired(std::string_view text) {
  std::string valid;
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    char bytes[text::max_utf8_bytes];
    const int count = text::encode_utf8(text::decode_utf8(at, end), bytes);
    valid.append(bytes, static_cast<std::size_t>(count));
  }
  return valid;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tokenizers cased(false), uncased(true);
  const fuzz::Input input(data, size);
  if (size == 0) return 0;
  const Tokenizers& tokenizers = data[0] & 1 ? uncased : cased;
  const WordPiece& tokenizer = tokenizers[data[0] >> 1];
  const std::string_view text = input.text().substr(1);
  const std::size_t tab = std::min(text.find('\t'), text.size());
  check_text(tokenizer, text);
  check_pair(tokenizer, text.substr(0, tab), text.substr(std::min(tab + 1, text.size())));
  fuzz::claim(append(tokenizer, repaired(text)) == append(tokenizer, text), "invalid UTF-8 is encoded like U+FFFD");
  return 0;
}
