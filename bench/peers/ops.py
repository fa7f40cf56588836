#!/usr/bin/env python3
"""Times in PyTorch what bench/ops times in heddle. Prints one JSON object that maps the name of each benchmark to the
median seconds of its calls.

    bench/peers/ops.py [--filter TEXT] [--threads N] [--seconds S] [--calls N] [--serve]

With --serve it first prints {"torch": version, "names": [...]}. Then it reads one name a line from standard input and
answers each with a line {"seconds": median}.

Attention takes padded batches and a mask of keys through scaled_dot_product_attention, which computes padding. The
encoder is torch.nn.TransformerEncoder, which uses its own fused path in inference.
"""

import argparse
import json
import statistics
import sys
import time

import torch
import torch.nn.functional as F
from torch import nn

LAYERS, WIDTH, HEADS = 12, 768, 12


def median(call, seconds, calls):
    call()
    times = []
    while len(times) < calls or sum(times) < seconds:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def quiet(call):
    def run():
        with torch.inference_mode():
            call()

    return run


def linear(dtype, n, out, width):
    x, weight, bias = (torch.randn(*s).to(dtype) for s in ((n, width), (out, width), (out,)))
    return quiet(lambda: F.linear(x, weight, bias))


def forward(f, n, d):
    x = torch.randn(n, d)
    return quiet(lambda: f(x))


def forward_backward(f, n, d):
    x, dy = torch.randn(n, d, requires_grad=True), torch.randn(n, d)

    def run():
        f(x).backward(dy)
        x.grad = None

    return run


def attention(b, h, s, k, fill, dropout, backward):
    lengths = [max(1, int(s * (1 - 2 * (1 - fill) * (i / (b - 1) if b > 1 else 0)) + 0.5)) for i in range(b)]
    mask = (torch.arange(s)[None] < torch.tensor(lengths)[:, None])[:, None, None]  # [B, 1, 1, T]
    q, key, v = (torch.randn(b, h, s, k, requires_grad=backward) for _ in range(3))
    dy = torch.randn(b, h, s, k)

    def run():
        y = F.scaled_dot_product_attention(q, key, v, attn_mask=mask, dropout_p=dropout)
        if backward:
            y.backward(dy)
            q.grad = key.grad = v.grad = None

    return run if backward else quiet(run)


def encoder(dropout):
    layer = nn.TransformerEncoderLayer(WIDTH, HEADS, 4 * WIDTH, dropout, "gelu", 1e-12, batch_first=True)
    return nn.TransformerEncoder(layer, LAYERS, enable_nested_tensor=False)


def encoder_forward(dtype, b, s):
    model, x = encoder(0.1).eval(), torch.randn(b, s, WIDTH)

    def run():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            model(x)

    return quiet(run)


def encoder_step(dtype, b, s):
    model, x, dy = encoder(0.1).train(), torch.randn(b, s, WIDTH), torch.randn(b, s, WIDTH)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)

    def run():
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=dtype == torch.bfloat16):
            y = model(x)
        y.backward(dy.to(y.dtype))
        optimizer.step()
        optimizer.zero_grad()

    return run


def cases():
    types = {"fp32": torch.float32, "bf16": torch.bfloat16}
    for n, out, width in ((4096, 768, 768), (4096, 3072, 768), (448, 64, 64), (448, 256, 64)):
        for name, dtype in types.items():
            yield f"linear/{name}/{n}x{out}x{width}", lambda: linear(dtype, n, out, width)
    for n, d in ((4096, 768), (16384, 64)):
        weight, bias = (torch.randn(d, requires_grad=True) for _ in range(2))
        ops = {
            "layer_norm": lambda x: F.layer_norm(x, (d,), weight, bias),
            "gelu": F.gelu,
            "softmax": lambda x: F.softmax(x, -1),
        }
        for op, f in ops.items():
            yield f"{op}/{n}x{d}/forward", lambda: forward(f, n, d)
            yield f"{op}/{n}x{d}/forward_backward", lambda: forward_backward(f, n, d)
    for b, h, s, k in ((8, 12, 128, 64), (4, 12, 512, 64), (32, 4, 38, 16)):
        for dropout in (0.0, 0.1):
            for backward in (False, True):
                name = f"attention/{b}x{h}x{s}x{k}{'/dropout' if dropout else ''}/forward{'_backward' if backward else ''}"
                yield name, lambda: attention(b, h, s, k, 0.75, dropout, backward)
    for b, s in ((8, 128), (4, 512), (1, 21)):
        for name, dtype in types.items():
            yield f"encoder/{name}/{b}x{s}/forward", lambda: encoder_forward(dtype, b, s)
    for name, dtype in types.items():
        yield f"encoder/{name}/8x128/step", lambda: encoder_step(dtype, 8, 128)


def serve(options):
    print(json.dumps({"torch": torch.__version__, "names": [name for name, _ in cases()]}), flush=True)
    for line in sys.stdin:
        # make() reads the loop variables of cases(), so it must be called before the next case.
        for name, make in cases():
            if name == line.strip():
                print(json.dumps({"seconds": median(make(), options.seconds, options.calls)}), flush=True)
                break
        else:
            sys.exit(f"no benchmark is named {line.strip()!r}")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filter", default="", help="only benchmarks whose name contains this text")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seconds", type=float, default=0.5, help="minimum seconds for each benchmark")
    parser.add_argument("--calls", type=int, default=7, help="minimum number of calls of each benchmark")
    parser.add_argument("--serve", action="store_true", help="read names of benchmarks from standard input and time them one by one")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    torch.manual_seed(1)
    if options.serve:
        serve(options)
        return
    times = {name: median(make(), options.seconds, options.calls) for name, make in cases() if options.filter in name}
    print(json.dumps(times))


if __name__ == "__main__":
    main()
