#!/usr/bin/env python3
"""Writes tests/golden/random.txt: operations on random shapes, axes and options, computed by PyTorch in float64.

    scripts/golden-random.py [FILE]        needs torch; the format is in tests/golden/README.md

Each op has 30 cases with small inputs. The number of a case determines its rank and whether an axis is
empty, so that every op has all ranks that it takes; everything else is drawn. The reference is computed from the definition in this
file if PyTorch's result is not unique (argmin of equals), if PyTorch rounds more than necessary (the gradient of
logsumexp) or if it has no such op (packed rows). A case has no dy if the gradient does not exist, or if PyTorch's gradient
is not exact (cosine_similarity with a large eps).
"""

import math
import warnings

import torch
import torch.nn.functional as F

from golden import Golden, write

CASES = 30
SPECIAL = (math.nan, math.inf, -math.inf)


class Draw:
    """Draws the shapes, axes, options and values of a case from the generator of the current case."""

    def __init__(self, golden):
        self.golden = golden

    def integer(self, low, high):
        return low + int(self.golden.draw.random() * (high - low + 1))

    def chance(self, share=0.5):
        return self.golden.draw.random() < share

    def pick(self, values):
        return values[self.integer(0, len(values) - 1)]

    def shuffled(self, values):
        left = list(values)
        return [left.pop(self.integer(0, len(left) - 1)) for _ in values]

    def shape(self, number, least=0, most=4, size=12, empty=True):
        rank = least + number % (most - least + 1)
        while True:
            shape = [self.pick((1, 2, 3, 3, 5, 7)) for _ in range(rank)]
            if math.prod(shape) <= size:
                break
        if empty and rank > 0 and number % 7 == 6:
            shape[self.integer(0, rank - 1)] = 0
        return shape

    def broadcastable(self, shape):
        """Returns a shape that broadcasts to another: some leading axes are left out, some others have extent 1."""
        kept = shape[self.integer(0, len(shape)) if self.chance() else 0 :]
        return [1 if self.chance(0.3) else extent for extent in kept]

    def axis(self, rank):
        return self.integer(-rank, rank - 1)

    def axes(self, allowed, rank, least=0):
        """Returns some of the allowed axes, in any order, each counted from either end."""
        count = self.integer(least, len(allowed))
        return [a - rank if self.chance() else a for a in self.shuffled(allowed)[:count]]

    def among(self, shape, values):
        return torch.tensor([self.pick(values) for _ in range(math.prod(shape))], dtype=torch.float64).reshape(shape)

    def distinct(self, shape, least=1):
        """Returns multiples of 1/64 whose absolute values differ and are at least `least` / 64."""
        magnitudes = self.shuffled(range(least, 128))[: math.prod(shape)]
        signed = [-m if self.chance() else m for m in magnitudes]
        return torch.tensor(signed, dtype=torch.float64).reshape(shape) / 64


def cases(g, op):
    """Begins the cases of an operation one after another; yields their numbers."""
    for number in range(CASES):
        g.case(op, str(number))
        yield number


def compute(g, f, inputs, constants=None, has_gradient=True):
    """Writes a case with its gradients, or without them if has_gradient is false."""
    if has_gradient:
        g.gradients(f, inputs, constants)
    else:
        constants = constants or {}
        g.tensors(**inputs, **constants, y=f(**inputs, **constants))


