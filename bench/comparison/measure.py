"""The rows to measure, their order, and the results."""

import statistics
import sys
import time
from collections import defaultdict
from dataclasses import dataclass
from typing import Callable

from .programs import Failure

# The sides, by the names that tables show.
HEDDLE, BASE, TORCH = "heddle", "base", "PyTorch"

GROWTH = "growth"
LENGTHS = (1024, 2048, 4096, 8192, 16384)
QUICK_LENGTHS = LENGTHS[:3]

# Parts of the names of the rows that --quick leaves out, because each turn of such a row takes ten seconds or more.
SLOW = ("an epoch", "/8x128/", "/4x512/")

# Seconds that a row takes in the first turn, by parts of its name; the estimate of the time left scales them.
EXPECTED_SECONDS = (("an epoch", 80), ("a training step", 40), ("tokenizing", 5), ("growth/16384", 80), ("growth/8192", 20),
                    ("growth/4096", 6), ("/4x512/", 30), ("/step", 45), ("/8x128/", 15), ("encoder", 4),
                    ("4x12x512x64/dropout", 5))
OTHER_EXPECTED_SECONDS = 1.5


@dataclass(frozen=True)
class Row:
    """One line of a table: its name, the program of heddle that it runs, and the call that measures a side."""

    name: str
    program: str
    sample: Callable
    sides: tuple
    turns: int


@dataclass
class Plan:
    """The rows of a run: the machine's limits, the rows of the table, and attention at each length of the section Growth."""

    turns: int
    limits: list
    table: list
    growth: list

    @property
    def rows(self):
        return [*self.limits, *self.table, *self.growth]

    def measurements(self):
        """Yields the pairs of turn and row in their order."""
        for turn in range(self.turns):
            for row in self.rows:
                if turn < row.turns:
                    yield turn, row


def make_plan(sides, turns, data, quick, text):
    """Returns the plan of the rows whose name contains the text. `sides` maps the names of the sides to Heddle and Torch.

    The machine's limits are measured if any operation is selected, and all lengths of Growth if `growth` contains the text.
    """

    def row(name, program, sample, among=tuple(sides), of_turns=turns):
        return Row(name, program, sample, tuple(side for side in sides if side in among), of_turns)

    def operation(name):
        having = [side for side in sides if name in names[side]]
        return row(name, "bench/ops", lambda side: side.operation(name), having)

    def attention(length):
        builds = [side for side in sides if side != TORCH]
        return row(f"{GROWTH}/{length}", "bench/attention", lambda side: side.attention(length), builds, 1)

    def selected(name):
        return text in name and not (quick and any(part in name for part in SLOW))

    names = {side: programs.operations() for side, programs in sides.items()}
    limits = [name for name in names[HEDDLE] if name.startswith("machine/")]
    shown = names[TORCH] if TORCH in sides else [name for name in names[HEDDLE] if name not in limits]
    operations = [operation(name) for name in shown if selected(name)]
    on_data = [row(*words) for words in data_rows(data) if selected(words[0])] if data else []
    lengths = QUICK_LENGTHS if quick else LENGTHS
    return Plan(turns,
                limits=[row(name, "bench/ops", operation(name).sample, (HEDDLE,)) for name in limits] if operations else [],
                table=[*on_data, *operations],
                growth=[attention(length) for length in lengths] if text in GROWTH else [])


def data_rows(data):
    """Returns name, program and sample of each row on real data."""
    return [
        ("sst2: an epoch, tokenization included", "examples/sst2", lambda side: side.epoch()),
        ("sst2: a training step", "examples/sst2", lambda side: side.training_step()),
        (f"tokenizing the {len(data.texts()):,} texts of SST-2: heddle's whole program against a call of the Rust library",
         "examples/tokenize",
         lambda side: side.tokenization()),
    ]


