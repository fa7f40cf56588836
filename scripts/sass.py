"""The machine code of CUDA kernels, as nvdisasm prints it: its loops, and the cheapest way once around a loop."""

import collections
import heapq
import math
import operator
import re

# The classes of instructions, by the first part of an opcode.
_CLASSES = {
    "HMMA": "HMMA",
    "LDSM": "LDSM",
    "LDGSTS": "LDGSTS",
    "MUFU": "MUFU",
    "float": "FFMA FMUL FADD FMNMX FSEL FSET FSWZADD HFMA2 HADD2 HMUL2 F2FP F2F",
    "integer": "IADD3 IMAD LEA LOP3 SHF SHL SHR IMNMX VIADD VIMNMX IABS SEL PRMT SGXT BMSK POPC FLO I2F F2I I2FP I2I"
    " UIADD3 UIMAD ULEA ULOP3 USHF UIMNMX USEL UPRMT UFLO UPOPC USGXT UVIADD",
    "predicate": "ISETP FSETP PLOP3 R2P P2R PSETP UISETP UPLOP3 UP2UR VOTE",
    "branch": "BRA BSSY BSYNC BREAK CALL RET EXIT WARPSYNC BRX JMP NOP ENDCOLLECTIVE",
    "load, store": "LDS STS LD ST LDG STG LDC ULDC LDL STL",
    "shuffle": "SHFL",
    "barrier": "BAR DEPBAR LDGDEPBAR B2R MEMBAR ERRBAR",
    "move": "MOV UMOV CS2R S2R S2UR R2UR",
}
CLASSES = [*_CLASSES, "other"]
_CLASS_OF = {opcode: name for name, opcodes in _CLASSES.items() for opcode in opcodes.split()}

# `part`: the first part of the opcode, such as IMAD of IMAD.WIDE.U32.
Instruction = collections.namedtuple("Instruction", "part opcode predicate operands")


def class_of(instruction):
    if instruction.opcode.startswith("IMAD.MOV"):
        return "move"
    return _CLASS_OF.get(instruction.part, "other")