def comparisons(g, draw):
    ops = {"eq": torch.eq, "ne": torch.ne, "lt": torch.lt, "le": torch.le, "gt": torch.gt, "ge": torch.ge}
    for op, f in ops.items():
        for number in cases(g, op):
            shape = draw.shape(number)
            values = (-1.0, -0.5, 0.0, 0.5, *SPECIAL)
            form = draw.pick(("tensors", "tensors", "left", "right"))
            if form == "tensors":
                a, b = (draw.among(draw.broadcastable(shape), values) for _ in range(2))
                if draw.chance(0.2):
                    a, b = (x.nan_to_num(2, 3, -3).to(torch.int64) for x in (a, b))
                g.tensors(a=a, b=b, y=f(a, b))
                continue
            x, value = draw.among(shape, values), draw.pick(values)
            g.options(**{form: value})
            g.tensors(x=x, y=f(x, value) if form == "right" else f(torch.tensor(value, dtype=torch.float64), x))

    for op, f in {"isnan": torch.isnan, "isfinite": torch.isfinite}.items():
        for number in cases(g, op):
            x = draw.among(draw.shape(number), (-1.0, 0.0, 2.0, *SPECIAL))
            g.tensors(x=x, y=f(x))


def logic(g, draw):
    def operand(shape):
        x = draw.among(shape, (0.0, 0.0, 0.0, 1.0, -0.5, math.nan, -math.inf))
        kind = draw.pick((torch.float64, torch.float64, torch.int64, torch.bool))
        return x if kind == torch.float64 else (x != 0).to(kind) * (1 if kind == torch.bool else draw.pick((1, -3)))

    for op, f in {"logical_and": torch.logical_and, "logical_or": torch.logical_or}.items():
        for number in cases(g, op):
            shape = draw.shape(number)
            a, b = (operand(draw.broadcastable(shape)) for _ in range(2))
            b = b.to(a.dtype)
            g.tensors(a=a, b=b, y=f(a, b))
    for number in cases(g, "logical_not"):
        x = operand(draw.shape(number))
        g.tensors(x=x, y=torch.logical_not(x))

    for op, f in {"any": torch.any, "all": torch.all}.items():
        for number in cases(g, op):
            shape = draw.shape(number)
            x = operand(shape)
            if op == "all":
                x = torch.logical_not(x).to(x.dtype)
            if not shape or draw.chance(0.2):
                g.tensors(x=x, y=f(x))
                continue
            options = {"axis": draw.axis(len(shape)), "keepdim": draw.chance()}
            g.options(**options)
            g.tensors(x=x, y=f(x, dim=options["axis"], keepdim=options["keepdim"]))


def elementwise(g, draw):
    unary = {
        "abs": torch.abs,
        "log1p": torch.log1p,
        "erf": torch.erf,
        "softplus": F.softplus,  # PyTorch returns x itself for x > 20; no input is that large
        "silu": F.silu,
    }
    for op, f in unary.items():
        for number in cases(g, op):
            x = g.values(*draw.shape(number), low=-62 if op == "log1p" else -127)
            g.gradients(lambda x: f(x), {"x": x * draw.pick((1, 1, 8) if op != "log1p" else (1,))})

    for op, f in {"minimum": torch.minimum, "maximum": torch.maximum}.items():
        for number in cases(g, op):
            shape = draw.shape(number)
            with_special = draw.chance(0.25)
            values = (-1.0, -0.5, 0.25, *SPECIAL) if with_special else (-1.0, -0.5, 0.25, 1.5)
            inputs = {role: draw.among(draw.broadcastable(shape), values) for role in "ab"}
            compute(g, lambda a, b: f(a, b), inputs, has_gradient=not with_special)

    for number in cases(g, "clamp"):
        bounds = {"min": draw.integer(-64, 16) / 64, "max": draw.integer(-16, 64) / 64}  # min > max in a few
        left_out = draw.pick(("min", "max", None, None))
        options = {key: bound for key, bound in bounds.items() if key != left_out}
        g.options(**options)
        g.gradients(lambda x: torch.clamp(x, **options), {"x": g.values(*draw.shape(number))})

    for number in cases(g, "pow_number"):
        exponent = draw.pick((2, 2.0, 3, 1, 0, -1, -2, 0.5, 1.5, -0.5, 2.25))
        g.options(exponent=exponent)
        low = 1 if exponent != int(exponent) else -127
        x = g.values(*draw.shape(number), low=low)
        x[x == 0] = 1.0
        if (exponent >= 1 or exponent == 0) and draw.chance(0.3):
            x = x * (x.abs() > 0.5)
        g.gradients(lambda x: torch.pow(x, exponent), {"x": x})
    for number in cases(g, "number_pow"):
        base = draw.pick((0, 0.5, 1, 2, 2.5, 3, 10))
        g.options(base=base)
        g.gradients(lambda x: torch.pow(base, x), {"x": g.values(*draw.shape(number), low=-127 if base else 0)})
    for number in cases(g, "pow"):
        shape = draw.shape(number)
        a, b = (draw.broadcastable(shape) for _ in range(2))
        with_zero = draw.chance(0.3)
        inputs = {"a": g.values(*a, low=1), "b": g.values(*b, low=64 if with_zero else -127)}
        if with_zero:
            inputs["a"] *= inputs["a"] > 1
        g.gradients(lambda a, b: torch.pow(a, b), inputs)


