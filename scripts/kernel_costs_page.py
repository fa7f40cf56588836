"""The page that scripts/kernel-costs writes."""

import kernel_model
import row_costs
import sass
from gpu_page import paragraph, row, shown, table

ABOUT = (
    "Counted without a GPU by `scripts/kernel-costs`, and never measured: in the machine code that ptxas of nvcc {nvcc} makes for sm_90a, and "
    "in what the PTX interpreter ran ([kernels.md](kernels.md)). `scripts/test` counts again and fails if a figure is above its budget "
    "(`cuda/budgets.json`). [benchmarks-h200.md](benchmarks-h200.md) has measured times."
)
TILE = (
    "The instructions of one warp for one tile of other rows whose pairs are all visible, on the cheapest way once around the loop: its "
    "copies, scores, exponentials, draws and sums. With dropout, the forward stores its decisions, which the backward reads, as long as they "
    "take no more memory than the result (stored); beyond that the backward draws again (drawn). A product is one instruction of a tensor core: 16 x 8 x 16 in bf16, 16 x 8 x 8 in TF32. "
    "`head_gradients 128` and `256` are its instances for up to 128 and 256 keys; a tile of theirs includes a warp's share of dq, over all keys. "
    "The budget is in instructions a product. Warps: as many as the registers of a multiprocessor hold. No loop has a call, an integer "
    "division or local memory, and each has one barrier a tile."
)
CALLS = (
    "What ran for one text of 512 tokens and two heads, in bf16, per call: PTX instructions of a warp by class, sectors of 32 bytes of global "
    "memory with the fewest that the accesses need, and wavefronts of shared memory with those of accesses without bank conflicts. Width 160 "
    "is that of wide heads, whose scores are in global memory."
)
FORWARD = (
    "The kernels of the same call at width 64. The first row is FlashAttention-3's forward (hdim 64, bf16, no mask) on the same interpreter. "
    "The limit of the forward without dropout is {limit} instructions a score."
)
LOCAL = (
    "The kernels of one text with two heads of width 64 and `.window = 64`, in bf16. Tiles outside of the window are not visited, so the "
    "instructions for each query of a head (those of a warp count for each of its lanes) do not grow with the text, except that the blocks at "
    "both ends see fewer keys. It is a failure if a query takes a tenth more with 1,024 tokens than with 512."
)
SHORT = (
    "The kernels of one text of 128 tokens with two heads of width 64, in bf16. `head_gradients` computes the scores once for all gradients."
)
MODEL = (
    "Times that follow from the counts if nothing waits (`scripts/kernel_model.py`): the largest of what issue slots, tensor cores, special "
    "functions, shared memory and global memory need, where each multiprocessor processes whole blocks. `scripts/gpu-check` prints them "
    "beside measured times. Published: rates of others on an H100 SXM in fp16, without mask and dropout."
)
ROW_KERNELS = (
    "The registers of norms of 768 columns, and as many warps as those of a multiprocessor hold: the budget is the fewest. For GELU in bf16, the "
    "instructions of a thread whose vectors are whole, for each of its 16 elements."
)
ROW_CALLS = (
    "What ran for {rows} rows of {columns} columns: PTX instructions for each element, and sectors of 32 bytes of global memory. The first number "
    "in parentheses is what the accesses need at least, the second one the budget. A tensor has {bf16} sectors in bf16 and {fp32} in fp32. The "
    "norms' backward also adds up the gradients of gamma and beta over its blocks."
)
FLASH_3 = {"instructions": 226000, "int": 20100, "pred": 10000, "branch": 3000, "fp": 126000, "mov": 51600}  # FlashAttention-3's forward
SCORES = 2 * 512 * 512
SHORT_SCORES = 2 * 128 * 128


def tiles(rows, budgets):
    classes = [name for name in sass.CLASSES if name not in ("other", "barrier")]
    lines = table("kernel", "width", "dropout", "instructions", "a product", "budget", *classes, "registers", "warps")
    for r in rows:
        keys = ("kernel", "type", "width", "dropout")
        budget = next((b["per_product"] for b in budgets["tiles"] if all(b[k] == r[k] for k in keys)), "none")
        counts = [str(r["classes"].get(name, 0)) for name in classes]
        lines.append(row(f"`{r['kernel']}`", str(r["width"]), "" if r["dropout"] == "none" else r["dropout"], str(r["instructions"]), f"{r['per_product']:.2f}",
                         str(budget), *counts, str(r["registers"]), str(r["warps"])))  # fmt: skip
    return lines


def of_call(row, *classes):
    """Returns how many instructions of some classes a call ran."""
    return sum(row["classes"].get(name, 0) for name in classes) // row["launches"]


def per_score(row, scores=SCORES):
    return row["instructions"] / row["launches"] * 32 / scores


def counts(row):
    return [str(of_call(row, *names)) for names in (("int",), ("pred",), ("branch",), ("fp", "mufu", "cvt"), ("mov",))]


MEMORY = ("sectors_loaded", "sectors_stored", "shared_loads", "shared_stores")


def with_least(row, name):
    return f"{row[name] // row['launches']} ({row[name + '_least'] // row['launches']})"


