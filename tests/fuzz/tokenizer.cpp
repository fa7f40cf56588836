// WordPiece on any bytes. The first byte chooses the tokenizer; a tab separates the two texts of a pair.
#include <heddle/text/wordpiece.hpp>
#include <set>
#include <span>

#include "fuzz.hpp"

namespace {

using namespace heddle;
using text::Encoding;
using text::TextRange;
using text::WordPiece;
using text::WordPieceOptions;
using Ids = std::vector<std::int32_t>;

// Words, pieces, marks and special tokens, so that short texts reach all branches of the tokenizer.
constexpr const char* vocabulary =
    "[PAD]\n[UNK]\n[CLS]\n[SEP]\n[MASK]\na\nb\nc\n##a\n##b\n##c\nab\n##ab\nabc\n##bcab\n##aaaaaaaa\nA\nB\n##A\n##B\n."
    "\n,\n-\n"
    "'\n[\n]\n#\n##\n###\n##.\n1\n##1\n\xC3\xA9\n##\xC3\xA9\ne\n##e\n\xCC\x81\n##"
    "\xCC\x81\n\xE4\xB8\xAD\n\xEA\xB0\x80\n\xE1\x84"
    "\x80\n##\xE1\x85\xA1\nss\n##s\n\xC3\x9F\ni\n##\xCC\x87\n\xF0\x9F\x99\x82\n##\xF0\x9F\x99\x82\n";

// All tokenizers with one setting of `uncased` and `offsets`. They are made once, because making one takes longer than
// encoding most texts.
struct Tokenizers {
  WordPiece whole, max_2, max_7, bare, bare_max_0, bare_max_5, added;

  Tokenizers(bool uncased, bool offsets)
      : whole(make({.uncased = uncased, .offsets = offsets})),
        max_2(make({.uncased = uncased, .max_length = 2, .offsets = offsets})),
        max_7(make({.uncased = uncased, .max_length = 7, .offsets = offsets})),
        bare(make({.uncased = uncased, .special_tokens = false, .offsets = offsets})),
        bare_max_0(make({.uncased = uncased, .special_tokens = false, .max_length = 0, .offsets = offsets})),
        bare_max_5(make({.uncased = uncased, .special_tokens = false, .max_length = 5, .offsets = offsets})),
        added(make_with_added_tokens({.uncased = uncased, .special_tokens = false, .offsets = offsets})) {}