def reductions(g, draw):
    def along(f, axes, keepdim, **options):
        """Returns f along the axes of x, or along all of them if none are given."""
        return lambda x: f(x, dim=axes or list(range(x.dim())) or [-1], keepdim=keepdim, **options)

    for op, f in {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}.items():
        for number in cases(g, op):
            shape = draw.shape(number)
            allowed = list(range(len(shape)))
            if op == "max" and 0 in shape:  # an empty axis has no largest value
                shape = shape if len(shape) > 1 else [3]
                allowed = [a for a in allowed if shape[a] > 0]
            axes = draw.axes(allowed, len(shape), least=int(0 in shape))
            keepdim = draw.chance()
            g.options(axes=axes, keepdim=keepdim)
            g.gradients(along(f, axes, keepdim), {"x": draw.distinct(shape)})

    for number in cases(g, "min"):
        shape = draw.shape(number, empty=False)
        if not shape or draw.chance(0.2):
            g.gradients(lambda x: torch.amin(x), {"x": draw.distinct(shape)})
            continue
        axis, keepdim = draw.axis(len(shape)), draw.chance()
        if len(shape) > 1 and number % 7 == 6:
            shape[axis - 1 if axis > 0 else axis + 1] = 0  # beside the axis
        g.options(axis=axis, keepdim=keepdim)
        g.gradients(lambda x: torch.amin(x, dim=axis, keepdim=keepdim), {"x": draw.distinct(shape)})
    for number in cases(g, "argmin"):
        shape = draw.shape(number, least=1, empty=False)
        axis, keepdim = draw.axis(len(shape)), draw.chance()
        x = draw.among(shape, (-1.0, 0.5, 2.0))
        g.options(axis=axis, keepdim=keepdim)
        first = (x == x.amin(axis, keepdim=True)).to(torch.int64).cumsum(axis).eq(0).sum(axis, keepdim=keepdim)
        g.tensors(x=x, y=first)

    def axis_or_axes(shape, may_omit=True):
        """Returns the options of one of the calls f(x, axis, keepdim), f(x, {axes}, keepdim) and f(x), and its axes."""
        rank = len(shape)
        form = draw.pick(("axis", "axes", "none") if rank else ("axes", "none"))
        if form == "none" and may_omit:
            return {}, []
        axes = [draw.axis(rank)] if form == "axis" else draw.axes(range(rank), rank)
        return {form if form == "axis" else "axes": axes, "keepdim": draw.chance()}, axes

    def count(shape, axes):
        return math.prod(shape[a] for a in (axes or range(len(shape))))

    def exact_logsumexp(x, dim, keepdim):
        """Returns torch.logsumexp with the gradient exp(x - m) / sum exp(x - m). PyTorch's, exp(x - y), has the rounding error of y."""
        if x.numel() == 0:
            return torch.logsumexp(x, dim, keepdim=keepdim)
        m = x.detach().amax(dim, keepdim=True)
        y = torch.log(torch.exp(x - m).sum(dim, keepdim=True)) + m
        return y if keepdim else y.reshape(torch.logsumexp(x, dim).shape)

    for number in cases(g, "logsumexp"):
        shape = draw.shape(number)
        options, axes = axis_or_axes(shape, may_omit=False)
        g.options(**options)
        x = g.values(*shape) * draw.pick((1, 1, 16, 512))
        g.gradients(along(exact_logsumexp, axes, options["keepdim"]), {"x": x})
    for op, f in {"var": torch.var, "std": torch.std}.items():
        for number in cases(g, op):
            shape = draw.shape(number, least=int(op == "std"))
            has_gradient = False
            while not has_gradient:
                options, axes = axis_or_axes(shape)
                if options:
                    options["correction"] = draw.pick((0, 1, 1, 2))
                correction = options.get("correction", 1)
                has_gradient = count(shape, axes) > correction
                if draw.chance(0.2):
                    break
            g.options(**options)
            make = along(f, axes, options.get("keepdim", False), correction=correction)
            x = draw.distinct(shape)
            if draw.chance(0.15):
                x = torch.full_like(x, 0.75)  # PyTorch's derivative of std is 0 where std is 0
            compute(g, make, {"x": x}, has_gradient=has_gradient)
    for number in cases(g, "norm"):
        shape = draw.shape(number)
        options, axes = axis_or_axes(shape)
        if options:
            options["p"] = float(draw.pick((0, 1, 2, 2, 3, 1.5, math.inf) if count(shape, axes) else (2,)))
        g.options(**options)
        p = options.get("p", 2.0)
        x = draw.distinct(shape)
        if p < math.inf and draw.chance(0.3):
            x = x * (x.abs() > 1)
        norm = lambda x, dim, keepdim: torch.linalg.vector_norm(x, p, dim, keepdim)
        compute(g, along(norm, axes, options.get("keepdim", False)), {"x": x}, has_gradient=p > 0)