class Results:
    """The samples of a run, by row and side."""

    def __init__(self):
        self.taken, self.failures = defaultdict(list), {}

    def samples(self, row, side):
        return self.taken[row.name, side]

    def seconds(self, row, side):
        """Returns the median of the turns, or None if there is none."""
        samples = self.samples(row, side)
        return statistics.median(sample.seconds for sample in samples) if samples else None

    def ratio(self, row, side):
        """Returns the side's time divided by heddle's, or None if one of them is missing."""
        ours, theirs = self.seconds(row, HEDDLE), self.seconds(row, side)
        return theirs / ours if ours and theirs else None

    def rate(self, row):
        """Returns heddle's rate and its unit, or None."""
        rates = [sample.rate for sample in self.samples(row, HEDDLE) if sample.rate]
        return (statistics.median(value for value, _ in rates), rates[0][1]) if rates else None

    def peak(self, row, side):
        return max((sample.peak for sample in self.samples(row, side) if sample.peak), default=None)

    def empty(self):
        return not any(self.taken.values())

    def missing(self, plan):
        """Returns a dictionary of the rows that lack turns: it maps what is missing to the names of the rows."""
        groups = defaultdict(list)
        for row in plan.rows:
            counts = {side: len(self.samples(row, side)) for side in row.sides}
            if any(count < row.turns for count in counts.values()):
                text = ", ".join(f"{side} {count} of {row.turns}" for side, count in counts.items())
                reasons = [self.failures[row.name, side] for side in row.sides if (row.name, side) in self.failures]
                groups[f"{text} turns" + "".join(f"; {reason}" for reason in reasons)].append(row.name)
        return groups


def measure(plan, sides, results, progress):
    """Fills the results. The sides of a row are measured one after the other; every second turn reverses their order.

    If a side fails, the failure is reported, and later turns skip this side of the row.
    """
    for turn, row in plan.measurements():
        progress.begin(turn, row)
        for side in row.sides if turn % 2 == 0 else reversed(row.sides):
            if (row.name, side) in results.failures:
                continue
            try:
                results.samples(row, side).append(row.sample(sides[side]))
            except Exception as error:  # includes unreadable output: the results of other rows are kept
                reason = str(error) if isinstance(error, Failure) else f"unexpected {error!r}"
                results.failures[row.name, side] = reason
                say(f"{row.name}: {side} failed: {reason}")
        progress.end(row)


def say(text):
    print(f"bench/compare: {text}", file=sys.stderr, flush=True)


def clock(seconds):
    minutes, seconds = divmod(round(seconds), 60)
    return f"{minutes}:{seconds:02}"


class Progress:
    """Prints a line on standard error as each measurement begins."""

    def __init__(self, plan):
        self.plan = plan
        self.remaining = [row for _, row in plan.measurements()]
        self.count = len(self.remaining)
        self.first = time.monotonic()
        self.expected_before, self.known = 0.0, {}

    @property
    def elapsed(self):
        return time.monotonic() - self.first

    def begin(self, turn, row):
        self.began = time.monotonic()
        left = self.seconds_left()
        times = f"{clock(self.elapsed)} elapsed" + (f", about {clock(left)} left" if left is not None else "")
        number = self.count - len(self.remaining) + 1
        of = f"turn {turn + 1} of {row.turns}"
        print(f"[{number:{len(str(self.count))}}/{self.count}] {of}: {row.name} ({times})", file=sys.stderr, flush=True)

    def end(self, row):
        self.remaining.pop(0)
        self.expected_before += expected_seconds(row.name)
        self.known[row.name] = time.monotonic() - self.began

    def seconds_left(self):
        """Assumes that a measured row takes as long as before, and that others take the expected time, scaled by the pace so far."""
        if self.elapsed < 2 or not self.known:
            return None
        pace = self.elapsed / self.expected_before
        return sum(self.known.get(row.name, pace * expected_seconds(row.name)) for row in self.remaining)


def expected_seconds(name):
    return next((seconds for part, seconds in EXPECTED_SECONDS if part in name), OTHER_EXPECTED_SECONDS)
