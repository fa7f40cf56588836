#!/usr/bin/env python3
"""Writes tests/golden/ops.txt: inputs, outputs and gradients of operations, computed by PyTorch in float64.

    scripts/golden-ops.py [FILE]        needs torch and transformers; the format is in tests/golden/README.md

Inputs are multiples of 1/64 with absolute values below 2, some scaled by a power of two, so that float and bf16 hold them exactly; the
cases `tails` are exceptions. Each case has its own seed, made
from its name, so that a new case does not change the others. If PyTorch gives NaN (a fully masked row) or has no such op
(packed rows), the reference is computed from the definition in this file.
"""

import math
from functools import partial

import torch
import torch.nn.functional as F
from transformers import get_cosine_schedule_with_warmup, get_linear_schedule_with_warmup

from golden import Golden, write


GATES = {
    "gated_gelu": F.gelu,
    "gated_gelu_tanh": partial(F.gelu, approximate="tanh"),
    "gated_silu": F.silu,
    "gated_relu": F.relu,
}


def elementwise(g):
    binary = {"add": torch.add, "sub": torch.sub, "mul": torch.mul, "div": torch.div}
    shapes = {
        "same_shape": [(2, 3, 5), (2, 3, 5)],
        "row": [(3, 2, 5), (5,)],
        "column": [(4, 3, 3), (3, 1)],
        "both_ways": [(3, 1, 4), (1, 5, 1)],
        "leading_axes": [(5,), (2, 3, 5)],
        "one_element": [(3, 7), (1,)],
        "scalar": [(), (2, 3)],
    }
    for op, f in binary.items():
        for label, (left, right) in shapes.items():
            g.case(op, label)
            b = g.values(*right, low=32) if op == "div" else g.values(*right)
            g.gradients(lambda a, b: f(a, b), {"a": g.values(*left), "b": b})

    g.case("neg", "odd_shape")
    g.gradients(lambda x: -x, {"x": g.values(3, 5)})

    unary = {
        "exp": torch.exp,
        "log": torch.log,
        "sqrt": torch.sqrt,
        "tanh": torch.tanh,
        "sigmoid": torch.sigmoid,
        "relu": torch.relu,
        "gelu": F.gelu,
        "gelu_tanh": partial(F.gelu, approximate="tanh"),
    }
    for op, f in unary.items():
        positive = op in ("log", "sqrt")
        for label, shape in {"odd_shape": (3, 5, 3), "one_element": (1, 1)}.items():
            g.case(op, label)
            g.gradients(lambda x: f(x), {"x": g.values(*shape, low=1 if positive else -127)})
        g.case(op, "tails")
        tails = [2.0**-40, 0.015625, 1e3, 1e6] if positive else [-40.0, -20.0, -8.0, -3.0, 0.0, 3.0, 8.0, 20.0, 40.0]
        g.gradients(lambda x: f(x), {"x": torch.tensor(tails, dtype=torch.float64)})

    g.case("where", "same_shape")
    g.gradients(
        lambda a, b, mask: torch.where(mask, a, b),
        {"a": g.values(3, 5), "b": g.values(3, 5)},
        {"mask": g.booleans(3, 5)},
    )
    g.case("where", "all_broadcast")
    g.gradients(
        lambda a, b, mask: torch.where(mask, a, b),
        {"a": g.values(3, 1, 2), "b": g.values(1, 4, 1)},
        {"mask": g.booleans(4, 2)},
    )
    for label, shape, mask, value in [
        ("same_shape", (3, 7), (3, 7), -2.5),
        ("broadcast_mask", (2, 3, 5), (2, 1, 5), 0.0),
    ]:
        g.case("masked_fill", label, value=value)
        g.gradients(lambda x, mask: x.masked_fill(mask, value), {"x": g.values(*shape)}, {"mask": g.booleans(*mask)})


