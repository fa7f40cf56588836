#!/usr/bin/env python3
"""Compares the surnames program with the same model in PyTorch, on the same work in one run:

    bench/peers/surnames_compare.py --binary build/release/examples/surnames --data DIR
                                    [--only losses|predict|speed|accuracy]

 losses    the first 100 steps with --layer own and with library (dropout 0, file order, weights from a file) against
           float64: within 5e-6
 predict   probabilities of both layers with the weights that heddle saved, against float64: within 1e-6
 speed     median training step at the defaults, heddle and PyTorch in turns, each with 2 threads: at least 8 times as fast as
           PyTorch, which computes padding
 accuracy  on validation and test names together after 10 epochs, mean of 3 seeds: at most 1.5 points below PyTorch's

Both train on the split that the program writes. Exit code 1 when a bound is missed. Needs torch and safetensors.
"""

import os
import statistics

import torch
from comparison import (
    Program,
    check,
    compare_losses,
    compare_probabilities,
    compare_speed,
    finals_of,
    make_parser,
    probabilities,
)
from surnames_model import Classifier, Config
from surnames_train import read_labels, read_split
from training import Rows, load_weights, report_final, save_weights, train

CHECKS = ["losses", "predict", "speed", "accuracy"]
LAYERS = ["own", "library"]
STEPS, BATCH, PREDICTED = 100, 16, 400
LOSS_BOUND, PROBABILITY_BOUND, SPEED_BOUND, ACCURACY_BOUND = 5e-6, 1e-6, 8.0, 0.015


def accuracy(entries, splits):
    """Returns the accuracy on validation and test names together."""
    finals, parts = finals_of(entries), ["valid", "test"]
    count = {part: len(splits[part].texts) for part in parts}
    return sum(finals[part]["accuracy"] * count[part] for part in parts) / sum(count.values())


class Bench:
    def __init__(self, options, folder):
        self.options = options
        self.program = Program(options.binary, folder)

    def train_heddle(self, *flags):
        return self.program.train("--data", self.options.data, *flags)

    def split(self, out):
        """Returns names and rows of each part of the split that the program wrote."""
        return read_split(os.path.join(out, "split.tsv"), read_labels(os.path.join(out, "labels.txt")))

    def out(self, layer):
        return self.program.path("out-" + layer)

    def pytorch_model(self, weights, layer="own"):
        """Returns the float64 reference: the model with these weights."""
        model = Classifier(Config(dropout=0.0, layer=layer)).double()
        load_weights(model, weights)
        return model

    def losses(self):
        for layer in LAYERS:
            weights, theirs = self.program.path(f"weights-{layer}.safetensors"), []
            torch.manual_seed(1)
            save_weights(Classifier(Config(layer=layer)), weights)
            ours = self.train_heddle("--layer", layer, "--init", weights, "--order", "sequential", "--dropout", 0,
                                     "--steps", STEPS, "--out", self.out(layer))  # fmt: skip
            _, splits = self.split(self.out(layer))
            train(self.pytorch_model(weights, layer), splits["train"], batch_size=BATCH, steps=STEPS, report=theirs.append)
            yield compare_losses(f"losses, layer {layer}", ours, theirs, LOSS_BOUND)

    def predict(self):
        if not os.path.exists(self.out(LAYERS[-1])):
            list(self.losses())
        for layer in LAYERS:
            names, splits = self.split(self.out(layer))
            rows = Rows(splits["test"].texts[:PREDICTED], splits["test"].labels[:PREDICTED])
            ours = self.program.predict(names["test"][:PREDICTED], "--out", self.out(layer))
            model = self.pytorch_model(os.path.join(self.out(layer), "model.safetensors"), layer)
            yield compare_probabilities(f"predict, layer {layer}", ours, probabilities(model, rows), PROBABILITY_BOUND)

    def speed(self):
        steps, turns = self.options.steps, []
        for turn in range(2):
            out, theirs = self.program.path(f"out-speed{turn}"), []
            ours = self.train_heddle("--steps", steps, "--seed", turn + 1, "--out", out)
            _, splits = self.split(out)
            torch.manual_seed(turn + 1)
            train(Classifier(Config()), splits["train"], batch_size=BATCH, steps=steps, shuffle_seed=turn,
                  report=theirs.append)  # fmt: skip
            turns.append((ours, theirs))
        yield compare_speed(turns, SPEED_BOUND)

    def accuracy(self):
        pairs = []
        for seed in range(1, self.options.seeds + 1):
            out, theirs = self.program.path(f"out-seed{seed}"), []
            ours = self.train_heddle("--epochs", self.options.epochs, "--seed", seed, "--out", out)
            _, splits = self.split(out)
            torch.manual_seed(seed)
            model = Classifier(Config())
            train(model, splits["train"], batch_size=BATCH, epochs=self.options.epochs, shuffle_seed=seed,
                  report=theirs.append)  # fmt: skip
            report_final(model, splits, theirs.append)
            pairs.append((accuracy(ours, splits), accuracy(theirs, splits)))
            yield f"accuracy, seed {seed}: {pairs[-1][0]:.2%}, PyTorch {pairs[-1][1]:.2%}", True
        a, b = (statistics.mean(side) for side in zip(*pairs))
        text = f"accuracy, mean of {len(pairs)}: {a:.2%}, PyTorch {b:.2%}: {100 * (a - b):+.2f} points"
        yield f"{text} (bound {-100 * ACCURACY_BOUND:+.1f})", a >= b - ACCURACY_BOUND


def main():
    parser = make_parser(__doc__, CHECKS, steps=1000, vocab=False)
    parser.add_argument("--epochs", type=int, default=10, help="epochs of the check `accuracy`")
    parser.add_argument("--seeds", type=int, default=3, help="run the check `accuracy` with the seeds 1 to N")
    check(Bench, parser.parse_args(), CHECKS)


if __name__ == "__main__":
    main()
