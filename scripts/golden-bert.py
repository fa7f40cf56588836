#!/usr/bin/env python3
"""Writes tests/golden/models: small model folders with random weights, and reference results in float64.

    scripts/golden-bert.py          needs torch, transformers, tokenizers and safetensors

expected.txt is in the format of tests/golden/README.md; tests/golden/models/README.md lists the folders. The weights are
drawn with a larger deviation than a new model's, so that logits differ from text to text.
"""

import json
import pathlib
import shutil
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "bench/peers")]
import golden  # noqa: E402
import pre_norm_model  # noqa: E402

OUTPUT = ROOT / "tests/golden/models"
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


def draw(model, seed):
    """Draws all weights: matrices with a deviation of 0.5, biases with 0.2, gains of norms near 1."""
    generator = torch.Generator().manual_seed(seed)
    for name, p in model.named_parameters():
        values = torch.randn(p.shape, generator=generator)
        is_gain = p.dim() == 1 and name.endswith("weight")
        p.data = 1 + 0.3 * values if is_gain else values * (0.5 if p.dim() > 1 else 0.2)
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


def write_texts(out, name, tokenizer, compute, length=POSITIONS, types=True):
    """Writes a case for each text: its ids, and y = compute(inputs)."""
    for i, (a, b) in enumerate(TEXTS):
        inputs = encode(tokenizer, a, b, length)
        out.case(name, str(i), a=a)
        if b is not None:
            out.options(b=b)
        out.tensor("ids", inputs["input_ids"][0])
        if not types:
            inputs.pop("token_type_ids", None)
        with torch.no_grad():
            out.tensor("y", compute(inputs))


def classifier(out, folder, model, types=True):
    """Writes the logits of a classifier of transformers, whose folder must exist already."""
    model = model.double()
    write_texts(out, folder.name, tokenizer_of(folder), lambda inputs: model(**inputs).logits[0], types=types)


def bert(out):
    """Writes a cased BERT classifier with vocab.txt."""
    folder = OUTPUT / "bert"
    config = transformers.BertConfig(**BERT, num_hidden_layers=2, id2label={0: "bad", 1: "so-so", 2: "good"})
    model = draw(transformers.BertForSequenceClassification(config), 1)
    save(model, folder)
    write_vocabulary(folder, do_lower_case=False)
    classifier(out, folder, model)

    inputs = encode(tokenizer_of(folder), *TEXTS[5])
    with torch.no_grad():
        result = model(**inputs, output_attentions=True, output_hidden_states=True)
    out.case("bert_internals", "pair", a=TEXTS[5][0], b=TEXTS[5][1])
    for layer, probabilities in enumerate(result.attentions):
        out.tensor(f"attention{layer}", probabilities)
    for layer, rows in enumerate(result.hidden_states):
        out.tensor(f"hidden{layer}", rows[0])


def distilbert(out):
    """Writes a DistilBERT classifier as transformers 5 saves it, with tokenizer.json instead of vocab.txt."""
    folder = OUTPUT / "distilbert"
    config = transformers.DistilBertConfig(**DISTILBERT, n_layers=2, activation="relu")
    model = draw(transformers.DistilBertForSequenceClassification(config), 2)
    save(model, folder)
    write_vocabulary(folder, do_lower_case=True, model_max_length=POSITIONS)
    tokenizer = tokenizer_of(folder)
    for name in ("vocab.txt", "tokenizer_config.json"):
        (folder / name).unlink()
    tokenizer.save_pretrained(folder)
    saved = folder / "tokenizer.json"
    Tokenizer.from_file(str(saved)).save(str(saved), pretty=False)
    classifier(out, folder, model, types=False)


def sharded(out):
    """Writes a BERT classifier in BF16, in shards."""
    folder = OUTPUT / "sharded"
    config = transformers.BertConfig(**BERT, num_hidden_layers=1, hidden_act="gelu_new")
    model = draw(transformers.BertForSequenceClassification(config), 3).bfloat16()
    save(model, folder, max_shard_size=1000)
    write_vocabulary(folder)
    classifier(out, folder, model)


