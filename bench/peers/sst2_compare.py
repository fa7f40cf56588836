#!/usr/bin/env python3
"""Holds the sst2 program against its PyTorch twin, on the same work in one run:

    bench/peers/sst2_compare.py --binary build/release/examples/sst2 --data DIR --vocab FILE [--only losses|predict|speed]

 losses   the first 120 steps (dropout 0, file order, weights from a file) against float64: within 2e-6
 predict  probabilities with the saved weights against float64: within 1e-6
 speed    median training step at the defaults, both with 2 threads, in turns; PyTorch computes padding, heddle has none

Exit code 1 when a bound is missed. Needs torch, tokenizers and safetensors.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

import torch
from safetensors.torch import save_file
from sst2_model import Classifier, Config
from sst2_train import Rows, Tokenizer, collate, load_weights, train

STEPS, BATCH, THREADS = 120, 32, 2
LOSS_BOUND, PROBABILITY_BOUND, SPEED_BOUND = 2e-6, 1e-6, 3.0


def steps_of(path):
    with open(path) as file:
        return [entry for entry in map(json.loads, file) if "step" in entry]


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.tokenizer = Tokenizer(options.vocab)
        self.weights = os.path.join(folder, "weights.safetensors")
        torch.manual_seed(1)
        save_file(Classifier(Config(vocab_size=self.tokenizer.vocab_size)).state_dict(), self.weights)

    def path(self, name):
        return os.path.join(self.folder, name)

    def twin(self, weights, dtype, dropout=0.0):
        model = Classifier(Config(vocab_size=self.tokenizer.vocab_size, dropout=dropout)).to(dtype)
        load_weights(model, weights)
        return model

    def rows(self, name, limit):
        return Rows(os.path.join(self.options.data, name), self.tokenizer, limit)

    def heddle(self, *flags, **run):
        command = [self.options.binary, "--vocab", self.options.vocab, "--threads", str(THREADS), "--progress", "none"]
        return subprocess.run([*command, *map(str, flags)], check=True, stdout=subprocess.PIPE, **run).stdout

    def train_heddle(self, metrics, *flags):
        self.heddle("--data", self.options.data, "--valid-rows", 64, "--metrics", self.path(metrics), *flags)
        return steps_of(self.path(metrics))

    def losses(self):
        count = STEPS * BATCH
        ours = self.train_heddle("losses", "--init", self.weights, "--order", "sequential", "--dropout", 0, "--steps", STEPS,
                                 "--train-rows", count, "--out", self.path("out"))
        theirs = []
        train(self.twin(self.weights, torch.float64), self.rows("train.tsv", count), steps=STEPS, report=theirs.append)
        worst = max(abs(a["loss"] - b["loss"]) for a, b in zip(ours, theirs, strict=True))
        return f"losses: greatest difference of {STEPS} steps {worst:.2e} (bound {LOSS_BOUND:.0e})", worst <= LOSS_BOUND

    def predict(self):
        if not os.path.exists(self.path("out")):
            self.losses()
        sentences = self.rows("dev.tsv", 400)
        with open(os.path.join(self.options.data, "dev.tsv"), encoding="utf-8") as file:
            texts = "".join(line.split("\t")[0] + "\n" for line in list(file)[1:401])
        out = self.heddle("--out", self.path("out"), "--predict", "-", input=texts.encode())
        ours = torch.tensor([[float(p) for p in line.split("\t")[1:]] for line in out.decode().splitlines()], dtype=torch.float64)
        model = self.twin(self.path("out/model.safetensors"), torch.float64).eval()
        with torch.inference_mode():
            theirs = torch.cat([model(*collate([ids])).softmax(-1) for ids in sentences.texts])
        worst = (ours - theirs).abs().max().item()
        text = f"predict: greatest difference of {len(ours)} probabilities {worst:.2e} (bound {PROBABILITY_BOUND:.0e})"
        return text, len(ours) == len(theirs) and worst <= PROBABILITY_BOUND

    def speed(self):
        steps, ours, theirs = self.options.steps, [], []
        rows = self.rows("train.tsv", None)
        for turn in range(2):
            ours += self.train_heddle(f"speed{turn}", "--steps", steps, "--seed", turn + 1)[steps // 10 :]
            reports = []
            train(self.twin(self.weights, torch.float32, 0.1), rows, steps=steps, shuffle_seed=turn, report=reports.append)
            theirs += [report for report in reports if "step" in report][steps // 10 :]
        a, b = (1e3 * statistics.median(r["seconds"] for r in part) for part in (ours, theirs))
        text = f"speed: median step {a:.2f} ms, PyTorch {torch.__version__} eager {b:.2f} ms: {b / a:.2f}x (bound {SPEED_BOUND}x)"
        return text, b / a >= SPEED_BOUND


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True)
    parser.add_argument("--data", required=True, help="folder of SST-2's train.tsv and dev.tsv")
    parser.add_argument("--vocab", required=True, help="cased BERT vocabulary")
    parser.add_argument("--only", choices=["losses", "predict", "speed"])
    parser.add_argument("--steps", type=int, default=300, help="of each of the two turns of `speed`")
    options = parser.parse_args()
    torch.set_num_threads(THREADS)
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(options, folder)
        for name in [options.only] if options.only else ["losses", "predict", "speed"]:
            text, held = getattr(bench, name)()
            print(text if held else text + " MISSED", flush=True)
            missed += not held
    sys.exit(missed > 0)


if __name__ == "__main__":
    main()
