#!/usr/bin/env python3
"""Writes tests/golden/text: the output of the Rust `tokenizers` library, with which heddle's tests compare.

    scripts/golden-text.py          needs the Python package `tokenizers`

If HEDDLE_DATA names the folder of real data, data.txt (digests of SST-2 and AG News with both BERT vocabularies) is
written, too; otherwise it is left unchanged. The formats are in tests/golden/text/README.md.
"""
import importlib.util
import os
import pathlib
import random
import struct
import sys
import zlib

from tokenizers import AddedToken, Regex, Tokenizer, models, normalizers, pre_tokenizers

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/peers"))
from tokens import SPECIAL, bert_tokenizer, encode_bytes, read_vocabulary  # noqa: E402

OUTPUT = ROOT / "tests/golden/text"
MODES = {"cased": (False, None), "uncased": (True, None), "lowered": (True, False), "stripped": (False, True)}
# Marks that the uncased tokenizer keeps and sorts, marks that it drops, and characters that decompose to some of them.
MARKS = ("\U0001d165\U0001d166\U0001d16d\U0001d16e\u302e\u302f\u1b44\u08d4\U00011446"
         "\u0301\u0316\u0345\u093a\U0001d160\u0ccb")


def set_max_length(tokenizer, max_length):
    if max_length is None:
        tokenizer.no_truncation()
    else:
        tokenizer.enable_truncation(max_length)


def code_points():
    """Yields a line for each block of code points, with digests of their words."""
    def normalizer(lowercase, strip_accents):
        return normalizers.BertNormalizer(lowercase=lowercase, strip_accents=strip_accents)

    cased, uncased, lowered, stripped = (
        normalizer(False, None), normalizer(True, None), normalizer(True, False), normalizer(False, True))
    cut = pre_tokenizers.BertPreTokenizer()

    def digest(block, clean, before, after):
        crc = 0
        for c in block:
            if not 0xD800 <= c < 0xE000:
                text = clean.normalize_str(before + chr(c) + after)
                crc = zlib.crc32((" ".join(word for word, _ in cut.pre_tokenize_str(text)) + "\n").encode(), crc)
        return crc

    first = 0
    while first < 0x110000:
        block = range(first, first + (0x400 if first < 0x30000 else 0x10000))
        digests = (digest(block, cased, "a", "b"), digest(block, uncased, "a", "b"),
                   digest(block, uncased, "a\U0001d16d", "\U0001d165"), digest(block, lowered, "a", "b"),
                   digest(block, lowered, "a\U0001d16d", "\U0001d165"), digest(block, stripped, "a", "b"),
                   digest(block, stripped, "a\U0001d16d", "\U0001d165"))
        yield f"{block.start:x} {block.stop - 1:x} " + " ".join(f"{d:08x}" for d in digests)
        first = block.stop


def test_vocabulary():
    """Returns a small vocabulary with enough scripts that a wrong character or a wrong order shows in the ids."""
    characters = [chr(c) for c in range(0x21, 0x7F)] + list("éüñßæœçÉÜŁłİıſ¿§€™")
    characters += list("αβσςΣΑДйЙдشسنअकिो가한ᄒ") + ["\u1161", "\u11ab", "\u110b", "\u1112"]
    characters += list("中文字豈更車あガパ々〆、。") + list(MARKS)
    characters += ["\U0001d157", "\U0001d158", "\U0001f600", "\u0cd5", "\u0cc2"]
    pieces = "the quick brown fox jumps over un aff able ing ed er est s 's New York straße naïve Σοφός привет".split()
    tokens = SPECIAL + characters + pieces + ["##" + token for token in characters + pieces]
    return list(dict.fromkeys(tokens))


def mutate(random_numbers, text):
    """Returns the text's bytes with random damage."""
    data = bytearray(text.encode())
    for _ in range(random_numbers.randint(1, 4)):
        at = random_numbers.randrange(len(data) + 1)
        data[at:at + random_numbers.randint(0, 2)] = random_numbers.choice([
            b"", b"\x80", b"\xc0\xaf", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xf4\x90\x80\x80", b"\xff",
            b"\xef\xbf\xbd"])
    return bytes(data)