class Kernel:
    """A kernel's blocks of instructions, and the blocks that may follow each."""

    def __init__(self, name):
        self.name, self.blocks, self.followers = name, [[]], []
        self._labels, self._ends = {}, {}  # blocks by label; the target and whether the next block may follow, by block

    def _begin_block(self):
        if self.blocks[-1]:
            self.blocks.append([])

    def add_label(self, label):
        self._begin_block()
        self._labels[label] = len(self.blocks) - 1

    def add(self, instruction):
        self.blocks[-1].append(instruction)
        if instruction.part in ("BRA", "EXIT", "RET", "BRX", "JMP"):
            target = re.search(r"`\((\.L_[^)]*)\)", instruction.operands)
            # A branch may have its condition among its operands, or in its name (BRA.DIV: if lanes differ).
            condition = instruction.opcode + " " + instruction.operands.partition("`")[0]
            may_fall = bool(instruction.predicate or re.search(r"\bU?P\d|\.DIV|\.CONV", condition))
            self._ends[len(self.blocks) - 1] = target and target[1], may_fall
            self._begin_block()

    def link(self):
        for number in range(len(self.blocks)):
            target, may_fall = self._ends.get(number, (None, True))
            after = [self._labels[target]] if target in self._labels else []
            if may_fall and number + 1 < len(self.blocks):
                after.append(number + 1)
            self.followers.append(after)

    def loops(self):
        """Returns all loops as pairs (first block, blocks), inner loops after those that contain them."""
        found, todo = [], [set(range(len(self.blocks)))]
        while todo:
            nodes = todo.pop()
            for loop in _components(nodes, self.followers):
                entries = {f for n in nodes - loop for f in self.followers[n] if f in loop}
                first = min(entries or loop)
                found.append((first, loop))
                todo.append(loop - {first})
        return found

    def cheapest_round(self, first, loop, needs):
        """Returns the blocks of the way with the fewest instructions from the first block of a loop back to it. needs are pairs (counts,
        number): the way has at least `number` instructions for which counts(instruction) is true. Returns None if there is no such way."""
        numbers = tuple(number for _, number in needs)
        counted = {n: tuple(sum(map(counts, self.blocks[n])) for counts, _ in needs) for n in loop}
        reached = lambda sums, n: tuple(min(a + b, most) for a, b, most in zip(sums, counted[n], numbers))  # noqa: E731
        begin = first, reached((0,) * len(needs), first)
        if any(number and not any(counted[n][i] for n in loop) for i, number in enumerate(numbers)):
            return None
        # A*: the rest of a way takes at least what it would take if each needed instruction were paid for, plus the
        # payments for those that are missing. A price of 1 pays for the instruction itself, a higher one also for what
        # comes with it.
        paid = []
        for i, price in [(0, 1)] + [(i, price) for i, number in enumerate(numbers) if number for price in (2, 4, 6, 8, 10, 12)]:
            prices = [(price if i == j else 1) * (number > 0) for j, number in enumerate(numbers)]
            if rest := self._paid_rest(first, loop, {n: sum(map(operator.mul, prices, counted[n])) for n in loop}):
                paid.append((prices, rest))
        owed = lambda prices, sums: sum(price * (number - have) for price, number, have in zip(prices, numbers, sums))  # noqa: E731
        least_rest = lambda n, sums: max((rest[n] + owed(prices, sums) for prices, rest in paid), default=0)  # noqa: E731
        lengths, before = {begin: len(self.blocks[first])}, {}
        queue = [(lengths[begin], lengths[begin], begin)]
        while queue:
            _, length, state = heapq.heappop(queue)
            block, sums = state
            if length > lengths[state]:
                continue
            if block == first and state != begin:
                way = []
                while state in before:
                    state = before[state]
                    way.append(state[0])
                return way[::-1]
            for follower in self.followers[block]:
                if follower not in loop or (follower == first and sums != numbers):
                    continue
                back = follower == first
                then = (first, None) if back else (follower, reached(sums, follower))
                longer = length + (0 if back else len(self.blocks[follower]))
                if longer < lengths.get(then, longer + 1):
                    lengths[then], before[then] = longer, state
                    heapq.heappush(queue, (longer + (0 if back else least_rest(*then)), longer, then))
        return None

    def cheapest_run(self, needs):
        """Returns the blocks of the way with the fewest instructions from the first block to an exit, as cheapest_round() does."""
        followers = self.followers
        exits = {n for n, block in enumerate(self.blocks) if any(i.part == "EXIT" for i in block)}
        self.followers = [after + [0] * (n in exits) for n, after in enumerate(followers)]
        way = self.cheapest_round(0, set(range(len(self.blocks))), needs)
        self.followers = followers
        return way

    def _paid_rest(self, first, loop, payments):
        """Returns for each block of a loop what the rest of a way takes at least after it, if each block is paid for. Returns None if a round
        of an inner loop earns more than it takes."""
        rest, order = {n: math.inf for n in loop}, sorted(loop, reverse=True)
        cost = {n: len(self.blocks[n]) - payments[n] for n in loop}
        for _ in range(len(loop) + 1):
            changed = False
            for n in order:
                least = min((0 if f == first else cost[f] + rest[f] for f in self.followers[n] if f in loop), default=math.inf)
                if least < rest[n]:
                    rest[n], changed = least, True
            if not changed:
                return rest
        return None


def _components(nodes, followers):
    """Yields the strongly connected components with a cycle, by Tarjan's algorithm without recursion."""
    order, low, open_nodes, stack = {}, {}, set(), []
    for root in nodes:
        if root in order:
            continue
        work = [(root, None)]
        while work:
            node, rest = work.pop()
            if rest is None:
                order[node] = low[node] = len(order)
                stack.append(node)
                open_nodes.add(node)
                rest = iter([f for f in followers[node] if f in nodes])
            for follower in rest:
                if follower not in order:
                    work += [(node, rest), (follower, None)]
                    break
                if follower in open_nodes:
                    low[node] = min(low[node], order[follower])
            else:
                if work:
                    parent = work[-1][0]
                    low[parent] = min(low[parent], low[node])
                if low[node] == order[node]:
                    component = set(stack[stack.index(node) :])
                    del stack[stack.index(node) :]
                    open_nodes -= component
                    if len(component) > 1 or node in followers[node]:
                        yield component


def kernels_of(text):
    """Returns the kernels in the output of `nvdisasm -c`."""
    kernels, kernel = [], None
    for line in text.splitlines():
        if begin := re.match(r"\.text\.(\S+):$", line):
            kernel = Kernel(begin[1])
            kernels.append(kernel)
        elif re.match(r"\s*\.section\s", line):
            kernel = None
        elif kernel and (label := re.match(r"(\.L_\S+):$", line)):
            kernel.add_label(label[1])
        elif kernel and (found := re.match(r"\s+/\*[0-9a-f]{4,}\*/\s+(?:@(!?U?P\w+)\s+)?(([A-Z0-9]+)[\w.]*)\s*([^;]*);", line)):
            kernel.add(Instruction(found[3], found[2], found[1] or "", found[4].strip()))
    for kernel in kernels:
        kernel.link()
    return kernels
