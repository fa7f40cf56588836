"""The surnames classifier in PyTorch, the float64 reference and the timed peer. Its parameters and its buffer are named as in heddle.

One post-norm layer over a learned CLS row and a name's characters. A linear map classifies the CLS row. Batches are
padded; a key mask keeps padding out. The layer is OwnLayer or that of torch.nn.
"""

import math
import string
import unicodedata
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from layers import sinusoidal_table
from torch import nn

SYMBOLS = string.ascii_letters + " .,;'"  # an id is the index of a symbol
INDEX = {symbol: index for index, symbol in enumerate(SYMBOLS)}


def encode(name, max_length=64):
    """Returns the ids of a name without accents (by decomposition) and without unknown symbols. One position is left for the CLS."""
    ids = [INDEX[c] for c in unicodedata.normalize("NFD", name) if c in INDEX]
    return ids[: max_length - 1]


@dataclass
class Config:
    max_length: int = 64  # the CLS included
    d_model: int = 64
    ff_width: int = 64
    classes: int = 18
    dropout: float = 0.1
    layer: str = "own"  # or "library"


class PositionalEncoding(nn.Module):
    def __init__(self, max_length, d_model):
        super().__init__()
        self.register_buffer("pe", sinusoidal_table(max_length, d_model)[:, None])  # [L, 1, D]

    def forward(self, x):  # [B, T, D]
        return x + self.pe[: x.shape[1], 0]


class OwnLayer(nn.Module):
    """Single-head attention without an output projection and without dropout; both sublayers share one LayerNorm."""

    def __init__(self, c):
        super().__init__()
        self.linear_q = nn.Linear(c.d_model, c.d_model)
        self.linear_k = nn.Linear(c.d_model, c.d_model)
        self.linear_v = nn.Linear(c.d_model, c.d_model)
        self.feed_forward_layer = nn.Sequential(
            nn.Linear(c.d_model, c.ff_width), nn.ReLU(), nn.Linear(c.ff_width, c.d_model)
        )
        self.layer_norm = nn.LayerNorm(c.d_model)

    def forward(self, x, real):  # [B, T, D], [B, T]
        q, k, v = self.linear_q(x), self.linear_k(x), self.linear_v(x)
        scores = q @ k.transpose(1, 2) / math.sqrt(q.shape[-1])  # [B, T, T]
        x = self.layer_norm(x + scores.masked_fill(~real[:, None], -math.inf).softmax(-1) @ v)
        return self.layer_norm(x + self.feed_forward_layer(x))


class LibraryLayer(nn.TransformerEncoderLayer):
    """torch.nn's layer: post-norm, ReLU, dropout in its four places."""

    def __init__(self, c):
        super().__init__(c.d_model, nhead=1, dim_feedforward=c.ff_width, dropout=c.dropout, batch_first=True)

    def forward(self, x, real):
        return super().forward(x, src_key_padding_mask=~real)


class Classifier(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.proj_layer = nn.Linear(len(SYMBOLS), c.d_model)
        self.cls_embedding_layer = nn.Embedding(1, c.d_model)
        self.pos_encoding = PositionalEncoding(c.max_length, c.d_model)
        self.encoder = {"own": OwnLayer, "library": LibraryLayer}[c.layer](c)
        self.classif = nn.Linear(c.d_model, c.classes)
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, ids, real):  # [B, T] symbols, [B, T] true where a symbol is real
        cls = self.cls_embedding_layer.weight
        x = self.proj_layer(F.one_hot(ids, len(SYMBOLS)).to(cls.dtype))
        x = torch.cat([cls.expand(len(ids), 1, -1), x], dim=1)  # [B, 1 + T, D]
        x = self.encoder(self.dropout(self.pos_encoding(x)), F.pad(real, (1, 0), value=True))
        return self.classif(x[:, 0])  # [B, C]
