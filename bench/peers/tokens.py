"""WordPiece by the Rust library of Hugging Face."""

from tokenizers import BertWordPieceTokenizer


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