def reductions(g):
    for op, f in {"sum": torch.sum, "mean": torch.mean, "max": torch.amax}.items():
        for shape, axis, keepdim in [
            ((3, 5, 4), 0, False),
            ((3, 5, 4), 1, True),
            ((3, 5, 4), -1, False),
            ((2, 3, 7), -2, False),
            ((2, 3, 7), -1, True),
            ((7,), 0, False),
            ((4, 1, 3), 1, False),
        ]:
            g.case(op, f"{'x'.join(map(str, shape))}_axis_{axis}" + "_keepdim" * keepdim, axis=axis, keepdim=keepdim)
            x = g.values(*shape)
            if op == "max":
                while (x == x.amax(axis, keepdim=True)).sum() != x.amax(axis).numel():  # without ties
                    x = g.values(*shape)
            g.gradients(lambda x: f(x, dim=axis, keepdim=keepdim), {"x": x})
        g.case(op, "all_axes")
        x = g.values(3, 5)
        while op == "max" and (x == x.max()).sum() != 1:
            x = g.values(3, 5)
        g.gradients(lambda x: f(x), {"x": x})

    for shape, axis in [((3, 5, 4), 0), ((3, 5, 4), 1), ((3, 5, 4), -1), ((7,), 0)]:
        g.case("argmax", f"{'x'.join(map(str, shape))}_axis_{axis}_the_first_of_equals", axis=axis)
        x = g.integers(3, *shape).to(torch.float64)
        first = (x == x.amax(axis, keepdim=True)).to(torch.int64).cumsum(axis).eq(0).sum(axis)
        g.tensors(x=x, y=first)


def masked_softmax(x, mask):
    """Returns the softmax of the elements where mask is true, zeros elsewhere, and zeros for a row without such elements."""
    top = x.detach().masked_fill(~mask, -math.inf).amax(-1, keepdim=True)
    e = torch.exp(torch.where(mask, x - top.masked_fill(top == -math.inf, 0.0), 0.0)) * mask
    total = e.sum(-1, keepdim=True)
    return e / torch.where(total == 0, 1.0, total)


def normalizations(g):
    for op, f in {"softmax": torch.softmax, "log_softmax": torch.log_softmax}.items():
        for shape, axis in [((3, 5, 7), -1), ((3, 5, 2), 1), ((4, 2, 3), 0), ((2, 1), -1), ((7,), 0)]:
            g.case(op, f"{'x'.join(map(str, shape))}_axis_{axis}", axis=axis)
            g.gradients(lambda x: f(x, axis), {"x": g.values(*shape)})
        g.case(op, "large_values", axis=-1)
        g.gradients(lambda x: f(x, -1), {"x": 512 * g.values(2, 5)})

    for label, shape, mask_shape in [
        ("masked", (3, 4, 5), (3, 4, 5)),
        ("masked_broadcast", (2, 3, 4, 5), (2, 1, 1, 5)),
    ]:
        g.case("softmax", label, axis=-1)
        mask = g.booleans(*mask_shape, share=0.6)
        mask[0, 0] = False
        g.gradients(masked_softmax, {"x": g.values(*shape)}, {"mask": mask})

    for label, shape, eps in [
        ("odd_shape", (3, 5, 7), 1e-5),
        ("bert_eps", (4, 16), 1e-12),
        ("one_row", (1, 3), 1e-5),
        ("two_wide", (5, 2), 1e-5),
    ]:
        g.case("layer_norm", label, eps=eps)
        width = shape[-1]
        g.gradients(
            lambda x, gamma, beta: F.layer_norm(x, (x.shape[-1],), gamma, beta, eps),
            {"x": g.values(*shape), "gamma": g.values(width), "beta": g.values(width)},
        )
    g.case("layer_norm", "constant_row", eps=1e-5)
    x = g.values(2, 5)
    x[0] = 1.25
    g.gradients(
        lambda x, gamma, beta: F.layer_norm(x, (5,), gamma, beta, 1e-5),
        {"x": x, "gamma": g.values(5), "beta": g.values(5)},
    )

    g.case("residual_layer_norm", "without_dropout", eps=1e-5)
    g.gradients(
        lambda x, branch, gamma, beta: F.layer_norm(x + branch, (7,), gamma, beta, 1e-5),
        {"x": g.values(3, 7), "branch": g.values(3, 7), "gamma": g.values(7), "beta": g.values(7)},
    )
    for op, f in GATES.items():
        for label, shape, second in [("odd_shape", (3, 5, 14), False), ("second", (2, 66), True), ("one_column", (4, 2), False)]:
            g.case(op, label, second=int(second))

            def gated(x):
                a, b = x.chunk(2, -1)
                return f(b) * a if second else f(a) * b

            g.gradients(gated, {"x": g.values(*shape)})

    for label, shape, eps in [("odd_shape", (3, 5, 7), 1e-6), ("one_row", (1, 33), 1e-5), ("one_wide", (5, 1), 1e-6)]:
        g.case("rms_norm", label, eps=eps)
        g.gradients(
            lambda x, gamma: F.rms_norm(x, (x.shape[-1],), gamma, eps),
            {"x": g.values(*shape), "gamma": g.values(shape[-1])},
        )


