"""Checks of the host for Pyodide, for all its kinds of arrays: run in Pyodide with memoryviews, and under CPython with
numpy.

It expects the files that test_pyodide.py writes: `toy.wasm` with its weights, and what its comments name.
"""

from __future__ import annotations

import importlib
import pickle
import struct
import sys
from pathlib import Path
from typing import Any

import xla_wasm


def load_host() -> Any:
    """The host for Pyodide; elsewhere it needs a stand-in for `js`."""
    return importlib.import_module("xla_wasm.host.pyodide")


host: Any = load_host() if sys.platform == "emscripten" else None


def floats(*values: float) -> memoryview:
    return memoryview(struct.pack(f"{len(values)}f", *values)).cast("f")


def flat(array: Any) -> list[Any]:
    """The elements in row-major order."""
    nested = array.tolist()
    while isinstance(nested, list) and nested and isinstance(nested[0], list):
        nested = [item for row in nested for item in row]
    return nested if isinstance(nested, list) else [nested]


def refused(kind: type[Exception], says: str, work: Any, *arguments: Any, **options: Any) -> None:
    try:
        work(*arguments, **options)
    except kind as error:
        assert type(error) is kind and says in str(error), f"{type(error).__name__}: {error}"
    else:
        raise AssertionError(f"nothing was raised where {kind.__name__} with {says!r} was expected")


def matrix(numpy: bool, rows: list[list[float]]) -> Any:
    """A 2 x 3 array of f32."""
    data = struct.pack("6f", *(x for row in rows for x in row))
    if not numpy:
        return memoryview(data).cast("f", (2, 3))
    import numpy as np

    return np.frombuffer(data, np.float32).reshape(2, 3)


X = [[1.0, -3.0, 3.0], [0.5, 0.0, 9.0]]
SIDECAR = [i / 4 for i in range(6)]


def expected(w: float) -> list[float]:
    return [2 * x + s + 0.5 + w for x, s in zip([x for row in X for x in row], SIDECAR)]


def check_toy(folder: Path, numpy: bool) -> None:
    """Weights, state, arguments, profile, errors, and that a failed run leaves the next one alone."""
    exe = host.load(folder / "toy.wasm")
    x = matrix(numpy, X)
    refused(xla_wasm.ArgumentError, "weight 'w' has not been set", exe.run, x, 41)
    refused(xla_wasm.ArgumentError, "weight 'w' has not been set", exe.get, "w")
    exe.set("w", [[1.0] * 3] * 2)
    assert flat(exe.get("w")) == [1.0] * 6
    for run in range(1, 4):
        y, k, positive = exe.run(x, 41)
        assert flat(y) == expected(1) and flat(k) == [42] and flat(positive) == [v > 0 for row in X for v in row]
        assert tuple(y.shape) == (2, 3) and tuple(k.shape) == ()
        assert flat(exe.get("count")) == [run]
    exe.set("count", 100)
    assert [name for name, _ in exe.profile(x, 41)] == ["affine.1", "add.2", "count.3"] and flat(exe.get("count")) == [
        101
    ]
    assert flat(exe.run(X, -1)[0]) == expected(1)
    exe.set("w", matrix(numpy, [[2.0] * 3] * 2))
    assert flat(exe.run(x, 0)[0]) == expected(2)
    assert [p.name for p in exe.parameters] == ["x", "w", "k", "count"] and len(exe.results) == 4

    refused(xla_wasm.ArgumentError, "takes 2 arguments", exe.run, x)
    refused(xla_wasm.ArgumentError, "argument 0 ('x') must be", exe.run, [[1.0, 2.0]], 1)
    refused(xla_wasm.ArgumentError, "argument 0 ('x') must be", exe.run, [[1.0, 2.0, 1e300]] * 2, 1)
    refused(xla_wasm.ArgumentError, "argument 0 ('x') must be", exe.run, b"abc", 1)
    refused(xla_wasm.ArgumentError, "argument 1 ('k') must be", exe.run, x, 1.5)
    refused(xla_wasm.ArgumentError, "argument 1 ('k') must be", exe.run, x, 1 << 63)
    refused(xla_wasm.ArgumentError, "argument 1 ('k') must be", exe.run, x, True)
    refused(xla_wasm.ArgumentError, "no weight or state called 'nothing'", exe.set, "nothing", 1)
    assert flat(exe.run(x, 0)[0]) == expected(2)

    # x[0, 0] = -1 makes it trap: the state is lost with the memory, the weights are not.
    refused(xla_wasm.RunError, "failed in step 0 of 3, affine.1", exe.run, [[-1.0] * 3] * 2, 1)
    refused(xla_wasm.RunError, "the state 'count' was lost", exe.run, x, 0)
    exe.set("count", 7)
    assert flat(exe.run(x, 0)[0]) == expected(2) and flat(exe.get("count")) == [8]

    refused(xla_wasm.UnsupportedError, "keep its artifact", pickle.dumps, exe)
    with exe:
        assert (
            repr(exe).startswith("<Executable 'toy': x f32[2,3], k s64[] -> y f32[2,3], ")
            and "<td>w</td>" in exe._repr_html_()
        )
    for call, arguments in (
        (exe.run, (x, 0)),
        (exe.profile, (x, 0)),
        (exe.set, ("w", x)),
        (exe.get, ("w",)),
        (exe.get, ("count",)),
    ):
        refused(xla_wasm.RunError, "'toy' is closed: load it again", call, *arguments)

    refused(xla_wasm.LimitError, "the limit is 1000", host.load, folder / "toy.wasm", memory_limit=1000)
    refused(xla_wasm.ArgumentError, "fuel cannot be limited", host.load, folder / "toy.wasm", fuel=1)
    refused(xla_wasm.ArgumentError, "timeout cannot be limited", host.load, folder / "toy.wasm", timeout=1.0)
    refused(xla_wasm.ArgumentError, "untrusted=True cannot be kept", host.load, folder / "toy.wasm", untrusted=True)
    refused(xla_wasm.ArtifactError, "and none was given", host.load, (folder / "toy.wasm").read_bytes())
    for name, says in (
        ("imports", "must import nothing"),
        ("start", "traps when it starts"),
        ("big", "states 1 pages"),
        ("no-step", "'step'"),
    ):
        refused(xla_wasm.ArtifactError, says, host.load, folder / f"{name}.wasm")
    refused(xla_wasm.ArtifactError, "the engine refuses the module", host.load, folder / "damaged.wasm")


