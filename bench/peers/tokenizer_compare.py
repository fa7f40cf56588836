#!/usr/bin/env python3
"""Compares heddle's tokenizers with the Rust library: ids, type ids, offsets, words and decoded texts must be equal.

    bench/peers/tokenizer_compare.py --program build/release/bench/tokenizer_program --data DIR [--only CHECK]
                                     [--tokenizers WORD] [--texts N] [--turns N]

 data         the lines of SST-2's dev set and 5,000 of AG News, and each with the next as a pair of at most 40 tokens
 code_points  each code point alone, within a word, with an accent and between combining marks; of the planes without characters each 64th
 mixes        N (100,000) random mixtures of scripts, combining marks, emoji, blanks, the tokenizer's own tokens and invalid bytes, whole and
              truncated, a third of them as pairs
 decode       N/5 random lists of ids
 speed        texts a second against encode_batch() and encode_batch_fast(), with 2 threads, in N (3) turns; at least 5 times as fast

The tokenizers are those of tests/golden/tokenizers; BERT's cased and uncased, with and without accents, with and without added tokens of
all options; and larger ones of each kind, trained on SST-2 and AG News. --tokenizers takes those whose name contains the word. `speed`
takes the larger ones only. `mixes` gives a golden tokenizer N/20 texts. The library reads text: invalid UTF-8 is replaced by U+FFFD for
it, and its offsets are brought back to the original bytes.

Exit code 1 when a result differs or heddle is not fast enough. Needs tokenizers and sentencepiece.
"""

import argparse
import json
import os
import pathlib
import random
import statistics
import subprocess
import sys
import tempfile
import time
import zlib

THREADS = 2
os.environ["RAYON_NUM_THREADS"] = str(THREADS)  # before the library starts its threads
os.environ["TOKENIZERS_PARALLELISM"] = "true"
os.environ["OMP_NUM_THREADS"] = str(THREADS)

import tokenizer_forms as forms  # noqa: E402
from tokenizers import AddedToken, Tokenizer  # noqa: E402
from tokens import SPECIAL, bert_tokenizer, encode_bytes, read_vocabulary  # noqa: E402

