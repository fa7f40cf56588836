#!/usr/bin/env python3
"""Compares heddle's BERT, DistilBERT and pre-norm models with transformers and PyTorch on the same work in one run:

    bench/peers/bert_compare.py --program build/release/bench/bert_program --binary build/release/examples/bert_classifier
                                --data DIR --vocab FILE [--only CHECK] [--turns N]

 logits    classifiers with random weights, of base sizes and odd ones, 1 to 512 tokens, pairs, ragged batches: against float64
 long      ModernBERT of a small width, texts of 1 to 8,192 tokens, against float64
 training  50 steps of fine-tuning (dropout 0, AdamW, linear schedule) against float64: losses
 prenorm   the pre-norm encoder: logits and 50 steps against float64
 save      a folder that heddle saved, opened by transformers: warnings and logits
 embed     sentence embeddings against the same pooling in float64
 speed     DistilBERT, forward and training step, 8x128 and SST-2's lengths; heddle and PyTorch take turns, each with 2 threads
 relatives the same for each other architecture at base size, and ModernBERT with 2 texts of 4,096 tokens
 bf16      forward of 4x512 in bf16 against PyTorch's autocast, in turns
 latency   one text of 20 tokens through BERT-base, 1 and 2 threads, against PyTorch and ONNX Runtime, in turns
 memory    peak resident memory of loading BERT and each other architecture at base size: F32, in shards, and BF16
 pretrain  masked language model on SST-2's text, then 500 labelled rows, against no pre-training: accuracy, 5 seeds

Errors of logits are relative to the folder's largest absolute logit. `training`, `save`, `pretrain` and the steps of `prenorm`
run the program of --binary. `prenorm` skips the steps if that file is missing. `latency` needs onnx and onnxruntime.
Exit code 1 when a bound is missed. Needs torch, transformers,
tokenizers and safetensors.
"""

import contextlib
import json
import logging
import os
import shutil
import statistics
import subprocess
import sys
import time
import warnings

import pre_norm_model
import torch
from bert_folders import BASE, BERT_BASE, DISTILBERT_BASE, MODERN, ODD, RELATIVES_BASE, Case, load_classifier, make_folder
from comparison import THREADS, Program, check, compare_losses, finals_of, make_parser, print_build
from exact_float64 import exact_float64
from sst2_train import read_rows
from tokens import Tokenizer
from torch import nn
from training import Rows, collate, train
from transformers import AutoModelForSequenceClassification, AutoTokenizer, BertTokenizer

CHECKS = ["logits", "long", "training", "prenorm", "save", "embed", "speed", "relatives", "bf16", "latency", "memory", "pretrain"]
LOGIT_BOUND, LOSS_BOUND, EMBEDDING_BOUND = 1e-5, 1e-5, 1e-5
FULL_BOUND, RAGGED_BOUND, BF16_BOUND, LATENCY_BOUND, MEMORY_BOUND = 1.0, 2.5, 1.05, 1.0, 1.1
RELATIVES_RAGGED_BOUND, LONG_BOUND = 2.0, 3.0
BF16_ERRORS = 2.0  # the greatest error allowed in bf16, as a multiple of PyTorch's
STEPS, BATCH, LR, TEXTS, LATENCY_CALLS, LATENCY_TOKENS = 50, 8, 5e-5, 400, 1000, 20
PRETRAIN_STEPS, LABELLED = 8000, 500
SMALL = Case("bert-small", width=128, layers=2, heads=2, ff_width=512, extra={"max_position_embeddings": 128})
FIRST_DRAWN_ID = 64  # draw_batches draws no id below it: those are [PAD] and unused tokens

LONG = Case("modernbert-64x2", "modernbert", 64, 4, 2, 96, extra=MODERN)

TRAINED = [DISTILBERT_BASE, Case("bert-pairs", width=128, layers=4, heads=4, ff_width=512, classes=3)]
PRE_NORM = [pre_norm_model.Config(), pre_norm_model.Config(d_model=33, layers=3, heads=3, ff_width=50, classes=4)]


def row(what, seen, bound, held):
    """Returns a line of the table, and whether the bound holds."""
    return f"{what:46} found {seen:34} expected {bound}", held


def at_most(what, seen, bound):
    return row(what, f"{seen:.2e}", f"<= {bound:.0e}", seen <= bound)


