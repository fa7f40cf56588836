#!/usr/bin/env python3
"""Writes tests/golden/tokenizers: small tokenizers in the forms of published ones, and what the Rust `tokenizers` library makes of texts.

    HEDDLE_DATA=FOLDER scripts/golden-tokenizers.py [NAME...]

The vocabularies are trained on the English of FOLDER (SST-2 and AG News) and on the texts of golden_tokenizer_texts.py. With names only
these tokenizers are written. Needs the Python packages tokenizers, sentencepiece, transformers and protobuf. The format is in
tests/golden/tokenizers/README.md.
"""

import itertools
import json
import os
import pathlib
import random
import shutil
import sys
import zlib

from tokenizers import AddedToken, Tokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT / "bench/peers"))
from golden_tokenizer_texts import BLANKS, INVALID, MULTILINGUAL, ODD, SENTENCES, SHORT, SPECIAL, random_texts  # noqa: E402
from tokenizer_forms import *  # noqa: E402, F403
from tokens import encode_bytes  # noqa: E402

OUTPUT = ROOT / "tests/golden/tokenizers"
LONG = SENTENCES + BLANKS + ODD + list(random_texts(14, seed=1))
TEXTS = list(dict.fromkeys(LONG + SHORT))


def english():
    folder = pathlib.Path(os.environ["HEDDLE_DATA"])
    lines = [line.rsplit("\t", 1)[0].strip() for line in (folder / "sst2/dev.tsv").read_text().splitlines()[1:500]]
    return lines + [line.split('","', 1)[1].strip('"') for line in (folder / "ag_news/test.csv").read_text().splitlines()[:250]]


PUBLISHED = {
    f.__name__: f
    for f in (
        roberta,
        modernbert,
        gpt2,
        llama3,
        qwen,
        xlm_roberta,
        bge_m3,
        multilingual_e5,
        camembert,
        albert,
        deberta_v3,
        deberta_v2,
        t5,
        unigram_bytes,
        llama,
        gemma,
        mpnet,
        electra,
        bert_left,
    )
}
VARIANTS = {
    **{f.__name__: f for f in (roberta_prefix, roberta_untrimmed, clip, openai_gpt, prefix_bpe, word_piece_other)},
    "bpe_unknown": lambda corpus: unknown_bpe(corpus, fuse=False, old=True),
    "bpe_unknown_fused": lambda corpus: unknown_bpe(corpus, fuse=True),
    "bpe_some_bytes": lambda corpus: unknown_bpe(corpus, fuse=True, few_bytes=True),
    "bert_clean_text": lambda corpus: bert(corpus, normalizer=bert_flags(clean_text=True)),
    "bert_chinese": lambda corpus: bert(corpus, normalizer=bert_flags(handle_chinese_chars=True)),
    "bert_strip_accents": lambda corpus: bert(corpus, normalizer=bert_flags(strip_accents=True)),
    "bert_lowercase": lambda corpus: bert(corpus, normalizer=bert_flags(lowercase=True)),
    "bert_lowercase_default": lambda corpus: bert(corpus, normalizer={**bert_flags(lowercase=True), "strip_accents": None}),
}


# ---- tokenizers of single letters, each with another member


def letters(*, normalizer=None, pre_tokenizer=None, decoder=None, added_tokens=(), extra=(), **options):
    """Returns a tokenizer whose tokens are the letters that SHORT becomes, except each fifteenth of them."""
    rust = Tokenizer.from_str(json.dumps(file(bpe_model(["<unk>"], []), normalizer=normalizer)))
    found = sorted({c for text in SHORT for c in (rust.normalizer.normalize_str(text) if normalizer else text)} | set("▁ #abAB"))
    tokens = ["<unk>", *(c for i, c in enumerate(found) if i % 15 != 9), *extra]
    return file(
        bpe_model(tokens, [], unk_token="<unk>"),
        normalizer=normalizer,
        pre_tokenizer=pre_tokenizer,
        decoder=decoder,
        added_tokens=[{**token, "id": len(tokens) + i} for i, token in enumerate(added_tokens)],
        **options,
    )


