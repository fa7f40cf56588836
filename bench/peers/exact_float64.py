"""Lets models of transformers compute in float64 what they round to float32: rotations, their cosines and sines, and softmax of ModernBERT,
NomicBERT and GTE, and the scale of DeBERTa's scores. Frequencies and angles stay in float32; PyTorch's powers in float32 may be wrong in
the last bit, so they are rounded from float64 here.
"""

import contextlib

import torch
from transformers.models.deberta_v2 import modeling_deberta_v2 as deberta
from transformers.models.gte import modeling_gte as gte
from transformers.models.modernbert import modeling_modernbert as modern
from transformers.models.nomic_bert import modeling_nomic_bert as nomic


def tables(self, x, position_ids, layer_type=None):
    """Replaces forward of ModernBertRotaryEmbedding, NomicBertRotaryEmbedding and GteRotaryEmbedding."""
    K = self.config.hidden_size // self.config.num_attention_heads
    exponents = (torch.arange(0, K, 2, dtype=torch.float) / K).double()
    rope = self.config.rope_parameters if layer_type is None else self.config.rope_parameters[layer_type]
    frequencies = 1.0 / (rope["rope_theta"] ** exponents).float() / rope.get("factor", 1.0)
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


def scale(query, factor):
    """Replaces scaled_size_sqrt."""
    return torch.tensor(query.shape[-1] * factor, dtype=query.dtype).sqrt()


EXACT = {
    (deberta, "scaled_size_sqrt"): scale,
    (modern, "apply_rotary_pos_emb"): rotated,
    (modern, "eager_attention_forward"): attention,
    (modern.ModernBertRotaryEmbedding, "forward"): tables,
    (nomic.NomicBertRotaryEmbedding, "forward"): tables,
    (gte.GteRotaryEmbedding, "forward"): tables,
}


@contextlib.contextmanager
def exact_float64(dtype):
    """Replaces the functions of transformers for models in float64, until the block ends."""
    before = {place: getattr(*place) for place in EXACT} if dtype == torch.float64 else {}
    for place in before:
        setattr(*place, EXACT[place])
    try:
        yield
    finally:
        for place, function in before.items():
            setattr(*place, function)
