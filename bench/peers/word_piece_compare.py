#!/usr/bin/env python3
"""Compares heddle's WordPiece with the Rust library: ids, type ids, offsets, words and decoded texts must be equal.

    bench/peers/word_piece_compare.py --program build/release/bench/word_piece_program --data DIR [--only CHECK] [--texts N]

 data         the lines of SST-2 and AG News with BERT's vocabularies, and each with the next as a pair of at most 40 tokens
 code_points  each code point within a word, with an accent and between combining marks
 mixes        N (100,000) random mixtures of scripts, combining marks, emoji and invalid bytes, whole and truncated, a third of
              them as pairs, without and with added tokens of all options
 decode       N/5 random lists of ids, with BERT's vocabularies

Each check is made cased and uncased, with and without accents. In `code_points` and `mixes`, nearly each character of the texts is
a token, so that a wrong offset of any shows. The library reads text: invalid UTF-8 is replaced by U+FFFD for it, and its offsets
are brought back to the original bytes.

Exit code 1 when a result differs. Needs tokenizers.
"""

import argparse
import os
import pathlib
import random
import subprocess
import sys
import tempfile

from tokenizers import AddedToken
from tokens import SPECIAL, bert_tokenizer, encode_bytes, read_vocabulary

CHECKS = ["data", "code_points", "mixes", "decode"]
MODES = {"cased": (False, False), "uncased": (True, True), "lowered": (True, False), "stripped": (False, True)}
SOURCES = ("sst2/train.tsv", "sst2/dev.tsv", "sst2/test.tsv", "ag_news/train_subset.csv", "ag_news/test.csv")
UNLIMITED = 1 << 40
DAMAGE = (b"\x80", b"\xff", b"\xc0\xaf", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xf4\x90\x80\x80", b"\xef\xbf\xbd", b"\xc3")
MARKS = "\u0301\u0316\u0345\u0327\u0338\u05b0\u0591\u064b\u093a\u093c\u094d\u0e38\u0f71\u0f73\u0344\u302a\u302e\u302f\u3099" \
    "\u1b44\u08d4\u0ccb\u1dfa\U00011446\U0001d165\U0001d166\U0001d16d\U0001d16e\U0001d160\U0001d1bf\U0001e944\U0001e94a"
SCRIPTS = [
    (0x20, 0x7F), (0xA0, 0x180), (0x180, 0x250), (0x300, 0x370), (0x370, 0x530), (0x591, 0x6FF), (0x8D0, 0x980), (0x980, 0xDF0),
    (0xE00, 0x1000), (0x1100, 0x1200), (0x1C80, 0x1D00), (0x1DC0, 0x2070), (0x2100, 0x2270), (0x2E80, 0x3100), (0x3400, 0x3440),
    (0x4E00, 0x4E80), (0xA640, 0xA700), (0xAB60, 0xABF0), (0xAC00, 0xAC80), (0xF900, 0xFA80), (0xFE00, 0xFF60), (0x10A00, 0x10A40),
    (0x11440, 0x11450), (0x1D150, 0x1D1D0), (0x1E000, 0x1E030), (0x1E900, 0x1E960), (0x1F300, 0x1F340), (0x1F600, 0x1F650),
    (0x20000, 0x20010), (0x2F800, 0x2F820), (0xE0100, 0xE0110)]
ADDED = [
    AddedToken("[NEW]", normalized=False), AddedToken("[Other]", normalized=True), AddedToken("Quick", single_word=True, normalized=False),
    AddedToken("brown", single_word=True, normalized=True), AddedToken("New York", normalized=True), AddedToken("ÜBER", normalized=True),
    AddedToken("中文", normalized=True), AddedToken("中", normalized=False), AddedToken("ab", normalized=False),
    AddedToken("abc", normalized=False), AddedToken("İ", normalized=True), AddedToken("o\u0316\u0301", normalized=True),
    AddedToken("한글", normalized=True), AddedToken("\U0001f600", normalized=False), AddedToken("do not . ' s", normalized=False),
    AddedToken("<special>", normalized=False, special=True), AddedToken("<Special>", normalized=True, special=True)]
OFTEN = [t.content for t in ADDED] + [t.content.upper() for t in ADDED] + [t.content.lower() for t in ADDED] + SPECIAL
OFTEN += [" ", "  ", "\t", "\u00a0", "\u3000", "\u00ad", "\u200d", "\ufe0f", "\x00", "\x7f", "\u0085", "_", "-", "'", "x" * 98, "é" * 50, "İ", "ß",
          "e\u0301", "中文字", "👩\u200d👩\u200d👧", "👍\U0001f3fd", "🇩🇪", "한국어", "ᄒ\u1161\u11ab", "नमस्ते", "שָׁלוֹם", "สวัสดี", "Ǆ", "ﬀ"]


def hexadecimal(data):
    return "x" + data.hex()


def joined(numbers):
    return "=" + ",".join(map(str, numbers))


class Side:
    """Both tokenizers of one vocabulary and mode."""

    def __init__(self, program, folder, vocab, mode, added=(), max_length=None):
        self.rust = bert_tokenizer(read_vocabulary(pathlib.Path(vocab)), *MODES[mode])
        self.rust.add_tokens(list(added))
        if max_length is not None:
            self.rust.enable_truncation(max_length)
        file = folder / "added.txt"
        options = (("single_word", "w"), ("normalized", "n"), ("special", "s"))
        file.write_text("".join(
            ("".join(letter for name, letter in options if getattr(t, name)) or "-") + f" {hexadecimal(t.content.encode())}\n"
            for t in added))
        self.command = [program, vocab, mode, file, str(UNLIMITED if max_length is None else max_length)]

    def decoded(self, ids):
        return [hexadecimal(self.rust.decode(ids, skip_special_tokens=skip).encode()) for skip in (True, False)]

    def expected(self, item):
        """Returns the line that the program should write for texts (a tuple of bytes) or for ids (a list)."""
        if isinstance(item, list):
            return " ".join(self.decoded(item))
        encoding, offsets = encode_bytes(self.rust, *item)
        words = (-1 if word is None else word for word in encoding.word_ids)
        lists = (encoding.ids, encoding.type_ids, (at for pair in offsets for at in pair), words)
        return " ".join([*map(joined, lists), *self.decoded(encoding.ids)])

    def found(self, items):
        lines = (joined(item) if isinstance(item, list) else " ".join(map(hexadecimal, item)) for item in items)
        with tempfile.TemporaryFile() as file:
            file.write("".join(line + "\n" for line in lines).encode())
            file.seek(0)
            done = subprocess.run(self.command, stdin=file, stdout=subprocess.PIPE)
        if done.returncode:  # its standard error went to ours
            sys.exit(f"exit code {done.returncode}: {' '.join(map(str, self.command))}")
        return done.stdout.decode().splitlines()

    def compare(self, what, items):
        """Prints the number of items and of tokens, and the first results that differ. Returns whether all are equal."""
        different, tokens = [], 0
        for item, found in zip(items, self.found(items), strict=True):
            expected = self.expected(item)
            tokens += len(item) if isinstance(item, list) else expected.count(",", 0, expected.index(" ")) + 1
            if found != expected:
                different.append((item, found, expected))
        print(f"{what}: {len(items):,} items, {tokens:,} tokens, {len(different):,} differ", flush=True)
        for item, found, expected in different[:3]:
            print(f"  {item}\n  found    {found}\n  expected {expected}")
        return not different


def character_vocabulary(path, characters):
    """Writes a vocabulary of what the characters become, but for each thirtieth of that, which is then [UNK]."""
    normalizers = [bert_tokenizer({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}, *mode).normalizer for mode in MODES.values()]
    found = {x for normalizer in normalizers for c in characters for x in normalizer.normalize_str(c) if not x.isspace() and x > "\x1f"}
    kept = [c for i, c in enumerate(sorted(found)) if i % 30 != 7] + ["ab", "the", "中文", "do", "not", "n't", "'s"]
    path.write_bytes("\n".join(dict.fromkeys([*SPECIAL, *kept, *("##" + c for c in kept)])).encode())
    return path


def mix(numbers):
    """Returns a random text as bytes."""
    parts = []
    for _ in range(numbers.randint(0, 9)):
        kind = numbers.random()
        if kind < 0.3:
            parts.append("".join(numbers.choices(MARKS, k=numbers.randint(1, 5))))
        elif kind < 0.55:
            parts.append(numbers.choice(OFTEN))
        elif kind < 0.65:
            parts.append(" ")
        else:
            script = range(*numbers.choice(SCRIPTS))
            parts.append("".join(chr(numbers.choice(script)) for _ in range(numbers.randint(1, 6))))
    data = bytearray("".join(parts).encode())
    for _ in range(numbers.choice((0, 0, 1, 3))):
        at = numbers.randrange(len(data) + 1)
        data[at : at + numbers.randint(0, 2)] = numbers.choice(DAMAGE)
    return bytes(data)


class Comparison:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.bert = {name: os.path.join(options.data, f"vocab/bert-base-{name}-vocab.txt") for name in ("cased", "uncased")}

    def side(self, vocab, mode, **arguments):
        return Side(self.options.program, self.folder, vocab, mode, **arguments)

    def bert_vocab(self, mode):
        return self.bert["uncased" if MODES[mode][0] else "cased"]

    def data(self, mode):
        lines = [line for name in SOURCES for line in (pathlib.Path(self.options.data) / name).read_bytes().splitlines()]
        yield self.side(self.bert_vocab(mode), mode).compare(f"data {mode}", [(line,) for line in lines])
        yield self.side(self.bert_vocab(mode), mode, max_length=40).compare(f"data {mode} pairs", list(zip(lines, lines[1:])))

    def code_points(self, mode):
        characters = [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000]
        vocab = character_vocabulary(self.folder / "vocab.txt", characters)
        contexts = ("a{}b", "a\U0001d16d{}\U0001d165\u0301\u302e", "{}\u0f73\U0001d160\u0591\U00011446")
        texts = [" ".join(context.format(c) for c in characters[i : i + 8] for context in contexts) for i in range(0, len(characters), 8)]
        yield self.side(vocab, mode).compare(f"code_points {mode}", [(text.encode(),) for text in texts])

    def mixes(self, mode):
        characters = [chr(c) for first, last in SCRIPTS for c in range(first, last)] + [*MARKS, *"".join(OFTEN)]
        vocab = character_vocabulary(self.folder / "vocab.txt", characters)
        numbers = random.Random(mode)
        items = [(mix(numbers),) if i % 3 else (mix(numbers), mix(numbers)) for i in range(self.options.texts)]
        for name, added in (("", ()), (" with added tokens", ADDED)):
            for limit in (None, 9):
                what = f"mixes {mode}{name}" + (f" truncated to {limit}" if limit else "")
                yield self.side(vocab, mode, added=added, max_length=limit).compare(what, items)
        yield self.side(self.bert_vocab(mode), mode, added=ADDED).compare(f"mixes {mode} with BERT's vocabulary", items)

    def decode(self, mode):
        side, numbers = self.side(self.bert_vocab(mode), mode, added=ADDED), random.Random(mode)
        often = [i for t in ". ? ! , ' n't 'm do not 's 've ##s s m ve re [CLS] [SEP] [UNK]".split() if (i := side.rust.token_to_id(t)) is not None]
        often += [side.rust.token_to_id(t.content) for t in ADDED[:-1]]
        size = side.rust.get_vocab_size()
        items = [[numbers.choice(often) if numbers.random() < 0.5 else numbers.randrange(size) for _ in range(numbers.randint(0, 20))]
                 for _ in range(self.options.texts // 5)]
        yield side.compare(f"decode {mode}", items)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="word_piece_program")
    parser.add_argument("--data", required=True, help="folder with sst2/, ag_news/ and vocab/")
    parser.add_argument("--only", choices=CHECKS)
    parser.add_argument("--texts", type=int, default=100_000, help="number of random texts")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(options, pathlib.Path(folder))
        equal = [held for check in ([options.only] if options.only else CHECKS) for mode in MODES for held in getattr(comparison, check)(mode)]
    sys.exit(not all(equal))


if __name__ == "__main__":
    main()
