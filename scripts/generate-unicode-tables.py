#!/usr/bin/env python3
"""Writes include/heddle/text/{unicode_tables,ascii_table,property_tables,normal_form_tables}.hpp by asking the Rust
`tokenizers` library about every code point.

The standard is that library's behavior, not a version of Unicode: its categories, decompositions and lower-case
letters come from three versions. So each code point is put through BertNormalizer and BertPreTokenizer as "a?b", with
and without lower-casing and stripping of accents, and what comes out is the table. The order of combining marks is found
in the same way, with anchors of known combining class. The finished tables are run here over all code points again; any
difference is an error.

The ASCII letters of canonical decompositions come from the library's NFD. Unicode never changes a decomposition, so that
table is also compared with this Python's `unicodedata`, whatever its version.

The general categories come from the regular expressions of Split, the other properties from the component that has them.
Grapheme clusters are found with Precompiled, which replaces a cluster of fewer than 6 bytes as a whole: each code point
is put into contexts in which the number of replacements depends on its class.

    scripts/generate-unicode-tables.py [FOLDER]       needs the Python package `tokenizers`
"""
import itertools
import pathlib
import struct
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "include/heddle/text"
CODE_POINTS = [c for c in range(0x110000) if not 0xD800 <= c < 0xE000]
HANGUL = range(0xAC00, 0xD7A4)
# Compatibility ideographs decompose to one ideograph each, without any pattern: stored as plain lists.
IDEOGRAPHS = (range(0xF900, 0xFADA), range(0x2F800, 0x2FA1E))
ASCII_ROW = 64  # maximum number of code points in a row of ascii_table.hpp
ASCII_GAP = 8  # maximum number of consecutive code points without an ASCII letter within a row
ANCHORS = "\U0001d165\U0001d16d"  # marks that the uncased tokenizer keeps, of combining classes 216 and 226

PRE_TOKENIZER = pre_tokenizers.BertPreTokenizer()
CASED, LOWERED, STRIPPED, UNCASED = MODES = [(False, False), (True, False), (False, True), (True, True)]
NORMALIZER = {
    mode: normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, lowercase=mode[0], strip_accents=mode[1])
    for mode in MODES
}
NFC, NFD, NFKC, NFKD = (getattr(normalizers, form)() for form in ("NFC", "NFD", "NFKC", "NFKD"))
ALL_TEXT = "".join(map(chr, CODE_POINTS))
# The categories of the regular expressions of Split. "C" is the rest.
CATEGORIES = ["Lu", "Ll", "Lt", "Lm", "Lo", "Mn", "Mc", "Me", "Nd", "Nl", "No", "P", "S", "Z"]
GRAPHEME_CLASSES = [
    "other", "cr", "lf", "control", "extend", "conjunct_extend", "linker", "zwj", "regional_indicator", "prepend",
    "spacing_mark", "l", "v", "t", "lv", "lvt", "pictographic", "consonant"]
# One code point of each class that helps to find the classes of the others.
KNOWN = {"a": "other", "\u0600": "prepend", "\u0300": "conjunct_extend", "\u200d": "zwj", "\u1100": "l", "\u1161": "v",
         "\u11a8": "t", "\xa9": "pictographic", "\u0915": "consonant", "\u094d": "linker", "\n": "lf"}
# Contexts of the code point that stands for "*".
GRAPHEME_CONTEXTS = [
    "a\u0300*", "\u0600\u0600*", "\u0600\u1100*", "\u0600\u1161*", "\u0600\u11a8*", "*a", "*\u1100\u0300",
    "*\u1161\u0300", "*\u11a8\u0300", "\xa9\u200d*", "*\u200d\xa9\u0300", "\xa9*\xa9", "\xa9*\u200d\xa9\u0300",
    "*\u094d\u0915\u0300", "\u0915*\u0915\u0300", "\u0915\u094d*\u0915\u0300"]


def words(text, mode):
    return [word for word, _ in PRE_TOKENIZER.pre_tokenize_str(NORMALIZER[mode].normalize_str(text))]


def probe(code_point, mode):
    """Returns the code point's kind and the text that it becomes inside a word."""
    match words("a" + chr(code_point) + "b", mode):
        case ["ab"]:
            return "drop", ""
        case ["a", "b"]:
            return "space", ""
        case [word] if word[0] == "a" and word[-1] == "b":
            return "word", word[1:-1]
        case ["a", word, "b"]:
            return "isolated", word
        case other:
            raise SystemExit(f"U+{code_point:04X}: unexpected words {other}")


def ends_run(code_point):
    """Returns whether a dropped code point is a starter: marks before and after it are then not sorted together."""
    low, high = ANCHORS
    text = NORMALIZER[STRIPPED].normalize_str("a" + high + chr(code_point) + low)
    assert text in ("a" + high + low, "a" + low + high), hex(code_point)
    return text == "a" + high + low


def reorders(a, b):
    return NORMALIZER[STRIPPED].normalize_str("a" + a + b) == "a" + b + a and a != b


