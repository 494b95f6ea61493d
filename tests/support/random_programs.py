"""Random small HLO programs whose results are exact: one function per kind of operation, and `draw_program`."""

from __future__ import annotations

from collections.abc import Callable
from math import prod

from tests.support.random_values import (
    COMPLEX,
    FLOATS,
    INTEGERS,
    REAL,
    Draw,
    Program,
    Skip,
    Value,
    exact,
    is_float,
    is_rounded,
    usual_bound,
    values,
)
from xla_wasm.builder import Builder, scalar_computation
from xla_wasm.hlo.attrs import (
    ConvolutionDimensionNumbers,
    DotDimensionNumbers,
    GatherDimensionNumbers,
    PaddingDimension,
    ScatterDimensionNumbers,
    SliceDimension,
    Window,
    WindowDimension,
)
from xla_wasm.hlo.ir import Instruction, Module
from xla_wasm.hlo.shape import Shape
from xla_wasm.hlo.types import TYPES
from xla_wasm.ops.dtypes import Array


def unary(p: Program) -> None:
    v = p.any()
    if v.dtype == "pred":
        p.keep(p.b.op("not", v.x), 1)
    elif v.dtype in COMPLEX:
        p.keep(p.b.op("negate", v.x), v.bound)
    elif is_float(v.dtype):
        opcode = p.draw.pick(("negate", "abs", "floor", "sign", "round-nearest-even", "ceil", "round-nearest-afz"))
        p.keep(p.b.op(opcode, v.x), max(v.bound, 1))
    else:
        signed = TYPES[v.dtype].kind == "signed"
        p.keep(
            p.b.op(p.draw.pick(("negate", "not", "popcnt", "sign", "count-leading-zeros", *("abs",) * signed)), v.x), 0
        )


def binary(p: Program) -> None:
    v = p.any()
    w = p.like(v)
    if p.draw.chance(2):
        v, w = w, v
    if v.dtype == "pred":
        p.keep(p.b.op(p.draw.pick(("and", "or", "xor")), v.x, w.x), 1)
    elif is_rounded(v.dtype):
        opcode = p.draw.pick(("add", "subtract", *(() if v.dtype in COMPLEX else ("maximum", "minimum")), "multiply"))
        if opcode == "multiply" and v.bound * w.bound > 2**10:
            raise Skip
        bounds = {
            "multiply": v.bound * w.bound * (1 + (v.dtype in COMPLEX)),
            "maximum": max(v.bound, w.bound),
            "minimum": max(v.bound, w.bound),
        }
        p.keep(p.b.op(opcode, v.x, w.x), bounds.get(opcode, v.bound + w.bound))
    else:
        shifts = ("shift-left", "shift-right-logical", "shift-right-arithmetic")
        p.keep(
            p.b.op(
                p.draw.pick(
                    (
                        "add",
                        "subtract",
                        "multiply",
                        "maximum",
                        "minimum",
                        "and",
                        "or",
                        "xor",
                        "divide",
                        "remainder",
                        *shifts,
                    )
                ),
                v.x,
                w.x,
            ),
            0,
        )


DEAR = (
    ("tanh", -8, 8, 30.09375, 1.125),
    ("logistic", -8, 8, 16, 1.3125),
    ("sine", -20, 20, 20.9375, 1.40625),
    ("cosine", -20, 20, 32, 1.40625),
    ("exponential", -4, 1, 15.71875, 1.0625),
    ("exponential-minus-one", -4, 1, 31.40625, 1.15625),
    ("log", 1, 20, 16.359375, 1.0625),
    ("log-plus-one", 0, 20, 16.359375, 1.0625),
    ("sqrt", 0, 20, 10.34375, 1.1875),
    ("rsqrt", 1, 20, 26.40625, 2.8125),
    ("cbrt", -20, 20, 10.625, 1.21875),
    ("erf", -3, 3, 19.03125, 1.0625),
    ("tan", -8, 8, 13.640625, 1.46875),
)
"""Functions that are not cheap, and the range of their arguments. Of whole numbers there, their multiples by the first
factor lie so far from where rounding turns that f16 is precise enough, and by the second that bf16 is."""


