#!/usr/bin/env python3
"""Trains the model of the sst2 program in PyTorch. With --dtype float64 --dropout 0 --order sequential --init FILE
it computes the reference for the program's losses. With the defaults it trains the model that bench/compare times.

    bench/peers/sst2_train.py --data DIR --vocab FILE [--steps N] [--init F] [--save F] ...

Prints JSON lines in the format of the program's --metrics. Needs torch, tokenizers and safetensors.
"""

import argparse
import os

import torch
from sst2_model import Classifier, Config
from tokens import Tokenizer
from training import Rows, add_training_flags, begin, prepare, save_weights, train, training_arguments


def read_rows(path, tokenizer, limit=None):
    """Returns the rows of a GLUE TSV file: one header line, no quoting."""
    with open(path, encoding="utf-8", newline="\n") as file:
        sentences, labels = zip(*(line.rstrip("\n").split("\t") for line in list(file)[1:][:limit]))
    return Rows(tokenizer(list(sentences)), torch.tensor([int(label) for label in labels]))


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder with train.tsv and dev.tsv")
    parser.add_argument("--vocab", required=True, help="WordPiece vocabulary")
    add_training_flags(parser, epochs=4, batch_size=32, lr=1e-3)
    parser.add_argument("--uncased", action="store_true")
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--train-rows", type=int, help="train on the first N rows of train.tsv")
    parser.add_argument("--valid-rows", type=int, help="validate on the first N rows of dev.tsv")
    parser.add_argument("--attention", choices=["eager", "sdpa"], default="eager")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--d-model", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=16)
    parser.add_argument("--ff-width", type=int, help="default 4 x d-model")
    parser.add_argument("--max-length", type=int, default=512)
    return parser.parse_args()


def main():
    flags = arguments()
    begin(flags)
    tokenizer = Tokenizer(flags.vocab, flags.uncased, flags.max_length)
    train_rows = read_rows(os.path.join(flags.data, "train.tsv"), tokenizer, flags.train_rows)
    valid_rows = read_rows(os.path.join(flags.data, "dev.tsv"), tokenizer, flags.valid_rows)
    config = Config(
        vocab_size=tokenizer.vocab_size,
        max_length=flags.max_length,
        d_model=flags.d_model,
        heads=flags.heads,
        head_dim=flags.head_dim,
        layers=flags.layers,
        ff_width=flags.ff_width or 4 * flags.d_model,
        dropout=flags.dropout,
        attention=flags.attention,
    )
    model = prepare(Classifier(config), flags)
    train(model, train_rows, valid=valid_rows, **training_arguments(flags))
    if flags.save:
        save_weights(model, flags.save)


if __name__ == "__main__":
    main()
