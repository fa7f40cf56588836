"""Tokenizers in the forms of published tokenizer.json files, with vocabularies that are trained on any text.

Each form, such as roberta(), takes a Corpus and returns the content of the file. Needs tokenizers and sentencepiece.
"""

import base64
import collections
import contextlib
import io
import json
import pathlib
import struct
import tempfile
import zlib

import sentencepiece
from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers


class Corpus:
    """Trains vocabularies on lines of text, and keeps them for the tokenizers that share one.

    Vocabularies have `size` pieces, or a number that suits a small file. With `characters`, SentencePiece's character map has the rules for
    these and few others.
    """

    def __init__(self, lines, *, size=None, characters=None):
        self.lines, self.size, self.characters, self.kept = lines, size, characters, {}

    def keep(self, key, make):
        if key not in self.kept:
            self.kept[key] = make()
        return self.kept[key]

    def _train(self, model, trainer, size, normalizer, pre_tokenizer, letters=None, prefix=None, suffix=None, alphabet=()):
        """Returns the pieces and merges. `letters` is how many of the most frequent letters are kept. Letters with a prefix or suffix are
        given to the trainer, whose own order of them is random, as is its choice of letters."""
        lines = [normalizer.normalize_str(line) for line in self.lines] if normalizer else self.lines
        if letters is not None:
            counts = collections.Counter("".join(lines))
            kept = set(sorted(counts, key=lambda c: (-counts[c], c))[:letters])
            lines = ["".join(c for c in line if c in kept) for line in lines]
            alphabet = sorted(kept - {" "})
        given = [prefix + c for c in alphabet] if prefix else [c + suffix for c in alphabet] if suffix else []
        affixes = {"continuing_subword_prefix": prefix, "end_of_word_suffix": suffix}
        tokenizer = Tokenizer(model)
        tokenizer.pre_tokenizer = pre_tokenizer
        tokenizer.train_from_iterator(
            lines,
            trainer(
                vocab_size=size,
                show_progress=False,
                initial_alphabet=list(alphabet),
                special_tokens=[*alphabet, *given] if given else [],
                **{name: value for name, value in affixes.items() if value is not None},
            ),
        )
        trained = json.loads(tokenizer.to_str())["model"]
        pieces = sorted(trained["vocab"], key=trained["vocab"].get)
        return pieces, [list(pair) for pair in trained.get("merges", [])]

    def bpe(self, key, size, pre_tokenizer, *, normalizer=None, **options):
        """Returns the pieces and merges of a BPE model."""
        return self.keep(
            key, lambda: self._train(models.BPE(), trainers.BpeTrainer, self.size or size, normalizer, pre_tokenizer, **options)
        )

    def byte_level(self):
        return self.bpe("bytes", 900, pre_tokenizers.ByteLevel(add_prefix_space=False), alphabet=pre_tokenizers.ByteLevel.alphabet())

    def byte_level_split(self, pattern):
        cut = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)])
        return self.bpe(pattern, 900, cut, alphabet=pre_tokenizers.ByteLevel.alphabet())

    def word_piece(self, prefix="##"):
        """Returns the pieces of a WordPiece model."""
        return self.keep(
            ("word_piece", prefix),
            lambda: self._train(
                models.WordPiece(unk_token="[UNK]"),
                trainers.WordPieceTrainer,
                self.size or 800,
                normalizers.BertNormalizer(),
                pre_tokenizers.BertPreTokenizer(),
                letters=180,
                prefix=prefix,
            ),
        )[0]

    def sentence_piece(self, rules, *, lowercase=False, **options):
        """Returns the bytes of a SentencePiece model. `rules` are the name of a character map, or pairs of texts."""

        def make():
            lines = [line.lower() for line in self.lines] if lowercase else self.lines
            model = io.BytesIO()
            with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):  # the model keeps the name of the file
                if isinstance(rules, str):
                    rule = {"normalization_rule_name": rules}
                else:
                    rule = {"normalization_rule_tsv": "rules.tsv"}
                    pathlib.Path("rules.tsv").write_text(
                        "".join("\t".join(" ".join(f"{ord(c):X}" for c in text) for text in pair) + "\n" for pair in rules)
                    )
                sentencepiece.SentencePieceTrainer.train(
                    sentence_iterator=iter(lines),
                    model_writer=model,
                    hard_vocab_limit=False,
                    num_threads=1,
                    minloglevel=2,
                    **{"vocab_size": self.size or 700, "model_type": "unigram", "character_coverage": 0.998, **rule, **options},
                )
            return model.getvalue()

        return self.keep((zlib.crc32(str(rules).encode()), lowercase, str(options)), make)

    def rules(self, name="nmt_nfkc"):
        """Returns the name, or with `characters` the rules of that character map for them and each thousandth of the others."""
        if self.characters is None:
            return name

        def make():
            rules = rules_of(self.sentence_piece(name, vocab_size=500))
            return [rule for i, rule in enumerate(rules) if set(rule[0]) <= self.characters or i % 1000 == 0]

        return self.keep(("rules", name), make)