def calls(rows):
    lines = table("kernel", "width", "dropout", "instructions", "mma", "int", "pred", "branch", "floating point", "mov", "bar",
                  "sectors loaded", "sectors stored", "shared loads", "shared stores")  # fmt: skip
    for r in rows:
        lines.append(row(f"`{r['kernel']}`", str(r["width"]), "yes" if r["dropout"] else "", str(r["instructions"] // r["launches"]),
                         str(of_call(r, "mma")), *counts(r), str(of_call(r, "bar")),
                         *(with_least(r, name) for name in MEMORY)))  # fmt: skip
    return lines


def forward(rows):
    lines = table("", "all", "a score", "integer", "predicates", "branches", "floating point", "moves")
    flash_3 = {"instructions": FLASH_3["instructions"], "launches": 1, "classes": FLASH_3}
    for name, r in [("FlashAttention-3", flash_3)] + [(f"`{r['kernel']}`" + (", dropout" if r["dropout"] else ""), r) for r in rows
                                                     if r["width"] == 64 and r["kernel"] != "compute_delta"]:  # fmt: skip
        lines.append(row(name, str(r["instructions"] // r["launches"]), f"{per_score(r):.1f}", *counts(r)))
    return lines


def local(rows):
    lines = table("kernel", "tokens", "instructions", "a query", "mma", "sectors loaded", "sectors stored")
    for r in rows:
        per_call = lambda name: str(r[name] // r["launches"])  # noqa: E731
        lines.append(row(f"`{r['kernel']}`", str(r["length"]), per_call("instructions"), str(r["a_query"]), str(of_call(r, "mma")),
                         per_call("sectors_loaded"), per_call("sectors_stored")))  # fmt: skip
    return lines


def short(rows):
    lines = table("kernel", "dropout", "instructions", "a score", "mma", "sectors loaded", "sectors stored", "shared loads", "shared stores")
    for r in rows:
        lines.append(row(f"`{r['kernel']}`", "yes" if r["dropout"] else "", str(r["instructions"] // r["launches"]), f"{per_score(r, SHORT_SCORES):.1f}",
                         str(of_call(r, "mma")), *(with_least(r, name) for name in MEMORY)))  # fmt: skip
    return lines


def modelled(rows):
    lines = table("GPU", "texts x heads x tokens x width", "", "dropout", "modelled", "TFLOP/s", "limited by", "published TFLOP/s")
    for r in rows:
        published = r["gpu"] == "H100" and r["shape"][1] == 32 and not r["dropout"]
        others = ", ".join(f"{name} {rate}" for name, rate in kernel_model.PUBLISHED[r["direction"]].items()) if published else ""
        lines.append(row(r["gpu"], " x ".join(map(str, r["shape"])), r["direction"], "yes" if r["dropout"] else "", shown(r["seconds"]),
                         str(r["tflops"]), ", ".join(dict.fromkeys(r["limits"])), others))  # fmt: skip
    return lines


def row_kernels(rows, budgets):
    lines = table("operation", "", "type", "dropout", "registers", "warps", "instructions an element", "budget")
    for r in rows:
        key = "warps" if "warps" in r else "per_element"
        limit = row_costs.budget_of(r, budgets.get("row_kernels", ()), row_costs.KERNEL_KEYS)
        lines.append(row(f"`{r['op']}`", r["direction"], r["type"], r["dropout"], str(r["registers"]), str(r.get("warps", "")),
                         str(r.get("per_element", "")), str(limit[key]) if limit else "none"))  # fmt: skip
    return lines


def row_calls(rows, budgets):
    lines = table("operation", "", "type", "instructions an element", "sectors loaded", "sectors stored")
    for r in rows:
        limit = row_costs.budget_of(r, budgets.get("row_calls", ()), row_costs.CALL_KEYS) or {}
        shown = [f"{r[key]} ({r[key + '_least']}, {limit.get(key, 'none')})" for key in ("sectors_loaded", "sectors_stored")]
        lines.append(row(f"`{r['op']}`", r["direction"], r["type"], str(r["per_element"]), *shown))
    return lines


def page(figures, budgets):
    lines = ["# What the kernels cost", "", paragraph(ABOUT.format(nvcc=figures["nvcc"])), "", "## One tile of attention", "", paragraph(TILE)]
    for of_type in ("bf16", "TF32"):
        lines += ["", f"### {of_type}", "", *tiles([r for r in figures["tiles"] if r["type"] == of_type], budgets)]
    lines += ["", "## Whole calls of attention", "", paragraph(CALLS), "", *calls(figures["calls"])]
    lines += ["", "### Beside FlashAttention-3", "", paragraph(FORWARD.format(limit=budgets["forward_per_score"])), "", *forward(figures["calls"])]
    lines += ["", "### Local attention", "", paragraph(LOCAL), "", *local(figures["local_calls"])]
    lines += ["", "### Short texts", "", paragraph(SHORT), "", *short(figures["short_calls"])]
    lines += ["", "## A model of attention's time", "", paragraph(MODEL), "", *modelled(figures["model"])]
    sectors = {of_type: row_costs.ROWS * row_costs.COLUMNS * size // 32 for of_type, size in (("bf16", 2), ("fp32", 4))}
    lines += ["", "## Norms and operations on elements", "", paragraph(ROW_KERNELS), "", *row_kernels(figures["row_kernels"], budgets)]
    about_calls = ROW_CALLS.format(rows=row_costs.ROWS, columns=row_costs.COLUMNS, **sectors)
    lines += ["", "### Their calls", "", paragraph(about_calls), "", *row_calls(figures["row_calls"], budgets)]
    return "\n".join(lines) + "\n"
