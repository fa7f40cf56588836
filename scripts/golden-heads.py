#!/usr/bin/env python3
"""Writes folders with further heads to tests/golden/models, and heads.txt, their results in float64.

    scripts/golden-heads.py          needs torch, transformers, sentence-transformers and what golden-models.py needs

heads.txt is in the format of tests/golden/README.md; tests/golden/models/README.md lists the folders. Scores are those of
sentence-transformers' CrossEncoder, and entities and masks those of transformers' pipelines.
"""

import shutil
import sys

import torch
import transformers
from sentence_transformers import CrossEncoder
from transformers import TextClassificationPipeline, TokenClassificationPipeline

import golden
import golden_models as models
TAGS = ["O", "B-PER", "I-PER", "B-LOC", "I-LOC"]
TAGGED = [
    "the cat sat on the mat.",
    "unaffable cats, it's unaffable! I sat",
    "",
    "café cafe\u0301 中 a Cat is un un unaffables",
    "the big big dog sat on the big mat, is it the cat? the dog is on the mat!",
    "a\u00a0 big\u200bdog [MASK] xyz cats",
]
STRATEGIES = ["none", "simple", "first", "average", "max"]
MASKED = ["the [MASK] sat on", "[MASK] is [MASK]", "a big [MASK]."]


@torch.no_grad()
def balance(model):
    """Makes a token classifier's logits larger, and their means over some tokens 0, so that all labels occur."""
    model.classifier.weight *= 3
    ids = torch.arange(len(models.TOKENS))[torch.randperm(len(models.TOKENS), generator=torch.Generator().manual_seed(1))]
    rows = [model(ids[i : i + 6][None]).logits[0] for i in range(0, len(ids), 6)]
    model.classifier.bias -= torch.cat(rows).mean(0)


def head(out, name, architecture, seed, texts, compute, files=None, distil=False, **config):
    """Writes a folder of an architecture of transformers, and what compute(model, tokenizer, text, pair) gives."""
    folder = models.OUTPUT / name
    shutil.rmtree(folder, ignore_errors=True)
    if "id2label" in config:
        config["num_labels"] = len(config["id2label"])
    if distil:
        sizes = transformers.DistilBertConfig(**{**models.DISTILBERT, "n_layers": 2, **config})
    else:
        sizes = transformers.BertConfig(**{**models.BERT, "num_hidden_layers": 2, **config})
    model = models.draw(architecture(sizes), seed)
    if architecture.__name__.endswith("TokenClassification"):
        balance(model)
    models.save(model, folder)
    models.write_vocabulary(folder, do_lower_case=False, model_max_length=models.POSITIONS)
    for path, content in (files or {}).items():
        models.write_json(folder / path, content)
    model, tokenizer = model.double(), models.tokenizer_of(folder)
    for i, text in enumerate(texts):
        a, b = text if isinstance(text, tuple) else (text, None)
        out.case(name, str(i), a=a)
        if b is not None:
            out.options(b=b)
        with torch.no_grad():
            compute(model, tokenizer, a, b)


def classifiers(out):
    """Multi-label and regression, with the probabilities and values that the pipeline gives."""

    def write(model, tokenizer, a, b):
        pipeline = TextClassificationPipeline(model=model, tokenizer=tokenizer, device="cpu")
        found = pipeline({"text": a, "text_pair": b} if b is not None else a, top_k=None, truncation=True)
        by_label = {one["label"]: one["score"] for one in (found if isinstance(found, list) else [found])}
        scores = [by_label[model.config.id2label[i]] for i in range(len(by_label))]
        out.tensor("y", torch.tensor(scores, dtype=torch.float64))

    multi = transformers.BertForSequenceClassification
    head(out, "multi", multi, 11, models.TEXTS, write, id2label={0: "big", 1: "red", 2: "old"}, problem_type="multi_label_classification")
    regression = transformers.DistilBertForSequenceClassification
    labels = {0: "anger", 1: "joy"}
    head(out, "regression", regression, 12, models.TEXTS, write, distil=True, id2label=labels, problem_type="regression")


