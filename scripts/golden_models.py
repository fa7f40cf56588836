"""Makes small Hugging Face folders with random weights below tests/golden/models."""

import json
import pathlib

import torch
import transformers

OUTPUT = pathlib.Path(__file__).resolve().parent.parent / "tests/golden/models"
TOKENS = (
    "[PAD] [UNK] [CLS] [SEP] [MASK] a the cat Cat dog sat on mat un ##s ##aff ##able big , . ! ? café cafe 中 I it ' ##t is"
).split()
POSITIONS = 12
TEXTS = [
    ("the cat sat on the mat.", None),
    ("The Cat!", None),
    ("", None),
    ("a", None),
    ("I unaffable cats, it's 中 café?", None),
    ("the dog is big", "is it a cat?"),
    ("", "the dog"),
    ("the big big dog sat on the big mat, is it the cat? the dog is on the mat!", None),
    ("the big big dog sat on the mat", "a cat sat on the big mat"),
]
SIZES = {"vocab_size": len(TOKENS), "max_position_embeddings": POSITIONS, "num_labels": 3}
BERT = {**SIZES, "hidden_size": 8, "num_attention_heads": 2, "intermediate_size": 12, "attn_implementation": "eager"}
DISTILBERT = {**SIZES, "dim": 8, "n_heads": 2, "hidden_dim": 12, "attn_implementation": "eager"}


def draw(model, seed, deviation=0.5):
    """Draws all weights: matrices with the given deviation, biases with 0.2, gains of norms near 1."""
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        values = torch.randn(p.shape, generator=generator)
        is_gain = p.dim() == 1 and name.endswith("weight")
        p.data = 1 + 0.3 * values if is_gain else values * (deviation if p.dim() > 1 else 0.2)
    return model.eval()


def write_json(path, content):
    path.write_text(json.dumps(content, indent=2, ensure_ascii=False) + "\n")


def save(model, folder, **options):
    """Saves a model as transformers does, without the files that a test does not read."""
    folder.mkdir(parents=True)
    model.save_pretrained(folder, **options)
    (folder / "generation_config.json").unlink(missing_ok=True)


def write_vocabulary(folder, **config):
    (folder / "vocab.txt").write_text("".join(token + "\n" for token in TOKENS))
    write_json(folder / "tokenizer_config.json", {"tokenizer_class": "BertTokenizer", **config})


def tokenizer_of(folder):
    return transformers.AutoTokenizer.from_pretrained(folder)


def encode(tokenizer, text, pair, length=POSITIONS):
    return tokenizer(text, pair, truncation=True, max_length=length, return_tensors="pt")