def check_layouts(folder: Path, numpy: bool) -> None:
    """Column-major arrays, and the physical bytes of tiled ones."""
    exe = host.load(folder / "column.wasm")
    exe.set("w", [[1.0] * 3] * 2)
    column = [s for row in range(2) for s in SIDECAR[row::2]]
    y = exe.run(matrix(numpy, X), 0)[0]
    assert flat(y) == [2 * x + s + 1.5 for x, s in zip([x for row in X for x in row], column)]
    tiled = host.load(folder / "tiled.wasm", physical=True)
    given = (folder / "tiled.in").read_bytes()
    assert bytes(tiled.run(given)[0]) == (folder / "tiled.out").read_bytes()
    refused(xla_wasm.ArgumentError, "must be the", tiled.run, given[1:])


def check_types(folder: Path, numpy: bool) -> None:
    """Every kind of element goes through unchanged, and what does not fit is refused."""
    exe = host.load(folder / "types.wasm")
    given = [
        [True, False], [-128, 127], [255, 0], [-32768, 5], [65535, 5], [-(1 << 31), 3], [(1 << 32) - 1, 3],
        [-(1 << 63), 1], [(1 << 64) - 1, (1 << 64) - 2], [0.5, -2.0], [0.25, 1.0], [0.1, 1e300], [1 + 2j, -3.5],
    ]  # fmt: skip
    results = [flat(r) for r in exe.run(*given)]
    pairs = [1 + 2j, -3.5] if numpy else [1.0, 2.0, -3.5, 0.0]
    assert results == [*given[:-1], pairs], results
    if not numpy:  # bytes are elements, and any but 0 is true
        assert flat(exe.run(memoryview(b"\xff\0"), *given[1:])[0]) == [True, False]
    for i, wrong in (
        (0, [2, 0]),
        (1, [128, 0]),
        (2, [-1, 0]),
        (5, [0.5, 1]),
        (8, [-1, 0]),
        (9, [1e6, 0]),
        (12, ["a", 1]),
    ):
        refused(xla_wasm.ArgumentError, f"argument {i} ", exe.run, *given[:i], wrong, *given[i + 1 :])


def check_dynamic(folder: Path, numpy: bool) -> None:
    """An array of any size up to its bound."""
    exe = host.load(folder / "dynamic.wasm")
    for size in (5, 2, 1, 0, 5):
        values = [float(i + 1) for i in range(size)]
        doubled, total = exe.run(floats(*values))
        assert flat(doubled) == [2 * v for v in values] and flat(total) == [sum(values)]
    refused(xla_wasm.ArgumentError, "argument 0 ", exe.run, [1.0] * 6)
    ranged = host.load(folder / "ranged.wasm")
    for rows in (8, 3, 4, 9):
        x = [[float(3 * i + j) for j in range(3)] for i in range(rows)]
        if rows in (4, 8):
            assert flat(ranged.run(x)[0]) == [-value for row in x for value in row]
        else:
            refused(xla_wasm.ArgumentError, "32[4..8,3], got", ranged.run, x)
    sized = host.load(folder / "columns.wasm")
    for columns in (3, 0, 2):  # none of them is more than no rows, and less than all columns
        y, total = sized.run([[1.0] * columns] * 2)
        assert flat(total) == [2.0 * columns] and len(flat(y)) in (0, 2 * columns), (flat(y), columns)


