#!/usr/bin/env python3
"""Compares the heads of heddle with transformers and sentence-transformers, for models with random weights:

    bench/peers/heads_compare.py --program build/release/bench/heads_program --data DIR --vocab FILE [--texts N] [--sizes odd] [--family NAME]

Probabilities, values, scores and the logits of tokens are compared with float64: the largest error, relative to the largest result of
the folder, must be at most 1e-5, and the root mean square over all not above that of PyTorch's float32. In bf16, the root mean square of
each head must be at most twice PyTorch's. Entities by each aggregation must have equal labels and places for all texts, and scores within
1e-5; a text in which PyTorch's float32 differs from its float64 is left out and counted. Results for a text alone must have the bits of
those in a batch. Prints a table; exit code 1 if something differs. Needs torch, transformers and sentence-transformers.
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
from bert_folders import BASE, CLASSES, DROPOUTS, ODD, RELATIVES_BASE, RELATIVES_ODD, class_of, draw
from exact_float64 import exact_float64
from sentence_transformers import CrossEncoder
from transformers import BertTokenizerFast, TokenClassificationPipeline

TAGS = ["O", "B-PER", "I-PER", "B-ORG", "I-ORG", "B-LOC", "I-LOC"]
AGGREGATIONS = ["none", "simple", "first", "average", "max"]
HEADS = {
    "multi": ("ForSequenceClassification", "classify", {"num_labels": 6, "problem_type": "multi_label_classification"}),
    "regression": ("ForSequenceClassification", "classify", {"num_labels": 2, "problem_type": "regression"}),
    "rerank": ("ForSequenceClassification", "rerank", {"num_labels": 1}),
    "tag": ("ForTokenClassification", "logits", {"id2label": dict(enumerate(TAGS)), "label2id": {t: i for i, t in enumerate(TAGS)}}),
    "answer": ("ForQuestionAnswering", "logits", {"num_labels": 2}),
    "fill": ("ForMaskedLM", "fill", {}),
}
BF16_ERRORS = 2.0  # the greatest error allowed in bf16, as a multiple of PyTorch's
CASES = {
    "odd": ODD,
    "base": BASE,
    "relatives": RELATIVES_ODD,
    "relatives-base": RELATIVES_BASE,
    "all": [*ODD, *RELATIVES_ODD, *BASE, *RELATIVES_BASE],
}


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
    model = class_of(case.family, architecture)(sizes)
    draw(model, case.width)
    model.save_pretrained(folder)
    BertTokenizerFast(vocab=vocab, do_lower_case=True, model_max_length=512).save_pretrained(folder)


def load(folder, case, name, dtype):
    architecture = class_of(case.family, HEADS[name][0])
    quiet = dict.fromkeys(DROPOUTS[case.family], 0.0)
    return architecture.from_pretrained(folder, dtype=dtype, **quiet).eval()


def inputs_of(tokenizer, case, a, b=None):
    # Without the lists, transformers takes a pair whose second text is empty for a single text.
    inputs = tokenizer([a], None if b is None else [b], truncation=True, max_length=512, return_tensors="pt")
    if not case.has_types():
        inputs.pop("token_type_ids", None)
    return inputs


@torch.no_grad()
def results_of(model, inputs, name, tokenizer):
    """Returns the results of a head for each text, as a tensor of float64."""
    found = []
    for one in inputs:
        with exact_float64(model.dtype):
            output = model(**one)
        logits = torch.stack([output.start_logits, output.end_logits], -1)[0] if name == "answer" else output.logits[0]
        logits = logits.float() if logits.dtype == torch.bfloat16 else logits
        if name in ("multi", "rerank"):
            logits = logits.sigmoid()
        elif name == "fill":
            masked = one["input_ids"][0] == tokenizer.mask_token_id
            logits = logits[masked].softmax(-1)[:, : len(tokenizer)]  # heddle leaves out rows without a token
        found.append(logits.double().flatten())
    return torch.cat(found)


def heddle(program, command, folder, *flags, **given):
    run = subprocess.run([program, command, folder, *flags], input=json.dumps(given), capture_output=True, text=True, check=False)
    if run.returncode:
        sys.exit(run.stderr)
    return json.loads(run.stdout)


def own_results(program, name, folder, inputs, a, b, *flags):
    """Returns the results of heddle as results_of() does, and whether those of single texts are the same."""
    command = HEADS[name][1]
    if command == "logits":
        given = {"ids": [one["input_ids"][0].tolist() for one in inputs], "answers": name == "answer"}
        if "token_type_ids" in inputs[0]:
            given["types"] = [one["token_type_ids"][0].tolist() for one in inputs]
        rows = heddle(program, command, folder, *flags, **given)["results"]
        return torch.tensor([x for row in rows for x in row], dtype=torch.float64), True
    given = {"a": a, "alone": not flags} | ({"b": b} if b else {}) | ({"count": 1_000_000} if name == "fill" else {})
    found = heddle(program, command, folder, *flags, **given)
    rows = found["results"]
    if name == "fill":
        rows = [[p for _, _, p in sorted(tokens)] for tokens in rows]
    return torch.tensor(rows, dtype=torch.float64).flatten(), found.get("same_alone", True)


def remember(model):
    """Lets a model return its last output again for the same tokens."""
    compute, last = model.forward, [torch.empty(0), None]

    def forward(**inputs):
        if not torch.equal(last[0], inputs["input_ids"]):
            with exact_float64(model.dtype):
                last[:] = inputs["input_ids"], compute(**inputs)
        return last[1]

    model.forward = forward
    return model


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
    if not case.has_types():
        tokenizer.model_input_names = ["input_ids", "attention_mask"]
    exactly, plainly = (
        TokenClassificationPipeline(model=remember(load(folder, case, "tag", dtype)), tokenizer=tokenizer, device="cpu")
        for dtype in (torch.float64, torch.float32)
    )
    found = heddle(options.program, "tag", folder, a=texts, aggregations=AGGREGATIONS, alone=case not in [*BASE, *RELATIVES_BASE])
    wrong, unclear, compared = int(not found.get("same_alone", True)), 0, 0
    for i, text in enumerate(texts):
        for aggregation in AGGREGATIONS:
            exact = entities_of(exactly, text, aggregation)
            if same_entities(found["results"][aggregation][i], exact):
                compared += len(exact)
            elif not same_entities(entities_of(plainly, text, aggregation), exact):
                unclear += 1
            else:
                wrong += 1
    return wrong == 0, f"{compared} entities of {len(texts)} texts equal, {wrong} texts differ, {unclear} left out"


def compare_numbers(options, folder, case, name, texts, squares):
    """Compares numbers. Appends the mean squares of the errors of heddle and PyTorch in fp32 and bf16, [4], to `squares`."""
    tokenizer = BertTokenizerFast.from_pretrained(folder)
    a, b = list(texts), None
    if name in ("rerank", "answer"):
        b = a[1:] + a[:1]
    if name == "fill":
        a = ["the [MASK] " + text[:100] + " [MASK] ." for text in texts]
    inputs = [inputs_of(tokenizer, case, text, b[i] if b else None) for i, text in enumerate(a)]
    exact, plain, coarse = (
        results_of(load(folder, case, name, dtype), inputs, name, tokenizer)
        for dtype in (torch.float64, torch.float32, torch.bfloat16)
    )
    if name == "rerank":  # the oracle of the scores
        scores = CrossEncoder(folder, device="cpu", max_length=512)
        assert type(scores.activation_fn).__name__ == "Sigmoid"
    own, same_alone = own_results(options.program, name, folder, inputs, a, b)
    own_coarse, _ = own_results(options.program, name, folder, inputs, a, b, "--precision", "bf16")
    errors = [(found - exact) / exact.abs().max() for found in (own, plain, own_coarse, coarse)]
    squares.append([one.square().mean().item() for one in errors])
    worst = [one.abs().max().item() for one in errors]
    good = worst[0] <= 1e-5 and same_alone
    said = f"largest error {worst[0]:.1e} (PyTorch {worst[1]:.1e}), bf16 {worst[2]:.1e} ({worst[3]:.1e}), same alone: {same_alone}"
    return good, said


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--vocab", required=True)
    parser.add_argument("--texts", type=int, default=40)
    parser.add_argument("--entity-texts", type=int, default=500)
    parser.add_argument("--sizes", choices=CASES, default="all", help="sizes of the models")
    parser.add_argument("--only", choices=HEADS)
    parser.add_argument("--family", choices=CLASSES, help="only models of this model_type")
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(2)
    names = [options.only] if options.only else list(HEADS)
    texts, good, squares = read_texts(options.data, max(options.texts, options.entity_texts)), True, {name: [] for name in names}
    with tempfile.TemporaryDirectory() as temporary:
        for case in CASES[options.sizes]:
            if options.family not in (None, case.family):
                continue
            for name in names:
                if not hasattr(transformers, CLASSES[case.family] + HEADS[name][0]):
                    print(f"none: {case.name} {name}: transformers has no such model")
                    continue
                folder = os.path.join(temporary, f"{case.name}-{name}")
                make_folder(folder, case, name, options.vocab)
                begin = time.monotonic()
                results = [compare_numbers(options, folder, case, name, texts[: options.texts], squares[name])]
                if name == "tag":
                    results.append(compare_tags(options, folder, case, texts[: options.entity_texts]))
                for one, said in results:
                    print(f"{'ok' if one else 'FAILED'}: {case.name} {name}: {said}, {time.monotonic() - begin:.0f} s", flush=True)
                    good = good and one
    for name in (name for name in names if squares[name]):
        own, plain, own_coarse, coarse = torch.tensor(squares[name]).mean(0).sqrt().tolist()
        one = own_coarse <= BF16_ERRORS * coarse
        good = good and one
        print(f"{'ok' if one else 'FAILED'}: {name}: root mean square {own:.2e} (PyTorch {plain:.2e}), bf16 {own_coarse:.2e} ({coarse:.2e})")
    own, plain, *_ = torch.tensor([row for rows in squares.values() for row in rows]).mean(0).sqrt().tolist()
    print(f"root mean square over all: {own:.3e}, PyTorch's float32 {plain:.3e}")
    sys.exit(0 if good and own <= plain else 1)


if __name__ == "__main__":
    main()