def products(g):
    for label, shape, out, bias in [
        ("rows", (5, 7), 3, True),
        ("three_axes", (2, 3, 5), 4, True),
        ("without_bias", (3, 5), 2, False),
        ("one_wide", (4, 1), 1, True),
        ("one_row", (1, 9), 17, True),
    ]:
        g.case("linear", label)
        inputs = {"x": g.values(*shape), "weight": g.values(out, shape[-1])}
        if bias:
            inputs["bias"] = g.values(out)
        g.gradients(lambda x, weight, bias=None: F.linear(x, weight, bias), inputs)

    g.case("linear_gelu", "rows")
    g.gradients(
        lambda x, weight, bias: F.gelu(F.linear(x, weight, bias)),
        {"x": g.values(5, 7), "weight": g.values(3, 7), "bias": g.values(3)},
    )

    cases = [
        ("plain", (3, 5), (5, 7), False, False),
        ("batched", (2, 3, 4), (2, 4, 5), False, False),
        ("broadcast_right", (2, 3, 4), (4, 5), False, False),
        ("broadcast_left", (3, 4), (2, 4, 2), False, False),
        ("broadcast_both", (3, 1, 2, 4), (2, 4, 3), False, False),
        ("transposed_left", (5, 3), (5, 7), True, False),
        ("transposed_right", (3, 5), (7, 5), False, True),
        ("transposed_both", (2, 5, 3), (2, 4, 5), True, True),
        ("batched_transposed_right", (2, 3, 4), (1, 5, 4), False, True),
        ("inner_one", (4, 1), (1, 3), False, False),
    ]
    for label, a, b, transpose_a, transpose_b in cases:
        g.case("matmul", label, transpose_a=transpose_a, transpose_b=transpose_b)
        g.gradients(
            lambda a, b: torch.matmul(a.mT if transpose_a else a, b.mT if transpose_b else b),
            {"a": g.values(*a), "b": g.values(*b)},
        )


