"""Makes the cases of golden files: tensors that PyTorch computes, in the format of tests/golden/README.md."""

import math
import pathlib
import random
import sys

import torch

torch.set_num_threads(1)
DTYPES = {torch.float64: "f64", torch.int64: "i64", torch.bool: "bool"}


def text(value):
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(int(value))
    return repr(value)  # of a float: the shortest digits that read back to the same double


class Golden:
    """Collects the cases of the file; `draw` generates the random numbers of the current case."""

    def __init__(self):
        self.lines = []
        self.seen = set()
        self.draw = None

    def case(self, op, label, **options):
        assert (op, label) not in self.seen, (op, label)
        self.seen.add((op, label))
        self.draw = random.Random(f"{op} {label}")
        self.lines.append(f"case {op} {label}")
        self.options(**options)

    def options(self, **options):
        for key, value in options.items():
            joined = " ".join(map(text, value)) if isinstance(value, (list, tuple)) else text(value)
            self.lines.append(f"option {key} {joined}".rstrip())

    def tensor(self, role, x):
        x = x.detach()
        shape = "x".join(map(str, x.shape)) or "scalar"
        values = " ".join(text(v) for v in x.reshape(-1).tolist())
        self.lines.append(f"tensor {role} {DTYPES[x.dtype]} {shape} : {values}".rstrip())

    def tensors(self, **by_role):
        for role, x in by_role.items():
            self.tensor(role, x)

    def values(self, *shape, low=-127, high=127):
        """Returns random multiples of 1/64, from low / 64 to high / 64."""
        count = math.prod(shape)
        drawn = [low + int(self.draw.random() * (high - low + 1)) for _ in range(count)]
        return torch.tensor(drawn, dtype=torch.float64).reshape(shape) / 64

    def integers(self, limit, *shape):
        drawn = [int(self.draw.random() * limit) for _ in range(math.prod(shape))]
        return torch.tensor(drawn, dtype=torch.int64).reshape(shape)

    def booleans(self, *shape, share=0.5):
        drawn = [self.draw.random() < share for _ in range(math.prod(shape))]
        return torch.tensor(drawn, dtype=torch.bool).reshape(shape)

    def gradients(self, f, inputs, constants=None):
        """Writes inputs and constants, y = f(**inputs, **constants), a dy, and d<role> = d sum(y dy) / d<role>."""
        constants = constants or {}
        leaves = {role: x.clone().requires_grad_() for role, x in inputs.items()}
        y = f(**leaves, **constants)
        dy = self.values(*y.shape)
        grads = torch.autograd.grad((y * dy).sum(), list(leaves.values()), allow_unused=True)
        self.tensors(**inputs, **constants, y=y, dy=dy)
        for (role, x), dx in zip(inputs.items(), grads):
            self.tensor("d" + role, torch.zeros_like(x) if dx is None else dx)


def write(golden, file, script):
    """Writes the cases to a file of tests/golden, or to the file that the command line names."""
    default = pathlib.Path(__file__).resolve().parent.parent / "tests/golden" / file
    version = torch.__version__.split("+")[0]
    with open(sys.argv[1] if len(sys.argv) > 1 else default, "w", encoding="utf-8", newline="\n") as out:
        out.write(f"# Made by scripts/{script} with PyTorch {version}; the format is in README.md.\n")
        out.write("\n".join(golden.lines) + "\n")
