"""Parts of models that more than one peer uses."""

import math

import torch
import torch.nn.functional as F


def sinusoidal_table(length, width):
    """Returns the sinusoidal position encodings of Vaswani et al. (2017), float32 [L, D]."""
    position = torch.arange(length)[:, None]
    rate = torch.exp(torch.arange(0, width, 2) * (-math.log(10000.0) / width))
    table = torch.zeros(length, width)
    table[:, 0::2] = torch.sin(position * rate)
    table[:, 1::2] = torch.cos(position * rate)[:, : width // 2]
    return table


def attend(q, k, v, real, heads, kind="eager"):  # [B, T, H*K] three times, [B, T] true where a token is real
    """Returns masked multi-head attention [B, T, H*K]. `kind` is "eager" or "sdpa" (scaled_dot_product_attention)."""
    q, k, v = (x.unflatten(-1, (heads, -1)).transpose(1, 2) for x in (q, k, v))  # [B, H, T, K]
    keys = real[:, None, None, :]  # [B, 1, 1, T]
    if kind == "sdpa":
        y = F.scaled_dot_product_attention(q, k, v, attn_mask=keys)
    else:
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # [B, H, T, T]
        y = scores.masked_fill(~keys, -math.inf).softmax(-1) @ v
    return y.transpose(1, 2).flatten(2)