def indexing(g):
    for label, shape in [("repeated_ids", (7,)), ("two_axes", (3, 4))]:
        g.case("embed", label)
        ids = g.integers(5, *shape)
        ids.view(-1)[1] = ids.view(-1)[0]
        g.gradients(lambda table, ids: F.embedding(ids, table), {"table": g.values(6, 3)}, {"ids": ids})
    for label, shape, rows in [
        ("matrix", (5, 3), [4, 0, 4, 2]),
        ("three_axes", (4, 2, 3), [1, 1]),
        ("none", (3, 2), []),
    ]:
        g.case("take_rows", label)
        g.gradients(lambda x, ids: x[ids], {"x": g.values(*shape)}, {"ids": torch.tensor(rows, dtype=torch.int64)})

    for label, axis, shapes in [
        ("axis_0", 0, [(2, 3), (1, 3), (4, 3)]),
        ("axis_1", 1, [(2, 1, 4), (2, 5, 4)]),
        ("axis_-1", -1, [(3, 2), (3, 5)]),
        ("one_input", 0, [(2, 3)]),
    ]:
        g.case("concat", label, axis=axis)
        g.gradients(
            lambda **x: torch.cat(list(x.values()), axis), {f"x{i}": g.values(*s) for i, s in enumerate(shapes)}
        )
    for label, shape, axis, first, last in [
        ("axis_0", (5, 3), 0, 1, 4),
        ("axis_1", (3, 7, 2), 1, 2, 5),
        ("axis_-1", (3, 7), -1, 6, 7),
        ("empty", (3, 4), 1, 2, 2),
    ]:
        g.case("slice", label, axis=axis, first=first, last=last)
        g.gradients(lambda x: x.narrow(axis, first, last - first), {"x": g.values(*shape)})
    for label, shape, axes in [
        ("matrix", (3, 5), (0, 1)),
        ("last_two", (2, 3, 4), (-2, -1)),
        ("outer_two", (2, 3, 4), (0, 2)),
    ]:
        g.case("transpose", label, axes=axes)
        g.gradients(lambda x: x.transpose(*axes), {"x": g.values(*shape)})
    for label, shape, axes in [
        ("three_axes", (2, 3, 5), (2, 0, 1)),
        ("heads_first", (2, 3, 4, 2), (0, 2, 1, 3)),
        ("reversed", (2, 1, 3), (2, 1, 0)),
    ]:
        g.case("permute", label, axes=axes)
        g.gradients(lambda x: x.permute(axes), {"x": g.values(*shape)})
    for label, shape, extents in [("split", (6, 5), (2, 3, 5)), ("join", (2, 3, 4), (24,)), ("scalar", (1, 1), ())]:
        g.case("reshape", label, shape=extents)
        g.gradients(lambda x: x.reshape(extents), {"x": g.values(*shape)})


def cross_entropies(g):
    cases = [
        ("plain", {}, False, 0),
        ("ignore_index", {"ignore_index": -100}, False, 2),
        ("ignored_class", {"ignore_index": 1}, False, 0),
        ("class_weights", {}, True, 0),
        ("label_smoothing", {"label_smoothing": 0.1}, False, 0),
        ("smoothing_and_ignore", {"label_smoothing": 0.25, "ignore_index": -1}, False, 2),
        ("weights_and_ignore", {"ignore_index": -100}, True, 2),
        ("weights_and_smoothing", {"label_smoothing": 0.1}, True, 0),
        ("everything", {"label_smoothing": 0.3, "ignore_index": -100}, True, 3),
    ]
    for label, options, weighted, ignored in cases:
        g.case("cross_entropy", label, **options)
        labels = g.integers(4, 7)
        labels[:2] = torch.tensor([1, 3])
        for row in range(ignored):
            labels[2 * row + 1] = options["ignore_index"]
        constants = {"labels": labels}
        if weighted:
            constants["class_weights"] = g.values(4, low=16)
        g.gradients(
            lambda logits, labels, class_weights=None: F.cross_entropy(logits, labels, class_weights, **options),
            {"logits": 4 * g.values(7, 4)},
            constants,
        )
    g.case("cross_entropy", "one_row_two_classes")
    g.gradients(
        lambda logits, labels: F.cross_entropy(logits, labels),
        {"logits": g.values(1, 2)},
        {"labels": torch.tensor([1])},
    )
    g.case("cross_entropy", "large_logits")
    g.gradients(
        lambda logits, labels: F.cross_entropy(logits, labels),
        {"logits": 1024 * g.values(3, 3)},
        {"labels": torch.tensor([0, 2, 1])},
    )
    g.case("cross_entropy", "all_ignored_gives_nan", ignore_index=-100)
    g.gradients(
        lambda logits, labels: F.cross_entropy(logits, labels),
        {"logits": g.values(3, 4)},
        {"labels": torch.full((3,), -100)},
    )


def begins(lengths, padded_to):
    if padded_to:
        return [b * padded_to for b in range(len(lengths))]
    return [sum(lengths[:b]) for b in range(len(lengths))]