FUSE = {"type": "Fuse"}
NORMALIZERS = {
    **{name.lower(): {"type": name} for name in ("NFC", "NFD", "NFKC", "NFKD", "Lowercase", "StripAccents")},
    "nfd_stripaccents": sequence("normalizers", {"type": "NFD"}, {"type": "StripAccents"}, {"type": "Lowercase"}),
    "nfkc_nfd": sequence("normalizers", {"type": "NFKC"}, {"type": "NFD"}, {"type": "NFC"}),
    "strip": {"type": "Strip", "strip_left": True, "strip_right": True},
    "strip_left": {"type": "Strip", "strip_left": True, "strip_right": False},
    "strip_right": {"type": "Strip", "strip_left": False, "strip_right": True},
    "prepend": {"type": "Prepend", "prepend": "ab"},
    "replace_string": sequence("normalizers", replace("ab", "x"), replace("a", "zyx"), replace(".", ""), replace("é", "ee")),
    "replace_regex": sequence(
        "normalizers", replace(regex(r"\s{2,}|[\n\r\t]"), " "), replace(regex(" {2,}"), " "), replace(regex(r"\s+"), "_")
    ),
    "strip_replace": sequence(
        "normalizers",
        {"type": "Prepend", "prepend": "▁"},
        {"type": "Strip", "strip_left": True, "strip_right": True},
        replace(" ", "▁"),
        {"type": "Lowercase"},
        {"type": "NFKD"},
    ),
}
BEHAVIORS = ("Removed", "Isolated", "MergedWithPrevious", "MergedWithNext", "Contiguous")
PRE_TOKENIZERS = {
    "whitespace": {"type": "Whitespace"},
    "whitespace_split": {"type": "WhitespaceSplit"},
    "bert_words": {"type": "BertPreTokenizer"},
    **{f"punctuation_{b.lower()}": {"type": "Punctuation", "behavior": b} for b in BEHAVIORS},
    "punctuation_default": {"type": "Punctuation"},
    "digits": {"type": "Digits", "individual_digits": False},
    "digits_individual": {"type": "Digits", "individual_digits": True},
    "delimiter": {"type": "CharDelimiterSplit", "delimiter": "-"},
    **{f"split_{b.lower()}": split({"String": "a"}, b) for b in BEHAVIORS},
    **{f"split_inverted_{b.lower()}": split({"String": "-"}, b, True) for b in BEHAVIORS[::2]},
    "split_blanks": split(regex(r"\s+"), "MergedWithNext"),
    "metaspace_first": {**METASPACE, "prepend_scheme": "first"},
    "metaspace_never": {**METASPACE, "prepend_scheme": "never"},
    "metaspace_unsplit": {**METASPACE, "split": False},
    "words_digits": sequence(
        "pretokenizers",
        {"type": "Whitespace"},
        {"type": "Digits", "individual_digits": True},
        {"type": "Punctuation", "behavior": "Contiguous"},
    ),
}
DECODERS = {
    "no_decoder": None,
    "decode_word_piece": {"type": "WordPiece", "prefix": "#", "cleanup": True},
    "decode_metaspace_never": {**METASPACE, "prepend_scheme": "never"},
    "decode_bpe": {"type": "BPEDecoder", "suffix": "b"},
    "decode_sequence": sequence(
        "decoders",
        replace(regex("[ab]+"), "-"),
        {"type": "ByteFallback"},
        {"type": "Strip", "content": "A", "start": 2, "stop": 0},
        FUSE,
        {"type": "Strip", "content": "-", "start": 1, "stop": 1},
        replace(" ", "_"),
    ),
}


def flag_tokens():
    """Returns an added token for each combination of flags."""
    names = ("single_word", "lstrip", "rstrip", "normalized", "special")
    for i, flags in enumerate(itertools.product((False, True), repeat=5)):
        yield added(f"<T{chr(65 + i % 26)}{i // 26}>" if i % 3 else f"Tok{chr(65 + i % 26)}{i // 26}", 0, **dict(zip(names, flags)))