def find_marks(stripped):
    """Returns the kept code points that canonical ordering moves, with their combining classes."""
    marks = {}
    for code_point, (kind, becomes) in stripped.items():
        c = chr(code_point)
        if kind == "word" and becomes == c and any(reorders(c, x) or reorders(x, c) for x in ANCHORS):
            marks[code_point] = unicodedata.combining(c)
    for a, b in itertools.product(marks, repeat=2):
        assert reorders(chr(a), chr(b)) == (marks[a] > marks[b]), (hex(a), hex(b))
    return marks


def dropped_classes(dropped, marks):
    """Returns the combining class of each dropped mark, or of the first mark of its decomposition. It decides which source a kept
    mark beside it is aligned with."""
    first = {c: NFD.normalize_str(chr(c))[0] for c in dropped}
    classes = {c: unicodedata.combining(mark) for c, mark in first.items()}
    kept_of_class = {combining_class: chr(c) for c, combining_class in marks.items()}
    for c, (combining_class, kept) in itertools.product(dropped, kept_of_class.items()):
        for text, moves in ((chr(c) + kept, combining_class < classes[c]), (kept + chr(c), combining_class <= classes[c])):
            ordered = NFD.normalize_str("a" + text)
            assert (ordered.index(kept) < ordered.index(first[c])) == moves, (hex(c), hex(ord(kept)))
    return classes


def word_characters():
    """Returns the code points next to which an added token is not a single word."""
    tokenizer = Tokenizer(models.WordPiece({"?": 0}, unk_token="?"))
    tokenizer.add_tokens([AddedToken("[T]", single_word=True, normalized=False)])
    token = tokenizer.token_to_id("[T]")
    found = {side: [c for c in CODE_POINTS if token not in tokenizer.encode(text(chr(c))).ids]
             for side, text in (("before", lambda c: c + "[T]"), ("after", lambda c: "[T]" + c))}
    assert found["before"] == found["after"]
    return found["before"]


def ranges(values):
    """Returns [first, last, value] for each range of neighboring code points with equal values. Ignores the gap of the surrogates,
    which have no values."""
    out = []
    for code_point, value in sorted(values.items()):
        if out and out[-1][2] == value and out[-1][1] + 1 in (code_point, 0xD800 if code_point == 0xE000 else -1):
            out[-1][1] = code_point
        else:
            out.append([code_point, code_point, value])
    return out


def runs(mapping):
    """Covers a mapping of code points greedily. Returns its runs: (first, target, count, step, target step)."""
    left, out = dict(mapping), []
    for first in sorted(mapping):
        if first not in left:
            continue
        target, best = left[first], (0, 1, 0)
        for step, target_step in itertools.product((1, 2, 3, 4), (0, 1, 2)):
            count = 1
            while count < 255 and left.get(first + count * step) == target + count * target_step:
                count += 1
            best = max(best, (count, -step, -target_step))
        count, step, target_step = best[0], -best[1], -best[2]
        if count == 1:
            step, target_step = 1, 0
        out.append((first, target, count, step, target_step))
        for i in range(count):
            del left[first + i * step]
    return out


def build():
    probed = {mode: {c: probe(c, mode) for c in CODE_POINTS} for mode in MODES}
    cased, lowered, stripped = (probed[mode] for mode in (CASED, LOWERED, STRIPPED))
    for c, (kind, becomes) in cased.items():
        assert kind in ("drop", "space") or becomes == chr(c), hex(c)
        assert kind == lowered[c][0], hex(c)
    marks = find_marks(stripped)
    kinds = {c: kind for c, (kind, _) in stripped.items()}
    for c in CODE_POINTS:
        if kinds[c] == "drop" and ends_run(c):
            kinds[c] = "drop_starter"
        if c in HANGUL:
            kinds[c] = "hangul"
    mapping, sequences = split(stripped, HANGUL)
    letters, long_letters = split(lowered, ())
    ideographs = {c: t for c, t in mapping.items() if any(c in block for block in IDEOGRAPHS)}
    changed = {c: kind for c, kind in kinds.items() if kind != cased[c][0]}
    tables = {
        "cased": ranges({c: kind for c, (kind, _) in cased.items() if kind != "word"}),
        "stripped": ranges({c: kind for c, kind in changed.items() if kind != "drop"}),
        "marks": ranges(marks),
        "dropped": ranges(dropped_classes([c for c, kind in changed.items() if kind == "drop"], marks)),
        "runs": runs({c: t for c, t in mapping.items() if c not in ideographs}),
        "ideographs": [[ideographs.get(c, c) for c in block] for block in IDEOGRAPHS],
        "sequences": sorted(sequences.items()),
        "letters": runs(letters),
        "long_letters": sorted(long_letters.items()),
        "word_characters": ranges(dict.fromkeys(word_characters(), True)),
    }
    check(tables, probed)
    return tables, probed[UNCASED]


def split(probed, ignored):
    """Returns the code points that become another one, and those that become several."""
    mapping, sequences = {}, {}
    for c, (kind, becomes) in probed.items():
        if kind in ("word", "isolated") and becomes != chr(c) and c not in ignored:
            if len(becomes) == 1:
                mapping[c] = ord(becomes)
            else:
                assert kind == "word" and all(probed[ord(x)] == ("word", x) for x in becomes), hex(c)
                sequences[c] = [ord(x) for x in becomes]
    return mapping, sequences


