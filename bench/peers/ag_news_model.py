"""The ag_news classifier in PyTorch, with the same names of parameters. It is the float64 reference and the timed peer.

Self-attention, without a residual connection, over BERT's embedding layer, which is frozen unless train_embeddings is set. Batches are
padded; a key mask keeps padding out.
"""

import os
from dataclasses import dataclass

import torch
from layers import attend
from safetensors.torch import load_file
from torch import nn


@dataclass
class Config:
    vocab_size: int = 28996
    max_length: int = 512  # the [CLS] included
    token_types: int = 2
    d_model: int = 768
    heads: int = 1
    classes: int = 4
    train_embeddings: bool = False
    attention: str = "eager"  # or "sdpa": scaled_dot_product_attention


class Embeddings(nn.Module):
    """BERT's embedding layer; every token is of type 0. Initialized as in BERT: normal with standard deviation 0.02."""

    def __init__(self, c):
        super().__init__()
        self.word_embeddings = nn.Embedding(c.vocab_size, c.d_model)
        self.position_embeddings = nn.Embedding(c.max_length, c.d_model)
        self.token_type_embeddings = nn.Embedding(c.token_types, c.d_model)
        self.LayerNorm = nn.LayerNorm(c.d_model, eps=1e-12)
        for table in (self.word_embeddings, self.position_embeddings, self.token_type_embeddings):
            nn.init.normal_(table.weight, std=0.02)

    def forward(self, ids):  # [B, T]
        fixed = self.position_embeddings.weight[: ids.shape[1]] + self.token_type_embeddings.weight[0]
        return self.LayerNorm(self.word_embeddings(ids) + fixed)  # [B, T, D]


class Embedder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embeddings = Embeddings(c)

    def forward(self, ids):
        return self.embeddings(ids)


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads, self.kind = c.heads, c.attention
        self.fc_q = nn.Linear(c.d_model, c.d_model)
        self.fc_k = nn.Linear(c.d_model, c.d_model)
        self.fc_v = nn.Linear(c.d_model, c.d_model)
        self.fc_o = nn.Linear(c.d_model, c.d_model)

    def forward(self, x, real):  # [B, T, D], [B, T]
        return self.fc_o(attend(self.fc_q(x), self.fc_k(x), self.fc_v(x), real, self.heads, self.kind))


class Classifier(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embedder = Embedder(c).requires_grad_(c.train_embeddings)
        self.attn = Attention(c)
        self.classifier_head = nn.Linear(c.d_model, c.classes)

    def forward(self, ids, real):  # [B, T] token ids, [B, T] true where a token is real
        return self.classifier_head(self.attn(self.embedder(ids), real)[:, 0])  # [B, C]


def read_embeddings(folder):
    """Returns the tensors of the embedding layer of a Hugging Face BERT folder, under their names in Embeddings."""
    tensors = {}
    for name, tensor in load_file(os.path.join(folder, "model.safetensors")).items():
        _, found, rest = ("." + name).partition(".embeddings.")
        if found and rest != "position_ids":
            tensors[rest.replace("LayerNorm.gamma", "LayerNorm.weight").replace("LayerNorm.beta", "LayerNorm.bias")] = tensor
    return tensors
