"""Common parts of the *_compare.py programs: runs of the heddle program, and the checks of its results."""

import argparse
import json
import os
import re
import statistics
import subprocess
import sys
import tempfile

import torch

THREADS = 2


def steps_of(entries):
    return [entry for entry in entries if "step" in entry]


def finals_of(entries):
    """Returns the metrics of each split at the end of a run."""
    return {entry["split"]: entry for entry in entries if "final" in entry}


def print_build(binary):
    """Prints the settings that a heddle program was compiled with: without HEDDLE_NATIVE its kernels have no AVX, which shows in times."""
    with open(binary, "rb") as file:
        found = re.search(rb"heddle [0-9.]+, [^\0]*", file.read())
    print(f"{os.path.basename(binary)}: {found[0].decode() if found else 'of unknown settings'}", flush=True)


class Program:
    """The heddle program. `flags` are passed to every call. It writes its files to `folder`."""

    def __init__(self, binary, folder, *flags):
        self.folder, self.count = folder, 0
        print_build(binary)
        self.command = [binary, "--threads", THREADS, "--progress", "none", *flags]

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, *flags, text=None):
        """Returns the standard output. `text` is the standard input."""
        command = [str(word) for word in (*self.command, *flags)]
        done = subprocess.run(command, input=text, stdout=subprocess.PIPE, encoding="utf-8")
        if done.returncode:  # its standard error went to ours
            sys.exit(f"exit code {done.returncode}: {' '.join(command)}")
        return done.stdout

    def train(self, *flags):
        """Returns the entries of --metrics."""
        self.count += 1
        metrics = self.path(f"metrics{self.count}.jsonl")
        self.run("--metrics", metrics, *flags)
        with open(metrics, encoding="utf-8") as file:
            return [json.loads(line) for line in file]

    def predict(self, texts, *flags):
        """Returns the probabilities [N, C] of the texts, in double precision."""
        out = self.run("--predict", "-", *flags, text="".join(text + "\n" for text in texts))
        rows = [[float(p) for p in line.split("\t")[1:]] for line in out.splitlines()]
        return torch.tensor(rows, dtype=torch.float64)


@torch.inference_mode()
def probabilities(model, rows, batch_size=64):
    """Returns the PyTorch model's probabilities [N, C] of a split, in file order."""
    model.eval()
    return torch.cat([model(*rows.batch(part)[:2]).softmax(-1) for part in rows.batches(batch_size)])


def compare_losses(name, ours, theirs, bound):
    """Returns a sentence and whether each step's losses agree within the bound."""
    ours, theirs = steps_of(ours), steps_of(theirs)
    worst = max(abs(a["loss"] - b["loss"]) for a, b in zip(ours, theirs, strict=True))
    text = f"{name}: greatest difference of {len(ours)} steps {worst:.2e} (bound {bound:.0e})"
    other = next((a["step"] for a, b in zip(ours, theirs) if a["tokens"] != b["tokens"]), None)
    if other:
        text += f"; the batch of step {other} has a different number of tokens"
    return text, worst <= bound


def compare_probabilities(name, ours, theirs, bound):
    """Returns a sentence and whether all probabilities agree within the bound."""
    if ours.shape != theirs.shape:
        return f"{name}: found probabilities of shape {list(ours.shape)}, expected {list(theirs.shape)}", False
    worst = (ours - theirs).abs().max().item()
    return f"{name}: greatest difference of {len(ours)} texts {worst:.2e} (bound {bound:.0e})", worst <= bound


def compare_speed(turns, bound):
    """Returns a sentence and whether heddle is at least `bound` times as fast.

    A turn is a pair of the metrics of both sides. The first tenth of the steps is warm-up and is not counted.
    """
    ours, theirs = [], []
    for pair in turns:
        for seconds, entries in zip((ours, theirs), map(steps_of, pair)):
            seconds += [entry["seconds"] for entry in entries[len(entries) // 10 :]]
    a, b = statistics.median(ours), statistics.median(theirs)
    text = (
        f"speed: median step {1e3 * a:.2f} ms ({1 / a:.1f}/s), PyTorch {torch.__version__} eager {1e3 * b:.2f} ms "
        f"({1 / b:.1f}/s): {b / a:.2f}x (bound {bound}x)"
    )
    return text, b / a >= bound


def make_parser(description, checks, *, steps=None, vocab="cased"):
    """Returns a parser of the common flags.

    `steps` is the default of --steps, the number of steps in a turn of `speed`. `vocab` is the kind of vocabulary that --vocab names.
    The parser has no --steps without `steps`, and no --vocab if `vocab` is false.
    """
    parser = argparse.ArgumentParser(description=description, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--binary", required=True, help="the heddle program")
    parser.add_argument("--data", required=True, help="folder of the data set")
    if vocab:
        parser.add_argument("--vocab", required=True, help=f"{vocab} BERT vocabulary")
    parser.add_argument("--only", choices=checks)
    if steps:
        parser.add_argument("--steps", type=int, default=steps, help="steps in each of the two turns of `speed`")
    return parser


def check(bench, options, checks):
    """Prints the sentences of bench(options, folder) and exits with 1 if a bound is missed.

    Each check is a method that yields pairs of a sentence and whether the bound holds.
    """
    torch.set_num_threads(THREADS)
    missed = 0
    with tempfile.TemporaryDirectory() as folder:
        it = bench(options, folder)
        for name in [options.only] if options.only else checks:
            for text, held in getattr(it, name)():
                print(text if held else text + " MISSED", flush=True)
                missed += not held
    sys.exit(missed > 0)