def function(p: Program) -> None:
    """A function that is not cheap, rounded until it is exact."""
    dear_function(p, p.any(tuple(t for t in FLOATS if exact(t) > 100)))


def dear_function(p: Program, v: Value) -> None:
    """One of `DEAR`, of a value brought into its range."""
    opcode, low, high, *factors = p.draw.pick(DEAR)
    factor = factors[exact(v.dtype) < 1000]
    x = v.x
    if low > 0 or v.bound > min(-low or high, high):
        x = p.b.op("clamp", p.b.constant(low, v.dtype), x, p.b.constant(high, v.dtype))
    p.keep(
        p.b.op("round-nearest-even", p.b.multiply(p.b.op(opcode, x), _full(p, factor, v))), 100 if factor > 8 else 10
    )


def _full(p: Program, number: float, v: Value) -> Instruction:
    return p.b.full(number, Shape(v.dtype, v.dims))


def compare(p: Program) -> None:
    v = p.any()
    w = p.like(v)
    directions = ("EQ", "NE") if v.dtype in COMPLEX else ("LT", "EQ", "GE", "NE", "GT", "LE")
    p.keep(p.b.compare(v.x, w.x, p.draw.pick(directions)), 1)


def select(p: Program) -> None:
    v = p.any()
    w = p.like(v)
    condition = p.like(v, "pred")
    p.keep(p.b.op("select", condition.x, v.x, w.x), max(v.bound, w.bound))


def clamp(p: Program) -> None:
    v = p.any(REAL)
    low, high = (p.scalar(v.dtype) for _ in range(2)) if p.draw.chance(2) else (p.like(v), p.like(v))
    p.keep(p.b.op("clamp", low.x, v.x, high.x), max(v.bound, low.bound, high.bound))


def convert(p: Program) -> None:
    v = p.any()
    convert_to(p, v, p.draw.type())


def convert_to(p: Program, v: Value, target: str) -> Value:
    """`v` in another type; an integer that may be large is brought near first."""
    if v.dtype in COMPLEX and target not in COMPLEX and target != "pred":
        if is_float(target) and p.draw.chance(2):
            return p.keep(p.b.convert(v.x, target), v.bound)
        v = Value(p.b.op("real", v.x), v.bound)
    if not is_rounded(target) or is_rounded(v.dtype) or v.dtype == "pred":
        return p.keep(p.b.convert(v.x, target), v.bound if is_rounded(target) else 0)
    near = 100 if exact(target) >= 100 else 3
    x, bits = v.x, TYPES[v.dtype].bits
    if 2 ** (bits - 1) > near:
        x = p.b.op("remainder", x, p.b.full(near, x.shape.without_layout()))
    return p.keep(p.b.convert(x, target), near)


def broadcast(p: Program) -> None:
    v = p.any()
    if len(v.dims) > 3:
        raise Skip
    rank = p.draw.integer(len(v.dims), 4)
    sizes = [p.draw.pick(p.sizes[:7]) for _ in range(rank)]
    places = sorted(p.draw.permutation(rank)[: len(v.dims)])
    for place, size in zip(places, v.dims):
        sizes[place] = size
    if prod(sizes) > p.most_elements:
        raise Skip
    p.keep(p.b.broadcast(v.x, sizes, places), v.bound)


def reshape(p: Program) -> None:
    v = p.any()
    rest = prod(v.dims)
    sizes: list[int] = []
    while rest > 1 and len(sizes) < 4:
        factors = [f for f in range(1, rest + 1) if rest % f == 0]
        sizes.append(p.draw.pick(factors))
        rest //= sizes[-1]
    sizes.append(rest)
    if p.draw.chance(3):
        sizes.insert(p.draw.integer(0, len(sizes)), 1)
    p.keep(p.b.reshape(v.x, sizes), v.bound)


def transpose(p: Program) -> None:
    v = p.any(rank=2)
    p.keep(p.b.op("transpose", v.x, dimensions=p.draw.permutation(len(v.dims))), v.bound)


def reverse(p: Program) -> None:
    v = p.any(rank=1)
    p.keep(p.b.op("reverse", v.x, dimensions=p.draw.subset(range(len(v.dims)))), v.bound)