def drawn_batch(texts, tokens):
    return {"ids": torch.randint(1000, 30000, [texts, tokens], generator=torch.Generator().manual_seed(1)).tolist()}


class WithMask(nn.Module):
    """A classifier of transformers with the call signature of the other models in peers/. `separator` ends the first text of a pair."""

    def __init__(self, model, separator=None):
        super().__init__()
        self.model, self.separator = model, separator

    def forward(self, ids, real):
        types = {}
        if self.separator is not None:
            ends = (ids == self.separator).long()
            types = {"token_type_ids": (ends.cumsum(1) > ends).long() * real}
        return self.model(input_ids=ids, attention_mask=real.long(), **types).logits


class BertProgram:
    """bench/bert_program, whose results are JSON, except those of `embed`, which are lines of numbers."""

    def __init__(self, binary, folder):
        self.binary, self.folder = binary, folder
        print_build(binary)

    def text(self, command, model, *flags, threads=THREADS, text=None):
        words = [str(word) for word in (self.binary, command, model, "--threads", threads, *flags)]
        done = subprocess.run(words, input=text, stdout=subprocess.PIPE, encoding="utf-8")
        if done.returncode:  # its standard error went to ours
            sys.exit(f"exit code {done.returncode}: {' '.join(words)}")
        return done.stdout

    def __call__(self, *words, threads=THREADS):
        return json.loads(self.text(*words, threads=threads))

    def write_batches(self, name, batches):
        """Writes batches: lists of ids, or dictionaries with `ids` and perhaps `types`. Returns the flags that name the file."""
        path = os.path.join(self.folder, name + ".json")
        with open(path, "w", encoding="utf-8") as file:
            json.dump([batch if isinstance(batch, dict) else {"ids": batch} for batch in batches], file)
        return ["--batches", path]

    def logits(self, model, batches, precision="fp32"):
        flags = self.write_batches("logits", batches)
        return torch.tensor(self("logits", model, *flags, "--precision", precision)["logits"], dtype=torch.float64)


def inputs_of(batch, padded=True):
    """Returns a batch as inputs of transformers. Omits the mask if `padded` is false and all texts have the same length."""
    ids, real = collate(batch["ids"])
    inputs = {"input_ids": ids}
    if padded or not real.all():
        inputs["attention_mask"] = real.long()
    if "types" in batch:
        inputs["token_type_ids"] = collate(batch["types"])[0]
    return inputs


@torch.no_grad()
def peer_logits(model, batches):
    return torch.cat([model(**inputs_of(batch)).logits.double() for batch in batches])