CHECKS = ["data", "code_points", "mixes", "decode", "speed"]
GOLDEN = pathlib.Path(__file__).resolve().parent.parent.parent / "tests/golden/tokenizers"
BERT_MODES = {"cased": (False, False), "uncased": (True, True), "lowered": (True, False), "stripped": (False, True)}
LARGE = {
    "byte-level BPE": [(forms.roberta, 8000), (forms.llama3, 16000), (forms.modernbert, 30000)],
    "BPE": [(forms.llama, 8000), (forms.gemma, 16000), (forms.openai_gpt, 30000)],
    "Unigram": [(forms.xlm_roberta, 8000), (forms.deberta_v3, 16000), (forms.albert, 30000)],
    "WordPiece": [(forms.mpnet, 8000), (forms.bert_left, 16000), (forms.word_piece_other, 30000)],
}
BOUND = 5.0
DAMAGE = (b"\x80", b"\xff", b"\xc0\xaf", b"\xe2\x82", b"\xed\xa0\x80", b"\xf0\x9f\x98", b"\xf4\x90\x80\x80", b"\xef\xbf\xbd", b"\xc3")
MARKS = (
    "\u0301\u0316\u0345\u0327\u0338\u05b0\u0591\u064b\u093a\u093c\u094d\u0e38\u0f71\u0f73\u0344\u302a\u302e\u302f\u3099"
    "\u1b44\u08d4\u0ccb\u1dfa\U00011446\U0001d165\U0001d166\U0001d16d\U0001d16e\U0001d160\U0001d1bf\U0001e944\U0001e94a"
)
SCRIPTS = [
    (0x20, 0x7F),
    (0x00, 0x20),
    (0xA0, 0x180),
    (0x180, 0x250),
    (0x300, 0x370),
    (0x370, 0x530),
    (0x591, 0x6FF),
    (0x8D0, 0x980),
    (0x980, 0xDF0),
    (0xE00, 0x1000),
    (0x1100, 0x1200),
    (0x1C80, 0x1D00),
    (0x1DC0, 0x2070),
    (0x2070, 0x2100),
    (0x2100, 0x2270),
    (0x2460, 0x2500),
    (0x2E80, 0x3100),
    (0x3200, 0x3400),
    (0x3400, 0x3440),
    (0x4E00, 0x4E80),
    (0xA640, 0xA700),
    (0xAB60, 0xABF0),
    (0xAC00, 0xAC80),
    (0xD7B0, 0xD800),
    (0xF900, 0xFA80),
    (0xFB00, 0xFB50),
    (0xFE00, 0xFF60),
    (0xFF60, 0x10000),
    (0x10A00, 0x10A40),
    (0x11440, 0x11450),
    (0x1D150, 0x1D1D0),
    (0x1D400, 0x1D500),
    (0x1E000, 0x1E030),
    (0x1E900, 0x1E960),
    (0x1F1E0, 0x1F200),
    (0x1F300, 0x1F340),
    (0x1F3F0, 0x1F400),
    (0x1F600, 0x1F650),
    (0x20000, 0x20010),
    (0x2F800, 0x2F820),
    (0xE0020, 0xE0080),
    (0xE0100, 0xE0110),
]
ADDED = [
    AddedToken("[NEW]", normalized=False),
    AddedToken("[Other]", normalized=True),
    AddedToken("Quick", single_word=True, normalized=False),
    AddedToken("brown", single_word=True, normalized=True),
    AddedToken("New York", normalized=True),
    AddedToken("ÜBER", normalized=True),
    AddedToken("中文", normalized=True),
    AddedToken("中", normalized=False),
    AddedToken("ab", normalized=False),
    AddedToken("abc", normalized=False),
    AddedToken("İ", normalized=True),
    AddedToken("o\u0316\u0301", normalized=True),
    AddedToken("한글", normalized=True),
    AddedToken("\U0001f600", normalized=False),
    AddedToken("do not . ' s", normalized=False),
    AddedToken("<special>", normalized=False, special=True),
    AddedToken("<Special>", normalized=True, special=True),
]
OFTEN = [t.content for t in ADDED] + [
    " ",
    "  ",
    "   ",
    "\t",
    "\n",
    "\r\n",
    "\n\n",
    "\u00a0",
    "\u3000",
    "\u2028",
    "\u0085",
    "\u00ad",
    "\u200b",
    "\u200d",
    "\ufe0f",
    "\x00",
    "\x01",
    "\x7f",
    "\ufeff",
    "_",
    "▁",
    "-",
    "'",
    "'s",
    "'LL",
    "n't",
    "``",
    "''",
    "1",
    "2024",
    "x" * 98,
    "é" * 50,
    "İ",
    "ß",
    "e\u0301",
    "中文字",
    "👩\u200d👩\u200d👧",
    "👍\U0001f3fd",
    "🇩🇪",
    "1\ufe0f\u20e3",
    "한국어",
    "ᄒ\u1161\u11ab",
    "नमस्ते",
    "क्षि",
    "שָׁלוֹם",
    "สวัสดี",
    "กำ",
    "Ǆ",
    "ﬀ",
    "ﬁ\u0301",
    "ｶﾞ",
    "the",
    "The",
    " and",
    "ing",
    "don't",
    "http://a.b/c?d=e",
    "<0x41>",
    "##a",
    "@@a",
    "</w>",
    "Ġ",
]