def selection(g, draw):
    for number in cases(g, "gather"):
        shape = draw.shape(number, least=1)
        axis = draw.axis(len(shape))
        extents = [draw.integer(min(1, extent), extent) for extent in shape]
        extents[axis] = draw.integer(0, 3) if shape[axis] else 0
        g.options(axis=axis)
        ids = g.integers(shape[axis], *extents)
        g.gradients(lambda x, ids: torch.gather(x, axis, ids), {"x": g.values(*shape)}, {"ids": ids})
    for number in cases(g, "index_select"):
        shape = draw.shape(number, least=1)
        axis = draw.axis(len(shape))
        g.options(axis=axis)
        ids = g.integers(shape[axis], draw.integer(0, 3) if shape[axis] else 0)
        g.gradients(lambda x, ids: torch.index_select(x, axis, ids), {"x": g.values(*shape)}, {"ids": ids})
    for number in cases(g, "one_hot"):
        classes = draw.integer(1, 5)
        ids = g.integers(classes, *draw.shape(number, most=3, size=6))
        g.options(classes=classes)
        g.tensors(ids=ids, y=F.one_hot(ids, classes))
    for number in cases(g, "topk"):
        shape = draw.shape(number, least=1)
        axis, largest = draw.axis(len(shape)), draw.chance()
        k = draw.integer(min(1, shape[axis]) if draw.chance(0.8) else 0, shape[axis])
        g.options(k=k, axis=axis, largest=largest)
        x = draw.distinct(shape)
        g.gradients(lambda x: torch.topk(x, k, axis, largest)[0], {"x": x})
        g.tensors(indices=torch.topk(x, k, axis, largest)[1])


