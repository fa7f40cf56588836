#!/usr/bin/env python3
"""Predicts how training scales to many processes, from measured computation and counted communication, and prints docs/scaling.md's
tables.

    bench/scaling.py --cpu-step SECONDS --cpu-rows N

--cpu-step is the time that one process needs for a step of BERT's size with --cpu-rows texts of 128 tokens (bench/processes --hosts
prints it for 16). The steps of an H200 are those of docs/benchmarks-h200.md.
"""

import argparse
import math

BYTES = 4 * 85_100_000  # gradients of twelve layers of width 768, in float; an embedding's travel as rows
BUCKET = 8 << 20  # distributed::GradientSum
BACKWARD = 2 / 3  # of the computation: two of its three products
PROCESSES = [2, 4, 8, 16, 32, 64, 128, 256, 512, 1024]


def halves(count, bandwidth, latency):
    """Returns the seconds of one exact sum, and the bytes and messages that a process sends.

    In step k two processes exchange a half of what they still add up, and later the sums of the same size. bandwidth(d) and
    latency(d) are those between processes whose numbers differ by d.
    """
    seconds, sent, messages, part, distance = 0.0, 0.0, 0, BYTES, 1
    buckets = math.ceil(BYTES / BUCKET)
    while distance < count:
        part /= 2
        seconds += 2 * (part / bandwidth(distance) + buckets * latency(distance))
        sent, messages = sent + 2 * part, messages + 2 * buckets
        distance *= 2
    return seconds, sent, messages


def step(computation, communication):
    """Returns the seconds of a step: buckets travel during the backward, and the last one after it."""
    last = communication / math.ceil(BYTES / BUCKET)
    return computation + max(communication - BACKWARD * computation, last)


def table(title, computation, rows_weak, rows_strong, bandwidth, latency):
    """Prints efficiencies: weak with `rows_weak` texts a process, strong with `rows_strong` in all."""
    print(f"\n{title}\n")
    print("| processes | sent by each | messages | communication | weak | strong |")
    print("|---|---|---|---|---|---|")
    for count in PROCESSES:
        seconds, sent, messages = halves(count, bandwidth, latency)
        weak = computation(rows_weak) / step(computation(rows_weak), seconds)
        strong = ""
        if rows_strong >= count:
            part = step(computation(rows_strong / count), seconds)
            strong = f"{100 * computation(rows_strong) / (count * part):.0f} %"
        print(f"| {count:,} | {sent / 1e6:.0f} MB | {messages} | {1000 * seconds:.1f} ms | {100 * weak:.0f} % | {strong} |")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--cpu-step", type=float, required=True)
    parser.add_argument("--cpu-rows", type=float, default=16)
    flags = parser.parse_args()

    table(
        f"CPU: {flags.cpu_rows:g} texts a process (weak), 1,024 texts in all (strong), 25 Gbit/s Ethernet with 20 µs a message",
        lambda rows: flags.cpu_step * rows / flags.cpu_rows,
        flags.cpu_rows,
        1024,
        lambda distance: 25e9 / 8,
        lambda distance: 20e-6,
    )
    # 8 and 32 texts were measured; the line through both has a part that does not depend on the number of texts.
    slope = (7.96e-3 - 4.48e-3) / 24
    table(
        "H200: 32 texts a process (weak), 8,192 in all (strong); NVLink, 450 GB/s and 5 µs, between eight GPUs, and 400 Gbit/s and 10 µs "
        "for each GPU between machines",
        lambda rows: 4.48e-3 + slope * (rows - 8),
        32,
        8192,
        lambda distance: 450e9 if distance < 8 else 400e9 / 8,
        lambda distance: 5e-6 if distance < 8 else 10e-6,
    )


if __name__ == "__main__":
    main()
