"""The page and the picture of a run."""

import os
import platform
import re
from dataclasses import dataclass
from math import log
from pathlib import Path
from statistics import mean

from .measure import BASE, HEDDLE, TORCH, Plan, Results


@dataclass
class Report:
    """The content of a page. `partial` is the reason why a run is not complete; it is empty for a complete run. `is_written` is false for
    a page that is only printed."""

    plan: Plan
    results: Results
    sides: list
    command: str
    versions: list
    processor: str
    partial: str
    is_written: bool

    @property
    def limits(self):
        """Returns the highest measured rate of each limit of the machine, by name, without those that the run did not measure."""
        rates = {row.name: [sample.rate[0] for sample in self.results.samples(row, HEDDLE)] for row in self.plan.limits}
        return {name: max(values) for name, values in rates.items() if values}

    @property
    def builds(self):
        return [side for side in self.sides if side != TORCH]

    @property
    def has_picture(self):
        return bool(TORCH in self.sides and self.plan.table and self.is_written and not self.partial)

    def measured(self, rows):
        return [row for row in rows if any(self.results.samples(row, side) for side in self.sides)]


def processor():
    try:
        text = Path("/proc/cpuinfo").read_text()
    except OSError:
        text = ""
    model = re.search(r"model name\s*: (.*)", text)
    sets = [name for name in ("avx2", "avx512f", "avx512_bf16") if name in text]
    return f"{model.group(1) if model else platform.processor() or 'unknown'} ({', '.join(sets)}), {os.cpu_count()} cores"


def page(report):
    lines = ["# Benchmarks", "", *partial_note(report), *header(report)]
    if report.measured(report.plan.table):
        lines += table(report)
    if report.measured(report.plan.growth):
        lines += growth(report)
    lines += [text for side in report.builds for text in epoch_memory(report, side)]
    lines += [text for side in report.builds for text in slopes(report, side)]
    return "\n".join(lines)


def partial_note(report):
    if not report.partial:
        return []
    missing = report.results.missing(report.plan)
    return [f"**This page is partial: {report.partial}.** A figure is the median of the turns that were measured. "
            "Incomplete rows, with the number of turns that were measured:", "",
            *(f"- {lack}: {', '.join(f'`{name}`' for name in names)}" for lack, names in missing.items()), ""]


def header(report):
    up_to = "up to " if report.partial else ""
    ratio = " The ratio is the figure to trust; if it is over 1, heddle is faster." if len(report.sides) > 1 else ""
    return [
        f"`bench/compare` wrote this page from one run in which {turns_text(report.sides)}. A figure is the median of "
        f"{up_to}{report.plan.turns} turns; each side has two threads.{ratio}", "",
        f"- Machine: {'; '.join([report.processor, *limits_text(report.limits)])}.",
        *(f"- {version}." for version in report.versions),
        f"- Command: `{report.command}`.", "",
    ]


def turns_text(sides):
    *others, last = sides
    return f"{', '.join(others)} and {last} took turns" if others else f"{last} ran alone"


def limits_text(limits):
    """Returns one text for all limits, or none if the run measured none."""
    texts = [("machine/copy", "copying {:.0f} GB/s (read and written)"),
             ("machine/fp32", "multiply-add in registers {:.0f} GFLOP/s in fp32"), ("machine/bf16", "{:.0f} in bf16")]
    found = [text.format(limits[name]) for name, text in texts if name in limits]
    return [", ".join(found)] if found else []


EXPLANATION = (
    "PyTorch's attention takes padded batches with a mask of keys, and computes the padding; heddle's rows have no padding (a text is "
    "on average 3/4 as long as the longest one). PyTorch's encoder is `torch.nn.TransformerEncoder`. It uses its own fused path in inference, and "
    "autocast in bf16. An encoder's GFLOP/s count its linear layers alone. The share is the rate divided by the machine's limit in the same "
    "run: the rate of multiply-add for products, the rate of copying for operations limited by memory. It exceeds 100 % if the data is in the caches.")


def table(report):
    titles = ["what", "heddle"]
    if BASE in report.sides:
        titles += ["base", "base / heddle", "range over turns"]
    if TORCH in report.sides:
        titles += ["PyTorch", "ratio"]
    titles += ["rate", "share of the limit"]
    picture = ["![How many times as fast as PyTorch](benchmarks.svg)", ""] if report.has_picture else []
    explanation = [EXPLANATION, ""] if TORCH in report.sides else []
    rows = [line(cells(report, row)) for row in report.measured(report.plan.table)]
    return [*picture, *explanation, line(titles), "|" + "---|" * len(titles), *rows, ""]


def line(cells):
    return "| " + " | ".join(cells) + " |"


def cells(report, row):
    results = report.results
    found = [row.name, time_text(results.seconds(row, HEDDLE))]
    if BASE in report.sides:
        found += [time_text(results.seconds(row, BASE)), ratio_text(results.ratio(row, BASE)), range_text(results, row)]
    if TORCH in report.sides:
        found += [time_text(results.seconds(row, TORCH)), ratio_text(results.ratio(row, TORCH))]
    return found + rate_texts(report, row)