def texts(tokens):
    """Yields texts as bytes: first chosen ones, then random mixtures."""
    chosen = [
        "", " ", "a", "The quick brown fox, unaffable.", "a[SEP]b", "[CLS][SEP] [sep][MASK]ed [ SEP] [[UNK]]", "[SEP",
        "[PAD]]", "##the ##", "\u0130\u0131\u017f\u1e9e", "ΣΟΦΟΣ σοφός", "≠<≮>≯=`\u1fef", "가각한글",
        "豈更車\U0002f800中a文",
        "\U0002b820\U0002b81f\U0002b920\U0002ceaf", "a\u00adb\u200bc\u200dd\ufeffe", "a\u00a0b\u3000c\u2028d\u0085e",
        "a\x00b\ufffdc\x1fd\x7fe", "a\tb\nc\rd\x0be\x0cf", "x\U0001d16d\U0001d165\u302e\u1b44y",
        "x\U0001d16d\u093a\U0001d165", "\U0001d15f\U0001d160\U0001d165", "o\u0316\u0301\u0345", "a" * 100, "a" * 101,
        "é" * 100, "é" * 101, "한" * 33, "한" * 34, "\u302e" * 100 + "\U0001d165", "a\u0301" * 100, "中" * 120,
        "€100 §5 ¿qué? it's", "😀a😀", "ccb\u0ccb", "New York's unables", "the" * 33 + "s", "the" * 34,
    ]
    yield from (text.encode() for text in chosen)
    yield from [b"a\xffb", b"\xc3", b"\xe2\x82", b"[SE\xffP]", b"\xed\xa0\x80\xed\xb0\x80", b"\xc0\x80",
                b"\xf8\x88\x80\x80\x80"]
    numbers = random.Random(1)
    plain = [token.removeprefix("##") for token in tokens]
    scripts = [range(0x20, 0x7F), range(0xA0, 0x250), range(0x370, 0x530), range(0x5D0, 0x700), range(0x900, 0xDF0),
               range(0x1E00, 0x2070), range(0x3040, 0x3100), range(0x4E00, 0x4F00), range(0xAC00, 0xAE00),
               range(0x1D150, 0x1D1D0), range(0x1F600, 0x1F640)]
    for i in range(220):
        parts = []
        for _ in range(numbers.randint(1, 8)):
            parts.append(numbers.choice([
                numbers.choice(plain), numbers.choice(SPECIAL),
                "".join(numbers.choices(MARKS, k=numbers.randint(1, 5))),
                "".join(map(chr, numbers.choices(numbers.choice(scripts), k=numbers.randint(1, 4)))), " ", ""]))
        text = "".join(parts)
        yield mutate(numbers, text) if i % 5 == 0 else text.encode()


def cases(vocabulary):
    tokenizers = {uncased: bert_tokenizer(vocabulary, uncased) for uncased in (False, True)}
    samples = list(texts(list(vocabulary)))
    numbers = random.Random(2)
    for i, text in enumerate(samples):
        for uncased in (False, True):
            pair = numbers.choice(samples) if i % 3 == 1 else None
            special = numbers.random() < 0.7
            max_length = numbers.choice([3, 4, 5, 8, 13]) if numbers.random() < 0.4 else None
            set_max_length(tokenizers[uncased], max_length)
            decoded = [t.decode(errors="replace") for t in (text, pair) if t is not None]
            result = tokenizers[uncased].encode(*decoded, add_special_tokens=special)
            yield " ".join([
                "uncased" if uncased else "cased", "special" if special else "plain",
                "-" if max_length is None else str(max_length),
                "x" + text.hex(), "-" if pair is None else "x" + pair.hex(),
                "=" + ",".join(map(str, result.ids)), "=" + "".join(map(str, result.type_ids))])