def probabilities(q, k, h, heads, b, scale, causal, window, mask, bias):
    """Returns the probabilities [Tq, Tk] of one head of one sequence; mask and bias are [B|1, H|1, Tq, Tk] of the whole batch."""
    width = q.shape[1] // heads
    columns = slice(h * width, (h + 1) * width)
    scores = q[:, columns] @ k[:, columns].T * (width**-0.5 if scale is None else scale)
    allowed = torch.ones(scores.shape, dtype=torch.bool)
    place = lambda m: m[b if m.shape[0] > 1 else 0, h if m.shape[1] > 1 else 0, : q.shape[0], : k.shape[0]]
    if bias is not None:
        scores = scores + place(bias)
    if mask is not None:
        allowed = allowed & place(mask)
    if causal:
        allowed = allowed.tril()
    if window is not None:
        allowed = allowed.triu(-window).tril(window)
    return masked_softmax(scores, allowed) if k.shape[0] else torch.zeros_like(scores)


def attention(
    q, k, v, length, key_length=None, mask=None, bias=None, heads=1, scale=None, causal=False, window=None, padded_to=0
):
    """Returns rows [N, heads * width of v]; padding rows are zeros."""
    lengths, key_lengths = length.tolist(), (length if key_length is None else key_length).tolist()
    first, first_key = begins(lengths, padded_to), begins(key_lengths, padded_to)
    width = v.shape[1] // heads
    y = torch.zeros(q.shape[0], v.shape[1], dtype=q.dtype)
    for b, (n, m) in enumerate(zip(lengths, key_lengths)):
        rows, keys = slice(first[b], first[b] + n), slice(first_key[b], first_key[b] + m)
        parts = [
            probabilities(q[rows], k[keys], h, heads, b, scale, causal, window, mask, bias)
            @ v[keys, h * width : (h + 1) * width]
            for h in range(heads)
        ]
        y = y.index_copy(0, torch.arange(first[b], first[b] + n), torch.cat(parts, 1))
    return y


def attention_weights(
    q, k, length, key_length=None, mask=None, bias=None, heads=1, scale=None, causal=False, window=None, padded_to=0
):
    lengths, key_lengths = length.tolist(), (length if key_length is None else key_length).tolist()
    first, first_key = begins(lengths, padded_to), begins(key_lengths, padded_to)
    y = torch.zeros(len(lengths), heads, padded_to or max(lengths), padded_to or max(key_lengths), dtype=q.dtype)
    for b, (n, m) in enumerate(zip(lengths, key_lengths)):
        rows, keys = slice(first[b], first[b] + n), slice(first_key[b], first_key[b] + m)
        for h in range(heads):
            y[b, h, :n, :m] = probabilities(q[rows], k[keys], h, heads, b, scale, causal, window, mask, bias)
    return y