def time_text(s):
    if s is None:
        return "–"
    return f"{s:.2f} s" if s >= 1 else f"{s * 1e3:.2f} ms" if s >= 1e-3 else f"{s * 1e6:.0f} µs"


def ratio_text(ratio):
    return "–" if ratio is None else f"{ratio:.2f}"


def range_text(results, row):
    """Returns the range of the ratio to the base over the turns."""
    ratios = [theirs.seconds / ours.seconds for ours, theirs in zip(results.samples(row, HEDDLE), results.samples(row, BASE))]
    return f"{min(ratios):.2f} to {max(ratios):.2f}" if ratios else "–"


def rate_texts(report, row):
    """Returns the rate, in GFLOP/s for products and in GB/s for operations limited by memory, and its share of the machine's limit."""
    rate = report.results.rate(row)
    if not rate:
        return ["", ""]
    value, unit = rate
    limit = "machine/copy" if unit == "GB/s" else "machine/bf16" if "/bf16/" in row.name else "machine/fp32"
    return [f"{value:.0f} {unit}", f"{100 * value / report.limits[limit]:.0f} %" if limit in report.limits else ""]


def growth(report):
    titles = ["tokens"]
    for side in report.builds:
        titles += ["time", "peak memory"] if side == HEDDLE else ["time of base", "peak memory of base", "base / heddle"]
    return ["## Growth", "",
            "Attention forward and backward over one text, 4 heads of width 64; peak memory is that of the whole program. "
            "Each length is measured once, without PyTorch.", "",
            line(titles), "|" + "---|" * len(titles),
            *(line(growth_cells(report, row)) for row in report.measured(report.plan.growth)), ""]


def length_of(row):
    return int(row.name.split("/")[1])


def growth_cells(report, row):
    found = [str(length_of(row))]
    for side in report.builds:
        seconds, peak = report.results.seconds(row, side), report.results.peak(row, side)
        found += ["–" if seconds is None else f"{seconds * 1e3:.1f} ms", "–" if peak is None else f"{peak / 1024:.0f} MB"]
        found += [ratio_text(report.results.ratio(row, side))] if side == BASE else []
    return found


def epoch_memory(report, side):
    peaks = [report.results.peak(row, side) for row in report.plan.table]
    start = "With base, an" if side == BASE else "An"
    return [text for peak in peaks if peak for text in (f"{start} epoch of SST-2 takes {peak / 1024:.0f} MB at its peak.", "")]


def slopes(report, side):
    """Returns how time and memory grow with the text: slopes on logarithmic axes. The list is empty unless all lengths were measured."""
    rows, results = report.plan.growth, report.results
    if not rows or not all(results.samples(row, side) for row in rows):
        return []
    lengths, seconds = [length_of(row) for row in rows], [results.seconds(row, side) for row in rows]
    peaks = [results.peak(row, side) for row in rows]
    empty = peaks[0] - (peaks[1] - peaks[0])  # the memory of the program without any text
    if min(peaks) <= empty:
        return []
    start = "With base, time" if side == BASE else "Time"
    return [f"{start} grows as the length to the power {slope(lengths, seconds):.2f}. Memory beyond that of the program "
            f"without a text grows as the length to the power {slope(lengths, [peak - empty for peak in peaks]):.2f}.", ""]


def slope(lengths, values):
    x, y = [log(length) for length in lengths], [log(value) for value in values]
    mx, my = mean(x), mean(y)
    return sum((a - mx) * (b - my) for a, b in zip(x, y)) / sum((a - mx) ** 2 for a in x)


def picture(report):
    """Draws the ratios as bars; a dashed line marks PyTorch, which is 1."""
    bars = [(row.name.split(":")[0] if row.name.startswith("tokenizing") else row.name, report.results.ratio(row, TORCH))
            for row in report.plan.table]
    width, left, step = 860, 380, 20
    scale = (width - left - 60) / max(ratio for _, ratio in bars)
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{len(bars) * step + 40}" font-family="sans-serif" font-size="12">',
             '<rect width="100%" height="100%" fill="white"/>',
             f'<text x="{left}" y="16">times as fast as PyTorch, two threads</text>']
    for i, (name, ratio) in enumerate(bars):
        y = 26 + i * step
        color = "#2b7a4b" if ratio >= 1 else "#b3402a"
        parts.append(f'<text x="{left - 8}" y="{y + 13}" text-anchor="end">{name}</text>'
                     f'<rect x="{left}" y="{y + 3}" width="{ratio * scale:.1f}" height="{step - 6}" fill="{color}"/>'
                     f'<text x="{left + ratio * scale + 5:.1f}" y="{y + 13}">{ratio:.1f}</text>')
    one = left + scale
    parts.append(f'<line x1="{one:.1f}" y1="24" x2="{one:.1f}" y2="{26 + len(bars) * step}" stroke="#444" stroke-dasharray="4 3"/></svg>')
    return "\n".join(parts) + "\n"
