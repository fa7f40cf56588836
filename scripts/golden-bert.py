#!/usr/bin/env python3
"""Writes tests/golden/models: small model folders with random weights, and reference results in float64.

    scripts/golden-bert.py          needs torch, transformers, tokenizers, safetensors and sentence-transformers

expected.txt is in the format of tests/golden/README.md; tests/golden/models/README.md lists the folders. The weights are
drawn with a larger deviation than a new model's, so that logits differ from text to text.
"""

import pathlib
import shutil
import sys
import tempfile

import torch
import transformers
from safetensors.torch import load_file, save_file
from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer import modules as sentence
from sentence_transformers.sparse_encoder.modules import SpladePooling
from tokenizers import Tokenizer

ROOT = pathlib.Path(__file__).resolve().parent.parent
sys.path[:0] = [str(ROOT / "scripts"), str(ROOT / "bench/peers")]
import golden  # noqa: E402
import pre_norm_model  # noqa: E402
from golden_models import (  # noqa: E402
    BERT,
    DISTILBERT,
    OUTPUT,
    POSITIONS,
    TEXTS,
    TOKENS,
    draw,
    encode,
    save,
    tokenizer_of,
    write_json,
    write_vocabulary,
)



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


def single_texts():
    return [(str(i), a) for i, a in enumerate(a for a, b in TEXTS if b is None)]


def load_sentence(kind, folder):
    return kind(str(folder), device="cpu").double()


def save_sentence(model, folder):
    """Saves a model as sentence-transformers does, without its README.md."""
    model.save(str(folder))
    (folder / "README.md").unlink()


def write_module(folder, config, module=None):
    """Writes the files of a module in a folder of an older sentence-transformers."""
    folder.mkdir()
    write_json(folder / "config.json", config)
    if module is not None:
        save_file(module.state_dict(), folder / "model.safetensors")


def base_model(folder, seed, family="bert", head="Model"):
    """Writes a model with one layer, and an uncased vocabulary."""
    config = {"bert": transformers.BertConfig(**BERT, num_hidden_layers=1),
              "distilbert": transformers.DistilBertConfig(**DISTILBERT, n_layers=1)}[family]  # fmt: skip
    kind = {"bert": "Bert", "distilbert": "DistilBert"}[family] + head
    save(draw(getattr(transformers, kind)(config), seed), folder)
    write_vocabulary(folder, do_lower_case=True)


def transformer(*model, head="Model", **options):
    """Returns a module with a model of base_model()."""
    with tempfile.TemporaryDirectory() as folder:
        path = pathlib.Path(folder, "model")
        base_model(path, *model, head=head)
        return sentence.Transformer(str(path), **options)


def write_vectors(out, folder, **roles):
    """Writes a tensor for each text and role, whose value is the options of encode()."""
    model = load_sentence(SentenceTransformer, folder)
    for label, text in single_texts():
        out.case(folder.name, label, a=text)
        for role, options in roles.items():
            out.tensor(role, model.encode(text, convert_to_tensor=True, **options))


def sentence_max_dense(out):
    """Writes an older folder: first, largest and mean rows; a Dense with GELU, a norm, normalized."""
    folder = OUTPUT / "sentence_max_dense"
    base_model(folder, 8)
    write_modules(folder, ("", "Transformer"), ("1_Pooling", "Pooling"), ("2_Dense", "Dense"), ("3_LayerNorm", "LayerNorm"),
                  ("4_Normalize", "Normalize"))  # fmt: skip
    names = ("cls_token", "mean_tokens", "max_tokens", "mean_sqrt_len_tokens")
    flags = {f"pooling_mode_{name}": name != "mean_sqrt_len_tokens" for name in names}
    write_module(folder / "1_Pooling", {"word_embedding_dimension": 8, **flags})
    activation = "torch.nn.modules.activation.GELU"
    write_module(folder / "2_Dense", {"in_features": 24, "out_features": 6, "bias": True, "activation_function": activation},
                 draw(sentence.Dense(24, 6), 9))  # fmt: skip
    write_module(folder / "3_LayerNorm", {"dimension": 6}, draw(sentence.LayerNorm(6), 10))
    write_vectors(out, folder, y={})


def sentence_weighted(out):
    """Writes a folder of sentence-transformers 6: a Dense on rows, three poolings, two Dense with a residual."""
    folder = OUTPUT / "sentence_weighted"
    modules = [
        transformer(11, "distilbert"),
        draw(sentence.Dense(8, 8, activation_function=torch.nn.Sigmoid(), module_input_name="token_embeddings"), 12),
        sentence.Pooling(8, ["weightedmean", "lasttoken", "mean_sqrt_len_tokens"]),
        draw(sentence.Dense(24, 7, use_residual=True), 13),
        sentence.Dropout(0.5),
        draw(sentence.Dense(7, 7, bias=False, activation_function=torch.nn.SiLU(), use_residual=True), 14),
    ]
    save_sentence(SentenceTransformer(modules=modules, device="cpu"), folder)
    write_vectors(out, folder, y={}, rows={"output_value": "token_embeddings"})


def sentence_prompt(out):
    """Writes prompts that poolings leave out, and a truncation; `joined` has a prompt that takes all tokens of a text."""
    folder = OUTPUT / "sentence_prompt"
    pooling = sentence.Pooling(8, ["mean", "weightedmean", "cls", "lasttoken"], include_prompt=False)
    model = SentenceTransformer(modules=[transformer(15), pooling, sentence.Normalize()], device="cpu",
                                prompts={"query": "the dog ", "passage": "a "}, default_prompt_name="query",
                                truncate_dim=27)  # fmt: skip
    save_sentence(model, folder)
    write_vectors(out, folder, y={}, passage={"prompt_name": "passage"}, none={"prompt": ""}, joined={"prompt": "unaff"},
                  whole={"truncate_dim": 32})  # fmt: skip