def attentions(g):
    ragged = [3, 1, 5, 2]
    cases = [  # label, lengths, key lengths, heads, width of q and k, width of v, mask shape, bias shape, options
        ("one_head", [4], None, 1, 3, 3, None, None, {}),
        ("ragged", ragged, None, 2, 4, 4, None, None, {}),
        ("zero_length", [2, 0, 3], None, 2, 3, 3, None, None, {}),
        ("scale", [3, 2], None, 2, 3, 3, None, None, {"scale": 0.75}),
        ("causal", ragged, None, 2, 3, 3, None, None, {"causal": True}),
        ("value_width", ragged, None, 2, 3, 5, None, None, {}),
        ("cross", [2, 3, 1], [4, 1, 2], 2, 3, 2, None, None, {}),
        ("cross_without_keys", [2, 3], [0, 2], 1, 3, 3, None, None, {}),
        ("padded", [3, 1, 4], None, 2, 3, 3, None, None, {"padded_to": 4}),
        ("mask_BH", [3, 1, 4], None, 2, 3, 3, (3, 2), None, {}),
        ("mask_B1", [3, 4], None, 2, 3, 3, (2, 1), None, {}),
        ("mask_1H", [3, 4], None, 2, 3, 3, (1, 2), None, {}),
        ("mask_11_causal", [3, 4], None, 2, 3, 3, (1, 1), None, {"causal": True}),
        ("mask_cross", [2, 3], [4, 2], 2, 3, 3, (2, 2), None, {}),
        ("bias_BH", [3, 1, 4], None, 2, 3, 3, None, (3, 2), {}),
        ("bias_B1", [3, 4], None, 2, 3, 3, None, (2, 1), {}),
        ("bias_1H", [3, 1, 4], None, 2, 3, 3, None, (1, 2), {}),
        ("bias_11_causal", [3, 4], None, 2, 3, 3, None, (1, 1), {"causal": True, "scale": 0.5}),
        ("bias_cross", [2, 3], [4, 2], 2, 3, 2, None, (1, 2), {}),
        ("mask_and_bias", [3, 2], None, 2, 3, 3, (2, 1), (1, 2), {}),
        ("mask_padded", [2, 3], None, 2, 3, 3, (2, 1), None, {"padded_to": 3}),
        ("window", [5, 1, 4], None, 2, 3, 3, None, None, {"window": 1}),
        ("window_causal", [5, 2], None, 2, 3, 3, None, None, {"window": 2, "causal": True}),
        ("window_cross", [6, 2], [3, 5], 2, 3, 2, None, None, {"window": 1}),  # queries 4 and 5 see no key
        ("window_0", [3, 4], None, 2, 3, 3, None, None, {"window": 0}),
        ("window_mask_and_bias", [3, 5], None, 2, 3, 3, (2, 1), (1, 2), {"window": 2}),
    ]
    for op in ("attention", "attention_weights"):
        for label, lengths, key_lengths, heads, width, value_width, mask_shape, bias_shape, options in cases:
            if op == "attention_weights" and label in (
                "value_width",
                "mask_BH",
                "mask_1H",
                "bias_BH",
                "bias_B1",
                "bias_11_causal",
            ):
                continue
            g.case(op, label, heads=heads, **options)
            padded_to = options.get("padded_to", 0)
            rows = len(lengths) * padded_to or sum(lengths)
            key_rows = len(lengths) * padded_to or sum(key_lengths or lengths)
            square = (max(lengths), max(key_lengths or lengths))
            inputs = {"q": g.values(rows, heads * width), "k": g.values(key_rows, heads * width)}
            if op == "attention":
                inputs["v"] = g.values(key_rows, heads * value_width)
            constants = {"length": torch.tensor(lengths)}
            if key_lengths:
                constants["key_length"] = torch.tensor(key_lengths)
            if mask_shape:
                constants["mask"] = g.booleans(*mask_shape, *square, share=0.7)
                constants["mask"][0, 0, 1] = False  # a query that sees nothing
            if bias_shape:
                (inputs if op == "attention" else constants)["bias"] = g.values(*bias_shape, *square)
            if op == "attention":
                g.gradients(lambda **x: attention(**x, heads=heads, **options), inputs, constants)
            else:
                g.tensors(**inputs, **constants, y=attention_weights(**inputs, **constants, heads=heads, **options))

    g.case("attention", "nan_in_a_masked_key", heads=2)
    clean = {role: g.values(5, 6) for role in "qkv"}
    mask = torch.ones(2, 1, 3, 3, dtype=torch.bool)
    mask[0, 0, :, 1] = False  # key 1 of sequence 0 is row 1
    length = torch.tensor([3, 2])
    leaves = {role: x.clone().requires_grad_() for role, x in clean.items()}
    y = attention(**leaves, length=length, mask=mask, heads=2)
    dy = g.values(*y.shape)
    grads = torch.autograd.grad((y * dy).sum(), list(leaves.values()))
    clean["k"][1], clean["v"][1] = math.nan, math.inf
    g.tensors(**clean, length=length, mask=mask, y=y, dy=dy, **{"d" + role: dx for role, dx in zip(leaves, grads)})


