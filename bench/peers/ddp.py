#!/usr/bin/env python3
"""Times training steps in PyTorch with DistributedDataParallel over gloo, on the rows that bench/processes gives to heddle.

    bench/peers/ddp.py --model sst2|bert --rows FILE --processes N --threads N --steps N --batch-size N

FILE has a line of token ids for each text, and a tab and the label behind it. Prints the seconds of each step, one a line. Needs
torch and safetensors.
"""

import argparse
import os
import time

import pre_norm_model
import sst2_model
import torch
import torch.distributed as dist
import torch.nn.functional as F
from torch.nn.parallel import DistributedDataParallel
from training import Rows


def arguments():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", choices=["sst2", "bert"], required=True)
    parser.add_argument("--rows", required=True)
    parser.add_argument("--vocabulary", type=int, required=True, help="number of tokens")
    parser.add_argument("--processes", type=int, default=1)
    parser.add_argument("--threads", type=int, default=1, help="threads of each process")
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch-size", type=int, default=32, help="rows of all processes together")
    return parser.parse_args()


def read_rows(path):
    with open(path, encoding="ascii") as file:
        lines = [line.rstrip("\n").split("\t") for line in file]
    return Rows([[int(n) for n in ids.split()] for ids, _ in lines], torch.tensor([int(label) for _, label in lines]))


def make_model(flags):
    if flags.model == "sst2":
        return sst2_model.Classifier(sst2_model.Config(vocab_size=flags.vocabulary, attention="sdpa"))
    return pre_norm_model.Classifier(pre_norm_model.Config(vocab_size=flags.vocabulary, max_length=128, embedding_dropout=0.5))


def work(rank, flags):
    torch.set_num_threads(flags.threads)
    torch.manual_seed(1)
    model = make_model(flags)
    if flags.processes > 1:
        dist.init_process_group("gloo", rank=rank, world_size=flags.processes)
        model = DistributedDataParallel(model)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-4)
    rows = read_rows(flags.rows)
    share = flags.batch_size // flags.processes
    for step in range(flags.steps):
        began = time.perf_counter()
        first = (step * flags.batch_size + rank * share) % (len(rows.texts) - share + 1)
        ids, real, labels = rows.batch(list(range(first, first + share)))
        loss = F.cross_entropy(model(ids, real), labels)
        optimizer.zero_grad(set_to_none=True)
        loss.backward()
        optimizer.step()
        loss.item()
        if rank == 0:
            print(time.perf_counter() - began, flush=True)
    if flags.processes > 1:
        dist.destroy_process_group()


def main():
    flags = arguments()
    if flags.processes == 1:
        work(0, flags)
        return
    os.environ.update(MASTER_ADDR="127.0.0.1", MASTER_PORT="29511")
    torch.multiprocessing.spawn(work, (flags,), flags.processes)


if __name__ == "__main__":
    main()