def shapes(g, draw):
    for number in cases(g, "stack"):
        shape = draw.shape(number, most=3, size=6)
        axis = draw.integer(-len(shape) - 1, len(shape))
        g.options(axis=axis)
        inputs = {f"x{i}": g.values(*shape) for i in range(draw.integer(1, 3))}
        g.gradients(lambda **x: torch.stack(list(x.values()), axis), inputs)
    for number in cases(g, "split"):
        shape = draw.shape(number, least=1)
        axis = draw.axis(len(shape))
        if draw.chance():
            size = draw.integer(1, 4)
            g.options(size=size, axis=axis)
        else:
            ends = sorted(draw.integer(0, shape[axis]) for _ in range(draw.integer(0, 2)))
            size = [end - begin for begin, end in zip([0, *ends], [*ends, shape[axis]])]
            g.options(sizes=size, axis=axis)
        # One result: the parts in reverse order.
        g.gradients(lambda x: torch.cat(torch.split(x, size, axis)[::-1], axis), {"x": g.values(*shape)})
    for number in cases(g, "unsqueeze"):
        shape = draw.shape(number, most=3)
        axis = draw.integer(-len(shape) - 1, len(shape))
        g.options(axis=axis)
        g.gradients(lambda x: torch.unsqueeze(x, axis), {"x": g.values(*shape)})
    for number in cases(g, "squeeze"):
        shape = [1 if draw.chance(0.4) else extent for extent in draw.shape(number)]
        options = {"dim": draw.axis(len(shape))} if shape and draw.chance(0.7) else {}
        g.options(**({"axis": options["dim"]} if options else {}))
        g.gradients(lambda x: torch.squeeze(x, **options), {"x": g.values(*shape)})
    for number in cases(g, "expand"):
        shape = draw.shape(number)
        g.options(shape=shape)
        g.gradients(lambda x: x.expand(shape), {"x": g.values(*draw.broadcastable(shape))})
    for number in cases(g, "tril"):
        diagonal = draw.integer(-2, 2)
        g.options(diagonal=diagonal)
        g.gradients(lambda x: torch.tril(x, diagonal), {"x": g.values(*draw.shape(number, least=2))})


