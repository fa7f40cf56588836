#!/usr/bin/env python3
"""Measures in PyTorch on a GPU the work that bench/cuda_bench measures in heddle. Prints one JSON object per line: first the versions,
then for each benchmark its name, the variant in PyTorch (`peer`), and the times under the names that cuda_bench uses, or
the reason why it was `refused`.

    bench/peers/gpu.py [--filter TEXT] [--seconds N]    starts no benchmark after N seconds
    bench/peers/gpu.py --device cpu                     runs every eager benchmark, all but sst2 with smaller sizes; times a single call

Attention is scaled_dot_product_attention with each of its backends. Texts of full length need no mask. Texts whose lengths
average 3/4 of the full length are padded, with a mask of keys (`padded`; the padding is computed, too). The backends flash and
cudnn are also timed on nested tensors, without padding.
"""

import argparse
import json
import math
import sys
import time
import warnings
from pathlib import Path

import torch
import torch.nn.functional as F

sys.path.insert(0, str(Path(__file__).resolve().parent))
from gpu_attention import attention  # noqa: E402
from gpu_steps import compiled, steps  # noqa: E402
from gpu_timer import Timer, Work  # noqa: E402

TYPES = {"bf16": torch.bfloat16, "fp32": torch.float32}


class Operations:
    def __init__(self, device):
        self.device, self.small = device, device == "cpu"

    def normal(self, *shape, dtype):
        return torch.randn(*shape, device=self.device).to(dtype)

    def all(self):
        n = 64 if self.small else 4096
        yield Work("peak/bf16/8192x8192x8192", "eager", self.peak)
        for name, dtype in TYPES.items():
            for rows in (n, 4 * n):
                for op in ("layer_norm", "gelu", "softmax"):
                    make = lambda way, op=op, rows=rows, t=dtype: self.of_rows(op, rows, 768, t, way)  # noqa: E731
                    yield from self.both_ways(f"{op}/{name}/{rows}x768", make)
            for out, width in ((768, 768), (2304, 768), (3072, 768), (768, 3072)):
                make = lambda way, out=out, width=width, t=dtype: self.linear(n, out, width, t, way)  # noqa: E731
                yield from self.both_ways(f"linear/{name}/{n}x{out}x{width}", make)

    @staticmethod
    def both_ways(name, make):
        for way in ("forward", "forward_backward"):
            yield Work(f"{name}/{way}", "eager", lambda w=way: make(w))

    def peak(self):
        n = 64 if self.small else 8192
        a, b = (self.normal(n, n, dtype=torch.bfloat16) for _ in range(2))
        return lambda: a @ b

    def of_rows(self, op, n, d, dtype, way):
        x, weight, bias = self.normal(n, d, dtype=dtype), *(self.normal(d, dtype=dtype) for _ in range(2))
        if op == "layer_norm":
            return self.call(lambda: F.layer_norm(x, (d,), weight, bias), [x, weight, bias], way)
        return self.call((lambda: F.gelu(x)) if op == "gelu" else (lambda: x.softmax(-1)), [x], way)

    def linear(self, n, out, width, dtype, way):
        x, weight, bias = (self.normal(*shape, dtype=dtype) for shape in ((n, width), (out, width), (out,)))
        return self.call(lambda: F.linear(x, weight, bias), [x, weight, bias], way)

    @staticmethod
    def call(f, leaves, way):
        if way == "forward":
            return torch.inference_mode()(f)
        for x in leaves:
            x.requires_grad_()
        dy = torch.randn_like(f())

        def run():
            f().backward(dy)
            for x in leaves:
                x.grad = None

        return run


def everything(device):
    small = device == "cpu"
    yield from steps(device, small)
    yield from attention(device, small)
    yield from Operations(device).all()
    if not small:
        yield from compiled(device, small)  # last: it takes long


def measured(work, timer):
    """Returns the times, or the reason why there are none. PyTorch reports in warnings why a backend refused the work."""
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        try:
            call = work.make()
            times = {} if work.step else {"seconds": timer.alone(call)}
            times["in_a_row"] = timer.in_a_row(call)
            return {"seconds": times["in_a_row"], **times}
        except Exception as error:  # the other benchmarks still run after any error
            reasons = [str(w.message).split("(Triggered")[0].strip() for w in said]
            told = [r for r in reasons if "attention" in r.lower() and "because" not in r and "disabled" not in r]
            return {"refused": (told or [str(error)])[-1].split("\n")[0][:300]}


def versions(device):
    cudnn = torch.backends.cudnn.version() if device == "cuda" else None
    return {"torch": torch.__version__, "cuda": torch.version.cuda, "cudnn": cudnn}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only benchmarks whose name contains this text")
    parser.add_argument("--seconds", type=float, default=math.inf, help="start no benchmark after this many seconds")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    options = parser.parse_args()
    if options.device == "cuda" and not torch.cuda.is_available():
        sys.exit("gpu.py: PyTorch sees no GPU")
    torch.manual_seed(1)
    begun, timer = time.monotonic(), Timer(options.device)
    print(json.dumps(versions(options.device)), flush=True)
    for work in everything(options.device):
        if options.filter not in work.name:
            continue
        line = {"name": work.name, "peer": work.peer, **work.facts}
        late = time.monotonic() - begun > options.seconds
        print(json.dumps({**line, **({"refused": "no time was left"} if late else measured(work, timer))}), flush=True)


if __name__ == "__main__":
    main()
