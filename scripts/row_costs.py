"""The part of scripts/kernel-costs for operations on rows and elements: norms, dropout, GELU and softmax.

Counts registers and instructions in the machine code, and reads the interpreter's report of the accesses to memory.
"""

import re

import kernel_model
import sass

ROWS, COLUMNS = 2048, 768  # of the calls; bench/cuda.cpp has them, too
BLOCK_WARPS = 12  # of a norm's block with 768 columns: four rows of three warps
TYPES = {"NS_4bf16E": "bf16", "f": "fp32"}  # by the mangled name
KERNEL_KEYS = ("op", "direction", "type", "dropout")  # of a row of kernels() and of its budget
CALL_KEYS = ("op", "direction", "type")  # of a row of calls() and of its budget
OPS = ("layer_norm", "rms_norm", "residual_layer_norm", "embed_layer_norm", "dropout", "gelu", "softmax")
VECTORS = 2  # vectors of a thread of each_element


def _order(row):
    return OPS.index(row["op"]), row["direction"] != "forward", row["type"], row.get("dropout", "")


def norm_of(name):
    """Returns the row of a norm's kernel for 768 columns, by its mangled name, or None for other kernels."""
    layout = re.search(r"(norm_forward|norm_backward)INS0_10NormLayoutI(NS_4bf16E|f)NS0_8WarpTeamELi8ELb1ELb1EE", name)
    if not layout:
        return None
    is_rms = "RmsNormOperands" in name or re.search(r"NormGradientI\w+?_?Lb0E", name)
    of_sum = "SummedRows" in name or "DroppedBranch" in name
    embeds = "EmbeddedRows" in name
    if embeds and "EmbeddedRowsIf" not in name:  # tables of float alone
        return None
    return {
        "op": "rms_norm" if is_rms else "residual_layer_norm" if of_sum else "embed_layer_norm" if embeds else "layer_norm",
        "direction": layout[1].removeprefix("norm_"), "type": TYPES[layout[2]],
        "dropout": "result" if "DroppedResult" in name else "",
    }  # fmt: skip


def gelu_of(name):
    """Returns the row of GELU's kernel in bf16, by its mangled name, or None for other kernels."""
    found = re.search(r"each_elementI.*?(Mapped|MappedBackward)INS\w*?_4GeluENS_4bf16E", name)
    return found and {"op": "gelu", "direction": "forward" if found[1] == "Mapped" else "backward", "type": "bf16", "dropout": ""}


def per_element(kernel, loads):
    """Returns the instructions of a thread whose vectors are whole, for each of its elements."""
    elements = 8 * VECTORS
    needs = [
        (lambda i: i.opcode == "STG.E.128", VECTORS),
        (lambda i: i.opcode == "LDG.E.128", loads * VECTORS),
        (lambda i: i.opcode == "MUFU.EX2", elements),
    ]
    way = kernel.cheapest_run(needs)
    return way and round(sum(len(kernel.blocks[block]) for block in way) / elements, 2)


def kernels(files):
    """Returns a row for each kernel of norms and of GELU in files of machine code: pairs of kernels and their registers."""
    rows = []
    for kernel, registers in ((kernel, registers) for code, registers in files for kernel in code):
        if norm := norm_of(kernel.name):
            used = registers[kernel.name]
            rows.append({**norm, "registers": used, "warps": kernel_model.resident_warps(used, BLOCK_WARPS)})
        elif gelu := gelu_of(kernel.name):
            loads = 1 if gelu["direction"] == "forward" else 2
            rows.append({**gelu, "registers": registers[kernel.name], "per_element": per_element(kernel, loads)})
    return sorted(rows, key=_order)


def call_of(name):
    """Returns the operation and the direction of a kernel in the interpreter's report, or None for other kernels."""
    if re.search(r"::(norm_forward|norm_backward)<", name):
        is_rms = "RmsNormOperands" in name or re.search(r"NormGradient<[^,]*, false", name)
        of_sum = "SummedRows" in name or "DroppedBranch" in name
        return "rms_norm" if is_rms else "residual_layer_norm" if of_sum else "layer_norm", "forward" if "norm_forward" in name else "backward"
    if "::drop_elements<" in name:
        return "dropout", "forward"  # the backward is the same kernel
    if found := re.search(r"::(Mapped|MappedBackward)<heddle::kernel::Gelu,", name):
        return "gelu", "forward" if found[1] == "Mapped" else "backward"
    if found := re.search(r"::softmax_held(_backward)?<", name):
        return "softmax", "backward" if found[1] else "forward"
    return None


def calls(report_rows):
    """Returns a row for each kernel of the report: pairs of a kernel's name and its counts."""
    rows = []
    for name, counts in report_rows:
        if call := call_of(name):
            launches = counts["launches"]
            sectors = {key: counts[key] // launches for key in ("sectors_loaded", "sectors_loaded_least", "sectors_stored", "sectors_stored_least")}
            rows.append({"op": call[0], "direction": call[1], "type": "bf16" if "bf16" in name else "fp32",
                         "per_element": round(counts["instructions"] / launches * 32 / (ROWS * COLUMNS), 2), **sectors})  # fmt: skip
    return sorted(rows, key=_order)


def name_of(row):
    return f"{row['op']}, {row['direction']}, {row['type']}" + (", dropout of the result" if row.get("dropout") else "")


def budget_of(row, budgets, keys):
    return next((b for b in budgets if all(b[key] == row[key] for key in keys)), None)


def over_budget(figures, budgets):
    """Returns a sentence for each figure that is above its budget."""
    found = []
    for row in figures["row_kernels"]:
        limit = budget_of(row, budgets.get("row_kernels", ()), KERNEL_KEYS)
        if limit is None:
            found.append(f"{name_of(row)}: there is no budget")
        elif "warps" in row and row["warps"] < limit["warps"]:
            found.append(f"{name_of(row)}: registers for {row['warps']} warps on a multiprocessor; the budget is {limit['warps']}")
        elif "per_element" in row and (row["per_element"] is None or row["per_element"] > limit["per_element"]):
            found.append(f"{name_of(row)}: {row['per_element']} instructions an element; the budget is {limit['per_element']}")
    for row in figures.get("row_calls", ()):
        limit = budget_of(row, budgets.get("row_calls", ()), CALL_KEYS)
        if limit is None:
            found.append(f"{name_of(row)}: there is no budget of its sectors")
            continue
        for key in ("sectors_loaded", "sectors_stored"):
            if row[key] > limit[key]:
                found.append(f"{name_of(row)}: {row[key]} {key.replace('_', ' ')}; the budget is {limit[key]}")
    return found


def tightened(figures, budgets):
    """Returns the budgets lowered to the figures; kernels that had none get them."""
    of_kernels, of_calls = [], []
    for row in figures["row_kernels"]:
        limit = budget_of(row, budgets.get("row_kernels", ()), KERNEL_KEYS) or row
        kept = {"warps": max(row["warps"], limit["warps"])} if "warps" in row else {"per_element": min(row["per_element"], limit["per_element"])}
        of_kernels.append({**{key: row[key] for key in KERNEL_KEYS}, **kept})
    for row in figures["row_calls"]:
        limit = budget_of(row, budgets.get("row_calls", ()), CALL_KEYS) or row
        of_calls.append({**{key: row[key] for key in CALL_KEYS}, **{key: min(row[key], limit[key]) for key in ("sectors_loaded", "sectors_stored")}})
    return {"row_kernels": of_kernels, "row_calls": of_calls}