def added_tokens(vocabulary):
    """Yields lines for tokens with options, and lines for texts in which they occur."""
    def token(content, single_word=False, normalized=False, lstrip=False, rstrip=False):
        return AddedToken(content, single_word=single_word, normalized=normalized, lstrip=lstrip, rstrip=rstrip)

    added = [
        token("[NEW]"), token("[Other]", normalized=True), token("quick", single_word=True), token("Brown", normalized=True),
        token("New York", normalized=True), token("über", normalized=True, single_word=True), token("中文", normalized=True),
        token("中"), token("ab"), token("abc"), token("abcd", single_word=True), token("<x>", lstrip=True, rstrip=True),
        token("##", normalized=True), token("İ", normalized=True), token("fox jumps", single_word=True, normalized=True),
        token("é", single_word=True), token("o\u0316\u0301", normalized=True)]
    tokenizers = {name: bert_tokenizer(vocabulary, *mode) for name, mode in MODES.items()}
    for tokenizer in tokenizers.values():
        tokenizer.add_tokens(added)
    for t in added:
        options = "".join(letter for letter, on in (("w", t.single_word), ("n", t.normalized)) if on) or "-"
        yield f"token {tokenizers['cased'].token_to_id(t.content)} {options} x{t.content.encode().hex()}"
    numbers = random.Random(3)
    pieces = [t.content for t in added] + [t.content.upper() for t in added] + [t.content.lower() for t in added]
    others = SPECIAL + list(" _-.aé9Z中한ß\u0301\u200d\u00ad\t") + ["the", "a" * 120, "\U0001d16d\U0001d165", "I\u0307", "e\u0301",
                                                                   "o\u0301\u0316", "u\u0308ber", "\uf95e"]
    texts = ["", "[new][NEW]", "abcde abcd abc", "quick_ quick. quickquick quick", "a New  York new york", "fox jumps fox jumpsa"]
    texts += ["".join(numbers.choice(pieces if numbers.random() < 0.6 else others) for _ in range(numbers.randint(1, 9)))
              for _ in range(400)]
    for i, text in enumerate(texts):
        name = list(MODES)[i % 4]
        ids = tokenizers[name].encode(text, add_special_tokens=False).ids
        yield f"{name} x{text.encode().hex()} =" + ",".join(map(str, ids))


def mark_runs():
    """Yields texts with runs of marks, in which kept and dropped ones change places, and words that end with them."""
    numbers = random.Random(4)
    others = ["a", "é", "\U0001d15e", "\U0001d160", "한", "中", ",", " ", "\u093a", "\u200d", "x" * 99, "[MASK]", "İ"]
    for _ in range(60):
        parts = ["".join(numbers.choices(MARKS + "\u0591\u05b0\u0f71\u0f73\u0344", k=numbers.randint(1, 6)))
                 if numbers.random() < 0.6 else numbers.choice(others) for _ in range(numbers.randint(2, 7))]
        yield "".join(parts)


def joined(numbers):
    return "=" + ",".join(map(str, numbers))


def offsets(vocabulary):
    """Yields lines for added tokens, and lines for the offsets, the words and the decoded ids of texts with and without them."""
    added = [AddedToken("[NEW]", normalized=False), AddedToken("quick", single_word=True, normalized=False),
             AddedToken("Brown", normalized=True), AddedToken("中文", normalized=True), AddedToken("İ", normalized=True),
             AddedToken("o\u0316\u0301", normalized=True), AddedToken("fox jumps", normalized=True, single_word=True),
             AddedToken("do not . ' s", normalized=False), AddedToken("[Special]", normalized=True, special=True)]
    tokenizers = {(name, with_added): bert_tokenizer(vocabulary, *mode) for name, mode in MODES.items() for with_added in (0, 1)}
    for (_, with_added), tokenizer in tokenizers.items():
        if with_added:
            tokenizer.add_tokens(added)
    for t in added:
        options = "".join(letter for letter, on in (("w", t.single_word), ("n", t.normalized), ("s", t.special)) if on) or "-"
        yield f"token {tokenizers['cased', 1].token_to_id(t.content)} {options} x{t.content.encode().hex()}"
    numbers = random.Random(5)
    samples = [text.encode() for text in mark_runs()] + list(texts(list(vocabulary)))[::2]
    others = [t.content for t in added] + ["BROWN", " 中文", "[NEW]中 文", "i\u0307", "\u00f3\u0316", "Quick", "\u0301"]
    samples += ["".join(numbers.choices(others + [" ", "a"], k=numbers.randint(1, 6))).encode() for _ in range(40)]
    for i, text in enumerate(samples):
        name, with_added = list(MODES)[i % 4], numbers.randint(0, 1)
        pair = numbers.choice(samples) if i % 3 == 1 else None
        special = numbers.random() < 0.7
        max_length = numbers.choice([3, 5, 9]) if numbers.random() < 0.3 else None
        tokenizer = tokenizers[name, with_added]
        set_max_length(tokenizer, max_length)
        result, ranges = encode_bytes(tokenizer, text, pair, special)
        words = [-1 if word is None else word for word in result.word_ids]
        yield " ".join([
            name, "added" if with_added else "-", "special" if special else "plain", "-" if max_length is None else str(max_length),
            "x" + text.hex(), "-" if pair is None else "x" + pair.hex(), joined(result.ids), joined(sum(ranges, ())), joined(words),
            "x" + tokenizer.decode(result.ids).encode().hex(),
            "x" + tokenizer.decode(result.ids, skip_special_tokens=False).encode().hex()])


