"""Training steps in PyTorch, as gpu.py times them: eager, and compiled."""

import math

import torch
import torch.nn.functional as F
from gpu_timer import Work
from sst2_model import Classifier, Config
from torch import nn


def sst2_batch(number):
    """Returns a padded batch of the texts of bench/gpu_steps.hpp: ids [B, T], a mask [B, T] of real tokens, labels [B]."""
    lengths = [4 + int(-10 * math.log(1 - (i * 7919 + 13) % 997 / 997)) for i in range(32 * number, 32 * number + 32)]
    ids, token = torch.zeros(32, max(lengths), dtype=torch.long), 0
    for row, length in enumerate(lengths):
        ids[row, :length] = torch.arange(token, token + length) * 104729 % 28996
        token += length
    return ids, torch.arange(max(lengths)) < torch.tensor(lengths)[:, None], torch.arange(32) % 2


def sst2_step(device, **compile):
    model = Classifier(Config(attention="sdpa")).to(device).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-3, fused=True)
    data, count = [sst2_batch(b) for b in range(8)], [0]
    loss_of = lambda ids, real, labels: F.cross_entropy(model(ids, real), labels)  # noqa: E731
    if compile:
        loss_of = torch.compile(loss_of, **compile)

    def step():
        batch = [x.to(device) for x in data[count[0] % len(data)]]
        count[0] += 1
        loss = loss_of(*batch)
        assert math.isfinite(loss.item())
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()

    return warm(step, len(data))


def encoder_step(device, small, b, s, **compile):
    depth, width, heads = (1, 32, 2) if small else (12, 768, 12)
    layer = nn.TransformerEncoderLayer(width, heads, 4 * width, 0.1, "gelu", 1e-12, batch_first=True)
    model = nn.TransformerEncoder(layer, depth, enable_nested_tensor=False).to(device).train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3, fused=True)
    x, dy = (torch.randn(b, s, width, device=device) for _ in range(2))
    run = torch.compile(model, **compile) if compile else model

    def step():
        with torch.autocast(device, dtype=torch.bfloat16):
            y = run(x)
        y.backward(dy.to(y.dtype))
        optimizer.step()
        optimizer.zero_grad()

    return warm(step, 1)


def warm(step, rounds):
    for _ in range(2 * rounds):
        step()
    return step


def steps(device, small):
    yield Work("sst2/fp32/step", "eager", lambda: sst2_step(device), step=True, padded=True)
    for b in (8, 32):
        yield Work(f"encoder/bf16/{b}x128/step", "eager", lambda b=b: encoder_step(device, small, b, 128), step=True)


def compiled(device, small):
    sst2, encoder = "sst2/fp32/step", "encoder/bf16/{}x128/step"
    yield Work(sst2, "compiled", lambda: sst2_step(device, dynamic=True), step=True, padded=True)
    for b in (8, 32):
        make = lambda b=b: encoder_step(device, small, b, 128, dynamic=False)  # noqa: E731
        yield Work(encoder.format(b), "compiled", make, step=True)
    make = lambda: sst2_step(device, mode="reduce-overhead")  # noqa: E731
    yield Work(sst2, "compiled reduce-overhead", make, step=True, padded=True)
