#!/usr/bin/env python3
"""Writes include/heddle/text/{unicode_tables,ascii_table}.hpp by asking the Rust `tokenizers` library about every code
point.

The standard is that library's behavior, not a version of Unicode: its categories, decompositions and lower-case
letters come from three versions. So each code point is put through BertNormalizer and BertPreTokenizer as "a?b", with
and without lower-casing and stripping of accents, and what comes out is the table. The order of combining marks is found
in the same way, with anchors of known combining class. The finished tables are run here over all code points again; any
difference is an error.

The ASCII letters of canonical decompositions come from the library's NFD. Unicode never changes a decomposition, so that
table is also compared with this Python's `unicodedata`, whatever its version.

    scripts/generate-unicode-tables.py [FOLDER]       needs the Python package `tokenizers`
"""
import itertools
import pathlib
import sys
import unicodedata

import tokenizers
from tokenizers import AddedToken, Tokenizer, models, normalizers, pre_tokenizers

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
NFD = normalizers.NFD()


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
    letters = sum(len(letters.replace(" ", "")) for _, letters in rows)
    print(f"{folder}: " + ", ".join(f"{len(rows)} {name}" for name, rows in tables.items())
          + f", {letters} ASCII letters in {len(rows)} rows")
    compare_with_unicodedata(uncased)


if __name__ == "__main__":
    main()