def compact(value):
    """Returns JSON as the program writes it."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True)


def as_line(item):
    """Returns the line of input for ids (a list), bytes, or a tuple of bytes."""
    if isinstance(item, list):
        return compact(item)
    if isinstance(item, tuple):
        return "[" + ",".join(map(as_line, item)) + "]"
    try:
        return compact(item.decode())
    except UnicodeDecodeError:
        return compact({"hex": item.hex()})


class Side:
    """Both tokenizers of one tokenizer.json."""

    def __init__(self, program, folder, content):
        self.content, self.rust = content, Tokenizer.from_str(json.dumps(content))
        self.file = folder / "tokenizer.json"
        self.file.write_text(json.dumps(content), encoding="utf-8")
        self.program, self.max_length = program, None
        self.direction = ((content.get("truncation") or {}).get("direction") or "Right").lower()
        self.limit(None)

    def limit(self, max_length):
        """Truncates to max_length and the special tokens of a pair, or not if max_length is None."""
        self.rust.no_truncation()
        self.rust.no_padding()
        self.max_length = None if max_length is None else max_length + self.rust.num_special_tokens_to_add(True)
        if max_length is not None:
            self.rust.enable_truncation(self.max_length, direction=self.direction)

    def run(self, lines, *flags):
        command = [self.program, self.file, *flags]
        if self.max_length is not None:
            command += ["--max-length", str(self.max_length)]
        with tempfile.TemporaryFile() as file:
            file.write("".join(line + "\n" for line in lines).encode())
            file.seek(0)
            done = subprocess.run(command, stdin=file, stdout=subprocess.PIPE)
        if done.returncode:  # its standard error went to ours
            sys.exit(f"exit code {done.returncode}: {' '.join(map(str, command))}")
        return done.stdout.decode().split("\n")[:-1]

    def decoded(self, ids):
        return [self.rust.decode(ids, skip_special_tokens=skip) for skip in (True, False)]

    def expected(self, item):
        """Returns what the program should write, or None where the library panics."""
        try:
            if isinstance(item, list):
                return {"decoded": self.decoded(item)}
            encoding, offsets = encode_bytes(self.rust, *(item if isinstance(item, tuple) else (item,)))
            return {
                "ids": encoding.ids,
                "type_ids": encoding.type_ids,
                "offsets": [at for pair in offsets for at in pair],
                "word_ids": [-1 if word is None else word for word in encoding.word_ids],
                "decoded": self.decoded(encoding.ids),
            }
        except KeyboardInterrupt:
            raise
        except BaseException:  # a panic of the library is no Exception
            return None

    def compare(self, what, items):
        """Prints the number of items and of tokens, and the first results that differ. Returns whether all are equal."""
        different, tokens, panics = [], 0, 0
        for item, found in zip(items, self.run(map(as_line, items)), strict=True):
            expected = self.expected(item)
            if expected is None:
                panics += 1
                continue
            tokens += len(expected.get("ids", item))
            if found != compact(expected) and json.loads(found) != expected:
                different.append((item, json.loads(found), expected))
        refused = f", {panics:,} refused by the library" if panics else ""
        print(f"{what}: {len(items):,} items, {tokens:,} tokens, {len(different):,} differ{refused}", flush=True)
        for item, found, expected in different[:3]:
            print(f"  {item!a}")
            for member in expected:
                if found.get(member) != expected[member]:
                    print(f"    {member}\n      found    {found.get(member)!a}\n      expected {expected[member]!a}")
        return not different


def mix(numbers, tokens):
    """Returns a random text as bytes. `tokens` are the tokenizer's own."""
    parts = []
    for _ in range(numbers.randint(0, 9)):
        kind = numbers.random()
        if kind < 0.2:
            parts.append("".join(numbers.choices(MARKS, k=numbers.randint(1, 5))))
        elif kind < 0.5:
            parts.append(numbers.choice(OFTEN))
        elif kind < 0.6 and tokens:
            token = numbers.choice(tokens)
            parts.append(numbers.choice((token, token.upper(), token.lower(), " " + token + " ")))
        elif kind < 0.7:
            parts.append(" ")
        else:
            script = range(*numbers.choice(SCRIPTS))
            parts.append("".join(chr(numbers.choice(script)) for _ in range(numbers.randint(1, 6))))
    data = bytearray("".join(c for c in "".join(parts) if not 0xD800 <= ord(c) < 0xE000).encode())
    for _ in range(numbers.choice((0, 0, 0, 1, 3))):
        at = numbers.randrange(len(data) + 1)
        data[at : at + numbers.randint(0, 2)] = numbers.choice(DAMAGE)
    return bytes(data)