def hangul(code_point):
    i = code_point - 0xAC00
    jamo = [0x1100 + i // 588, 0x1161 + i % 588 // 28] + ([0x11A7 + i % 28] if i % 28 else [])
    return "".join(map(chr, jamo))


def expand(runs_of_table):
    return {first + i * step: chr(target + i * target_step)
            for first, target, count, step, target_step in runs_of_table for i in range(count)}


def check(tables, probed):
    """Reads the tables back as the C++ code does, over all code points and in all modes."""
    letters = expand(tables["letters"])
    decomposed = expand(tables["runs"])
    for block, targets in zip(IDEOGRAPHS, tables["ideographs"]):
        decomposed.update(zip(block, map(chr, targets)))
    for mode in MODES:
        lowercase, strip_accents = mode
        kind = dict.fromkeys(range(0x110000), "word")
        becomes = {}
        dropped = [(first, last, "drop") for first, last, _ in tables["dropped"]]
        for first, last, value in tables["cased"] + (tables["stripped"] + dropped if strip_accents else []):
            kind.update(dict.fromkeys(range(first, last + 1), value))
        if lowercase:
            becomes.update(letters)
            becomes.update({c: "".join(map(chr, targets)) for c, targets in tables["long_letters"]})
        if strip_accents:
            lower = lambda text: "".join(letters.get(ord(x), x) for x in text) if lowercase else text
            becomes.update({c: lower(text) for c, text in decomposed.items()})
            becomes.update({c: lower("".join(map(chr, targets))) for c, targets in tables["sequences"]})
        for c in CODE_POINTS:
            if kind[c] == "hangul":
                result = ("word", hangul(c))
            elif kind[c] in ("drop", "drop_starter", "space"):
                result = (kind[c].removesuffix("_starter"), "")
            else:
                result = (kind[c], becomes.get(c, chr(c)))
            assert result == probed[mode][c], (mode, hex(c), result, probed[mode][c])


def lines(items):
    """Joins the items in lines of at most 120 columns."""
    out = [" "]
    for item in items:
        if len(out[-1]) + len(item) + 2 > 120:
            out.append(" ")
        out[-1] += f" {item},"
    return "\n".join(out)


def header(tables):
    runs_of = lambda name: lines(f"{{{a:#x}, {b:#x}, {n}, {s}, {t}}}" for a, b, n, s, t in tables[name])
    kind_ranges = lambda name: lines(f"{{{a:#x}, {b:#x}, {k}}}" for a, b, k in tables[name])
    return f"""\
// Generated by scripts/generate-unicode-tables.py from tokenizers {tokenizers.__version__}; do not edit.
//
// The class of each code point, as in BertNormalizer and BertPreTokenizer of that library. Read by characters.hpp. Not
// taken from ICU, because tokenizers mixes three versions of Unicode.
#pragma once
#include <cstdint>

namespace heddle::text::unicode {{

enum class Kind : std::uint8_t {{
  word,          // belongs to a word
  isolated,      // a word of its own: punctuation, ideographs
  space,         // ends a word
  drop,          // vanishes
  drop_starter,  // vanishes, but combining marks before and after it are not sorted together
  mark,          // belongs to a word; sorted by combining class among its neighbors
  sequence,      // becomes two or three code points
  hangul,        // a syllable, becomes its jamo
}};
using enum Kind;

struct Range {{
  char32_t first, last;
  Kind kind;
}};

// The kinds of code points in cased text. A code point in none of these ranges is Kind::word.
inline constexpr Range cased[] = {{
{kind_ranges("cased")}
}};

// The ranges in which stripping accents changes the kind that `cased` gives. Those of dropped marks are in `dropped`.
// Lower-casing changes none.
inline constexpr Range stripped[] = {{
{kind_ranges("stripped")}
}};

struct Marks {{
  char32_t first, last;
  std::uint8_t combining_class;
}};

// Kind::mark, in text without accents.
inline constexpr Marks marks[] = {{
{lines(f"{{{a:#x}, {b:#x}, {c}}}" for a, b, c in tables["marks"])}
}};

// Kind::drop, in text without accents. These marks are sorted among the others before they are dropped, which changes
// the offsets of the others.
inline constexpr Marks dropped[] = {{
{lines(f"{{{a:#x}, {b:#x}, {c}}}" for a, b, c in tables["dropped"])}
}};

// first + i * step becomes target + i * target_step, for i < count.
struct Run {{
  char32_t first, target;
  std::uint8_t count, step, target_step;
}};

// Decompositions to one character, in text without accents.
inline constexpr Run decompositions[] = {{
{runs_of("runs")}
}};

// Lower-case letters.
inline constexpr Run lower_case[] = {{
{runs_of("letters")}
}};

struct Sequence {{
  char32_t source, targets[3];
}};

// Kind::sequence; a third target of zero is none. First the decompositions, which hold in text without accents, then
// the lower-case letters, which hold only in text with accents.
inline constexpr Sequence sequences[] = {{
{lines(f"{{{c:#x}, {{{', '.join(f'{x:#x}' for x in (t + [0])[:3])}}}}}" for c, t in tables["sequences"] + tables["long_letters"])}
}};
inline constexpr int decomposed_sequences = {len(tables["sequences"])};

struct Interval {{
  char32_t first, last;
}};

// \\w of Rust's regular expressions: letters, digits, marks, connectors and joiners.
inline constexpr Interval word_characters[] = {{
{lines(f"{{{a:#x}, {b:#x}}}" for a, b, _ in tables["word_characters"])}
}};

// The characters that the compatibility ideographs from U+F900 and from U+2F800 on become in text without accents.
inline constexpr char32_t ideographs_f900[] = {{
{lines(f"{x:#x}" for x in tables["ideographs"][0])}
}};

inline constexpr char32_t ideographs_2f800[] = {{
{lines(f"{x:#x}" for x in tables["ideographs"][1])}
}};

}}  // namespace heddle::text::unicode
"""


def ascii_of(decomposed):
    return "".join(c for c in decomposed if c < "\x80")


def ascii_rows():
    """Returns rows [first code point, the ASCII characters of the code points from it on]; a blank stands for none."""
    rows = []
    for code_point in CODE_POINTS[0x80:]:
        letter = ascii_of(NFD.normalize_str(chr(code_point)))
        assert len(letter) <= 1 and letter not in tuple(' "\\'), hex(code_point)
        if not letter:
            continue
        offset = code_point - rows[-1][0] if rows else ASCII_ROW
        if offset < ASCII_ROW and offset - len(rows[-1][1]) <= ASCII_GAP:
            rows[-1][1] = rows[-1][1].ljust(offset) + letter
        else:
            rows.append([code_point, letter])
    check_ascii(rows)
    return rows


def check_ascii(rows):
    """Compares the table with unicodedata at every code point."""
    becomes = {first + i: letter for first, letters in rows for i, letter in enumerate(letters) if letter != " "}
    for c in CODE_POINTS[0x80:]:
        assert becomes.get(c, "") == ascii_of(unicodedata.normalize("NFD", chr(c))), hex(c)


def ascii_header(rows):
    table = "\n".join(f'    {{{first:#x}, "{letters}"}},' for first, letters in rows)
    return f"""\
// Generated by scripts/generate-unicode-tables.py from tokenizers {tokenizers.__version__}; do not edit.
//
// The ASCII character in the canonical decomposition of each code point that has one. Read by ascii_folding.hpp.
#pragma once
#include <string_view>

namespace heddle::text::unicode {{

/// The ASCII characters of consecutive code points, beginning at `first`. A blank stands for none.
struct AsciiRow {{
  char32_t first;            ///< the first code point
  std::string_view letters;  ///< one for each code point
}};

/// The rows, sorted by `first`. A decomposition never holds more than one ASCII character, and never a blank.
inline constexpr AsciiRow ascii_rows[] = {{
{table}
}};

}}  // namespace heddle::text::unicode
"""


def matching(expression):
    """Returns the code points that match an expression of Split."""
    pieces = pre_tokenizers.Split(Regex(f"(?:{expression})+"), "removed", invert=True).pre_tokenize_str(ALL_TEXT)
    return {ord(c) for piece, _ in pieces for c in piece}


def find_categories():
    """Returns the category of each code point. Compares the classes that follow from it."""
    categories = dict.fromkeys(CODE_POINTS, "C")
    for category in CATEGORIES:
        found = matching(rf"\p{{{category}}}")
        assert all(categories[c] == "C" for c in found), category
        categories.update(dict.fromkeys(found, category))
    for letter in "LMN":
        assert matching(rf"\p{{{letter}}}") == {c for c, x in categories.items() if x[0] == letter}
    assert matching(r"\d") == {c for c, x in categories.items() if x == "Nd"}
    check_byte_level(categories)
    return categories


def check_byte_level(categories):
    """Compares the categories and the white space with the expression of ByteLevel."""
    level, space = pre_tokenizers.ByteLevel(add_prefix_space=False), matching(r"\s")
    for c in CODE_POINTS:
        kinds = [len(level.pre_tokenize_str(before + chr(c))) == 1 for before in "a1!"]
        category = categories[c][0]
        expected = [category == "L", category == "N", category not in "LN" and c not in space]
        assert kinds == expected, hex(c)


def category_runs(categories):
    """Returns (count, category) for consecutive code points. Three or more of Lu and Ll in turn are one run of "pairs"."""
    values = [categories.get(c, "C") for c in range(0x110000)]
    out, at = [], 0
    while at < len(values):
        equal = sum(1 for _ in itertools.takewhile(lambda c: values[c] == values[at], range(at, len(values))))
        in_turn = sum(1 for _ in itertools.takewhile(
            lambda c: values[c] == ("Lu", "Ll")[(c - at) % 2], range(at, len(values))))
        out.append((in_turn, "pairs") if in_turn > 2 else (equal, values[at]))
        at += out[-1][0]
    return out


def find_properties():
    """Returns the sets of code points of the properties other than categories."""
    def pieces(pre_tokenizer):
        return lambda text: [word for word, _ in pre_tokenizer.pre_tokenize_str(text)]

    def between(pre_tokenizer, expected):
        """Returns the code points c for which "aca" becomes the expected words."""
        cut = pieces(pre_tokenizer)
        return {c for c in CODE_POINTS if cut("a" + chr(c) + "a") == [x.replace("*", chr(c)) for x in expected]}

    everything = set(CODE_POINTS)
    space = between(pre_tokenizers.WhitespaceSplit(), ["a", "a"])
    assert space == matching(r"\s") == between(PRE_TOKENIZER, ["a", "a"])
    strip = normalizers.Strip()
    assert space == {c for c in CODE_POINTS if strip.normalize_str("a" + chr(c)) == "a"}
    assert space == {c for c in CODE_POINTS if strip.normalize_str(chr(c) + "a") == "a"}
    check_added_token_space(space)

    words = pieces(pre_tokenizers.Whitespace())
    word = set()
    for c in CODE_POINTS:
        match words("a" + chr(c) + "!"):
            case [x, "!"] if x == "a" + chr(c):
                word.add(c)
            case ["a", "!"]:
                assert c in space
            case other:
                assert other == ["a", chr(c) + "!"], hex(c)
    assert word == set(word_characters())
    # onig has two sets, one of them for \w within brackets.
    regex_word, bracket_word = matching(r"\w"), matching(r"[\w]")
    assert regex_word == everything - matching(r"\W")
    assert bracket_word == everything - matching(r"[^\w]") == everything - matching(r"[\W]") == matching(r"[\wa]")
    assert space == everything - matching(r"\S") == matching(r"[\s]") == everything - matching(r"[^\s]")

    punctuation = between(pre_tokenizers.Punctuation(), ["a", "*", "a"])
    assert punctuation == between(PRE_TOKENIZER, ["a", "*", "a"])
    numeric = between(pre_tokenizers.Digits(), ["a", "*", "a"])

    clean = bert_normalizer(clean_text=True)
    cleaned = {c: clean(chr(c)) for c in CODE_POINTS}
    dropped = {c for c, text in cleaned.items() if text == ""}
    blank = {c for c, text in cleaned.items() if text == " "}
    assert all(text == chr(c) for c, text in cleaned.items() if c not in dropped and c not in blank)
    strip_accents, strip_marks = normalizers.StripAccents(), bert_normalizer(strip_accents=True)
    marks = {c for c in CODE_POINTS if strip_accents.normalize_str(chr(c)) == ""}
    bert_marks = {c for c in CODE_POINTS if strip_marks(chr(c)) == ""}
    for c in CODE_POINTS:
        assert c in marks or strip_accents.normalize_str(chr(c)) == chr(c), hex(c)
        whole = NFD.normalize_str(chr(c))
        assert strip_marks(chr(c)) == "".join(x for x in whole if ord(x) not in bert_marks), hex(c)
    return {
        "white_space": space, "word": word, "regex_word": regex_word, "bracket_word": bracket_word, "numeric": numeric,
        "punctuation": punctuation, "clean_dropped": dropped, "clean_blank": blank, "accent": marks,
        "bert_accent": bert_marks, "han": matching(r"\p{Han}"),
    }


def bert_normalizer(**options):
    steps = dict(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False) | options
    return normalizers.BertNormalizer(**steps).normalize_str


def check_added_token_space(space):
    """Compares white space with what an added token with lstrip and rstrip takes."""
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.add_tokens([AddedToken("[T]", lstrip=True, rstrip=True, normalized=False)])
    for c in CODE_POINTS:
        encoded = tokenizer.encode(chr(c) + "[T]" + chr(c)).offsets
        assert encoded == ([(0, 5)] if c in space else [(0, 1), (1, 4), (4, 5)]), (hex(c), encoded)


def replace_clusters():
    """Returns Precompiled with a map from each first byte of UTF-8 except NUL to U+0001, and from LF to LF."""
    units = [0] * 1024
    units[0] = 256 << 10  # the root; its children stand at 256 to 511, their values at 768 to 1023
    for byte in range(1, 256):
        units[256 + byte] = byte | 1 << 8 | 512 << 10
        units[768 + byte] = 1 << 31 | (2 if byte == 10 else 0)
    trie = struct.pack(f"<{len(units)}I", *units)
    return normalizers.Precompiled(struct.pack("<I", len(trie)) + trie + b"\1\0\n\0")


def breaks_between(before, c, ris, pictograph, conjunct):
    """Returns whether a cluster ends between classes `before` and `c`: GB3 to GB999."""
    if before == "cr" and c == "lf":
        return False
    if before in ("cr", "lf", "control") or c in ("cr", "lf", "control"):
        return True
    if (before == "l" and c in ("l", "v", "lv", "lvt")) or (before in ("lv", "v") and c in ("v", "t")):
        return False
    if before in ("lvt", "t") and c == "t":
        return False
    if c in ("extend", "conjunct_extend", "linker", "zwj", "spacing_mark") or before == "prepend":
        return False
    if conjunct and c == "consonant" or pictograph == "joined" and c == "pictographic":
        return False
    return not (before == c == "regional_indicator" and ris % 2 == 1)


def count_replacements(sequence):
    """Returns how many characters Precompiled gives for [(class, bytes), ...]."""
    total, cluster = 0, []
    ris, pictograph, consonant, linker = 0, None, False, False
    for name, size in sequence + [(None, 0)]:
        if cluster and (name is None or breaks_between(
                cluster[-1][0], name, ris, pictograph, consonant and linker)):
            total += 1 if sum(n for _, n in cluster) < 6 else len(cluster)
            cluster = []
        cluster.append((name, size))
        ris = ris + 1 if name == "regional_indicator" else 0
        if name == "pictographic":
            pictograph = "open"
        elif name not in ("extend", "conjunct_extend", "linker") or pictograph != "open":
            pictograph = "joined" if name == "zwj" and pictograph == "open" else None
        if name == "consonant":
            consonant, linker = True, False
        elif name == "linker":
            linker = True
        elif name not in ("conjunct_extend", "zwj"):
            consonant = False
    return total


def find_graphemes():
    """Returns the grapheme class of each code point whose class is not "other" and that is no Hangul syllable."""
    replace = replace_clusters()
    expected = {}
    for size in range(1, 5):
        for name in GRAPHEME_CLASSES:
            key = tuple(count_replacements([(name, size) if x == "*" else (KNOWN[x], len(x.encode())) for x in context])
                        for context in GRAPHEME_CONTEXTS)
            expected.setdefault((size, key), []).append(name)
    found = {}
    for first in range(0, 0x110000, 0x1000):
        block = [c for c in range(first, first + 0x1000) if not 0xD800 <= c < 0xE000 and c not in (10, 13)]
        results = [replace.normalize_str("\n".join(context.replace("*", chr(c)) for c in block)).split("\n")
                   for context in GRAPHEME_CONTEXTS]
        for c, *counts in zip(block, *(map(len, result) for result in results)):
            names = expected[len(chr(c).encode()), tuple(counts)]
            found[c] = grapheme_class(c, names)
    assert list(map(len, map(replace.normalize_str, ("a\r\n\u0300", "\r\r", "\n\r", "\n\n")))) == [3, 2, 2, 2]
    found[10], found[13] = "lf", "cr"
    for c in HANGUL:
        assert found.pop(c) == ("lvt" if (c - HANGUL.start) % 28 else "lv"), hex(c)
    return {c: name for c, name in found.items() if name != "other"}


def grapheme_class(c, names):
    """Chooses one of the classes that Precompiled cannot tell apart. Regional indicators have four bytes, and clusters of
    them at least eight, so that none is replaced as a whole."""
    if 0x1F1E6 <= c <= 0x1F1FF:
        assert "regional_indicator" in names
        return "regional_indicator"
    only = {"zwj": 0x200D}  # classes of one code point
    names = [x for x in names if x not in ("cr", "lf", "regional_indicator") and only.get(x, c) == c]
    assert len(names) == 1, (hex(c), names)
    return names[0]


def combining_classes():
    """Returns the combining class of each code point that canonical ordering moves and that does not decompose."""
    high, low = "\u0345", "\u0334"  # of the highest class, 240, and of the lowest, 1
    moves = lambda a, b: NFD.normalize_str("a" + a + b) != "a" + a + b
    whole = [c for c in CODE_POINTS if NFD.normalize_str(chr(c)) == chr(c)]
    marks = {c: unicodedata.combining(chr(c)) for c in whole if moves(high, chr(c)) or moves(chr(c), low)}
    anchors = {combining_class: chr(c) for c, combining_class in sorted(marks.items(), reverse=True) if combining_class}
    for c, anchor in itertools.product(marks, anchors.values()):
        if not moves(chr(c), anchor) and not moves(anchor, chr(c)):
            found = marks[ord(anchor)]
            assert marks[c] in (0, found), hex(c)  # 0: not assigned in this Python's version of Unicode
            marks[c] = found
    for c, (combining_class, anchor) in itertools.product(marks, anchors.items()):
        assert moves(chr(c), anchor) == (marks[c] > combining_class), hex(c)
        assert moves(anchor, chr(c)) == (marks[c] < combining_class), hex(c)
    return marks


def build_normal_forms(lower_case):
    """Returns the tables of decompositions, compositions and combining classes."""
    texts = {form: {c: normalizer.normalize_str(chr(c)) for c in CODE_POINTS}
             for form, normalizer in zip(("nfc", "nfd", "nfkc", "nfkd"), (NFC, NFD, NFKC, NFKD))}
    canonical = {c: text for c, text in texts["nfd"].items() if text != chr(c) and c not in HANGUL}
    for c in HANGUL:
        assert texts["nfd"][c] == texts["nfkd"][c] == hangul(c) and texts["nfc"][c] == texts["nfkc"][c] == chr(c)
    compositions, excluded = {}, {}  # a composed code point has two parts; others that decompose do not compose again
    for c, text in canonical.items():
        if len(text) == 1:
            continue
        first = NFC.normalize_str(text[:-1])
        if texts["nfc"][c] == chr(c):
            assert len(first) == 1 and NFC.normalize_str(first + text[-1]) == chr(c), hex(c)
            compositions[c] = (ord(first), ord(text[-1]))
        else:
            excluded[c] = [ord(x) for x in text]
    pairs = {pair: c for c, pair in compositions.items()}
    for pair in itertools.product({a for a, _ in pairs}, {b for _, b in pairs}):
        first, second = map(chr, pair)
        composed = NFC.normalize_str(first + second)
        if pair in pairs:
            assert composed == chr(pairs[pair]), pair
        elif NFD.normalize_str(first + second) == NFD.normalize_str(first) + second:  # otherwise others compose
            assert len(composed) == 2, pair
    compatible = {}  # those that differ from the decompositions of the parts of the canonical decomposition
    for c, text in texts["nfkd"].items():
        parts = texts["nfd"][c]
        if text != (parts if parts == chr(c) else "".join(texts["nfkd"][ord(x)] for x in parts)):
            compatible[c] = text
    for form, decomposed in (("nfc", "nfd"), ("nfkc", "nfkd")):
        for c, text in texts[form].items():
            assert text == NFC.normalize_str(texts[decomposed][c]), hex(c)
    lowered = {c: normalizers.Lowercase().normalize_str(chr(c)) for c in CODE_POINTS}
    assert {c: text for c, text in lowered.items() if text != chr(c)} == lower_case
    singles = lambda mapping: {c: ord(text) for c, text in mapping.items() if len(text) == 1}
    ideographs = {c: t for c, t in singles(canonical).items() if any(c in block for block in IDEOGRAPHS)}
    tables = {
        "combining_classes": ranges(combining_classes()),
        "singles": runs({c: t for c, t in singles(canonical).items() if c not in ideographs}),
        "ideographs": [[ideographs.get(c, c) for c in block] for block in IDEOGRAPHS],
        "compositions": [(c, *pair) for c, pair in sorted(compositions.items())],
        "excluded": sorted(excluded.items()),
        "compatible_singles": runs(singles(compatible)),
        "compatible": sorted((c, [ord(x) for x in text]) for c, text in compatible.items() if len(text) > 1),
    }
    print("normal forms: " + ", ".join(f"{len(rows)} {name}" for name, rows in tables.items()))
    return tables


def property_header(categories, properties, graphemes):
    intervals = lambda code_points: lines(f"{{{a:#x}, {b:#x}}}" for a, b, _ in ranges(dict.fromkeys(code_points, True)))
    numbers = {c for c, category in categories.items() if category[0] == "N"}
    return f"""\
// Generated by scripts/generate-unicode-tables.py from tokenizers {tokenizers.__version__}; do not edit.
//
// Properties of code points, each as the component of that library has it which uses the property. Read by
// properties.hpp. The categories are those of its regular expressions (onig).
#pragma once
#include <cstdint>

#include <heddle/text/unicode_tables.hpp>

namespace heddle::text::unicode {{

/// The general category of a code point. `P`, `S` and `Z` are not divided. `C` is the rest, which includes unassigned
/// code points.
enum class Category : std::uint8_t {{
  {", ".join(CATEGORIES)}, C,
  pairs,  ///< Lu and Ll in turn
}};

/// Consecutive code points of a category.
struct CategoryRun {{
  std::uint32_t count;
  Category category;
}};

namespace categories {{
using enum Category;
/// The categories of all code points from U+0000 on.
inline constexpr CategoryRun runs[] = {{
{lines(f"{{{n}, {category}}}" for n, category in category_runs(categories))}
}};
}}  // namespace categories

/// White space: of Rust, and of the regular expressions.
inline constexpr Interval white_space[] = {{
{intervals(properties["white_space"])}
}};

/// The code points that are in one of `word_characters` and \\w of Split's regular expressions, but not in the other.
inline constexpr Interval regex_word_differences[] = {{
{intervals(properties["word"] ^ properties["regex_word"])}
}};

/// The code points that are in one of `word_characters` and the set of \\w within brackets, but not in the other.
inline constexpr Interval bracket_word_differences[] = {{
{intervals(properties["word"] ^ properties["bracket_word"])}
}};

/// The code points that are in one of category N and Rust's char::is_numeric, but not in the other.
inline constexpr Interval numeric_differences[] = {{
{intervals(numbers ^ properties["numeric"])}
}};

/// The punctuation of the pre-tokenizers Punctuation and BertPreTokenizer.
inline constexpr Interval punctuation[] = {{
{intervals(properties["punctuation"])}
}};

/// The code points that clean_text of BertNormalizer drops.
inline constexpr Interval clean_dropped[] = {{
{intervals(properties["clean_dropped"])}
}};

/// The code points that clean_text of BertNormalizer replaces by a blank.
inline constexpr Interval clean_blank[] = {{
{intervals(properties["clean_blank"])}
}};

/// The script Han of the regular expressions.
inline constexpr Interval han[] = {{
{intervals(properties["han"])}
}};

/// The marks that the normalizer StripAccents drops.
inline constexpr Interval accents[] = {{
{intervals(properties["accent"])}
}};

/// The marks that strip_accents of BertNormalizer drops, and characters that NFD divides into such marks.
inline constexpr Interval bert_accents[] = {{
{intervals(properties["bert_accent"])}
}};

/// The class by which grapheme clusters end: the property Grapheme_Cluster_Break, divided by
/// Indic_Conjunct_Break and Extended_Pictographic.
enum class GraphemeClass : std::uint8_t {{
  other, cr, lf, control,
  extend,           ///< Extend that is no part of a conjunct
  conjunct_extend,  ///< Extend with InCB=Extend
  linker,           ///< Extend with InCB=Linker
  zwj, regional_indicator, prepend, spacing_mark, l, v, t, lv, lvt,
  pictographic,     ///< Extended_Pictographic
  consonant,        ///< InCB=Consonant
}};

/// Code points of a class.
struct GraphemeRange {{
  char32_t first, last;
  GraphemeClass grapheme_class;
}};

namespace grapheme_classes {{
using enum GraphemeClass;
/// The ranges of classes except `other`, and except Hangul syllables.
inline constexpr GraphemeRange ranges[] = {{
{lines(f"{{{a:#x}, {b:#x}, {x}}}" for a, b, x in ranges(graphemes))}
}};
}}  // namespace grapheme_classes

}}  // namespace heddle::text::unicode
"""


def normal_form_header(tables):
    runs_of = lambda name: lines(f"{{{a:#x}, {b:#x}, {n}, {s}, {t}}}" for a, b, n, s, t in tables[name])
    text = lambda code_points: "".join(f"\\x{x:x}" if x < 0x20 else f"\\u{x:04x}" if x < 0x10000 and x >= 0xA0 else
                                       f"\\U{x:08x}" if x >= 0x10000 else "\\" + chr(x) if chr(x) in '"\\' else chr(x)
                                       for x in code_points)
    return f"""\
// Generated by scripts/generate-unicode-tables.py from tokenizers {tokenizers.__version__}; do not edit.
//
// Decompositions, compositions and combining classes, as in the normalizers NFC, NFD, NFKC and NFKD of that library.
// Read by normal_forms.hpp. Hangul syllables are left out.
#pragma once
#include <string_view>

#include <heddle/text/unicode_tables.hpp>

namespace heddle::text::unicode {{

/// The combining classes of the code points that do not decompose; 0 in no range.
inline constexpr Marks combining_classes[] = {{
{lines(f"{{{a:#x}, {b:#x}, {c}}}" for a, b, c in tables["combining_classes"])}
}};

/// Canonical decompositions to one code point, except those of the ideographs of unicode_tables.hpp.
inline constexpr Run canonical_singles[] = {{
{runs_of("singles")}
}};

/// A code point that decomposes to two, and that they compose to.
struct Composition {{
  char32_t composed, first, second;
}};

/// The compositions. `first` may decompose further.
inline constexpr Composition compositions[] = {{
{lines(f"{{{c:#x}, {a:#x}, {b:#x}}}" for c, a, b in tables["compositions"])}
}};

/// A code point and its full decomposition.
struct LongDecomposition {{
  char32_t source;
  std::u32string_view targets;
}};

/// Canonical decompositions to several code points that do not compose again.
inline constexpr LongDecomposition canonical_sequences[] = {{
{lines(f'{{{c:#x}, U"{text(x)}"}}' for c, x in tables["excluded"])}
}};

/// Compatibility decompositions to one code point.
inline constexpr Run compatibility_singles[] = {{
{runs_of("compatible_singles")}
}};

/// Compatibility decompositions to several code points. A code point in no compatibility table has those of the code
/// points of its canonical decomposition.
inline constexpr LongDecomposition compatibility_sequences[] = {{
{lines(f'{{{c:#x}, U"{text(x)}"}}' for c, x in tables["compatible"])}
}};

}}  // namespace heddle::text::unicode
"""


def compare_with_unicodedata(uncased):
    """Prints how many code points the library treats differently from this Python's Unicode, for information only."""
    different = 0
    for c in CODE_POINTS:
        if unicodedata.category(chr(c)) == "Cn" or uncased[c][0] not in ("word", "isolated", "drop"):
            continue
        kept = (x for x in unicodedata.normalize("NFD", chr(c)) if unicodedata.category(x) != "Mn")
        expected = "".join(x.lower() for x in kept if unicodedata.category(x)[0] != "C" and x not in "\ufffd")
        different += expected != uncased[c][1]
    print(f"assigned code points whose uncased form differs from Unicode {unicodedata.unidata_version}: {different}")


def main():
    tables, uncased = build()
    rows = ascii_rows()
    folder = pathlib.Path(sys.argv[1]) if len(sys.argv) > 1 else FOLDER
    (folder / "unicode_tables.hpp").write_text(header(tables))
    (folder / "ascii_table.hpp").write_text(ascii_header(rows))
    lower_case = expand(tables["letters"]) | {c: "".join(map(chr, t)) for c, t in tables["long_letters"]}
    normal_forms = build_normal_forms(lower_case)
    assert normal_forms["ideographs"] == tables["ideographs"]
    (folder / "normal_form_tables.hpp").write_text(normal_form_header(normal_forms))
    categories = find_categories()
    properties, graphemes = find_properties(), find_graphemes()
    (folder / "property_tables.hpp").write_text(property_header(categories, properties, graphemes))
    letters = sum(len(letters.replace(" ", "")) for _, letters in rows)
    print(f"{folder}: " + ", ".join(f"{len(rows)} {name}" for name, rows in tables.items())
          + f", {letters} ASCII letters in {len(rows)} rows")
    compare_with_unicodedata(uncased)


if __name__ == "__main__":
    main()
