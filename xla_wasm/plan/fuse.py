"""Chooses which instructions get a buffer; all others become part of the kernels that use them."""

from __future__ import annotations

from ..hlo.ir import Computation, Instruction
from ..ops.lowering import CHEAP, ELEMENTAL, ELEMENTWISE, KERNELS, VIEWS

_MAX_OPERATIONS = 120
"""Operations in one kernel's expression: functions must stay small for engines to compile well."""

# Operands of these operations are read about once per element, so what makes them may be computed on the way.
_READ_ONCE: dict[str, tuple[int, ...]] = {
    "pad": (0, 1),
    "dynamic-update-slice": (1, 2, 3, 4, 5, 6, 7),
    "select-and-scatter": (1, 2),
}


def materialized(computation: Computation) -> tuple[set[Instruction], set[Instruction]]:
    """The instructions of a computation that get buffers, and those of them that finish a product."""
    users: dict[Instruction, list[Instruction]] = {x: [] for x in computation.instructions}
    for x in computation.instructions:
        for o in dict.fromkeys(x.operands):
            users[o].append(x)
    chosen: set[Instruction] = set()
    kernels: dict[Instruction, frozenset[Instruction]] = {}
    weight: dict[Instruction, int] = {}
    lefts: set[Instruction] = set()
    chains: set[Instruction] = set()
    products: set[Instruction] = set()
    for x in reversed(computation.instructions):
        # The kernels that would compute x, were it part of all that use it.
        kernels[x] = frozenset[Instruction]().union(*(kernels[u] for u in users[x]))
        heaviest = max((weight[u] for u in users[x]), default=0)
        left = any(u in lefts or (u.opcode in PRODUCTS and u.operands[0] is x) for u in users[x])
        if left and x.opcode in VIEWS and x.opcode != "reverse" and x is not computation.root and not _used_by_control(users[x]):
            # A product reads its left side through strides.
            lefts.add(x)
        elif left or _needs_buffer(x, users[x], computation, len(kernels[x]), heaviest):
            joins = not left and len(kernels[x]) == 1 and not kernels[x] <= products and _chained(x, users[x], chosen, chains)
            if x.opcode in PRODUCTS and joins:
                # One product in a kernel, whose elements are finished on its accumulators.
                products |= kernels[x]
            else:
                chosen.add(x)
                kernels[x], heaviest = frozenset((x,)), 0
        elif len(kernels[x]) == 1 and _chained(x, users[x], chosen, chains):
            chains.add(x)
        weight[x] = 1 + heaviest
    return chosen, products


def _chained(x: Instruction, users: list[Instruction], chosen: set[Instruction], chains: set[Instruction]) -> bool:
    """Whether what uses `x` takes each element once, in order, and so on up to the kernel's root."""
    return bool(users) and all(_follows(u, x) and (u in chosen or u in chains) for u in users)


def _follows(user: Instruction, x: Instruction) -> bool:
    """Whether a user takes each element of `x` once, in the same order."""
    return (user.opcode in ELEMENTWISE or user.opcode == "reshape") and user.shape.is_array and user.shape.size == x.shape.size


PRODUCTS = ("dot", "convolution")


def _needs_buffer(x: Instruction, users: list[Instruction], computation: Computation, kernels: int, weight: int) -> bool:
    if x is computation.root:
        return True
    if x.opcode in ("parameter", "tuple", "while", "conditional", "complex") or x.opcode in KERNELS:
        return True
    if x.opcode == "constant":
        return x.attrs["literal"].splat_value() is None or _used_by_control(users)
    if x.opcode == "get-tuple-element":
        # A leaf of a loop's result is there already; of a reduction it is computed with its siblings.
        return True
    if x.opcode == "iota":
        return _used_by_control(users)
    if x.opcode == "bitcast":
        # The same bytes as what it reads, and so no work.
        return True
    if x.opcode not in ELEMENTWISE and x.opcode not in ELEMENTAL:
        return True
    if _used_by_control(users):
        return True
    if x.shape.is_tuple or x.opcode in ("reduce", "reduce-window", "dot", "convolution"):
        return not (x.shape.is_array and _epilogue(x, users))
    if not all(_absorbs(u, x) for u in users):
        return not _only_views(x)
    if kernels > 1:
        return not _cheap(x, 6)
    return weight > _MAX_OPERATIONS


def _used_by_control(users: list[Instruction]) -> bool:
    return any(u.opcode in ("tuple", "while", "conditional", "custom-call") for u in users)


def _epilogue(x: Instruction, users: list[Instruction]) -> bool:
    """Whether a reduction's only user takes each of its elements once, right where it is finished.

    Reductions over the last dimensions get a group instead (see `plan.group`).
    """
    if x.opcode != "reduce" or len(users) != 1 or not _follows(users[0], x):
        return False
    rank = x.operands[0].shape.rank
    return sorted(x.attrs["dimensions"]) != list(range(rank - len(x.attrs["dimensions"]), rank))


def _absorbs(user: Instruction, x: Instruction) -> bool:
    """Whether a user may compute `x` itself without computing much of it again."""
    if user.opcode in ELEMENTWISE or user.opcode in ("reduce", "map", "reshape", "transpose", "reverse", "slice"):
        return True
    if user.opcode == "broadcast":
        return x.shape.size == 1
    if user.opcode in ("dynamic-slice", "gather"):
        return x is not user.operands[0] or _cheap(x, 4)
    if user.opcode in PRODUCTS:
        # Packed once, element by element.
        return user.operands[0] is not x and (user.opcode == "dot" or _cheap(x, 6))
    if user.opcode == "concatenate":
        return True
    if user.opcode in ("sort", "topk"):
        # Read once, but by code that holds several elements at a time.
        return _cheap(x, 4)
    if user.opcode in _READ_ONCE:
        positions = [i for i, o in enumerate(user.operands) if o is x]
        return all(p in _READ_ONCE[user.opcode] for p in positions)
    if user.opcode == "scatter":
        count = len(user.operands) // 2
        return all(i > count for i, o in enumerate(user.operands) if o is x)
    return False


def _only_views(x: Instruction) -> bool:
    """Whether `x` only renames indices of what lies in a buffer, so that reading through it costs nothing."""
    while x.opcode in VIEWS or x.opcode == "iota":
        if not x.operands:
            return True
        x = x.operands[0]
    return x.opcode in ("parameter", "constant")


def _cheap(x: Instruction, depth: int) -> bool:
    """Whether computing `x` again costs about as much as loading it."""
    if depth == 0:
        return False
    if x.opcode in ("parameter", "constant", "iota"):
        return True
    if x.shape.size == 1 and x.opcode in CHEAP:
        return True
    if x.opcode in VIEWS or x.opcode == "get-tuple-element":
        return True
    return x.opcode in CHEAP and all(_cheap(o, depth - 2) for o in x.operands)