def character_vocabulary(characters):
    """Returns a vocabulary of what the characters become in BERT, but for each thirtieth of that, which is then [UNK]."""
    normalizers = [bert_tokenizer({"[UNK]": 0, "[CLS]": 1, "[SEP]": 2}, *mode).normalizer for mode in BERT_MODES.values()]
    found = {x for normalizer in normalizers for c in characters for x in normalizer.normalize_str(c) if not x.isspace() and x > "\x1f"}
    kept = [c for i, c in enumerate(sorted(found)) if i % 30 != 7] + ["ab", "the", "中文", "do", "not", "n't", "'s"]
    return {token: i for i, token in enumerate(dict.fromkeys([*SPECIAL, *kept, *("##" + c for c in kept)]))}


def assigned_code_points():
    """Returns all code points of the planes with characters, and each 64th of the others."""
    return [chr(c) for c in range(0x110000) if not 0xD800 <= c < 0xE000 and (c < 0x40000 or 0xE0000 <= c < 0xE1000 or c % 64 == 63)]


class Comparison:
    def __init__(self, options, folder):
        self.options, self.folder, self.corpora = options, folder, {}
        data = pathlib.Path(options.data)
        self.lines = [line.rsplit("\t", 1)[0].encode() for line in (data / "sst2/dev.tsv").read_text().splitlines()[1:]]
        news = (data / "ag_news/train_subset.csv").read_text().splitlines()
        self.lines += [line.split(",", 1)[1].encode() for line in news[:5000]]
        self.training = [line.rsplit("\t", 1)[0] for line in (data / "sst2/train.tsv").read_text().splitlines()[1:]]
        self.training += [line.split(",", 1)[1] for line in news]
        self.code_point_texts = None

    def wanted(self, name):
        return self.options.tokenizers in name

    def large(self):
        """Yields the kind, the name and the content of larger tokenizers."""
        for kind, made in LARGE.items():
            for form, size in made:
                name = f"{kind} {form.__name__} {size}"
                if self.wanted(name):
                    corpus = self.corpora.setdefault(size, forms.Corpus(self.training, size=size))
                    yield name, corpus.keep(name, lambda form=form, corpus=corpus: form(corpus))

    def bert(self):
        characters = [chr(c) for first, last in SCRIPTS for c in range(first, last) if not 0xD800 <= c < 0xE000] + [*MARKS, *"".join(OFTEN)]
        letters = None
        for mode, (uncased, strip_accents) in BERT_MODES.items():
            own = pathlib.Path(self.options.data) / f"vocab/bert-base-{'uncased' if uncased else 'cased'}-vocab.txt"
            for name, added in (("", ()), (" with added tokens", ADDED)):
                for vocabulary in ("own", "letters"):
                    full = f"BERT {mode} {vocabulary}{name}"
                    if not self.wanted(full):
                        continue
                    letters = letters or character_vocabulary(characters)
                    tokenizer = bert_tokenizer(read_vocabulary(own) if vocabulary == "own" else letters, uncased, strip_accents)
                    tokenizer.add_tokens(list(added))
                    yield full, json.loads(tokenizer.to_str())

    def golden(self):
        for file in sorted(GOLDEN.glob("*/tokenizer.json")):
            if self.wanted("golden " + file.parent.name):
                yield "golden " + file.parent.name, json.loads(file.read_text(encoding="utf-8"))

    def all(self):
        for source in (self.large, self.bert, self.golden):
            for name, content in source():
                yield name, Side(self.options.program, self.folder, content)

    def data(self):
        for name, side in self.all():
            yield side.compare(f"data: {name}", self.lines)
            side.limit(36)
            yield side.compare(f"data: {name}, pairs", list(zip(self.lines, self.lines[1:])))

    def code_points(self):
        characters = assigned_code_points()
        contexts = ("{}", "a{}b", "x {} y", "a\u0301{}\u0316", "a\U0001d16d{}\U0001d165\u0301\u302e", "{}\u0f73\U0001d160\u0591\U00011446")
        texts = [
            " ".join(context.format(c) for context in contexts for c in characters[i : i + 8]).encode()
            for i in range(0, len(characters), 8)
        ]
        texts += [c.encode() for c in characters[:0x3100]]
        for name, side in self.all():
            yield side.compare(f"code_points: {name}", texts)

    def mixes(self):
        for name, side in self.all():
            numbers = random.Random(zlib.crc32(name.encode()))
            own = [token["content"] for token in side.content["added_tokens"]]
            count = self.options.texts // (20 if name.startswith("golden") else 1)
            items = [mix(numbers, own) if i % 3 else (mix(numbers, own), mix(numbers, own)) for i in range(count)]
            for limit in (None, 6):
                side.limit(limit)
                yield side.compare(f"mixes: {name}" + (f", truncated to {limit}" if limit else ""), items)

    def decode(self):
        for name, side in self.all():
            numbers = random.Random(zlib.crc32(name.encode()))
            vocabulary = side.rust.get_vocab()
            ids = sorted(vocabulary.values())
            often = [
                vocabulary[t] for t in ". ? ! , ' n't 'm do not 's 've ##s s m ve re ▁ Ġ <0xC3> <0xA9> <0xE2>".split() if t in vocabulary
            ]
            often += [side.rust.token_to_id(t["content"]) for t in side.content["added_tokens"]] or ids
            items = [
                [numbers.choice(often if numbers.random() < 0.5 else ids) for _ in range(numbers.randint(0, 20))]
                for _ in range(self.options.texts // (100 if name.startswith("golden") else 5))
            ]
            yield side.compare(f"decode: {name}", items)

    def speed(self):
        texts = [line.decode() for line in self.lines]
        lines = list(map(as_line, self.lines))
        for name, content in self.large():
            side = Side(self.options.program, self.folder, content)
            seconds = {}
            for _ in range(self.options.turns):
                found = json.loads(side.run(lines, "--time")[0])
                expected = sum(len(e.ids) for e in side.rust.encode_batch_fast(texts))
                if found["tokens"] != expected:
                    sys.exit(f"speed: {name}: found {found['tokens']} tokens, expected {expected}")
                seconds.setdefault("heddle", []).append(found["seconds"])
                seconds.setdefault("heddle with offsets", []).append(found["seconds_with_offsets"])
                seconds.setdefault("fast", []).append(median_seconds(lambda: side.rust.encode_batch_fast(texts)))
                seconds.setdefault("with offsets", []).append(median_seconds(lambda: side.rust.encode_batch(texts)))
            rate = {key: len(texts) / statistics.median(values) for key, values in seconds.items()}
            for ours, theirs, function in (
                ("heddle", "fast", "encode_batch_fast"),
                ("heddle with offsets", "with offsets", "encode_batch"),
            ):
                ratio = rate[ours] / rate[theirs]
                held = ratio >= BOUND
                print(
                    f"speed: {name}: {ours} {rate[ours]:,.0f} texts/s, {function} {rate[theirs]:,.0f}: {ratio:.1f}x (bound {BOUND}x)"
                    + ("" if held else " MISSED"),
                    flush=True,
                )
                yield held


def median_seconds(call):
    """Returns the median of five calls, after one that is not counted."""
    seconds = []
    for _ in range(6):
        start = time.perf_counter()
        call()
        seconds.append(time.perf_counter() - start)
    return statistics.median(seconds[1:])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="tokenizer_program")
    parser.add_argument("--data", required=True, help="folder with sst2/, ag_news/ and vocab/")
    parser.add_argument("--only", choices=CHECKS)
    parser.add_argument("--tokenizers", default="", metavar="WORD", help="only those whose name contains the word")
    parser.add_argument("--texts", type=int, default=100_000, help="number of random texts")
    parser.add_argument("--turns", type=int, default=3, help="turns of `speed`")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        comparison = Comparison(options, pathlib.Path(folder))
        equal = [held for check in ([options.only] if options.only else CHECKS) for held in getattr(comparison, check)()]
    sys.exit(not all(equal))


if __name__ == "__main__":
    main()