def old(out):
    """Writes a masked language model in F16 with the names of old checkpoints."""
    folder = OUTPUT / "old"
    config = transformers.BertConfig(**BERT, num_hidden_layers=1)
    model = draw(transformers.BertForMaskedLM(config), 4).half()
    save(model, folder)
    write_vocabulary(folder, do_lower_case=True)
    tensors = load_file(folder / "model.safetensors")
    renamed = {
        name.replace("LayerNorm.weight", "LayerNorm.gamma").replace("LayerNorm.bias", "LayerNorm.beta"): tensor
        for name, tensor in tensors.items()
    }
    renamed["bert.embeddings.position_ids"] = torch.arange(POSITIONS)[None]
    renamed["cls.seq_relationship.weight"] = torch.zeros(2, 8).half()
    renamed["cls.seq_relationship.bias"] = torch.zeros(2).half()
    save_file(renamed, folder / "model.safetensors", metadata={"format": "pt"})
    model = model.double()
    inputs = encode(tokenizer_of(folder), "the [MASK] sat on", "it is big")
    rows = torch.tensor([2, 0, 9])
    out.case("old", "masked", a="the [MASK] sat on", b="it is big")
    with torch.no_grad():
        out.tensors(ids=inputs["input_ids"][0], rows=rows, y=model(**inputs).logits[0][rows])


def embed(out, folder, transformer, model, pooling, normalized, length):
    model = model.double()

    def vector(inputs):
        rows = model(**inputs).last_hidden_state[0]
        pooled = rows.mean(0) if pooling == "mean" else rows[0]
        return torch.nn.functional.normalize(pooled, dim=0) if normalized else pooled

    single = [(a, b) for a, b in TEXTS if b is None]
    tokenizer = tokenizer_of(transformer)
    for i, (a, _) in enumerate(single):
        inputs = encode(tokenizer, a, None, length)
        if isinstance(model, transformers.DistilBertModel):
            inputs.pop("token_type_ids", None)
        out.case(folder.name, str(i), a=a)
        with torch.no_grad():
            out.tensor("y", vector(inputs))


def write_modules(folder, *modules):
    write_json(
        folder / "modules.json",
        [
            {"idx": i, "name": str(i), "path": path, "type": "sentence_transformers.models." + kind}
            for i, (path, kind) in enumerate(modules)
        ],
    )


def sentence_mean(out):
    """Writes a BertModel as sentence-transformers saves it: means of at most 8 tokens, normalized."""
    folder = OUTPUT / "sentence_mean"
    config = transformers.BertConfig(**BERT, num_hidden_layers=1)
    model = draw(transformers.BertModel(config), 5)
    save(model, folder)
    write_vocabulary(folder, do_lower_case=True, model_max_length=512)
    write_modules(folder, ("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Normalize", "Normalize"))
    write_json(folder / "sentence_bert_config.json", {"max_seq_length": 8, "do_lower_case": False})
    (folder / "1_Pooling").mkdir()
    write_json(
        folder / "1_Pooling/config.json",
        {"word_embedding_dimension": 8, "pooling_mode_cls_token": False, "pooling_mode_mean_tokens": True},
    )
    embed(out, folder, folder, model, "mean", True, 8)


def sentence_cls(out):
    """Writes a DistilBertModel to a subfolder: vectors of [CLS], not normalized."""
    folder = OUTPUT / "sentence_cls"
    config = transformers.DistilBertConfig(**DISTILBERT, n_layers=1)
    model = draw(transformers.DistilBertModel(config), 6)
    transformer = folder / "0_Transformer"
    save(model, transformer)
    write_vocabulary(transformer)
    write_modules(folder, ("0_Transformer", "Transformer"), ("1_Pooling", "Pooling"))
    (folder / "1_Pooling").mkdir()
    write_json(folder / "1_Pooling/config.json", {"embedding_dimension": 8, "pooling_mode": "cls"})
    embed(out, folder, transformer, model, "cls", False, POSITIONS)


def pre_norm(out):
    """Writes a classifier with heddle's pre-norm encoder, from bench/peers/pre_norm_model.py."""
    folder = OUTPUT / "pre_norm"
    config = pre_norm_model.Config(len(TOKENS), 8, layers=2, heads=2, ff_width=12, max_length=POSITIONS, classes=3)
    model = draw(pre_norm_model.Classifier(config).eval(), 7)
    pre_norm_model.save_folder(folder, model, config)
    write_vocabulary(folder, do_lower_case=True)
    tokenizer = transformers.BertTokenizer.from_pretrained(folder)
    model = model.double()

    def logits(inputs):
        return model(inputs["input_ids"], inputs["attention_mask"].bool())[0]

    write_texts(out, folder.name, tokenizer, logits)


def main():
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    for folder in OUTPUT.glob("*/"):
        shutil.rmtree(folder)
    OUTPUT.mkdir(parents=True, exist_ok=True)
    out = golden.Golden()
    for write in (bert, distilbert, sharded, old, sentence_mean, sentence_cls, pre_norm):
        write(out)
    sys.argv[1:] = []
    golden.write(out, "models/expected.txt", f"golden-bert.py (transformers {transformers.__version__})")


if __name__ == "__main__":
    main()