def draw_batches(case, seed=1):
    """Returns batches of random ids: single texts of 1 to 512 tokens, ragged batches and, for BERT, pairs."""
    generator = torch.Generator().manual_seed(seed)
    vocabulary = case.config().vocab_size

    def texts(lengths):
        return [torch.randint(FIRST_DRAWN_ID, vocabulary, [n], generator=generator).tolist() for n in lengths]

    lengths = [[1], [2], [20], [511], [512], [7, 1, 64, 33, 12, 5], [300, 2], [31] * 4]
    batches = [{"ids": texts(part)} for part in lengths]
    if case.family == "bert" and case.config().type_vocab_size > 1:
        for part in ([3, 40, 18], [128, 127], [512]):
            pairs = texts(part)
            batches.append({"ids": pairs, "types": [[0] * (n // 3) + [1] * (n - n // 3) for n in part]})
    return batches


def root_mean_square(values):
    return torch.as_tensor(values, dtype=torch.float64).square().mean().sqrt().item()


def time_calls(run, batches, calls):
    """Returns the seconds of each call. Takes the batches in turn, after one untimed call for each batch."""
    for batch in batches:
        run(batch)
    seconds = []
    for call in range(calls):
        began = time.perf_counter()
        run(batches[call % len(batches)])
        seconds.append(time.perf_counter() - began)
    return seconds


def quantile(values, share):
    return sorted(values)[max(0, -(-int(share * 1000) * len(values) // 1000) - 1)]


class Turns:
    """The times of heddle and its peers, taken in turns."""

    def __init__(self, turns, ours, **peers):
        self.times = {name: [] for name in ("heddle", *peers)}
        for _ in range(turns):
            for name, run in {"heddle": ours, **peers}.items():
                self.times[name].append(run())

    def seconds(self, name, share=0.5):
        return quantile([value for turn in self.times[name] for value in turn], share)

    def row(self, what, bound, name="PyTorch"):
        ratios = sorted(statistics.median(b) / statistics.median(a)
                        for a, b in zip(self.times["heddle"], self.times[name]))  # fmt: skip
        a, b = self.seconds("heddle"), self.seconds(name)
        seen = f"{b / a:.2f}x ({1e3 * a:.1f} ms, {name} {1e3 * b:.1f} ms; turns {ratios[0]:.2f} to {ratios[-1]:.2f})"
        return row(what, seen, f">= {bound}x", b / a >= bound)


class Records(logging.Handler):
    """Collects the warnings of a library."""

    def __init__(self):
        super().__init__(logging.WARNING)
        self.texts = []

    def emit(self, record):
        self.texts.append(record.getMessage())


@contextlib.contextmanager
def recorded_warnings():
    """Yields the list of the warnings that are issued in the block, by Python or by transformers' logger."""
    handler, logger = Records(), logging.getLogger("transformers")
    logger.addHandler(handler)
    try:
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            yield handler.texts
        handler.texts += [str(warning.message) for warning in caught]
    finally:
        logger.removeHandler(handler)


class Bench:
    def __init__(self, options, folder):
        self.options, self.folder = options, folder
        self.program = BertProgram(options.program, folder)
        self.trainer = Program(options.binary, folder)
        self.tokenizer = Tokenizer(options.vocab, uncased=True)
        self.made = set()

    def path(self, name):
        return os.path.join(self.folder, name)

    def model(self, case):
        """Returns the folder of a case."""
        path = self.path(case.name)
        if case.name not in self.made:
            make_folder(path, case, self.options.vocab)
            self.made.add(case.name)
        return path

    def rows(self, name, limit=None):
        return read_rows(os.path.join(self.options.data, name), self.tokenizer, limit)

    def lines(self, name, limit=None):
        """Returns the header and the rows of a file of SST-2, each a list of its columns."""
        with open(os.path.join(self.options.data, name), encoding="utf-8", newline="\n") as file:
            return [line.rstrip("\n").split("\t") for line in list(file)[: None if limit is None else limit + 1]]

    def write_table(self, name, rows):
        path = self.path(name)
        with open(path, "w", encoding="utf-8", newline="\n") as file:
            file.writelines("\t".join(map(str, columns)) + "\n" for columns in rows)
        return path

    def logits(self):
        errors, bf16 = {"heddle": [], "PyTorch": []}, {"heddle": [], "PyTorch": [], "autocast": []}
        for case in [*BASE, *ODD]:
            folder, batches = self.model(case), draw_batches(case)
            exact = peer_logits(load_classifier(folder).double(), batches)
            model = load_classifier(folder)
            greatest = exact.abs().max()
            relative = lambda seen: (seen - exact) / greatest  # noqa: B023, E731
            ours, theirs = relative(self.program.logits(folder, batches)), relative(peer_logits(model, batches))
            errors["heddle"].append(root_mean_square(ours))
            errors["PyTorch"].append(root_mean_square(theirs))
            what = f"logits, {case.name}, {len(exact)} texts"
            seen = f"{ours.abs().max():.1e} (PyTorch {theirs.abs().max():.1e})"
            yield row(what, seen, f"<= {LOGIT_BOUND:.0e}", ours.abs().max() <= LOGIT_BOUND)
            bf16["heddle"].append(root_mean_square(relative(self.program.logits(folder, batches, "bf16"))))
            with torch.autocast("cpu", dtype=torch.bfloat16):
                bf16["autocast"].append(root_mean_square(relative(peer_logits(model, batches))))
            bf16["PyTorch"].append(root_mean_square(relative(peer_logits(model.bfloat16(), batches))))
            seen = ", ".join(f"{name} {values[-1]:.1e}" for name, values in bf16.items())
            yield row(what + ", bf16", seen, "(no bound)", True)
        a, b = (root_mean_square(errors[name]) for name in ("heddle", "PyTorch"))
        yield row("logits, root mean square of all folders", f"{a:.2e} (PyTorch {b:.2e})", "<= PyTorch's", a <= b)
        a, b, c = (root_mean_square(values) for values in bf16.values())
        seen = f"{a:.2e} (PyTorch {b:.2e}, autocast {c:.2e})"
        yield row("logits, bf16, root mean square", seen, f"<= {BF16_ERRORS:.0f} x PyTorch's", a <= BF16_ERRORS * b)

    def long(self):
        generator = torch.Generator().manual_seed(1)
        lengths = [[8192], [4097, 1, 129, 8191]]
        batches = [{"ids": [torch.randint(1000, 30000, [n], generator=generator).tolist() for n in part]} for part in lengths]
        folder = self.model(LONG)
        with exact_float64(torch.float64):
            exact = peer_logits(load_classifier(folder).double(), batches)
        plain, greatest = peer_logits(load_classifier(folder), batches), exact.abs().max()
        ours, theirs = ((seen - exact).abs().max() / greatest for seen in (self.program.logits(folder, batches), plain))
        yield row(f"long, {LONG.name}, up to 8192 tokens", f"{ours:.1e} (PyTorch {theirs:.1e})", f"<= {LOGIT_BOUND:.0e}", ours <= LOGIT_BOUND)

    def tables(self, pairs):
        """Returns the flags of the training and validation files, and the training rows: texts of SST-2, or pairs of them."""
        count = STEPS * BATCH
        lines = self.lines("train.tsv", 2 * count)[1:]
        if pairs:
            table = [[a[0], b[0], i % 3] for i, (a, b) in enumerate(zip(lines[:count], lines[count:]))]
            header, texts = ["premise", "hypothesis", "label"], [(a, b) for a, b, _ in table]
            flags = ["--text", "premise", "--text-pair", "hypothesis"]
        else:
            table = [[text, int(label)] for text, label in lines[:count]]
            header, texts = ["sentence", "label"], [text for text, _ in table]
            flags = ["--text", "sentence"]
        train_file = self.write_table("train.tsv", [header, *table])
        valid_file = self.write_table("valid.tsv", [header, *table[:BATCH]])
        flags = ["--train", train_file, "--valid", valid_file, "--label", "label", *flags]
        return flags, Rows(self.tokenizer(texts), torch.tensor([columns[-1] for columns in table]))

    def fine_tune(self, folder, *flags):
        """Fine-tunes with the settings that `training`, `prenorm` and `save` share. Returns the metrics."""
        return self.trainer.train("--model", folder, "--order", "sequential", "--dropout", 0, "--optimizer", "adamw",
                                  "--weight-decay", 0.01, "--lr", LR, "--schedule", "linear", "--clip", 0, "--warmup", 0,
                                  "--batch-size", BATCH, "--train-rows", STEPS * BATCH, *flags)  # fmt: skip

    def peer_tune(self, model, rows):
        theirs = []
        train(model.double(), rows, lr=LR, batch_size=BATCH, steps=STEPS, make_optimizer=torch.optim.AdamW,
              factor=lambda step: 1 - step / STEPS, report=theirs.append)  # fmt: skip
        return theirs

    def training(self):
        for case in TRAINED:
            pairs = case.name.endswith("pairs")
            folder = self.model(case)
            flags, rows = self.tables(pairs)
            ours = self.fine_tune(folder, *flags, "--steps", STEPS, "--out", self.path("tuned-" + case.name))
            separator = self.tokenizer.rust.token_to_id("[SEP]") if pairs else None
            model = WithMask(load_classifier(folder, case.family, dropout=0.0), separator)
            yield compare_losses(f"training, {case.name}", ours, self.peer_tune(model, rows), LOSS_BOUND)

    def pre_norm(self, config):
        """Returns the model and its folder."""
        torch.manual_seed(1)
        model, folder = pre_norm_model.Classifier(config).eval(), self.path(f"pre-norm-{config.d_model}")
        pre_norm_model.save_folder(folder, model, config)
        BertTokenizer(vocab=self.options.vocab).save_pretrained(folder)
        return model, folder

    def prenorm(self):
        for config in PRE_NORM:
            model, folder = self.pre_norm(config)
            batches = [batch for batch in draw_batches(BERT_BASE) if "types" not in batch]
            model.double()
            with torch.inference_mode():
                exact = torch.cat([model(*collate(batch["ids"])) for batch in batches])
            worst = (self.program.logits(folder, batches) - exact).abs().max() / exact.abs().max()
            yield at_most(f"prenorm, width {config.d_model}, logits", worst.item(), LOGIT_BOUND)
            if not os.path.exists(self.options.binary):
                continue
            flags, rows = self.tables(pairs=False)
            ours = self.fine_tune(folder, *flags, "--steps", STEPS, "--out", self.path(f"tuned-{config.d_model}"))
            for module in model.modules():
                if isinstance(module, nn.Dropout):
                    module.p = 0.0
            theirs = self.peer_tune(model, rows)
            yield compare_losses(f"prenorm, width {config.d_model}, training", ours, theirs, LOSS_BOUND)

    def save(self):
        texts = [columns[0] for columns in self.lines("dev.tsv", TEXTS)[1:]]
        for case in [DISTILBERT_BASE, ODD[0]]:
            out = self.path("saved-" + case.name)
            flags, _ = self.tables(pairs=False)
            self.fine_tune(self.model(case), *flags, "--steps", 3, "--out", out)
            ours = self.trainer.predict(texts, "--logits", "--out", out)
            with recorded_warnings() as found:
                model, report = AutoModelForSequenceClassification.from_pretrained(out, output_loading_info=True)
                tokenizer = AutoTokenizer.from_pretrained(out)
            found = found + [f"{name}: {values}" for name, values in report.items() if values]
            yield row(f"save, {case.name}, warnings", "; ".join(found) or "none", "none", not found)
            model.eval().double()
            with torch.inference_mode():
                exact = torch.cat([model(**tokenizer(text, return_tensors="pt")).logits for text in texts])
            worst = (ours - exact).abs().max() / exact.abs().max()
            yield at_most(f"save, {case.name}, logits", worst.item(), LOGIT_BOUND)

    def write_modules(self, folder, pooling, normalized):
        """Turns the folder into a folder of sentence-transformers."""
        kinds = ["Transformer", "Pooling"] + (["Normalize"] if normalized else [])
        modules = [
            {"idx": i, "name": str(i), "path": f"{i}_{kind}" if i else "", "type": f"sentence_transformers.models.{kind}"}
            for i, kind in enumerate(kinds)
        ]
        os.makedirs(os.path.join(folder, "1_Pooling"), exist_ok=True)
        files = {
            "modules.json": modules,
            "1_Pooling/config.json": {f"pooling_mode_{name}": name == pooling for name in ("cls_token", "mean_tokens")},
        }
        for name, content in files.items():
            with open(os.path.join(folder, name), "w", encoding="utf-8") as file:
                json.dump(content, file)

    def embed(self):
        texts = [columns[0] for columns in self.lines("dev.tsv", TEXTS)[1:]]
        batches = [inputs_of({"ids": ids}) for ids in (self.tokenizer(texts[i : i + 64]) for i in range(0, TEXTS, 64))]
        for case in [DISTILBERT_BASE, ODD[0]]:
            folder = self.model(case)
            model = load_classifier(folder).base_model.double()
            with torch.inference_mode():
                hidden = [(model(**batch).last_hidden_state, batch["attention_mask"][..., None]) for batch in batches]
            means = torch.cat([(x * real).sum(1) / real.sum(1) for x, real in hidden])
            firsts = torch.cat([x[:, 0] for x, _ in hidden])
            for pooling, exact, normalized in [(None, means, True), ("mean_tokens", means, False), ("cls_token", firsts, True)]:
                if pooling:
                    self.write_modules(folder, pooling, normalized)
                exact = nn.functional.normalize(exact) if normalized else exact
                out = self.program.text("embed", folder, text="".join(text + "\n" for text in texts))
                ours = torch.tensor([[float(x) for x in line.split()] for line in out.splitlines()], dtype=torch.float64)
                what = f"embed, {case.name}, {pooling or 'without modules.json'}"
                yield at_most(what, (ours - exact).abs().max().item() if ours.shape == exact.shape else 9.0, EMBEDDING_BOUND)

    def compare_speed(self, what, folder, batches, bound, calls):
        """Yields a row for the forward pass and one for the training step."""
        flags, inputs = self.program.write_batches("speed", batches), [inputs_of(batch, padded=False) for batch in batches]

        def ours(command):
            return lambda: self.program(command, folder, *flags, "--calls", calls)["seconds"]

        def forward():
            model = load_classifier(folder)
            with torch.inference_mode():
                return time_calls(lambda batch: model(**batch).logits, inputs, calls)

        def step():
            model = load_classifier(folder).train()
            optimizer = torch.optim.AdamW(model.parameters(), lr=LR)

            def run(batch):
                labels = torch.arange(len(batch["input_ids"])) % 2
                optimizer.zero_grad()
                model(**batch, labels=labels).loss.backward()
                optimizer.step()

            return time_calls(run, inputs, calls)

        turns = self.options.turns
        yield Turns(turns, ours("forward"), PyTorch=forward).row(f"speed, forward, {what}", bound)
        yield Turns(turns, ours("step"), PyTorch=step).row(f"speed, training step, {what}", bound)

    def ragged(self, texts, count):
        """Returns batches of SST-2's texts in random order."""
        rows = self.rows("train.tsv")
        order = rows.batches(texts, torch.Generator().manual_seed(1))[:count]
        return [{"ids": [rows.texts[r] for r in part]} for part in order]

    def speed(self):
        folder, calls = self.model(DISTILBERT_BASE), self.options.calls
        yield from self.compare_speed("8x128", folder, [drawn_batch(8, 128)], FULL_BOUND, calls)
        yield from self.compare_speed("SST-2's lengths, 32 texts", folder, self.ragged(32, 8), RAGGED_BOUND, max(calls, 8))

    def relatives(self):
        for case in RELATIVES_BASE:
            folder = self.model(case)
            yield from self.compare_speed(f"{case.name}, 8x128", folder, [drawn_batch(8, 128)], FULL_BOUND, 2)
            yield from self.compare_speed(f"{case.name}, SST-2", folder, self.ragged(32, 2), RELATIVES_RAGGED_BOUND, 2)
            if case.family == "modernbert":
                yield from self.compare_speed(f"{case.name}, 2x4096", folder, [drawn_batch(2, 4096)], LONG_BOUND, 1)

    def bf16(self):
        ids = torch.randint(1000, 30000, [4, 512], generator=torch.Generator().manual_seed(1))
        flags = [*self.program.write_batches("bf16", [{"ids": ids.tolist()}]), "--precision", "bf16"]
        for case in reversed(BASE):
            folder = self.model(case)
            model = load_classifier(folder)

            def ours():
                return self.program("forward", folder, *flags, "--calls", self.options.calls)["seconds"]

            def theirs():
                # One context for all calls: autocast then casts the weights once, as heddle does.
                with torch.no_grad(), torch.autocast("cpu", dtype=torch.bfloat16):
                    return time_calls(lambda batch: model(input_ids=batch).logits, [ids], self.options.calls)

            turns = Turns(self.options.turns, ours, PyTorch=theirs)
            yield turns.row(f"bf16, forward, {case.name}, 4x512", BF16_BOUND)

    def latency(self):
        import onnxruntime

        folder, path = self.model(BERT_BASE), self.path("model.onnx")
        ids = torch.arange(1, LATENCY_TOKENS + 1)[None]
        model = load_classifier(folder)
        real = torch.ones_like(ids, dtype=torch.bool)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            torch.onnx.export(WithMask(model).eval(), (ids, real), path, input_names=["ids", "real"],
                              output_names=["logits"], dynamo=False)  # fmt: skip
        for threads in (1, 2):
            torch.set_num_threads(threads)
            settings = onnxruntime.SessionOptions()
            settings.intra_op_num_threads = threads
            session = onnxruntime.InferenceSession(path, settings, providers=["CPUExecutionProvider"])
            names = {value.name for value in session.get_inputs()}
            feed = {name: value.numpy() for name, value in (("ids", ids), ("real", real)) if name in names}
            calls = LATENCY_CALLS // self.options.turns

            def ours():
                return self.program("latency", folder, "--tokens", LATENCY_TOKENS, "--calls", calls,
                                    threads=threads)["seconds"]  # fmt: skip

            def pytorch():
                with torch.inference_mode():
                    return time_calls(lambda batch: model(input_ids=batch).logits, [ids], calls)

            def onnx():
                return time_calls(lambda batch: session.run(None, batch), [feed], calls)

            turns = Turns(self.options.turns, ours, PyTorch=pytorch, ONNX=onnx)
            for peer in ("PyTorch", "ONNX"):
                yield turns.row(f"latency, {threads} threads, median of {LATENCY_CALLS}", LATENCY_BOUND, peer)
            tails = ", ".join(f"{name} {1e3 * turns.seconds(name, 0.99):.1f} ms" for name in turns.times)
            yield row(f"latency, {threads} threads, 99th percentile", tails, "(no bound)", True)
        torch.set_num_threads(THREADS)

    def memory(self):
        for case in [BERT_BASE, *RELATIVES_BASE]:
            if case.family == "albert":
                continue  # its file of 47 MB is small beside the program itself, which takes 14 MB
            folder = self.model(case)
            size = os.path.getsize(os.path.join(folder, "model.safetensors"))
            yield self.memory_of_loading(case.name, folder, size)
            for name, options, form in [("shards", {}, {"max_shard_size": "100MB"}), ("BF16", {"dtype": torch.bfloat16}, {})]:
                other = self.path(f"{case.name}-{name}")
                shutil.copytree(folder, other, ignore=shutil.ignore_patterns("model.safetensors"))
                load_classifier(folder, **options).save_pretrained(other, **form)
                yield self.memory_of_loading(f"{case.name}, {name}", other, size)
                shutil.rmtree(other)

    def memory_of_loading(self, what, folder, size):
        """Returns a row for a folder whose weights in F32 have `size` bytes."""
        seen = self.program("load", folder)
        text = f"{seen['peak_bytes'] / size:.3f}x of {size / 1e6:.0f} MB ({seen['seconds']:.2f} s)"
        return row(f"memory of loading, {what}", text, f"<= {MEMORY_BOUND}x", seen["peak_bytes"] <= MEMORY_BOUND * size)

    def pretrain(self):
        lines, valid = self.lines("train.tsv"), self.write_table("dev.tsv", self.lines("dev.tsv"))
        corpus = self.write_table("corpus.txt", [columns[:1] for columns in lines[1:]])
        accuracy = {"pre-trained": [], "not pre-trained": []}
        new, encoder = self.path("new"), self.path("encoder")
        make_folder(new, SMALL, self.options.vocab, 1, wide=False)
        self.trainer.train("--model", new, "--pretrain", corpus, "--steps", self.options.pretrain_steps, "--epochs", 1000,
                           "--batch-size", 128, "--lr", 1e-3, "--warmup", 400, "--seed", 1, "--out", encoder)  # fmt: skip
        for seed in range(1, self.options.seeds + 1):
            order = torch.randperm(len(lines) - 1, generator=torch.Generator().manual_seed(seed))[:LABELLED]
            few = self.write_table("few.tsv", [lines[0], *(lines[1 + i] for i in order.tolist())])
            for name, model in [("pre-trained", encoder), ("not pre-trained", new)]:
                ours = self.trainer.train("--model", model, "--train", few, "--valid", valid, "--text", "sentence", "--label",
                                          "label", "--epochs", self.options.epochs, "--batch-size", 16, "--lr", 5e-4,
                                          "--dropout", 0.3, "--seed", seed, "--out", f"{model}-tuned{seed}")  # fmt: skip
                accuracy[name].append(finals_of(ours)["valid"]["accuracy"])
            yield f"pretrain, seed {seed}: " + ", ".join(f"{name} {a[-1]:.2%}" for name, a in accuracy.items()), True
        a, b = (statistics.mean(values) for values in accuracy.values())
        spread = "; ".join(f"{name} {statistics.mean(values):.2%} ({min(values):.2%} to {max(values):.2%})"
                           for name, values in accuracy.items())  # fmt: skip
        yield row(f"pretrain, {self.options.seeds} seeds, {LABELLED} rows", spread, "higher mean", a > b)


def main():
    parser = make_parser(__doc__, CHECKS, vocab="uncased")
    parser.add_argument("--program", required=True, help="path of the program bench/bert_program")
    parser.add_argument("--turns", type=int, default=5, help="number of turns in `speed`, `relatives`, `bf16` and `latency`")
    parser.add_argument("--calls", type=int, default=8, help="calls of each side in one turn of `speed` and `bf16`")
    parser.add_argument("--pretrain-steps", type=int, default=PRETRAIN_STEPS)
    parser.add_argument("--epochs", type=int, default=30, help="epochs over the labelled rows in `pretrain`")
    parser.add_argument("--seeds", type=int, default=5, help="run `pretrain` with the seeds 1 to N")
    check(Bench, parser.parse_args(), CHECKS)


if __name__ == "__main__":
    main()