def check_custom_calls(folder: Path, numpy: bool) -> None:
    """Functions of the host, and what happens when they fail."""
    seen = []

    def twice(x: Any, *, opaque: str) -> Any:
        seen.append(opaque)
        return [[2 * v for v in flat(x)]]

    exe = host.load(folder / "custom.wasm", custom_calls={"twice": twice})
    assert flat(exe.run([1.0, 2.0, 3.0])[0]) == [3.0, 5.0, 7.0] and seen == ["hello"]
    refused(xla_wasm.ArgumentError, "pass a function for it", host.load, folder / "custom.wasm")
    broken = host.load(
        folder / "custom.wasm", custom_calls={"twice": lambda x: [flat(x)] if flat(x)[0] > 0 else 1 // 0}
    )
    refused(xla_wasm.RunError, "ZeroDivisionError", broken.run, [-1.0, 2.0, 3.0])
    assert flat(broken.run([1.0, 2.0, 3.0])[0]) == [2.0, 3.0, 4.0]


def check_feeds(folder: Path, numpy: bool) -> None:
    """Items that come in while the module runs, arrays that go out, and errors that leave the next run alone."""
    exe = host.load(folder / "feeds.wasm")
    out: list[Any] = []
    sent: list[Any] = []
    feed = iter([(floats(1, 2, 3), [4, 5]), ([6.0], (7, 8))])
    for values, numbers in (([1.0, 2.0, 3.0], [4, 5]), ([6.0], [7, 8])):
        (result,) = exe.run(infeed=feed, outfeed=out, send={"twice": sent.append})
        assert flat(result) == numbers
        assert [flat(a) for a in out.pop()] == [[2 * v for v in values], numbers] and flat(sent.pop()) == [
            2 * v for v in values
        ]
    ends = {"outfeed": out, "send": {"twice": sent.append}}
    refused(xla_wasm.RunError, "infeed 'f' takes item 0 of this run, ", exe.run, infeed=feed, **ends)
    refused(
        xla_wasm.ArgumentError,
        "infeed 'f', item 0 of this run: array 0 must be",
        exe.run,
        infeed=[([1.0] * 5, [1, 2])],
        **ends,
    )
    refused(xla_wasm.ArgumentError, "in infeed 'f': pass run(..., infeed=items)", exe.run, **ends)
    refused(
        xla_wasm.ArgumentError,
        "there is no send of the name 'once'",
        exe.run,
        infeed=[],
        outfeed=out,
        send={"once": print},
    )
    assert flat(exe.run(infeed=[([1.0], [2, 3])], **ends)[0]) == [2, 3]


def check_alone(folder: Path, numpy: bool) -> None:
    """A program for any number of devices, on the one there is; what several would do is refused."""
    exe = host.load(folder / "alone.wasm")
    for x in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]):
        summed, moved = exe.run(x)
        assert flat(summed) == x and flat(moved) == x
    for method in (exe.run_replicated, exe.run_global, exe.profile_replicated):
        refused(
            xla_wasm.UnsupportedError,
            "cannot run on several devices in Pyodide, which has one thread",
            method,
            [[x], [x]],
        )
    refused(xla_wasm.UnsupportedError, "in JavaScript", host.load(folder / "toy.wasm").get, "w", device=1)


def check_structures(folder: Path, numpy: bool) -> None:
    """`structures.wasm`: f({"b": [b], "w": w}, x, scale=s) = {"y": w * x * s + b}; `stays.wasm`: the same with the
    first as weights."""
    exe = host.load(folder / "structures.wasm")
    params = {"w": [2.0, 3.0], "b": [[1.0, 1.0]]}
    runs = [exe.run([1.0, 1.0], [2.0, 3.0], [4.0, 5.0], 1.0), exe.run(params, x=[4.0, 5.0], scale=1.0)]
    runs.append(exe.run({"x": [4.0, 5.0], "params": params, "scale": 1.0}))
    for (y,) in runs:
        assert flat(y) == [9, 16]
    assert flat(exe.run(params, [4.0, 5.0], 2.0, as_dict=True)["y"]) == [17, 31]
    assert flat(exe.call(params, [4.0, 5.0], scale=1.0)["y"]) == [9, 16]
    refused(xla_wasm.ArgumentError, "the argument 'params.b.0' (", exe.run, {"w": [2.0, 3.0]}, [4.0, 5.0], 1.0)
    refused(
        xla_wasm.ArgumentError, "'params' has no 'c': it has b, w", exe.call, {**params, "c": 1}, [4.0, 5.0], scale=1.0
    )
    exe = host.load(folder / "stays.wasm")
    refused(xla_wasm.ArgumentError, "'params.b.0' (", exe.set, "params", {"w": [2.0, 3.0]})
    exe.set("params", params)
    assert flat(exe.call([4.0, 5.0], scale=1.0)["y"]) == flat(exe.run(x=[4.0, 5.0], scale=1.0)[0]) == [9, 16]
    kept = exe.get("params")
    assert [*kept] == ["b", "w"] and flat(kept["b"][0]) == [1, 1] and flat(kept["w"]) == [2, 3]
    exe.set("params", kept)
    assert flat(exe([4.0, 5.0], scale=1.0)["y"]) == [9, 16]


def check_all(folder: Path, numpy: bool) -> None:
    for check in (
        check_toy,
        check_layouts,
        check_types,
        check_dynamic,
        check_custom_calls,
        check_feeds,
        check_alone,
        check_structures,
    ):
        check(folder, numpy)
