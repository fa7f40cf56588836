"""Tests of scripts/sass.py on machine code with known loops, and of how scripts/kernel-costs reads a report. Prints `ok: …` or `FAILED: …`."""

import importlib.machinery
import importlib.util
import sys
from pathlib import Path

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"
sys.path.insert(0, str(SCRIPTS))

import row_costs  # noqa: E402
import sass  # noqa: E402

loader = importlib.machinery.SourceFileLoader("kernel_costs", str(SCRIPTS / "kernel-costs"))
kernel_costs = importlib.util.module_from_spec(importlib.util.spec_from_loader("kernel_costs", loader))
loader.exec_module(kernel_costs)

# A loop over tiles with a fast path of three products, a slow path that calls a function, and an inner loop of draws.
CODE = """
\t.section\t.text.kernel,"ax",@progbits
.text.kernel:
        /*0000*/                   S2R R0, SR_TID.X ;
.L_tile:
        /*0010*/                   BAR.SYNC.DEFER_BLOCKING 0x0 ;
        /*0020*/              @!P0 BRA `(.L_slow) ;
        /*0030*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0040*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0050*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*0060*/               @P1 BRA `(.L_next) ;
.L_draw:
        /*0070*/                   IMAD.WIDE.U32 R2, R3, -0x2daee0ad, RZ ;
        /*0080*/              @!P2 BRA `(.L_draw) ;
        /*0090*/                   BRA `(.L_next) ;
.L_slow:
        /*00a0*/                   CALL.REL.NOINC `($divide) ;
        /*00b0*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*00c0*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*00d0*/                   HMMA.16816.F32.BF16 R4, R8, R12, R4 ;
        /*00e0*/                   IMAD.MOV.U32 R2, RZ, RZ, R3 ;
.L_next:
        /*00f0*/               @P3 BRA `(.L_tile) ;
        /*0100*/                   EXIT ;
\t.section\t.text.other,"ax",@progbits
.text.other:
        /*0000*/                   EXIT ;
"""


NORM = (
    "_ZN6heddle4cuda13norm_backwardINS0_10NormLayoutINS_4bf16ENS0_8WarpTeamELi8ELb1ELb1EEENS_6kernel16_GLOBAL__N__0_a_cu13DroppedBranchIS3_EENS0_"
    "12NormGradientIS3_Lb1ENS0_11WholeResultEEES3_EEvT_T1_NS_4ViewIT2_Li2EEET0_NS0_8NormSumsISC_EE"
)
WARPS = {"op": "layer_norm", "direction": "backward", "type": "bf16", "dropout": "", "warps": 10}


def check(claim, holds):
    print(f"{'ok' if holds else 'FAILED'}: {claim}")
    return holds


def product(instruction):
    return instruction.part == "HMMA"


def draw(instruction):
    return "-0x2daee0ad" in instruction.operands


def part_of_report(kernel, seconds):
    counts = "shared memory: 4 wavefronts of loads (4 without conflicts), 2 of stores (2); global: 8 sectors loaded (8 at least), 2 stored (2)"
    return f"  120 warp instructions (32.0 lanes), 7 launches, {seconds} s: void heddle::{kernel}<float>(float*)\n    fp 70 int 50\n    {counts}\n"


# The interpreter prints the slowest kernel first. Which one that is depends on what else the machine does.
one_order = part_of_report("attend", 0.02) + part_of_report("compute_delta", 0.01)
other_order = part_of_report("compute_delta", 0.03) + part_of_report("attend", 0.02)
kernels = sass.kernels_of(CODE)
kernel = kernels[0]
loops = sorted(kernel.loops(), key=lambda loop: len(loop[1]))
cost = lambda way: way and sum(len(kernel.blocks[block]) for block in way)  # noqa: E731
rounds = lambda *needs: [cost(kernel.cheapest_round(*loop, needs)) for loop in loops]  # noqa: E731
results = [
    check("all kernels are found, with their names", [k.name for k in kernels] == ["kernel", "other"]),
    check("the loop over tiles contains the loop of draws", len(loops) == 2 and loops[0][1] < loops[1][1]),
    check("the fast path is the cheapest way with all products", rounds((product, 3)) == [None, 7]),
    check("an inner loop is repeated until its need is met", rounds((product, 3), (draw, 4)) == [None, 7 + 8 + 1]),
    check("a loop without a need's instructions has no way", rounds((lambda i: i.part == "LDSM", 1)) == [None, None]),
    check("a move by the multiplier is a move", sass.class_of(kernel.blocks[5][-1]) == "move"),
    check("a report's rows do not depend on the kernels' times", kernel_costs.rows_of(one_order) == kernel_costs.rows_of(other_order)),
    check("the cheapest run ends at an exit and has all that is needed", cost(kernel.cheapest_run([(product, 3)])) == 1 + 7 + 1),
    check("a run without a need's instructions does not exist", kernel.cheapest_run([(lambda i: i.part == "LDSM", 1)]) is None),
    check("a norm's kernel is found by its mangled name", row_costs.norm_of(NORM) == {
        "op": "residual_layer_norm", "direction": "backward", "type": "bf16", "dropout": ""}),
    check("an operation on rows is found in a report", [(row["op"], row["type"], row["sectors_loaded"]) for row in row_costs.calls(
        kernel_costs.counts_of(part_of_report("drop_elements", 0.1) + part_of_report("attend", 0.1)))] == [("dropout", "fp32", 1)]),
    check("fewer warps than the budget are a failure", len(row_costs.over_budget({"row_kernels": [WARPS]}, {"row_kernels": [WARPS | {"warps": 24}]})) == 1),
    check("a report has a row for each kernel", [row["kernel"] for row in kernel_costs.rows_of(one_order)] == ["attend", "compute_delta"]),
]
sys.exit(0 if all(results) else 1)