def losses(g, draw):
    def reduction(*more):
        word = draw.pick(("mean", "sum", "none", *more))
        g.options(reduction=word)
        return word.replace("batch_mean", "batchmean")

    def positive(*shape):
        return g.values(*shape, low=1, high=64)

    for op, f in {"mse_loss": F.mse_loss, "l1_loss": F.l1_loss}.items():
        for number in cases(g, op):
            shape, word = draw.shape(number), reduction()
            inputs = {"x": g.values(*shape), "target": g.values(*shape)}
            g.gradients(lambda x, target: f(x, target, reduction=word), inputs)
    for number in cases(g, "bce_with_logits"):
        shape, word = draw.shape(number), reduction()
        inputs = {"x": g.values(*shape) * draw.pick((1, 4, 32)), "target": g.values(*shape, low=0, high=64)}
        options = {role: positive(*draw.broadcastable(shape)) for role in ("weight", "pos_weight") if draw.chance()}
        g.gradients(
            lambda x, target, **options: F.binary_cross_entropy_with_logits(x, target, reduction=word, **options),
            inputs,
            options,
        )
    for number in cases(g, "kl_div"):
        shape = draw.shape(number)
        word = reduction("batch_mean") if shape else reduction()
        log_target = draw.chance(0.4)
        g.options(log_target=log_target)
        has_zero = not log_target and draw.chance(0.3)  # 0 log 0 is 0, its derivative infinite
        target = g.values(*shape) if log_target else g.values(*shape, low=1, high=64)
        if has_zero:
            target = target * (target > 0.5)
        compute(
            g,
            lambda input, target: F.kl_div(input, target, reduction=word, log_target=log_target),
            {"input": g.values(*shape, high=0), "target": target},
            has_gradient=not has_zero,
        )
    for number in cases(g, "cross_entropy"):
        word, classes = reduction(), draw.integer(1, 4)
        rows = 0 if number % 7 == 6 else draw.integer(1, 12 // classes)
        options = {}
        if draw.chance(0.4):
            options["ignore_index"] = draw.pick((-100, 0, 1))
        if draw.chance(0.4):
            options["label_smoothing"] = draw.pick((0.1, 0.25, 1.0))
        g.options(**options)
        labels = g.integers(classes, rows)
        if options.get("ignore_index") == -100:
            labels = torch.where(g.booleans(rows, share=0.3), -100, labels)
        constants = {"labels": labels}
        if draw.chance(0.4):
            constants["class_weights"] = positive(classes)
        is_defined = word != "mean" or bool((labels != options.get("ignore_index", -100)).any())
        compute(
            g,
            lambda logits, labels, class_weights=None: F.cross_entropy(
                logits, labels, class_weights, reduction=word, **options
            ),
            {"logits": g.values(rows, classes) * draw.pick((1, 4, 512))},
            constants,
            has_gradient=is_defined,
        )

    for number in cases(g, "cosine_similarity"):
        shape = draw.shape(number, least=1)
        axis = draw.axis(len(shape))
        eps = draw.pick((1e-8, 1e-8, 1e-8, 8.0))
        options = {"axis": axis, "eps": eps}
        if len(shape) > 1 and draw.chance(0.2):
            options = {}
            axis, eps = 1, 1e-8
        g.options(**options)
        b_shape = draw.broadcastable(shape) if draw.chance(0.3) else shape
        inputs = {"a": draw.distinct(shape, least=32), "b": draw.distinct(b_shape, least=32)}
        # PyTorch does not differentiate the lower bound of the norms.
        compute(g, lambda a, b: F.cosine_similarity(a, b, axis, eps), inputs, has_gradient=eps < 1)
    for number in cases(g, "normalize"):
        shape = draw.shape(number, least=1)
        x = draw.distinct(shape, least=32)  # dividing by a tiny norm amplifies the rounding error of a gradient of 0
        if draw.chance(0.2):
            x = torch.zeros_like(x)
        options = {"p": draw.pick((2.0, 2.0, 1.0, 3.0)), "axis": draw.axis(len(shape)), "eps": draw.pick((1e-12, 1.0))}
        if len(shape) > 1 and draw.chance(0.2):
            options = {}
        g.options(**options)
        g.gradients(
            lambda x: F.normalize(x, options.get("p", 2.0), options.get("axis", 1), options.get("eps", 1e-12)), {"x": x}
        )


def sequences(g, draw):
    """Writes the cases of the functions that reduce the rows of each sequence. With padding, the first rows are valid. A sequence
    without rows gives zeros."""
    ops = {
        "max_rows": lambda rows: rows.amax(0),
        "last_rows": lambda rows: rows[-1],
        "sum_rows": lambda rows: rows.sum(0),
    }
    for op, f in ops.items():
        for number in cases(g, op):
            width = draw.integer(1, 3)
            lengths = [draw.integer(0, 3) for _ in range(draw.integer(1, 3))]
            padded_to = max(lengths) + draw.integer(0, 1) if draw.chance(0.4) else 0
            if padded_to:
                g.options(padded_to=padded_to)
                x = draw.distinct([len(lengths), padded_to, width])
            else:
                x = draw.distinct([sum(lengths), width])

            def parts(x):
                return [rows[:n] for rows, n in zip(x, lengths)] if padded_to else torch.split(x, lengths)

            g.gradients(
                lambda x, length: torch.stack([f(rows) if len(rows) else rows.sum(0) for rows in parts(x)]),
                {"x": x},
                {"length": torch.tensor(lengths)},
            )


def main():
    warnings.simplefilter("ignore")  # torch.var warns of too few elements
    g = Golden()
    for make in (comparisons, logic, elementwise, reductions, selection, shapes, losses, sequences):
        make(g, Draw(g))
    write(g, "random.txt", "golden-random.py")


if __name__ == "__main__":
    main()