def rotary(g):
    """Writes queries, keys and values whose queries and keys are rotated as in transformers' ModernBERT: angles are in float32."""
    for label, heads, width, lengths, base in [
        ("one_pair", 1, 2, [5], 10000.0),
        ("packed", 3, 6, [1, 7, 0, 4], 10000.0),
        ("far", 2, 64, [33], 160000.0),
        ("other_base", 2, 10, [2, 40], 17.5),
    ]:
        g.case("rotary", label, heads=heads, width=width, base=base)
        position = torch.cat([torch.arange(length) for length in lengths])
        frequencies = 1.0 / (base ** (torch.arange(0, width, 2, dtype=torch.float) / width))
        angles = (position[:, None].float() * frequencies).double()
        angles = torch.cat((angles, angles), -1)[:, None]

        def rotated(x):
            x = x.view(len(position), 3 * heads, width)
            turned, kept = x[:, : 2 * heads], x[:, 2 * heads :]
            half = torch.cat((-turned[..., width // 2 :], turned[..., : width // 2]), -1)
            return torch.cat((turned * angles.cos() + half * angles.sin(), kept), 1).flatten(1)

        g.gradients(rotated, {"x": g.values(len(position), 3 * heads * width)})


def disentangled_biases(g):
    """Writes products with distances that are gathered as in transformers' DeBERTa-v2."""
    for label, heads, lengths, most in [("one_text", 1, [4], 2), ("packed", 2, [3, 0, 1, 5], 3), ("far", 1, [33], 9)]:
        g.case("disentangled_bias", label, most=most)
        rows, longest = sum(lengths), max(lengths)

        def bias(a, z, length):
            y = torch.zeros(len(lengths), heads, longest, longest, dtype=a.dtype)
            for b, (first, n) in enumerate(zip(begins(length.tolist(), 0), length.tolist())):
                distance = torch.arange(n)[:, None] - torch.arange(n)[None]
                column = (distance + most).clamp(0, 2 * most)[None].expand(heads, n, n)
                of_query = a[:, first : first + n].gather(2, column)
                of_key = z[:, first : first + n].gather(2, column.transpose(1, 2)).transpose(1, 2)
                y[b, :, :n, :n] = (of_query + of_key) / math.sqrt(3 * 8)
            return y

        inputs = {role: g.values(heads, rows, 2 * most + 1) for role in "az"}
        g.gradients(bias, inputs, {"length": torch.tensor(lengths)})


def transformer_layers(g):
    for label, norm_first in {"post_norm": False, "pre_norm": True}.items():
        g.case("transformer_encoder_layer", label, D=8, heads=2, ff_width=16, norm_first=norm_first)
        layer = torch.nn.TransformerEncoderLayer(8, 2, 16, norm_first=norm_first, batch_first=True, dtype=torch.float64)
        layer.eval()
        weights = {name: g.values(*p.shape) / 4 for name, p in layer.named_parameters()}
        g.gradients(
            lambda x, **weights: torch.func.functional_call(layer, weights, (x[None],))[0],
            {"x": g.values(5, 8)},
            weights,
        )


def sequences(g):
    def split(rows, length):
        return torch.split(rows, length.tolist())

    for label, lengths, width in [("ragged", [3, 1, 5, 2], 3), ("one", [4], 2)]:
        length = torch.tensor(lengths)
        g.case("mean_rows", label)
        g.gradients(
            lambda x, length: torch.stack([part.mean(0) for part in split(x, length)]),
            {"x": g.values(sum(lengths), width)},
            {"length": length},
        )
        g.case("first_rows", label)
        g.gradients(
            lambda x, length: torch.stack([part[0] for part in split(x, length)]),
            {"x": g.values(sum(lengths), width)},
            {"length": length},
        )
        g.case("pack", label)
        g.gradients(
            lambda x, length: torch.cat([x[b, :n] for b, n in enumerate(length.tolist())]),
            {"x": g.values(len(lengths), max(lengths), width)},
            {"length": length},
        )
        g.case("unpack", label)
        g.gradients(
            lambda x, length: torch.stack(
                [F.pad(part, (0, 0, 0, int(length.max()) - len(part))) for part in split(x, length)]
            ),
            {"x": g.values(sum(lengths), width)},
            {"length": length},
        )

    for length, width in [(5, 4), (3, 7), (2, 1)]:
        g.case("sinusoidal_positions", f"{length}x{width}")
        position = torch.arange(length, dtype=torch.float64)[:, None]
        rate = torch.exp(torch.arange(0, width, 2, dtype=torch.float64) * (-math.log(10000.0) / width))
        y = torch.zeros(length, width, dtype=torch.float64)
        y[:, 0::2] = torch.sin(position * rate)
        y[:, 1::2] = torch.cos(position * rate)[:, : width // 2]
        g.tensor("y", y)


def optimizers(g, steps=5):
    def trajectory(op, label, make, shape=(2, 3), **options):
        g.case(op, label, **options)
        x, grads = g.values(*shape), g.values(steps, *shape)
        parameter = torch.nn.Parameter(x.clone())
        optimizer = make([parameter])
        after = []
        for grad in grads:
            parameter.grad = grad.clone()
            optimizer.step()
            after.append(parameter.detach().clone())
        g.tensors(x=x, grads=grads, y=torch.stack(after))

    for label, options in {
        "plain": {"lr": 0.1},
        "momentum": {"lr": 0.05, "momentum": 0.9},
        "weight_decay": {"lr": 0.1, "weight_decay": 0.01},
        "momentum_and_decay": {"lr": 0.02, "momentum": 0.5, "weight_decay": 0.1},
    }.items():
        trajectory("sgd", label, lambda p: torch.optim.SGD(p, **options), **options)
    for op, kind in {"adam": torch.optim.Adam, "adamw": torch.optim.AdamW}.items():
        default_decay = 0.01 if op == "adamw" else 0.0
        for label, options in {
            "defaults": {},
            "rate": {"lr": 0.05},
            "betas": {"lr": 0.01, "betas": (0.5, 0.9)},
            "large_eps": {"lr": 0.01, "eps": 0.1},
            "weight_decay": {"lr": 0.01, "weight_decay": 0.2},
            "without_decay": {"lr": 0.01, "weight_decay": 0.0},
        }.items():
            all_options = {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": default_decay} | options
            named = {**all_options, "beta1": all_options["betas"][0], "beta2": all_options["betas"][1]}
            del named["betas"]
            trajectory(op, label, lambda p: kind(p, **all_options), **named)

    for label, norm in [("clipped", 0.5), ("left_alone", 100.0)]:
        g.case("clip_grad_norm", label, norm=norm)
        grads = [g.values(3, 2), g.values(5), g.values(1, 1)]
        parameters = [torch.nn.Parameter(torch.zeros_like(grad)) for grad in grads]
        for parameter, grad in zip(parameters, grads):
            parameter.grad = grad.clone()
        total = torch.nn.utils.clip_grad_norm_(parameters, norm)
        g.tensors(
            **{f"grad{i}": grad for i, grad in enumerate(grads)},
            total=total,
            **{f"y{i}": p.grad for i, p in enumerate(parameters)},
        )


def schedules(g):
    def rates(lr, make, steps):
        optimizer = torch.optim.SGD([torch.nn.Parameter(torch.zeros(1))], lr=lr)
        schedule = make(optimizer)
        used = []
        for _ in range(steps):
            used.append(optimizer.param_groups[0]["lr"])
            optimizer.step()
            schedule.step()
        return torch.tensor(used, dtype=torch.float64)

    for op, make in {
        "schedule_linear": get_linear_schedule_with_warmup,
        "schedule_cosine": get_cosine_schedule_with_warmup,
    }.items():
        for lr, warmup, total in [(0.1, 0, 7), (2e-5, 3, 11), (1.0, 1, 2), (0.5, 5, 5)]:
            g.case(op, f"warmup_{warmup}_of_{total}", lr=lr, warmup=warmup, total=total)
            g.tensor("y", rates(lr, lambda o: make(o, warmup, total), total + 1))
    for lr, gamma, every in [(0.1, 0.5, 3), (1e-3, 0.9, 1)]:
        g.case("schedule_step", f"gamma_{gamma}_every_{every}", lr=lr, gamma=gamma, every=every)
        g.tensor("y", rates(lr, lambda o: torch.optim.lr_scheduler.StepLR(o, every, gamma), 10))


def main():
    g = Golden()
    for make in (
        elementwise,
        reductions,
        normalizations,
        products,
        indexing,
        cross_entropies,
        attentions,
        rotary,
        transformer_layers,
        sequences,
        optimizers,
        schedules,
        disentangled_biases,
    ):
        make(g)
    write(g, "ops.txt", "golden-ops.py")


if __name__ == "__main__":
    main()
