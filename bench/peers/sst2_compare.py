#!/usr/bin/env python3
"""Compares the sst2 program with the same model in PyTorch, on the same work in one run:

    bench/peers/sst2_compare.py --binary build/release/examples/sst2 --data DIR --vocab FILE [--only losses|predict|speed]

 losses   the first 120 steps (dropout 0, file order, weights from a file) against float64: within 2e-6
 predict  probabilities with the saved weights against float64: within 1e-6
 speed    median training step at the defaults, both with 2 threads, in turns: at least 3 times as fast as PyTorch, which
          computes padding

Exit code 1 when a bound is missed. Needs torch, tokenizers and safetensors.
"""

import os

import torch
from comparison import Program, check, compare_losses, compare_probabilities, compare_speed, make_parser, probabilities
from sst2_model import Classifier, Config
from sst2_train import read_rows
from tokens import Tokenizer
from training import load_weights, save_weights, train

CHECKS = ["losses", "predict", "speed"]
STEPS, BATCH = 120, 32
LOSS_BOUND, PROBABILITY_BOUND, SPEED_BOUND = 2e-6, 1e-6, 3.0


class Bench:
    def __init__(self, options, folder):
        self.options = options
        self.program = Program(options.binary, folder, "--vocab", options.vocab)
        self.tokenizer = Tokenizer(options.vocab)
        self.weights, self.out = self.program.path("weights.safetensors"), self.program.path("out")
        torch.manual_seed(1)
        save_weights(Classifier(Config(vocab_size=self.tokenizer.vocab_size)), self.weights)

    def pytorch_model(self, weights, dtype, dropout=0.0):
        model = Classifier(Config(vocab_size=self.tokenizer.vocab_size, dropout=dropout)).to(dtype)
        load_weights(model, weights)
        return model

    def rows(self, name, limit):
        return read_rows(os.path.join(self.options.data, name), self.tokenizer, limit)

    def train_heddle(self, *flags):
        return self.program.train("--data", self.options.data, "--valid-rows", 64, *flags)

    def losses(self):
        count = STEPS * BATCH
        ours = self.train_heddle("--init", self.weights, "--order", "sequential", "--dropout", 0, "--steps", STEPS,
                                 "--train-rows", count, "--out", self.out)  # fmt: skip
        theirs = []
        train(self.pytorch_model(self.weights, torch.float64), self.rows("train.tsv", count), steps=STEPS, report=theirs.append)
        yield compare_losses("losses", ours, theirs, LOSS_BOUND)

    def predict(self):
        if not os.path.exists(self.out):
            list(self.losses())
        with open(os.path.join(self.options.data, "dev.tsv"), encoding="utf-8") as file:
            texts = [line.split("\t")[0] for line in list(file)[1:401]]
        ours = self.program.predict(texts, "--out", self.out)
        model = self.pytorch_model(os.path.join(self.out, "model.safetensors"), torch.float64)
        yield compare_probabilities("predict", ours, probabilities(model, self.rows("dev.tsv", 400)), PROBABILITY_BOUND)

    def speed(self):
        steps, turns, rows = self.options.steps, [], self.rows("train.tsv", None)
        for turn in range(2):
            ours, theirs = self.train_heddle("--steps", steps, "--seed", turn + 1), []
            model = self.pytorch_model(self.weights, torch.float32, 0.1)
            train(model, rows, steps=steps, shuffle_seed=turn, report=theirs.append)
            turns.append((ours, theirs))
        yield compare_speed(turns, SPEED_BOUND)


def main():
    check(Bench, make_parser(__doc__, CHECKS, steps=300).parse_args(), CHECKS)


if __name__ == "__main__":
    main()
