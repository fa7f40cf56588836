"""The sst2 classifier in PyTorch, with the same names of parameters and buffer. It is the float64 reference and the timed peer.

A two-layer post-norm encoder; the output layer reads the first token. Batches are padded; a key padding mask keeps padding out.
"""

from dataclasses import dataclass

from layers import attend, sinusoidal_table
from torch import nn


@dataclass
class Config:
    vocab_size: int = 28996
    max_length: int = 512
    d_model: int = 64
    heads: int = 4
    head_dim: int = 16
    layers: int = 2
    ff_width: int = 256
    classes: int = 2
    dropout: float = 0.1
    attention: str = "eager"  # or "sdpa": scaled_dot_product_attention


class PositionalEncoding(nn.Module):
    def __init__(self, max_length, d_model):
        super().__init__()
        self.register_buffer("pe", sinusoidal_table(max_length, d_model)[None])  # [1, L, D]

    def forward(self, x):  # [B, T, D]
        return x + self.pe[:, : x.shape[1]]


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kind = c.heads, c.attention
        self.query = nn.Linear(c.d_model, c.heads * c.head_dim)
        self.key = nn.Linear(c.d_model, c.heads * c.head_dim)
        self.value = nn.Linear(c.d_model, c.heads * c.head_dim)
        self.out = nn.Linear(c.heads * c.head_dim, c.d_model)

    def forward(self, x, real):  # [B, T, D], [B, T]
        return self.out(attend(self.query(x), self.key(x), self.value(x), real, self.heads, self.kind))


class TransformerBlock(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.attention = Attention(c)
        self.norm1 = nn.LayerNorm(c.d_model)
        self.norm2 = nn.LayerNorm(c.d_model)
        self.ff = nn.Sequential(nn.Linear(c.d_model, c.ff_width), nn.GELU(), nn.Linear(c.ff_width, c.d_model))
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, x, real):
        x = self.norm1(x + self.attention(x, real))
        x = self.norm2(x + self.dropout(self.ff(x)))
        return self.dropout(x)


class Classifier(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embedding = nn.Embedding(c.vocab_size, c.d_model)
        self.pos_encoding = PositionalEncoding(c.max_length, c.d_model)
        self.transformer_blocks = nn.ModuleList(TransformerBlock(c) for _ in range(c.layers))
        self.norm = nn.LayerNorm(c.d_model)
        self.out = nn.Linear(c.d_model, c.classes)
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, ids, real):  # [B, T] token ids, [B, T] true where a token is real
        x = self.dropout(self.pos_encoding(self.embedding(ids)))
        for block in self.transformer_blocks:
            x = block(x, real)
        return self.out(self.norm(x[:, 0]))  # [B, C]
