"""A model of the time of attention's kernels on a GPU (SXM boards), from the counts of scripts/kernel-costs.

A kernel's time is the largest of what each part of a multiprocessor needs for all of its tiles: issue slots, tensor cores, special
functions, shared memory; and the time of its traffic with global memory. Each multiprocessor processes whole blocks, so the slowest one
has ceil(blocks / multiprocessors) of them. The model assumes that all latencies are hidden, so a kernel that is slower than this waits.
"""

import re
from collections import namedtuple

# product_cycles: of a tensor core for a bf16 product of 16 x 8 x 16 by mma.sync. An H100's takes 4 by wgmma; mma.sync
# reaches 62 % of that (Luo et al., "Benchmarking and Dissecting the Nvidia Hopper GPU Architecture via
# Microbenchmarking", 2024).
Gpu = namedtuple("Gpu", "name multiprocessors clock product_cycles bandwidth")
GPUS = (Gpu("H100", 132, 1.755e9, 6.4, 3.35e12), Gpu("H200", 132, 1.98e9, 6.4, 4.8e12), Gpu("A100", 108, 1.41e9, 8, 2.04e12))
SCHEDULERS = 4  # of a multiprocessor; each has a tensor core
SPECIAL_CYCLES = 8  # of a scheduler's special-function unit for a warp's instruction
SHARED_BYTES = 128  # of shared memory a cycle
REGISTERS = 65536  # of a multiprocessor
WARPS_OF_BLOCK = 4
HEAD_KERNELS = {"head_gradients 128": 128, "head_gradients 256": 256}  # the most keys of a block; for heads up to 64 wide

# Published rates for 32 texts of 512 tokens and 2,048 columns in heads of 64, in TFLOP/s on an H100 SXM (fp16, no mask,
# no dropout), read from the charts of FlashAttention-3 (Shah et al., 2024).
PUBLISHED = {
    "forward": {"FlashAttention-2": 282, "FlashAttention-3": 333, "cuDNN": 335},
    "backward": {"FlashAttention-2": 198, "FlashAttention-3": 272, "cuDNN": 266},
}
SHAPES = ((32, 12, 512, 64), (32, 12, 128, 64), (32, 12, 2048, 64), (32, 32, 512, 64))  # texts, heads, tokens, head width


def warps_of_block(kernel):
    """Returns the most warps of a kernel's block."""
    return HEAD_KERNELS[kernel] // 32 if kernel in HEAD_KERNELS else WARPS_OF_BLOCK


def resident_warps(registers, warps):
    """Returns how many warps a multiprocessor's registers hold, in blocks of `warps`."""
    of_warp = (registers * 32 + 255) // 256 * 256
    return min(64, REGISTERS // (of_warp * warps) * warps)


def parts(row, gpu):
    """Returns the cycles that each part of a multiprocessor needs for one tile of one warp."""
    classes = row["classes"]
    shared = 512 * (classes.get("LDSM", 0) + classes.get("LDGSTS", 0)) + 128 * classes.get("shuffle", 0)
    return {
        "issue": row["instructions"] / SCHEDULERS,
        "tensor cores": row["products"] * gpu.product_cycles / SCHEDULERS,
        "special functions": classes.get("MUFU", 0) * SPECIAL_CYCLES / SCHEDULERS,
        "shared memory": shared / SHARED_BYTES,
    }


def seconds(row, gpu, shape):
    """Returns the seconds of a kernel for texts of one length, and the part that limits it."""
    texts, heads, tokens, width = shape
    warps = warps_of_block(row["kernel"])
    blocks = texts * heads * -(-tokens // (row["own_rows"] * warps))
    tiles = -(-tokens // row["tile_rows"]) * warps * -(-blocks // gpu.multiprocessors)
    times = {part: cycles * tiles / gpu.clock for part, cycles in parts(row, gpu).items()}
    matrices = {"attend": 4, "query_gradient": 5, "key_value_gradients": 6}.get(row["kernel"], 9)
    decisions = {"attend": 1, "query_gradient": 1}.get(row["kernel"], 2) * (row["dropout"] == "stored")  # a bit a score
    times["memory"] = texts * heads * tokens * (matrices * width * 2 + decisions * tokens / 8) / gpu.bandwidth
    limit = max(times, key=times.get)
    return times[limit], limit


def modelled(rows, gpu, name):
    """Returns the modelled seconds of a benchmark of gpu-check, such as attention/32x12x512x64/full/forward, or None."""
    found = re.fullmatch(r"attention/(\d+)x(\d+)x(\d+)x(\d+)/full(/dropout)?/forward(_backward)?", name)
    if not found:
        return None
    shape, directions = [int(size) for size in found.groups()[:4]], ("forward", "backward") if found[6] else ("forward",)
    times = [r["seconds"] for r in rows if r["gpu"] in gpu and r["shape"] == shape and r["dropout"] == bool(found[5]) and r["direction"] in directions]
    return sum(times) if len(times) == len(directions) else None


def model(figures):
    """Returns a row for each GPU, shape and direction, in bf16."""
    rows = []
    for gpu in GPUS:
        for shape in SHAPES:
            texts, heads, tokens, width = shape
            for dropout in (False, True):
                # The decisions are stored while a query's bits take no more memory than its row of the result.
                way = "none" if not dropout else "stored" if tokens <= 8 * 2 * width else "drawn"
                found = {r["kernel"]: r for r in figures["tiles"] if (r["type"], r["width"], r["dropout"]) == ("bf16", width, way)}
                delta = 2 * texts * heads * tokens * width * 2 / gpu.bandwidth
                of_head = next((kernel for kernel, keys in HEAD_KERNELS.items() if tokens <= keys), None)  # computes delta, too
                backward = [of_head] if of_head else ["query_gradient", "key_value_gradients"]
                for direction, kernels in {"forward": ["attend"], "backward": backward}.items():
                    times = [seconds(found[k], gpu, shape) for k in kernels]
                    total = sum(time for time, _ in times) + (delta if direction == "backward" and not of_head else 0)
                    flops = (4 if direction == "forward" else 10) * texts * heads * tokens * tokens * width
                    rows.append({
                        "gpu": gpu.name, "shape": list(shape), "direction": direction, "dropout": dropout, "seconds": total,
                        "limits": [limit for _, limit in times], "tflops": round(flops / total / 1e12),
                    })  # fmt: skip
    return rows
