"""heddle's pre-norm encoder (include/heddle/models/pre_norm.hpp) in PyTorch, with the same names of parameters."""

import json
import os
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import nn
from training import save_weights


@dataclass
class Config:
    vocab_size: int = 30522
    d_model: int = 768
    layers: int = 12
    heads: int = 12
    ff_width: int = 3072
    max_length: int = 512
    classes: int = 2
    embedding_dropout: float = 0.5
    dropout: float = 0.1


class Head(nn.Module):
    def __init__(self, d_model, width):
        super().__init__()
        self.q, self.k, self.v = (nn.Linear(d_model, width) for _ in range(3))

    def forward(self, x, real):  # [B, T, D], [B, T]
        return F.scaled_dot_product_attention(self.q(x), self.k(x), self.v(x), attn_mask=real[:, None, :])


class Attention(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.heads = nn.ModuleList(Head(c.d_model, c.d_model // c.heads) for _ in range(c.heads))
        self.output_linear = nn.Linear(c.d_model, c.d_model)

    def forward(self, x, real):
        return self.output_linear(torch.cat([head(x, real) for head in self.heads], -1))


class FeedForward(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.linear1 = nn.Linear(c.d_model, c.ff_width)
        self.linear2 = nn.Linear(c.ff_width, c.d_model)
        self.dropout = nn.Dropout(c.dropout)

    def forward(self, x):
        return self.dropout(self.linear2(F.gelu(self.linear1(x))))


class Layer(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.layer_norm_1 = nn.LayerNorm(c.d_model)
        self.layer_norm_2 = nn.LayerNorm(c.d_model)
        self.attention = Attention(c)
        self.feed_forward = FeedForward(c)

    def forward(self, x, real):
        x = x + self.attention(self.layer_norm_1(x), real)
        return x + self.feed_forward(self.layer_norm_2(x))


class Embeddings(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.token_embeddings = nn.Embedding(c.vocab_size, c.d_model)
        self.position_embeddings = nn.Embedding(c.max_length, c.d_model)
        self.layer_norm = nn.LayerNorm(c.d_model, eps=1e-12)
        self.dropout = nn.Dropout(c.embedding_dropout)

    def forward(self, ids):  # [B, T]
        positions = torch.arange(ids.shape[1])
        return self.dropout(self.layer_norm(self.token_embeddings(ids) + self.position_embeddings(positions)))


class Encoder(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.embeddings = Embeddings(c)
        self.layers = nn.ModuleList(Layer(c) for _ in range(c.layers))

    def forward(self, ids, real):
        x = self.embeddings(ids)
        for layer in self.layers:
            x = layer(x, real)
        return x


class Classifier(nn.Module):
    def __init__(self, c):
        super().__init__()
        self.encoder = Encoder(c)
        self.dropout = nn.Dropout(c.dropout)
        self.classifier = nn.Linear(c.d_model, c.classes)

    def forward(self, ids, real):  # [B, T] token ids, [B, T] true where a token is real
        return self.classifier(self.dropout(self.encoder(ids, real)[:, 0]))  # [B, C]


def save_folder(folder, model, c):
    """Writes a folder that heddle can open. The caller adds the tokenizer's files."""
    os.makedirs(folder, exist_ok=True)
    save_weights(model, os.path.join(folder, "model.safetensors"))
    config = {
        "model_type": "heddle-prenorm",
        "vocab_size": c.vocab_size,
        "hidden_size": c.d_model,
        "num_hidden_layers": c.layers,
        "num_attention_heads": c.heads,
        "intermediate_size": c.ff_width,
        "max_position_embeddings": c.max_length,
        "embedding_dropout_prob": c.embedding_dropout,
        "hidden_dropout_prob": c.dropout,
        "num_labels": c.classes,
    }
    with open(os.path.join(folder, "config.json"), "w", encoding="utf-8") as file:
        json.dump(config, file)