def fields(data):
    """Yields the numbers and values of a protobuf message."""

    def number():
        nonlocal at
        value = shift = 0
        while True:
            byte = data[at]
            at += 1
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    at = 0
    while at < len(data):
        key = number()
        if key & 7 == 0:
            value = number()
        else:
            size = {1: 8, 5: 4}.get(key & 7) or number()
            value = data[at : at + size]
            at += size
        yield key >> 3, value


def pieces_of(model):
    """Returns the pairs of piece and score, and the character map in base64, of a SentencePiece model."""
    pieces, characters = [], None
    for number, value in fields(model):
        if number == 1:
            piece = dict(fields(value))
            pieces.append([piece[1].decode(), struct.unpack("<f", piece[2])[0]])
        elif number == 3:
            characters = dict(fields(value)).get(2)
    return pieces, base64.b64encode(characters).decode()


def rules_of(model):
    """Returns the pairs of texts in the character map of a SentencePiece model, a trie as a double array."""
    characters = base64.b64decode(pieces_of(model)[1])
    (size,) = struct.unpack_from("<I", characters)
    units = struct.unpack_from(f"<{size // 4}I", characters, 4)
    texts = characters[4 + size :]

    def offset(unit):
        return (unit >> 10) << ((unit & 1 << 9) >> 6)

    rules, open_nodes = [], [(b"", offset(units[0]))]
    while open_nodes:
        key, node = open_nodes.pop()
        for byte in range(1, 256):
            if (node ^ byte) >= len(units):
                continue
            unit = units[node ^ byte]
            if unit & (1 << 31 | 255) != byte:
                continue
            child = node ^ byte ^ offset(unit)
            if unit >> 8 & 1:
                begin = units[child] & ~(1 << 31)
                rules.append(((key + bytes([byte])).decode(), texts[begin : texts.index(b"\0", begin)].decode()))
            open_nodes.append((key + bytes([byte]), child))
    return sorted(rules)


# ---- members of tokenizer.json


def added(content, id, *, lstrip=False, rstrip=False, normalized=False, single_word=False, special=True):
    return {
        "id": id,
        "content": content,
        "single_word": single_word,
        "lstrip": lstrip,
        "rstrip": rstrip,
        "normalized": normalized,
        "special": special,
    }


def regex(pattern):
    return {"Regex": pattern}


def sequence(kind, *members):
    return {"type": "Sequence", kind: list(members)}