  static WordPiece make(const WordPieceOptions& options) { return WordPiece(text::Vocabulary(vocabulary), options); }
  static WordPiece make_with_added_tokens(const WordPieceOptions& options) {
    text::Vocabulary tokens(vocabulary);
    const std::int32_t first = tokens.size();
    return WordPiece(std::move(tokens), options,
                     {{.content = "[SEP]", .id = 3, .special = true},
                      {.content = "aB", .id = first, .normalized = true},
                      {.content = "\xE4\xB8\xAD a", .id = first + 1, .normalized = true},
                      {.content = "b-", .id = first + 2, .single_word = true}});
  }
  const WordPiece& operator[](unsigned choice) const {
    if (choice & 0x40) return added;
    const WordPiece* all[] = {&whole, &max_2, &max_7, &bare, &bare_max_0, &bare_max_5};
    return *all[choice % std::size(all)];
  }
};

Ids append(const WordPiece& tokenizer, std::string_view text) {
  Ids ids;
  tokenizer.append(text, ids);
  for (const std::int32_t id : ids) fuzz::claim(id >= 0 && id < tokenizer.size(), "ids are in range");
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

// Checks the offsets and words of the tokens of one text, whose type is `type`.
void check_offsets(const Encoding& e, std::string_view text, std::int32_t type) {
  std::set<std::size_t> boundaries{0};
  for (const char *at = text.data(), *end = at + text.size(); at != end;) {
    text::decode_utf8(at, end);
    boundaries.insert(static_cast<std::size_t>(at - text.data()));
  }
  TextRange last;
  std::int32_t last_word = -1;
  for (std::size_t i = 0; i < e.ids.size(); ++i) {
    const TextRange range = e.offsets[i];
    const std::int32_t word = e.word_ids[i];
    if (word == -1) fuzz::claim(range == TextRange{}, "a special token that is added has no offsets");
    if (word == -1 || e.type_ids[i] != type) continue;
    fuzz::claim(range.begin < range.end && range.end <= text.size(), "the offsets of a token are in its text");
    fuzz::claim(boundaries.count(range.begin) && boundaries.count(range.end), "offsets are between characters");
    fuzz::claim(word == last_word || word == last_word + 1, "words are numbered from 0");
    fuzz::claim(word == last_word ? last.begin <= range.begin && last.end <= range.end : last.end <= range.begin,
                "offsets are in order, and words do not overlap");
    last = range;
    last_word = word;
  }
}

// Checks an encoding with offsets, which must otherwise be that without them.
void check_aligned(Encoding aligned, const Encoding& e, const WordPiece& tokenizer, std::string_view a,
                   std::string_view b) {
  fuzz::claim(aligned.offsets.size() == e.ids.size() && aligned.word_ids.size() == e.ids.size(),
              "each token has offsets and a word");
  check_offsets(aligned, a, 0);
  check_offsets(aligned, b, 1);
  aligned.offsets.clear();
  aligned.word_ids.clear();
  fuzz::claim(aligned == e, "offsets change nothing else");
  fuzz::claim(tokenizer.decode(e.ids).size() <= tokenizer.decode(e.ids, false).size(),
              "a text without special tokens is not longer");
}

void check_text(const WordPiece& tokenizer, const WordPiece& with_offsets, std::string_view text) {
  const Encoding e = tokenizer.encode(text);
  fuzz::claim(e == tokenizer.encode(text), "a text is encoded alike each time");
  check(tokenizer, e, e.ids.size(), append(tokenizer, text), nullptr);
  check_aligned(with_offsets.encode(text), e, tokenizer, text, "");
}

void check_pair(const WordPiece& tokenizer, const WordPiece& with_offsets, std::string_view a, std::string_view b) {
  Encoding e;
  const bool is_accepted = fuzz::accepted<Error>([&] { e = tokenizer.encode_pair(a, b); });
  fuzz::claim(is_accepted == (!tokenizer.options().special_tokens || tokenizer.options().max_length >= 3),
              "a pair is refused if and only if max_length is below the number of its special tokens");
  if (!is_accepted) return;
  const Ids second = append(tokenizer, b);
  const auto ones = static_cast<std::size_t>(std::count(e.type_ids.begin(), e.type_ids.end(), 1));
  check(tokenizer, e, e.ids.size() - ones, append(tokenizer, a), &second);
  check_aligned(with_offsets.encode_pair(a, b), e, tokenizer, a, b);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const Tokenizers cased(false, false), uncased(true, false), cased_aligned(false, true),
      uncased_aligned(true, true);
  const fuzz::Input input(data, size);
  if (size == 0) return 0;
  const bool is_uncased = data[0] & 1;
  const WordPiece& tokenizer = (is_uncased ? uncased : cased)[data[0] >> 1];
  const WordPiece& with_offsets = (is_uncased ? uncased_aligned : cased_aligned)[data[0] >> 1];
  const std::string_view text = input.text().substr(1);
  const std::size_t tab = std::min(text.find('\t'), text.size());
  check_text(tokenizer, with_offsets, text);
  check_pair(tokenizer, with_offsets, text.substr(0, tab), text.substr(std::min(tab + 1, text.size())));
  fuzz::claim(append(tokenizer, text::to_valid_utf8(text)) == append(tokenizer, text),
              "invalid UTF-8 is encoded like U+FFFD");
  return 0;
}