def truncation(vocabulary):
    tokenizer = bert_tokenizer(vocabulary, False)
    for n1 in range(8):
        for n2 in range(8):
            kept = []
            for room in range(18):
                set_max_length(tokenizer, room)
                types = tokenizer.encode("a " * n1, "b " * n2, add_special_tokens=False).type_ids
                kept.append(f"{types.count(0)},{types.count(1)}")
            yield f"{n1} {n2} " + " ".join(kept)


def digest(encodings):
    """Returns the number of ids and one CRC-32 over every text's length, ids and type ids as 32-bit little-endian numbers."""
    crc, count = 0, 0
    for e in encodings:
        crc = zlib.crc32(struct.pack(f"<{1 + 2 * len(e.ids)}i", len(e.ids), *e.ids, *e.type_ids), crc)
        count += len(e.ids)
    return f"{count} {crc:08x}"


def data_digests(folder):
    sources = {f: (folder / f).read_bytes().decode().removesuffix("\n").split("\n") for f in (
        "sst2/train.tsv", "sst2/dev.tsv", "sst2/test.tsv", "ag_news/train_subset.csv", "ag_news/test.csv")}
    sources["code-points"] = ["a" + chr(c) + "b" for c in range(0x110000) if not 0xD800 <= c < 0xE000]
    for name, uncased in (("cased", False), ("uncased", True)):
        tokenizer = bert_tokenizer(read_vocabulary(folder / f"vocab/bert-base-{name}-vocab.txt"), uncased)
        for source, lines in sources.items():
            set_max_length(tokenizer, None)
            yield f"{name} {source} single {digest(tokenizer.encode_batch(lines))}"
            if source != "code-points":
                set_max_length(tokenizer, 40)
                pairs = list(zip(lines, lines[1:]))
                yield f"{name} {source} pairs {digest(tokenizer.encode_batch(pairs))}"


def utf8():
    for text in texts(SPECIAL):
        if text.decode(errors="replace").encode() != text:
            yield text.hex() + " " + text.decode(errors="replace").encode().hex()


def unicode_tables():
    """Returns the module that asks the library about code points."""
    path = ROOT / "scripts/generate-unicode-tables.py"
    specification = importlib.util.spec_from_file_location("generate_unicode_tables", path)
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    return module


def properties(tables):
    """Yields a line for each set of code points, and for the combining and grapheme classes."""
    def line(name, values):
        rows = tables.ranges(values)
        text = "".join(f"{first:x} {last:x} {value}\n" for first, last, value in rows)
        return f"{name} {len(rows)} {zlib.crc32(text.encode()):08x}"

    categories = tables.find_categories()
    sets = {name: {c for c, category in categories.items() if category == name} for name in tables.CATEGORIES}
    sets |= {letter: {c for c, category in categories.items() if category[0] == letter} for letter in "LMN"}
    sets |= tables.find_properties()
    for name, code_points in sets.items():
        yield line(name, dict.fromkeys(code_points, 1))
    yield line("combining_class", tables.combining_classes())
    syllables = {c: "lv" if i % 28 == 0 else "lvt" for i, c in enumerate(tables.HANGUL)}
    yield line("grapheme_class", tables.find_graphemes() | syllables)