def flag_texts(tokens):
    numbers = random.Random(7)
    between = ["", "", " ", "  ", "\t", "\u3000", "x", "_", ".", "é", "-", "中", "1", "\n"]
    for i, token in enumerate(tokens):
        content = token["content"]
        yield f" \t{content}  {content}a {content.lower()} \u00a0{content}\u3000"
        others = [numbers.choice(tokens)["content"] for _ in range(3)] + [content, content.upper()]
        yield "".join(numbers.choice(others) + numbers.choice(between) for _ in range(6))


COMPONENTS = {
    **{name: lambda member=member: letters(normalizer=member, decoder=FUSE) for name, member in NORMALIZERS.items()},
    **{name: lambda member=member: letters(pre_tokenizer=member, decoder=FUSE) for name, member in PRE_TOKENIZERS.items()},
    **{
        name: lambda member=member: letters(decoder=member, extra=["<0xC3>", "<0xA9>", "<0x41>", "##", "do", " not", ".", "n't"])
        for name, member in DECODERS.items()
    },
}
FLAGS = {
    "added_tokens": {"normalizer": {"type": "Lowercase"}, "pre_tokenizer": {"type": "Whitespace"}, "decoder": None},
    "added_tokens_prefix": {
        "normalizer": sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")),
        "pre_tokenizer": None,
        "decoder": FUSE,
    },
    "added_tokens_metaspace": {
        "normalizer": {"type": "Strip", "strip_left": True, "strip_right": True},
        "pre_tokenizer": METASPACE,
        "decoder": METASPACE,
    },
}
OVERLAPS = {
    "added_tokens_blanks": [
        added("<r>", 0, rstrip=True),
        added("  ", 0),
        added(" <l>", 0, lstrip=True),
        added("<m>", 0, lstrip=True, special=False),
        added("\n", 0),
        added("ab", 0),
        added("abcd", 0, single_word=True),
        added("bc", 0, special=False),
        added("<b>", 0, lstrip=True, rstrip=True),
    ]
}
OVERLAP_TEXTS = [
    "<r>  x",
    "<r>   x",
    "<r> \n\nx",
    "<r>  <m>",
    "x  <m>",
    "x   <m>",
    "x  <l>",
    "x <l>",
    "<l>",
    "  <l> <l>",
    "<b>  <b>",
    "a <b> <m> <r> <l>",
    "\n \n<b>\n \n",
    "abcd",
    "abcde",
    "abc",
    "xabcd",
    "abcd abcd",
    "<r><r>  <r>  ",
    "\u3000 <m>\u3000<r>\u3000 \u3000x",
    "<b>\n<m>",
    "<r>\n  <m>",
]


# ---- cases


def escaped(text):
    """Returns the member of a case for a text: its number in texts.json, itself, or its bytes in hexadecimal."""
    if isinstance(text, bytes):
        return {"hex": text.hex()}
    return TEXTS.index(text) if text in TEXTS else text


def compact_words(words):
    """Returns a character for each token: `-` without a word, or how far the word's number is from the one before, after `|` from 0."""
    digits = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ!#$%&()*+./:;<=>?@[]^_`{}~"
    result, last = "", 0
    for word in words:
        if word is None:
            result += "-"
            continue
        if word < last:
            result, last = result + "|", 0
        result += digits[word - last]
        last = word
    return result


def compact_offsets(words, offsets):
    """Returns for each token with a word how far it begins behind the end of the one before, and its length."""
    result, end = [], 0
    for word, (begin, stop) in zip(words, offsets):
        if word is None:
            assert begin == stop == 0
            continue
        result += [begin - end, stop - begin]
        end = stop
    return result