def rerankers(out):
    """A cross-encoder whose settings choose the logit, one of the older form, and one without settings."""
    pairs = [("the cat", text) for text, _ in models.TEXTS if text] + [("is it a big dog?", "the dog sat"), ("", "a")]
    settings = {"activation_fn": "torch.nn.modules.linear.Identity", "model_type": "CrossEncoder", "prompts": {}}
    transformer = "sentence_transformers.base.modules.transformer.Transformer"
    files = {
        "config_sentence_transformers.json": settings,
        "modules.json": [{"idx": 0, "name": "0", "path": "", "type": transformer}],
        "sentence_bert_config.json": {
            "transformer_task": "sequence-classification",
            "modality_config": {"text": {"method": "forward", "method_output_name": "logits"}},
            "module_output_name": "scores",
        },
    }
    cases = {
        "reranker": ({}, files),
        "reranker_old": ({"sbert_ce_default_activation_function": "torch.nn.modules.linear.Identity"}, {}),
        "reranker_plain": ({}, {}),
    }
    for seed, (name, (config, files)) in enumerate(cases.items(), 13):
        scores = None

        def write(model, tokenizer, a, b):
            nonlocal scores
            if scores is None:
                scores = CrossEncoder(str(models.OUTPUT / name), device="cpu", model_kwargs={"dtype": torch.float64})
                scores.model.double()
            out.tensor("y", scores.predict([(a, b)], convert_to_tensor=True).double())

        architecture = transformers.BertForSequenceClassification
        head(out, name, architecture, seed, pairs, write, files, id2label={0: "LABEL_0"}, num_hidden_layers=1, **config)


def taggers(out):
    """Token classifiers, with the pipeline's entities by each strategy: label, begin and end in bytes, and score."""

    def write(model, tokenizer, text, _):
        pipeline = TokenClassificationPipeline(model=model, tokenizer=tokenizer, device="cpu")
        inputs = models.encode(tokenizer, text, None)
        if "distil" in model.config.model_type:
            inputs.pop("token_type_ids", None)
        out.tensor("y", model(**inputs).logits[0].softmax(-1))
        for strategy in STRATEGIES:
            found = pipeline(text, aggregation_strategy=strategy)
            key = "entity" if strategy == "none" else "entity_group"
            places = [[len(text[: one[place]].encode()) for place in ("start", "end")] for one in found]
            out.options(**{strategy: [one[key] for one in found] or "-"})
            out.tensor(strategy + "_places", torch.tensor(places, dtype=torch.int64).reshape(-1, 2))
            out.tensor(strategy + "_scores", torch.tensor([float(one["score"]) for one in found], dtype=torch.float64))

    labels = dict(enumerate(TAGS))
    head(out, "tagger", transformers.BertForTokenClassification, 21, TAGGED, write, id2label=labels)
    head(out, "tagger_distilbert", transformers.DistilBertForTokenClassification, 22, TAGGED, write, distil=True, id2label=labels)


def masks(out):
    """Masked language models: the logits of the masks' rows."""

    def write(model, tokenizer, text, _):
        inputs = models.encode(tokenizer, text, None)
        if "distil" in model.config.model_type:
            inputs.pop("token_type_ids", None)
        rows = (inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero()[:, 0]
        out.tensor("y", model(**inputs).logits[0][rows].softmax(-1))

    head(out, "mask", transformers.BertForMaskedLM, 31, MASKED, write)
    head(out, "mask_distilbert", transformers.DistilBertForMaskedLM, 32, MASKED, write, distil=True)


def main():
    transformers.utils.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    out = golden.Golden()
    for write in (classifiers, rerankers, taggers, masks):
        write(out)
    sys.argv[1:] = []
    golden.write(out, "models/heads.txt", f"golden-heads.py (transformers {transformers.__version__})")


if __name__ == "__main__":
    main()
