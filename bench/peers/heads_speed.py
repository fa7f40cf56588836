#!/usr/bin/env python3
"""Compares the speed of heads and losses with transformers and sentence-transformers, on texts of SST-2:

    bench/peers/heads_speed.py --programs build/release/bench --data DIR --vocab FILE [--only CASE] [--turns N]

The models have random weights and the size of all-MiniLM-L6-v2. A training step is one of AdamW on 32 texts, whose tokens are given;
dropout is on. PyTorch gets them padded. Prediction begins with texts: transformers' classifier gets batches of 32 in the order of the
file; sentence-transformers orders texts by length itself. heddle and PyTorch take turns, each with 2 threads. Prints the median of the
turns' ratios. Exit code 1 if a ratio of training is below 2.5. Needs torch, transformers and sentence-transformers 6.
"""

import argparse
import json
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time

import torch
import transformers
from bert_folders import Case
from comparison import THREADS, print_build
from sentence_transformers import CrossEncoder, SentenceTransformer
from sentence_transformers.sentence_transformer import losses, modules
from training_compare import IGNORED, RANKING, Training, labels_of_tokens, load_model, make_model, padded

MINILM = Case("minilm", width=384, layers=6, ff_width=1536)
BATCH, WARM, STEPS, RATE, BOUND = 32, 2, 12, 5e-5, 2.5
TRAININGS = [
    Training("train a classifier", "texts", "classes", MINILM),
    Training("train a token classifier", "tokens", "labels", MINILM, outputs=7),
    Training("train by in_batch", "vectors", "ranking", MINILM, columns=2, settings=RANKING),
]
PREDICTIONS = {  # the command of heads_program, and the labels of the model
    "predict classes": ("classify", 2),
    "predict scores of pairs": ("rerank", 1),
    "predict vectors": ("embed", 2),
}


def read_texts(path):
    with open(path, encoding="utf-8") as file:
        return [line.split("\t")[0].strip() for line in file][1:]


def draw_steps(training, tokenizer, texts):
    """Returns the batches that training_program reads."""
    choose, steps = random.Random(1), []
    for _ in range(WARM + STEPS):
        columns = [tokenizer(choose.sample(texts, BATCH)) for _ in range(training.columns)]
        step = {"texts": [column["input_ids"] for column in columns]}
        if training.loss == "classes":
            step["labels"] = [choose.randrange(training.outputs) for _ in range(BATCH)]
        elif training.loss == "labels":
            words = [columns[0].word_ids(i) for i in range(BATCH)]
            step["labels"] = [
                IGNORED if word is None or word == before else choose.randrange(training.outputs)
                for of_text in words
                for before, word in zip([None, *of_text], of_text)
            ]
        steps.append(step)
    return steps


