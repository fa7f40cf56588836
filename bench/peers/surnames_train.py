#!/usr/bin/env python3
"""Trains the model of the surnames program in PyTorch, on the split that the program wrote. With --dtype float64
--dropout 0 --order sequential --init FILE it computes the reference for the program's losses. With the defaults it trains
the model that surnames_compare.py times.

    bench/peers/surnames_train.py --split RUN/split.tsv --labels RUN/labels.txt [--layer own|library] ...

Prints JSON lines in the format of the program's --metrics. Needs torch and safetensors.
"""

import argparse

import torch
from surnames_model import Classifier, Config, encode
from training import (
    Rows,
    add_training_flags,
    begin,
    prepare,
    print_json,
    report_final,
    save_weights,
    train,
    training_arguments,
)


def read_labels(path):
    with open(path, encoding="utf-8", newline="\n") as file:
        return file.read().splitlines()


def read_split(path, labels):
    """Returns names and rows of each part of a split.tsv: lines `train|valid|test<TAB>language<TAB>name`."""
    names = {"train": [], "valid": [], "test": []}
    classes = {part: [] for part in names}
    index = {label: i for i, label in enumerate(labels)}
    with open(path, encoding="utf-8", newline="\n") as file:
        for line in file:
            part, language, name = line.rstrip("\n").split("\t")
            names[part].append(name)
            classes[part].append(index[language])
    rows = {part: Rows([encode(name) for name in names[part]], torch.tensor(classes[part]), own_tokens=1) for part in names}
    return names, {part: r for part, r in rows.items() if r.texts}


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--split", required=True, help="split.tsv of the program's --out")
    parser.add_argument("--labels", required=True, help="labels.txt of the program's --out")
    add_training_flags(parser, epochs=10, batch_size=16, lr=1e-3)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--layer", choices=["own", "library"], default="own")
    return parser.parse_args()


def main():
    flags = arguments()
    begin(flags)
    labels = read_labels(flags.labels)
    _, splits = read_split(flags.split, labels)
    config = Config(classes=len(labels), dropout=flags.dropout, layer=flags.layer)
    model = prepare(Classifier(config), flags)
    train(model, splits["train"], valid=splits.get("valid"), **training_arguments(flags))
    report_final(model, splits, print_json)
    if flags.save:
        save_weights(model, flags.save)


if __name__ == "__main__":
    main()
