"""Lets transformers' ModernBERT compute in float64 what it rounds to float32: rotations, their cosines and sines, and softmax. Frequencies
and angles stay in float32; PyTorch's powers in float32 may be wrong in the last bit, so they are rounded from float64 here.
"""

import contextlib

import torch
from transformers.models.modernbert import modeling_modernbert as modern


def tables(self, x, position_ids, layer_type):
    """Replaces ModernBertRotaryEmbedding.forward."""
    K = self.config.hidden_size // self.config.num_attention_heads
    exponents = (torch.arange(0, K, 2, dtype=torch.float) / K).double()
    frequencies = 1.0 / (self.config.rope_parameters[layer_type]["rope_theta"] ** exponents).float()
    angles = (position_ids[..., None].float() * frequencies).double()
    angles = torch.cat((angles, angles), -1)
    return angles.cos().to(x.dtype), angles.sin().to(x.dtype)


def rotated(q, k, cos, sin, unsqueeze_dim=1):
    """Replaces apply_rotary_pos_emb."""
    cos, sin = cos.unsqueeze(unsqueeze_dim), sin.unsqueeze(unsqueeze_dim)
    return tuple(x * cos + modern.rotate_half(x) * sin for x in (q, k))


def attention(module, query, key, value, attention_mask, scaling, dropout=0.0, **kwargs):
    """Replaces eager_attention_forward."""
    weights = query @ key.transpose(2, 3) * scaling
    if attention_mask is not None:
        weights = weights + attention_mask
    weights = torch.nn.functional.dropout(weights.softmax(-1), dropout, module.training)
    return (weights @ value).transpose(1, 2).contiguous(), weights


@contextlib.contextmanager
def exact_modernbert(dtype):
    """Replaces the functions of transformers for models in float64, until the block ends."""
    exact = {"apply_rotary_pos_emb": rotated, "eager_attention_forward": attention} if dtype == torch.float64 else {}
    before = {name: getattr(modern, name) for name in exact}, modern.ModernBertRotaryEmbedding.forward
    for name, function in exact.items():
        setattr(modern, name, function)
    if exact:
        modern.ModernBertRotaryEmbedding.forward = tables
    try:
        yield
    finally:
        for name, function in before[0].items():
            setattr(modern, name, function)
        modern.ModernBertRotaryEmbedding.forward = before[1]