def train(training, folder, steps):
    """Returns the seconds of PyTorch's steps."""
    if training.model == "vectors":
        parts = [modules.Transformer(folder), modules.Pooling(MINILM.width, "mean")]
        model = SentenceTransformer(modules=parts, device="cpu").train()
        ranking = losses.MultipleNegativesRankingLoss(model, scale=1 / training.settings["temperature"])
    else:
        model = load_model(training, folder, torch.float32)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    seconds = []
    for step in steps:
        columns = [
            {"input_ids": padded(texts), "attention_mask": padded([[1] * len(one) for one in texts])} for texts in step["texts"]
        ]
        labels = labels_of_tokens(step) if training.loss == "labels" else torch.tensor(step.get("labels", []))
        begin = time.perf_counter()
        loss = ranking(columns, None) if training.model == "vectors" else model(**columns[0], labels=labels).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        seconds.append(time.perf_counter() - begin)
    return sum(seconds[WARM:]) / STEPS


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.tokenizer = transformers.BertTokenizerFast(vocab=options.vocab, do_lower_case=True, model_max_length=512)
        self.missed = False

    def program(self, name, *words, text=None):
        command = [os.path.join(self.options.programs, name), *words, "--threads", str(THREADS)]
        done = subprocess.run(command, input=text, stdout=subprocess.PIPE, encoding="utf-8")
        if done.returncode:  # its standard error went to ours
            sys.exit(f"exit code {done.returncode}: {' '.join(command)}")
        return json.loads(done.stdout)

    def compare(self, what, count, unit, ours, theirs, bound):
        """Prints how many units each side does in a second, if a call of ours() and theirs() returns the seconds of `count`."""
        times = [(ours(), theirs()) for _ in range(self.options.turns)]
        ratios = sorted(b / a for a, b in times)
        ratio = statistics.median(ratios)
        own, peer = (count / statistics.median(side) for side in zip(*times))
        held = ratio >= bound
        self.missed |= not held
        print(f"{what:26} {ratio:.2f} times ({ratios[0]:.2f} to {ratios[-1]:.2f}): {own:.4g} {unit} a second, PyTorch {peer:.4g}"
              + ("" if held else f" MISSED {bound}"), flush=True)  # fmt: skip

    def train(self, training):
        folder = os.path.join(self.folder, training.loss)
        os.makedirs(folder)
        make_model(training, folder, 1)
        self.tokenizer.save_pretrained(folder)
        steps = draw_steps(training, self.tokenizer, read_texts(os.path.join(self.options.data, "sst2", "train.tsv")))
        job = os.path.join(folder, "job.json")
        with open(job, "w", encoding="utf-8") as file:
            given = {"model": training.model, "loss": training.loss, "lr": RATE, "weight_decay": 0.01}
            json.dump({**given, **training.settings, "steps": steps}, file)

        def ours():
            seconds = self.program("training_program", job, folder, os.path.join(folder, "trained"))["seconds"]
            return sum(seconds[WARM:]) / STEPS

        self.compare(training.name, 1, "steps", ours, lambda: train(training, folder, steps), BOUND)

    def predict(self, what):
        command, outputs = PREDICTIONS[what]
        folder = os.path.join(self.folder, command)
        made = Training(what, "vectors" if command == "embed" else "texts", "classes", MINILM, outputs)
        os.makedirs(folder)
        make_model(made, folder, 1)
        self.tokenizer.save_pretrained(folder)
        a = read_texts(os.path.join(self.options.data, "sst2", "dev.tsv"))
        b = a[1:] + a[:1]
        if command == "embed":
            parts = [modules.Transformer(folder), modules.Pooling(MINILM.width, "mean"), modules.Normalize()]
            model = SentenceTransformer(modules=parts, device="cpu")
            run = lambda: model.encode(a, batch_size=BATCH)  # noqa: E731
        elif command == "rerank":
            model = CrossEncoder(folder, device="cpu", max_length=512)
            run = lambda: model.predict(list(zip(a, b)), batch_size=BATCH)  # noqa: E731
        else:
            model = load_model(made, folder, torch.float32).eval()

            def run():
                with torch.inference_mode():
                    for first in range(0, len(a), BATCH):
                        model(**self.tokenizer(a[first : first + BATCH], padding=True, return_tensors="pt")).logits.softmax(-1)

        def theirs():
            begin = time.perf_counter()
            run()
            return time.perf_counter() - begin

        run()
        given = json.dumps({"time": True, "a": a, "b": b})
        self.compare(what, len(a), "texts", lambda: self.program("heads_program", command, folder, text=given)["seconds"], theirs, 0)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    trainings = {training.name: training for training in TRAININGS}
    parser.add_argument("--programs", required=True, help="folder of training_program and heads_program")
    parser.add_argument("--data", required=True, help="folder with sst2/")
    parser.add_argument("--vocab", required=True, help="uncased BERT vocabulary")
    parser.add_argument("--only", choices=[*trainings, *PREDICTIONS])
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    transformers.utils.logging.set_verbosity_error()
    torch.set_num_threads(THREADS)
    print_build(os.path.join(options.programs, "heads_program"))
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        for name in [options.only] if options.only else [*trainings, *PREDICTIONS]:
            if name in trainings:
                bench.train(trainings[name])
            else:
                bench.predict(name)
    sys.exit(bench.missed)


if __name__ == "__main__":
    main()
