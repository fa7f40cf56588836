#!/usr/bin/env python3
"""Trains the PyTorch twin of the sst2 program: the oracle (--dtype float64 --dropout 0 --order sequential --init FILE)
and the peer (the defaults).

    bench/peers/sst2_train.py --data DIR --vocab FILE [--steps N] [--init F] [--save F] ...

Prints the JSON lines of the program's --metrics. Needs torch, tokenizers and safetensors.
"""

import argparse
import json
import os
import time

import torch
import torch.nn.functional as F
from safetensors.torch import load_file, save_file
from sst2_model import Classifier, Config
from tokenizers import BertWordPieceTokenizer


def read_rows(path, limit=None):
    """Sentences and labels of a GLUE TSV file: one header line, no quoting."""
    with open(path, encoding="utf-8", newline="\n") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:][:limit]
    return [sentence for sentence, _ in rows], [int(label) for _, label in rows]


class Tokenizer:
    def __init__(self, vocab, uncased=False, max_length=512):
        self.rust = BertWordPieceTokenizer(vocab, lowercase=uncased)
        self.rust.enable_truncation(max_length)
        self.vocab_size = self.rust.get_vocab_size()

    def __call__(self, sentences):
        return [encoding.ids for encoding in self.rust.encode_batch(sentences)]


def collate(texts):
    """Ids [B, T], padded with 0 to the longest text of the batch, and which of them are real [B, T]."""
    lengths = torch.tensor([len(ids) for ids in texts])
    longest = int(lengths.max())
    ids = torch.tensor([ids + [0] * (longest - len(ids)) for ids in texts])
    return ids, torch.arange(longest) < lengths[:, None]


class Rows:
    """A tokenized split; batches are lists of row numbers."""

    def __init__(self, path, tokenizer, limit=None):
        sentences, labels = read_rows(path, limit)
        self.texts, self.labels = tokenizer(sentences), torch.tensor(labels)

    def batch(self, rows):
        return *collate([self.texts[r] for r in rows]), self.labels[rows]

    def batches(self, size, generator=None):
        """The rows in file order, or shuffled when there is a generator; the last batch may be smaller."""
        order = (
            torch.arange(len(self.texts)) if generator is None else torch.randperm(len(self.texts), generator=generator)
        )
        return [part.tolist() for part in order.split(size)]


def load_weights(model, path):
    weights = load_file(path)
    model.load_state_dict({name: tensor.to(next(model.parameters()).dtype) for name, tensor in weights.items()})


@torch.inference_mode()
def evaluate(model, rows, batch_size=256):
    model.eval()
    loss, true_positive, predicted, correct = 0.0, 0, 0, 0
    for batch in rows.batches(batch_size):
        ids, real, labels = rows.batch(batch)
        logits = model(ids, real)
        choice = logits.argmax(-1)
        loss += F.cross_entropy(logits, labels, reduction="sum").item()
        correct += int((choice == labels).sum())
        predicted += int(choice.sum())
        true_positive += int((choice & labels).sum())
    model.train()
    count, positive = len(rows.texts), int(rows.labels.sum())
    ratio = lambda a, b: a / b if b else 0.0
    return {
        "loss": loss / count,
        "accuracy": correct / count,
        "precision": ratio(true_positive, predicted),
        "recall": ratio(true_positive, positive),
    }


def train(model, rows, *, lr=1e-3, batch_size=32, epochs=4, steps=None, shuffle_seed=None, valid=None, report=print):
    """Adam on cross-entropy; `report` gets the figures of steps and epochs. A seed shuffles, none keeps file order."""
    optimizer = torch.optim.Adam(model.parameters(), lr=lr)
    generator = None if shuffle_seed is None else torch.Generator().manual_seed(shuffle_seed)
    model.train()
    step = 0
    for epoch in range(epochs):
        started, total, seen = time.perf_counter(), 0.0, 0
        for batch in rows.batches(batch_size, generator):
            if steps is not None and step == steps:
                break
            step_started = time.perf_counter()
            ids, real, labels = rows.batch(batch)
            loss = F.cross_entropy(model(ids, real), labels)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            step += 1
            value = loss.item()
            report(
                {
                    "step": step,
                    "loss": value,
                    "lr": lr,
                    "tokens": int(real.sum()),
                    "seconds": time.perf_counter() - step_started,
                }
            )
            total, seen = total + value * len(batch), seen + len(batch)
        if not seen:
            break
        if valid is not None:
            figures = evaluate(model, valid)
            figures = {"train_loss": total / seen, "valid_loss": figures.pop("loss"), **figures}
            report({"epoch": epoch, **figures, "seconds": time.perf_counter() - started})


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", required=True, help="folder of train.tsv and dev.tsv")
    parser.add_argument("--vocab", required=True, help="WordPiece vocabulary")
    parser.add_argument("--uncased", action="store_true")
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--steps", type=int, help="stop after this many")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--lr", type=float, default=1e-3)
    parser.add_argument("--dropout", type=float, default=0.1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--order", choices=["shuffled", "sequential"], default="shuffled")
    parser.add_argument("--train-rows", type=int, help="the first N rows")
    parser.add_argument("--valid-rows", type=int, help="the first N rows")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--dtype", choices=["float32", "float64"], default="float32")
    parser.add_argument("--attention", choices=["eager", "sdpa"], default="eager")
    parser.add_argument("--layers", type=int, default=2)
    parser.add_argument("--d-model", type=int, default=64)
    parser.add_argument("--heads", type=int, default=4)
    parser.add_argument("--head-dim", type=int, default=16)
    parser.add_argument("--ff-width", type=int, help="default 4 x d-model")
    parser.add_argument("--max-length", type=int, default=512)
    parser.add_argument("--init", help="weights to start from (safetensors)")
    parser.add_argument("--save", help="where the last weights go (safetensors)")
    return parser.parse_args()


def main():
    flags = arguments()
    torch.set_num_threads(flags.threads)
    torch.manual_seed(flags.seed)
    tokenizer = Tokenizer(flags.vocab, flags.uncased, flags.max_length)
    train_rows = Rows(os.path.join(flags.data, "train.tsv"), tokenizer, flags.train_rows)
    valid_rows = Rows(os.path.join(flags.data, "dev.tsv"), tokenizer, flags.valid_rows)
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
    model = Classifier(config).to(getattr(torch, flags.dtype))
    if flags.init:
        load_weights(model, flags.init)
    train(
        model,
        train_rows,
        lr=flags.lr,
        batch_size=flags.batch_size,
        epochs=flags.epochs,
        steps=flags.steps,
        shuffle_seed=flags.seed if flags.order == "shuffled" else None,
        valid=valid_rows,
        report=lambda figures: print(json.dumps(figures), flush=True),
    )
    if flags.save:
        save_file(model.state_dict(), flags.save)


if __name__ == "__main__":
    main()
