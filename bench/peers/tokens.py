"""WordPiece by the Rust library of Hugging Face."""

import codecs
import itertools

from tokenizers import (
    AddedToken,
    BertWordPieceTokenizer,
    Tokenizer as RustTokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
)

SPECIAL = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]


class Tokenizer:
    """Turns texts into ids: [CLS] … [SEP], or without [SEP] if `sep` is false, at most `max_length` of them."""

    def __init__(self, vocab, uncased=False, max_length=512, sep=True):
        self.rust = BertWordPieceTokenizer(vocab, lowercase=uncased)
        self.sep = sep
        self.first = self.rust.token_to_id("[CLS]")
        self.rust.enable_truncation(max_length if sep else max_length - 1)
        self.vocab_size = self.rust.get_vocab_size()

    def __call__(self, texts):
        encodings = self.rust.encode_batch(texts, add_special_tokens=self.sep)
        return [encoding.ids if self.sep else [self.first, *encoding.ids] for encoding in encodings]


def read_vocabulary(path):
    return {token: i for i, token in enumerate(path.read_bytes().decode().removesuffix("\n").split("\n"))}


def bert_tokenizer(vocabulary, uncased, strip_accents=None):
    """Returns the tokenizer that transformers' BertTokenizerFast builds from vocab.txt."""
    tokenizer = RustTokenizer(models.WordPiece(vocabulary, unk_token="[UNK]", max_input_chars_per_word=100))
    tokenizer.normalizer = normalizers.BertNormalizer(
        clean_text=True, handle_chinese_chars=True, strip_accents=strip_accents, lowercase=uncased
    )
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(prefix="##", cleanup=True)
    tokenizer.add_special_tokens([AddedToken(token, normalized=False, special=True) for token in SPECIAL])
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]",
        pair="[CLS] $A [SEP] $B:1 [SEP]:1",
        special_tokens=[(token, vocabulary[token]) for token in ("[CLS]", "[SEP]")],
    )
    return tokenizer


class Bytes:
    """Bytes as the library can read them: `text` has U+FFFD for invalid UTF-8. ranges() brings offsets back to the bytes."""

    def __init__(self, data):
        if data.isascii():
            self.text, self.begins = data.decode("ascii"), range(len(data) + 1)
            return
        invalid = []  # the ranges of bytes that are not UTF-8

        def replace(error):
            invalid.append((error.start, error.end))
            return "\ufffd", error.end

        codecs.register_error("replace_and_record", replace)
        self.text = data.decode(errors="replace_and_record")
        ends, at = dict(invalid), 0
        self.begins = [0]
        for character in self.text:
            at = ends[at] if at in ends else at + len(character.encode())
            self.begins.append(at)
        assert at == len(data)

    def ranges(self, offsets):
        """Returns the ranges of bytes for ranges of characters."""
        return [(self.begins[begin], self.begins[end]) for begin, end in offsets]


def encode_bytes(tokenizer, first, second=None, add_special_tokens=True):
    """Returns the library's encoding of bytes, and the offsets of its tokens in bytes."""
    texts = [Bytes(data) for data in (first, second) if data is not None]
    encoding = tokenizer.encode(*(t.text for t in texts), add_special_tokens=add_special_tokens)
    offsets = []
    for sequence, group in itertools.groupby(zip(encoding.sequence_ids, encoding.offsets), key=lambda pair: pair[0]):
        ranges = [range_ for _, range_ in group]
        offsets += texts[sequence].ranges(ranges) if sequence is not None else ranges
    return encoding, offsets