class Cases:
    def __init__(self, name, rust, content):
        self.rust, self.numbers, self.list, self.panics = rust, random.Random(zlib.crc32(name.encode())), [], []
        self.direction = ((content.get("truncation") or {}).get("direction") or "Right").lower()
        self.specials = [rust.num_special_tokens_to_add(pair) for pair in (False, True)]

    def add(self, *texts, special=True, max_length=None, decoded=True):
        data = [t if isinstance(t, bytes) else t.encode() for t in texts]
        try:
            self.rust.no_truncation()
            full = len(encode_bytes(self.rust, *data, add_special_tokens=special)[0].ids)
            if max_length is not None:
                self.rust.enable_truncation(max_length, direction=self.direction)
            encoding, offsets = encode_bytes(self.rust, *data, add_special_tokens=special)
            texts_of_ids = [self.rust.decode(encoding.ids, skip_special_tokens=skip) for skip in (True, False)]
        except BaseException as error:  # a panic of the library is no Exception
            if isinstance(error, KeyboardInterrupt):
                raise
            self.panics.append((texts, type(error).__name__, str(error)[:100]))
            return
        case = {"text": escaped(texts[0]), **({"pair": escaped(texts[1])} if len(texts) > 1 else {})}
        case |= {} if special else {"special": False}
        case |= {} if max_length is None else {"max": max_length, "cut": full - len(encoding.ids)}
        case |= {"ids": encoding.ids, "at": compact_offsets(encoding.word_ids, offsets), "words": compact_words(encoding.word_ids)}
        case |= {"types": "".join(map(str, encoding.type_ids))} if any(encoding.type_ids) else {}
        if decoded:
            case["decoded"] = [None if t == texts[0] else t for t in texts_of_ids]
            if case["decoded"][0] == case["decoded"][1]:
                del case["decoded"][1]
        self.list.append(case)

    def decode(self, count):
        ids = [self.rust.token_to_id(t) for t in self.rust.get_vocab()]
        result = []
        for _ in range(count):
            chosen = self.numbers.choices(sorted(ids), k=self.numbers.randint(0, 14))
            try:
                result.append({"ids": chosen, "decoded": [self.rust.decode(chosen, skip_special_tokens=skip) for skip in (True, False)]})
            except BaseException as error:
                self.panics.append((chosen, type(error).__name__, str(error)[:100]))
        return result


def own_tokens(content):
    """Returns what {bos}, {mask} and the like stand for in SPECIAL."""
    tokens = [t["content"] for t in content["added_tokens"]]

    def find(*names):
        return next((t for name in names for t in tokens if name in t.lower()), tokens[0] if tokens else "<none>")

    named = {
        "bos": find("<s>", "cls", "<bos", "begin", "im_start", "start"),
        "eos": find("</s>", "sep", "<eos", "end"),
        "mask": find("mask", "extra_id"),
        "pad": find("<pad>", "[pad]", "pad"),
        "unk": find("unk"),
    }
    return {**named, "mask_other_case": named["mask"].swapcase(), "bos_other_case": named["bos"].swapcase()}


def fill(text, names):
    for name, token in names.items():
        text = text.replace("{" + name + "}", token)
    return text


