"""The parts of the page that scripts/gpu-report writes."""

import json
import textwrap
from pathlib import Path

import kernel_model

NOTHING = "not measured"
COSTS = Path(__file__).resolve().parent.parent / "docs" / "kernel-costs.json"
PARTS = ("device", "attention", "limits", "steps", "rows")  # the stages of scripts/gpu-check that measure heddle
GOALS = {  # seconds on an H200 for the work that docs/gpu.md names
    "attention/32x12x512x64/lengths/dropout/forward": 80e-6,
    "attention/32x12x512x64/lengths/dropout/forward_backward": 220e-6,
    "attention/32x12x128x64/lengths/dropout/forward": 14e-6,
    "attention/32x12x128x64/lengths/dropout/forward_backward": 30e-6,
}
ATTENTION = (
    "Batch x heads x longest text x head width. `lengths`: texts have 3/4 of the longest length on average; PyTorch pads "
    "them, except on nested tensors. heddle is deterministic. The PyTorch columns show its fastest variant and its "
    "fastest deterministic variant. The ratio is to the fastest one; the share is relative to the fastest product above. "
    "Modelled: the time that the counts of docs/kernel-costs.md allow if nothing waits."
)
ROWS = "GB/s count the minimum traffic of an operation. The share is relative to the rate of a copy of the same matrix."
STEPS = (
    "Times include the work of the host. `first_steps` are the first step of each shape, per step: they include the choice of an algorithm "
    "for each product, the loading of kernels and the first allocations. `sst2`: the program's model, batches of 32 texts about as long as SST-2's, which "
    "PyTorch pads; `encoder`: twelve layers of BERT-base's size."
)


def lines_of(path):
    if not path.exists():
        return []
    found = []
    for line in path.read_text(errors="replace").splitlines():
        try:
            found.append(json.loads(line))
        except ValueError:  # the last one may be cut off
            continue
    return found


def text_of(path, otherwise=NOTHING):
    return path.read_text(errors="replace").strip() if path.exists() else otherwise


def shown(seconds):
    if seconds is None:
        return NOTHING
    return f"{seconds * 1e6:.1f} µs" if seconds < 1e-3 else f"{seconds * 1e3:.2f} ms"


def ratio(theirs, ours):
    return f"{theirs / ours:.2f}" if theirs and ours else NOTHING


def percent(part, whole):
    return f"{100 * part / whole:.0f} %" if part and whole else NOTHING


def number(rate, unit):
    if not rate:
        return NOTHING
    return f"{rate / unit:.0f}" if rate >= 100 * unit else f"{rate / unit:.1f}"


def seconds_of(peer):
    return peer and peer["seconds"]


def paragraph(text):
    return textwrap.fill(text, 120)


def table(*head):
    return ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]


def row(*cells):
    return "| " + " | ".join(cells) + " |"


class Results:
    def __init__(self, work):
        heddle = [line for part in PARTS for line in lines_of(work / f"{part}.jsonl")]
        peers = lines_of(work / "pytorch.jsonl")
        self.machine = next((line for line in heddle if "gpu" in line), {})
        self.versions = next((line for line in peers if "torch" in line), {})
        self.heddle = {line["name"]: line for line in heddle if "name" in line}
        self.peers = [line for line in peers if "name" in line]
        cases = [line for part in PARTS for line in lines_of(work / f"{part}.cases")]
        self.cases = {line["name"]: line for line in cases} or self.heddle
        self.gpu = self.machine.get("gpu", "unknown GPU")
        self.stages = text_of(work / "stages.txt", "").splitlines()

    def names(self, begin):
        known = {name: None for name in (*self.cases, *(peer["name"] for peer in self.peers))}
        return [name for name in known if name.startswith(begin)]

    def ours(self, name, what="seconds"):
        return self.heddle.get(name, {}).get(what)

    def theirs(self, name, accept=lambda peer: True):
        """Returns the fastest of PyTorch's variants that `accept` accepts, or None."""
        found = [peer for peer in self.peers if peer["name"] == name and "seconds" in peer and accept(peer)]
        return min(found, key=lambda peer: peer["seconds"], default=None)

    def rate(self, name, cost):
        """Returns the work per second: the benchmark's flops or bytes, divided by its seconds."""
        seconds, amount = self.ours(name), self.cases.get(name, {}).get(cost)
        return amount / seconds if seconds and amount else None

    def copying(self, size):
        return self.rate(f"copy/{size}", "bytes")

    def peak(self):
        return max((rate for name in self.names("peak/") if (rate := self.rate(name, "flops"))), default=None)


