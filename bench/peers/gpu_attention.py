"""Attention in PyTorch, as gpu.py times it: scaled_dot_product_attention with each of its backends."""

import torch
import torch.nn.functional as F
from gpu_timer import Work
from torch.nn.attention import SDPBackend, sdpa_kernel

BACKENDS = {
    "flash": SDPBackend.FLASH_ATTENTION,
    "efficient": SDPBackend.EFFICIENT_ATTENTION,
    "cudnn": SDPBackend.CUDNN_ATTENTION,
    "math": SDPBackend.MATH,
}


class Case:
    """B texts with H heads of width K, the longest with S tokens. If `full`, all texts have S tokens; otherwise 3/4 of S on average."""

    def __init__(self, device, small, s, full, dropout, backward):
        self.device, self.full, self.dropout, self.backward = device, full, dropout, backward
        self.b, self.h, self.s, self.k = (3, 2, 16, 8) if small else (32, 12, s, 64)

    @property
    def name(self):
        words = ["attention", f"{self.b}x{self.h}x{self.s}x{self.k}", "full" if self.full else "lengths"]
        words += ["dropout"] if self.dropout else []
        return "/".join([*words, "forward_backward" if self.backward else "forward"])

    def lengths(self):
        shares = [0 if self.full else i / (self.b - 1) for i in range(self.b)]
        return [max(1, int(self.s * (1 - 0.5 * share) + 0.5)) for share in shares]

    def normal(self, *shape):
        return torch.randn(*shape, device=self.device).to(torch.bfloat16)

    def inputs(self, *shape):
        return [self.normal(*shape).requires_grad_(self.backward) for _ in range(3)]

    def padded(self, backend, deterministic):
        """Returns the call on padded rows, with a mask of keys if there is padding. The padding is computed, too."""
        leaves = self.inputs(self.b, self.s, self.h, self.k)
        dy = self.normal(self.b, self.s, self.h, self.k).transpose(1, 2)
        lengths = torch.tensor(self.lengths(), device=self.device)
        mask = None if self.full else (torch.arange(self.s, device=self.device) < lengths[:, None])[:, None, None]

        def y():
            q, k, v = (x.transpose(1, 2) for x in leaves)  # [B, H, T, K]
            return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, dropout_p=self.dropout)

        return self.call(y, leaves, dy, backend, deterministic)

    def nested(self, backend, deterministic):
        """Returns the call on nested tensors, which have no padding."""
        lengths = self.lengths()
        ends = torch.tensor([0, *lengths], device=self.device).cumsum(0)
        leaves, dy = self.inputs(sum(lengths), self.h, self.k), self.normal(sum(lengths), self.h, self.k)

        def jagged(x):
            made = torch.nested.nested_tensor_from_jagged(x, ends, min_seqlen=min(lengths), max_seqlen=max(lengths))
            return made.transpose(1, 2)

        def y():
            q, k, v = (jagged(x) for x in leaves)
            return F.scaled_dot_product_attention(q, k, v, dropout_p=self.dropout).transpose(1, 2).values()

        return self.call(y, leaves, dy, backend, deterministic)

    def call(self, y, leaves, dy, backend, deterministic):
        def run():
            torch.use_deterministic_algorithms(deterministic)
            try:
                with sdpa_kernel([backend]), torch.set_grad_enabled(self.backward):
                    result = y()
                if self.backward:
                    result.backward(dy)
                    for x in leaves:
                        x.grad = None
            finally:
                torch.use_deterministic_algorithms(False)

        return run


def attention(device, small):
    for s in (16,) if small else (512, 128, 2048):
        for full in (False, True):
            for dropout in (0.1, 0.0):
                for backward in (False, True):
                    yield from ways(Case(device, small, s, full, dropout, backward))


def ways(case):
    """Yields the case with each backend. The deterministic backward is timed only for texts of different lengths."""
    for kind, backend in BACKENDS.items():
        both = case.backward and not case.full and kind != "math"
        for deterministic in (False, True) if both else (False,):
            end = " deterministic" if deterministic else ""
            chosen = {"backend": backend, "deterministic": deterministic}
            padded = lambda c=chosen: case.padded(**c)  # noqa: E731
            nested = lambda c=chosen: case.nested(**c)  # noqa: E731
            yield Work(case.name, kind + end, padded, padded=not case.full, deterministic=deterministic)
            if not case.full and kind in ("flash", "cudnn"):
                yield Work(case.name, f"{kind} nested{end}", nested, padded=False, deterministic=deterministic)