def write(name, content, rust, texts, *, others=(), brief=False, decoded=True, has_file=True):
    """Writes the cases of a tokenizer. `texts` are encoded in all ways, `others` alone. `brief` leaves out most pairs and limits."""
    cases = Cases(name, rust, content)
    numbers = cases.numbers
    for text in [*texts, *others]:
        cases.add(text, decoded=decoded)
    for text in numbers.sample(texts, 2 if brief else 6):
        cases.add(text, special=False, decoded=False)
    pairs = [(numbers.choice(texts), numbers.choice(texts)) for _ in range(2 if brief else 10)] + [("", "a b"), ("a b", "")]
    for i, pair in enumerate(pairs):
        cases.add(*pair, decoded=False, special=i % 4 != 3)
    for text in INVALID[:: 4 if brief else 1]:
        cases.add(text, decoded=False)
    cases.add(INVALID[2], INVALID[6], decoded=False)
    limited = [t for t in texts if 8 < len(t) < 60]
    for i in range(2 if brief else 12):
        special = i % 3 != 2
        room = i % 6 if i < 6 else numbers.randint(5, 12)
        single, pair = (n * special for n in cases.specials)
        if single + room:
            cases.add(numbers.choice(limited), max_length=single + room, special=special, decoded=False)
        if pair + room:
            cases.add(numbers.choice(limited), numbers.choice(limited), max_length=pair + room, special=special, decoded=False)
    size = max(rust.get_vocab().values()) + 1
    shown = sorted({0, size - 1, *(numbers.randrange(size) for _ in range(6))})
    result = {
        "size": size,
        "tokens": {str(i): rust.id_to_token(i) for i in shown if rust.id_to_token(i) is not None},
        "decode": cases.decode(8 if decoded else 2),
        "cases": cases.list,
    }
    folder = OUTPUT / name
    folder.mkdir(parents=True, exist_ok=True)
    lines = json.dumps(result, separators=(",", ":")).replace('},{"text"', '},\n{"text"').replace('"cases":[', '"cases":[\n')
    (folder / "cases.json").write_text(lines + "\n")
    if has_file:
        (folder / "tokenizer.json").write_text(json.dumps(content, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    sizes = [(f.name, f.stat().st_size) for f in sorted(folder.iterdir())]
    print(name, len(cases.list), "cases,", *(f"{n} {s}" for n, s in sizes), flush=True)
    for panic in cases.panics:
        print("  refused by the library:", *map(repr, panic))


# ---- folders of files before tokenizer.json


def roberta_folder(corpus):
    from transformers import RobertaTokenizer

    name = "roberta_folder"
    content = roberta(corpus)
    folder = OUTPUT / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "vocab.json").write_text(
        json.dumps(content["model"]["vocab"], ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8"
    )
    (folder / "merges.txt").write_text("#version: 0.2\n" + "".join(pair + "\n" for pair in content["model"]["merges"]), encoding="utf-8")
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "RobertaTokenizer", "model_max_length": 512}\n')
    write_folder(name, RobertaTokenizer.from_pretrained(folder))


def xlm_roberta_folder(corpus):
    from transformers import XLMRobertaTokenizer

    name = "xlm_roberta_folder"
    folder = OUTPUT / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "sentencepiece.bpe.model").write_bytes(corpus.sentence_piece(corpus.rules()))
    (folder / "tokenizer_config.json").write_text('{"tokenizer_class": "XLMRobertaTokenizer", "model_max_length": 512}\n')
    write_folder(name, XLMRobertaTokenizer.from_pretrained(folder))


def camembert_folder(corpus):
    from transformers import CamembertTokenizer

    name = "camembert_folder"
    write_pieces(name, "sentencepiece.bpe.model", corpus.sentence_piece(corpus.rules()), {"tokenizer_class": "CamembertTokenizer"})
    write_folder(name, CamembertTokenizer.from_pretrained(OUTPUT / name))


def write_pieces(name, file, model, settings):
    folder = OUTPUT / name
    folder.mkdir(parents=True, exist_ok=True)
    (folder / file).write_bytes(model)
    (folder / "tokenizer_config.json").write_text(json.dumps({**settings, "model_max_length": 512}) + "\n")
    return str(folder / file)


class Converted:
    """The tokenizer that a converter of transformers makes of a SentencePiece model, with the tokens that the class of transformers 4 adds.
    The classes of transformers 5 do not use these converters."""

    def __init__(self, converter, vocab_file, tokens, **options):
        from transformers import convert_slow_tokenizer

        pieces = [piece for piece, _ in pieces_of(pathlib.Path(vocab_file).read_bytes())[0]]
        self.vocab_file, self.convert_tokens_to_ids = vocab_file, pieces.index
        vars(self).update(options)
        self.backend_tokenizer = getattr(convert_slow_tokenizer, converter)(self).converted()
        self.backend_tokenizer.add_special_tokens(tokens)

    def __call__(self, text):
        return {"input_ids": self.backend_tokenizer.encode(text).ids}