def normal_forms(tables):
    """Yields lines for the code points of each plane, and lines for random texts."""
    forms = [tables.NFC, tables.NFD, tables.NFKC, tables.NFKD]
    for plane in range(17):
        block = [chr(c) for c in range(plane << 16, (plane + 1) << 16) if not 0xD800 <= c < 0xE000]
        crcs = [zlib.crc32("".join(form.normalize_str(c) + "\n" for c in block).encode())
                for form in (*forms, normalizers.Lowercase())]
        yield f"plane {plane} " + " ".join(f"{crc:08x}" for crc in crcs)
    # Each character is one token, whose offsets show its source.
    tokenizer = Tokenizer(models.WordLevel({"?": 0}, unk_token="?"))
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(r"[\s\S]"), "isolated")
    for text in normal_form_texts(tables):
        crcs = []
        for form in forms:
            tokenizer.normalizer = form
            sources = "".join(f" {first}" for first, _ in tokenizer.encode(text).offsets)
            crcs.append(f"{zlib.crc32((form.normalize_str(text) + sources).encode()):08x}")
        yield f"x{text.encode().hex()} " + " ".join(crcs)


def normal_form_texts(tables):
    """Yields random mixes of characters that decompose, marks, jamo and syllables."""
    numbers = random.Random(6)
    parts = {c: tables.NFD.normalize_str(chr(c)) for c in tables.CODE_POINTS if c not in tables.HANGUL}
    canonical = [chr(c) for c, text in parts.items() if text != chr(c)]
    compatible = [chr(c) for c in parts if tables.NFKD.normalize_str(chr(c)) != parts[c]]
    marks = [chr(c) for c in tables.combining_classes()]
    jamo = [chr(c) for c in [*range(0x1100, 0x1200), 0x1100, 0x1112, 0x1113, 0x1161, 0x1175, 0x1176, 0x11A7, 0x11A8, 0x11C2]]
    syllables = [chr(c) for c in tables.HANGUL]
    firsts = sorted({parts[ord(c)][0] for c in canonical})
    seconds = sorted({x for c in canonical for x in parts[ord(c)][1:]})
    # Decompositions to several marks, of which some change places with others.
    special = list("a\u0301\u0316\u0308\u0344\u0345\u0f71\u0f72\u0f73\u0f75\u0f80\u0f81\u1e69\u212b\ufb2e\U0001d15e\U0001d160\U0001d165")
    kinds = [canonical, compatible, marks, marks, jamo, syllables, firsts, seconds, special, special, list("a ")]
    for _ in range(2000):
        yield "".join(numbers.choice(numbers.choice(kinds)) for _ in range(numbers.randint(1, 9)))


def graphemes(tables):
    """Yields texts with the number of characters that Precompiled gives if it has a text for each beginning."""
    numbers = random.Random(7)
    classes = {}
    for c, name in tables.find_graphemes().items():
        classes.setdefault(name, []).append(chr(c))
    classes["lv"] = list("\uac00\uac1c")
    classes["lvt"] = list("\uac01\ud7a3")
    classes["other"] = list("a-\xe9\u4e2d\U00020000")
    first = {name: sorted(members)[:2] for name, members in classes.items()}
    replace = tables.replace_clusters()
    for i in range(1500):
        members = first if i % 2 else classes  # short ones are more often parts of clusters that are replaced
        text = "".join(numbers.choice(members[numbers.choice(sorted(members))]) for _ in range(numbers.randint(1, 7)))
        yield f"x{text.encode().hex()} {len(replace.normalize_str(text))}"


def write(name, lines):
    path = OUTPUT / name
    path.write_text("".join(line + "\n" for line in lines), newline="\n")
    print(path, path.stat().st_size, "bytes")


def main():
    OUTPUT.mkdir(parents=True, exist_ok=True)
    tokens = test_vocabulary()
    vocabulary = {token: i for i, token in enumerate(tokens)}
    write("vocab.txt", tokens)
    write("utf8.txt", utf8())
    write("code_points.txt", code_points())
    write("cases.txt", cases(vocabulary))
    write("added.txt", added_tokens(vocabulary))
    write("offsets.txt", offsets(vocabulary))
    write("truncation.txt", truncation(vocabulary))
    tables = unicode_tables()
    write("properties.txt", properties(tables))
    write("normal_forms.txt", normal_forms(tables))
    write("graphemes.txt", graphemes(tables))
    if "HEDDLE_DATA" in os.environ:
        write("data.txt", data_digests(pathlib.Path(os.environ["HEDDLE_DATA"])))


if __name__ == "__main__":
    main()
