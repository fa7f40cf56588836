#!/usr/bin/env python3
"""Compares the heads of heddle with transformers and sentence-transformers, for models with random weights:

    bench/peers/heads_compare.py --program build/release/bench/heads_program --data DIR --vocab FILE [--texts N] [--small]

Probabilities, values and scores are compared with float64: the largest error, relative to the largest result of the folder, must be
at most 1e-5, and the root mean square over all not above that of PyTorch's float32. Entities by each aggregation must have equal labels
and places for all texts, and scores within 1e-5; a text in which PyTorch's float32 differs from its float64 is left out and counted.
Results for a text alone must have the bits of those in a batch. Prints a table; exit code 1 if something differs. Needs torch,
transformers and sentence-transformers.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time

import torch
import transformers
from bert_folders import BASE, DROPOUTS, ODD, draw
from sentence_transformers import CrossEncoder
from transformers import BertTokenizerFast, TokenClassificationPipeline

TAGS = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"]
AGGREGATIONS = ["none", "simple", "first", "average", "max"]
HEADS = {
    "multi": ("ForSequenceClassification", "classify", {"num_labels": 6, "problem_type": "multi_label_classification"}),
    "regression": ("ForSequenceClassification", "classify", {"num_labels": 2, "problem_type": "regression"}),
    "rerank": ("ForSequenceClassification", "rerank", {"num_labels": 1}),
    "tag": ("ForTokenClassification", "tag", {"id2label": dict(enumerate(TAGS)), "label2id": {t: i for i, t in enumerate(TAGS)}}),
    "fill": ("ForMaskedLM", "fill", {}),
}
CLASSES = {"bert": "Bert", "distilbert": "DistilBert"}


def read_texts(folder, count):
    """Returns sentences of SST-2 and articles of AG News, of 1 to 512 tokens and more, in random order."""
    with open(os.path.join(folder, "sst2", "dev.tsv"), encoding="utf-8") as file:
        films = [line.split("\t")[0] for line in file.read().splitlines()[1:]]
    news = os.path.join(folder, "ag_news", "test.csv")
    with open(news, encoding="utf-8") as file:
        articles = file.read().splitlines()
    draw_from = random.Random(1)
    texts = ["", "a", "café CAFÉ cafe\u0301", "東京 ok", "\u200b", " ".join(articles[:40])[:6000]]
    while len(texts) < count:
        texts.append(draw_from.choice(films if draw_from.random() < 0.7 else articles))
    return texts[:count]


def make_folder(folder, case, name, vocab):
    architecture, _, config = HEADS[name]
    torch.manual_seed(1)
    sizes = case.config()
    for key, value in config.items():
        setattr(sizes, key, value)
    model = getattr(transformers, CLASSES[case.family] + architecture)(sizes)
    draw(model, case.width)
    model.save_pretrained(folder)
    BertTokenizerFast(vocab=vocab, do_lower_case=True, model_max_length=512).save_pretrained(folder)


def load(folder, case, name, dtype):
    architecture = getattr(transformers, CLASSES[case.family] + HEADS[name][0])
    quiet = dict.fromkeys(DROPOUTS[case.family], 0.0)
    return architecture.from_pretrained(folder, dtype=dtype, **quiet).eval()


def inputs_of(tokenizer, case, a, b=None):
    # Without the lists, transformers takes a pair whose second text is empty for a single text.
    inputs = tokenizer([a], None if b is None else [b], truncation=True, max_length=512, return_tensors="pt")
    if case.family == "distilbert" or case.extra.get("type_vocab_size") == 1:
        inputs.pop("token_type_ids", None)
    return inputs


@torch.no_grad()
def results_of(model, tokenizer, case, name, a, b):
    """Returns the results of a head for each text, as a flat list of float64."""
    found = []
    for i, text in enumerate(a):
        inputs = inputs_of(tokenizer, case, text, b[i] if b else None)
        logits = model(**inputs).logits[0]
        if name == "multi":
            found += logits.sigmoid().double().tolist()
        elif name == "regression":
            found += logits.double().tolist()
        elif name == "rerank":
            found += logits.sigmoid().double().tolist()
        else:
            rows = (inputs["input_ids"][0] == tokenizer.mask_token_id).nonzero()[:, 0]
            found.append(logits[rows].softmax(-1).double())
    return found


def heddle(program, name, folder, **given):
    run = subprocess.run([program, HEADS[name][1], folder], input=json.dumps(given), capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout)


def errors(found, exact):
    exact, found = torch.tensor(exact, dtype=torch.float64), torch.tensor(found, dtype=torch.float64)
    return (found - exact) / exact.abs().max()


def entities_of(pipeline, text, aggregation):
    key = "entity" if aggregation == "none" else "entity_group"
    return [
        (one[key], len(text[: one["start"]].encode()), len(text[: one["end"]].encode()), float(one["score"]))
        for one in pipeline(text, aggregation_strategy=aggregation)
    ]


def same_entities(a, b):
    return len(a) == len(b) and all(tuple(x[:3]) == tuple(y[:3]) and abs(x[3] - y[3]) <= 1e-5 for x, y in zip(a, b))


def compare_tags(options, folder, case, texts):
    """Compares entities. Returns whether they are equal, and a text for the table."""
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    if case.family == "distilbert" or case.extra.get("type_vocab_size") == 1:
        tokenizer.model_input_names = ["input_ids", "attention_mask"]
    pipelines = [
        TokenClassificationPipeline(model=load(folder, case, "tag", dtype), tokenizer=tokenizer, device="cpu")
        for dtype in (torch.float64, torch.float32)
    ]
    wrong = unclear = compared = 0
    for aggregation in AGGREGATIONS:
        found = heddle(options.program, "tag", folder, a=texts, aggregation=aggregation)
        wrong += not found["same_alone"]
        for text, own in zip(texts, found["results"]):
            exact, plain = (entities_of(pipeline, text, aggregation) for pipeline in pipelines)
            if same_entities(own, exact):
                compared += len(exact)
            elif not same_entities(plain, exact):
                unclear += 1
            else:
                wrong += 1
    return wrong == 0, f"{compared} entities equal, {wrong} texts differ, {unclear} left out"


def compare_numbers(options, folder, case, name, texts, squares):
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    a, b = list(texts), None
    if name == "rerank":
        b = a[1:] + a[:1]
    if name == "fill":
        a = ["the [MASK] " + text[:100] + " [MASK] ." for text in texts]
    exact = results_of(load(folder, case, name, torch.float64), tokenizer, case, name, a, b)
    plain = results_of(load(folder, case, name, torch.float32), tokenizer, case, name, a, b)
    if name == "rerank":  # the oracle of the scores
        scores = CrossEncoder(folder, device="cpu", max_length=512)
        assert type(scores.activation_fn).__name__ == "Sigmoid"
    if name == "fill":
        found = heddle(options.program, name, folder, a=a, count=1_000_000)
        exact, plain = torch.cat(exact), torch.cat(plain)
        own = torch.zeros_like(exact)
        for row, tokens in enumerate(found["results"]):
            for index, _, probability in tokens:
                own[row, index] = probability
        exact, plain, own = exact.flatten().tolist(), plain.flatten().tolist(), own.flatten().tolist()
    else:
        found = heddle(options.program, name, folder, a=a, **({"b": b} if b else {}))
        own = [x for row in found["results"] for x in (row if isinstance(row, list) else [row])]
    own_errors, plain_errors = errors(own, exact), errors(plain, exact)
    squares.append((own_errors.square().mean().item(), plain_errors.square().mean().item()))
    worst = own_errors.abs().max().item()
    good = worst <= 1e-5 and found["same_alone"]
    return good, f"largest error {worst:.1e} (PyTorch {plain_errors.abs().max():.1e}), same alone: {found['same_alone']}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--texts", type=int, default=40)
    parser.add_argument("--entity-texts", type=int, default=500)
    parser.add_argument("--small", action="store_true", help="only the small models")
    parser.add_argument("--only", choices=HEADS)
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(2)
    texts, good, squares = read_texts(options.data, max(options.texts, options.entity_texts)), True, []
    with tempfile.TemporaryDirectory() as temporary:
        for case in ODD if options.small else [*ODD, *BASE]:
            for name in [options.only] if options.only else HEADS:
                folder = os.path.join(temporary, f"{case.name}-{name}")
                make_folder(folder, case, name, options.vocab)
                begin = time.monotonic()
                if name == "tag":
                    is_small = case in ODD
                    one, said = compare_tags(options, folder, case, texts[: options.entity_texts if is_small else options.texts])
                else:
                    one, said = compare_numbers(options, folder, case, name, texts[: options.texts], squares)
                print(f"{'ok' if one else 'FAILED'}: {case.name} {name}: {said}, {time.monotonic() - begin:.0f} s", flush=True)
                good = good and one
    if squares:
        own, plain = (torch.tensor(column).mean().sqrt().item() for column in zip(*squares))
        print(f"root mean square over all: {own:.3e}, PyTorch's float32 {plain:.3e}")
        good = good and own <= plain
    sys.exit(0 if good else 1)


if __name__ == "__main__":
    main()