def albert_folder(corpus):
    pieces = {"pad_id": 0, "unk_id": 1, "bos_id": 2, "eos_id": 3, "bos_piece": "[CLS]", "eos_piece": "[SEP]", "control_symbols": "[MASK]"}
    name, model = "albert_folder", corpus.sentence_piece(corpus.rules(), lowercase=True, **pieces)
    file = write_pieces(name, "spiece.model", model, {"tokenizer_class": "AlbertTokenizer"})
    tokens = [AddedToken(t, lstrip=t == "[MASK]", normalized=False) for t in ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")]
    write_folder(name, Converted("AlbertConverter", file, tokens, keep_accents=False, do_lower_case=True))


def deberta_form(name, corpus, **settings):
    ids = {"pad": 0, "bos": 1, "eos": 2, "unk": 3}
    names = {"pad": "[PAD]", "bos": "[CLS]", "eos": "[SEP]", "unk": "[UNK]"}
    pieces = {**{f"{k}_id": i for k, i in ids.items()}, **{f"{k}_piece": piece for k, piece in names.items()}}
    model = corpus.sentence_piece(corpus.rules(), **pieces)
    file = write_pieces(name, "spm.model", model, {"tokenizer_class": "DebertaV2Tokenizer", **settings})
    tokens = [AddedToken(t, normalized=t == "[UNK]") for t in ("[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]")]
    write_folder(name, Converted("DebertaV2Converter", file, tokens, **{"do_lower_case": False, "split_by_punct": False, **settings}))


def deberta_folder(corpus):
    deberta_form("deberta_folder", corpus)


def deberta_punctuation_folder(corpus):
    deberta_form("deberta_punctuation_folder", corpus, do_lower_case=True, split_by_punct=True)


def write_folder(name, tokenizer):
    rust = tokenizer.backend_tokenizer
    content = json.loads(rust.to_str())
    names = own_tokens(content)
    write(name, content, rust, SENTENCES + BLANKS[6:14] + ODD[8:16], others=[fill(t, names) for t in SPECIAL], has_file=False)
    for text in SENTENCES:
        assert tokenizer(text)["input_ids"] == Tokenizer.from_str(rust.to_str()).encode(text).ids


FOLDERS = {
    f.__name__: f
    for f in (roberta_folder, xlm_roberta_folder, camembert_folder, albert_folder, deberta_folder, deberta_punctuation_folder)
}


def main():
    wanted = sys.argv[1:]
    for folder in OUTPUT.glob("*/") if not wanted else ():
        shutil.rmtree(folder)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    (OUTPUT / "texts.json").write_text(json.dumps(TEXTS, indent=0) + "\n")
    corpus = Corpus(english() + 3 * (SENTENCES + MULTILINGUAL.splitlines()), characters=set("".join(TEXTS)))

    def each(kinds):
        return ((name, make) for name, make in kinds.items() if not wanted or name in wanted)

    def load(content):
        return Tokenizer.from_str(json.dumps(content))

    for kinds, texts, specials in ((PUBLISHED, LONG, SPECIAL), (VARIANTS, SENTENCES[::2] + BLANKS[6:14] + ODD[::3], SPECIAL[::3])):
        for name, make in each(kinds):
            content = make(corpus)
            names = own_tokens(content)
            write(name, content, load(content), texts, others=[fill(t, names) for t in specials])
    for name, make in each(COMPONENTS):
        content = make()
        write(name, content, load(content), SHORT, brief=True, decoded=name in DECODERS)
    for name, members in each(FLAGS):
        tokens = list(flag_tokens())
        content = letters(added_tokens=tokens, **members)
        write(name, content, load(content), SHORT[:12], others=list(flag_texts(tokens)), brief=True)
    for name, tokens in each(OVERLAPS):
        content = letters(added_tokens=tokens, decoder=FUSE)
        write(name, content, load(content), SHORT[:12], others=OVERLAP_TEXTS, brief=True)
    for _, make in each(FOLDERS):
        make(corpus)
    total = sum(f.stat().st_size for f in OUTPUT.rglob("*") if f.is_file())
    print(f"{total:,} bytes")


if __name__ == "__main__":
    main()