def slice_(p: Program) -> None:
    v = p.any(rank=1)
    bounds = []
    for size in v.dims:
        start = p.draw.integer(0, size - 1) if size and p.draw.chance(2) else 0
        limit = p.draw.integer(min(start + 1, size), size) if p.draw.chance(2) else size
        bounds.append(SliceDimension(start, limit, p.draw.pick((1, 1, 2, 3))))
    p.keep(p.b.op("slice", v.x, slice=tuple(bounds)), v.bound)


def pad(p: Program) -> None:
    v = p.any(rank=1)
    fill = p.scalar(v.dtype)
    padding = tuple(
        PaddingDimension(*(p.draw.pick((0, 1, 2, -1)) for _ in range(2)), p.draw.pick((0, 0, 1))) for _ in v.dims
    )
    for size, d in zip(v.dims, padding):
        if size + d.edge_padding_low + d.edge_padding_high + max(size - 1, 0) * d.interior_padding < 0:
            raise Skip
    p.keep(p.b.op("pad", v.x, fill.x, padding=padding), max(v.bound, fill.bound))


def concatenate(p: Program) -> None:
    v = p.any(rank=1)
    d = p.draw.integer(0, len(v.dims) - 1)
    parts = [
        w
        for w in p.values
        if w.dtype == v.dtype
        and len(w.dims) == len(v.dims)
        and w.dims[:d] + w.dims[d + 1 :] == v.dims[:d] + v.dims[d + 1 :]
    ]
    chosen = [v] + [p.draw.pick(parts) for _ in range(p.draw.integer(1, 2))]
    p.keep(p.b.op("concatenate", *(w.x for w in chosen), dimensions=(d,)), max(w.bound for w in chosen))


def iota(p: Program) -> None:
    dims = p.dims() or (3,)
    dtype = p.draw.type()
    if dtype == "pred":
        raise Skip  # there is none
    p.keep(p.b.iota(Shape(dtype, dims), p.draw.integer(0, len(dims) - 1)), max(dims))


def constant(p: Program) -> None:
    v = p.literal(p.dims(), p.draw.type())
    p.keep(v.x, v.bound)


def reduce(p: Program) -> None:
    v = p.any(rank=1)
    dims = p.draw.subset(range(len(v.dims))) or (len(v.dims) - 1,)
    count = prod(v.dims[d] for d in dims)
    opcodes = (
        ("and", "or")
        if v.dtype == "pred"
        else ("add",)
        if v.dtype in COMPLEX
        else ("add", "maximum", "minimum", *(() if is_float(v.dtype) else ("multiply", "and", "xor")))
    )
    opcode = p.draw.pick(opcodes)
    init = p.scalar(v.dtype)
    p.keep(
        p.b.reduce(v.x, init.x, opcode, dims), v.bound * count + init.bound if opcode == "add" else v.bound + init.bound
    )


def reduce_two(p: Program) -> None:
    """The largest element and where it stands: a reduction of two operands in order."""
    v = p.any(REAL, rank=1)
    d = p.draw.integer(0, len(v.dims) - 1)
    f = Builder("argmax")
    scalars = [f.parameter(i, Shape(t)) for i, t in enumerate((v.dtype, "s32", v.dtype, "s32"))]
    first = f.compare(scalars[0], scalars[2], "GE")
    f.op("tuple", f.op("select", first, scalars[0], scalars[2]), f.op("select", first, scalars[1], scalars[3]))
    places = p.b.iota(Shape("s32", v.dims), d)
    inits = [p.b.constant(0 if v.dtype[0] == "u" or TYPES[v.dtype].bits < 4 else -3, v.dtype), p.b.constant(-1, "s32")]
    both = p.b.op("reduce", v.x, places, *inits, called=[f.build()], dimensions=(d,))
    if p.draw.chance(2):
        p.keep(p.b.get_tuple_element(both, 0), v.bound + 3)
    p.keep(p.b.get_tuple_element(both, 1), 0)


def _window(p: Program, dims: tuple[int, ...], dilations: bool) -> Window:
    made = []
    for size in dims:
        w = WindowDimension(
            p.draw.pick((1, 2, 3)),
            p.draw.pick((1, 2)),
            p.draw.pick((0, 0, 1)),
            p.draw.pick((0, 0, 1, 2)),
            p.draw.pick((1, 1, 2)) if dilations else 1,
            p.draw.pick((1, 1, 2)) if dilations else 1,
        )
        made.append(w if size else WindowDimension(1))
    return Window(tuple(made))