def limits(r):
    lines = ["## Limits, measured in the same run", "", *table("what", "time", "rate")]
    for name in r.names("copy/"):
        rate = r.rate(name, "bytes")
        said = f"{rate / 1e9:.0f} GB/s read and written" if rate else NOTHING
        lines.append(row(f"copy of {int(name[5:]) / 1e6:.1f} MB", shown(r.ours(name)), said))
    for name in r.names("peak/"):
        rate = r.rate(name, "flops")
        said = f"{rate / 1e12:.0f} TFLOP/s" if rate else NOTHING
        lines.append(row("product " + name[5:], shown(r.ours(name)), said))
        if peer := r.theirs(name):
            lines.append(row("the same in PyTorch", shown(peer["seconds"]), ""))
    return lines


def attention(r):
    lines = ["## Attention, bf16", "", paragraph(ATTENTION), "",
             *table("work", "heddle", "modelled", "PyTorch", "deterministic", "ratio", "TFLOP/s", "share", "goal on an H200")]
    costs = json.loads(text_of(COSTS, "{}")).get("model", [])
    for name in r.names("attention/"):
        ways = r.theirs(name), r.theirs(name, lambda p: p.get("deterministic"))
        if not name.endswith("backward"):
            ways = ways[0], None  # the forward pass alone has no atomic sums
        said = [f"{shown(way['seconds'])} ({way['peer']})" if way else NOTHING for way in ways]
        if not name.endswith("backward"):
            said[1] = ""
        rate, ours = r.rate(name, "flops"), r.ours(name)
        model = kernel_model.modelled(costs, r.gpu, name)
        lines.append(row(name[10:], shown(ours), shown(model) if model else "", *said, ratio(seconds_of(ways[0]), ours), number(rate, 1e12),
                         percent(rate, r.peak()), shown(GOALS[name]) if name in GOALS else ""))
    lines += ["", "All variants of PyTorch:", "", *table("work", "variant", "computes padding", "time, or reason for none")]
    for peer in r.peers:
        if peer["name"].startswith("attention/"):
            said = shown(peer["seconds"]) if "seconds" in peer else peer["refused"].replace("|", "/")
            lines.append(row(peer["name"][10:], peer["peer"], "yes" if peer.get("padded") else "no", said))
    return lines


def rows(r):
    lines = ["## Rows: LayerNorm, GELU, softmax", "", paragraph(ROWS), "",
             *table("work", "heddle", "PyTorch", "ratio", "GB/s", "share")]
    for name in (n for op in ("layer_norm/", "gelu/", "softmax/") for n in r.names(op)):
        rate, ours, theirs = r.rate(name, "bytes"), r.ours(name), seconds_of(r.theirs(name))
        share = percent(rate, r.copying(r.cases.get(name, {}).get("copy")))
        lines.append(row(name, shown(ours), shown(theirs), ratio(theirs, ours), number(rate, 1e9), share))
    return lines


def linear(r):
    lines = ["## Linear: rows x out x in", "",
             *table("work", "heddle", "PyTorch", "ratio", "TFLOP/s", "share of bf16's limit")]
    for name in r.names("linear/"):
        rate, ours, theirs = r.rate(name, "flops"), r.ours(name), seconds_of(r.theirs(name))
        share = percent(rate, r.peak()) if "/bf16/" in name else ""
        lines.append(row(name[7:], shown(ours), shown(theirs), ratio(theirs, ours), number(rate, 1e12), share))
    return lines


def steps(r):
    lines = ["## Training steps", "", paragraph(STEPS), "",
             *table("work", "heddle", "PyTorch, eager", "PyTorch, compiled", "ratio to eager", "ratio to compiled")]
    for name in [n for n in r.names("") if n.endswith(("/step", "/first_steps"))]:
        if name.endswith("/first_steps"):
            lines.append(row(name, shown(r.ours(name)), "", "", "", ""))
            continue
        peers = [r.theirs(name, lambda p, kind=kind: p["peer"].startswith(kind)) for kind in ("eager", "compiled")]
        times, ours = [seconds_of(peer) for peer in peers], r.ours(name)
        lines.append(row(name, shown(ours), *map(shown, times), *(ratio(t, ours) for t in times)))
    return lines
