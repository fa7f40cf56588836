#!/usr/bin/env python3
"""Compares the ag_news program with the same model in PyTorch, on the same work in one run:

    bench/peers/ag_news_compare.py --binary build/release/examples/ag_news --data DIR --vocab FILE [--stop-words FILE]
                                   [--lemmas FILE] [--only losses|predict|speed|accuracy]

 losses    the first 100 steps (file order, weights from a file) against float64: within 5e-6. Once at the defaults, once
           with plain text and trained embeddings at width 64 and 2 heads
 predict   probabilities with the saved weights of both runs against float64: within 1e-6
 speed     median training step at the defaults, both with 2 threads, in turns: at least 3 times as fast as PyTorch, which
           computes padding
 accuracy  on the validation rows after --epochs, with random embeddings, frozen and trained; without a bound

Each program repairs and cleans the text itself. Exit code 1 when a bound is missed. Needs torch, tokenizers and
safetensors.
"""

import os
from dataclasses import dataclass

import torch
from ag_news_model import Classifier, Config
from ag_news_text import Preparation, read_csv
from ag_news_train import EVALUATION_BATCH, TRAIN_ROWS, VALID_ROWS, encode, make_tokenizer, training_file
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
from training import load_weights, report_final, save_weights, train

CHECKS = ["losses", "predict", "speed", "accuracy"]
STEPS, BATCH, LR, PREDICTED, FEW_VALID = 100, 32, 5e-5, 400, 64
LOSS_BOUND, PROBABILITY_BOUND, SPEED_BOUND = 5e-6, 1e-6, 3.0


@dataclass
class Variant:
    """A system that both programs train."""

    name: str
    plain: bool = False
    trained: bool = False
    d_model: int = 768
    heads: int = 1

    def flags(self):
        return [
            *(["--plain-text"] if self.plain else []),
            *(["--train-embeddings"] if self.trained else []),
            *(["--d-model", self.d_model, "--heads", self.heads] if (self.d_model, self.heads) != (768, 1) else []),
        ]


DEFAULTS = Variant("defaults")
VARIANTS = [DEFAULTS, Variant("plain-trained", plain=True, trained=True, d_model=64, heads=2)]


class Bench:
    def __init__(self, options, folder):
        self.options = options
        tables = [("--stop-words", options.stop_words), ("--lemmas", options.lemmas)]
        self.tables = [word for flag, path in tables if path for word in (flag, path)]
        self.program = Program(options.binary, folder, "--vocab", options.vocab)
        self.tokenizer = make_tokenizer(options.vocab)

    def train_heddle(self, variant, *flags):
        return self.program.train("--data", self.options.data, *self.cleaning(variant), *variant.flags(), *flags)

    def cleaning(self, variant):
        """Returns the flags of the tables that clean the text."""
        return [] if variant.plain else self.tables

    def rows(self, variant, path, limit):
        preparation = Preparation(variant.plain, self.options.stop_words, self.options.lemmas)
        return encode(*read_csv(path, limit), preparation, self.tokenizer)

    def train_rows(self, variant, limit=TRAIN_ROWS):
        return self.rows(variant, training_file(self.options.data), limit)

    def test_file(self):
        return os.path.join(self.options.data, "test.csv")

    def out(self, variant):
        return self.program.path("out-" + variant.name)

    def model(self, variant, seed=1):
        torch.manual_seed(seed)
        return Classifier(
            Config(
                vocab_size=self.tokenizer.vocab_size,
                d_model=variant.d_model,
                heads=variant.heads,
                train_embeddings=variant.trained,
            )
        )

    def pytorch_model(self, variant, weights):
        """Returns the float64 reference: the model with these weights."""
        model = self.model(variant).double()
        load_weights(model, weights)
        return model

    def losses(self):
        count = STEPS * BATCH
        for variant in VARIANTS:
            weights, theirs = self.program.path(f"weights-{variant.name}.safetensors"), []
            save_weights(self.model(variant), weights)
            ours = self.train_heddle(variant, "--init", weights, "--order", "sequential", "--steps", STEPS,
                                     "--train-rows", count, "--valid-rows", FEW_VALID, "--out", self.out(variant))  # fmt: skip
            train(self.pytorch_model(variant, weights), self.train_rows(variant, count), lr=LR, batch_size=BATCH, steps=STEPS,
                  drop_last=True, report=theirs.append)  # fmt: skip
            yield compare_losses(f"losses, {variant.name}", ours, theirs, LOSS_BOUND)

    def predict(self):
        if not os.path.exists(self.out(VARIANTS[-1])):
            list(self.losses())
        texts, _ = read_csv(self.test_file(), PREDICTED)
        for variant in VARIANTS:
            ours = self.program.predict(texts, "--out", self.out(variant), *self.cleaning(variant))
            model = self.pytorch_model(variant, os.path.join(self.out(variant), "model.safetensors"))
            theirs = probabilities(model, self.rows(variant, self.test_file(), PREDICTED))
            yield compare_probabilities(f"predict, {variant.name}", ours, theirs, PROBABILITY_BOUND)

    def speed(self):
        steps, turns = self.options.steps, []
        rows = self.train_rows(DEFAULTS, steps * BATCH)
        for turn in range(2):
            theirs = []
            ours = self.train_heddle(DEFAULTS, "--steps", steps, "--seed", turn + 1, "--train-rows", steps * BATCH,
                                     "--valid-rows", FEW_VALID)  # fmt: skip
            train(self.model(DEFAULTS), rows, lr=LR, batch_size=BATCH, steps=steps, shuffle_seed=turn, drop_last=True,
                  report=theirs.append)  # fmt: skip
            turns.append((ours, theirs))
        yield compare_speed(turns, SPEED_BOUND)

    def accuracy(self):
        for variant in [Variant("frozen"), Variant("trained", trained=True)]:
            train_rows, valid_rows = self.train_rows(variant), self.rows(variant, self.test_file(), VALID_ROWS)
            for seed in range(1, self.options.seeds + 1):
                theirs = []
                ours = self.train_heddle(variant, "--epochs", self.options.epochs, "--seed", seed)
                model = self.model(variant, seed)
                train(model, train_rows, lr=LR, batch_size=BATCH, epochs=self.options.epochs, shuffle_seed=seed,
                      drop_last=True, report=theirs.append)  # fmt: skip
                report_final(model, {"valid": valid_rows}, theirs.append, EVALUATION_BATCH)
                a, b = (finals_of(entries)["valid"]["accuracy"] for entries in (ours, theirs))
                rows = f"{len(train_rows.texts)} rows, epochs {self.options.epochs}"
                yield f"accuracy, random {variant.name} embeddings, {rows}, seed {seed}: {a:.2%}, PyTorch {b:.2%}", True


def main():
    parser = make_parser(__doc__, CHECKS, steps=60)
    parser.add_argument("--stop-words", help="file with one word per line")
    parser.add_argument("--lemmas", help="file with lines of word<TAB>lemma")
    parser.add_argument("--epochs", type=int, default=1, help="epochs of the check `accuracy`")
    parser.add_argument("--seeds", type=int, default=1, help="run the check `accuracy` with the seeds 1 to N")
    check(Bench, parser.parse_args(), CHECKS)


if __name__ == "__main__":
    main()