def template(ids, single, pair):
    """Returns a TemplateProcessing. `single` and `pair` are words such as `[SEP]:1` and `$B:1`, of type 0 by default."""

    def items(words):
        for word in words.split():
            name, _, type_id = word.partition(":")
            kind, name = ("Sequence", name[1:]) if name.startswith("$") else ("SpecialToken", name)
            yield {kind: {"id": name, "type_id": int(type_id or 0)}}

    special = sorted({w.partition(":")[0] for w in (single + " " + pair).split()} - {"$A", "$B"})
    return {
        "type": "TemplateProcessing",
        "single": list(items(single)),
        "pair": list(items(pair)),
        "special_tokens": {s: {"id": s, "ids": [ids[s]], "tokens": [s]} for s in special},
    }


def truncation(direction):
    return {"direction": direction, "max_length": 512, "strategy": "LongestFirst", "stride": 0}


PADDING = {
    "strategy": "BatchLongest",
    "direction": "Right",
    "pad_to_multiple_of": None,
    "pad_id": 1,
    "pad_type_id": 0,
    "pad_token": "<pad>",
}
SPLIT_3 = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
SPLIT_1 = SPLIT_3.replace("{1,3}", "")
METASPACE = {"type": "Metaspace", "replacement": "▁", "prepend_scheme": "always", "split": True}
OLD_METASPACE = {"type": "Metaspace", "replacement": "▁", "add_prefix_space": True}
BERT_NORMALIZER = {"type": "BertNormalizer", "clean_text": True, "handle_chinese_chars": True, "strip_accents": None, "lowercase": True}
REPLACE_BLANKS = {"type": "Replace", "pattern": regex(" {2,}"), "content": " "}
ROBERTA_PAIR = "<s> $A </s> </s> $B </s>"
BERT_PAIR = "[CLS] $A [SEP] $B:1 [SEP]:1"


def byte_level(*, prefix=False, trim=True, use_regex=None):
    member = {"type": "ByteLevel", "add_prefix_space": prefix, "trim_offsets": trim}
    return member if use_regex is None else {**member, "use_regex": use_regex}