def write_sparse(out, folder):
    model = load_sentence(SparseEncoder, folder)
    for label, text in single_texts():
        out.case(folder.name, label, a=text)
        out.tensor("y", model.encode(text, convert_to_sparse_tensor=False))


def splade(out):
    """Writes a SPLADE of BERT as sentence-transformers 6 saves it."""
    folder = OUTPUT / "splade"
    modules = [transformer(16, head="ForMaskedLM", transformer_task="fill-mask"), SpladePooling("max")]
    save_sentence(SparseEncoder(modules=modules, device="cpu"), folder)
    write_sparse(out, folder)


def splade_sum(out):
    """Writes an older folder of a SPLADE of DistilBERT: sums of two logarithms, five tokens, a default prompt."""
    folder = OUTPUT / "splade_sum"
    base_model(folder, 17, "distilbert", head="ForMaskedLM")
    kinds = [("", "MLMTransformer"), ("1_SpladePooling", "SpladePooling")]
    write_json(
        folder / "modules.json",
        [
            {"idx": i, "name": str(i), "path": path, "type": f"sentence_transformers.sparse_encoder.models.{kind}"}
            for i, (path, kind) in enumerate(kinds)
        ],
    )
    write_module(folder / "1_SpladePooling", {"pooling_strategy": "sum", "activation_function": "log1p_relu",
                                              "word_embedding_dimension": None})  # fmt: skip
    settings = {"model_type": "SparseEncoder", "prompts": {"query": "the big "}, "default_prompt_name": "query",
                "max_active_dims": 5}  # fmt: skip
    write_json(folder / "config_sentence_transformers.json", settings)
    write_sparse(out, folder)


def write_rows(out, folder):
    model = load_sentence(MultiVectorEncoder, folder)
    for label, text in single_texts():
        out.case(folder.name, label, a=text)
        out.tensors(query=model.encode_query(text), document=model.encode_document(text), none=model.encode(text))


def colbert(out):
    """Writes a ColBERT as PyLate 1.6 saves it: two tokens are added as prefixes, and queries are expanded with [MASK]."""
    folder = OUTPUT / "colbert"
    config = transformers.BertConfig(**{**BERT, "vocab_size": len(TOKENS) + 2}, num_hidden_layers=1)
    save(draw(transformers.BertModel(config), 18), folder)
    added = {str(len(TOKENS) + i): {"content": f"[{name}] ", "special": False} for i, name in enumerate("QD")}
    write_vocabulary(folder, do_lower_case=True, pad_token="[MASK]", added_tokens_decoder=added)
    write_json(
        folder / "modules.json",
        [
            {"idx": 0, "name": "0", "path": "", "type": "sentence_transformers.models.Transformer"},
            {"idx": 1, "name": "1", "path": "1_Dense", "type": "pylate.models.Dense.Dense"},
        ],
    )
    write_module(folder / "1_Dense", {"in_features": 8, "out_features": 5, "bias": False, "use_residual": False,
                                      "activation_function": "torch.nn.modules.linear.Identity"},
                 draw(sentence.Dense(8, 5, bias=False), 19))  # fmt: skip
    settings = {"model_type": "ColBERT", "prompts": {"query": "", "document": ""}, "similarity_fn_name": "MaxSim",
                "query_prefix": "[Q] ", "document_prefix": "[D] ", "query_length": 9, "document_length": 11,
                "attend_to_expansion_tokens": False, "skiplist_words": [",", ".", "!", "?", "'"],
                "do_query_expansion": True}  # fmt: skip
    write_json(folder / "config_sentence_transformers.json", settings)
    write_rows(out, folder)


def multi_vector(out):
    """Writes a MultiVectorEncoder of sentence-transformers 6: queries of at least 8 tokens, rows of "the" left out."""
    folder = OUTPUT / "multi_vector"
    expansion = {"strategy": "min", "length": 8, "attend": True, "token": "big"}
    modules = [
        transformer(20, "distilbert", query_expansion=expansion, query_length=10, document_length=9),
        draw(sentence.Dense(8, 5, bias=False, activation_function=None, module_input_name="token_embeddings"), 21),
        MultiVectorMask([",", "the"], skiplist_tasks=["query", "document"]),
        sentence.Normalize("token_embeddings"),
    ]
    prompts = {"query": "is it ", "document": "a "}
    save_sentence(MultiVectorEncoder(modules=modules, prompts=prompts, device="cpu"), folder)
    write_rows(out, folder)


WRITERS = (bert, distilbert, sharded, old, sentence_mean, sentence_cls, pre_norm, sentence_max_dense, sentence_weighted,
           sentence_prompt, splade, splade_sum, colbert, multi_vector)  # fmt: skip


def main():
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    OUTPUT.mkdir(parents=True, exist_ok=True)
    out = golden.Golden()
    for write in WRITERS:
        shutil.rmtree(OUTPUT / write.__name__, ignore_errors=True)
        write(out)
    sys.argv[1:] = []
    golden.write(out, "models/expected.txt", f"golden-bert.py (transformers {transformers.__version__})")


if __name__ == "__main__":
    main()