def _output(size: int, w: WindowDimension) -> int:
    base = (size - 1) * w.base_dilation + 1 if size else 0
    reach = (w.size - 1) * w.window_dilation + 1
    return max(0, (base + w.padding_low + w.padding_high - reach) // w.stride + 1)


def reduce_window(p: Program) -> None:
    v = p.any(REAL, rank=1)
    window = _window(p, v.dims, True)
    opcode = p.draw.pick(("add", "maximum", "minimum"))
    init = p.scalar(v.dtype)
    bound = v.bound * prod(w.size for w in window.dimensions) + init.bound
    called = scalar_computation(opcode, v.dtype)
    p.keep(p.b.op("reduce-window", v.x, init.x, called=[called], window=window), bound)


def select_and_scatter(p: Program) -> None:
    v = p.any((*FLOATS, "s32", "u8"), rank=1)
    window = _window(p, v.dims, False)
    dims = tuple(_output(size, w) for size, w in zip(v.dims, window.dimensions))
    source = p.literal(dims, v.dtype)
    init = p.scalar(v.dtype)
    f = Builder("ge")
    f.compare(f.parameter(0, Shape(v.dtype)), f.parameter(1, Shape(v.dtype)), p.draw.pick(("GE", "GT")))
    called = [f.build(), scalar_computation("add", v.dtype)]
    count = prod(w.size for w in window.dimensions)
    p.keep(
        p.b.op("select-and-scatter", v.x, source.x, init.x, called=called, window=window),
        usual_bound(v.dtype) * count + init.bound,
    )


def dot(p: Program) -> None:
    v = p.any(rank=1)
    batch = p.draw.subset(range(len(v.dims)))[:2] if p.draw.chance(3) else ()
    rest = [d for d in range(len(v.dims)) if d not in batch]
    contracting = p.draw.subset(rest)[:2] or tuple(rest[-1:])
    free = tuple(p.draw.pick(p.sizes) for _ in range(p.draw.integer(0, 2)))
    labels = [("b", d) for d in batch] + [("c", d) for d in contracting] + [("f", i) for i in range(len(free))]
    order = p.draw.permutation(len(labels))
    placed = [labels[i] for i in order]
    dims = tuple(free[i] if kind == "f" else v.dims[i] for kind, i in placed)
    if (
        prod(dims) > p.most_elements
        or prod(free) * prod(v.dims[d] for d in rest if d not in contracting) * prod(v.dims[d] for d in batch)
        > p.most_elements
    ):
        raise Skip
    same = [w for w in p.values if w.dtype == v.dtype and w.dims == dims]
    w = p.draw.pick(same) if same else p.literal(dims, v.dtype)
    numbers = DotDimensionNumbers(
        tuple(contracting),
        tuple(placed.index(("c", d)) for d in contracting),
        tuple(batch),
        tuple(placed.index(("b", d)) for d in batch),
    )
    bound = (
        v.bound * w.bound * max(1, prod(v.dims[d] for d in contracting)) * (1 + (v.dtype in COMPLEX))
        if is_rounded(v.dtype)
        else 0
    )
    p.keep(p.b.op("dot", v.x, w.x, dot_dimension_numbers=numbers), bound)


def _small(p: Program, v: Value) -> Value:
    """Integers whose products do not overflow, with which XLA:CPU's convolutions do not wrap."""
    if is_rounded(v.dtype) or v.dtype == "pred" or TYPES[v.dtype].bits < 32:
        return v
    return Value(p.b.op("remainder", v.x, p.b.full(100, v.x.shape.without_layout())), 0)


def convolution(p: Program) -> None:
    dtype = p.draw.type() if p.draw.chance(3) else p.draw.pick(("f32", "s32", "f64"))
    spatial = p.draw.integer(1, 2)
    groups, batches = (p.draw.pick((1, 1, 2)), 1) if p.draw.chance(2) else (1, p.draw.pick((1, 1, 2)))
    inputs, outputs = p.draw.pick((1, 2, 3, 4)), p.draw.pick((1, 2, 4, 5)) * groups * batches
    sizes = [p.draw.pick((1, 3, 5, 6)) for _ in range(spatial)]
    window = []
    for _ in sizes:
        low, high = p.draw.pick((0, 1, -1)), p.draw.pick((0, 1, 2))
        w = WindowDimension(
            p.draw.pick((1, 2, 3)),
            p.draw.pick((1, 2)),
            low,
            high,
            p.draw.pick((1, 2)),
            p.draw.pick((1, 2)),
            p.draw.chance(4),
        )
        window.append(w)
    labels = ConvolutionDimensionNumbers
    left, right, out = (p.draw.permutation(spatial + 2) for _ in range(3))
    numbers = labels(left[0], left[1], left[2:], right[0], right[1], right[2:], out[0], out[1], out[2:])
    image, kernel = [0] * (spatial + 2), [0] * (spatial + 2)
    for place, size in zip(left, (2 * batches, inputs * groups, *sizes)):
        image[place] = size
    for place, size in zip(right, (inputs, outputs, *(w.size for w in window))):
        kernel[place] = size
    found = [v for v in p.values if v.dtype == dtype and v.dims == tuple(image)]
    v, k = (
        _small(p, x)
        for x in (p.draw.pick(found) if found else p.literal(tuple(image), dtype), p.literal(tuple(kernel), dtype))
    )
    bound = v.bound * k.bound * inputs * prod(w.size for w in window) * (1 + (dtype in COMPLEX))
    p.keep(
        p.b.op(
            "convolution",
            v.x,
            k.x,
            window=Window(tuple(window)),
            dim_labels=numbers,
            feature_group_count=groups,
            batch_group_count=batches,
        ),
        bound if is_rounded(dtype) else 0,
    )


def _starts(p: Program, v: Value) -> list[Instruction]:
    """Returns the indices at which a part of `v` begins, in one type. None becomes unsigned that may be negative, of
    which XLA:CPU has two opinions."""
    starts = [p.index(size).x for size in v.dims]
    types = {s.shape.element_type for s in starts}
    return (
        starts if len(types) == 1 else [s if s.shape.element_type == "s64" else p.b.convert(s, "s64") for s in starts]
    )


def dynamic_slice(p: Program) -> None:
    v = p.any(rank=1)
    sizes = tuple(p.draw.integer(min(1, size), size) for size in v.dims)
    starts = _starts(p, v)
    p.keep(p.b.op("dynamic-slice", v.x, *starts, dynamic_slice_sizes=sizes), v.bound)


def dynamic_update_slice(p: Program) -> None:
    v = p.any(rank=1)
    fitting = [
        w
        for w in p.values
        if w.dtype == v.dtype and len(w.dims) == len(v.dims) and all(a <= b for a, b in zip(w.dims, v.dims))
    ]
    update = (
        p.draw.pick(fitting)
        if p.draw.chance(2)
        else p.literal(tuple(p.draw.integer(min(1, size), size) for size in v.dims), v.dtype)
    )
    starts = _starts(p, v)
    p.keep(p.b.op("dynamic-update-slice", v.x, update.x, *starts), max(v.bound, update.bound))


def _indices(p: Program, dims: tuple[int, ...]) -> Value:
    found = [w for w in p.values if w.dtype in INTEGERS and w.dims == dims]
    if found and p.draw.chance(2):
        return p.draw.pick(found)
    return p.literal(dims, p.draw.pick(("s32", "u32", "u8", "s64")))


def gather(p: Program) -> None:
    v = p.any(rank=1)
    rank = len(v.dims)
    mapped = p.draw.subset(range(rank)) or (0,)
    sizes = tuple(p.draw.integer(min(1, v.dims[d]), v.dims[d]) for d in range(rank))
    collapsed = tuple(d for d in mapped if p.draw.chance(2) and v.dims[d])
    sizes = tuple(1 if d in collapsed else size for d, size in enumerate(sizes))
    batch = tuple(p.draw.pick((1, 2, 3, 5)) for _ in range(p.draw.integer(0, 2)))
    vector = p.draw.integer(0, len(batch))
    indices = _indices(p, (*batch[:vector], len(mapped), *batch[vector:]))
    offset_rank = rank - len(collapsed)
    offsets = tuple(sorted(p.draw.permutation(offset_rank + len(batch))[:offset_rank]))
    if prod(batch) * prod(sizes) > p.most_elements:
        raise Skip
    numbers = GatherDimensionNumbers(offsets, collapsed, mapped, vector)
    p.keep(p.b.op("gather", v.x, indices.x, gather_dimension_numbers=numbers, slice_sizes=sizes), v.bound)


def scatter(p: Program) -> None:
    v = p.any(rank=1)
    rank = len(v.dims)
    mapped = p.draw.subset(range(rank)) or (0,)
    inserted = tuple(d for d in mapped if p.draw.chance(2) and v.dims[d])
    window = tuple(p.draw.integer(min(1, v.dims[d]), v.dims[d]) for d in range(rank) if d not in inserted)
    batch = tuple(p.draw.pick((1, 2, 3, 5)) for _ in range(p.draw.integer(0, 2)))
    vector = p.draw.integer(0, len(batch))
    indices = _indices(p, (*batch[:vector], len(mapped), *batch[vector:]))
    places = tuple(sorted(p.draw.permutation(len(window) + len(batch))[: len(window)]))
    window_sizes, batch_sizes = iter(window), iter(batch)
    dims = tuple(next(window_sizes) if d in places else next(batch_sizes) for d in range(len(window) + len(batch)))
    if prod(dims) > p.most_elements:
        raise Skip
    found = [w for w in p.values if w.dtype == v.dtype and w.dims == dims]
    updates = p.draw.pick(found) if found else p.literal(dims, v.dtype)
    opcode = p.draw.pick(
        ("or", "set") if v.dtype == "pred" else ("add", "set") if v.dtype in COMPLEX else ("add", "maximum", "set")
    )
    f = Builder("combine")
    old, new = f.parameter(0, Shape(v.dtype)), f.parameter(1, Shape(v.dtype))
    called = f.build(new if opcode == "set" else f.op(opcode, old, new))
    numbers = ScatterDimensionNumbers(places, inserted, mapped, vector)
    p.keep(
        p.b.op("scatter", v.x, indices.x, updates.x, called=[called], scatter_dimension_numbers=numbers),
        v.bound + updates.bound * prod(batch),
    )


def _body(p: Program, name: str, arguments: list[Value], tuple_shape: Shape) -> tuple[Program, Instruction]:
    """A computation on the elements of one tuple."""
    inner = Program(p.operations, p.draw, name, p.depth + 1)
    state = inner.b.parameter(0, tuple_shape)
    for i, v in enumerate(arguments):
        inner.values.append(Value(inner.b.get_tuple_element(state, i), v.bound))
    return inner, state


def _same_type(inner: Program, v: Value) -> Instruction:
    """A value of the computation like `v` that is no larger, or `v` itself brought back into its bound."""
    found = [w for w in inner.values if w.dims == v.dims and w.dtype == v.dtype]
    w = found[-1 - inner.draw.integer(0, min(2, len(found) - 1))]
    if w.bound <= v.bound or not is_rounded(v.dtype):
        return w.x
    if v.dtype in COMPLEX:
        return next(w.x for w in found if w.bound <= v.bound)
    low, high = (inner.b.constant(sign * v.bound, v.dtype) for sign in (-1.0, 1.0))
    return inner.b.op("clamp", low, w.x, high)


def while_(p: Program) -> None:
    if p.depth > 1 or not p.values:
        raise Skip
    carried = [p.any() for _ in range(p.draw.integer(1, 3))]
    trips = p.draw.integer(0, 3)
    start = p.b.constant(0, "s32")
    state = p.b.op("tuple", *(v.x for v in carried), start)
    counter = Value(start, 4)
    body, _ = _body(p, "body", [*carried, counter], state.shape)
    ins = list(body.values)
    body.grow(p.draw.integer(1, 6))
    outs = [_same_type(body, v) for v in carried]
    if (
        p.draw.chance(3)
        and len(carried) > 1
        and carried[0].x.shape == carried[1].x.shape
        and carried[0].bound == carried[1].bound
    ):
        outs[0], outs[1] = ins[1].x, ins[0].x
    body.b.op("tuple", *outs, body.b.add(ins[-1].x, body.b.constant(1, "s32")))
    condition, _ = _body(p, "condition", [*carried, counter], state.shape)
    condition.b.compare(condition.values[-1].x, condition.b.constant(trips, "s32"), "LT")
    loop = p.b.while_(state, condition.b.build(), body.b.build())
    for i, v in enumerate(carried):
        if p.draw.chance(4) and i:
            continue
        p.keep(p.b.get_tuple_element(loop, i), v.bound)


def conditional(p: Program) -> None:
    if p.depth > 1 or not p.values:
        raise Skip
    v = p.any()
    branches = 2 if p.draw.chance(2) else 3
    selector = p.draw.pick(
        [w for w in p.values if not w.dims and w.dtype == ("pred" if branches == 2 else "s32")]
        or [p.scalar("pred" if branches == 2 else "s32")]
    )
    operands, called = [], []
    for k in range(branches):
        given = [v, p.any()]
        operands.append(p.b.op("tuple", *(w.x for w in given)))
        branch, _ = _body(p, f"branch{k}", given, operands[-1].shape)
        branch.grow(p.draw.integer(0, 4))
        root = _same_type(branch, v)
        called.append(branch.b.build(branch.b.op("tuple", root, branch.b.constant(k, "s32"))))
    result = p.b.op("conditional", selector.x, *operands, called=called)
    p.keep(p.b.get_tuple_element(result, 0), v.bound)
    p.keep(p.b.get_tuple_element(result, 1), 3)


def call(p: Program) -> None:
    if p.depth > 1 or not p.values:
        raise Skip
    given = [p.any() for _ in range(p.draw.integer(1, 2))]
    inner = Program(p.operations, p.draw, "called", p.depth + 1)
    inner.values = [Value(inner.b.parameter(i, v.x.shape.without_layout()), v.bound) for i, v in enumerate(given)]
    inner.grow(p.draw.integer(1, 4))
    root = inner.values[-1]
    p.keep(p.b.op("call", *(v.x for v in given), called=[inner.b.build(root.x)], shape=root.x.shape), root.bound)


def bitcast_convert(p: Program) -> None:
    v = p.any(tuple(t for t in INTEGERS if t[0] == "u" or t == "s32"))
    if v.dtype == "s32" and p.draw.chance(2):
        p.keep(p.b.bitcast_convert(v.x, "u8"), 0)
    else:
        p.keep(p.b.bitcast_convert(v.x, "s" + v.dtype[1:] if v.dtype != "s32" else "u32"), 0)


OPERATIONS: tuple[Callable[[Program], None], ...] = (
    *(
        unary,
        binary,
        binary,
        binary,
        compare,
        select,
        clamp,
        convert,
        function,
        broadcast,
        broadcast,
        reshape,
        reshape,
        transpose,
        transpose,
    ),
    *(
        reverse,
        slice_,
        slice_,
        pad,
        concatenate,
        iota,
        constant,
        reduce,
        reduce,
        reduce,
        reduce_two,
        reduce_window,
        select_and_scatter,
        dot,
        dot,
    ),
    *(
        convolution,
        dynamic_slice,
        dynamic_update_slice,
        dynamic_update_slice,
        gather,
        scatter,
        while_,
        conditional,
        call,
        bitcast_convert,
    ),
)


def draw_program(draw: Draw) -> tuple[Module, list[Array]]:
    """A program and its arguments."""
    p = Program(OPERATIONS, draw)
    arguments: list[Array] = []
    for i in range(draw.integer(1, 4)):
        shape = Shape(draw.type() if draw.chance(2) else "f32", p.dims(3) or (4, 5))
        x = p.b.parameter(i, shape)
        arguments.append(values(draw.integer(0, 9), shape.dimensions, shape.element_type))
        p.values.append(Value(x, usual_bound(shape.element_type)))
    p.grow(draw.integer(1, 14))
    results = [p.values[-1]] + [p.draw.pick(p.values[::-1]) for _ in range(draw.integer(0, 2))]
    root = results[0].x if len(results) == 1 else p.b.op("tuple", *(v.x for v in results))
    return p.b.module(root), arguments