def split(pattern, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": pattern, "behavior": behavior, "invert": invert}


def replace(pattern, content):
    return {"type": "Replace", "pattern": pattern if isinstance(pattern, dict) else {"String": pattern}, "content": content}


def file(model, *, normalizer=None, pre_tokenizer=None, post_processor=None, decoder=None, added_tokens=(), truncation=None, padding=None):
    return {
        "version": "1.0",
        "truncation": truncation,
        "padding": padding,
        "added_tokens": list(added_tokens),
        "normalizer": normalizer,
        "pre_tokenizer": pre_tokenizer,
        "post_processor": post_processor,
        "decoder": decoder,
        "model": model,
    }


def numbered(tokens):
    return {token: i for i, token in enumerate(tokens)}


def bpe_model(tokens, merges, *, old=False, **options):
    """Returns a BPE model. Old files have merges as texts, and no type, byte_fallback and ignore_merges."""
    model = {
        "type": "BPE",
        "dropout": None,
        "unk_token": None,
        "continuing_subword_prefix": None,
        "end_of_word_suffix": None,
        "fuse_unk": False,
        "byte_fallback": False,
        "ignore_merges": False,
        **options,
    }
    if old:
        for member in ("type", "byte_fallback", "ignore_merges"):
            del model[member]
        merges = [" ".join(pair) for pair in merges]
    return {**model, "vocab": numbered(tokens), "merges": merges}


def unigram_model(pieces, unk_id, **options):
    return {"type": "Unigram", "unk_id": unk_id, "vocab": pieces, **options}


def word_piece_model(tokens, *, unk="[UNK]", prefix="##", longest=100):
    return {
        "type": "WordPiece",
        "unk_token": unk,
        "continuing_subword_prefix": prefix,
        "max_input_chars_per_word": longest,
        "vocab": numbered(tokens),
    }


# ---- tokenizers in the forms of published models. Each returns the file.


def roberta(corpus, *, prefix=False, trim=True, direction=None):
    pieces, merges = corpus.byte_level()
    tokens = ["<s>", "<pad>", "</s>", "<unk>", *pieces, "<mask>"]
    special = [added(t, i, normalized=True) for i, t in enumerate(tokens[:4])] + [added("<mask>", len(tokens) - 1, lstrip=True)]
    return file(
        bpe_model(tokens, merges, old=True, continuing_subword_prefix="", end_of_word_suffix=""),
        added_tokens=special,
        pre_tokenizer=byte_level(prefix=prefix, trim=trim),
        decoder=byte_level(prefix=True),
        post_processor={
            "type": "RobertaProcessing",
            "sep": ["</s>", 2],
            "cls": ["<s>", 0],
            "trim_offsets": trim,
            "add_prefix_space": prefix,
        },
        truncation=direction and truncation(direction),
    )


def roberta_prefix(corpus):
    return roberta(corpus, prefix=True, direction="Left")


def roberta_untrimmed(corpus):
    return roberta(corpus, trim=False)


def modernbert(corpus):
    pieces, merges = corpus.byte_level()
    tokens = ["|||IP_ADDRESS|||", "<|padding|>", *pieces]
    blanks = [" " * n for n in range(24, 1, -1)]
    others = ["|||EMAIL_ADDRESS|||", "|||PHONE_NUMBER|||", "<|endoftext|>", "[UNK]", "[CLS]", "[SEP]", "[PAD]", "[MASK]", "[unused0]"]
    ids = {t: len(tokens) + i for i, t in enumerate(blanks + others)}
    special = [added(tokens[0], 0, normalized=True, special=False), added(tokens[1], 1)]
    special += [added(t, ids[t], normalized=True, special=False) for t in blanks + others[:2]]
    special += [added(t, ids[t], lstrip=t == "[MASK]") for t in others[2:8]] + [
        added("[unused0]", ids["[unused0]"], normalized=True, special=False)
    ]
    return file(
        bpe_model(tokens, merges),
        added_tokens=special,
        normalizer={"type": "NFC"},
        pre_tokenizer=byte_level(use_regex=True),
        decoder=byte_level(prefix=True, use_regex=True),
        post_processor=template(ids, "[CLS] $A [SEP]", BERT_PAIR),
        truncation=truncation("Right"),
    )


def gpt2(corpus):
    pieces, merges = corpus.byte_level()
    return file(
        bpe_model([*pieces, "<|endoftext|>"], merges, continuing_subword_prefix="", end_of_word_suffix=""),
        added_tokens=[added("<|endoftext|>", len(pieces), normalized=True)],
        pre_tokenizer=byte_level(),
        decoder=byte_level(prefix=True),
        post_processor=byte_level(prefix=True, trim=False),
    )


def llama3(corpus):
    pieces, merges = corpus.byte_level_split(SPLIT_3)
    names = ["<|begin_of_text|>", "<|end_of_text|>", "<|reserved_special_token_0|>", "<|eot_id|>"]
    ids = {t: len(pieces) + i for i, t in enumerate(names)}
    # A piece that no merge makes: it is found by ignore_merges alone.
    del merges[len(merges) // 2 : len(merges) // 2 + 20]
    return file(
        bpe_model(pieces, [pair for pair in merges if all(p in pieces for p in pair)], ignore_merges=True),
        added_tokens=[added(t, ids[t]) for t in names],
        pre_tokenizer=sequence("pretokenizers", split(regex(SPLIT_3)), byte_level(use_regex=False)),
        decoder=byte_level(prefix=True, use_regex=True),
        post_processor=sequence(
            "processors",
            byte_level(prefix=True, trim=False, use_regex=True),
            template(ids, names[0] + " $A", f"{names[0]} $A {names[0]}:1 $B:1"),
        ),
    )


def qwen(corpus):
    pieces, merges = corpus.byte_level_split(SPLIT_1)
    names = ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
    return file(
        bpe_model(pieces, merges, continuing_subword_prefix="", end_of_word_suffix=""),
        normalizer={"type": "NFC"},
        added_tokens=[added(t, len(pieces) + i) for i, t in enumerate(names)] + [added("<tool_call>", len(pieces) + 3, special=False)],
        pre_tokenizer=sequence("pretokenizers", split(regex(SPLIT_1)), byte_level(trim=False, use_regex=False)),
        post_processor=byte_level(trim=False, use_regex=False),
        decoder=byte_level(trim=False, use_regex=False),
    )


def clip(corpus):
    """BPE with a suffix, and words that a regular expression finds."""
    pattern = r"<\|startoftext\|>|<\|endoftext\|>|'s|'t|'re|'ve|'m|'ll|'d|[\p{L}]+|[\p{N}]|[^\s\p{L}\p{N}]+"
    normalizer = normalizers.Sequence([normalizers.NFC(), normalizers.Replace(Regex(r"\s+"), " "), normalizers.Lowercase()])
    cut = pre_tokenizers.Sequence([pre_tokenizers.Split(Regex(pattern), "removed", True), pre_tokenizers.ByteLevel(False)])
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces, merges = corpus.bpe("clip", 700, cut, normalizer=normalizer, alphabet=alphabet, suffix="</w>")
    tokens = [*pieces, "<|startoftext|>", "<|endoftext|>"]
    begin, end = len(pieces), len(pieces) + 1
    return file(
        bpe_model(tokens, merges, unk_token="<|endoftext|>", continuing_subword_prefix="", end_of_word_suffix="</w>"),
        normalizer=sequence("normalizers", {"type": "NFC"}, replace(regex(r"\s+"), " "), {"type": "Lowercase"}),
        pre_tokenizer=sequence("pretokenizers", split(regex(pattern), "Removed", True), byte_level(use_regex=True)),
        decoder=byte_level(use_regex=True),
        post_processor={
            "type": "RobertaProcessing",
            "sep": [tokens[end], end],
            "cls": [tokens[begin], begin],
            "trim_offsets": False,
            "add_prefix_space": False,
        },
        added_tokens=[added(tokens[begin], begin, normalized=True), added(tokens[end], end)],
    )


def openai_gpt(corpus):
    pieces, merges = corpus.bpe(
        "openai", 600, pre_tokenizers.BertPreTokenizer(), normalizer=normalizers.BertNormalizer(), letters=200, suffix="</w>"
    )
    return file(
        bpe_model(["<unk>", *pieces], merges, unk_token="<unk>", end_of_word_suffix="</w>"),
        added_tokens=[added("<unk>", 0)],
        normalizer=BERT_NORMALIZER,
        pre_tokenizer={"type": "BertPreTokenizer"},
        decoder={"type": "BPEDecoder", "suffix": "</w>"},
    )


def unigram_ids(pieces, mask=None):
    ids = {piece: i for i, (piece, _) in enumerate(pieces)}
    return {**ids, **({mask: len(pieces)} if mask else {})}


def xlm_roberta(corpus, *, normalizer=None, pre_tokenizer=None, decoder=OLD_METASPACE, direction=None, mask_in_vocabulary=False):
    pieces, characters = pieces_of(corpus.sentence_piece(corpus.rules()))
    pieces = [["<s>", 0.0], ["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], *pieces[3:]] + [["<mask>", 0.0]] * mask_in_vocabulary
    ids = unigram_ids(pieces, "<mask>" if not mask_in_vocabulary else None)
    precompiled = {"type": "Precompiled", "precompiled_charsmap": characters}
    return file(
        unigram_model(pieces, 3),
        normalizer=normalizer(precompiled) if normalizer else precompiled,
        pre_tokenizer=pre_tokenizer or sequence("pretokenizers", {"type": "WhitespaceSplit"}, {**OLD_METASPACE, "str_rep": "▁"}),
        decoder=decoder,
        added_tokens=[added(t, ids[t], lstrip=t == "<mask>") for t in ("<s>", "<pad>", "</s>", "<unk>", "<mask>")],
        post_processor=template(ids, "<s> $A </s>", ROBERTA_PAIR),
        truncation=direction and truncation(direction),
        padding=direction and PADDING,
    )


def bge_m3(corpus):
    return xlm_roberta(
        corpus,
        normalizer=lambda map_: sequence("normalizers", map_, REPLACE_BLANKS),
        pre_tokenizer=METASPACE,
        decoder=METASPACE,
        mask_in_vocabulary=True,
    )


def multilingual_e5(corpus):
    return xlm_roberta(
        corpus,
        pre_tokenizer={**OLD_METASPACE, "prepend_scheme": "always"},
        decoder={**OLD_METASPACE, "prepend_scheme": "always"},
        direction="Left",
    )


def camembert(corpus):
    pieces, characters = pieces_of(corpus.sentence_piece(corpus.rules()))
    pieces = [
        ["<s>NOTUSED", 0.0],
        ["<pad>", 0.0],
        ["</s>NOTUSED", 0.0],
        ["<unk>", 0.0],
        ["<unk>NOTUSED", -100],
        ["<s>", 0.0],
        ["</s>", 0.0],
        *pieces[3:],
        ["<mask>", 0.0],
    ]
    ids = unigram_ids(pieces)
    special = ("<s>NOTUSED", "<pad>", "</s>NOTUSED", "<unk>", "<s>", "</s>", "<mask>")
    return file(
        unigram_model(pieces, 3, byte_fallback=False),
        normalizer=sequence("normalizers", {"type": "Precompiled", "precompiled_charsmap": characters}, REPLACE_BLANKS),
        pre_tokenizer=METASPACE,
        decoder=METASPACE,
        added_tokens=[added(t, ids[t], lstrip=t == "<mask>") for t in special],
        post_processor=template(ids, "<s> $A </s>", ROBERTA_PAIR),
    )


def albert(corpus):
    pieces, characters = pieces_of(corpus.sentence_piece(corpus.rules(), lowercase=True))
    pieces = [["<pad>", 0.0], ["<unk>", 0.0], ["[CLS]", 0.0], ["[SEP]", 0.0], ["[MASK]", 0.0], *pieces[3:]]
    ids = unigram_ids(pieces)
    return file(
        unigram_model(pieces, 1),
        decoder=OLD_METASPACE,
        normalizer=sequence(
            "normalizers",
            replace("``", '"'),
            replace("''", '"'),
            {"type": "NFKD"},
            {"type": "StripAccents"},
            {"type": "Lowercase"},
            {"type": "Precompiled", "precompiled_charsmap": characters},
            REPLACE_BLANKS,
        ),
        pre_tokenizer=sequence("pretokenizers", {"type": "WhitespaceSplit"}, OLD_METASPACE),
        added_tokens=[added(t, ids[t], lstrip=t == "[MASK]") for t in ("<pad>", "<unk>", "[CLS]", "[SEP]", "[MASK]")],
        post_processor=template(ids, "[CLS] $A [SEP]", BERT_PAIR),
    )


def deberta(corpus, normalizer, pre_tokenizer):
    pieces, characters = pieces_of(corpus.sentence_piece(corpus.rules()))
    pieces = [["[PAD]", 0.0], ["[CLS]", 0.0], ["[SEP]", 0.0], ["[UNK]", 0.0], *pieces[3:]]
    ids = unigram_ids(pieces, "[MASK]")
    return file(
        unigram_model(pieces, 3, byte_fallback=False),
        normalizer=sequence("normalizers", *normalizer({"type": "Precompiled", "precompiled_charsmap": characters})),
        pre_tokenizer=sequence("pretokenizers", *pre_tokenizer),
        decoder=METASPACE,
        added_tokens=[added(t, ids[t], normalized=t == "[UNK]") for t in ("[PAD]", "[CLS]", "[SEP]", "[UNK]", "[MASK]")],
        post_processor=template(ids, "[CLS] $A [SEP]", BERT_PAIR),
    )


def deberta_v3(corpus):
    return deberta(corpus, lambda map_: [{"type": "Strip", "strip_left": True, "strip_right": True}, map_, REPLACE_BLANKS], [METASPACE])


def deberta_v2(corpus):
    """As transformers 5 builds it: no character map, and words cut at punctuation."""
    return deberta(
        corpus,
        lambda _: [
            {"type": "Lowercase"},
            replace(regex(r"\s{2,}|[\n\r\t]"), " "),
            {"type": "NFC"},
            {"type": "Strip", "strip_left": False, "strip_right": True},
        ],
        [{"type": "Punctuation", "behavior": "Isolated"}, METASPACE],
    )


def t5(corpus):
    pieces, characters = pieces_of(corpus.sentence_piece(corpus.rules("nmt_nfkc_cf")))
    pieces = [["<pad>", 0.0], ["</s>", 0.0], ["<unk>", 0.0], *pieces[3:], ["<extra_id_1>", 0.0], ["<extra_id_0>", 0.0]]
    ids = unigram_ids(pieces)
    metaspace = {**METASPACE, "prepend_scheme": "first", "split": False}
    return file(
        unigram_model(pieces, 2, byte_fallback=False),
        normalizer={"type": "Precompiled", "precompiled_charsmap": characters},
        pre_tokenizer=metaspace,
        decoder=metaspace,
        added_tokens=[added(t, ids[t]) for t in ("<pad>", "</s>", "<unk>", "<extra_id_1>", "<extra_id_0>")],
        post_processor=template(ids, "$A </s>", "$A </s> $B </s>"),
    )


def unigram_bytes(corpus):
    pieces, _ = pieces_of(corpus.sentence_piece("identity", byte_fallback=True, vocab_size=corpus.size or 800))
    return file(
        unigram_model([["<unk>", 0.0], ["<s>", 0.0], ["</s>", 0.0], *pieces[3:]], 0, byte_fallback=True),
        normalizer=None,
        pre_tokenizer={**METASPACE, "prepend_scheme": "first"},
        added_tokens=[added(t, i) for i, t in enumerate(("<unk>", "<s>", "</s>"))],
        decoder=sequence(
            "decoders",
            replace("▁", " "),
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ),
    )


BYTES = [f"<0x{byte:02X}>" for byte in range(256)]


def byte_fallback_bpe(corpus):
    cut = pre_tokenizers.Split("▁", "merged_with_next")
    pieces, merges = corpus.bpe("fallback", 600, cut, normalizer=normalizers.Replace(" ", "▁"), letters=180)
    return pieces, merges


def llama(corpus):
    pieces, merges = byte_fallback_bpe(corpus)
    tokens = ["<unk>", "<s>", "</s>", *BYTES, *pieces]
    return file(
        bpe_model(tokens, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True),
        added_tokens=[added(t, i) for i, t in enumerate(tokens[:3])],
        normalizer=sequence("normalizers", {"type": "Prepend", "prepend": "▁"}, replace(" ", "▁")),
        decoder=sequence(
            "decoders",
            replace("▁", " "),
            {"type": "ByteFallback"},
            {"type": "Fuse"},
            {"type": "Strip", "content": " ", "start": 1, "stop": 0},
        ),
        post_processor=template(numbered(tokens), "<s> $A", "<s> $A <s>:1 $B:1"),
    )


def gemma(corpus):
    pieces, merges = byte_fallback_bpe(corpus)
    tokens = ["<pad>", "<eos>", "<bos>", "<unk>", "<mask>", *BYTES, *pieces]
    return file(
        bpe_model(tokens, merges, unk_token="<unk>", fuse_unk=True, byte_fallback=True),
        normalizer=replace(" ", "▁"),
        added_tokens=[added(t, i) for i, t in enumerate(tokens[:5])]
        + [added("\n\n", len(tokens), special=False), added("▁▁", len(tokens) + 1, special=False)],
        pre_tokenizer=split({"String": " "}, "MergedWithPrevious"),
        decoder=sequence("decoders", replace("▁", " "), {"type": "ByteFallback"}, {"type": "Fuse"}),
        post_processor=template(numbered(tokens), "<bos> $A", "<bos> $A <bos>:1 $B:1"),
    )


def unknown_bpe(corpus, *, fuse, old=False, few_bytes=False):
    pieces, merges = byte_fallback_bpe(corpus)
    tokens = ["<unk>", *(BYTES[:0xC4] if few_bytes else []), *pieces]
    return file(
        bpe_model(tokens, merges, unk_token="<unk>", fuse_unk=fuse, byte_fallback=few_bytes, **({"old": True} if old else {})),
        normalizer=replace(" ", "▁"),
        pre_tokenizer=split({"String": "▁"}, "MergedWithNext"),
        decoder=sequence("decoders", {"type": "ByteFallback"}, replace("▁", " "), {"type": "Fuse"}),
    )


def prefix_bpe(corpus):
    """BPE with a prefix for pieces that continue a word, and no unknown token."""
    pieces, merges = corpus.bpe("prefix", 500, pre_tokenizers.WhitespaceSplit(), letters=120, prefix="##")
    return file(
        bpe_model(pieces, merges, continuing_subword_prefix="##"),
        pre_tokenizer={"type": "WhitespaceSplit"},
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": False},
    )


def mpnet(corpus):
    special = ["<s>", "<pad>", "</s>", "<unk>"]
    tokens = [*special, "[UNK]", *corpus.word_piece(), "<mask>"]
    return file(
        word_piece_model(tokens),
        normalizer=BERT_NORMALIZER,
        pre_tokenizer={"type": "BertPreTokenizer"},
        decoder={"type": "WordPiece", "prefix": "##", "cleanup": True},
        added_tokens=[added(t, i) for i, t in enumerate(special[:3])] + [added("[UNK]", 4), added("<mask>", len(tokens) - 1, lstrip=True)],
        post_processor={
            "type": "RobertaProcessing",
            "sep": ["</s>", 2],
            "cls": ["<s>", 0],
            "trim_offsets": True,
            "add_prefix_space": False,
        },
        truncation=truncation("Right"),
        padding=PADDING,
    )


BERT_SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


def bert(corpus, *, normalizer=BERT_NORMALIZER, processor=None, direction=None, old=False, **options):
    prefix = options.get("prefix", "##")
    special = [options.get("unk", t) if t == "[UNK]" else t for t in BERT_SPECIAL]
    tokens = [*special, *corpus.word_piece(prefix)]
    model = word_piece_model(tokens, **options)
    if old:
        del model["type"]
    return file(
        model,
        normalizer=normalizer,
        pre_tokenizer={"type": "BertPreTokenizer"},
        decoder={"type": "WordPiece", "prefix": prefix, "cleanup": not options},
        added_tokens=[added(t, i) for i, t in enumerate(special)],
        post_processor=processor or template(numbered(tokens), "[CLS] $A [SEP]", BERT_PAIR),
        truncation=direction and truncation(direction),
    )


def electra(corpus):
    return bert(corpus, old=True)


def bert_left(corpus):
    return bert(corpus, direction="Left", processor={"type": "BertProcessing", "sep": ["[SEP]", 3], "cls": ["[CLS]", 2]})


def word_piece_other(corpus):
    return bert(corpus, unk="<unk>", prefix="@@", longest=12)


def bert_flags(clean_text=False, handle_chinese_chars=False, strip_accents=False, lowercase=False):
    return {
        "type": "BertNormalizer",
        "clean_text": clean_text,
        "handle_chinese_chars": handle_chinese_chars,
        "strip_accents": strip_accents,
        "lowercase": lowercase,
    }
